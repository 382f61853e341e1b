// SPDX-License-Identifier: MIT
// A smaller network that still does what a large one does.
#ifndef NPU_FUZZ_NETS_SHRINK_H
#define NPU_FUZZ_NETS_SHRINK_H

#include <functional>

#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

/// Leaves out nodes and makes numbers smaller as long as `fails` holds, which is called at most `most_trials` times.
/// Precondition: fails(plan).
Plan shrink(const Plan &plan, const std::function<bool(const Plan &)> &fails, int most_trials);

/// The nodes of an ONNX file for people, one a line.
std::string describe(const std::string &model);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_SHRINK_H
