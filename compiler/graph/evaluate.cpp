// SPDX-License-Identifier: MIT
#include "compiler/graph/evaluate.h"

namespace npu::graph {

Status fold_node(const Graph &graph, const Node &node, Tensor &out) {
  std::vector<const Tensor *> operands;
  for (ValueId v : node.inputs) operands.push_back(v == kNoValue ? nullptr : graph[v].constant.get());
  return cpu::evaluate(node.op, node.attrs, operands, out);
}

Status evaluate_graph(const Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs) {
  std::vector<const Tensor *> values(graph.values.size());
  std::vector<std::unique_ptr<Tensor>> made;
  for (size_t i = 0; i < graph.values.size(); ++i) values[i] = graph.values[i].constant.get();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorKind &wanted = graph[graph.inputs[i]];
    if (static_cast<const TensorKind &>(inputs[i]) != wanted)
      return Status::error("input " + std::to_string(i) + " is " + kind_text(inputs[i]) + ", expected " +
                           kind_text(wanted));
    values[static_cast<size_t>(graph.inputs[i])] = &inputs[i];
  }
  for (const Node &n : graph.nodes) {
    std::vector<const Tensor *> operands;
    for (ValueId v : n.inputs) operands.push_back(v == kNoValue ? nullptr : values[static_cast<size_t>(v)]);
    made.push_back(std::make_unique<Tensor>(graph[n.output].dtype, graph[n.output].shape));
    NPU_TRY(cpu::evaluate(n.op, n.attrs, operands, *made.back()));
    values[static_cast<size_t>(n.output)] = made.back().get();
  }
  outputs.clear();
  for (ValueId v : graph.outputs) outputs.push_back(*values[static_cast<size_t>(v)]);
  return {};
}

}  // namespace npu::graph
