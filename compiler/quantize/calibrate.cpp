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
    const auto bad = std::find_if(all.begin(), all.end(), [](float v) { return std::isnan(v); });
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
  Observer(const graph::Graph &graph, const Wanted &wanted, const Options &options)
      : g_(graph),
        wanted_(wanted),
        options_(options),
        place_(places_of(wanted.values, [](graph::ValueId v) { return v; })),
        channel_place_(places_of(wanted.channels, [](const Channelled &c) { return c.value; })),
        slice_place_(places_of(wanted.sliced, [](graph::ValueId v) { return v; })),
        seen_(thread_count(options, options.samples->count()), std::vector<Histogram>(wanted.values.size())),
        slices_(seen_.size()),
        means_(options.samples->count(), std::vector<std::vector<double>>(wanted.channels.size())) {
    for (auto &list : slices_)
      for (graph::ValueId v : wanted.sliced) list.emplace_back(g_[v].shape, pieces_of(v));
  }

  Status run(Observed &out) {
    NPU_TRY(for_each(means_.size(), "calibration", options_,
                     [this](size_t i, size_t thread) { return look(i, thread, means_[i]); }));
    out.histograms = std::move(seen_[0]);
    out.slices = std::move(slices_[0]);
    for (size_t t = 1; t < seen_.size(); ++t) {
      for (size_t k = 0; k < out.histograms.size(); ++k) out.histograms[k].merge(seen_[t][k]);
      for (size_t k = 0; k < out.slices.size(); ++k) out.slices[k].merge(slices_[t][k]);
    }
    out.means = std::move(means_[0]);
    for (size_t i = 1; i < means_.size(); ++i)  // in the order of samples: the sums depend on it
      for (size_t k = 0; k < out.means.size(); ++k)
        for (size_t c = 0; c < out.means[k].size(); ++c) out.means[k][c] += means_[i][k][c];
    for (auto &list : out.means)
      for (double &v : list) v /= static_cast<double>(means_.size());
    return {};
  }

 private:
  const graph::OutputParts &pieces_of(graph::ValueId v) const {
    static const graph::OutputParts kNone;
    const auto found = wanted_.pieces.find(v);
    return found == wanted_.pieces.end() ? kNone : found->second;
  }

  Status look(size_t sample, size_t thread, std::vector<std::vector<double>> &means) {
    std::vector<graph::Tensor> inputs, outputs;
    NPU_TRY(load_sample(g_, *options_.samples, sample, inputs));
    graph::ValueId bad = graph::kNoValue;
    const auto see = [&](graph::ValueId v, const graph::Tensor &t) {
      if (const auto found = place_.find(v); found != place_.end())
        for (size_t k : found->second)
          if (!seen_[thread][k].add_finite(numbers(t)) && bad == graph::kNoValue) bad = v;
      if (const auto found = slice_place_.find(v); found != slice_place_.end())
        for (size_t k : found->second) slices_[thread][k].add(t.as<float>(), pieces_of(v));
      if (const auto found = channel_place_.find(v); found != channel_place_.end())
        for (size_t k : found->second) means[k] = channel_means(t, wanted_.channels[k].axis);
    };
    const std::string name = "sample '" + options_.samples->name(sample) + "'";
    NPU_TRY(graph::evaluate_graph(g_, inputs, see, outputs).within(name));
    return bad == graph::kNoValue ? Status() : nan_in(bad).within(name);
  }

  Status nan_in(graph::ValueId v) const {
    const int made = g_.producers()[at(v)];
    const std::string node =
        made < 0 ? "" : g_.sources[static_cast<size_t>(g_.nodes[static_cast<size_t>(made)].source)].name;
    return Status::error("float32 makes NaN in tensor '" + tensor_names(g_)[at(v)] + "' of node '" + node +
                         "', for which no integer stands; leave the sample out or correct the network (a row of -inf "
                         "alone in front of a Softmax makes NaN, for example)");
  }

  const graph::Graph &g_;
  const Wanted &wanted_;
  const Options &options_;
  const std::map<graph::ValueId, std::vector<size_t>> place_, channel_place_, slice_place_;
  std::vector<std::vector<Histogram>> seen_;             // by thread
  std::vector<std::vector<Slices>> slices_;              // by thread
  std::vector<std::vector<std::vector<double>>> means_;  // by sample
};

}  // namespace

Status observe(const graph::Graph &graph, const Wanted &wanted, const Options &options, Observed &out) {
  return Observer(graph, wanted, options).run(out);
}

}  // namespace npu::quantize
