// SPDX-License-Identifier: MIT
#include "compiler/passes/integers.h"

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/graph/moves.h"
#include "compiler/graph/quantized_constant.h"
#include "compiler/passes/passes.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

/// Moves that quantizing may go in front of: each element of the result is one of the operands', or the largest.
bool passes(const Node &n) { return rearranges(n) || n.op == Op::Concat || is_max_pool(n); }

}  // namespace

bool quantizes(const Node &n) {
  const RequantAttrs *a = std::get_if<RequantAttrs>(&n.attrs);
  return a && a->in.scale == 0 && a->act.kind == ActKind::None;
}

bool dequantizes(const Node &n) {
  const RequantAttrs *a = std::get_if<RequantAttrs>(&n.attrs);
  return a && a->out.scale == 0 && a->act.kind == ActKind::None;
}

bool is_simple(const Activation &act) {
  return act.kind == ActKind::Relu || act.kind == ActKind::Clip || act.kind == ActKind::LeakyRelu;
}

bool join_functions(Activation &first, const Activation &second) {
  if (second.kind == ActKind::None) return true;
  if (first.kind == ActKind::None) {
    first = second;
    return true;
  }
  const auto range = [](const Activation &act) -> std::optional<std::pair<float, float>> {
    if (act.kind == ActKind::Clip) return std::pair(act.a, act.b);
    if (act.kind == ActKind::Relu) return std::pair(0.0f, std::numeric_limits<float>::infinity());
    return {};
  };
  const auto a = range(first), b = range(second);
  if (!a || !b) return false;
  if (first.kind == ActKind::Relu && second.kind == ActKind::Relu) return true;
  first.kind = ActKind::Clip;
  first.a = std::clamp(a->first, b->first, b->second);
  first.b = std::clamp(a->second, b->first, b->second);
  return true;
}

IntegerWalk::IntegerWalk(Graph &g)
    : graph(g),
      nodes(g.nodes),
      readers_(g.values.size()),
      is_output_(g.values.size()),
      dropped_(nodes.size()),
      made_by_(g.producers()) {
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId v : nodes[i].inputs)
      if (v != kNoValue) readers_[static_cast<size_t>(v)].push_back(i);
  for (ValueId v : graph.outputs) is_output_[static_cast<size_t>(v)] = true;
  grow();
}

void IntegerWalk::grow() {
  for (size_t v = now_.size(); v < graph.values.size(); ++v) now_.push_back(static_cast<ValueId>(v));
  known_.resize(graph.values.size());
  made_by_.resize(graph.values.size(), -1);
}

ValueId IntegerWalk::now(ValueId v) const {
  while (v != kNoValue && now_[static_cast<size_t>(v)] != v) v = now_[static_cast<size_t>(v)];
  return v;
}

const Integers *IntegerWalk::integers(ValueId v) const {
  const Integers &found = known_[static_cast<size_t>(now(v))];
  return found.value == kNoValue ? nullptr : &found;
}

const Integers *IntegerWalk::bytes(ValueId v) const {
  const Integers *found = integers(v);
  return found && is_byte(graph[found->value].dtype) ? found : nullptr;
}

std::optional<Integers> IntegerWalk::operand(ValueId v) {
  if (const Integers *found = bytes(v)) return *found;
  const std::shared_ptr<const QuantizedConstant> constant = graph[v].quantized;
  if (!constant || constant->scales.size() != 1 || constant->zeros.size() != 1) return {};
  const Quant quant{constant->scales[0], constant->zeros[0]};
  return Integers{this->constant(constant->integers), quant, -1};
}

const Node *IntegerWalk::maker(ValueId v) const {
  const int i = maker_index(v);
  return i < 0 ? nullptr : &nodes[static_cast<size_t>(i)];
}

int IntegerWalk::only_reader(ValueId v) const {
  const auto at = static_cast<size_t>(v);
  return readers_[at].size() == 1 && !is_output_[at] ? static_cast<int>(readers_[at][0]) : -1;
}

bool IntegerWalk::tail(ValueId v, Takes takes, Tail &out) const {
  out = {};
  out.last = v;
  for (;;) {
    const int reader = only_reader(v);
    if (reader < 0) return false;
    const Node &n = nodes[static_cast<size_t>(reader)];
    if (quantizes(n)) {
      const auto &attrs = std::get<RequantAttrs>(n.attrs);
      out.quant = attrs.out;
      out.type = attrs.to;
      if (takes == Takes::Activation) take_range(n.output, out);
      return is_byte(attrs.to);
    }
    v = n.output;
    if (passes(n)) continue;
    const UnaryAttrs *unary = std::get_if<UnaryAttrs>(&n.attrs);
    if (takes == Takes::Nothing || !unary || !is_simple(unary->act)) return false;
    if (!join_functions(out.act, unary->act)) return false;
    out.absorbed.push_back(static_cast<size_t>(reader));
    out.last = v;
  }
}

void IntegerWalk::take_range(ValueId integers, Tail &out) const {
  for (;;) {
    const int reader = only_reader(integers);
    if (reader < 0) return;
    const Node &n = nodes[static_cast<size_t>(reader)];
    const BinaryAttrs *attrs = std::get_if<BinaryAttrs>(&n.attrs);
    if (!attrs || (attrs->kind != BinaryKind::Max && attrs->kind != BinaryKind::Min)) return;
    const TensorPtr &limit = graph[n.inputs[n.inputs[0] == integers ? 1 : 0]].constant;
    if (!limit || limit->count() != 1) return;
    const float number = static_cast<float>(cpu::load(*limit, 0) - out.quant.zero) * out.quant.scale;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const bool is_low = attrs->kind == BinaryKind::Max;
    const Activation range{ActKind::Clip, is_low ? number : -kInfinity, is_low ? kInfinity : number};
    if (!join_functions(out.act, range)) return;
    out.absorbed.push_back(static_cast<size_t>(reader));
    integers = n.output;
  }
}

ValueId IntegerWalk::constant(TensorPtr tensor) {
  const ValueId v = graph.add_constant(std::move(tensor));
  grow();
  return v;
}

bool IntegerWalk::single_zero(const std::shared_ptr<const QuantizedConstant> &of, ValueId &value, int32_t &zero) {
  const auto known = single_zeros_.find(of);
  if (known != single_zeros_.end()) {
    std::tie(value, zero) = known->second;
    return true;
  }
  const TensorPtr integers = with_single_zero(of->integers, of->zeros, of->axis, zero);
  if (!integers) return false;
  value = constant(integers);
  single_zeros_[of] = {value, zero};
  return true;
}

void IntegerWalk::keep(const Node &n) {
  Node copy = n;
  for (ValueId &v : copy.inputs) v = now(v);
  made_.push_back(std::move(copy));
}

void IntegerWalk::add(Op op, std::vector<ValueId> inputs, Attrs attrs, int source, ValueId output) {
  Node n;
  n.op = op;
  n.source = source;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  n.output = output;
  made_.push_back(std::move(n));
}

ValueId IntegerWalk::add(Op op, std::vector<ValueId> inputs, Attrs attrs, int source) {
  add(op, std::move(inputs), std::move(attrs), source, kNoValue);
  Value result;
  (void)infer(graph, made_.back(), result);  // passes for all that is made here
  const ValueId output = made_.back().output = graph.add_value(std::move(result));
  grow();
  return output;
}

void IntegerWalk::set(ValueId v, const Integers &made) {
  known_[static_cast<size_t>(v)] = made;
  add(Op::Requant, {made.value}, RequantAttrs{made.quant, {}, {}, Dtype::F32}, made.source, v);
}

void IntegerWalk::drop(size_t index, ValueId becomes, int into) {
  dropped_[index] = true;
  const ValueId old = nodes[index].output;
  now_[static_cast<size_t>(old)] = becomes;
  if (graph[becomes].name.empty()) graph[becomes].name = std::exchange(graph[old].name, {});
  if (graph[becomes].quant.scale == 0 && graph[becomes].dtype == graph[old].dtype)
    graph[becomes].quant = graph[old].quant;
  went_.emplace(nodes[index].source, into);
}

void IntegerWalk::drop(const std::vector<size_t> &list, int into) {
  for (size_t i : list) {
    const Node &n = nodes[i];
    // Of two operands the one that is no constant.
    drop(i, n.inputs.size() > 1 && graph.is_constant(n.inputs[0]) ? n.inputs[1] : n.inputs[0], into);
  }
}

void IntegerWalk::takes(const Integers &operand, int source) {
  if (operand.source >= 0 && operand.source != source) went_.emplace(operand.source, source);
}

void IntegerWalk::set_fates() {
  std::set<int> alive;
  for (const Node &n : graph.nodes) alive.insert(n.source);
  for (const auto &[source, into] : went_) {
    if (alive.count(source) || !graph.sources[static_cast<size_t>(source)].fate.empty()) continue;
    if (into < 0) {
      graph.sources[static_cast<size_t>(source)].fate = "nothing to do";
      continue;
    }
    int last = into;
    for (size_t steps = 0; !alive.count(last) && went_.count(last) && went_[last] >= 0 && steps < went_.size(); ++steps)
      last = went_[last];
    graph.sources[static_cast<size_t>(source)].fate = "in " + graph.sources[static_cast<size_t>(last)].name;
  }
}

void IntegerWalk::finish() {
  for (ValueId &v : graph.outputs) {
    const Quant said = graph[v].quant;
    v = now(v);
    if (graph[v].quant.scale == 0) graph[v].quant = said;
  }
  graph.nodes = std::move(made_);
  remove_dead(graph);
  set_fates();
}

}  // namespace npu::graph
