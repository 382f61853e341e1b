// SPDX-License-Identifier: MIT
// Which nodes of a network are computed in turns (compiler/graph/turns.h).
#ifndef NPU_COMPILER_TURNS_H
#define NPU_COMPILER_TURNS_H

#include "compiler/api/cores.h"

namespace npu::compiler {

/// Replaces a network by one with runs of nodes in turns, and its program, where that takes fewer cycles or has to be
/// taken. The report says what was taken, and of the search for schedules, which was `before` that of the network, what
/// there is for its program.
Status try_turns(const Options &options, int64_t coeff_bytes, const SearchReport &before, graph::Graph &graph,
                 Made &made, Report &report);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_TURNS_H
