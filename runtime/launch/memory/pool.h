// SPDX-License-Identifier: MIT
// Activation memory of one network: what a launch needs for itself until its job is finished.
#ifndef NPURT_POOL_H
#define NPURT_POOL_H

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/launch/memory/shared_scratch.h"

namespace npurt {

/// Buffers that one launch uses: activation memory, stages for outputs that share memory with an input that is still
/// needed, and inputs and outputs in the program's store mode where the launch has another.
struct Scratch {
  Bo ctx;                        ///< null when the network needs none
  uint64_t ctx_offset = 0;       ///< where it begins in that buffer
  std::vector<Bo> staging;       ///< one an output, null until needed
  std::vector<Bo> converted[2];  ///< of inputs, of outputs; null, or not there, until needed
};

/// Thread-safe. A scratch comes back when the fence of its job signals, not when someone synchronises: it is taken
/// again as soon as its job is finished. Memory of the program's is preferred to memory of its own.
class Pool {
 public:
  Pool(npu_device *device, uint64_t ctx_bytes, size_t outputs);
  /// Waits for all jobs.
  ~Pool();

  /// One of its scratches may have this memory of the program's, which is large enough, while no other launch has it.
  void use_shared(std::shared_ptr<SharedScratch> shared);
  uint64_t ctx_bytes() const { return ctx_bytes_; }
  /// What is idle beyond the limit is freed.
  void set_limit(int limit);
  /// Sees to it that there is a scratch, so that the first launch need not make one.
  Status reserve();
  /// Fills in a scratch that the caller keeps: it is none of the pool's.
  Status make(Scratch &scratch) const;
  /// Frees every scratch that no job uses. Returns whether there was one.
  bool trim();
  /// Finds a finished scratch, or makes one, or waits for the oldest job when `limit` are in use or memory is short;
  /// short memory is first taken from what is idle in other pools.
  Status acquire(Scratch **scratch);
  /// The scratch is used by job `seqno` of `context` from now on; context null: it is free at once.
  void release(Scratch *scratch, npu_context *context, uint64_t seqno);

 private:
  struct Entry {
    Scratch scratch;
    std::shared_ptr<SharedScratch> shared;  ///< whose memory it is; null: the pool's own
    npu_context *context = nullptr;         ///< job that uses it; null: none
    uint64_t seqno = 0;
    uint64_t order = 0;
    bool taken = false;  ///< between acquire and release
  };
  void look_for_finished();
  bool free_idle(size_t keep);
  bool trim_others() const;
  bool try_acquire(Scratch **scratch);
  size_t in_use() const;
  void wait_for_any(std::unique_lock<std::mutex> &lock);
  Status make(Scratch &scratch, bool &short_of_memory) const;
  Status create(Scratch **scratch, bool &short_of_memory);

  npu_device *device_;
  const uint64_t ctx_bytes_;
  const size_t outputs_;
  std::mutex mutex_;                  // guards what follows
  std::condition_variable released_;  // a release() happened
  std::vector<std::unique_ptr<Entry>> entries_;
  size_t limit_ = 16;
  uint64_t order_ = 0;
};

}  // namespace npurt

#endif  // NPURT_POOL_H
