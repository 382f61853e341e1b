// SPDX-License-Identifier: MIT
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

bool pads_pictures_with_zero(const PadAttrs &pad, size_t rank) {
  if (pad.value != 0 || (rank != 3 && rank != 4)) return false;
  return !pad.begin[0] && !pad.begin[1] && !pad.end[0] && !pad.end[1];
}

}  // namespace

void merge_pad(Graph &graph) {
  const std::vector<int> made = graph.producers();
  for (Node &n : graph.nodes) {
    if (n.op != Op::Conv) continue;
    const int producer = made[static_cast<size_t>(n.inputs[0])];
    if (producer < 0) continue;
    const Node &p = graph.nodes[static_cast<size_t>(producer)];
    const size_t rank = graph[n.inputs[0]].shape.size();
    if (p.op != Op::Pad || !pads_pictures_with_zero(std::get<PadAttrs>(p.attrs), rank)) continue;
    const auto &pad = std::get<PadAttrs>(p.attrs);
    Window &w = std::get<ConvAttrs>(n.attrs).window;
    for (size_t i = 2; i < rank; ++i) {
      w.begin[i - 2] += pad.begin[i];
      w.end[i - 2] += pad.end[i];
    }
    n.inputs[0] = p.inputs[0];
    graph.sources[static_cast<size_t>(p.source)].fate = "in " + graph.sources[static_cast<size_t>(n.source)].name;
  }
  remove_dead(graph);
}

}  // namespace npu::graph
