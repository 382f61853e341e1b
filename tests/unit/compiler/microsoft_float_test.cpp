// SPDX-License-Identifier: MIT
// Operators of ONNX Runtime on floating point, against their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/graph/evaluate.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Shape;
using graph::Tensor;

std::vector<std::vector<float>> run(const OnnxBuilder &b, const std::vector<Tensor> &inputs) {
  std::vector<Tensor> out;
  std::vector<std::vector<float>> numbers;
  EXPECT_EQ(graph::evaluate_graph(import_graph(b.bytes()), inputs, out).message(), "");
  for (const Tensor &t : out) numbers.emplace_back(t.as<float>(), t.as<float>() + t.count());
  return numbers;
}

Tensor tensor(const Shape &shape, const std::vector<float> &values) {
  Tensor t(Dtype::F32, shape);
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

std::string message(const OnnxBuilder &b) {
  compiler::Compiled out;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, out).message();
}

void expect_near(const std::vector<float> &got, const std::vector<double> &wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5 * (1 + std::fabs(wanted[i]))) << i;
}

std::vector<double> each(const std::vector<float> &x, const std::function<double(double)> &f) {
  std::vector<double> out;
  for (float v : x) out.push_back(f(static_cast<double>(v)));
  return out;
}

const std::vector<float> kX{-3, -1, -0.25, 0, 0.5, 2};

TEST(MicrosoftFloat, Gelus) {
  const auto erf = [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); };
  const auto tanh = [](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); };
  for (const char *type : {"Gelu", "BiasGelu", "FastGelu", "QuickGelu"}) {
    OnnxBuilder b;
    const bool bias = type == std::string("BiasGelu") || type == std::string("FastGelu");
    std::vector<std::string> inputs{b.input({1, 6})};
    if (bias) inputs.push_back(b.floats({1, 1, 1, 1, 1, 1}));
    b.output(microsoft(b, type, inputs));
    const bool quick = type == std::string("QuickGelu");
    if (quick) b.attr("alpha", 1.5f);
    expect_near(run(b, {tensor({1, 6}, kX)}).at(0), each(kX, [&](double v) {
                  if (quick) return v / (1 + std::exp(-1.5 * v));
                  return type == std::string("FastGelu") ? tanh(v + 1) : erf(bias ? v + 1 : v);
                }));
  }
}

/// The function behind a product of one number with 2, and a summand.
TEST(MicrosoftFloat, FusedProducts) {
  struct {
    const char *name;
    std::vector<float> parameters;
    std::function<double(double)> f;
  } const functions[] = {
      {"", {}, [](double v) { return v; }},
      {"Relu", {}, [](double v) { return std::max(v, 0.0); }},
      {"Tanh", {}, [](double v) { return std::tanh(v); }},
      {"Sigmoid", {}, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"LeakyRelu", {0.5}, [](double v) { return v < 0 ? v / 2 : v; }},
      {"Clip", {-1, 3}, [](double v) { return std::clamp(v, -1.0, 3.0); }},
      {"HardSigmoid", {0.5, 0.25}, [](double v) { return std::clamp(v / 2 + 0.25, 0.0, 1.0); }},
  };
  for (const auto &act : functions) {
    SCOPED_TRACE(act.name);
    OnnxBuilder conv, gemm;
    conv.output(microsoft(conv, "FusedConv",
                          {conv.input({1, 1, 1, 6}), conv.constant({1, 1, 1, 1}, {2}), conv.floats({1}),
                           conv.constant({1, 1, 1, 6}, {1, 1, 1, 1, 1, 1})}));
    gemm.output(microsoft(gemm, "FusedGemm", {gemm.input({6, 1}), gemm.constant({1, 1}, {4}), gemm.floats({2})}));
    gemm.attr("alpha", 0.5f);
    if (*act.name) {
      conv.attr("activation", act.name);
      gemm.attr("activation", act.name);
    }
    if (!act.parameters.empty()) {
      conv.attr("activation_params", act.parameters);
      gemm.attr("activation_alpha", act.parameters[0]);
    }
    if (act.parameters.size() > 1) gemm.attr("activation_beta", act.parameters[1]);
    const auto wanted = each(kX, [&](double v) { return act.f(2 * v + 2); });
    expect_near(run(conv, {tensor({1, 1, 1, 6}, kX)}).at(0), wanted);
    expect_near(run(gemm, {tensor({6, 1}, kX)}).at(0), wanted);
  }
  OnnxBuilder b;
  b.output(microsoft(b, "FusedMatMul", {b.input({3, 2}), b.constant({1, 3}, {1, 10, 100})}));
  b.attr("transA", int64_t{1}).attr("transB", int64_t{1}).attr("alpha", 2.0f);
  expect_near(run(b, {tensor({3, 2}, {1, 2, 3, 4, 5, 6})}).at(0), {2 * 531, 2 * 642});
}

TEST(MicrosoftFloat, NormalizationsOfSums) {
  for (const bool simple : {false, true}) {
    OnnxBuilder b;
    std::vector<std::string> inputs{b.input({1, 2}), b.floats({1, -1}), b.floats({2, 3})};
    if (!simple) inputs.push_back(b.floats({10, 20}));
    inputs.push_back(b.floats({0.5, 0.5}));
    b.output(microsoft(b, simple ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization", inputs));
    // The sum is an output behind two that nobody asks for.
    auto *node = b.model.mutable_graph()->mutable_node(b.model.graph().node_size() - 1);
    node->add_output("");
    node->add_output("");
    node->add_output("sum");
    b.output("sum");
    const auto out = run(b, {tensor({1, 2}, {1.5, 4.5})});  // 3, 4
    ASSERT_EQ(out.size(), 2u);
    expect_near(out[1], {3, 4});
    const double root = std::sqrt(12.5);
    expect_near(out[0], simple ? std::vector<double>{2 * 3 / root, 3 * 4 / root} : std::vector<double>{8, 23});
  }
}

// Weights of few bits.

struct FewBits {
  int64_t columns = 40, rows = 3, size = 16, bits = 4;
  int zeros = 0;  ///< none, packed, floating point
  OnnxBuilder b;
  std::vector<double> w;  ///< [rows, columns]

  void build() {
    const int64_t blocks = (columns + size - 1) / size, bytes = size * bits / 8, per_row = (blocks * bits + 7) / 8;
    std::vector<int> packed(static_cast<size_t>(rows * blocks * bytes)), points(static_cast<size_t>(rows * per_row));
    std::vector<float> scales, real;
    uint32_t seed = 7;
    const auto next = [&seed](int64_t n) {
      return static_cast<int64_t>((seed = seed * 1664525 + 1013904223) >> 8) % n;
    };
    const auto put = [&](std::vector<int> &to, int64_t byte, int64_t k, int64_t v) {
      to[static_cast<size_t>(byte + k * bits / 8)] |= static_cast<int>(v << (k * bits % 8));
    };
    w.assign(static_cast<size_t>(rows * columns), 0);
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t k = 0; k < blocks; ++k) {
        const int64_t zero = next(int64_t{1} << bits);
        put(points, n * per_row, k, zero);
        real.push_back(static_cast<float>(zero) + 0.5f);
        scales.push_back(static_cast<float>(1 + next(9)) / 8);
        const double z = zeros == 0 ? 1 << (bits - 1) : zeros == 1 ? static_cast<double>(zero) : real.back();
        for (int64_t i = 0; i < size; ++i) {
          const int64_t q = next(int64_t{1} << bits);
          put(packed, (n * blocks + k) * bytes, i, q);
          if (k * size + i < columns)
            w[static_cast<size_t>(n * columns + k * size + i)] = (static_cast<double>(q) - z) * scales.back();
        }
      }
    std::vector<std::string> inputs{b.input({2, columns}, "a"), integers(b, kUint8, {rows, blocks, bytes}, packed),
                                    b.floats(scales)};
    if (zeros) inputs.push_back(zeros == 1 ? integers(b, kUint8, {rows * per_row}, points) : b.floats(real));
    b.output(microsoft(b, "MatMulNBits", inputs));
    b.attr("K", columns).attr("N", rows).attr("block_size", size).attr("bits", bits);
  }
};

TEST(MicrosoftFloat, WeightsOfFewBits) {
  for (const int64_t bits : {2, 4, 8})
    for (const int zeros : {0, 1, 2}) {
      FewBits net;
      net.bits = bits;
      net.zeros = zeros;
      net.build();
      std::vector<float> x;
      for (int64_t i = 0; i < 2 * net.columns; ++i) x.push_back(static_cast<float>(i % 5) - 2);
      std::vector<double> wanted;
      for (size_t m = 0; m < 2; ++m)
        for (size_t n = 0; n < 3; ++n) {
          double sum = 0;
          for (size_t k = 0; k < 40; ++k) sum += static_cast<double>(x[m * 40 + k]) * net.w[n * 40 + k];
          wanted.push_back(sum);
        }
      SCOPED_TRACE(std::to_string(bits) + " bits, zero points " + std::to_string(zeros));
      expect_near(run(net.b, {tensor({2, 40}, x)}).at(0), wanted);
    }
}

TEST(MicrosoftFloat, Errors) {
  const auto says = [](const OnnxBuilder &b, const char *text) {
    EXPECT_NE(message(b).find(text), std::string::npos) << message(b);
  };
  const auto with = [](int64_t bits, int64_t block, int64_t k, int64_t elements) {
    OnnxBuilder b;
    b.output(microsoft(b, "MatMulNBits",
                       {b.input({1, 32}), integers(b, kUint8, {elements}, std::vector<int>(elements)), b.floats({1})}));
    b.attr("K", k).attr("N", int64_t{1}).attr("block_size", block).attr("bits", bits);
    return b;
  };
  EXPECT_EQ(message(with(4, 32, 32, 16)), "");
  says(with(3, 32, 32, 16), "MatMulNBits 'MatMulNBits_0': bits is 3, 2, 4 or 8 was expected");
  says(with(4, 24, 32, 16), "block_size is 24, a power of 2 of at least 16 was expected");
  says(with(4, 32, 0, 16), "K is 0 and N 1, numbers from 1 to 1073741824 were expected");
  says(with(4, 32, int64_t{1} << 62, 16), "numbers from 1 to 1073741824 were expected");
  says(with(8, int64_t{1} << 61, 16, 0), "block_size is 2305843009213693952, a power of 2");
  says(with(4, 32, 31, 16), "operand A is [1, 32], a matrix of K = 31 columns was expected");
  says(with(4, 32, 32, 15), "is [15], 16 elements were expected");
  OnnxBuilder late, act, batch;
  late.output(microsoft(late, "MatMulNBits", {late.input({1, 32}), late.input({16}, "w", kUint8), late.floats({1})}));
  late.attr("K", int64_t{32}).attr("N", int64_t{1}).attr("block_size", int64_t{32});
  says(late, "weights 'w' is not known at compile time");
  act.output(microsoft(act, "FusedGemm", {act.input({1, 1}), act.constant({1, 1}, {1})}));
  act.attr("activation", "Swish");
  says(act, "activation is 'Swish', Relu,");
  OnnxBuilder skip, none;
  skip.output(microsoft(skip, "SkipLayerNormalization", {skip.input({1, 2}), skip.input({2, 2}), skip.floats({1, 1})}));
  says(skip, "operands [2, 2] and bias do not broadcast to input [1, 2]");
  none.output(microsoft(none, "BiasGelu", {none.input({1, 2})}));
  says(none, "BiasGelu_0': ");
  batch.output(microsoft(batch, "FusedMatMul", {batch.input({1, 1}), batch.constant({1, 1}, {1})}));
  batch.attr("transBatchA", int64_t{1});
  says(batch, "transBatchA is not supported");
}

}  // namespace
}  // namespace npu::test
