// SPDX-License-Identifier: MIT
// GATHER: what the chip accepts, what it costs, and its results. Faults and long ones: tests/unit/model/index_test.cpp.
#include "tests/unit/commands/indexed.h"

namespace npu::test {
namespace {

/// 5 of 6 rows of 4, twice, all in local memory.
npu_cmd_gather gather(uint8_t type = NPU_DTYPE_F32, uint8_t index = NPU_DTYPE_S32) {
  return with<npu_cmd_gather>([=](npu_cmd_gather &c) {
    c.dtype = type;
    c.idx_dtype = index;
    c.rows = 6;
    c.count = 5;
    c.cols = 4;
    c.outer = 2;
    c.src_row_stride = 7;
    c.src_outer_stride = 50;
    c.dst_row_stride = 4;
    c.dst_outer_stride = 20;
    c.src_region = c.dst_region = c.idx_region = kLocal;
    c.dst_offset = 4096;
    c.idx_offset = 8192;
  });
}

class GatherChecks : public IndexedChecks {};

TEST_F(GatherChecks, Encoding) { encoding({kGdma}, gather(), 0, 0, 55); }

TEST_F(GatherChecks, Fields) { fields(gather()); }

TEST_F(GatherChecks, Operands) {
  for (const uint8_t type : {NPU_DTYPE_U8, NPU_DTYPE_F16, NPU_DTYPE_S32, NPU_DTYPE_S64})
    for (const uint8_t index : {NPU_DTYPE_S32, NPU_DTYPE_S64}) {
      const npu_cmd_gather c = gather(type, index);
      const uint32_t size = size_of(type), src = (50 + 5 * 7 + 4) * size, dst = (20 + 4 * 4 + 4) * size,
                     indices = 5 * size_of(index);
      local_operand(
          c, src, false, [](auto &x, uint32_t v) { x.src_offset = v; }, size);
      local_operand(
          c, dst, true, [](auto &x, uint32_t v) { x.dst_offset = v; }, size);
      local_operand(
          c, indices, false, [](auto &x, uint32_t v) { x.idx_offset = v; }, size_of(index));
      region_operand(c, src, false,
                     [](auto &x, uint8_t region, uint64_t at) { x.src_region = region, x.src_offset = at; });
      region_operand(c, dst, true,
                     [](auto &x, uint8_t region, uint64_t at) { x.dst_region = region, x.dst_offset = at; });
      region_operand(c, indices, false,
                     [](auto &x, uint8_t region, uint64_t at) { x.idx_region = region, x.idx_offset = at; });
    }
  npu_cmd_gather c = gather();
  c.rows = c.count = c.cols = c.outer = c.src_row_stride = c.src_outer_stride = 0xffffffff;
  access(kGdma, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
  c.src_region = 0;
  c.dst_row_stride = c.dst_outer_stride = 0xffffffff;
  access(kGdma, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 4096, 0xffffffff, true);
}

TEST(GatherCost, IsAsComputedByHand) {
  npu_cmd_gather c = gather();  // 10 rows of 16 bytes on both sides and 20 bytes of indices: 340 bytes
  expect_cost(c, 32 + 1, 0, 0, "local memory only");
  c.cols = 100;  // 10 * 400 * 2 + 20: 15.7
  expect_cost(c, 32 + 16, 0, 0, "rows count on both sides");
  c.src_region = 0;
  expect_cost(c, 32 + 200, 10 * 448, 0, "rows in memory, each rounded up to 64");
  c.dst_region = 0;
  expect_cost(c, 32 + 200, 2 * 10 * 448, 0, "on both sides");
  c.idx_region = 0;
  c.idx_dtype = NPU_DTYPE_S64;
  c.count = 9;  // 18 rows, 72 bytes of indices
  expect_cost(c, 32 + 200, 2 * 18 * 448 + 128, 0, "and the indices, once for all");
  c.src_region = c.dst_region = kLocal;
  expect_cost(c, 32 + 200, 128, 0, "or these alone");
}

Bytes expect(const Indexed<npu_cmd_gather> &t) {
  const npu_cmd_gather &c = t.c;
  Bytes out = t.dst;
  for (size_t o = 0; o < c.outer; ++o)
    for (size_t i = 0; i < c.count; ++i)
      for (size_t k = 0; k < c.cols * t.size(); ++k)
        out[(o * c.dst_outer_stride + i * c.dst_row_stride) * t.size() + k] =
            t.src[(o * c.src_outer_stride + t.row(i) * c.src_row_stride) * t.size() + k];
  return out;
}

TEST_F(GatherChecks, ResultsAreThoseOfPlainLoopsWhereverTheOperandsLie) {
  Random r(31);
  for (unsigned i = 0; i < 400; ++i) {
    const auto t = random_indexed<npu_cmd_gather>(r);
    ASSERT_EQ(run_indexed(t, i % 8), expect(t)) << describe(t);
  }
}

TEST_F(GatherChecks, IndicesReachFromTheFirstRowToTheLastAndFromTheEnd) {
  Indexed<npu_cmd_gather> t;
  t.c = gather(NPU_DTYPE_U8, NPU_DTYPE_S64);
  t.c.outer = t.c.cols = t.c.dst_row_stride = t.c.src_row_stride = 1;
  t.src = {10, 11, 12, 13, 14, 15};
  t.index = {0, 5, -1, -6, 3};
  t.dst = Bytes(5);
  EXPECT_EQ(run_indexed(t, 0), (Bytes{10, 15, 15, 10, 13}));
  t.c.idx_dtype = NPU_DTYPE_S32;
  EXPECT_EQ(run_indexed(t, 7), (Bytes{10, 15, 15, 10, 13}));
}

}  // namespace
}  // namespace npu::test
