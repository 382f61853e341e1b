// SPDX-License-Identifier: MIT
#include "compiler/schedule/program.h"

#include <algorithm>

#include "compiler/schedule/prefetch.h"

namespace npu::compiler {
namespace {

constexpr size_t kMaxTried = size_t{1} << 17;  ///< commands of a program that is made in more than one way
constexpr int64_t kBlocksPerLmem = 8;          ///< heavy weights are cut so that so many blocks fit local memory

/// Cycles in which the TIU does not compute.
uint64_t waited(const Streams &s) {
  uint64_t busy = 0;
  for (const Command &c : s.tiu) busy += cost_of(c).cycles;
  return s.timeline.cycles - busy;
}

/// Binds and schedules a way of bringing weights.
Status finish(const Lowered &lowered, Prefetched &&way, Program &out) {
  out.lmem_bytes = way.lmem_bytes;
  out.gap_bytes = way.gap_bytes;
  NPU_TRY(bind_memory(lowered, way.commands, out.bound));
  out.streams = schedule(way.commands);
  return {};
}

class Maker {
 public:
  Maker(const Lowered &lowered, const std::vector<graph::Source> &sources) : lowered_(lowered), sources_(sources) {}

  /// Weights as they stream, and in the ways of bringing them ahead.
  Status make(int64_t lmem_bytes, int64_t weight_block, Program &out) const {
    static const PrefetchPolicy kPolicies[] = {
        {.all = false}, {.all = true}, {.all = false, .judge = false}, {.all = true, .judge = false}};
    const Choices choices{.lmem_bytes = lmem_bytes, .weight_block = weight_block};
    NPU_TRY(make_program(lowered_, sources_, choices, nullptr, out));
    if (out.generated.commands.size() > kMaxTried) return {};
    for (const PrefetchPolicy &policy : kPolicies) {
      Prefetched way = prefetch(out.generated, lmem_bytes, policy);
      if (!way.blocks) continue;
      Program now;
      NPU_TRY(finish(out.lowered, std::move(way), now));
      if (!better(now, out)) continue;
      now.choices = choices;
      now.choices.prefetch = policy;
      now.lowered = std::move(out.lowered);
      now.generated = std::move(out.generated);
      out = std::move(now);
    }
    return {};
  }

  /// The better of programs with whole and with cut weights, the latter where the former waits for memory.
  Status make_either(int64_t lmem_bytes, Program &out) const {
    NPU_TRY(make(lmem_bytes, INT64_MAX, out));
    if (out.generated.commands.size() > kMaxTried || waited(out.streams) < out.streams.timeline.cycles / 64) return {};
    Program cut;
    if (make(lmem_bytes, lmem_bytes / kBlocksPerLmem, cut).ok() && better(cut, out)) out = std::move(cut);
    return {};
  }

 private:
  const Lowered &lowered_;
  const std::vector<graph::Source> &sources_;
};

}  // namespace

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
  out.choices = choices;
  out.lowered = lowered;
  NPU_TRY(generate(out.lowered, sources, choices, out.generated, memo));
  return finish(out.lowered,
                choices.prefetch ? prefetch(out.generated, choices.lmem_bytes, *choices.prefetch)
                                 : without_prefetch(out.generated),
                out);
}

/// Tile buffers grow from below and tensors from above, so that a program that leaves room between them says that it
/// needs all of local memory. Without that room it runs on smaller cards, too, and is mostly as fast.
Status make_program(const Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
                    int64_t least_bytes, Program &out) {
  const Maker maker(lowered, sources);
  NPU_TRY(maker.make_either(lmem_bytes, out));
  const int64_t needed = needed_lmem(out, least_bytes);
  if (needed >= lmem_bytes) return {};
  Program smaller;
  if (maker.make_either(needed, smaller).ok() && smaller.streams.timeline.cycles <= out.streams.timeline.cycles)
    out = std::move(smaller);
  return {};
}

}  // namespace npu::compiler
