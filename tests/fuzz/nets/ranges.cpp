// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/moves.h"
#include "compiler/graph/partition.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/operators.h"

namespace npu::fuzz {
namespace {

using graph::ActKind;
using graph::BinaryKind;
using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ReduceKind;
using graph::Tensor;
using graph::ValueId;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = 0x1p-23;
/// Summands from here on belong to masks.
constexpr float kMask = 256;

struct Interval {
  double low, high;
};
constexpr Interval kAny{-kInfinity, kInfinity};

Interval hull(std::initializer_list<double> values) {
  Interval out{kInfinity, -kInfinity};
  for (double v : values) {
    if (std::isnan(v)) return kAny;
    out = {std::min(out.low, v), std::max(out.high, v)};
  }
  return out;
}

bool contains(const Interval &x, double v) { return x.low <= v && v <= x.high; }

/// Rounds to float32, which keeps the order.
void put(Range &out, int64_t i, const Interval &x) {
  const auto low = static_cast<float>(x.low), high = static_cast<float>(x.high);
  const bool nan = std::isnan(low) || std::isnan(high);
  out.low.as<float>()[i] = nan ? -std::numeric_limits<float>::infinity() : low;
  out.high.as<float>()[i] = nan ? std::numeric_limits<float>::infinity() : high;
}
Interval get(const Range &x, int64_t i) { return {cpu::load(x.low, i), cpu::load(x.high, i)}; }

bool is_any(const Interval &x) { return x.low == -kInfinity && x.high == kInfinity; }
bool has_any(const Range &x) {
  for (int64_t i = 0; i < x.low.count(); ++i)
    if (is_any(get(x, i))) return true;
  return false;
}

/// A result that single precision may compute in another order. A mask is a result of one operation.
Interval widened(const Interval &x, double relative, double absolute) {
  constexpr double kMaskedSum = 1e30;
  const auto step = [=](double end) { return std::fabs(end) < kMaskedSum ? relative * std::fabs(end) + absolute : 0; };
  return {x.low - step(x.low), x.high + step(x.high)};
}

bool is_point(const Range &x) { return x.low.data == x.high.data; }

// Functions of one number.

bool is_rising(const graph::Activation &act) {
  switch (act.kind) {
    case ActKind::LeakyRelu:
    case ActKind::Elu:
    case ActKind::HardSigmoid:
      return act.a >= 0;
    case ActKind::Reciprocal:
    case ActKind::Rsqrt:
    case ActKind::Abs:
    case ActKind::Neg:
    case ActKind::Gelu:
    case ActKind::HardSwish:
    case ActKind::Sin:
    case ActKind::Cos:
    case ActKind::Tan:
    case ActKind::Acos:
    case ActKind::Cosh:
      return false;
    default:
      return true;
  }
}

Interval function(const graph::Activation &act, const Interval &x) {
  const auto f = [&](double v) { return static_cast<double>(cpu::activate(act, v)); };
  if (is_any(x)) return kAny;
  if (x.low == x.high) return hull({f(x.low)});
  const Interval ends = hull({f(x.low), f(x.high)});
  if (is_rising(act) || ends.low == -kInfinity) return ends;
  switch (act.kind) {
    case ActKind::Neg:
    case ActKind::Acos:
      return ends;
    case ActKind::LeakyRelu:
    case ActKind::Elu:
    case ActKind::HardSigmoid:
      return contains(x, 0) ? hull({ends.low, ends.high, f(0)}) : ends;
    case ActKind::Abs:
    case ActKind::Cosh:
      return contains(x, 0) ? Interval{f(0), ends.high} : ends;
    case ActKind::Gelu:  // falls, and rises from a little above -0.76 on
      return contains(x, -0.752) || contains(x, -0.7525) ? Interval{std::min(ends.low, -0.1701), ends.high} : ends;
    case ActKind::HardSwish:
      return contains(x, -1.5) ? Interval{f(-1.5), ends.high} : ends;
    case ActKind::Reciprocal:
    case ActKind::Rsqrt:
      return x.low > 0 || (x.high < 0 && act.kind == ActKind::Reciprocal) ? ends : kAny;
    case ActKind::Sin:
    case ActKind::Cos: {
      const double middle = f((x.low + x.high) / 2), radius = (x.high - x.low) / 2;
      return {std::max(-1.0, middle - radius), std::min(1.0, middle + radius)};
    }
    default:
      return kAny;
  }
}

// Functions of two numbers.

Interval arithmetic(BinaryKind kind, bool same, const Interval &a, const Interval &b) {
  if (is_any(a) || is_any(b)) return kAny;
  switch (kind) {
    case BinaryKind::Add:
      return {a.low + b.low, a.high + b.high};
    case BinaryKind::Sub:
      return {a.low - b.high, a.high - b.low};
    case BinaryKind::Mul: {
      Interval out = hull({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
      if (same) out.low = contains(a, 0) ? 0 : std::min(a.low * a.low, a.high * a.high);
      return out;
    }
    case BinaryKind::Div:
      if (contains(b, 0) && b.low != b.high) return kAny;
      return hull({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
    case BinaryKind::Max:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case BinaryKind::Min:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    default:
      return a.low == a.high && b.low == b.high && kind == BinaryKind::Pow ? hull({std::pow(a.low, b.low)}) : kAny;
  }
}

/// The logarithm of the sum of exp(others[j] - x) over all j but i. In a row of a softmax, element i is largest where
/// it is high and all others are low.
double log_weight(const std::vector<double> &others, size_t i, double x) {
  double most = -kInfinity, sum = 0;
  for (size_t j = 0; j < others.size(); ++j)
    if (j != i) most = std::max(most, others[j] - x);
  if (std::isinf(most)) return most;
  for (size_t j = 0; j < others.size(); ++j)
    if (j != i) sum += std::exp(others[j] - x - most);
  return most + std::log(sum);
}

class Evaluation {
 public:
  Evaluation(const Graph &g, Dtype half)
      : g_(g),
        half_(half),
        made_(g.producers()),
        ranges_(g.values.size()),
        readers_(g.values.size()),
        scores_(g.values.size()) {
    for (const Node &n : g.nodes)
      for (ValueId v : n.inputs)
        if (v != graph::kNoValue) readers_[graph::at(v)].push_back(&n);
    for (size_t v = 0; v < ranges_.size(); ++v)
      if (const graph::TensorPtr &c = g.values[v].constant) ranges_[v] = {*c, *c};
    find_scores();
  }

  Status run(const std::vector<Tensor> &inputs, std::vector<Range> &outputs) {
    for (size_t k = 0; k < inputs.size(); ++k) ranges_[graph::at(g_.inputs[k])] = {inputs[k], inputs[k]};
    for (const Node &n : g_.nodes) {
      Range &out = ranges_[graph::at(n.output)];
      out = {Tensor(g_[n.output].dtype, g_[n.output].shape), Tensor(g_[n.output].dtype, g_[n.output].shape)};
      NPU_TRY(g_[n.output].dtype == Dtype::F32 ? real(n, out) : other(n, out));
    }
    outputs.clear();
    for (ValueId v : g_.outputs) outputs.push_back(range(v));
    return {};
  }

 private:
  const Range &range(ValueId v) const { return ranges_[graph::at(v)]; }
  const Range &operand(const Node &n, size_t k) const { return range(n.inputs[k]); }

  // Rules of rounding.

  template <class F>
  bool read_by(ValueId v, F wanted) const {
    return std::ranges::any_of(readers_[graph::at(v)], [&](const Node *r) {
      return graph::moves(*r) ? read_by(r->output, wanted) : wanted(*r);
    });
  }

  bool is_mask(ValueId v) const {
    const graph::TensorPtr &c = g_[v].constant;
    return c && c->dtype == Dtype::F32 && std::any_of(c->as<float>(), c->as<float>() + c->count(), [](float x) {
             return std::isfinite(x) && std::fabs(x) > kMask;
           });
  }

  static bool is_sum(const Node &n) {
    const auto *a = std::get_if<graph::BinaryAttrs>(&n.attrs);
    return a && (a->kind == BinaryKind::Add || a->kind == BinaryKind::Sub);
  }
  /// An input or a result of the CPU, which may be a mask, or what is computed from one and a number of its size.
  bool may_be_mask(ValueId v) const {
    if (g_.is_constant(v)) return false;
    const int made = made_[graph::at(v)];
    if (made < 0) return true;
    const Node &n = g_.nodes[static_cast<size_t>(made)];
    if (graph::rearranges(n)) return may_be_mask(n.inputs[0]);
    return !on_chip(n) ||
           (n.op == Op::Binary && std::ranges::any_of(n.inputs, [this](ValueId x) { return is_mask(x); }));
  }
  bool is_masked_sum(const Node &n) const {
    return is_sum(n) && std::ranges::any_of(
                            n.inputs, [&](ValueId v) { return is_mask(v) || (is_score(n.output) && may_be_mask(v)); });
  }

  /// Reductions become poolings.
  bool on_chip(const Node &n) const {
    return graph::runs_on_chip(g_, n) || (n.op == Op::Reduce && g_[n.output].dtype == Dtype::F32);
  }

  /// A Softmax reads it, or what is computed from it element by element.
  bool is_score(ValueId v) const { return scores_[graph::at(v)]; }
  void find_scores() {
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node &n = g_.nodes[i];
      const bool passes = graph::moves(n) || n.op == Op::Binary || n.op == Op::Unary || n.op == Op::Where;
      if (n.op != Op::Softmax && !(passes && is_score(n.output))) continue;
      for (ValueId v : n.inputs)
        if (v != graph::kNoValue) scores_[graph::at(v)] = true;
    }
  }

  bool may_be_infinite(const Node &n) const { return !g_[n.output].inner && !is_masked_sum(n) && !is_score(n.output); }

  /// Readers to which a rounding of an intermediate result does no more than one of a result.
  bool is_calm(const Node &r) const {
    if (r.op == Op::Conv || r.op == Op::MatMul || r.op == Op::Softmax) return true;
    const bool constant =
        std::ranges::any_of(r.inputs, [this](ValueId v) { return v != graph::kNoValue && g_.is_constant(v); });
    const auto *a = std::get_if<graph::BinaryAttrs>(&r.attrs);
    const auto *u = std::get_if<graph::UnaryAttrs>(&r.attrs);
    const bool factor = a && (a->kind == BinaryKind::Mul || a->kind == BinaryKind::Div);
    if (factor && !constant) return true;
    if (is_sum(r)) return constant && !g_[r.output].inner;
    if (!factor && !(u && keeps_relative_errors(u->act.kind))) return a && !factor;
    return !g_[r.output].inner || !read_by(r.output, [this](const Node &later) { return !is_calm(later); });
  }

  static bool keeps_relative_errors(ActKind kind) {
    switch (kind) {
      case ActKind::Exp:
      case ActKind::Log:
      case ActKind::Sin:
      case ActKind::Cos:
      case ActKind::Sign:
      case ActKind::Floor:
      case ActKind::Ceil:
      case ActKind::Round:
        return false;
      default:
        return true;
    }
  }

  bool is_rounded(const Node &n) const {
    if (!on_chip(n) || g_.is_output(n.output) || graph::moves(n) || graph::is_max_pool(n) || is_masked_sum(n))
      return false;
    if (const auto *reduce = std::get_if<graph::ReduceAttrs>(&n.attrs))
      if (reduce->kind == ReduceKind::Max || reduce->kind == ReduceKind::Min) return false;
    if (read_by(n.output, [this](const Node &r) { return !on_chip(r); })) return false;
    return !g_[n.output].inner || !read_by(n.output, [this](const Node &r) { return !is_calm(r); });
  }

  static Interval rounded(Interval x, Dtype half, bool may_be_infinite) {
    Tensor t(half, {});
    for (double *end : {&x.low, &x.high}) {
      cpu::store(t, 0, *end);
      const double to = cpu::load(t, 0);
      if (std::isinf(to) && !may_be_infinite) continue;
      *end = end == &x.low ? std::min(*end, to) : std::max(*end, to);
    }
    return x;
  }
  void round(Range &x, bool may_be_infinite) const {
    for (int64_t i = 0; i < x.low.count(); ++i) put(x, i, rounded(get(x, i), half_, may_be_infinite));
  }

  /// A range, rounded. A factor may have moved into a constant, or a constant into another: then other numbers are
  /// rounded, in the same proportion.
  Range operand_in_half(ValueId v) const {
    Range x = range(v);
    round(x, true);
    if (!g_.is_constant(v)) return x;
    const double rounding = half_ == Dtype::F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < x.low.count(); ++i) {
      const Interval e = get(x, i);
      const double number = get(range(v), i).low, step = rounding * std::fabs(number);
      put(x, i, {std::min(e.low, number - step), std::max(e.high, number + step)});
    }
    return x;
  }

  /// Constants of masks are not rounded; others may be, also as weights that a factor has moved into.
  Range factor(ValueId v) const {
    return g_.is_constant(v) && !is_mask(v) && g_[v].dtype == Dtype::F32 ? operand_in_half(v) : range(v);
  }

  // Nodes.

  Status evaluate(const Node &n, const std::vector<const Tensor *> &operands, Tensor &out) const {
    return cpu::evaluate(n.op, n.attrs, operands, out);
  }
  std::vector<const Tensor *> ends(const Node &n, Tensor Range::*end) const {
    std::vector<const Tensor *> out;
    for (ValueId v : n.inputs) out.push_back(v == graph::kNoValue ? nullptr : &(range(v).*end));
    return out;
  }
  bool all_points(const Node &n) const {
    return std::ranges::all_of(n.inputs, [this](ValueId v) { return v == graph::kNoValue || is_point(range(v)); });
  }
  Status both_ends(const Node &n, Range &out) const {
    NPU_TRY(evaluate(n, ends(n, &Range::low), out.low));
    return evaluate(n, ends(n, &Range::high), out.high);
  }
  static Status any(Range &out) {
    for (int64_t i = 0; i < out.low.count(); ++i) put(out, i, kAny);
    return {};
  }

  Status real(const Node &n, Range &out) {
    NPU_TRY(compute(n, out));
    for (int64_t i = 0; i < out.low.count(); ++i)
      if (std::isnan(out.low.as<float>()[i]) || std::isnan(out.high.as<float>()[i])) put(out, i, kAny);
    if (is_rounded(n)) round(out, may_be_infinite(n));
    return {};
  }

  Status compute(const Node &n, Range &out) {
    if (graph::moves(n)) return moved(n, out);
    switch (n.op) {
      case Op::Unary:
        return unary(n, out);
      case Op::Binary:
        return binary(n, out);
      case Op::Softmax:
        return softmax(n, out);
      case Op::Where:
        return where(n, out);
      case Op::Conv:
      case Op::MatMul:
        return product(n, out);
      case Op::Cast:
        return both_ends(n, out);
      case Op::Pool:
      case Op::Reduce:
        return reduction(n, out);
      default:
        return all_points(n) ? both_ends(n, out) : any(out);
    }
  }

  Status moved(const Node &n, Range &out) {
    if (n.op == Op::Gather && !is_point(operand(n, 1))) return any(out);
    NPU_TRY(both_ends(n, out));
    if (n.op == Op::Concat || n.op == Op::Pad) round(out, !is_score(n.output));  // constants among the parts
    return {};
  }

  Status unary(const Node &n, Range &out) {
    const graph::Activation &act = std::get<graph::UnaryAttrs>(n.attrs).act;
    bool exact = false;
    for (ActKind kind : {ActKind::None, ActKind::Relu, ActKind::Abs, ActKind::Neg, ActKind::Floor, ActKind::Ceil,
                         ActKind::Round, ActKind::Sign, ActKind::Clip})
      exact = exact || act.kind == kind;
    for (int64_t i = 0; i < out.low.count(); ++i) {
      Interval y = function(act, get(operand(n, 0), i));
      if (!exact) y = widened(y, 4 * kUlp, 1e-7);
      put(out, i, y);
    }
    return {};
  }

  Status expanded(const Tensor &x, const graph::Shape &shape, Tensor &out) const {
    out = Tensor(x.dtype, shape);
    return cpu::evaluate(Op::Expand, graph::ShapeAttrs{shape}, std::vector<const Tensor *>{&x}, out);
  }
  Status expanded(const Range &x, const graph::Shape &shape, Range &out) const {
    NPU_TRY(expanded(x.low, shape, out.low));
    return expanded(x.high, shape, out.high);
  }

  Status binary(const Node &n, Range &out) {
    const BinaryKind kind = std::get<graph::BinaryAttrs>(n.attrs).kind;
    if (static_cast<int>(kind) >= cpu::kFirstHostBinary) return all_points(n) ? both_ends(n, out) : any(out);
    const bool maximum = kind == BinaryKind::Max || kind == BinaryKind::Min;
    Range a, b;
    NPU_TRY(expanded(factor(n.inputs[0]), out.low.shape, a));
    NPU_TRY(expanded(factor(n.inputs[1]), out.low.shape, b));
    for (int64_t i = 0; i < out.low.count(); ++i) {
      Interval y = arithmetic(kind, n.inputs[0] == n.inputs[1], get(a, i), get(b, i));
      if (!maximum) y = widened(y, 2 * kUlp, 0);
      put(out, i, std::isinf(y.low) && std::isinf(y.high) && joins_scales(n) ? kAny : y);
    }
    return {};
  }

  /// A constant factor of a scaled value: both may have become one, and what overflowed between them does not.
  bool joins_scales(const Node &n) const {
    return scale_of(n).high > 0 && std::ranges::any_of(n.inputs, [this](ValueId v) {
             for (int made = made_[graph::at(v)]; made >= 0; made = made_[graph::at(v)]) {
               const Node &maker = g_.nodes[static_cast<size_t>(made)];
               if (!graph::moves(maker)) return scale_of(maker).high > 0;
               v = maker.inputs[0];
             }
             return false;
           });
  }

  Status softmax(const Node &n, Range &out) {
    const auto &attrs = std::get<graph::SoftmaxAttrs>(n.attrs);
    const graph::Shape &shape = out.low.shape;
    const auto axis = static_cast<size_t>(attrs.axis);
    int64_t step = 1;
    for (size_t d = axis + 1; d < shape.size(); ++d) step *= shape[d];
    const auto count = static_cast<size_t>(shape[axis]);
    const int64_t length = shape[axis] * step;
    for (int64_t first = 0; first < out.low.count(); ++first) {
      if (first % length >= step) continue;
      std::vector<double> low, high;
      for (size_t j = 0; j < count; ++j) {
        const Interval x = get(operand(n, 0), first + static_cast<int64_t>(j) * step);
        low.push_back(x.low);
        high.push_back(x.high);
      }
      // Infinite ones may be all that there are, or leave no difference.
      const bool nan = std::ranges::any_of(high, [](double v) { return v == kInfinity; }) ||
                       std::ranges::all_of(low, [](double v) { return v == -kInfinity; });
      for (size_t j = 0; j < count; ++j) {
        const double least = log_weight(high, j, low[j]), most = log_weight(low, j, high[j]);
        Interval y{1 / (1 + std::exp(least)), 1 / (1 + std::exp(most))};
        // log(1 + exp(x)) is x where exp(x) would overflow.
        const auto log1p_exp = [](double x) { return x > 40 ? x : std::log1p(std::exp(x)); };
        if (attrs.log) y = {-log1p_exp(least), -log1p_exp(most)};
        const double error = (8 + static_cast<double>(count) / 4) * kUlp;
        put(out, first + static_cast<int64_t>(j) * step, nan ? kAny : widened(y, error, 1e-6));
      }
    }
    return {};
  }

  Status where(const Node &n, Range &out) {
    const Range &condition = operand(n, 0);
    Tensor low(out.low), high(out.high);
    cpu::where(condition.low, operand(n, 1).low, operand(n, 2).low, out.low);
    cpu::where(condition.high, operand(n, 1).low, operand(n, 2).low, low);
    cpu::where(condition.low, operand(n, 1).high, operand(n, 2).high, out.high);
    cpu::where(condition.high, operand(n, 1).high, operand(n, 2).high, high);
    for (int64_t i = 0; i < low.count(); ++i) {
      out.low.as<float>()[i] = std::min(out.low.as<float>()[i], low.as<float>()[i]);
      out.high.as<float>()[i] = std::max(out.high.as<float>()[i], high.as<float>()[i]);
    }
    return {};
  }

  /// The smallest and the largest constant, but 0, that a node multiplies its operand by; none: [1, 0].
  Interval scale_of(const Node &n) const {
    const auto *a = std::get_if<graph::BinaryAttrs>(&n.attrs);
    Interval scale{kInfinity, 0};
    if (!a || (a->kind != BinaryKind::Mul && a->kind != BinaryKind::Div)) return {1, 0};
    for (ValueId v : n.inputs) {
      if (!g_.is_constant(v)) continue;
      for (int64_t i = 0; i < g_[v].constant->count(); ++i) {
        const double number = std::fabs(cpu::load(*g_[v].constant, i));
        if (number == 0) continue;
        const double factor = a->kind == BinaryKind::Mul ? number : 1 / number;
        scale = {std::min(scale.low, factor), std::max(scale.high, factor)};
      }
    }
    return scale.high > 0 ? scale : Interval{1, 0};
  }

  /// The scales of the readers of a product's result, or [1, 0].
  Interval scale_behind(const Node &n) const {
    Interval scale{kInfinity, 0};
    read_by(n.output, [&](const Node &r) {
      if (const Interval by = scale_of(r); by.high > 0)
        scale = {std::min(scale.low, by.low), std::max(scale.high, by.high)};
      return false;
    });
    return scale.high > 0 ? scale : Interval{1, 0};
  }

  /// How far a weight of a product may be off whose operand or result is multiplied by constants, of float16, else 0.
  /// Where a factor f becomes part of the weights, w * f is rounded by at most 2^-25 below the normal range, so w is
  /// off by at most 2^-25 / |f|. With one factor the largest |w * f| is at least 2^-14, as weights that are all below
  /// stay float32: then that is at most 2^-11 max |w|.
  double scaled_step(const Node &n, ValueId v) const {
    if (half_ != Dtype::F16 || !g_.is_constant(v)) return 0;
    const int maker = made_[graph::at(n.inputs[0])];
    const Interval front = maker >= 0 ? scale_of(g_.nodes[static_cast<size_t>(maker)]) : Interval{1, 0};
    const Interval behind = scale_behind(n);
    if (front.high == 0 && behind.high == 0) return 0;
    double most = 0;
    for (int64_t i = 0; i < g_[v].constant->count(); ++i)
      most = std::max(most, std::fabs(cpu::load(*g_[v].constant, i)));
    const bool one = front.low >= front.high && behind.low >= behind.high;
    return std::max(0x1p-11 * most, one ? 0 : 0x1p-25 / (front.low * behind.low));
  }

  /// Middle and radius of an operand of a product, which is rounded to 16 bits.
  void split(const Node &n, ValueId v, bool positive, Tensor &middle, Tensor &radius) const {
    Range x = operand_in_half(v);
    const double step = scaled_step(n, v);
    for (int64_t i = 0; step > 0 && i < x.low.count(); ++i) {
      const double number = cpu::load(*g_[v].constant, i);
      const Interval e = get(x, i);
      put(x, i, {std::min(e.low, number - step), std::max(e.high, number + step)});
    }
    middle = radius = x.low;
    for (int64_t i = 0; i < middle.count(); ++i) {
      const Interval e = get(x, i);
      const auto m = static_cast<float>((e.low + e.high) / 2);
      radius.as<float>()[i] = static_cast<float>(
          std::max(e.high - static_cast<double>(m), static_cast<double>(m) - e.low) * (1 + 2 * kUlp));
      middle.as<float>()[i] = positive ? std::fabs(m) : m;
    }
  }

  Status product(const Node &n, Range &out) {
    if (g_[n.inputs[0]].dtype != Dtype::F32) return all_points(n) ? both_ends(n, out) : any(out);
    Tensor a, b, ar, br, aa, ba, ignored;
    split(n, n.inputs[0], false, a, ar);
    split(n, n.inputs[1], false, b, br);
    split(n, n.inputs[0], true, aa, ignored);
    split(n, n.inputs[1], true, ba, ignored);
    const Tensor *bias = n.inputs.size() > 2 && n.inputs[2] != graph::kNoValue ? &operand(n, 2).low : nullptr;
    Tensor middle(out.low), size(out.low), parts[3] = {out.low, out.low, out.low};
    NPU_TRY(evaluate(n, {&a, &b, bias}, middle));
    NPU_TRY(evaluate(n, {&aa, &ba, nullptr}, size));
    NPU_TRY(evaluate(n, {&ar, &ba, nullptr}, parts[0]));
    NPU_TRY(evaluate(n, {&aa, &br, nullptr}, parts[1]));
    NPU_TRY(evaluate(n, {&ar, &br, nullptr}, parts[2]));
    const int64_t terms =
        n.op == Op::MatMul ? a.shape.back() : graph::element_count(b.shape) / std::max<int64_t>(b.shape[0], 1);
    const double scale = std::max(1.0, scale_behind(n).high);  // the weights may contain it
    for (int64_t i = 0; i < middle.count(); ++i) {
      const double m = cpu::load(middle, i);
      if (cpu::load(size, i) * scale > std::numeric_limits<float>::max()) {
        put(out, i, kAny);
        continue;
      }
      double radius = (4 + static_cast<double>(terms)) * kUlp * (cpu::load(size, i) + std::fabs(m));
      for (const Tensor &part : parts) radius += cpu::load(part, i) * (1 + static_cast<double>(terms) * kUlp);
      put(out, i, {m - radius, m + radius});
    }
    return {};
  }

  Status reduction(const Node &n, Range &out) {
    const auto *reduce = std::get_if<graph::ReduceAttrs>(&n.attrs);
    const bool maximum =
        graph::is_max_pool(n) || (reduce && (reduce->kind == ReduceKind::Max || reduce->kind == ReduceKind::Min));
    if ((reduce && reduce->kind == ReduceKind::Prod) || has_any(operand(n, 0))) return any(out);
    NPU_TRY(both_ends(n, out));
    if (maximum) return {};
    Tensor absolute = operand(n, 0).low, sum(out.low);
    for (int64_t i = 0; i < absolute.count(); ++i) {
      const Interval x = get(operand(n, 0), i);
      absolute.as<float>()[i] = static_cast<float>(std::max(std::fabs(x.low), std::fabs(x.high)));
    }
    NPU_TRY(evaluate(n, {&absolute}, sum));
    const double terms = static_cast<double>(absolute.count()) / static_cast<double>(std::max<int64_t>(sum.count(), 1));
    const auto *pool = std::get_if<graph::PoolAttrs>(&n.attrs);
    const double cells = pool ? static_cast<double>(pool->window.kernel[0] * pool->window.kernel[1]) : terms;
    for (int64_t i = 0; i < sum.count(); ++i) {
      const Interval x = get(out, i);
      const double error = (6 + cells) * kUlp * cpu::load(sum, i);
      const bool overflows = cpu::load(sum, i) * cells > std::numeric_limits<float>::max();  // before it is divided
      put(out, i, overflows ? kAny : Interval{x.low - error, x.high + error});
    }
    return {};
  }

  // Truth values and integers.

  static void put_truth(Range &out, int64_t i, bool low, bool high) {
    cpu::store(out.low, i, low);
    cpu::store(out.high, i, high);
  }

  Status other(const Node &n, Range &out) {
    const auto *binary = std::get_if<graph::BinaryAttrs>(&n.attrs);
    if (binary && g_[n.inputs[0]].dtype == Dtype::F32) return comparison(n, binary->kind, out);
    if (binary && (binary->kind == BinaryKind::And || binary->kind == BinaryKind::Or) &&
        g_[n.output].dtype == Dtype::Bool)
      return both_ends(n, out);
    const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs);
    if (unary && unary->act.kind == ActKind::Not && g_[n.output].dtype == Dtype::Bool) {
      NPU_TRY(both_ends(n, out));
      std::swap(out.low, out.high);
      return {};
    }
    if (all_points(n) || (graph::moves(n) && n.op != Op::Gather)) return both_ends(n, out);
    const bool truth = g_[n.output].dtype == Dtype::Bool;
    for (int64_t i = 0; i < out.low.count(); ++i) {
      cpu::store_integer(out.low, i, truth ? 0 : std::numeric_limits<int64_t>::min(), cpu::Overflow::Saturate);
      cpu::store_integer(out.high, i, truth ? 1 : std::numeric_limits<int64_t>::max(), cpu::Overflow::Saturate);
    }
    return {};
  }

  Status comparison(const Node &n, BinaryKind kind, Range &out) {
    Range a, b;
    NPU_TRY(expanded(operand(n, 0), out.low.shape, a));
    NPU_TRY(expanded(operand(n, 1), out.low.shape, b));
    for (int64_t i = 0; i < out.low.count(); ++i) {
      const Interval x = get(a, i), y = get(b, i);
      // Anything includes NaN, for which no comparison holds.
      const bool nan = x.low == -kInfinity || x.high == kInfinity || y.low == -kInfinity || y.high == kInfinity;
      if (kind == BinaryKind::Less)
        put_truth(out, i, !nan && x.high < y.low, x.low < y.high);
      else if (kind == BinaryKind::LessOrEqual)
        put_truth(out, i, !nan && x.high <= y.low, x.low <= y.high);
      else
        put_truth(out, i, !nan && x.low == x.high && y.low == y.high && x.low == y.low,
                  x.low <= y.high && y.low <= x.high);
    }
    return {};
  }

  const Graph &g_;
  const Dtype half_;
  const std::vector<int> made_;
  std::vector<Range> ranges_;
  std::vector<std::vector<const Node *>> readers_;
  std::vector<bool> scores_;
};

}  // namespace

Status evaluate_ranges(const Graph &graph, const std::vector<Tensor> &inputs, Dtype half, std::vector<Range> &outputs) {
  return Evaluation(graph, half).run(inputs, outputs);
}

std::string outside(const Tensor &got, const Range &range) {
  if (got.dtype != range.low.dtype || got.count() != range.low.count())
    return graph::kind_text(got) + " instead of " + graph::kind_text(range.low);
  int64_t bad = 0, first = 0;
  for (int64_t i = 0; i < got.count(); ++i) {
    const double v = cpu::load(got, i);
    const Interval x = get(range, i);
    if (contains(x, v) || (std::isnan(v) && x.low == -kInfinity && x.high == kInfinity)) continue;
    if (bad++ == 0) first = i;
  }
  if (!bad) return {};
  char text[200];
  std::snprintf(text, sizeof text, "%lld of %lld elements, the first at %lld: %.9g, which is not in [%.9g, %.9g]",
                static_cast<long long>(bad), static_cast<long long>(got.count()), static_cast<long long>(first),
                cpu::load(got, first), cpu::load(range.low, first), cpu::load(range.high, first));
  return text;
}

}  // namespace npu::fuzz
