// SPDX-License-Identifier: MIT
// The loops over elements of all types. Compiled once for each kind of CPU, as kernels_isa.cpp is and by the same
// rules: every function is local to this file.
#include "npu_isa.h"
#include "qemu-device/model/src/compute/onednn/number_kernels.h"

#if defined(__AVX512BW__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header leaves a vector undefined on purpose and is warned of that where it ends up.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace npu::model {
namespace {

inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float of_bits(uint32_t x) { return __builtin_bit_cast(float, x); }

// ---- floating point ----

inline float of_f16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7fffu;
  // The exponent is rebiased by a multiplication, which also makes denormals what they are.
  const uint32_t size = bits_of(of_bits(rest << 13) * 0x1p112f);
  return of_bits(sign | (rest >= 0x7c00 ? 0x7f800000u | (rest & 0x3ffu) << 13 : size));
}

inline uint16_t to_f16(float x) {
  const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  const uint32_t value = size - (112u << 23);
  const uint32_t normal = (value + 0xfffu + (value >> 13 & 1)) >> 13;
  // Adding 0.5 rounds to multiples of 2^-24, the denormals.
  const uint32_t tiny = bits_of(of_bits(size) + 0.5f) - bits_of(0.5f);
  uint32_t half = size < bits_of(0x1p-14f) ? tiny : normal;
  half = size >= bits_of(65520.0f) ? 0x7c00u : half;
  half = size > 0x7f800000u ? 0x7e00u : half;
  return static_cast<uint16_t>(sign | half);
}

inline float of_bf16(uint16_t half) { return of_bits(static_cast<uint32_t>(half) << 16); }

inline uint16_t to_bf16(float x) {
  const uint32_t bits = bits_of(x), rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

// ---- integers ----

template <class T>
struct Limits;
template <>
struct Limits<int8_t> {
  static constexpr int32_t low = INT8_MIN, high = INT8_MAX;
};
template <>
struct Limits<uint8_t> {
  static constexpr int32_t low = 0, high = UINT8_MAX;
};
template <>
struct Limits<int16_t> {
  static constexpr int32_t low = INT16_MIN, high = INT16_MAX;
};
template <>
struct Limits<uint16_t> {
  static constexpr int32_t low = 0, high = UINT16_MAX;
};

template <class T>
struct Integers {
  static float of(T x, int32_t zero, float scale) { return static_cast<float>(static_cast<int32_t>(x) - zero) * scale; }
  /// The range is taken from the rounded quotient before the zero point is added, which is exact then.
  static T to(float x, int32_t zero, float scale) {
    const float low = static_cast<float>(Limits<T>::low - zero), high = static_cast<float>(Limits<T>::high - zero);
    const float whole = __builtin_nearbyintf(x / scale);
    float cut = whole < low ? low : whole;
    cut = cut > high ? high : cut;
    cut = whole == whole ? cut : 0.0f;
    return static_cast<T>(static_cast<int32_t>(cut) + zero);
  }
};

/// These have no zero point.
template <>
struct Integers<int32_t> {
  static float of(int32_t x, int32_t, float scale) { return static_cast<float>(x) * scale; }
  static int32_t to(float x, int32_t, float scale) {
    const float whole = __builtin_nearbyintf(x / scale);
    float cut = whole < -0x1p31f ? -0x1p31f : whole;
    cut = cut > 0x1.fffffep30f ? 0x1.fffffep30f : cut;
    cut = whole == whole ? cut : 0.0f;
    return whole >= 0x1p31f ? INT32_MAX : static_cast<int32_t>(cut);
  }
};

// ---- loops ----

// An element at any byte. The compiler makes vectors of loops over these as over aligned ones.
template <class T>
struct __attribute__((packed, may_alias)) Any {
  T value;
};
template <class T>
const Any<T> *at(const void *p) {
  return static_cast<const Any<T> *>(p);
}
template <class T>
Any<T> *at(void *p) {
  return static_cast<Any<T> *>(p);
}

template <class From, class To, class F>
void map(const void *from, size_t count, void *to, F f) {
  const Any<From> *x = at<From>(from);
  Any<To> *out = at<To>(to);
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i].value = f(x[i].value);
}

template <class From, class To, class F>
void map_scaled(const void *from, const void *scales, size_t count, void *to, F f) {
  const Any<From> *x = at<From>(from);
  const Any<float> *scale = at<float>(scales);
  Any<To> *out = at<To>(to);
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i].value = f(x[i].value, scale[i].value);
}

/// Calls f with an element of the type of a number; false for floating-point ones.
template <class F>
bool with_integer(uint8_t dtype, F f) {
  switch (dtype) {
    case NPU_DTYPE_S8:
      f(int8_t{});
      return true;
    case NPU_DTYPE_U8:
      f(uint8_t{});
      return true;
    case NPU_DTYPE_S16:
      f(int16_t{});
      return true;
    case NPU_DTYPE_U16:
      f(uint16_t{});
      return true;
    case NPU_DTYPE_S32:
      f(int32_t{});
      return true;
    default:
      return false;
  }
}

#if defined(__AVX512BW__)
// By instructions made for it. Those turn a NaN into another one than the definition does.
void mend_f16(const void *from, unsigned nan, float *to) {
  for (; nan; nan &= nan - 1) to[__builtin_ctz(nan)] = of_f16(at<uint16_t>(from)[__builtin_ctz(nan)].value);
}
void mend_f16(const float *from, unsigned nan, void *to) {
  for (; nan; nan &= nan - 1) at<uint16_t>(to)[__builtin_ctz(nan)].value = to_f16(from[__builtin_ctz(nan)]);
}

constexpr size_t kVector = 16;

void load_f16(const void *from, size_t count, float *to) {
  const Any<uint16_t> *half = at<uint16_t>(from);
  size_t i = 0;
  for (; i + kVector <= count; i += kVector) {
    const __m512 x = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(half + i)));
    _mm512_storeu_ps(to + i, x);
    if (const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)) mend_f16(half + i, nan, to + i);
  }
  for (; i < count; ++i) to[i] = of_f16(half[i].value);
}

void store_f16(const float *from, size_t count, void *to) {
  Any<uint16_t> *half = at<uint16_t>(to);
  size_t i = 0;
  for (; i + kVector <= count; i += kVector) {
    const __m512 x = _mm512_loadu_ps(from + i);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(half + i),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    if (nan) mend_f16(from + i, nan, half + i);
  }
  for (; i < count; ++i) half[i].value = to_f16(from[i]);
}
#else
void load_f16(const void *from, size_t count, float *to) { map<uint16_t, float>(from, count, to, of_f16); }
void store_f16(const float *from, size_t count, void *to) { map<float, uint16_t>(from, count, to, to_f16); }
#endif

void load_span(const Number &n, const void *from, size_t count, float *to) {
  if (n.dtype == NPU_DTYPE_F32) {
    __builtin_memcpy(to, from, count * sizeof *to);
  } else if (n.dtype == NPU_DTYPE_F16) {
    load_f16(from, count, to);
  } else if (n.dtype == NPU_DTYPE_BF16) {
    map<uint16_t, float>(from, count, to, of_bf16);
  } else {
    with_integer(n.dtype, [&](auto type) {
      using T = decltype(type);
      map<T, float>(from, count, to, [zero = n.zero, scale = n.scale](T x) { return Integers<T>::of(x, zero, scale); });
    });
  }
}

void store_span(const Number &n, const float *from, size_t count, void *to) {
  if (n.dtype == NPU_DTYPE_F32) {
    __builtin_memcpy(to, from, count * sizeof *from);
  } else if (n.dtype == NPU_DTYPE_F16) {
    store_f16(from, count, to);
  } else if (n.dtype == NPU_DTYPE_BF16) {
    map<float, uint16_t>(from, count, to, to_bf16);
  } else {
    with_integer(n.dtype, [&](auto type) {
      using T = decltype(type);
      map<float, T>(from, count, to,
                    [zero = n.zero, scale = n.scale](float x) { return Integers<T>::to(x, zero, scale); });
    });
  }
}

void load_scaled_span(const Number &n, const void *scales, const void *from, size_t count, float *to) {
  const bool done = with_integer(n.dtype, [&](auto type) {
    using T = decltype(type);
    map_scaled<T, float>(from, scales, count, to,
                         [zero = n.zero](T x, float scale) { return Integers<T>::of(x, zero, scale); });
  });
  if (!done) load_span(n, from, count, to);
}

void store_scaled_span(const Number &n, const void *scales, const float *from, size_t count, void *to) {
  const bool done = with_integer(n.dtype, [&](auto type) {
    using T = decltype(type);
    map_scaled<float, T>(from, scales, count, to,
                         [zero = n.zero](float x, float scale) { return Integers<T>::to(x, zero, scale); });
  });
  if (!done) store_span(n, from, count, to);
}

// ---- tables ----

template <class Word>
void look_up_words(const uint8_t *in, size_t count, const void *table, void *out) {
  Word words[256];
  __builtin_memcpy(words, table, sizeof words);
  Any<Word> *to = at<Word>(out);
  for (size_t i = 0; i < count; ++i) to[i].value = words[in[i]];
}

#if defined(__AVX512BW__)
// The table in four registers: each instruction looks a byte up in two of them.
__attribute__((target("avx512vbmi"))) void look_up_bytes(const uint8_t *in, size_t count, const void *table,
                                                         uint8_t *out) {
  const char *t = static_cast<const char *>(table);
  const __m512i a = _mm512_loadu_si512(t), b = _mm512_loadu_si512(t + 64);
  const __m512i c = _mm512_loadu_si512(t + 128), d = _mm512_loadu_si512(t + 192);
  for (size_t i = 0; i < count; i += 64) {
    const __mmask64 some = count - i < 64 ? (uint64_t{1} << (count - i)) - 1 : ~uint64_t{0};
    const __m512i x = _mm512_maskz_loadu_epi8(some, in + i);
    const __m512i low = _mm512_permutex2var_epi8(a, x, b), high = _mm512_permutex2var_epi8(c, x, d);
    _mm512_mask_storeu_epi8(out + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
  }
}
#endif

void look_up_span(size_t size, const uint8_t *in, size_t count, const void *table, void *out) {
  switch (size) {
    case 1:
#if defined(__AVX512BW__)
      if (__builtin_cpu_supports("avx512vbmi")) return look_up_bytes(in, count, table, static_cast<uint8_t *>(out));
#endif
      return look_up_words<uint8_t>(in, count, table, out);
    case 2:
      return look_up_words<uint16_t>(in, count, table, out);
    default:
      return look_up_words<uint32_t>(in, count, table, out);
  }
}

// ---- choices ----

template <class Word>
void select_words(const uint8_t *c, size_t c_step, const void *a, size_t a_step, const void *b, size_t b_step,
                  size_t count, void *out) {
  const Any<Word> *x = at<Word>(a), *y = at<Word>(b);
  Any<Word> *to = at<Word>(out);
  const auto loop = [&](auto left, auto right) {
    // Only an operand at the very place of the result may overlap it.
    if (c_step == 1) {
#pragma GCC ivdep
      for (size_t i = 0; i < count; ++i) {
        const Word one = left(i), other = right(i);
        to[i].value = c[i] ? one : other;
      }
      return;
    }
    for (size_t i = 0; i < count; ++i) to[i].value = c[i * c_step] ? left(i) : right(i);
  };
  const Word first_x = x->value, first_y = y->value;
  const auto dense_x = [x](size_t i) { return x[i].value; };
  const auto dense_y = [y](size_t i) { return y[i].value; };
  const auto all_x = [first_x](size_t) { return first_x; };
  const auto all_y = [first_y](size_t) { return first_y; };
  if (a_step == 1 && b_step == 1) return loop(dense_x, dense_y);
  if (a_step == 1 && b_step == 0) return loop(dense_x, all_y);
  if (a_step == 0 && b_step == 1) return loop(all_x, dense_y);
  if (a_step == 0 && b_step == 0) return loop(all_x, all_y);
  loop([x, a_step](size_t i) { return x[i * a_step].value; }, [y, b_step](size_t i) { return y[i * b_step].value; });
}

void select_span(size_t size, const uint8_t *c, size_t c_step, const void *a, size_t a_step, const void *b,
                 size_t b_step, size_t count, void *out) {
  switch (size) {
    case 1:
      return select_words<uint8_t>(c, c_step, a, a_step, b, b_step, count, out);
    case 2:
      return select_words<uint16_t>(c, c_step, a, a_step, b, b_step, count, out);
    case 4:
      return select_words<uint32_t>(c, c_step, a, a_step, b, b_step, count, out);
    default:
      return select_words<uint64_t>(c, c_step, a, a_step, b, b_step, count, out);
  }
}

// ---- maxima ----

template <class T, size_t cells>
void largest_of(const T *in, size_t step, bool go_on, size_t count, T *out) {
  const auto loop = [&](auto begin) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) {
      T top = begin(i);
      for (size_t k = 0; k < cells; ++k) {
        const T x = in[k * step + i];
        top = x > top ? x : top;
      }
      out[i] = top;
    }
  };
  go_on ? loop([&](size_t i) { return out[i]; }) : loop([&](size_t i) { return in[i]; });
}

bool largest_span(uint8_t dtype, const void *in, size_t cells, size_t step, bool go_on, size_t count, void *out) {
  return with_integer(dtype, [&](auto type) {
    using T = decltype(type);
    const T *x = static_cast<const T *>(in);
    T *to = static_cast<T *>(out);
    for (; cells >= 3; cells -= 3, x += 3 * step, go_on = true) largest_of<T, 3>(x, step, go_on, count, to);
    for (; cells > 0; --cells, x += step, go_on = true) largest_of<T, 1>(x, step, go_on, count, to);
  });
}

// ---- bytes combined ----

template <class F>
void with_byte(uint8_t dtype, F f) {
  dtype == NPU_DTYPE_S8 ? f(int8_t{}) : f(uint8_t{});
}

void combine_bytes_span(uint8_t op, uint8_t act, const Number &a_number, const void *a, const Number &b_number,
                        const void *b, const Number &number, size_t count, void *to) {
  const auto loop = [&](auto left, auto right, auto result, auto combine) {
    using A = decltype(left);
    using B = decltype(right);
    using T = decltype(result);
    const Any<A> *x = at<A>(a);
    const Any<B> *y = at<B>(b);
    Any<T> *out = at<T>(to);
    const Number p = a_number, q = b_number, r = number;
    const float least = act == NPU_ACT_RELU ? 0.0f : -__builtin_inff();
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) {
      const float value =
          combine(Integers<A>::of(x[i].value, p.zero, p.scale), Integers<B>::of(y[i].value, q.zero, q.scale));
      out[i].value = Integers<T>::to(value <= least ? least : value, r.zero, r.scale);
    }
  };
  const auto with = [&](auto combine) {
    with_byte(a_number.dtype, [&](auto left) {
      with_byte(b_number.dtype,
                [&](auto right) { with_byte(number.dtype, [&](auto result) { loop(left, right, result, combine); }); });
    });
  };
  op == NPU_ELTWISE_ADD ? with([](float x, float y) { return x + y; }) : with([](float x, float y) { return x * y; });
}

}  // namespace

extern const NumberKernels NPU_KERNELS = {load_span,    store_span,  load_scaled_span, store_scaled_span,
                                          look_up_span, select_span, largest_span,     combine_bytes_span};

}  // namespace npu::model
