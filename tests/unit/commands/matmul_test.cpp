// SPDX-License-Identifier: MIT
// MATMUL: what the chip accepts, what it costs, how it is cut, and its results for all types. Those of f32 alone:
// tests/unit/compute/mac_test.cpp.
#include "tests/unit/commands/product.h"
#include "tests/unit/commands/typed_product.h"

namespace npu::test {
namespace {

npu_cmd_matmul matmul() {
  return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
    c.batch = 2;
    c.m = 3;
    c.k = 4;
    c.n = 5;
    c.a_batch_stride = 12;
    c.b_batch_stride = 20;
    c.wgt_region = kLocal;
    c.out_addr = 4096;
  });
}

/// The same of 8 bits, to an 8-bit result.
npu_cmd_matmul matmul8() {
  npu_cmd_matmul c = matmul();
  c.in_dtype = c.wgt_dtype = c.out_dtype = NPU_DTYPE_S8;
  c.flags = NPU_CONV_REQUANT;
  c.param_region = kLocal;
  return c;
}

class MatmulChecks : public Checks {};

TEST_F(MatmulChecks, Encoding) { encoding({kTiu}, matmul(), 0, 0x1f, 22); }

TEST_F(MatmulChecks, Fields) {
  BAD(matmul(), 24, c.psum_addr = 64);
  for (const uint8_t act : {NPU_ACT_EXP, NPU_ACT_GELU, NPU_ACT_COS}) BAD(matmul(), 31, c.act = act);
  BAD(matmul(), 40, c.param_offset = 1ull << 60);
  BAD(matmul(), 49, c.param_region = kLocal);
  BAD(matmul(), 52, c.batch = 0);
  BAD(matmul(), 56, c.m = 0);
  BAD(matmul(), 60, c.k = 0);
  BAD(matmul(), 64, c.n = 0);
  BAD(matmul(), 84, c.out_row_stride = 4);
  BAD(matmul(), 2, c.flags = NPU_CONV_PSUM_OUT | NPU_CONV_BIAS);
  BAD(matmul(), 31, (c.flags = NPU_CONV_PSUM_OUT, c.act = NPU_ACT_TANH));
  npu_cmd_matmul c = matmul();
  c.flags = NPU_CONV_TRANS_B | NPU_CONV_PSUM_IN;
  c.a_batch_stride = c.b_batch_stride = 0;
  ok(kTiu, c);
  activation_parameters(matmul(), [](npu_cmd_matmul &x, uint8_t act) { x.act = act; });
}

TEST_F(MatmulChecks, TypesAndZeroPoints) {
  for (const uint8_t t : {NPU_DTYPE_S16, NPU_DTYPE_U16, NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_U4, NPU_DTYPE_S64}) {
    BAD(matmul(), 28, c.in_dtype = t);
    BAD(matmul(), 29, c.wgt_dtype = t);
  }
  for (const uint8_t a : kFloats)
    for (const uint8_t b : kFloats)
      for (const uint8_t out : kFloats) {
        npu_cmd_matmul c = matmul();
        c.in_dtype = a;
        c.wgt_dtype = b;
        c.out_dtype = out;
        ok(kTiu, c);
      }
  BAD(matmul(), 29, c.wgt_dtype = NPU_DTYPE_U8);
  BAD(matmul8(), 29, c.wgt_dtype = NPU_DTYPE_F16);
  BAD(matmul(), 30, c.out_dtype = NPU_DTYPE_S8);
  BAD(matmul(), 30, c.out_dtype = NPU_DTYPE_S32);
  BAD(matmul(), 30, (c.flags = NPU_CONV_PSUM_OUT, c.out_dtype = NPU_DTYPE_F16));
  BAD(matmul8(), 30, c.out_dtype = NPU_DTYPE_S32);
  BAD(matmul8(), 30, (c.flags = 0, c.param_region = 0));
  BAD(matmul(), 2, (c.flags = NPU_CONV_REQUANT, c.param_region = kLocal));
  BAD(matmul8(), 2, c.flags |= NPU_CONV_PSUM_OUT);
  BAD(matmul8(), 31, c.act = NPU_ACT_SIGMOID);
  BAD(matmul8(), 31, (c.out_dtype = NPU_DTYPE_S32, c.flags = 0, c.param_region = 0, c.act = NPU_ACT_CLIP));
  BAD(matmul(), 112, c.in_zp = 1);
  BAD(matmul(), 116, c.out_zp = 1);
  BAD(matmul(), 120, c.wgt_zp = -1);
  BAD(matmul8(), 112, c.in_zp = 128);
  BAD(matmul8(), 116, c.out_zp = -129);
  BAD(matmul8(), 120, (c.wgt_dtype = NPU_DTYPE_U8, c.wgt_zp = 256));
  npu_cmd_matmul c = matmul8();
  c.wgt_dtype = NPU_DTYPE_U8;
  c.in_zp = -128;
  c.wgt_zp = 255;
  c.out_zp = 127;
  ok(kTiu, c);
}

TEST_F(MatmulChecks, LocalOperandsOfOtherTypesAndRowStrides) {
  npu_cmd_matmul m = matmul8();
  m.flags = NPU_CONV_REQUANT | NPU_CONV_BIAS | NPU_CONV_PSUM_IN;
  m.a_row_stride = 9;
  m.b_row_stride = 7;
  m.out_row_stride = 11;
  m.a_batch_stride = 100;
  m.b_batch_stride = 200;
  const auto in = [](auto &x, uint32_t v) { x.in_addr = v; };
  const auto out = [](auto &x, uint32_t v) { x.out_addr = v; };
  const auto psum = [](auto &x, uint32_t v) { x.psum_addr = v; };
  const auto weights = [](auto &x, uint32_t v) { x.wgt_offset = v; };
  local_operand(m, 100 + 2 * 9 + 4, false, in, 1);
  local_operand(m, 5 * 11 + 5, true, out, 1);  // 3 rows a batch
  local_operand(m, (5 * 11 + 5) * 4, false, psum);
  local_operand(m, 200 + 3 * 7 + 5, false, weights, 1);
  local_operand(m, 10 * 4, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  m.out_batch_stride = 50;
  local_operand(m, 50 + 2 * 11 + 5, true, out, 1);
  local_operand(m, (50 + 2 * 11 + 5) * 4, false, psum);
  m.flags |= NPU_CONV_TRANS_B;  // 5 rows of 4
  local_operand(m, 200 + 4 * 7 + 4, false, weights, 1);
  m.b_row_stride = 0;
  local_operand(m, 200 + 5 * 4, false, weights, 1);
  m.b_row_stride = 1;  // rows that overlap
  local_operand(m, 200 + 4 + 4, false, weights, 1);
  m.b_batch_stride = 0;
  local_operand(m, 4 + 4, false, weights, 1);
  m = matmul();
  m.in_dtype = NPU_DTYPE_BF16;
  m.out_dtype = NPU_DTYPE_F16;
  local_operand(m, 24 * 2, false, in, 2);
  local_operand(m, 30 * 2, true, out, 2);
}

TEST_F(MatmulChecks, LocalOperands) {
  npu_cmd_matmul m = matmul();
  m.flags = NPU_CONV_PSUM_IN | NPU_CONV_BIAS;
  m.param_region = kLocal;
  local_operand(m, 2 * 12 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(m, 2 * 15 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  local_operand(m, 2 * 15 * 4, false, [](auto &x, uint32_t v) { x.psum_addr = v; });
  local_operand(m, 2 * 20 * 4, false, [](auto &x, uint32_t v) { x.wgt_offset = v; });
  local_operand(m, 5 * 4, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  m.a_batch_stride = 1;
  m.b_batch_stride = 100;
  local_operand(m, 13 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(m, 120 * 4, false, [](auto &x, uint32_t v) { x.wgt_offset = v; });
  m = matmul();
  m.batch = m.m = m.k = m.n = m.a_batch_stride = m.b_batch_stride = 0xffffffffu;
  access(kTiu, m, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST_F(MatmulChecks, StreamedOperandsOfOtherTypes) {
  npu_cmd_matmul m = matmul8();
  m.b_row_stride = 7;
  m.flags = NPU_CONV_REQUANT | NPU_CONV_BIAS;
  region_operand(m, 20 + 3 * 7 + 5, false, [](auto &x, uint8_t region, uint64_t offset) {
    x.wgt_region = region;
    x.wgt_offset = offset;
  });
  region_operand(m, 10 * 4, false, [](auto &x, uint8_t region, uint64_t offset) {
    x.param_region = region;
    x.param_offset = offset;
  });
}

TEST_F(MatmulChecks, StreamedOperands) {
  npu_cmd_matmul m = matmul();
  m.wgt_region = 0;
  m.b_batch_stride = 0xffffffff;
  m.batch = 3;
  m.n = 1;
  m.m = 1;
  m.a_batch_stride = 0;
  access(kTiu, m, NPU_STATUS_REGION_BOUNDS, 0, 0, 0xffffffff, false);
}

// ---- costs ----

npu_cmd_matmul product(uint32_t m, uint32_t k, uint32_t n) {
  return with<npu_cmd_matmul>([&](npu_cmd_matmul &c) {
    c.batch = 1;
    c.m = m;
    c.k = k;
    c.n = n;
    c.in_addr = 0;
    c.out_addr = 0x10000;
  });
}

TEST(MatmulCost, IsAsComputedByHand) {
  npu_cmd_matmul c = product(3, 33, 40);
  c.batch = 2;
  c.a_batch_stride = 99;
  // 6 rows * 2 * 2 blocks / 2. B: 33 * 40 * 4 = 5280 = 82.5 * 64.
  expect_cost(c, 32 + 12, 83 * 64, 6 * 33 * 40, "one B for all");
  c.b_batch_stride = 33 * 40;
  expect_cost(c, 32 + 12, 165 * 64, 6 * 33 * 40, "a B for each");
  // All local: A 792, result 960, B 10560, partial sums 960: 13272 / 512 = 25.9; without them 24.04.
  c.wgt_region = NPU_REGION_LOCAL;
  expect_cost(c, 32 + 25, 0, 6 * 33 * 40, "local memory decides");
  c.flags = NPU_CONV_PSUM_IN;
  expect_cost(c, 32 + 26, 0, 6 * 33 * 40, "partial sums");
}

TEST(MatmulCost, OfSmallerElements) {
  npu_cmd_matmul c = product(64, 64, 64);                  // 64 rows of 2 * 2 blocks: 128 cycles for 32 bits
  c.in_dtype = c.wgt_dtype = c.out_dtype = NPU_DTYPE_F16;  // local: 16384 bytes, 32
  expect_cost(c, 32 + 64, 8192, 64 * 64 * 64, "16 bits");
  c.in_dtype = c.wgt_dtype = NPU_DTYPE_U8;
  c.out_dtype = NPU_DTYPE_S8;
  c.flags = NPU_CONV_REQUANT | NPU_CONV_BIAS;
  expect_cost(c, 32 + 32, 4096 + 512, 64 * 64 * 64, "8 bits, with vectors");
  c.out_dtype = NPU_DTYPE_S32;
  c.flags = NPU_CONV_PSUM_IN;  // 4096 + 16384 + 16384: 72
  expect_cost(c, 32 + 72, 4096, 64 * 64 * 64, "accumulators");
  c.a_row_stride = c.b_row_stride = c.out_row_stride = 4000;
  c.out_batch_stride = 100000;
  expect_cost(c, 32 + 72, 4096, 64 * 64 * 64, "what lies between rows costs nothing");
}

// ---- slices ----

TEST(MatmulSlices, GiveTheSameBits) {
  Random r(2);
  model::Reference reference;
  for (unsigned i = 0; i < 100; ++i) {
    const MatmulCase t = random_matmul(r);
    const bool in_place = i % 2;
    Values whole = prepared(t.psum, t.outputs(), in_place);
    reference.run(t.c, t.a.data(), model::Streamed::at(t.b.data()), bias_of(t.c, t.bias),
                  in_place ? (t.psum.empty() ? nullptr : whole.data()) : or_null(t.psum), whole.data());
    for (const model::SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limits " + std::to_string(limits.operations) + " " +
                   std::to_string(limits.weights));
      Values cut = prepared(t.psum, t.outputs(), in_place), link(t.c.n);
      for_slices(t.c, limits, [&](const model::Product<npu_cmd_matmul> &s) {
        EXPECT_LE(s.wgt + s.weights, t.b.size());
        const float *bias = bias_of(s.c, t.bias, s.param);
        reference.run(s.c, t.a.data() + s.in, model::Streamed::at(t.b.data() + s.wgt), bias,
                      psum_of(s, t.psum, cut, in_place, link), out_of(s, cut, link));
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

TEST(MatmulSlices, AreBounded) {
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
                             [](const model::Product<npu_cmd_matmul> &s) {
                               EXPECT_LE(uint64_t{s.c.batch} * s.c.m * s.c.k * s.c.n, model::kStepOperations);
                               EXPECT_LE(s.weights, model::kStepOperations);
                             }),
                1u);
    }
}

TEST(MatmulSlices, OfAllTypesGiveTheSameBits) {
  Random r(14);
  model::Reference reference;
  unsigned links = 0;
  for (unsigned i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const TypedMatmul t = random_typed_matmul(r, false);
    const bool in_place = t.can_be_in_place() && i % 2;
    const Bytes whole = run(reference, t, in_place);
    for (const model::SliceLimits &limits : kLimits) {
      const std::string what =
          describe(t) + " limits " + std::to_string(limits.operations) + " " + std::to_string(limits.weights);
      const Bytes cut =
          run_in_slices(reference, t, limits, in_place, t.c.n, [&](const auto &s) { links += s.to_link; });
      expect_elements(t.c.out_dtype, whole, cut, what);
    }
  }
  EXPECT_GT(links, 1000u);
}

// ---- results ----

class MatmulResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, MatmulResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(MatmulResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(15);
  for (unsigned i = 0; i < 600 && !HasFatalFailure(); ++i) {
    const TypedMatmul t = random_typed_matmul(r, GetParam() != "reference");
    const bool in_place = t.can_be_in_place() && i % 3 == 0;
    expect_elements(t.c.out_dtype, expect_product(t, in_place), run(*backend_, t, in_place), describe(t));
  }
}

}  // namespace
}  // namespace npu::test
