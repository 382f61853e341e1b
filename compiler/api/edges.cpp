// SPDX-License-Identifier: MIT
#include "compiler/api/edges.h"

#include <set>
#include <tuple>

namespace npu::compiler {
namespace {

using Ends = std::pair<size_t, size_t>;

/// A list of edges without repetitions.
class EdgeList {
 public:
  explicit EdgeList(const graph::Graph &graph) : graph_(graph), producers_(graph.producers()) {}

  /// An edge to `to` for a value that it reads.
  void add(graph::ValueId v, size_t to, const std::string &tensor) {
    if (v == graph::kNoValue || graph_.is_constant(v)) return;
    const int producer = producers_[graph::at(v)];
    const size_t from =
        producer < 0 ? EdgeReport::kOutside : static_cast<size_t>(graph_.nodes[static_cast<size_t>(producer)].source);
    if (from == to && from != EdgeReport::kOutside) return;
    // Values without a name differ by their number.
    const int number = tensor.empty() ? static_cast<int>(v) : -1;
    if (seen_.insert({from, to, tensor, number}).second) edges_.push_back({from, to, tensor, graph_[v]});
  }

  std::vector<EdgeReport> take() { return std::move(edges_); }

 private:
  const graph::Graph &graph_;
  const std::vector<int> producers_;
  std::set<std::tuple<size_t, size_t, std::string, int>> seen_;
  std::vector<EdgeReport> edges_;
};

}  // namespace

std::vector<EdgeReport> edges_of(const graph::Graph &g) {
  EdgeList list(g);
  for (const graph::Node &n : g.nodes)
    for (graph::ValueId v : n.inputs)
      if (v != graph::kNoValue) list.add(v, static_cast<size_t>(n.source), g[v].name);
  for (size_t k = 0; k < g.outputs.size(); ++k) list.add(g.outputs[k], EdgeReport::kOutside, g.output_names[k]);
  return list.take();
}

void add_edges_of_passes(const graph::Graph &g, size_t known, std::vector<EdgeReport> &edges) {
  const auto is_new = [&](size_t end) { return end != EdgeReport::kOutside && end >= known; };
  const std::vector<EdgeReport> now = edges_of(g);
  std::set<Ends> kept;
  std::multimap<size_t, size_t> into, out_of;  // edges at new sources
  for (const EdgeReport &e : now) {
    kept.insert({e.from, e.to});
    if (is_new(e.to)) into.emplace(e.to, e.from);
    if (is_new(e.from)) out_of.emplace(e.from, e.to);
  }
  std::set<Ends> interrupted;
  for (const auto &[source, from] : into)
    for (auto [it, end] = out_of.equal_range(source); it != end; ++it)
      if (!kept.count({from, it->second})) interrupted.insert({from, it->second});
  std::erase_if(edges, [&](const EdgeReport &e) { return interrupted.count({e.from, e.to}) > 0; });
  for (const EdgeReport &e : now)
    if (is_new(e.from) || is_new(e.to)) edges.push_back(e);
}

}  // namespace npu::compiler
