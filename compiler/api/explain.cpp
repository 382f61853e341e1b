// SPDX-License-Identifier: MIT
// npuc --explain: which nodes of a file run where, and why not on the chip.
#include <algorithm>
#include <array>
#include <set>

#include "compiler/api/compile_graph.h"
#include "compiler/graph/partition.h"
#include "compiler/graph/remove_dead.h"
#include "compiler/import/help.h"
#include "compiler/import/importer.h"
#include "compiler/import/node_order.h"
#include "compiler/import/open_batch.h"

namespace npu::compiler {
namespace {

constexpr const char *kFolded = "folded";
constexpr const char *kNoCommand = "the chip has no commands for it";
constexpr const char *kIndices =
    "its indices are not known when the network is compiled, and npuc has the chip gather by known ones only";
constexpr const char *kWeights =
    "its weights are not known when the network is compiled, and too many for a convolution on the chip then";
constexpr const char *kLittleWork = "it is less work than it takes to go from the CPU to the chip and back";

/// "'sl', which is int32": a tensor, by its name if it has one.
std::string tensor_text(const graph::Graph &g, graph::ValueId v) {
  const graph::Value &value = g[v];
  return (value.name.empty() ? "a tensor" : "'" + graph::printable(value.name) + "'") + ", which is " +
         graph::dtype_name(value.dtype);
}

/// `alone`: the node is all that its operator of the file has become.
std::string reason_for_cpu(const graph::Graph &g, const graph::Node &n, bool alone) {
  const bool known = n.inputs.size() < 2 || n.inputs[1] == graph::kNoValue || g.is_constant(n.inputs[1]);
  if (n.op == graph::Op::Gather && !known) return kIndices;
  if (n.op == graph::Op::Conv && !known) return kWeights;
  const graph::ValueId tensor = is_quantized(n) ? graph::kNoValue : graph::unsuitable_tensor(g, n);
  if (graph::has_command(g, n) && tensor != graph::kNoValue)
    return std::string(kNoCommand) + " with " + tensor_text(g, tensor);
  if (alone) return kNoCommand;
  return "the chip has no commands for a part of it, " + std::string(graph::op_name(n.op)) +
         (tensor == graph::kNoValue ? "" : " of " + tensor_text(g, tensor));
}

/// The reasons for which nodes of the graph run on the CPU, by their sources: for each the first one.
std::map<size_t, std::string> reasons_for_cpu(const graph::Graph &g) {
  std::map<int, size_t> count;
  for (const graph::Node &n : g.nodes) ++count[n.source];
  std::map<size_t, std::string> out;
  for (const graph::Node &n : g.nodes)
    if (!graph::runs_on_chip(g, n))
      out.try_emplace(static_cast<size_t>(n.source), reason_for_cpu(g, n, count[n.source] == 1));
  return out;
}

/// The outcome for each of the graph's sources.
struct Places {
  std::vector<LayerReport> layers;  ///< the graph's sources, then what compiling has added
  std::map<size_t, std::string> reasons;
};

/// Compiles what can be, to see where it runs.
Status find_places(graph::Graph g, const Options &options, Places &out) {
  graph::remove_dead(g);
  NPU_TRY(run_passes(g, options));
  out.reasons = reasons_for_cpu(g);
  Compiled compiled;
  if (!g.outputs.empty() && !g.inputs.empty()) NPU_TRY(compile_graph(g, options, compiled));
  out.layers = std::move(compiled.report.layers);
  return {};
}

bool runs(const LayerReport &l) { return l.on_tiu || l.on_gdma || l.on_cpu; }

/// The engines of the layers [from, end): of a node, and of the nodes of its body or function.
std::string where_all(const std::vector<LayerReport> &layers, size_t from, size_t end) {
  LayerReport sum;
  std::string where;
  for (size_t i = from; i < std::min(end, layers.size()); ++i) {
    const LayerReport &l = layers[i];
    sum.on_tiu |= l.on_tiu;
    sum.on_gdma |= l.on_gdma;
    sum.on_cpu |= l.on_cpu;
    const bool folded = l.where.empty() || l.where == "nothing to do" || l.where == "dead" ||
                        l.where == graph::kInItsNodes || l.where == kFolded;
    if (where.empty() && !folded) where = l.where;
  }
  const std::string engines = engines_text(sum);
  return !engines.empty() ? engines : where.empty() ? kFolded : where;
}

void place_node(const graph::NodeVerdict &v, const Places &places, NodePlace &place) {
  place.where = where_all(places.layers, v.source, v.end);
  if (place.where.find("CPU") == std::string::npos) return;
  place.reason = kLittleWork;
  for (size_t i = v.source; i < v.end; ++i)
    if (const auto known = places.reasons.find(i); known != places.reasons.end()) {
      place.reason = known->second;
      break;
    }
}

/// Nodes with commands that are none of the file's.
void add_others(const std::vector<graph::NodeVerdict> &verdicts, const Places &places, std::vector<NodePlace> &out) {
  std::vector<bool> in_file(places.layers.size());
  for (const graph::NodeVerdict &v : verdicts)
    for (size_t i = v.source; i < std::min(v.end, in_file.size()); ++i) in_file[i] = true;
  for (size_t i = 0; i < places.layers.size(); ++i) {
    const LayerReport &l = places.layers[i];
    if (in_file[i] || !runs(l)) continue;
    NodePlace &place = out.emplace_back();
    place.name = l.name;
    place.type = l.type;
    place.added = true;
    place.where = l.where;
    place.reason = l.type == "Cast"   ? "npuc adds it, a conversion between types of the file and of the .bmodel"
                   : l.type == "Copy" ? "npuc adds it, for an output that is an input, a constant or another output"
                                      : "npuc adds it";
  }
}

Status explain(const graph::RawModel &raw, const Options &options, bool places, Explanation &out) {
  graph::Graph g;
  std::vector<graph::NodeVerdict> verdicts;
  graph::ImportOptions import{options.shapes, options.values};
  import.failing_branches = options.failing_branches;
  out = {};
  if (options.assume_batch) out.warnings = graph::assume_batch(raw, import);
  NPU_TRY(graph::explain_model(raw, import, g, verdicts));
  out.notes = g.notes;
  out.warnings.insert(out.warnings.end(), g.warnings.begin(), g.warnings.end());
  Places found;
  const Status placed = places ? find_places(std::move(g), options, found) : Status();
  for (const graph::NodeVerdict &v : verdicts) {
    const graph::RawNode &n = raw.nodes[v.node];
    NodePlace &place = out.nodes.emplace_back();
    place.node = v.node;
    place.type = n.type;
    place.name = !n.name.empty() ? n.name : !n.outputs.empty() ? n.outputs[0] : n.type;
    place.compiled = v.problem.empty();
    place.reason = v.problem;
    place.input = v.input;
    place.help = v.help;
    if (!place.compiled || !places) continue;
    if (placed.ok()) {
      place_node(v, found, place);
      continue;
    }
    place.reason = placed.message();
    if (const graph::Obstacle obstacle = graph::obstacle_of(placed); obstacle != graph::Obstacle::Other)
      place.help = graph::help_for(obstacle);
  }
  if (places && placed.ok()) add_others(verdicts, found, out.nodes);
  return {};
}

/// Of the kinds in explain_text().
enum Kind { kOnChip, kOnCpu, kIsFolded, kRefused, kUnknown, kKinds };

Kind kind_of(const NodePlace &p) {
  if (!p.compiled) return kRefused;
  if (p.where.empty()) return kUnknown;
  if (p.where == kFolded) return kIsFolded;
  return p.where.find("CPU") == std::string::npos ? kOnChip : kOnCpu;
}

constexpr size_t kNamed = 3;  ///< nodes that have one reason together

std::string nodes_text(size_t count) { return std::to_string(count) + (count == 1 ? " node" : " nodes"); }

/// "2 nodes ('a', 'b')": those for which like() holds.
template <class Like>
std::string group_text(const std::vector<NodePlace> &places, Like like) {
  size_t count = 0;
  std::string names;
  for (const NodePlace &p : places) {
    if (!like(p)) continue;
    if (count++ < kNamed) names += (names.empty() ? "'" : ", '") + graph::printable(p.name) + "'";
  }
  if (count > kNamed) names += ", ...";
  return nodes_text(count) + " (" + names + ")";
}

std::string one_line(std::string text) {
  for (char &c : text) c = c == '\n' ? ' ' : c;
  return text;
}

/// The lines about nodes, a reason of many nodes once.
class Lines {
 public:
  explicit Lines(const std::vector<NodePlace> &places) : places_(places) {}

  void add(const NodePlace &p, Kind kind) {
    constexpr std::array<const char *, kKinds> kWords{"NPU", "CPU", kFolded, "not compiled", "unknown"};
    if (kind == kUnknown) {
      if (!told_.insert(p.reason).second) return;
      const auto like = [&](const NodePlace &q) { return kind_of(q) == kUnknown && q.reason == p.reason; };
      text_ += "unknown: " + group_text(places_, like) + ": " + one_line(p.reason) + '\n';
    } else if (!p.input.empty()) {
      if (!inputs_.insert(p.input).second) return;
      const auto like = [&](const NodePlace &q) { return q.input == p.input; };
      text_ += "not compiled: " + group_text(places_, like) + " that need input '" + graph::printable(p.input) +
               "': " + one_line(p.reason) + '\n';
    } else {
      text_ += std::string(kWords[kind]) + ": " + graph::printable(p.type) + " '" + graph::printable(p.name) +
               "': " + one_line(p.reason) + '\n';
    }
    if (!p.help.empty() && told_.insert(p.help).second) text_ += "  help: " + p.help + '\n';
  }

  const std::string &text() const { return text_; }

 private:
  const std::vector<NodePlace> &places_;
  std::set<std::string> inputs_, told_;
  std::string text_;
};

/// "2 on the NPU, 1 on the CPU in the .bmodel", with the kinds that there are.
std::string counts_text(const std::array<size_t, kKinds> &counts, bool of_file) {
  std::string text = std::to_string(counts[kOnChip]) + " on the NPU, " + std::to_string(counts[kOnCpu]) +
                     " on the CPU" + (of_file ? " in the .bmodel" : "");
  if (counts[kIsFolded]) text += ", " + std::to_string(counts[kIsFolded]) + " folded";
  if (of_file) text += ", " + std::to_string(counts[kRefused]) + " not compiled";
  if (counts[kUnknown]) text += ", " + std::to_string(counts[kUnknown]) + " of unknown place";
  return text;
}

}  // namespace

Status explain_onnx(const void *bytes, size_t size, const Options &options, bool places, Explanation &out) {
  return guarded([&]() -> Status {
    NPU_TRY(check_lmem(options.lmem_bytes));
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx(bytes, size, raw));
    return explain(raw, options, places, out);
  });
}

Status explain_onnx_file(const std::string &path, const Options &options, Explanation &out) {
  return guarded([&]() -> Status {
    NPU_TRY(check_lmem(options.lmem_bytes));
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx_file(path, raw));
    return explain(raw, options, true, out).within(path);
  });
}

std::string explain_text(const Explanation &explanation) {
  std::array<size_t, kKinds> counts{}, added{};
  Lines lines(explanation.nodes);
  size_t more = 0;
  for (const NodePlace &p : explanation.nodes) {
    const Kind kind = kind_of(p);
    ++(p.added ? added : counts)[kind];
    more += p.added;
    if (p.added || (kind != kOnChip && kind != kIsFolded)) lines.add(p, kind);
  }
  std::string text = lines.text();
  for (const std::string &warning : explanation.warnings) text += "warning: " + one_line(warning) + '\n';
  for (const std::string &note : explanation.notes) text += "note: " + one_line(note) + '\n';
  text += nodes_text(explanation.nodes.size() - more) + ": " + counts_text(counts, true) + '\n';
  if (more) text += std::to_string(more) + " more that npuc adds: " + counts_text(added, false) + '\n';
  return text;
}

}  // namespace npu::compiler
