// SPDX-License-Identifier: MIT
// Quantized networks made in a test.
#ifndef NPU_TEST_COMPILER_QUANTIZED_NETS_H
#define NPU_TEST_COMPILER_QUANTIZED_NETS_H

#include <cstdint>
#include <functional>

#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {

inline constexpr int kInt8 = onnx::TensorProto::INT8, kUint8 = onnx::TensorProto::UINT8;

/// What integers stand for, by the numbers of ONNX.
struct Scaled {
  float scale = 1;
  int zero = 0;
  int type = kInt8;
};

/// An initializer of integers of any type of at most 32 bits.
std::string integers(OnnxBuilder &b, int type, const Dims &dims, const std::vector<int> &values);
/// The zero point as an initializer.
std::string zero_point(OnnxBuilder &b, const Scaled &q);

std::string quantize(OnnxBuilder &b, const std::string &x, const Scaled &q);
std::string dequantize(OnnxBuilder &b, const std::string &x, const Scaled &q);
/// Both.
inline std::string rounded(OnnxBuilder &b, const std::string &x, const Scaled &q) {
  return dequantize(b, quantize(b, x, q), q);
}

/// An operator of ONNX Runtime's own.
std::string microsoft(OnnxBuilder &b, const std::string &type, const std::vector<std::string> &inputs);

/// A random network of operators between nodes that quantize. It follows from its seed.
struct QuantizedNet {
  /// Everything that is quantized is an output, and so are some results of floating point.
  struct Output {
    std::string name;
    int steps = 0;     ///< by which integers may differ from what the file says
    double error = 0;  ///< of floating point the same
  };
  OnnxBuilder b{21};
  std::vector<Output> outputs;
  bool integers_only = true;  ///< no operator is left in float32
  bool has_half = false;      ///< fp16, which is computed with as float32
};
QuantizedNet random_quantized_net(uint32_t seed);

/// What a random network is made from. Choices decide its structure; its numbers follow from a seed.
struct Chooser {
  std::function<int64_t(int64_t n)> below;  ///< in [0, n)
  /// Before each operator; false: there are enough. `added`: the choices since the last call have made one.
  std::function<bool(bool added)> more;
};
QuantizedNet make_quantized_net(const Chooser &choose, uint32_t seed);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_QUANTIZED_NETS_H
