// SPDX-License-Identifier: MIT
// CONV and MATMUL of every back end against double precision, within the documented bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/unit/compute/oracle.h"

namespace npu::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class Mac : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = make_backend(GetParam());
    ASSERT_TRUE(backend_);
  }
  std::unique_ptr<model::Backend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Backends, Mac, testing::ValuesIn(backend_names()), [](const auto &i) { return i.param; });

TEST_P(Mac, ConvolutionsOfRandomShapesAreWithinTheBound) {
  Random r(1);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const ConvCase t = random_conv(r);
    const Origin origin{r.chance(2), 3, uint64_t(i) << 32};
    expect_near(expect(t), run(*backend_, t, origin, r.chance(2)), describe(t.c));
  }
}

TEST_P(Mac, MatrixProductsOfRandomShapesAreWithinTheBound) {
  Random r(2);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const MatmulCase t = random_matmul(r);
    const Origin origin{r.chance(2), 3, uint64_t(i) << 32};
    expect_near(expect(t), run(*backend_, t, origin, r.chance(2)), describe(t.c));
  }
}

ConvCase conv_case(Random &r, uint32_t size, uint32_t ic, uint32_t oc, uint16_t k, int pad, uint32_t groups = 1) {
  ConvCase t;
  npu_cmd_conv &c = t.c;
  c.n = 1;
  c.ih = c.iw = size;
  c.ic = ic;
  c.oc = oc;
  c.kh = c.kw = k;
  c.sh = c.sw = c.dh = c.dw = 1;
  c.groups = groups;
  c.pad_t = c.pad_l = pad;
  c.oh = c.ow = std::max<int>(1, int(size) + 2 * pad - k + 1);
  t.in = r.values(size_t{size} * size * ic);
  t.wgt = r.values(size_t{oc} * k * k * (ic / groups));
  t.bias = r.values(oc);
  t.psum = r.values(t.outputs());
  return t;
}

TEST_P(Mac, ShapesOfRealNetworksAreWithinTheBound) {
  Random r(3);
  for (ConvCase t :
       {conv_case(r, 14, 64, 64, 3, 1), conv_case(r, 14, 64, 256, 1, 0), conv_case(r, 9, 3, 64, 7, 3),
        conv_case(r, 14, 128, 128, 3, 1, 128), conv_case(r, 7, 120, 240, 1, 0, 3), conv_case(r, 12, 4, 36, 5, 2, 4)}) {
    t.c.flags = NPU_CONV_BIAS;
    t.c.act = NPU_ACT_RELU;
    expect_near(expect(t), run(*backend_, t), describe(t.c));
  }
}

TEST_P(Mac, WindowsThatReachFarBeyondTheImageReadZeroes) {
  Random r(4);
  for (ConvCase t : {conv_case(r, 2, 5, 7, 5, 0), conv_case(r, 3, 8, 16, 3, 11), conv_case(r, 4, 6, 6, 9, 4, 6)}) {
    t.c.flags = NPU_CONV_BIAS;
    expect_near(expect(t), run(*backend_, t), describe(t.c));
  }
  // Not one cell of any window is inside: the bias alone remains, exactly.
  ConvCase t = conv_case(r, 3, 8, 16, 3, 0);
  t.c.flags = NPU_CONV_BIAS;
  t.c.pad_t = 100;
  const Values out = run(*backend_, t);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], t.bias[i % 16]);
}

TEST_P(Mac, InputChannelsMayBeSplitOverPartialSums) {
  Random r(5);
  for (const int parts : {2, 3, 5}) {
    ConvCase whole = conv_case(r, 8, 60, 40, 3, 1);
    whole.c.flags = NPU_CONV_BIAS;
    const int ic = 60 / parts;
    Values sums;
    for (int p = 0; p < parts; ++p) {
      ConvCase part = whole;
      part.c.ic = ic;
      part.in.clear();
      part.wgt.clear();
      for (size_t cell = 0; cell < whole.in.size() / 60; ++cell)
        part.in.insert(part.in.end(), &whole.in[cell * 60 + p * ic], &whole.in[cell * 60 + p * ic] + ic);
      for (size_t cell = 0; cell < whole.wgt.size() / 60; ++cell)
        part.wgt.insert(part.wgt.end(), &whole.wgt[cell * 60 + p * ic], &whole.wgt[cell * 60 + p * ic] + ic);
      const bool last = p == parts - 1;
      part.c.flags = (p ? NPU_CONV_PSUM_IN : 0) | (last ? NPU_CONV_BIAS : NPU_CONV_PSUM_OUT);
      part.psum = sums;
      sums = run(*backend_, part, {}, true);
    }
    expect_near(expect(whole), sums, "split in " + std::to_string(parts));
  }
}

TEST_P(Mac, ResultsRepeatBitForBit) {
  Random r(6);
  for (int i = 0; i < 60; ++i) {
    const ConvCase t = random_conv(r);
    const MatmulCase m = random_matmul(r);
    const Values first = run(*backend_, t), product = run(*backend_, m);
    // Constant and streamed operands, and places in memory, make no difference.
    for (const Origin &origin : {Origin{}, Origin{true, 1, 0x1000u * (i + 1)}, Origin{true, 1, 0x1000u * (i + 1)}}) {
      const Values again = run(*backend_, t, origin, true), again_product = run(*backend_, m, origin, true);
      ASSERT_EQ(0, std::memcmp(first.data(), again.data(), first.size() * 4)) << describe(t.c);
      ASSERT_EQ(0, std::memcmp(product.data(), again_product.data(), product.size() * 4)) << describe(m.c);
    }
    backend_->forget(1);
  }
}

TEST_P(Mac, NaNStaysNaNThroughEveryActivation) {
  Random r(7);
  for (const uint8_t act :
       {NPU_ACT_NONE, NPU_ACT_RELU, NPU_ACT_CLIP, NPU_ACT_LEAKY_RELU, NPU_ACT_SIGMOID, NPU_ACT_TANH}) {
    ConvCase t = conv_case(r, 6, 16, 32, 3, 1);
    t.c.act = act;
    t.c.act_a = act == NPU_ACT_CLIP ? -1 : (act == NPU_ACT_LEAKY_RELU ? 0.1f : 0);
    t.c.act_b = act == NPU_ACT_CLIP ? 1 : 0;
    t.in[0] = kNaN;  // the pixels at the corner see it, the others do not
    // Constant weights are computed with differently from streamed ones, the second time differently from the first.
    for (const Origin &origin : {Origin{}, Origin{true, 1, act}, Origin{true, 1, act}}) {
      const Values out = run(*backend_, t, origin);
      for (size_t pixel = 0; pixel < 36; ++pixel)
        for (int o = 0; o < 32; ++o)
          ASSERT_EQ(pixel / 6 <= 1 && pixel % 6 <= 1, std::isnan(out[pixel * 32 + o]))
              << "act " << int{act} << " pixel " << pixel;
    }
    MatmulCase m;
    m.c.batch = 1;
    m.c.m = 4;
    m.c.k = 20;
    m.c.n = 24;
    m.c.act = act;
    m.c.act_a = t.c.act_a;
    m.c.act_b = t.c.act_b;
    m.a = r.values(80);
    m.b = r.values(480);
    m.a[20] = kNaN;
    const Values product = run(*backend_, m);
    for (int i = 0; i < 96; ++i)
      ASSERT_EQ(i / 24 == 1, std::isnan(product[i])) << "act " << int{act} << " element " << i;
  }
}

TEST_P(Mac, InfinityIsClampedByActivations) {
  Random r(8);
  ConvCase t = conv_case(r, 4, 16, 16, 1, 0);
  t.in[0] = -std::numeric_limits<float>::infinity();
  for (float &w : t.wgt) w = std::fabs(w) + 0.1f;
  for (const Origin &origin : {Origin{}, Origin{true, 1, 0x1000}}) {
    t.c.act = NPU_ACT_RELU;
    EXPECT_EQ(run(*backend_, t, origin)[0], 0.0f);
    t.c.act = NPU_ACT_TANH;
    EXPECT_EQ(run(*backend_, t, origin)[0], -1.0f);
    t.c.act = NPU_ACT_SIGMOID;
    EXPECT_EQ(run(*backend_, t, origin)[0], 0.0f);
  }
}

// What a NaN among the weights, bias or partial sums touches is NaN, too.
TEST_P(Mac, NaNMayComeFromAnyOperand) {
  Random r(11);
  for (const uint64_t va : {0x1000, 0x2000, 0x3000}) {
    ConvCase t = conv_case(r, 4, 16, 32, 1, 0);
    t.c.act = NPU_ACT_RELU;
    t.c.flags = NPU_CONV_BIAS | (va == 0x3000 ? NPU_CONV_PSUM_IN : 0);
    (va == 0x1000 ? t.wgt[0] : va == 0x2000 ? t.bias[0] : t.psum[0]) = kNaN;
    const Values out = run(*backend_, t, {true, 1, va});
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(va == 0x3000 ? i == 0 : i % 32 == 0, std::isnan(out[i])) << va << ' ' << i;
  }
}

TEST_P(Mac, InfiniteWeightsOutsideTheImageAddNothing) {
  Random r(12);
  for (ConvCase t : {conv_case(r, 6, 8, 8, 3, 1), conv_case(r, 6, 32, 32, 3, 1, 32), conv_case(r, 6, 16, 16, 3, 1, 4),
                     conv_case(r, 6, 3, 16, 3, 1)})
    for (const float weight : {INFINITY, -INFINITY, NAN})
      for (const bool constant : {false, true}) {
        SCOPED_TRACE(describe(t.c));
        const size_t row = 3 * (t.c.ic / t.c.groups);
        std::fill(t.in.begin(), t.in.end(), 1.0f);
        // The first row of each kernel, which lies outside the image for the first row of the result.
        for (size_t o = 0; o < t.c.oc; ++o)
          std::fill_n(t.wgt.begin() + static_cast<std::ptrdiff_t>(o * 3 * row), row, weight);
        const uint64_t va = 0x100000 * (t.c.ic + t.c.groups) + (std::isnan(weight) ? 0x50000
                                                                : weight > 0       ? 0
                                                                                   : 0x80000);
        const Values out = run(*backend_, t, {constant, 1, va});
        const size_t first = size_t{t.c.ow} * t.c.oc;
        for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::isfinite(out[i]), i < first) << i;
      }
}

TEST_P(Mac, DenormalsAreKept) {
  MatmulCase m;
  m.c.batch = m.c.m = 1;
  m.c.k = m.c.n = 16;
  m.a.assign(16, 0x1p-70f);
  m.b.assign(256, 0x1p-70f);
  for (const float x : run(*backend_, m)) ASSERT_EQ(x, 0x1p-136f);
}

TEST_P(Mac, CoresMayComputeAtTheSameTime) {
  const auto core = [&](uint32_t seed) {
    Random r(seed);
    for (int i = 0; i < 40; ++i) {
      const ConvCase t = random_conv(r);
      expect_near(expect(t), run(*backend_, t, {true, seed, uint64_t(i) << 32}), describe(t.c));
      const MatmulCase m = random_matmul(r);
      expect_near(expect(m), run(*backend_, m, {true, seed, uint64_t(i + 100) << 32}), describe(m.c));
    }
  };
  std::thread a(core, 71), b(core, 72);
  a.join();
  b.join();
}

TEST_P(Mac, AnOperandThatCannotBeFetchedEndsTheCommand) {
  Random r(9);
  const ConvCase t = conv_case(r, 4, 4, 4, 1, 0);
  const auto nothing = [](void *) -> const void * { return nullptr; };
  const model::Streamed lost{nothing, nullptr, t.wgt.size() * 4, true, 1, 0x5000};
  Values out(t.outputs());
  EXPECT_FALSE(backend_->run(t.c, t.in.data(), lost, nullptr, nullptr, out.data()));
  npu_cmd_matmul m = hw::make<npu_cmd_matmul>();
  m.batch = m.m = m.k = m.n = 1;
  EXPECT_FALSE(backend_->run(m, t.in.data(), lost, nullptr, nullptr, out.data()));
  // The failure leaves nothing behind.
  expect_near(expect(t), run(*backend_, t, {true, 1, 0x5000}), "after the failure");
}

TEST_P(Mac, StreamedOperandsMayHaveAnyAlignment) {
  Random r(10);
  ConvCase t = conv_case(r, 5, 19, 21, 3, 1);
  t.c.flags = NPU_CONV_BIAS;
  std::vector<char> bytes(t.wgt.size() * 4 + 1), bias(t.bias.size() * 4 + 3);
  std::memcpy(bytes.data() + 1, t.wgt.data(), t.wgt.size() * 4);
  std::memcpy(bias.data() + 3, t.bias.data(), t.bias.size() * 4);
  const auto fetch = [](void *arg) -> const void * { return arg; };
  Values out(t.outputs());
  t.c.act = NPU_ACT_RELU;
  for (const bool constant : {false, true}) {
    const model::Streamed wgt{fetch, bytes.data() + 1, t.wgt.size() * 4, constant, 0, 0x1001};
    EXPECT_TRUE(backend_->run(t.c, t.in.data(), wgt, bias.data() + 3, nullptr, out.data()));
    expect_near(expect(t), out, "odd addresses");
  }
}

}  // namespace
}  // namespace npu::test
