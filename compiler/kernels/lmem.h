// SPDX-License-Identifier: MIT
// Local memory as the code generator hands it out. Copies of an allocator are used to try a plan.
#ifndef NPU_COMPILER_LMEM_H
#define NPU_COMPILER_LMEM_H

#include <cstdint>
#include <map>
#include <optional>

namespace npu::compiler {

class LmemAllocator {
 public:
  static constexpr int64_t kAlign = 64;

  explicit LmemAllocator(int64_t bytes) : size_(bytes) { free_[0] = bytes; }

  static int64_t rounded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

  /// Tile buffers come from below and long-lived tensors from above, so that the free space stays in one piece.
  std::optional<uint32_t> take(int64_t bytes, bool from_above);
  void give(uint32_t addr, int64_t bytes);

  int64_t free_bytes() const;
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  std::map<int64_t, int64_t> free_;  ///< start -> bytes, never adjacent
};

}  // namespace npu::compiler

#endif  // NPU_COMPILER_LMEM_H
