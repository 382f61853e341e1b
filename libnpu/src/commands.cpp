// SPDX-License-Identifier: MIT
#include <npu_isa.h>

#include <cstring>
#include <npu_arith.hpp>

#include "libnpu/src/chip_view.h"

namespace npu {

static_assert(kCommandBytes == NPU_CMD_BYTES);

void encode_copy(void *command, uint8_t dst_region, uint64_t dst_offset, uint8_t src_region, uint64_t src_offset,
                 uint64_t bytes) {
  npu_cmd_copy c{};
  c.opcode = NPU_OP_COPY;
  c.src_offset = src_offset;
  c.dst_offset = dst_offset;
  c.src_region = src_region;
  c.dst_region = dst_region;
  c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
  for (int i = 0; i < 5; i++) {
    c.dims[i] = 1;
    c.src_stride[i] = c.dst_stride[i] = 0;
  }
  c.dims[5] = static_cast<uint32_t>(bytes);
  c.src_stride[5] = c.dst_stride[5] = 1;
  memcpy(command, &c, sizeof(c));
}

void encode_fill(void *command, uint8_t dst_region, uint64_t dst_offset, uint64_t value, unsigned int value_bytes,
                 uint64_t count) {
  npu_cmd_fill c{};
  c.opcode = NPU_OP_FILL;
  c.value = value_bytes == 8 ? value : value & ((1ull << 8 * value_bytes) - 1);
  c.dst_offset = dst_offset;
  c.dst_region = dst_region;
  c.dst_dtype = value_bytes == 1   ? NPU_DTYPE_U8
                : value_bytes == 2 ? NPU_DTYPE_U16
                : value_bytes == 4 ? NPU_DTYPE_U32
                                   : NPU_DTYPE_S64;
  for (int i = 0; i < 5; i++) c.dims[i] = 1;
  c.dims[5] = static_cast<uint32_t>(count);
  c.dst_stride[5] = 1;
  memcpy(command, &c, sizeof(c));
}

bool copy_reads(const void *command, uint32_t region, uint64_t offset) {
  npu_cmd_copy c;
  memcpy(&c, command, sizeof(c));
  if (c.opcode != NPU_OP_COPY || c.src_region != region) return false;
  int64_t low = 0, high = 0;
  for (int i = 0; i < 6; i++) {
    const int64_t reach = (static_cast<int64_t>(c.dims[i]) - 1) * c.src_stride[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto bytes = static_cast<int64_t>(hw::arith::dtype_bytes(c.src_dtype));
  const auto at = static_cast<int64_t>(offset) - static_cast<int64_t>(c.src_offset);
  return at >= low * bytes && at < (high + 1) * bytes;
}

}  // namespace npu
