// SPDX-License-Identifier: MIT
// Results in 16 bits. The arithmetic stays float32, so that a node differs from what it was by one rounding of each
// operand and of its result.
#include <algorithm>
#include <map>

#include "compiler/graph/moves.h"
#include "compiler/graph/partition.h"
#include "compiler/passes/half_values.h"
#include "compiler/passes/passes.h"
#include "runtime/cpu/operators.h"

namespace npu::graph {
namespace {

/// The attribute that says in which type a node stores real numbers; null: the type of its operand.
Dtype *result_type(Node &n) {
  switch (n.op) {
    case Op::Conv:
      return &std::get<ConvAttrs>(n.attrs).quant.out;
    case Op::MatMul:
      return &std::get<MatMulAttrs>(n.attrs).quant.out;
    case Op::Binary:
      return &std::get<BinaryAttrs>(n.attrs).out_type;
    case Op::Pool:
      return &std::get<PoolAttrs>(n.attrs).out_type;
    case Op::Softmax:
      return &std::get<SoftmaxAttrs>(n.attrs).out_type;
    case Op::Requant:
      return &std::get<RequantAttrs>(n.attrs).to;
    default:
      return nullptr;
  }
}

class Narrowing {
 public:
  Narrowing(Graph &graph, Dtype half) : g_(graph), half_(half), stay_(find_half_values(graph, half)) {}

  void run() {
    std::vector<Dtype> wanted;  // of the outputs: --output-type may have chosen 16 bits
    for (ValueId v : g_.outputs) wanted.push_back(g_[v].dtype);
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node &n : nodes) visit(std::move(n));
    for (size_t k = 0; k < wanted.size(); ++k) g_.outputs[k] = as(without_cast(g_.outputs[k], wanted[k]), wanted[k]);
  }

 private:
  bool is_single(ValueId v) const { return flag(stay_.single, v); }
  bool is_wide(ValueId v) const { return flag(stay_.wide, v); }
  /// Values that this pass adds have no flags.
  static bool flag(const std::vector<bool> &flags, ValueId v) { return at(v) < flags.size() && flags[at(v)]; }

  /// What a cast gives that has become one between equal types.
  ValueId without_cast(ValueId v, Dtype type) const {
    for (const Node &n : g_.nodes)
      if (n.output == v && n.op == Op::Cast && g_[n.inputs[0]].dtype == type) return n.inputs[0];
    return v;
  }

  /// The value in another type of real numbers.
  ValueId as(ValueId v, Dtype type) {
    if (v == kNoValue || !is_real(g_[v].dtype) || g_[v].dtype == type) return v;
    const auto known = casts_.find({v, type});
    if (known != casts_.end()) return known->second;
    Node cast;
    cast.op = Op::Cast;
    cast.attrs = CastAttrs{type};
    cast.inputs = {v};
    const int maker = maker_of_.count(v) ? maker_of_[v] : -1;
    cast.source = maker >= 0 ? maker : static_cast<int>(g_.sources.size());
    if (maker < 0) g_.sources.push_back({g_[v].name.empty() ? "cast" : g_[v].name, "Cast", {}});
    Value made;
    static_cast<TensorKind &>(made) = {type, g_[v].shape};
    made.name = g_[v].name.empty() ? "" : g_[v].name + ":" + dtype_name(type);
    cast.output = g_.add_value(std::move(made));
    casts_[{v, type}] = cast.output;
    g_.nodes.push_back(cast);
    return cast.output;
  }

  /// A constant in 16 bits; itself where those do not have its numbers.
  ValueId narrowed(ValueId v) {
    if (g_[v].dtype != Dtype::F32) return v;
    const auto known = casts_.find({v, half_});
    if (known != casts_.end()) return known->second;
    ValueId to = v;
    if (fits(*g_[v].constant, half_) && !is_subnormal(*g_[v].constant, half_)) {
      auto tensor = std::make_shared<Tensor>(half_, g_[v].shape);
      cpu::cast(*g_[v].constant, cpu::Overflow::Wrap, *tensor);
      to = g_.add_constant(std::move(tensor), g_[v].name);
    } else {
      g_.notes.push_back("'" + g_[v].name + "' stays float32: " + dtype_name(half_) + " does not have its numbers");
    }
    return casts_[{v, half_}] = to;
  }

  /// Whether an operand of a node is stored in 16 bits: a constant as large as a result, what products multiply.
  void narrow_operands(Node &n) {
    const bool product = n.op == Op::Conv || n.op == Op::MatMul;
    if (chooses(n) || (product && flag(stay_.whole, n.output))) return;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      ValueId &v = n.inputs[k];
      if (v == kNoValue || !is_real(g_[v].dtype) || (product && k > 1)) continue;
      if (!g_.is_constant(v) && product && !is_wide(v)) v = as(v, half_);
      if (!g_.is_constant(v) || is_wide(n.output)) continue;
      const bool as_large = g_[v].shape == g_[n.output].shape && element_count(g_[v].shape) > 1;
      if (product || as_large) v = narrowed(v);
    }
  }

  void keep(Node n) {
    if (n.op == Op::Cast && is_half(g_[n.inputs[0]].dtype)) casts_[{n.output, g_[n.inputs[0]].dtype}] = n.inputs[0];
    maker_of_[n.output] = n.source;
    g_.nodes.push_back(std::move(n));
  }

  /// All operands of one type: of Concat the type that the result may have.
  void move(Node n) {
    Dtype type = g_[n.inputs[0]].dtype;
    const bool only_single = is_single(n.output) || is_wide(n.output);
    if (n.op == Op::Concat && is_real(type)) {
      type = only_single ? Dtype::F32 : half_;
      for (ValueId &v : n.inputs) v = as(g_.is_constant(v) && type == half_ ? narrowed(v) : v, type);
    } else if (n.op == Op::Pad && is_real(type) && is_wide(n.output)) {
      type = Dtype::F32;
      n.inputs[0] = as(n.inputs[0], type);
    } else if (g_.is_constant(n.inputs[0]) && is_real(type) && !only_single) {
      type = g_[n.inputs[0] = narrowed(n.inputs[0])].dtype;
    }
    g_[n.output].dtype = type;
    keep(std::move(n));
  }

  void visit(Node n) {
    if (moves(n)) return move(std::move(n));
    const bool real = is_real(g_[n.output].dtype);
    if (!runs_on_chip(g_, n)) {
      for (ValueId &v : n.inputs) v = as(v, Dtype::F32);
      return keep(std::move(n));
    }
    if (real) narrow_operands(n);
    const bool narrow = real && !is_single(n.output) && !is_wide(n.output) && !keeps_single(n);
    if (Dtype *type = result_type(n)) {
      if (narrow) store(n, half_, *type);
      // Rows of a softmax that are computed in pieces are float32.
      if (narrow && n.op == Op::Softmax && !runs_on_chip(g_, n)) store(n, Dtype::F32, *type);
    } else if (n.op == Op::Unary) {  // it keeps its operand's type
      if (!narrow) n.inputs[0] = as(n.inputs[0], Dtype::F32);
      g_[n.output].dtype = g_[n.inputs[0]].dtype;
    }
    keep(std::move(n));
  }

  void store(const Node &n, Dtype as_type, Dtype &type) { g_[n.output].dtype = type = as_type; }

  static bool chooses(const Node &n) {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    return binary && (binary->kind == BinaryKind::Max || binary->kind == BinaryKind::Min);
  }
  /// A maximum is one of its operands: rounded, it would be above or below what it was taken from.
  bool keeps_single(const Node &n) const {
    return (chooses(n) || is_max_pool(n)) && std::ranges::any_of(n.inputs, [this](ValueId v) {
             return v != kNoValue && !g_.is_constant(v) && g_[v].dtype == Dtype::F32;
           });
  }

  Graph &g_;
  const Dtype half_;
  const HalfValues stay_;
  std::map<std::pair<ValueId, Dtype>, ValueId> casts_;
  std::map<ValueId, int> maker_of_;
};

}  // namespace

void use_half(Graph &graph, Dtype half) {
  Narrowing(graph, half).run();
  remove_dead(graph);  // what made float32 of a value that is used as it was
}

}  // namespace npu::graph
