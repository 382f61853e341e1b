// SPDX-License-Identifier: MIT
#include "compiler/graph/evaluate.h"

#include <map>

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

  /// Computes a result. One with wrong data is an error only where an output depends on it.
  void run(const Node &n, const ChangeValue &change) {
    auto made = std::make_unique<Tensor>(graph_[n.output].dtype, graph_[n.output].shape);
    if (Status status = compute(n, *made, change); !status.ok()) wrong_[n.output] = std::move(status);
    set(n.output, *made);
    made_[static_cast<size_t>(n.output)] = std::move(made);
  }

  Status error_of(ValueId v) const {
    const auto it = wrong_.find(v);
    return it == wrong_.end() ? Status() : it->second;
  }

  /// A node has read its operands.
  void drop(const Node &n) {
    for (ValueId v : n.inputs)
      if (v != kNoValue && --left_[static_cast<size_t>(v)] == 0) made_[static_cast<size_t>(v)].reset();
  }

 private:
  Status compute(const Node &n, Tensor &out, const ChangeValue &change) {
    std::vector<const Tensor *> operands;
    for (ValueId v : n.inputs) operands.push_back(get(v));
    size_t left = n.inputs.size();  // the operand of a Where that does not count
    if (!wrong_.empty() && n.op == Op::Where && operands[0]->count() == 1) {
      NPU_TRY(error_of(n.inputs[0]));
      left = operands[0]->data[0] ? 2 : 1;
    }
    for (size_t k = 0; k < n.inputs.size() && !wrong_.empty(); ++k)
      if (k != left) NPU_TRY(error_of(n.inputs[k]));
    NPU_TRY(cpu::evaluate(n.op, n.attrs, operands, out).within(node_text(n)));
    if (change) change(n, operands, out);
    return {};
  }

  /// For messages.
  std::string node_text(const Node &n) const {
    const bool named = static_cast<size_t>(n.source) < graph_.sources.size();
    return std::string(op_name(n.op)) + (named ? " '" + graph_.sources[static_cast<size_t>(n.source)].name + "'" : "");
  }

  const Graph &graph_;
  std::map<ValueId, Status> wrong_;
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
    values.run(n, change);
    if (see && values.error_of(n.output).ok()) see(n.output, *values.get(n.output));
    values.drop(n);
  }
  outputs.clear();
  for (ValueId v : graph.outputs) {
    NPU_TRY(values.error_of(v));
    outputs.push_back(*values.get(v));
  }
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
