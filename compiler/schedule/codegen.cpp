// SPDX-License-Identifier: MIT
#include "compiler/schedule/codegen.h"

#include <algorithm>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

constexpr size_t kMaxCommands = size_t{1} << 21;

enum class OutMode : uint8_t { Existing, InPlace, Resident, Memory };

/// One way to run an operator: what is evicted first, where the result goes, how it is cut.
struct Choice {
  double cost = 0;
  size_t evictions = 0;
  OutMode mode = OutMode::Memory;
  Plan plan;
  std::vector<uint32_t> buffers;
  std::optional<LmemAllocator> lmem;  ///< state while the operator runs
  std::vector<Place> places;
};

class Codegen {
 public:
  Codegen(Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes, int64_t weight_block,
          Generated &out)
      : lowered_(lowered),
        sources_(sources),
        weight_block_(weight_block),
        out_(out),
        emitter_(lowered.coeff),
        lmem_(lmem_bytes),
        places_(lowered.storages.size()),
        dirty_(lowered.storages.size()),
        in_memory_(lowered.storages.size()),
        since_(lowered.storages.size()),
        reads_(lowered.storages.size()),
        writes_(lowered.storages.size()) {
    out.tensors_from = lmem_bytes;
    for (size_t i = 0; i < lowered.ops.size(); ++i) {
      for (const View &v : lowered.ops[i].in) reads_[static_cast<size_t>(v.storage)].push_back(i);
      writes_[static_cast<size_t>(lowered.ops[i].out.storage)].push_back(i);
    }
  }

  Status run() {
    for (size_t i = 0; i < lowered_.ops.size(); ++i) {
      NPU_TRY(run_op(i));
      if (emitter_.commands.size() > kMaxCommands)
        return Status::error("the program has more than " + std::to_string(kMaxCommands) +
                             " commands: the network is too large for " + std::to_string(lmem_.size()) +
                             " bytes of local memory");
    }
    for (size_t s = 0; s < places_.size(); ++s)
      if (places_[s].local) end_hold(s);
    out_.commands = std::move(emitter_.commands);
    return {};
  }

 private:
  Storage &storage(size_t s) { return lowered_.storages[s]; }

  /// The first reader of a storage after an operator; operators.size() if there is none.
  size_t next_read(size_t s, size_t op) const {
    const auto it = std::upper_bound(reads_[s].begin(), reads_[s].end(), op);
    return it == reads_[s].end() ? lowered_.ops.size() : *it;
  }

  bool written_later(size_t s, size_t op) const { return !writes_[s].empty() && writes_[s].back() > op; }
  bool needed_later(size_t s, size_t op) const { return next_read(s, op) < lowered_.ops.size(); }

  /// Storages in local memory in the order in which they would be evicted: strangers to the operator with the farthest
  /// reader first, then its own.
  std::vector<size_t> eviction_order(size_t op) const {
    const LoweredOp &o = lowered_.ops[op];
    const auto own = [&](size_t s) {
      if (static_cast<size_t>(o.out.storage) == s) return true;
      return std::any_of(o.in.begin(), o.in.end(), [&](const View &v) { return static_cast<size_t>(v.storage) == s; });
    };
    std::vector<size_t> order;
    for (size_t s = 0; s < places_.size(); ++s)
      if (places_[s].local) order.push_back(s);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (own(a) != own(b)) return own(b);
      return next_read(a, op) > next_read(b, op);
    });
    return order;
  }

  /// An operand whose place the result may take: dead afterwards, element for element the same. Of two the upper one,
  /// so that the free space stays in one piece.
  int in_place_operand(size_t op, const std::vector<Place> &places) const {
    const LoweredOp &o = lowered_.ops[op];
    const bool conv = o.kind == Kind::Conv;  // only what it adds: its input is read again and again
    if (o.kind != Kind::Binary && o.kind != Kind::Unary && o.kind != Kind::Softmax && !conv) return -1;
    const auto out = static_cast<size_t>(o.out.storage);
    int best = -1;
    for (size_t k = conv ? 1 : 0; k < o.in.size(); ++k) {
      const View &v = o.in[k];
      const auto s = static_cast<size_t>(v.storage);
      if (conv && o.in[0].storage == v.storage) continue;
      if (!places[s].local || s == out || needed_later(s, op) || written_later(s, op) ||
          lowered_.storages[s].elements != lowered_.storages[out].elements)
        continue;
      if (lowered_.storages[s].kind == StorageKind::Output && dirty_[s]) continue;
      if (!same_places(v, o.out) || !covers(v, lowered_.storages[s].elements)) continue;
      bool alone = true;
      for (size_t j = 0; j < o.in.size(); ++j)
        alone = alone && (j == k || o.in[j].storage != v.storage || same_places(o.in[j], v));
      if (alone && (best < 0 || places[s].addr > places[static_cast<size_t>(best)].addr)) best = static_cast<int>(s);
    }
    return best;
  }

  double memory_cycles(size_t s) const {
    return kDdrLatency + kGdmaFixed + static_cast<double>(lowered_.storages[s].bytes()) / kMemoryBandwidth;
  }

  /// Places the result; false when there is no room or the mode makes no sense.
  bool place_result(size_t op, OutMode mode, Choice &c) const {
    const auto out = static_cast<size_t>(lowered_.ops[op].out.storage);
    if (c.places[out].local) return mode == OutMode::Existing;
    if (mode == OutMode::Memory) {
      if (needed_later(out, op)) c.cost += memory_cycles(out);
      return true;
    }
    // A result of which an earlier operator wrote a part stays where that part is.
    if (mode == OutMode::Existing || writes_[out].front() < op || !needed_later(out, op)) return false;
    if (lowered_.storages[out].kind == StorageKind::Output) c.cost += memory_cycles(out);
    if (mode == OutMode::InPlace) {
      const int from = in_place_operand(op, c.places);
      if (from < 0) return false;
      c.places[out] = c.places[static_cast<size_t>(from)];
      return true;
    }
    const auto addr = c.lmem->take(lowered_.storages[out].bytes(), true);
    if (!addr) return false;
    c.places[out] = {true, *addr};
    return true;
  }

  /// Plans the operator in what is left of local memory; less and less of it while the pieces do not fit.
  bool plan_in(size_t op, Choice &c) const {
    const auto kernel = make_kernel({lowered_.ops[op], lowered_.storages, c.places, weight_block_});
    for (int64_t budget = c.lmem->free_bytes();; budget -= std::max<int64_t>(budget / 8, 64)) {
      c.plan = kernel->plan(budget);
      if (!c.plan.feasible) return false;
      LmemAllocator trial = *c.lmem;
      c.buffers.clear();
      for (int64_t bytes : c.plan.buffers) {
        const auto addr = trial.take(bytes, false);
        if (!addr) break;
        c.buffers.push_back(*addr);
      }
      if (c.buffers.size() == c.plan.buffers.size()) {
        c.lmem = trial;
        c.cost += c.plan.cost;
        return true;
      }
    }
  }

  bool try_choice(size_t op, const std::vector<size_t> &order, size_t evictions, OutMode mode, Choice &best,
                  bool &found) const {
    Choice c;
    c.evictions = evictions;
    c.mode = mode;
    c.lmem = lmem_;
    c.places = places_;
    for (size_t k = 0; k < evictions; ++k) {
      const size_t s = order[k];
      c.lmem->give(c.places[s].addr, lowered_.storages[s].bytes());
      c.places[s] = {};
      c.cost += memory_cycles(s) * (dirty_[s] ? 2 : 1);
    }
    if (!place_result(op, mode, c) || !plan_in(op, c)) return false;
    if (!found || c.cost < best.cost) best = std::move(c);
    found = true;
    return true;
  }

  Status run_op(size_t op) {
    const std::vector<size_t> order = eviction_order(op);
    Choice best;
    bool found = false;
    for (size_t evictions = 0; evictions <= order.size(); ++evictions) {
      for (OutMode mode : {OutMode::Existing, OutMode::InPlace, OutMode::Resident, OutMode::Memory})
        try_choice(op, order, evictions, mode, best, found);
      // Where all fits as it is, nothing is gained by evicting.
      if (found && best.evictions == 0 && best.mode != OutMode::Memory && best.plan.tiles == 1) break;
    }
    if (!found)
      return Status::error("node '" + sources_[static_cast<size_t>(lowered_.ops[op].source)].name +
                           "' cannot be cut into pieces that fit " + std::to_string(lmem_.size()) +
                           " bytes of local memory");
    emitter_.layer = static_cast<uint32_t>(lowered_.ops[op].source);
    for (size_t k = 0; k < best.evictions; ++k) evict(order[k]);
    apply(op, best);
    return {};
  }

  /// Writes a storage from local memory to memory.
  void flush(size_t s) {
    const int64_t n = storage(s).elements;
    emitter_.copy({n}, {-1, places_[s].addr, {1}}, {static_cast<int>(s), 0, {1}});
    dirty_[s] = false;
    in_memory_[s] = true;
  }

  /// Notes how long a storage has been where it is.
  void end_hold(size_t s) { hold(places_[s].addr, storage(s).bytes(), since_[s]); }
  void hold(uint32_t addr, int64_t bytes, size_t first) {
    const size_t end = emitter_.commands.size();
    if (end > first) out_.holds.push_back({addr, LmemAllocator::rounded(bytes), first, end});
  }

  void release(size_t s) {
    end_hold(s);
    lmem_.give(places_[s].addr, storage(s).bytes());
    places_[s] = {};
  }

  void evict(size_t s) {
    if (dirty_[s]) flush(s);
    in_memory_[s] = true;
    release(s);
  }

  void apply(size_t op, Choice &c) {
    const LoweredOp &o = lowered_.ops[op];
    const auto out = static_cast<size_t>(o.out.storage);
    const int donor = c.mode == OutMode::InPlace ? in_place_operand(op, places_) : -1;
    const size_t first = emitter_.commands.size();
    if (!places_[out].local) since_[out] = first;
    lmem_ = *c.lmem;
    places_ = c.places;
    const auto kernel = make_kernel({o, lowered_.storages, places_, weight_block_});
    kernel->emit(c.plan, c.buffers, emitter_);
    OpReport report;
    report.op = static_cast<int>(op);
    report.tiles = c.plan.tiles;
    report.resident = places_[out].local;
    report.lmem_bytes = lmem_.size() - lmem_.free_bytes();
    out_.reports.push_back(report);
    for (size_t k = 0; k < c.buffers.size(); ++k) {
      out_.buffers_to = std::max(out_.buffers_to, c.buffers[k] + c.plan.buffers[k]);
      hold(c.buffers[k], c.plan.buffers[k], first);
      lmem_.give(c.buffers[k], c.plan.buffers[k]);
    }
    if (donor >= 0) {
      end_hold(static_cast<size_t>(donor));
      places_[static_cast<size_t>(donor)] = {};
    }
    for (size_t s = 0; s < places_.size(); ++s)
      if (places_[s].local) {
        const int64_t start = places_[s].addr;
        out_.tensors_from = std::min(out_.tensors_from, start);
        out_.lmem_bytes = std::max(out_.lmem_bytes, start + LmemAllocator::rounded(storage(s).bytes()));
      }
    out_.lmem_bytes = std::max(out_.lmem_bytes, out_.buffers_to);
    if (places_[out].local)
      dirty_[out] = true;
    else
      in_memory_[out] = true;
    settle(op);
  }

  /// Results that are complete go to memory if somebody outside wants them; what nobody reads any more is dropped.
  void settle(size_t op) {
    for (size_t s = 0; s < places_.size(); ++s) {
      if (!places_[s].local || written_later(s, op)) continue;
      if (storage(s).kind == StorageKind::Output && dirty_[s]) flush(s);
      if (!needed_later(s, op)) release(s);
    }
  }

  Lowered &lowered_;
  const std::vector<graph::Source> &sources_;
  const int64_t weight_block_;
  Generated &out_;
  Emitter emitter_;
  LmemAllocator lmem_;
  std::vector<Place> places_;
  std::vector<bool> dirty_;      ///< newer in local memory than in memory
  std::vector<bool> in_memory_;  ///< has (at least in part) been written to memory
  std::vector<size_t> since_;    ///< the command from which on it is in local memory
  std::vector<std::vector<size_t>> reads_, writes_;
};

}  // namespace

Status generate(Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes, int64_t weight_block,
                Generated &out) {
  return Codegen(lowered, sources, lmem_bytes, weight_block, out).run();
}

}  // namespace npu::compiler
