// SPDX-License-Identifier: MIT
// The figures of the nodes in a schedule: docs/reference/compiler.md, "The report's figures".
#ifndef NPU_COMPILER_SCHEDULE_REPORT_H
#define NPU_COMPILER_SCHEDULE_REPORT_H

#include <span>

#include "compiler/api/npuc.h"
#include "compiler/schedule/program.h"

namespace npu::compiler {

/// One command on the critical path of a program: the program's end waits for it during all of its cycles.
struct Critical {
  const Command *command;
  uint64_t cycles;
};

/// The commands that follow each other without a gap from the program's start to its end, the last one first. Of two
/// for which a command waited until the same cycle it is the one of the same engine.
std::vector<Critical> critical_path(const Streams &streams);

/// What a command's cycles go to, of which it took so many.
Spent spent_by(const Command &command, uint64_t cycles);

/// Adds what the commands of a program do: `layer_of` has the index in Report::layers for each of its layers. The
/// program begins at the report's cycles so far. `maps`: what is in which memory, too.
void report_schedule(const Program &program, std::span<const size_t> layer_of, bool maps, Report &report);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_SCHEDULE_REPORT_H
