// SPDX-License-Identifier: MIT
#include "compiler/schedule/schedule.h"

#include <algorithm>

#include "compiler/schedule/hazards.h"

namespace npu::compiler {
namespace {

constexpr size_t kWindow = 64;  ///< GDMA commands that are looked at for the next place in the stream

uint64_t duration(const Command &c) { return hw::uncontended(cost_of(c), {}); }

bool is_store(const Command &c) { return c.dst_storage >= 0; }

/// Chooses the order of the GDMA stream by playing the program through: of the commands whose predecessors are placed,
/// the one that can begin first; among equals loads, which the TIU waits for, before stores. Weights that come ahead of
/// their time keep their own order and step back behind what the TIU waits for earlier.
class ListScheduler {
 public:
  ListScheduler(const std::vector<Command> &program, const std::vector<std::vector<uint32_t>> &after)
      : program_(program), after_(after), end_(program.size()), placed_(program.size()), ready_(program.size()) {
    for (uint32_t i = 0; i < program.size(); ++i)
      (program[i].ahead ? ahead_ : program[i].gdma() ? others_ : tiu_).push_back(i);
    if (!ahead_.empty()) find_needs();
  }

  std::vector<uint32_t> run() {
    std::vector<uint32_t> order;
    while (true) {
      advance_tiu();
      while (waiting_.size() < kWindow && next_other_ < others_.size()) waiting_.push_back(others_[next_other_++]);
      if (waiting_.empty() && next_ahead_ == ahead_.size()) return order;
      uint64_t start = UINT64_MAX;
      const size_t pick = waiting_.empty() ? 0 : choose(start);
      uint32_t c;
      if (goes_ahead(pick, start)) {
        c = ahead_[next_ahead_++];
      } else {
        c = waiting_[pick];
        waiting_.erase(waiting_.begin() + static_cast<int64_t>(pick));
      }
      place(c, gdma_free_);
      order.push_back(c);
    }
  }

 private:
  /// Whether all predecessors of a command are placed, and when the last of them ends.
  bool ready(uint32_t c, uint64_t &at) {
    Ready &r = ready_[c];
    for (; r.known < after_[c].size(); ++r.known) {
      const uint32_t p = after_[c][r.known];
      if (!placed_[p]) return false;
      r.at = std::max(r.at, end_[p]);
    }
    at = r.at;
    return true;
  }

  void place(uint32_t c, uint64_t &engine_free) {
    uint64_t at = 0;
    ready(c, at);
    end_[c] = engine_free = std::max(at, engine_free) + duration(program_[c]);
    placed_[c] = true;
  }

  void advance_tiu() {
    uint64_t at;
    while (next_tiu_ < tiu_.size() && ready(tiu_[next_tiu_], at)) place(tiu_[next_tiu_++], tiu_free_);
  }

  /// The first command of the TIU that each command is in the way of.
  void find_needs() {
    need_.assign(program_.size(), UINT32_MAX);
    for (uint32_t i = static_cast<uint32_t>(program_.size()); i-- > 0;)
      for (uint32_t p : after_[i]) need_[p] = std::min(need_[p], program_[i].gdma() ? need_[i] : i);
  }

  /// Whether the next weights are brought now; the best of the others could begin at `start`, or none if that is
  /// UINT64_MAX. The first command that is not placed has all its predecessors placed, so that one of them can.
  bool goes_ahead(size_t other, uint64_t start) {
    uint64_t at;
    if (next_ahead_ == ahead_.size() || !ready(ahead_[next_ahead_], at)) return false;
    at = std::max(at, gdma_free_);
    const uint32_t c = ahead_[next_ahead_];
    if (start == UINT64_MAX || need_[c] < need_[waiting_[other]]) return at <= start;
    // What is needed earlier is delayed by no more than the memory would stand idle otherwise.
    const uint64_t end = at + duration(program_[c]);
    return end <= start || (at < start && start - at >= end - start);
  }

  size_t choose(uint64_t &best_start) {
    size_t best = 0;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      uint64_t at;
      if (!ready(waiting_[i], at)) continue;
      const uint64_t start = std::max(at, gdma_free_);
      const bool wins = start < best_start ||
                        (start == best_start && is_store(program_[waiting_[best]]) && !is_store(program_[waiting_[i]]));
      if (!wins) continue;
      best = i;
      best_start = start;
    }
    return best;
  }

  /// What is known of a command's predecessors: so many are placed, and the last of them ends then.
  struct Ready {
    size_t known = 0;
    uint64_t at = 0;
  };

  const std::vector<Command> &program_;
  const std::vector<std::vector<uint32_t>> &after_;
  std::vector<uint64_t> end_;
  std::vector<bool> placed_;
  std::vector<Ready> ready_;
  std::vector<uint32_t> tiu_, ahead_, others_;
  std::vector<uint32_t> waiting_;  ///< the first of the others that are not placed
  std::vector<uint32_t> need_;
  size_t next_tiu_ = 0, next_ahead_ = 0, next_other_ = 0;
  uint64_t tiu_free_ = 0, gdma_free_ = 0;
};

/// Streams with waits for a given order of the GDMA commands.
Streams assemble(const std::vector<Command> &program, const std::vector<std::vector<uint32_t>> &after,
                 const std::vector<uint32_t> &gdma_order) {
  std::vector<uint32_t> ids(program.size());
  Streams s;
  uint32_t tiu = 0;
  for (uint32_t i = 0; i < program.size(); ++i)
    if (!program[i].gdma()) ids[i] = ++tiu;
  for (uint32_t k = 0; k < gdma_order.size(); ++k) ids[gdma_order[k]] = k + 1;
  const auto with_wait = [&](uint32_t i) {
    Command c = program[i];
    uint32_t wait = 0;
    for (uint32_t p : after[i])
      if (program[p].gdma() != c.gdma()) wait = std::max(wait, ids[p]);
    c.set_wait(wait);
    return c;
  };
  for (uint32_t i = 0; i < program.size(); ++i)
    if (!program[i].gdma()) s.tiu.push_back(with_wait(i));
  for (uint32_t i : gdma_order) s.gdma.push_back(with_wait(i));
  s.timeline = hw::simulate(timed(s.tiu, s.gdma), {});
  return s;
}

}  // namespace

std::vector<hw::TimedCore> timed(const std::vector<Command> &tiu, const std::vector<Command> &gdma) {
  std::vector<hw::TimedCore> cores(1);
  for (const auto *stream : {&tiu, &gdma})
    for (const Command &c : *stream)
      cores[0].stream[c.gdma() ? NPU_ENGINE_GDMA : NPU_ENGINE_TIU].push_back({cost_of(c), c.wait()});
  return cores;
}

Streams schedule(const std::vector<Command> &program) {
  const auto after = find_hazards(program);
  std::vector<uint32_t> in_order;
  for (uint32_t i = 0; i < program.size(); ++i)
    if (program[i].gdma()) in_order.push_back(i);
  Streams plain = assemble(program, after, in_order);
  Streams ahead = assemble(program, after, ListScheduler(program, after).run());
  return ahead.timeline.cycles <= plain.timeline.cycles ? ahead : plain;
}

}  // namespace npu::compiler
