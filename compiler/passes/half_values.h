// SPDX-License-Identifier: MIT
// The values that stay float32 where results are stored in 16 bits.
#ifndef NPU_GRAPH_HALF_VALUES_H
#define NPU_GRAPH_HALF_VALUES_H

#include <vector>

#include "compiler/graph/ir.h"

namespace npu::graph {

/// One flag for each value of the graph.
struct HalfValues {
  std::vector<bool> single;  ///< stored in float32; a product reads them in 16 bits
  std::vector<bool> wide;    ///< stored in float32 for all readers: 16 bits might not hold the numbers
  std::vector<bool> whole;   ///< results of products that read float32 as well
};

/// Chooses them by these rules, of which docs/reference/compiler.md ("Half precision") has the reasons:
/// - outputs of the network, and what the CPU or a function with steps reads;
/// - squares, products with large numbers, sums with numbers that the type does not hold or that may be masks;
/// - scores that a Softmax compares, where they might leave the range of the type;
/// - statistics of rows that an element-wise node repeats;
/// - intermediate results of one operator of the file that a sum, a difference or an exponential reads.
HalfValues find_half_values(const Graph &graph, Dtype half);

/// True if all finite numbers of a constant of float32 are finite in 16 bits.
bool fits(const Tensor &constant, Dtype half);

/// True if all numbers of a constant of float32 are so small that 16 bits have fewer digits for them.
bool is_subnormal(const Tensor &constant, Dtype half);

}  // namespace npu::graph

#endif  // NPU_GRAPH_HALF_VALUES_H
