// SPDX-License-Identifier: MIT
// How a long command lets others in: it advances in steps of bounded work and looks up between them.
#ifndef NPU_MODEL_PACE_H
#define NPU_MODEL_PACE_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/fiber.h"

namespace npu::model {

/// Work of a step at most, in operations: a multiply-accumulate, a comparison, an element that is moved. Under
/// ThreadSanitizer, which makes each of them some thirty times as long, a step has fewer.
#ifdef __SANITIZE_THREAD__
inline constexpr uint64_t kStepOperations = uint64_t{1} << 24;
#else
inline constexpr uint64_t kStepOperations = uint64_t{1} << 26;
#endif

/// Where jobs stand still while the machine does. Open unless somebody closes it.
class Gate {
 public:
  /// While it lives the thread does nothing.
  class Rest {
   public:
    explicit Rest(Gate *gate) : gate_(gate) {
      if (gate_) ++gate_->idle_;
    }
    ~Rest() {
      if (gate_) --gate_->idle_;
    }
    Rest(const Rest &) = delete;
    Rest &operator=(const Rest &) = delete;

   private:
    Gate *const gate_;
  };

  /// While it lives a thread works for another one, which has the gate count it.
  class Work {
   public:
    explicit Work(Gate *gate) : gate_(gate) {
      if (gate_) --gate_->idle_;
    }
    ~Work() {
      if (gate_) ++gate_->idle_;
    }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;

   private:
    Gate *const gate_;
  };

  /// Waits while the gate is closed, unless the job has to stop.
  void pass(const std::atomic<Stop> &stop) {
    if (!closed_.load()) return;  // in one order with idle_: rest() may not miss who has just seen it open
    std::unique_lock lock(mutex_);
    const Rest rest(this);  // ends before the lock: who has seen the gate open rests no more when it closes again
    changed_.wait(lock, [&] { return !closed_ || stop.load() != Stop::None; });
  }
  void close(bool closed) {
    std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }
  /// A job was told to stop: those that wait look again.
  void wake() {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  /// Do so many threads rest, and those that work for them?
  bool rest(unsigned active) const { return idle_.load() == static_cast<int>(active); }

 private:
  std::atomic<bool> closed_{false};
  std::atomic<int> idle_{0};  ///< threads that rest, less those that work for others: one number, read at one instant
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// What a long command looks at between two of its steps.
struct Pace {
  const std::atomic<Stop> &stop;
  std::atomic<uint64_t> &progress;
  Gate *gate = nullptr;
  Fiber *fiber = nullptr;     ///< virtual time: the command runs in it, and waits for its time there
  uint64_t *steps = nullptr;  ///< with a fiber: those that are done
  uint64_t done_before = 0;   ///< with a fiber: steps that were done before the chip was saved
  const std::atomic<uint64_t> *failed = nullptr;  ///< in a crew: the command's job ends with that one,
  uint64_t sequence = 0;                          ///< and this one is in vain if it began later

  /// One bounded step is done; false when the job has to stop.
  bool step() const {
    if (steps && ++*steps < done_before) return true;
    if (fiber && !fiber->park()) return false;
    return look();
  }
  /// Was the step that comes now done before the chip was saved? Its effects are there.
  bool repeats() const { return steps && *steps < done_before; }
  /// As step(), where others cannot be let in.
  bool look() const {
    progress.fetch_add(1, std::memory_order_relaxed);
    return !stopped();
  }
  bool stopped() const {
    if (gate) gate->pass(stop);
    if (failed && failed->load(std::memory_order_relaxed) < sequence) return true;
    return stop.load(std::memory_order_relaxed) != Stop::None;
  }
};

}  // namespace npu::model

#endif  // NPU_MODEL_PACE_H
