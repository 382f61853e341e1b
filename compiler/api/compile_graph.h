// SPDX-License-Identifier: MIT
// The part of npuc behind the passes.
#ifndef NPU_COMPILER_COMPILE_GRAPH_H
#define NPU_COMPILER_COMPILE_GRAPH_H

#include "compiler/api/npuc.h"
#include "compiler/graph/ir.h"

namespace npu::compiler {

/// Compiles a graph as it is: no pass looks at it any more. What the chip cannot compute becomes parts for the CPU.
Status compile_graph(graph::Graph &graph, const Options &options, Compiled &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_COMPILE_GRAPH_H
