// SPDX-License-Identifier: MIT
// The tensors between the nodes of a network, for drawings of it.
#ifndef NPU_COMPILER_EDGES_H
#define NPU_COMPILER_EDGES_H

#include "compiler/api/npuc.h"
#include "compiler/graph/ir.h"

namespace npu::compiler {

/// The edges between the sources of a graph, each once, in the order of its nodes. Constants have none.
std::vector<EdgeReport> edges_of(const graph::Graph &graph);

/// Adds the edges of sources that passes have added: those from number `known` on. An edge that such a source has
/// interrupted goes.
void add_edges_of_passes(const graph::Graph &graph, size_t known, std::vector<EdgeReport> &edges);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_EDGES_H
