// SPDX-License-Identifier: MIT
#include "libnpu/sim/bus.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>

#include "libnpu/sim/memory.h"

namespace npu::sim {
namespace {

constexpr uint64_t kBase = 1ull << 32;
constexpr uint64_t kSpan = 1ull << 46;
constexpr size_t kSmall = 64;

bool words(const void *a, const void *b, size_t bytes, size_t word) {
  return bytes <= kSmall &&
         ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) | bytes) & (word - 1)) == 0;
}

template <typename Word>
void store_words(void *to, const void *from, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(Word); i++)
    __atomic_store_n(static_cast<Word *>(to) + i, static_cast<const Word *>(from)[i], __ATOMIC_RELEASE);
}

template <typename Word>
void load_words(void *to, const void *from, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(Word); i++)
    static_cast<Word *>(to)[i] = __atomic_load_n(static_cast<const Word *>(from) + i, __ATOMIC_ACQUIRE);
}

}  // namespace

Bus::Bus() : addresses_(kBase, kSpan) {}

uint64_t Bus::attach(void *host, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  bytes = (bytes + kPage - 1) & ~(kPage - 1);
  const auto address = addresses_.take(bytes, bytes >= kBlock ? kBlock : kPage);
  if (!address) return 0;
  pieces_[*address] = {static_cast<uint8_t *>(host), bytes};
  return *address;
}

void Bus::detach(uint64_t address) {
  std::unique_lock lock(mutex_);
  const auto it = pieces_.find(address);
  if (it == pieces_.end()) return;
  addresses_.give_back(address, it->second.bytes);
  pieces_.erase(it);
}

uint8_t *Bus::find(uint64_t address, uint64_t bytes) const {
  auto it = pieces_.upper_bound(address);
  if (it == pieces_.begin()) return nullptr;
  --it;
  const uint64_t offset = address - it->first;
  if (offset >= it->second.bytes || it->second.bytes - offset < bytes) return nullptr;
  return it->second.host + offset;
}

int Bus::read(uint64_t address, void *to, size_t bytes) {
  std::shared_lock lock(mutex_);
  const uint8_t *host = find(address, bytes);
  if (!host) return -EFAULT;
  if (words(to, host, bytes, 8))
    load_words<uint64_t>(to, host, bytes);
  else if (words(to, host, bytes, 4))
    load_words<uint32_t>(to, host, bytes);
  else
    memcpy(to, host, bytes);
  return 0;
}

int Bus::write(uint64_t address, const void *from, size_t bytes) {
  std::shared_lock lock(mutex_);
  uint8_t *host = find(address, bytes);
  if (!host) return -EFAULT;
  if (words(host, from, bytes, 8))
    store_words<uint64_t>(host, from, bytes);
  else if (words(host, from, bytes, 4))
    store_words<uint32_t>(host, from, bytes);
  else
    memcpy(host, from, bytes);
  return 0;
}

}  // namespace npu::sim
