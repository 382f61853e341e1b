// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/passes/integers.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

constexpr size_t kMostNotes = 20;

/// Nodes that quantize the same value in the same way become one: tools write one for each reader.
void join_equal(Graph &graph) {
  std::vector<ValueId> now(graph.values.size());
  for (size_t v = 0; v < now.size(); ++v) now[v] = static_cast<ValueId>(v);
  std::map<std::tuple<ValueId, float, int32_t, float, int32_t, Dtype>, ValueId> seen;
  for (Node &n : graph.nodes) {
    for (ValueId &v : n.inputs)
      if (v != kNoValue) v = now[static_cast<size_t>(v)];
    if (!quantizes(n) && !dequantizes(n)) continue;
    const auto &a = std::get<RequantAttrs>(n.attrs);
    const auto [known, fresh] =
        seen.emplace(std::tuple(n.inputs[0], a.in.scale, a.in.zero, a.out.scale, a.out.zero, a.to), n.output);
    if (!fresh) now[static_cast<size_t>(n.output)] = known->second;
  }
  for (ValueId &v : graph.outputs) v = now[static_cast<size_t>(v)];
  remove_dead(graph);
}

/// Means and maxima of what integers stand for become poolings, which work on them.
void expand_reductions(Graph &graph) {
  std::set<ValueId> known;
  for (const Node &n : graph.nodes)
    if (dequantizes(n) || ((n.op == Op::Transpose || n.op == Op::Reshape) && known.count(n.inputs[0])))
      known.insert(n.output);
  expand_reduce(graph, [&](const Node &n) {
    const ReduceKind kind = std::get<ReduceAttrs>(n.attrs).kind;
    return (kind == ReduceKind::Mean || kind == ReduceKind::Max) && known.count(n.inputs[0]);
  });
}

/// Integers that stand for other numbers, or for the same.
bool requantize(IntegerWalk &walk, size_t i) {
  const Node &n = walk.nodes[i];
  const Integers *x = walk.integers(n.inputs[0]);
  if (!quantizes(n) || !x) return false;
  const auto &attrs = std::get<RequantAttrs>(n.attrs);
  // What the largest scales make of an integer is infinite, and comes back as another one.
  const bool comes_back = std::isfinite(x->quant.scale * 65536);
  if (comes_back && x->quant == attrs.out && walk.graph[x->value].dtype == attrs.to) {
    const bool from_file = walk.graph.sources[static_cast<size_t>(x->source)].type == "DequantizeLinear";
    walk.drop(i, x->value, from_file ? -1 : x->source);
    return true;
  }
  walk.takes(*x, n.source);
  walk.add(Op::Requant, {x->value}, RequantAttrs{x->quant, attrs.out, {}, attrs.to}, n.source, n.output);
  return true;
}

void visit(IntegerWalk &walk, size_t i) {
  const Node &n = walk.nodes[i];
  if (dequantizes(n)) {
    const ValueId x = walk.now(n.inputs[0]);
    walk.set(n.output, {x, std::get<RequantAttrs>(n.attrs).in, n.source});
  } else if (!requantize(walk, i) && !fuse_product(walk, i) && !fuse_lookup(walk, i) && !fuse_elements(walk, i) &&
             !fuse_move(walk, i) && !fuse_bytes(walk, i)) {
    walk.keep(n);
  }
}

bool is_integer_node(const Graph &graph, const Node &n) { return is_quantized(n) || is_byte(graph[n.output].dtype); }

/// Whether a node of the file is a product of integers as it is: what is float32 there adds a zero point that arrives.
bool is_integer_product(const Source &source) {
  constexpr std::string_view kTypes[] = {"ConvInteger", "MatMulInteger", "MatMulIntegerToFloat",
                                         "DynamicQuantizeMatMul"};
  return std::ranges::count(kTypes, source.type) > 0;
}

/// Nodes of float32 next to lone nodes that quantize, or the other way round.
std::vector<const Node *> left_in_float(const Graph &graph) {
  const std::vector<int> made = graph.producers();
  std::set<int> products;
  for (const Node &n : graph.nodes)
    if (is_quantized(n) && is_integer_product(graph.sources[static_cast<size_t>(n.source)])) products.insert(n.source);
  std::vector<const Node *> out;
  const auto is_plain = [&](const Node &n) {
    return !is_quantized(n) && graph[n.output].dtype == Dtype::F32 && !products.count(n.source);
  };
  const auto add = [&](const Node &n) {
    if (is_plain(n) && std::find(out.begin(), out.end(), &n) == out.end()) out.push_back(&n);
  };
  for (const Node &n : graph.nodes)
    for (ValueId v : n.inputs) {
      if (v == kNoValue || made[static_cast<size_t>(v)] < 0) continue;
      const Node &from = graph.nodes[static_cast<size_t>(made[static_cast<size_t>(v)])];
      if (dequantizes(from)) add(n);
      if (quantizes(n)) add(from);
    }
  return out;
}

/// Says how much of the network works on integers, and why the rest of it next to them does not.
void add_notes(Graph &graph, const std::map<int, std::string> &reasons) {
  const auto integers =
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node &n) { return is_integer_node(graph, n); });
  const std::vector<const Node *> left = left_in_float(graph);
  graph.notes.push_back("integers       operators " + std::to_string(integers) + ", next to them in float32 " +
                        std::to_string(left.size()));
  std::set<int> said;
  for (const Node *n : left) {
    if (!said.insert(n->source).second) continue;
    if (said.size() > kMostNotes) {
      graph.notes.push_back("               and more");
      break;
    }
    const auto reason = reasons.find(n->source);
    const Source &source = graph.sources[static_cast<size_t>(n->source)];
    graph.notes.push_back("               " + source.type + " '" + source.name + "' in float32: " +
                          (reason == reasons.end() ? "not between integers of known scales" : reason->second));
  }
}

}  // namespace

void fuse_quantized(Graph &graph) {
  const bool any =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), is_quantized) ||
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value &v) { return v.quantized != nullptr; });
  if (any) {
    join_equal(graph);
    expand_reductions(graph);
    IntegerWalk walk(graph);
    for (size_t i = 0; i < walk.nodes.size(); ++i)
      if (!walk.is_dropped(i)) visit(walk, i);
    walk.finish();
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_quantized)) add_notes(graph, walk.reasons);
  }
  for (Value &v : graph.values) v.quantized.reset();
}

}  // namespace npu::graph
