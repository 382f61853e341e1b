// SPDX-License-Identifier: MIT
#include "compiler/quantize/half.h"

#include "compiler/passes/passes.h"
#include "compiler/quantize/calibrate.h"
#include "compiler/quantize/names.h"
#include "compiler/quantize/trial.h"

namespace npu::quantize {

using graph::Graph;
using graph::Node;
using graph::ValueId;

namespace {

/// The last value of each node of the file that one network has in float32 and the other one in 16 bits.
std::vector<std::pair<size_t, ValueId>> stored_values(const Graph &exact, const Graph &half) {
  std::map<size_t, ValueId> last;
  for (const Node &n : exact.nodes)
    if (n.source >= 0 && exact[n.output].dtype == graph::Dtype::F32 && graph::is_half(half[n.output].dtype))
      last[static_cast<size_t>(n.source)] = n.output;
  return {last.begin(), last.end()};
}

}  // namespace

Status compare_half(const Graph &exact, const Options &options, Result &out) {
  NPU_TRY(options.samples->open(inputs_of(exact)));
  const std::vector<size_t> samples = some_samples(*options.samples, kCompared);
  if (samples.empty()) return Status::error("there are no samples to compare with");
  if (!options.compare) return {};
  Graph half = exact;
  graph::use_half(half, options.reals);
  out = {};
  out.reals = graph::dtype_name(options.reals);
  out.samples = out.compared = samples.size();
  const std::vector<std::string> names = tensor_names(exact);
  std::vector<std::pair<ValueId, ValueId>> values;
  for (const auto &[source, v] : stored_values(exact, half)) {
    values.emplace_back(v, v);
    LayerResult &layer = out.layers.emplace_back();
    layer.name = exact.sources[source].name;
    layer.type = exact.sources[source].type;
    layer.tensor = names[static_cast<size_t>(v)];
    layer.integer = false;
    layer.stored = out.reals;
  }
  std::vector<Difference> differences;
  NPU_TRY(compare_values(exact, half, values, samples, options, differences));
  for (size_t k = 0; k < out.layers.size(); ++k) out.layers[k].difference = differences[k];
  NPU_TRY(compare_results(exact, half, samples, options, {}, out));
  out.warn_of_differences();
  return {};
}

}  // namespace npu::quantize
