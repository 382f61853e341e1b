// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/compute/onednn/packed_cache.h"

#include <cstdlib>
#include <new>

#include "qemu-device/model/src/config.h"

namespace npu::model {

namespace {
constexpr size_t kAlignment = 64;  // of a cache line and of the widest vector
}

void AlignedBuffer::Free::operator()(void *p) const { std::free(p); }

void *AlignedBuffer::reserve(size_t bytes) {
  if (bytes <= bytes_) return data_.get();
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset();
  bytes_ = 0;
  data_.reset(std::aligned_alloc(kAlignment, rounded));
  if (!data_) throw std::bad_alloc();
  bytes_ = rounded;
  return data_.get();
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
  bytes_ -= entry->second->data.bytes();
  index_.erase(entry->first);
  entries_.erase(entry);
}

void PackedCache::insert(const PackedKey &key, Ref packed, uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const size_t size = packed->data.bytes();
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
