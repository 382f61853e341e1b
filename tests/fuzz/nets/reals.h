// SPDX-License-Identifier: MIT
// Random networks for results of 16 bits: numbers at the limits of the types, and masks.
#ifndef NPU_FUZZ_NETS_REALS_H
#define NPU_FUZZ_NETS_REALS_H

#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

/// The network of a plan: operators of all kinds, scaled to any size, and masked scores.
Made make_reals_network(const Plan &plan, Plan *smallest);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_REALS_H
