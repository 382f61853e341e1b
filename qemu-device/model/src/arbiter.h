// SPDX-License-Identifier: MIT
// The arbiter: divides free cores among address spaces, and then among the queues of the chosen one. Reserves cores for
// jobs that need several. docs/reference/hardware.md section 4.2.
#ifndef NPU_MODEL_ARBITER_H
#define NPU_MODEL_ARBITER_H

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "npu_regs.h"

namespace npu::model {

/// Not synchronised: its owner's lock guards it. Instants are cycles of a clock that never goes back.
class Arbiter {
 public:
  static constexpr uint32_t kPriorityWeight = 8;
  static constexpr uint32_t kMaxAge = 64;
  /// A job counts for at least and for at most so many cycles on each of its cores.
  static constexpr uint64_t kLeastCycles = 1024, kMostCycles = uint64_t{1} << 48;
  static constexpr uint64_t kMostCredit = uint64_t{1} << 32;  ///< core cycles
  static constexpr uint64_t kOverdue = 16;                    ///< times the core cycles of a job

  /// A job that may begin, and the cores that it has.
  struct Grant {
    unsigned queue;
    uint32_t cores;
  };
  /// A job that waits for cores.
  struct Request {
    unsigned queue;
    uint32_t asid;
    uint32_t core_mask;  ///< at least `cores` of them
    unsigned cores;
    uint32_t priority;
  };

  Arbiter(unsigned queues, unsigned asids);

  /// Notes that the queue has work, or has none any more. An address space without work is idle.
  void set_work(unsigned queue, uint32_t asid, bool on);
  void add(const Request &request) { waiting_.push_back({request}); }
  /// Takes a waiting job back, with the cores that are reserved for it.
  void remove(unsigned queue, uint64_t now);
  /// Frees the cores of a job that has ended after `cycles` modelled cycles.
  void release(uint32_t cores, uint64_t cycles, uint64_t now);
  void clear();

  /// Offers a free core to the job that comes first. Returns the job if it now has all its cores; otherwise the core is
  /// reserved for it, or no job can use the core.
  std::optional<Grant> pick(unsigned core, uint64_t now);
  /// True if pick() would give the core to a job.
  bool wanted(unsigned core) const;
  /// Cores that are reserved for jobs which need more.
  uint32_t reserved() const;
  /// Calls f(core mask, cores that it lacks) for each waiting job, in the order of their arrival.
  template <class F>
  void for_each(F f) const {
    for (const Waiting &w : waiting_) f(w.core_mask & ~w.reserved, w.lacks());
  }

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(waiting_, served_, working_, spaces_, mark_, clock_);
    for (Core &c : cores_) a(c);
  }
  /// True if the state has the right sizes and no number is out of range.
  bool sound() const;

 private:
  struct Waiting : Request {
    uint32_t age = 0;
    uint32_t reserved = 0;

    bool wants(unsigned core) const { return core_mask >> core & 1; }
    unsigned lacks() const { return cores - static_cast<unsigned>(std::popcount(reserved)); }
  };
  /// An address space. Times are core cycles: a cycle of one core.
  struct Space {
    uint64_t account = 0;                       ///< `used`, raised where it was idle or had too much credit
    uint64_t used = 0;                          ///< core time of its jobs that have ended
    uint64_t last = 0;                          ///< modelled cycles of its last job
    uint64_t served = 0;                        ///< clock_ when it got a core last
    uint64_t aged = 0;                          ///< clock_ when `age` was updated last
    std::array<uint64_t, NPU_MAX_CORES> due{};  ///< by core: `used` above which it is overdue for the core
    uint32_t age = 0;
    uint32_t queues = 0;  ///< number of its queues with work
    uint32_t held = 0;    ///< cores that its jobs have or have reserved

    Space() { due.fill(kOverdue * kLeastCycles); }
    template <class A>
    void visit_state(A &a) {
      a(account, used, last, served, aged, due, age, queues, held);
    }
  };
  /// A core that a job has or has reserved.
  struct Core {
    uint64_t since = 0;
    uint32_t asid = 0;
    uint32_t priority = 0;
    uint32_t held = 0;  ///< 0: the core is free, and the other fields mean nothing

    template <class A>
    void visit_state(A &a) {
      a(since, asid, priority, held);
    }
  };
  struct Order;

  uint64_t floor() const { return mark_ > kMostCredit ? mark_ - kMostCredit : 0; }
  static uint64_t estimate(const Space &s);
  uint64_t level(const Space &s) const;
  bool overdue(const Waiting &w, unsigned core) const { return spaces_[w.asid].used > spaces_[w.asid].due[core]; }
  Order order(const Waiting &w, unsigned core, uint32_t top) const;
  bool may_reserve(const Waiting &w) const;
  bool in_turn(const Waiting &w) const;
  bool may_have(const Waiting &w, unsigned core) const;
  const Waiting *first_space(unsigned core) const;
  Waiting *first_queue(unsigned core, uint32_t asid);
  Waiting *choose(unsigned core);
  void age_others(unsigned core, const Waiting &chosen);
  void hold(unsigned core, const Waiting &w, uint64_t now);
  void charge(uint32_t cores, uint64_t now);

  const unsigned queues_, asids_;
  std::vector<Waiting> waiting_;
  std::vector<uint64_t> served_;  ///< per queue: clock_ when it was served last
  std::vector<uint8_t> working_;  ///< per queue: it has work
  std::vector<Space> spaces_;     ///< by ASID
  std::array<Core, NPU_MAX_CORES> cores_{};
  uint64_t mark_ = 0;   ///< largest account that an address space had when it was chosen
  uint64_t clock_ = 0;  ///< counts cores that were given away
};

}  // namespace npu::model

#endif  // NPU_MODEL_ARBITER_H
