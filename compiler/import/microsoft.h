// SPDX-License-Identifier: MIT
// What conversions of ONNX Runtime's own operators have in common.
#ifndef NPU_GRAPH_MICROSOFT_H
#define NPU_GRAPH_MICROSOFT_H

#include "compiler/import/op_context.h"

namespace npu::graph {

/// The operator set of the operators that these consist of.
inline constexpr int64_t kOpset = 19;

/// A node as one of an operator of ONNX, with its attributes: those that the operator does not have do no harm.
Status standard(OpContext &c, RawNode node, const char *type, std::vector<ValueId> inputs, ValueId &out,
                int64_t opset = kOpset);

}  // namespace npu::graph

#endif  // NPU_GRAPH_MICROSOFT_H
