// SPDX-License-Identifier: MIT
#include "compiler/schedule/codegen.h"

#include <algorithm>
#include <bit>
#include <set>

#include "compiler/graph/obstacle.h"
#include "compiler/kernels/check_types.h"
#include "compiler/kernels/lmem.h"
#include "compiler/schedule/op_words.h"

namespace npu::compiler {
namespace {

constexpr size_t kMaxCommands = size_t{1} << 21;
constexpr size_t kMaxPlans = size_t{1} << 18;  ///< that are remembered
constexpr double kUnwanted = 1e15;             ///< cycles that what the choices forbid is said to cost

enum class OutMode : uint8_t { Existing, InPlace, Resident, Memory };

/// One way to run an operator: what is evicted first, where the result goes, how it is cut.
struct Choice {
  double cost = 0;
  size_t evictions = 0;
  OutMode mode = OutMode::Memory;
  Plan plan;
};

/// What is tried for an operator: local memory after the evictions so far, and what these cost.
struct Trial {
  std::optional<LmemAllocator> lmem;  ///< that of the program while there are none
  std::vector<size_t> evicted;        ///< in this order
  std::vector<Place> from;            ///< where they were
  double cost = 0;
};

/// A storage in local memory; those with the farthest reader come first.
struct Resident {
  size_t next_read, storage;
  bool operator<(const Resident &b) const {
    return next_read != b.next_read ? next_read > b.next_read : storage < b.storage;
  }
};

/// Operands of which each element is read for the last time when that of the result is made.
ViewList<const View> read_once(const LoweredOp &op) {
  return std::visit(
      Overloaded{
          [](const ConvOp &conv) {  // input and weights are read again and again
            ViewList<const View> sums;
            if (conv.addend && conv.addend->storage != conv.input.storage) sums.add(*conv.addend);
            return sums;
          },
          [&](const OneOf<BinaryOp, UnaryOp, SoftmaxOp, RequantOp, LookupOp> auto &) { return op.inputs(); },
          [](const OneOf<MatMulOp, PoolOp, CopyOp, FillOp> auto &) { return ViewList<const View>(); },
      },
      op.body);
}

class Codegen {
 public:
  Codegen(Lowered &lowered, const std::vector<graph::Source> &sources, const Choices &choices, Generated &out,
          PlanMemo *memo)
      : lowered_(lowered),
        sources_(sources),
        choices_(choices),
        memo_(memo),
        out_(out),
        emitter_(lowered.coeff),
        lmem_(choices.lmem_bytes),
        places_(lowered.storages.size()),
        dirty_(lowered.storages.size()),
        in_memory_(lowered.storages.size()),
        since_(lowered.storages.size()),
        next_read_(lowered.storages.size()),
        reads_(lowered.storages.size()),
        writes_(lowered.storages.size()) {
    put_in_order();
    out.tensors_from = choices.lmem_bytes;
    for (size_t i = 0; i < lowered.ops.size(); ++i) {
      for (const View *v : lowered.ops[i].inputs()) reads_[static_cast<size_t>(v->storage)].push_back(i);
      writes_[static_cast<size_t>(lowered.ops[i].out.storage)].push_back(i);
      if (memo) shapes_.push_back(memo->shape_of(lowered.ops[i], lowered.storages));
    }
  }

  Status run() {
    for (size_t i = 0; i < lowered_.ops.size(); ++i) {
      if (const Status status = check_types(lowered_.ops[i], lowered_.storages); !status.ok())
        return Status::error(kInternalError + ("node '" + name_of(i) + "': ") + status.message());
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
  void put_in_order() {
    out_.names = order_of(lowered_, choices_.moves);
    if (choices_.moves.empty()) return;
    std::vector<LoweredOp> ops;
    for (uint32_t name : out_.names) ops.push_back(std::move(lowered_.ops[name]));
    lowered_.ops = std::move(ops);
  }

  const std::string &name_of(size_t op) const { return sources_[static_cast<size_t>(lowered_.ops[op].source)].name; }

  OpChoice asked(size_t op) const {
    const auto it = choices_.ops.find(out_.names[op]);
    return it == choices_.ops.end() ? OpChoice() : it->second;
  }
  int64_t weight_block(size_t op) const {
    const int64_t own = asked(op).weight_block;
    return own ? own : choices_.weight_block;
  }

  Storage &storage(size_t s) { return lowered_.storages[s]; }

  /// The first reader of a storage after an operator; operators.size() if there is none.
  size_t next_read(size_t s, size_t op) const {
    const auto it = std::upper_bound(reads_[s].begin(), reads_[s].end(), op);
    return it == reads_[s].end() ? lowered_.ops.size() : *it;
  }

  bool written_later(size_t s, size_t op) const { return !writes_[s].empty() && writes_[s].back() > op; }
  bool needed_later(size_t s, size_t op) const { return next_read(s, op) < lowered_.ops.size(); }

  size_t result_of(size_t op) const { return static_cast<size_t>(lowered_.ops[op].out.storage); }

  /// The storages of an operator, each once, in the order of their numbers.
  std::vector<size_t> storages_of(size_t op) const {
    const LoweredOp &o = lowered_.ops[op];
    std::vector<size_t> own{static_cast<size_t>(o.out.storage)};
    for (const View *v : o.inputs()) own.push_back(static_cast<size_t>(v->storage));
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    return own;
  }

  /// Storages in local memory in the order in which they would be evicted: strangers to the operator with the farthest
  /// reader first, then its own. Most operators want few of them or none, and so each is looked for when it is wanted.
  class EvictionOrder {
   public:
    EvictionOrder(const Codegen &g, size_t op, const std::vector<size_t> &own)
        : own_(own), next_(g.resident_.begin()), end_(g.resident_.end()) {
      for (size_t s : own)
        if (g.places_[s].local) last_.push_back(s);
      std::stable_sort(last_.begin(), last_.end(),
                       [&](size_t a, size_t b) { return g.next_read(a, op) > g.next_read(b, op); });
    }

    std::optional<size_t> next() {
      while (next_ != end_) {
        const size_t s = (next_++)->storage;
        if (!std::binary_search(own_.begin(), own_.end(), s)) return s;
      }
      if (next_last_ == last_.size()) return std::nullopt;
      return last_[next_last_++];
    }

   private:
    const std::vector<size_t> &own_;
    std::set<Resident>::const_iterator next_, end_;
    std::vector<size_t> last_;
    size_t next_last_ = 0;
  };

  /// An operand whose place the result may take: dead afterwards, element for element the same. Of two the upper one,
  /// so that the free space stays in one piece.
  int in_place_operand(size_t op) const {
    const LoweredOp &o = lowered_.ops[op];
    const auto out = static_cast<size_t>(o.out.storage);
    int best = -1;
    for (const View *v : read_once(o)) {
      const auto s = static_cast<size_t>(v->storage);
      if (!places_[s].local || s == out || needed_later(s, op) || written_later(s, op) ||
          lowered_.storages[s].elements != lowered_.storages[out].elements ||
          lowered_.storages[s].element_bytes() != lowered_.storages[out].element_bytes())
        continue;
      if (lowered_.storages[s].kind == StorageKind::Output && dirty_[s]) continue;
      if (!same_places(*v, o.out) || !covers(*v, lowered_.storages[s].elements)) continue;
      bool alone = true;
      for (const View *other : o.inputs()) alone = alone && (other->storage != v->storage || same_places(*other, *v));
      if (alone && (best < 0 || places_[s].addr > places_[static_cast<size_t>(best)].addr)) best = static_cast<int>(s);
    }
    return best;
  }

  double memory_cycles(size_t s) const {
    return kDdrLatency + kGdmaFixed + static_cast<double>(lowered_.storages[s].bytes()) / kMemoryBandwidth;
  }

  /// Places the result; false when there is no room or the mode makes no sense. What it changes is the result's place
  /// and, with OutMode::Resident, the allocator.
  bool place_result(size_t op, OutMode mode, LmemAllocator &lmem, double &cost) {
    const auto out = static_cast<size_t>(lowered_.ops[op].out.storage);
    if (places_[out].local) return mode == OutMode::Existing;
    if (lowered_.storages[out].shared && mode != OutMode::Memory) return false;
    if (mode == OutMode::Memory) {
      if (needed_later(out, op)) cost += memory_cycles(out);
      return true;
    }
    // A result of which an earlier operator wrote a part stays where that part is.
    if (mode == OutMode::Existing || writes_[out].front() < op || !needed_later(out, op)) return false;
    if (lowered_.storages[out].kind == StorageKind::Output) cost += memory_cycles(out);
    if (mode == OutMode::InPlace) {
      const int from = in_place_operand(op);
      if (from < 0) return false;
      places_[out] = places_[static_cast<size_t>(from)];
      return true;
    }
    const auto addr = lmem.take(lowered_.storages[out].bytes(), true);
    if (!addr) return false;
    places_[out] = {true, *addr};
    return true;
  }

  /// Takes the buffers of a plan; false, and nothing taken, when they do not fit.
  bool take_buffers(size_t op, const Plan &plan, LmemAllocator &lmem, std::vector<uint32_t> &buffers) const {
    buffers.clear();
    for (int64_t bytes : plan.buffers) {
      const auto addr = lmem.take(bytes, asked(op).above);
      if (!addr) {
        give_buffers(plan, lmem, buffers);
        return false;
      }
      buffers.push_back(*addr);
    }
    return true;
  }
  static void give_buffers(const Plan &plan, LmemAllocator &lmem, const std::vector<uint32_t> &buffers) {
    for (size_t k = 0; k < buffers.size(); ++k) lmem.give(buffers[k], plan.buffers[k]);
  }

  std::unique_ptr<Kernel> kernel_of(size_t op) const {
    const double transfers = static_cast<double>(asked(op).transfers) / OpChoice::kWhole;
    return make_kernel(lowered_.ops[op], {lowered_.storages, places_, weight_block(op), transfers});
  }

  Plan plan_of(size_t op, const Kernel &kernel, int64_t budget) const {
    if (!memo_) return kernel.plan(budget);
    const LoweredOp &o = lowered_.ops[op];
    uint32_t local = places_[static_cast<size_t>(o.out.storage)].local;
    for (const View *v : o.inputs()) local = local * 2 + places_[static_cast<size_t>(v->storage)].local;
    return memo_->plan({shapes_[op], local, budget, weight_block(op), asked(op).transfers}, kernel);
  }

  /// Plans the operator in what is left of local memory, or the share of that which it may have, if that is enough.
  bool plan_in(size_t op, LmemAllocator &lmem, Choice &c) const {
    const int64_t free = lmem.free_bytes(), room = asked(op).room;
    if (room < OpChoice::kWhole && plan_within(op, free / OpChoice::kWhole * room, lmem, c)) return true;
    return plan_within(op, free, lmem, c);
  }

  /// Plans the operator in so many bytes; in less and less while the pieces do not fit. Leaves the allocator as it was.
  bool plan_within(size_t op, int64_t budget, LmemAllocator &lmem, Choice &c) const {
    const auto kernel = kernel_of(op);
    std::vector<uint32_t> buffers;
    for (;; budget -= std::max<int64_t>(budget / 8, 64)) {
      c.plan = plan_of(op, *kernel, budget);
      if (!c.plan.feasible) return false;
      if (!take_buffers(op, c.plan, lmem, buffers)) continue;
      give_buffers(c.plan, lmem, buffers);
      c.cost += c.plan.cost;
      return true;
    }
  }

  /// Whether the choices forbid this; where there is nothing else, it is done all the same.
  bool unwanted(size_t op, OutMode mode, const Trial &trial) const {
    const OpChoice how = asked(op);
    if (static_cast<int64_t>(trial.evicted.size()) > how.evictions) return true;
    if (how.result == ResultPlace::Cheapest || mode == OutMode::Existing) return false;
    return (how.result == ResultPlace::Memory) != (mode == OutMode::Memory);
  }

  /// Leaves the trial and all places as they were: copies of them for each choice would make the time quadratic.
  void try_choice(size_t op, OutMode mode, Trial &trial, std::optional<Choice> &best) {
    const auto out = static_cast<size_t>(lowered_.ops[op].out.storage);
    const Place before = places_[out];
    Choice c;
    c.cost = trial.cost + (unwanted(op, mode, trial) ? kUnwanted : 0);
    c.evictions = trial.evicted.size();
    c.mode = mode;
    LmemAllocator &lmem = trial.lmem ? *trial.lmem : lmem_;
    const bool placed = place_result(op, mode, lmem, c.cost);
    const bool planned = placed && plan_in(op, lmem, c);
    if (placed && mode == OutMode::Resident) lmem.give(places_[out].addr, lowered_.storages[out].bytes());
    places_[out] = before;
    if (planned && (!best || c.cost < best->cost)) best = std::move(c);
  }

  void try_eviction(size_t s, Trial &trial) {
    if (!trial.lmem) trial.lmem = lmem_;
    trial.lmem->give(places_[s].addr, lowered_.storages[s].bytes());
    trial.evicted.push_back(s);
    trial.from.push_back(places_[s]);
    trial.cost += memory_cycles(s) * (dirty_[s] ? 2 : 1);
    places_[s] = {};
  }

  Status run_op(size_t op) {
    const std::vector<size_t> own = storages_of(op);
    EvictionOrder order(*this, op, own);
    Trial trial;
    std::optional<Choice> best;
    while (true) {
      for (OutMode mode : {OutMode::Existing, OutMode::InPlace, OutMode::Resident, OutMode::Memory})
        try_choice(op, mode, trial, best);
      // Where all fits as it is, nothing is gained by evicting.
      const bool stays = best && (best->mode != OutMode::Memory || storage(result_of(op)).shared);
      if (stays && best->evictions == 0 && best->plan.tiles == 1 && best->cost < kUnwanted) break;
      const auto s = order.next();
      if (!s) break;
      try_eviction(*s, trial);
      // What is evicted costs as much as all of the best choice, and further evictions only add to it.
      if (best && trial.cost >= best->cost) break;
    }
    for (size_t k = 0; k < trial.evicted.size(); ++k) places_[trial.evicted[k]] = trial.from[k];
    if (!best)
      return graph::refuse(graph::Obstacle::LocalMemory, "node '" + name_of(op) +
                                                             "' cannot be cut into pieces that fit " +
                                                             std::to_string(lmem_.size()) + " bytes of local memory");
    emitter_.layer = static_cast<uint32_t>(lowered_.ops[op].source);
    for (size_t k = 0; k < best->evictions; ++k) evict(trial.evicted[k]);
    apply(op, own, *best);
    return {};
  }

  /// Writes a storage from local memory to memory.
  void flush(size_t s) {
    const int64_t n = storage(s).elements;
    const graph::Dtype type = storage(s).type;
    emitter_.copy({n}, {-1, type, places_[s].addr, {1}}, {static_cast<int>(s), type, 0, {1}});
    dirty_[s] = false;
    in_memory_[s] = true;
  }

  /// Notes how long a storage has been where it is.
  void end_hold(size_t s) {
    const size_t maker = writes_[s].empty() ? reads_[s].front() : writes_[s].front();
    hold(places_[s].addr, storage(s).bytes(), since_[s], static_cast<int>(s), lowered_.ops[maker].source);
  }
  void hold(uint32_t addr, int64_t bytes, size_t first, int s, int source) {
    const size_t end = emitter_.commands.size();
    if (end > first)
      out_.holds.push_back({addr, LmemAllocator::rounded(bytes), first, end, s, static_cast<uint32_t>(source)});
  }

  /// A storage leaves local memory, or its place is another's now.
  void leave(size_t s) {
    end_hold(s);
    places_[s] = {};
    resident_.erase({next_read_[s], s});
  }

  void release(size_t s) {
    lmem_.give(places_[s].addr, storage(s).bytes());
    leave(s);
  }

  void evict(size_t s) {
    if (dirty_[s]) flush(s);
    in_memory_[s] = true;
    release(s);
  }

  void apply(size_t op, const std::vector<size_t> &own, const Choice &c) {
    const auto out = static_cast<size_t>(lowered_.ops[op].out.storage);
    const int donor = c.mode == OutMode::InPlace ? in_place_operand(op) : -1;
    const size_t first = emitter_.commands.size();
    if (!places_[out].local) since_[out] = first;
    double cost = 0;
    std::vector<uint32_t> buffers;
    // As when this was tried, and so with the same addresses.
    place_result(op, c.mode, lmem_, cost);
    take_buffers(op, c.plan, lmem_, buffers);
    kernel_of(op)->emit(c.plan, buffers, emitter_);
    OpReport report;
    report.op = static_cast<int>(op);
    report.tiles = c.plan.tiles;
    report.resident = places_[out].local;
    report.lmem_bytes = lmem_.size() - lmem_.free_bytes();
    out_.reports.push_back(report);
    for (size_t k = 0; k < buffers.size(); ++k) {
      out_.buffers_to = std::max(out_.buffers_to, buffers[k] + c.plan.buffers[k]);
      hold(buffers[k], c.plan.buffers[k], first, Hold::kTileBuffer, lowered_.ops[op].source);
    }
    give_buffers(c.plan, lmem_, buffers);
    if (donor >= 0) leave(static_cast<size_t>(donor));
    if (places_[out].local) {
      const int64_t start = places_[out].addr;
      out_.tensors_from = std::min(out_.tensors_from, start);
      out_.lmem_bytes = std::max(out_.lmem_bytes, start + LmemAllocator::rounded(storage(out).bytes()));
      dirty_[out] = true;
    } else {
      in_memory_[out] = true;
    }
    out_.lmem_bytes = std::max(out_.lmem_bytes, out_.buffers_to);
    settle(op, own);
  }

  /// Results that are complete go to memory if somebody outside wants them; what nobody reads any more is dropped. Only
  /// an operator's own storages become so with it.
  void settle(size_t op, const std::vector<size_t> &own) {
    for (size_t s : own) {
      if (!places_[s].local) continue;
      resident_.erase({next_read_[s], s});
      next_read_[s] = next_read(s, op);
      resident_.insert({next_read_[s], s});
      if (written_later(s, op)) continue;
      if (storage(s).kind == StorageKind::Output && dirty_[s]) flush(s);
      if (!needed_later(s, op)) release(s);
    }
  }

  Lowered &lowered_;
  const std::vector<graph::Source> &sources_;
  const Choices &choices_;
  PlanMemo *const memo_;
  Generated &out_;
  Emitter emitter_;
  LmemAllocator lmem_;
  std::vector<Place> places_;
  std::vector<bool> dirty_;      ///< newer in local memory than in memory
  std::vector<bool> in_memory_;  ///< has (at least in part) been written to memory
  std::vector<size_t> since_;    ///< the command from which on it is in local memory
  /// What is in local memory, by its first reader after the last operator that touched it.
  std::set<Resident> resident_;
  std::vector<size_t> next_read_;  ///< those of what is in resident_
  std::vector<std::vector<size_t>> reads_, writes_;
  std::vector<uint32_t> shapes_;  ///< of each operator, in the memo
};

/// What plans depend on of an operator.
struct ShapeWords {
  template <class T>
  void add(T v) {
    words.push_back(static_cast<int64_t>(v));
  }
  void add(float v) { add(std::bit_cast<uint32_t>(v)); }
  void add_view(const View &v, graph::Dtype type) {
    add_list(v.dims);
    add_list(v.strides);
    add(type);
  }
  void add(const graph::TensorPtr &tensor) {
    add(tensor != nullptr);
    if (!tensor) return;
    add_list(tensor->shape);
    add(tensor->dtype);
  }
  template <class List>
  void add_list(const List &list) {
    add(std::size(list));
    for (const auto &v : list) add(v);
  }
  void add_source(int) {}

  std::vector<int64_t> words;
};

}  // namespace

uint32_t PlanMemo::shape_of(const LoweredOp &op, const std::vector<Storage> &storages) {
  ShapeWords key;
  add_op(op, storages, key);
  return shapes_.try_emplace(std::move(key.words), static_cast<uint32_t>(shapes_.size())).first->second;
}

Plan PlanMemo::plan(const Key &key, const Kernel &kernel) {
  if (plans_.size() >= kMaxPlans) plans_.clear();
  const auto [at, fresh] = plans_.try_emplace(key);
  if (fresh) at->second = kernel.plan(key.budget);
  return at->second;
}

Status generate(Lowered &lowered, const std::vector<graph::Source> &sources, const Choices &choices, Generated &out,
                PlanMemo *memo) {
  return Codegen(lowered, sources, choices, out, memo).run();
}

}  // namespace npu::compiler
