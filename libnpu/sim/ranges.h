// SPDX-License-Identifier: MIT
// Who owns which part of a range of numbers: card memory, device addresses, bus addresses. Not thread-safe.
#ifndef NPU_SIM_RANGES_H
#define NPU_SIM_RANGES_H

#include <cstdint>
#include <map>
#include <optional>

namespace npu::sim {

class Ranges {
 public:
  Ranges(uint64_t base, uint64_t bytes);

  /// First fit. align is a power of two.
  std::optional<uint64_t> take(uint64_t bytes, uint64_t align);
  /// A range that take() returned, with its size.
  void give_back(uint64_t start, uint64_t bytes);

  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t largest() const;

 private:
  std::map<uint64_t, uint64_t> free_;  // start -> bytes, never adjacent
  uint64_t free_bytes_;
};

}  // namespace npu::sim

#endif  // NPU_SIM_RANGES_H
