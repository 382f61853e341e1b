// SPDX-License-Identifier: MIT
// UNARY: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>
#include <sstream>

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

TEST_F(UnaryChecks, Encoding) { encoding({kTiu}, unary(), NPU_ACT_COS, 0, 94); }

TEST_F(UnaryChecks, Fields) {
  BAD(unary(), 24, c.count = 0);
  for (unsigned t = 0; t < 16; ++t) {
    const auto type = static_cast<uint8_t>(t);
    if (is_real(type)) continue;
    BAD(unary(), 28, c.in_dtype = type);
    BAD(unary(), 30, c.out_dtype = type);
  }
  for (const uint8_t from : kFloats)
    for (const uint8_t to : kFloats) {
      npu_cmd_unary c = unary();
      c.in_dtype = from;
      c.out_dtype = to;
      ok(kTiu, c);
    }
  activation_parameters(
      unary(), [](npu_cmd_unary &c, uint8_t act) { c.subop = act; }, true);
}

TEST_F(UnaryChecks, Operands) {
  local_operand(unary(), 32, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(unary(), 32, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  npu_cmd_unary c = unary();
  c.in_dtype = NPU_DTYPE_F16;
  local_operand(
      c, 16, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 2);
  c = unary();
  c.out_dtype = NPU_DTYPE_BF16;
  local_operand(
      c, 16, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
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

// The last sub-operation, and one whose parameters have to arrive.
TEST_F(UnaryChecks, RunsFunctionsThatOnlyUnaryHas) {
  npu_cmd_unary c = unary();
  c.subop = NPU_ACT_COS;
  EXPECT_EQ(on_chip(c, Values(8, 0.0f), c.in_addr, c.out_addr, 8), Values(8, 1.0f));
  c.subop = NPU_ACT_HARD_SIGMOID;
  c.act_a = 0.25f;
  c.act_b = 0.5f;
  EXPECT_EQ(on_chip(c, {-4, -2, -1, 0, 1, 1.5f, 2, 4}, c.in_addr, c.out_addr, 8),
            (Values{0, 0, 0.25f, 0.5f, 0.75f, 0.875f, 1, 1}));
}

TEST(UnaryCost, IsAsComputedByHand) {
  expect_cost(with<npu_cmd_unary>([](npu_cmd_unary &u) { u.count = 300, u.subop = NPU_ACT_RELU; }), 32 + 5, 0, 0,
              "300 in and out: 2400 bytes, 4.7");
  expect_cost(with<npu_cmd_unary>([](npu_cmd_unary &u) { u.count = 300, u.subop = NPU_ACT_SIGMOID; }), 32 + 4 * 3, 0, 0,
              "a sigmoid takes four times as long");
  expect_cost(with<npu_cmd_unary>([](npu_cmd_unary &u) {
                u.count = 300, u.subop = NPU_ACT_EXP, u.in_dtype = u.out_dtype = NPU_DTYPE_F16;
              }),
              32 + 4 * 2, 0, 0, "256 at a time of 16 bits");
  expect_cost(
      with<npu_cmd_unary>([](npu_cmd_unary &u) { u.count = 300, u.subop = NPU_ACT_EXP, u.out_dtype = NPU_DTYPE_BF16; }),
      32 + 4 * 3, 0, 0, "the wider type decides");
  const auto passes = [](uint64_t cycles, std::initializer_list<uint8_t> functions) {
    for (const uint8_t f : functions)
      expect_cost(with<npu_cmd_unary>([&](npu_cmd_unary &u) { u.count = 300, u.subop = f; }), 32 + cycles, 0, 0,
                  hw::k_npu_act[f].name.data());
  };
  passes(5, {NPU_ACT_NONE, NPU_ACT_CLIP, NPU_ACT_LEAKY_RELU, NPU_ACT_ABS, NPU_ACT_NEG, NPU_ACT_FLOOR, NPU_ACT_CEIL,
             NPU_ACT_ROUND, NPU_ACT_SIGN});
  passes(4 * 3, {NPU_ACT_TANH, NPU_ACT_EXP, NPU_ACT_LOG, NPU_ACT_SQRT, NPU_ACT_RSQRT, NPU_ACT_RECIPROCAL, NPU_ACT_ERF,
                 NPU_ACT_GELU, NPU_ACT_ELU, NPU_ACT_HARD_SIGMOID, NPU_ACT_HARD_SWISH, NPU_ACT_SOFTPLUS, NPU_ACT_SIN,
                 NPU_ACT_COS});
}

TEST(UnarySlices, CoverEveryElementOnce) {
  for (const model::SliceLimits &limits : kLimits) {
    auto c = hw::make<npu_cmd_unary>();
    c.in_dtype = NPU_DTYPE_F16;  // slices count elements
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

struct Function {
  uint8_t act;
  float a = 0, b = 0;
};

std::ostream &operator<<(std::ostream &s, const Function &f) {
  return s << hw::k_npu_act[f.act].name << " a=" << f.a << " b=" << f.b;
}

// Each function, where it has parameters with several.
constexpr Function kFunctions[] = {{NPU_ACT_NONE},
                                   {NPU_ACT_RELU},
                                   {NPU_ACT_CLIP, 0, 6},
                                   {NPU_ACT_LEAKY_RELU, 0.1f},
                                   {NPU_ACT_SIGMOID},
                                   {NPU_ACT_TANH},
                                   {NPU_ACT_EXP},
                                   {NPU_ACT_LOG},
                                   {NPU_ACT_SQRT},
                                   {NPU_ACT_RSQRT},
                                   {NPU_ACT_RECIPROCAL},
                                   {NPU_ACT_ABS},
                                   {NPU_ACT_NEG},
                                   {NPU_ACT_ERF},
                                   {NPU_ACT_GELU, 0},
                                   {NPU_ACT_GELU, 1},
                                   {NPU_ACT_ELU, 1},
                                   {NPU_ACT_ELU, -0.5f},
                                   {NPU_ACT_ELU, 1000},
                                   {NPU_ACT_HARD_SIGMOID, 0.2f, 0.5f},
                                   {NPU_ACT_HARD_SIGMOID, -3, 0.25f},
                                   {NPU_ACT_HARD_SIGMOID, 12345.678f, 12345},  // digits cancel where it is not 0 or 1
                                   {NPU_ACT_HARD_SWISH},
                                   {NPU_ACT_SOFTPLUS},
                                   {NPU_ACT_FLOOR},
                                   {NPU_ACT_CEIL},
                                   {NPU_ACT_ROUND},
                                   {NPU_ACT_SIGN},
                                   {NPU_ACT_SIN},
                                   {NPU_ACT_COS}};

TEST(UnaryFunctions, AllOfThemAreTried) {
  for (const auto &act : hw::k_npu_act)
    EXPECT_TRUE(std::any_of(std::begin(kFunctions), std::end(kFunctions), [&](const Function &f) {
      return f.act == act.value;
    })) << act.name;
}

// Floats of every exponent and sign, and the neighbourhoods where functions saturate or change their form.
Values sweep(Random &r) {
  Values v = {0.0f, -0.0f, kInf, -kInf, 0x1p-149f, -0x1p-149f, 88.7f, -88.7f, 103.9f, -104.1f, 9.01f, -9.01f};
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(r.bits());
    if (!std::isnan(x)) v.push_back(x);
    v.push_back(r.real(-20, 20));
    v.push_back(r.real(-110, 110));
    v.push_back(r.real(-0.7f, 0.7f));
  }
  for (int i = 0; i < 2000; ++i) {
    v.push_back(std::bit_cast<float>(r.bits() & 0x807fffffu));                       // denormal
    v.push_back(static_cast<float>(r.range(-(1 << 21), 1 << 21)) + 0.5f);            // half way between whole numbers
    v.push_back(static_cast<float>(r.range(-300000, 300000) * 1.5707963267948966));  // where sine or cosine is 0
    v.push_back(r.real(-0x1p20f, 0x1p20f));
    v.push_back(r.real(-1.0001f, -0.9999f));
    v.push_back(r.real(88.6f, 88.8f));  // where EXP becomes infinite
  }
  return v;
}

// The oracle's result give or take its error. Whether it is a number, an infinity or a NaN has no tolerance, and a bit
// of an exact function neither.
testing::AssertionResult is_right(const Function &f, float x, float got) {
  double want = x, error = 0;
  apply(f.act, f.a, f.b, want, error);
  const float rounded = static_cast<float>(want);
  bool right = std::fabs(want - got) <= error;
  if (std::isnan(rounded))
    right = std::isnan(got);
  else if (std::isinf(rounded))
    right = got == rounded;
  else if (error == 0 && f.act > NPU_ACT_TANH)
    right = std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(rounded);
  if (right) return testing::AssertionSuccess();
  return testing::AssertionFailure() << f << " of " << x << " is " << got << ", expected " << want << " +- " << error;
}

TEST_P(UnaryResults, AreWithinTheBoundForAllMagnitudes) {
  Random r(24);
  const Values in = sweep(r);
  for (const Function &f : kFunctions) {
    const Values out = unary(f.act, in, f.a, f.b);
    for (size_t i = 0; i < in.size(); ++i) ASSERT_TRUE(is_right(f, in[i], out[i]));
  }
}

// The reference computes in double: it is half an ULP away, give or take what double and the oracle are.
TEST(UnaryReference, RoundsOnce) {
  Random r(25);
  const Values in = sweep(r);
  model::Reference reference;
  for (const Function &f : kFunctions) {
    if (f.act == NPU_ACT_LEAKY_RELU) continue;  // f32 arithmetic
    const Values out = run(reference, f.act, in, f.a, f.b);
    for (size_t i = 0; i < in.size(); ++i) {
      double want = in[i], error = 0;
      apply(f.act, f.a, f.b, want, error);
      const float rounded = static_cast<float>(want);
      if (!std::isfinite(rounded)) continue;
      const float ulp = std::nextafter(std::fabs(rounded), kInf) - std::fabs(rounded);
      ASSERT_LE(std::fabs(want - out[i]), 0.501 * ulp + 1e-15) << f << " of " << in[i] << " is " << out[i];
    }
  }
}

TEST_P(UnaryResults, AtTheEndsAreAsDocumented) {
  constexpr float kLeast = 0x1p-149f, kMost = std::numeric_limits<float>::max();
  struct {
    Function f;
    float x, want;
  } const cases[] = {
      {{NPU_ACT_EXP}, -kInf, 0},
      {{NPU_ACT_EXP}, kInf, kInf},
      {{NPU_ACT_EXP}, -0.0f, 1},
      {{NPU_ACT_EXP}, kMost, kInf},
      {{NPU_ACT_LOG}, 0, -kInf},
      {{NPU_ACT_LOG}, -0.0f, -kInf},
      {{NPU_ACT_LOG}, -kLeast, kNaN},
      {{NPU_ACT_LOG}, -kInf, kNaN},
      {{NPU_ACT_LOG}, kInf, kInf},
      {{NPU_ACT_LOG}, 1, 0},
      {{NPU_ACT_SQRT}, 0, 0},
      {{NPU_ACT_SQRT}, -0.0f, -0.0f},
      {{NPU_ACT_SQRT}, -kLeast, kNaN},
      {{NPU_ACT_SQRT}, -kInf, kNaN},
      {{NPU_ACT_SQRT}, kInf, kInf},
      {{NPU_ACT_SQRT}, 2, 0x1.6a09e6p+0f},
      {{NPU_ACT_SQRT}, kLeast, 0x1.6a09e6p-75f},
      {{NPU_ACT_RSQRT}, 0, kInf},
      {{NPU_ACT_RSQRT}, -0.0f, -kInf},
      {{NPU_ACT_RSQRT}, -1, kNaN},
      {{NPU_ACT_RSQRT}, kInf, 0},
      {{NPU_ACT_RSQRT}, 0x1p-148f, 0x1p74f},
      {{NPU_ACT_RECIPROCAL}, 0, kInf},
      {{NPU_ACT_RECIPROCAL}, -0.0f, -kInf},
      {{NPU_ACT_RECIPROCAL}, kInf, 0},
      {{NPU_ACT_RECIPROCAL}, -kInf, -0.0f},
      {{NPU_ACT_RECIPROCAL}, 0x1p127f, 0x1p-127f},
      {{NPU_ACT_RECIPROCAL}, -0x1p-127f, -0x1p127f},
      {{NPU_ACT_RECIPROCAL}, kLeast, kInf},
      {{NPU_ACT_ABS}, -0.0f, 0},
      {{NPU_ACT_ABS}, -kInf, kInf},
      {{NPU_ACT_ABS}, -kLeast, kLeast},
      {{NPU_ACT_NEG}, 0, -0.0f},
      {{NPU_ACT_NEG}, -0.0f, 0},
      {{NPU_ACT_NEG}, kInf, -kInf},
      {{NPU_ACT_NEG}, kLeast, -kLeast},
      {{NPU_ACT_ERF}, kInf, 1},
      {{NPU_ACT_ERF}, -kInf, -1},
      {{NPU_ACT_ERF}, -0.0f, -0.0f},
      {{NPU_ACT_ERF}, -kMost, -1},
      {{NPU_ACT_GELU, 0}, kInf, kInf},
      {{NPU_ACT_GELU, 0}, -kInf, kNaN},
      {{NPU_ACT_GELU, 0}, kMost, kMost},
      {{NPU_ACT_GELU, 0}, -kMost, -0.0f},
      {{NPU_ACT_GELU, 1}, kInf, kInf},
      {{NPU_ACT_GELU, 1}, -kInf, kNaN},
      {{NPU_ACT_GELU, 1}, kMost, kMost},
      {{NPU_ACT_GELU, 1}, -kMost, -0.0f},
      {{NPU_ACT_ELU, 2}, -kInf, -2},
      {{NPU_ACT_ELU, 2}, kInf, kInf},
      {{NPU_ACT_ELU, 2}, -0.0f, -0.0f},
      {{NPU_ACT_HARD_SIGMOID, 0.2f, 0.5f}, kInf, 1},
      {{NPU_ACT_HARD_SIGMOID, 0.2f, 0.5f}, -kInf, 0},
      {{NPU_ACT_HARD_SIGMOID, 0, 0.5f}, kInf, kNaN},
      {{NPU_ACT_HARD_SIGMOID, 0, 0.25f}, kMost, 0.25f},
      {{NPU_ACT_HARD_SIGMOID, kMost, -kMost}, kMost, 1},  // the product is beyond the largest float
      {{NPU_ACT_HARD_SIGMOID, 1, -0.0f}, -0.0f, 0},
      {{NPU_ACT_HARD_SWISH}, kInf, kInf},
      {{NPU_ACT_HARD_SWISH}, -kInf, kNaN},
      {{NPU_ACT_HARD_SWISH}, kMost, kMost},
      {{NPU_ACT_HARD_SWISH}, 3, 3},
      {{NPU_ACT_HARD_SWISH}, -3, -0.0f},
      {{NPU_ACT_SOFTPLUS}, kInf, kInf},
      {{NPU_ACT_SOFTPLUS}, -kInf, 0},
      {{NPU_ACT_SOFTPLUS}, 100, 100},
      {{NPU_ACT_SOFTPLUS}, kMost, kMost},
      {{NPU_ACT_FLOOR}, -0.5f, -1},
      {{NPU_ACT_FLOOR}, -0.0f, -0.0f},
      {{NPU_ACT_FLOOR}, -kLeast, -1},
      {{NPU_ACT_FLOOR}, kLeast, 0},
      {{NPU_ACT_FLOOR}, kMost, kMost},
      {{NPU_ACT_FLOOR}, -kInf, -kInf},
      {{NPU_ACT_CEIL}, -0.5f, -0.0f},
      {{NPU_ACT_CEIL}, kLeast, 1},
      {{NPU_ACT_CEIL}, -kMost, -kMost},
      {{NPU_ACT_CEIL}, kInf, kInf},
      {{NPU_ACT_ROUND}, 0.5f, 0},
      {{NPU_ACT_ROUND}, -0.5f, -0.0f},
      {{NPU_ACT_ROUND}, 1.5f, 2},
      {{NPU_ACT_ROUND}, 2.5f, 2},
      {{NPU_ACT_ROUND}, -3.5f, -4},
      {{NPU_ACT_ROUND}, 0x1.fffffep-2f, 0},
      {{NPU_ACT_ROUND}, 8388607.5f, 8388608},
      {{NPU_ACT_ROUND}, 8388609, 8388609},
      {{NPU_ACT_ROUND}, kInf, kInf},
      {{NPU_ACT_SIGN}, 0, 0},
      {{NPU_ACT_SIGN}, -0.0f, 0},
      {{NPU_ACT_SIGN}, kLeast, 1},
      {{NPU_ACT_SIGN}, -kInf, -1},
      {{NPU_ACT_SIN}, kInf, kNaN},
      {{NPU_ACT_SIN}, 0, 0},
      {{NPU_ACT_COS}, -kInf, kNaN},
      {{NPU_ACT_COS}, 0, 1},
  };
  for (const auto &c : cases)
    for (const size_t count : {1, 19}) {
      const float got = unary(c.f.act, Values(count, c.x), c.f.a, c.f.b).back();
      if (std::isnan(c.want))
        EXPECT_TRUE(std::isnan(got)) << c.f << " of " << c.x << " is " << got;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(c.want))
            << c.f << " of " << c.x << " is " << got << ", not " << c.want;
    }
}

TEST_P(UnaryResults, OfNaNAreNaN) {
  for (const Function &f : kFunctions)
    for (const size_t count : {1, 5, 16, 33}) {
      const Values out = unary(f.act, Values(count, kNaN), f.a, f.b);
      for (const float x : out) EXPECT_TRUE(std::isnan(x)) << f;
    }
}

bool is_exact(uint8_t act) {
  switch (act) {
    case NPU_ACT_SQRT:
    case NPU_ACT_RSQRT:
    case NPU_ACT_RECIPROCAL:
    case NPU_ACT_ABS:
    case NPU_ACT_NEG:
      return true;
    default:
      return act <= NPU_ACT_LEAKY_RELU || (act >= NPU_ACT_FLOOR && act <= NPU_ACT_SIGN);
  }
}

// Halves are read exactly and results rounded once more: all of them are those of f32. Where another back end computes
// halves otherwise, two results within the bound may lie on both sides of where rounding changes.
TEST_P(UnaryResults, OfHalvesAreThoseOfF32RoundedOnce) {
  for (const Function &f : kFunctions)
    for (const uint8_t from : kFloats)
      for (const uint8_t to : kFloats) {
        if (from == NPU_DTYPE_F32 && to == NPU_DTYPE_F32) continue;
        const unsigned step = from == NPU_DTYPE_F16 ? 5 : 29;  // other ones for each function
        Bytes in;
        Values plain;
        for (unsigned bits = f.act % step; bits < 0x10000; bits += step) {
          in.resize(in.size() + size_of(from));
          store({from, 0, 0},
                static_cast<float>(
                    value_of_half(from == NPU_DTYPE_F32 ? NPU_DTYPE_BF16 : from, static_cast<uint16_t>(bits))),
                in.data(), in.size() / size_of(from) - 1);
          plain.push_back(load({from, 0, 0}, in.data(), plain.size()));
        }
        npu_cmd_unary c = hw::make<npu_cmd_unary>();
        c.subop = f.act;
        c.act_a = f.a;
        c.act_b = f.b;
        c.in_dtype = from;
        c.out_dtype = to;
        c.count = static_cast<uint32_t>(plain.size());
        const Values exact = unary(f.act, plain, f.a, f.b);
        Bytes want(plain.size() * size_of(to)), got(want.size());
        for (size_t i = 0; i < exact.size(); ++i) store({to, 0, 0}, exact[i], want.data(), i);
        backend_->run(c, in.data(), got.data());
        std::ostringstream what;
        what << f << " from " << int{from} << " to " << int{to};
        const bool same = GetParam() == "reference" || is_exact(f.act);
        expect_near_elements(to, want, got, same ? 0 : to == NPU_DTYPE_F32 ? 8 : 1, what.str(), same ? 0 : 2e-7);
        if (size_of(from) == size_of(to)) {
          backend_->run(c, in.data(), in.data());
          expect_elements(to, got, in, what.str() + " in place");
        }
        if (HasFatalFailure()) return;
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
  for (int i = 0; i < 300; ++i) {
    const Function f = kFunctions[i / 2 % std::size(kFunctions)];
    Values in = r.values(40, 5);
    in.back() = r.real(0.5f, 5);  // the one that is spoiled has a result, and one that is not too large to change
    runs.push_back([=](model::Backend &backend) { return run(backend, f.act, in, f.a, f.b, i % 2); });
  }
  expect_shadowed<FaultyUnary>("UNARY", runs);
}

}  // namespace
}  // namespace npu::test
