// SPDX-License-Identifier: MIT
#include "ort/ep/capability.h"

#include <algorithm>

#include "ort/ep/compiler.h"
#include "ort/ep/partition.h"

namespace npu::ort {
namespace {

/// What open dimensions are when a part is tried: more than 1, because with 1 more is possible than with other numbers.
constexpr int64_t kTrial = 2;

bool is_open(const GraphValue &v) {
  return !v.has_shape || std::any_of(v.dims.begin(), v.dims.end(), [](int64_t d) { return d < 0; });
}

Shape trial_shape(const GraphValue &v) {
  Shape out = v.dims;
  for (int64_t &d : out) d = d < 0 ? kTrial : d;
  return out;
}

/// The chip has integers of 32 bits. Of 64 bits it takes what is an index into a tensor, and gives what is one: others
/// may be numbers that do not fit.
bool reads_index(const GraphNode &n, const std::string &name) {
  static const std::map<std::string, size_t> kIndices{{"Gather", 1},          {"GatherElements", 1}, {"GatherND", 1},
                                                      {"ScatterElements", 1}, {"ScatterND", 1},      {"Scatter", 1},
                                                      {"OneHot", 0}};
  const auto known = kIndices.find(n.type);
  if (known == kIndices.end()) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (n.inputs[i] == name && i != known->second) return false;
  return true;
}

bool reads(const GraphNode &n, const std::string &name) {
  return std::find(n.inputs.begin(), n.inputs.end(), name) != n.inputs.end();
}

bool captures(const GraphNode &n, const std::string &name) {
  return std::find(n.implicit.begin(), n.implicit.end(), name) != n.implicit.end();
}

/// A type with which the compiler would compute, but not to the bit or to the type that the model has. Bodies count,
/// too.
std::string type_problem(const GraphView &graph, const GraphNode &n) {
  for (const auto *names : {&n.inputs, &n.implicit, &n.outputs})
    for (const std::string &name : *names) {
      if (name.empty()) continue;
      const GraphValue &v = graph.values.at(name);
      bm_data_type_t type;
      if (v.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE)
        return "'" + name + "' is float64, and the chip computes in float32";
      if (!v.constant && !stored_type(v.type, type)) return "'" + name + "' has a type that the chip does not have";
    }
  for (const Ort::AttrNameSubgraph &body : n.node.GetSubgraphs()) {
    const GraphView inside = read_graph(body.sub_graph);
    for (const GraphNode &inner : inside.nodes)
      if (const std::string problem = type_problem(inside, inner); !problem.empty())
        return "in " + body.attr_name + ", " + inner.title() + ": " + problem;
  }
  return {};
}

bool makes_index(const GraphNode &n) {
  return n.type == "ArgMax" || n.type == "ArgMin" || n.type == "TopK" || n.type == "Shape" || n.type == "Size";
}

class Finder {
 public:
  Finder(const GraphView &graph, const Options &options, bool has_captures)
      : graph_(graph), options_(options), has_captures_(has_captures) {}

  Status run(Capability &out) {
    NPU_TRY(ask_compiler());
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (const std::string reason = own_reason(graph_.nodes[i]); !reason.empty()) problems_.emplace(i, reason);
    std::vector<std::vector<size_t>> groups = find_connected();
    while (refuse_at_edges(groups)) groups = find_connected();
    for (std::vector<size_t> &nodes : groups) take(make_part(graph_, std::move(nodes)), out);
    for (const auto &[node, reason] : problems_) out.refused.push_back(graph_.nodes[node].title() + ": " + reason);
    return {};
  }

 private:
  Status ask_compiler() {
    std::vector<size_t> all(graph_.nodes.size());
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = i;
      for (const std::string &name : graph_.nodes[i].outputs) makers_[name] = i;
    }
    const Part whole = make_part(graph_, all);
    const std::vector<uint8_t> network = write_onnx(graph_, whole);
    CompileRequest request;
    request.network = &network;
    for (const std::string &name : whole.inputs)
      if (const GraphValue &v = graph_.values.at(name); v.has_shape && is_open(v))
        request.shapes[name] = trial_shape(v);
    return explain(request, problems_);
  }

  std::string own_reason(const GraphNode &n) const {
    if (!options_.dynamic)
      for (const auto *names : {&n.inputs, &n.implicit, &n.outputs})
        for (const std::string &name : *names)
          if (!name.empty() && !graph_.values.at(name).constant && is_open(graph_.values.at(name)))
            return "the shape of '" + name + "' is not known before it runs, and the option dynamic is 0";
    return type_problem(graph_, n);
  }

  std::vector<std::vector<size_t>> find_connected() const {
    std::vector<PartitionNode> nodes(graph_.nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].wanted = !problems_.count(i);
      for (const auto *names : {&graph_.nodes[i].inputs, &graph_.nodes[i].implicit})
        for (const std::string &name : *names)
          if (const auto maker = makers_.find(name); maker != makers_.end()) nodes[i].reads.push_back(maker->second);
    }
    return find_groups(nodes);
  }

  /// Why this node of a group cannot read this tensor from outside of it.
  std::string edge_problem(const GraphNode &n, const std::vector<size_t> &nodes, const std::string &name) const {
    const GraphValue &v = graph_.values.at(name);
    const auto is_read = [&](size_t i) { return reads(graph_.nodes[i], name); };
    if (!reads(n, name) && !captures(n, name)) return {};
    if (is_wide(v.type) && !reads_index(n, name)) return "'" + name + "' has integers of 64 bits, and the chip has 32";
    if (!v.has_shape) return "the number of dimensions of '" + name + "' is not known before it runs, or is 0";
    if (!has_captures_ && std::none_of(nodes.begin(), nodes.end(), is_read))
      return "only its bodies read '" + name + "', which ONNX Runtime before 1.28 does not give to a part";
    return {};
  }

  /// Refuses nodes at the edge of a group that read or give what cannot cross it. True: there were some.
  bool refuse_at_edges(const std::vector<std::vector<size_t>> &groups) {
    const size_t before = problems_.size();
    for (const std::vector<size_t> &nodes : groups) {
      const Part part = make_part(graph_, nodes);
      for (const std::string &name : part.inputs)
        for (size_t i : nodes)
          if (const std::string problem = edge_problem(graph_.nodes[i], nodes, name); !problem.empty())
            problems_.emplace(i, problem);
      for (const std::string &name : part.outputs)
        if (is_wide(graph_.values.at(name).type) && !makes_index(graph_.nodes[makers_.at(name)]))
          problems_.emplace(makers_.at(name), "'" + name + "' has integers of 64 bits, and the chip has 32");
    }
    return problems_.size() > before;
  }

  void take(Part part, Capability &out) {
    auto group = std::make_shared<Group>();
    bool on_chip = false;
    const Status made = make_group(graph_, part, options_, *group, on_chip);
    if (made.ok() && on_chip) {
      out.taken.push_back({std::move(part), std::move(group)});
      return;
    }
    for (size_t i : part.nodes)
      problems_.emplace(i, made.ok()
                               ? "the chip would have nothing to do in the nodes that could go to it with this one"
                               : made.message());
  }

  const GraphView &graph_;
  const Options &options_;
  const bool has_captures_;
  std::map<std::string, size_t> makers_;
  std::map<size_t, std::string> problems_;
};

}  // namespace

Status find_capability(const GraphView &graph, const Options &options, bool captures, Capability &out) {
  return Finder(graph, options, captures).run(out);
}

Status make_group(const GraphView &graph, const Part &part, const Options &options, Group &out, bool &on_chip) {
  const GraphNode &first = graph.nodes[part.nodes.front()];
  out.name = first.name.empty() ? first.type : first.name;
  if (part.nodes.size() > 1) out.name += "+" + std::to_string(part.nodes.size() - 1);
  bool open = false;
  std::vector<Shape> shapes;
  for (const std::string &name : part.inputs) {
    const GraphValue &v = graph.values.at(name);
    if (!v.has_shape) return Status::error("nobody knows how many dimensions '" + name + "' has");
    open = open || is_open(v);
    shapes.push_back(trial_shape(v));
    out.inputs.push_back({0, name, v.type});
  }
  for (const std::string &name : part.outputs) out.outputs.push_back({0, name, graph.values.at(name).type});
  out.network = write_onnx(graph, part);
  CompiledGroup compiled;
  NPU_TRY(compile_group(out, out.network, shapes, options, compiled));
  on_chip = compiled.on_chip;
  out.bmodel = std::move(compiled.bmodel);
  // What is known only when it runs is compiled then.
  (open ? out.bmodel : out.network).clear();
  return {};
}

}  // namespace npu::ort
