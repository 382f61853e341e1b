// SPDX-License-Identifier: MIT
// Networks whose operators are cut into parts, with inputs.
#ifndef NPU_TEST_COMPILER_CUT_NETS_H
#define NPU_TEST_COMPILER_CUT_NETS_H

#include "compiler/graph/ir.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {

/// A convolution with bias.
std::string conv(OnnxBuilder &b, const std::string &x, Dims weights, Dims strides, Dims pads, int64_t groups = 1);

/// Windows with halos, strides and dilation, a residual sum, a depthwise layer, a classifier.
OnnxBuilder pictures(int64_t batch = 1);
/// A convolution whose weights the network makes.
OnnxBuilder made_weights();
/// Matrices, transposes, sums that broadcast.
OnnxBuilder matrices();

std::vector<graph::Tensor> random_inputs(const graph::Graph &g);
std::vector<float> floats(const graph::Tensor &t);
void expect_close(const graph::Tensor &got, const graph::Tensor &want);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_CUT_NETS_H
