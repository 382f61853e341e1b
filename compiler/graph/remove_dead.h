// SPDX-License-Identifier: MIT
#ifndef NPU_GRAPH_REMOVE_DEAD_H
#define NPU_GRAPH_REMOVE_DEAD_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// Removes nodes whose results nobody needs. The importer may write two ways to compute a value, and removes the one
/// that nobody reads in the end; passes end with it where they replace nodes.
void remove_dead(Graph &graph);

}  // namespace npu::graph

#endif  // NPU_GRAPH_REMOVE_DEAD_H
