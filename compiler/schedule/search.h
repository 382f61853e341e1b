// SPDX-License-Identifier: MIT
// A search for better choices than the code generator's: many programs are made, and their exact cycles compared.
#ifndef NPU_COMPILER_SEARCH_H
#define NPU_COMPILER_SEARCH_H

#include "compiler/schedule/program.h"
#include "compiler/schedule/progress.h"

namespace npu::compiler {

/// Replaces `program` by the best one that is found in local memory of `lmem_bytes`: one with fewer cycles or, with as
/// many, less local memory, down to `least_bytes`. Takes up to eight processors.
Status search(const Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
              int64_t least_bytes, const KeepSearching &keep, Program &program, SearchState &state);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_SEARCH_H
