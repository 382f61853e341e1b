// SPDX-License-Identifier: MIT
// The operators on the host: short loops, sums of floating-point numbers in double precision. evaluate() (node.h) and
// the sub-networks for the CPU (subnet.h) call them.
//
// Shapes and types fit: infer() or check_cpu_operator() has passed. `out` has its type and shape and its memory. An
// error is one of the data: an index outside of its dimension, an integer divided by 0. No state: any number of threads
// may call.
#ifndef NPU_CPU_OPERATORS_H
#define NPU_CPU_OPERATORS_H

#include <span>

#include "common/status.h"
#include "runtime/cpu/attributes.h"

namespace npu::cpu {

// Arithmetic. Functions of floating-point numbers are computed in double precision and rounded once.
/// Kinds that make a float of a float: all below ActKind::Not.
float activate(const Activation &act, double x);
void conv(const ConvAttrs &attrs, const Tensor &x, const Tensor &w, const Tensor *bias, Tensor &out);
void pool(const PoolAttrs &attrs, const Tensor &x, Tensor &out);
/// Of equal elements the first; NaN counts only where there is nothing else.
void pool_indices(const PoolIndicesAttrs &attrs, const Tensor &x, Tensor &out);
void matmul(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out);
Status binary(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out);
void unary(const UnaryAttrs &attrs, const Tensor &x, Tensor &out);
void softmax(const SoftmaxAttrs &attrs, const Tensor &x, Tensor &out);
/// Without elements: sum 0, product 1, maximum the lowest value of the type and minimum the highest, mean NaN.
void reduce(const ReduceAttrs &attrs, const Tensor &x, Tensor &out);
void cumsum(const CumSumAttrs &attrs, const Tensor &x, Tensor &out);

// Quantized operators (quantized.cpp): what they load and store is that of QuantizeLinear and DequantizeLinear.
void quantized_conv(const ConvAttrs &attrs, const Tensor &x, const Tensor &w, const Tensor *bias,
                    const Tensor *multiplier, Tensor &out);
void quantized_matmul(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias,
                      const Tensor *multiplier, Tensor &out);
void quantized_average(const PoolAttrs &attrs, const Tensor &x, Tensor &out);
Status quantized_binary(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out);
void quantized_softmax(const SoftmaxAttrs &attrs, const Tensor &x, Tensor &out);
void requant(const RequantAttrs &attrs, const Tensor &x, Tensor &out);
void lookup(const Tensor &x, const Tensor &table, Tensor &out);

/// What becomes of an integer that the new type cannot hold. Floating-point numbers always saturate, NaN becomes 0.
enum class Overflow : uint8_t { Wrap, Saturate };
/// To integers towards zero, to floating-point numbers rounded to nearest even.
void cast(const Tensor &x, Overflow overflow, Tensor &out);

// Moves, of elements of any type.
/// out[i] = x[offset + sum(index(i) * strides)]
void strided_copy(const Tensor &x, int64_t offset, const std::vector<int64_t> &strides, Tensor &out);
void transpose(const TransposeAttrs &attrs, const Tensor &x, Tensor &out);
void slice(const SliceAttrs &attrs, const Tensor &x, Tensor &out);
void expand(const Tensor &x, Tensor &out);
void concat(int axis, std::span<const Tensor *const> parts, Tensor &out);
void pad(const PadAttrs &attrs, const Tensor &x, Tensor &out);
void where(const Tensor &condition, const Tensor &a, const Tensor &b, Tensor &out);

// Moves by indices, int32 or int64; negative ones count from the end.
Status gather(int axis, const Tensor &x, const Tensor &indices, Tensor &out);
Status gather_elements(int axis, const Tensor &x, const Tensor &indices, Tensor &out);
Status gather_nd(int batch_dims, const Tensor &x, const Tensor &indices, Tensor &out);
/// In the order of the indices: of updates of one place the last wins.
Status scatter_elements(const ScatterAttrs &attrs, const Tensor &x, const Tensor &indices, const Tensor &updates,
                        Tensor &out);
Status scatter_nd(Reduction reduction, const Tensor &x, const Tensor &indices, const Tensor &updates, Tensor &out);

// Selections, by the value of elements of any type; NaN comes after everything. Indices are int32 or int64.
void argmax(const ArgMaxAttrs &attrs, const Tensor &x, Tensor &out);
/// Sorted; of equal elements the lower index first.
void topk(const TopKAttrs &attrs, const Tensor &x, Tensor &indices);
/// A column of `positions` for each element that is not 0, in row-major order; -1 in the columns behind them.
void nonzero(const Tensor &x, Tensor &positions, Tensor &number);
/// A row (batch, class, box) of `selected` for each box that is kept, best first; -1 in the rows behind them.
void nms(const NmsAttrs &attrs, const Tensor &boxes, const Tensor &scores, Tensor &selected, Tensor &number);

}  // namespace npu::cpu

#endif  // NPU_CPU_OPERATORS_H
