// SPDX-License-Identifier: MIT
// The chip in virtual time, docs/reference/hardware.md section 8.4: no threads, but events on the board's clock.
#include <algorithm>
#include <exception>
#include <utility>

#include "qemu-device/model/src/chip.h"

namespace npu::model {

/// A job begins in this cycle. If the host cannot run it, it ends in the same one.
void Chip::take_off(Queue &q, std::span<Core *const> cores) {
  try {
    flights_.reserve(flights_.size() + 1);
    auto run = std::make_unique<Run>(cores, q.job, q.index, q.stop, true, cycles_.ns_of(cycle_));
    flights_.push_back(std::make_unique<Flight>(Flight{q, std::move(run), cycle_}));
  } catch (const std::exception &) {
    ended(q, cores[0]->misfortune(), cycle_);
    list(q);
  }
}

/// Does what the flight's job does in this cycle. True when something may have changed for others: the job has ended.
bool Chip::turn(Flight &flight, Lock &lock) {
  Run &run = *flight.run;
  constexpr uint64_t kEvictions = 16;  // turns of which one begins without translations
  if (dice_.on() && dice_.below(kEvictions) == 0)
    for (auto &core : cores_) core->evict();
  if (flight.state == Run::State::Waits && !flight.fresh) run.advance_to(std::min(run.next(), cycle_ - flight.base));
  flight.fresh = false;
  const bool stood = flight.state == Run::State::Stands;
  Queue &q = flight.queue;
  JobResult result;
  unlocked(lock, [&] {
    try {
      flight.state = run.turn();
      if (flight.state == Run::State::Ended) result = run.finish(cycles_.ns_of(cycle_));
    } catch (const std::exception &) {
      flight.state = Run::State::Ended;
      result =
          cores_[static_cast<size_t>(std::find(running_.begin(), running_.end(), &q) - running_.begin())]->misfortune();
    }
  });
  if (stood) flight.base = cycle_ - run.now();
  if (flight.state != Run::State::Ended) return false;
  std::erase_if(flights_, [&](const auto &f) { return f.get() == &flight; });
  if (resetting_) return true;
  ended(q, result, cycle_);
  list(q);
  return true;
}

/// Has this cycle something for it?
bool Chip::due(const Flight &f) const {
  if (f.fresh) return true;
  if (f.state == Run::State::Stands) return !f.run->stands();
  return f.queue.stop.load() != Stop::None || f.base + f.run->next() <= cycle_;
}

/// Turns the flights for which this cycle has something, in the order in which they began. True if one has ended.
bool Chip::turn_flights(Lock &lock) {
  for (size_t i = 0; i < flights_.size(); ++i)
    if (due(*flights_[i]) && turn(*flights_[i], lock)) return true;
  return false;
}

/// Looks at the oldest invalidation that is due.
bool Chip::invalidate_one(Lock &lock) {
  if (asked_.empty() || asked_.front().due > cycle_) return false;
  const Asked asked = asked_.front();
  asked_.pop_front();
  unlocked(lock, [&] { mmu_.invalidate(asked.asid, asked.addr, asked.bytes); });
  return true;
}

/// All that happens in this cycle.
void Chip::settle(Lock &lock) {
  for (bool changed = true; changed;) {
    while (turn_flights(lock)) {
    }
    if (resetting_ && flights_.empty()) finish_reset();
    changed = invalidate_one(lock) || serve_one(config_.cores, lock);
    for (unsigned c = 0; c < config_.cores && !changed; ++c) changed = start_job(c, lock);
  }
}

/// The next cycle in which something is due, UINT64_MAX if nothing is.
uint64_t Chip::next_event() const {
  uint64_t next = list_.due();
  if (!asked_.empty()) next = std::min(next, asked_.front().due);
  for (const auto &f : flights_)
    if (f->state == Run::State::Waits) next = std::min(next, f->fresh ? cycle_ : f->base + f->run->next());
  return next;
}

/// Goes from event to event up to now, in the order of their cycles.
void Chip::catch_up(Lock &lock) {
  if (catching_up_ || stopping_) return;
  catching_up_ = true;
  const uint64_t now = std::max(cycle_, cycles_.at(board_.now()));
  for (settle(lock); next_event() <= now; settle(lock)) cycle_ = std::max(cycle_, next_event());
  cycle_ = now;
  for (const auto &f : flights_) {
    if (f->state == Run::State::Waits) f->run->advance_to(now - f->base);
    f->run->account();
  }
  if (forget_) forget(lock);
  catching_up_ = false;
}

/// True if the arbiter would give a free core to a job.
bool Chip::could_start() const {
  if (!enabled_ || resetting_ || board_.faults().get(NPU_MODEL_FAULT_FATAL)) return false;
  for (unsigned c = 0; c < config_.cores; ++c)
    if (!running_[c] && arbiter_.wanted(c)) return true;
  return false;
}

/// The clock may have another rate from now on.
void Chip::keep_clock() {
  const uint32_t khz = std::max(1u, sensors_.clock_khz());
  if (khz != cycles_.khz()) cycles_.change(board_.now(), khz);
}

void Chip::expect() {
  if (!board_.has_clock()) return;
  uint64_t at = UINT64_MAX;
  {
    Lock lock(mutex_);
    if (catching_up_) return;
    keep_clock();
    if (const uint64_t next = next_event(); next != UINT64_MAX) at = cycles_.ns_of(next);
    const bool turns = std::any_of(flights_.begin(), flights_.end(), [this](const auto &f) { return due(*f); });
    if (turns || could_start() || forget_) at = board_.now();
    if (stopping_) at = UINT64_MAX;
  }
  board_.wake_at(at);
}

void Chip::arrive() {
  if (!board_.has_clock()) return;
  Guard guard(*this);
  catch_up(guard.lock());
}

void Chip::advance() {
  arrive();
  expect();
}

}  // namespace npu::model
