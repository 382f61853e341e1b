// SPDX-License-Identifier: MIT
#include "python/native/lanes.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace npu::python {

Completions::Completions() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw Failure(std::string("eventfd: ") + std::strerror(errno));
}

Completions::~Completions() { close(fd_); }

void Completions::add(JobPtr job) {
  {
    const std::lock_guard lock(mutex_);
    done_.push_back(std::move(job));
  }
  const uint64_t one = 1;
  (void)!write(fd_, &one, sizeof(one));  // it cannot fail: nobody adds 2^64 jobs
}

std::vector<JobPtr> Completions::take() {
  uint64_t count;
  (void)!read(fd_, &count, sizeof(count));
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void Lanes::submit(JobPtr job, std::shared_ptr<Completions> completions) {
  const std::lock_guard lock(mutex_);
  if (stopped_) throw Failure("the session is closed");
  if (idle_ <= waiting_.size() && threads_.size() < kMost) threads_.emplace_back([this] { work(); });
  waiting_.push_back({std::move(job), std::move(completions)});
  changed_.notify_one();
}

void Lanes::stop() {
  const WithoutLock free;
  std::deque<Waiting> cancelled;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    cancelled.swap(waiting_);
    threads.swap(threads_);
    changed_.notify_all();
  }
  for (Waiting &w : cancelled) {
    w.job->cancelled = true;
    w.completions->add(std::move(w.job));
  }
  for (std::thread &thread : threads) thread.join();
}

size_t Lanes::threads() {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void Lanes::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    Waiting w = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    w.job->cancelled = w.job->unwanted;
    try {
      if (!w.job->cancelled) w.job->launch.run();
    } catch (const std::exception &e) {
      w.job->error = *e.what() ? e.what() : "unknown failure";
    }
    w.completions->add(std::move(w.job));
    w.completions.reset();
    lock.lock();
  }
}

}  // namespace npu::python
