// SPDX-License-Identifier: MIT
// NPU_CACHE=strict: a record of one mapped buffer, beside it. The program's mapping is the memory that the chip uses,
// so the record can never change a result. It holds each byte's value at the last look, and its state in a cache that
// only flush and invalidate keep coherent. A byte that has changed since was written by the program, or by the chip
// where a job or copy that may write it is unfinished. A store of the value that a byte has already is not seen.
#ifndef NPU_SHADOW_H
#define NPU_SHADOW_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace npu {

/// Bytes of a buffer.
struct Extent {
  uint64_t offset, size;
  bool contains(uint64_t at) const { return at >= offset && at - offset < size; }
};

/// Bytes in one state.
struct Difference {
  uint64_t first = 0;
  uint64_t count = 0;
};

/// A job's write, for reports; of a copy, which has no context.
struct Writer {
  Extent extent;
  uint32_t context;
  uint64_t seqno;
};

class Shadow {
 public:
  /// `mapping` is the program's, and is mapped longer than the shadow exists; nullptr when the system has not enough
  /// memory.
  static std::unique_ptr<Shadow> create(const uint8_t *mapping, uint64_t bytes);

  const void *mapping() const { return memory_; }

  /// Notes what has changed in the extent. Bytes inside `chip` were written by the chip, all others by the program.
  /// What the program has written and not flushed stays its own: a job need not write all that it may.
  void look(const Extent &extent, const std::vector<Extent> &chip);
  /// The extent is the same for program and chip from now on.
  void synchronize(const Extent &extent);

  /// Written by the program and not flushed, at the last look.
  Difference dirty(const Extent &extent) const { return find(extent, kDirty); }
  /// Written by the chip and not invalidated, at the last look.
  Difference stale(const Extent &extent) const { return find(extent, kStale); }

  /// A job that may write here was submitted.
  void wrote(const Writer &writer);
  /// The last job that could write at an offset; nullptr if none is known.
  const Writer *writer_of(uint64_t offset) const;

 private:
  enum State : uint8_t { kClean, kDirty, kStale };

  using Bytes = std::unique_ptr<uint8_t[]>;
  Shadow(const uint8_t *memory, Bytes seen, Bytes states)
      : memory_(memory), seen_(std::move(seen)), states_(std::move(states)) {}
  Difference find(const Extent &extent, State state) const;

  const uint8_t *memory_;
  Bytes seen_;    // its content at the last look
  Bytes states_;  // State of each byte
  std::vector<Writer> writers_;
};

/// "16 bytes from offset 0x40 on"
std::string text_of(const Difference &difference);

}  // namespace npu

#endif  // NPU_SHADOW_H
