// SPDX-License-Identifier: MIT
#include "pool.h"

#include <algorithm>
#include <cerrno>

namespace npurt {

Pool::~Pool() {
  for (const auto &e : entries_)
    if (e->context) npu_wait(e->context, e->seqno, -1, nullptr);
}

void Pool::set_limit(int limit) {
  std::lock_guard lock(mutex_);
  limit_ = static_cast<size_t>(std::max(limit, 1));
}

/// Called with mutex_ held. A wait that fails otherwise than by its timeout means that the device is gone, and the job
/// with it.
bool Pool::try_acquire(Scratch **scratch) {
  Entry *idle = nullptr;
  size_t used = 0;
  for (const auto &e : entries_) {
    if (e->context && npu_wait(e->context, e->seqno, 0, nullptr) != -ETIME) e->context = nullptr;
    if (e->taken || e->context)
      ++used;
    else
      idle = e.get();
  }
  if (!idle || used >= limit_) return false;
  idle->taken = true;
  *scratch = &idle->scratch;
  return true;
}

/// Called with mutex_ held.
Reason Pool::create(Scratch **scratch, bool &short_of_memory) {
  auto e = std::make_unique<Entry>();
  e->scratch.staging.resize(outputs_);
  if (ctx_bytes_) {
    npu_bo *bo;
    const int err = npu_bo_create(device_, ctx_bytes_, DRM_NPU_BO_CARD, &bo);
    short_of_memory = err == -ENOSPC || err == -ENOMEM;
    if (err) return std::string("activation memory: ") + npu_last_error();
    e->scratch.ctx.reset(bo);
  }
  e->taken = true;
  *scratch = &e->scratch;
  entries_.push_back(std::move(e));
  return {};
}

Reason Pool::acquire(Scratch **scratch) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (try_acquire(scratch)) return {};
    if (entries_.size() < limit_) {
      bool short_of_memory = false;
      const Reason why = create(scratch, short_of_memory);
      if (why.empty() || !short_of_memory || entries_.empty()) return why;
    }
    Entry *oldest = nullptr;
    for (const auto &e : entries_)
      if (!e->taken && e->context && (!oldest || e->order < oldest->order)) oldest = e.get();
    if (!oldest) {  // every scratch is between acquire and release of another thread
      released_.wait(lock);
      continue;
    }
    npu_context *context = oldest->context;
    const uint64_t seqno = oldest->seqno;
    lock.unlock();
    npu_wait(context, seqno, -1, nullptr);
    lock.lock();
  }
}

void Pool::release(Scratch *scratch, npu_context *context, uint64_t seqno) {
  {
    std::lock_guard lock(mutex_);
    for (const auto &e : entries_) {
      if (&e->scratch != scratch) continue;
      e->context = context;
      e->seqno = seqno;
      e->order = ++order_;
      e->taken = false;
    }
  }
  released_.notify_all();
}

}  // namespace npurt
