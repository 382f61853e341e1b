// SPDX-License-Identifier: MIT
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

}  // namespace

void split_pool(Graph &graph, int64_t max_elements) {
  std::vector<Node> nodes;
  for (Node &n : graph.nodes) {
    const PoolAttrs *attrs = std::get_if<PoolAttrs>(&n.attrs);
    if (attrs && attrs->window.kernel[0] > 1 && attrs->window.kernel[1] > 1 &&
        attrs->window.extent(0) * attrs->window.extent(1) > max_elements) {
      const PoolAttrs whole = *attrs;
      Node columns = n;
      columns.attrs = only(whole, 1);
      Value between = graph[n.output];
      if (infer(graph, columns, between.dtype, between.shape).ok()) {
        n.attrs = only(whole, 0);
        n.inputs[0] = columns.output = graph.add_value(std::move(between));
        nodes.push_back(std::move(columns));
      }
    }
    nodes.push_back(std::move(n));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace npu::graph
