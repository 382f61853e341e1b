// SPDX-License-Identifier: MIT
// Which runs of nodes to compute in turns, by an estimate of cycles.
//
// The nodes are divided into runs, each in turns or not, so that the sum of their estimates is the least: that of the
// first nodes up to each place follows from those of fewer nodes. A run takes as long as its arithmetic or what it
// moves through memory, whichever is longer. Through memory goes what local memory has no room for besides the largest
// sum of what is alive within a piece.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "compiler/graph/estimate.h"
#include "compiler/graph/turns.h"
#include "npu_cost.hpp"

namespace npu::graph {
namespace {

/// Nodes that are looked at for one division, about. Less than a second.
constexpr size_t kMostTurnNodes = 400'000;
constexpr int64_t kMostTurns = 64;
/// What of the shorter of arithmetic and transfers is not hidden behind the longer.
constexpr double kNotHidden = 0.25;
constexpr double kTransfer = kChip.gdma_fixed + kChip.ddr_latency;
constexpr double kLeastTurnGain = 0.005;  ///< as a part of the whole

double bytes_of(const Graph &g, ValueId v, const Box &box) { return element_bytes(g, v) * count(box); }
double bytes_of(const Graph &g, ValueId v) {
  return element_bytes(g, v) * static_cast<double>(element_count(g[v].shape));
}

/// Numbers of pieces that a dimension of this size is cut into.
std::vector<int64_t> counts_of(int64_t size) {
  std::vector<int64_t> counts;
  for (int64_t n = 2; n <= std::min(size, kMostTurns); n += n < 4 ? 1 : n < 16 ? 2 : n / 4) {
    const int64_t step = (size + n - 1) / n, count = (size + step - 1) / step;
    if (counts.empty() || counts.back() != count) counts.push_back(count);
  }
  return counts;
}

/// What is known of the network.
struct Facts {
  explicit Facts(const Graph &graph)
      : g(graph), readers(readers_of(g)), made(g.producers()), last(g.values.size(), 0), weights(g.nodes.size(), 0) {
    for (size_t v = 0; v < g.values.size(); ++v)
      for (const Reader &r : readers[v]) last[v] = std::max(last[v], r.node);
    for (size_t i = 0; i < g.nodes.size(); ++i)
      for (size_t k = 1; k < g.nodes[i].inputs.size(); ++k)
        if (const ValueId v = g.nodes[i].inputs[k]; v != kNoValue && g.is_constant(v)) weights[i] += bytes_of(g, v);
  }

  const Graph &g;
  const Readers readers;
  const std::vector<int> made;
  std::vector<size_t> last;     ///< the last node that reads a value; the number of nodes for outputs
  std::vector<double> weights;  ///< bytes of the constants of each node
};

/// The estimate of a run that grows from its end.
class RunCost {
 public:
  RunCost(const Facts &facts, const Turns &turns, double capacity)
      : f_(facts),
        turns_(turns),
        capacity_(capacity),
        piece_(f_.g, f_.readers, turns, turns.count / 2),
        first_(f_.g, f_.readers, turns, 0),
        last_(f_.g, f_.readers, turns, turns.count - 1) {}

  /// Takes in the node in front; false if the run cannot be longer.
  bool extend() {
    if (!piece_.extend() || !first_.extend() || !last_.extend()) return false;
    const size_t i = piece_.begin();
    const Node &n = f_.g.nodes[i];
    const Piece::Part &part = piece_.part(i);
    roots_.push_back({});
    live_.push_back(0);
    outside_.erase(n.output);
    if (!part.kept.empty()) kept_.emplace_back(n.output, bytes_of(f_.g, n.output));
    if (is_empty(part.made)) return true;
    const Box first = needed(f_.g, n, 0, part.axis, part.made);
    cycles_.push_back({compute_cycles(f_.g, n, part.made, first), f_.weights[i]});
    weights_ += f_.weights[i];
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (const ValueId v = n.inputs[k]; v != kNoValue && !f_.g.is_constant(v))
        outside_[v] += bytes_of(f_.g, v, needed(f_.g, n, k, part.axis, part.made));
    place(i);
    return true;
  }

  /// With the nodes so far, while `crossing` bytes pass by it.
  double cycles(double crossing, std::vector<size_t> *to_memory = nullptr) const {
    const auto turns = static_cast<double>(turns_.count);
    double room = capacity_ - peak_;
    if (crossing <= room / 2) room -= crossing;
    double moved = through_memory(room, to_memory);
    const bool stay = weights_ <= room;  // all weights come once
    double busy = 0;
    for (const auto &[compute, weights] : cycles_)
      busy += turns * (stay ? compute : std::max(compute, weights / kChip.ddr_bw));
    moved += stay ? weights_ : turns * weights_;
    const double memory = moved / kChip.ddr_bw + turns * kTransfer;
    return std::max(busy, memory) + kNotHidden * std::min(busy, memory);
  }

  size_t begin() const { return piece_.begin(); }
  /// Whether a piece needs more than local memory has.
  bool full() const { return peak_ > capacity_; }

 private:
  /// A place in local memory, for values one after another: bytes, and the nodes [first, last] that they live through.
  struct Root {
    double bytes = 0;
    size_t first = 0, last = 0;
  };

  size_t slot(size_t node) const { return turns_.end - 1 - node; }

  /// Gives a node's result the place of what is made of it, or one of its own.
  void place(size_t i) {
    const Node &n = f_.g.nodes[i];
    size_t last = i, share = turns_.end;
    const auto &readers = f_.readers[index(n.output)];
    for (const Reader &r : readers) {
      if (r.node >= turns_.end || is_empty(piece_.part(r.node).made)) continue;
      last = std::max(last, r.node);
      if (share == turns_.end && shares(r, readers.size())) share = r.node;
    }
    if (share == turns_.end) {
      places_.push_back({piece_.part(i).read ? bytes_of(f_.g, f_.g.nodes[i].output, piece_.part(i).made) : 0, i, last});
      roots_[slot(i)] = places_.size() - 1;
      grow(places_.back().bytes, i, last + 1);
      return;
    }
    Root &root = places_[roots_[slot(i)] = roots_[slot(share)]];
    taken_.push_back(share);
    grow(root.bytes, i, root.first);
    if (last > root.last) grow(root.bytes, root.last + 1, last + 1);
    root.first = i;
    root.last = std::max(root.last, last);
  }

  /// Whether a reader's result lies where this operand lies.
  bool shares(const Reader &r, size_t readers) const {
    const Op op = f_.g.nodes[r.node].op;
    if (op == Op::Concat || op == Op::Transpose || op == Op::Reshape) return true;
    const bool in_place = op == Op::Unary || op == Op::Binary;
    return in_place && readers == 1 && std::find(taken_.begin(), taken_.end(), r.node) == taken_.end() &&
           piece_.part(r.node).read;
  }

  void grow(double bytes, size_t first, size_t end) {
    for (size_t m = first; m < end; ++m) peak_ = std::max(peak_, live_[slot(m)] += bytes);
  }

  /// Bytes of what is read from outside and of what others read, as far as there is no room for them.
  double through_memory(double room, std::vector<size_t> *to_memory) const {
    struct Tensor {
      double bytes, moved;  ///< moved if it is in memory
      int maker;            ///< in the run, or -1
      bool operator<(const Tensor &b) const { return bytes < b.bytes; }
    };
    std::vector<Tensor> tensors;
    const auto turns = static_cast<double>(turns_.count);
    double moved = 0;
    for (const auto &[v, bytes] : outside_)
      if (f_.made[index(v)] < 0)
        moved += turns * bytes;
      else
        tensors.push_back({bytes_of(f_.g, v), turns * bytes, -1});
    for (const auto &[v, bytes] : kept_) {
      const bool is_output = f_.last[index(v)] == f_.g.nodes.size();
      if (is_output) moved += bytes;
      tensors.push_back({bytes, is_output ? 0 : bytes, f_.made[index(v)]});
    }
    std::stable_sort(tensors.begin(), tensors.end());
    for (const Tensor &t : tensors) {
      if (t.bytes <= room) {
        room -= t.bytes;
        continue;
      }
      moved += t.moved;
      if (to_memory && t.maker >= 0) to_memory->push_back(static_cast<size_t>(t.maker));
    }
    return moved;
  }

  const Facts &f_;
  const Turns turns_;
  const double capacity_;
  Piece piece_, first_, last_;                     ///< one for most of them
  std::vector<std::pair<double, double>> cycles_;  ///< of each node in one piece, and bytes of its weights
  double weights_ = 0, peak_ = 0;
  std::map<ValueId, double> outside_;             ///< bytes that a piece reads
  std::vector<std::pair<ValueId, double>> kept_;  ///< and their bytes
  std::vector<Root> places_;
  std::vector<size_t> roots_, taken_;
  std::vector<double> live_;  ///< bytes of local memory while each node runs
};

/// The nodes, divided so that the sum of estimates is the least.
class Division {
 public:
  Division(const Facts &facts, double capacity) : f_(facts), capacity_(capacity) {}

  TurnsFound run(size_t nodes) {
    best_.resize(nodes + 1);
    for (size_t end = 1; end <= nodes; ++end) {
      find_crossing(end);
      best_[end] = {best_[end - 1].cycles + alone(end - 1), best_[end - 1].alone + alone(end - 1), {}};
      best_[end].run.begin = end - 1;
      if (!is_due(end, nodes)) continue;
      for (int axis : {0, 1, 2}) try_runs(end, axis);
    }
    TurnsFound found{{}, best_[nodes].cycles, best_[nodes].alone};
    for (size_t at = nodes; at > 0; at = best_[at].run.begin)
      if (best_[at].run.count > 1) found.runs.push_back(best_[at].run);
    std::reverse(found.runs.begin(), found.runs.end());
    return found;
  }

 private:
  struct Best {
    double cycles = 0, alone = 0;  ///< of the nodes up to here; without turns
    Turns run;                     ///< the last ones
  };

  /// Whether runs that end here are looked for: in large networks only at some nodes, from the first to the last one.
  bool is_due(size_t end, size_t nodes) const { return end == nodes || work_ <= kMostTurnNodes * end / nodes; }

  /// A node that is not in turns; all of its operands at once.
  double alone(size_t i) {
    double &cycles = alone_.try_emplace(i, -1).first->second;
    if (cycles >= 0) return cycles;
    const Node &n = f_.g.nodes[i];
    const Box whole = whole_box(f_.g[n.output].shape);
    double room = capacity_, moved = f_.weights[i];
    if (crossing_[i] <= room / 2) room -= crossing_[i];
    std::vector<std::pair<double, bool>> tensors;
    for (ValueId v : n.inputs)
      if (v != kNoValue && !f_.g.is_constant(v)) tensors.emplace_back(bytes_of(f_.g, v), f_.made[index(v)] < 0);
    tensors.emplace_back(bytes_of(f_.g, n.output), f_.last[index(n.output)] == f_.g.nodes.size());
    std::sort(tensors.begin(), tensors.end());
    for (const auto &[size, outside] : tensors) {
      if (size <= room && !outside)
        room -= size;
      else
        moved += size;
    }
    if (is_view(n)) return cycles = 0;
    const double busy = compute_cycles(f_.g, n, whole, whole_box(f_.g[n.inputs[0]].shape)),
                 memory = moved / kChip.ddr_bw;
    return cycles = std::max(busy, memory) + kNotHidden * std::min(busy, memory);
  }

  /// Of each node in front of an end, the bytes of what is made before it and read behind the end.
  void find_crossing(size_t end) {
    crossing_.assign(end + 1, 0);
    for (size_t i = 0; i < end; ++i) {
      const ValueId v = f_.g.nodes[i].output;
      crossing_[i + 1] = crossing_[i] + (f_.last[index(v)] >= end ? bytes_of(f_.g, v) : 0);
    }
  }

  void try_runs(size_t end, int axis) {
    const Shape &shape = f_.g[f_.g.nodes[end - 1].output].shape;
    if (static_cast<size_t>(axis) >= shape.size() || !can_cut(f_.g, f_.g.nodes[end - 1], axis)) return;
    // What is in front of the cut dimension lies in between.
    for (int d = 0; d < axis; ++d)
      if (shape[static_cast<size_t>(d)] != 1 && !(d == 1 && shape.size() > 3)) return;
    if (axis == 1 && shape.size() > 3) return;  // channels
    for (int64_t count : counts_of(shape[static_cast<size_t>(axis)])) {
      RunCost cost(f_, {0, end, axis, count}, capacity_);
      while (cost.begin() > 0 && cost.extend() && !cost.full()) {
        ++work_;
        const size_t begin = cost.begin();
        const double cycles = best_[begin].cycles + cost.cycles(crossing_[begin]);
        if (end - begin < 2 || cycles >= best_[end].cycles) continue;
        best_[end].cycles = cycles;
        best_[end].run = {begin, end, axis, count};
        cost.cycles(crossing_[begin], &best_[end].run.to_memory);
      }
    }
  }

  const Facts &f_;
  const double capacity_;
  std::vector<Best> best_;  ///< of as many of the first nodes
  std::map<size_t, double> alone_;
  std::vector<double> crossing_;
  size_t work_ = 0;
};

}  // namespace

std::vector<TurnsFound> find_turns(const Graph &graph, size_t nodes, int64_t lmem_bytes) {
  const Facts facts(graph);
  std::vector<TurnsFound> found;
  for (double share : {0.9, 0.7, 0.5}) {
    TurnsFound now = Division(facts, share * static_cast<double>(lmem_bytes)).run(nodes);
    const auto same = [&](const TurnsFound &f) { return f.runs == now.runs; };
    if (now.runs.empty() || std::any_of(found.begin(), found.end(), same)) continue;
    if (now.cycles < now.alone * (1 - kLeastTurnGain)) found.push_back(std::move(now));
  }
  return found;
}

std::vector<Turns> longest_runs(const Graph &graph) {
  const Readers readers = readers_of(graph);
  std::vector<Turns> runs;
  for (size_t end = graph.nodes.size(); end > 0;) {
    Turns longest{end, end};
    const auto rank = static_cast<int>(graph[graph.nodes[end - 1].output].shape.size());
    for (int axis = 0; axis < rank; ++axis) {
      Turns run{end, end, axis, 2 + static_cast<int64_t>(runs.size() % 3), {}};
      if (graph[graph.nodes[end - 1].output].shape[static_cast<size_t>(axis)] < run.count) continue;
      std::vector<Piece> pieces;
      for (int64_t number = 0; number < run.count; ++number) pieces.emplace_back(graph, readers, run, number);
      while (run.begin > 0 && std::all_of(pieces.begin(), pieces.end(), [](Piece &p) { return p.extend(); }))
        --run.begin;
      if (end - run.begin > longest.end - longest.begin) longest = run;
    }
    for (size_t i = longest.begin; i < end && runs.size() % 2; ++i) longest.to_memory.push_back(i);
    if (longest.begin < end) runs.push_back(longest);
    end = longest.begin < end ? longest.begin : end - 1;
  }
  std::reverse(runs.begin(), runs.end());
  return runs;
}

}  // namespace npu::graph
