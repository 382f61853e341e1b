// SPDX-License-Identifier: MIT
// Which queue's job a free core gets: priority with ageing. docs/hardware.md section 4.2.
#ifndef NPU_MODEL_ARBITER_H
#define NPU_MODEL_ARBITER_H

#include <cstdint>
#include <vector>

namespace npu::model {

/// Not synchronised: its owner's lock guards it.
class Arbiter {
 public:
  static constexpr uint32_t kPriorityWeight = 8;
  static constexpr uint32_t kMaxAge = 64;

  explicit Arbiter(unsigned queues) : served_(queues) {}

  /// The queue has a job for the cores in the mask.
  void add(unsigned queue, uint32_t core_mask, uint32_t priority) {
    waiting_.push_back({queue, core_mask, priority * kPriorityWeight, 0});
  }
  void remove(unsigned queue);
  void clear();

  /// Takes the job for this core, or returns -1. Those passed over grow older.
  int pick(unsigned core);
  /// Calls f(core mask) for each waiting job, in the order of their arrival.
  template <class F>
  void for_each(F f) const {
    for (const Waiting &w : waiting_) f(w.core_mask);
  }

 private:
  struct Waiting {
    unsigned queue;
    uint32_t core_mask;
    uint32_t weight;
    uint32_t age;
  };
  std::vector<Waiting> waiting_;
  std::vector<uint64_t> served_;  ///< per queue: when it was served last
  uint64_t clock_ = 0;
};

}  // namespace npu::model

#endif  // NPU_MODEL_ARBITER_H
