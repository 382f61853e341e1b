// SPDX-License-Identifier: MIT
// Element types as the chip's commands name them: the only place where the compiler's types become the chip's.
#ifndef NPU_COMPILER_CHIP_TYPES_H
#define NPU_COMPILER_CHIP_TYPES_H

#include "compiler/graph/tensor.h"

namespace npu::compiler {

/// NPU_DTYPE_* of a type. Truth values are bytes; what the chip can only copy is NPU_DTYPE_S64. Precondition:
/// has_chip_type().
uint8_t chip_type(graph::Dtype type);
/// Whether the chip can hold elements of a type at all.
bool has_chip_type(graph::Dtype type);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CHIP_TYPES_H
