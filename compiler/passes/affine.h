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
/// else or varies along another dimension.
bool affine_of(const Graph &g, const Node &n, ValueId x, const Shape &shape, size_t axis, Affine &out);

}  // namespace npu::graph

#endif  // NPU_GRAPH_AFFINE_H
