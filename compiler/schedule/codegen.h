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

/// A piece of local memory that a tile buffer or a tensor has while commands [first, end) run.
struct Hold {
  int64_t addr = 0, bytes = 0;
  size_t first = 0, end = 0;
};

struct Generated {
  std::vector<Command> commands;
  std::vector<OpReport> reports;
  std::vector<Hold> holds;   ///< everything that local memory holds, in no order
  int64_t lmem_bytes = 0;    ///< high-water mark
  int64_t buffers_to = 0;    ///< end of the highest tile buffer
  int64_t tensors_from = 0;  ///< start of the lowest tensor
};

/// `weight_block`: bytes of weights at which commands that wait for them are cut.
Status generate(Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes, int64_t weight_block,
                Generated &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CODEGEN_H
