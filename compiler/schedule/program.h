// SPDX-License-Identifier: MIT
// The best program for a network: the ways of making one are tried, and their exact cycles compared.
#ifndef NPU_COMPILER_PROGRAM_H
#define NPU_COMPILER_PROGRAM_H

#include "compiler/schedule/bind.h"
#include "compiler/schedule/schedule.h"

namespace npu::compiler {

/// A network as its cores compute it.
struct LoweredCores {
  std::vector<Lowered> cores;      ///< the last one has the coefficients of all
  std::vector<int64_t> exchanges;  ///< bytes of the tensors between them
};

/// A network's program for a given size of local memory.
struct Program {
  LoweredCores lowered;
  std::vector<Generated> generated;      ///< of each core
  Coefficients coeff;                    ///< of all of them
  int64_t lmem_bytes = 0;                ///< local memory that the core uses which uses most
  int64_t gap_bytes = 0;                 ///< in the middle of it, which nothing uses
  std::vector<std::vector<Hold>> holds;  ///< of each core's local memory, by Command::place
  Bound bound;
  Streams streams;
  Choices choices;  ///< that make it; of several cores, each one's

  uint64_t cycles() const { return streams.timeline.cycles; }
  size_t command_count() const;  ///< of all cores and engines
};

/// Fewer cycles, or as many with less local memory.
bool better(const Program &a, const Program &b);

/// The program of one core that these choices make.
Status make_program(const Lowered &lowered, const std::vector<graph::Source> &sources, const Choices &choices,
                    PlanMemo *memo, Program &out);

/// Local memory is asked for in pieces of this size.
inline constexpr int64_t kLmemGrain = 4096;

/// The local memory without what a program leaves unused in the middle of it, but at least `least_bytes`.
int64_t needed_lmem(const Program &program, int64_t least_bytes);

/// The program with the fewest cycles in local memory of `lmem_bytes`; among equals the one that needs least of it,
/// down to `least_bytes`.
Status make_program(const LoweredCores &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
                    int64_t least_bytes, Program &out, PlanMemo *memo = nullptr);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_PROGRAM_H
