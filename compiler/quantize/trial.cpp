// SPDX-License-Identifier: MIT
#include "compiler/quantize/trial.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "compiler/graph/evaluate.h"
#include "compiler/passes/passes.h"
#include "compiler/quantize/calibrate.h"
#include "compiler/quantize/parallel.h"
#include "runtime/cpu/operators.h"

namespace npu::quantize {

using graph::Graph;
using graph::Tensor;
using graph::ValueId;

void Difference::add(const float *wanted, const float *got, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double a = wanted[i], b = got[i], d = b - a;
    if (!std::isfinite(d)) {
      // The same infinity, or NaN twice, is no difference, and others cannot be measured by it.
      if (a != b && !(std::isnan(a) && std::isnan(b))) noise = most = std::numeric_limits<double>::infinity();
      ++left_out;
      continue;
    }
    signal += a * a;
    noise += d * d;
    product += a * b;
    power += b * b;
    most = std::max(most, std::fabs(d));
  }
}

void Difference::add(const Difference &other) {
  signal += other.signal;
  noise += other.noise;
  product += other.product;
  power += other.power;
  most = std::max(most, other.most);
  left_out += other.left_out;
}

double Difference::sqnr() const {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return signal == 0 ? -std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

double Difference::cosine() const {
  if (noise == 0) return 1;
  return signal == 0 || power == 0 || std::isinf(noise) ? 0 : product / std::sqrt(signal * power);
}

Rounded make_rounded(const Graph &graph, const Plan &plan, const Known &known, Type type) {
  Rounded out{graph, plan, {}};
  Quants quants;
  for (ValueId v : plan.values) quants[v] = known.quants.at(v);
  quantize_weights(out.graph, plan, quants, known.means);
  insert_pairs(out.graph, plan, quants, type, out.values);
  return out;
}

void fuse(Graph &graph, const Options &options) {
  graph::fuse_quantized(graph);
  if (graph::is_half(options.reals)) graph::use_half(graph, options.reals);
}

Plan single_layer(const Graph &graph, const Plan &plan, size_t layer) {
  Plan out;
  out.layers = {plan.layers[layer]};
  out.integer.assign(graph.nodes.size(), false);
  out.outputs.assign(graph.outputs.size(), false);
  out.real = plan.real;
  const std::vector<int> made = graph.producers();
  std::set<ValueId> touched{out.layers[0].result};
  for (size_t i : out.layers[0].nodes) {
    out.integer[i] = true;
    for (ValueId v : graph.nodes[i].inputs)
      while (v != graph::kNoValue) {
        touched.insert(v);
        const int m = made[static_cast<size_t>(v)];
        if (m < 0 || !passes_integers(graph.nodes[static_cast<size_t>(m)])) break;
        v = graph.nodes[static_cast<size_t>(m)].inputs[0];
      }
  }
  for (size_t k = 0; k < plan.values.size(); ++k) {
    if (!touched.count(plan.values[k])) continue;
    out.values.push_back(plan.values[k]);
    out.leaders.push_back(plan.leaders[k]);
  }
  return out;
}

std::vector<size_t> some_samples(const Samples &samples, size_t most) {
  const size_t all = samples.count(), count = std::min(most, all);
  std::vector<size_t> out(count);
  for (size_t k = 0; k < count; ++k) out[k] = k * all / count;
  return out;
}

Status run_samples(const Graph &graph, const std::vector<size_t> &samples, const char *what, const Options &options,
                   const std::function<Status(size_t, const std::vector<Tensor> &)> &f) {
  return for_each(samples.size(), what, options, [&](size_t k, size_t) -> Status {
    std::vector<Tensor> inputs;
    NPU_TRY(load_sample(graph, *options.samples, samples[k], inputs));
    return f(k, inputs).within("sample '" + options.samples->name(samples[k]) + "'");
  });
}

Status compute_outputs(const Graph &graph, const std::vector<size_t> &samples, const char *what, const Options &options,
                       Outputs &out) {
  out.assign(samples.size(), {});
  return run_samples(graph, samples, what, options, [&](size_t k, const std::vector<Tensor> &inputs) {
    return graph::evaluate_graph(graph, inputs, out[k]);
  });
}

std::vector<OutputDifference> compare_outputs(const Outputs &wanted, const Outputs &got,
                                              const std::vector<Parts> &parts) {
  std::vector<OutputDifference> out(wanted.empty() ? 0 : wanted[0].size());
  for (size_t k = 0; k < wanted.size(); ++k)
    for (size_t o = 0; o < out.size(); ++o) {
      if (wanted[k][o].dtype != graph::Dtype::F32) continue;
      const float *a = wanted[k][o].as<float>(), *b = got[k][o].as<float>();
      out[o].all.add(a, b, wanted[k][o].count());
      if (!parts.empty()) parts[o].add(a, b, out[o].parts);
    }
  return out;
}

namespace {

/// Adds numbers of float32 or 16 bits to a difference.
void add_numbers(const Tensor &wanted, const Tensor &got, Difference &out) {
  if (got.dtype == graph::Dtype::F32) return out.add(wanted.as<float>(), got.as<float>(), got.count());
  Tensor numbers(graph::Dtype::F32, got.shape);
  cpu::cast(got, cpu::Overflow::Wrap, numbers);
  out.add(wanted.as<float>(), numbers.as<float>(), got.count());
}

}  // namespace

Status compare_values(const Graph &graph, const Graph &other, const std::vector<std::pair<ValueId, ValueId>> &values,
                      const std::vector<size_t> &samples, const Options &options, std::vector<Difference> &out) {
  std::vector<std::vector<Difference>> each(samples.size(), std::vector<Difference>(values.size()));
  NPU_TRY(
      run_samples(graph, samples, "comparison", options, [&](size_t k, const std::vector<Tensor> &inputs) -> Status {
        std::map<ValueId, std::vector<size_t>> mine, theirs;
        for (size_t i = 0; i < values.size(); ++i) {
          mine[values[i].first].push_back(i);
          theirs[values[i].second].push_back(i);
        }
        std::vector<Tensor> wanted(values.size()), outputs;
        const auto keep = [&](ValueId v, const Tensor &t) {
          if (const auto found = mine.find(v); found != mine.end())
            for (size_t i : found->second) wanted[i] = t;
        };
        const auto compare = [&](ValueId v, const Tensor &t) {
          if (const auto found = theirs.find(v); found != theirs.end())
            for (size_t i : found->second) add_numbers(wanted[i], t, each[k][i]);
        };
        NPU_TRY(graph::evaluate_graph(graph, inputs, keep, outputs));
        return graph::evaluate_graph(other, inputs, compare, outputs);
      }));
  out.assign(values.size(), {});
  for (const auto &one : each)  // in the order of samples: sums of floating point depend on it
    for (size_t i = 0; i < values.size(); ++i) out[i].add(one[i]);
  return {};
}

Status compare_results(const Graph &graph, const Graph &other, const std::vector<size_t> &samples,
                       const Options &options, const std::vector<Parts> &parts, Result &out) {
  Outputs wanted, got;
  NPU_TRY(compute_outputs(graph, samples, "float32", options, wanted));
  NPU_TRY(compute_outputs(other, samples, "comparison", options, got));
  const std::vector<OutputDifference> differences = compare_outputs(wanted, got, parts);
  for (size_t k = 0; k < differences.size(); ++k) {
    if (graph[graph.outputs[k]].dtype != graph::Dtype::F32) continue;
    OutputResult &output = out.outputs.emplace_back();
    output.name = graph.output_names[k];
    output.difference = differences[k].all;
    for (size_t p = 0; p < differences[k].parts.size(); ++p)
      output.parts.push_back({parts[k].list()[p].name, differences[k].parts[p]});
  }
  return {};
}

}  // namespace npu::quantize
