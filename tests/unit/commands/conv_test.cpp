// SPDX-License-Identifier: MIT
// CONV: what the chip accepts, what it costs, how it is cut, and its results for all types. Those of f32 alone:
// tests/unit/compute/mac_test.cpp.
#include <algorithm>

#include "tests/unit/commands/product.h"
#include "tests/unit/commands/typed_product.h"

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

/// The same of 8 bits, to an 8-bit result.
npu_cmd_conv conv8() {
  npu_cmd_conv c = conv();
  c.in_dtype = c.out_dtype = NPU_DTYPE_U8;
  c.wgt_dtype = NPU_DTYPE_S8;
  c.flags = NPU_CONV_REQUANT;
  c.param_region = kLocal;
  return c;
}

class ConvChecks : public Checks {};

TEST_F(ConvChecks, Encoding) { encoding({kTiu}, conv(), 0, 0xf, 0); }

TEST_F(ConvChecks, Fields) {
  BAD(conv(), 24, c.psum_addr = 64);
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
  BAD(conv(), 12, c.in_pitch = 3);
  BAD(conv(), 124, c.out_pitch = 5);
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

TEST_F(ConvChecks, Types) {
  for (const uint8_t t : {NPU_DTYPE_S16, NPU_DTYPE_U16, NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_S64}) {
    BAD(conv(), 28, c.in_dtype = t);
    BAD(conv(), 29, c.wgt_dtype = t);
    if (t != NPU_DTYPE_S32) BAD(conv(), 30, c.out_dtype = t);
  }
  BAD(conv(), 28, c.in_dtype = 16);
  BAD(conv(), 30, c.out_dtype = 255);
  // Both factors are of one kind.
  for (const uint8_t real : kFloats)
    for (const uint8_t whole : {NPU_DTYPE_S8, NPU_DTYPE_U8}) {
      BAD(conv(), 29, (c.in_dtype = real, c.wgt_dtype = whole));
      BAD(conv8(), 29, (c.in_dtype = whole, c.wgt_dtype = real));
    }
  // What they may become, with a multiplier and without.
  for (const uint8_t in : kFloats)
    for (const uint8_t out :
         {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16, NPU_DTYPE_S8, NPU_DTYPE_U8, NPU_DTYPE_S32}) {
      npu_cmd_conv c = conv();
      c.in_dtype = in;
      c.wgt_dtype = kFloats[(in + 1) % 3];
      c.out_dtype = out;
      is_real(out) ? ok(kTiu, c) : fails(kTiu, c, NPU_STATUS_BAD_FIELD, 30);
      c.flags = NPU_CONV_PSUM_OUT;
      out == NPU_DTYPE_F32 ? ok(kTiu, c) : fails(kTiu, c, NPU_STATUS_BAD_FIELD, 30);
    }
  for (const uint8_t out : {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16, NPU_DTYPE_S8, NPU_DTYPE_U8, NPU_DTYPE_S32}) {
    npu_cmd_conv c = conv8();
    c.out_dtype = out;
    out != NPU_DTYPE_S32 ? ok(kTiu, c) : fails(kTiu, c, NPU_STATUS_BAD_FIELD, 30);
    for (const uint16_t flags : {uint16_t{0}, uint16_t{NPU_CONV_BIAS}, uint16_t{NPU_CONV_PSUM_OUT}}) {
      c.flags = flags;
      c.param_region = flags == NPU_CONV_BIAS ? kLocal : 0;
      out == NPU_DTYPE_S32 ? ok(kTiu, c) : fails(kTiu, c, NPU_STATUS_BAD_FIELD, 30);
    }
  }
  BAD(conv(), 2, (c.flags = NPU_CONV_REQUANT, c.param_region = kLocal));
  BAD(conv8(), 2, c.flags = NPU_CONV_REQUANT | NPU_CONV_PSUM_OUT);
}

TEST_F(ConvChecks, ZeroPointsAreNumbersOfTheirTypes) {
  BAD(conv(), 112, c.in_zp = 1);
  BAD(conv(), 116, c.out_zp = -1);
  BAD(conv(), 120, c.wgt_zp = 1);
  const auto zeros = [&](int32_t in, int32_t wgt, int32_t out) {
    npu_cmd_conv c = conv8();
    c.in_zp = in;
    c.wgt_zp = wgt;
    c.out_zp = out;
    return c;
  };
  ok(kTiu, zeros(0, -128, 0));
  ok(kTiu, zeros(255, 127, 255));
  fails(kTiu, zeros(-1, 0, 0), NPU_STATUS_BAD_FIELD, 112);
  fails(kTiu, zeros(256, 0, 0), NPU_STATUS_BAD_FIELD, 112);
  fails(kTiu, zeros(0, -129, 0), NPU_STATUS_BAD_FIELD, 120);
  fails(kTiu, zeros(0, 128, 0), NPU_STATUS_BAD_FIELD, 120);
  fails(kTiu, zeros(0, 0, -1), NPU_STATUS_BAD_FIELD, 116);
  fails(kTiu, zeros(0, 0, 256), NPU_STATUS_BAD_FIELD, 116);
  BAD(conv8(), 116, (c.out_dtype = NPU_DTYPE_F32, c.out_zp = 1));
  BAD(conv8(), 116, (c.out_dtype = NPU_DTYPE_S32, c.flags = 0, c.param_region = 0, c.out_zp = 1));
}

TEST_F(ConvChecks, ActivationsOfIntegersWorkInSteps) {
  for (const uint8_t act : {NPU_ACT_NONE, NPU_ACT_RELU, NPU_ACT_CLIP, NPU_ACT_LEAKY_RELU}) {
    npu_cmd_conv c = conv8();
    c.act = act;
    ok(kTiu, c);
  }
  for (const uint8_t act : {NPU_ACT_SIGMOID, NPU_ACT_TANH}) {
    BAD(conv8(), 31, c.act = act);
    npu_cmd_conv c = conv8();
    c.act = act;
    c.out_dtype = NPU_DTYPE_F16;
    ok(kTiu, c);
  }
  BAD(conv8(), 31, (c.out_dtype = NPU_DTYPE_S32, c.flags = 0, c.param_region = 0, c.act = NPU_ACT_RELU));
}

TEST_F(ConvChecks, InputDilation) {
  const auto dilated = [](uint32_t size, uint8_t rows, uint8_t cols) {
    npu_cmd_conv c = conv();
    c.ih = c.iw = size;
    c.idh = rows;
    c.idw = cols;
    return c;
  };
  for (const uint8_t d : {0, 1, 2, 255}) ok(kTiu, dilated(4, d, d));
  // Images have at most 2^30 rows and columns between the first and the last.
  const uint32_t most = (1u << 30) / 255;
  fails(kTiu, dilated(most + 2, 255, 0), NPU_STATUS_BAD_FIELD, 50);
  fails(kTiu, dilated(most + 2, 1, 255), NPU_STATUS_BAD_FIELD, 51);
  EXPECT_STATUS(run(kTiu, dilated(most + 1, 255, 255)), NPU_STATUS_LMEM_BOUNDS);
  // 1 is none, as 0.
  for (const uint8_t none : {0, 1}) EXPECT_STATUS(run(kTiu, dilated(0xffffffff, none, none)), NPU_STATUS_LMEM_BOUNDS);
}

TEST_F(ConvChecks, LocalOperandsOfOtherTypesAndPitches) {
  npu_cmd_conv c = conv8();
  c.flags = NPU_CONV_REQUANT | NPU_CONV_BIAS | NPU_CONV_PSUM_IN;
  c.in_pitch = 7;
  c.out_pitch = 10;
  local_operand(
      c, 15 * 7 + 4, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 1);
  local_operand(
      c, 3 * 10 + 6, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 1);
  local_operand(c, (3 * 10 + 6) * 4, false, [](auto &x, uint32_t v) { x.psum_addr = v; });
  local_operand(
      c, 6 * 9 * 2, false, [](auto &x, uint32_t v) { x.wgt_offset = v; }, 1);
  local_operand(c, 12 * 4, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  c = conv();
  c.in_dtype = NPU_DTYPE_F16;
  c.wgt_dtype = c.out_dtype = NPU_DTYPE_BF16;
  c.idh = c.idw = 3;  // says nothing about where the input lies
  local_operand(
      c, 64 * 2, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 2);
  local_operand(
      c, 24 * 2, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
  local_operand(
      c, 6 * 9 * 2 * 2, false, [](auto &x, uint32_t v) { x.wgt_offset = v; }, 2);
  c.in_pitch = 0xffffffff;
  access(kTiu, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST(ConvBounds, WeightsOfMoreThan64BitsLieInNoRegion) {
  constexpr uint32_t kBytes = 256 << 20;  // of local memory, the most that there can be
  Machine m({.lmem = kBytes});
  npu_region all{};
  all.bytes = ~0ull;
  all.access = NPU_ACCESS_READ;
  for (const uint8_t type : {NPU_DTYPE_F32, NPU_DTYPE_BF16, NPU_DTYPE_S8}) {
    npu_cmd_conv c = conv();  // 2^26 to 2^28 channels each, and 2^32 cells of a window
    c.in_dtype = c.wgt_dtype = type;
    c.out_dtype = type == NPU_DTYPE_S8 ? NPU_DTYPE_S32 : NPU_DTYPE_F32;
    c.ih = c.iw = c.oh = c.ow = c.groups = 1;
    c.kh = c.kw = 0xffff;
    c.ic = kBytes / size_of(type);
    c.oc = kBytes / 4;
    c.out_addr = 0;
    c.wgt_region = 0;
    JobSpec j;
    j.regions = {all};
    const npu_cqe done = m.run(j.tiu(c));
    EXPECT_STATUS(done, NPU_STATUS_REGION_BOUNDS) << int{type};
    EXPECT_EQ(done.bytes, 0xffffffffu);
  }
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

TEST(ConvCost, OfSmallerElements) {
  // 16 * 16 pixels and one block of channels each: 256 / 2 for 32 bits, half and a quarter of that for 16 and 8. Local:
  // 256 * 34 elements.
  npu_cmd_conv c = square(16, 2, 32, 1, 1, 0);
  c.in_dtype = c.wgt_dtype = c.out_dtype = NPU_DTYPE_F16;
  expect_cost(c, 32 + 64, 2 * 64, 256 * 32 * 2, "64 weights of 16 bits; 17408 bytes of local memory are 34 cycles");
  c.in_dtype = c.wgt_dtype = c.out_dtype = NPU_DTYPE_S8;
  c.flags = NPU_CONV_REQUANT;
  expect_cost(c, 32 + 32, 64 + 2 * 64, 256 * 32 * 2, "64 weights of 8 bits and 32 multipliers");
  c.flags = NPU_CONV_REQUANT | NPU_CONV_BIAS;
  expect_cost(c, 32 + 32, 64 + 4 * 64, 256 * 32 * 2, "a bias as well");
  c.out_dtype = NPU_DTYPE_S32;
  c.flags = 0;  // 512 in, 32768 out: 65
  expect_cost(c, 32 + 65, 64, 256 * 32 * 2, "accumulators are wide");
  c.wgt_region = c.param_region = NPU_REGION_LOCAL;
  c.flags = NPU_CONV_BIAS | NPU_CONV_PSUM_IN;  // 512 + 32768 + 32768 + 64 + 128: 129.4
  expect_cost(c, 32 + 130, 0, 256 * 32 * 2, "and so are partial sums");
  // What lies between cells, and between the rows of the image, costs nothing.
  c.in_pitch = c.out_pitch = 1000;
  c.idh = c.idw = 9;
  expect_cost(c, 32 + 130, 0, 256 * 32 * 2, "gaps");
  // The factors decide, not what becomes of them.
  npu_cmd_conv d = square(16, 1, 32, 1, 1, NPU_REGION_LOCAL);
  d.in_dtype = NPU_DTYPE_BF16;
  d.out_dtype = NPU_DTYPE_F16;
  d.act = NPU_ACT_TANH;  // of 8192 results in 32 bits: 4 * 64
  expect_cost(d, 32 + 64 + 256, 0, 256 * 32, "a function takes 32 bits");
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
  npu_cmd_conv c = conv_of(28, 64, 64, 3);
  c.in_pitch = c.out_pitch = 64;  // is written out
  EXPECT_EQ(
      first_slices(c, [&](const model::Product<npu_cmd_conv> &s) { EXPECT_EQ(0, std::memcmp(&s.c, &c, sizeof c)); }),
      1u);
}

TEST(ConvSlices, OfAllTypesGiveTheSameBits) {
  Random r(11);
  model::Reference reference;
  unsigned links = 0;
  for (unsigned i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const TypedConv t = random_typed_conv(r, false);
    const bool in_place = t.can_be_in_place() && i % 2;
    const Bytes whole = run(reference, t, in_place);
    for (const model::SliceLimits &limits : kLimits) {
      const std::string what =
          describe(t) + " limits " + std::to_string(limits.operations) + " " + std::to_string(limits.weights);
      const uint32_t size = size_of(t.c.in_dtype);
      const Bytes cut = run_in_slices(reference, t, limits, in_place, t.c.oc, [&](const auto &s) {
        EXPECT_EQ(s.weights, size_t{s.c.oc} * s.c.kh * s.c.kw * (s.c.ic / s.c.groups)) << what;
        const size_t cells = size_t{s.c.n} * s.c.ih * s.c.iw;
        EXPECT_LE((s.in + (cells - 1) * s.c.in_pitch + s.c.ic) * size, t.in.size()) << what;
        links += s.to_link;
      });
      expect_elements(t.c.out_dtype, whole, cut, what);
    }
  }
  EXPECT_GT(links, 1000u);
}

// ---- results ----

class ConvResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, ConvResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(ConvResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(12);
  for (unsigned i = 0; i < 600 && !HasFatalFailure(); ++i) {
    const TypedConv t = random_typed_conv(r, GetParam() != "reference");
    const bool in_place = t.can_be_in_place() && i % 3 == 0;
    expect_elements(t.c.out_dtype, expect_product(t, in_place), run(*backend_, t, in_place), describe(t));
  }
}

/// A product of one element by one, 8 bits to 8 bits.
Bytes one_by_one(model::Backend &backend, uint8_t x, int32_t x_zero, uint8_t w, int32_t w_zero, int32_t bias,
                 float multiplier, uint8_t out_dtype, int32_t out_zero) {
  TypedConv t;
  t.c.in_dtype = NPU_DTYPE_U8;
  t.c.wgt_dtype = NPU_DTYPE_S8;
  t.c.out_dtype = out_dtype;
  t.c.flags = NPU_CONV_BIAS | NPU_CONV_REQUANT;
  for (uint32_t *one : {&t.c.n, &t.c.ih, &t.c.iw, &t.c.ic, &t.c.oc, &t.c.oh, &t.c.ow, &t.c.groups}) *one = 1;
  for (uint16_t *one : {&t.c.kh, &t.c.kw, &t.c.sh, &t.c.sw, &t.c.dh, &t.c.dw}) *one = 1;
  t.c.in_zp = x_zero;
  t.c.wgt_zp = w_zero;
  t.c.out_zp = out_zero;
  t.in = {x};
  t.wgt = {w};
  t.bias.resize(4);
  std::memcpy(t.bias.data(), &bias, 4);
  t.multiplier = bytes_of({multiplier});
  t.outputs = 1;
  return run(backend, t, false);
}

TEST_P(ConvResults, OfIntegersAreRoundedOnceAndSaturate) {
  const auto of = [&](int32_t sum, float multiplier, uint8_t dtype = NPU_DTYPE_S8, int32_t zero = 0) {
    return integer_at(dtype, one_by_one(*backend_, 10, 7, 1, -1, sum - 6, multiplier, dtype, zero).data(), 0);
  };
  EXPECT_EQ(of(5, 0.5f), 2);
  EXPECT_EQ(of(7, 0.5f), 4);
  EXPECT_EQ(of(-5, 0.5f), -2);
  EXPECT_EQ(of(-7, 0.5f, NPU_DTYPE_S8, 1), -3);
  EXPECT_EQ(of(255, 0.5f), 127);    // 127.5 is 128
  EXPECT_EQ(of(-257, 0.5f), -128);  // -128.5 is -128
  EXPECT_EQ(of(300, 1, NPU_DTYPE_U8), 255);
  EXPECT_EQ(of(-1, 1, NPU_DTYPE_U8), 0);
  EXPECT_EQ(of(-1, 1, NPU_DTYPE_U8, 3), 2);
  EXPECT_EQ(of(1, kInf), 127);
  EXPECT_EQ(of(-1, kInf), -128);
  EXPECT_EQ(of(0, kInf, NPU_DTYPE_S8, 42), 42);  // NaN
  EXPECT_EQ(of(1, kNaN, NPU_DTYPE_U8, 42), 42);
  EXPECT_EQ(of(0x7fffffff, 0x1p-31f), 1);  // f32 of the accumulator is 2^31
  EXPECT_EQ(of(16777217, 0x1p-24f * 127.5f), 127);
  EXPECT_EQ(of(1, -0.0f, NPU_DTYPE_S8, -5), -5);
}

TEST_P(ConvResults, OfIntegersWrapModulo32Bits) {
  const Bytes out = one_by_one(*backend_, 255, 0, 0x80, 127, std::numeric_limits<int32_t>::min(), 1, NPU_DTYPE_F32, 0);
  // 255 * -255 below the lowest number of 32 bits.
  EXPECT_EQ(values_of(out)[0], static_cast<float>(0x7fffffff - 255 * 255 + 1));
}

// ---- the chip ----

TEST_F(ConvChecks, AllTypesRunOnTheChip) {
  Random r(13);
  for (unsigned i = 0; i < 100 && !HasFatalFailure(); ++i) {
    TypedConv t = random_typed_conv(r, false);
    const bool in_place = t.can_be_in_place() && i % 2;
    const Bytes before = t.prepared(in_place);
    if (t.in.size() + t.wgt.size() + t.psum.size() + before.size() > 24000) continue;
    Bytes params = t.c.flags & NPU_CONV_BIAS ? t.bias : Bytes{};
    if (t.c.flags & NPU_CONV_REQUANT) params.insert(params.end(), t.multiplier.begin(), t.multiplier.end());
    const Bytes want = expect_product(t, in_place);
    uint32_t at = 0;
    std::vector<Placed> placed;
    const auto place = [&](const Bytes &bytes) {
      const uint32_t address = at;
      placed.push_back({address, bytes});
      at = (at + static_cast<uint32_t>(bytes.size()) + 7) & ~7u;
      return address;
    };
    t.c.in_addr = place(t.in);
    t.c.wgt_region = kLocal;
    t.c.wgt_offset = place(t.wgt);
    t.c.out_addr = place(before);
    if (t.c.flags & NPU_CONV_PSUM_IN) t.c.psum_addr = in_place ? t.c.out_addr : place(t.psum);
    if (!params.empty()) {
      t.c.param_region = kLocal;
      t.c.param_offset = place(params);
    }
    const Bytes got = bytes_on_chip(t.c, placed, t.c.out_addr, static_cast<uint32_t>(want.size()));
    expect_elements(t.c.out_dtype, want, got, describe(t));
  }
}

}  // namespace
}  // namespace npu::test
