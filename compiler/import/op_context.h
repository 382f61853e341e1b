// SPDX-License-Identifier: MIT
// What the conversion of one ONNX node sees, and the table of conversions.
#ifndef NPU_GRAPH_OP_CONTEXT_H
#define NPU_GRAPH_OP_CONTEXT_H

#include <span>
#include <string_view>

#include "compiler/import/importer.h"

namespace npu::graph {

class OpContext {
 public:
  OpContext(Graph &graph, const RawNode &node, int64_t opset, int source, std::vector<ValueId> inputs)
      : graph(graph),
        node(node),
        opset(opset),
        results(node.outputs.size(), kNoValue),
        source_(source),
        inputs_(std::move(inputs)) {}

  Graph &graph;
  const RawNode &node;
  const int64_t opset;
  std::vector<ValueId> results;  ///< one an output of the ONNX node; kNoValue: not made

  // Attributes, with the default that the operator defines.
  bool has(const char *name) const { return node.attributes.count(name) != 0; }
  int64_t attr_i(const char *name, int64_t fallback) const;
  float attr_f(const char *name, float fallback) const;
  std::string attr_s(const char *name, const std::string &fallback) const;
  std::vector<int64_t> attr_ints(const char *name) const;

  // Operands.
  size_t input_count() const { return inputs_.size(); }
  bool has_input(size_t k) const { return k < inputs_.size() && inputs_[k] != kNoValue; }
  ValueId in(size_t k) const { return inputs_[k]; }
  const Value &value(size_t k) const { return graph[inputs_[k]]; }
  const Shape &shape(size_t k) const { return value(k).shape; }
  int64_t rank(size_t k) const { return static_cast<int64_t>(shape(k).size()); }
  Status need_inputs(size_t least, size_t most) const;
  /// The constant integers of an operand; `what` names it in the message.
  Status const_ints(size_t k, const char *what, std::vector<int64_t> &out) const;
  /// The constant fp32 numbers of an operand.
  Status const_floats(size_t k, const char *what, std::vector<float> &out) const;
  /// Turns a possibly negative axis of a tensor of that rank into an index; allows `rank` itself when `end` is set.
  Status axis(int64_t value, int64_t rank, int &out, bool end = false) const;
  /// An output other than the first that somebody reads or that is a result of the network.
  bool wants_output(size_t k) const { return k < node.outputs.size() && !node.outputs[k].empty(); }

  /// Appends a node; a constant result is computed at once and leaves no node. `shape` is needed by Slice only.
  Status emit(Op op, std::vector<ValueId> inputs, Attrs attrs, ValueId &out, Shape shape = {});
  ValueId constant(TensorPtr tensor) { return graph.add_constant(std::move(tensor)); }
  Status reshape(ValueId x, Shape shape, ValueId &out);
  Status expand(ValueId x, Shape shape, ValueId &out);

 private:
  const RawAttribute *find(const char *name) const;
  int source_;
  std::vector<ValueId> inputs_;
};

using OpHandler = Status (*)(OpContext &);
struct OpEntry {
  std::string_view type;
  OpHandler handler;
};

std::span<const OpEntry> window_ops();
std::span<const OpEntry> matrix_ops();
std::span<const OpEntry> eltwise_ops();
std::span<const OpEntry> shape_ops();
std::span<const OpEntry> move_ops();
std::span<const OpEntry> resize_ops();

/// nullptr for an operator that is not supported.
OpHandler find_op(std::string_view domain, std::string_view type);

}  // namespace npu::graph

#endif  // NPU_GRAPH_OP_CONTEXT_H
