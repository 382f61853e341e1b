// SPDX-License-Identifier: MIT
// UNARY: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

npu_cmd_unary unary() {
  return with<npu_cmd_unary>([](npu_cmd_unary &c) {
    c.subop = NPU_ACT_RELU;
    c.count = 8;
    c.out_addr = 4096;
  });
}

class UnaryChecks : public Checks {};

TEST_F(UnaryChecks, Encoding) { encoding({kTiu}, unary(), NPU_ACT_TANH, 0); }

TEST_F(UnaryChecks, Fields) {
  BAD(unary(), 24, c.count = 0);
  BAD(unary(), 28, c.in_dtype = NPU_DTYPE_F16);
  BAD(unary(), 30, c.out_dtype = NPU_DTYPE_F16);
  activation_parameters(unary(), [](npu_cmd_unary &c, uint8_t act) { c.subop = act; });
}

TEST_F(UnaryChecks, Operands) {
  local_operand(unary(), 32, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(unary(), 32, true, [](auto &x, uint32_t v) { x.out_addr = v; });
}

TEST_F(UnaryChecks, RunsOnTheChip) {
  const npu_cmd_unary c = with<npu_cmd_unary>([](npu_cmd_unary &x) {
    x.subop = NPU_ACT_RELU;
    x.in_addr = 512;
    x.out_addr = 1024;
    x.count = 64;
  });
  Values in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) - 20;
  const Values out = on_chip(c, in, c.in_addr, c.out_addr, 64);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(out[i], std::max(in[i], 0.0f));
}

TEST(UnaryCost, IsAsComputedByHand) {
  expect_cost(with<npu_cmd_unary>([](npu_cmd_unary &u) { u.count = 300, u.subop = NPU_ACT_RELU; }), 32 + 5, 0, 0,
              "300 in and out: 2400 bytes, 4.7");
  expect_cost(with<npu_cmd_unary>([](npu_cmd_unary &u) { u.count = 300, u.subop = NPU_ACT_SIGMOID; }), 32 + 4 * 3, 0, 0,
              "a sigmoid takes four times as long");
}

TEST(UnarySlices, CoverEveryElementOnce) {
  for (const model::SliceLimits &limits : kLimits) {
    auto c = hw::make<npu_cmd_unary>();
    c.count = 1000;
    c.subop = NPU_ACT_TANH;
    uint64_t next = 0;
    for_slices(c, limits, [&](const model::Pointwise<npu_cmd_unary> &s) {
      EXPECT_EQ(s.a, next);
      EXPECT_EQ(s.out, next);
      next += s.c.count;
      return true;
    });
    EXPECT_EQ(next, 1000u);
  }
}

// ---- results ----

Values run(model::Backend &backend, uint8_t act, const Values &in, float a = 0, float b = 0, bool in_place = false) {
  npu_cmd_unary c = hw::make<npu_cmd_unary>();
  c.subop = act;
  c.count = static_cast<uint32_t>(in.size());
  c.act_a = a;
  c.act_b = b;
  Values out = in_place ? in : Values(in.size(), kNaN);
  backend.run(c, in_place ? out.data() : in.data(), out.data());
  return out;
}

class UnaryResults : public OnBackend {
 protected:
  Values unary(uint8_t act, const Values &in, float a = 0, float b = 0) {
    const Values out = run(*backend_, act, in, a, b), place = run(*backend_, act, in, a, b, true);
    EXPECT_EQ(0, std::memcmp(out.data(), place.data(), out.size() * 4)) << "in place, act " << int{act};
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, UnaryResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

// Floats of every exponent and sign, and the neighbourhoods where functions saturate.
Values sweep(Random &r) {
  Values v = {0.0f, -0.0f, kInf, -kInf, 0x1p-149f, -0x1p-149f, 88.7f, -88.7f, 103.9f, -104.1f, 9.01f, -9.01f};
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(r.bits());
    if (!std::isnan(x)) v.push_back(x);
    v.push_back(r.real(-20, 20));
    v.push_back(r.real(-110, 110));
    v.push_back(r.real(-0.7f, 0.7f));
  }
  return v;
}

TEST_P(UnaryResults, AreWithinTheBoundForAllMagnitudes) {
  Random r(24);
  const Values in = sweep(r);
  struct {
    uint8_t act;
    float a, b;
  } const functions[] = {{NPU_ACT_NONE, 0, 0},          {NPU_ACT_RELU, 0, 0},    {NPU_ACT_CLIP, 0, 6},
                         {NPU_ACT_LEAKY_RELU, 0.1f, 0}, {NPU_ACT_SIGMOID, 0, 0}, {NPU_ACT_TANH, 0, 0}};
  for (const auto &f : functions) {
    const Values out = unary(f.act, in, f.a, f.b);
    for (size_t i = 0; i < in.size(); ++i) {
      double want = in[i], error = 0;
      apply(f.act, f.a, f.b, want, error);
      if (out[i] == want) continue;  // infinities
      ASSERT_LE(std::fabs(want - out[i]), error) << "act " << int{f.act} << " of " << in[i] << " is " << out[i];
    }
  }
}

TEST_P(UnaryResults, OfNaNAreNaN) {
  for (const uint8_t act :
       {NPU_ACT_NONE, NPU_ACT_RELU, NPU_ACT_CLIP, NPU_ACT_LEAKY_RELU, NPU_ACT_SIGMOID, NPU_ACT_TANH})
    for (const size_t count : {1, 5, 16, 33}) {
      const Values out = unary(act, Values(count, kNaN), 0, act == NPU_ACT_CLIP ? 1 : 0);
      for (const float x : out) EXPECT_TRUE(std::isnan(x)) << int{act};
    }
}

// ---- the shadow ----

class FaultyUnary final : public Faulty {
 public:
  using Faulty::Faulty;
  void run(const npu_cmd_unary &c, const void *in, void *out) override {
    Reference::run(c, in, out);
    spoil(out, c.count);
  }
};

TEST(UnaryShadow, ReportsWrongResults) {
  Random r(41);
  std::vector<RunOn> runs;
  for (int i = 0; i < 300; ++i)
    runs.push_back(
        [in = r.values(40, 5), i](model::Backend &backend) { return run(backend, NPU_ACT_TANH, in, 0, 0, i % 2); });
  expect_shadowed<FaultyUnary>("UNARY", runs);
}

}  // namespace
}  // namespace npu::test
