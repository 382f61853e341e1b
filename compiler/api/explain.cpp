// SPDX-License-Identifier: MIT
// npuc --explain: which nodes of a file run where, and why not on the chip.
#include <array>
#include <set>

#include "compiler/api/compile_graph.h"
#include "compiler/graph/partition.h"
#include "compiler/graph/remove_dead.h"
#include "compiler/import/importer.h"
#include "compiler/import/open_batch.h"

namespace npu::compiler {
namespace {

constexpr const char *kNoCommand = "the chip has no commands for it";
constexpr const char *kIndices =
    "its indices are not known when the network is compiled, and npuc has the chip gather by known ones only";
constexpr const char *kWeights =
    "its weights are not known when the network is compiled, and too many for a convolution on the chip then";
constexpr const char *kLittleWork = "it is less work than it takes to go from the CPU to the chip and back";

const char *reason_for_cpu(const graph::Graph &g, const graph::Node &n) {
  const bool known = n.inputs.size() < 2 || n.inputs[1] == graph::kNoValue || g.is_constant(n.inputs[1]);
  if (n.op == graph::Op::Gather && !known) return kIndices;
  return n.op == graph::Op::Conv && !known ? kWeights : kNoCommand;
}

/// Why nodes of the graph run on the CPU, by their sources.
std::map<size_t, std::string> reasons_for_cpu(const graph::Graph &g) {
  std::map<size_t, std::string> out;
  for (const graph::Node &n : g.nodes)
    if (!graph::runs_on_chip(g, n)) out[static_cast<size_t>(n.source)] = reason_for_cpu(g, n);
  return out;
}

/// Compiles what can be, to see where it runs.
Status find_places(graph::Graph g, const Options &options, std::vector<LayerReport> &layers,
                   std::map<size_t, std::string> &reasons) {
  graph::remove_dead(g);
  NPU_TRY(run_passes(g, options));
  reasons = reasons_for_cpu(g);
  Compiled compiled;
  if (!g.outputs.empty() && !g.inputs.empty()) NPU_TRY(compile_graph(g, options, compiled));
  layers = std::move(compiled.report.layers);
  return {};
}

Status explain(const graph::RawModel &raw, const Options &options, bool places, std::vector<NodePlace> &out) {
  graph::Graph g;
  std::vector<graph::NodeVerdict> verdicts;
  graph::ImportOptions import_options{options.shapes, options.values};
  if (options.assume_batch) graph::assume_batch(raw, import_options);
  NPU_TRY(graph::explain_model(raw, import_options, g, verdicts));
  std::vector<LayerReport> layers;
  std::map<size_t, std::string> reasons;
  const Status placed = places ? find_places(std::move(g), options, layers, reasons) : Status();
  out.clear();
  for (const graph::NodeVerdict &v : verdicts) {
    const graph::RawNode &n = raw.nodes[v.node];
    NodePlace &place = out.emplace_back();
    place.node = v.node;
    place.type = n.type;
    place.name = !n.name.empty() ? n.name : !n.outputs.empty() ? n.outputs[0] : n.type;
    place.compiled = v.problem.empty();
    place.reason = v.problem;
    place.input = v.input;
    place.help = v.help;
    if (!place.compiled) continue;
    if (!placed.ok()) {
      place.reason = placed.message();
      continue;
    }
    if (v.source < layers.size()) place.where = layers[v.source].where;
    if (place.where.find("CPU") == std::string::npos) continue;
    const auto known = reasons.find(v.source);
    place.reason = known == reasons.end() ? kLittleWork : known->second;
  }
  return {};
}

/// Of the kinds in explain_text().
enum Kind { kOnChip, kOnCpu, kRefused, kUnknown };

Kind kind_of(const NodePlace &p) {
  if (!p.compiled) return kRefused;
  if (p.where.empty()) return kUnknown;
  return p.where.find("CPU") == std::string::npos ? kOnChip : kOnCpu;
}

constexpr size_t kNamed = 3;  ///< nodes that an input keeps from being compiled

/// Of a node whose input is the file's and cannot be taken: said once, for all nodes that it keeps from being compiled.
std::string input_text(const NodePlace &first, const std::vector<NodePlace> &places) {
  size_t count = 0;
  std::string names;
  for (const NodePlace &p : places) {
    if (p.input != first.input) continue;
    if (count++ < kNamed) names += (names.empty() ? "'" : ", '") + p.name + "'";
  }
  if (count > kNamed) names += ", ...";
  std::string text = "not compiled: " + std::to_string(count) + (count == 1 ? " node (" : " nodes (") + names +
                     ") that need input '" + first.input + "': " + first.reason + '\n';
  if (!first.help.empty()) text += "  help: " + first.help + '\n';
  return text;
}

}  // namespace

Status explain_onnx(const void *bytes, size_t size, const Options &options, bool places, std::vector<NodePlace> &out) {
  return guarded([&]() -> Status {
    NPU_TRY(check_lmem(options.lmem_bytes));
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx(bytes, size, raw));
    return explain(raw, options, places, out);
  });
}

Status explain_onnx_file(const std::string &path, const Options &options, std::vector<NodePlace> &out) {
  return guarded([&]() -> Status {
    NPU_TRY(check_lmem(options.lmem_bytes));
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx_file(path, raw));
    return explain(raw, options, true, out).within(path);
  });
}

std::string explain_text(const std::vector<NodePlace> &places) {
  constexpr std::array kWords{"NPU", "CPU", "not compiled", "unknown"};
  std::array<size_t, kWords.size()> counts{};
  std::string text;
  std::set<std::string> told;  // inputs
  for (const NodePlace &p : places) {
    const Kind kind = kind_of(p);
    ++counts[kind];
    if (kind == kOnChip) continue;
    if (!p.input.empty()) {
      if (told.insert(p.input).second) text += input_text(p, places);
      continue;
    }
    std::string reason = p.reason;
    for (char &c : reason) c = c == '\n' ? ' ' : c;
    text.append(kWords[kind]).append(": ").append(p.type).append(" '").append(p.name).append("': ").append(reason) +=
        '\n';
  }
  text += std::to_string(places.size()) + " nodes: " + std::to_string(counts[kOnChip]) + " on the NPU, " +
          std::to_string(counts[kOnCpu]) + " on the CPU in the .bmodel, " + std::to_string(counts[kRefused]) +
          " not compiled";
  if (counts[kUnknown]) text += ", " + std::to_string(counts[kUnknown]) + " of which nobody knows";
  return text + '\n';
}

}  // namespace npu::compiler
