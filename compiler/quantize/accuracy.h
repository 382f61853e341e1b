// SPDX-License-Identifier: MIT
// Keeps layers in float32 until a network of integers is near enough to what it was.
#ifndef NPU_QUANTIZE_ACCURACY_H
#define NPU_QUANTIZE_ACCURACY_H

#include "compiler/quantize/trial.h"

namespace npu::quantize {

/// Measures how much each layer of the plan hurts, and finds the fewest of the worst that have to stay in float32 for
/// the limit of the options to hold; adds their sources to `kept`. `parts`: those of each output, which a cosine has to
/// hold for as well. The result gets what was measured.
/// Error: it does not hold as long as any layer is in integers.
Status reach_accuracy(const graph::Graph &graph, const Plan &plan, const Known &known, const Options &options,
                      const std::vector<Parts> &parts, std::set<int> &kept, std::vector<double> &sensitivities,
                      Result &result);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_ACCURACY_H
