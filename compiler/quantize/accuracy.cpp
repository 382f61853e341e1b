// SPDX-License-Identifier: MIT
#include "compiler/quantize/accuracy.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>

namespace npu::quantize {
namespace {

using graph::Graph;

constexpr size_t kSensitivitySamples = 8;  ///< each layer is tried with so many

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", v);
  return text;
}

class Search {
 public:
  Search(const Graph &graph, const Plan &plan, const Known &known, const Options &options,
         const std::vector<Parts> &parts, std::set<int> &kept)
      : g_(graph), plan_(plan), known_(known), options_(options), parts_(parts), kept_(kept) {}

  Status run(std::vector<double> &sensitivities, Result &result) {
    NPU_TRY(find_samples());
    NPU_TRY(compute_outputs(g_, samples_, "float32", options_, wanted_));
    if (options_.accuracy.kind == AccuracyLimit::Kind::Top1) float_top1_ = top1(wanted_);
    size_t fewest = 0;
    double reached = 0;
    bool holds = false;
    NPU_TRY(try_without(0, holds, reached));
    if (!holds) {
      NPU_TRY(measure());
      NPU_TRY(find_fewest(fewest, reached));
    }
    keep(fewest, kept_);
    sensitivities = sensitivities_;
    if (options_.accuracy.kind == AccuracyLimit::Kind::Top1) {
      result.float_top1 = float_top1_;
      result.top1 = reached;
    }
    return {};
  }

 private:
  Status find_samples() {
    samples_ = some_samples(*options_.samples, SIZE_MAX);
    if (options_.accuracy.kind != AccuracyLimit::Kind::Top1) return {};
    const auto &output = g_[g_.outputs[0]];
    if (output.dtype != graph::Dtype::F32)
      return Status::error("--accuracy top1: output '" + g_.output_names[0] + "' is of " +
                           graph::dtype_name(output.dtype) + ", numbers of float32 for the classes are expected");
    const int64_t classes = graph::element_count(output.shape) / (output.shape.empty() ? 1 : output.shape[0]);
    std::erase_if(samples_, [&](size_t i) { return !options_.labels.count(options_.samples->name(i)); });
    for (size_t i : samples_) {
      const int64_t label = options_.labels.at(options_.samples->name(i));
      if (label < 0 || label >= classes)
        return Status::error("sample '" + options_.samples->name(i) + "' has the label " + std::to_string(label) +
                             ", output '" + g_.output_names[0] + "' has classes 0 to " + std::to_string(classes - 1));
    }
    return samples_.empty() ? Status::error("none of the samples has a label") : Status();
  }

  /// The share of samples whose largest element of the first output is at their label.
  double top1(const Outputs &outputs) const {
    size_t right = 0;
    for (size_t k = 0; k < samples_.size(); ++k) {
      const graph::Tensor &t = outputs[k][0];
      const int64_t n = t.count() / (t.shape.empty() ? 1 : t.shape[0]);
      const float *first = t.as<float>();
      right += std::max_element(first, first + n) - first == options_.labels.at(options_.samples->name(samples_[k]));
    }
    return static_cast<double>(right) / static_cast<double>(samples_.size());
  }

  /// The share of samples whose class is right, or the least cosine of all outputs and all their parts, since large
  /// numbers hide the errors of small ones. `where`: the output or part with that cosine.
  double score(const Outputs &got, std::string &where) const {
    if (options_.accuracy.kind == AccuracyLimit::Kind::Top1) return top1(got);
    double least = 1;
    const std::vector<OutputDifference> outputs = compare_outputs(wanted_, got, parts_);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const auto add = [&](const Difference &d, const std::string &part) {
        if (d.cosine() >= least) return;
        least = d.cosine();
        where = part + "of output '" + g_.output_names[o] + "'";
        if (plan_.outputs[o] && !part.empty())
          where += ", whose parts share a scale: --output-type '" + g_.output_names[o] +
                   "=float32' keeps it in real numbers, or make each part an output of its own in the file";
      };
      add(outputs[o].all, "");
      for (size_t p = 0; p < outputs[o].parts.size(); ++p)
        if (outputs[o].parts[p].signal > 0) add(outputs[o].parts[p], parts_[o].list()[p].name + " ");
    }
    return least;
  }

  bool is_enough(double reached) const {
    constexpr double kRounding = 1e-9;  // of differences of shares
    if (options_.accuracy.kind == AccuracyLimit::Kind::Top1)
      return float_top1_ - reached <= options_.accuracy.limit + kRounding;
    return reached >= options_.accuracy.limit;
  }

  void keep(size_t count, std::set<int> &sources) const {
    for (size_t k = 0; k < count; ++k)
      for (size_t i : plan_.layers[order_[k]].nodes) sources.insert(g_.nodes[i].source);
  }

  /// The network with the `count` worst layers in float32: its own integers, not what they are rounded from.
  Status try_without(size_t count, bool &holds, double &reached) {
    std::set<int> sources = kept_;
    keep(count, sources);
    holds = false;
    const Plan plan = make_plan(g_, sources, known_.reals, options_.outputs);
    if (plan.layers.empty()) return {};  // what is left has no integers without the layers that were kept
    Rounded rounded = make_rounded(g_, plan, known_, options_.type);
    fuse(rounded.graph, options_);
    Outputs got;
    NPU_TRY(compute_outputs(rounded.graph, samples_, "accuracy", options_, got));
    std::string where;
    reached = score(got, where);
    holds = is_enough(reached);
    if (tries_++ == 0 || reached > best_) {
      best_ = reached;
      best_where_ = std::move(where);
      best_kept_ = count;
    }
    return {};
  }

  /// How much noise the outputs get by each layer alone.
  Status measure() {
    const std::vector<size_t> samples = some_samples(*options_.samples, kSensitivitySamples);
    Outputs wanted;
    NPU_TRY(compute_outputs(g_, samples, "float32", options_, wanted));
    Options quiet = options_;
    quiet.progress = nullptr;
    for (size_t k = 0; k < plan_.layers.size(); ++k) {
      Outputs got;
      const Rounded one = make_rounded(g_, single_layer(g_, plan_, k), known_, options_.type);
      NPU_TRY(compute_outputs(one.graph, samples, "", quiet, got));
      double worst = 0;
      for (const OutputDifference &output : compare_outputs(wanted, got, parts_)) {
        if (output.all.noise > 0) worst = std::max(worst, output.all.noise / output.all.signal);
        for (const Difference &d : output.parts)
          if (d.noise > 0 && d.signal > 0) worst = std::max(worst, d.noise / d.signal);
      }
      sensitivities_.push_back(worst);
      if (options_.progress) options_.progress({"sensitivity", k + 1, plan_.layers.size()});
    }
    order_.resize(plan_.layers.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [this](size_t a, size_t b) { return sensitivities_[a] > sensitivities_[b]; });
    return {};
  }

  /// Twice as many each time, then between the last two.
  Status find_fewest(size_t &fewest, double &reached) {
    const size_t all = plan_.layers.size(), most = all - 1;  // one layer at least has integers
    size_t low = 0, high = 0;
    for (bool holds = false; !holds;) {
      if (low == most)
        return Status::error("the accuracy is not reached as long as any layer has integers: with " +
                             std::to_string(best_kept_) + " of " + std::to_string(all) + " layers in float32 it is " +
                             reached_text(best_) + ", " + limit_text() + " is expected" +
                             (best_where_.empty() ? "" : "; that is the cosine " + best_where_));
      high = std::min(std::max<size_t>(2 * low, 1), most);
      NPU_TRY(try_without(high, holds, reached));
      if (!holds) low = high;
    }
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      bool holds = false;
      double now = 0;
      NPU_TRY(try_without(middle, holds, now));
      if (holds) reached = now;
      (holds ? high : low) = middle;
    }
    fewest = high;
    return {};
  }

  std::string reached_text(double reached) const {
    const bool top = options_.accuracy.kind == AccuracyLimit::Kind::Top1;
    return (top ? "top-1 " : "cosine ") + number_text(reached) +
           (top ? " (float32 " + number_text(float_top1_) + ")" : "");
  }
  std::string limit_text() const {
    const bool top = options_.accuracy.kind == AccuracyLimit::Kind::Top1;
    return top ? "at most " + number_text(options_.accuracy.limit) + " less"
               : "at least " + number_text(options_.accuracy.limit);
  }

  const Graph &g_;
  const Plan &plan_;
  const Known &known_;
  const Options &options_;
  const std::vector<Parts> &parts_;
  std::set<int> &kept_;
  std::vector<size_t> samples_;
  Outputs wanted_;
  double float_top1_ = 0;
  std::vector<double> sensitivities_;  // of the plan's layers
  std::vector<size_t> order_;          // layers, the worst first
  size_t tries_ = 0, best_kept_ = 0;   // how many layers were kept where most was reached
  double best_ = 0;
  std::string best_where_;  // the output or part with that cosine
};

}  // namespace

bool parse_accuracy(const std::string &text, AccuracyLimit &out) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  const std::string kind = text.substr(0, colon);
  const char *first = text.data() + colon + 1, *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, out.limit);
  if (error != std::errc() || end != last || first == last || !(out.limit >= 0 && out.limit <= 1)) return false;
  out.kind = kind == "cosine" ? AccuracyLimit::Kind::Cosine
             : kind == "top1" ? AccuracyLimit::Kind::Top1
                              : AccuracyLimit::Kind::None;
  return out.kind != AccuracyLimit::Kind::None;
}

Status reach_accuracy(const Graph &graph, const Plan &plan, const Known &known, const Options &options,
                      const std::vector<Parts> &parts, std::set<int> &kept, std::vector<double> &sensitivities,
                      Result &result) {
  return Search(graph, plan, known, options, parts, kept).run(sensitivities, result);
}

}  // namespace npu::quantize
