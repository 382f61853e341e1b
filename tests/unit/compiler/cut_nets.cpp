// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/cut_nets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace npu::test {

using graph::Graph;
using graph::Tensor;
using graph::ValueId;

namespace {

Tensor random_tensor(const graph::TensorKind &kind, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor t(kind.dtype, kind.shape);
  for (int64_t i = 0; i < t.count(); ++i)
    t.as<float>()[i] = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 500;
  return t;
}

}  // namespace

std::string conv(OnnxBuilder &b, const std::string &x, Dims weights, Dims strides, Dims pads, int64_t groups) {
  const int64_t oc = weights[0];
  const std::string y = b.op("Conv", {x, b.weights(std::move(weights)), b.weights({oc})});
  b.attr("strides", std::move(strides)).attr("pads", std::move(pads)).attr("group", groups);
  return y;
}

OnnxBuilder pictures(int64_t batch) {
  OnnxBuilder b;
  std::string x = b.op("Relu", {conv(b, b.input({batch, 3, 35, 29}), {24, 3, 5, 5}, {2, 2}, {2, 2, 2, 2})});
  const std::string side = x;
  x = b.op("Relu", {conv(b, x, {48, 24, 3, 3}, {1, 1}, {1, 1, 1, 1})});
  x = b.op("Sigmoid", {conv(b, x, {48, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, 48)});
  x = conv(b, x, {24, 48, 1, 1}, {1, 1}, {0, 0, 0, 0});
  x = b.op("Add", {x, side});
  x = b.op("AveragePool", {x});
  b.attr("kernel_shape", Dims{3, 3}).attr("strides", Dims{2, 2}).attr("pads", Dims{1, 1, 1, 1});
  x = b.op("Concat", {conv(b, x, {32, 24, 3, 3}, {1, 1}, {1, 1, 1, 1}), x});
  b.attr("axis", int64_t{1});
  x = conv(b, x, {40, 28, 3, 3}, {2, 2}, {1, 1, 1, 1}, 2);
  b.output(x);
  x = b.op("Flatten", {b.op("GlobalAveragePool", {x})});
  b.output(b.op("Softmax", {b.op("Gemm", {x, b.weights({40, 70}), b.weights({70})})}));
  return b;
}

OnnxBuilder made_weights() {
  OnnxBuilder b;
  const std::string x = b.op("Relu", {b.input({1, 8, 20, 20})});
  const std::string w = b.op("Relu", {b.input({16, 4, 3, 3})});
  const std::string y = b.op("Conv", {x, w});
  b.attr("group", int64_t{2});
  b.output(y);
  return b;
}

OnnxBuilder matrices() {
  OnnxBuilder b;
  const std::string x = b.input({8, 12, 16});
  const std::string q = b.op("MatMul", {x, b.weights({16, 24})}), k = b.op("MatMul", {x, b.weights({16, 24})});
  const std::string t = b.op("Transpose", {k});
  b.attr("perm", Dims{0, 2, 1});
  const std::string p = b.op("Softmax", {b.op("MatMul", {q, t})});
  b.attr("axis", int64_t{-1});
  const std::string y = b.op("Mul", {b.op("MatMul", {p, k}), b.weights({24})});
  const std::string r = b.op("Reshape", {y, b.ints({8, 12, 4, 6})});
  const std::string h = b.op("Transpose", {r});
  b.attr("perm", Dims{0, 2, 1, 3});
  b.output(b.op("Tanh", {h}));
  return b;
}

std::vector<Tensor> random_inputs(const Graph &g) {
  std::vector<Tensor> inputs;
  for (ValueId v : g.inputs) inputs.push_back(random_tensor(g[v], inputs.size() + 1));
  return inputs;
}

std::vector<float> floats(const Tensor &t) { return {t.as<float>(), t.as<float>() + t.count()}; }

void expect_close(const Tensor &got, const Tensor &want) {
  ASSERT_EQ(got.shape, want.shape);
  for (int64_t i = 0; i < got.count(); ++i)
    ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], 1e-5 * (1 + std::abs(want.as<float>()[i]))) << "at " << i;
}

}  // namespace npu::test
