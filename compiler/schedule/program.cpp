// SPDX-License-Identifier: MIT
#include "compiler/schedule/program.h"

#include <algorithm>

#include "compiler/schedule/meet.h"
#include "compiler/schedule/prefetch.h"

namespace npu::compiler {
namespace {

constexpr size_t kMaxTried = size_t{1} << 17;  ///< commands of a program that is made in more than one way
constexpr int64_t kBlocksPerLmem = 8;          ///< heavy weights are cut so that so many blocks fit local memory

/// Cycles in which the TIU that is most at work does not compute.
uint64_t waited(const Streams &s) {
  uint64_t most = 0;
  for (const CoreStreams &core : s.cores) {
    uint64_t busy = 0;
    for (const Command &c : core.tiu) busy += cost_of(c).cycles;
    most = std::max(most, busy);
  }
  return s.timeline.cycles - most;
}

size_t commands_of(const std::vector<Generated> &cores) {
  size_t n = 0;
  for (const Generated &core : cores) n += core.commands.size();
  return n;
}

/// The commands of each core, whose blocks of coefficients follow each other.
Status generate_cores(const LoweredCores &lowered, const std::vector<graph::Source> &sources, const Choices &choices,
                      PlanMemo *memo, Program &out) {
  out.choices = choices;
  out.lowered = lowered;
  out.generated.clear();
  out.coeff = std::move(out.lowered.cores.back().coeff);
  for (Lowered &core : out.lowered.cores) {
    core.coeff = std::move(out.coeff);
    NPU_TRY(generate(core, sources, choices, out.generated.emplace_back(), memo));
    out.coeff = std::move(core.coeff);
  }
  return {};
}

/// The ways of bringing weights, of each core.
std::vector<Prefetched> ways_of(const std::vector<Generated> &cores, const Choices &choices) {
  std::vector<Prefetched> ways;
  for (const Generated &core : cores)
    ways.push_back(choices.prefetch ? prefetch(core, choices.lmem_bytes, *choices.prefetch) : without_prefetch(core));
  return ways;
}

/// Binds and schedules them, with what `from` has generated.
Status finish(const Program &from, std::vector<Prefetched> &&ways, Program &out) {
  int64_t lmem_bytes = 0, gap_bytes = INT64_MAX;
  std::vector<std::vector<Command>> commands;
  std::vector<std::vector<Hold>> holds;
  for (Prefetched &way : ways) {
    for (uint32_t i = 0; i < way.commands.size(); ++i) way.commands[i].place = i;
    holds.push_back(std::move(way.holds));
    commands.push_back(std::move(way.commands));
    lmem_bytes = std::max(lmem_bytes, way.lmem_bytes);
    gap_bytes = std::min(gap_bytes, way.gap_bytes);
  }
  std::vector<Command> all;
  const Status met = meet(from.lowered.cores, std::move(commands), all);
  if (!met.ok()) return Status::error(kInternalError + met.message());
  Bound bound;
  NPU_TRY(bind_memory(from.lowered.cores, from.lowered.exchanges, from.coeff.end(), all, bound));
  out.lmem_bytes = lmem_bytes;
  out.gap_bytes = gap_bytes;
  out.holds = std::move(holds);
  out.bound = std::move(bound);
  out.streams = schedule(all, from.lowered.cores.size());
  if (out.streams.timeline.deadlock)
    return Status::error(kInternalError + std::string("the cores wait for each other for ever"));
  return {};
}

Status make_cores(const LoweredCores &lowered, const std::vector<graph::Source> &sources, const Choices &choices,
                  PlanMemo *memo, Program &out) {
  NPU_TRY(generate_cores(lowered, sources, choices, memo, out));
  return finish(out, ways_of(out.generated, choices), out);
}

class Maker {
 public:
  Maker(const LoweredCores &lowered, const std::vector<graph::Source> &sources, PlanMemo *memo)
      : lowered_(lowered), sources_(sources), memo_(memo) {}

  /// Weights as they stream, and in the ways of bringing them ahead.
  Status make(int64_t lmem_bytes, int64_t weight_block, Program &out) const {
    static const PrefetchPolicy kPolicies[] = {
        {.all = false}, {.all = true}, {.all = false, .judge = false}, {.all = true, .judge = false}};
    Choices choices{.lmem_bytes = lmem_bytes, .weight_block = weight_block};
    NPU_TRY(make_cores(lowered_, sources_, choices, memo_, out));
    if (commands_of(out.generated) > kMaxTried) return {};
    for (const PrefetchPolicy &policy : kPolicies) {
      choices.prefetch = policy;
      std::vector<Prefetched> ways = ways_of(out.generated, choices);
      if (std::none_of(ways.begin(), ways.end(), [](const Prefetched &way) { return way.blocks > 0; })) continue;
      Program now;
      NPU_TRY(finish(out, std::move(ways), now));
      if (!better(now, out)) continue;
      now.choices = choices;
      now.lowered = std::move(out.lowered);
      now.generated = std::move(out.generated);
      now.coeff = std::move(out.coeff);
      out = std::move(now);
    }
    return {};
  }

  /// The better of programs with whole and with cut weights, the latter where the former waits for memory.
  Status make_either(int64_t lmem_bytes, Program &out) const {
    NPU_TRY(make(lmem_bytes, INT64_MAX, out));
    if (commands_of(out.generated) > kMaxTried || waited(out.streams) < out.streams.timeline.cycles / 64) return {};
    Program cut;
    if (make(lmem_bytes, lmem_bytes / kBlocksPerLmem, cut).ok() && better(cut, out)) out = std::move(cut);
    return {};
  }

 private:
  const LoweredCores &lowered_;
  const std::vector<graph::Source> &sources_;
  PlanMemo *const memo_;
};

}  // namespace

size_t Program::command_count() const {
  size_t count = 0;
  for (const CoreStreams &core : streams.cores) count += core.tiu.size() + core.gdma.size();
  return count;
}

bool better(const Program &a, const Program &b) {
  const auto key = [](const Program &p) { return std::pair(p.streams.timeline.cycles, p.lmem_bytes - p.gap_bytes); };
  return key(a) < key(b);
}

int64_t needed_lmem(const Program &program, int64_t least_bytes) {
  const int64_t unused = program.gap_bytes / kLmemGrain * kLmemGrain;
  return std::max(program.choices.lmem_bytes - unused, least_bytes);
}

Status make_program(const Lowered &lowered, const std::vector<graph::Source> &sources, const Choices &choices,
                    PlanMemo *memo, Program &out) {
  return make_cores({{lowered}, {}}, sources, choices, memo, out);
}

/// Tile buffers grow from below and tensors from above, so that a program that leaves room between them says that it
/// needs all of local memory. Without that room it runs on smaller cards, too, and is mostly as fast.
Status make_program(const LoweredCores &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
                    int64_t least_bytes, Program &out, PlanMemo *memo) {
  PlanMemo own;
  const Maker maker(lowered, sources, memo ? memo : &own);
  NPU_TRY(maker.make_either(lmem_bytes, out));
  const int64_t needed = needed_lmem(out, least_bytes);
  if (needed >= lmem_bytes) return {};
  Program smaller;
  if (maker.make_either(needed, smaller).ok() && smaller.streams.timeline.cycles <= out.streams.timeline.cycles)
    out = std::move(smaller);
  return {};
}

}  // namespace npu::compiler
