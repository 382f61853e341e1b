// SPDX-License-Identifier: MIT
#include "compiler/graph/evaluate.h"

namespace npu::graph {
namespace {

/// The tensors of one evaluation. What no node reads any more is freed.
class Values {
 public:
  explicit Values(const Graph &graph) : graph_(graph), now_(graph.values.size()), made_(graph.values.size()) {
    for (size_t i = 0; i < now_.size(); ++i) now_[i] = graph.values[i].constant.get();
    left_ = graph.use_counts();
  }

  void set(ValueId v, const Tensor &tensor) { now_[static_cast<size_t>(v)] = &tensor; }
  const Tensor *get(ValueId v) const { return v == kNoValue ? nullptr : now_[static_cast<size_t>(v)]; }

  Status run(const Node &n, const ChangeValue &change = {}) {
    std::vector<const Tensor *> operands;
    for (ValueId v : n.inputs) operands.push_back(get(v));
    auto made = std::make_unique<Tensor>(graph_[n.output].dtype, graph_[n.output].shape);
    NPU_TRY(cpu::evaluate(n.op, n.attrs, operands, *made).within(node_text(n)));
    if (change) change(n, operands, *made);
    set(n.output, *made);
    made_[static_cast<size_t>(n.output)] = std::move(made);
    return {};
  }

  /// A node has read its operands.
  void drop(const Node &n) {
    for (ValueId v : n.inputs)
      if (v != kNoValue && --left_[static_cast<size_t>(v)] == 0) made_[static_cast<size_t>(v)].reset();
  }

 private:
  /// For messages.
  std::string node_text(const Node &n) const {
    const bool named = static_cast<size_t>(n.source) < graph_.sources.size();
    return std::string(op_name(n.op)) + (named ? " '" + graph_.sources[static_cast<size_t>(n.source)].name + "'" : "");
  }

  const Graph &graph_;
  std::vector<const Tensor *> now_;
  std::vector<std::unique_ptr<Tensor>> made_;
  std::vector<int> left_;  // how often a value is still read
};

}  // namespace

Status fold_node(const Graph &graph, const Node &node, Tensor &out) {
  std::vector<const Tensor *> operands;
  for (ValueId v : node.inputs) operands.push_back(v == kNoValue ? nullptr : graph[v].constant.get());
  return cpu::evaluate(node.op, node.attrs, operands, out);
}

Status evaluate_graph(const Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs) {
  return evaluate_graph(graph, inputs, {}, outputs);
}

namespace {

Status evaluate(const Graph &graph, const std::vector<Tensor> &inputs, const SeeValue &see, const ChangeValue &change,
                std::vector<Tensor> &outputs) {
  Values values(graph);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorKind &wanted = graph[graph.inputs[i]];
    if (static_cast<const TensorKind &>(inputs[i]) != wanted)
      return Status::error("input " + std::to_string(i) + " is " + kind_text(inputs[i]) + ", expected " +
                           kind_text(wanted));
    values.set(graph.inputs[i], inputs[i]);
    if (see) see(graph.inputs[i], inputs[i]);
  }
  for (const Node &n : graph.nodes) {
    NPU_TRY(values.run(n, change));
    if (see) see(n.output, *values.get(n.output));
    values.drop(n);
  }
  outputs.clear();
  for (ValueId v : graph.outputs) outputs.push_back(*values.get(v));
  return {};
}

}  // namespace

Status evaluate_graph(const Graph &graph, const std::vector<Tensor> &inputs, const SeeValue &see,
                      std::vector<Tensor> &outputs) {
  return evaluate(graph, inputs, see, {}, outputs);
}

Status evaluate_changed(const Graph &graph, const std::vector<Tensor> &inputs, const ChangeValue &change,
                        std::vector<Tensor> &outputs) {
  return evaluate(graph, inputs, {}, change, outputs);
}

}  // namespace npu::graph
