// SPDX-License-Identifier: MIT
// The graph on the host, by the operators of runtime/cpu: constant folding uses it, and tests compare with it.
#ifndef NPU_GRAPH_EVALUATE_H
#define NPU_GRAPH_EVALUATE_H

#include <functional>
#include <span>

#include "compiler/graph/ir.h"

namespace npu::graph {

/// A node whose operands are all constants of the graph.
Status fold_node(const Graph &graph, const Node &node, Tensor &out);

/// The whole network, inputs and outputs in the graph's order.
Status evaluate_graph(const Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs);

/// Called with a node's operands, null where one is left out, and its result, before others read that.
using ChangeValue = std::function<void(const Node &, std::span<const Tensor *const>, Tensor &)>;

/// The whole network with results that are changed on the way.
Status evaluate_changed(const Graph &graph, const std::vector<Tensor> &inputs, const ChangeValue &change,
                        std::vector<Tensor> &outputs);

/// Called with an input, or with what a node has made; the tensor lives as long as nodes are left that read it.
using SeeValue = std::function<void(ValueId, const Tensor &)>;

/// The same, and shows the inputs and the result of each node on the way.
Status evaluate_graph(const Graph &graph, const std::vector<Tensor> &inputs, const SeeValue &see,
                      std::vector<Tensor> &outputs);

}  // namespace npu::graph

#endif  // NPU_GRAPH_EVALUATE_H
