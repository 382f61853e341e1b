// SPDX-License-Identifier: MIT
#include "compiler/schedule/program.h"

#include <algorithm>

#include "compiler/schedule/meet.h"
#include "compiler/schedule/prefetch.h"

namespace npu::compiler {
namespace {

constexpr int64_t kLmemGrain = 4096;
constexpr size_t kMaxTried = size_t{1} << 17;  ///< commands of a program that is made in more than one way
constexpr int64_t kBlocksPerLmem = 8;          ///< heavy weights are cut so that so many blocks fit local memory

bool better(const Program &a, const Program &b) {
  const auto key = [](const Program &p) { return std::pair(p.streams.timeline.cycles, p.lmem_bytes - p.gap_bytes); };
  return key(a) < key(b);
}

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

class Maker {
 public:
  Maker(const LoweredCores &lowered, const std::vector<graph::Source> &sources)
      : lowered_(lowered), sources_(sources) {}

  /// Weights as they stream, and in the ways of bringing them ahead.
  Status make(int64_t lmem_bytes, int64_t weight_block, Program &out) const {
    constexpr PrefetchPolicy kPolicies[] = {
        {.all = false}, {.all = true}, {.all = false, .judge = false}, {.all = true, .judge = false}};
    NPU_TRY(generate_cores(lmem_bytes, weight_block, out));
    std::vector<Prefetched> plain;
    for (const Generated &core : out.generated) plain.push_back(without_prefetch(core));
    NPU_TRY(finish(std::move(plain), true, out));
    if (commands_of(out.generated) > kMaxTried) return {};
    for (const PrefetchPolicy &policy : kPolicies) {
      std::vector<Prefetched> ways;
      size_t blocks = 0;
      for (const Generated &core : out.generated) {
        ways.push_back(prefetch(core, lmem_bytes, policy));
        blocks += ways.back().blocks;
      }
      if (blocks) NPU_TRY(finish(std::move(ways), false, out));
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
  /// The commands of each core, whose blocks of coefficients follow each other.
  Status generate_cores(int64_t lmem_bytes, int64_t weight_block, Program &out) const {
    out.lowered = lowered_;
    out.generated.resize(lowered_.cores.size());
    out.coeff = std::move(out.lowered.cores.back().coeff);
    for (size_t c = 0; c < lowered_.cores.size(); ++c) {
      Lowered &core = out.lowered.cores[c];
      core.coeff = std::move(out.coeff);
      NPU_TRY(generate(core, sources_, lmem_bytes, weight_block, out.generated[c]));
      out.coeff = std::move(core.coeff);
    }
    return {};
  }

  /// Binds and schedules a way; it is kept if it is `first` or better than what there is.
  static Status finish(std::vector<Prefetched> &&ways, bool first, Program &out) {
    Program now;
    now.gap_bytes = INT64_MAX;
    std::vector<std::vector<Command>> commands;
    for (Prefetched &way : ways) {
      commands.push_back(std::move(way.commands));
      now.lmem_bytes = std::max(now.lmem_bytes, way.lmem_bytes);
      now.gap_bytes = std::min(now.gap_bytes, way.gap_bytes);
    }
    std::vector<Command> all = meet(out.lowered.cores, std::move(commands));
    NPU_TRY(bind_memory(out.lowered.cores, out.lowered.exchanges, out.coeff.end(), all, now.bound));
    now.streams = schedule(all);
    if (!first && !better(now, out)) return {};
    now.lowered = std::move(out.lowered);
    now.generated = std::move(out.generated);
    now.coeff = std::move(out.coeff);
    out = std::move(now);
    return {};
  }

  const LoweredCores &lowered_;
  const std::vector<graph::Source> &sources_;
};

}  // namespace

/// Tile buffers grow from below and tensors from above, so that a program that leaves room between them says that it
/// needs all of local memory. Without that room it runs on smaller cards, too, and is mostly as fast.
Status make_program(const LoweredCores &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
                    int64_t least_bytes, Program &out) {
  const Maker maker(lowered, sources);
  NPU_TRY(maker.make_either(lmem_bytes, out));
  const int64_t needed = std::max(lmem_bytes - out.gap_bytes / kLmemGrain * kLmemGrain, least_bytes);
  if (needed >= lmem_bytes) return {};
  Program smaller;
  if (maker.make_either(needed, smaller).ok() && smaller.streams.timeline.cycles <= out.streams.timeline.cycles)
    out = std::move(smaller);
  return {};
}

}  // namespace npu::compiler
