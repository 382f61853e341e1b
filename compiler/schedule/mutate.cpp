// SPDX-License-Identifier: MIT
#include "compiler/schedule/mutate.h"

#include <algorithm>
#include <numeric>

namespace npu::compiler {
namespace {

constexpr size_t kMaxMoves = 32;   ///< operators that run earlier than they would
constexpr size_t kReach = 8;       ///< operators by which one moves at most at once
constexpr uint64_t kByWaits = 16;  ///< how much more often all that waits is changed than all operators alike

/// The entry of a map with that number.
template <class M>
auto entry(M &map, size_t i) {
  return std::next(map.begin(), static_cast<int64_t>(i));
}

}  // namespace

std::vector<uint64_t> waits_of(const Program &program) {
  std::map<uint32_t, uint64_t> by_layer;
  uint64_t before = 0;
  const hw::Timeline &timeline = program.streams.timeline;
  const CoreStreams &s = program.streams.cores[0];
  for (size_t i = 0; i < s.tiu.size(); ++i) {
    const uint64_t end = timeline.spans[NPU_ENGINE_TIU][i].end;
    by_layer[s.tiu[i].layer()] += end - std::min(end, before + cost_of(s.tiu[i]).cycles);
    before = end;
  }
  // What follows the last command of the TIU are stores.
  if (!s.gdma.empty()) by_layer[s.gdma.back().layer()] += timeline.cycles - before;
  std::vector<uint64_t> waits(program.lowered.cores[0].ops.size());
  const std::vector<uint32_t> &names = program.generated[0].names;
  for (size_t i = 0; i < waits.size(); ++i)
    waits[names[i]] = by_layer[static_cast<uint32_t>(program.lowered.cores[0].ops[i].source)];
  return waits;
}

Choices Mutator::mutated(const Choices &from, const std::vector<uint64_t> &waits) {
  Choices c = from;
  for (size_t n = 1 + below(3); n > 0; --n) {
    const uint32_t op = pick(waits);
    switch (below(16)) {
      case 0:
        change_whole(c);
        break;
      case 1:
        forget(c);
        break;
      case 2:
        change_order(op, c);
        break;
      case 3:
      case 4:
      case 5:
        change_layer(op, c);
        break;
      default:
        change_op(op, c);
    }
  }
  return c;
}

Choices Mutator::crossed(const Choices &first, const Choices &second) {
  const auto cut = static_cast<uint32_t>(below(lowered_.ops.size()));
  Choices c = first;
  c.ops.erase(c.ops.lower_bound(cut), c.ops.end());
  c.ops.insert(second.ops.lower_bound(cut), second.ops.end());
  if (!c.prefetch || !second.prefetch) return c;
  auto &layers = c.prefetch->layers;
  const auto layer = static_cast<uint32_t>(lowered_.ops[cut].source);
  layers.erase(layers.lower_bound(layer), layers.end());
  layers.insert(second.prefetch->layers.lower_bound(layer), second.prefetch->layers.end());
  return c;
}

/// An operator waits for memory that others have taken, and so half of the time it is one of those before it.
uint32_t Mutator::pick(const std::vector<uint64_t> &waits) {
  const uint64_t sum = std::accumulate(waits.begin(), waits.end(), uint64_t{0}),
                 each = sum / waits.size() / kByWaits + 1;
  uint64_t at = below(sum + each * waits.size());
  size_t op = 0;
  while (at >= waits[op] + each) at -= waits[op++] + each;
  if (below(2)) op -= std::min(op, 1 + below(kReach));
  return static_cast<uint32_t>(op);
}

int64_t Mutator::some_block() {
  constexpr int64_t kParts[] = {2, 4, 8, 16, 32, 64};
  return below(3) ? lmem_bytes_ / one_of(kParts) : INT64_MAX;
}

void Mutator::change_whole(Choices &c) {
  constexpr int64_t kPieces[] = {32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1024 << 10};
  constexpr int64_t kSlacks[] = {0, 4, 8, 16, 32, 64, 128, 256};
  const size_t what = below(8);
  if (what == 0) {
    c.lmem_bytes = lmem_bytes_;
  } else if (what == 1) {
    c.weight_block = some_block();
  } else if (!c.prefetch) {
    c.prefetch = PrefetchPolicy{.all = below(2) == 0};
  } else if (what == 2) {
    c.prefetch->all = !c.prefetch->all;
  } else if (what == 3) {
    c.prefetch->judge = !c.prefetch->judge;
  } else if (what < 6) {
    c.prefetch->piece_bytes = one_of(kPieces);
  } else {
    c.prefetch->slack = one_of(kSlacks);
  }
}

void Mutator::change_layer(uint32_t op, Choices &c) {
  if (!c.prefetch) return change_op(op, c);
  auto &layers = c.prefetch->layers;
  const auto layer = static_cast<uint32_t>(lowered_.ops[op].source);
  const size_t what = below(3);
  if (what == 0)
    layers.erase(layer);
  else
    layers[layer] = what == 1 ? Ahead::Never : Ahead::Always;
}

void Mutator::change_op(uint32_t op, Choices &c) {
  constexpr int64_t kRooms[] = {2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64};
  constexpr int64_t kTransfers[] = {0, 8, 16, 32, 64, 128, 256, 1024};
  OpChoice &o = c.ops[op];
  const size_t what = below(13);
  if (what < 3)
    o.room = one_of(kRooms);
  else if (what < 6)
    o.transfers = one_of(kTransfers);
  else if (what < 8)
    o.result = one_of({ResultPlace::Cheapest, ResultPlace::Local, ResultPlace::Memory});
  else if (what < 11)
    o.above = !o.above;
  else if (what < 12)
    o.weight_block = below(4) ? some_block() : 0;
  else
    o.evictions = below(2) ? static_cast<int64_t>(below(3)) : INT64_MAX;
  if (o == OpChoice()) c.ops.erase(op);
}

void Mutator::change_order(uint32_t op, Choices &c) {
  if (c.moves.size() >= kMaxMoves) c.moves.erase(c.moves.begin() + static_cast<int64_t>(below(kMaxMoves)));
  const std::vector<uint32_t> order = order_of(lowered_, c.moves);
  const auto at = static_cast<size_t>(std::find(order.begin(), order.end(), op) - order.begin());
  if (at == 0) return;
  c.moves.push_back({op, order[at - 1 - below(std::min(at, kReach))]});
  if (order_of(lowered_, c.moves) == order) c.moves.pop_back();
}

/// One decision is the code generator's again.
void Mutator::forget(Choices &c) {
  const size_t all = c.size();
  if (!all) return change_whole(c);
  size_t which = below(all);
  if (which < c.ops.size()) {
    c.ops.erase(entry(c.ops, which));
    return;
  }
  which -= c.ops.size();
  if (which < c.moves.size())
    c.moves.erase(c.moves.begin() + static_cast<int64_t>(which));
  else
    c.prefetch->layers.erase(entry(c.prefetch->layers, which - c.moves.size()));
}

}  // namespace npu::compiler
