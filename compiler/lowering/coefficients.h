// SPDX-License-Identifier: MIT
// The constants of a program, in the order and form in which its commands read them.
#ifndef NPU_COMPILER_COEFFICIENTS_H
#define NPU_COMPILER_COEFFICIENTS_H

#include <cstdint>
#include <functional>
#include <vector>

namespace npu::compiler {

/// A list of blocks with their places. Their contents are written only once a program has been chosen: many are tried,
/// and weights are large.
class Coefficients {
 public:
  /// Writes a block's numbers. Holds what it needs of them.
  using Write = std::function<void(float *)>;

  Coefficients() = default;
  /// Behind that many bytes.
  explicit Coefficients(int64_t start) : end_(start) {}

  /// Adds a block of that many numbers, 64-byte aligned, and further copies of it right behind it; returns its place in
  /// bytes.
  int64_t append(int64_t count, Write write, int64_t copies = 1);

  /// The place of the next block.
  int64_t next() const { return (end_ + 63) / 64 * 64; }
  /// The end of the last block; 0: there are none, and nothing in front of them either.
  int64_t end() const { return end_; }

  /// Appends the blocks to what stands in front of them.
  void write(std::vector<uint8_t> &out) const;

 private:
  struct Block {
    int64_t at, count, copies;
    Write write;
  };
  std::vector<Block> blocks_;
  int64_t end_ = 0;
};

}  // namespace npu::compiler

#endif  // NPU_COMPILER_COEFFICIENTS_H
