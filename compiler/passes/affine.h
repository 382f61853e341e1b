// SPDX-License-Identifier: MIT
// Element-wise nodes that scale and shift channels.
#ifndef NPU_GRAPH_AFFINE_H
#define NPU_GRAPH_AFFINE_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// y = x * factor + summand, a channel.
struct Affine {
  std::vector<double> factor, summand;
};

/// What a Binary node does to its operand x of this shape, where `axis` is the channels; false when it is something
/// else, varies along another dimension, or is so large that it is a mask: among the terms of a sum it would take away
/// the bits of all others.
bool affine_of(const Graph &g, const Node &n, ValueId x, const Shape &shape, size_t axis, Affine &out);

/// Whether a factor or summand a channel of its result can go into a node's weights and bias, and the dimension of the
/// channels.
bool foldable(const Graph &g, const Node &p, size_t &axis);

/// Lets factors and summands stand in front of a Concat of channels, and positive factors in front of a Relu, where
/// every node behind which they come to stand can take them. False: nothing has changed.
bool raise_affine(Graph &graph);

}  // namespace npu::graph

#endif  // NPU_GRAPH_AFFINE_H
