// SPDX-License-Identifier: MIT
// Networks are checked in a process of their own: one that crashes or hangs is a finding like any other.
#ifndef NPU_FUZZ_NETS_APART_H
#define NPU_FUZZ_NETS_APART_H

#include "tests/fuzz/nets/check.h"

namespace npu::fuzz {

inline constexpr const char *kSlow = "slow";  ///< the kind of a network that takes too long

struct Found {
  size_t index;  ///< in the list of plans
  Finding finding;
};

/// Checks networks in order and adds up what was done. With `runtime` they are compared with ONNX Runtime, if
/// NPU_ONNXRUNTIME names it. A kind "usage" says that it cannot be opened.
std::vector<Found> check_apart(const std::vector<Plan> &plans, bool runtime, Counts &counts);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_APART_H
