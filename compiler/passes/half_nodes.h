// SPDX-License-Identifier: MIT
// Properties of single nodes that decide in which type their results are stored.
#ifndef NPU_GRAPH_HALF_NODES_H
#define NPU_GRAPH_HALF_NODES_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// Sine and cosine: of a large operand 16 bits do not even have the quarter.
bool is_periodic(const Node &n);
/// Functions with steps: Sign, Floor, Ceil, Round.
bool has_steps(const Node &n);
/// Functions and averages that make the relative error of their operand larger.
bool enlarges_errors(const Node &n);
/// The result is one of its operand's numbers, perhaps with another sign.
bool keeps_numbers(const Node &n);
/// An activation keeps the result within the range of the type, whatever its operands are.
bool is_bounded(const Node &n, Dtype half);

/// The result might be no float16 although the operands are.
bool may_leave_range(const Graph &g, const Node &n);
/// A Binary node has a constant operand that makes the result one which 16 bits might not hold: a large factor or
/// summand, a mask; for float16 a number below its smallest ones that keeps a divisor from 0.
bool has_extreme_operand(const Graph &g, const Node &n, Dtype half);
/// A Pad, Concat or Where has constants that are no finite numbers in 16 bits, or masks.
bool brings_extremes(const Graph &g, const Node &n, Dtype half);
/// A product adds such numbers.
bool has_large_bias(const Graph &g, const Node &n);
/// A sum, or a product's bias, has summands that may mask scores.
bool masks_scores(const Graph &g, const Node &n);
/// A limit of the result is below the smallest numbers of float16 and keeps a divisor from 0.
bool has_tiny_bound(const Node &n, Dtype half);
/// The result is limited by numbers that 16 bits do not have.
bool has_other_bounds(const Graph &g, const Node &n, Dtype half);

}  // namespace npu::graph

#endif  // NPU_GRAPH_HALF_NODES_H
