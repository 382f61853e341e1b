// SPDX-License-Identifier: MIT
// Bounds of what a network may compute that stores its results in 16 bits.
#ifndef NPU_FUZZ_NETS_RANGES_H
#define NPU_FUZZ_NETS_RANGES_H

#include "compiler/graph/ir.h"

namespace npu::fuzz {

/// Each element lies between low and high. From -infinity to infinity: it may be NaN as well.
struct Range {
  graph::Tensor low, high;
};

/// The outputs of a network, as the importer has made it, with results of that type.
///
/// They are derived by interval arithmetic from the rules of docs/reference/compiler.md ("Half precision"), element by
/// element. A result of the chip is rounded once to 16 bits, or not at all. It is not rounded where it is an output of
/// the network, read by the CPU, a maximum or a move, a sum with a mask, or an intermediate result of one operator of
/// the file. It becomes infinite beyond the type's largest number, but not where a Softmax reads it. What a product
/// multiplies is rounded. Besides, each result may differ by what single precision leaves open (tolerance.h).
Status evaluate_ranges(const graph::Graph &graph, const std::vector<graph::Tensor> &inputs, graph::Dtype half,
                       std::vector<Range> &outputs);

/// Empty, or where `got` lies outside of its range, or is of another type or size.
std::string outside(const graph::Tensor &got, const Range &range);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_RANGES_H
