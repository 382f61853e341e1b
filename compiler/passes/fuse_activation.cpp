// SPDX-License-Identifier: MIT
#include "compiler/graph/partition.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

Activation *activation_of(Node &n) {
  switch (n.op) {
    case Op::Conv:
      return &std::get<ConvAttrs>(n.attrs).act;
    case Op::MatMul:
      return &std::get<MatMulAttrs>(n.attrs).act;
    case Op::Binary:
      return &std::get<BinaryAttrs>(n.attrs).act;
    default:
      return nullptr;
  }
}

/// The node that computes a value which nodes pass on in another order or shape, for one reader each.
Node *behind_views(Graph &graph, Node *n, const std::vector<int> &uses, const std::vector<int> &made) {
  while (n->op == Op::Transpose || n->op == Op::Reshape) {
    const auto x = static_cast<size_t>(n->inputs[0]);
    if (made[x] < 0 || uses[x] != 1) break;
    n = &graph.nodes[static_cast<size_t>(made[x])];
  }
  return n;
}

}  // namespace

void fuse_activation(Graph &graph) {
  const std::vector<int> uses = graph.use_counts();
  std::vector<int> made = graph.producers();
  for (Node &n : graph.nodes) {
    if (n.op != Op::Unary) continue;
    const ValueId x = n.inputs[0];
    const int producer = made[static_cast<size_t>(x)];
    if (producer < 0 || uses[static_cast<size_t>(x)] != 1) continue;
    Node &nearest = graph.nodes[static_cast<size_t>(producer)], &p = *behind_views(graph, &nearest, uses, made);
    Activation *act = activation_of(p);
    if (!act || act->kind != ActKind::None || !runs_on_chip(graph, p)) continue;
    if (graph[p.output].dtype != Dtype::F32) continue;  // that of a quantized product works in other units
    if (std::get<UnaryAttrs>(n.attrs).act.kind > ActKind::Tanh) continue;
    *act = std::get<UnaryAttrs>(n.attrs).act;
    graph.sources[static_cast<size_t>(n.source)].fate = "in " + graph.sources[static_cast<size_t>(p.source)].name;
    // The node in front now makes the activation's result, whose own node is left without a reader.
    std::swap(nearest.output, n.output);
    made[static_cast<size_t>(nearest.output)] = producer;
    made[static_cast<size_t>(n.output)] = -1;
  }
  remove_dead(graph);
}

}  // namespace npu::graph
