// SPDX-License-Identifier: MIT
#include "runtime/launch/memory/shared_scratch.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace npurt {

namespace {

// What the programs of the process have given.
std::mutex all_mutex;
std::vector<std::weak_ptr<SharedScratch>> all;  // guarded by all_mutex

}  // namespace

Status SharedScratch::of(Bo bo, uint64_t offset, uint64_t bytes, std::shared_ptr<SharedScratch> &out) {
  std::lock_guard lock(all_mutex);
  std::erase_if(all, [](const auto &scratch) { return scratch.expired(); });
  std::shared_ptr<SharedScratch> same;
  for (const auto &known : all) {
    std::shared_ptr<SharedScratch> scratch = known.lock();
    if (!scratch || scratch->bo_.get() != bo.get()) continue;
    if (scratch->offset_ == offset)
      same = std::move(scratch);
    else if (scratch->offset_ < offset + bytes && offset < scratch->offset_ + scratch->bytes_)
      return Status::error(
          "it overlaps other memory that was given for activations and does not begin at the same byte");
  }
  if (same) {
    same->bytes_ = std::max(same->bytes_, bytes);
    out = std::move(same);
    return {};
  }
  out = std::make_shared<SharedScratch>(std::move(bo), offset, bytes);
  all.push_back(out);
  return {};
}

bool SharedScratch::try_take() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || taken_ || (context_ && npu_wait(context_, seqno_, 0, nullptr) == -ETIME)) return false;
  context_ = nullptr;
  taken_ = true;
  return true;
}

void SharedScratch::give_back(const void *owner, npu_context *context, uint64_t seqno) {
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
void SharedScratch::wait_for_job() {
  if (context_) npu_wait(context_, seqno_, -1, nullptr);
  context_ = nullptr;
}

void SharedScratch::wait() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [this] { return !taken_; });
  wait_for_job();
}

void SharedScratch::forget(const void *owner) {
  std::lock_guard lock(mutex_);
  if (owner_ == owner) wait_for_job();
}

}  // namespace npurt
