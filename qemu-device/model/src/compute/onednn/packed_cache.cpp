// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/compute/onednn/packed_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "qemu-device/model/src/config.h"

namespace npu::model {

namespace {
constexpr size_t kAlignment = 64;  // of a cache line and of the widest vector
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kBlock = 8 * kHugePage;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
}  // namespace

void AlignedBuffer::Free::operator()(void *p) const { std::free(p); }

void *AlignedBuffer::reserve(size_t bytes) {
  if (bytes <= bytes_) return data_.get();
  const size_t rounded = aligned(bytes);
  data_.reset();
  bytes_ = 0;
  // In huge pages as far as it fills them: the host has a tenth of the work with them.
  const size_t huge = rounded / kHugePage * kHugePage;
  void *fresh = nullptr;
  if (posix_memalign(&fresh, huge ? kHugePage : kAlignment, rounded)) throw std::bad_alloc();
  if (huge) madvise(fresh, huge, MADV_HUGEPAGE);
  data_.reset(fresh);
  bytes_ = rounded;
  return data_.get();
}

PackedCache::PackedCache(size_t max_bytes)
    : max_bytes_(max_bytes), block_bytes_(std::min(kBlock, max_bytes / 16 / kAlignment * kAlignment)) {}

std::shared_ptr<AlignedBuffer> PackedCache::new_block(size_t bytes) {
  while (!entries_.empty() && bytes <= max_bytes_ && *live_ + bytes > max_bytes_) drop(std::prev(entries_.end()));
  auto block = std::make_unique<AlignedBuffer>(bytes);
  *live_ += block->bytes();
  return {block.release(), [live = live_](AlignedBuffer *b) {
            *live -= b->bytes();
            delete b;
          }};
}

std::shared_ptr<void> PackedCache::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > block_bytes_ / 4) {
    const std::shared_ptr<AlignedBuffer> own = new_block(bytes);
    return {own, own->data()};
  }
  if (!block_ || used_ + bytes > block_->bytes()) {
    block_.reset();
    block_ = new_block(block_bytes_);
    used_ = 0;
  }
  const std::shared_ptr<void> memory{block_, static_cast<char *>(block_->data()) + used_};
  used_ += aligned(bytes);
  return memory;
}

PackedCache::Ref PackedCache::find(const PackedKey &key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

uint64_t PackedCache::ticket(uint32_t asid) {
  const std::lock_guard lock(mutex_);
  return forgets(asid);
}

void PackedCache::drop(std::list<Entry>::iterator entry) {
  bytes_ -= entry->second->bytes;
  index_.erase(entry->first);
  entries_.erase(entry);
}

void PackedCache::insert(const PackedKey &key, Ref packed, uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const size_t size = packed->bytes;
  if (forgets(key.asid) != ticket || size > max_bytes_ || index_.contains(key)) return;
  while (bytes_ + size > max_bytes_) drop(std::prev(entries_.end()));
  entries_.emplace_front(key, std::move(packed));
  index_[key] = entries_.begin();
  bytes_ += size;
}

void PackedCache::forget(uint32_t asid) {
  const std::lock_guard lock(mutex_);
  const bool every = asid == kEveryIdentity;
  if (every)
    for (uint64_t &f : forgets_) ++f;
  else
    ++forgets(asid);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (every || entry->first.asid == asid) drop(entry);
    entry = next;
  }
}

size_t PackedCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace npu::model
