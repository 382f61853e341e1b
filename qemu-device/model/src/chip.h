// SPDX-License-Identifier: MIT
// The chip: queues, arbiter, cores and the threads that move jobs between them.
//
// One lock guards the state of queues, arbiter and device; it is never held across a callback, a transfer or a command.
// Register accesses take it for a moment and wake threads. There is one thread a core, which also fetches and completes
// jobs, and a front-end thread that does these while all cores are busy. A job of several cores is run by the thread of
// the core that it got last; the threads of its other cores serve queues meanwhile, and further threads, one for each
// core but the first, help to compute it (crew.h).
//
// In virtual time (docs/reference/hardware.md section 8.4) there are no threads: flights take their place, runs that
// advance() carries from event to event of the board's clock (flights.cpp). The lock is then free whenever it is taken.
#ifndef NPU_MODEL_CHIP_H
#define NPU_MODEL_CHIP_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qemu-device/model/src/arbiter.h"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/board.h"
#include "qemu-device/model/src/config.h"
#include "qemu-device/model/src/core.h"
#include "qemu-device/model/src/cycles.h"
#include "qemu-device/model/src/dice.h"
#include "qemu-device/model/src/mmu.h"
#include "qemu-device/model/src/queue.h"
#include "qemu-device/model/src/sensors.h"

namespace npu::model {

class Chip {
 public:
  Chip(const Config &config, const Board &board, std::unique_ptr<Backend> backend);

  // ---- threads ----
  unsigned thread_count() const { return board_.has_clock() ? 0 : 2 * config_.cores; }
  void thread_main(unsigned index);
  void stop();
  /// While paused nothing is fetched, run or completed. pause(true) returns when all threads are at rest, after a step
  /// of a command at most.
  void pause(bool on);

  // ---- virtual time; in host time these do nothing ----
  /// Does what is due by the board's clock, and asks the board for the next time.
  void advance();
  /// Before an access to the chip: what is due has happened and is counted.
  void arrive();
  /// After an access that changes something: asks the board for the time at which that has effects.
  void expect();

  /// Virtual time: the chip's state as bytes, and back into a chip of the same configuration. An empty text: it is
  /// done, otherwise the text says why not, and a chip that was to be loaded has been reset. `more` visits what lies
  /// around the chip.
  std::string save(std::vector<uint8_t> &bytes, const std::function<void(Archive &)> &more);
  std::string load(std::span<const uint8_t> bytes, const std::function<void(Archive &)> &more);

  // ---- what the registers reach; all may be called from any thread ----
  const Config &config() const { return config_; }
  const Board &board() const { return board_; }
  Events &events() { return events_; }
  Mmu &mmu() { return mmu_; }
  const Backend &backend() const { return *backend_; }

  bool enabled() const;
  void enable(bool on);
  bool resetting() const { return resetting_.load(); }
  uint32_t status() const;
  void reset();
  void core_reset(uint32_t mask);
  uint32_t features() const { return kFeatures | (board_.has_clock() ? NPU_FEATURE_VIRTUAL_TIME : 0); }
  uint32_t core_busy() const;
  uint64_t busy_ns(unsigned core) const;
  uint64_t progress() const;
  const CoreCounters &core(unsigned index) const { return cores_[index]->counters(); }
  /// Jobs that begin from now on run under the race detector, or no longer.
  void check_races(bool on) {
    for (auto &core : cores_) core->check_races(on);
  }
  /// Brings the sensors up to date.
  Sensors &sensors();
  uint32_t ecc_corrected() const { return ecc_corrected_.load(); }
  uint32_t ecc_uncorrected() const { return ecc_uncorrected_.load(); }
  /// Sets a fault of docs/reference/hardware.md section 9, and does what it does at once.
  void set_fault(unsigned fault, uint64_t value);

  uint64_t queue_config(unsigned queue, uint64_t QueueConfig::*field) const;
  void set_queue_config(unsigned queue, uint64_t QueueConfig::*field, uint64_t value);
  bool queue_control(unsigned queue) const;
  void set_queue_control(unsigned queue, bool on);
  uint32_t queue_status(unsigned queue) const;
  uint32_t sq_head(unsigned queue) const;
  uint32_t cq_tail(unsigned queue) const;
  void abort_job(unsigned queue, uint64_t id);
  void invalidate(uint32_t asid);
  uint32_t invalidations() const;                ///< INV_ISSUED
  void submit(unsigned queue, uint32_t tail);    ///< doorbell SQ_TAIL
  void consumed(unsigned queue, uint32_t head);  ///< doorbell CQ_HEAD

 private:
  using Lock = std::unique_lock<std::mutex>;
  class Guard;
  /// What has to happen once the lock is free.
  struct Deferred {
    uint32_t wake = 0;    ///< threads
    uint32_t events = 0;  ///< EVENT_STATUS bits
    std::vector<std::pair<const char *, std::string>> news;
  };

  /// In virtual time, a job that has begun.
  struct Flight {
    Queue &queue;
    std::unique_ptr<Run> run;
    uint64_t base;  ///< the chip's cycle in which the job's cycle 0 is
    Run::State state = Run::State::Waits;
    bool fresh = true;  ///< has not had its first turn
  };

  void worker(unsigned core);
  void front_end();
  void sleep(unsigned thread, Lock &lock);
  template <class F>
  bool unlocked(Lock &lock, F f);
  void deliver(const Deferred &deferred);
  bool serve_one(unsigned thread, Lock &lock);
  bool start_job(unsigned core, Lock &lock);
  void ended(Queue &q, const JobResult &result, uint64_t cycle);
  void take_off(Queue &q, std::span<Core *const> cores);
  bool due(const Flight &flight) const;
  bool turn(Flight &flight, Lock &lock);
  bool turn_flights(Lock &lock);
  bool invalidate_one(Lock &lock);
  std::string not_to_be_saved() const;
  void visit_state(Archive &a);
  void visit_flights(Archive &a);
  uint32_t cores_of(const Queue &q) const;
  void settle(Lock &lock);
  void catch_up(Lock &lock);
  uint64_t next_event() const;
  bool could_start() const;
  void keep_clock();
  void step(Queue &q, unsigned thread, Lock &lock);
  bool complete(Queue &q, Lock &lock);
  bool fetch(Queue &q, unsigned thread, Lock &lock);
  void finish(Queue &q, const JobResult &result);
  bool owned_no_more(Queue &q);
  void list(Queue &q);
  void note_work(const Queue &q);
  void halt(Queue &q);
  void fail(Queue &q);
  void withdraw(Queue &q);
  void enable_queue(Queue &q);
  void disable_queue(Queue &q);
  void wake(unsigned thread);
  void wake_for_ready();
  uint32_t taken() const;
  void stop_job(Queue &q, Stop reason, Obeys means);
  void release_all(Obeys means);
  void throttle_event();
  uint64_t instant_ns() const;
  uint64_t busy_until(unsigned core, uint64_t ns) const;
  void finish_reset();
  void forget(Lock &lock);
  void mmu_moved(Mmu::Moved moved);
  void news(const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

  const Config config_;
  const Board board_;
  const std::unique_ptr<Backend> backend_;
  Events events_;
  Mmu mmu_;
  Sensors sensors_;
  Gate gate_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::atomic<uint32_t> ecc_corrected_{0}, ecc_uncorrected_{0};

  mutable std::mutex mutex_;            // guards all below
  std::atomic<bool> resetting_{false};  // written under the lock
  uint64_t resets_ = 0;
  bool enabled_ = false;
  bool stopping_ = false;
  bool paused_ = false;
  bool forget_ = false;  // the MMU has identities to forget
  Deferred deferred_;
  unsigned active_ = 0;  // threads that work without the lock; a reset is done when there is none
  uint32_t idle_ = 0;    // threads that sleep, a bit each
  std::vector<std::unique_ptr<Queue>> queues_;
  QueueList list_;  // queues with a step to take
  Arbiter arbiter_;
  std::vector<Queue *> running_;  // by core; a job of several cores is there for each
  /// How long a core has had jobs: those before, and since when it has the present one.
  struct Busy {
    uint64_t before_ns = 0, since_ns = 0;

    template <class A>
    void visit_state(A &a) {
      a(before_ns, since_ns);
    }
  };
  std::vector<Busy> busy_;  // by core
  std::condition_variable wake_[NPU_MAX_CORES + 1];

  std::vector<std::unique_ptr<Flight>> flights_;  // in the order in which they began
  Cycles cycles_;
  // The present cycle. In host time only the ends of jobs move it, for the arbiter.
  uint64_t cycle_ = 0;
  bool catching_up_ = false;
  Dice dice_;
  /// Invalidations that the chip has not looked at yet.
  struct Asked {
    uint64_t due;
    uint32_t asid;
    uint64_t addr, bytes;
  };
  std::deque<Asked> asked_;
};

/// An access at the chip's state: what it sets in motion happens when the lock is free again.
class Chip::Guard {
 public:
  explicit Guard(Chip &chip) : chip_(chip), lock_(chip.mutex_) {}
  ~Guard() {
    const Deferred deferred = std::exchange(chip_.deferred_, {});
    lock_.unlock();
    chip_.deliver(deferred);
  }
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;

  Lock &lock() { return lock_; }

 private:
  Chip &chip_;
  Lock lock_;
};

/// Runs f without the lock. False when the device was reset meanwhile: then queues and jobs are no longer what they
/// were.
template <class F>
bool Chip::unlocked(Lock &lock, F f) {
  const uint64_t resets = resets_;
  const Deferred deferred = std::exchange(deferred_, {});
  ++active_;
  lock.unlock();
  deliver(deferred);
  f();
  lock.lock();
  --active_;
  if (resetting_ && active_ == 0 && flights_.empty()) finish_reset();
  return resets_ == resets && !resetting_;
}

}  // namespace npu::model

#endif  // NPU_MODEL_CHIP_H
