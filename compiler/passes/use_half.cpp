// SPDX-License-Identifier: MIT
// Results in 16 bits. The arithmetic stays float32, so that a node differs from what it was by one rounding of each
// operand and of its result.
#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/graph/moves.h"
#include "compiler/graph/partition.h"
#include "compiler/passes/passes.h"
#include "runtime/cpu/operators.h"

namespace npu::graph {
namespace {

/// A factor that makes numbers so much larger that float16 might not have the result: a sum that is an average times
/// the number of its elements.
constexpr float kLargeFactor = 256;

constexpr float kAboveF16 = 65520;  ///< numbers from here on become infinite

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
  Narrowing(Graph &graph, Dtype half)
      : g_(graph), half_(half), single_(graph.values.size()), exact_(graph.values.size()), wide_(graph.values.size()) {
    for (size_t v = 0; v < exact_.size(); ++v) exact_[v] = wide_[v] = g_.values[v].exact;
  }

  void run() {
    std::vector<Dtype> wanted;  // of the outputs: --output-type may have chosen 16 bits
    for (ValueId v : g_.outputs) wanted.push_back(g_[v].dtype);
    find_single();
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node &n : nodes) visit(std::move(n));
    for (size_t k = 0; k < wanted.size(); ++k) g_.outputs[k] = as(without_cast(g_.outputs[k], wanted[k]), wanted[k]);
  }

 private:
  bool is_single(ValueId v) const { return flag(single_, v); }
  static bool flag(const std::vector<bool> &flags, ValueId v) {
    return static_cast<size_t>(v) < flags.size() && flags[static_cast<size_t>(v)];
  }

  /// Outputs, and what only moves, functions and a cast to the other type of 16 bits part from them: the operator in
  /// front stores float32.
  void find_single() {
    for (ValueId v : g_.outputs) single_[static_cast<size_t>(v)] = true;
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node &n = g_.nodes[i];
      const bool to_other = n.op == Op::Cast && is_half(g_[n.output].dtype) && g_[n.output].dtype != half_;
      if (!is_single(n.output) || (!moves(n) && n.op != Op::Unary && !to_other)) continue;
      for (ValueId v : n.inputs)
        if (v != kNoValue && !g_.is_constant(v)) single_[static_cast<size_t>(v)] = true;
    }
  }

  /// Squares, and what is computed from such numbers alone: variances, norms. float16 has none above 65504, and a
  /// difference of such sums would be lost in 8 bits of bfloat16.
  bool is_wide(const Node &n) const {
    if (n.op != Op::Binary && n.op != Op::Unary && n.op != Op::Pool && !moves(n)) return false;
    if (const auto *binary = std::get_if<BinaryAttrs>(&n.attrs); binary && binary->kind == BinaryKind::Mul) {
      if (n.inputs[0] == n.inputs[1]) return true;
      for (ValueId v : n.inputs)
        if (const TensorPtr &c = g_[v].constant;
            c && c->dtype == Dtype::F32 && c->count() == 1 && std::fabs(*c->as<float>()) > kLargeFactor)
          return true;
    }
    bool any = false;
    for (ValueId v : n.inputs) {
      if (v == kNoValue || g_.is_constant(v)) continue;
      if (!flag(wide_, v) || flag(exact_, v)) return false;
      any = true;
    }
    return any;
  }

  /// What is as exact as its operands: moves of sums of integers, sums of such, functions. Multiplied by their scale
  /// they are as other numbers; scales, of one element, stay exact.
  bool is_exact(const Node &n) const {
    const auto exact = [this](ValueId v) { return v != kNoValue && flag(exact_, v); };
    if (const auto *a = std::get_if<BinaryAttrs>(&n.attrs);
        a && a->kind != BinaryKind::Add && a->kind != BinaryKind::Sub && element_count(g_[n.output].shape) != 1)
      return false;
    return (n.op == Op::Binary || n.op == Op::Unary || moves(n)) && std::ranges::any_of(n.inputs, exact);
  }

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

  /// A constant in 16 bits; itself where those do not have all of its numbers.
  ValueId narrowed(ValueId v) {
    if (g_[v].dtype != Dtype::F32) return v;
    const auto known = casts_.find({v, half_});
    if (known != casts_.end()) return known->second;
    auto tensor = std::make_shared<Tensor>(half_, g_[v].shape);
    cpu::cast(*g_[v].constant, cpu::Overflow::Wrap, *tensor);
    Tensor back(Dtype::F32, g_[v].shape);
    cpu::cast(*tensor, cpu::Overflow::Wrap, back);
    const auto fits = [](float narrow, float was) { return std::isfinite(narrow) || !std::isfinite(was); };
    const bool all = std::equal(back.as<float>(), back.as<float>() + back.count(), g_[v].constant->as<float>(), fits);
    const ValueId to = all ? g_.add_constant(std::move(tensor), g_[v].name) : v;
    if (!all)
      g_.notes.push_back("'" + g_[v].name + "' stays float32: " + dtype_name(half_) + " has not all its numbers");
    return casts_[{v, half_}] = to;
  }

  /// Whether an operand of a node is stored in 16 bits: a constant as large as a result, what products multiply.
  void narrow_operands(Node &n) {
    const bool product = n.op == Op::Conv || n.op == Op::MatMul;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      ValueId &v = n.inputs[k];
      if (v == kNoValue || !is_real(g_[v].dtype) || (product && k > 1)) continue;
      if (!g_.is_constant(v) && product && !flag(wide_, v)) v = as(v, half_);
      if (!g_.is_constant(v) || flag(wide_, n.output)) continue;
      if (product || g_[v].shape == g_[n.output].shape) v = narrowed(v);
    }
  }

  void keep(Node n) {
    if (n.op == Op::Cast && is_half(g_[n.inputs[0]].dtype)) casts_[{n.output, g_[n.inputs[0]].dtype}] = n.inputs[0];
    maker_of_[n.output] = n.source;
    g_.nodes.push_back(std::move(n));
  }

  /// Whether a move brings numbers of its own that 16 bits do not have.
  bool adds_wide(const Node &n) {
    if (const auto *pad = std::get_if<PadAttrs>(&n.attrs))
      return half_ == Dtype::F16 && std::isfinite(pad->value) && std::fabs(pad->value) >= kAboveF16;
    return n.op == Op::Concat && std::ranges::any_of(n.inputs, [this](ValueId v) {
             return g_.is_constant(v) && g_[narrowed(v)].dtype == Dtype::F32;
           });
  }

  /// All operands of one type: of Concat the type that the result may have.
  void move(Node n) {
    Dtype type = g_[n.inputs[0]].dtype;
    if (is_real(type) && adds_wide(n)) wide_[static_cast<size_t>(n.output)] = true;  // for products behind it too
    const bool only_single = is_single(n.output) || flag(wide_, n.output);
    if (n.op == Op::Concat && is_real(type)) {
      type = only_single ? Dtype::F32 : half_;
      for (ValueId &v : n.inputs) v = as(g_.is_constant(v) && type == half_ ? narrowed(v) : v, type);
    } else if (n.op == Op::Pad && is_real(type) && flag(wide_, n.output)) {
      type = Dtype::F32;
      n.inputs[0] = as(n.inputs[0], type);
    } else if (g_.is_constant(n.inputs[0]) && is_real(type) && !only_single) {
      type = g_[n.inputs[0] = narrowed(n.inputs[0])].dtype;
    }
    g_[n.output].dtype = type;
    keep(std::move(n));
  }

  void visit(Node n) {
    if (is_exact(n)) exact_[static_cast<size_t>(n.output)] = true;
    if (is_wide(n) || flag(exact_, n.output)) wide_[static_cast<size_t>(n.output)] = true;
    if (moves(n)) return move(std::move(n));
    const bool real = is_real(g_[n.output].dtype);
    if (!runs_on_chip(g_, n)) {
      for (ValueId &v : n.inputs) v = as(v, Dtype::F32);
      return keep(std::move(n));
    }
    if (real) narrow_operands(n);
    // Rows of a softmax that are computed in pieces are float32, which its operand tells.
    const bool row_of_singles = n.op == Op::Softmax && !is_half(g_[n.inputs[0]].dtype);
    const bool narrow = real && !is_single(n.output) && !flag(wide_, n.output) && !row_of_singles;
    if (Dtype *type = result_type(n)) {
      if (narrow) g_[n.output].dtype = *type = half_;
    } else if (n.op == Op::Unary) {  // it keeps its operand's type
      if (!narrow) n.inputs[0] = as(n.inputs[0], Dtype::F32);
      g_[n.output].dtype = g_[n.inputs[0]].dtype;
    }
    keep(std::move(n));
  }

  Graph &g_;
  const Dtype half_;
  std::vector<bool> single_;  // what becomes an output of float32
  std::vector<bool> exact_;   // integers, sums and scales
  std::vector<bool> wide_;    // stored in float32: these, and what has too large a range
  std::map<std::pair<ValueId, Dtype>, ValueId> casts_;
  std::map<ValueId, int> maker_of_;
};

}  // namespace

void use_half(Graph &graph, Dtype half) {
  Narrowing(graph, half).run();
  remove_dead(graph);  // what made float32 of a value that is used as it was
}

}  // namespace npu::graph
