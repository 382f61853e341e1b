// SPDX-License-Identifier: MIT
// Memory that several mappings share: the card's DDR and system buffers. Backed by a memfd, so that a program's mapping
// can be taken away from it (sealing) without touching the chip's, and so that pages exist only once used.
#ifndef NPU_SIM_MEMORY_H
#define NPU_SIM_MEMORY_H

#include <cstdint>
#include <memory>

namespace npu::sim {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBlock = 2u << 20;

constexpr uint64_t page_align(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

class Memory {
 public:
  /// Zeroed; nullptr when the system has not enough.
  static std::unique_ptr<Memory> create(const char *name, uint64_t bytes);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  uint8_t *data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

  /// Makes a range zero; large ones are given back to the system.
  void clear(uint64_t offset, uint64_t bytes);
  /// Another mapping of a range, nullptr if impossible; unmap with munmap().
  void *map(uint64_t offset, uint64_t bytes, bool writable) const;

 private:
  Memory(int fd, uint8_t *data, uint64_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}

  int fd_;
  uint8_t *data_;
  uint64_t bytes_;
};

}  // namespace npu::sim

#endif  // NPU_SIM_MEMORY_H
