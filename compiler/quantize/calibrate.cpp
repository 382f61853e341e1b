// SPDX-License-Identifier: MIT
#include "compiler/quantize/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>

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

namespace {

/// Numbers of values by what is looked for.
template <class List, class ValueOf>
std::map<graph::ValueId, std::vector<size_t>> places_of(const List &list, ValueOf value_of) {
  std::map<graph::ValueId, std::vector<size_t>> out;
  for (size_t k = 0; k < list.size(); ++k) out[value_of(list[k])].push_back(k);
  return out;
}

std::vector<double> channel_means(const graph::Tensor &t, size_t axis) {
  std::vector<double> out(static_cast<size_t>(t.shape[axis]));
  int64_t inner = 1;
  for (size_t d = axis + 1; d < t.shape.size(); ++d) inner *= t.shape[d];
  const int64_t n = t.count();
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i / inner) % out.size()] += t.as<float>()[i];
  for (double &v : out) v /= static_cast<double>(n) / static_cast<double>(out.size());
  return out;
}

/// Looks at the values of samples, on several threads.
class Observer {
 public:
  Observer(const graph::Graph &graph, const std::vector<graph::ValueId> &values,
           const std::vector<Channelled> &channels, const Options &options)
      : g_(graph),
        channels_(channels),
        options_(options),
        place_(places_of(values, [](graph::ValueId v) { return v; })),
        channel_place_(places_of(channels, [](const Channelled &c) { return c.value; })),
        seen_(thread_count(options, options.samples->count()), std::vector<Histogram>(values.size())),
        means_(options.samples->count(), std::vector<std::vector<double>>(channels.size())) {}

  Status run(Observed &out) {
    NPU_TRY(for_each(means_.size(), "calibration", options_,
                     [this](size_t i, size_t thread) { return look(i, seen_[thread], means_[i]); }));
    out.histograms = std::move(seen_[0]);
    for (size_t t = 1; t < seen_.size(); ++t)
      for (size_t k = 0; k < out.histograms.size(); ++k) out.histograms[k].merge(seen_[t][k]);
    out.means = std::move(means_[0]);
    for (size_t i = 1; i < means_.size(); ++i)  // in the order of samples: the sums depend on it
      for (size_t k = 0; k < channels_.size(); ++k)
        for (size_t c = 0; c < out.means[k].size(); ++c) out.means[k][c] += means_[i][k][c];
    for (auto &list : out.means)
      for (double &v : list) v /= static_cast<double>(means_.size());
    return {};
  }

 private:
  Status look(size_t sample, std::vector<Histogram> &seen, std::vector<std::vector<double>> &means) const {
    std::vector<graph::Tensor> inputs, outputs;
    NPU_TRY(load_sample(g_, *options_.samples, sample, inputs));
    graph::ValueId bad = graph::kNoValue;
    const auto see = [&](graph::ValueId v, const graph::Tensor &t) {
      if (const auto found = place_.find(v); found != place_.end())
        for (size_t k : found->second)
          if (!seen[k].add(numbers(t)) && bad == graph::kNoValue) bad = v;
      if (const auto found = channel_place_.find(v); found != channel_place_.end())
        for (size_t k : found->second) means[k] = channel_means(t, channels_[k].axis);
    };
    const std::string name = "sample '" + options_.samples->name(sample) + "'";
    NPU_TRY(graph::evaluate_graph(g_, inputs, see, outputs).within(name));
    if (bad == graph::kNoValue) return {};
    return Status::error(name + " makes numbers in tensor '" + tensor_names(g_)[static_cast<size_t>(bad)] +
                         "' that are not finite");
  }

  const graph::Graph &g_;
  const std::vector<Channelled> &channels_;
  const Options &options_;
  const std::map<graph::ValueId, std::vector<size_t>> place_, channel_place_;
  std::vector<std::vector<Histogram>> seen_;             // by thread
  std::vector<std::vector<std::vector<double>>> means_;  // by sample
};

}  // namespace

Status observe(const graph::Graph &graph, const std::vector<graph::ValueId> &values,
               const std::vector<Channelled> &channels, const Options &options, Observed &out) {
  return Observer(graph, values, channels, options).run(out);
}

}  // namespace npu::quantize
