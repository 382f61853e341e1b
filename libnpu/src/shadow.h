// SPDX-License-Identifier: MIT
// NPU_CACHE=strict: a program's mapping is a copy of the memory, and only flush and invalidate carry bytes between the
// two. A copy knows what it was at its last synchronisation: bytes that differ from that were written by the program,
// bytes of the memory that differ from it by the chip. A byte that the program writes with the value that it has
// already does not count as written.
#ifndef NPU_SHADOW_H
#define NPU_SHADOW_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace npu {

/// Bytes that differ.
struct Difference {
  uint64_t first = 0;
  uint64_t count = 0;
};

/// A job's write, for reports.
struct Writer {
  uint64_t offset, size;
  uint32_t context;
  uint64_t seqno;
};

class Shadow {
 public:
  /// Of memory that nobody unmaps before the shadow; nullptr when the system has not enough.
  static std::unique_ptr<Shadow> create(uint8_t *memory, uint64_t bytes);
  ~Shadow();
  Shadow(const Shadow &) = delete;
  Shadow &operator=(const Shadow &) = delete;

  /// What the program sees.
  void *mapping() const { return cpu_; }

  /// The mapping outlives the shadow and is the caller's to unmap.
  void *release() { return std::exchange(cpu_, nullptr); }

  /// The program's bytes go to the memory.
  void flush(uint64_t offset, uint64_t size);
  /// The memory's bytes come to the program; returns what the program loses.
  Difference invalidate(uint64_t offset, uint64_t size);

  /// Written by the program and not flushed.
  Difference dirty(uint64_t offset, uint64_t size) const;
  /// Written by the chip and not invalidated.
  Difference stale(uint64_t offset, uint64_t size) const;

  /// A job that may write here was submitted.
  void wrote(const Writer &writer);
  /// The last job that could write at an offset; nullptr if none is known.
  const Writer *writer_of(uint64_t offset) const;

 private:
  Shadow(uint8_t *memory, uint8_t *cpu, uint64_t bytes, std::unique_ptr<uint8_t[]> base)
      : memory_(memory), cpu_(cpu), bytes_(bytes), base_(std::move(base)) {}

  uint8_t *memory_;
  uint8_t *cpu_;
  uint64_t bytes_;
  std::unique_ptr<uint8_t[]> base_;  // both, when they were last the same
  std::vector<Writer> writers_;
};

/// "16 bytes from offset 0x40"
std::string text_of(const Difference &difference);

}  // namespace npu

#endif  // NPU_SHADOW_H
