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

/// The accesses of a command with legal fields. A SEM_SIGNAL counts as a reader of what it is about and a SEM_WAIT as
/// its writer: the one follows what wrote it, the other is followed by what reads it.
std::vector<Access> accesses_of(const Command &command);

/// The same for operands in a region, byte by byte: a strided one as its dense runs.
std::vector<Access> runs_of(const Command &command, uint8_t region);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_ACCESSES_H
