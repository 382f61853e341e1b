// SPDX-License-Identifier: MIT
#include "compiler/quantize/coarse.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "compiler/graph/moves.h"

namespace npu::quantize {
namespace {

using graph::ActKind;
using graph::BinaryAttrs;
using graph::BinaryKind;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::Op;
using graph::ValueId;

/// An end of a range at which masked numbers are.
enum class Side : uint8_t { Low, High };
/// Ends at which a result has masked numbers: factors of both signs bring them to both.
struct Sides {
  bool low = false, high = false;
  Sides flipped() const { return {high, low}; }
  bool has(Side side) const { return side == Side::Low ? low : high; }
};

/// Kinds of readers of masked numbers. Several readers are as strict as the last kind of this list that one of them
/// has.
enum class Reader : uint8_t {
  Order,        ///< comparisons, maxima, and functions that map masked numbers to ordinary ones
  Exponential,  ///< Softmax, Exp: every difference above kNats is the same, and steps between the others count most
  Number,       ///< the size of masked numbers counts: they are none
};

/// Masked numbers are at least so many times as far from the others as those are from each other, ...
constexpr double kFar = 4, kFarExponential = 1;
/// ... and in front of an exponential function at least that far: exp(-16) is 1e-7.
constexpr double kNats = 16;

/// Steps of a whole range.
constexpr double kSteps = 255;

/// The numbers that lie far from the others on one side. Goes from 0 to that end: the first gap that is wide enough
/// separates them.
std::optional<Range> masked(const Histogram &h, Side side, Reader reader) {
  const bool low = side == Side::Low;
  const double far = reader == Reader::Exponential ? kFarExponential : kFar;
  const double least = reader == Reader::Exponential ? kNats : 0;
  const double begin = low ? std::max(h.high(), 0.f) : -std::min(h.low(), 0.f);  // the other end
  bool any = begin > 0;                                                          // there are numbers that are near
  double end = 0;
  for (int k = 0; k < Histogram::kBins; ++k) {
    if (h[low ? -1 - k : k] == 0) continue;
    const double gap = k * h.width() - end;
    if (any && gap >= far * (begin + end) && gap >= least && gap > h.width()) {
      const auto first = static_cast<float>(k * h.width());
      return low ? Range{h.low(), -first} : Range{first, h.high()};
    }
    any = true;
    end = (k + 1) * h.width();
  }
  return std::nullopt;
}

/// True for operators that add up products. Those that scale channels only are arithmetic, which float32 can do as
/// well.
bool is_product(const Graph &g, const Node &n) {
  return n.op == Op::MatMul || (n.op == Op::Conv && !scales_channels(g, n));
}

/// The operand that a node only scales and shifts by constants; kNoValue: there is none.
ValueId scaled_operand(const Graph &g, const Node &n) {
  if (scales_channels(g, n)) return n.inputs[0];
  const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
  if (!binary || static_cast<int>(binary->kind) > static_cast<int>(BinaryKind::Div)) return kNoValue;
  for (const size_t k : {0, 1})
    if (g.is_constant(n.inputs[1 - k]) && !g.is_constant(n.inputs[k])) return n.inputs[k];
  return kNoValue;
}

/// The least and the largest of a constant's numbers.
Range range_of(const graph::Tensor &constant) {
  const float *c = constant.as<float>();
  const auto [low, high] = std::minmax_element(c, c + constant.count());
  return constant.count() ? Range{*low, *high} : Range{};
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

std::string range_text(const Range &r) { return number(r.low) + " to " + number(r.high); }

class Finder {
 public:
  Finder(const Graph &graph, const Plan &plan, const Seen &seen, const Quants &quants,
         const std::vector<std::string> &names)
      : g_(graph),
        plan_(plan),
        seen_(seen),
        quants_(quants),
        names_(names),
        readers_(graph.values.size()),
        made_by_(graph.producers()),
        output_(graph.values.size()),
        masked_later_(graph.values.size()) {
    find_masked_later();
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      for (ValueId v : g_.nodes[i].inputs)
        if (v != kNoValue) readers_[at(v)].push_back(i);
    for (size_t k = 0; k < g_.outputs.size(); ++k) {
      Stored &to = output_[at(g_.outputs[k])];
      (plan_.outputs[k] ? to.integers : to.reals) = true;
    }
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (!plan_.outputs[k]) add_near(g_.outputs[k]);
  }

  std::vector<CoarseTensor> run() {
    std::vector<CoarseTensor> out;
    for (ValueId v : plan_.values)
      if (std::string reason = reason_of(v); !reason.empty()) out.push_back({v, std::move(reason)});
    return out;
  }

  std::vector<std::string> parts() const {
    std::vector<std::string> out;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node &n = g_.nodes[i];
      if (n.op != Op::Concat || !plan_.integer[i]) continue;
      const std::string coarse = coarse_piece(n);
      if (coarse.empty()) continue;
      std::string help;
      for (size_t r : products_of(g_, plan_, n.output)) help += " --keep-float '" + source_of(g_.nodes[r]).name + "'";
      help = help.empty() ? "--keep-float '" + source_of(n).name + "' keeps it in float32"
                          : help.substr(1) + " keeps what reads it in float32";
      out.push_back("tensor '" + names_[at(n.output)] + "' of node '" + source_of(n).name +
                    "' has one scale for all its parts: " + coarse + "; " + help);
    }
    return out;
  }

 private:
  struct Stored {
    bool integers = false, reals = false;
  };

  /// Values that an output in float32 is a rearrangement of, with other scales of channels or not, or a concatenation
  /// in float32.
  void add_near(ValueId v) {
    if (!near_float_.insert(v).second || made_by_[at(v)] < 0) return;
    const auto i = static_cast<size_t>(made_by_[at(v)]);
    if (passes_integers(g_.nodes[i])) add_near(g_.nodes[i].inputs[0]);
    if (const ValueId x = scaled_operand(g_, g_.nodes[i]); x != kNoValue) add_near(x);
    if (g_.nodes[i].op == Op::Concat && !plan_.integer[i])
      for (ValueId x : g_.nodes[i].inputs) add_near(x);
  }

  const graph::Source &source_of(const Node &n) const { return g_.sources[static_cast<size_t>(n.source)]; }

  std::string reason_of(ValueId v) const {
    const auto found = seen_.histograms.find(v);
    if (found == seen_.histograms.end() || !can_be_real(v)) return "";
    if (found->second.infinities()) return "it has numbers that are infinite";
    std::string out = mask_in(v, found->second);
    if (out.empty() && may_be_masked(v)) out = std::string(kUnseenMask) + " may make its numbers any size";
    const int i = made_by_[at(v)];
    if (std::set<ValueId> seen;
        out.empty() && i >= 0 && g_.nodes[static_cast<size_t>(i)].op == Op::Concat && keeps_apart(v, seen))
      out = coarse_piece(g_.nodes[static_cast<size_t>(i)]);
    if (out.empty()) out = coarse_slice(v, v);
    const bool is_rounded = i >= 0 && plan_.integer[static_cast<size_t>(i)];
    if (out.empty() && is_rounded && near_float_.count(v)) out = coarse_group(v);
    return out;
  }

  /// True if parts of a value become outputs or are read by themselves before a product makes sums of them.
  bool keeps_apart(ValueId v, std::set<ValueId> &seen) const {
    if (!seen.insert(v).second) return false;
    if (output_[at(v)].reals || output_[at(v)].integers) return true;
    return std::ranges::any_of(readers_[at(v)], [&](size_t r) {
      const Node &n = g_.nodes[r];
      return n.op == Op::Slice || n.op == Op::Gather || (!is_product(g_, n) && keeps_apart(n.output, seen));
    });
  }

  /// True if something that is not a product reads a value, and no product does. Parts and maxima of a value in float32
  /// become integers by themselves.
  bool can_be_real(ValueId v) const {
    bool any = false;
    return !reads_product(v, any) && any;
  }

  bool reads_product(ValueId v, bool &any) const {
    any = any || output_[at(v)].reals;
    return std::ranges::any_of(readers_[at(v)], [&](size_t r) {
      const Node &n = g_.nodes[r];
      const bool carries = passes_integers(n) && n.op != Op::Slice && !(graph::is_max_pool(n) && is_less(n.output, v));
      if (carries) return reads_product(n.output, any);
      const bool found = is_product(g_, n) && plan_.integer[r];
      any = any || !found;
      return found;
    });
  }

  /// True if the maxima of a value have a smaller range than the value.
  bool is_less(ValueId maxima, ValueId v) const {
    const Histogram *a = find(seen_.histograms, maxima), *b = find(seen_.histograms, v);
    if (!a || !b || a->infinities()) return false;
    const auto span = [](const Histogram &h) { return std::max<double>(h.high(), 0) - std::min<double>(h.low(), 0); };
    return b->infinities() || span(*a) * 2 <= span(*b);
  }

  /// The record of a value, or of the one that has the same numbers; null: there is none.
  template <class T>
  const T *find(const std::map<ValueId, T> &seen, ValueId v) const {
    for (;;) {
      if (const auto found = seen.find(v); found != seen.end()) return &found->second;
      const int i = made_by_[at(v)];
      if (i < 0 || !keeps_numbers(g_.nodes[static_cast<size_t>(i)])) return nullptr;
      v = g_.nodes[static_cast<size_t>(i)].inputs[0];
    }
  }

  // Masked numbers.

  std::string mask_in(ValueId v, const Histogram &h) const {
    for (const Side side : {Side::Low, Side::High}) {
      if (!masked(h, side, Reader::Order) && !masked(h, side, Reader::Exponential)) continue;
      std::set<ValueId> seen;
      const Reader reader = reader_of(v, {side == Side::Low, side == Side::High}, seen);
      if (reader == Reader::Number) continue;
      if (const std::optional<Range> range = masked(h, side, reader))
        return "half of the steps or more would go to masked numbers, from " + range_text(*range);
    }
    return "";
  }

  /// True if a value belongs to a mask that was 0 in all samples, or to sums with such a mask, and exponential
  /// functions, maxima or comparisons read them.
  bool may_be_masked(ValueId v) const {
    std::set<ValueId> seen;
    if (is_silent(v)) return leads_to_masked(v, seen);
    return masked_later_[at(v)] && reader_of(v, {true, true}, seen) != Reader::Number;
  }

  bool is_silent(ValueId v) const {
    const Range *range = g_.is_constant(v) ? nullptr : find(seen_.ranges, v);
    return range && range->low == 0 && range->high == 0;
  }

  static bool is_sum(const Node &n) {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    return binary && (binary->kind == BinaryKind::Add || binary->kind == BinaryKind::Sub);
  }

  /// True if a mask that was 0 in all samples goes into a sum, by itself or multiplied, whose size does not count.
  bool leads_to_masked(ValueId v, std::set<ValueId> &seen) const {
    if (!seen.insert(v).second) return false;
    return std::ranges::any_of(readers_[at(v)], [&](size_t r) {
      const Node &n = g_.nodes[r];
      if (n.op != Op::Binary && n.op != Op::Unary && !graph::moves(n) && !scales_channels(g_, n)) return false;
      if (is_silent(n.output)) return leads_to_masked(n.output, seen);
      std::set<ValueId> looked_at;
      return is_sum(n) && reader_of(n.output, {true, true}, looked_at) != Reader::Number;
    });
  }

  /// Marks sums with a mask that was 0 in all samples, and what is computed from them element by element.
  void find_masked_later() {
    for (const Node &n : g_.nodes) {
      const bool elementwise =
          n.op == Op::Binary || n.op == Op::Unary || n.op == Op::Where || graph::moves(n) || scales_channels(g_, n);
      masked_later_[at(n.output)] =
          (is_sum(n) && std::ranges::any_of(n.inputs, [this](ValueId x) { return is_silent(x); })) ||
          (elementwise && std::ranges::any_of(n.inputs, [this](ValueId x) {
             return x != kNoValue && g_[x].dtype == graph::Dtype::F32 && !g_.is_constant(x) && masked_later_[at(x)];
           }));
    }
  }

  /// The strictest kind of all that reads masked numbers of a value. `seen`: values that have been looked at.
  Reader reader_of(ValueId v, Sides sides, std::set<ValueId> &seen) const {
    Reader out = Reader::Order;
    if (!seen.insert(v).second) return out;
    for (size_t r : readers_[at(v)]) {
      if (out == Reader::Number) break;
      out = std::max(out, reader_kind(g_.nodes[r], v, sides, seen));
    }
    return out;
  }

  Reader reader_kind(const Node &n, ValueId v, Sides sides, std::set<ValueId> &seen) const {
    const auto order_at = [&](Side side) { return sides.has(side) ? Reader::Order : Reader::Number; };
    switch (n.op) {
      case Op::Softmax:
        return sides.low ? Reader::Exponential : Reader::Number;
      case Op::ArgMax:
      case Op::TopK:
        return Reader::Order;
      case Op::Reduce: {
        const auto kind = std::get<graph::ReduceAttrs>(n.attrs).kind;
        if (kind == graph::ReduceKind::Max) return order_at(Side::Low);
        return kind == graph::ReduceKind::Min ? order_at(Side::High) : Reader::Number;
      }
      case Op::Pool:
        return graph::is_max_pool(n) ? order_at(Side::Low) : Reader::Number;
      case Op::Unary:
        if (std::get<graph::UnaryAttrs>(n.attrs).act.kind == ActKind::Exp && sides.low) return Reader::Exponential;
        break;
      case Op::Conv:
        if (!scales_channels(g_, n)) return Reader::Number;
        break;
      case Op::Where:
      case Op::Binary:
        break;
      default:
        return graph::moves(n) ? reader_of(n.output, sides, seen) : Reader::Number;
    }
    if (g_[n.output].dtype != graph::Dtype::F32) return Reader::Order;  // a comparison
    if (is_divisor(n, v)) return Reader::Order;
    return is_lost(n, v) ? Reader::Order : reader_of(n.output, sides_behind(n, v, sides), seen);
  }

  /// The quotient is near 0 for all masked numbers.
  static bool is_divisor(const Node &n, ValueId v) {
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    return binary && binary->kind == BinaryKind::Div && n.inputs[0] != v;
  }

  /// True if an element-wise operator maps masked numbers to ordinary ones: its result spans much less than its
  /// operand. Where it does not, all numbers of the operand reach the readers of the result.
  bool is_lost(const Node &n, ValueId v) const {
    const Range *result = find(seen_.ranges, n.output);
    const graph::Quant *quant = find(quants_, v);
    if (!result || !quant) return false;
    double gain = 1;
    if (const std::optional<Range> factors = factors_of(n, v))
      gain = std::max(std::fabs(factors->low), std::fabs(factors->high));
    return steps_of(*result, static_cast<float>(quant->scale * gain)) * kFar < kSteps;
  }

  /// The numbers that an element-wise operator multiplies an operand with, where they are known.
  std::optional<Range> factors_of(const Node &n, ValueId v) const {
    if (n.op == Op::Conv) return range_of(*g_[n.inputs[1]].constant);
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    if (!binary || (binary->kind != BinaryKind::Mul && binary->kind != BinaryKind::Div)) return std::nullopt;
    const ValueId second = n.inputs[n.inputs[0] == v ? 1 : 0];
    std::optional<Range> r;
    if (g_.is_constant(second))
      r = range_of(*g_[second].constant);
    else if (const Range *known = find(seen_.ranges, second))
      r = *known;
    if (!r || binary->kind == BinaryKind::Mul) return r;
    return r->low > 0 || r->high < 0 ? std::optional(Range{1 / r->high, 1 / r->low}) : std::nullopt;
  }

  /// The ends to which an element-wise operator brings masked numbers of its operand.
  Sides sides_behind(const Node &n, ValueId v, Sides sides) const {
    if (const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs)) {
      if (unary->act.kind == ActKind::Abs) return {false, true};
      return unary->act.kind == ActKind::Neg ? sides.flipped() : sides;
    }
    const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
    if (binary && binary->kind == BinaryKind::Sub && n.inputs[0] != v) return sides.flipped();
    const bool keeps_sign = binary && binary->kind != BinaryKind::Mul && binary->kind != BinaryKind::Div &&
                            static_cast<int>(binary->kind) < cpu::kFirstHostBinary;
    if (n.op == Op::Where || keeps_sign) return sides;
    const std::optional<Range> factors = factors_of(n, v);
    if (factors && factors->low >= 0) return sides;
    return factors && factors->high <= 0 ? sides.flipped() : Sides{true, true};
  }

  // Parts.

  float scale_of(ValueId v) const {
    const auto found = quants_.find(v);
    return found == quants_.end() ? 0 : found->second.scale;
  }

  std::string coarse_piece(const Node &concat) const {
    const float scale = scale_of(concat.output);
    for (ValueId x : concat.inputs) {
      Range r;
      if (g_.is_constant(x)) {
        r = range_of(*g_[x].constant);
        r = {std::min(r.low, 0.f), std::max(r.high, 0.f)};
      } else if (const Range *known = find(seen_.ranges, x)) {
        r = *known;
      }
      const std::string &name = g_[x].name.empty() ? names_[at(x)] : g_[x].name;
      if (is_coarse(r, scale)) return "part '" + name + "' has numbers from " + steps_text(r, scale);
    }
    return "";
  }

  /// Slices that are read of a value, also behind moves that keep its numbers.
  std::string coarse_slice(ValueId v, ValueId whole) const {
    for (size_t r : readers_[at(v)]) {
      const Node &n = g_.nodes[r];
      std::string out;
      if (keeps_numbers(n)) out = coarse_slice(n.output, whole);
      if (const Range *part = n.op == Op::Slice ? find(seen_.ranges, n.output) : nullptr;
          part && is_coarse(*part, scale_of(whole)))
        out = "part '" + names_[at(n.output)] + "' has numbers from " + steps_text(*part, scale_of(whole));
      if (!out.empty()) return out;
    }
    return "";
  }

  std::string coarse_group(ValueId v) const {
    const auto found = seen_.slices.find(v);
    if (found == seen_.slices.end()) return "";
    const Parts parts(g_[v].shape, {}, found->second);
    for (const Part &part : parts.list())
      if (is_coarse(part.range, scale_of(v)))
        return part.name + " has numbers from " + steps_text(part.range, scale_of(v));
    return "";
  }

  const Graph &g_;
  const Plan &plan_;
  const Seen &seen_;
  const Quants &quants_;
  const std::vector<std::string> &names_;
  std::vector<std::vector<size_t>> readers_;
  const std::vector<int> made_by_;
  std::vector<Stored> output_;    // for each value: types in which outputs are stored that it is
  std::set<ValueId> near_float_;  // values that become outputs in float32
  std::vector<bool> masked_later_;
};

}  // namespace

double steps_of(const Range &range, float scale) {
  return (std::max<double>(range.high, 0) - std::min<double>(range.low, 0)) / static_cast<double>(scale);
}

bool is_coarse(const Range &range, float scale) {
  const double steps = scale > 0 ? steps_of(range, scale) : 0;
  return steps > 0 && steps < kLeastSteps;
}

std::string steps_text(const Range &range, float scale) {
  return range_text(range) + ", for which " + number(steps_of(range, scale)) + " of 256 steps are left";
}

std::set<ValueId> find_near_outputs(const Graph &g) {
  const std::vector<int> made = g.producers();
  std::set<ValueId> out;
  std::vector<ValueId> left(g.outputs.begin(), g.outputs.end());
  while (!left.empty()) {
    const ValueId v = left.back();
    left.pop_back();
    if (g.is_constant(v) || g[v].dtype != graph::Dtype::F32 || !out.insert(v).second || made[at(v)] < 0) continue;
    const Node &n = g.nodes[static_cast<size_t>(made[at(v)])];
    if (n.op == Op::Concat || passes_integers(n)) left.insert(left.end(), n.inputs.begin(), n.inputs.end());
    if (const ValueId x = scaled_operand(g, n); x != kNoValue) left.push_back(x);
  }
  return out;
}

std::vector<CoarseTensor> find_coarse(const Graph &graph, const Plan &plan, const Seen &seen, const Quants &quants,
                                      const std::vector<std::string> &names) {
  return Finder(graph, plan, seen, quants, names).run();
}

std::vector<std::string> find_coarse_parts(const Graph &graph, const Plan &plan, const Seen &seen, const Quants &quants,
                                           const std::vector<std::string> &names) {
  return Finder(graph, plan, seen, quants, names).parts();
}

std::vector<size_t> products_of(const Graph &g, const Plan &plan, ValueId v) {
  std::vector<size_t> out;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node &n = g.nodes[i];
    if (std::find(n.inputs.begin(), n.inputs.end(), v) == n.inputs.end()) continue;
    if (passes_integers(n)) {
      const std::vector<size_t> more = products_of(g, plan, n.output);
      out.insert(out.end(), more.begin(), more.end());
    } else if (is_product(g, n) && plan.integer[i]) {
      out.push_back(i);
    }
  }
  return out;
}

}  // namespace npu::quantize
