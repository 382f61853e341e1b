// SPDX-License-Identifier: MIT
// Nodes that compute nothing: who may pass which of them says so in these words.
#ifndef NPU_GRAPH_MOVES_H
#define NPU_GRAPH_MOVES_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// Whether each element of a node's result is one of its only operand's.
inline bool rearranges(const Node &n) {
  return n.op == Op::Transpose || n.op == Op::Reshape || n.op == Op::Slice || n.op == Op::Expand;
}

/// Whether each element of a node's result is one of an operand's, or the number that it pads with.
inline bool moves(const Node &n) {
  return rearranges(n) || n.op == Op::Concat || n.op == Op::Gather || n.op == Op::Pad;
}

/// Whether each element of a node's result is the largest of some of its operand's.
inline bool is_max_pool(const Node &n) {
  const auto *a = std::get_if<PoolAttrs>(&n.attrs);
  return a && a->max;
}

}  // namespace npu::graph

#endif  // NPU_GRAPH_MOVES_H
