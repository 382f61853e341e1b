// SPDX-License-Identifier: MIT
// Parts of the conversions of quantized operators. A scale or zero point is one number, or a vector along an axis, or
// what broadcasts; a zero point that is left out (kNoValue) is 0.
#ifndef NPU_GRAPH_QUANTIZE_H
#define NPU_GRAPH_QUANTIZE_H

#include "compiler/import/op_context.h"

namespace npu::graph {

/// Whether a zero point is left out, or known and 0 everywhere.
bool is_zero(const Graph &graph, ValueId v);

/// Scales are of floating point; those that are known are positive and finite.
Status check_scale(const Graph &graph, ValueId scale);
/// A zero point has the type of what it belongs to.
Status check_zero(const Graph &graph, ValueId zero, Dtype type);

/// A scale or zero point as it broadcasts to a tensor of the shape x, with the axis that a vector goes along.
Status along(OpContext &c, ValueId v, size_t axis, const Shape &x, ValueId &out);

/// Whether scale and zero point are known and one number each.
bool is_single(const Graph &graph, ValueId scale, ValueId zero, Quant &out);
/// The elements of a known zero point; {0} where it is left out. False: it is not known.
bool known_zeros(const Graph &graph, ValueId zero, std::vector<int32_t> &out);

/// A value of float32 whose numbers --reals does not round to 16 bits.
inline void keep_exact(Graph &graph, ValueId v) { graph[v].exact = true; }

/// Remembers what the integers of a value stand for: of a network's inputs and outputs the .bmodel says so.
void note_quant(Graph &graph, ValueId v, const Quant &quant);

/// saturate(round(x / scale) + zero), in that type.
Status quantize(OpContext &c, ValueId x, ValueId scale, ValueId zero, size_t axis, Dtype type, ValueId &out);
/// (x - zero) * scale. A constant keeps its integers.
Status dequantize(OpContext &c, ValueId x, ValueId scale, ValueId zero, size_t axis, ValueId &out);

/// Results: what is quantized, scale, zero point (DynamicQuantizeLinear).
struct Dynamic {
  ValueId y = kNoValue, scale = kNoValue, zero = kNoValue;
};
Status quantize_dynamically(OpContext &c, ValueId x, Dynamic &out);

/// Integers of 8 or 16 bits as float32: a command of the chip, which a Cast is not.
Status to_float(OpContext &c, ValueId x, ValueId &out);

/// Rounds halves to even, adds the zero point and saturates, as floating-point numbers do when cast.
Status to_integers(OpContext &c, ValueId x, ValueId zero, Dtype type, ValueId &out);

/// What an operator does not have of the operands below.
inline constexpr size_t kNoOperand = SIZE_MAX;
/// Numbers of the operands of a product. Without scales the result is int32, without those of y float32.
struct ProductOperands {
  size_t x, x_zero, w, w_zero;
  size_t x_scale = kNoOperand, w_scale = kNoOperand, y_scale = kNoOperand, y_zero = kNoOperand, bias = kNoOperand;
};
/// Their types, and known scales.
Status check_operands(const OpContext &c, const ProductOperands &k);
/// A matrix product as one operator; `done` stays false where scales or zero points are not known, or too many.
Status single_matmul(OpContext &c, const ProductOperands &k, bool &done);

/// Operand k of a product, and its zero point.
struct MatrixOperand {
  size_t k, zero;
};
/// Sums of products of integers whose zero point of x arrives at run time, w is known, as float32: what a Cast of them
/// is. kNoValue: other operands, or sums that are too long. A vector counts as a matrix; the caller removes the
/// dimension.
Status late_matmul(OpContext &c, const ProductOperands &k, ValueId &out);
/// The sums of products of integers, exact: float32, or int32 where that is too short. Vectors are matrices.
Status integer_matmul(OpContext &c, MatrixOperand a, MatrixOperand b, ValueId &out);

}  // namespace npu::graph

#endif  // NPU_GRAPH_QUANTIZE_H
