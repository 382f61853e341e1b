// SPDX-License-Identifier: MIT
// A graph for people: as text, and as a picture.
#ifndef NPU_GRAPH_PRINT_H
#define NPU_GRAPH_PRINT_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// One line for each input, constant, node and output. Values have their names, or their numbers where a name is
/// missing or not the only one: "y: float32 [1, 4] = Binary(x, #7) kind=Add". Attributes at their defaults are left
/// out, and so are constants that nothing reads; small ones are shown with their elements. With `ranges` also what
/// integers of 8 bits stand for, where that is known: "q: int8 [1, 4] {-128 to 127, 1@0} = ...".
std::string to_text(const Graph &graph, bool ranges = false);

/// The same as a Graphviz digraph: nodes with their operators, edges with shapes.
std::string to_dot(const Graph &graph, bool ranges = false);

}  // namespace npu::graph

#endif  // NPU_GRAPH_PRINT_H
