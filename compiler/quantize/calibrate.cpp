// SPDX-License-Identifier: MIT
#include "compiler/quantize/calibrate.h"

#include <algorithm>
#include <cmath>

#include "compiler/graph/evaluate.h"
#include "compiler/quantize/names.h"
#include "compiler/quantize/parallel.h"

namespace npu::quantize {
namespace {

std::span<const float> numbers(const graph::Tensor &t) { return {t.as<float>(), static_cast<size_t>(t.count())}; }

}  // namespace

std::vector<Input> inputs_of(const graph::Graph &graph) {
  std::vector<Input> out;
  for (graph::ValueId v : graph.inputs) out.push_back({{graph[v].dtype, graph[v].shape}, graph[v].name});
  return out;
}

Status load_sample(const graph::Graph &graph, const Samples &samples, size_t index, std::vector<graph::Tensor> &out) {
  const std::vector<Input> inputs = inputs_of(graph);
  out.clear();
  NPU_TRY(samples.load(index, out));
  const std::string where = "sample '" + samples.name(index) + "'";
  if (out.size() != inputs.size())
    return Status::error(where + " has " + std::to_string(out.size()) + " tensors, the network has " +
                         std::to_string(inputs.size()) + " inputs");
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (static_cast<const graph::TensorKind &>(out[k]) != inputs[k])
      return Status::error(where + ": input '" + inputs[k].name + "' is " + graph::kind_text(out[k]) + ", expected " +
                           graph::kind_text(inputs[k]));
    if (out[k].dtype != graph::Dtype::F32) continue;
    const auto all = numbers(out[k]);
    const auto bad = std::find_if(all.begin(), all.end(), [](float v) { return !std::isfinite(v); });
    if (bad != all.end())
      return Status::error(where + ": input '" + inputs[k].name + "': element " + std::to_string(bad - all.begin()) +
                           " is " + std::to_string(*bad) + ", a finite number is expected");
  }
  return {};
}

Status observe(const graph::Graph &graph, const std::vector<graph::ValueId> &values, const Options &options,
               std::vector<Histogram> &out) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> place(graph.values.size(), kNone);
  for (size_t k = 0; k < values.size(); ++k) place[static_cast<size_t>(values[k])] = k;
  const size_t count = options.samples->count();
  std::vector<std::vector<Histogram>> seen(thread_count(options, count), std::vector<Histogram>(values.size()));
  NPU_TRY(for_each(count, "calibration", options, [&](size_t i, size_t thread) -> Status {
    std::vector<graph::Tensor> inputs, outputs;
    NPU_TRY(load_sample(graph, *options.samples, i, inputs));
    graph::ValueId bad = graph::kNoValue;
    const auto see = [&](graph::ValueId v, const graph::Tensor &t) {
      const size_t k = place[static_cast<size_t>(v)];
      if (k != kNone && bad == graph::kNoValue && !seen[thread][k].add(numbers(t))) bad = v;
    };
    NPU_TRY(graph::evaluate_graph(graph, inputs, see, outputs).within("sample '" + options.samples->name(i) + "'"));
    if (bad == graph::kNoValue) return {};
    return Status::error("sample '" + options.samples->name(i) + "' makes numbers in tensor '" +
                         tensor_names(graph)[static_cast<size_t>(bad)] + "' that are not finite");
  }));
  out = std::move(seen[0]);
  for (size_t t = 1; t < seen.size(); ++t)
    for (size_t k = 0; k < out.size(); ++k) out[k].merge(seen[t][k]);
  return {};
}

}  // namespace npu::quantize
