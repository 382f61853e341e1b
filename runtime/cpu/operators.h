// SPDX-License-Identifier: MIT
// The operators on the host: short loops, sums in double precision. The compiler folds constants with them and its
// tests compare with them; the runtime computes the sub-networks for the CPU.
//
// Shapes and types fit: the compiler's shape inference or check_cpu_operator() has passed. `out` has its type and shape
// and its memory. No state: any number of threads may call.
#ifndef NPU_CPU_OPERATORS_H
#define NPU_CPU_OPERATORS_H

#include "common/status.h"
#include "runtime/cpu/attributes.h"

namespace npu::cpu {

// Arithmetic.
float activate(const Activation &act, double x);
void conv(const ConvAttrs &attrs, const Tensor &x, const Tensor &w, const Tensor *bias, Tensor &out);
void pool(const PoolAttrs &attrs, const Tensor &x, Tensor &out);
void matmul(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out);
Status binary(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out);
void unary(const UnaryAttrs &attrs, const Tensor &x, Tensor &out);
void softmax(const SoftmaxAttrs &attrs, const Tensor &x, Tensor &out);

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
void concat(int axis, const std::vector<const Tensor *> &parts, Tensor &out);
void pad(const PadAttrs &attrs, const Tensor &x, Tensor &out);
void gather(int axis, const Tensor &x, const Tensor &index, Tensor &out);

// Selections, by the value of elements of any type; NaN comes after everything. Indices are int32.
void argmax(const ArgMaxAttrs &attrs, const Tensor &x, Tensor &out);
/// Sorted; of equal elements the lower index first.
void topk(const TopKAttrs &attrs, const Tensor &x, Tensor &values, Tensor &indices);
/// A column of `positions` for each element that is not 0, in row-major order; -1 in the columns behind them.
void nonzero(const Tensor &x, Tensor &positions, Tensor &number);
/// A row (batch, class, box) of `selected` for each box that is kept, best first; -1 in the rows behind them.
void nms(const NmsAttrs &attrs, const Tensor &boxes, const Tensor &scores, Tensor &selected, Tensor &number);

}  // namespace npu::cpu

#endif  // NPU_CPU_OPERATORS_H
