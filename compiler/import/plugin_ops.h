// SPDX-License-Identifier: MIT
// Operators of users' own, which a plug-in computes on the CPU.
#ifndef NPU_GRAPH_PLUGIN_OPS_H
#define NPU_GRAPH_PLUGIN_OPS_H

#include "compiler/import/op_context.h"

namespace npu::graph {

/// True if a plug-in that is loaded has the node's operator.
bool is_plugin_operator(const RawNode &n);

/// For the refusal of an operator that no plug-in has: "; plug-in p.so has it as a.b.Name" with another domain, and why
/// libraries of NPU_PLUGINS are not loaded. Empty: nothing is known.
std::string plugin_advice(const RawNode &n);

/// Converts such a node.
Status plugin_operator(OpContext &c);

}  // namespace npu::graph

#endif  // NPU_GRAPH_PLUGIN_OPS_H
