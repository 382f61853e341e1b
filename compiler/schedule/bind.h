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
  std::vector<std::vector<int64_t>> offsets;  ///< in activation memory, of each core's storages that are there
};

/// Writes final regions and offsets into the commands of all cores. Each core has activation memory of its own; the
/// exchanges between them, of so many bytes each, have theirs to the end.
Status bind_memory(const std::vector<Lowered> &cores, const std::vector<int64_t> &exchanges, int64_t coeff_bytes,
                   std::vector<Command> &commands, Bound &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_BIND_H
