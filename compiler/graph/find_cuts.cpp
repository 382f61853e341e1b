// SPDX-License-Identifier: MIT
// Where the results of a network are cut, by an estimate of cycles.
//
// The estimate of a network is a sum: for each node the longest of its parts, and for each result what goes through
// memory because somebody needs more than he computes. Each core has its own way to memory. From a start in which all
// is cut alike, stretches of nodes change their cut together, as long as the sum falls.
#include <algorithm>
#include <array>

#include "compiler/graph/estimate.h"
#include "compiler/graph/shard.h"
#include "npu_cost.hpp"

namespace npu::graph {
namespace {

constexpr size_t kMostCores = NPU_MAX_CORES;
/// Steps of a search from one start: readers of a value that are looked at for a core. Less than a second.
constexpr size_t kMostCutSteps = 50'000'000;
/// Nodes that change together at most: as many as let a pass over the network end in time.
constexpr size_t kLeastStretch = 8, kMostStretch = 256;
constexpr double kLeastCutGain = 1;  ///< cycles
/// What a core that reads an exchange waits for, besides the bytes: a store, a load, and the semaphore.
constexpr double kMeeting = 2.0 * (kChip.gdma_fixed + kChip.ddr_latency) + 2.0 * kChip.gdma_fixed;

/// kWhole and the first dimensions: what a result is cut along, if at all.
constexpr int kAxes = 5;
size_t slot(int axis) { return static_cast<size_t>(axis + 1); }

class Search {
 public:
  Search(const Graph &g, int cores)
      : g_(g), cores_(cores), made_(g.producers()), readers_(g.values.size()), facts_(g.nodes.size()) {
    size_t reads = 0;
    for (size_t i = 0; i < g.nodes.size(); ++i)
      for (size_t k = 0; k < g.nodes[i].inputs.size(); ++k)
        if (const ValueId v = g.nodes[i].inputs[k]; v != kNoValue && made_[index(v)] >= 0) {
          readers_[index(v)].push_back({i, k, {}});
          ++reads;
        }
    const size_t pass = 2 * kAxes * static_cast<size_t>(cores) * (reads + g.nodes.size() + 1);
    stretch_ = std::clamp(kMostCutSteps / pass, kLeastStretch, kMostStretch);
    for (size_t i = 0; i < g.nodes.size(); ++i) learn(i);
    node_cost_.resize(g.nodes.size());
    value_cost_.resize(g.nodes.size());
  }

  /// The cuts in which everything is cut along `axis` where it can be, or the best that are found from there.
  Cuts run(int axis, bool improved) {
    cuts_ = {cores_, std::vector<int>(g_.nodes.size(), kWhole), 0};
    for (size_t i = 0; i < g_.nodes.size(); ++i) cuts_.axis[i] = follow(i, axis);
    total_ = 0;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      total_ += node_cost_[i] = facts_[i].cost[slot(cuts_.axis[i])];
      total_ += value_cost_[i] = value_cost(i);
    }
    work_ = 0;
    while (improved && work_ < kMostCutSteps && improve()) continue;
    cuts_.cycles = total_;
    return cuts_;
  }

  /// Cycles of the whole on one core, estimated alike.
  double one_core() const {
    double sum = 0;
    for (const Node &n : g_.nodes) sum += part_cost(n, kWhole, 0);
    return sum;
  }

 private:
  /// What is known of a node, for each way of cutting it.
  struct Facts {
    std::array<bool, kAxes> can{};
    std::array<double, kAxes> cost{};           ///< cycles of the longest part
    std::array<std::vector<Box>, kAxes> parts;  ///< of each core
  };

  /// A node that reads a value, and how many elements of it each core lacks: [its cut][the value's][core], when asked.
  struct Reader {
    size_t node, operand;
    std::vector<float> missing;
  };

  static size_t index(ValueId v) { return static_cast<size_t>(v); }

  void learn(size_t i) {
    const Node &n = g_.nodes[i];
    for (int axis = kWhole; axis < kAxes - 1; ++axis) {
      Facts &f = facts_[i];
      f.can[slot(axis)] = axis == kWhole || can_cut(g_, n, axis, cores_);
      if (!f.can[slot(axis)]) continue;
      double longest = 0;
      for (int c = 0; c < cores_; ++c) {
        f.parts[slot(axis)].push_back(part_of(g_, n, axis, cores_, c));
        if (c == 0 || axis != kWhole) longest = std::max(longest, part_cost(n, axis, c));
      }
      f.cost[slot(axis)] = longest;
    }
  }

  /// Cycles of a core's arithmetic or of its weights, whichever takes longer.
  double part_cost(const Node &n, int axis, int core) const {
    const Box box = part_of(g_, n, axis, cores_, core), first = needed(g_, n, 0, axis, box);
    const double compute = compute_cycles(g_, n, box, first);
    if ((n.op != Op::Conv && n.op != Op::MatMul) || !g_.is_constant(n.inputs[1])) return compute;
    const double bytes = element_bytes(g_, n.inputs[1]) * count(needed(g_, n, 1, axis, box));
    return std::max(compute, bytes / kChip.ddr_bw);
  }

  const float *missing(Reader &r, size_t owner) {
    const size_t cores = static_cast<size_t>(cores_);
    if (r.missing.empty()) r.missing.assign(size_t{kAxes} * kAxes * cores, kUnknown);
    const int mine = cuts_.axis[r.node], its = cuts_.axis[owner];
    float *const out = r.missing.data() + (slot(mine) * kAxes + slot(its)) * cores;
    for (size_t c = 0; c < cores && out[c] == kUnknown; ++c) {
      const Box want = needed(g_, g_.nodes[r.node], r.operand, mine, facts_[r.node].parts[slot(mine)][c]);
      out[c] = static_cast<float>(count(want) - count(common(want, facts_[owner].parts[slot(its)][c])));
    }
    return out;
  }

  /// What goes through memory of a node's result.
  double value_cost(size_t i) {
    ++work_;
    if (cuts_.axis[i] == kWhole) return 0;
    std::array<float, kMostCores> most{};
    for (Reader &r : readers_[index(g_.nodes[i].output)]) {
      const float *lacks = missing(r, i);
      for (size_t c = 0; c < static_cast<size_t>(cores_); ++c) most[c] = std::max(most[c], lacks[c]);
      work_ += static_cast<size_t>(cores_);
    }
    double loaded = 0, all = 0;
    for (float n : most) {
      loaded = std::max<double>(loaded, n);
      all += n;
    }
    if (all == 0) return 0;
    // A core stores what the others lack of its part, each of these elements once.
    const double stored = std::min(all / cores_, count(facts_[i].parts[slot(cuts_.axis[i])][0]));
    return kMeeting + element_bytes(g_, g_.nodes[i].output) * (stored + loaded) / kChip.ddr_bw;
  }

  /// The cut of a node that goes with the cut of its first operand, else `axis` if it can be, else none.
  int follow(size_t i, int axis) const {
    const Node &n = g_.nodes[i];
    const int p = made_[index(n.inputs[0])];
    const int from = p < 0 ? kWhole : cuts_.axis[static_cast<size_t>(p)];
    if (from != kWhole && (n.op == Op::Transpose || n.op == Op::Reshape))
      for (int a = 0; a < kAxes - 1; ++a)
        if (facts_[i].can[slot(a)] &&
            needed(g_, n, 0, a, facts_[i].parts[slot(a)][0]) == facts_[static_cast<size_t>(p)].parts[slot(from)][0])
          return a;
    return axis != kWhole && facts_[i].can[slot(axis)] ? axis : kWhole;
  }

  void change(size_t i, int axis) {
    ++work_;
    if (cuts_.axis[i] == axis) return;
    cuts_.axis[i] = axis;
    update(node_cost_[i], facts_[i].cost[slot(axis)]);
    update(value_cost_[i], value_cost(i));
    for (ValueId v : g_.nodes[i].inputs)
      if (v != kNoValue && made_[index(v)] >= 0) {
        const auto p = static_cast<size_t>(made_[index(v)]);
        update(value_cost_[p], value_cost(p));
      }
  }
  void update(double &of, double now) {
    total_ += now - of;
    of = now;
  }

  /// A stretch of nodes that are cut alike, and what the sum is then.
  struct Stretch {
    double total;
    size_t end;
    int axis;
  };

  /// Tries the stretches from a node on that are cut along an axis, and leaves everything as it was.
  void try_stretches(size_t begin, int axis, Stretch &best) {
    const size_t end = std::min(g_.nodes.size(), begin + stretch_);
    std::vector<int> before;
    for (size_t i = begin; i < end; ++i) {
      const int now = axis == kWhole ? kWhole : follow(i, axis);
      // Where the nodes are cut so already, a longer stretch is one that begins later.
      if (now == cuts_.axis[i] && before.size() >= kLeastStretch) break;
      before.push_back(cuts_.axis[i]);
      change(i, now);
      if (total_ < best.total) best = {total_, i + 1, axis};
    }
    while (!before.empty()) {
      change(begin + before.size() - 1, before.back());
      before.pop_back();
    }
  }

  /// From each node on takes the stretch with which the sum falls most. Returns whether it fell.
  bool improve() {
    const double before = total_;
    for (size_t i = 0; i < g_.nodes.size() && work_ < kMostCutSteps; ++i) {
      Stretch best{total_ - kLeastCutGain, i, kWhole};
      for (int axis = kWhole; axis < kAxes - 1; ++axis) try_stretches(i, axis, best);
      for (size_t j = i; j < best.end; ++j) change(j, best.axis == kWhole ? kWhole : follow(j, best.axis));
    }
    return total_ < before - kLeastCutGain;
  }

  static constexpr float kUnknown = -1;

  const Graph &g_;
  const int cores_;
  const std::vector<int> made_;
  std::vector<std::vector<Reader>> readers_;  ///< of each value
  std::vector<Facts> facts_;                  ///< of each node
  Cuts cuts_;
  std::vector<double> node_cost_, value_cost_;  ///< of each node, and of its result
  double total_ = 0;
  size_t work_ = 0, stretch_ = 0;
};

}  // namespace

std::vector<Cuts> find_cuts(const Graph &graph, int cores, bool all) {
  Search search(graph, cores);
  const double one_core = search.one_core();
  std::vector<Cuts> found;
  const auto add = [&](int axis, bool improved) {
    Cuts cuts = search.run(axis, improved);
    const auto same = [&](const Cuts &f) { return f.axis == cuts.axis; };
    if (std::any_of(found.begin(), found.end(), same) || (!all && cuts.cycles >= one_core)) return;
    if (std::all_of(cuts.axis.begin(), cuts.axis.end(), [](int a) { return a == kWhole; })) return;
    found.push_back(std::move(cuts));
  };
  for (int axis = 0; axis < 3; ++axis) add(axis, true);
  for (int axis = 0; axis < 3 && all && found.empty(); ++axis) add(axis, false);
  return found;
}

}  // namespace npu::graph
