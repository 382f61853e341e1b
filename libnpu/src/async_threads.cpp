// SPDX-License-Identifier: MIT
// Launches without io_uring: submission by the ordinary call, where it need not wait, and a thread for each context
// that waits for its jobs.
#include <algorithm>
#include <cerrno>
#include <system_error>

#include "libnpu/src/async.h"
#include "libnpu/src/internal.h"

namespace npu {
namespace {

// A thread in the driver cannot be called back: that often it looks whether it should be.
constexpr int64_t kSliceNs = 100000000;

class AsyncThreads : public AsyncBackend {
 public:
  explicit AsyncThreads(AsyncQueue &queue) : queue_(queue) {}

  const char *name() const override { return "threads"; }
  void start(AsyncLaunch &launch) override;
  void reap() override {}
  bool full() const override { return false; }
  bool start_without_room(const std::shared_ptr<AsyncSeat> &seat, uint64_t number) override;
  void leave(AsyncSeat &seat) override;
  void left(AsyncSeat &seat, std::unique_lock<std::mutex> &lock) override;
  void stop(AsyncLaunch *const &unknown, std::unique_lock<std::mutex> &lock) override;

 private:
  int have_thread(const std::shared_ptr<AsyncSeat> &seat);
  void run(AsyncSeat &seat);
  int wait(const AsyncSeat &seat, uint64_t number, int32_t *error) const;
  void wait_for_room(AsyncSeat &seat, std::unique_lock<std::mutex> &lock);
  void wait_for_launch(AsyncSeat &seat, std::unique_lock<std::mutex> &lock);

  AsyncQueue &queue_;
  std::vector<std::shared_ptr<AsyncSeat>> seats_;  // with threads, under the queue's mutex
};

void AsyncThreads::start(AsyncLaunch &launch) {
  AsyncSeat &seat = *launch.seat;
  if (int err = have_thread(launch.seat)) return queue_.finished(launch, err);
  npu_device *const device = queue_.device();
  seat.running.push_back(&launch);
  if (int err = call(device, DRM_IOCTL_NPU_SUBMIT, &launch.submission.args)) {
    seat.running.pop_back();
    return queue_.finished(launch, err);
  }
  seat.wake.notify_one();
}

bool AsyncThreads::start_without_room(const std::shared_ptr<AsyncSeat> &seat, uint64_t number) {
  // Where no thread can be had, submission waits, or says what is wrong.
  if (have_thread(seat)) return true;
  seat->room_at = number;
  seat->wake.notify_one();
  return false;
}

int AsyncThreads::have_thread(const std::shared_ptr<AsyncSeat> &seat) {
  if (seat->thread.joinable()) return 0;
  try {
    seats_.push_back(seat);
    seat->thread = std::thread([this, held = seat] { run(*held); });
  } catch (const std::system_error &) {
    seats_.pop_back();
    return -EAGAIN;
  }
  return 0;
}

void AsyncThreads::run(AsyncSeat &seat) {
  std::unique_lock lock(queue_.mutex());
  while (!seat.stop) {
    if (!seat.running.empty())
      wait_for_launch(seat, lock);
    else if (seat.room_at)
      wait_for_room(seat, lock);
    else
      seat.wake.wait(lock);
  }
}

int AsyncThreads::wait(const AsyncSeat &seat, uint64_t number, int32_t *error) const {
  drm_npu_wait args{};
  args.ctx_id = seat.link.id;
  args.seqno = number;
  args.timeout_ns = deadline_of(kSliceNs);
  const npu_device *const device = queue_.device();
  const int err = call(device, DRM_IOCTL_NPU_WAIT, &args);
  *error = err ? err : args.error;
  return err;
}

void AsyncThreads::wait_for_room(AsyncSeat &seat, std::unique_lock<std::mutex> &lock) {
  const uint64_t number = seat.room_at;
  int32_t error;
  lock.unlock();
  const int err = wait(seat, number, &error);
  lock.lock();
  if (err == -ETIME) return;
  seat.room_at = 0;
  // Where waiting fails, submission will say why.
  seat.completed = std::max(seat.completed, number);
  queue_.wake();
}

void AsyncThreads::wait_for_launch(AsyncSeat &seat, std::unique_lock<std::mutex> &lock) {
  AsyncLaunch &launch = *seat.running.front();
  int err = 0;
  int32_t first_error = 0;
  lock.unlock();
  for (const drm_npu_job &job : launch.submission.jobs) {
    int32_t error;
    err = wait(seat, job.seqno, &error);
    if (!first_error) first_error = error;
    if (err) break;
  }
  lock.lock();
  if (err == -ETIME) return;
  seat.running.pop_front();
  queue_.finished(launch, first_error);
}

void AsyncThreads::leave(AsyncSeat &seat) {
  seat.stop = true;
  seat.wake.notify_one();
}

/// The context's jobs are over, and its number may be another one's by now: nothing can be asked.
void AsyncThreads::left(AsyncSeat &seat, std::unique_lock<std::mutex> &lock) {
  if (seat.thread.joinable()) {
    lock.unlock();
    seat.thread.join();
    lock.lock();
  }
  for (AsyncLaunch *launch : seat.running) queue_.finished(*launch, -ECANCELED);
  seat.running.clear();
  std::erase_if(seats_, [&](const auto &other) { return other.get() == &seat; });
}

void AsyncThreads::stop(AsyncLaunch *const &, std::unique_lock<std::mutex> &lock) {
  for (const auto &seat : seats_) leave(*seat);
  lock.unlock();
  for (const auto &seat : seats_)
    if (seat->thread.joinable()) seat->thread.join();
  lock.lock();
  for (const auto &seat : seats_) seat->running.clear();
  seats_.clear();
}

}  // namespace

std::unique_ptr<AsyncBackend> async_threads(AsyncQueue &queue) { return std::make_unique<AsyncThreads>(queue); }

}  // namespace npu
