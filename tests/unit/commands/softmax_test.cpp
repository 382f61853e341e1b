// SPDX-License-Identifier: MIT
// SOFTMAX: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

npu_cmd_softmax softmax() {
  return with<npu_cmd_softmax>([](npu_cmd_softmax &c) {
    c.rows = 2;
    c.cols = 4;
    c.out_addr = 4096;
  });
}

class SoftmaxChecks : public Checks {};

TEST_F(SoftmaxChecks, Encoding) { encoding({kTiu}, softmax(), 1, 0, 82); }

TEST_F(SoftmaxChecks, Fields) {
  BAD(softmax(), 24, c.rows = 0);
  BAD(softmax(), 28, c.in_dtype = NPU_DTYPE_S32);
  BAD(softmax(), 32, c.cols = 0);
  for (const uint8_t t : {NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_U4, NPU_DTYPE_S64}) {
    BAD(softmax(), 28, c.in_dtype = t);
    BAD(softmax(), 30, c.out_dtype = t);
  }
  for (const uint8_t type : kNumbers) {
    try_numbers(*this, softmax(), type, 36, 112, [](npu_cmd_softmax &c, const Kind &k) {
      c.in_dtype = k.dtype;
      c.in_scale = k.scale;
      c.in_zp = k.zero;
    });
    try_numbers(*this, softmax(), type, 40, 116, [](npu_cmd_softmax &c, const Kind &k) {
      c.out_dtype = k.dtype;
      c.out_scale = k.scale;
      c.out_zp = k.zero;
    });
  }
}

TEST_F(SoftmaxChecks, Operands) {
  local_operand(softmax(), 32, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(softmax(), 32, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  npu_cmd_softmax s = softmax();
  s.in_dtype = NPU_DTYPE_S8;
  s.out_dtype = NPU_DTYPE_U16;
  s.in_scale = s.out_scale = 1;
  local_operand(
      s, 8, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 1);
  local_operand(
      s, 16, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
  s = softmax();
  s.rows = s.cols = 0x10000;
  access(kTiu, s, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST_F(SoftmaxChecks, RunsOnTheChip) {
  const npu_cmd_softmax c = with<npu_cmd_softmax>([](npu_cmd_softmax &x) {
    x.in_addr = 512;
    x.out_addr = 8192;
    x.rows = 32;
    x.cols = 2;
  });
  Values in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) - 20;
  const Values out = on_chip(c, in, c.in_addr, c.out_addr, 64);
  for (unsigned i = 0; i < 32; ++i) EXPECT_NEAR(out[2 * i], 0.26894142f, 1e-6);
}

TEST(SoftmaxCost, IsAsComputedByHand) {
  expect_cost(with<npu_cmd_softmax>([](npu_cmd_softmax &s) { s.rows = 5, s.cols = 30; }), 32 + 8 * 2, 0, 0,
              "150 elements are 2 rounds of lanes, 8 passes");
  npu_cmd_softmax s = with<npu_cmd_softmax>([](npu_cmd_softmax &x) { x.rows = 5, x.cols = 150; });
  s.in_dtype = s.out_dtype = NPU_DTYPE_U8;
  expect_cost(s, 32 + 8 * 2, 0, 0, "750 elements of 8 bits are 2 rounds, too");
  s.in_dtype = NPU_DTYPE_BF16;
  expect_cost(s, 32 + 8 * 3, 0, 0, "of 16 bits 3");
}

TEST(SoftmaxSlices, CoverEveryElementOnce) {
  for (const model::SliceLimits &limits : kLimits) {
    auto c = hw::make<npu_cmd_softmax>();
    c.rows = 30;
    c.cols = 7;
    uint64_t next = 0;
    for_slices(c, limits, [&](const model::Pointwise<npu_cmd_softmax> &s) {
      EXPECT_EQ(s.a, next);
      EXPECT_EQ(s.out, next);
      EXPECT_EQ(s.c.cols, 7u);
      next += uint64_t{s.c.rows} * 7;
      return true;
    });
    EXPECT_EQ(next, 210u);
  }
}

// ---- results ----

Values run(model::Backend &backend, uint8_t op, const Values &in, uint32_t cols, bool in_place = false) {
  npu_cmd_softmax c = hw::make<npu_cmd_softmax>();
  c.subop = op;
  c.cols = cols;
  c.rows = static_cast<uint32_t>(in.size() / cols);
  Values out = in_place ? in : Values(in.size(), kNaN);
  backend.run(c, in_place ? out.data() : in.data(), out.data());
  return out;
}

class SoftmaxResults : public OnBackend {
 protected:
  Values softmax(uint8_t op, const Values &in, uint32_t cols) {
    const Values out = run(*backend_, op, in, cols), place = run(*backend_, op, in, cols, true);
    EXPECT_EQ(0, std::memcmp(out.data(), place.data(), out.size() * 4)) << "in place";
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, SoftmaxResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

void expect_softmax(uint8_t op, const Values &in, const Values &got, uint32_t cols) {
  for (size_t row = 0; row < in.size(); row += cols) {
    long double top = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < cols; ++i) top = std::max<long double>(top, in[row + i]);
    for (uint32_t i = 0; i < cols; ++i) sum += std::exp(in[row + i] - top);
    for (uint32_t i = 0; i < cols; ++i) {
      const long double x = in[row + i] - top;
      const double want = op == NPU_SOFTMAX_LOG ? x - std::log(sum) : std::exp(x) / sum;
      if (got[row + i] == want) continue;
      const double ulp = std::nextafter(std::fabs(float(want)), kInf) - std::fabs(float(want));
      ASSERT_LE(std::fabs(want - got[row + i]), 4 * ulp + 1e-7) << "cols " << cols << " column " << i;
    }
  }
}

TEST_P(SoftmaxResults, AreWithinTheBound) {
  Random r(25);
  for (const uint8_t op : {NPU_SOFTMAX_NORMAL, NPU_SOFTMAX_LOG})
    for (const uint32_t cols : {1, 2, 3, 7, 10, 16, 31, 100, 1000, 70000})
      for (const float size : {0.01f, 1.0f, 30.0f, 1000.0f}) {
        const Values in = r.values(cols * (cols > 1000 ? 1 : 3), size);
        expect_softmax(op, in, softmax(op, in, cols), cols);
        if (HasFatalFailure()) return;
      }
}

TEST_P(SoftmaxResults, OfLargeAndInfiniteValues) {
  EXPECT_EQ(softmax(NPU_SOFTMAX_NORMAL, {3e38f, 3e38f, -3e38f, -kInf}, 4), (Values{0.5f, 0.5f, 0, 0}));
  EXPECT_EQ(softmax(NPU_SOFTMAX_LOG, {0, -kInf}, 2), (Values{0, -kInf}));
  const Values out = softmax(NPU_SOFTMAX_NORMAL, {kNaN, 1, 2, 1, 2, 3}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(out[i]));
  EXPECT_FALSE(std::isnan(out[3]));  // the other row does not see it
}

/// All types. The double result is the reference's to the bit, and others' within their bound.
struct TypedSoftmax {
  npu_cmd_softmax c;
  Bytes in;
};

TypedSoftmax random_typed_softmax(Random &r) {
  TypedSoftmax t{hw::make<npu_cmd_softmax>(), {}};
  npu_cmd_softmax &c = t.c;
  Kind from = random_kind(r, kNumbers), to = random_kind(r, kNumbers);
  if (!is_real(from.dtype)) from.scale = size_of(from.dtype) == 1 ? 0.05f : 3e-4f;
  if (!is_real(to.dtype)) to.scale = size_of(to.dtype) == 1 ? 1 / 256.0f : 1 / 65536.0f;
  c.subop = static_cast<uint8_t>(r.range(0, 1));
  c.rows = r.range(1, 9);
  c.cols = r.chance(4) ? r.range(100, 300) : r.range(1, 30);
  c.in_dtype = from.dtype, c.in_scale = from.scale, c.in_zp = from.zero;
  c.out_dtype = to.dtype, c.out_scale = to.scale, c.out_zp = to.zero;
  t.in = random_elements(r, c.in_dtype, size_t{c.rows} * c.cols);
  return t;
}

Bytes run(model::Backend &backend, const TypedSoftmax &t, bool in_place) {
  Bytes out = in_place ? t.in : Bytes(size_t{t.c.rows} * t.c.cols * size_of(t.c.out_dtype));
  backend.run(t.c, in_place ? out.data() : t.in.data(), out.data());
  return out;
}

Bytes expect(const TypedSoftmax &t) {
  const npu_cmd_softmax &c = t.c;
  Bytes out(size_t{c.rows} * c.cols * size_of(c.out_dtype));
  for (size_t row = 0; row < size_t{c.rows} * c.cols; row += c.cols) {
    Values x(c.cols);
    for (size_t i = 0; i < c.cols; ++i) x[i] = load({c.in_dtype, c.in_scale, c.in_zp}, t.in.data(), row + i);
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const float v : x) sum += std::exp(v - top);
    for (size_t i = 0; i < c.cols; ++i) {
      const double y = c.subop == NPU_SOFTMAX_LOG ? x[i] - top - std::log(sum) : std::exp(x[i] - top) / sum;
      store({c.out_dtype, c.out_scale, c.out_zp}, static_cast<float>(y), out.data(), row + i);
    }
  }
  return out;
}

TEST_P(SoftmaxResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(27);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const TypedSoftmax t = random_typed_softmax(r);
    std::ostringstream what;
    what << "softmax " << int{t.c.subop} << ' ' << t.c.rows << 'x' << t.c.cols << " types=" << int{t.c.in_dtype} << ','
         << int{t.c.out_dtype} << " zeros=" << t.c.in_zp << ',' << t.c.out_zp;
    const Bytes want = expect(t), got = run(*backend_, t, false);
    const Leeway l = leeway_of(t.c.out_dtype, GetParam() != "reference");
    expect_near_elements(t.c.out_dtype, want, got, l.steps, what.str(), l.least);
    if (size_of(t.c.in_dtype) == size_of(t.c.out_dtype)) {
      EXPECT_EQ(run(*backend_, t, true), got) << what.str();
    }
  }
}

TEST(SoftmaxSlices, OfAllTypesGiveTheSameBits) {
  Random r(28);
  model::Reference reference;
  for (unsigned i = 0; i < 100 && !testing::Test::HasFatalFailure(); ++i) {
    const TypedSoftmax t = random_typed_softmax(r);
    const Bytes whole = run(reference, t, false);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut(whole.size());
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_softmax> &s) {
        reference.run(s.c, t.in.data() + s.a * size_of(t.c.in_dtype), cut.data() + s.out * size_of(t.c.out_dtype));
        return true;
      });
      expect_elements(t.c.out_dtype, whole, cut, "limit " + std::to_string(limits.operations));
    }
  }
}

// ---- the shadow ----

class FaultySoftmax final : public Faulty {
 public:
  using Faulty::Faulty;
  void run(const npu_cmd_softmax &c, const void *in, void *out) override {
    Reference::run(c, in, out);
    spoil(out, size_t{c.rows} * c.cols);
  }
};

TEST(SoftmaxShadow, ReportsWrongResults) {
  Random r(41);
  std::vector<RunOn> runs;
  for (int i = 0; i < 300; ++i)
    runs.push_back(
        [in = r.values(40, 5), i](model::Backend &backend) { return run(backend, NPU_SOFTMAX_NORMAL, in, 10, i % 2); });
  expect_shadowed<FaultySoftmax>("SOFTMAX", runs);
}

class FaultyTypedSoftmax final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_softmax &c, const void *in, void *out) override {
    Reference::run(c, in, out);
    flip_last(out, size_t{c.rows} * c.cols * size_of(c.out_dtype));
  }
};

TEST(SoftmaxShadow, ReportsWrongResultsOfAllTypes) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 200; ++i)
    runs.push_back([t = random_typed_softmax(r)](model::Backend &backend) { return run(backend, t, false); });
  expect_shadowed_bytes<FaultyTypedSoftmax>("SOFTMAX", runs);
}

// ---- the chip ----

TEST_F(SoftmaxChecks, AllTypesRunOnTheChip) {
  Random r(43);
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
    TypedSoftmax t = random_typed_softmax(r);
    t.c.in_addr = 1024;
    t.c.out_addr = 32768;
    const Bytes want = expect(t);
    const Bytes got = bytes_on_chip(t.c, {{1024, t.in}}, 32768, static_cast<uint32_t>(want.size()));
    expect_elements(t.c.out_dtype, want, got, "types " + std::to_string(t.c.in_dtype));
  }
}

}  // namespace
}  // namespace npu::test
