// SPDX-License-Identifier: MIT
// A queue pair: its registers, the job it has in hand, and the transfers between it and system memory.
// docs/reference/hardware.md section 4.
#ifndef NPU_MODEL_QUEUE_H
#define NPU_MODEL_QUEUE_H

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "qemu-device/model/src/board.h"
#include "qemu-device/model/src/config.h"
#include "qemu-device/model/src/core.h"
#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/job.h"

namespace npu::model {

/// The registers that software may write while the queue is off, under their register names.
struct QueueConfig {
  uint64_t sq_base = 0, cq_base = 0, fence_addr = 0;
  uint64_t sq_log2 = 0, cq_log2 = 0, asid = 0, priority = 0, core_mask = 0, vector = 0;

  bool legal(const Config &config) const;
};

/// A queue has one job in hand. Its phase says who owns job and result: in Fetching, Running and Completing the one
/// thread that is at it, without a lock; in the others nobody. All fields but these two, and the phase itself, are
/// guarded by the chip's lock; `config` changes only while the queue is off.
struct Queue {
  enum class Phase {
    Idle,        ///< no job
    Fetching,    ///< a thread reads submission entry and descriptor
    Ready,       ///< the arbiter has it
    Running,     ///< a core has it
    Done,        ///< the completion waits for room in its ring or for a thread
    Completing,  ///< a thread writes completion and fence
    Telling,     ///< a part of the completion is out, the next is not due yet
  };
  enum class Fetched { Job, Bad, RingError };

  explicit Queue(unsigned number) : index(number) {}

  const unsigned index;
  QueueConfig config;
  bool control = false;    ///< CTRL.ENABLE as written
  bool enabled = false;    ///< STATUS.ENABLED
  bool disabling = false;  ///< waits for the thread that owns the job
  bool error = false;      ///< STATUS.ERROR
  bool listed = false;     ///< waits for a thread to take its next step
  Queue *next = nullptr;   ///< in the list of those
  Phase phase = Phase::Idle;
  uint32_t sq_head = 0, sq_tail = 0;
  uint32_t cq_head = 0, cq_tail = 0;
  uint32_t pass = 1;      ///< phase bit of the entries written now
  uint64_t errors = 0;    ///< for the fence
  uint64_t abort_id = 0;  ///< ABORT_JOB written while fetching
  uint64_t due = 0;       ///< virtual time: the cycle of the next step, while it is listed
  unsigned told = 0;      ///< parts of the completion that are out
  Job job;
  JobResult result;
  uint32_t cores = 0;      ///< that the job has, or had
  bool interrupt = false;  ///< the completion raises the vector
  std::atomic<Stop> stop{Stop::None};

  uint32_t sq_size() const { return 1u << config.sq_log2; }
  uint32_t cq_size() const { return 1u << config.cq_log2; }
  bool cq_full() const { return ((cq_tail + 1) & (cq_size() - 1)) == cq_head; }
  bool begun() const { return phase >= Phase::Running; }
  uint32_t status() const;
  /// Is there a step that a thread could take now?
  bool can_step() const;
  /// A job in hand that makes progress, or an entry to fetch.
  bool has_work() const;

  void power_on();
  void start();    ///< enable: empty rings, phase 1
  void halt();     ///< off; the configuration stays
  void advance();  ///< the completion was written
  /// Asks the running job to end; the strongest reason counts.
  void request_stop(Stop reason);

  /// Reads the next entry and its descriptor into `job`; for Bad, `result` says what is wrong with them.
  Fetched fetch(const Board &board);
  /// Parts of a completion: entry, fence page, interrupt.
  static constexpr unsigned kParts = 3;
  /// Makes a part of the completion of `result` known. False on a bus error.
  bool tell(const Board &board, unsigned part);

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(config, control, enabled, disabling, error, phase, sq_head, sq_tail, cq_head, cq_tail, pass, errors, abort_id);
    a(due, told, job, result, cores, interrupt, stop);
  }

 private:
  npu_cqe completion() const;
  bool write_entry(const Board &board) const;
  bool write_fence(const Board &board) const;
};

/// Queues in the order of their arrival, each at most once.
class QueueList {
 public:
  bool empty() const { return !first_; }
  void push(Queue &q) {
    q.next = nullptr;
    (first_ ? last_->next : first_) = &q;
    last_ = &q;
  }
  /// Takes out the first one that is due by then; nullptr: none is.
  Queue *pop(uint64_t cycle) {
    Queue *before = nullptr, *q = first_;
    while (q && q->due > cycle) q = (before = q)->next;
    if (!q) return nullptr;
    (before ? before->next : first_) = q->next;
    if (last_ == q) last_ = before;
    return q;
  }
  /// When the next one is due; UINT64_MAX: none is listed.
  uint64_t due() const {
    uint64_t cycle = UINT64_MAX;
    for (const Queue *q = first_; q; q = q->next) cycle = std::min(cycle, q->due);
    return cycle;
  }
  void clear() { first_ = nullptr; }
  template <class F>
  void for_each(F f) const {
    for (const Queue *q = first_; q; q = q->next) f(*q);
  }

 private:
  Queue *first_ = nullptr, *last_ = nullptr;
};

}  // namespace npu::model

#endif  // NPU_MODEL_QUEUE_H
