// SPDX-License-Identifier: MIT
// Which element types kernels can make commands for: the only place that says so.
#ifndef NPU_COMPILER_CHECK_TYPES_H
#define NPU_COMPILER_CHECK_TYPES_H

#include "common/status.h"
#include "compiler/lowering/lowered.h"

namespace npu::compiler {

/// An error names what an operator's kernel does not take. The partition leaves such operators to the CPU, and so a
/// network cannot cause one.
Status check_types(const LoweredOp &op, const std::vector<Storage> &storages);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CHECK_TYPES_H
