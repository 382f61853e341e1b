// SPDX-License-Identifier: MIT
#include "compiler/graph/remove_dead.h"

namespace npu::graph {

void remove_dead(Graph &graph) {
  std::vector<bool> wanted(graph.values.size());
  for (ValueId v : graph.outputs) wanted[static_cast<size_t>(v)] = true;
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node &n = graph.nodes[i];
    if (!wanted[static_cast<size_t>(n.output)]) continue;
    for (ValueId v : n.inputs)
      if (v != kNoValue) wanted[static_cast<size_t>(v)] = true;
    kept.push_back(std::move(n));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace npu::graph
