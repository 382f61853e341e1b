// SPDX-License-Identifier: MIT
// What a part of each operator's result needs of its operands.
#ifndef NPU_GRAPH_CUT_RULES_H
#define NPU_GRAPH_CUT_RULES_H

#include "compiler/graph/box.h"

namespace npu::graph {

inline constexpr int kWhole = -1;  ///< in place of a dimension: a result is not cut

/// Whether parts of a node's result along a dimension can be computed from parts of its operands.
bool can_cut(const Graph &graph, const Node &node, int axis);
/// Whether a node can compute just that part of its result. Precondition: can_cut().
bool can_compute(const Graph &graph, const Node &node, int axis, const Box &part);
/// Whether a node's result can be cut along a dimension, with something to do for each core.
bool can_cut(const Graph &graph, const Node &node, int axis, int cores);
/// What a core computes of a node's result.
Box part_of(const Graph &graph, const Node &node, int axis, int cores, int core);
/// What is needed of an operand for a part of the result. Precondition: can_compute(), or the part is the whole.
Box needed(const Graph &graph, const Node &node, size_t operand, int axis, const Box &part);
/// The attributes of the node that computes a part from what is needed.
Attrs cut_attrs(const Graph &graph, const Node &node, int axis, const Box &part);

/// Whether every node fits its operands: an error is a wrong rule.
Status check_parts(const Graph &graph);

}  // namespace npu::graph

#endif  // NPU_GRAPH_CUT_RULES_H
