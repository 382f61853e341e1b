// SPDX-License-Identifier: MIT
#include "compiler/import/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "compiler/graph/obstacle.h"

namespace npu::graph {
namespace {

/// Who makes which tensor.
Status find_makers(const std::vector<RawNode> &nodes, std::map<std::string, size_t> &makers) {
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string &name : nodes[i].outputs) {
      if (name.empty()) continue;
      const auto [known, is_new] = makers.emplace(name, i);
      if (!is_new)
        return refuse(Obstacle::File, "'" + name + "' is made twice: by " + node_title(nodes[known->second]) +
                                          " and by " + node_title(nodes[i]));
    }
  return {};
}

/// Follows what a node waits for until one comes again: that one and all after it wait for each other.
std::string cycle_text(const std::vector<RawNode> &nodes, const std::vector<std::set<size_t>> &needs,
                       const std::vector<bool> &done, size_t at) {
  std::vector<size_t> path;
  std::vector<bool> seen(nodes.size());
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    for (size_t next : needs[at])
      if (!done[next]) {
        at = next;
        break;
      }
  }
  constexpr size_t kShown = 5;
  std::string text;
  size_t shown = 0, left = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    if (text.empty() && path[i] != at) continue;
    if (shown < kShown)
      text += (shown++ ? ", " : "") + node_title(nodes[path[i]]);
    else
      ++left;
  }
  return left ? text + " and " + std::to_string(left) + " more" : text;
}

}  // namespace

std::string printable(std::string text) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  constexpr size_t kLongest = 200;
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

std::string node_title(const RawNode &n) {
  return printable((n.domain.empty() ? "" : n.domain + ".") + n.type + " '" + node_name(n) + "'");
}

std::string node_name(const RawNode &n) {
  return printable(!n.name.empty() ? n.name : !n.outputs.empty() ? n.outputs[0] : "");
}

void add_reads(const RawNode &n, std::set<std::string> &names) {
  names.insert(n.inputs.begin(), n.inputs.end());
  for (const auto &[name, a] : n.attributes) {
    if (!a.graph) continue;
    for (const RawValue &o : a.graph->outputs) names.insert(o.name);
    for (const RawNode &inner : a.graph->nodes) add_reads(inner, names);
  }
}

Status order_nodes(const std::vector<RawNode> &nodes, std::vector<size_t> &order) {
  std::map<std::string, size_t> makers;
  NPU_TRY(find_makers(nodes, makers));
  std::vector<std::set<size_t>> needs(nodes.size());
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> waiting(nodes.size());
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::set<std::string> names;
    add_reads(nodes[i], names);
    for (const std::string &name : names) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) continue;
      // A body may use a name of its own that the node's result has, too; as an input it is a loop.
      const bool is_input = std::find(nodes[i].inputs.begin(), nodes[i].inputs.end(), name) != nodes[i].inputs.end();
      if ((maker->second != i || is_input) && needs[i].insert(maker->second).second)
        readers[maker->second].push_back(i);
    }
    waiting[i] = needs[i].size();
    if (!waiting[i]) ready.push(i);
  }
  std::vector<bool> done(nodes.size());
  order.clear();
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    done[i] = true;
    order.push_back(i);
    for (size_t r : readers[i])
      if (--waiting[r] == 0) ready.push(r);
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!done[i])
      return refuse(Obstacle::File, "nodes need each other's results: " + cycle_text(nodes, needs, done, i));
  return {};
}

}  // namespace npu::graph
