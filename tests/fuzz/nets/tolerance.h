// SPDX-License-Identifier: MIT
// How far two right results of a network may lie apart.
#ifndef NPU_FUZZ_NETS_TOLERANCE_H
#define NPU_FUZZ_NETS_TOLERANCE_H

#include "compiler/graph/ir.h"

namespace npu::fuzz {

/// Elements of one output may differ by `absolute`; NaN and infinity only from themselves.
struct Tolerance {
  double absolute = 0;
};

/// The outputs that the evaluator computes, and what another computation of them in single precision may differ by.
///
/// That is found by experiment. The evaluator computes the network a few times more, and each time every result of
/// arithmetic in float32 is disturbed, at random, by what single precision may lose there: a sum of K products, in any
/// order, by (4 + K / 4) * 2^-23 of the sum of their absolute values; other results by as much of the largest;
/// functions that are not algebraic by 4 ULP + 1e-7 besides (docs/reference/hardware.md). An output may differ by
/// kSafety times of how far it has moved, which covers that rounding errors are not random and that few trials were
/// made. Where no arithmetic leads to an output it does not move, and has to be equal to the bit.
Status evaluate_with_tolerance(const graph::Graph &graph, const std::vector<graph::Tensor> &inputs, uint64_t seed,
                               std::vector<graph::Tensor> &outputs, std::vector<Tolerance> &tolerances);

/// Empty, or where `got` differs from `want` by more than `factor` times the tolerance, or is of another type or size.
std::string difference(const graph::Tensor &got, const graph::Tensor &want, const Tolerance &tolerance, double factor);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_TOLERANCE_H
