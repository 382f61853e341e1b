// SPDX-License-Identifier: MIT
// How far a search for a schedule is, and whether it goes on.
#ifndef NPU_COMPILER_PROGRESS_H
#define NPU_COMPILER_PROGRESS_H

#include <cstddef>
#include <cstdint>
#include <functional>

namespace npu::compiler {

struct SearchState {
  size_t tried = 0;                       ///< schedules
  uint64_t first_cycles = 0, cycles = 0;  ///< of the program that it began with; of the best one
};

/// Asked before each batch of candidates, first with none tried: whether to go on. Everything else about a search is
/// the same each time: after as many candidates there is the same result.
using KeepSearching = std::function<bool(const SearchState &)>;

}  // namespace npu::compiler

#endif  // NPU_COMPILER_PROGRESS_H
