// SPDX-License-Identifier: MIT
// Arithmetic with two operands, averages and softmax between integers.
#include "compiler/passes/integers.h"

namespace npu::graph {
namespace {

/// A node that somebody quantizes reads integers, and its result is not.
void miss(IntegerWalk &walk, const Node &n, const char *reason) { walk.reasons[n.source] = reason; }

constexpr const char *kNoTail = "nothing quantizes its result alone to 8 bits";

bool fuse_binary(IntegerWalk &walk, const Node &n) {
  const auto &attrs = std::get<BinaryAttrs>(n.attrs);
  const Integers *a = walk.bytes(n.inputs[0]), *b = walk.bytes(n.inputs[1]);
  if (is_quantized(n) || walk.graph[n.output].dtype != Dtype::F32 || (!a && !b)) return false;
  if (static_cast<int>(attrs.kind) >= cpu::kFirstHostBinary) {
    miss(walk, n, "the function is not one of those that work on integers");
    return false;
  }
  Tail tail;
  if (!walk.tail(n.output, attrs.act.kind == ActKind::None ? Takes::Activation : Takes::Nothing, tail)) {
    miss(walk, n, kNoTail);
    return false;
  }
  if (!tail.absorbed.empty() && is_lookup(walk, tail.last)) return false;
  BinaryAttrs out = attrs;
  if (tail.act.kind != ActKind::None) out.act = tail.act;
  out.out = tail.quant;
  out.out_type = tail.type;
  const int source = n.source;
  std::vector<ValueId> operands{walk.now(n.inputs[0]), walk.now(n.inputs[1])};
  if (a) {
    walk.takes(*a, source);
    operands[0] = a->value;
    out.a = a->quant;
  }
  if (b) {
    walk.takes(*b, source);
    operands[1] = b->value;
    out.b = b->quant;
  }
  const ValueId y = walk.add(Op::Binary, std::move(operands), out, source);
  walk.drop(tail.absorbed, source);
  walk.set(n.output, {y, tail.quant, source});
  return true;
}

/// An operator with one operand, by its attributes with the quantization of operand and result.
template <class A>
bool fuse_one(IntegerWalk &walk, const Node &n) {
  const Integers *x = walk.bytes(n.inputs[0]);
  if (is_quantized(n) || !x) return false;
  if (n.op == Op::Pool && !is_usual(x->quant.scale)) {
    miss(walk, n, "float32 cannot hold its sums");
    return false;
  }
  Tail tail;
  if (!walk.tail(n.output, Takes::Nothing, tail)) {
    miss(walk, n, kNoTail);
    return false;
  }
  A attrs = std::get<A>(n.attrs);
  attrs.in = x->quant;
  attrs.out = tail.quant;
  attrs.out_type = tail.type;
  walk.takes(*x, n.source);
  const ValueId y = walk.add(n.op, {x->value}, attrs, n.source);
  walk.set(n.output, {y, tail.quant, n.source});
  return true;
}

}  // namespace

bool fuse_elements(IntegerWalk &walk, size_t i) {
  const Node &n = walk.nodes[i];
  switch (n.op) {
    case Op::Binary:
      return fuse_binary(walk, n);
    case Op::Pool:
      return !std::get<PoolAttrs>(n.attrs).max && fuse_one<PoolAttrs>(walk, n);
    case Op::Softmax:
      return fuse_one<SoftmaxAttrs>(walk, n);
    default:
      return false;
  }
}

}  // namespace npu::graph
