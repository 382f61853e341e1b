// SPDX-License-Identifier: MIT
// The memory plan: offsets of activation memory by liveness, and the region table.
#ifndef NPU_COMPILER_BIND_H
#define NPU_COMPILER_BIND_H

#include "compiler/schedule/codegen.h"

namespace npu::compiler {

struct Region {
  StorageKind kind = StorageKind::Temp;  ///< Temp stands for activation memory
  int index = 0;
  uint64_t bytes = 0;
  bool read = false, write = false;
};

struct Bound {
  std::vector<Region> regions;
  uint64_t ctx_bytes = 0;
};

/// Writes final regions and offsets into the commands.
Status bind_memory(const Lowered &lowered, std::vector<Command> &commands, Bound &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_BIND_H
