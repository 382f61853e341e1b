// SPDX-License-Identifier: MIT
// Faults on demand, for those who test what software makes of them. docs/reference/hardware.md section 9.
#ifndef NPU_MODEL_FAULTS_H
#define NPU_MODEL_FAULTS_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "npu_model.h"
#include "npu_regs.h"

namespace npu::model {

/// What a core that stands still obeys; each also obeys all below.
enum class Obeys : uint8_t { Abort, CoreReset, DeviceReset, Nothing };

/// Values of the faults. A fault that is counted is taken once for each event that it spoils. All may be called from
/// any thread.
class Faults {
 public:
  uint64_t get(unsigned fault) const { return value_[fault].load(std::memory_order_relaxed); }
  void set(unsigned fault, uint64_t value) { value_[fault].store(value, std::memory_order_relaxed); }
  /// Takes one of a counted fault, if there is any.
  bool take(unsigned fault);

  bool dead() const { return get(NPU_MODEL_FAULT_DEAD) != 0; }
  /// Takes a hang for a job that begins now: true, and what it will obey.
  bool take_hang(Obeys &obeys);
  /// Spoils a completion, if that is wanted.
  void corrupt(npu_cqe &c);

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    for (auto &value : value_) a(value);
  }

 private:
  std::atomic<uint64_t> value_[NPU_MODEL_FAULT_COUNT]{};
};

/// A core's place to stand still. Only the core's thread arms and waits; it arms under the chip's lock, under which the
/// others release, so that no order to stop gets lost.
class Hang {
 public:
  void arm(Obeys obeys, uint64_t after);
  void disarm();
  /// Does it hold a job that began so many commands? Once released, never again.
  bool holds(uint64_t begun);
  /// Until somebody releases it with what it obeys, or more.
  void wait();
  /// From any thread; does nothing to a core that is not armed, or that does not obey.
  void release(Obeys means);
  /// The fault was cleared: what hangs because of it goes on.
  void forgive(Obeys obeys);

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(armed_, after_, held_, obeys_);
  }

 private:
  bool armed_ = false;
  uint64_t after_ = 0;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool held_ = false;
  Obeys obeys_ = Obeys::Abort;
};

}  // namespace npu::model

#endif  // NPU_MODEL_FAULTS_H
