// SPDX-License-Identifier: MIT
// The loops of products of 8-bit integers. Compiled once for each kind of CPU, as kernels_isa.cpp is and by the same
// rules: every function is local to this file.
#include "npu_isa.h"
#include "qemu-device/model/src/compute/onednn/byte_kernels.h"

#if defined(__AVX2__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header leaves a vector undefined on purpose and is warned of that where it ends up.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <utility>

// Functions and lambdas of intrinsics have to end up in the loops that use them, whatever the compiler thinks of their
// size.
#ifndef NPU_FLAT
#define NPU_FLAT __attribute__((always_inline))
#endif
#define NPU_INLINE inline NPU_FLAT
#endif

namespace npu::model {
namespace {

#if defined(__AVX2__)

#if defined(NPU_VNNI)
constexpr size_t kFactorBytes = 1;
#else
constexpr size_t kFactorBytes = 2;
#endif
constexpr size_t kFactors = kWordBytes / kFactorBytes;  // of a word

// Calls f with 0, 1, ... as constants: accumulators stay in registers only if no index is a variable.
template <class F, int... i>
NPU_INLINE void each(std::integer_sequence<int, i...>, F f) {
  (f(std::integral_constant<int, i>()), ...);
}
template <int count, class F>
NPU_INLINE void each(F f) {
  each(std::make_integer_sequence<int, count>(), f);
}

NPU_INLINE int32_t word_at(const char *p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}

// ---- blocks: the accumulators of kByteBlock channels ----

#if defined(__AVX512BW__)

constexpr size_t kMaxRows[kByteMaxBlocks + 1] = {0, 14, 14, 0, 6};

using Block = __m512i;
using Reals = __m512;

NPU_INLINE Block load(const void *p) { return _mm512_loadu_si512(p); }
NPU_INLINE void store(void *p, Block x) { _mm512_storeu_si512(p, x); }
NPU_INLINE Block all(int32_t x) { return _mm512_set1_epi32(x); }
NPU_INLINE Block sum(Block a, Block b) { return _mm512_add_epi32(a, b); }

// acc += sum of the products in each word. In assembly, where acc is read and written in one place: the compiler copies
// accumulators around otherwise, which costs more than the products.
NPU_INLINE void multiply_add(Block &acc, Block x, Block w) {
#if defined(NPU_VNNI)
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
#else
  asm("vpaddd %1, %0, %0" : "+v"(acc) : "v"(_mm512_madd_epi16(x, w)));
#endif
}

NPU_INLINE Reals reals(const float *p) { return _mm512_loadu_ps(p); }
NPU_INLINE Reals product(Block acc, Reals multiplier) { return _mm512_mul_ps(_mm512_cvtepi32_ps(acc), multiplier); }

/// Constants that make a result of 8 bits.
struct Rounding {
  __m512 slope, low, high;
  __m512i zero;  // words of 16 bits, raised to what u8 is if the result is s8
  __m512i flip;  // brings u8 back to s8

  explicit Rounding(const ByteResult &r)
      : slope(_mm512_set1_ps(r.slope)),
        low(_mm512_set1_ps(r.low)),
        high(_mm512_set1_ps(r.high)),
        zero(_mm512_set1_epi16(static_cast<int16_t>(r.zero + (r.is_signed ? 128 : 0)))),
        flip(_mm512_set1_epi8(static_cast<char>(r.is_signed ? 0x80 : 0))) {}

  template <bool adjust>
  NPU_INLINE Block whole(Block acc, Reals multiplier) const {
    __m512 v = product(acc, multiplier);
    if (adjust) {
      v = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), v, slope);
      v = _mm512_min_ps(_mm512_max_ps(v, low), high);
    }
    return _mm512_cvtps_epi32(v);
  }
  /// Two blocks as words of 16 bits: lane by lane four channels of the first, then four of the second.
  NPU_INLINE __m512i join(Block a, Block b) const { return _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero); }
  /// Two of those as bytes, in the order of the lanes.
  NPU_INLINE __m512i bytes(__m512i a, __m512i b) const { return _mm512_xor_si512(_mm512_packus_epi16(a, b), flip); }
  NPU_INLINE __m128i bytes(Block a) const {
    const __m256i words = _mm256_adds_epi16(_mm512_cvtsepi32_epi16(a), _mm512_castsi512_si256(zero));
    const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_xor_si128(packed, _mm512_castsi512_si128(flip));
  }
};

/// Brings four groups of four channels from each lane, group by group, into the order of the channels.
NPU_INLINE __m512i in_order(__m512i bytes) {
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

NPU_INLINE void put(char *to, __m512i bytes, size_t channels) {
  if (channels >= 64)
    _mm512_storeu_si512(to, bytes);
  else
    _mm512_mask_storeu_epi8(to, (uint64_t{1} << channels) - 1, bytes);
}
NPU_INLINE void put(char *to, __m256i bytes, size_t channels) {
  if (channels >= 32)
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), bytes);
  else
    _mm256_mask_storeu_epi8(to, static_cast<uint32_t>((uint64_t{1} << channels) - 1), bytes);
}
NPU_INLINE void put(char *to, __m128i bytes, size_t channels) {
  if (channels >= 16)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), bytes);
  else
    _mm_mask_storeu_epi8(to, static_cast<uint16_t>((1u << channels) - 1), bytes);
}

template <bool adjust, int rows, int blocks>
NPU_INLINE void put_bytes(const ByteTile &t, const Block (&acc)[rows][blocks]) {
  const Rounding round(*t.result);
  Reals m[blocks];
  each<blocks>([&](auto b) NPU_FLAT { m[b] = reals(t.multipliers + b * kByteBlock); });
  const auto whole = [&](auto r, auto b) NPU_FLAT { return round.whole<adjust>(acc[r][b], m[b]); };
  if constexpr (blocks == 1) {
    each<rows>([&](auto r) NPU_FLAT {
      put(t.out + r * t.out_pitch, round.bytes(whole(r, std::integral_constant<int, 0>())), t.channels);
    });
  } else if constexpr (blocks == 2) {
    each<(rows + 1) / 2>([&](auto half) NPU_FLAT {
      constexpr std::integral_constant<int, half * 2> r;
      constexpr std::integral_constant<int, half * 2 + 1 < rows ? half * 2 + 1 : half * 2> s;
      constexpr std::integral_constant<int, 0> first;
      constexpr std::integral_constant<int, 1> second;
      const __m512i one = round.join(whole(r, first), whole(r, second));
      const __m512i two = r == s ? one : round.join(whole(s, first), whole(s, second));
      const __m512i both = in_order(round.bytes(one, two));
      put(t.out + r * t.out_pitch, _mm512_castsi512_si256(both), t.channels);
      if (r != s) put(t.out + s * t.out_pitch, _mm512_extracti64x4_epi64(both, 1), t.channels);
    });
  } else {
    static_assert(blocks == 4);
    each<rows>([&](auto r) NPU_FLAT {
      const auto two = [&](auto b)
                           NPU_FLAT { return round.join(whole(r, b), whole(r, std::integral_constant<int, b + 1>())); };
      const __m512i bytes = round.bytes(two(std::integral_constant<int, 0>()), two(std::integral_constant<int, 2>()));
      put(t.out + r * t.out_pitch, in_order(bytes), t.channels);
    });
  }
}

#else  // AVX2

constexpr size_t kMaxRows[kByteMaxBlocks + 1] = {0, 6, 0, 0, 0};

struct Block {
  __m256i low, high;
};
struct Reals {
  __m256 low, high;
};

NPU_INLINE __m256i load_half(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
NPU_INLINE Block load(const void *p) { return {load_half(p), load_half(static_cast<const char *>(p) + 32)}; }
NPU_INLINE void store_half(void *p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i *>(p), x); }
NPU_INLINE void store(void *p, Block x) {
  store_half(p, x.low);
  store_half(static_cast<char *>(p) + 32, x.high);
}
NPU_INLINE Block all(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
NPU_INLINE Block sum(Block a, Block b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }

NPU_INLINE void multiply_add(__m256i &acc, __m256i x, __m256i w) {
  asm("vpaddd %1, %0, %0" : "+x"(acc) : "x"(_mm256_madd_epi16(x, w)));
}
NPU_INLINE void multiply_add(Block &acc, Block x, Block w) {
  multiply_add(acc.low, x.low, w.low);
  multiply_add(acc.high, x.low, w.high);  // the input is one word, everywhere
}

NPU_INLINE Reals reals(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
NPU_INLINE __m256 product(__m256i acc, __m256 multiplier) { return _mm256_mul_ps(_mm256_cvtepi32_ps(acc), multiplier); }

struct Rounding {
  __m256 slope, low, high;
  __m256i zero, flip;

  explicit Rounding(const ByteResult &r)
      : slope(_mm256_set1_ps(r.slope)),
        low(_mm256_set1_ps(r.low)),
        high(_mm256_set1_ps(r.high)),
        zero(_mm256_set1_epi16(static_cast<int16_t>(r.zero + (r.is_signed ? 128 : 0)))),
        flip(_mm256_set1_epi8(static_cast<char>(r.is_signed ? 0x80 : 0))) {}

  NPU_INLINE __m256i whole(bool adjust, __m256i acc, __m256 multiplier) const {
    __m256 v = product(acc, multiplier);
    if (adjust) {
      v = _mm256_blendv_ps(v, _mm256_mul_ps(v, slope), _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ));
      v = _mm256_min_ps(_mm256_max_ps(v, low), high);
    }
    return _mm256_cvtps_epi32(v);
  }
  NPU_INLINE __m128i bytes(__m256i words) const {
    words = _mm256_adds_epi16(words, zero);
    const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_xor_si128(packed, _mm256_castsi256_si128(flip));
  }
};

NPU_INLINE void put(char *to, __m128i bytes, size_t channels) {
  if (channels >= 16) return _mm_storeu_si128(reinterpret_cast<__m128i *>(to), bytes);
  char some[16];
  _mm_storeu_si128(reinterpret_cast<__m128i *>(some), bytes);
  __builtin_memcpy(to, some, channels);
}

template <bool adjust, int rows, int blocks>
NPU_INLINE void put_bytes(const ByteTile &t, const Block (&acc)[rows][blocks]) {
  static_assert(blocks == 1);
  const Rounding round(*t.result);
  const Reals m = reals(t.multipliers);
  each<rows>([&](auto r) NPU_FLAT {
    const __m256i words =
        _mm256_packs_epi32(round.whole(adjust, acc[r][0].low, m.low), round.whole(adjust, acc[r][0].high, m.high));
    put(t.out + r * t.out_pitch, round.bytes(_mm256_permute4x64_epi64(words, 0xd8)), t.channels);
  });
}

#endif  // AVX2

// ---- results that are written from a buffer ----

// The rows of a tile in memory, and what is the same for all of them.
struct Spilled {
  const ByteResult &result;
  const float *multipliers;
  char *out;
  size_t out_pitch, channels;
};

void put_words(const Spilled &s, size_t row, const int32_t *acc) {
  char *out = s.out + row * s.out_pitch;
  if (s.result.form == ByteResult::Words) {
    __builtin_memcpy(out, acc, s.channels * sizeof *acc);
    return;
  }
  float *to = reinterpret_cast<float *>(out);
  for (size_t i = 0; i < s.channels; ++i) to[i] = static_cast<float>(acc[i]) * s.multipliers[i];
}

__attribute__((noinline)) void put_rows(const ByteTile &t, size_t rows, size_t width, const int32_t *acc) {
  const Spilled s{*t.result, t.multipliers, t.out, t.out_pitch, t.channels};
  for (size_t r = 0; r < rows; ++r) put_words(s, r, acc + r * width);
}

// What accumulators begin with where rows differ in it.
__attribute__((noinline)) void begin_rows(const ByteTile &t, size_t rows, size_t width, int32_t *acc) {
  for (size_t r = 0; r < rows; ++r, acc += width) {
    const uint32_t more = t.row_start ? static_cast<uint32_t>(t.row_start[r]) : 0;
    for (size_t i = 0; i < width; ++i) acc[i] = static_cast<int32_t>(static_cast<uint32_t>(t.start[i]) + more);
    if (!t.psum) continue;
    const char *psum = t.psum + r * t.psum_pitch;
    for (size_t i = 0; i < t.channels; ++i)
      acc[i] =
          static_cast<int32_t>(static_cast<uint32_t>(acc[i]) + static_cast<uint32_t>(word_at(psum + i * kWordBytes)));
  }
}

// ---- tiles ----

template <int rows, int blocks>
void multiply_tile(const ByteTile &t) {
  Block acc[rows][blocks];
  if (t.psum) {
    int32_t begin[rows][blocks * kByteBlock];
    begin_rows(t, rows, blocks * kByteBlock, begin[0]);
    each<rows>([&](auto r)
                   NPU_FLAT { each<blocks>([&](auto b) NPU_FLAT { acc[r][b] = load(begin[r] + b * kByteBlock); }); });
  } else {
    each<blocks>([&](auto b) NPU_FLAT {
      const Block start = load(t.start + b * kByteBlock);
      each<rows>([&](auto r) NPU_FLAT { acc[r][b] = t.row_start ? sum(start, all(t.row_start[r])) : start; });
    });
  }
  const char *weights = t.weights;
  for (size_t run = 0; run < t.run_count; ++run) {
    const char *x[rows];
    each<rows>([&](auto r) NPU_FLAT { x[r] = t.in + t.rows[r] + t.runs[run]; });
    for (size_t k = 0; k < t.words; ++k, weights += kByteBlock * kWordBytes) {
      Block w[blocks];
      each<blocks>([&](auto b) NPU_FLAT { w[b] = load(weights + b * t.weight_step); });
      each<rows>([&](auto r) NPU_FLAT {
        const Block word = all(word_at(x[r] + k * kWordBytes));
        each<blocks>([&](auto b) NPU_FLAT { multiply_add(acc[r][b], word, w[b]); });
      });
    }
  }
  if (t.result->form == ByteResult::Bytes) return t.result->adjust ? put_bytes<true>(t, acc) : put_bytes<false>(t, acc);
  int32_t end[rows][blocks * kByteBlock];
  each<rows>([&](auto r)
                 NPU_FLAT { each<blocks>([&](auto b) NPU_FLAT { store(end[r] + b * kByteBlock, acc[r][b]); }); });
  put_rows(t, rows, blocks * kByteBlock, end[0]);
}

using Tile = void(const ByteTile &);

template <int blocks, int... rows>
NPU_INLINE void run_tile(std::integer_sequence<int, rows...>, size_t count, const ByteTile &t) {
  static constexpr Tile *kTiles[] = {multiply_tile<rows + 1, blocks>...};
  kTiles[count - 1](t);
}

template <int blocks>
NPU_INLINE void run_tile(size_t rows, const ByteTile &t) {
  if constexpr (kMaxRows[blocks] > 0) run_tile<blocks>(std::make_integer_sequence<int, kMaxRows[blocks]>(), rows, t);
}

void tile(const ByteTile &t, size_t rows, size_t blocks) {
  switch (blocks) {
    case 1:
      return run_tile<1>(rows, t);
    case 2:
      return run_tile<2>(rows, t);
    default:
      return run_tile<4>(rows, t);
  }
}

// ---- a channel by itself ----

// One vector has the factors of a tap for all channels of a block. Interleaving those of kFactors taps makes words, in
// registers of which each has four neighbouring channels of every lane: what packing of results undoes.
#if defined(__AVX512BW__)
using Vector = __m512i;
#else
using Vector = __m256i;
#endif
constexpr size_t kDepthChannels = sizeof(Vector) / kFactorBytes;
constexpr int kRegisters = kFactors;
constexpr size_t kVectorWords = sizeof(Vector) / kWordBytes;
constexpr size_t kLaneBytes = 16;

#if defined(__AVX512BW__)
/// The channels of a block that there are.
struct Some {
#if defined(NPU_VNNI)
  __mmask64 mask;
  explicit Some(size_t channels) : mask(channels >= 64 ? ~uint64_t{0} : (uint64_t{1} << channels) - 1) {}
  NPU_INLINE Vector load(const char *p) const { return _mm512_maskz_loadu_epi8(mask, p); }
#else
  __mmask32 mask;
  explicit Some(size_t channels) : mask(static_cast<uint32_t>((uint64_t{1} << channels) - 1)) {}
  NPU_INLINE Vector load(const char *p) const { return _mm512_maskz_loadu_epi16(mask, p); }
#endif
};
NPU_INLINE Vector load_vector(const void *p) { return load(p); }
NPU_INLINE void store_vector(void *p, Vector x) { store(p, x); }
NPU_INLINE Vector lower16(Vector a, Vector b) { return _mm512_unpacklo_epi16(a, b); }
NPU_INLINE Vector upper16(Vector a, Vector b) { return _mm512_unpackhi_epi16(a, b); }
#else
/// What is staged can be read beyond its end.
struct Some {
  explicit Some(size_t) {}
  NPU_INLINE Vector load(const char *p) const { return load_half(p); }
};
NPU_INLINE Vector load_vector(const void *p) { return load_half(p); }
NPU_INLINE void store_vector(void *p, Vector x) { store_half(p, x); }
NPU_INLINE Vector lower16(Vector a, Vector b) { return _mm256_unpacklo_epi16(a, b); }
NPU_INLINE Vector upper16(Vector a, Vector b) { return _mm256_unpackhi_epi16(a, b); }
#endif

/// The words of kFactors taps.
struct Words {
  Vector of[kRegisters];

  NPU_INLINE explicit Words(const Vector (&x)[kFactors]) {
#if defined(NPU_VNNI)
    const Vector lower_a = _mm512_unpacklo_epi8(x[0], x[1]), upper_a = _mm512_unpackhi_epi8(x[0], x[1]);
    const Vector lower_b = _mm512_unpacklo_epi8(x[2], x[3]), upper_b = _mm512_unpackhi_epi8(x[2], x[3]);
    of[0] = lower16(lower_a, lower_b);
    of[1] = upper16(lower_a, lower_b);
    of[2] = lower16(upper_a, upper_b);
    of[3] = upper16(upper_a, upper_b);
#else
    of[0] = lower16(x[0], x[1]);
    of[1] = upper16(x[0], x[1]);
#endif
  }
};

/// Accumulators of all channels of a block.
struct Sums {
  Vector of[kRegisters];

  NPU_INLINE explicit Sums(const int32_t *start) {
    each<kRegisters>([&](auto q) NPU_FLAT { of[q] = load_vector(start + q * kVectorWords); });
  }
  NPU_INLINE void add(const Words &x, const Vector (&w)[kRegisters]) {
    each<kRegisters>([&](auto q) NPU_FLAT { multiply_add(of[q], x.of[q], w[q]); });
  }
  NPU_INLINE void add(const Words &x, const char *w) {
    each<kRegisters>([&](auto q) NPU_FLAT { multiply_add(of[q], x.of[q], load_vector(w + q * sizeof(Vector))); });
  }
  NPU_INLINE void store(int32_t *to) const {
    each<kRegisters>([&](auto q) NPU_FLAT { store_vector(to + q * kVectorWords, of[q]); });
  }
};

template <bool adjust>
NPU_INLINE void put_depth(const Rounding &round, const float *multipliers, size_t channels, const Sums &acc,
                          char *out) {
#if defined(__AVX512BW__)
  const auto whole = [&](auto q)
                         NPU_FLAT { return round.whole<adjust>(acc.of[q], reals(multipliers + q * kVectorWords)); };
  const __m512i words = round.join(whole(std::integral_constant<int, 0>()), whole(std::integral_constant<int, 1>()));
#if defined(NPU_VNNI)
  const __m512i more = round.join(whole(std::integral_constant<int, 2>()), whole(std::integral_constant<int, 3>()));
  put(out, round.bytes(words, more), channels);
#else
  // Bytes of words that lie in order: lane by lane, the same half twice.
  const __m512i bytes = round.bytes(words, words);
  put(out, _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), bytes)),
      channels);
#endif
#else
  const __m256i a = round.whole(adjust, acc.of[0], _mm256_loadu_ps(multipliers));
  const __m256i b = round.whole(adjust, acc.of[1], _mm256_loadu_ps(multipliers + kVectorWords));
  put(out, round.bytes(_mm256_packs_epi32(a, b)), channels);
#endif
}

// Where a channel of a block has its word among the registers.
size_t depth_place(size_t channel) {
  constexpr size_t kLane = kLaneBytes / kFactorBytes;  // channels
  const size_t lane = channel / kLane, in_lane = channel % kLane;
  return in_lane / 4 * kVectorWords + lane * 4 + in_lane % 4;
}

__attribute__((noinline)) void put_depth_words(const ByteDepth &d, size_t row, const int32_t *acc) {
  int32_t words[kDepthChannels];
  float multipliers[kDepthChannels] = {};
  for (size_t i = 0; i < d.channels; ++i) {
    words[i] = acc[depth_place(i)];
    if (d.multipliers) multipliers[i] = d.multipliers[depth_place(i)];
  }
  put_words({*d.result, multipliers, d.out, d.out_pitch, d.channels}, row, words);
}

__attribute__((noinline)) void begin_depth(const ByteDepth &d, size_t row, int32_t *acc) {
  __builtin_memcpy(acc, d.start, kDepthChannels * sizeof *acc);
  const char *psum = d.psum + row * d.psum_pitch;
  for (size_t i = 0; i < d.channels; ++i) {
    int32_t &one = acc[depth_place(i)];
    one = static_cast<int32_t>(static_cast<uint32_t>(one) + static_cast<uint32_t>(word_at(psum + i * kWordBytes)));
  }
}

NPU_INLINE Words words_at(const char *window, const int32_t *taps, Some some) {
  Vector x[kFactors];
  each<kFactors>([&](auto i) NPU_FLAT { x[i] = some.load(window + taps[i]); });
  return Words(x);
}

NPU_INLINE Sums depth_sums(const ByteDepth &d, const char *window, Some some, const int32_t *start) {
  Sums acc(start);
  for (size_t group = 0; group < d.tap_groups; ++group)
    acc.add(words_at(window, d.taps + group * kFactors, some), d.weights + group * kRegisters * sizeof(Vector));
  return acc;
}

template <bool adjust>
void depth_bytes(const ByteDepth &d) {
  const Rounding round(*d.result);
  const Some some(d.channels);
  int32_t buffer[kDepthChannels];
  for (size_t r = 0; r < d.row_count; ++r) {
    const int32_t *start = d.start;
    if (d.psum) begin_depth(d, r, buffer), start = buffer;
    put_depth<adjust>(round, d.multipliers, d.channels, depth_sums(d, d.in + d.rows[r], some, start),
                      d.out + r * d.out_pitch);
  }
}

// Rows of windows of three columns, one or two columns apart. The words of a column serve all windows that see it.
#if defined(NPU_VNNI)
constexpr size_t kColumns = 3;

template <bool adjust>
void depth_columns(const ByteDepth &d) {
  const Rounding round(*d.result);
  const Some some(d.channels);
  Vector w[kColumns][kRegisters];
  each<kColumns>([&](auto x) NPU_FLAT {
    each<kRegisters>([&](auto q) NPU_FLAT { w[x][q] = load(d.weights + (x * kRegisters + q) * sizeof(Vector)); });
  });
  const auto column = [&](const char *at) NPU_FLAT { return words_at(at, d.taps, some); };
  const auto finish = [&](const Sums &acc, char *out)
                          NPU_FLAT { put_depth<adjust>(round, d.multipliers, d.channels, acc, out); };
  for (size_t first = 0; first < d.row_count; first += d.windows) {
    const char *at = d.in + d.rows[first];
    char *out = d.out + first * d.out_pitch;
    Sums acc(d.start), next(d.start);
    acc.add(column(at), w[0]);
    if (d.window_step == d.cell) {
      const Words second = column(at += d.cell);
      acc.add(second, w[1]);
      next.add(second, w[0]);
      for (size_t i = 0; i < d.windows; ++i, out += d.out_pitch) {
        const Words x = column(at += d.cell);
        acc.add(x, w[2]);
        finish(acc, out);
        acc = next;
        acc.add(x, w[1]);
        next = Sums(d.start);
        next.add(x, w[0]);
      }
      continue;
    }
    for (size_t i = 0; i < d.windows; ++i, out += d.out_pitch) {
      acc.add(column(at += d.cell), w[1]);
      const Words x = column(at += d.cell);
      acc.add(x, w[2]);
      finish(acc, out);
      acc = Sums(d.start);
      acc.add(x, w[0]);
    }
  }
}
#endif

void depth(const ByteDepth &d) {
  if (d.result->form == ByteResult::Bytes) {
#if defined(NPU_VNNI)
    if (d.windows && !d.psum) return d.result->adjust ? depth_columns<true>(d) : depth_columns<false>(d);
#endif
    return d.result->adjust ? depth_bytes<true>(d) : depth_bytes<false>(d);
  }
  const Some some(d.channels);
  int32_t buffer[kDepthChannels];
  for (size_t r = 0; r < d.row_count; ++r) {
    const int32_t *start = d.start;
    if (d.psum) begin_depth(d, r, buffer), start = buffer;
    depth_sums(d, d.in + d.rows[r], some, start).store(buffer);
    put_depth_words(d, r, buffer);
  }
}

// ---- factors ----

template <class To, class From>
void stage_as(int32_t minus, const void *from, size_t count, void *to) {
  const From *x = static_cast<const From *>(from);
  To *out = static_cast<To *>(to);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>(x[i] - minus);
}

// With VNNI s8 becomes u8 by adding 128.
void stage(uint8_t dtype, int32_t zero, const void *from, size_t count, void *to) {
#if defined(NPU_VNNI)
  (void)zero;
  if (dtype == NPU_DTYPE_U8)
    __builtin_memcpy(to, from, count);
  else
    stage_as<uint8_t, int8_t>(-128, from, count, to);
#else
  dtype == NPU_DTYPE_U8 ? stage_as<int16_t, uint8_t>(zero, from, count, to)
                        : stage_as<int16_t, int8_t>(zero, from, count, to);
#endif
}

// Weights are brought into factors vector by vector, of four words each.
constexpr size_t kVectorFactors = 4 * kFactors;

NPU_INLINE __m128i load_bytes(const void *p) { return _mm_loadu_si128(static_cast<const __m128i *>(p)); }
NPU_INLINE void store_bytes(void *p, __m128i x) { _mm_storeu_si128(static_cast<__m128i *>(p), x); }

/// Makes factors of the bytes of weights.
struct WeightForm {
  bool is_signed;
  __m128i shift;

  explicit WeightForm(const PlainWeights &w)
      : is_signed(w.dtype == NPU_DTYPE_S8),
#if defined(NPU_VNNI)
        shift(_mm_set1_epi8(static_cast<char>(is_signed ? 0 : 0x80))) {
  }
  NPU_INLINE __m128i factors(__m128i bytes) const { return _mm_xor_si128(bytes, shift); }
#else
        shift(_mm_set1_epi16(static_cast<int16_t>(w.zero))) {
  }
  NPU_INLINE __m128i factors(__m128i bytes) const {
    return _mm_sub_epi16(is_signed ? _mm_cvtepi8_epi16(bytes) : _mm_cvtepu8_epi16(bytes), shift);
  }
#endif

  /// The first `count` at an address, as factors; the others are 0.
  NPU_INLINE __m128i some(const char *from, size_t count) const {
    char bytes[16] = {}, result[16] = {};
    __builtin_memcpy(bytes, from, count);
    store_bytes(bytes, factors(load_bytes(bytes)));
    __builtin_memcpy(result, bytes, count * kFactorBytes);
    return load_bytes(result);
  }
  /// The first kVectorFactors at an address.
  NPU_INLINE __m128i whole(const char *from) const {
    if (kFactors == 4) return factors(load_bytes(from));
    return factors(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
  }
};

/// The places of four channels in four successive words.
NPU_INLINE void put_turned(__m128i a, __m128i b, __m128i c, __m128i d, size_t words, char *to) {
  const __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
  const __m128i ab2 = _mm_unpackhi_epi32(a, b), cd2 = _mm_unpackhi_epi32(c, d);
  constexpr size_t kNext = kByteBlock * kWordBytes;
  store_bytes(to, _mm_unpacklo_epi64(ab, cd));
  if (words > 1) store_bytes(to + kNext, _mm_unpackhi_epi64(ab, cd));
  if (words > 2) store_bytes(to + 2 * kNext, _mm_unpacklo_epi64(ab2, cd2));
  if (words > 3) store_bytes(to + 3 * kNext, _mm_unpackhi_epi64(ab2, cd2));
}

// Channels whose terms follow each other.
void pack_rows(const PlainWeights &plain, const WeightForm &form, size_t run, char *out) {
  const char *first = static_cast<const char *>(plain.first) + run * plain.run_factors;
  const size_t words = (plain.run_factors + kFactors - 1) / kFactors;
  for (size_t channel = 0; channel < kByteBlock; channel += 4)
    for (size_t at = 0; at < plain.run_factors; at += kVectorFactors) {
      const size_t left = plain.run_factors - at;
      const auto vector = [&](size_t c) {
        if (c >= plain.channels) return _mm_setzero_si128();
        const char *from = first + c * plain.channel_step + at;
        return left >= kVectorFactors ? form.whole(from) : form.some(from, left);
      };
      const size_t word = at / kFactors;
      put_turned(vector(channel), vector(channel + 1), vector(channel + 2), vector(channel + 3), words - word,
                 out + (word * kByteBlock + channel) * kWordBytes);
    }
}

// Terms whose channels follow each other: kFactors of them are interleaved.
void pack_columns(const PlainWeights &plain, const WeightForm &form, size_t run, char *out) {
  const char *first = static_cast<const char *>(plain.first) + run * plain.run_factors * plain.term_step;
  for (size_t at = 0; at < plain.run_factors; at += kFactors)
    for (size_t channel = 0; channel < kByteBlock; channel += kVectorFactors, out += kVectorFactors * kWordBytes) {
      const auto vector = [&](size_t i) {
        if (at + i >= plain.run_factors || channel >= plain.channels) return _mm_setzero_si128();
        const char *from = first + (at + i) * plain.term_step + channel;
        const size_t left = plain.channels - channel;
        return left >= kVectorFactors ? form.whole(from) : form.some(from, left);
      };
#if defined(NPU_VNNI)
      const __m128i a = vector(0), b = vector(1), c = vector(2), d = vector(3);
      const __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
      const __m128i ab2 = _mm_unpackhi_epi8(a, b), cd2 = _mm_unpackhi_epi8(c, d);
      store_bytes(out, _mm_unpacklo_epi16(ab, cd));
      store_bytes(out + 16, _mm_unpackhi_epi16(ab, cd));
      store_bytes(out + 32, _mm_unpacklo_epi16(ab2, cd2));
      store_bytes(out + 48, _mm_unpackhi_epi16(ab2, cd2));
#else
      const __m128i a = vector(0), b = vector(1);
      store_bytes(out, _mm_unpacklo_epi16(a, b));
      store_bytes(out + 16, _mm_unpackhi_epi16(a, b));
#endif
    }
}

#if defined(NPU_VNNI)
// The same for four blocks at once, one in each lane, all of whose channels there are.
void pack_four_columns(const PlainWeights &plain, const WeightForm &form, char *out) {
  const char *first = static_cast<const char *>(plain.first);
  const __m512i shift = _mm512_broadcast_i32x4(form.shift);
  const size_t terms = plain.runs * plain.run_factors;
  for (size_t at = 0; at < terms; at += kFactors, out += kByteBlock * kWordBytes) {
    Vector rows[kFactors];
    each<kFactors>([&](auto i) NPU_FLAT {
      rows[i] =
          at + i < terms ? _mm512_xor_si512(load(first + (at + i) * plain.term_step), shift) : _mm512_setzero_si512();
    });
    const Words words(rows);
    each<kRegisters>([&](auto q) NPU_FLAT {
      each<4>([&](auto block) NPU_FLAT {
        store_bytes(out + block * plain.block_bytes + q * 16, _mm512_extracti32x4_epi32(words.of[q], block));
      });
    });
  }
}
#endif

void pack_block(const PlainWeights &plain, const WeightForm &form, char *out) {
  const size_t words = (plain.run_factors + kFactors - 1) / kFactors;
  for (size_t run = 0; run < plain.runs; ++run, out += words * kByteBlock * kWordBytes)
    plain.term_step == 1 ? pack_rows(plain, form, run, out) : pack_columns(plain, form, run, out);
}

void pack(const PlainWeights &plain, void *to) {
  const WeightForm form(plain);
  char *out = static_cast<char *>(to);
  PlainWeights left = plain;
  while (left.channels > 0) {
    size_t count = left.channels < kByteBlock ? left.channels : kByteBlock;
#if defined(NPU_VNNI)
    if (plain.term_step != 1 && plain.runs == 1 && left.channels >= 4 * kByteBlock) {
      pack_four_columns(left, form, out);
      count = 4 * kByteBlock;
    } else
#endif
    {
      PlainWeights block = left;
      block.channels = count;
      pack_block(block, form, out);
    }
    left.first = static_cast<const char *>(left.first) + count * plain.channel_step;
    left.channels -= count;
    out += (count + kByteBlock - 1) / kByteBlock * plain.block_bytes;
  }
}

#if defined(NPU_VNNI)
void sum_weights(const void *packed, size_t words, int32_t *sums) {
  const char *w = static_cast<const char *>(packed);
  Block total = all(0);
  for (size_t k = 0; k < words; ++k, w += kByteBlock * kWordBytes) multiply_add(total, all(0x01010101), load(w));
  store(sums, total);
}
#else
// Zero points are gone already.
void sum_weights(const void *, size_t, int32_t *sums) { __builtin_memset(sums, 0, kByteBlock * sizeof *sums); }
#endif

#if defined(NPU_VNNI)
using Input = uint8_t;
#else
using Input = int16_t;
#endif

void sum_rows(const char *in, const int32_t *rows, size_t row_count, const int32_t *runs, size_t run_count,
              size_t run_factors, int32_t scale, int32_t *sums) {
  for (size_t r = 0; r < row_count; ++r) {
    uint32_t total = 0;
    for (size_t run = 0; run < run_count; ++run) {
      const Input *x = reinterpret_cast<const Input *>(in + rows[r] + runs[run]);
      for (size_t i = 0; i < run_factors; ++i) total += static_cast<uint32_t>(x[i]);
    }
    sums[r] = static_cast<int32_t>(total * static_cast<uint32_t>(scale));
  }
}

#endif  // __AVX2__

}  // namespace

#if defined(__AVX2__)
extern const ByteKernels NPU_KERNELS = {kFactorBytes,   {0, kMaxRows[1], kMaxRows[2], kMaxRows[3], kMaxRows[4]},
                                        kDepthChannels, depth_place,
                                        tile,           depth,
                                        stage,          pack,
                                        sum_weights,    sum_rows};
#else
extern const ByteKernels NPU_KERNELS = {};
#endif

}  // namespace npu::model
