// SPDX-License-Identifier: MIT
// Which queue's job a free core gets: priority with ageing, and cores reserved for jobs that need several.
// docs/reference/hardware.md section 4.2.
#ifndef NPU_MODEL_ARBITER_H
#define NPU_MODEL_ARBITER_H

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace npu::model {

/// Not synchronised: its owner's lock guards it.
class Arbiter {
 public:
  static constexpr uint32_t kPriorityWeight = 8;
  static constexpr uint32_t kMaxAge = 64;

  /// A job that may begin, and the cores that it has.
  struct Grant {
    unsigned queue;
    uint32_t cores;
  };

  explicit Arbiter(unsigned queues) : served_(queues) { waiting_.reserve(queues); }

  /// The queue has a job for `cores` of the cores in the mask, which has at least as many.
  void add(unsigned queue, uint32_t core_mask, unsigned cores, uint32_t priority) {
    waiting_.push_back({queue, core_mask, cores, priority * kPriorityWeight, 0, 0});
  }
  /// Gives reserved cores back, too.
  void remove(unsigned queue);
  void clear();

  /// Offers a free core: to the job that gets it, if that job now has all its cores. Otherwise the core is reserved or
  /// nobody wants it.
  std::optional<Grant> pick(unsigned core);
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
    a(waiting_, served_, clock_);
  }

 private:
  struct Waiting {
    unsigned queue;
    uint32_t core_mask;
    unsigned cores;
    uint32_t weight;
    uint32_t age;
    uint32_t reserved;

    bool wants(unsigned core) const { return core_mask >> core & 1; }
    unsigned lacks() const { return cores - static_cast<unsigned>(std::popcount(reserved)); }
  };

  bool may_have(const Waiting &w, unsigned core) const;
  Waiting *choose(unsigned core);
  bool may_reserve(const Waiting &w) const;

  std::vector<Waiting> waiting_;
  std::vector<uint64_t> served_;  ///< per queue: when it was served last
  uint64_t clock_ = 0;
};

}  // namespace npu::model

#endif  // NPU_MODEL_ARBITER_H
