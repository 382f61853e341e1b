// SPDX-License-Identifier: MIT
// What the conversion of one ONNX node sees, and the table of conversions.
#ifndef NPU_GRAPH_OP_CONTEXT_H
#define NPU_GRAPH_OP_CONTEXT_H

#include <span>
#include <string_view>

#include "compiler/import/importer.h"

namespace npu::graph {

/// Converts the body of If, Loop and Scan, and of functions, as if its nodes stood in place of the node.
class BodyConverter {
 public:
  virtual ~BodyConverter() = default;
  /// An error names no node: those of the body are reported by themselves.
  /// `perhaps`: at run time it may not count, and then what is wrong in it does no harm.
  virtual Status convert_body(const RawGraph &body, const std::vector<ValueId> &inputs, bool perhaps,
                              std::vector<ValueId> &outputs) = 0;
  /// The same for a branch that may not count. After an error, which names the node, nothing of it is left.
  virtual Status try_branch(const RawGraph &body, std::vector<ValueId> &outputs) = 0;
  /// convert_body() of the branch that a known condition chooses. If a value that is given for an input decides that,
  /// the help of what cannot be converted names one that chooses the other branch.
  virtual Status convert_chosen(const RawGraph &body, const std::string &condition, bool branch,
                                std::vector<ValueId> &outputs) = 0;
  /// True if a branch that cannot be converted may become an error of launches that choose it.
  virtual bool may_fail_later() const = 0;
};

class OpContext {
 public:
  OpContext(Graph &graph, const RawNode &node, int64_t opset, int source, std::vector<ValueId> inputs,
            BodyConverter *bodies = nullptr, bool perhaps = false)
      : graph(graph),
        node(node),
        opset(opset),
        bodies(bodies),
        perhaps(perhaps),
        results(node.outputs.size(), kNoValue),
        source_(source),
        inputs_(std::move(inputs)) {}

  Graph &graph;
  const RawNode &node;
  const int64_t opset;
  BodyConverter *const bodies;
  bool narrow_floats = false;    ///< operands are floating point of 4 or 8 bits in the file, float32 here
  bool finite_mask = false;      ///< of Attention: its mask has no infinities, so no row of scores is masked altogether
  const bool perhaps;            ///< the node may not count at run time: data that is wrong is no error before
  std::vector<ValueId> results;  ///< one an output of the ONNX node; kNoValue: not made

  /// Empty, or which attribute has another type than the operator reads.
  const std::string &wrong_attribute() const { return wrong_attribute_; }

  /// Index of the node in Graph::sources.
  int source() const { return source_; }

  // Attributes, with the default that the operator defines.
  bool has(const char *name) const { return node.attributes.count(name) != 0; }
  int64_t attr_i(const char *name, int64_t fallback) const;
  float attr_f(const char *name, float fallback) const;
  std::string attr_s(const char *name, const std::string &fallback) const;
  std::vector<int64_t> attr_ints(const char *name) const;

  std::vector<float> attr_floats(const char *name) const;
  std::vector<std::string> attr_strings(const char *name) const;
  /// The operator's axes, from 0 on, rising: the attribute before that operator set, the constant operand k from then
  /// on. Without either: all axes of input 0 (`all_by_default`) or none.
  Status axes(size_t k, int64_t since, bool all_by_default, std::vector<int> &out) const;

  const RawGraph *attr_graph(const char *name) const;

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
  /// The constant floating-point numbers of an operand, as float32.
  Status const_floats(size_t k, const char *what, std::vector<float> &out) const;
  /// Turns a possibly negative axis of a tensor of that rank into an index; allows `rank` itself when `end` is set.
  Status axis(int64_t value, int64_t rank, int &out, bool end = false) const;
  /// An output other than the first that somebody reads or that is a result of the network.
  bool wants_output(size_t k) const { return k < node.outputs.size() && !node.outputs[k].empty(); }

  /// Appends a node; a constant or empty result is computed at once and leaves no node.
  Status emit(Op op, std::vector<ValueId> inputs, Attrs attrs, ValueId &out);
  /// Comes before a constant is computed: an error where it, or all such together, would be too large.
  Status count_constant(const TensorKind &kind);
  ValueId constant(TensorPtr tensor) { return graph.add_constant(std::move(tensor)); }
  /// A constant of one element without dimensions, converted to a type.
  ValueId scalar(double value, Dtype type = Dtype::F32);
  /// The same in the type of x.
  ValueId scalar_like(ValueId x, double value) { return scalar(value, graph[x].dtype); }

  // Nodes that are needed often. Where there is nothing to do, out = x.
  Status unary(ActKind kind, ValueId x, ValueId &out, float a = 0, float b = 0);
  Status binary(BinaryKind kind, ValueId a, ValueId b, ValueId &out);
  /// b is one number, in the type of a.
  Status binary(BinaryKind kind, ValueId a, double b, ValueId &out);
  Status cast(ValueId x, Dtype to, ValueId &out);
  Status reshape(ValueId x, Shape shape, ValueId &out);
  Status expand(ValueId x, Shape shape, ValueId &out);
  Status transpose(ValueId x, std::vector<int> perm, ValueId &out);
  /// `count` elements of an axis, from `start` on.
  Status slice(ValueId x, int axis, int64_t start, int64_t count, ValueId &out, int64_t step = 1);
  Status concat(int axis, std::vector<ValueId> parts, ValueId &out);
  Status pad(ValueId x, std::vector<int64_t> begin, std::vector<int64_t> end, double value, ValueId &out);
  Status matmul(ValueId a, ValueId b, ValueId &out);
  Status where(ValueId condition, ValueId a, ValueId b, ValueId &out);
  /// Axes in any order, from 0 on; without `keep` their dimensions go.
  Status reduce(ReduceKind kind, ValueId x, std::vector<int> axes, bool keep, ValueId &out);
  Status gather(int axis, ValueId x, ValueId indices, ValueId &out);

 private:
  const RawAttribute *find(const char *name) const;
  /// Remembers that an attribute has another type than the operator's.
  void wrong_type(const char *name, const char *expected) const;
  mutable std::string wrong_attribute_;
  int source_;
  std::vector<ValueId> inputs_;
};

/// The only input of the network that a value follows from; kNoValue: there are several, or none.
ValueId only_origin(const Graph &g, ValueId v);
/// Says which option would make the condition of an If true or false: "--input sr=16000 chooses the then_branch when
/// the network is compiled". Empty: none would.
std::string condition_hint(const Graph &g, ValueId condition, bool branch);

/// The element type that the graph computes in: float32 for all floating-point types, others as they are.
Dtype working_type(Dtype type);
/// The same numbers in that type. Finite numbers that float32 cannot hold become its largest ones, and the graph has a
/// note about `what` then.
TensorPtr working_tensor(TensorPtr tensor, const std::string &what, Graph &graph);

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
std::span<const OpEntry> control_ops();
std::span<const OpEntry> activation_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> logic_ops();
std::span<const OpEntry> index_ops();
std::span<const OpEntry> recurrent_ops();
std::span<const OpEntry> sample_ops();
std::span<const OpEntry> signal_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> quantize_ops();
std::span<const OpEntry> quantized_product_ops();

/// Operators of ONNX Runtime, in a domain of their own, with the names of their attributes with blanks between them.
inline constexpr std::string_view kMicrosoft = "com.microsoft";
struct MicrosoftEntry {
  std::string_view type;
  OpHandler handler;
  std::string_view attributes;
};
std::span<const MicrosoftEntry> microsoft_ops();  ///< of integers
std::span<const MicrosoftEntry> microsoft_float_ops();
std::span<const MicrosoftEntry> microsoft_attention_ops();
/// nullptr for one that is not supported.
const MicrosoftEntry *find_microsoft(std::string_view type);

/// nullptr for an operator that is not supported.
OpHandler find_op(std::string_view domain, std::string_view type);

/// Input k, or kNoValue where it is left out.
inline ValueId optional_input(const OpContext &c, size_t k) { return c.has_input(k) ? c.in(k) : kNoValue; }

}  // namespace npu::graph

#endif  // NPU_GRAPH_OP_CONTEXT_H
