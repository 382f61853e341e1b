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

}  // namespace

void fuse_activation(Graph &graph) {
  const std::vector<int> uses = graph.use_counts();
  std::vector<int> made = graph.producers();
  for (Node &n : graph.nodes) {
    if (n.op != Op::Unary) continue;
    const ValueId x = n.inputs[0];
    const int producer = made[static_cast<size_t>(x)];
    if (producer < 0 || uses[static_cast<size_t>(x)] != 1) continue;
    Node &p = graph.nodes[static_cast<size_t>(producer)];
    Activation *act = activation_of(p);
    if (!act || act->kind != ActKind::None || !runs_on_chip(graph, p)) continue;
    if (std::get<UnaryAttrs>(n.attrs).act.kind > ActKind::Tanh) continue;
    *act = std::get<UnaryAttrs>(n.attrs).act;
    graph.sources[static_cast<size_t>(n.source)].fate = "in " + graph.sources[static_cast<size_t>(p.source)].name;
    // The producer now makes the activation's result; the node in between is left without a reader.
    std::swap(p.output, n.output);
    made[static_cast<size_t>(p.output)] = producer;
    made[static_cast<size_t>(n.output)] = -1;
  }
  remove_dead(graph);
}

}  // namespace npu::graph
