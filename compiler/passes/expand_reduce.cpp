// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>

#include "compiler/graph/moves.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

constexpr int64_t kMaxKernel = 65535;  // of a pooling, one dimension

/// Splits a length into two factors that kernels can have; false where there are none.
bool as_kernel(int64_t length, int64_t &rows, int64_t &columns) {
  for (columns = 1; columns <= kMaxKernel && columns * columns <= length; ++columns) {
    rows = length / columns;
    if (length % columns == 0 && rows <= kMaxKernel) return true;
  }
  return false;
}

class Expander {
 public:
  Expander(Graph &graph, const std::function<bool(const Node &)> &wanted) : graph_(graph), wanted_(wanted) {}

  void run() {
    for (Node &n : graph_.nodes) {
      if (!expand(n)) nodes_.push_back(std::move(n));
    }
    graph_.nodes = std::move(nodes_);
  }

 private:
  /// Dimensions in the order [outer..., inner..., reduced...]: what is kept in front of the first reduced one, and
  /// behind it.
  struct Order {
    std::vector<int> perm;
    int64_t outer = 1, inner = 1, reduced = 1;
  };

  static Order order_of(const ReduceAttrs &attrs, const Shape &x) {
    Order o;
    const auto is_reduced = [&](int d) { return std::binary_search(attrs.axes.begin(), attrs.axes.end(), d); };
    for (int d = 0; d < static_cast<int>(x.size()); ++d) {
      if (is_reduced(d)) continue;
      (d < attrs.axes[0] ? o.outer : o.inner) *= x[static_cast<size_t>(d)];
      o.perm.push_back(d);
    }
    for (int d : attrs.axes) {
      o.reduced *= x[static_cast<size_t>(d)];
      o.perm.push_back(d);
    }
    return o;
  }

  bool expand(const Node &n) {
    if (n.op != Op::Reduce || !wanted_(n)) return false;
    const auto attrs = std::get<ReduceAttrs>(n.attrs);
    const Shape x = graph_[n.inputs[0]].shape;
    if (graph_[n.output].dtype != Dtype::F32 || attrs.axes.empty()) return false;
    const Order order = order_of(attrs, x);
    Window window;
    if (!as_kernel(order.reduced, window.kernel[0], window.kernel[1])) return false;
    source_ = n.source;
    exact_ = graph_[n.output].exact;
    inner_ = graph_[n.output].inner;
    ValueId v = n.inputs[0];
    if (!std::is_sorted(order.perm.begin(), order.perm.end())) v = add(Op::Transpose, {v}, TransposeAttrs{order.perm});
    v = attrs.kind == ReduceKind::Prod ? product(v, order) : pooled(v, order, attrs.kind, window);
    add(Op::Reshape, {v}, ShapeAttrs{graph_[n.output].shape});
    nodes_.back().output = n.output;
    return true;
  }

  ValueId pooled(ValueId v, const Order &order, ReduceKind kind, const Window &window) {
    PoolAttrs pool;
    pool.window = window;
    pool.max = kind == ReduceKind::Max || kind == ReduceKind::Min;
    // Channels are what lies side by side in memory.
    const bool rows_only = order.inner == 1;
    if (kind == ReduceKind::Min) v = add(Op::Unary, {v}, UnaryAttrs{{ActKind::Neg}});
    v = add(Op::Reshape, {v},
            ShapeAttrs{{rows_only ? 1 : order.outer, rows_only ? order.outer : order.inner, window.kernel[0],
                        window.kernel[1]}});
    v = add(Op::Pool, {v}, pool);
    if (kind == ReduceKind::Min) v = add(Op::Unary, {v}, UnaryAttrs{{ActKind::Neg}});
    if (kind != ReduceKind::Sum) return v;
    graph_[v].single = true;
    return add(Op::Binary, {v, graph_.add_constant(make_scalar(static_cast<float>(order.reduced)))},
               BinaryAttrs{BinaryKind::Mul, {}});
  }

  /// One half times the other until one element is left.
  ValueId product(ValueId v, const Order &order) {
    const int64_t rows = order.outer * order.inner;
    const auto part = [&](ValueId of, int64_t start, int64_t count) {
      return add(Op::Slice, {of}, SliceAttrs{{0, start}, {1, 1}, {rows, count}});
    };
    const auto times = [&](ValueId a, ValueId b) {
      const ValueId made = add(Op::Binary, {a, b}, BinaryAttrs{BinaryKind::Mul, {}});
      graph_[made].single = true;
      return made;
    };
    v = add(Op::Reshape, {v}, ShapeAttrs{{rows, order.reduced}});
    ValueId odd = kNoValue;  // elements that were left over
    for (int64_t length = order.reduced; length > 1; length /= 2) {
      if (length % 2) {
        const ValueId last = part(v, length - 1, 1);
        odd = odd == kNoValue ? last : times(odd, last);
      }
      const ValueId first = part(v, 0, length / 2), second = part(v, length / 2, length / 2);
      v = times(first, second);
    }
    if (odd != kNoValue) v = times(v, odd);
    graph_[v].single = false;
    return v;
  }

  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs) {
    Node n;
    n.op = op;
    n.source = source_;
    n.inputs = std::move(inputs);
    n.attrs = std::move(attrs);
    Value result;
    (void)infer(graph_, n, result);  // passes for all that expand() makes
    result.exact = exact_;
    result.inner = inner_ && !moves(n);
    n.output = graph_.add_value(std::move(result));
    nodes_.push_back(std::move(n));
    return nodes_.back().output;
  }

  Graph &graph_;
  const std::function<bool(const Node &)> &wanted_;
  std::vector<Node> nodes_;
  int source_ = 0;
  bool exact_ = false, inner_ = false;
};

}  // namespace

void expand_reduce(Graph &graph, const std::function<bool(const Node &)> &wanted) { Expander(graph, wanted).run(); }

void expand_reduce(Graph &graph) {
  expand_reduce(graph, [](const Node &) { return true; });
}

}  // namespace npu::graph
