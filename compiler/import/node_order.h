// SPDX-License-Identifier: MIT
// The order in which the nodes of a graph can be converted. ONNX wants files sorted; not all are.
#ifndef NPU_GRAPH_NODE_ORDER_H
#define NPU_GRAPH_NODE_ORDER_H

#include <set>

#include "common/status.h"
#include "compiler/import/raw_model.h"

namespace npu::graph {

/// Every name that a node reads, also in its bodies; what a body makes itself may be among them.
void add_reads(const RawNode &node, std::set<std::string> &names);

/// Indices of the nodes so that each comes after those that it reads; the file's order where that is possible. Errors:
/// nodes that need each other, two that make a tensor of the same name.
Status order_nodes(const std::vector<RawNode> &nodes, std::vector<size_t> &order);

/// A text of the file as messages may have it: without control characters, and not long.
std::string printable(std::string text);

/// "Conv 'name'", without a name the first output's.
std::string node_title(const RawNode &node);
/// "stem"; of a node without name that of its first result.
std::string node_name(const RawNode &node);

}  // namespace npu::graph

#endif  // NPU_GRAPH_NODE_ORDER_H
