// SPDX-License-Identifier: MIT
#include <cmath>

#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

/// One dimension of a pooling. The number of cells of a window is the product of its rows and columns, also at the
/// borders, so that averages split as well.
PoolAttrs only(const PoolAttrs &attrs, size_t keep) {
  PoolAttrs out = attrs;
  const size_t other = 1 - keep;
  out.window.kernel[other] = out.window.stride[other] = out.window.dilation[other] = 1;
  out.window.begin[other] = out.window.end[other] = out.counted_end[other] = 0;
  return out;
}

class Splitter {
 public:
  Splitter(Graph &graph, int64_t max_elements) : graph_(graph), max_(max_elements) {}

  void run() {
    for (Node &n : graph_.nodes) split(std::move(n));
    graph_.nodes = std::move(nodes_);
  }

 private:
  /// What the first of two poolings makes is float32.
  static PoolAttrs first_of(PoolAttrs attrs) {
    attrs.out = {};
    attrs.out_type = Dtype::F32;
    return attrs;
  }
  static PoolAttrs second_of(PoolAttrs attrs) {
    attrs.in = {};
    return attrs;
  }

  void split(Node n) {
    const PoolAttrs *attrs = std::get_if<PoolAttrs>(&n.attrs);
    if (!attrs || attrs->window.extent(0) * attrs->window.extent(1) <= max_) return nodes_.push_back(std::move(n));
    const PoolAttrs whole = *attrs;
    if (whole.window.kernel[0] > 1 && whole.window.kernel[1] > 1) {
      Node columns = n;
      n.attrs = second_of(only(whole, 0));
      if (!insert(columns, first_of(only(whole, 1)), n)) return restore(std::move(n), whole);
      split(std::move(columns));
      return split(std::move(n));
    }
    split_line(std::move(n), whole, whole.window.kernel[0] > 1 ? 0 : 1);
  }

  /// Makes `first` compute what n reads from now on; false where that has no shape.
  bool insert(Node &first, PoolAttrs attrs, Node &n) {
    Value between = graph_[n.output];
    between.single = !attrs.max;
    first.attrs = std::move(attrs);
    if (!infer(graph_, first, between).ok()) return false;
    n.inputs[0] = first.output = graph_.add_value(std::move(between));
    return true;
  }

  void restore(Node n, const PoolAttrs &whole) {
    n.attrs = whole;
    nodes_.push_back(std::move(n));
  }

  /// A window of one dimension that covers all of it: pieces, and then the pieces' results. Where the last piece is
  /// shorter, an average has zeros in it, and is made larger by as much afterwards.
  void split_line(Node n, const PoolAttrs &whole, size_t d) {
    const Window &w = whole.window;
    const int64_t length = graph_[n.inputs[0]].shape[d + 2];
    if (w.kernel[d] != length || w.begin[d] || w.end[d] || w.dilation[d] != 1) return nodes_.push_back(std::move(n));
    const auto piece = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
    const int64_t pieces = (length + piece - 1) / piece, zeros = pieces * piece - length;
    PoolAttrs first = first_of(whole), second = second_of(whole);
    first.window.kernel[d] = first.window.stride[d] = piece;
    first.window.end[d] = first.counted_end[d] = zeros;
    first.count_pad = !whole.max;
    second.window.kernel[d] = pieces;
    Node head = n;
    n.attrs = second;
    if (!insert(head, first, n)) return restore(std::move(n), whole);
    nodes_.push_back(std::move(head));
    if (whole.max || zeros == 0) return nodes_.push_back(std::move(n));
    const double factor = static_cast<double>(pieces * piece) / static_cast<double>(length);
    Node larger = n;
    larger.op = Op::Binary;
    larger.attrs = BinaryAttrs{BinaryKind::Mul, {}, {}, {}, whole.out, whole.out_type};
    n.attrs = first_of(second);
    Value between = graph_[larger.output];
    between.dtype = Dtype::F32;
    between.single = true;
    n.output = graph_.add_value(std::move(between));
    larger.inputs = {n.output, graph_.add_constant(make_scalar(static_cast<float>(factor)))};
    nodes_.push_back(std::move(n));
    nodes_.push_back(std::move(larger));
  }

  Graph &graph_;
  const int64_t max_;
  std::vector<Node> nodes_;
};

}  // namespace

void split_pool(Graph &graph, int64_t max_elements) { Splitter(graph, max_elements).run(); }

}  // namespace npu::graph
