// SPDX-License-Identifier: MIT
// From lowered operators to commands in sequential order: which tensors stay in local memory, and how each operator is
// cut.
#ifndef NPU_COMPILER_CODEGEN_H
#define NPU_COMPILER_CODEGEN_H

#include "compiler/kernels/emitter.h"

namespace npu::compiler {

/// What became of one operator, for the report.
struct OpReport {
  int op = 0;  ///< index in Lowered::ops
  int64_t tiles = 1;
  int64_t lmem_bytes = 0;  ///< local memory in use while it runs
  bool resident = false;   ///< its result stays in local memory
};

struct Generated {
  std::vector<Command> commands;
  std::vector<OpReport> reports;
  int64_t lmem_bytes = 0;  ///< high-water mark
  /// Bytes between the highest tile buffer and the lowest tensor that nothing ever uses; 0 where the two meet.
  int64_t gap_bytes = 0;
};

Status generate(Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes, Generated &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CODEGEN_H
