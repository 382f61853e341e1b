// SPDX-License-Identifier: MIT
// Lower bounds for the time of a program.
#ifndef NPU_COMPILER_BOUNDS_H
#define NPU_COMPILER_BOUNDS_H

#include "compiler/lowering/lowered.h"
#include "compiler/schedule/program.h"

namespace npu::compiler {

/// Bytes of the constants that a program reads, each once, however often the coefficients have it.
uint64_t constant_bytes(const Lowered &lowered);

/// Bytes of the inputs and outputs that a program moves in whole. A tensor of which it reads a part, as a Slice does,
/// counts as nothing: no program has to move all of it.
uint64_t io_bytes(const Program &program);

/// Cycles that operators need which are computed in this order. When one of them ends, of the weights of later ones
/// local memory holds no more than it can: the rest has yet to come. The bound is the largest, over all operators, of
/// the arithmetic up to its end plus the time of that rest.
uint64_t order_bound(const Lowered &lowered, int64_t lmem_bytes);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_BOUNDS_H
