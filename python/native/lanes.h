// SPDX-License-Identifier: MIT
// Asynchronous launches: a few threads of the session's that carry any number of them, and a file descriptor that says
// when some have finished. Nothing here knows Python: the threads never want its lock.
#ifndef NPU_PYTHON_LANES_H
#define NPU_PYTHON_LANES_H

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "python/native/runtime.h"

namespace npu::python {

/// A launch on its way. Belongs to Python's event loop, and to a lane until it is done.
struct Job {
  Launch launch;
  std::string error;                   ///< once it is done: why it failed; empty if it did not
  bool cancelled = false;              ///< once it is done: it was not launched
  std::atomic<bool> unwanted = false;  ///< whoever awaited it does not any more: a lane that finds it leaves it out
  std::mutex reading;                  ///< held by the lane while it writes the outputs to system memory

  /// Nothing is written to arrays of the caller's from now on. Waits for a lane that is about it; the card goes on to
  /// write to tensors until the launch has ended.
  void forget() {
    const std::lock_guard lock(reading);
    unwanted = true;
  }
};

using JobPtr = std::shared_ptr<Job>;

/// Jobs that are done, for one event loop.
class Completions {
 public:
  Completions();
  ~Completions();
  Completions(const Completions &) = delete;
  Completions &operator=(const Completions &) = delete;

  /// For poll(): readable when take() has something.
  int fd() const { return fd_; }
  void add(JobPtr job);
  std::vector<JobPtr> take();

 private:
  int fd_;
  std::mutex mutex_;
  std::vector<JobPtr> done_;  // under mutex_
};

/// A launch blocks a lane from its upload to the end of its download. BMLIB has eight contexts for a handle, so that
/// more lanes would only share them.
class Lanes {
 public:
  static constexpr size_t kMost = 8;

  Lanes() : state_(std::make_unique<State>()) {}
  /// Jobs that no lane has begun are cancelled, the others are waited for.
  ~Lanes();
  Lanes(const Lanes &) = delete;
  Lanes &operator=(const Lanes &) = delete;

  void submit(JobPtr job, std::shared_ptr<Completions> completions);
  void stop();
  size_t threads();

 private:
  struct Waiting {
    JobPtr job;
    std::shared_ptr<Completions> completions;
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Waiting> waiting;  // these four under the mutex
    std::vector<std::thread> threads;
    size_t idle = 0;
    bool stopped = false;
  };
  bool forked() const { return getpid() != pid_; }
  static void work(State &state);

  const int pid_ = getpid();  // whose threads they are
  std::unique_ptr<State> state_;
};

}  // namespace npu::python

#endif  // NPU_PYTHON_LANES_H
