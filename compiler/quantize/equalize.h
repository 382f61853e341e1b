// SPDX-License-Identifier: MIT
// Cross-layer equalization ("Data-Free Quantization Through Weight Equalization and Bias Correction", 2019).
#ifndef NPU_QUANTIZE_EQUALIZE_H
#define NPU_QUANTIZE_EQUALIZE_H

#include "compiler/graph/ir.h"

namespace npu::quantize {

/// Scales the channels between two convolutions of constant weights, of which the second alone reads what the first
/// makes, so that the largest weights that make a channel and that read it have the same magnitude. Between them may be
/// a Relu or LeakyRelu. The network computes the same. Returns how many pairs there are.
size_t equalize(graph::Graph &graph);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_EQUALIZE_H
