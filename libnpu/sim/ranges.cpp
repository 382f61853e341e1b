// SPDX-License-Identifier: MIT
#include "libnpu/sim/ranges.h"

#include <algorithm>
#include <iterator>

namespace npu::sim {

Ranges::Ranges(uint64_t base, uint64_t bytes) : free_{{base, bytes}}, free_bytes_(bytes) {}

std::optional<uint64_t> Ranges::take(uint64_t bytes, uint64_t align) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t start = (it->first + align - 1) & ~(align - 1);
    const uint64_t end = it->first + it->second;
    if (start >= end || end - start < bytes) continue;
    const uint64_t first = it->first;
    free_.erase(it);
    if (start > first) free_[first] = start - first;
    if (end - start > bytes) free_[start + bytes] = end - start - bytes;
    free_bytes_ -= bytes;
    return start;
  }
  return std::nullopt;
}

void Ranges::give_back(uint64_t start, uint64_t bytes) {
  free_bytes_ += bytes;
  auto it = free_.emplace(start, bytes).first;
  if (auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin()) {
    auto previous = std::prev(it);
    if (previous->first + previous->second == it->first) {
      previous->second += it->second;
      free_.erase(it);
    }
  }
}

uint64_t Ranges::largest() const {
  uint64_t most = 0;
  for (const auto &[start, bytes] : free_) most = std::max(most, bytes);
  return most;
}

}  // namespace npu::sim
