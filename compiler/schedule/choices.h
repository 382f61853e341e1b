// SPDX-License-Identifier: MIT
// What a schedule may decide otherwise than the code generator does by itself. Any choices give a right program: where
// one cannot be followed, the code generator does as if it were not there.
#ifndef NPU_COMPILER_CHOICES_H
#define NPU_COMPILER_CHOICES_H

#include <map>
#include <optional>

#include "compiler/lowering/lowered.h"

namespace npu::compiler {

/// Whether the weights of a layer come ahead of the commands that read them.
enum class Ahead : uint8_t {
  Judged,  ///< where the policy has it so
  Never,
  Always,  ///< where there is room
};

struct PrefetchPolicy {
  /// Also weights that a command can stream as fast as it computes: what it does not stream is left for others.
  bool all = false;
  /// Only what, by an estimate, comes early enough to save cycles.
  bool judge = true;
  int64_t piece_bytes = 256 << 10;  ///< a block comes in pieces of this size, so that other transfers get in between
  int64_t slack = 8;                ///< a block is given so many 64ths of the time that it takes in addition
  std::map<uint32_t, Ahead> layers = {};  ///< those for which it is not Judged

  bool operator==(const PrefetchPolicy &) const = default;
};

/// Where the result of an operator goes.
enum class ResultPlace : uint8_t { Cheapest, Local, Memory };

/// What one operator does otherwise.
struct OpChoice {
  static constexpr int64_t kWhole = 64;

  int64_t room = kWhole;          ///< of the free local memory, so many 64ths are for its tile buffers
  int64_t weight_block = 0;       ///< its own Choices::weight_block; 0: that of all
  int64_t evictions = INT64_MAX;  ///< as many tensors at most leave local memory for it
  int64_t transfers = kWhole;     ///< so many 64ths of the cycles of transfers count when its tiles are chosen
  bool above = false;             ///< its tile buffers lie high in local memory, where those before it do not
  ResultPlace result = ResultPlace::Cheapest;

  bool operator==(const OpChoice &) const = default;
};

/// An operator that runs earlier, in front of another one or as far towards it as its operands allow.
struct Move {
  uint32_t op = 0, before = 0;
  bool operator==(const Move &) const = default;
};

/// Operators go by their index in Lowered::ops. Defaults stand for nothing and are not listed.
struct Choices {
  int64_t lmem_bytes = 0;                  ///< local memory that the program may use
  int64_t weight_block = INT64_MAX;        ///< bytes of weights at which commands that wait for them are cut
  std::optional<PrefetchPolicy> prefetch;  ///< none: weights stream
  std::map<uint32_t, OpChoice> ops;
  std::vector<Move> moves;  ///< one after another

  bool operator==(const Choices &) const = default;
  /// How many decisions differ from the code generator's.
  size_t size() const { return ops.size() + moves.size() + (prefetch ? prefetch->layers.size() : 0); }
};

/// The order of a network's operators with these moves. No operator passes another one that writes what it touches, or
/// touches what it writes. A move of operators that do not exist, or backwards, is none.
std::vector<uint32_t> order_of(const Lowered &lowered, const std::vector<Move> &moves);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CHOICES_H
