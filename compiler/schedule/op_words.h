// SPDX-License-Identifier: MIT
// A lowered operator as a sequence of numbers: everything but the values of its constants.
#ifndef NPU_COMPILER_OP_WORDS_H
#define NPU_COMPILER_OP_WORDS_H

#include "compiler/lowering/lowered.h"

namespace npu::compiler {

namespace op_words {

/// What an operator counts with, besides its views. The order of the numbers, and what stands for fields that an
/// operator does not have, outlive the form of the operators: records are made for hashes of them.
struct Fields {
  graph::Activation act;
  graph::Window window;
  int64_t groups = 1;
  bool pool_max = true, count_pad = false;
  std::array<int64_t, 2> counted_end{0, 0};
  graph::BinaryKind binary = graph::BinaryKind::Add;
  bool log = false, has_number = false;
  graph::ProductQuant product;
  std::array<graph::Quant, 3> numbers{};
};

inline Fields fields_of(const ConvOp &op) {
  Fields f;
  f.act = op.act;
  f.window = op.window;
  f.groups = op.groups;
  f.product = op.quant;
  return f;
}
inline Fields fields_of(const MatMulOp &op) {
  Fields f;
  f.act = op.act;
  f.product = op.quant;
  return f;
}
inline Fields fields_of(const PoolOp &op) {
  Fields f;
  f.window = op.window;
  f.pool_max = op.max;
  f.count_pad = op.count_pad;
  f.counted_end = op.counted_end;
  f.numbers = {op.in_quant, op.out_quant};
  return f;
}
inline Fields fields_of(const BinaryOp &op) {
  Fields f;
  f.act = op.act;
  f.binary = op.kind;
  f.has_number = std::holds_alternative<float>(op.b);
  f.numbers = {op.a_quant, op.b_quant, op.out_quant};
  return f;
}
inline Fields fields_of(const UnaryOp &op) {
  Fields f;
  f.act = op.act;
  return f;
}
inline Fields fields_of(const SoftmaxOp &op) {
  Fields f;
  f.log = op.log;
  f.numbers = {op.in_quant, op.out_quant};
  return f;
}
inline Fields fields_of(const RequantOp &op) {
  Fields f;
  f.act = op.act;
  f.numbers = {op.in_quant, op.out_quant};
  return f;
}
inline Fields fields_of(const OneOf<LookupOp, CopyOp, FillOp> auto &) { return {}; }

}  // namespace op_words

/// Gives each field to `words`: add() of integers, enumerations, float and TensorPtr, add_list() of lists of these,
/// add_source() and add_view(), which gets the type of the view's elements as well.
template <class Words>
void add_op(const LoweredOp &op, const std::vector<Storage> &storages, Words &words) {
  const op_words::Fields f = std::visit([](const auto &typed) { return op_words::fields_of(typed); }, op.body);
  const OpConstants constants = constants_of(op);
  const auto add_view = [&](const View &v) { words.add_view(v, storages[static_cast<size_t>(v.storage)].type); };
  words.add(static_cast<uint8_t>(op.body.index()));
  words.add_source(op.source);
  words.add(op.inputs().size());
  for (const View *v : op.inputs()) add_view(*v);
  add_view(op.out);
  words.add(f.act.kind);
  words.add(f.act.a);
  words.add(f.act.b);
  for (const auto *list : {&f.window.kernel, &f.window.stride, &f.window.dilation, &f.window.begin, &f.window.end})
    words.add_list(*list);
  words.add(f.groups);
  words.add(f.pool_max);
  words.add(f.count_pad);
  words.add_list(f.counted_end);
  words.add(f.binary);
  words.add(f.log);
  words.add(f.has_number);
  words.add(constants.weights);
  words.add(constants.bias);
  // What came later adds nothing where there is none, so that hashes of older networks stay.
  if (f.product.on) {
    words.add_list(std::array<int64_t, 3>{f.product.x_zero, f.product.w_zero, f.product.out_zero});
    words.add(constants.multiplier);
  }
  for (const graph::Quant &q : f.numbers) {
    if (q == graph::Quant{}) continue;
    words.add(q.scale);
    words.add(q.zero);
  }
}

}  // namespace npu::compiler

#endif  // NPU_COMPILER_OP_WORDS_H
