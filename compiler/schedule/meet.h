// SPDX-License-Identifier: MIT
// Several cores as one program: semaphores between what one writes for others and what they read.
#ifndef NPU_COMPILER_MEET_H
#define NPU_COMPILER_MEET_H

#include "compiler/kernels/emitter.h"

namespace npu::compiler {

/// The commands of all cores, one core behind the other. A core signals when it has written all that it writes of an
/// exchange; before it reads one it waits for all others that write it. An exchange that is read and that nobody writes
/// is an error.
Status meet(const std::vector<Lowered> &cores, std::vector<std::vector<Command>> commands, std::vector<Command> &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_MEET_H
