// SPDX-License-Identifier: MIT
// Two streams from one sequential program: the TIU keeps its order, the GDMA runs ahead where nothing forbids it, and
// every conflict gets a wait.
#ifndef NPU_COMPILER_SCHEDULE_H
#define NPU_COMPILER_SCHEDULE_H

#include "compiler/kernels/emitter.h"

namespace npu::compiler {

struct Streams {
  std::vector<Command> tiu, gdma;
  hw::Timeline timeline;
};

/// Commands have their final regions and offsets.
Streams schedule(const std::vector<Command> &program);

/// The streams as the cost model takes them.
std::vector<hw::TimedCore> timed(const std::vector<Command> &tiu, const std::vector<Command> &gdma);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_SCHEDULE_H
