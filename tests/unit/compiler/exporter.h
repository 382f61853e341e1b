// SPDX-License-Identifier: MIT
// What the forms of exported_nets.h have in common: tensors with their size, scales that suit it, weights.
#ifndef NPU_TEST_COMPILER_EXPORTER_H
#define NPU_TEST_COMPILER_EXPORTER_H

#include <cstdint>
#include <random>

#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {

/// A floating-point tensor. `q`: what its integers are, where it was quantized.
struct Real {
  std::string name;
  Dims dims;
  double rms = 1;
  Scaled q = {0, 0, 0};
};

/// What integers of a tool stand for: uint8 of any sign or not negative, int8 with a zero point or without.
enum class Range : uint8_t { Unsigned, Positive, Signed, Symmetric };

struct Weights {
  std::string name;
  Dims dims;
  std::vector<float> scales;
  double rms = 0;
};

class Exporter {
 public:
  Exporter(int64_t opset, uint32_t seed) : random_(seed) { net.b = OnnxBuilder(opset); }

  QuantizedNet net;
  OnnxBuilder &b = net.b;

  Real input(const Dims &dims, int type = onnx::TensorProto::FLOAT);
  /// A scale for numbers of that size.
  Scaled scaled(double rms, Range range);
  /// QuantizeLinear and DequantizeLinear. The integers are an output of the network; a product or an average in front
  /// may differ by `steps`.
  Real rounded(const Real &x, const Scaled &q, int steps = 0);
  Real rounded(const Real &x, Range range, int steps = 0) { return rounded(x, scaled(x.rms, range), steps); }
  /// What QuantizeLinear makes, as an output of the network.
  void record(const std::string &integers, const Scaled &q, int steps);
  /// A result of floating point.
  void record(const Real &x, double error) {
    b.output(x.name);
    net.outputs.push_back({x.name, 0, x.rms * error});
  }

  /// An operator whose result is as large as its first operand, in another shape.
  Real op(const std::string &type, const Real &x, const Dims &dims, std::vector<std::string> more = {});
  Real op(const std::string &type, const Real &x) { return op(type, x, x.dims); }
  /// Of two tensors.
  Real both(const std::string &type, const Real &x, const Real &y);
  Real transposed(const Real &x, const std::vector<int64_t> &perm);

  /// A DequantizeLinear of integers, with a scale for each element of the axis; -1: one for all.
  Weights weights(const Dims &dims, int64_t axis, int type = kInt8);
  /// Both nodes around weights of floating point, as in networks that are still trained.
  Weights fake_weights(const Dims &dims, int64_t axis);
  /// A bias in floating point.
  std::string bias(int64_t count, double most) { return b.floats(floats(count, most)); }
  /// A DequantizeLinear of int32 in units of the sums.
  std::string integer_bias(int64_t count, const Weights &w, const Real &x, double most);

  /// A convolution of x with weights of [outer, inner, ...], with padding so that a picture keeps its size.
  Real conv(const Real &x, const Weights &w, const std::string &bias = {});
  Real gemm(const Real &x, const Weights &w, const std::string &bias);
  /// A batch normalization.
  Real normalized(const Real &x);

  // Numbers.
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  std::vector<float> floats(int64_t count, double most, double least = 0);
  std::vector<int> bytes(int64_t count, int low, int high);

 private:
  std::mt19937 random_;
};

int64_t elements(const Dims &dims);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_EXPORTER_H
