// SPDX-License-Identifier: MIT
// Weights are brought into local memory ahead of the commands that read them, while the memory has nothing else to do.
#ifndef NPU_COMPILER_PREFETCH_H
#define NPU_COMPILER_PREFETCH_H

#include "compiler/schedule/codegen.h"

namespace npu::compiler {

struct Prefetched {
  std::vector<Command> commands;
  size_t blocks = 0;        ///< that come ahead; with none of them the commands are those of `from`
  int64_t lmem_bytes = 0;   ///< high-water mark
  int64_t gap_bytes = 0;    ///< between tile buffers and tensors that nothing uses
  std::vector<Hold> holds;  ///< of these commands, weights as well
};

/// Inserts copies of weight blocks into `from.commands`, whose regions are not bound yet, and makes CONV and MATMUL
/// read them in local memory. A block lies where nothing else is held from its copy to its last reader, within
/// `lmem_bytes`.
Prefetched prefetch(const Generated &from, int64_t lmem_bytes, const PrefetchPolicy &policy);

/// The program without prefetch.
Prefetched without_prefetch(const Generated &from);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_PREFETCH_H
