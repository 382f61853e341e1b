// SPDX-License-Identifier: MIT
#include "compiler/quantize/quantize.h"

#include <algorithm>

#include "compiler/quantize/calibrate.h"
#include "compiler/quantize/insert.h"
#include "compiler/quantize/names.h"
#include "compiler/quantize/ranges.h"

namespace npu::quantize {
namespace {

using graph::Graph;
using graph::ValueId;

/// The sources of nodes that stay in float32.
Status find_kept(const Graph &g, const Options &options, std::set<int> &out) {
  for (const std::string &name : options.keep) {
    const size_t before = out.size();
    for (size_t s = 0; s < g.sources.size(); ++s)
      if (g.sources[s].name == name) out.insert(static_cast<int>(s));
    if (out.size() == before) return Status::error("no node of the network has the name '" + name + "'");
  }
  return {};
}

/// Ranges of the plan's values: those of the table, else what the samples show.
class Ranges {
 public:
  Ranges(const Graph &graph, const Plan &plan, const Options &options)
      : g_(graph), plan_(plan), options_(options), names_(tensor_names(graph)) {}

  Status run(Table &table, Quants &quants) {
    NPU_TRY(check_table());
    std::vector<ValueId> open;
    for (ValueId v : plan_.values)
      if (!find_in_table(v)) open.push_back(v);
    if (!open.empty() && !options_.samples)
      return Status::error("the calibration table has no line for tensor '" + name(open[0]) +
                           "', and there are no samples");
    if (!open.empty()) NPU_TRY(observe_values(open));
    join_groups();
    for (size_t k = 0; k < plan_.values.size(); ++k) {
      const ValueId v = plan_.values[k];
      quants[v] = quant_of(ranges_[v], options_.type, options_.symmetric);
      const TableLine *known = find_in_table(v);
      table[name(v)] = {ranges_[v], known ? known->method : rule_text(options_.rule)};
    }
    return {};
  }

 private:
  const std::string &name(ValueId v) const { return names_[static_cast<size_t>(v)]; }

  const TableLine *find_in_table(ValueId v) const {
    if (!options_.table) return nullptr;
    const auto found = options_.table->find(name(v));
    return found == options_.table->end() ? nullptr : &found->second;
  }

  Status check_table() const {
    if (!options_.table) return {};
    const std::set<std::string> known(names_.begin(), names_.end());
    for (const auto &[name, line] : *options_.table)
      if (!known.count(name))
        return Status::error("the calibration table has a line for '" + name + "', which the network does not have");
    return {};
  }

  Status observe_values(const std::vector<ValueId> &values) {
    std::vector<Histogram> seen;
    NPU_TRY(observe(g_, values, options_, seen));
    for (size_t k = 0; k < values.size(); ++k) ranges_[values[k]] = find_range(seen[k], options_.rule);
    return {};
  }

  /// Values of one group get the range that holds all of theirs.
  void join_groups() {
    for (ValueId v : plan_.values)
      if (const TableLine *line = find_in_table(v)) ranges_[v] = line->range;
    std::map<ValueId, Range> joined;
    for (size_t k = 0; k < plan_.values.size(); ++k) {
      const Range &r = ranges_[plan_.values[k]];
      const auto [it, fresh] = joined.emplace(plan_.leaders[k], r);
      if (!fresh) it->second = {std::min(it->second.low, r.low), std::max(it->second.high, r.high)};
    }
    for (size_t k = 0; k < plan_.values.size(); ++k) ranges_[plan_.values[k]] = joined[plan_.leaders[k]];
  }

  const Graph &g_;
  const Plan &plan_;
  const Options &options_;
  const std::vector<std::string> names_;
  std::map<ValueId, Range> ranges_;
};

}  // namespace

bool has_integers(const Graph &g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), graph::is_quantized) ||
         std::any_of(g.values.begin(), g.values.end(), [](const graph::Value &v) { return v.quantized != nullptr; });
}

Status quantize(Graph &g, const Options &options, Result &out) {
  if (has_integers(g)) return Status::error("the network is quantized already: it has integers with scales");
  if (options.samples) NPU_TRY(options.samples->open(inputs_of(g)));
  if (options.samples && options.samples->count() == 0) return Status::error("there are no samples to calibrate with");
  if (!options.samples && !options.table) return Status::error("samples or a calibration table are needed");
  std::set<int> kept;
  NPU_TRY(find_kept(g, options, kept));
  const Plan plan = make_plan(g, kept);
  if (plan.layers.empty()) return Status::error("the network has no operator that integers could compute");
  Quants quants;
  NPU_TRY(Ranges(g, plan, options).run(out.table, quants));
  quantize_weights(g, plan, quants);
  std::map<ValueId, ValueId> rounded;
  insert_pairs(g, plan, quants, options.type, rounded);
  return {};
}

}  // namespace npu::quantize
