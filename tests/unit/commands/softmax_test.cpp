// SPDX-License-Identifier: MIT
// SOFTMAX: what the chip accepts, what it costs, how it is cut, and its results on every back end.
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

TEST_F(SoftmaxChecks, Encoding) { encoding({kTiu}, softmax(), 1, 0); }

TEST_F(SoftmaxChecks, Fields) {
  BAD(softmax(), 24, c.rows = 0);
  BAD(softmax(), 28, c.in_dtype = NPU_DTYPE_S32);
  BAD(softmax(), 32, c.cols = 0);
}

TEST_F(SoftmaxChecks, Operands) {
  local_operand(softmax(), 32, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(softmax(), 32, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  npu_cmd_softmax s = softmax();
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

}  // namespace
}  // namespace npu::test
