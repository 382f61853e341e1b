// SPDX-License-Identifier: MIT
#include "lent.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace npurt {

namespace {

// What the programs of the process have given.
std::mutex all_mutex;
std::vector<std::weak_ptr<Lent>> all;  // guarded by all_mutex

}  // namespace

Reason Lent::of(Bo bo, uint64_t offset, uint64_t bytes, std::shared_ptr<Lent> &out) {
  std::lock_guard lock(all_mutex);
  std::erase_if(all, [](const auto &lent) { return lent.expired(); });
  std::shared_ptr<Lent> same;
  for (const auto &known : all) {
    std::shared_ptr<Lent> lent = known.lock();
    if (!lent || lent->bo_.get() != bo.get()) continue;
    if (lent->offset_ == offset)
      same = std::move(lent);
    else if (lent->offset_ < offset + bytes && offset < lent->offset_ + lent->bytes_)
      return "it overlaps other memory that was given for activations and does not begin at the same byte";
  }
  if (same) {
    same->bytes_ = std::max(same->bytes_, bytes);
    out = std::move(same);
    return {};
  }
  out = std::make_shared<Lent>(std::move(bo), offset, bytes);
  all.push_back(out);
  return {};
}

bool Lent::try_take() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || taken_ || (context_ && npu_wait(context_, seqno_, 0, nullptr) == -ETIME)) return false;
  context_ = nullptr;
  taken_ = true;
  return true;
}

void Lent::give_back(const void *owner, npu_context *context, uint64_t seqno) {
  {
    std::lock_guard lock(mutex_);
    owner_ = owner;
    context_ = context;
    seqno_ = seqno;
    taken_ = false;
  }
  given_back_.notify_all();
}

/// Called with mutex_ held, so that the context stays.
void Lent::wait_for_job() {
  if (context_) npu_wait(context_, seqno_, -1, nullptr);
  context_ = nullptr;
}

void Lent::wait() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [this] { return !taken_; });
  wait_for_job();
}

void Lent::forget(const void *owner) {
  std::lock_guard lock(mutex_);
  if (owner_ == owner) wait_for_job();
}

}  // namespace npurt
