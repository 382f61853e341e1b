// SPDX-License-Identifier: MIT
// SCATTER: what the chip accepts, what it costs, and its results. Faults and long ones:
// tests/unit/model/index_test.cpp.
#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/indexed.h"

namespace npu::test {
namespace {

/// 5 rows of 4 to some of 6, twice, all in local memory.
npu_cmd_scatter scatter(uint8_t type = NPU_DTYPE_F32, uint8_t index = NPU_DTYPE_S32) {
  return with<npu_cmd_scatter>([=](npu_cmd_scatter &c) {
    c.dtype = type;
    c.idx_dtype = index;
    c.rows = 6;
    c.count = 5;
    c.cols = 4;
    c.outer = 2;
    c.src_row_stride = 4;
    c.src_outer_stride = 20;
    c.dst_row_stride = 7;
    c.dst_outer_stride = 50;
    c.src_region = c.dst_region = c.idx_region = kLocal;
    c.dst_offset = 4096;
    c.idx_offset = 8192;
  });
}

class ScatterChecks : public IndexedChecks {};

TEST_F(ScatterChecks, Encoding) { encoding({kGdma}, scatter(), NPU_SCATTER_MIN, 0, 55); }

TEST_F(ScatterChecks, Fields) {
  fields(scatter());
  for (uint8_t op = NPU_SCATTER_ADD; op <= NPU_SCATTER_MIN; ++op) {
    npu_cmd_scatter c = scatter();
    c.subop = op;
    ok(kGdma, c);
    for (const uint8_t type : kWholeTypes)
      if (type != NPU_DTYPE_F32) BAD(scatter(type), 34, c.subop = op);
  }
}

TEST_F(ScatterChecks, Operands) {
  for (const uint8_t type : {NPU_DTYPE_S8, NPU_DTYPE_BF16, NPU_DTYPE_F32, NPU_DTYPE_S64})
    for (const uint8_t index : {NPU_DTYPE_S32, NPU_DTYPE_S64}) {
      const npu_cmd_scatter c = scatter(type, index);
      const uint32_t size = size_of(type), src = (20 + 4 * 4 + 4) * size, dst = (50 + 5 * 7 + 4) * size,
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
}

TEST(ScatterCost, IsAsComputedByHand) {
  npu_cmd_scatter c = scatter(NPU_DTYPE_F16);
  expect_cost(c, 32 + 1, 0, 0, "180 bytes of local memory");
  c.cols = 100;
  c.dst_region = 0;
  expect_cost(c, 32 + 200, 10 * 256, 0, "rows in memory");
  c.dtype = NPU_DTYPE_F32;
  c.subop = NPU_SCATTER_ADD;
  expect_cost(c, 32 + 200, 10 * 448, 0, "joined ones cost what replaced ones do");
  c.src_region = c.idx_region = 0;
  expect_cost(c, 32 + 200, 2 * 10 * 448 + 64, 0, "all in memory");
}

float joined(uint8_t op, float a, float b) {
  switch (op) {
    case NPU_SCATTER_ADD:
      return plus(a, b);
    case NPU_SCATTER_MUL:
      return times(a, b);
    case NPU_SCATTER_MAX:
      return std::isnan(a) || std::isnan(b) ? kNaN : a > b || (a == b && !std::signbit(a)) ? a : b;
    case NPU_SCATTER_MIN:
      return std::isnan(a) || std::isnan(b) ? kNaN : a < b || (a == b && std::signbit(a)) ? a : b;
    default:
      return b;
  }
}

Bytes expect(const Indexed<npu_cmd_scatter> &t) {
  const npu_cmd_scatter &c = t.c;
  Bytes out = t.dst;
  for (size_t o = 0; o < c.outer; ++o)
    for (size_t i = 0; i < c.count; ++i)
      for (size_t k = 0; k < c.cols; ++k) {
        const size_t to = o * c.dst_outer_stride + t.row(i) * c.dst_row_stride + k,
                     from = o * c.src_outer_stride + i * c.src_row_stride + k;
        if (c.subop == NPU_SCATTER_SET)
          std::memcpy(&out[to * t.size()], &t.src[from * t.size()], t.size());
        else
          store({}, joined(c.subop, load({}, out.data(), to), load({}, t.src.data(), from)), out.data(), to);
      }
  return out;
}

TEST_F(ScatterChecks, ResultsAreThoseOfPlainLoopsWhereverTheOperandsLie) {
  Random r(32);
  for (unsigned i = 0; i < 600 && !HasFatalFailure(); ++i) {
    auto t = random_indexed<npu_cmd_scatter>(r);
    if (t.c.dtype == NPU_DTYPE_F32) t.c.subop = static_cast<uint8_t>(r.range(NPU_SCATTER_SET, NPU_SCATTER_MIN));
    expect_elements(NPU_DTYPE_U8, expect(t), run_indexed(t, i % 8), describe(t));
  }
}

TEST_F(ScatterChecks, OfEqualIndicesTheLastOneWinsOrAllTakePart) {
  Indexed<npu_cmd_scatter> t;
  t.c = scatter();
  t.c.outer = t.c.cols = t.c.dst_row_stride = t.c.src_row_stride = 1;
  t.c.rows = 3;
  t.index = {1, -2, 2, 1, -1};
  t.src = bytes_of({4, 5, kNaN, -6, 7});
  t.dst = bytes_of({10, 20, 30});
  const auto of = [&](uint8_t op) {
    t.c.subop = op;
    return values_of(run_indexed(t, 2));
  };
  EXPECT_EQ(of(NPU_SCATTER_SET), (Values{10, -6, 7}));
  EXPECT_EQ(of(NPU_SCATTER_ADD)[1], 23);
  EXPECT_EQ(of(NPU_SCATTER_MUL)[1], 20 * 4 * 5 * -6);
  EXPECT_EQ(of(NPU_SCATTER_MAX)[1], 20);
  EXPECT_EQ(of(NPU_SCATTER_MIN)[1], -6);
  for (const uint8_t op : {NPU_SCATTER_ADD, NPU_SCATTER_MUL, NPU_SCATTER_MAX, NPU_SCATTER_MIN}) {
    EXPECT_EQ(of(op)[0], 10);
    EXPECT_TRUE(std::isnan(of(op)[2]));
  }
}

}  // namespace
}  // namespace npu::test
