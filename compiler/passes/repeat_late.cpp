// SPDX-License-Identifier: MIT
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

class RepeatLate {
 public:
  explicit RepeatLate(Graph &graph) : graph_(graph), uses_(graph.use_counts()), made_(graph.producers()) {}

  void run() {
    for (const Node &n : graph_.nodes) {
      const int side = repeated_side(n);
      if (side < 0)
        out_.push_back(n);
      else
        rewrite(n, static_cast<size_t>(side));
    }
    graph_.nodes = std::move(out_);
    remove_dead(graph_);
  }

 private:
  const Node *producer(ValueId v) const {
    const int node = made_[static_cast<size_t>(v)];
    return node < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(node)];
  }

  /// The operand of an element-wise node that is a repetition for it alone: Reshape(Expand(x)). The other one must have
  /// all elements, and come from elsewhere than a convolution that would begin with the sum.
  int repeated_side(const Node &n) const {
    if (n.op != Op::Binary) return -1;
    for (int side = 0; side < 2; ++side) {
      const ValueId v = n.inputs[static_cast<size_t>(side)], other = n.inputs[static_cast<size_t>(1 - side)];
      const Shape &shape = graph_[n.output].shape;
      if (uses_[static_cast<size_t>(v)] != 1 || graph_[v].shape != shape || graph_[other].shape != shape) continue;
      const Node *reshape = producer(v);
      if (!reshape || reshape->op != Op::Reshape || uses_[static_cast<size_t>(reshape->inputs[0])] != 1) continue;
      const Node *expand = producer(reshape->inputs[0]), *from = producer(other);
      if (!expand || expand->op != Op::Expand || graph_.is_constant(other)) continue;
      const bool sum = std::get<BinaryAttrs>(n.attrs).kind == BinaryKind::Add;
      if (sum && from && from->op == Op::Conv && std::get<ConvAttrs>(from->attrs).act.kind == ActKind::None) continue;
      return side;
    }
    return -1;
  }

  ValueId reshaped(const Node &like, ValueId v, const Shape &shape, ValueId to) {
    Node n;
    n.op = Op::Reshape;
    n.source = like.source;
    n.inputs = {v};
    n.attrs = ShapeAttrs{shape};
    n.output = to;
    out_.push_back(std::move(n));
    return to;
  }

  /// A value of another shape, without a name.
  ValueId value(ValueId like, const Shape &shape) {
    Value v;
    v.dtype = graph_[like].dtype;
    v.shape = shape;
    return graph_.add_value(std::move(v));
  }

  void rewrite(Node n, size_t side) {
    const ValueId repeated = producer(n.inputs[side])->inputs[0], result = n.output;
    const Shape wide = graph_[repeated].shape, shape = graph_[result].shape;
    n.inputs[1 - side] = reshaped(n, n.inputs[1 - side], wide, value(n.inputs[1 - side], wide));
    n.inputs[side] = repeated;
    n.output = value(result, wide);
    const Node like = n;
    out_.push_back(std::move(n));
    reshaped(like, like.output, shape, result);
  }

  Graph &graph_;
  const std::vector<int> uses_, made_;
  std::vector<Node> out_;
};

}  // namespace

void repeat_late(Graph &graph) { RepeatLate(graph).run(); }

}  // namespace npu::graph
