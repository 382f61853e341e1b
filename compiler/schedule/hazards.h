// SPDX-License-Identifier: MIT
// Which commands of a sequential program must stay in order.
#ifndef NPU_COMPILER_HAZARDS_H
#define NPU_COMPILER_HAZARDS_H

#include "compiler/kernels/emitter.h"

namespace npu::compiler {

/// For each command the earlier ones that it must follow: those that wrote what it touches, and those that read what it
/// writes. Commands that follow indirectly may be left out, and so may those of the TIU before another of its commands
/// that is there: it keeps its order. The commands of a core stand together. Between cores a SEM_WAIT follows the
/// SEM_SIGNAL of what it waits for, and nothing else.
std::vector<std::vector<uint32_t>> find_hazards(const std::vector<Command> &program);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_HAZARDS_H
