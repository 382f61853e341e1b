// SPDX-License-Identifier: MIT
// The queue behind npu_async: launches on their way to the card and back.
//
// Order is what it is built around. A job's out-sync is a point of its context's timeline, which libnpu has to know
// before the driver gives the job its number. So a launch goes to the driver only when the number of the one before it
// is known, and nobody else submits to a context meanwhile. io_uring may hand a submission that cannot be made without
// waiting to a worker of its own, where later ones would overtake it: the queue then holds everything back until the
// number is there (it stands in the submission's memory), and avoids the case by waiting for room itself.
#ifndef NPU_ASYNC_H
#define NPU_ASYNC_H

#include <npu.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "libnpu/src/submission.h"
#include "libnpu/src/transport.h"

namespace npu {

class AsyncQueue;
struct AsyncSeat;

/// A launch with copies of all that was passed.
struct AsyncLaunch {
  AsyncLaunch() = default;
  ~AsyncLaunch() { release(); }
  AsyncLaunch(const AsyncLaunch &) = delete;
  AsyncLaunch &operator=(const AsyncLaunch &) = delete;

  /// False: nothing to copy from; error and text say so.
  bool copy(const npu_job_desc *from, unsigned int count);
  /// Gives the buffers back.
  void release();
  /// Number of the last job, 0 as long as the driver has not queued them. The kernel writes it.
  uint64_t number() const;

  std::shared_ptr<AsyncSeat> seat;
  npu_async_fn fn = nullptr;
  void *arg = nullptr;
  npu_completion completion{};
  std::string text;  ///< why it was not submitted
  bool finished = false;

  std::vector<npu_job_desc> jobs;  ///< lead into the arrays that follow
  std::vector<npu_job_region> regions;
  std::vector<drm_npu_stream> streams;
  std::vector<npu_job_fence> fences;
  Submission submission;
};

/// A context as a queue sees it. All under the queue's mutex.
struct AsyncSeat {
  npu_context *context = nullptr;  ///< nullptr: destroyed
  npu_transport_context link{};
  std::list<std::unique_ptr<AsyncLaunch>> order;  ///< unfinished launches, and finished ones that are not next
  uint64_t unfinished = 0;                        ///< launches whose callback is not called yet: the context is ours
  unsigned int in_driver = 0;                     ///< launches
  uint64_t completed = 0;                         ///< jobs known to be finished

  // Of the threads that wait, where there are any.
  std::thread thread;
  std::condition_variable wake;
  std::deque<AsyncLaunch *> running;
  uint64_t room_at = 0;  ///< a job whose end makes room, 0: none
  bool stop = false;
};

/// How launches go to the driver and completions come back. Calls are made with the queue's mutex held.
class AsyncBackend {
 public:
  virtual ~AsyncBackend() = default;
  virtual const char *name() const = 0;
  /// Submits; AsyncQueue::finished() for what the driver refuses at once. Without a number afterwards, the driver still
  /// tries.
  virtual void start(AsyncLaunch &launch) = 0;
  /// Calls AsyncQueue::finished() for what has finished.
  virtual void reap() = 0;
  /// No launch can be started before one has finished.
  virtual bool full() const = 0;
  /// The seat's context is full of other people's jobs, and the end of job `number` will make room. True: start all the
  /// same. Else the descriptor becomes readable then.
  virtual bool start_without_room(const std::shared_ptr<AsyncSeat> &seat, uint64_t number) = 0;
  /// The context is being destroyed, and then has been. The mutex is released while it waits for threads.
  virtual void leave(AsyncSeat &) {}
  virtual void left(AsyncSeat &, std::unique_lock<std::mutex> &) {}
  /// The end: the driver will not touch the memory of any launch any more. `unknown`: the one without a number, or
  /// nullptr. The mutex is released while it waits for threads.
  virtual void stop(AsyncLaunch *const &unknown, std::unique_lock<std::mutex> &lock) = 0;
};

/// The ways; the error says what io_uring lacks here.
Status async_uring(AsyncQueue &queue, std::unique_ptr<AsyncBackend> &out);
std::unique_ptr<AsyncBackend> async_threads(AsyncQueue &queue);

class AsyncQueue : public std::enable_shared_from_this<AsyncQueue> {
 public:
  /// Keeps the device.
  explicit AsyncQueue(npu_device *device);
  ~AsyncQueue();
  AsyncQueue(const AsyncQueue &) = delete;
  AsyncQueue &operator=(const AsyncQueue &) = delete;
  int open(uint32_t how);

  int submit(npu_context *context, const npu_job_desc *jobs, unsigned int count, npu_async_fn fn, void *arg);
  int process(unsigned int max, int64_t timeout_ns);
  /// With the callbacks.
  void close();
  uint64_t unfinished() const { return unfinished_.load(); }
  const char *backend() const { return backend_->name(); }
  int event() const { return event_; }
  npu_device *device() const { return device_; }
  /// True in a child of the process that made it.
  bool is_of_parent() const;

  // For npu_context_destroy(), before and after.
  std::shared_ptr<AsyncSeat> forget(npu_context *context);
  void forgotten(AsyncSeat &seat);

  // For back ends.
  std::mutex &mutex() { return mutex_; }
  /// The driver is done with a launch; a negative errno, which may be refined by asking.
  void finished(AsyncLaunch &launch, int error);
  /// Makes the descriptor readable.
  void wake();

 private:
  using Lock = std::unique_lock<std::mutex>;

  int choose(uint32_t how);
  // All below: mutex_ held.
  int enter(npu_context *context, std::unique_ptr<AsyncLaunch> &launch);
  std::shared_ptr<AsyncSeat> sit_down(npu_context *context);
  void hand_over();
  bool number_is_known();
  bool may_start(AsyncLaunch &launch);
  void start(AsyncLaunch &launch);
  void refuse(AsyncLaunch &launch, int error, const char *text);
  void not_submitted(AsyncLaunch &launch, int error);
  void find_error(AsyncLaunch &launch, int error);
  void complete(AsyncLaunch &launch);
  void abandon(AsyncSeat &seat);
  /// Released during the callback. False: nothing was there.
  bool deliver(Lock &lock);
  bool wait(int64_t deadline) const;

  npu_device *const device_;
  const unsigned int process_;  // generation, see is_of_parent()
  int event_ = -1;
  std::unique_ptr<AsyncBackend> backend_;

  std::mutex mutex_;
  std::atomic<uint64_t> unfinished_{0};  // callbacks to come
  // All below: under mutex_.
  std::map<npu_context *, std::shared_ptr<AsyncSeat>> seats_;
  std::vector<std::shared_ptr<AsyncSeat>> left_;  // of contexts that are gone, while launches are unfinished
  std::deque<AsyncLaunch *> pending_;             // not with the driver
  AsyncLaunch *unknown_ = nullptr;                // with the driver, no number yet
  std::list<std::unique_ptr<AsyncLaunch>> done_;  // callbacks to be called
  unsigned int waiting_ = 0;                      // threads in process()
  bool closed_ = false;
};

/// What npu_context_destroy() takes from each queue.
using AsyncForgotten = std::vector<std::pair<std::shared_ptr<AsyncQueue>, std::shared_ptr<AsyncSeat>>>;
AsyncForgotten async_forget(npu_context *context);
void async_forgotten(const AsyncForgotten &queues);

}  // namespace npu

#endif  // NPU_ASYNC_H
