// SPDX-License-Identifier: MIT
#include "compiler/schedule/program.h"

#include <algorithm>

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

/// Cycles in which the TIU does not compute.
uint64_t waited(const Streams &s) {
  uint64_t busy = 0;
  for (const Command &c : s.tiu) busy += cost_of(c).cycles;
  return s.timeline.cycles - busy;
}

class Maker {
 public:
  Maker(const Lowered &lowered, const std::vector<graph::Source> &sources) : lowered_(lowered), sources_(sources) {}

  /// Weights as they stream, and in the ways of bringing them ahead.
  Status make(int64_t lmem_bytes, int64_t weight_block, Program &out) const {
    constexpr PrefetchPolicy kPolicies[] = {
        {.all = false}, {.all = true}, {.all = false, .judge = false}, {.all = true, .judge = false}};
    out.lowered = lowered_;
    NPU_TRY(generate(out.lowered, sources_, lmem_bytes, weight_block, out.generated));
    NPU_TRY(finish(without_prefetch(out.generated), true, out));
    if (out.generated.commands.size() > kMaxTried) return {};
    for (const PrefetchPolicy &policy : kPolicies) {
      Prefetched way = prefetch(out.generated, lmem_bytes, policy);
      if (way.blocks) NPU_TRY(finish(std::move(way), false, out));
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
  /// Binds and schedules a way; it is kept if it is `first` or better than what there is.
  static Status finish(Prefetched &&way, bool first, Program &out) {
    Bound bound;
    NPU_TRY(bind_memory(out.lowered, way.commands, bound));
    Program now{{}, {}, way.lmem_bytes, way.gap_bytes, std::move(bound), schedule(way.commands)};
    if (!first && !better(now, out)) return {};
    now.lowered = std::move(out.lowered);
    now.generated = std::move(out.generated);
    out = std::move(now);
    return {};
  }

  const Lowered &lowered_;
  const std::vector<graph::Source> &sources_;
};

}  // namespace

/// Tile buffers grow from below and tensors from above, so that a program that leaves room between them says that it
/// needs all of local memory. Without that room it runs on smaller cards, too, and is mostly as fast.
Status make_program(const Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
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
