// SPDX-License-Identifier: MIT
#include "compiler/kernels/lmem.h"

namespace npu::compiler {

std::optional<uint32_t> LmemAllocator::take(int64_t bytes, bool from_above) {
  bytes = rounded(bytes);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < bytes) continue;
    best = it;
    if (!from_above) break;
  }
  if (best == free_.end()) return std::nullopt;
  const int64_t start = best->first, size = best->second;
  if (from_above) {
    if (size == bytes)
      free_.erase(best);
    else
      best->second -= bytes;
    return static_cast<uint32_t>(start + size - bytes);
  }
  free_.erase(best);
  if (size > bytes) free_[start + bytes] = size - bytes;
  return static_cast<uint32_t>(start);
}

void LmemAllocator::give(uint32_t addr, int64_t bytes) {
  auto it = free_.emplace(addr, rounded(bytes)).first;
  const auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != it->first) return;
  before->second += it->second;
  free_.erase(it);
}

int64_t LmemAllocator::free_bytes() const {
  int64_t sum = 0;
  for (const auto &[start, bytes] : free_) sum += bytes;
  return sum;
}

}  // namespace npu::compiler
