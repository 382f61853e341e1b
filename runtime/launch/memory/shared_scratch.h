// SPDX-License-Identifier: MIT
// Activation memory that the program gives. All stages of all networks may use it, a launch at a time.
#ifndef NPURT_SHARED_SCRATCH_H
#define NPURT_SHARED_SCRATCH_H

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/launch/error.h"
#include "runtime/launch/memory/handles.h"

namespace npurt {

/// Thread-safe. It keeps the buffer; contents and address are the program's business.
class SharedScratch {
 public:
  /// The one for this memory: two that begin at the same byte are one, so that launches of everybody who was given it
  /// take turns. What overlaps otherwise is refused.
  static Status of(Bo bo, uint64_t offset, uint64_t bytes, std::shared_ptr<SharedScratch> &out);

  SharedScratch(Bo bo, uint64_t offset, uint64_t bytes) : bo_(std::move(bo)), offset_(offset), bytes_(bytes) {}

  npu_bo *bo() const { return bo_.get(); }
  uint64_t offset() const { return offset_; }

  /// False while a launch has it.
  bool try_take();
  /// Whoever took it gives it back: `owner` used it for job `seqno` of `context`, or (null) for none.
  void give_back(const void *owner, npu_context *context, uint64_t seqno);
  /// Until no launch has it; by then another may.
  void wait();
  /// The owner's contexts go; waits for its job.
  void forget(const void *owner);

 private:
  void wait_for_job();

  const Bo bo_;
  const uint64_t offset_;
  uint64_t bytes_;    // of the largest that was given; guarded by the list of all
  std::mutex mutex_;  // guards what follows; held while a job is waited for
  std::condition_variable given_back_;
  bool taken_ = false;
  const void *owner_ = nullptr;  // of the last job
  npu_context *context_ = nullptr;
  uint64_t seqno_ = 0;
};

}  // namespace npurt

#endif  // NPURT_SHARED_SCRATCH_H
