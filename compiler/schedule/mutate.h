// SPDX-License-Identifier: MIT
// New choices from known ones, at random, but the same in every run.
#ifndef NPU_COMPILER_MUTATE_H
#define NPU_COMPILER_MUTATE_H

#include <random>

#include "compiler/schedule/program.h"

namespace npu::compiler {

/// For a program of one core: for each operator, as choices call it, the cycles in which the TIU waits for it or works
/// slower than it could.
std::vector<uint64_t> waits_of(const Program &program);

class Mutator {
 public:
  Mutator(const Lowered &lowered, int64_t lmem_bytes) : lowered_(lowered), lmem_bytes_(lmem_bytes), random_(kSeed) {}

  /// A number below `end`.
  size_t below(size_t end) { return static_cast<size_t>(random_() % end); }

  /// One to three decisions changed, mostly of operators that wait, or of others shortly before them.
  Choices mutated(const Choices &from, const std::vector<uint64_t> &waits);
  /// The decisions about the first operators from one parent, those about the others from the other one.
  Choices crossed(const Choices &first, const Choices &second);

 private:
  static constexpr uint64_t kSeed = 1;

  template <class T, size_t N>
  T one_of(const T (&values)[N]) {
    return values[below(N)];
  }
  uint32_t pick(const std::vector<uint64_t> &waits);
  int64_t some_block();
  void change_whole(Choices &c);
  void change_layer(uint32_t op, Choices &c);
  void change_op(uint32_t op, Choices &c);
  void change_order(uint32_t op, Choices &c);
  void forget(Choices &c);

  const Lowered &lowered_;
  const int64_t lmem_bytes_;
  std::mt19937_64 random_;
};

}  // namespace npu::compiler

#endif  // NPU_COMPILER_MUTATE_H
