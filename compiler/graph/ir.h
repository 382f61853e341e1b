// SPDX-License-Identifier: MIT
// The compiler's neutral representation of a network: typed operators on tensors of known shape.
//
// A Graph owns values and nodes; both are named by index and never removed, only orphaned (Graph::compact drops what is
// dead). Nodes stand in execution order. Operator-set versions, default attributes and optional inputs of ONNX are
// resolved by the importer and do not appear here.
#ifndef NPU_GRAPH_IR_H
#define NPU_GRAPH_IR_H

#include <string>
#include <vector>

#include "compiler/graph/tensor.h"
#include "runtime/cpu/node.h"

namespace npu::graph {

/// Index of a value in Graph::values. A type of its own: an operand is easily mistaken for a number.
enum class ValueId : int {};
inline constexpr ValueId kNoValue{-1};
/// A value's number as the index of an array.
constexpr size_t at(ValueId v) { return static_cast<size_t>(v); }

using cpu::Activation;
using cpu::ActKind;
using cpu::ArgMaxAttrs;
using cpu::Attrs;
using cpu::BinaryAttrs;
using cpu::BinaryKind;
using cpu::CastAttrs;
using cpu::ConcatAttrs;
using cpu::ConvAttrs;
using cpu::CumSumAttrs;
using cpu::GatherAttrs;
using cpu::GatherNdAttrs;
using cpu::MatMulAttrs;
using cpu::Op;
using cpu::op_name;
using cpu::PadAttrs;
using cpu::PoolAttrs;
using cpu::PoolIndicesAttrs;
using cpu::ProductQuant;
using cpu::Quant;
using cpu::ReduceAttrs;
using cpu::ReduceKind;
using cpu::Reduction;
using cpu::RequantAttrs;
using cpu::ScatterAttrs;
using cpu::ShapeAttrs;
using cpu::SliceAttrs;
using cpu::SoftmaxAttrs;
using cpu::TopKAttrs;
using cpu::TransposeAttrs;
using cpu::UnaryAttrs;
using cpu::Window;

struct QuantizedConstant;  // quantized_constant.h

struct Value : TensorKind {
  std::string name;
  TensorPtr constant;                                  ///< null unless known at compile time
  std::shared_ptr<const QuantizedConstant> quantized;  ///< the integers that a constant was computed from, perhaps
  Quant quant;                                         ///< what integers stand for, where the file says so
  ValueId as_float = kNoValue;  ///< of int32, while importing: the same numbers as float32, for a Cast to take
  bool exact = false;           ///< of float32: integers, sums or scales that 16 bits might not hold
  bool inner = false;           ///< an intermediate result of one operator of the file
  bool single = false;          ///< set by passes that cut or join nodes: 16 bits might not hold it
  bool in_memory = false;       ///< never kept in local memory: it is written to memory piece by piece
};

/// The place in the report of a node whose nodes stand for it: a call of a function, a node with bodies.
inline constexpr const char *kInItsNodes = "in its nodes";

/// Where a node of the ONNX file went, for the report.
struct Source {
  std::string name, type;
  std::string fate;                      ///< empty: see the commands that carry its tag
  std::vector<TensorKind> outputs = {};  ///< of its results, in the file's order; what is left out is not there
  int merged_into = -1;                  ///< index of the source whose nodes compute the same; -1: none
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
  int64_t folded_bytes = 0;           ///< of all constants that were computed from others
  std::vector<std::string> notes;     ///< for the report: what is not as in the file
  std::vector<std::string> warnings;  ///< of these what may give other results than the file's
  bool saturated = false;             ///< constants of the file that are beyond float32 became its largest numbers

  ValueId add_value(Value value) {
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size() - 1);
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

/// Whether a node computes with quantized numbers: its attributes have a scale or a quantized product, or it is a
/// Requant or a Lookup. Moves and maxima take integers of 8 bits without that.
bool is_quantized(const Node &node);

/// The type and shape of a node's result (runtime/cpu/node.h).
Status infer(const Graph &graph, const Node &node, TensorKind &out);

}  // namespace npu::graph

#endif  // NPU_GRAPH_IR_H
