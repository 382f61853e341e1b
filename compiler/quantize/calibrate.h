// SPDX-License-Identifier: MIT
// Runs samples through a network in float32 and looks at what its tensors are.
#ifndef NPU_QUANTIZE_CALIBRATE_H
#define NPU_QUANTIZE_CALIBRATE_H

#include "compiler/graph/ir.h"
#include "compiler/quantize/histogram.h"
#include "compiler/quantize/options.h"
#include "compiler/quantize/parts.h"

namespace npu::quantize {

/// The network's inputs, as samples give them.
std::vector<Input> inputs_of(const graph::Graph &graph);

/// A sample for a network. NaN, and tensors of other types and shapes, are errors.
Status load_sample(const graph::Graph &graph, const Samples &samples, size_t index, std::vector<graph::Tensor> &out);

/// Of a value, one of whose dimensions is channels.
struct Channelled {
  graph::ValueId value = graph::kNoValue;
  size_t axis = 0;
};

/// Values to look at.
struct Wanted {
  std::vector<graph::ValueId> values;                        ///< histograms are wanted
  std::vector<Channelled> channels;                          ///< means are wanted
  std::vector<graph::ValueId> sliced;                        ///< ranges of slices are wanted
  std::map<graph::ValueId, graph::OutputParts> pieces = {};  ///< tensors that sliced values were concatenated from
};

/// Statistics of values over all samples. Each list is in the order of the list that wanted it.
struct Observed {
  std::vector<Histogram> histograms;
  std::vector<std::vector<double>> means;  ///< for each channel
  std::vector<Slices> slices;
};
Status observe(const graph::Graph &graph, const Wanted &wanted, const Options &options, Observed &out);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_CALIBRATE_H
