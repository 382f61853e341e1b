// SPDX-License-Identifier: MIT
// A core: local memory and two engines; and a run, which takes all streams of a job, whatever cores they are on,
// through modelled time.
#ifndef NPU_MODEL_CORE_H
#define NPU_MODEL_CORE_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "qemu-device/model/src/archive.h"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/board.h"
#include "qemu-device/model/src/config.h"
#include "qemu-device/model/src/crew.h"
#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/fiber.h"
#include "qemu-device/model/src/gdma.h"
#include "qemu-device/model/src/job.h"
#include "qemu-device/model/src/memory.h"
#include "qemu-device/model/src/mmu.h"
#include "qemu-device/model/src/pace.h"
#include "qemu-device/model/src/tiu.h"

namespace npu::model {

/// How a job ended. start_cycle (of the job's first core) and core are those of the completion entry.
struct JobResult {
  Error error;
  uint8_t core = 0xff;
  uint64_t start_cycle = 0;
  uint64_t cycles = 0;
};

/// The registers of a core. Written by its thread, read by any.
struct CoreCounters {
  std::atomic<uint64_t> busy_cycles{0};
  std::atomic<uint64_t> engine_cycles[2]{};  ///< NPU_ENGINE_
  std::atomic<uint64_t> jobs{0};
  std::atomic<uint64_t> job_id{0};
  std::atomic<uint32_t> queue{0};
  std::atomic<uint32_t> retired[2]{};
  std::atomic<uint64_t> progress{0};

  void reset();

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(busy_cycles, engine_cycles[0], engine_cycles[1], jobs, job_id, queue, retired[0], retired[1], progress);
  }
};

class Core {
 public:
  static constexpr unsigned kSlots = Memory::kSlots;

  Core(unsigned index, const Config &config, Mmu &mmu, const Board &board, Backend &backend, Gate *gate = nullptr);

  const CoreCounters &counters() const { return counters_; }
  Hang &hang() { return hang_; }
  Helper &helper() { return helper_; }
  uint64_t time_ns() const { return board_.time_ns(); }
  /// Drops cached translations. Precondition: no access is in progress.
  void evict() {
    memory_.evict();
    fetches_.evict();
  }
  /// Waits until its hang is released.
  void stand();
  /// The result of a job that the host cannot run.
  JobResult misfortune() const;
  void check_races(bool on) { check_races_.store(on, std::memory_order_relaxed); }
  /// Power-on values. Precondition: no job runs.
  void reset() { counters_.reset(); }
  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(counters_, hang_, local_);
  }

 private:
  friend class Lane;
  friend class Execution;
  friend class Run;
  friend JobResult run_job(std::span<Core *const> cores, const Job &job, unsigned queue, const std::atomic<Stop> &stop);

  void prepare(const Job &job, unsigned queue);
  void leave();

  const unsigned index_;
  const Config &config_;
  const Board &board_;
  Gate *const gate_;
  LocalMemory local_;
  Memory memory_;   ///< of commands
  Memory fetches_;  ///< of streams: commands may still be at work
  Gdma gdma_;
  Tiu tiu_;
  CoreCounters counters_;
  Fiber fibers_[2];  ///< NPU_ENGINE_
  std::atomic<bool> check_races_{false};
  Hang hang_;
  Helper helper_;
};

/// A job on its cores, from its first command to its end or until `stop` is set. Stream i of the job is for the i-th of
/// the cores, which are in order; they belong to the run while it lives. `job` and `stop` outlive it. All may throw
/// what the host's misfortunes throw; then the run can only be destroyed.
class Run {
 public:
  enum class State {
    Waits,   ///< nothing happens before next()
    Stands,  ///< still, because of a fault, until the hang of its first core is released
    Ended,
  };

  /// `watched`: somebody looks at the counters while it runs, so they include what has passed of commands in progress.
  /// It begins at `begin_ns`, by Board::time_ns().
  Run(std::span<Core *const> cores, const Job &job, unsigned queue, const std::atomic<Stop> &stop, bool watched,
      uint64_t begin_ns);
  ~Run();
  Run(const Run &) = delete;
  Run &operator=(const Run &) = delete;

  /// Ends and begins all commands that may at now().
  State turn();
  /// Precondition: the last turn() said Stands. Would the next one say so, too?
  bool stands() const;
  /// Cycles since the job began.
  uint64_t now() const;
  /// When the next command ends, goes over from its fixed part to its flow, or takes its next step. Precondition: the
  /// last turn() said Waits.
  uint64_t next() const;
  /// Lets time pass, up to next() at most.
  void advance_to(uint64_t cycle);
  /// Brings the counters up to now().
  void account();
  /// For an archive. To be loaded into a run that has just been made, for the same job on the same cores.
  void visit_state(Archive &a);
  /// Does what is to be done after the last turn(), which said Ended: at `end_ns`.
  JobResult finish(uint64_t end_ns);

 private:
  const std::vector<Core *> cores_;
  std::unique_ptr<class Execution> execution_;
};

/// Takes a run to its end.
JobResult run_job(std::span<Core *const> cores, const Job &job, unsigned queue, const std::atomic<Stop> &stop);

/// Called by a comparing back end, on the core's thread, when two back ends disagree: the command then fails with
/// INTERNAL.
void report_mismatch(const char *text);

}  // namespace npu::model

#endif  // NPU_MODEL_CORE_H
