// SPDX-License-Identifier: MIT
// What arithmetic and logic have in common.
#ifndef NPU_GRAPH_ELTWISE_H
#define NPU_GRAPH_ELTWISE_H

#include "compiler/import/op_context.h"

namespace npu::graph {

/// The second operand of an operator of two, in a shape that broadcasts: operator sets below 7 may lay it at an axis.
Status second_operand(OpContext &c, ValueId &b);

/// An operator that is one of the graph's functions of two numbers; `swapped`: of operand 1 and operand 0.
Status binary_operator(OpContext &c, BinaryKind kind, bool swapped = false);
/// The handler of such an operator; operands in their order.
template <BinaryKind kind>
Status binary(OpContext &c) {
  return binary_operator(c, kind);
}

}  // namespace npu::graph

#endif  // NPU_GRAPH_ELTWISE_H
