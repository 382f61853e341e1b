// SPDX-License-Identifier: MIT
// Where the results of a network are cut, by an estimate of cycles.
//
// The estimate of a network is a sum: for each node the longest of its parts, and for each result what goes through
// memory because somebody needs more than he computes. From a start in which all is cut alike, stretches of nodes
// change their cut together, as long as the sum falls.
#include <algorithm>
#include <array>

#include "compiler/graph/shard.h"
#include "npu_cost.hpp"

namespace npu::graph {
namespace {

constexpr hw::CostParams kChip;
constexpr size_t kStretch = 256;         ///< nodes at most that change together
constexpr size_t kMaxChanges = 400'000;  ///< changes that are tried for a start
constexpr double kElementBytes = 4;
/// What a core that reads an exchange waits for, besides the bytes: a store, a load, and the semaphore.
constexpr double kMeeting = 2.0 * (kChip.gdma_fixed + kChip.ddr_latency) + 2.0 * kChip.gdma_fixed;

double count(const Box &box) {
  double n = 1;
  for (Range r : box) n *= static_cast<double>(std::max<int64_t>(r.size(), 0));
  return n;
}
double steps(int64_t n, int64_t by) { return static_cast<double>((n + by - 1) / by); }

/// The arithmetic of a part of a node.
double arithmetic(const Graph &g, const Node &n, const Box &part) {
  const double elements = count(part);
  switch (n.op) {
    case Op::Conv: {
      const Shape &w = g[n.inputs[1]].shape;
      const int64_t taps = element_count(w) / w[0];
      return elements / static_cast<double>(part[1].size()) * steps(taps, kChip.mac_ic) *
             steps(part[1].size(), kChip.mac_oc) / kChip.mac_pixels;
    }
    case Op::MatMul: {
      const int64_t k = g[n.inputs[0]].shape.back(), columns = part.back().size();
      return elements / static_cast<double>(columns) * steps(k, kChip.mac_ic) * steps(columns, kChip.mac_oc) /
             kChip.mac_pixels;
    }
    case Op::Pool: {
      const Window &w = std::get<PoolAttrs>(n.attrs).window;
      return elements * static_cast<double>(w.kernel[0] * w.kernel[1]) / kChip.ew_lanes;
    }
    case Op::Softmax:
      return 8 * elements / kChip.ew_lanes;
    case Op::Unary:
      return hw::cost_detail::is_slow(static_cast<uint8_t>(std::get<UnaryAttrs>(n.attrs).act.kind)) *
             (4 * elements / kChip.ew_lanes);
    default:
      return 0;
  }
}

/// Bytes of local memory that a part of a node moves.
double local_bytes(const Node &n, const Box &part, const Box &first) {
  switch (n.op) {
    case Op::Transpose:
    case Op::Reshape:
    case Op::Slice:
    case Op::Expand:
    case Op::Concat:
      return 0;  // views, mostly
    case Op::Binary:
      return 3 * kElementBytes * count(part);
    default:
      return kElementBytes * (count(part) + count(first));
  }
}

class Search {
 public:
  Search(const Graph &g, int cores) : g_(g), cores_(cores), made_(g.producers()), readers_(g.values.size()) {
    for (size_t i = 0; i < g.nodes.size(); ++i)
      for (size_t k = 0; k < g.nodes[i].inputs.size(); ++k)
        if (const ValueId v = g.nodes[i].inputs[k]; v != kNoValue && made_[index(v)] >= 0)
          readers_[index(v)].push_back({i, k});
    node_cost_.resize(g.nodes.size());
    value_cost_.resize(g.nodes.size());
  }

  /// The cuts in which everything is cut along `axis` where it can be, or the best that are found from there.
  double run(int axis, bool improved, Cuts &out) {
    cuts_ = {cores_, std::vector<int>(g_.nodes.size(), kWhole)};
    for (size_t i = 0; i < g_.nodes.size(); ++i) cuts_.axis[i] = follow(i, axis);
    total_ = 0;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      total_ += node_cost_[i] = node_cost(i);
      total_ += value_cost_[i] = value_cost(i);
    }
    changes_ = 0;
    while (improved && changes_ < kMaxChanges && improve()) continue;
    out = cuts_;
    return total_;
  }

  /// Cycles of the whole on one core, estimated alike.
  double one_core() const {
    double sum = 0;
    for (const Node &n : g_.nodes) sum += part_cost(n, kWhole, 0) + weights(n, kWhole);
    return sum;
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }

  Box part(size_t i, int core) const { return part_of(g_, g_.nodes[i], cuts_.axis[i], cores_, core); }

  double part_cost(const Node &n, int axis, int core) const {
    const Box box = part_of(g_, n, axis, cores_, core), first = needed(g_, n, 0, axis, box);
    return kChip.tiu_fixed + std::max(arithmetic(g_, n, box), local_bytes(n, box, first) / kChip.lmem_bw);
  }

  /// Cycles of memory for the constants of all cores.
  double weights(const Node &n, int axis) const {
    double bytes = 0;
    if (n.op != Op::Conv && n.op != Op::MatMul) return 0;
    for (int c = 0; c < (axis == kWhole ? 1 : cores_); ++c) {
      const Box box = part_of(g_, n, axis, cores_, c);
      if (g_.is_constant(n.inputs[1])) bytes += kElementBytes * count(needed(g_, n, 1, axis, box));
    }
    return bytes * (axis == kWhole ? cores_ : 1) / kChip.ddr_bw;
  }

  double node_cost(size_t i) const {
    const Node &n = g_.nodes[i];
    double longest = 0;
    for (int c = 0; c < (cuts_.axis[i] == kWhole ? 1 : cores_); ++c)
      longest = std::max(longest, part_cost(n, cuts_.axis[i], c));
    return std::max(longest, weights(n, cuts_.axis[i]));
  }

  /// What goes through memory of a node's result.
  double value_cost(size_t i) const {
    if (cuts_.axis[i] == kWhole) return 0;
    double elements = 0;
    for (int c = 0; c < cores_; ++c) {
      const Box own = part(i, c);
      double most = 0;
      for (const auto &[reader, operand] : readers_[index(g_.nodes[i].output)]) {
        const Box want = needed(g_, g_.nodes[reader], operand, cuts_.axis[reader], part(reader, c));
        Box mine = want;
        for (size_t d = 0; d < want.size(); ++d)
          mine[d] = {std::max(want[d].begin, own[d].begin), std::min(want[d].end, own[d].end)};
        most = std::max(most, count(want) - count(mine));
      }
      elements += most;
    }
    return elements > 0 ? kMeeting + 2 * kElementBytes * elements / kChip.ddr_bw : 0;
  }

  /// The cut of a node that goes with the cut of its first operand, else `axis` if it can be, else none.
  int follow(size_t i, int axis) const {
    const Node &n = g_.nodes[i];
    const ValueId v = n.inputs[0];
    const int rank = static_cast<int>(g_[n.output].shape.size());
    const int from = made_[index(v)] < 0 ? kWhole : cuts_.axis[static_cast<size_t>(made_[index(v)])];
    if (from != kWhole && (n.op == Op::Transpose || n.op == Op::Reshape))
      for (int a = 0; a < rank; ++a)
        if (can_cut(g_, n, a, cores_) &&
            needed(g_, n, 0, a, part_of(g_, n, a, cores_, 0)) ==
                part_of(g_, g_.nodes[static_cast<size_t>(made_[index(v)])], from, cores_, 0))
          return a;
    return can_cut(g_, n, axis, cores_) ? axis : kWhole;
  }

  void change(size_t i, int axis) {
    ++changes_;
    if (cuts_.axis[i] == axis) return;
    cuts_.axis[i] = axis;
    update(node_cost_[i], node_cost(i));
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

  /// The stretch and cut with which the sum falls most from each beginning. Returns whether it fell.
  bool improve() {
    const double before = total_;
    for (size_t i = 0; i < g_.nodes.size() && changes_ < kMaxChanges; ++i) {
      double best = total_ - 1;
      size_t best_end = i;
      int best_axis = kWhole;
      for (int axis = kWhole; axis < kAxes; ++axis) {
        const size_t end = std::min(g_.nodes.size(), i + kStretch);
        const std::vector<int> saved(cuts_.axis.begin() + static_cast<std::ptrdiff_t>(i),
                                     cuts_.axis.begin() + static_cast<std::ptrdiff_t>(end));
        size_t to = i;
        for (; to < end; ++to) {
          const int now = axis == kWhole ? kWhole : follow(to, axis);
          if (to > i + 8 && now == cuts_.axis[to]) break;  // the same from here on, as a rule
          change(to, now);
          if (total_ >= best) continue;
          best = total_;
          best_end = to + 1;
          best_axis = axis;
        }
        while (to-- > i) change(to, saved[to - i]);
      }
      for (size_t j = i; j < best_end; ++j) change(j, best_axis == kWhole ? kWhole : follow(j, best_axis));
    }
    return total_ < before - 1;
  }

  static constexpr int kAxes = 4;

  const Graph &g_;
  const int cores_;
  const std::vector<int> made_;
  std::vector<std::vector<std::pair<size_t, size_t>>> readers_;  ///< of each value: nodes, and which operand it is
  Cuts cuts_;
  std::vector<double> node_cost_, value_cost_;  ///< of each node, and of its result
  double total_ = 0;
  size_t changes_ = 0;
};

}  // namespace

std::vector<Cuts> find_cuts(const Graph &graph, int cores, bool all) {
  Search search(graph, cores);
  const double one_core = search.one_core();
  std::vector<std::pair<double, Cuts>> found;
  const auto add = [&](int axis, bool improved) {
    Cuts cuts;
    const double cycles = search.run(axis, improved, cuts);
    const auto same = [&](const auto &f) { return f.second.axis == cuts.axis; };
    if (std::any_of(found.begin(), found.end(), same) || (!all && cycles >= one_core)) return;
    if (std::all_of(cuts.axis.begin(), cuts.axis.end(), [](int a) { return a == kWhole; })) return;
    found.emplace_back(cycles, std::move(cuts));
  };
  for (int axis = 0; axis < 3; ++axis) add(axis, true);
  for (int axis = 0; axis < 3 && all && found.empty(); ++axis) add(axis, false);
  std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<Cuts> out;
  for (auto &f : found) out.push_back(std::move(f.second));
  return out;
}

}  // namespace npu::graph
