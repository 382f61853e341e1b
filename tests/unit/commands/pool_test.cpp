// SPDX-License-Identifier: MIT
// POOL: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

npu_cmd_pool pool() {
  return with<npu_cmd_pool>([](npu_cmd_pool &c) {
    c.subop = NPU_POOL_AVG;
    c.n = 1;
    c.ih = c.iw = 4;
    c.c = 3;
    c.oh = c.ow = 2;
    c.kh = c.kw = c.sh = c.sw = 2;
    c.dh = c.dw = 1;
    c.out_addr = 4096;
  });
}

class PoolChecks : public Checks {};

TEST_F(PoolChecks, Encoding) { encoding({kTiu}, pool(), 1, 1, 30); }

TEST_F(PoolChecks, Fields) {
  BAD(pool(), 28, c.in_dtype = NPU_DTYPE_S32);
  BAD(pool(), 52, c.n = 0);
  BAD(pool(), 56, c.ih = 0);
  BAD(pool(), 60, c.iw = 0);
  BAD(pool(), 64, c.c = 0);
  BAD(pool(), 72, c.oh = 0);
  BAD(pool(), 76, c.ow = 0);
  BAD(pool(), 80, c.kh = 0);
  BAD(pool(), 82, c.kw = 0);
  BAD(pool(), 84, c.sh = 0);
  BAD(pool(), 86, c.sw = 0);
  BAD(pool(), 88, c.dh = 0);
  BAD(pool(), 90, c.dw = 0);
  BAD(pool(), 104, c.pad_b = 1);
  BAD(pool(), 108, c.pad_r = 1);
  npu_cmd_pool c = pool();
  c.flags = NPU_POOLF_COUNT_PAD;
  c.pad_b = c.pad_r = 1;
  ok(kTiu, c);
}

TEST_F(PoolChecks, TypesAndPitches) {
  for (const uint8_t type : kNumbers) {
    try_numbers(*this, pool(), type, 32, 112, [](npu_cmd_pool &c, const Kind &k) {
      c.in_dtype = k.dtype;
      c.in_scale = k.scale;
      c.in_zp = k.zero;
    });
    try_numbers(*this, pool(), type, 36, 116, [](npu_cmd_pool &c, const Kind &k) {
      c.out_dtype = k.dtype;
      c.out_scale = k.scale;
      c.out_zp = k.zero;
    });
  }
  for (const uint8_t t : {NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_U4, NPU_DTYPE_S64}) {
    BAD(pool(), 28, c.in_dtype = t);
    BAD(pool(), 30, c.out_dtype = t);
  }
  BAD(pool(), 40, c.in_pitch = 2);
  BAD(pool(), 44, c.out_pitch = 2);
  npu_cmd_pool c = pool();
  c.in_dtype = NPU_DTYPE_S16;
  c.out_dtype = NPU_DTYPE_U8;
  c.in_scale = c.out_scale = 1;
  c.in_pitch = 5;
  c.out_pitch = 4;
  local_operand(
      c, (15 * 5 + 3) * 2, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 2);
  local_operand(
      c, 3 * 4 + 3, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 1);
}

/// Does any window along an axis miss the image? By looking at each.
bool misses(int64_t in, int64_t out, int64_t k, int64_t s, int64_t d, int64_t pad) {
  for (int64_t o = 0; o < out; ++o) {
    bool hit = false;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t cell = o * s - pad + i * d;
      hit |= cell >= 0 && cell < in;
    }
    if (!hit) return true;
  }
  return false;
}

TEST_F(PoolChecks, WindowsWithoutACell) {
  unsigned bad = 0, good = 0;
  for (unsigned n = 0; n < 3000; ++n) {
    const auto pick = [&, x = n * 2654435761u]() mutable { return (x = x * 1664525u + 1013904223u) >> 8; };
    auto next = pick;
    npu_cmd_pool c = pool();
    c.c = 1;
    const uint32_t in = 1 + next() % 9, out = 1 + next() % 6, k = 1 + next() % 5, s = 1 + next() % 5,
                   d = 1 + next() % 14;
    const int32_t pad = static_cast<int32_t>(next() % 40) - 8;
    const bool rows = next() % 2;
    (rows ? c.ih : c.iw) = in;
    (rows ? c.oh : c.ow) = out;
    (rows ? c.kh : c.kw) = static_cast<uint16_t>(k);
    (rows ? c.sh : c.sw) = static_cast<uint16_t>(s);
    (rows ? c.dh : c.dw) = static_cast<uint16_t>(d);
    (rows ? c.pad_t : c.pad_l) = pad;
    const npu_cqe done = run(kTiu, c);
    if (misses(in, out, k, s, d, pad)) {
      ++bad;
      ASSERT_STATUS(done, NPU_STATUS_BAD_FIELD) << n;
      const auto pads = rows ? offsetof(npu_cmd_pool, pad_t) : offsetof(npu_cmd_pool, pad_l);
      const auto sizes = rows ? offsetof(npu_cmd_pool, oh) : offsetof(npu_cmd_pool, ow);
      ASSERT_TRUE(done.offset == pads || done.offset == sizes);
    } else {
      ++good;
      ASSERT_STATUS(done, NPU_STATUS_OK) << n;
    }
  }
  EXPECT_GT(bad, 500u);
  EXPECT_GT(good, 300u);
}

TEST_F(PoolChecks, WindowsOfExtremeSizesAreCheckedQuickly) {
  npu_cmd_pool c = pool();
  c.oh = c.ow = 0xffffffff;
  c.kh = c.kw = c.dh = c.dw = 0xffff;
  c.sh = c.sw = 1;
  c.pad_t = c.pad_l = std::numeric_limits<int32_t>::max();
  fails(kTiu, c, NPU_STATUS_BAD_FIELD, offsetof(npu_cmd_pool, oh));
  c.oh = c.ow = 1u << 31;
  fails(kTiu, c, NPU_STATUS_BAD_FIELD, offsetof(npu_cmd_pool, pad_t));
  c.ih = c.iw = 0xffff;  // now every window meets it, and only local memory is too small
  EXPECT_STATUS(run(kTiu, c), NPU_STATUS_LMEM_BOUNDS);
}

TEST_F(PoolChecks, Operands) {
  local_operand(pool(), 48 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(pool(), 12 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  npu_cmd_pool p = pool();
  p.n = p.c = 0x80000000u;
  access(kTiu, p, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST_F(PoolChecks, RunsOnTheChip) {
  const npu_cmd_pool c = with<npu_cmd_pool>([](npu_cmd_pool &x) {  // 8 x 8, 2 x 2 windows
    x.subop = NPU_POOL_MAX;
    x.in_addr = 512;
    x.out_addr = 4096;
    x.n = x.c = 1;
    x.ih = x.iw = 8;
    x.oh = x.ow = 4;
    x.kh = x.kw = x.sh = x.sw = 2;
    x.dh = x.dw = 1;
  });
  Values in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) - 20;
  const Values out = on_chip(c, in, c.in_addr, c.out_addr, 16);
  for (unsigned y = 0; y < 4; ++y)
    for (unsigned x = 0; x < 4; ++x) EXPECT_EQ(out[y * 4 + x], in[(2 * y + 1) * 8 + 2 * x + 1]);
}

TEST(PoolCost, IsAsComputedByHand) {
  npu_cmd_pool c = with<npu_cmd_pool>([](npu_cmd_pool &p) {
    p.n = 1;
    p.ih = p.iw = 11;
    p.c = 10;
    p.oh = p.ow = 5;
    p.kh = p.kw = 3;
  });
  expect_cost(c, 32 + 18, 0, 0, "9 cells, 250 results are 2 rounds of lanes");
  c.kh = c.kw = 1;  // 4840 in, 1000 out: 11.4
  expect_cost(c, 32 + 12, 0, 0, "local memory decides");
  c.kh = c.kw = 3;
  c.in_dtype = c.out_dtype = NPU_DTYPE_S16;  // 250 results in 1 round of 256
  expect_cost(c, 32 + 9, 0, 0, "16 bits");
  c.c = 30;  // 750 results: 2 rounds of 512; 3630 + 750 bytes: 8.6
  c.in_dtype = c.out_dtype = NPU_DTYPE_U8;
  expect_cost(c, 32 + 18, 0, 0, "8 bits");
  c.out_dtype = NPU_DTYPE_F32;  // 6 rounds of 128
  expect_cost(c, 32 + 54, 0, 0, "the wider type decides");
  c.in_pitch = c.out_pitch = 1000;
  expect_cost(c, 32 + 54, 0, 0, "gaps cost nothing");
}

// ---- random commands ----

struct PoolCase {
  npu_cmd_pool c = hw::make<npu_cmd_pool>();
  Values in;
  size_t outputs() const { return size_t{c.n} * c.oh * c.ow * c.c; }
};

PoolCase random_pool(Random &r) {
  PoolCase t;
  npu_cmd_pool &c = t.c;
  c.n = r.range(1, 3);
  c.ih = r.range(1, 16);
  c.iw = r.range(1, 16);
  c.c = r.range(1, 70);
  c.kh = r.range(1, 7);
  c.kw = r.range(1, 7);
  c.sh = r.range(1, 4);
  c.sw = r.range(1, 4);
  c.dh = r.chance(3) ? r.range(1, 3) : 1;
  c.dw = r.chance(3) ? r.range(1, 3) : 1;
  // Every window has a cell inside the image: its first row or, with padding above, its last lies there.
  c.pad_t = r.chance(5) ? -r.range(0, c.ih - 1) : r.range(0, (c.kh - 1) * c.dh);
  c.pad_l = r.chance(5) ? -r.range(0, c.iw - 1) : r.range(0, (c.kw - 1) * c.dw);
  if (c.dh > 1) c.pad_t = std::min(c.pad_t, 0);
  if (c.dw > 1) c.pad_l = std::min(c.pad_l, 0);
  c.oh = 1 + r.range(0, (c.ih - 1 + c.pad_t) / c.sh);
  c.ow = 1 + r.range(0, (c.iw - 1 + c.pad_l) / c.sw);
  c.subop = r.chance(2) ? NPU_POOL_MAX : NPU_POOL_AVG;
  if (c.subop == NPU_POOL_AVG && r.chance(2)) {
    c.flags = NPU_POOLF_COUNT_PAD;
    c.pad_b = r.range(0, 5);
    c.pad_r = r.range(0, 5);
  }
  t.in = r.values(size_t{c.n} * c.ih * c.iw * c.c, 3);
  return t;
}

Values run(model::Backend &backend, const PoolCase &t) {
  Values out(t.outputs(), std::numeric_limits<float>::quiet_NaN());
  backend.run(t.c, t.in.data(), out.data());
  return out;
}

std::string describe(const npu_cmd_pool &c) {
  std::ostringstream s;
  s << "pool " << int{c.subop} << " n=" << c.n << " in=" << c.ih << 'x' << c.iw << 'x' << c.c << " out=" << c.oh << 'x'
    << c.ow << " k=" << c.kh << 'x' << c.kw << " s=" << c.sh << 'x' << c.sw << " d=" << c.dh << 'x' << c.dw
    << " pads=" << c.pad_t << ',' << c.pad_l << ',' << c.pad_b << ',' << c.pad_r << " flags=" << c.flags;
  return s.str();
}

Expected expect(const PoolCase &t) {
  const npu_cmd_pool &c = t.c;
  Expected e;
  for (uint32_t n = 0; n < c.n; ++n) {
    const Padded image(c, c.c, t.in.data() + size_t(n) * c.ih * c.iw * c.c);
    const int counted_rows = c.ih + c.pad_t + c.pad_b, counted_columns = c.iw + c.pad_l + c.pad_r;
    for (uint32_t oy = 0; oy < c.oh; ++oy)
      for (uint32_t ox = 0; ox < c.ow; ++ox)
        for (uint32_t i = 0; i < c.c; ++i) {
          double sum = 0, size = 0, top = -INFINITY;
          int inside = 0, counted = 0;
          for (int ky = 0; ky < c.kh; ++ky)
            for (int kx = 0; kx < c.kw; ++kx) {
              const int y = oy * c.sh + ky * c.dh, x = ox * c.sw + kx * c.dw;
              if (y < counted_rows && x < counted_columns) ++counted;
              if (!image.inside(y, x)) continue;
              ++inside;
              sum += image.at(y, x, i);
              size += std::fabs(image.at(y, x, i));
              top = std::max(top, image.at(y, x, i));
            }
          const int divisor = c.flags & NPU_POOLF_COUNT_PAD ? counted : inside;
          e.value.push_back(c.subop == NPU_POOL_MAX ? top : sum / divisor);
          e.error.push_back(c.subop == NPU_POOL_MAX ? 0 : size / divisor * (inside + 2) * kUnit);
        }
  }
  return e;
}

// ---- all types ----

struct TypedPool {
  npu_cmd_pool c;
  Bytes in;
  size_t in_pitch() const { return c.in_pitch ? c.in_pitch : c.c; }
  size_t out_pitch() const { return c.out_pitch ? c.out_pitch : c.c; }
  Kind from() const { return {c.in_dtype, c.in_scale, c.in_zp}; }
  Kind to() const { return {c.out_dtype, c.out_scale, c.out_zp}; }
  /// The result's place, with gaps that nobody writes.
  Bytes place() const {
    return Bytes(((size_t{c.n} * c.oh * c.ow - 1) * out_pitch() + c.c) * size_of(c.out_dtype), 0x5a);
  }
};

TypedPool random_typed_pool(Random &r, bool whole) {
  TypedPool t{random_pool(r).c, {}};
  npu_cmd_pool &c = t.c;
  const Kind from = random_kind(r, kNumbers), to = random_kind(r, kNumbers);
  c.in_dtype = from.dtype, c.in_scale = from.scale, c.in_zp = from.zero;
  c.out_dtype = to.dtype, c.out_scale = to.scale, c.out_zp = to.zero;
  c.c = r.range(1, 20);
  if (r.chance(2)) c.in_pitch = c.c + r.range(0, 4);
  if (r.chance(2)) c.out_pitch = c.c + r.range(0, 4);
  t.in = random_elements(r, c.in_dtype, (size_t{c.n} * c.ih * c.iw - 1) * t.in_pitch() + c.c, whole);
  return t;
}

Bytes run(model::Backend &backend, const TypedPool &t) {
  Bytes out = t.place();
  backend.run(t.c, t.in.data(), out.data());
  return out;
}

/// One result: the largest cell, or the sum of cells in their order, of integers exact and scaled at the end.
float pooled(const TypedPool &t, uint32_t n, uint32_t oy, uint32_t ox, uint32_t channel) {
  const npu_cmd_pool &c = t.c;
  int64_t steps = 0;
  float sum = 0, top = -kInf;
  int inside = 0, counted = 0;
  for (int ky = 0; ky < c.kh; ++ky)
    for (int kx = 0; kx < c.kw; ++kx) {
      const int64_t y = int64_t{oy} * c.sh + ky * c.dh - c.pad_t, x = int64_t{ox} * c.sw + kx * c.dw - c.pad_l;
      if (y < c.ih + std::max(c.pad_b, 0) && x < c.iw + std::max(c.pad_r, 0)) ++counted;
      if (y < 0 || x < 0 || y >= c.ih || x >= c.iw) continue;
      const size_t at = static_cast<size_t>((n * c.ih + y) * c.iw + x) * t.in_pitch() + channel;
      if (!is_real(c.in_dtype)) steps += integer_at(c.in_dtype, t.in.data(), at) - c.in_zp;
      const float cell = load(t.from(), t.in.data(), at);
      sum = inside ? plus(sum, cell) : cell;
      top = std::max(top, cell);
      ++inside;
    }
  if (c.subop == NPU_POOL_MAX) return top;
  const double count = c.flags & NPU_POOLF_COUNT_PAD ? counted : inside;
  if (is_real(c.in_dtype)) return static_cast<float>(sum / count);
  return times(static_cast<float>(static_cast<float>(steps) / count), c.in_scale);
}

Bytes expect(const TypedPool &t) {
  Bytes out = t.place();
  size_t cell = 0;
  for (uint32_t n = 0; n < t.c.n; ++n)
    for (uint32_t oy = 0; oy < t.c.oh; ++oy)
      for (uint32_t ox = 0; ox < t.c.ow; ++ox, ++cell)
        for (uint32_t i = 0; i < t.c.c; ++i)
          store(t.to(), pooled(t, n, oy, ox, i), out.data(), cell * t.out_pitch() + i);
  return out;
}

std::string describe(const TypedPool &t) {
  std::ostringstream s;
  s << describe(t.c) << " types=" << int{t.c.in_dtype} << ',' << int{t.c.out_dtype} << " scales=" << t.c.in_scale << ','
    << t.c.out_scale << " zeros=" << t.c.in_zp << ',' << t.c.out_zp << " pitches=" << t.c.in_pitch << ','
    << t.c.out_pitch;
  return s.str();
}

// ---- slices ----

TEST(PoolSlices, OfAllTypesGiveTheSameBits) {
  Random r(5);
  model::Reference reference;
  for (unsigned i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i) {
    const TypedPool t = random_typed_pool(r, false);
    const Bytes whole = run(reference, t);
    const uint32_t from = size_of(t.c.in_dtype), to = size_of(t.c.out_dtype);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut = t.place();
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_pool> &s) {
        const size_t cells = size_t{s.c.n} * s.c.ih * s.c.iw;
        EXPECT_LE((s.a + (cells - 1) * t.in_pitch() + s.c.c) * from, t.in.size());
        reference.run(s.c, t.in.data() + s.a * from, cut.data() + s.out * to);
        return true;
      });
      expect_elements(t.c.out_dtype, whole, cut, describe(t) + " limit " + std::to_string(limits.operations));
    }
  }
}

TEST(PoolSlices, GiveTheSameBits) {
  Random r(3);
  model::Reference reference;
  for (unsigned i = 0; i < 100; ++i) {
    const PoolCase t = random_pool(r);
    Values whole(t.outputs(), NAN);
    reference.run(t.c, t.in.data(), whole.data());
    for (const model::SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limit " + std::to_string(limits.operations));
      Values cut(t.outputs(), NAN);
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_pool> &s) {
        EXPECT_LE(s.a + size_t{s.c.n} * s.c.ih * s.c.iw * s.c.c, t.in.size());
        reference.run(s.c, t.in.data() + s.a, cut.data() + s.out);
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

TEST(PoolSlices, AreBounded) {
  auto c = hw::make<npu_cmd_pool>();
  c.n = 1;
  c.ih = c.iw = c.oh = c.ow = 999;
  c.c = 1;
  c.kh = c.kw = 999;
  c.sh = c.sw = c.dh = c.dw = 1;
  c.pad_t = c.pad_l = 499;
  EXPECT_GT(first_slices(c,
                         [](const model::Pointwise<npu_cmd_pool> &s) {
                           EXPECT_LE(uint64_t{s.c.oh} * s.c.ow * std::min<uint64_t>(s.c.kh, s.c.ih) * s.c.kw,
                                     model::kStepOperations);
                         }),
            1u);
}

// ---- results ----

class PoolResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, PoolResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(PoolResults, OfRandomShapesAreWithinTheBound) {
  Random r(21);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const PoolCase t = random_pool(r);
    expect_near(expect(t), run(*backend_, t), describe(t.c));
  }
}

TEST_P(PoolResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(22);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const TypedPool t = random_typed_pool(r, GetParam() != "reference");
    expect_elements(t.c.out_dtype, expect(t), run(*backend_, t), describe(t));
  }
}

TEST_P(PoolResults, AveragesOfIntegersAreExactSumsScaledOnce) {
  TypedPool t{hw::make<npu_cmd_pool>(), {}};
  npu_cmd_pool &c = t.c;
  c.subop = NPU_POOL_AVG;
  c.in_dtype = c.out_dtype = NPU_DTYPE_U8;
  c.in_scale = 0.5f;
  c.out_scale = 0.25f;
  c.in_zp = 10;
  c.out_zp = 3;
  c.n = c.c = c.ih = c.oh = c.ow = 1;
  c.iw = c.kw = 4;
  c.kh = c.sh = c.sw = c.dh = c.dw = 1;
  t.in = {11, 12, 14, 20};  // 17 steps of a half over 4: 2.125, 8.5 quarters, to the even 8
  EXPECT_EQ(run(*backend_, t), Bytes{11});
  c.flags = NPU_POOLF_COUNT_PAD;  // padding is no zero of its own: 17 steps over 5
  c.kw = 5;
  c.pad_l = 1;
  EXPECT_EQ(run(*backend_, t), Bytes{3 + 7});  // 1.7, 6.8 quarters
}

PoolCase pool_3x3(uint8_t op, const Values &image) {
  PoolCase t;
  npu_cmd_pool &c = t.c;
  c.subop = op;
  c.n = c.c = 1;
  c.ih = c.iw = c.kh = c.kw = c.oh = c.ow = 3;
  c.sh = c.sw = c.dh = c.dw = 1;
  c.pad_t = c.pad_l = 1;
  t.in = image;
  return t;
}

TEST_P(PoolResults, PaddingNeverWinsAMaximum) {
  const PoolCase t = pool_3x3(NPU_POOL_MAX, {-9, -8, -7, -6, -5, -4, -3, -2, -1});
  EXPECT_EQ(run(*backend_, t), (Values{-5, -4, -4, -2, -1, -1, -2, -1, -1}));
  const PoolCase low = pool_3x3(NPU_POOL_MAX, Values(9, -kInf));
  EXPECT_EQ(run(*backend_, low), Values(9, -kInf));
}

TEST_P(PoolResults, AveragesDivideByTheCellsThatCount) {
  PoolCase t = pool_3x3(NPU_POOL_AVG, Values(9, 36));
  EXPECT_EQ(run(*backend_, t), Values(9, 36));
  t.c.flags = NPU_POOLF_COUNT_PAD;
  t.c.pad_b = t.c.pad_r = 1;
  EXPECT_EQ(run(*backend_, t), (Values{16, 24, 16, 24, 36, 24, 16, 24, 16}));
  t.c.pad_b = t.c.pad_r = 0;  // windows that end beyond the far edge count only up to it
  EXPECT_EQ(run(*backend_, t), (Values{16, 24, 24, 24, 36, 36, 24, 36, 36}));
  t.c.pad_b = t.c.pad_r = -1;  // below the image there is then no padding, and the image counts as ever
  EXPECT_EQ(run(*backend_, t), (Values{16, 24, 24, 24, 36, 36, 24, 36, 36}));
}

TEST_P(PoolResults, AveragesThatSkipTheFirstCellsCountTheRest) {
  // Windows of 2 x 2 from cell (1, 1) on; the padding that counts is one row below and one column to the right.
  PoolCase t = pool_3x3(NPU_POOL_AVG, Values(9, 36));
  t.c.kh = t.c.kw = t.c.oh = t.c.ow = 2;
  t.c.pad_t = t.c.pad_l = -1;
  t.c.flags = NPU_POOLF_COUNT_PAD;
  t.c.pad_b = t.c.pad_r = 1;
  EXPECT_EQ(run(*backend_, t), (Values{36, 18, 18, 9}));
  t.c.pad_b = t.c.pad_r = -1;
  EXPECT_EQ(run(*backend_, t), (Values{36, 36, 36, 36}));
}

TEST_P(PoolResults, KeepNaN) {
  for (const uint8_t op : {NPU_POOL_MAX, NPU_POOL_AVG}) {
    const Values out = run(*backend_, pool_3x3(op, {kNaN, 1, 1, 1, 1, 1, 1, 1, 1}));
    for (const int i : {0, 1, 3, 4}) EXPECT_TRUE(std::isnan(out[i])) << i;
    for (const int i : {2, 5, 6, 7, 8}) EXPECT_EQ(out[i], 1) << i;
  }
}

// ---- the shadow ----

class FaultyPool final : public Faulty {
 public:
  using Faulty::Faulty;
  void run(const npu_cmd_pool &c, const void *in, void *out) override {
    Reference::run(c, in, out);
    spoil(out, size_t{c.n} * c.oh * c.ow * c.c);
  }
};

TEST(PoolShadow, ReportsWrongResults) {
  Random r(41);
  std::vector<RunOn> runs;
  for (int i = 0; i < 300; ++i)
    runs.push_back([t = random_pool(r)](model::Backend &backend) { return run(backend, t); });
  expect_shadowed<FaultyPool>("POOL", runs);
}

class FaultyTypedPool final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_pool &c, const void *in, void *out) override {
    Reference::run(c, in, out);
    flip_last(out, TypedPool{c, {}}.place().size());
  }
};

TEST(PoolShadow, ReportsWrongResultsOfAllTypes) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 300; ++i)
    runs.push_back([t = random_typed_pool(r, false)](model::Backend &backend) { return run(backend, t); });
  expect_shadowed_bytes<FaultyTypedPool>("POOL", runs);
}

// ---- the chip ----

TEST_F(PoolChecks, AllTypesRunOnTheChip) {
  Random r(43);
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
    TypedPool t = random_typed_pool(r, false);
    const Bytes place = t.place();
    if (t.in.size() + place.size() > 32000) continue;
    t.c.in_addr = 0;
    t.c.out_addr = 32768;
    const Bytes got = bytes_on_chip(t.c, {{0, t.in}, {32768, place}}, 32768, static_cast<uint32_t>(place.size()));
    expect_elements(t.c.out_dtype, expect(t), got, describe(t));
  }
}

}  // namespace
}  // namespace npu::test
