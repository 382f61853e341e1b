// SPDX-License-Identifier: MIT
// CONV: what the chip accepts, what it costs and how it is cut. Results: tests/unit/compute/mac_test.cpp.
#include "tests/unit/commands/product.h"

namespace npu::test {
namespace {

npu_cmd_conv conv() {
  return with<npu_cmd_conv>([](npu_cmd_conv &c) {
    c.n = 1;
    c.ih = c.iw = 4;
    c.ic = 4;
    c.oc = 6;
    c.oh = c.ow = 2;
    c.kh = c.kw = 3;
    c.sh = c.sw = c.dh = c.dw = 1;
    c.groups = 2;
    c.wgt_region = kLocal;
    c.out_addr = 4096;
  });
}

class ConvChecks : public Checks {};

TEST_F(ConvChecks, Encoding) { encoding({kTiu}, conv(), 0, 0x7); }

TEST_F(ConvChecks, Fields) {
  BAD(conv(), 24, c.psum_addr = 64);
  BAD(conv(), 28, c.in_dtype = NPU_DTYPE_U8);
  BAD(conv(), 29, c.wgt_dtype = NPU_DTYPE_S8);
  BAD(conv(), 30, c.out_dtype = 99);
  for (const uint8_t act : {NPU_ACT_EXP, NPU_ACT_GELU, NPU_ACT_COS}) BAD(conv(), 31, c.act = act);
  BAD(conv(), 31, c.act = 255);
  BAD(conv(), 40, c.param_offset = 4);
  BAD(conv(), 49, c.param_region = 1);
  BAD(conv(), 52, c.n = 0);
  BAD(conv(), 56, c.ih = 0);
  BAD(conv(), 60, c.iw = 0);
  BAD(conv(), 64, c.ic = 0);
  BAD(conv(), 68, c.oc = 0);
  BAD(conv(), 72, c.oh = 0);
  BAD(conv(), 76, c.ow = 0);
  BAD(conv(), 80, c.kh = 0);
  BAD(conv(), 82, c.kw = 0);
  BAD(conv(), 84, c.sh = 0);
  BAD(conv(), 86, c.sw = 0);
  BAD(conv(), 88, c.dh = 0);
  BAD(conv(), 90, c.dw = 0);
  BAD(conv(), 92, c.groups = 0);
  BAD(conv(), 92, c.groups = 3);  // divides oc only
  BAD(conv(), 92, c.groups = 4);  // divides ic only
  BAD(conv(), 112, c.in_zp = 1);
  BAD(conv(), 116, c.out_zp = -1);
  BAD(conv(), 2, c.flags = NPU_CONV_PSUM_OUT | NPU_CONV_BIAS);
  BAD(conv(), 31, (c.flags = NPU_CONV_PSUM_OUT, c.act = NPU_ACT_RELU));
  npu_cmd_conv c = conv();
  c.flags = NPU_CONV_PSUM_IN | NPU_CONV_BIAS;
  c.psum_addr = c.out_addr;
  c.param_region = kLocal;
  ok(kTiu, c);
  c.pad_t = c.pad_l = 100;  // windows that see nothing are zero
  ok(kTiu, c);
  c.pad_t = c.pad_l = -100;
  ok(kTiu, c);
  activation_parameters(conv(), [](npu_cmd_conv &x, uint8_t act) { x.act = act; });
}

TEST_F(ConvChecks, LocalOperands) {
  npu_cmd_conv c = conv();
  c.flags = NPU_CONV_PSUM_IN | NPU_CONV_BIAS;
  c.param_region = kLocal;
  local_operand(c, 4 * 4 * 4 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(c, 2 * 2 * 6 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  local_operand(c, 2 * 2 * 6 * 4, false, [](auto &x, uint32_t v) { x.psum_addr = v; });
  local_operand(c, 6 * 9 * 2 * 4, false, [](auto &x, uint32_t v) { x.wgt_offset = v; });
  local_operand(c, 6 * 4, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  c = conv();
  c.n = c.ih = c.iw = c.ic = c.oc = c.oh = c.ow = 0x80000000u;
  c.kh = c.kw = 0xffff;
  access(kTiu, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST_F(ConvChecks, StreamedOperands) {
  npu_cmd_conv c = conv();
  c.flags = NPU_CONV_BIAS;
  const uint32_t weights = 6 * 9 * 2 * 4, bias = 24;
  const auto set = [&](uint8_t wr, uint64_t wo, uint8_t pr, uint64_t po) {
    c.wgt_region = wr;
    c.wgt_offset = wo;
    c.param_region = pr;
    c.param_offset = po;
    return c;
  };
  ok(kTiu, set(1, kRegion - weights, 0, kRegion - bias));
  ok(kTiu, set(0, 1, 1, 3));  // any alignment
  access(kTiu, set(1, kRegion - weights + 1, 0, kRegion), NPU_STATUS_REGION_BOUNDS, 1, kRegion - weights + 1, weights,
         false);
  access(kTiu, set(0, 0, 0, kRegion - bias + 1), NPU_STATUS_REGION_BOUNDS, 0, kRegion - bias + 1, bias, false);
  access(kTiu, set(2, 0, 0, 0), NPU_STATUS_REGION_ACCESS, 2, 0, weights, false);
  access(kTiu, set(0, 0, 3, 0), NPU_STATUS_REGION_ACCESS, 3, 0, bias, false);
}

// ---- costs ----

npu_cmd_conv square(uint32_t size, uint32_t ic, uint32_t oc, uint16_t kernel, uint32_t groups, uint8_t region) {
  return with<npu_cmd_conv>([&](npu_cmd_conv &c) {
    c.n = 1;
    c.ih = c.iw = c.oh = c.ow = size;
    c.ic = ic;
    c.oc = oc;
    c.kh = c.kw = kernel;
    c.sh = c.sw = c.dh = c.dw = 1;
    c.groups = groups;
    c.wgt_region = c.param_region = region;
  });
}

TEST(ConvCost, IsAsComputedByHand) {
  // 16 * 16 pixels, one block of channels: 256 / 2. Local: 1024 in, 32768 out, 128 of weights: 33920 / 512 = 67.
  npu_cmd_conv c = square(16, 1, 32, 1, 1, NPU_REGION_LOCAL);
  expect_cost(c, 32 + 128, 0, 256 * 32, "arithmetic decides");
  c.flags = NPU_CONV_PSUM_IN;  // 32768 more: 66688 / 512 = 130.25
  expect_cost(c, 32 + 131, 0, 256 * 32, "partial sums are an operand");
  c.flags = NPU_CONV_PSUM_OUT;  // the result as ever
  expect_cost(c, 32 + 128, 0, 256 * 32, "partial sums as a result cost as a result");
  expect_cost(square(3, 1, 1, 1, 1, NPU_REGION_LOCAL), 32 + 5, 0, 9, "9 pixels, 2 a cycle");
  // 33 channels are 2 blocks on both sides: 9 * 4 / 2.
  expect_cost(square(3, 33, 33, 1, 1, NPU_REGION_LOCAL), 32 + 18, 0, 9 * 33 * 33, "blocks of channels");
  // A window of 7 * 7 * 3 = 147 elements is 5 blocks, 64 channels 2: 64 pixels * 10 / 2. Weights 64 * 147 * 4 = 588
  // * 64.
  expect_cost(square(8, 3, 64, 7, 1, 0), 32 + 320, 588 * 64, 64 * 64 * 147, "all of a window counts");
  // 2 groups: a window of 9 * 17 = 153 elements is 5 blocks, 34 channels of both are 2: 9 pixels * 10 / 2.
  // Weights 34 * 9 * 17 * 4 = 20808 = 325.125 * 64.
  expect_cost(square(3, 34, 34, 3, 2, 0), 32 + 45, 326 * 64, 9 * 34 * 9 * 17, "columns may be of several groups");
  // Depthwise: one block of 9 elements, 40 channels are 2: 9 pixels * 2 / 2. Weights 1440 = 22.5 * 64,
  // bias 160 = 2.5 * 64, each rounded up.
  npu_cmd_conv d = square(3, 40, 40, 3, 40, 0);
  d.flags = NPU_CONV_BIAS;
  expect_cost(d, 32 + 9, 23 * 64 + 3 * 64, 9 * 40 * 9, "depthwise");
  d.act = NPU_ACT_SIGMOID;  // 360 results: 4 * 3
  expect_cost(d, 32 + 9 + 12, 23 * 64 + 3 * 64, 9 * 40 * 9, "a fused sigmoid");
  // 256 pixels / 2, and 2 * 256 * 32 * 4 = 65536 bytes / 512 are the same; with the weights there, 1152 more.
  expect_cost(square(16, 32, 32, 3, 32, 0), 32 + 128, 18 * 64, 256 * 32 * 9, "as fast as local memory is");
  expect_cost(square(16, 32, 32, 3, 32, NPU_REGION_LOCAL), 32 + 131, 0, 256 * 32 * 9, "local memory decides");
}

// ---- slices ----

TEST(ConvSlices, GiveTheSameBits) {
  Random r(1);
  model::Reference reference;
  for (unsigned i = 0; i < 100; ++i) {
    const ConvCase t = random_conv(r);
    const bool in_place = i % 2;
    Values whole = prepared(t.psum, t.outputs(), in_place);
    reference.run(t.c, t.in.data(), model::Streamed::at(t.wgt.data()), bias_of(t.c, t.bias),
                  in_place ? (t.psum.empty() ? nullptr : whole.data()) : or_null(t.psum), whole.data());
    for (const model::SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limits " + std::to_string(limits.operations) + " " +
                   std::to_string(limits.weights));
      Values cut = prepared(t.psum, t.outputs(), in_place), link(t.c.oc);
      for_slices(t.c, limits, [&](const model::Product<npu_cmd_conv> &s) {
        EXPECT_EQ(s.weights, size_t{s.c.oc} * s.c.kh * s.c.kw * (s.c.ic / s.c.groups));
        EXPECT_LE(s.wgt + s.weights, t.wgt.size());
        const size_t cells = size_t{s.c.n} * s.c.ih * s.c.iw;
        EXPECT_LE(s.in + (cells - 1) * s.c.in_pitch + s.c.ic, t.in.size());
        const float *bias = bias_of(s.c, t.bias, s.param);
        reference.run(s.c, t.in.data() + s.in, model::Streamed::at(t.wgt.data() + s.wgt), bias,
                      psum_of(s, t.psum, cut, in_place, link), out_of(s, cut, link));
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

uint64_t work(const npu_cmd_conv &c) {
  return uint64_t{c.n} * c.oh * c.ow * c.oc * std::min<uint64_t>(c.kh, c.ih) * std::min<uint64_t>(c.kw, c.iw) *
         (c.ic / c.groups);
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

TEST(ConvSlices, AreBounded) {
  const npu_cmd_conv cases[] = {conv_of(512, 1, 1, 512),         conv_of(512, 8, 1, 512),
                                conv_of(512, 8, 8, 512),         conv_of(512, 8, 8, 512, 2),
                                conv_of(1, 1 << 20, 1 << 20, 1), conv_of(16, 4096, 4096, 65535),
                                conv_of(1024, 2, 2, 3, 2),       conv_of(14, 1024, 1024, 3)};
  for (const npu_cmd_conv &c : cases) {
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(first_slices(c,
                           [](const model::Product<npu_cmd_conv> &s) {
                             EXPECT_LE(work(s.c), model::kStepOperations);
                             EXPECT_LE(s.weights, model::kStepOperations);
                           }) > 1,
              work(c) > model::kStepOperations);
  }
}

TEST(ConvSlices, OrdinaryCommandsStayWhole) {
  const npu_cmd_conv c = conv_of(28, 64, 64, 3);
  EXPECT_EQ(
      first_slices(c, [&](const model::Product<npu_cmd_conv> &s) { EXPECT_EQ(0, std::memcmp(&s.c, &c, sizeof c)); }),
      1u);
}

}  // namespace
}  // namespace npu::test
