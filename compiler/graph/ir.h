// SPDX-License-Identifier: MIT
// The compiler's neutral representation of a network: typed operators on tensors of known shape.
//
// A Graph owns values and nodes; both are named by index and never removed, only orphaned (Graph::compact drops what is
// dead). Nodes stand in execution order. Operator-set versions, default attributes and optional inputs of ONNX are
// resolved by the importer and do not appear here.
#ifndef NPU_GRAPH_IR_H
#define NPU_GRAPH_IR_H

#include <string>
#include <variant>
#include <vector>

#include "compiler/graph/tensor.h"
#include "runtime/cpu/attributes.h"

namespace npu::graph {

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

enum class Op : uint8_t {
  Conv,     ///< x [n, c, spatial...], weights [oc, c / groups, kernel...], optional bias [oc]; the latter two constant
  MatMul,   ///< a [..., m, k], b [..., k, n], optional constant bias [n]
  Pool,     ///< x [n, c, spatial...]
  Binary,   ///< a, b with numpy broadcasting
  Unary,    ///< x: an activation alone
  Softmax,  ///< x
  Transpose,  ///< x
  Reshape,    ///< x; the new shape is that of the result
  Concat,     ///< any number
  Slice,      ///< x
  Pad,        ///< x, with a constant
  Expand,     ///< x, broadcast to the shape of the result
  Gather,     ///< x, constant indices
  Cast,       ///< x; constants only
};

const char *op_name(Op op);

using cpu::Activation;
using cpu::ActKind;
using cpu::BinaryAttrs;
using cpu::BinaryKind;
using cpu::CastAttrs;
using cpu::ConcatAttrs;
using cpu::ConvAttrs;
using cpu::GatherAttrs;
using cpu::MatMulAttrs;
using cpu::PadAttrs;
using cpu::PoolAttrs;
using cpu::ShapeAttrs;
using cpu::SliceAttrs;
using cpu::SoftmaxAttrs;
using cpu::TransposeAttrs;
using cpu::UnaryAttrs;
using cpu::Window;

using Attrs = std::variant<std::monostate, ConvAttrs, PoolAttrs, MatMulAttrs, BinaryAttrs, UnaryAttrs, SoftmaxAttrs,
                           TransposeAttrs, ConcatAttrs, SliceAttrs, PadAttrs, GatherAttrs, CastAttrs, ShapeAttrs>;

struct Value {
  std::string name;
  Dtype dtype = Dtype::F32;
  Shape shape;
  TensorPtr constant;  ///< null unless known at compile time
};

/// Where a node of the ONNX file went, for the report.
struct Source {
  std::string name, type;
  std::string fate;  ///< empty: see the commands that carry its tag
};

struct Node {
  Op op = Op::Unary;
  int source = 0;  ///< index in Graph::sources
  std::vector<ValueId> inputs;
  ValueId output = kNoValue;
  Attrs attrs;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;
  std::vector<std::string> output_names;  ///< one an output: a value may be several outputs, or an input as well
  std::vector<Source> sources;

  ValueId add_value(Value value) {
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size()) - 1;
  }
  ValueId add_constant(TensorPtr tensor, std::string value_name = {});
  const Value &operator[](ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value &operator[](ValueId id) { return values[static_cast<size_t>(id)]; }

  bool is_constant(ValueId id) const { return (*this)[id].constant != nullptr; }
  bool is_output(ValueId id) const;
  /// How often nodes read a value, and outputs name it.
  std::vector<int> use_counts() const;
  /// Index of the node that makes each value, -1 for inputs and constants.
  std::vector<int> producers() const;
};

/// The shape and type of a node's result, from its operands and attributes; checks everything that the rest of the
/// compiler relies on.
Status infer(const Graph &graph, const Node &node, Dtype &dtype, Shape &shape);

}  // namespace npu::graph

#endif  // NPU_GRAPH_IR_H
