// SPDX-License-Identifier: MIT
// What stands behind a bm_handle_t.
#ifndef NPU_BMLIB_HANDLE_H
#define NPU_BMLIB_HANDLE_H

#include <npu_bm_internal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace npu::bm {

/// A mapping that a program got, with a reference of the buffer.
struct Mapping {
  npu_bo *bo;
  uint64_t size;    // of the descriptor
  uint64_t offset;  // of its first byte in the buffer
  bool cached;
};
void unmap(const Mapping &mapping);

/// A device of this process: what all its handles share.
class Device {
 public:
  /// Takes over one reference of the device.
  explicit Device(npu_device *device) : device_(device) {}
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  npu_device *device() const { return device_; }
  /// The process that opened it.
  int pid() const { return pid_; }

  /// Remembers an allocation and owns its buffer from now on.
  void add(npu_bo *bo);
  /// Gives up the allocation that begins at the address; nullptr if there is none.
  npu_bo *remove(uint64_t address);
  void add_mapping(void *ptr, const Mapping &mapping);
  bool remove_mapping(void *ptr, Mapping *mapping);
  /// The device address behind an address in a mapping.
  bool find_mapped(const void *ptr, uint64_t *address);

 private:
  npu_device *device_;
  const int pid_ = getpid();
  std::mutex mutex_;
  std::map<uint64_t, npu_bo *> allocations_;       // under mutex_
  std::multimap<const void *, Mapping> mappings_;  // under mutex_
};

/// What bm_get_profile() tells about a handle.
struct Profile {
  struct Copies {
    const char *name;    ///< in traces
    const int cdma_dir;  ///< in traces of BMLIB
    std::atomic<uint64_t> ns{0}, count{0};
  };
  Copies to_device{"copy to device", 0}, from_device{"copy from device", 1};
  std::atomic<uint64_t> sent{0}, completed{0}, cycles{0};
};

/// Tells npu_bm_set_trace()'s function, if there is one, about a call: from construction to the end of the scope.
class TracedCall {
 public:
  explicit TracedCall(const char *name);
  ~TracedCall();
  TracedCall(const TracedCall &) = delete;
  TracedCall &operator=(const TracedCall &) = delete;

 private:
  const char *const name_;
  const int64_t begin_;  // 0: nobody traces
};

class Handle;

/// Counts a copy and the time until the end of its scope.
class Timer {
 public:
  Timer(Handle &handle, Profile::Copies &copies);
  ~Timer();
  Timer(const Timer &) = delete;
  Timer &operator=(const Timer &) = delete;

 private:
  Handle &handle_;
  Profile::Copies &copies_;
  const TracedCall traced_;
  const int64_t start_;
};

/// One recorded launch. Whoever takes it out of its thread's list deals with its end.
struct Launch {
  npu_context *context;
  uint64_t seqno;
  uint64_t order;  // of all launches of the handle
  void (*release)(void *arg);
  void *arg;
  int64_t sent_ns;
};

/// What one thread launched on one handle.
struct Thread {
  npu_context *context = nullptr;
  size_t context_index = 0;
  std::deque<std::shared_ptr<Launch>> pending;
  int error = 0;             // first one that bm_thread_sync() has not reported yet
  std::string text;          // of that error
  bool told_others = false;  // bm_handle_sync() has reported it
  bool has_last = false;     // a launch has completed whose cycles are known:
  uint64_t last_cycles = 0;
  bool traced = false;
  std::deque<bm_trace_item_data> trace;
};

class Handle : public std::enable_shared_from_this<Handle> {
 public:
  Handle(std::shared_ptr<Device> device, int devid, uint64_t id) : device_(std::move(device)), devid_(devid), id_(id) {}
  /// Nobody uses it any more and every launch is finished.
  ~Handle();
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;

  Device &device() const { return *device_; }
  npu_device *npu() const { return device_->device(); }
  int devid() const { return devid_; }
  uint64_t id() const { return id_; }
  std::atomic<int> timeout_ms{0};
  Profile profile;
  std::mutex asked_mutex;
  drm_npu_status_info asked{};  ///< what bm_get_stat() saw last; under asked_mutex

  int thread_context(npu_context **context);
  int record(npu_context *context, uint64_t seqno, void (*release)(void *arg), void *arg);
  int reap(bool wait);
  /// Negative errno with npu_last_error().
  int sync_thread();
  int sync_all();
  void thread_gone(uint64_t thread);
  /// Cycles of the calling thread's last completed launch; false: there is none.
  bool last_cycles(uint64_t *cycles);

  // ---- the calling thread's trace ----
  void trace(bool on);
  void trace_copy(int cdma_dir, int64_t begin_ns, int64_t end_ns);
  size_t trace_size();
  /// Takes the `count` oldest records, or as many as there are; returns how many.
  size_t take_trace(bm_trace_item_data *items, size_t count);

 private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr size_t kMaxContexts = 8;
  static constexpr size_t kMaxTrace = 65536;
  static constexpr size_t kPrune = 32;  // launches without a sync, after which record() looks for finished ones

  Thread &mine();
  int assign_context(Thread &thread);
  int64_t deadline() const;
  /// Waits for a launch of `thread`; 0 (finished, whoever noticed), or -ETIME. Lock released meanwhile.
  int complete(Lock &lock, uint64_t thread, const std::shared_ptr<Launch> &launch, int64_t timeout_ns);
  int drain(Lock &lock, uint64_t thread, int64_t deadline);

  std::shared_ptr<Device> device_;
  const int devid_;
  const uint64_t id_;
  std::mutex mutex_;
  std::vector<npu_context *> contexts_;      // under mutex_
  std::vector<unsigned int> context_users_;  // threads of each, under mutex_
  std::atomic<bool> traced_{false};          // some thread has been traced: untraced programs take no lock for it
  std::map<uint64_t, Thread> threads_;       // by thread number, under mutex_; number 0: threads that have ended
  uint64_t next_order_ = 0;                  // under mutex_
};

/// A handle that bm_dev_request() gave and nobody freed; nullptr with npu_last_error() for anything else.
std::shared_ptr<Handle> find(bm_handle_t handle);
/// Also a freed one that is still referenced.
std::shared_ptr<Handle> find_referenced(bm_handle_t handle);

/// All handles of a device, freed ones only while they are referenced.
std::vector<std::shared_ptr<Handle>> handles_of(const Device &device);

/// Sets npu_last_error() of the thread.
int fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// BM_SUCCESS when the handle's card has such a core; else the error, logged.
bm_status_t check_core(const char *where, bm_handle_t handle, int core_id);

/// npu_bm_status(-EINVAL) for what find() did not find.
bm_status_t bad_handle(const char *where);

}  // namespace npu::bm

#endif  // NPU_BMLIB_HANDLE_H
