// SPDX-License-Identifier: MIT
// One function an operator, for evaluate.cpp. Shapes have passed inference.
#ifndef NPU_CPU_KERNELS_H
#define NPU_CPU_KERNELS_H

#include "ir.h"

namespace npu::cpu {

using graph::Tensor;

float activate(const graph::Activation &act, double x);

void conv(const graph::ConvAttrs &attrs, const Tensor &x, const Tensor &w, const Tensor *bias, Tensor &out);
void pool(const graph::PoolAttrs &attrs, const Tensor &x, Tensor &out);
void matmul(const graph::MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out);
Status binary(const graph::BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out);
void unary(const graph::UnaryAttrs &attrs, const Tensor &x, Tensor &out);
void softmax(const graph::SoftmaxAttrs &attrs, const Tensor &x, Tensor &out);
Status cast(const Tensor &x, Tensor &out);

/// out[i] = x[offset + sum(index(i) * strides)] for elements of any type.
void strided_copy(const Tensor &x, int64_t offset, const std::vector<int64_t> &strides, Tensor &out);
void concat(int axis, const std::vector<const Tensor *> &parts, Tensor &out);
void pad(const graph::PadAttrs &attrs, const Tensor &x, Tensor &out);
void gather(int axis, const Tensor &x, const Tensor &index, Tensor &out);

}  // namespace npu::cpu

#endif  // NPU_CPU_KERNELS_H
