// SPDX-License-Identifier: MIT
// What an estimate finds (compiler/graph/find_turns.cpp) is made into programs, and changed a little as long as that
// makes them faster. The exact cycles decide.
#include "compiler/api/turns.h"

#include <algorithm>
#include <set>

#include "compiler/graph/turns.h"

namespace npu::compiler {
namespace {

using graph::Graph;
using graph::Turns;
using Runs = std::vector<Turns>;

/// Commands of all programs that are made with changed runs, behind which no further one is begun.
constexpr size_t kMostTurnCommands = size_t{1} << 17;

/// Nodes of a network in turns that it is worth to make: the rows of a matrix are as many pictures of a batch, too.
constexpr int64_t kMostNodes = int64_t{1} << 15;

Status lower_one(Graph &&g, int64_t coeff_bytes, int64_t lmem_bytes, Lowered &lowered,
                 std::vector<graph::Source> &sources) {
  lowered.coeff = Coefficients(coeff_bytes);
  graph::CoreGraph core = graph::alone(std::move(g));
  const Status status = lower_all(core, lmem_bytes, lowered);
  sources = std::move(core.graph.sources);
  return status;
}

/// Bytes of what the network computes that its program moves through memory.
uint64_t activation_bytes(const Program &p) {
  const std::vector<Storage> &storages = p.lowered.cores[0].storages;
  const auto is_temp = [&](int s) {
    // kCoefficients is none of them.
    return s >= 0 && static_cast<size_t>(s) < storages.size() &&
           storages[static_cast<size_t>(s)].kind == StorageKind::Temp;
  };
  uint64_t bytes = 0;
  for (const Command &c : p.streams.cores[0].gdma)
    if (is_temp(c.src_storage) || is_temp(c.dst_storage)) bytes += cost_of(c).flow_bytes;
  return bytes;
}

/// A network with runs in turns, within which again runs take turns: each list is of the graph that the ones before it
/// make.
using Rounds = std::vector<Runs>;

Status take_rounds(const Graph &g, const Rounds &rounds, Graph &out) {
  out = g;
  for (const Runs &runs : rounds) {
    Graph turned;
    NPU_TRY(graph::take_turns(out, runs, turned));
    out = std::move(turned);
  }
  return {};
}

/// Nodes that the pieces of runs have together.
int64_t nodes_of(const Runs &runs) {
  int64_t nodes = 0;
  for (const Turns &t : runs) nodes += static_cast<int64_t>(t.end - t.begin) * t.count;
  return nodes;
}

/// A graph in which runs are looked for: its first nodes, which stand there several times, one copy behind the other.
struct Period {
  const Graph &graph;
  size_t nodes;
  int64_t copies;

  /// Runs of the first copy, in each of them.
  Runs in_all(const Runs &runs) const {
    Runs all;
    for (size_t k = 0; k < static_cast<size_t>(copies); ++k)
      for (Turns t : runs) {
        t.begin += k * nodes;
        t.end += k * nodes;
        for (size_t &node : t.to_memory) node += k * nodes;
        all.push_back(std::move(t));
      }
    return all;
  }
};

class Chooser {
 public:
  /// `bytes`: of results that go through memory without turns.
  Chooser(const Options &options, int64_t coeff_bytes, uint64_t bytes)
      : options_(options), coeff_bytes_(coeff_bytes), bytes_(bytes) {}

  /// The runs that make the fastest program of those that are looked at; none if there is nothing to be made.
  Rounds run(const Graph &g) {
    if (options_.turns == TakeTurns::Always) return {graph::longest_runs(g)};
    const Way best = search({g, g.nodes.size(), 1});
    const int64_t pictures = batch_of(g);
    Graph loop;
    if (pictures > 1 && best.bytes > bytes_ / kMuch && nodes_of(whole(g, pictures)) <= kMostNodes &&
        graph::take_turns(g, whole(g, pictures), loop).ok()) {
      // Where one picture is too large. Behind the pieces stand the nodes that join them.
      const size_t nodes = (loop.nodes.size() - made_outputs(g)) / static_cast<size_t>(pictures);
      const Period period{loop, nodes, pictures};
      const Way second = search(period);
      if (second.cycles < best.cycles) return {whole(g, pictures), period.in_all(second.runs)};
    }
    if (best.runs.empty()) return {};
    return {best.runs};
  }

 private:
  /// Of what goes through memory without turns, a part of which it is worth the time to look further.
  static constexpr uint64_t kMuch = 4;

  /// Runs, and what their program takes.
  struct Way {
    Runs runs;
    uint64_t cycles = UINT64_MAX, bytes = UINT64_MAX;
  };

  static int64_t batch_of(const Graph &g) {
    const graph::Shape &shape = g[g.nodes.back().output].shape;
    return shape.empty() ? 1 : shape[0];
  }
  /// Outputs that nodes make, each once.
  static size_t made_outputs(const Graph &g) {
    const std::vector<int> made = g.producers();
    std::set<graph::ValueId> outputs;
    for (graph::ValueId v : g.outputs)
      if (made[static_cast<size_t>(v)] >= 0) outputs.insert(v);
    return outputs.size();
  }
  /// All nodes with so many parts of the batch.
  static Runs whole(const Graph &g, int64_t count) { return {{0, g.nodes.size(), 0, count, {}}}; }

  Way search(const Period &p) {
    Way best;
    for (const graph::TurnsFound &f : graph::find_turns(p.graph, p.nodes, options_.lmem_bytes))
      try_runs(p, f.runs, best);
    for (int64_t count = batch_of(p.graph); count > 1 && p.copies == 1; count = (count + 1) / 2)
      try_runs(p, whole(p.graph, count), best);
    const size_t last = tried_ + kMostTurnCommands;
    while (tried_ < last && improve(p, best, last)) continue;
    return best;
  }

  /// Whether these are faster than the best so far, which they are then.
  bool try_runs(const Period &p, const Runs &runs, Way &best) {
    const Runs all = p.in_all(runs);
    Graph turned;
    if (nodes_of(all) > kMostNodes || !graph::take_turns(p.graph, all, turned).ok()) return false;
    Lowered lowered;
    std::vector<graph::Source> sources;
    const Choices choices{.lmem_bytes = options_.lmem_bytes, .prefetch = PrefetchPolicy{.all = true}};
    Program program;
    if (!lower_one(std::move(turned), coeff_bytes_, options_.lmem_bytes, lowered, sources).ok()) return false;
    if (!make_program(lowered, sources, choices, &memo_, program).ok()) return false;
    tried_ += program.command_count();
    if (program.cycles() >= best.cycles) return false;
    best = {runs, program.cycles(), activation_bytes(program)};
    return true;
  }

  /// Tries changes of each run. Whether one of them was better.
  bool improve(const Period &p, Way &best, size_t last) {
    bool better = false;
    const auto change = [&](size_t k, auto how) {
      if (k >= best.runs.size() || tried_ >= last) return false;
      Runs runs = best.runs;
      if (!how(runs)) return false;
      const bool faster = try_runs(p, runs, best);
      better |= faster;
      return faster;
    };
    for (size_t k = 0; k < best.runs.size(); ++k) {
      change(k, [&](Runs &runs) {
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(k));
        return !runs.empty();
      });
      change(k, [&](Runs &runs) { return (runs[k].count *= 2) > 0; });
      change(k, [&](Runs &runs) { return (runs[k].count /= 2) > 1; });
      // With the next one, and all that lies in between.
      while (change(k, [&](Runs &runs) {
        if (k + 1 == runs.size()) return false;
        runs[k + 1].begin = runs[k].begin;
        runs[k + 1].count = std::max(runs[k].count, runs[k + 1].count);
        for (size_t node : runs[k].to_memory) runs[k + 1].to_memory.push_back(node);
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(k));
        return true;
      }))
        continue;
      for (int by : {kStep, -kStep, 1, -1}) {
        while (change(k, [&](Runs &runs) { return move_end(p.nodes, runs, k, by); })) continue;
        while (change(k, [&](Runs &runs) { return move_begin(runs, k, by); })) continue;
      }
    }
    return better;
  }

  /// Nodes by which a run becomes longer or shorter at once.
  static constexpr int kStep = 4;

  static bool move_end(size_t nodes, Runs &runs, size_t k, int by) {
    runs[k].end += static_cast<size_t>(by);
    const size_t most = k + 1 < runs.size() ? runs[k + 1].begin : nodes;
    return runs[k].end > runs[k].begin + 1 && runs[k].end <= most;
  }
  static bool move_begin(Runs &runs, size_t k, int by) {
    const size_t least = k > 0 ? runs[k - 1].end : 0;
    if (by < 0 && runs[k].begin < least + static_cast<size_t>(-by)) return false;
    runs[k].begin += static_cast<size_t>(by);
    return runs[k].end > runs[k].begin + 1;
  }

  const Options &options_;
  const int64_t coeff_bytes_;
  const uint64_t bytes_;
  size_t tried_ = 0;  ///< commands
  PlanMemo memo_;
};

void add_run(RunReport run, std::vector<RunReport> &runs) {
  for (RunReport &known : runs)
    if (known.first == run.first && known.last == run.last && known.axis == run.axis && known.count == run.count) {
      ++known.repeats;
      return;
    }
  runs.push_back(std::move(run));
}

/// The nodes of the file that each run has.
void report_rounds(const Graph &g, const Rounds &rounds, TurnsReport &report) {
  Graph now = g;
  for (const Runs &runs : rounds) {
    std::vector<RunReport> added;
    const auto name = [&](size_t node) { return now.sources[static_cast<size_t>(now.nodes[node].source)].name; };
    for (const Turns &t : runs) add_run({name(t.begin), name(t.end - 1), t.axis, t.count}, added);
    std::move(added.begin(), added.end(), std::back_inserter(report.runs));
    Graph turned;
    if (!graph::take_turns(now, runs, turned).ok()) return;
    now = std::move(turned);
  }
}

}  // namespace

Status try_turns(const Options &options, int64_t coeff_bytes, const SearchReport &before, Graph &g, Made &made,
                 Report &report) {
  if (options.turns == TakeTurns::Never) return {};
  const bool forced = options.turns == TakeTurns::Always;
  const uint64_t bytes = activation_bytes(made.program);
  // Where nothing moves that the network computes, there is nothing to be gained.
  if ((bytes == 0 && !forced) || made.program.command_count() > kMostTurnCommands) return {};
  const Rounds rounds = Chooser(options, coeff_bytes, bytes).run(g);
  Graph turned;
  if (rounds.empty() || rounds[0].empty()) return {};
  const Status taken = take_rounds(g, rounds, turned);
  if (!taken.ok()) return Status::error(kInternalError + taken.message());
  Made with;
  SearchReport search = before;
  const Status status = make_scheduled(turned, options, coeff_bytes, with, search);
  if (!status.ok()) return status.message().starts_with(kInternalError) ? status : Status();
  if (!forced && with.program.cycles() >= made.program.cycles()) return {};
  report_rounds(g, rounds, report.turns);
  report.turns.plain_cycles += made.program.cycles();
  report.turns.cycles += with.program.cycles();
  report.turns.plain_bytes += bytes;
  report.turns.bytes += activation_bytes(with.program);
  report.search = search;
  g = std::move(turned);
  made = std::move(with);
  return {};
}

}  // namespace npu::compiler
