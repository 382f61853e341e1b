// SPDX-License-Identifier: MIT
// What other operators have in common with those that have a window.
#ifndef NPU_GRAPH_WINDOWS_H
#define NPU_GRAPH_WINDOWS_H

#include "compiler/import/op_context.h"

namespace npu::graph {

/// Window and groups of a node with the operands x and weights of a Conv, and its attributes. Precondition: x has one
/// or two spatial dimensions.
Status read_conv(const OpContext &c, ConvAttrs &out);

}  // namespace npu::graph

#endif  // NPU_GRAPH_WINDOWS_H
