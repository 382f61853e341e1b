// SPDX-License-Identifier: MIT
// What the files of libnpu share.
#ifndef NPU_INTERNAL_H
#define NPU_INTERNAL_H

#include <npu.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "libnpu/src/chip_view.h"
#include "libnpu/src/submission.h"
#include "libnpu/src/transport.h"

namespace npu {

// ---- error.cpp, log.cpp ----

/// Keeps the text for npu_last_error() of this thread, logs it at debug level, and returns error (negative).
int fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
void log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/// A line for whoever asked for it by other means than the log's level.
void tell(int level, const char *text);
/// "412.5 MiB"
std::string bytes_text(uint64_t bytes);

// ---- time ----

int64_t now_ns();
/// Relative, negative for ever, to absolute as the ioctls take it.
int64_t deadline_of(int64_t timeout_ns);

class AsyncQueue;
class CopyEngine;

/// Which way large copies go: measured, each direction on its own, and measured again every now and then.
class CopyRates {
 public:
  enum Direction { kWrite, kRead };
  /// True: this copy measures both ways.
  bool due(Direction direction) { return copies_[direction].fetch_add(1, std::memory_order_relaxed) % kEvery == 0; }
  void measured(Direction direction, int64_t dma_ns, int64_t map_ns) {
    // A tie goes to the card: it leaves the CPU free.
    map_faster_[direction].store(map_ns + map_ns / 4 < dma_ns, std::memory_order_relaxed);
  }
  bool map_faster(Direction direction) const { return map_faster_[direction].load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned int kEvery = 64;
  std::atomic<unsigned int> copies_[2] = {};
  std::atomic<bool> map_faster_[2] = {};
};

}  // namespace npu

/// One device file. Lives while somebody has it open or holds a buffer or context of it.
struct npu_device {
  const npu_transport *transport;
  npu_transport_file *file;
  const char *name;  // of the transport that reaches the chip
  bool checked;      // flushes and invalidations of mappings are (strict.h)
  bool own_memory;   // it has card memory; else its buffers are system memory
  bool coherent;  // the chip sees the CPU's caches; else mappings need maintenance, and there are such without a cache
  unsigned int index;
  int pid;            // process that opened it
  unsigned int refs;  // under the registry's mutex

  std::mutex bos_mutex;
  std::map<uint64_t, npu_bo *> bos;  // by address, under bos_mutex

  std::mutex engine_mutex;
  std::unique_ptr<npu::CopyEngine> engine;  // under engine_mutex until made, then constant
  npu::CopyRates rates;
};

namespace npu {

/// One of the driver's calls: 0 or a negative errno.
inline int call(const npu_device *device, unsigned long request, void *args) {
  return device->transport->ioctl(device->file, request, args);
}

}  // namespace npu

struct npu_bo {
  npu_device *device;
  bool owns_device;  // false for buffers that belong to the device itself
  std::atomic<unsigned int> refs;
  uint32_t handle;
  uint32_t flags;
  uint64_t size;
  uint64_t va;
  uint64_t mmap_offset;

  // Shared: somebody accesses memory through the mapping. Unique: the mapping or `sealed` changes.
  std::shared_mutex map_mutex;
  void *ptr;          // under map_mutex
  unsigned int maps;  // npu_bo_map() calls not yet undone, under map_mutex
  // Mapped past the caches, where the chip does not see them or flushes are checked (npu_device.checked): kept until
  // the end or the seal.
  void *uncached;              // under map_mutex
  unsigned int uncached_maps;  // under map_mutex
  bool kept;                   // the mapping is also kept for small copies, under map_mutex
  bool sealed;                 // under map_mutex
};

struct npu_context {
  npu_device *device;
  bool owns_device;
  npu_transport_context link;
  std::mutex submit_mutex;
  npu::Submission submission;       // of npu_submit(), under submit_mutex; stays for its memory
  std::atomic<uint64_t> submitted;  // last job's number, written under submit_mutex
  /// Jobs that were ever handed to the driver, including the ones of a call in progress: never below the number of any
  /// existing job.
  std::atomic<uint64_t> announced;
  /// Jobs that were cancelled at submission because an in-fence had already failed: they went to the card empty, to
  /// keep their place in the order. The last ones only.
  std::mutex cancelled_mutex;
  std::set<uint64_t> cancelled;  // under cancelled_mutex

  /// Queues that have launched here. One at a time has unfinished launches; nobody else submits meanwhile.
  std::vector<std::shared_ptr<npu::AsyncQueue>> async_queues;  // under submit_mutex
  std::atomic<uint64_t> async_launches;                        // leaves 0 under submit_mutex
};

namespace npu {

// ---- device.cpp ----

void device_unref(npu_device *device);
/// Number of the open device, other than this one, with a buffer at the address; negative: there is none.
int device_with(uint64_t address, const npu_device *but);

// ---- bo.cpp ----

int bo_create(npu_device *device, uint64_t size, uint32_t flags, bool owns_device, npu_bo **bo);
/// Until no unfinished job uses the buffer, or, with DRM_NPU_BO_WAIT_WRITERS, none writes it.
int bo_wait(npu_bo *bo, uint32_t flags, int64_t timeout_ns);
/// Maps bo->uncached; negative errno.
int map_uncached_locked(npu_bo *bo);
/// A write through bo->uncached of a checked device begins; sync_uncached() of the same extent ends it.
void begin_uncached(npu_bo *bo, uint64_t offset, uint64_t size);
/// npu_bo_sync() for accesses through it.
int sync_uncached(npu_bo *bo, uint64_t offset, uint64_t size, uint32_t direction);

// ---- context.cpp ----

int context_create(npu_device *device, uint32_t priority, uint32_t core_mask, bool owns_device, npu_context **context);

// ---- copy_engine.cpp ----

/// One way to the card's DMA: a context, and a pinned staging buffer. One copy at a time. The jobs do not wait for
/// those of others: what a copy has to wait for it waits for before it takes a lane.
class CopyLane {
 public:
  /// Nullptr when the card has no queue or no memory for it.
  static std::unique_ptr<CopyLane> create(npu_device *device);
  ~CopyLane();
  CopyLane(const CopyLane &) = delete;
  CopyLane &operator=(const CopyLane &) = delete;

  int write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size);
  int read(npu_bo *bo, uint64_t offset, void *data, uint64_t size);
  int copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size);
  int fill(npu_bo *bo, uint64_t offset, uint64_t count, uint64_t value, unsigned int value_bytes);

 private:
  CopyLane() = default;
  uint8_t *command(unsigned int half) const;
  int run(unsigned int half, npu_bo *dst, npu_bo *src, uint64_t *seqno);
  int finish(uint64_t seqno);
  void drain(const uint64_t *seqnos, unsigned int count, int *error);
  int submit_piece(unsigned int half, npu_bo *bo, uint64_t offset, uint64_t size, bool to_card, uint64_t *seqno);

  npu_context *context_ = nullptr;
  npu_bo *commands_ = nullptr;
  npu_bo *staging_ = nullptr;
  uint8_t *commands_ptr_ = nullptr;
  uint8_t *staging_ptr_ = nullptr;
};

/// Copies by the card's DMA, of any threads at once. A copy first waits for the jobs that were submitted before it and
/// use its buffers; then it takes a lane. Lanes are made as they are needed, up to kLanes; who finds none waits in
/// line.
class CopyEngine {
 public:
  /// Nullptr when the card has no queue or no memory for it.
  static std::unique_ptr<CopyEngine> create(npu_device *device);

  int write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size);
  int read(npu_bo *bo, uint64_t offset, void *data, uint64_t size);
  int copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size);
  int fill(npu_bo *bo, uint64_t offset, uint64_t count, uint64_t value, unsigned int value_bytes);

 private:
  static constexpr size_t kLanes = 4;
  class Lease;

  explicit CopyEngine(npu_device *device) : device_(device) {}
  CopyLane *take();
  void give_back(CopyLane *lane);

  npu_device *const device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ticket_ = 0;                      // under mutex_
  uint64_t serving_ = 0;                          // the ticket whose turn it is, under mutex_
  bool full_ = false;                             // the card has nothing for another lane, under mutex_
  std::vector<std::unique_ptr<CopyLane>> lanes_;  // under mutex_
  std::vector<CopyLane *> free_;                  // under mutex_
};

/// The device's engine, made at the first call that can; else nullptr, the reason in npu_last_error().
CopyEngine *copy_engine(npu_device *device);

}  // namespace npu

#endif  // NPU_INTERNAL_H
