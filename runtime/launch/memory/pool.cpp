// SPDX-License-Identifier: MIT
#include "runtime/launch/memory/pool.h"

#include <algorithm>
#include <cerrno>
#include <set>

namespace npurt {

namespace {

// All pools of the process: one that needs memory takes what is idle in others. Locked before a pool's own mutex.
std::mutex pools_mutex;
std::set<Pool *> pools;  // guarded by pools_mutex

}  // namespace

Pool::Pool(npu_device *device, uint64_t ctx_bytes, size_t outputs)
    : device_(device), ctx_bytes_(ctx_bytes), outputs_(outputs) {
  std::lock_guard lock(pools_mutex);
  pools.insert(this);
}

Pool::~Pool() {
  {
    std::lock_guard lock(pools_mutex);
    pools.erase(this);
  }
  for (const auto &e : entries_) {
    if (e->context) npu_wait(e->context, e->seqno, -1, nullptr);
    if (e->shared) e->shared->forget(this);
  }
}

void Pool::use_shared(std::shared_ptr<SharedScratch> shared) {
  if (!shared || !ctx_bytes_) return;
  std::lock_guard lock(mutex_);
  for (const auto &e : entries_)
    if (e->shared == shared) return;
  auto e = std::make_unique<Entry>();
  e->scratch.ctx.reset(npu_bo_ref(shared->bo()));
  e->scratch.ctx_offset = shared->offset();
  e->scratch.staging.resize(outputs_);
  e->shared = std::move(shared);
  entries_.push_back(std::move(e));
}

void Pool::set_limit(int limit) {
  std::lock_guard lock(mutex_);
  limit_ = static_cast<size_t>(std::max(limit, 1));
  look_for_finished();
  free_idle(limit_);
}

Status Pool::reserve() {
  std::lock_guard lock(mutex_);
  if (!entries_.empty()) return {};
  Scratch *scratch;
  bool short_of_memory = false;
  NPU_TRY(create(&scratch, short_of_memory));
  entries_.back()->taken = false;
  return {};
}

bool Pool::trim() {
  std::lock_guard lock(mutex_);
  look_for_finished();
  return free_idle(0);
}

/// Called without mutex_.
bool Pool::trim_others() const {
  std::lock_guard lock(pools_mutex);
  bool freed = false;
  for (Pool *pool : pools)
    if (pool != this && pool->device_ == device_ && pool->trim()) freed = true;
  return freed;
}

/// Called with mutex_ held. A wait that fails otherwise than by its timeout means that the device is gone, and the job
/// with it.
void Pool::look_for_finished() {
  for (const auto &e : entries_)
    if (e->context && npu_wait(e->context, e->seqno, 0, nullptr) != -ETIME) e->context = nullptr;
}

/// Called with mutex_ held. Memory of the program's stays, without what the pool has added to it.
bool Pool::free_idle(size_t keep) {
  const size_t before = entries_.size();
  for (const auto &e : entries_) {
    if (keep || !e->shared || e->taken || e->context) continue;
    for (Bo &bo : e->scratch.staging) bo.reset();
    for (auto &list : e->scratch.converted) list.clear();
  }
  for (size_t i = entries_.size(); i-- > 0 && entries_.size() > keep;)
    if (!entries_[i]->taken && !entries_[i]->context && !entries_[i]->shared)
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  return entries_.size() < before;
}

/// Called with mutex_ held.
size_t Pool::in_use() const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto &e) { return e->taken || e->context; }));
}

/// Called with mutex_ held.
bool Pool::try_acquire(Scratch **scratch) {
  look_for_finished();
  Entry *idle = nullptr;
  if (in_use() >= limit_) return false;
  for (const auto &e : entries_) {
    if (e->taken || e->context) continue;
    if (e->shared ? e->shared->try_take() : !idle) idle = e.get();
    if (idle && idle->shared) break;
  }
  if (!idle) return false;
  idle->taken = true;
  *scratch = &idle->scratch;
  return true;
}

Status Pool::make(Scratch &scratch, bool &short_of_memory) const {
  scratch.staging.resize(outputs_);
  if (!ctx_bytes_) return {};
  npu_bo *bo;
  const int err = npu_bo_create(device_, ctx_bytes_, DRM_NPU_BO_CARD, &bo);
  short_of_memory = err == -ENOSPC || err == -ENOMEM;
  if (err) return Status::error(err, npu_last_error()).within("activation memory");
  scratch.ctx.reset(bo);
  return {};
}

Status Pool::make(Scratch &scratch) const {
  bool short_of_memory;
  return make(scratch, short_of_memory);
}

/// Called with mutex_ held.
Status Pool::create(Scratch **scratch, bool &short_of_memory) {
  auto e = std::make_unique<Entry>();
  NPU_TRY(make(e->scratch, short_of_memory));
  e->taken = true;
  *scratch = &e->scratch;
  entries_.push_back(std::move(e));
  return {};
}

Status Pool::acquire(Scratch **scratch) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (try_acquire(scratch)) return {};
    if (entries_.size() < limit_) {
      bool short_of_memory = false;
      const Status created = create(scratch, short_of_memory);
      if (created.ok() || !short_of_memory) return created;
      lock.unlock();
      const bool freed = trim_others();
      lock.lock();
      if (freed) continue;
      if (entries_.empty()) return created;
    }
    wait_for_any(lock);
  }
}

/// Until one of the scratches may be free; without the lock, which it takes again.
void Pool::wait_for_any(std::unique_lock<std::mutex> &lock) {
  std::shared_ptr<SharedScratch> elsewhere;  // memory that a launch of another pool has
  Entry *oldest = nullptr;
  for (const auto &e : entries_) {
    if (!e->taken && !e->context && e->shared) elsewhere = e->shared;
    if (!e->taken && e->context && (!oldest || e->order < oldest->order)) oldest = e.get();
  }
  if (elsewhere && in_use() < limit_) {
    lock.unlock();
    elsewhere->wait();
    lock.lock();
  } else if (oldest) {
    npu_context *context = oldest->context;
    const uint64_t seqno = oldest->seqno;
    lock.unlock();
    npu_wait(context, seqno, -1, nullptr);
    lock.lock();
  } else {  // every scratch is between acquire and release of another thread
    released_.wait(lock);
  }
}

void Pool::release(Scratch *scratch, npu_context *context, uint64_t seqno) {
  {
    std::lock_guard lock(mutex_);
    for (const auto &e : entries_) {
      if (&e->scratch != scratch) continue;
      if (e->shared) e->shared->give_back(this, context, seqno);
      e->context = context;
      e->seqno = seqno;
      e->order = ++order_;
      e->taken = false;
    }
  }
  released_.notify_all();
}

}  // namespace npurt
