// SPDX-License-Identifier: MIT
// Makes a network that rounds to integers of a float32 network: nodes that quantize and such that make floating point
// of it again around what a plan says, and weights as integers. fuse_quantized() makes integer operators of that.
#ifndef NPU_QUANTIZE_INSERT_H
#define NPU_QUANTIZE_INSERT_H

#include "compiler/quantize/options.h"
#include "compiler/quantize/plan.h"

namespace npu::quantize {

/// A scale and zero point for a range; 0 is always one of the numbers that integers stand for. All 256 steps are used,
/// unless zero points shall be in the middle and the range has numbers below 0.
graph::Quant quant_of(Range range, Type type, bool symmetric);

/// Of each value of the plan.
using Quants = std::map<graph::ValueId, graph::Quant>;

/// Values get what they are rounded to as well, in `rounded`: where no scale is given they stay as they are. Nodes keep
/// their order and sources; a move stands twice where both what is rounded and what is not are read behind it.
void insert_pairs(graph::Graph &graph, const Plan &plan, const Quants &quants, Type type,
                  std::map<graph::ValueId, graph::ValueId> &rounded);

/// The mean of each channel of what a product multiplies with constants, by the number of its node: the channels of a
/// convolution's operand, the columns of a matrix.
using InputMeans = std::map<size_t, std::vector<double>>;

/// Constants that the plan's convolutions and products multiply with, rounded to int8 with a scale for each channel,
/// and their biases to units of the sums. Where means are known, a bias makes up for what rounding the weights changes
/// in the mean of the result. Comes before insert_pairs().
void quantize_weights(graph::Graph &graph, const Plan &plan, const Quants &quants, const InputMeans &means);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_INSERT_H
