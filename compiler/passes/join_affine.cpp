// SPDX-License-Identifier: MIT
#include "compiler/passes/affine.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

/// Two nodes a channel, one after the other, as one.
Affine chained(const Affine &first, const Affine &second) {
  Affine both = second;
  for (size_t c = 0; c < both.factor.size(); ++c) {
    both.summand[c] += first.summand[c] * second.factor[c];
    both.factor[c] *= first.factor[c];
  }
  return both;
}

TensorPtr constant(Shape shape, const std::vector<double> &values) {
  return make_f32(std::move(shape), std::vector<float>(values.begin(), values.end()));
}

class Joiner {
 public:
  explicit Joiner(Graph &graph) : graph_(graph), uses_(graph.use_counts()), made_(graph.producers()) {}

  void run() {
    for (Node &second : graph_.nodes)
      for (size_t side = 0; side < 2 && is_affine(second); ++side) join(second, second.inputs[side]);
    remove_dead(graph_);
  }

 private:
  /// Whether a node may scale or shift the channels of pictures.
  bool is_affine(const Node &n) const {
    const Value &y = graph_[n.output];
    return n.op == Op::Binary && y.dtype == Dtype::F32 && (y.shape.size() == 3 || y.shape.size() == 4) &&
           std::get<BinaryAttrs>(n.attrs).act.kind == ActKind::None;
  }

  int maker(ValueId v) const { return made_[static_cast<size_t>(v)]; }

  void join(Node &second, ValueId between) {
    if (maker(between) < 0 || uses_[static_cast<size_t>(between)] != 1) return;
    const Node &first = graph_.nodes[static_cast<size_t>(maker(between))];
    if (!is_affine(first)) return;
    const Shape &shape = graph_[between].shape;
    for (ValueId x : first.inputs) {
      Affine a, b;
      // The network's inputs are row-major, for which element-wise commands are better.
      if (maker(x) < 0 || graph_[x].shape != shape) continue;
      if (!affine_of(graph_, first, x, shape, 1, a) || !affine_of(graph_, second, between, shape, 1, b)) continue;
      graph_.sources[static_cast<size_t>(first.source)].fate =
          "in " + graph_.sources[static_cast<size_t>(second.source)].name;
      return replace(second, x, chained(a, b));
    }
  }

  void replace(Node &n, ValueId x, const Affine &affine) {
    const auto channels = static_cast<int64_t>(affine.factor.size());
    Shape weights(graph_[n.output].shape.size(), 1);
    weights[0] = channels;
    ConvAttrs attrs;
    attrs.groups = channels;
    n.op = Op::Conv;
    n.attrs = attrs;
    n.inputs = {x, graph_.add_constant(constant(weights, affine.factor)),
                graph_.add_constant(constant({channels}, affine.summand))};
  }

  Graph &graph_;
  const std::vector<int> uses_, made_;
};

}  // namespace

void join_affine(Graph &graph) { Joiner(graph).run(); }

}  // namespace npu::graph
