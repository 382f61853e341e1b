// SPDX-License-Identifier: MIT
// Networks that round to integers in some layers, and how far what they make is from float32.
#ifndef NPU_QUANTIZE_TRIAL_H
#define NPU_QUANTIZE_TRIAL_H

#include <functional>

#include "compiler/quantize/insert.h"
#include "compiler/quantize/parts.h"

namespace npu::quantize {

/// Samples that a report's differences are from, at most.
inline constexpr size_t kCompared = 32;

/// What calibration has shown.
struct Known {
  Quants quants;                   ///< all values that may become integers
  InputMeans means;                ///< empty: biases are not corrected
  std::set<graph::ValueId> reals;  ///< values that no integers stand for
};

/// A network with pairs and rounded weights.
struct Rounded {
  graph::Graph graph;
  Plan plan;
  std::map<graph::ValueId, graph::ValueId> values;  ///< what values of the float32 network are rounded to
};
Rounded make_rounded(const graph::Graph &graph, const Plan &plan, const Known &known, Type type);

/// Makes of it what the chip computes: operators of integers, and what is not, in 16 bits where the options say so.
void fuse(graph::Graph &graph, const Options &options);

/// The plan with one of its layers alone.
Plan single_layer(const graph::Graph &graph, const Plan &plan, size_t layer);

/// `most` of the samples, spread evenly over all.
std::vector<size_t> some_samples(const Samples &samples, size_t most);

/// Runs samples through networks of the same inputs: f(k, inputs) for the k-th of `samples`, on several threads.
Status run_samples(const graph::Graph &graph, const std::vector<size_t> &samples, const char *what,
                   const Options &options,
                   const std::function<Status(size_t k, const std::vector<graph::Tensor> &)> &f);

/// The network's outputs in float32 for each of the samples.
using Outputs = std::vector<std::vector<graph::Tensor>>;
Status compute_outputs(const graph::Graph &graph, const std::vector<size_t> &samples, const char *what,
                       const Options &options, Outputs &out);

/// Differences of an output of two sets, and of its parts.
struct OutputDifference {
  Difference all;
  std::vector<Difference> parts;
};
/// Compares each output. `parts`: those of each output, or empty.
std::vector<OutputDifference> compare_outputs(const Outputs &wanted, const Outputs &got,
                                              const std::vector<Parts> &parts);

/// Differences of values of the float32 network, and what those of the other network are that stand for them.
Status compare_values(const graph::Graph &graph, const graph::Graph &other,
                      const std::vector<std::pair<graph::ValueId, graph::ValueId>> &values,
                      const std::vector<size_t> &samples, const Options &options, std::vector<Difference> &out);

/// Adds the differences of the outputs of float32 to a result. `parts`: those of each output, or empty.
Status compare_results(const graph::Graph &graph, const graph::Graph &other, const std::vector<size_t> &samples,
                       const Options &options, const std::vector<Parts> &parts, Result &out);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_TRIAL_H
