// SPDX-License-Identifier: MIT
#include "python/native/lanes.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "python/native/lock.h"

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

Lanes::~Lanes() {
  // In a forked process the threads are not there, but joinable, and the condition still has them waiting: what they
  // were made of can be neither joined nor destroyed.
  if (forked())
    (void)state_.release();
  else
    stop();
}

void Lanes::submit(JobPtr job, std::shared_ptr<Completions> completions) {
  if (forked()) throw Failure("the session belongs to the process that this one was forked from");
  State &s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.stopped) throw Failure("the session is closed");
  if (s.idle <= s.waiting.size() && s.threads.size() < kMost) s.threads.emplace_back([&s] { work(s); });
  s.waiting.push_back({std::move(job), std::move(completions)});
  s.changed.notify_one();
}

void Lanes::stop() {
  if (forked()) return;
  const WithoutLock free;
  std::deque<Waiting> cancelled;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
    cancelled.swap(state_->waiting);
    threads.swap(state_->threads);
    state_->changed.notify_all();
  }
  for (Waiting &w : cancelled) {
    w.job->cancelled = true;
    w.completions->add(std::move(w.job));
  }
  for (std::thread &thread : threads) thread.join();
}

size_t Lanes::threads() {
  if (forked()) return 0;
  const std::lock_guard lock(state_->mutex);
  return state_->threads.size();
}

void Lanes::work(State &state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    ++state.idle;
    state.changed.wait(lock, [&state] { return state.stopped || !state.waiting.empty(); });
    --state.idle;
    if (state.waiting.empty()) return;
    Waiting w = std::move(state.waiting.front());
    state.waiting.pop_front();
    lock.unlock();
    w.job->cancelled = w.job->unwanted;
    try {
      std::unique_lock<std::mutex> reading;
      const auto read = [&] {
        reading = std::unique_lock(w.job->reading);
        return !w.job->unwanted;
      };
      if (!w.job->cancelled) w.job->launch.run(read);
    } catch (const std::exception &e) {
      w.job->error = *e.what() ? e.what() : "unknown failure";
    }
    w.completions->add(std::move(w.job));
    w.completions.reset();
    lock.lock();
  }
}

}  // namespace npu::python
