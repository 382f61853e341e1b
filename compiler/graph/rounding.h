// SPDX-License-Identifier: MIT
// The effect of rounding on the outputs of a network: the graph on the host, with an error of the size of the rounding
// added to what each node computes. Differences between several such runs and an exact one show which differences
// between two right computations are to be expected, also where a network amplifies errors or decides by them.
#ifndef NPU_GRAPH_ROUNDING_H
#define NPU_GRAPH_ROUNDING_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// The numbers that results are rounded to: a type of real numbers, or integers of 8 bits with a range of their own for
/// each tensor
/// (Dtype::I8).
struct Rounding {
  Dtype type = Dtype::F32;
  /// F16 or BF16 for the values, by their numbers, that another runtime rounds to these types as well; null: none.
  const std::vector<Dtype> *in_file = nullptr;
  /// Half of the distance between two numbers of the type next to 1; of integers, half a step of a range of size 1.
  double unit() const;
};

/// The value's type in Rounding::in_file; F32: none of 16 bits.
Dtype type_in_file(const Rounding &rounding, ValueId v);

/// Evaluates with errors that `seed` decides: of each computed number at most the rounding of the type, of a product
/// also that of its sums; of integers that stand for numbers a step here and there. Moves and maxima are exact.
Status evaluate_rounded(const Graph &graph, const std::vector<Tensor> &inputs, const Rounding &rounding, uint64_t seed,
                        std::vector<Tensor> &outputs);

}  // namespace npu::graph

#endif  // NPU_GRAPH_ROUNDING_H
