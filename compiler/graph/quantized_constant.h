// SPDX-License-Identifier: MIT
// Constants of floating point that a file has as integers with scales: weights of quantized networks. The importer
// computes them like all constants, and keeps the integers with them, for operators that multiply those.
#ifndef NPU_GRAPH_QUANTIZED_CONSTANT_H
#define NPU_GRAPH_QUANTIZED_CONSTANT_H

#include <span>

#include "compiler/graph/ir.h"

namespace npu::graph {

struct QuantizedConstant {
  TensorPtr integers;         ///< int8 or uint8, of the shape of the constant
  std::vector<float> scales;  ///< one, or one for each element of the axis
  std::vector<int32_t> zeros;
  size_t axis = 0;
};

/// Where dimension `axis` of the first operand, of shape `from`, is behind a Transpose, Reshape or Slice; false: its
/// elements are not all there, or apart.
bool moved_axis(const Node &node, const Shape &from, size_t &axis);

/// The integers of what a node makes of its first operand, where that has some and the node only moves them; else null.
std::shared_ptr<const QuantizedConstant> moved_integers(const Graph &graph, const Node &node);

/// The same differences to a single zero point, which is 0 where int8 has them all; null: there is none.
TensorPtr with_single_zero(const TensorPtr &integers, std::span<const int32_t> zeros, size_t axis, int32_t &zero);

}  // namespace npu::graph

#endif  // NPU_GRAPH_QUANTIZED_CONSTANT_H
