// SPDX-License-Identifier: MIT
// Launches by the driver's io_uring command (docs/reference/uapi.md, "io_uring"). One submission a call: whether a
// launch has its number decides whether the next one may follow.
#include <liburing.h>
#include <time.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "libnpu/src/async.h"
#include "libnpu/src/internal.h"

namespace npu {
namespace {

// Entries of the submission ring are taken at once; those of the completion ring bound what the driver has at a time,
// so that it never overflows: as many as 64 contexts can have unfinished.
constexpr unsigned int kSubmissions = 8;
constexpr unsigned int kCompletions = 4096;
constexpr int64_t kCancelEveryNs = 10000000;

class AsyncUring : public AsyncBackend {
 public:
  explicit AsyncUring(AsyncQueue &queue) : queue_(queue) {}
  ~AsyncUring() override;
  /// False with a sentence.
  Status open();

  const char *name() const override { return "io_uring"; }
  void start(AsyncLaunch &launch) override;
  void reap() override;
  bool full() const override { return in_driver_ >= *ring_.cq.kring_entries; }
  bool start_without_room(const std::shared_ptr<AsyncSeat> &, uint64_t) override { return true; }
  void stop(AsyncLaunch *const &unknown, std::unique_lock<std::mutex> &lock) override;

 private:
  Status driver_takes_commands();
  io_uring_sqe *command(const drm_npu_uring_submit &entry, void *data);
  int push(io_uring_sqe *sqe);
  void wait_for_completion();

  AsyncQueue &queue_;
  io_uring ring_{};
  bool is_open_ = false;
  int node_ = -1;
  unsigned int in_driver_ = 0;
};

AsyncUring::~AsyncUring() {
  if (is_open_) io_uring_queue_exit(&ring_);
}

Status AsyncUring::open() {
  const npu_device *const device = queue_.device();
  if (!device->transport->node)
    return Status::error(device->checked ? "NPU_CACHE=strict looks at every job that is submitted"
                                         : std::string("the transport ") + device->name + " has no kernel behind it");
  node_ = device->transport->node(device->file);
  io_uring_params params{};
  params.flags = IORING_SETUP_CQSIZE;
  params.cq_entries = kCompletions;
  if (int err = io_uring_queue_init_params(kSubmissions, &ring_, &params))
    return Status::error(err, std::string("no ring: ") + strerror(-err));
  is_open_ = true;
  NPU_TRY(driver_takes_commands());
  if (int err = io_uring_register_eventfd(&ring_, queue_.event()))
    return Status::error(err, std::string("no eventfd for the ring: ") + strerror(-err));
  return {};
}

/// Asks with a command that the driver refuses, but in its own way.
Status AsyncUring::driver_takes_commands() {
  io_uring_probe *const probe = io_uring_get_probe_ring(&ring_);
  const bool known = probe && io_uring_opcode_supported(probe, IORING_OP_URING_CMD);
  io_uring_free_probe(probe);
  if (!known) return Status::error("the kernel has no commands of drivers (IORING_OP_URING_CMD)");
  drm_npu_uring_submit wrong{};
  wrong.pad = 1;
  int result = push(command(wrong, nullptr));
  io_uring_cqe *cqe = nullptr;
  if (!result) result = io_uring_wait_cqe(&ring_, &cqe);
  if (!result) {
    result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
  }
  if (result == -EINVAL) return {};
  return Status::error(std::string("the driver does not take them: ") + strerror(-result));
}

io_uring_sqe *AsyncUring::command(const drm_npu_uring_submit &entry, void *data) {
  static_assert(offsetof(io_uring_sqe, cmd) + sizeof(entry) <= sizeof(io_uring_sqe), "fits a ring of small entries");
  io_uring_sqe *const sqe = io_uring_get_sqe(&ring_);
  if (!sqe) return nullptr;
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, node_, nullptr, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  io_uring_sqe_set_data(sqe, data);
  // Without a size of its own in the declaration.
  memcpy(reinterpret_cast<uint8_t *>(sqe) + offsetof(io_uring_sqe, cmd), &entry, sizeof(entry));
  return sqe;
}

/// The entry goes to the kernel now, or does nothing when it goes with a later one. Without an entry: the ring is full
/// of such.
int AsyncUring::push(io_uring_sqe *sqe) {
  int result;
  do result = io_uring_submit(&ring_);
  while (result == -EINTR);
  if (sqe && !io_uring_sq_ready(&ring_)) return 0;
  if (sqe) io_uring_prep_nop(sqe);
  if (sqe) io_uring_sqe_set_data(sqe, nullptr);
  return result < 0 ? result : -EAGAIN;
}

void AsyncUring::start(AsyncLaunch &launch) {
  drm_npu_uring_submit entry{};
  entry.submit = reinterpret_cast<uintptr_t>(&launch.submission.args);
  in_driver_++;
  if (int err = push(command(entry, &launch))) {
    in_driver_--;
    return queue_.finished(launch, err);
  }
  // Without a number it was refused, which is here already, or a worker of the kernel tries.
  if (!launch.number()) reap();
}

void AsyncUring::reap() {
  io_uring_cqe *cqe = nullptr;
  while (!io_uring_peek_cqe(&ring_, &cqe)) {
    auto *const launch = static_cast<AsyncLaunch *>(io_uring_cqe_get_data(cqe));
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (!launch) continue;
    in_driver_--;
    queue_.finished(*launch, result);
  }
}

void AsyncUring::wait_for_completion() {
  __kernel_timespec limit{0, kCancelEveryNs};
  io_uring_cqe *cqe = nullptr;
  io_uring_wait_cqe_timeout(&ring_, &cqe, &limit);
  reap();
}

/// A worker of the kernel that tries to submit reads and writes the launch's memory, so it has to end. What is
/// submitted needs that no more.
void AsyncUring::stop(AsyncLaunch *const &unknown, std::unique_lock<std::mutex> &) {
  reap();
  while (unknown && !unknown->number()) {
    io_uring_sqe *const sqe = io_uring_get_sqe(&ring_);
    if (sqe) io_uring_prep_cancel(sqe, unknown, 0);
    if (sqe) io_uring_sqe_set_data(sqe, nullptr);
    push(sqe);
    wait_for_completion();
  }
  io_uring_queue_exit(&ring_);
  is_open_ = false;
}

}  // namespace

Status async_uring(AsyncQueue &queue, std::unique_ptr<AsyncBackend> &out) {
  auto backend = std::make_unique<AsyncUring>(queue);
  NPU_TRY(backend->open());
  out = std::move(backend);
  return {};
}

}  // namespace npu
