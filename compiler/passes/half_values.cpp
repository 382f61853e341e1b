// SPDX-License-Identifier: MIT
#include "compiler/passes/half_values.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/graph/moves.h"
#include "compiler/graph/partition.h"
#include "compiler/passes/half_nodes.h"

namespace npu::graph {
namespace {

/// Flags of the values of a graph.
using Flags = std::vector<bool>;

class ValueFinder {
 public:
  ValueFinder(const Graph &graph, Dtype half)
      : g_(graph), half_(half), made_(graph.producers()), readers_(graph.values.size()), chip_(graph.nodes.size()) {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      chip_[i] = runs_on_chip(g_, g_.nodes[i]);
      for (ValueId v : g_.nodes[i].inputs)
        if (v != kNoValue) readers_[at(v)].push_back(i);
    }
  }

  HalfValues run() {
    find_foreign();
    find_statistics();
    find_large();
    scores_ = leading_to(compared_by_softmax());
    angles_ = leading_to(read_by(is_periodic));
    decided_ = leading_to(read_by([this](const Node &n) { return decides(n) || (is_max_pool(n) && covers_rows(n)); }));
    find_wide();
    find_single();
    Flags whole = angles_;  // a position times a frequency
    for (const Node &n : g_.nodes)
      if (reads_whole(n)) whole[at(n.output)] = true;
    return {std::move(single_), std::move(wide_), std::move(whole)};
  }

 private:
  Flags none() const { return Flags(g_.values.size()); }
  const Node *maker(ValueId v) const {
    return made_[at(v)] < 0 ? nullptr : &g_.nodes[static_cast<size_t>(made_[at(v)])];
  }
  bool on_chip(const Node &n) const { return chip_[static_cast<size_t>(&n - g_.nodes.data())]; }

  /// Operands that arrive at run time and hold real numbers.
  bool is_variable(ValueId v) const { return v != kNoValue && !g_.is_constant(v) && is_real(g_[v].dtype); }
  bool any_of(const Node &n, const Flags &flags) const {
    return std::ranges::any_of(n.inputs, [&](ValueId v) { return is_variable(v) && flags[at(v)]; });
  }
  bool all_of(const Node &n, const Flags &flags) const {
    return any_of(n, flags) &&
           std::ranges::all_of(n.inputs, [&](ValueId v) { return !is_variable(v) || flags[at(v)]; });
  }

  // Flags that follow from the operands.

  /// A convolution that multiplies each channel by a number of its own: fold_affine() made it of an element-wise node.
  bool scales_channels(const Node &n) const {
    const auto *conv = std::get_if<ConvAttrs>(&n.attrs);
    if (!conv || !g_.is_constant(n.inputs[1])) return false;
    const Shape &weights = g_[n.inputs[1]].shape;
    return conv->groups == weights[0] && element_count(weights) == weights[0];
  }

  /// A product that reads its operand as the element-wise nodes did that became part of it: in the type in which it is
  /// stored. Foreign numbers and those that stay float32 may be as large.
  bool reads_whole(const Node &n) const {
    if (scales_channels(n)) return true;
    const ValueId x = n.inputs[0];
    const bool normalized = maker(x) && normalizes(*maker(x));
    return is_rescaled(n) && ((large_[at(x)] && !normalized) || foreign_[at(x)] || single_[at(x)]);
  }
  bool is_rescaled(const Node &n) const {
    return n.op == Op::MatMul && g_.is_constant(n.inputs[1]) && g_[n.inputs[1]].single;
  }

  /// Element by element, or a maximum: an operand's size is the result's.
  bool passes_on(const Node &n) const {
    return moves(n) || n.op == Op::Unary || n.op == Op::Binary || n.op == Op::Where || n.op == Op::Cast ||
           is_max_pool(n) || scales_channels(n);
  }

  /// Numbers of any size: inputs, outputs, which are float32, results of the CPU, casts of integers, a choice of
  /// constants, and what is computed from these alone.
  void find_foreign() {
    foreign_ = none();
    for (ValueId v : g_.inputs) foreign_[at(v)] = is_real(g_[v].dtype);
    for (const Node &n : g_.nodes) {
      if (!is_real(g_[n.output].dtype)) continue;
      const bool variable = std::ranges::any_of(n.inputs, [this](ValueId v) { return is_variable(v); });
      const bool arrives = n.op == Op::Concat ? any_of(n, foreign_)
                           : variable         ? (passes_on(n) || is_logarithm(n)) && all_of(n, foreign_)
                                              : n.op == Op::Cast || n.op == Op::Where;
      foreign_[at(n.output)] = arrives || !on_chip(n) || g_.is_output(n.output);
    }
  }

  /// The logarithm of a softmax, which is as low as its operand.
  static bool is_logarithm(const Node &n) {
    const auto *softmax = std::get_if<SoftmaxAttrs>(&n.attrs);
    return softmax && softmax->log;
  }

  /// A pooling over everything: a reduction.
  bool covers_rows(const Node &n) const {
    const auto *pool = std::get_if<PoolAttrs>(&n.attrs);
    if (!pool) return false;
    const Shape &x = g_[n.inputs[0]].shape;
    for (size_t d = 2; d < x.size(); ++d)
      if (pool->window.kernel[d - 2] != x[d]) return false;
    return element_count(g_[n.output].shape) < element_count(x);
  }

  /// Means, maxima and the like, and what is computed from these alone.
  void find_statistics() {
    statistic_ = none();
    for (const Node &n : g_.nodes)
      statistic_[at(n.output)] =
          covers_rows(n) || ((moves(n) || n.op == Op::Unary || n.op == Op::Binary) && all_of(n, statistic_));
  }

  /// Intermediate results of an operator that the type might not hold: with float16 those that may be larger than their
  /// operands, and of numbers that arrive all. bfloat16 does not have the last numbers of float32, which are masks.
  void find_large() {
    large_ = none();
    for (const Node &n : g_.nodes) {
      if (is_bounded(n, half_) || !(g_[n.output].inner || moves(n))) continue;
      const bool own = g_[n.output].inner, carries = passes_on(n) || n.op == Op::Pool;
      const bool starts = own && ((half_ == Dtype::F16 && may_leave_range(g_, n)) || (carries && any_of(n, foreign_)));
      large_[at(n.output)] = starts || (carries && any_of(n, large_));
    }
  }

  // Flags that follow from the readers.

  template <class Wanted>
  Flags read_by(Wanted wanted) const {
    Flags flags = none();
    for (const Node &n : g_.nodes)
      if (wanted(n))
        for (ValueId v : n.inputs)
          if (is_variable(v)) flags[at(v)] = true;
    return flags;
  }

  /// A small change of the operand may change the result altogether.
  bool decides(const Node &n) const { return !on_chip(n) || has_steps(n); }

  /// Values from which a Softmax, or one that is spelled out, computes differences.
  Flags compared_by_softmax() const {
    Flags flags = read_by([](const Node &n) { return n.op == Op::Softmax; });
    for (const Node &n : g_.nodes) {
      bool other = false;
      if (subtracts_maximum(n)) flags[at(origin(n.inputs[0], false, other))] = true;
    }
    return flags;
  }

  bool subtracts_maximum(const Node &n) const {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    if (!binary || binary->kind != BinaryKind::Sub || !is_variable(n.inputs[0]) || !is_variable(n.inputs[1]))
      return false;
    bool maximum = false, other = false;
    return origin(n.inputs[0], false, other) == origin(n.inputs[1], true, maximum) && maximum;
  }

  /// The value from which moves lead to v, or moves, functions and maxima.
  ValueId origin(ValueId v, bool behind_maxima, bool &maximum) const {
    for (const Node *n = maker(v); n; n = maker(v)) {
      if (!rearranges(*n) && !(behind_maxima && (is_max_pool(*n) || n->op == Op::Unary))) break;
      maximum = maximum || is_max_pool(*n);
      v = n->inputs[0];
    }
    return v;
  }

  /// The same values, and those from which they are computed element by element.
  Flags leading_to(Flags flags) const {
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node &n = g_.nodes[i];
      if (!flags[at(n.output)] || !passes_on(n)) continue;
      for (ValueId v : n.inputs)
        if (is_variable(v)) flags[at(v)] = true;
    }
    return flags;
  }

  // Numbers that 16 bits might not hold.

  void find_wide() {
    wide_ = exact_ = none();
    for (size_t v = 0; v < wide_.size(); ++v) wide_[v] = exact_[v] = g_.values[v].exact;
    for (const Node &n : g_.nodes) {
      if (is_exact(n)) exact_[at(n.output)] = true;
      if (is_wide(n) || exact_[at(n.output)]) wide_[at(n.output)] = true;
    }
  }

  /// True for results that are as exact as their operands: moves of sums of integers, sums of such, functions.
  /// Multiplied by their scale they are as other numbers; scales, of one element, stay exact.
  bool is_exact(const Node &n) const {
    const auto exact = [this](ValueId v) { return v != kNoValue && exact_[at(v)]; };
    if (const auto *a = std::get_if<BinaryAttrs>(&n.attrs);
        a && a->kind != BinaryKind::Add && a->kind != BinaryKind::Sub && element_count(g_[n.output].shape) != 1)
      return false;
    return (n.op == Op::Binary || n.op == Op::Unary || moves(n)) && std::ranges::any_of(n.inputs, exact);
  }

  /// Exact operands are none: a product with their scale makes them ordinary numbers.
  bool all_wide(const Node &n) const { return all_of(n, wide_) && !any_of(n, exact_); }
  bool any_wide(const Node &n) const {
    return std::ranges::any_of(n.inputs,
                               [this](ValueId v) { return is_variable(v) && wide_[at(v)] && !exact_[at(v)]; });
  }

  bool is_wide(const Node &n) const {
    if (!is_real(g_[n.output].dtype)) return false;
    switch (n.op) {
      case Op::Conv:
      case Op::MatMul:
        // A position times a frequency: products in 16 bits would be other angles. A bias may be a mask.
        return angles_[at(n.output)] || (scores_[at(n.output)] && masks_scores(g_, n)) || is_factor_inside(n);
      case Op::Concat:
      case Op::Pad:
      case Op::Where:
        return any_wide(n) || brings_extremes(g_, n, half_);
      case Op::Binary:
        return is_wide_binary(n);
      case Op::Unary:
        return !is_bounded(n, half_) && all_wide(n);
      case Op::Softmax:
        // The logarithm of a masked weight times the weight is 0, and NaN if it were infinite.
        return std::get<SoftmaxAttrs>(n.attrs).log && all_wide(n);
      case Op::Pool:
        return all_wide(n);
      default:
        return moves(n) && all_wide(n);
    }
  }

  /// A product of two variables that a product of the same operator multiplies: Einsum of three operands.
  bool is_factor_inside(const Node &n) const {
    if (half_ != Dtype::F16 || !g_[n.output].inner || !is_variable(n.inputs[0]) || !is_variable(n.inputs[1]))
      return false;
    const auto shrinks = [this](ValueId v) { return maker(v) && is_bounded(*maker(v), half_); };
    if (shrinks(n.inputs[0]) || shrinks(n.inputs[1]) || normalizes(n)) return false;
    return any_reader(n.output, [](const Node &r) { return r.op == Op::MatMul; });
  }

  bool is_wide_binary(const Node &n) const {
    if (is_bounded(n, half_)) return false;
    if (has_extreme_operand(g_, n, half_)) return true;
    const BinaryKind kind = std::get<BinaryAttrs>(n.attrs).kind;
    const bool factor = kind == BinaryKind::Mul || kind == BinaryKind::Div, score = scores_[at(n.output)];
    if (kind == BinaryKind::Mul && n.inputs[0] == n.inputs[1]) return true;  // variances, norms
    if (kind == BinaryKind::Mul && is_factor_inside(n)) return true;
    if (factor && !score) return all_wide(n);
    // A sum of scores and what arrives may be masked, also in front of a maximum or a comparison.
    const bool compared = score || decided_[at(n.output)];
    return any_wide(n) || (compared && !factor && any_of(n, foreign_)) || (score && masks_scores(g_, n));
  }

  // Numbers that are stored in float32 for other reasons.

  void find_single() {
    single_ = read_by([this](const Node &n) { return decides(n) || has_long_rows(n); });
    keep_large_numbers();
    for (ValueId v : g_.outputs) single_[at(v)] = true;
    for (size_t v = 0; v < single_.size(); ++v) {
      if (angles_[v] || g_.values[v].single) single_[v] = true;
      if (scores_[v] && (half_ == Dtype::F16 || foreign_[v])) single_[v] = true;
      if (decided_[v] && foreign_[v]) single_[v] = true;
    }
    enlarged_ = none();
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node &n = g_.nodes[i];
      repeat_statistics(n);
      mark_enlarged(n);
      if (is_needed_inside(n) || is_bound_of_difference(n) || has_tiny_bound(n, half_) || has_large_bias(g_, n))
        single_[at(n.output)] = true;
      if (single_[at(n.output)]) pass_to_operands(n);
    }
  }

  /// Results that float16 might not hold although what is computed from them are numbers of float16 again, and what is
  /// computed from these: exponentials reach 65504 at 11.1, a product of two numbers at 256. A sum is as large as its
  /// largest operand, a product with an ordinary number of any size.
  void keep_large_numbers() {
    grown_ = none();
    if (half_ != Dtype::F16) return;
    find_small();
    for (const Node &n : g_.nodes) {
      const bool starts = may_grow(n);
      const bool goes_on = combines(n) && any_of(n, grown_) &&
                           (is_sum(n) || std::ranges::all_of(n.inputs, [&](ValueId v) {
                              return !is_variable(v) || grown_[at(v)] || foreign_[at(v)] || small_[at(v)];
                            }));
      if (starts || goes_on) grown_[at(n.output)] = single_[at(n.output)] = true;
      if (!starts && !goes_on && !normalizes(n) && !is_quotient(n)) continue;
      for (ValueId v : n.inputs)  // a product of rows by rows is ordinary, but not where this reads it
        if (is_variable(v))
          for (ValueId each : product_of_rows(v)) single_[at(each)] = true;
    }
  }
  static bool is_quotient(const Node &n) {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    return binary && binary->kind == BinaryKind::Div;
  }
  static bool is_sum(const Node &n) {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    return n.op == Op::Concat || (binary && (binary->kind == BinaryKind::Add || binary->kind == BinaryKind::Sub));
  }
  bool combines(const Node &n) const {
    if (is_bounded(n, half_)) return false;
    if (const auto *a = std::get_if<BinaryAttrs>(&n.attrs)) return a->kind != BinaryKind::Div && on_chip(n);
    return moves(n) || n.op == Op::Where || n.op == Op::Pool || scales_channels(n);
  }

  /// Bounded numbers, normalized ones, and what is computed from these alone without a large factor.
  void find_small() {
    small_ = none();
    for (const Node &n : g_.nodes) {
      const auto *softmax = std::get_if<SoftmaxAttrs>(&n.attrs);
      const bool passes = passes_on(n) || n.op == Op::Pool;
      const bool grows = (n.op == Op::Unary && may_leave_range(g_, n)) || (n.op == Op::Binary && enlarges(n));
      small_[at(n.output)] = is_bounded(n, half_) || (softmax && !softmax->log) || normalizes(n) ||
                             (passes && !grows && all_of(n, small_));
    }
  }
  /// Quotients and powers of small numbers may be large.
  bool enlarges(const Node &n) const {
    const BinaryKind kind = std::get<BinaryAttrs>(n.attrs).kind;
    return kind == BinaryKind::Pow || (kind == BinaryKind::Div && !g_.is_constant(n.inputs[1])) ||
           has_extreme_operand(g_, n, half_);
  }

  /// True for a node that starts such numbers. What only convolutions and products read is float16 in any case, unless
  /// a factor of it has become part of their weights.
  bool may_grow(const Node &n) const {
    if (is_bounded(n, half_)) return false;
    const auto is_other = [this](const Node &r) {
      return (r.op != Op::Conv && r.op != Op::MatMul) || scales_channels(r) || is_rescaled(r);
    };
    const auto *unary = std::get_if<UnaryAttrs>(&n.attrs);
    if (unary && unary->act.kind == ActKind::Exp)
      return !(maker(n.inputs[0]) && subtracts_maximum(*maker(n.inputs[0])));
    const bool is_output = std::ranges::find(g_.outputs, n.output) != g_.outputs.end();
    if (!is_output && !any_reader(n.output, is_other)) return false;
    if (unary) return unary->act.kind == ActKind::Reciprocal;
    if (n.op == Op::MatMul || n.op == Op::Conv) return sums_elements(n) || is_scaled_down(n);
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    if (!binary || !is_variable(n.inputs[0]) || !is_variable(n.inputs[1]) || normalizes(n)) return false;
    const auto all = [&](const Flags &flags) { return flags[at(n.inputs[0])] && flags[at(n.inputs[1])]; };
    switch (binary->kind) {
      case BinaryKind::Mul:  // integers times their scale are ordinary numbers
        return !small_[at(n.inputs[0])] && !small_[at(n.inputs[1])] && !any_of(n, exact_);
      case BinaryKind::Div:
        return true;
      case BinaryKind::Add:
      case BinaryKind::Sub:  // of inputs, and from one end of a range to the other: twice as large
        return all(foreign_) || is_extremum(n.inputs[0]) || is_extremum(n.inputs[1]);
      default:
        return false;
    }
  }
  /// A maximum or minimum over rows, behind moves and functions.
  bool is_extremum(ValueId v) const {
    bool maximum = false;
    origin(v, true, maximum);
    return maximum;
  }
  /// A product of rows by rows that a factor or a divisor makes smaller.
  bool is_scaled_down(const Node &n) const {
    if (n.op != Op::MatMul || product_of_rows(n.output).empty()) return false;
    if (small_[at(n.inputs[0])] || small_[at(n.inputs[1])]) return false;
    return any_reader(n.output, [this](const Node &r) {
      const auto *binary = std::get_if<BinaryAttrs>(&r.attrs);
      if (!binary || (binary->kind != BinaryKind::Mul && binary->kind != BinaryKind::Div)) return false;
      const bool divides = binary->kind == BinaryKind::Div;
      const TensorPtr &c = g_[r.inputs[1]].constant ? g_[r.inputs[1]].constant : g_[r.inputs[0]].constant;
      if (!c || c->dtype != Dtype::F32) return divides;
      const float *x = c->as<float>();
      return std::any_of(x, x + c->count(),
                         [divides](float f) { return divides ? std::fabs(f) > 1 : std::fabs(f) < 1; });
    });
  }
  /// A sum or an average that is spelled as a product with equal numbers.
  bool sums_elements(const Node &n) const {
    return !scales_channels(n) && std::any_of(n.inputs.begin(), n.inputs.begin() + 2, [this](ValueId v) {
      const TensorPtr w = v == kNoValue ? nullptr : g_[v].constant;
      if (!w || w->dtype != Dtype::F32 || w->count() < 2) return false;
      const float *c = w->as<float>();
      return std::all_of(c, c + w->count(), [c](float x) { return x == *c; });
    });
  }
  /// The values from a product of rows by rows, as in distances and similarities, to v, if only moves and constant
  /// factors lie between.
  std::vector<ValueId> product_of_rows(ValueId v) const {
    std::vector<ValueId> path{v};
    for (const Node *n = maker(v); n; n = maker(path.back())) {
      const auto *binary = std::get_if<BinaryAttrs>(&n->attrs);
      const bool scales = binary && (binary->kind == BinaryKind::Mul || binary->kind == BinaryKind::Div);
      if (n->op == Op::MatMul && is_variable(n->inputs[0]) && is_variable(n->inputs[1])) return path;
      if (!rearranges(*n) && !(scales && has_constant(*n))) break;
      path.push_back(n->inputs[is_variable(n->inputs[0]) ? 0 : 1]);
    }
    return {};
  }

  /// Moves and functions keep the type of their operand: the operator in front of them stores float32. So does a cast
  /// to the other type of 16 bits.
  void pass_to_operands(const Node &n) {
    const bool to_other = n.op == Op::Cast && is_half(g_[n.output].dtype) && g_[n.output].dtype != half_;
    const bool statistic = n.op == Op::Binary && statistic_[at(n.output)];
    if (!moves(n) && n.op != Op::Unary && !to_other && !statistic) return;
    for (ValueId v : n.inputs)
      if (v != kNoValue && !g_.is_constant(v)) single_[at(v)] = true;
  }

  /// An element of a statistic meets many: its rounding would move all of them in one direction.
  void repeat_statistics(const Node &n) {
    if (n.op != Op::Binary || statistic_[at(n.output)]) return;
    for (ValueId v : n.inputs)
      if (is_variable(v) && statistic_[at(v)] && element_count(g_[v].shape) < element_count(g_[n.output].shape))
        single_[at(v)] = true;
  }

  /// A row of a softmax that only a result of float32 lets the chip compute.
  bool has_long_rows(const Node &n) const {
    return n.op == Op::Softmax && is_real(g_[n.output].dtype) &&
           g_[n.output].shape[static_cast<size_t>(std::get<SoftmaxAttrs>(n.attrs).axis)] > kWholeRow;
  }

  /// Calls f for all readers of a value, also behind moves, until one returns true.
  template <class F>
  bool any_reader(ValueId v, F f) const {
    std::set<ValueId> seen{v};
    for (std::vector<ValueId> left{v}; !left.empty();) {
      const ValueId next = left.back();
      left.pop_back();
      for (size_t i : readers_[at(next)]) {
        const Node &n = g_.nodes[i];
        if (!moves(n) && f(n)) return true;
        if (moves(n) && seen.insert(n.output).second) left.push_back(n.output);
      }
    }
    return false;
  }

  /// An intermediate result of an operator whose rounding the rest of the operator would make larger, or that might
  /// leave the range of the type where the operator's result does not.
  bool is_needed_inside(const Node &n) const {
    if (!g_[n.output].inner || !is_real(g_[n.output].dtype) || moves(n) || keeps_numbers(n)) return false;
    const auto is_other = [&](const Node &r) {
      if (is_rescaled(r)) return large_[at(n.output)] && !normalizes(n);
      return (r.op != Op::Conv && r.op != Op::MatMul) || scales_channels(r);
    };
    if (!any_reader(n.output, is_other)) return false;
    const auto is_single = [&](ValueId v) {
      while (!single_[at(v)] && maker(v) && rearranges(*maker(v))) v = maker(v)->inputs[0];
      return single_[at(v)];
    };
    const bool of_single = half_ == Dtype::F16 && !is_bounded(n, half_) &&
                           std::ranges::any_of(n.inputs, [&](ValueId v) { return is_variable(v) && is_single(v); });
    return enlarged_[at(n.output)] || large_[at(n.output)] || of_single;
  }

  /// Divides rows by a statistic of theirs, or multiplies them by its reciprocal: the result is at most the root of
  /// their length.
  bool normalizes(const Node &n) const {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    if (!binary) return false;
    const auto repeats = [&](ValueId v) {
      return is_variable(v) && statistic_[at(v)] && element_count(g_[v].shape) < element_count(g_[n.output].shape);
    };
    if (binary->kind == BinaryKind::Div) return repeats(n.inputs[1]);
    return binary->kind == BinaryKind::Mul &&
           std::ranges::any_of(n.inputs, [&](ValueId v) { return repeats(v) && is_reciprocal(v); });
  }

  /// True for a Reciprocal, a Rsqrt or a constant divided by something, also behind moves.
  bool is_reciprocal(ValueId v) const {
    const Node *n = maker(v);
    while (n && rearranges(*n)) n = maker(n->inputs[0]);
    if (!n) return false;
    if (const auto *binary = std::get_if<BinaryAttrs>(&n->attrs))
      return binary->kind == BinaryKind::Div && g_.is_constant(n->inputs[0]);
    const auto *unary = std::get_if<UnaryAttrs>(&n->attrs);
    return unary && (unary->act.kind == ActKind::Reciprocal || unary->act.kind == ActKind::Rsqrt);
  }

  /// Marks operands whose relative error the node, or a later one of the same operator, makes larger.
  void mark_enlarged(const Node &n) {
    bool passes = n.op == Op::Unary;
    if (const auto *a = std::get_if<BinaryAttrs>(&n.attrs))
      passes = (a->kind == BinaryKind::Mul || a->kind == BinaryKind::Div) && has_constant(n);
    const bool later = enlarged_[at(n.output)] && (moves(n) || (passes && g_[n.output].inner));
    if (!later && !enlarges_rounding(n)) return;
    for (ValueId v : n.inputs)
      if (is_variable(v)) enlarged_[at(v)] = true;
  }
  bool has_constant(const Node &n) const {
    return std::ranges::any_of(n.inputs, [this](ValueId v) { return v != kNoValue && g_.is_constant(v); });
  }

  /// A sum with a constant that makes the operator's result adds one rounding, as any sum of two results has.
  bool enlarges_rounding(const Node &r) const {
    const auto *binary = std::get_if<BinaryAttrs>(&r.attrs);
    if (!binary) return enlarges_errors(r);
    if (binary->kind != BinaryKind::Add && binary->kind != BinaryKind::Sub) return false;
    return !has_constant(r) || g_[r.output].inner;
  }

  /// A number at its bound may be compared with that bound, which 16 bits might not have.
  bool is_bound_of_difference(const Node &n) const {
    if (!is_real(g_[n.output].dtype) || !has_other_bounds(g_, n, half_)) return false;
    return any_reader(n.output, [](const Node &r) {
      const auto *binary = std::get_if<BinaryAttrs>(&r.attrs);
      return binary && (binary->kind == BinaryKind::Add || binary->kind == BinaryKind::Sub);
    });
  }

  const Graph &g_;
  const Dtype half_;
  const std::vector<int> made_;
  std::vector<std::vector<size_t>> readers_;  // nodes that read a value
  Flags chip_;                                // one for each node
  Flags foreign_, statistic_, large_, scores_, angles_, decided_, wide_, exact_, enlarged_, single_, small_, grown_;
};

}  // namespace

HalfValues find_half_values(const Graph &graph, Dtype half) { return ValueFinder(graph, half).run(); }

}  // namespace npu::graph
