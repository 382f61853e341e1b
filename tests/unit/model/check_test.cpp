// SPDX-License-Identifier: MIT
// Checks of commands (docs/reference/hardware.md sections 5.2 and 6.1): every rule with the byte it blames, exact
// bounds, the order of the checks.
#include <algorithm>
#include <limits>

#include "tests/unit/model/checks.h"

namespace npu::test {
namespace {

// ---- legal commands to start from ----

npu_cmd_unary unary() {
  return with<npu_cmd_unary>([](npu_cmd_unary &c) {
    c.subop = NPU_ACT_RELU;
    c.count = 8;
    c.out_addr = 4096;
  });
}

/// From region 0 to local memory.
npu_cmd_copy copy() {
  return with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.dst_region = kLocal;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 16;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

npu_cmd_fill fill() {
  return with<npu_cmd_fill>([](npu_cmd_fill &c) {
    c.dst_region = kLocal;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 16;
    c.dst_stride[5] = 1;
  });
}

// ---- opcodes and reserved bits ----

TEST_F(Checks, OpcodesWithoutACommand) {
  unsigned unknown = 0;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const hw::Command *known = hw::find_command(static_cast<uint8_t>(opcode));
    if (known && !known->reserved) continue;
    Cmd c;
    c.bytes[0] = static_cast<uint8_t>(opcode);
    for (const unsigned engine : {kTiu, kGdma}) fails(engine, c, NPU_STATUS_BAD_OPCODE, 0);
    ++unknown;
  }
  EXPECT_GT(unknown, 200u);
}

TEST_F(Checks, Encoding) {
  encoding({kGdma}, copy(), 0, 0, 24);
  encoding({kGdma}, fill(), 0, 0, 50);
  encoding({kTiu, kGdma}, nop(), 0, 0, 116);
  encoding({kTiu, kGdma}, with<npu_cmd_sem_signal>([](npu_cmd_sem_signal &c) { c.value = 1; }), 0, 0, 108);
}

// ---- fields ----

TEST_F(Checks, CopyAndFillFields) {
  for (const unsigned t : {NPU_DTYPE_S4, NPU_DTYPE_U4, 12u, 255u}) {
    const auto type = static_cast<uint8_t>(t);
    BAD(copy(), 34, c.src_dtype = c.dst_dtype = type);
    BAD(fill(), 35, c.dst_dtype = type);
  }
  BAD(copy(), 35, c.dst_dtype = NPU_DTYPE_S4);
  for (unsigned i = 0; i < 6; ++i) {
    BAD(copy(), 40 + 4 * i, c.dims[i] = 0);
    BAD(fill(), 40 + 4 * i, c.dims[i] = 0);
  }
  BAD(copy(), 40, (c.dims[4] = 1u << 16, c.dims[5] = 1u << 16));
  BAD(copy(), 40, std::fill_n(c.dims, 6, 0xffffffffu));
  BAD(fill(), 40, (c.dims[0] = 2, c.dims[5] = 1u << 31));
  BAD(fill(), 16, c.value = 1ull << 32);
  BAD(fill(), 16, (c.dst_dtype = NPU_DTYPE_U8, c.value = 0x100));
  BAD(fill(), 16, (c.dst_dtype = NPU_DTYPE_BF16, c.value = 0x10000));
  npu_cmd_fill f = fill();
  f.dst_dtype = NPU_DTYPE_S64;
  f.value = ~0ull;
  ok(kGdma, f);
  const uint8_t types[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_S8,  NPU_DTYPE_U8,   NPU_DTYPE_S16,
                           NPU_DTYPE_U16, NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_BF16, NPU_DTYPE_S64};
  for (const uint8_t from : types)
    for (const uint8_t to : types) {  // a cast, where they differ
      npu_cmd_copy c = copy();
      c.src_dtype = from;
      c.dst_dtype = to;
      ok(kGdma, c);
    }
}

// ---- local memory ----

TEST_F(Checks, LocalBoundsToTheByte) {
  npu_cmd_unary u = unary();
  u.out_addr = kLmem - 32;
  ok(kTiu, u);
  u.out_addr = kLmem - 28;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - 28, 32, true);
  u.out_addr = 0xfffffffc;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, 0xfffffffc, 32, true);
  u = unary();
  u.in_addr = kLmem - 4;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - 4, 32, false);
  u.in_addr = 0;
  u.count = 0xffffffff;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);  // saturated
  npu_cmd_fill f = fill();
  f.dst_offset = kLmem - 64;
  ok(kGdma, f);
  f.dst_offset = kLmem - 60;
  access(kGdma, f, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - 60, 64, true);
  f.dst_offset = ~0ull - 3;
  access(kGdma, f, NPU_STATUS_LMEM_BOUNDS, kLocal, ~0ull - 3, 64, true);
}

TEST_F(Checks, LocalAlignmentIsTheElementSize) {
  for (uint8_t type : {NPU_DTYPE_U8, NPU_DTYPE_S16, NPU_DTYPE_F32, NPU_DTYPE_S64}) {
    const uint32_t size = type == NPU_DTYPE_U8 ? 1 : type == NPU_DTYPE_S16 ? 2 : type == NPU_DTYPE_F32 ? 4 : 8;
    npu_cmd_copy c = copy();
    c.src_dtype = c.dst_dtype = type;
    c.src_offset = 3;  // memory has no alignment
    for (uint32_t at = 0; at < 9; ++at) {
      c.dst_offset = at;
      if (at % size == 0)
        ok(kGdma, c);
      else
        access(kGdma, c, NPU_STATUS_UNALIGNED, kLocal, at, 16 * size, true);
    }
  }
}

// ---- regions ----

TEST_F(Checks, RegionBoundsToTheByte) {
  npu_cmd_copy c = copy();
  c.src_offset = kRegion - 64;
  ok(kGdma, c);
  c.src_offset = kRegion - 63;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion - 63, 64, false);
  c.src_offset = kRegion;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion, 64, false);
  c.src_offset = ~0ull;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, ~0ull, 64, false);
  // Strides widen the range to both sides.
  c.src_offset = 15 * 8;
  c.src_stride[5] = -2;
  ok(kGdma, c);
  c.src_offset = 15 * 8 - 1;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, ~0ull, 15 * 8 + 4, false);
  c.src_offset = 0;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, 0ull - 15 * 8, 15 * 8 + 4, false);
  c.src_stride[5] = 100;
  c.src_offset = kRegion - (15 * 400 + 4);
  ok(kGdma, c);
  c.src_offset += 1;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion - (15 * 400 + 4) + 1, 15 * 400 + 4, false);
  // Below the start of local memory.
  npu_cmd_copy d = copy();
  d.dst_stride[5] = -1;
  d.dst_offset = 60;
  ok(kGdma, d);
  d.dst_offset = 56;
  access(kGdma, d, NPU_STATUS_LMEM_BOUNDS, kLocal, ~3ull, 64, true);
}

TEST_F(Checks, RangesThatWrap64BitsAreBounds) {
  npu_cmd_copy c = copy();
  c.src_dtype = c.dst_dtype = NPU_DTYPE_S64;
  std::fill_n(c.dst_stride, 6, 0);
  // 2^31 * (2^31 - 1) elements of 8 bytes: 2^65, from an offset that brings the end back into the region.
  c.dims[4] = 2;
  c.dims[5] = 0x7fffffff;
  c.src_stride[5] = std::numeric_limits<int32_t>::max();
  c.src_stride[4] = 0;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, 0, 0xffffffff, false);
  c.src_offset = 0ull - 0x7ffffffeull * 0x7fffffff * 8;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, c.src_offset, 0xffffffff, false);
  c.src_stride[5] = std::numeric_limits<int32_t>::min();
  c.src_offset = 0;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, 0ull - 0x7ffffffeull * 0x80000000 * 8, 0xffffffff, false);
  npu_cmd_fill f = fill();
  f.dst_region = 0;
  f.dst_offset = ~0ull - 15;
  access(kGdma, f, NPU_STATUS_REGION_BOUNDS, 0, ~0ull - 15, 64, true);
}

TEST_F(Checks, RangesBeyond64BitsAreBoundsOfTheLargestRegionToo) {
  npu_region all{};
  all.bytes = ~0ull;
  all.access = NPU_ACCESS_READ;
  const auto reach = [&](int32_t stride, uint32_t last) {
    npu_cmd_copy c = copy();
    c.src_dtype = c.dst_dtype = NPU_DTYPE_S64;
    c.dims[5] = last + 1;
    c.src_stride[5] = stride;
    c.dst_stride[5] = 0;
    JobSpec j;
    j.regions = {all};
    j.gdma(c);
    return m_.run(j);
  };
  // 2^30 steps of 2^31 elements of 8 bytes are 2^64: the lowest byte's offset is 0 again, modulo 2^64.
  for (int32_t stride : {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    const npu_cqe c = reach(stride, stride < 0 ? 1u << 30 : (1u << 30) + 1);
    EXPECT_STATUS(c, NPU_STATUS_REGION_BOUNDS);
    EXPECT_EQ(c.offset, 0u);
    EXPECT_EQ(c.bytes, 0xffffffffu);
  }
}

TEST_F(Checks, RegionsAllowWhatTheyAllow) {
  npu_cmd_copy c = copy();
  c.src_region = 1;
  ok(kGdma, c);
  for (uint8_t region : {2, 3, 5, 63, 64, 254}) {  // region 4 is the stream's, readable
    c.src_region = region;
    access(kGdma, c, NPU_STATUS_REGION_ACCESS, region, 0, 64, false);
  }
  npu_cmd_fill f = fill();
  f.dst_region = 2;
  ok(kGdma, f);
  for (uint8_t region : {1, 3, 4, 5, 254}) {
    f.dst_region = region;
    access(kGdma, f, NPU_STATUS_REGION_ACCESS, region, 0, 64, true);
  }
}

// ---- order ----

TEST_F(Checks, AreMadeInTheirOrder) {
  // Everything is wrong; each repair uncovers the next.
  npu_cmd_copy c = copy();
  c.opcode = 0x7f;
  c.flags = 1;
  c.pad0[0] = 1;
  c.dims[5] = 0;
  c.src_region = 9;
  c.dst_offset = kLmem + 1;
  const auto expect = [&](uint16_t status) { EXPECT_STATUS(run(kGdma, c, 33), status); };
  expect(NPU_STATUS_BAD_OPCODE);
  c.opcode = NPU_OP_COPY;
  c.subop = 1;
  expect(NPU_STATUS_BAD_OPCODE);
  c.subop = 0;
  expect(NPU_STATUS_RESERVED_BITS);
  c.flags = 0;
  expect(NPU_STATUS_RESERVED_BITS);
  c.pad0[0] = 0;
  expect(NPU_STATUS_BAD_FIELD);
  c.dims[5] = 16;
  expect(NPU_STATUS_UNALIGNED);
  c.dst_offset = kLmem;
  expect(NPU_STATUS_LMEM_BOUNDS);
  c.dst_offset = 0;
  expect(NPU_STATUS_REGION_ACCESS);
  c.src_region = 0;
  c.src_offset = kRegion;
  expect(NPU_STATUS_REGION_BOUNDS);
  c.src_offset = 0;
  m_.unmap(0, area_.va);
  m_.wait_invalidated(m_.invalidate(0));
  expect(NPU_STATUS_BUDGET);
  EXPECT_STATUS(run(kGdma, c, 0), NPU_STATUS_PAGE_FAULT);
}

TEST_F(Checks, WaitComesBeforeAnyCheck) {
  JobSpec j;
  Cmd bad;
  bad.bytes[4] = 1;  // wait for the first command of the other engine, which is slower to fail
  j.tiu(bad).gdma(nop()).gdma(Cmd{});
  const npu_cqe c = m_.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BAD_OPCODE);
  EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 32u);
}

TEST_F(Checks, FailingCommandHasNoEffectAndTheNextJobIsFine) {
  npu_cmd_fill f = fill();
  f.dst_region = 0;
  f.value = 0x55;
  f.dims[5] = kRegion / 4 + 1;
  EXPECT_STATUS(run(kGdma, f), NPU_STATUS_REGION_BOUNDS);
  EXPECT_EQ(m_.content(area_), std::vector<uint8_t>(kRegion));
  f.dims[5] = kRegion / 4;
  ok(kGdma, f);
}

}  // namespace
}  // namespace npu::test
