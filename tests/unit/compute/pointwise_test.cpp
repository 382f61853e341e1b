// SPDX-License-Identifier: MIT
// POOL, ELTWISE, UNARY and SOFTMAX of every back end against double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/compute/oracle.h"

namespace npu::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Pointwise : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = make_backend(GetParam());
    ASSERT_TRUE(backend_);
  }
  Values unary(uint8_t act, const Values &in, float a = 0, float b = 0) {
    npu_cmd_unary c = hw::make<npu_cmd_unary>();
    c.subop = act;
    c.count = in.size();
    c.act_a = a;
    c.act_b = b;
    Values out(in.size(), kNaN);
    backend_->run(c, in.data(), out.data());
    Values place = in;
    backend_->run(c, place.data(), place.data());
    EXPECT_EQ(0, std::memcmp(out.data(), place.data(), out.size() * 4)) << "in place, act " << int{act};
    return out;
  }
  Values softmax(uint8_t op, const Values &in, uint32_t cols) {
    npu_cmd_softmax c = hw::make<npu_cmd_softmax>();
    c.subop = op;
    c.cols = cols;
    c.rows = in.size() / cols;
    Values out(in.size(), kNaN);
    backend_->run(c, in.data(), out.data());
    Values place = in;
    backend_->run(c, place.data(), place.data());
    EXPECT_EQ(0, std::memcmp(out.data(), place.data(), out.size() * 4)) << "in place";
    return out;
  }
  std::unique_ptr<model::Backend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Backends, Pointwise, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(Pointwise, PoolsOfRandomShapesAreWithinTheBound) {
  Random r(21);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const PoolCase t = random_pool(r);
    expect_near(expect(t), run(*backend_, t), describe(t.c));
  }
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

TEST_P(Pointwise, PaddingNeverWinsAMaximum) {
  const PoolCase t = pool_3x3(NPU_POOL_MAX, {-9, -8, -7, -6, -5, -4, -3, -2, -1});
  EXPECT_EQ(run(*backend_, t), (Values{-5, -4, -4, -2, -1, -1, -2, -1, -1}));
  const PoolCase low = pool_3x3(NPU_POOL_MAX, Values(9, -kInf));
  EXPECT_EQ(run(*backend_, low), Values(9, -kInf));
}

TEST_P(Pointwise, AveragesDivideByTheCellsThatCount) {
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

TEST_P(Pointwise, AveragesThatSkipTheFirstCellsCountTheRest) {
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

TEST_P(Pointwise, PoolsKeepNaN) {
  for (const uint8_t op : {NPU_POOL_MAX, NPU_POOL_AVG}) {
    const Values out = run(*backend_, pool_3x3(op, {kNaN, 1, 1, 1, 1, 1, 1, 1, 1}));
    for (const int i : {0, 1, 3, 4}) EXPECT_TRUE(std::isnan(out[i])) << i;
    for (const int i : {2, 5, 6, 7, 8}) EXPECT_EQ(out[i], 1) << i;
  }
}

TEST_P(Pointwise, ElementwiseOperationsOfRandomShapesAreRight) {
  Random r(22);
  for (int i = 0; i < 800 && !HasFatalFailure(); ++i) {
    const EltwiseCase t = random_eltwise(r);
    expect_near(expect(t), run(*backend_, t), describe(t.c));
  }
}

TEST_P(Pointwise, ElementwiseResultsMayReplaceADenseOperand) {
  Random r(23);
  for (int i = 0; i < 200; ++i) {
    EltwiseCase t = random_eltwise(r);
    const bool first = t.c.flags & NPU_ELTWISEF_B_IMM || r.chance(2);
    uint32_t step = 1;
    for (int d = 4; d >= 0; --d) {
      (first ? t.c.a_stride : t.c.b_stride)[d] = step;
      step *= t.c.dims[d];
    }
    (first ? t.a : t.b) = r.values(t.outputs());
    const Values want = run(*backend_, t);
    Values place = first ? t.a : t.b;
    const float *b = t.c.flags & NPU_ELTWISEF_B_IMM ? nullptr : t.b.data();
    backend_->run(t.c, first ? place.data() : t.a.data(), first ? b : place.data(), place.data());
    ASSERT_EQ(0, std::memcmp(want.data(), place.data(), want.size() * 4)) << describe(t.c);
  }
}

// All pairs of special values meet all operations; lengths beside vector widths.
TEST_P(Pointwise, ElementwiseOperationsTreatSpecialValuesAsIeee754) {
  const Values special = {0.0f, -0.0f, 1, -1, kInf, -kInf, kNaN, 0x1p-149f, -0x1p-130f, 3.4e38f};
  for (unsigned op = NPU_ELTWISE_ADD; op <= NPU_ELTWISE_MIN; ++op) {
    EltwiseCase t;
    t.c.subop = op;
    for (uint32_t &d : t.c.dims) d = 1;
    t.c.dims[3] = t.c.dims[4] = special.size();
    t.c.a_stride[3] = t.c.b_stride[4] = 1;
    t.a = t.b = special;
    const Values got = run(*backend_, t);
    for (size_t i = 0; i < got.size(); ++i) {
      const float a = special[i / special.size()], b = special[i % special.size()];
      float want = a;
      if (op == NPU_ELTWISE_ADD) want = a + b;
      if (op == NPU_ELTWISE_SUB) want = a - b;
      if (op == NPU_ELTWISE_MUL) want = a * b;
      if (op == NPU_ELTWISE_DIV) want = a / b;
      if (op >= NPU_ELTWISE_MAX) {
        const bool less = a < b || (a == b && std::signbit(a) > std::signbit(b));
        want = std::isnan(a) || std::isnan(b) ? kNaN : ((op == NPU_ELTWISE_MAX) == less ? b : a);
      }
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got[i])) << op << ": " << a << ", " << b;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << op << ": " << a << ", " << b;
    }
  }
}

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

TEST_P(Pointwise, FunctionsAreWithinTheBoundForAllMagnitudes) {
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

TEST_P(Pointwise, FunctionsOfNaNAreNaN) {
  for (const uint8_t act :
       {NPU_ACT_NONE, NPU_ACT_RELU, NPU_ACT_CLIP, NPU_ACT_LEAKY_RELU, NPU_ACT_SIGMOID, NPU_ACT_TANH})
    for (const size_t count : {1, 5, 16, 33}) {
      const Values out = unary(act, Values(count, kNaN), 0, act == NPU_ACT_CLIP ? 1 : 0);
      for (const float x : out) EXPECT_TRUE(std::isnan(x)) << int{act};
    }
}

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

TEST_P(Pointwise, SoftmaxIsWithinTheBound) {
  Random r(25);
  for (const uint8_t op : {NPU_SOFTMAX_NORMAL, NPU_SOFTMAX_LOG})
    for (const uint32_t cols : {1, 2, 3, 7, 10, 16, 31, 100, 1000, 70000})
      for (const float size : {0.01f, 1.0f, 30.0f, 1000.0f}) {
        const Values in = r.values(cols * (cols > 1000 ? 1 : 3), size);
        expect_softmax(op, in, softmax(op, in, cols), cols);
        if (HasFatalFailure()) return;
      }
}

TEST_P(Pointwise, SoftmaxOfLargeAndInfiniteValues) {
  EXPECT_EQ(softmax(NPU_SOFTMAX_NORMAL, {3e38f, 3e38f, -3e38f, -kInf}, 4), (Values{0.5f, 0.5f, 0, 0}));
  EXPECT_EQ(softmax(NPU_SOFTMAX_LOG, {0, -kInf}, 2), (Values{0, -kInf}));
  const Values out = softmax(NPU_SOFTMAX_NORMAL, {kNaN, 1, 2, 1, 2, 3}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(out[i]));
  EXPECT_FALSE(std::isnan(out[3]));  // the other row does not see it
}

}  // namespace
}  // namespace npu::test
