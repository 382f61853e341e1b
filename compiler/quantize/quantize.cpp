// SPDX-License-Identifier: MIT
#include "compiler/quantize/quantize.h"

#include <algorithm>
#include <cmath>

#include "compiler/quantize/accuracy.h"
#include "compiler/quantize/calibrate.h"
#include "compiler/quantize/coarse.h"
#include "compiler/quantize/equalize.h"
#include "compiler/quantize/names.h"
#include "compiler/quantize/ranges.h"
#include "compiler/quantize/trial.h"

namespace npu::quantize {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

/// The sources of nodes that stay in float32.
Status find_kept(const Graph &g, const std::set<std::string> &names, std::set<int> &out) {
  for (const std::string &name : names) {
    std::set<int> own;
    for (size_t s = 0; s < g.sources.size(); ++s) {
      if (g.sources[s].name != name) continue;
      own.insert(static_cast<int>(s));
      if (g.sources[s].merged_into >= 0) own.insert(g.sources[s].merged_into);  // equal nodes are one
    }
    if (own.empty()) return Status::error("no node of the network has the name '" + name + "'");
    const bool any = std::ranges::any_of(g.nodes, [&](const Node &n) { return own.count(n.source) != 0; });
    out.merge(own);
    if (!any)
      return Status::error("node '" + name +
                           "' cannot stay in float32 by itself: it is folded, or a part of the node in front of it, "
                           "as the report without --quantize shows");
  }
  return {};
}

/// What the report says of numbers that a tensor had.
void set_shares(const Histogram &h, LayerResult &out) {
  out.low = h.low();
  out.high = h.high();
  const double span = static_cast<double>(h.high()) - h.low();
  if (span <= 0) return;
  const auto add = [&](double v, uint64_t count) {
    const auto place = static_cast<int64_t>((v - h.low()) / span * static_cast<double>(out.shares.size()));
    out.shares[static_cast<size_t>(std::clamp<int64_t>(place, 0, std::ssize(out.shares) - 1))] +=
        static_cast<double>(count) / static_cast<double>(h.total());
  };
  add(0, h.zeros());
  for (int i = -Histogram::kBins; i < Histogram::kBins; ++i)
    if (h[i]) add(h.edge(i) + h.width() / 2, h[i]);
}

class Quantizer {
 public:
  Quantizer(Graph &graph, const Options &options, Result &out)
      : g_(graph), options_(options), out_(out), names_(tensor_names(graph)) {}

  Status run() {
    std::set<std::string> kept = options_.keep;
    if (options_.table) kept.insert(options_.table->keep.begin(), options_.table->keep.end());
    NPU_TRY(find_kept(g_, kept, kept_));
    out_.named = kept_.size();
    if (options_.equalize) equalize(g_);
    NPU_TRY(take_reals());
    keep_infinite_biases();
    first_ = plan();
    if (first_.layers.empty() && known_.reals.empty())
      return Status::error("the network has no operator that integers could compute");
    NPU_TRY(check_weights());
    NPU_TRY(check_table());
    NPU_TRY(find_ranges());
    if (options_.samples) NPU_TRY(leave_coarse());
    if (options_.accuracy.kind != AccuracyLimit::Kind::None && !first_.layers.empty())
      NPU_TRY(reach_accuracy(g_, first_, known_, options_, output_parts_, kept_, sensitivities_, out_));
    Rounded rounded = make_rounded(g_, plan(), known_, options_.type);
    list_table(rounded.plan);
    list_layers(rounded.plan);
    warn_of_parts(rounded.plan);
    if (options_.samples && options_.compare) NPU_TRY(compare(rounded));
    g_ = std::move(rounded.graph);
    return {};
  }

 private:
  const std::string &name(ValueId v) const { return names_[static_cast<size_t>(v)]; }

  Plan plan() const { return make_plan(g_, kept_, known_.reals, options_.outputs); }

  const graph::Source &source_of(size_t node) const { return g_.sources[static_cast<size_t>(g_.nodes[node].source)]; }

  const TableLine *find_in_table(ValueId v) const {
    if (!options_.table) return nullptr;
    const auto found = options_.table->tensors.find(name(v));
    return found == options_.table->tensors.end() ? nullptr : &found->second;
  }

  /// Tensors of the table that no integers stand for.
  Status take_reals() {
    if (!options_.table) return {};
    for (const std::string &tensor : options_.table->reals) {
      const auto found = std::find(names_.begin(), names_.end(), tensor);
      if (found == names_.end() || tensor.empty())
        return Status::error("the calibration table has a line for '" + tensor + "', which the network does not have");
      known_.reals.insert(static_cast<ValueId>(found - names_.begin()));
      out_.real_tensors.push_back({tensor, "the calibration table says so"});
    }
    return {};
  }

  /// A mask that is the same for all rows is a part of the bias in front of it.
  void keep_infinite_biases() {
    for (const Node &n : g_.nodes) {
      if ((n.op != graph::Op::Conv && n.op != graph::Op::MatMul) || n.inputs.size() < 3) continue;
      const ValueId v = n.inputs[2];
      if (v == kNoValue || !g_.is_constant(v) || g_[v].dtype != graph::Dtype::F32) continue;
      const float *w = g_[v].constant->as<float>(), *end = w + g_[v].constant->count();
      if (std::none_of(w, end, [](float x) { return std::isinf(x); }) || !kept_.insert(n.source).second) continue;
      out_.real_tensors.push_back({name(n.output), "the bias of its node has numbers that are infinite"});
    }
  }

  Status check_weights() const {
    for (const Layer &layer : first_.layers) {
      const Node &n = g_.nodes[layer.nodes[0]];
      if (n.op != graph::Op::Conv && n.op != graph::Op::MatMul) continue;
      for (size_t k = 1; k < n.inputs.size(); ++k) {
        const ValueId v = n.inputs[k];
        if (v == graph::kNoValue || !g_.is_constant(v)) continue;
        const float *w = g_[v].constant->as<float>();
        if (std::all_of(w, w + g_[v].constant->count(), [](float x) { return std::isfinite(x); })) continue;
        const std::string &node = g_.sources[static_cast<size_t>(n.source)].name;
        return Status::error("constant '" + g_[v].name + "' of node '" + node +
                             "' has a number that is not finite, which no integer stands for; --keep-float '" + node +
                             "' leaves it as it is");
      }
    }
    return {};
  }

  Status check_table() const {
    if (!options_.table) return {};
    const std::set<std::string> known(names_.begin(), names_.end());
    for (const auto &[name, line] : options_.table->tensors)
      if (!known.count(name))
        return Status::error("the calibration table has a line for '" + name + "', which the network does not have");
    if (options_.samples) return {};
    for (ValueId v : first_.values)
      if (!find_in_table(v))
        return Status::error("the calibration table has no line for tensor '" + name(v) +
                             "', and there are no samples");
    return {};
  }

  /// Values of layers: also those that become integers only where other layers stay in float32, and where parts and
  /// maxima of a value do instead of the whole.
  std::vector<ValueId> values_of_layers() const {
    std::set<ValueId> out(first_.values.begin(), first_.values.end());
    for (const Layer &layer : first_.layers)
      for (size_t i : layer.nodes) out.insert(g_.nodes[i].output);
    for (const Node &n : g_.nodes)
      if (passes_integers(n) && !keeps_numbers(n) && g_[n.output].dtype == graph::Dtype::F32) out.insert(n.output);
    return {out.begin(), out.end()};
  }

  /// Products of constants that stand second.
  std::vector<Channelled> operands_of_products(std::vector<size_t> &nodes) const {
    std::vector<Channelled> out;
    for (const Layer &layer : first_.layers) {
      const Node &n = g_.nodes[layer.nodes[0]];
      const bool conv = n.op == graph::Op::Conv;
      if ((!conv && n.op != graph::Op::MatMul) || !g_.is_constant(n.inputs[1])) continue;
      if (!conv && g_[n.inputs[1]].shape.size() != 2) continue;
      nodes.push_back(layer.nodes[0]);
      out.push_back({n.inputs[0], conv ? 1 : g_[n.inputs[0]].shape.size() - 1});
    }
    return out;
  }

  /// Means that are known already.
  void take_means(size_t node, const Channelled &operand) {
    const auto found = options_.means.find(name(operand.value));
    const int64_t channels = g_[operand.value].shape[operand.axis];
    if (found != options_.means.end() && std::ssize(found->second) == channels) known_.means[node] = found->second;
  }

  Status find_ranges() {
    Wanted wanted{values_of_layers(), {}, {}};
    for (ValueId v : wanted.values)
      if (const TableLine *line = find_in_table(v)) seen_.ranges[v] = line->range;
    std::vector<size_t> nodes;
    if (options_.correct_biases) wanted.channels = operands_of_products(nodes);
    if (options_.samples) {
      NPU_TRY(observe_all(wanted, nodes));
    } else {
      for (size_t k = 0; k < nodes.size(); ++k) take_means(nodes[k], wanted.channels[k]);
    }
    set_quants();
    return {};
  }

  Status observe_all(Wanted &wanted, const std::vector<size_t> &nodes) {
    const std::set<ValueId> near = find_near_outputs(g_);
    wanted.sliced.assign(near.begin(), near.end());
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (near.count(g_.outputs[k])) wanted.pieces.emplace(g_.outputs[k], graph::output_parts(g_, k));
    Observed seen;
    NPU_TRY(see(wanted, seen));
    for (size_t k = 0; k < wanted.sliced.size(); ++k) seen_.slices.emplace(wanted.sliced[k], std::move(seen.slices[k]));
    for (size_t k = 0; k < nodes.size(); ++k) {
      out_.means[name(wanted.channels[k].value)] = seen.means[k];
      known_.means[nodes[k]] = std::move(seen.means[k]);
    }
    for (ValueId v : g_.outputs)
      output_parts_.push_back(near.count(v) ? Parts(g_[v].shape, wanted.pieces.at(v), seen_.slices.at(v)) : Parts());
    out_.samples = options_.samples->count();
    return {};
  }

  /// Values of a plan that no plan before had.
  Status observe_missing() {
    Wanted wanted;
    for (ValueId v : first_.values)
      if (!seen_.ranges.count(v)) wanted.values.push_back(v);
    Observed ignored;
    return wanted.values.empty() ? Status() : see(wanted, ignored);
  }

  Status see(const Wanted &wanted, Observed &seen) {
    NPU_TRY(observe(g_, wanted, options_, seen));
    for (size_t k = 0; k < wanted.values.size(); ++k) {
      seen_.ranges.emplace(wanted.values[k], find_range(seen.histograms[k], options_.rule));
      seen_.histograms.emplace(wanted.values[k], std::move(seen.histograms[k]));
    }
    return {};
  }

  /// Scales for the plan as it is now.
  void set_quants() {
    ranges_ = seen_.ranges;
    join_groups();
    for (const auto &[v, range] : ranges_) known_.quants[v] = quant_of(range, options_.type, options_.symmetric);
  }

  /// Tensors whose integers would be too coarse stay in float32. That changes the plan, so values that are read instead
  /// of them are looked at next.
  Status leave_coarse() {
    for (bool more = true; more;) {
      more = false;
      for (const CoarseTensor &tensor : find_coarse(g_, first_, seen_, known_.quants, names_)) {
        if (find_in_table(tensor.value) || is_byte_input(tensor.value)) continue;  // asked for
        if (!known_.reals.insert(tensor.value).second) continue;
        out_.real_tensors.push_back({name(tensor.value), tensor.reason});
        more = true;
      }
      if (!more) break;
      first_ = plan();
      NPU_TRY(observe_missing());
      set_quants();
    }
    return check_infinities();
  }

  bool is_byte_input(ValueId v) const {
    return std::count(g_.inputs.begin(), g_.inputs.end(), v) && options_.inputs.count(g_[v].name);
  }

  Status check_infinities() const {
    for (ValueId v : first_.values) {
      const auto seen = seen_.histograms.find(v);
      if (seen == seen_.histograms.end() || seen->second.infinities() == 0) continue;
      std::string help;
      for (size_t i : products_of(g_, first_, v)) help += " --keep-float '" + source_of(i).name + "'";
      help = help.empty() ? "leave its --output-type or --input-type out"
                          : help.substr(1) + " keeps what multiplies them in float32";
      return Status::error("tensor '" + name(v) + "' has numbers that are not finite, for which no integers stand: " +
                           std::to_string(seen->second.infinities()) + " infinite ones; " + help);
    }
    return {};
  }

  /// Values of one group get the range that holds all of theirs.
  void join_groups() {
    std::map<ValueId, Range> joined;
    for (size_t k = 0; k < first_.values.size(); ++k) {
      const Range &r = ranges_[first_.values[k]];
      const auto [it, fresh] = joined.emplace(first_.leaders[k], r);
      if (!fresh) it->second = {std::min(it->second.low, r.low), std::max(it->second.high, r.high)};
    }
    for (size_t k = 0; k < first_.values.size(); ++k) ranges_[first_.values[k]] = joined[first_.leaders[k]];
  }

  void list_table(const Plan &plan) {
    for (ValueId v : plan.values) {
      const TableLine *known = find_in_table(v);
      out_.table.tensors[name(v)] = {ranges_[v], known ? known->method : rule_text(options_.rule)};
    }
    for (int source : kept_) out_.table.keep.insert(g_.sources[static_cast<size_t>(source)].name);
    for (ValueId v : known_.reals) out_.table.reals.insert(name(v));
  }

  void list_layers(const Plan &plan) {
    const std::set<ValueId> rounded(plan.values.begin(), plan.values.end());
    for (ValueId v : g_.inputs)
      if (rounded.count(v)) out_.inputs.push_back({name(v), ranges_[v], known_.quants[v]});
    for (size_t k = 0; k < first_.layers.size(); ++k) {
      const Layer &layer = first_.layers[k];
      const graph::Source &source = g_.sources[static_cast<size_t>(g_.nodes[layer.nodes[0]].source)];
      LayerResult &r = out_.layers.emplace_back();
      r.name = source.name;
      r.type = source.type;
      r.tensor = name(layer.result);
      r.integer = std::all_of(layer.nodes.begin(), layer.nodes.end(), [&](size_t i) { return plan.integer[i]; });
      r.rounded = r.integer && rounded.count(layer.result);
      if (r.rounded) {
        r.range = ranges_[layer.result];
        r.quant = known_.quants[layer.result];
      }
      if (const auto seen = seen_.histograms.find(layer.result); seen != seen_.histograms.end())
        set_shares(seen->second, r);
      if (!sensitivities_.empty()) r.sensitivity = sensitivities_[k];
    }
  }

  /// Parts that have too few steps of a scale that stays.
  void warn_of_parts(const Plan &plan) {
    if (!options_.samples) return;
    out_.warnings = find_coarse_parts(g_, plan, seen_, known_.quants, names_);
    warn_of_silent();
    for (size_t k = 0; k < g_.outputs.size(); ++k) {
      if (!plan.outputs[k]) continue;
      const float scale = scale_of_output(k);
      std::vector<const Part *> coarse;
      for (const Part &part : output_parts_[k].list())
        if (is_coarse(part.range, scale)) coarse.push_back(&part);
      if (coarse.empty()) continue;
      std::string text = "output '" + g_.output_names[k] + "' has one scale for all its parts: ";
      for (size_t i = 0; i < std::min<size_t>(coarse.size(), 3); ++i)
        text += (i ? "; " : "") + coarse[i]->name + " has numbers from " + steps_text(coarse[i]->range, scale);
      out_.warnings.push_back(text + ". --output-type '" + g_.output_names[k] +
                              "=float32' keeps it in real numbers; or make each part an output of its own in the file");
    }
  }

  /// Samples without padding, or with the state of a first step, do not show what other launches have.
  void warn_of_silent() {
    const size_t before = out_.warnings.size();
    for (ValueId v : g_.inputs)
      if (const auto seen = seen_.ranges.find(v);
          seen != seen_.ranges.end() && seen->second.low == 0 && seen->second.high == 0 && !known_.reals.count(v))
        out_.warnings.push_back("input '" + g_[v].name + "' was 0 in all samples, and other numbers of it are lost: " +
                                "calibrate with samples that have such numbers");
    for (const RealResult &t : out_.real_tensors)
      if (out_.warnings.size() == before && t.reason.starts_with(kUnseenMask)) {
        out_.warnings.push_back("no sample has masked elements (tensor '" + t.name + "'): the ranges of what is " +
                                "computed from them are those of unmasked ones; calibrate with masked samples as well");
        break;
      }
  }

  /// The scale of an output of integers: that of the value that it is a rearrangement of.
  float scale_of_output(size_t k) const {
    const std::vector<int> made = g_.producers();
    ValueId v = g_.outputs[k];
    const std::set<ValueId> rounded(first_.values.begin(), first_.values.end());
    while (!rounded.count(v) && made[at(v)] >= 0) v = g_.nodes[static_cast<size_t>(made[at(v)])].inputs[0];
    const auto found = known_.quants.find(v);
    return found == known_.quants.end() ? 0 : found->second.scale;
  }

  Status compare(const Rounded &rounded) {
    std::vector<std::pair<ValueId, ValueId>> values;
    for (size_t k = 0; k < first_.layers.size(); ++k) {
      const ValueId v = first_.layers[k].result;
      values.emplace_back(v, out_.layers[k].rounded ? rounded.values.at(v) : v);
    }
    const std::vector<size_t> samples = some_samples(*options_.samples, kCompared);
    std::vector<Difference> differences;
    NPU_TRY(compare_values(g_, rounded.graph, values, samples, options_, differences));
    out_.compared = samples.size();
    for (size_t k = 0; k < out_.layers.size(); ++k) out_.layers[k].difference = differences[k];
    Graph integers = rounded.graph;
    fuse(integers, options_);
    NPU_TRY(compare_results(g_, integers, samples, options_, output_parts_, out_));
    out_.warn_of_differences();
    return {};
  }

  Graph &g_;
  const Options &options_;
  Result &out_;
  const std::vector<std::string> names_;
  std::set<int> kept_;
  Plan first_;  ///< with as many layers as there can be
  Seen seen_;
  std::vector<Parts> output_parts_;  ///< one for each output; empty without samples
  std::map<ValueId, Range> ranges_;  ///< joined where values share a scale
  Known known_;
  std::vector<double> sensitivities_;  ///< of the layers of first_
};

}  // namespace

bool has_integers(const Graph &g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), graph::is_quantized) ||
         std::any_of(g.values.begin(), g.values.end(), [](const graph::Value &v) { return v.quantized != nullptr; });
}

Status quantize(Graph &g, const Options &options, Result &out) {
  if (has_integers(g)) return Status::error("the network is quantized already: it has integers with scales");
  if (!options.samples && !options.table) return Status::error("samples or a calibration table are needed");
  if (!options.samples && options.accuracy.kind != AccuracyLimit::Kind::None)
    return Status::error("an accuracy is measured with samples, and there are none");
  if (options.samples) {
    NPU_TRY(options.samples->open(inputs_of(g)));
    if (options.samples->count() == 0) return Status::error("there are no samples to calibrate with");
  }
  out = {};
  return Quantizer(g, options, out).run();
}

}  // namespace npu::quantize
