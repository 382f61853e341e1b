// SPDX-License-Identifier: MIT
// The user-space driver: one open device file over a chip of its own. It keeps the promises of uapi/drm/npu_accel.h;
// what differs is only that there is no kernel to protect the process from itself.
#ifndef NPU_SIM_FILE_H
#define NPU_SIM_FILE_H

#include <npu_accel.h>
#include <npu_isa.h>
#include <npu_regs.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libnpu/sim/address_space.h"
#include "libnpu/sim/chip.h"
#include "libnpu/sim/memory.h"
#include "libnpu/sim/ranges.h"
#include "libnpu/src/transport.h"

namespace npu::sim {

constexpr uint32_t kMaxInFlight = 64;         // jobs of a context
constexpr uint32_t kRingLog2 = 7;             // more entries than jobs in flight, so that no ring is ever full
constexpr uint32_t kResults = 256;            // jobs of a context whose end is remembered
constexpr uint64_t kDefaultBudgetMs = 10000;  // modelled time of jobs that name no budget, as the driver has it

class File;

/// A buffer. It lives until its handle is closed and no unfinished job uses it.
struct Bo {
  explicit Bo(File &owner) : file(owner) {}
  ~Bo();
  Bo(const Bo &) = delete;
  Bo &operator=(const Bo &) = delete;

  bool card() const { return flags & DRM_NPU_BO_CARD; }

  File &file;
  uint32_t flags = 0;
  bool sealed = false;
  uint64_t size = 0;
  uint64_t va = 0;          // 0: none taken
  bool mapped = false;      // page tables have it
  uint64_t ddr_offset = 0;  // card only
  bool in_ddr = false;
  std::unique_ptr<Memory> memory;  // system only
  uint64_t bus = 0;
  std::map<void *, uint64_t> mappings;  // of the program: address -> bytes
  // Unfinished jobs that use it, for implicit fences: (context id, seqno) -> writes.
  std::map<std::pair<uint32_t, uint64_t>, bool> users;
};

struct Context;

struct Dependency {
  std::shared_ptr<Context> context;
  uint64_t seqno;
  bool pass_error;  // of in_syncs; implicit fences only order
};

struct Job {
  uint64_t seqno = 0;
  bool implicit = true;  // ordered by its buffers, too
  std::vector<Dependency> dependencies;
  std::vector<std::pair<std::shared_ptr<Bo>, bool>> bos;  // with "writes"
  // The descriptor, as it goes into the ring.
  npu_job header{};
  std::vector<npu_stream> streams;
  std::vector<npu_region> regions;
};

/// How a job ended.
struct Result {
  uint64_t seqno = 0;
  uint64_t cycles = 0;
  int32_t error = 0;
  drm_npu_fault fault{};
};

/// What a context shares with the chip.
struct Ring {
  struct Slot {
    uint8_t descriptor[64 + 32 + NPU_MAX_REGIONS * 32];
    uint8_t pad[32];
  };
  alignas(64) npu_fence fence;
  uint8_t rest_of_page[kPage - sizeof(npu_fence)];
  npu_sqe sq[1u << kRingLog2];
  npu_cqe cq[1u << kRingLog2];
  Slot slots[1u << kRingLog2];
};
static_assert(sizeof(Ring::Slot) % 64 == 0 && sizeof(npu_job) == 64 && sizeof(npu_stream) == 32 &&
              sizeof(npu_region) == 32);

struct Context {
  uint32_t id = 0;
  uint32_t queue = 0;
  uint32_t core_mask = 0;
  bool closing = false;
  std::unique_ptr<Memory> memory;
  uint64_t bus = 0;
  const void *fence_page = nullptr;
  uint32_t sq_tail = 0;
  uint32_t cq_head = 0;
  uint32_t phase = NPU_CQE_PHASE;
  std::deque<std::shared_ptr<Job>> pending;  // not yet in the ring
  std::deque<std::shared_ptr<Job>> running;  // in the ring
  uint64_t submitted = 0;
  uint64_t completed = 0;
  uint64_t errors = 0;
  uint64_t victims = 0;
  drm_npu_fault fault{};
  std::array<Result, kResults> results{};

  Ring &ring() const { return *reinterpret_cast<Ring *>(memory->data()); }
  uint64_t unfinished() const { return submitted - completed; }
  /// Nullptr: forgotten.
  const Result *result(uint64_t seqno) const {
    const Result &r = results[seqno % kResults];
    return r.seqno == seqno ? &r : nullptr;
  }
};

/// All functions are the ioctls of the same names and may be called by any thread.
class File {
 public:
  /// Card number `index`.
  static Status open(const Options &options, unsigned int index, std::unique_ptr<File> &out);
  ~File();
  /// The process ends: threads are stopped, every unfinished job ends with -ENODEV, later calls fail with it.
  void die();
  /// The process that opened it.
  int pid() const { return pid_; }

  int dev_query(drm_npu_dev_query &args);
  int bo_create(drm_npu_bo_create &args);
  int bo_close(uint32_t handle);
  int bo_info(drm_npu_bo_info &args);
  int bo_map(uint32_t handle, uint64_t size, void **ptr);
  void bo_unmap(uint32_t handle, void *ptr, uint64_t size);
  int bo_sync(const drm_npu_bo_sync &args);
  int bo_seal(const drm_npu_bo_seal &args);
  int bo_wait(const drm_npu_bo_wait &args);
  int ctx_create(drm_npu_ctx_create &args, npu_transport_context &out);
  int ctx_destroy(uint32_t id);
  int ctx_query(drm_npu_ctx_query &args);
  int submit(drm_npu_submit &args);
  int wait(drm_npu_wait &args);

 private:
  friend struct Bo;
  using Lock = std::unique_lock<std::mutex>;

  File() = default;
  Status init();

  // All below: mutex_ held.
  void dev_info(drm_npu_dev_info &info);
  void memory_info(drm_npu_memory_info &info);
  void status_info(drm_npu_status_info &info);
  void time_info(drm_npu_time_info &info);

  std::shared_ptr<Bo> find_bo(uint32_t handle) const;
  std::shared_ptr<Context> find_context(uint32_t id) const;
  int place(Bo &bo);
  int map_into_chip(Bo &bo);

  int init_context(Context &context, const drm_npu_ctx_create &args);
  void release_context(Context &context);

  // submit.cpp
  int check_job(const Context &context, const drm_npu_job &args, Job &job);
  int add_dependencies(const std::shared_ptr<Context> &context, const drm_npu_job &args, Job &job);
  void enqueue(const std::shared_ptr<Context> &context, std::shared_ptr<Job> job);

  // run.cpp
  void on_interrupt();
  void progress();
  bool take_completions(Context &context);
  bool start_jobs(Context &context);
  void push(Context &context, const std::shared_ptr<Job> &job);
  void finish(Context &context, const std::shared_ptr<Job> &job, const Result &result);

  std::mutex mutex_;
  std::condition_variable changed_;  // a job finished, or a context is closing
  std::unique_ptr<Chip> chip_;
  bool dead_ = false;
  const int pid_ = getpid();
  uint32_t asid_ = 0;
  std::unique_ptr<Ranges> table_space_;
  std::unique_ptr<Ranges> ddr_space_;
  uint64_t va_start_ = 0;  // constant, as va_end_
  uint64_t va_end_ = 0;
  std::unique_ptr<Ranges> va_space_;
  std::unique_ptr<AddressSpace> space_;
  uint64_t asid_table_ = 0;
  uint64_t card_total_ = 0;
  uint64_t card_used_ = 0;
  uint64_t system_used_ = 0;
  uint32_t next_handle_ = 1;
  uint32_t next_context_ = 1;
  std::map<uint32_t, std::shared_ptr<Bo>> bos_;
  std::map<uint32_t, std::shared_ptr<Context>> contexts_;
  std::vector<bool> queue_taken_;
};

}  // namespace npu::sim

struct npu_transport_file {
  std::unique_ptr<npu::sim::File> file;
};

#endif  // NPU_SIM_FILE_H
