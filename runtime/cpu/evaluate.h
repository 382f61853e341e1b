// SPDX-License-Identifier: MIT
// The operators of the graph on the host: short loops, sums in double precision. Constant folding uses it, and tests
// compare against it.
#ifndef NPU_CPU_EVALUATE_H
#define NPU_CPU_EVALUATE_H

#include <map>

#include "ir.h"

namespace npu::cpu {

/// Computes one node. `out` has the inferred type and shape; operands[i] belongs to node.inputs[i] and may be null
/// where that is absent.
Status evaluate_node(const graph::Graph &graph, const graph::Node &node,
                     const std::vector<const graph::Tensor *> &operands, graph::Tensor &out);

/// A node whose operands are all constants of the graph: what the importer calls.
Status fold_node(const graph::Graph &graph, const graph::Node &node, graph::Tensor &out);

/// The whole network, inputs and outputs in the graph's order.
Status evaluate_graph(const graph::Graph &graph, const std::vector<graph::Tensor> &inputs,
                      std::vector<graph::Tensor> &outputs);

}  // namespace npu::cpu

#endif  // NPU_CPU_EVALUATE_H
