// SPDX-License-Identifier: MIT
// Moves of what integers stand for, and choices between such: the integers move instead.
#include "compiler/graph/evaluate.h"
#include "compiler/graph/moves.h"
#include "compiler/passes/integers.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

/// Whether the first operand's elements alone come out, as they are or the largest of some.
bool moves_first(const Node &n) {
  return (moves(n) && n.op != Op::Concat) || n.op == Op::GatherElements || n.op == Op::GatherNd || is_max_pool(n);
}

/// One number as an integer, and back: whether it is the same again.
bool step_of(double value, const Integers &x, Dtype type, double &step) {
  Tensor real(Dtype::F32, {}), q(type, {}), back(Dtype::F32, {});
  cpu::store(real, 0, value);
  const Tensor *first[] = {&real}, *second[] = {&q};
  if (!cpu::evaluate(Op::Requant, RequantAttrs{{}, x.quant, {}, type}, first, q).ok()) return false;
  if (!cpu::evaluate(Op::Requant, RequantAttrs{x.quant, {}, {}, Dtype::F32}, second, back).ok()) return false;
  step = cpu::load(q, 0);
  return cpu::load(back, 0) == cpu::load(real, 0);
}

bool same_integers(const IntegerWalk &walk, const Integers &a, const Integers &b) {
  return a.quant == b.quant && walk.graph[a.value].dtype == walk.graph[b.value].dtype;
}

/// An operand in the quantization of the result.
ValueId requantized(IntegerWalk &walk, const Node &n, ValueId part, const Quant &quant, Dtype type) {
  const Integers *known = walk.integers(part);
  if (known && known->quant == quant && walk.graph[known->value].dtype == type) {
    walk.takes(*known, n.source);
    return known->value;
  }
  if (known) {
    walk.takes(*known, n.source);
    return walk.add(Op::Requant, {known->value}, RequantAttrs{known->quant, quant, {}, type}, n.source);
  }
  return walk.add(Op::Requant, {walk.now(part)}, RequantAttrs{{}, quant, {}, type}, n.source);
}

/// A Concat, or a Where behind its condition: all parts are of one quantization, or get that of what quantizes the
/// result.
bool fuse_parts(IntegerWalk &walk, const Node &n) {
  const size_t begin = n.op == Op::Where ? 1 : 0;
  const std::vector<ValueId> operands(n.inputs.begin() + static_cast<std::ptrdiff_t>(begin), n.inputs.end());
  const Integers *first = nullptr;
  bool same = true;
  for (ValueId v : operands) {
    const Integers *known = walk.integers(v);
    if (known && !first) first = known;
    same = same && known && same_integers(walk, *known, *first);
  }
  if (!first) return false;
  Integers all = *first;
  Dtype type = walk.graph[first->value].dtype;
  Tail tail;
  if (!same) {
    if (!walk.tail(n.output, Takes::Nothing, tail)) {
      walk.reasons[n.source] = "its operands have several scales, and nothing quantizes its result";
      return false;
    }
    all = {kNoValue, tail.quant, n.source};
    type = tail.type;
  }
  std::vector<ValueId> parts;
  if (begin) parts.push_back(walk.now(n.inputs[0]));
  for (ValueId v : operands) parts.push_back(requantized(walk, n, v, all.quant, type));
  all.value = walk.add(n.op, std::move(parts), n.attrs, n.source);
  walk.set(n.output, all);
  return true;
}

}  // namespace

bool fuse_move(IntegerWalk &walk, size_t i) {
  const Node &n = walk.nodes[i];
  if (walk.graph[n.output].dtype != Dtype::F32) return false;
  if (n.op == Op::Concat || n.op == Op::Where) return fuse_parts(walk, n);
  if (!moves_first(n)) return false;
  std::optional<Integers> x;
  if (const Integers *known = n.op == Op::Pool ? walk.bytes(n.inputs[0]) : walk.integers(n.inputs[0])) x = *known;
  if (!x && n.op == Op::Gather) x = walk.operand(n.inputs[0]);  // rows of a table
  if (!x) return false;
  Attrs attrs = n.attrs;
  if (auto *pad = std::get_if<PadAttrs>(&attrs))
    if (!step_of(pad->value, *x, walk.graph[x->value].dtype, pad->value)) {
      walk.reasons[n.source] = "no integer stands for its padding";
      return false;
    }
  std::vector<ValueId> operands{x->value};
  for (size_t k = 1; k < n.inputs.size(); ++k) operands.push_back(walk.now(n.inputs[k]));
  Integers moved = *x;
  if (moved.source < 0) moved.source = n.source;
  moved.value = walk.add(n.op, std::move(operands), std::move(attrs), n.source);
  walk.set(n.output, moved);
  return true;
}

}  // namespace npu::graph
