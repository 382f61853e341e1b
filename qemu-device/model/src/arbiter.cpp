// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/arbiter.h"

#include <algorithm>
#include <utility>

namespace npu::model {

namespace {

uint32_t rank(uint32_t priority, uint32_t age, uint32_t highest) {
  return std::min(priority * Arbiter::kPriorityWeight + age, highest * Arbiter::kPriorityWeight);
}

}  // namespace

/// The place of an address space among those with a job for a core.
struct Arbiter::Order {
  bool overdue;
  uint32_t rank;
  uint64_t level;
  uint64_t served;

  bool before(const Order &o) const {
    if (overdue != o.overdue) return overdue;
    if (rank != o.rank) return rank > o.rank;
    if (level != o.level) return level < o.level;
    return served < o.served;
  }
};

Arbiter::Arbiter(unsigned queues, unsigned asids) : queues_(queues), asids_(asids) {
  waiting_.reserve(queues);
  clear();
}

void Arbiter::set_work(unsigned queue, uint32_t asid, bool on) {
  if (working_[queue] == on) return;
  working_[queue] = on;
  Space &s = spaces_[asid];
  if (!on) {
    --s.queues;
  } else if (s.queues++ == 0) {
    s.account = std::max(s.account, mark_);
    s.age = 0;
  }
}

void Arbiter::clear() {
  waiting_.clear();
  served_.assign(queues_, 0);
  working_.assign(queues_, 0);
  spaces_.assign(asids_, {});
  cores_.fill({});
  mark_ = clock_ = 0;
}

uint32_t Arbiter::reserved() const {
  uint32_t mask = 0;
  for (const Waiting &w : waiting_) mask |= w.reserved;
  return mask;
}

bool Arbiter::sound() const {
  return served_.size() == queues_ && working_.size() == queues_ && spaces_.size() == asids_ &&
         std::all_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting &w) { return w.queue < queues_ && w.asid < asids_; }) &&
         std::all_of(cores_.begin(), cores_.end(), [&](const Core &c) { return c.asid < asids_; });
}

// ---- accounts ----

/// Core cycles that stand for a core while the address space holds it.
uint64_t Arbiter::estimate(const Space &s) { return std::clamp(s.last, kLeastCycles, kMostCycles); }

/// The account with the cores that are held at present.
uint64_t Arbiter::level(const Space &s) const { return std::max(s.account + s.held * estimate(s), floor()); }

void Arbiter::hold(unsigned core, const Waiting &w, uint64_t now) {
  cores_[core] = {now, w.asid, w.priority, 1};
  Space &s = spaces_[w.asid];
  ++s.held;
  s.served = clock_;
  s.age = 0;
}

/// Ends what hold() began.
void Arbiter::charge(uint32_t cores, uint64_t now) {
  std::array<uint64_t, NPU_MAX_CORES> time{};
  for (uint32_t rest = cores; rest; rest &= rest - 1) {
    const auto core = static_cast<unsigned>(std::countr_zero(rest));
    Space &s = spaces_[cores_[core].asid];
    time[core] = std::clamp(now - cores_[core].since, kLeastCycles, kMostCycles);
    s.account += time[core];
    s.used += time[core];
    --s.held;
  }
  for (uint32_t rest = cores; rest; rest &= rest - 1) {
    const auto core = static_cast<unsigned>(std::countr_zero(rest));
    Space &s = spaces_[cores_[core].asid];
    s.due[core] = s.used + kOverdue * time[core];
    cores_[core] = {};
  }
}

void Arbiter::release(uint32_t cores, uint64_t cycles, uint64_t now) {
  if (cores) spaces_[cores_[std::countr_zero(cores)].asid].last = cycles;
  charge(cores, now);
}

void Arbiter::remove(unsigned queue, uint64_t now) {
  for (const Waiting &w : waiting_)
    if (w.queue == queue) charge(w.reserved, now);
  std::erase_if(waiting_, [&](const Waiting &w) { return w.queue == queue; });
}

// ---- choice ----

/// Two jobs that collect cores at the same time want none in common: neither can have what the other needs.
bool Arbiter::may_reserve(const Waiting &w) const {
  return std::none_of(waiting_.begin(), waiting_.end(), [&](const Waiting &other) {
    return &other != &w && other.reserved && other.core_mask & w.core_mask;
  });
}

/// True if enough cores of the job's mask are left without those that address spaces before its own hold.
bool Arbiter::in_turn(const Waiting &w) const {
  const Space &mine = spaces_[w.asid];
  uint32_t left = 0;
  for (unsigned c = 0; c < cores_.size(); ++c) {
    if (!w.wants(c)) continue;
    const Core &core = cores_[c];
    const Space &its = spaces_[core.asid];
    const uint32_t highest = std::max(core.priority, w.priority);
    const uint32_t its_rank = rank(core.priority, its.age, highest), my_rank = rank(w.priority, mine.age, highest);
    const bool before =
        its_rank > my_rank || (its_rank == my_rank && std::max(its.account, floor()) < std::max(mine.account, floor()));
    if (!core.held || core.asid == w.asid || !before) ++left;
  }
  return left >= w.cores;
}

/// True if a job without cores may get or reserve this one.
bool Arbiter::may_have(const Waiting &w, unsigned core) const {
  return w.wants(core) && (w.cores == 1 || (may_reserve(w) && (overdue(w, core) || in_turn(w))));
}

Arbiter::Order Arbiter::order(const Waiting &w, unsigned core, uint32_t top) const {
  const Space &s = spaces_[w.asid];
  return {overdue(w, core), rank(w.priority, s.age, top), level(s), s.served};
}

/// Finds the address space that comes first, and returns its job of the highest priority.
const Arbiter::Waiting *Arbiter::first_space(unsigned core) const {
  uint32_t top = 0;
  for (const Waiting &w : waiting_)
    if (may_have(w, core)) top = std::max(top, w.priority);
  const Waiting *best = nullptr;
  for (const Waiting &w : waiting_)
    if (may_have(w, core) && (!best || order(w, core, top).before(order(*best, core, top)))) best = &w;
  return best;
}

/// The job of the queue that comes first in its address space.
Arbiter::Waiting *Arbiter::first_queue(unsigned core, uint32_t asid) {
  Waiting *best = nullptr;
  for (Waiting &w : waiting_) {
    if (w.asid != asid || !may_have(w, core)) continue;
    const auto weight = [](const Waiting &x) { return x.priority * kPriorityWeight + x.age; };
    if (!best || weight(w) > weight(*best) || (weight(w) == weight(*best) && served_[w.queue] < served_[best->queue]))
      best = &w;
  }
  return best;
}

/// The job that gets the core: one that collects cores and wants it, else the one that comes first.
Arbiter::Waiting *Arbiter::choose(unsigned core) {
  for (Waiting &w : waiting_)
    if (w.reserved && w.wants(core)) return &w;
  const Waiting *const first = first_space(core);
  if (!first) return nullptr;
  Space &s = spaces_[first->asid];
  s.account = std::max(s.account, level(s) - s.held * estimate(s));
  mark_ = std::max(mark_, s.account);
  return first_queue(core, first->asid);
}

/// Raises the age of the queues of the same address space that wanted the core, and the age of the address spaces that
/// lost it to a higher priority.
void Arbiter::age_others(unsigned core, const Waiting &chosen) {
  uint32_t highest = 0;
  for (Waiting &w : waiting_) {
    if (!w.wants(core) || w.asid != chosen.asid) continue;
    highest = std::max(highest, w.priority);
    if (&w != &chosen) w.age = std::min(w.age + 1, kMaxAge);
  }
  const auto once = [&](const Waiting &w) { return std::exchange(spaces_[w.asid].aged, clock_) != clock_; };
  for (const Waiting &w : waiting_)
    if (w.wants(core) && w.priority >= highest) once(w);
  for (const Waiting &w : waiting_)
    if (Space &s = spaces_[w.asid]; w.wants(core) && once(w)) s.age = std::min(s.age + 1, kMaxAge);
}

bool Arbiter::wanted(unsigned core) const {
  if (cores_[core].held) return false;
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting &w) { return w.reserved ? w.wants(core) : may_have(w, core); });
}

std::optional<Arbiter::Grant> Arbiter::pick(unsigned core, uint64_t now) {
  if (cores_[core].held) return std::nullopt;
  Waiting *const best = choose(core);
  if (!best) return std::nullopt;
  ++clock_;
  age_others(core, *best);
  hold(core, *best, now);
  best->reserved |= 1u << core;
  if (best->lacks()) return std::nullopt;
  const Grant grant{best->queue, best->reserved};
  served_[best->queue] = clock_;
  waiting_.erase(waiting_.begin() + (best - waiting_.data()));
  return grant;
}

}  // namespace npu::model
