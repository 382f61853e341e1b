// SPDX-License-Identifier: MIT
// Matrix products.
#include <algorithm>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

Status scaled(OpContext &c, ValueId x, float factor, ValueId &out) {
  if (factor == 1.0f) {
    out = x;
    return {};
  }
  return c.emit(Op::Binary, {x, c.constant(make_scalar(factor))}, BinaryAttrs{BinaryKind::Mul, {}}, out);
}

Status transposed(OpContext &c, ValueId x, ValueId &out) {
  return c.emit(Op::Transpose, {x}, TransposeAttrs{{1, 0}}, out);
}

/// y = alpha * A * B + beta * C. The factor goes to a constant operand if there is one.
Status gemm(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  if (c.rank(0) != 2 || c.rank(1) != 2)
    return Status::error("operands " + shape_text(c.shape(0)) + " and " + shape_text(c.shape(1)) + " are not matrices");
  ValueId a = c.in(0), b = c.in(1), y;
  if (c.attr_i("transA", 0)) NPU_TRY(transposed(c, a, a));
  if (c.attr_i("transB", 0)) NPU_TRY(transposed(c, b, b));
  const float alpha = c.attr_f("alpha", 1.0f), beta = c.attr_f("beta", 1.0f);
  ValueId &factor = c.graph.is_constant(a) ? a : b;
  const bool early = c.graph.is_constant(factor);
  if (early) NPU_TRY(scaled(c, factor, alpha, factor));
  NPU_TRY(c.emit(Op::MatMul, {a, b, kNoValue}, MatMulAttrs{}, y));
  if (!early) NPU_TRY(scaled(c, y, alpha, y));
  if (!c.has_input(2) || beta == 0.0f) {
    c.results[0] = y;
    return {};
  }
  ValueId bias;
  Shape wide;
  if (!broadcast_shapes(c.graph[y].shape, c.shape(2), wide) || wide != c.graph[y].shape)
    return Status::error("C " + shape_text(c.shape(2)) + " does not broadcast to " + shape_text(c.graph[y].shape));
  NPU_TRY(scaled(c, c.in(2), beta, bias));
  return c.emit(Op::Binary, {y, bias}, BinaryAttrs{}, c.results[0]);
}

/// Vectors become matrices of one row or column and lose that dimension again.
Status matmul(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  ValueId a = c.in(0), b = c.in(1), y;
  if (c.rank(0) < 1 || c.rank(1) < 1) return Status::error("an operand is a scalar");
  const bool row = c.rank(0) == 1, column = c.rank(1) == 1;
  if (row) NPU_TRY(c.reshape(a, {1, c.shape(0)[0]}, a));
  if (column) NPU_TRY(c.reshape(b, {c.shape(1)[0], 1}, b));
  NPU_TRY(c.emit(Op::MatMul, {a, b, kNoValue}, MatMulAttrs{}, y));
  Shape out = c.graph[y].shape;
  if (column) out.pop_back();
  if (row) out.erase(out.end() - (column ? 1 : 2));
  return c.reshape(y, out, c.results[0]);
}

constexpr OpEntry kOps[] = {{"Gemm", gemm}, {"MatMul", matmul}};

}  // namespace

std::span<const OpEntry> matrix_ops() { return kOps; }

}  // namespace npu::graph
