// SPDX-License-Identifier: MIT
// A graph for people: as text, and as a picture.
#ifndef NPU_GRAPH_PRINT_H
#define NPU_GRAPH_PRINT_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// One line for each input, constant, node and output. Values have their names, or their numbers where a name is
/// missing or not the only one: "y: float32 [1, 4] = Binary(x, #7) kind=Add". Attributes at their defaults are left
/// out, and so are constants that nothing reads; small ones are shown with their elements.
std::string to_text(const Graph &graph);

/// The same as a Graphviz digraph: nodes with their operators, edges with shapes.
std::string to_dot(const Graph &graph);

}  // namespace npu::graph

#endif  // NPU_GRAPH_PRINT_H
