// SPDX-License-Identifier: MIT
// What a command reads and writes, from its encoding alone.
#ifndef NPU_COMPILER_ACCESSES_H
#define NPU_COMPILER_ACCESSES_H

#include <cstdint>
#include <vector>

#include "npu_isa.hpp"

namespace npu::compiler {

/// A range of bytes, from the lowest to behind the highest that an operand touches.
struct Access {
  uint8_t region = NPU_REGION_LOCAL;
  bool write = false;
  int64_t low = 0, high = 0;
};

/// The accesses of a command with legal fields.
std::vector<Access> accesses_of(const uint8_t (&bytes)[NPU_CMD_BYTES]);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_ACCESSES_H
