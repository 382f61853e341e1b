// SPDX-License-Identifier: MIT
// What the files of libnpu share.
#ifndef NPU_INTERNAL_H
#define NPU_INTERNAL_H

#include <npu.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "chip_view.h"
#include "transport.h"

namespace npu {

// ---- error.cpp, log.cpp ----

/// Keeps the text for npu_last_error() of this thread, logs it at debug level, and returns error (negative).
int fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
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
  bool cached;       // mappings are copies (strict.h)
  unsigned int index;
  int pid;            // process that opened it
  unsigned int refs;  // under the registry's mutex

  std::mutex bos_mutex;
  std::map<uint64_t, npu_bo *> bos;  // by address, under bos_mutex

  std::mutex engine_mutex;
  std::unique_ptr<npu::CopyEngine> engine;  // under engine_mutex until made, then constant
  npu::CopyRates rates;
};

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
  // The memory itself, where ptr is a copy (npu_device.cached): kept for copies until the end or the seal.
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

// ---- bo.cpp ----

int bo_create(npu_device *device, uint64_t size, uint32_t flags, bool owns_device, npu_bo **bo);
/// The memory itself, where npu_bo_map() gives a copy; negative errno.
int map_uncached_locked(npu_bo *bo);
/// npu_bo_sync() for accesses through it.
int sync_uncached(npu_bo *bo, uint64_t offset, uint64_t size, uint32_t direction);

// ---- context.cpp ----

int context_create(npu_device *device, uint32_t priority, uint32_t core_mask, bool owns_device, npu_context **context);

// ---- copy_engine.cpp ----

/// The card's DMA with a pinned staging buffer. Thread-safe: one copy at a time.
class CopyEngine {
 public:
  /// Nullptr when the card has no queue or no memory for it.
  static std::unique_ptr<CopyEngine> create(npu_device *device);
  ~CopyEngine();
  CopyEngine(const CopyEngine &) = delete;
  CopyEngine &operator=(const CopyEngine &) = delete;

  int write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size);
  int read(npu_bo *bo, uint64_t offset, void *data, uint64_t size);
  int copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size);
  int fill(npu_bo *bo, uint64_t offset, uint64_t count, uint64_t value, unsigned int value_bytes);

 private:
  CopyEngine() = default;
  uint8_t *command(unsigned int slot) const;
  int run(unsigned int slot, npu_bo *dst, npu_bo *src, uint64_t *seqno);
  int finish(uint64_t seqno);
  void drain(const uint64_t *seqnos, unsigned int count, int *error);
  int submit_piece(unsigned int slot, npu_bo *bo, uint64_t offset, uint64_t size, bool to_card, uint64_t *seqno);

  std::mutex mutex_;
  npu_context *context_ = nullptr;  // all below under mutex_
  npu_bo *commands_ = nullptr;
  npu_bo *staging_ = nullptr;
  uint8_t *commands_ptr_ = nullptr;
  uint8_t *staging_ptr_ = nullptr;
};

/// The device's engine, made at the first call that can; else nullptr, the reason in npu_last_error().
CopyEngine *copy_engine(npu_device *device);

}  // namespace npu

#endif  // NPU_INTERNAL_H
