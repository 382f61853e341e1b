// SPDX-License-Identifier: MIT
// Tensors of the compiler: those of the operators on the host (runtime/cpu), which fold constants.
#ifndef NPU_GRAPH_TENSOR_H
#define NPU_GRAPH_TENSOR_H

#include "common/status.h"
#include "runtime/cpu/tensor.h"

namespace npu::graph {

using cpu::broadcast_shapes;
using cpu::dense_strides;
using cpu::Dtype;
using cpu::dtype_bytes;
using cpu::dtype_name;
using cpu::element_count;
using cpu::is_byte;
using cpu::is_half;
using cpu::is_real;
using cpu::kind_text;
using cpu::kMaxElements;
using cpu::make_f32;
using cpu::make_i64;
using cpu::make_scalar;
using cpu::Shape;
using cpu::shape_text;
using cpu::Tensor;
using cpu::TensorKind;
using cpu::TensorPtr;
using cpu::to_ints;

}  // namespace npu::graph

#endif  // NPU_GRAPH_TENSOR_H
