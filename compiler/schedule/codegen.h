// SPDX-License-Identifier: MIT
// From lowered operators to commands in sequential order: which tensors stay in local memory, and how each operator is
// cut.
#ifndef NPU_COMPILER_CODEGEN_H
#define NPU_COMPILER_CODEGEN_H

#include "compiler/kernels/kernel.h"
#include "compiler/schedule/choices.h"

namespace npu::compiler {

/// What became of one operator, for the report.
struct OpReport {
  int op = 0;  ///< index in Lowered::ops, as they are ordered then
  int64_t tiles = 1;
  int64_t lmem_bytes = 0;  ///< local memory in use while it runs
  bool resident = false;   ///< its result stays in local memory
};

/// A piece of local memory that a tile buffer or a tensor has while commands [first, end) run.
struct Hold {
  int64_t addr = 0, bytes = 0;
  size_t first = 0, end = 0;
  int storage = -1;    ///< a tensor; kTileBuffer, kWeights
  uint32_t layer = 0;  ///< that writes it

  static constexpr int kTileBuffer = -1, kWeights = -2;  ///< the latter come ahead
};

struct Generated {
  std::vector<Command> commands;
  std::vector<OpReport> reports;
  std::vector<uint32_t> names;  ///< what choices call each of Lowered::ops
  std::vector<Hold> holds;      ///< everything that local memory holds, in no order
  int64_t lmem_bytes = 0;       ///< high-water mark
  int64_t buffers_to = 0;       ///< end of the highest tile buffer
  int64_t tensors_from = 0;     ///< start of the lowest tensor
};

/// Plans that kernels have made, for those who generate a network again and again with few differences, and for
/// operators that differ only in where their tensors are.
class PlanMemo {
 public:
  /// All that a plan depends on: `shape` is a shape_of(), `local` has a bit for each operand, and for the result, that
  /// is in local memory.
  struct Key {
    uint32_t shape, local;
    int64_t budget, weight_block, transfers;
    auto operator<=>(const Key &) const = default;
  };

  /// A number for everything of an operator that plans depend on.
  uint32_t shape_of(const LoweredOp &op, const std::vector<Storage> &storages);
  Plan plan(const Key &key, const Kernel &kernel);

 private:
  std::map<std::vector<int64_t>, uint32_t> shapes_;
  std::map<Key, Plan> plans_;
};

/// Puts the operators into the order that the choices have, and makes commands of them.
Status generate(Lowered &lowered, const std::vector<graph::Source> &sources, const Choices &choices, Generated &out,
                PlanMemo *memo = nullptr);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CODEGEN_H
