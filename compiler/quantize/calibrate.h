// SPDX-License-Identifier: MIT
// Runs samples through a network in float32 and looks at what its tensors are.
#ifndef NPU_QUANTIZE_CALIBRATE_H
#define NPU_QUANTIZE_CALIBRATE_H

#include "compiler/graph/ir.h"
#include "compiler/quantize/histogram.h"
#include "compiler/quantize/options.h"

namespace npu::quantize {

/// The network's inputs, as samples give them.
std::vector<Input> inputs_of(const graph::Graph &graph);

/// A sample for a network. Numbers that are not finite, and tensors of other types and shapes, are errors.
Status load_sample(const graph::Graph &graph, const Samples &samples, size_t index, std::vector<graph::Tensor> &out);

/// Of a value, one of whose dimensions is channels.
struct Channelled {
  graph::ValueId value = graph::kNoValue;
  size_t axis = 0;
};

/// What values have been, over all samples.
struct Observed {
  std::vector<Histogram> histograms;
  std::vector<std::vector<double>> means;  ///< for each channel
};
Status observe(const graph::Graph &graph, const std::vector<graph::ValueId> &values,
               const std::vector<Channelled> &channels, const Options &options, Observed &out);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_CALIBRATE_H
