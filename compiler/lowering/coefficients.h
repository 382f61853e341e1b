// SPDX-License-Identifier: MIT
// The constants of a program, in the order and form in which its commands read them.
#ifndef NPU_COMPILER_COEFFICIENTS_H
#define NPU_COMPILER_COEFFICIENTS_H

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "compiler/graph/tensor.h"

namespace npu::compiler {

/// Calls f with a number as large as an element of a type. Who only moves elements needs to know no more of them.
template <class F>
void with_word(graph::Dtype type, F f) {
  switch (graph::dtype_bytes(type)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

/// A list of blocks with their places. Their contents are written only once a program has been chosen: many are tried,
/// and weights are large.
class Coefficients {
 public:
  /// Writes a block's bytes. Holds what it needs of them.
  using Write = std::function<void(uint8_t *)>;

  Coefficients() = default;
  /// Behind that many bytes.
  explicit Coefficients(int64_t start) : end_(start) {}

  struct Block {
    int64_t bytes;
    Write write;
    int64_t copies = 1;  ///< so often right behind each other
    int64_t all_bytes() const { return bytes * copies; }
  };
  /// What blocks are made of: a tensor that they hold, and how it is cut.
  struct Key {
    const void *tensor;
    std::vector<int64_t> cut;
    auto operator<=>(const Key &) const = default;
  };

  /// Adds a block, 64-byte aligned; returns its place in bytes.
  int64_t append(Block block);
  /// Adds blocks one behind the other and returns their places; those that are there already, if the key is known.
  std::vector<int64_t> append(const Key &key, std::vector<Block> blocks);

  /// The place of the next block.
  int64_t next() const { return (end_ + 63) / 64 * 64; }
  /// The end of the last block; 0: there are none, and nothing in front of them either.
  int64_t end() const { return end_; }

  /// Appends the blocks to what stands in front of them.
  void write(std::vector<uint8_t> &out) const;

 private:
  struct Placed {
    int64_t at;
    Block block;
  };
  std::vector<Placed> blocks_;
  std::map<Key, std::vector<int64_t>> known_;
  int64_t end_ = 0;
};

}  // namespace npu::compiler

#endif  // NPU_COMPILER_COEFFICIENTS_H
