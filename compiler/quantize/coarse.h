// SPDX-License-Identifier: MIT
// Tensors whose integers would have too few steps for the numbers that count. Masked numbers, which lie far from all
// others and lose every comparison, do not count; each part of a tensor does.
#ifndef NPU_QUANTIZE_COARSE_H
#define NPU_QUANTIZE_COARSE_H

#include "compiler/quantize/histogram.h"
#include "compiler/quantize/insert.h"
#include "compiler/quantize/parts.h"

namespace npu::quantize {

/// Steps that a part needs for its own range: with fewer it is coarse.
inline constexpr double kLeastSteps = 16;

/// Steps of a range that has 0, by the scale of its integers.
double steps_of(const Range &range, float scale);
/// True if a part has numbers other than 0 and too few steps.
bool is_coarse(const Range &range, float scale);
/// "LOW to HIGH, for which N of 256 steps are left"
std::string steps_text(const Range &range, float scale);

/// Results of a calibration.
struct Seen {
  std::map<graph::ValueId, Histogram> histograms;
  std::map<graph::ValueId, Range> ranges;  ///< each value by itself
  std::map<graph::ValueId, Slices> slices;
};

/// Values that outputs are rearrangements, concatenations or multiples of, and the outputs.
std::set<graph::ValueId> find_near_outputs(const graph::Graph &graph);

/// The beginning of the reason of a tensor with a mask that no sample has.
inline constexpr const char *kUnseenMask = "a mask that was 0 in all samples";

struct CoarseTensor {
  graph::ValueId value = graph::kNoValue;
  std::string reason;
};

/// The values of a plan that no integers should stand for. A value that a product reads is none: it needs integers.
/// `names`: those of all values.
std::vector<CoarseTensor> find_coarse(const graph::Graph &graph, const Plan &plan, const Seen &seen,
                                      const Quants &quants, const std::vector<std::string> &names);

/// The coarse parts of Concat operators that stay integers, and what would help, as sentences.
std::vector<std::string> find_coarse_parts(const graph::Graph &graph, const Plan &plan, const Seen &seen,
                                           const Quants &quants, const std::vector<std::string> &names);

/// Products of the plan that read a value, also behind moves.
std::vector<size_t> products_of(const graph::Graph &graph, const Plan &plan, graph::ValueId v);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_COARSE_H
