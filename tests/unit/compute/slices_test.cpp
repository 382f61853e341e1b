// SPDX-License-Identifier: MIT
// Commands cut into slices: run one after the other on the reference they give, bit by bit, what the whole command
// gives, and none is larger than its limit.
#include "qemu-device/model/src/slices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/unit/compute/cases.h"

namespace npu::test {
namespace {

using model::Pointwise;
using model::Product;
using model::SliceLimits;
using model::Streamed;

model::Reference reference;

constexpr SliceLimits kLimits[] = {{1 << 12, 1 << 20}, {400, 1 << 20}, {60, 1 << 20}, {1, 1 << 20},
                                   {1 << 12, 40},      {1 << 20, 12},  {1, 1}};

/// Bit by bit; which NaN it is says nothing.
void expect_same(const Values &whole, const Values &cut) {
  ASSERT_EQ(whole.size(), cut.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    if (std::isnan(whole[i]) && std::isnan(cut[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(whole[i]), std::bit_cast<uint32_t>(cut[i]))
        << "element " << i << ": " << whole[i] << " " << cut[i];
  }
}

const float *or_null(const Values &v) { return v.empty() ? nullptr : v.data(); }

template <class Cmd>
const float *bias_of(const Cmd &c, const Values &bias, uint64_t first = 0) {
  return c.flags & NPU_CONV_BIAS ? bias.data() + first : nullptr;
}

/// A result as it is before a command, with the partial sums in its place if they are to be.
Values prepared(const Values &psum, size_t outputs, bool in_place) {
  return in_place && !psum.empty() ? psum : Values(outputs, NAN);
}

template <class Cmd>
const float *psum_of(const Product<Cmd> &s, const Values &psum, const Values &out, bool in_place) {
  if (s.chained || (in_place && !psum.empty())) return out.data() + s.out;
  return psum.empty() ? nullptr : psum.data() + s.out;
}

TEST(Slices, OfConvolutionsGiveTheSameBits) {
  Random r(1);
  for (unsigned i = 0; i < 100; ++i) {
    const ConvCase t = random_conv(r);
    const bool in_place = i % 2;
    Values whole = prepared(t.psum, t.outputs(), in_place);
    reference.run(t.c, t.in.data(), Streamed::at(t.wgt.data()), bias_of(t.c, t.bias),
                  in_place ? (t.psum.empty() ? nullptr : whole.data()) : or_null(t.psum), whole.data());
    for (const SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limits " + std::to_string(limits.operations) + " " +
                   std::to_string(limits.weights));
      Values cut = prepared(t.psum, t.outputs(), in_place);
      for_slices(t.c, limits, [&](const Product<npu_cmd_conv> &s) {
        EXPECT_EQ(s.weights, size_t{s.c.oc} * s.c.kh * s.c.kw * (s.c.ic / s.c.groups));
        EXPECT_LE(s.wgt + s.weights, t.wgt.size());
        Values in(t.in.begin() + static_cast<std::ptrdiff_t>(s.in), t.in.end());
        if (s.c.ic != t.c.ic) {
          in.clear();
          for (size_t cell = 0; cell < size_t{s.c.n} * s.c.ih * s.c.iw; ++cell)
            for (size_t k = 0; k < s.c.ic; ++k) in.push_back(t.in.at(s.in + cell * t.c.ic + k));
        }
        EXPECT_GE(in.size(), size_t{s.c.n} * s.c.ih * s.c.iw * s.c.ic);
        const float *bias = bias_of(s.c, t.bias, s.param);
        reference.run(s.c, in.data(), Streamed::at(t.wgt.data() + s.wgt), bias, psum_of(s, t.psum, cut, in_place),
                      cut.data() + s.out);
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

TEST(Slices, OfMatrixProductsGiveTheSameBits) {
  Random r(2);
  for (unsigned i = 0; i < 100; ++i) {
    const MatmulCase t = random_matmul(r);
    const bool in_place = i % 2;
    Values whole = prepared(t.psum, t.outputs(), in_place);
    reference.run(t.c, t.a.data(), Streamed::at(t.b.data()), bias_of(t.c, t.bias),
                  in_place ? (t.psum.empty() ? nullptr : whole.data()) : or_null(t.psum), whole.data());
    for (const SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limits " + std::to_string(limits.operations) + " " +
                   std::to_string(limits.weights));
      Values cut = prepared(t.psum, t.outputs(), in_place);
      for_slices(t.c, limits, [&](const Product<npu_cmd_matmul> &s) {
        EXPECT_LE(s.wgt + s.weights, t.b.size());
        const float *bias = bias_of(s.c, t.bias, s.param);
        reference.run(s.c, t.a.data() + s.in, Streamed::at(t.b.data() + s.wgt), bias, psum_of(s, t.psum, cut, in_place),
                      cut.data() + s.out);
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

TEST(Slices, OfPoolingGiveTheSameBits) {
  Random r(3);
  for (unsigned i = 0; i < 100; ++i) {
    const PoolCase t = random_pool(r);
    Values whole(t.outputs(), NAN);
    reference.run(t.c, t.in.data(), whole.data());
    for (const SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limit " + std::to_string(limits.operations));
      Values cut(t.outputs(), NAN);
      for_slices(t.c, limits, [&](const Pointwise<npu_cmd_pool> &s) {
        EXPECT_LE(s.a + size_t{s.c.n} * s.c.ih * s.c.iw * s.c.c, t.in.size());
        reference.run(s.c, t.in.data() + s.a, cut.data() + s.out);
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

TEST(Slices, OfElementwiseCommandsGiveTheSameBits) {
  Random r(4);
  for (unsigned i = 0; i < 100; ++i) {
    const EltwiseCase t = random_eltwise(r);
    const bool immediate = t.c.flags & NPU_ELTWISEF_B_IMM;
    Values whole(t.outputs(), NAN);
    reference.run(t.c, t.a.data(), immediate ? nullptr : t.b.data(), whole.data());
    for (const SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limit " + std::to_string(limits.operations));
      Values cut(t.outputs(), NAN);
      for_slices(t.c, limits, [&](const Pointwise<npu_cmd_eltwise> &s) {
        reference.run(s.c, t.a.data() + s.a, immediate ? nullptr : t.b.data() + s.b, cut.data() + s.out);
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

TEST(Slices, OfUnaryAndSoftmaxCoverEveryElementOnce) {
  for (const SliceLimits &limits : kLimits) {
    auto unary = hw::make<npu_cmd_unary>();
    unary.count = 1000;
    unary.subop = NPU_ACT_TANH;
    uint64_t next = 0;
    for_slices(unary, limits, [&](const Pointwise<npu_cmd_unary> &s) {
      EXPECT_EQ(s.a, next);
      EXPECT_EQ(s.out, next);
      next += s.c.count;
      return true;
    });
    EXPECT_EQ(next, 1000u);
    auto softmax = hw::make<npu_cmd_softmax>();
    softmax.rows = 30;
    softmax.cols = 7;
    next = 0;
    for_slices(softmax, limits, [&](const Pointwise<npu_cmd_softmax> &s) {
      EXPECT_EQ(s.a, next);
      EXPECT_EQ(s.out, next);
      EXPECT_EQ(s.c.cols, 7u);
      next += uint64_t{s.c.rows} * 7;
      return true;
    });
    EXPECT_EQ(next, 210u);
  }
}

// ---- how large slices are ----

uint64_t work(const npu_cmd_conv &c) {
  return uint64_t{c.n} * c.oh * c.ow * c.oc * std::min<uint64_t>(c.kh, c.ih) * std::min<uint64_t>(c.kw, c.iw) *
         (c.ic / c.groups);
}

/// Looks at the first slices of a command that may have very many.
template <class Cmd, class F>
unsigned first_slices(const Cmd &c, F look) {
  unsigned slices = 0;
  model::for_slices(c, {}, [&](const auto &s) {
    look(s);
    return ++slices < 50;
  });
  return slices;
}

npu_cmd_conv conv_of(uint32_t image, uint32_t ic, uint32_t oc, uint16_t kernel, uint32_t groups = 1) {
  auto c = hw::make<npu_cmd_conv>();
  c.n = 1;
  c.ih = c.iw = c.oh = c.ow = image;
  c.ic = ic;
  c.oc = oc;
  c.kh = c.kw = kernel;
  c.sh = c.sw = c.dh = c.dw = 1;
  c.groups = groups;
  c.pad_t = c.pad_l = kernel / 2;
  return c;
}

TEST(Slices, OfConvolutionsAreBounded) {
  const npu_cmd_conv cases[] = {conv_of(512, 1, 1, 512),         conv_of(512, 8, 1, 512),
                                conv_of(512, 8, 8, 512),         conv_of(512, 8, 8, 512, 2),
                                conv_of(1, 1 << 20, 1 << 20, 1), conv_of(16, 4096, 4096, 65535),
                                conv_of(1024, 2, 2, 3, 2),       conv_of(14, 1024, 1024, 3)};
  for (const npu_cmd_conv &c : cases) {
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(first_slices(c,
                           [](const Product<npu_cmd_conv> &s) {
                             EXPECT_LE(work(s.c), model::kStepOperations);
                             EXPECT_LE(s.weights, model::kStepOperations);
                           }) > 1,
              work(c) > model::kStepOperations);
  }
}

TEST(Slices, OfMatrixProductsAreBounded) {
  struct {
    uint32_t batch, m, k, n, b_stride;
  } cases[] = {{65536, 1, 1 << 20, 1, 0}, {65536, 1, 1 << 20, 1, 0xffffffff}, {1, 1 << 20, 1, 1 << 20, 0},
               {1 << 21, 1, 1, 1, 1},     {1, 1, 1 << 20, 1 << 20, 0},        {1, 512, 512, 512, 0}};
  for (const auto &t : cases)
    for (const uint16_t flags : {uint16_t{0}, uint16_t{NPU_CONV_TRANS_B}}) {
      auto c = hw::make<npu_cmd_matmul>();
      c.flags = flags;
      c.batch = t.batch;
      c.m = t.m;
      c.k = t.k;
      c.n = t.n;
      c.b_batch_stride = t.b_stride;
      SCOPED_TRACE(describe(c));
      EXPECT_GT(first_slices(c,
                             [](const Product<npu_cmd_matmul> &s) {
                               EXPECT_LE(uint64_t{s.c.batch} * s.c.m * s.c.k * s.c.n, model::kStepOperations);
                               EXPECT_LE(s.weights, model::kStepOperations);
                             }),
                1u);
    }
}

TEST(Slices, OfPoolingAreBounded) {
  auto c = hw::make<npu_cmd_pool>();
  c.n = 1;
  c.ih = c.iw = c.oh = c.ow = 999;
  c.c = 1;
  c.kh = c.kw = 999;
  c.sh = c.sw = c.dh = c.dw = 1;
  c.pad_t = c.pad_l = 499;
  EXPECT_GT(first_slices(c,
                         [](const Pointwise<npu_cmd_pool> &s) {
                           EXPECT_LE(uint64_t{s.c.oh} * s.c.ow * std::min<uint64_t>(s.c.kh, s.c.ih) * s.c.kw,
                                     model::kStepOperations);
                         }),
            1u);
}

TEST(Slices, OrdinaryCommandsStayWhole) {
  const npu_cmd_conv c = conv_of(28, 64, 64, 3);
  EXPECT_EQ(first_slices(c, [&](const Product<npu_cmd_conv> &s) { EXPECT_EQ(0, std::memcmp(&s.c, &c, sizeof c)); }),
            1u);
}

}  // namespace
}  // namespace npu::test
