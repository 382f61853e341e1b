// SPDX-License-Identifier: MIT
#include "compiler/api/cores.h"

#include <algorithm>
#include <filesystem>

#include "compiler/api/bounds.h"
#include "compiler/api/dump.h"
#include "compiler/api/optimize.h"
#include "compiler/api/turns.h"

namespace npu::compiler {
namespace {

/// Commands of all programs that are made for several cores, behind which no further one is begun.
constexpr size_t kMostCoreCommands = size_t{1} << 14;

/// Of the files of --dump with what is computed in turns, and by each core: behind those of all passes.
constexpr size_t kDumpNumber = 99;

/// Lowers what each core computes. `sources` are those of the network, and get what the compiler adds.
Status lower_cores(std::vector<graph::CoreGraph> &cores, std::vector<graph::Source> &sources, int64_t coeff_bytes,
                   int64_t lmem_bytes, LoweredCores &out) {
  Coefficients coeff(coeff_bytes);
  for (graph::CoreGraph &core : cores) {
    Lowered &lowered = out.cores.emplace_back();
    lowered.coeff = std::move(coeff);
    core.graph.sources = std::move(sources);
    NPU_TRY(lower_all(core, lmem_bytes, lowered));
    coeff = std::move(lowered.coeff);
    sources = std::move(core.graph.sources);
  }
  out.cores.back().coeff = std::move(coeff);
  return {};
}

/// What the bounds of a network need of its program for one core.
void report_network(const Program &one, Report &report) {
  report.constant_bytes += constant_bytes(one.lowered.cores[0]);
  for (const Command &c : one.streams.cores[0].tiu) {
    report.macs += cost_of(c).macs;
    report.array_macs += cost_of(c).macs / mac_rate(c);
  }
}

/// The program of one core, as the options have it chosen.
Status make_on_one(const graph::Graph &g, const Options &options, int64_t coeff_bytes, Made &out, Report &report) {
  Options known = options;  // what has been found is used, nothing is looked for yet
  known.optimize = {};
  if (options.optimize && !std::filesystem::exists(options.schedule_file)) known.schedule_file.clear();
  const SearchReport before = report.search;
  NPU_TRY(make_scheduled(g, known, coeff_bytes, out, report.search));
  report_network(out.program, report);
  graph::Graph turned = g;
  NPU_TRY(try_turns(known, coeff_bytes, before, turned, out, report));
  if (turned.nodes.size() != g.nodes.size()) NPU_TRY(dump(turned, options, kDumpNumber, "turns"));
  if (!options.optimize) return {};
  report.search = before;
  return make_scheduled(turned, options, coeff_bytes, out, report.search);
}

/// The program of several cores between which a network is cut.
Status make_on_several(const graph::Graph &g, const graph::Cuts &cuts, const Options &options, int64_t coeff_bytes,
                       Made &out) {
  graph::Sharded sharded;
  const Status status = graph::shard(g, cuts, sharded);
  if (!status.ok()) return Status::error(kInternalError + status.message());
  out.sources = g.sources;
  LoweredCores lowered;
  lowered.exchanges = std::move(sharded.exchanges);
  NPU_TRY(lower_cores(sharded.cores, out.sources, coeff_bytes, options.lmem_bytes, lowered));
  return make_program(lowered, out.sources, options.lmem_bytes, kMinLmemBytes, out.program);
}

/// Ways of cutting a network between some or all of the cores, the fastest first by an estimate.
std::vector<graph::Cuts> ways_of(const graph::Graph &g, const Options &options) {
  std::vector<graph::Cuts> ways;
  const auto add = [&](int cores) {
    for (graph::Cuts &cuts : graph::find_cuts(g, cores, options.all_cores)) ways.push_back(std::move(cuts));
  };
  for (int cores = 2; cores < options.cores && !options.all_cores; cores *= 2) add(cores);
  add(options.cores);
  std::stable_sort(ways.begin(), ways.end(), [](const auto &a, const auto &b) { return a.cycles < b.cycles; });
  return ways;
}

/// Replaces a program by the fastest of those for several cores, if one is faster or has to be taken.
Status try_several(const graph::Graph &g, const Options &options, int64_t coeff_bytes, Made &out, graph::Cuts &taken) {
  bool forced = options.all_cores;
  size_t tried = 0;
  for (const graph::Cuts &cuts : ways_of(g, options)) {
    if (tried > kMostCoreCommands) return {};
    Made made;
    const Status status = make_on_several(g, cuts, options, coeff_bytes, made);
    if (status.message().starts_with(kInternalError)) return status;
    // What fits one core may not fit several: a core gets what others write in one piece.
    if (!status.ok()) continue;
    tried += made.program.command_count();
    if (!forced && made.program.cycles() >= out.program.cycles()) continue;
    out = std::move(made);
    taken = cuts;
    forced = false;
  }
  return {};
}

/// Writes what each core computes, if somebody wants it.
Status dump_cores(const graph::Graph &g, const graph::Cuts &cuts, const Options &options) {
  if (options.dump_folder.empty()) return {};
  graph::Sharded sharded;
  NPU_TRY(graph::shard(g, cuts, sharded));
  for (size_t core = 0; core < sharded.cores.size(); ++core)
    NPU_TRY(dump(sharded.cores[core].graph, options, kDumpNumber, "core" + std::to_string(core)));
  return {};
}

}  // namespace

Status make_scheduled(const graph::Graph &g, const Options &options, int64_t coeff_bytes, Made &out,
                      SearchReport &report) {
  out.sources = g.sources;
  std::vector<graph::CoreGraph> cores{graph::alone(g)};
  LoweredCores lowered;
  NPU_TRY(lower_cores(cores, out.sources, coeff_bytes, options.lmem_bytes, lowered));
  return choose_program(lowered.cores[0], out.sources, options, out.program, report);
}

Status make_on_cores(const graph::Graph &g, const Options &options, int64_t coeff_bytes, Made &out, Report &report) {
  const SearchReport before = report.search;
  const TurnsReport turns = report.turns;
  Options for_one = options;
  if (options.all_cores && options.cores > 1) for_one.optimize = {};  // its result would not be taken
  NPU_TRY(make_on_one(g, for_one, coeff_bytes, out, report));
  const uint64_t order = order_bound(out.program.lowered.cores[0], options.lmem_bytes);
  graph::Cuts taken;
  if (options.cores > 1) NPU_TRY(try_several(g, options, coeff_bytes, out, taken));
  if (taken.axis.empty()) {
    report.order_bound += order;
    return {};
  }
  report.search = before;  // it was for one core, and so are these
  report.turns = turns;
  return dump_cores(g, taken, options);
}

}  // namespace npu::compiler
