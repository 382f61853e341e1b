// SPDX-License-Identifier: MIT
#include "compiler/quantize/names.h"

#include <map>
#include <set>

namespace npu::quantize {

std::vector<std::string> tensor_names(const graph::Graph &g) {
  std::vector<std::string> out(g.values.size());
  std::set<std::string> taken;
  const auto take = [&](graph::ValueId v) {
    const std::string &name = g[v].name;
    if (!name.empty() && taken.insert(name).second) out[static_cast<size_t>(v)] = name;
  };
  for (graph::ValueId v : g.inputs) take(v);
  for (const graph::Node &n : g.nodes) take(n.output);
  std::map<int, int> count;  // of a source's values
  for (const graph::Node &n : g.nodes) {
    std::string &name = out[static_cast<size_t>(n.output)];
    while (name.empty()) {
      const std::string next = g.sources[static_cast<size_t>(n.source)].name + "/" + std::to_string(++count[n.source]);
      if (taken.insert(next).second) name = next;
    }
  }
  return out;
}

}  // namespace npu::quantize
