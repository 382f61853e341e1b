// SPDX-License-Identifier: MIT
#include "compiler/quantize/parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

namespace npu::quantize {
namespace {

class Work {
 public:
  Work(size_t count, const char *what, const Options &options, const std::function<Status(size_t, size_t)> &f)
      : count_(count), what_(what), options_(options), f_(f), failed_(count) {}

  void run(size_t thread) {
    for (;;) {
      const size_t i = take();
      if (i >= count_) return;
      try {
        done(i, f_(i, thread));
      } catch (...) {
        thrown(i, std::current_exception());
      }
    }
  }

  Status result() const {
    if (exception_) std::rethrow_exception(exception_);
    return status_;
  }

 private:
  size_t take() {
    const std::lock_guard lock(mutex_);
    return failed_ < count_ ? count_ : next_++;
  }

  void done(size_t i, Status status) {
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      if (i < failed_) {
        failed_ = i;
        status_ = std::move(status);
      }
      return;
    }
    ++done_;
    if (options_.progress) options_.progress({what_, done_, count_});
  }

  void thrown(size_t i, std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    failed_ = std::min(failed_, i);
    exception_ = std::move(exception);
  }

  const size_t count_;
  const char *const what_;
  const Options &options_;
  const std::function<Status(size_t, size_t)> &f_;
  std::mutex mutex_;  // of all below
  size_t next_ = 0, done_ = 0, failed_;
  Status status_;
  std::exception_ptr exception_;
};

}  // namespace

unsigned thread_count(const Options &options, size_t count) {
  const unsigned most = options.threads ? options.threads : std::max(std::thread::hardware_concurrency(), 1u);
  return static_cast<unsigned>(std::clamp<size_t>(count, 1, most));
}

Status for_each(size_t count, const char *what, const Options &options,
                const std::function<Status(size_t, size_t)> &f) {
  Work work(count, what, options, f);
  std::vector<std::thread> threads;
  const unsigned wanted = thread_count(options, count);
  threads.reserve(wanted);
  try {
    for (unsigned t = 1; t < wanted; ++t) threads.emplace_back(&Work::run, &work, t);
  } catch (const std::exception &) {
    // The system has no more threads: those that there are do all of the work.
  }
  work.run(0);
  for (std::thread &t : threads) t.join();
  return work.result();
}

}  // namespace npu::quantize
