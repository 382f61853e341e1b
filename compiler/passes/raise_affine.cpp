// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "compiler/passes/affine.h"

namespace npu::graph {
namespace {

class Raiser {
 public:
  explicit Raiser(Graph &graph) : graph_(graph) {}

  bool run() {
    bool any = false;
    while (raise_one()) any = true;
    return any;
  }

 private:
  bool raise_one() {
    uses_ = graph_.use_counts();
    made_ = graph_.producers();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node &n = graph_.nodes[i];
      if (n.op != Op::Binary || graph_[n.output].dtype != Dtype::F32) continue;
      if (std::get<BinaryAttrs>(n.attrs).act.kind != ActKind::None) continue;
      for (ValueId x : n.inputs)
        if (passes_concat(i, x) || passes_relu(i, x)) return true;
    }
    return false;
  }

  int maker(ValueId v) const { return made_[static_cast<size_t>(v)]; }
  bool alone(ValueId v) const { return uses_[static_cast<size_t>(v)] == 1; }

  /// A product that could take it: nobody else reads its result.
  bool takes(ValueId v, size_t axis) const {
    size_t channels;
    return maker(v) >= 0 && alone(v) && foldable(graph_, graph_.nodes[static_cast<size_t>(maker(v))], channels) &&
           channels == axis;
  }

  /// The node reads a Concat of channels, and each of its operands takes what is theirs.
  bool passes_concat(size_t number, ValueId x) {
    if (maker(x) < 0 || !alone(x)) return false;
    const auto before = static_cast<size_t>(maker(x));
    if (graph_.nodes[before].op != Op::Concat) return false;
    const auto axis = static_cast<size_t>(std::get<ConcatAttrs>(graph_.nodes[before].attrs).axis);
    const std::vector<ValueId> parts = graph_.nodes[before].inputs;
    Affine affine;
    if (!std::ranges::all_of(parts, [&](ValueId v) { return takes(v, axis); })) return false;
    if (!affine_of(graph_, graph_.nodes[number], x, graph_[x].shape, axis, affine)) return false;
    std::vector<Node> nodes;
    std::vector<ValueId> results;
    size_t from = 0;
    for (ValueId part : parts) {
      const auto channels = static_cast<size_t>(graph_[part].shape[axis]);
      results.push_back(apply(part, axis, affine, from, graph_.nodes[number].source, nodes));
      from += channels;
    }
    graph_.nodes[before].inputs = results;
    replace(number, before, std::move(nodes));
    return true;
  }

  /// The node multiplies what a Relu makes of a product by numbers above zero: Relu(x) * a is Relu(x * a).
  bool passes_relu(size_t number, ValueId x) {
    if (maker(x) < 0 || !alone(x)) return false;
    const auto before = static_cast<size_t>(maker(x));
    const Node &relu = graph_.nodes[before];
    if (relu.op != Op::Unary || std::get<UnaryAttrs>(relu.attrs).act.kind != ActKind::Relu) return false;
    const ValueId operand = relu.inputs[0];
    size_t axis;
    if (maker(operand) < 0 || !foldable(graph_, graph_.nodes[static_cast<size_t>(maker(operand))], axis)) return false;
    Affine affine;
    if (!takes(operand, axis) || !affine_of(graph_, graph_.nodes[number], x, graph_[x].shape, axis, affine))
      return false;
    if (!std::ranges::all_of(affine.factor, [](double f) { return f > 0 && f < HUGE_VAL; })) return false;
    if (!std::ranges::all_of(affine.summand, [](double s) { return s == 0; })) return false;
    std::vector<Node> nodes;
    graph_.nodes[before].inputs[0] = apply(operand, axis, affine, 0, graph_.nodes[number].source, nodes);
    replace(number, before, std::move(nodes));
    return true;
  }

  /// Nodes that scale and shift the channels of a value, by what `affine` has from channel `from` on.
  ValueId apply(ValueId v, size_t axis, const Affine &affine, size_t from, int source, std::vector<Node> &nodes) {
    const auto channels = static_cast<size_t>(graph_[v].shape[axis]);
    const auto add = [&](BinaryKind kind, const std::vector<double> &of, double neutral) {
      const std::vector<float> part(of.begin() + static_cast<std::ptrdiff_t>(from),
                                    of.begin() + static_cast<std::ptrdiff_t>(from + channels));
      if (std::ranges::all_of(part, [&](float f) { return f == neutral; })) return;
      Shape shape(graph_[v].shape.size() - axis, 1);
      shape[0] = static_cast<int64_t>(channels);
      Node node;
      node.op = Op::Binary;
      node.source = source;
      BinaryAttrs attrs;
      attrs.kind = kind;
      node.attrs = attrs;
      node.inputs = {v, graph_.add_constant(make_f32(shape, part))};
      Value result;
      static_cast<TensorKind &>(result) = graph_[v];
      v = node.output = graph_.add_value(std::move(result));
      nodes.push_back(std::move(node));
    };
    add(BinaryKind::Mul, affine.factor, 1);
    add(BinaryKind::Add, affine.summand, 0);
    return v;
  }

  /// The node's result is that of the node before it from now on, in front of which `nodes` stand.
  void replace(size_t number, size_t before, std::vector<Node> nodes) {
    std::swap(graph_.nodes[before].output, graph_.nodes[number].output);
    graph_.nodes.erase(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(number));
    graph_.nodes.insert(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(before),
                        std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  }

  Graph &graph_;
  std::vector<int> uses_, made_;
};

}  // namespace

bool raise_affine(Graph &graph) { return Raiser(graph).run(); }

}  // namespace npu::graph
