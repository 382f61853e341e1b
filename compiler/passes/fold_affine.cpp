// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "compiler/passes/affine.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

/// The weights with each channel scaled, which is their first dimension or their last.
TensorPtr scale_weights(const Tensor &w, const std::vector<double> &factor, bool first) {
  auto out = std::make_shared<Tensor>(w);
  const int64_t channels = static_cast<int64_t>(factor.size()), per = w.count() / channels;
  for (int64_t i = 0; i < w.count(); ++i)
    out->as<float>()[i] =
        static_cast<float>(w.as<float>()[i] * factor[static_cast<size_t>(first ? i / per : i % channels)]);
  return out;
}

TensorPtr shift_bias(const Tensor *bias, const Affine &a) {
  std::vector<float> out(a.factor.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>((bias ? bias->as<float>()[i] : 0.0) * a.factor[i] + a.summand[i]);
  return make_f32({static_cast<int64_t>(out.size())}, out);
}

/// Into the producer of what is multiplied or added to.
void fold_backwards(Graph &graph) {
  const std::vector<int> uses = graph.use_counts();
  std::vector<int> made = graph.producers();
  for (Node &n : graph.nodes) {
    if (n.op != Op::Binary || std::get<BinaryAttrs>(n.attrs).act.kind != ActKind::None) continue;
    for (ValueId x : {n.inputs[0], n.inputs[1]}) {
      const int producer = made[static_cast<size_t>(x)];
      size_t axis;
      Affine affine;
      if (producer < 0 || uses[static_cast<size_t>(x)] != 1) continue;
      Node &p = graph.nodes[static_cast<size_t>(producer)];
      if (!foldable(graph, p, axis) || !affine_of(graph, n, x, graph[x].shape, axis, affine)) continue;
      const BinaryKind kind = std::get<BinaryAttrs>(n.attrs).kind;
      if (kind != BinaryKind::Add)
        p.inputs[1] = graph.add_constant(scale_weights(*graph[p.inputs[1]].constant, affine.factor, p.op == Op::Conv));
      const Tensor *bias = p.inputs[2] == kNoValue ? nullptr : graph[p.inputs[2]].constant.get();
      if (bias || kind == BinaryKind::Add || kind == BinaryKind::Sub)
        p.inputs[2] = graph.add_constant(shift_bias(bias, affine));
      graph.sources[static_cast<size_t>(n.source)].fate = "in " + graph.sources[static_cast<size_t>(p.source)].name;
      std::swap(p.output, n.output);
      made.resize(graph.values.size(), -1);
      made[static_cast<size_t>(p.output)] = producer;
      made[static_cast<size_t>(n.output)] = -1;
      break;
    }
  }
  remove_dead(graph);
}

/// An operand that is multiplied by these may leave the range of 16 bits where the product of both does not.
bool rescales(const std::vector<double> &factor) {
  return std::ranges::any_of(factor, [](double f) { return std::fabs(f) < 1 || std::fabs(f) > 16; });
}

/// Whether all readers are products of this value with constant matrices.
bool only_products(const Graph &g, ValueId v, const std::vector<size_t> &readers) {
  for (size_t r : readers) {
    const Node &p = g.nodes[r];
    size_t axis;
    if (p.op != Op::MatMul || p.inputs[0] != v || !foldable(g, p, axis)) return false;
  }
  return !readers.empty();
}

/// Into all matrix products that read what is multiplied.
void fold_forwards(Graph &graph) {
  std::vector<std::vector<size_t>> readers(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId v : graph.nodes[i].inputs)
      if (v != kNoValue) readers[static_cast<size_t>(v)].push_back(i);
  for (const Node &n : graph.nodes) {
    if (n.op != Op::Binary || graph.is_output(n.output)) continue;
    const auto &attrs = std::get<BinaryAttrs>(n.attrs);
    const std::vector<size_t> &products = readers[static_cast<size_t>(n.output)];
    if (attrs.kind != BinaryKind::Mul || attrs.act.kind != ActKind::None || !only_products(graph, n.output, products))
      continue;
    for (ValueId x : {n.inputs[0], n.inputs[1]}) {
      const Shape shape = graph[x].shape;
      Affine affine;
      if (shape.empty() || graph.is_constant(x) || !affine_of(graph, n, x, shape, shape.size() - 1, affine)) continue;
      for (size_t r : products) {
        Node &p = graph.nodes[r];
        const bool rescaled = graph[p.inputs[1]].single || rescales(affine.factor);
        p.inputs = {x, graph.add_constant(scale_weights(*graph[p.inputs[1]].constant, affine.factor, true)),
                    p.inputs[2]};
        graph[p.inputs[1]].single = rescaled;
      }
      const int into = graph.nodes[products[0]].source;
      graph.sources[static_cast<size_t>(n.source)].fate = "in " + graph.sources[static_cast<size_t>(into)].name;
      break;
    }
  }
  remove_dead(graph);
}

}  // namespace

void fold_affine(Graph &graph) {
  do fold_backwards(graph);
  while (raise_affine(graph));
  fold_forwards(graph);
}

}  // namespace npu::graph
