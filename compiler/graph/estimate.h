// SPDX-License-Identifier: MIT
// What parts of nodes cost, about.
#ifndef NPU_GRAPH_ESTIMATE_H
#define NPU_GRAPH_ESTIMATE_H

#include "compiler/graph/box.h"
#include "npu_cost.hpp"

namespace npu::graph {

inline constexpr hw::CostParams kChip;

/// Bytes of an element of a value.
double element_bytes(const Graph &g, ValueId v);

/// Elements of a box.
double count(const Box &box);
/// Cycles of a command that computes a part of a node's result from a part of its first operand, all in local memory.
double compute_cycles(const Graph &graph, const Node &node, const Box &part, const Box &first);

}  // namespace npu::graph

#endif  // NPU_GRAPH_ESTIMATE_H
