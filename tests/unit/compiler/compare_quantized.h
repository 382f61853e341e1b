// SPDX-License-Identifier: MIT
// Results of quantized networks, operator by operator.
#ifndef NPU_TEST_COMPILER_COMPARE_QUANTIZED_H
#define NPU_TEST_COMPILER_COMPARE_QUANTIZED_H

#include <random>

#include "compiler/graph/ir.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {

/// Integers of all values, truth values, numbers in [-2, 2].
graph::Tensor random_tensor(const graph::TensorKind &kind, std::mt19937 &random);
std::vector<graph::Tensor> random_inputs(const graph::Graph &graph, uint32_t seed);

/// What is wrong with a result; empty: nothing.
std::string difference(const graph::Tensor &found, const graph::Tensor &expected, const QuantizedNet::Output &allowed);

/// Computes a graph node by node and compares its outputs with those of another computation, `found`. What is an output
/// goes on with the values found, so that each operator is compared by itself. `nan`: whether a NaN that is quantized
/// has to be the zero point, or may be anything. Returns what is wrong.
enum class Nan : uint8_t { Zero, Any };
std::string compare_steps(const graph::Graph &graph, const std::vector<graph::Tensor> &inputs,
                          const std::vector<graph::Tensor> &found, const std::vector<QuantizedNet::Output> &allowed,
                          Nan nan = Nan::Zero);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_COMPARE_QUANTIZED_H
