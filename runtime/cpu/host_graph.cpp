// SPDX-License-Identifier: MIT
#include "runtime/cpu/host_graph.h"

#include <algorithm>
#include <map>
#include <new>

#include "runtime/cpu/subnet.h"

namespace npu::cpu {
namespace {

uint64_t bytes_of(const TensorKind &kind) {
  return static_cast<uint64_t>(element_count(kind.shape)) * dtype_bytes(kind.dtype);
}

Status check_kind(const TensorKind &kind) {
  if (dtype_bytes(kind.dtype) == 0) return Status::error("it has a type that is unknown");
  return element_count(kind.shape) < 0 ? Status::error("the shape " + shape_text(kind.shape) + " is too large")
                                       : Status();
}

Status infer_node(HostGraph &graph, const HostNode &node) {
  std::vector<const TensorKind *> operands;
  for (const int32_t v : node.operands) {
    if (v < -1 || v >= static_cast<int32_t>(graph.kinds.size()))
      return Status::error("operand " + std::to_string(v) + " does not exist in front of it");
    operands.push_back(v < 0 ? nullptr : &graph.kinds[static_cast<size_t>(v)]);
  }
  TensorKind result;
  NPU_TRY(infer(node.op, node.attrs, operands, result));
  graph.kinds.push_back(std::move(result));
  return {};
}

void find_last_uses(HostGraph &graph) {
  graph.last_use.assign(graph.kinds.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const int32_t v : graph.nodes[n].operands)
      if (v >= 0) graph.last_use[static_cast<size_t>(v)] = static_cast<int32_t>(n);
  for (const int32_t v : graph.outputs)
    graph.last_use[static_cast<size_t>(v)] = static_cast<int32_t>(graph.nodes.size());
}

/// Values that nobody needs after node n.
template <class Drop>
void drop_dead(const HostGraph &graph, size_t n, Drop drop) {
  const size_t made = graph.inputs.size() + graph.constants.size() + n;
  if (graph.last_use[made] == -1) drop(made);
  std::vector<int32_t> read = graph.nodes[n].operands;
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  for (const int32_t v : read)
    if (v >= 0 && graph.last_use[static_cast<size_t>(v)] == static_cast<int32_t>(n)) drop(static_cast<size_t>(v));
}

Status check_memory(const HostGraph &graph) {
  const size_t first = graph.inputs.size() + graph.constants.size();
  uint64_t now = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    now += bytes_of(graph.kinds[first + n]);
    if (now > kMaxHostBytes)
      return Status::error("operator " + std::to_string(n) + ": the values of the graph need more than " +
                           std::to_string(kMaxHostBytes >> 30) + " GiB at once");
    drop_dead(graph, n, [&](size_t v) {
      if (v >= first) now -= bytes_of(graph.kinds[v]);
    });
  }
  return {};
}

class Run {
 public:
  Run(const HostGraph &graph, std::span<const Tensor> inputs)
      : graph_(graph), first_(graph.inputs.size() + graph.constants.size()), made_(graph.nodes.size()) {
    for (const Tensor &t : inputs) values_.push_back(&t);
    for (const TensorPtr &t : graph.constants) values_.push_back(t.get());
  }

  Status run(std::vector<Tensor> &outputs) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const TensorKind &kind = graph_.kinds[first_ + n];
      made_[n] = Tensor(kind.dtype, kind.shape);
      const Status status = compute(graph_.nodes[n], made_[n]);
      if (!status.ok()) wrong_[static_cast<int32_t>(first_ + n)] = named(n, status);
      values_.push_back(&made_[n]);
      drop_dead(graph_, n, [&](size_t v) {
        if (v >= first_) made_[v - first_] = {};
      });
    }
    outputs.clear();
    for (const int32_t v : graph_.outputs) {
      NPU_TRY(error_of(v));
      outputs.push_back(*values_[static_cast<size_t>(v)]);
    }
    return {};
  }

 private:
  /// What is wrong with a value's data, from the node where it began.
  Status error_of(int32_t v) const {
    const auto it = wrong_.find(v);
    return it == wrong_.end() ? Status() : it->second;
  }

  /// An error that comes from an operand is that operand's, with the name of its node.
  Status named(size_t n, const Status &status) {
    if (inherited_) return status;
    const HostNode &node = graph_.nodes[n];
    const std::string name = node.name.empty() ? "" : " '" + node.name + "'";
    return status.within("operator " + std::to_string(n) + " (" + op_name(node.op) + name + ")");
  }

  Status compute(const HostNode &node, Tensor &out) {
    std::vector<const Tensor *> operands;
    for (const int32_t v : node.operands) operands.push_back(v < 0 ? nullptr : values_[static_cast<size_t>(v)]);
    size_t left = node.operands.size();  // the operand whose data does not matter
    inherited_ = true;
    if (node.op == Op::Where && operands[0]->count() == 1) {
      NPU_TRY(error_of(node.operands[0]));
      left = is_true(*operands[0]) ? 2 : 1;
    }
    for (size_t k = 0; k < node.operands.size(); ++k)
      if (k != left) NPU_TRY(error_of(node.operands[k]));
    inherited_ = false;
    return evaluate(node.op, node.attrs, operands, out);
  }

  const HostGraph &graph_;
  const size_t first_;  // value that the first node makes
  std::vector<Tensor> made_;
  std::vector<const Tensor *> values_;
  std::map<int32_t, Status> wrong_;
  bool inherited_ = false;
};

}  // namespace

Status infer_host_graph(HostGraph &graph) {
  graph.kinds = graph.inputs;
  for (size_t i = 0; i < graph.kinds.size(); ++i)
    NPU_TRY(check_kind(graph.kinds[i]).within("input " + std::to_string(i)));
  for (const TensorPtr &t : graph.constants) graph.kinds.push_back(*t);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    NPU_TRY(infer_node(graph, graph.nodes[n]).within("operator " + std::to_string(n)));
  for (const int32_t v : graph.outputs)
    if (v < 0 || v >= static_cast<int32_t>(graph.kinds.size()))
      return Status::error("an output is value " + std::to_string(v) + " of " + std::to_string(graph.kinds.size()));
  find_last_uses(graph);
  return check_memory(graph);
}

Status run_host_graph(const HostGraph &graph, std::span<const Tensor> inputs, std::vector<Tensor> &outputs) {
  try {
    return Run(graph, inputs).run(outputs);
  } catch (const std::bad_alloc &) {
    return Status::error("not enough memory on the host");
  }
}

}  // namespace npu::cpu
