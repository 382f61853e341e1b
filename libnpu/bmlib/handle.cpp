// SPDX-License-Identifier: MIT
// Launches of threads: recorded here, waited for by bm_*_sync().
#include "libnpu/bmlib/handle.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace npu::bm {
namespace {

constexpr uint64_t kEndedThreads = 0;

std::atomic<uint64_t> next_thread{1};

/// Tells the handles that a thread used when it ends.
struct ThreadEnd {
  const uint64_t number = next_thread.fetch_add(1);
  std::vector<std::weak_ptr<Handle>> handles;

  ~ThreadEnd() {
    for (const auto &weak : handles)
      if (const auto handle = weak.lock(); handle && handle->device().pid() == getpid()) handle->thread_gone(number);
  }
};

thread_local ThreadEnd this_thread;

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

int64_t left_until(int64_t deadline) { return deadline < 0 ? -1 : std::max<int64_t>(deadline - now_ns(), 0); }

uint64_t micros(int64_t ns) { return static_cast<uint64_t>(ns) / 1000; }

std::string failure_text(uint64_t seqno, const npu_result &result) {
  char text[256];
  if (result.fault.status)
    npu_describe_fault(&result.fault, text, sizeof(text));
  else
    snprintf(text, sizeof(text), "%s", strerror(-result.error));
  return "launch " + std::to_string(seqno) + " failed: " + text;
}

std::atomic<npu_bm_trace_fn> trace_fn{nullptr};

}  // namespace

TracedCall::TracedCall(const char *name) : name_(name), begin_(trace_fn.load() ? now_ns() : 0) {}

TracedCall::~TracedCall() {
  const npu_bm_trace_fn fn = begin_ ? trace_fn.load() : nullptr;
  if (fn) fn(name_, begin_, now_ns());
}

Timer::Timer(Handle &handle, Profile::Copies &copies)
    : handle_(handle), copies_(copies), traced_(copies.name), start_(now_ns()) {}

Timer::~Timer() {
  const int64_t end = now_ns();
  copies_.ns += static_cast<uint64_t>(end - start_);
  copies_.count++;
  handle_.trace_copy(copies_.cdma_dir, start_, end);
}

Handle::~Handle() {
  for (npu_context *context : contexts_) npu_context_destroy(context);
}

int64_t Handle::deadline() const {
  const int ms = timeout_ms.load();
  return ms > 0 ? now_ns() + static_cast<int64_t>(ms) * 1000000 : -1;
}

/// The calling thread's entry, with the lock held.
Thread &Handle::mine() {
  const auto [it, is_new] = threads_.try_emplace(this_thread.number);
  if (is_new) this_thread.handles.push_back(weak_from_this());
  return it->second;
}

int Handle::assign_context(Thread &thread) {
  const auto least = std::min_element(context_users_.begin(), context_users_.end());
  size_t index = static_cast<size_t>(least - context_users_.begin());
  if (least == context_users_.end() || (*least && contexts_.size() < kMaxContexts)) {
    npu_context *context = nullptr;
    const int err = npu_context_create(npu(), DRM_NPU_PRIORITY_NORMAL, 0, &context);
    // A card without a free queue: share one of ours.
    if (err && (err != -ENOSPC || contexts_.empty())) return err;
    if (!err) {
      index = contexts_.size();
      contexts_.push_back(context);
      context_users_.push_back(0);
    }
  }
  context_users_[index]++;
  thread.context = contexts_[index];
  thread.context_index = index;
  return 0;
}

int Handle::thread_context(npu_context **context) {
  Lock lock(mutex_);
  Thread &thread = mine();
  if (!thread.context) {
    if (int err = assign_context(thread)) return err;
  }
  *context = thread.context;
  return 0;
}

int Handle::record(npu_context *context, uint64_t seqno, void (*release)(void *arg), void *arg) {
  Lock lock(mutex_);
  const uint64_t number = this_thread.number;
  Thread &thread = mine();
  profile.sent++;
  thread.pending.push_back(std::make_shared<Launch>(Launch{context, seqno, next_order_++, release, arg, now_ns()}));
  // Results are remembered for so many jobs only: a program that never syncs still gets its first error.
  while (thread.pending.size() > kPrune && !complete(lock, number, thread.pending.front(), 0)) continue;
  return 0;
}

int Handle::complete(Lock &lock, uint64_t number, const std::shared_ptr<Launch> &which, int64_t timeout_ns) {
  const std::shared_ptr<Launch> launch = which;
  lock.unlock();
  npu_result result{};
  const int waited = npu_wait(launch->context, launch->seqno, timeout_ns, &result);
  lock.lock();
  if (waited == -ETIME) return waited;
  // The thread may have ended meanwhile, and another one may have been faster.
  Thread *thread = nullptr;
  for (uint64_t owner : {number, kEndedThreads}) {
    const auto it = threads_.find(owner);
    if (it == threads_.end()) continue;
    const auto at = std::find(it->second.pending.begin(), it->second.pending.end(), launch);
    if (at == it->second.pending.end()) continue;
    it->second.pending.erase(at);
    thread = &it->second;
    break;
  }
  if (!thread) return 0;
  profile.completed++;
  if (thread->traced && thread->trace.size() < kMaxTrace)
    thread->trace.push_back({1, micros(launch->sent_ns), micros(launch->sent_ns), micros(now_ns()), 0, 0});
  if (!waited && result.known && !result.error) {
    profile.cycles += result.cycles;
    thread->has_last = true;
    thread->last_cycles = result.cycles;
  }
  if (waited) {
    result.error = waited;
    result.known = 1;
  }
  if (result.known && result.error && !thread->error) {
    thread->error = result.error;
    thread->text = failure_text(launch->seqno, result);
    thread->told_others = false;
  }
  if (launch->release) {
    lock.unlock();
    launch->release(launch->arg);
    lock.lock();
  }
  return 0;
}

/// Until the thread has no launch; -ETIME.
int Handle::drain(Lock &lock, uint64_t number, int64_t deadline) {
  for (;;) {
    const auto it = threads_.find(number);
    if (it == threads_.end() || it->second.pending.empty()) return 0;
    if (int err = complete(lock, number, it->second.pending.front(), left_until(deadline))) return err;
  }
}

int Handle::sync_thread() {
  Lock lock(mutex_);
  const uint64_t number = this_thread.number;
  if (int err = drain(lock, number, deadline()))
    return fail(err, "launches of this thread are unfinished after %d ms", timeout_ms.load());
  const auto it = threads_.find(number);
  if (it == threads_.end() || !it->second.error) return 0;
  return fail(std::exchange(it->second.error, 0), "%s", it->second.text.c_str());
}

int Handle::sync_all() {
  Lock lock(mutex_);
  const int64_t until = deadline();
  std::vector<uint64_t> numbers;
  for (const auto &[number, thread] : threads_) numbers.push_back(number);
  // Threads that have ended last: launches of one that ends meanwhile move there.
  std::reverse(numbers.begin(), numbers.end());
  if (numbers.empty() || numbers.back() != kEndedThreads) numbers.push_back(kEndedThreads);
  for (uint64_t number : numbers)
    if (int err = drain(lock, number, until))
      return fail(err, "launches of this handle are unfinished after %d ms", timeout_ms.load());
  int error = 0;
  std::string text;
  for (auto &[number, thread] : threads_) {
    if (thread.error && !thread.told_others && !error) {
      error = thread.error;
      text = thread.text;
    }
    thread.told_others = true;
    if (number == this_thread.number || number == kEndedThreads) thread.error = 0;
  }
  return error ? fail(error, "%s", text.c_str()) : 0;
}

int Handle::reap(bool wait) {
  Lock lock(mutex_);
  int released = 0;
  std::vector<uint64_t> numbers;
  for (const auto &[number, thread] : threads_) numbers.push_back(number);
  for (uint64_t number : numbers) {
    for (auto it = threads_.find(number); it != threads_.end() && !it->second.pending.empty();
         it = threads_.find(number)) {
      if (complete(lock, number, it->second.pending.front(), 0)) break;
      released++;
    }
  }
  if (released || !wait) return released;
  uint64_t owner = 0;
  std::shared_ptr<Launch> oldest;
  for (const auto &[number, thread] : threads_) {
    if (thread.pending.empty() || (oldest && oldest->order < thread.pending.front()->order)) continue;
    owner = number;
    oldest = thread.pending.front();
  }
  if (!oldest) return 0;
  complete(lock, owner, oldest, -1);
  return 1;
}

bool Handle::last_cycles(uint64_t *cycles) {
  Lock lock(mutex_);
  const auto it = threads_.find(this_thread.number);
  if (it == threads_.end() || !it->second.has_last) return false;
  *cycles = it->second.last_cycles;
  return true;
}

void Handle::trace(bool on) {
  Lock lock(mutex_);
  Thread &thread = mine();
  if (on) {
    traced_ = true;
    thread.trace.clear();
  }
  thread.traced = on;
}

void Handle::trace_copy(int cdma_dir, int64_t begin_ns, int64_t end_ns) {
  if (!traced_.load(std::memory_order_relaxed)) return;
  Lock lock(mutex_);
  const auto it = threads_.find(this_thread.number);
  if (it == threads_.end() || !it->second.traced || it->second.trace.size() >= kMaxTrace) return;
  it->second.trace.push_back({0, micros(begin_ns), micros(begin_ns), micros(end_ns), 0, cdma_dir});
}

size_t Handle::trace_size() {
  Lock lock(mutex_);
  const auto it = threads_.find(this_thread.number);
  return it == threads_.end() ? 0 : it->second.trace.size();
}

size_t Handle::take_trace(bm_trace_item_data *items, size_t count) {
  Lock lock(mutex_);
  const auto it = threads_.find(this_thread.number);
  if (it == threads_.end()) return 0;
  auto &trace = it->second.trace;
  count = std::min(count, trace.size());
  const auto end = trace.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(trace.begin(), end, items);
  trace.erase(trace.begin(), end);
  return count;
}

void Handle::thread_gone(uint64_t number) {
  Lock lock(mutex_);
  const auto it = threads_.find(number);
  if (it == threads_.end()) return;
  Thread &ended = threads_[kEndedThreads];
  for (auto &launch : it->second.pending) ended.pending.push_back(std::move(launch));
  if (it->second.context) context_users_[it->second.context_index]--;
  threads_.erase(it);
}

}  // namespace npu::bm

void npu_bm_set_trace(npu_bm_trace_fn fn) { npu::bm::trace_fn = fn; }
