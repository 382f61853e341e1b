// SPDX-License-Identifier: MIT
#include "compiler/quantize/plan.h"

#include <algorithm>
#include <map>

#include "compiler/graph/moves.h"
#include "compiler/passes/affine.h"
#include "compiler/passes/integers.h"

namespace npu::quantize {
namespace {

using graph::ActKind;
using graph::BinaryAttrs;
using graph::BinaryKind;
using graph::Dtype;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::Op;
using graph::ValueId;

enum class Kind : uint8_t {
  Float,    ///< stays
  Product,  ///< Conv, MatMul: the result may be float32 as well
  Element,  ///< Unary, Binary
  Single,   ///< an average, Softmax
  Concat,
  Move,  ///< of one operand: integers go through
};

/// Functions whose results span too many orders of magnitude for 256 steps.
bool is_steep(const Graph &g, const Node &n) {
  if (const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs)) {
    constexpr ActKind kSteep[] = {ActKind::Exp, ActKind::Log, ActKind::Sqrt, ActKind::Rsqrt, ActKind::Reciprocal};
    return std::find(std::begin(kSteep), std::end(kSteep), unary->act.kind) != std::end(kSteep);
  }
  const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
  if (!binary) return false;
  return (binary->kind == BinaryKind::Div && !g.is_constant(n.inputs[1])) ||
         (binary->kind == BinaryKind::Mul && n.inputs[0] == n.inputs[1]);
}

class Planner {
 public:
  Planner(const Graph &graph, const std::set<int> &keep, const std::set<ValueId> &real,
          const std::set<std::string> &outputs)
      : g_(graph),
        kind_(graph.nodes.size()),
        readers_(graph.values.size()),
        is_output_(graph.values.size()),
        is_float_output_(graph.values.size()),
        is_real_(graph.values.size()) {
    made_by_ = g_.producers();
    for (ValueId v : real) is_real_[at(v)] = true;
    for (const Node &n : g_.nodes)
      if (keeps_numbers(n) && is_real_[at(n.inputs[0])]) is_real_[at(n.output)] = true;
    for (size_t k = 0; k < g_.outputs.size(); ++k) {
      const ValueId v = g_.outputs[k];
      plan_.outputs.push_back(outputs.count(g_.output_names[k]) && g_[v].dtype == Dtype::F32 &&
                              made_by_[at(before_rearranging(v))] >= 0);
      if (plan_.outputs[k])
        integer_outputs_.insert(v);
      else
        is_float_output_[at(v)] = true;
    }
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      for (ValueId v : g_.nodes[i].inputs)
        if (v != kNoValue) readers_[at(v)].push_back(i);
    for (ValueId v : g_.outputs) is_output_[at(v)] = true;
    for (size_t i = 0; i < g_.nodes.size(); ++i) kind_[i] = kind_of(g_.nodes[i], keep);
  }

  Plan run() {
    do find_formulas();
    while (leave_steep() || leave_behind_float() || leave_before_float());
    plan_.integer.assign(g_.nodes.size(), false);
    for (size_t i = 0; i < g_.nodes.size(); ++i) add_layer(i);
    list_values();
    plan_.real = is_real_;
    return std::move(plan_);
  }

 private:
  Kind kind_of(const Node &n, const std::set<int> &keep) const {
    if (g_[n.output].dtype != Dtype::F32 || graph::is_quantized(n)) return Kind::Float;
    if (graph::element_count(g_[n.output].shape) == 0) return Kind::Float;
    for (ValueId v : n.inputs)
      if (v != kNoValue && g_[v].dtype != Dtype::F32) return Kind::Float;
    const bool reads_real =
        std::ranges::any_of(n.inputs, [this](ValueId v) { return v != kNoValue && is_real_[at(v)]; });
    if (passes_integers(n)) return reads_real && !is_real_[at(n.output)] ? Kind::Float : Kind::Move;
    if (keep.count(n.source) || reads_real) return Kind::Float;
    if (is_real_[at(n.output)] && n.op != Op::Conv && n.op != Op::MatMul) return Kind::Float;
    switch (n.op) {
      case Op::Conv:
        return g_.is_constant(n.inputs[1]) && has_known_bias(n) ? Kind::Product : Kind::Float;
      case Op::MatMul:
        return has_known_bias(n) ? Kind::Product : Kind::Float;
      case Op::Binary: {
        const auto &a = std::get<BinaryAttrs>(n.attrs);
        const bool fits = static_cast<int>(a.kind) < cpu::kFirstHostBinary && a.act.kind == ActKind::None;
        return fits ? Kind::Element : Kind::Float;
      }
      case Op::Unary:
        return Kind::Element;
      case Op::Pool:
        return Kind::Single;
      case Op::Softmax:  // of the network's results: classes keep their order there
        return becomes_output(n.output, is_output_) ? Kind::Float : Kind::Single;
      case Op::Concat:  // of a result in float32: its parts keep ranges of their own
        return becomes_output(n.output, is_float_output_) ? Kind::Float : Kind::Concat;
      default:
        return Kind::Float;
    }
  }

  /// Whether a value is one of these outputs, or moves make one of it.
  bool becomes_output(ValueId v, const std::vector<bool> &outputs) const {
    return outputs[at(v)] || std::ranges::any_of(readers_[at(v)], [&](size_t r) {
             return passes_integers(g_.nodes[r]) && becomes_output(g_.nodes[r].output, outputs);
           });
  }

  /// What a value is made of by other orders, parts and copies of it. Such an output gets the type of integers in
  /// io_types(), which passes the same nodes.
  ValueId before_rearranging(ValueId v) const {
    while (made_by_[at(v)] >= 0) {
      const Node &n = g_.nodes[static_cast<size_t>(made_by_[at(v)])];
      if (!graph::rearranges(n) || (is_real_[at(n.inputs[0])] && !is_real_[at(v)])) break;
      v = n.inputs[0];
    }
    return v;
  }

  bool has_known_bias(const Node &n) const {
    return n.inputs.size() < 3 || n.inputs[2] == kNoValue || g_.is_constant(n.inputs[2]);
  }

  /// Where moves take a value from.
  ValueId origin(ValueId v) const {
    while (made_by_[at(v)] >= 0 && kind_[static_cast<size_t>(made_by_[at(v)])] == Kind::Move)
      v = g_.nodes[static_cast<size_t>(made_by_[at(v)])].inputs[0];
    return v;
  }

  bool only_reader(ValueId v, size_t &reader) const {
    if (readers_[at(v)].size() != 1 || is_output_[at(v)]) return false;
    reader = readers_[at(v)][0];
    return true;
  }

  /// Calls f with every node that reads a value, also behind moves; with `size_t(-1)` for an output.
  template <class F>
  void for_readers(ValueId v, F f) const {
    if (is_output_[at(v)]) f(kOutput);
    for (size_t r : readers_[at(v)])
      if (kind_[r] == Kind::Move)
        for_readers(g_.nodes[r].output, f);
      else
        f(r);
  }
  static constexpr size_t kOutput = SIZE_MAX;

  static bool is_simple_unary(const Node &n) {
    const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs);
    return unary && graph::is_simple(unary->act);
  }

  // Formulas: element-wise nodes of one tensor and single numbers become a table. root_ is that tensor, for what such a
  // node makes.

  /// Finds for all element-wise nodes what they are part of: a formula, or the layer in front of them.
  void find_formulas() {
    std::vector<bool> ends(g_.values.size());  // values that others than one formula read
    for (bool changed = true; changed;) {
      changed = false;
      into_.assign(g_.nodes.size(), kOutput);
      root_.assign(g_.values.size(), kNoValue);
      for (size_t i = 0; i < g_.nodes.size(); ++i) {
        if (kind_[i] == Kind::Product) absorb_behind_product(i);
        if (kind_[i] == Kind::Element && into_[i] == kOutput) find_root(i, ends);
      }
      for (size_t i = 0; i < g_.nodes.size(); ++i) {
        const ValueId v = g_.nodes[i].output;
        if (root_[at(v)] == kNoValue || ends[at(v)]) continue;
        const auto inside = [&](size_t r) { return root_[at(g_.nodes[r].output)] == root_[at(v)]; };
        const auto &readers = readers_[at(v)];
        if (!is_output_[at(v)] && !readers.empty() && std::all_of(readers.begin(), readers.end(), inside)) continue;
        ends[at(v)] = changed = true;
      }
    }
    ends_ = std::move(ends);
  }

  void absorb_behind_product(size_t i) {
    const Node &n = g_.nodes[i];
    const size_t axis = n.op == Op::Conv ? 1 : g_[n.output].shape.size() - 1;
    ValueId v = n.output;
    for (size_t r; only_reader(v, r) && kind_[r] == Kind::Element;) {
      const Node &next = g_.nodes[r];
      graph::Affine ignored;
      const bool scales = next.op == Op::Binary && graph::affine_of(g_, next, v, g_[v].shape, axis, ignored);
      if (!scales && !is_simple_unary(next)) return;
      into_[r] = i;
      v = next.output;
      if (!scales) return;
    }
  }

  void find_root(size_t i, const std::vector<bool> &ends) {
    const Node &n = g_.nodes[i];
    ValueId root = kNoValue;
    bool single = true;
    for (ValueId v : n.inputs) {
      if (g_.is_constant(v)) {
        single = single && g_[v].constant->count() == 1;
        continue;
      }
      const ValueId r = ends[at(v)] || root_[at(v)] == kNoValue ? v : root_[at(v)];
      single = single && (root == kNoValue || root == r);
      root = r;
    }
    if (single && root != kNoValue && g_[root].shape == g_[n.output].shape) {
      root_[at(n.output)] = root;
      return;
    }
    size_t next;
    if (only_reader(n.output, next) && kind_[next] == Kind::Element && is_simple_unary(g_.nodes[next])) into_[next] = i;
  }

  /// The nodes of the formula that ends with node i, in order.
  std::vector<size_t> formula(size_t i) const {
    std::set<size_t> found{i};
    for (auto it = found.rbegin(); it != found.rend(); ++it)
      for (ValueId v : g_.nodes[*it].inputs)
        if (root_[at(v)] != kNoValue && !ends_[at(v)]) found.insert(static_cast<size_t>(made_by_[at(v)]));
    return {found.begin(), found.end()};
  }

  // What stays in float32. Each is true where something changed.

  bool leave(size_t i) {
    if (kind_[i] == Kind::Float || kind_[i] == Kind::Move || kind_[i] == Kind::Product) return false;
    kind_[i] = Kind::Float;
    return true;
  }

  /// Steep functions, and arithmetic next to them: normalizations above all.
  bool leave_steep() {
    constexpr size_t kLong = 3;  // formulas whose last function says little about their range
    bool changed = false;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node &n = g_.nodes[i];
      if (kind_[i] != Kind::Element || !is_steep(g_, n)) continue;
      if (root_[at(n.output)] != kNoValue && (!ends_[at(n.output)] || formula(i).size() >= kLong)) continue;
      changed = leave(i) || changed;
      for (ValueId v : n.inputs)
        if (const int m = made_by_[at(origin(v))]; m >= 0) changed = leave_element(static_cast<size_t>(m)) || changed;
      for_readers(n.output, [&](size_t r) { changed = (r != kOutput && leave_element(r)) || changed; });
    }
    return changed;
  }

  bool leave_element(size_t i) { return kind_[i] == Kind::Element && into_[i] == kOutput && leave(i); }

  /// What is computed from results in float32 alone.
  bool leave_behind_float() {
    bool changed = false;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const auto &inputs = g_.nodes[i].inputs;
      const bool all = std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) {
        if (v == kNoValue || g_.is_constant(v)) return true;
        const int m = made_by_[at(origin(v))];
        return m >= 0 && kind_[static_cast<size_t>(m)] == Kind::Float;
      });
      changed = (all && leave(i)) || changed;
    }
    return changed;
  }

  /// What only operators in float32 read.
  bool leave_before_float() {
    bool changed = false;
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      if (into_[i] != kOutput) continue;
      bool any = false, all = true;
      for_readers(g_.nodes[last_of(i)].output, [&](size_t r) {
        any = true;
        all = all && r != kOutput && kind_[r] == Kind::Float && g_.nodes[r].op != Op::Softmax;
      });
      changed = (any && all && leave(i)) || changed;
    }
    return changed;
  }

  /// The last node that another one computes as well, or itself.
  size_t last_of(size_t i) const {
    size_t last = i;
    for (size_t r; only_reader(g_.nodes[last].output, r) && into_[r] == i;) last = r;
    return last;
  }

  // Layers and values.

  void add_layer(size_t i) {
    const Kind kind = kind_[i];
    const ValueId y = g_.nodes[i].output;
    if (kind == Kind::Float || kind == Kind::Move || into_[i] != kOutput) return;
    if (root_[at(y)] != kNoValue && !ends_[at(y)]) return;  // inside of a formula
    Layer layer;
    layer.nodes = root_[at(y)] != kNoValue ? formula(i) : std::vector<size_t>{i};
    for (size_t r; only_reader(g_.nodes[layer.nodes.back()].output, r) && into_[r] == i;) layer.nodes.push_back(r);
    layer.result = g_.nodes[layer.nodes.back()].output;
    for (size_t k : layer.nodes) plan_.integer[k] = true;
    plan_.layers.push_back(std::move(layer));
  }

  void list_values() {
    std::set<ValueId> wanted;
    for (const Layer &layer : plan_.layers) {
      for (size_t k : layer.nodes)
        for (ValueId v : g_.nodes[k].inputs)
          if (v != kNoValue && !g_.is_constant(v) && !is_inside(layer, v)) wanted.insert(origin(v));
      if (kind_[layer.nodes[0]] != Kind::Product || is_read_as_integers(layer.result)) wanted.insert(layer.result);
    }
    for (ValueId v : integer_outputs_) {
      v = before_rearranging(v);
      wanted.insert(v);
      if (const ValueId first = origin(v); made_by_[at(first)] >= 0) wanted.insert(first);
    }
    const auto add = [&](ValueId v) {
      if (wanted.count(v)) plan_.values.push_back(v);
    };
    for (ValueId v : g_.inputs) add(v);
    for (const Node &n : g_.nodes) add(n.output);
    find_leaders();
  }

  bool is_inside(const Layer &layer, ValueId v) const {
    return v != layer.result &&
           std::any_of(layer.nodes.begin(), layer.nodes.end(), [&](size_t k) { return g_.nodes[k].output == v; });
  }

  bool is_read_as_integers(ValueId v) const {
    bool any = false;
    for_readers(v, [&](size_t r) { any = any || (r != kOutput && plan_.integer[r]); });
    return any;
  }

  /// Parts of a Concat that nobody else reads have its range. An output behind moves has the range of what they read.
  void find_leaders() {
    std::map<ValueId, ValueId> leader;
    for (ValueId v : plan_.values) leader[v] = v;
    for (ValueId v : integer_outputs_) {
      v = before_rearranging(v);
      if (const ValueId first = origin(v); leader.count(first)) leader[v] = first;
    }
    for (size_t i = g_.nodes.size(); i-- > 0;) {  // from the last: a part may be a Concat itself
      if (kind_[i] != Kind::Concat) continue;
      const ValueId to = leader[g_.nodes[i].output];
      for (ValueId v : g_.nodes[i].inputs) {
        size_t reader;
        while (only_reader(v, reader) && made_by_[at(v)] >= 0 &&
               kind_[static_cast<size_t>(made_by_[at(v)])] == Kind::Move)
          v = g_.nodes[static_cast<size_t>(made_by_[at(v)])].inputs[0];
        if (only_reader(v, reader) && leader.count(v)) leader[v] = to;
      }
    }
    for (ValueId v : plan_.values) plan_.leaders.push_back(leader[v]);
  }

  const Graph &g_;
  std::vector<Kind> kind_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_, is_float_output_;  // the latter: one that is not stored as integers
  std::vector<bool> is_real_;                      // values that no integers stand for
  std::set<ValueId> integer_outputs_;
  std::vector<int> made_by_;
  std::vector<size_t> into_;  // for each node: the one that computes it as well; kOutput: none
  std::vector<ValueId> root_;
  std::vector<bool> ends_;
  Plan plan_;
};

}  // namespace

bool passes_integers(const Node &n) {
  if (n.op == Op::Pad) return std::get<graph::PadAttrs>(n.attrs).value == 0;
  return graph::rearranges(n) || graph::is_max_pool(n);
}

bool keeps_numbers(const Node &n) { return n.op == Op::Transpose || n.op == Op::Reshape || n.op == Op::Expand; }

bool scales_channels(const Graph &graph, const Node &n) {
  if (n.op != Op::Conv || !graph.is_constant(n.inputs[1])) return false;
  const int64_t channels = graph[n.output].shape[1];
  return graph[n.output].shape == graph[n.inputs[0]].shape && channels == std::get<graph::ConvAttrs>(n.attrs).groups &&
         graph[n.inputs[1]].constant->count() == channels;
}

Plan make_plan(const Graph &graph, const std::set<int> &keep, const std::set<ValueId> &real,
               const std::set<std::string> &outputs) {
  return Planner(graph, keep, real, outputs).run();
}

}  // namespace npu::quantize
