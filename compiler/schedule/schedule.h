// SPDX-License-Identifier: MIT
// Two streams a core from one sequential program for each: the TIU keeps its order, the GDMA runs ahead where nothing
// forbids it, and every conflict gets a wait.
#ifndef NPU_COMPILER_SCHEDULE_H
#define NPU_COMPILER_SCHEDULE_H

#include "compiler/kernels/emitter.h"

namespace npu::compiler {

/// The commands of a core's two engines.
struct CoreStreams {
  std::vector<Command> tiu, gdma;
};

struct Streams {
  std::vector<CoreStreams> cores;
  hw::Timeline timeline;
};

/// Commands have their final regions and offsets; those of a core stand together. Semaphore i counts the SEM_SIGNALs of
/// core i.
Streams schedule(const std::vector<Command> &program, size_t cores = 1);

/// The streams as the cost model takes them.
std::vector<hw::TimedCore> timed(const std::vector<CoreStreams> &cores);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_SCHEDULE_H
