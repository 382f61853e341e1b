// SPDX-License-Identifier: MIT
// Operators that combine or order the elements along axes.
#include <limits>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// What all reductions have: the axes are an operand from operator set 13 (ReduceSum) or 18 on.
struct Extent {
  std::vector<int> axes;
  bool keep = true;
};

Status extent_of(OpContext &c, Extent &e, int64_t since = 18) {
  NPU_TRY(c.need_inputs(1, c.opset < since ? 1 : 2));
  const bool nothing_by_default = c.opset >= since && c.attr_i("noop_with_empty_axes", 0) != 0;
  e.keep = c.attr_i("keepdims", 1) != 0;
  return c.axes(1, since, !nothing_by_default, e.axes);
}

template <ReduceKind kind, int64_t since = 18>
Status plain(OpContext &c) {
  Extent e;
  NPU_TRY(extent_of(c, e, since));
  return c.reduce(kind, c.in(0), e.axes, e.keep, c.results[0]);
}

// Reductions over no axis (noop_with_empty_axes) do the rest of their work, as ONNX defines it.

Status l1(OpContext &c) {
  Extent e;
  ValueId y;
  NPU_TRY(extent_of(c, e));
  NPU_TRY(c.unary(ActKind::Abs, c.in(0), y));
  return c.reduce(ReduceKind::Sum, y, e.axes, e.keep, c.results[0]);
}

Status sum_of_squares(OpContext &c, ValueId x, const Extent &e, ValueId &out) {
  ValueId square;
  NPU_TRY(c.binary(BinaryKind::Mul, x, x, square));
  return c.reduce(ReduceKind::Sum, square, e.axes, e.keep, out);
}

Status sum_square(OpContext &c) {
  Extent e;
  NPU_TRY(extent_of(c, e));
  return sum_of_squares(c, c.in(0), e, c.results[0]);
}

// Those with roots and logarithms compute integers in float32 and cut what is behind the point off.

Status l2(OpContext &c) {
  Extent e;
  ValueId y;
  NPU_TRY(extent_of(c, e));
  NPU_TRY(c.cast(c.in(0), Dtype::F32, y));
  NPU_TRY(sum_of_squares(c, y, e, y));
  NPU_TRY(c.unary(ActKind::Sqrt, y, y));
  return c.cast(y, c.value(0).dtype, c.results[0]);
}

Status log_sum(OpContext &c) {
  Extent e;
  ValueId y;
  NPU_TRY(extent_of(c, e));
  NPU_TRY(c.cast(c.in(0), Dtype::F32, y));
  NPU_TRY(c.reduce(ReduceKind::Sum, y, e.axes, e.keep, y));
  NPU_TRY(c.unary(ActKind::Log, y, y));
  return c.cast(y, c.value(0).dtype, c.results[0]);
}

/// log(sum(exp(x - m))) + m, where m is the maximum, or a number next to it if that is infinite: infinity minus
/// infinity is none.
Status log_sum_exp(OpContext &c) {
  Extent e;
  ValueId x, top, y;
  NPU_TRY(extent_of(c, e));
  NPU_TRY(c.cast(c.in(0), Dtype::F32, x));
  NPU_TRY(c.reduce(ReduceKind::Max, x, e.axes, true, top));
  constexpr float kLargest = std::numeric_limits<float>::max();
  NPU_TRY(c.unary(ActKind::Clip, top, top, -kLargest, kLargest));
  NPU_TRY(c.binary(BinaryKind::Sub, x, top, y));
  NPU_TRY(c.unary(ActKind::Exp, y, y));
  NPU_TRY(c.reduce(ReduceKind::Sum, y, e.axes, e.keep, y));
  NPU_TRY(c.unary(ActKind::Log, y, y));
  NPU_TRY(c.reshape(top, c.graph[y].shape, top));
  NPU_TRY(c.binary(BinaryKind::Add, y, top, y));
  return c.cast(y, c.value(0).dtype, c.results[0]);
}

template <bool smallest>
Status arg_max(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ArgMaxAttrs attrs;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), attrs.axis));
  attrs.last = c.attr_i("select_last_index", 0) != 0;
  attrs.smallest = smallest;
  Shape rest = c.shape(0);
  rest.erase(rest.begin() + attrs.axis);
  NPU_TRY(c.emit(Op::ArgMax, {c.in(0)}, attrs, c.results[0]));
  return c.attr_i("keepdims", 1) ? Status() : c.reshape(c.results[0], rest, c.results[0]);
}

Status cumsum(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  std::vector<int64_t> axis;
  CumSumAttrs attrs;
  NPU_TRY(c.const_ints(1, "axis", axis));
  if (axis.size() != 1) return Status::error("axis has " + std::to_string(axis.size()) + " elements, expected 1");
  NPU_TRY(c.axis(axis[0], c.rank(0), attrs.axis));
  attrs.exclusive = c.attr_i("exclusive", 0) != 0;
  attrs.reverse = c.attr_i("reverse", 0) != 0;
  return c.emit(Op::CumSum, {c.in(0)}, attrs, c.results[0]);
}

/// Elements that are not asked to be sorted are sorted as well. Outputs: the elements, and their indices.
Status topk(OpContext &c) {
  NPU_TRY(c.need_inputs(c.opset < 10 ? 1 : 2, c.opset < 10 ? 1 : 2));
  TopKAttrs attrs;
  NPU_TRY(c.axis(c.attr_i("axis", -1), c.rank(0), attrs.axis));
  std::vector<int64_t> k{c.attr_i("k", -1)};
  if (c.opset >= 10) NPU_TRY(c.const_ints(1, "k", k));
  const int64_t length = c.shape(0)[static_cast<size_t>(attrs.axis)];
  if (k.size() != 1 || k[0] < 0 || k[0] > length)
    return Status::error("k is " + shape_text(k) + ", one number from 0 to " + std::to_string(length) +
                         " was expected");
  attrs.count = k[0];
  attrs.smallest = c.attr_i("largest", 1) == 0;
  ValueId indices;
  NPU_TRY(c.emit(Op::TopK, {c.in(0)}, attrs, indices));
  if (c.results.size() > 1) c.results[1] = indices;
  return c.emit(Op::GatherElements, {c.in(0), indices}, GatherAttrs{attrs.axis}, c.results[0]);
}

constexpr OpEntry kReduceOps[] = {
    {"ArgMax", arg_max<false>},
    {"ArgMin", arg_max<true>},
    {"CumSum", cumsum},
    {"ReduceL1", l1},
    {"ReduceL2", l2},
    {"ReduceLogSum", log_sum},
    {"ReduceLogSumExp", log_sum_exp},
    {"ReduceMax", plain<ReduceKind::Max>},
    {"ReduceMean", plain<ReduceKind::Mean>},
    {"ReduceMin", plain<ReduceKind::Min>},
    {"ReduceProd", plain<ReduceKind::Prod>},
    {"ReduceSum", plain<ReduceKind::Sum, 13>},
    {"ReduceSumSquare", sum_square},
    {"TopK", topk},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return kReduceOps; }

}  // namespace npu::graph
