// SPDX-License-Identifier: MIT
// What a command reads and writes, from its fields alone.
#ifndef NPU_COMPILER_ACCESSES_H
#define NPU_COMPILER_ACCESSES_H

#include <cstdint>
#include <vector>

#include "compiler/kernels/command.h"

namespace npu::compiler {

/// The range of bytes [low, high) that an operand spans.
struct Access {
  uint8_t region = NPU_REGION_LOCAL;
  bool write = false;
  int64_t low = 0, high = 0;
};

/// The accesses of a command with legal fields.
std::vector<Access> accesses_of(const CommandBody &command);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_ACCESSES_H
