// SPDX-License-Identifier: MIT
// What is computed, element by element, from one tensor of 8 bits has 256 different elements: a table.
#include <algorithm>
#include <set>

#include "compiler/passes/integers.h"

namespace npu::graph {
namespace {

constexpr size_t kMaxNodes = 64;  // of one table

bool is_elementwise(const Node &n) {
  return !is_quantized(n) && (n.op == Op::Unary || n.op == Op::Binary || n.op == Op::Cast || n.op == Op::Where);
}

/// Nodes whose results follow from one tensor of bytes.
bool compute(Op op, const Attrs &attrs, const std::vector<const Tensor *> &operands, Tensor &out) {
  std::vector<const TensorKind *> kinds(operands.begin(), operands.end());
  TensorKind kind;
  if (!cpu::infer(op, attrs, kinds, kind).ok()) return false;
  out = Tensor(kind.dtype, kind.shape);
  return cpu::evaluate(op, attrs, operands, out).ok();
}

/// All bytes of a type, in the order of a table.
Tensor all_bytes(Dtype type) {
  Tensor out(type, {256});
  for (size_t i = 0; i < 256; ++i) out.data[i] = static_cast<uint8_t>(i);
  return out;
}

class Formula {
 public:
  explicit Formula(const IntegerWalk &walk) : walk_(walk) {}

  /// Whether that is all that a value consists of.
  bool covers(ValueId v) {
    if (const Integers *x = walk_.bytes(v)) {
      if (source_.value == kNoValue) source_ = *x;
      return x->value == source_.value && x->quant == source_.quant && fits(v);
    }
    if (const TensorPtr &known = walk_.graph[v].constant) return known->count() == 1;
    const int i = walk_.maker_index(v);
    if (i < 0 || !is_elementwise(walk_.nodes[static_cast<size_t>(i)])) return false;
    if (!nodes_.insert(static_cast<size_t>(i)).second) return true;
    const Node &n = walk_.nodes[static_cast<size_t>(i)];
    return nodes_.size() <= kMaxNodes && fits(v) &&
           std::all_of(n.inputs.begin(), n.inputs.end(), [this](ValueId x) { return covers(walk_.now(x)); });
  }

  const Integers &source() const { return source_; }
  const std::set<size_t> &nodes() const { return nodes_; }
  bool has_source() const { return source_.value != kNoValue; }

  /// The integers that a value has for each byte; null: they cannot be computed.
  TensorPtr table(ValueId v, const Quant &quant, Dtype type) const {
    std::map<ValueId, Tensor> values;
    const Tensor bytes = all_bytes(walk_.graph[source_.value].dtype);
    Tensor reals;
    if (!compute(Op::Requant, RequantAttrs{source_.quant, {}, {}, Dtype::F32}, {&bytes}, reals)) return nullptr;
    for (size_t i : nodes_) {
      const Node &n = walk_.nodes[i];
      std::vector<const Tensor *> operands;
      for (ValueId x : n.inputs) operands.push_back(element(walk_.now(x), reals, values));
      if (!compute(n.op, n.attrs, operands, values[n.output])) return nullptr;
    }
    auto out = std::make_shared<Tensor>();
    const RequantAttrs to{{}, quant, {}, type};
    return compute(Op::Requant, to, {element(v, reals, values)}, *out) && out->shape == Shape{256} ? out : nullptr;
  }

 private:
  /// All parts have the shape of the result: single numbers are repeated, and nothing else.
  bool fits(ValueId v) {
    if (!shape_) shape_ = walk_.graph[v].shape;
    return walk_.graph[v].shape == *shape_;
  }

  const Tensor *element(ValueId v, const Tensor &reals, std::map<ValueId, Tensor> &values) const {
    if (walk_.bytes(v)) return &reals;
    const auto known = values.find(v);
    if (known != values.end()) return &known->second;
    Tensor number = *walk_.graph[v].constant;
    number.shape = {};
    return &(values[v] = std::move(number));
  }

  const IntegerWalk &walk_;
  Integers source_;
  std::set<size_t> nodes_;  // in the order in which they are computed
  std::optional<Shape> shape_;
};

}  // namespace

bool is_lookup(const IntegerWalk &walk, ValueId v) {
  Formula formula(walk);
  return formula.covers(v) && formula.has_source();
}

bool fuse_lookup(IntegerWalk &walk, size_t i) {
  const Node &n = walk.nodes[i];
  Tail tail;
  if (!is_elementwise(n) || walk.graph[n.output].dtype != Dtype::F32) return false;
  if (!walk.tail(n.output, Takes::Nothing, tail)) return false;
  Formula formula(walk);
  if (!formula.covers(n.output) || !formula.has_source()) return false;
  const Integers x = formula.source();
  ValueId y;
  const auto *unary = std::get_if<UnaryAttrs>(&n.attrs);
  if (unary && is_simple(unary->act) && formula.nodes().size() == 1) {
    y = walk.add(Op::Requant, {x.value}, RequantAttrs{x.quant, tail.quant, unary->act, tail.type}, n.source);
  } else {
    const TensorPtr table = formula.table(n.output, tail.quant, tail.type);
    if (!table) return false;
    y = walk.add(Op::Lookup, {x.value, walk.constant(table)}, std::monostate{}, n.source);
  }
  walk.takes(x, n.source);
  for (size_t k : formula.nodes())
    if (k != i) walk.joins(k, n.source);
  walk.set(n.output, {y, tail.quant, n.source});
  return true;
}

bool fuse_bytes(IntegerWalk &walk, size_t i) {
  const Node &n = walk.nodes[i];
  const Graph &g = walk.graph;
  if (!is_elementwise(n) || n.op == Op::Where || !is_byte(g[n.output].dtype)) return false;
  ValueId x = kNoValue;
  std::vector<Tensor> numbers(n.inputs.size());
  std::vector<const Tensor *> operands;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    const Value &v = g[n.inputs[k]];
    if (v.constant && v.constant->count() == 1) {
      numbers[k] = *v.constant;
      numbers[k].shape = {};
    } else {
      if (!is_byte(v.dtype) || v.shape != g[n.output].shape || (x != kNoValue && x != n.inputs[k])) return false;
      x = n.inputs[k];
      numbers[k] = all_bytes(v.dtype);
    }
    operands.push_back(&numbers[k]);
  }
  auto table = std::make_shared<Tensor>();
  if (x == kNoValue || !compute(n.op, n.attrs, operands, *table)) return false;
  walk.add(Op::Lookup, {walk.now(x), walk.constant(table)}, std::monostate{}, n.source, n.output);
  return true;
}

}  // namespace npu::graph
