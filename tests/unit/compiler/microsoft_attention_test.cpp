// SPDX-License-Identifier: MIT
// Attention as ONNX Runtime's optimizer writes it, against the formula.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compiler/graph/evaluate.h"
#include "compiler/graph/partition.h"
#include "runtime/cpu/element.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Shape;
using graph::Tensor;

constexpr int kInt32 = onnx::TensorProto::INT32;
constexpr int64_t kBatch = 2, kLength = 3, kSize = 4, kHeads = 2, kHead = kSize / kHeads;

/// Small numbers that look random.
Tensor numbers(const Shape &shape, uint32_t seed) {
  Tensor t(Dtype::F32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    seed = seed * 1664525 + 1013904223;
    t.as<float>()[i] = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return t;
}

std::vector<float> list(const Tensor &t) { return {t.as<float>(), t.as<float>() + t.count()}; }

Tensor integers_of(Dtype type, const Shape &shape, const std::vector<int> &values) {
  Tensor t(type, shape);
  for (size_t i = 0; i < values.size(); ++i) cpu::store(t, static_cast<int64_t>(i), values[i]);
  return t;
}

/// Which keys count: [batch][key], by query.
using Counts = std::function<bool(int64_t batch, int64_t query, int64_t key)>;

/// Queries, keys and values [batch, length, size]; `bias` is added to the scores [heads, length, length].
std::vector<double> attention(const Tensor &q, const Tensor &k, const Tensor &v, const Counts &counts,
                              const Tensor *bias = nullptr) {
  std::vector<double> out(static_cast<size_t>(kBatch * kLength * kSize));
  const auto at = [](const Tensor &t, int64_t b, int64_t i, int64_t c) {
    return static_cast<double>(t.as<float>()[(b * kLength + i) * kSize + c]);
  };
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kLength; ++i) {
        double weights[kLength], total = 0;
        for (int64_t j = 0; j < kLength; ++j) {
          double score = 0;
          for (int64_t c = h * kHead; c < (h + 1) * kHead; ++c) score += at(q, b, i, c) * at(k, b, j, c);
          score /= std::sqrt(static_cast<double>(kHead));
          if (bias) score += static_cast<double>(bias->as<float>()[(h * kLength + i) * kLength + j]);
          total += weights[j] = counts(b, i, j) ? std::exp(score) : 0;
        }
        for (int64_t c = h * kHead; c < (h + 1) * kHead; ++c)
          for (int64_t j = 0; j < kLength; ++j)
            out[static_cast<size_t>((b * kLength + i) * kSize + c)] += weights[j] / total * at(v, b, j, c);
      }
  return out;
}

/// x [batch, length, size] times columns `from` on of w [size, 3 * size], and a bias.
Tensor projected(const Tensor &x, const Tensor &w, const Tensor &bias, int64_t from) {
  Tensor out(Dtype::F32, x.shape);
  for (int64_t i = 0; i < out.count(); ++i) {
    double sum = static_cast<double>(bias.as<float>()[from + i % kSize]);
    for (int64_t c = 0; c < kSize; ++c)
      sum +=
          static_cast<double>(x.as<float>()[i / kSize * kSize + c] * w.as<float>()[c * 3 * kSize + from + i % kSize]);
    out.as<float>()[i] = static_cast<float>(sum);
  }
  return out;
}

void expect_run(const OnnxBuilder &b, const std::vector<Tensor> &inputs, const std::vector<double> &wanted) {
  std::vector<Tensor> out;
  ASSERT_EQ(graph::evaluate_graph(import_graph(b.bytes()), inputs, out).message(), "");
  ASSERT_EQ(static_cast<size_t>(out[0].count()), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(out[0].as<float>()[i], wanted[i], 1e-5) << i;
}

std::string message(const OnnxBuilder &b) {
  compiler::Compiled out;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, out).message();
}

const Dims kDims{kBatch, kLength, kSize};
const Tensor kX = numbers({kBatch, kLength, kSize}, 1), kW = numbers({kSize, 3 * kSize}, 2),
             kB = numbers({3 * kSize}, 3);

bool all(int64_t, int64_t, int64_t) { return true; }
bool two_of_second(int64_t b, int64_t, int64_t j) { return b == 0 || j < 2; }

TEST(MicrosoftAttention, MasksAndBiases) {
  const Tensor q = projected(kX, kW, kB, 0), k = projected(kX, kW, kB, kSize), v = projected(kX, kW, kB, 2 * kSize);
  const Tensor bias = numbers({1, kHeads, kLength, kLength}, 4);
  for (const std::string kind : {"", "mask", "lengths", "causal", "bias", "scale of 0"}) {
    SCOPED_TRACE(kind);
    OnnxBuilder b;
    std::vector<std::string> inputs{b.input(kDims), b.constant({kSize, 3 * kSize}, list(kW)), b.floats(list(kB))};
    std::vector<Tensor> data{kX};
    if (kind == "mask") {
      inputs.push_back(b.input({kBatch, kLength}, "mask", kInt32));
      data.push_back(integers_of(Dtype::I32, {kBatch, kLength}, {1, 2, 1, 1, 1, -1}));
    }
    if (kind == "lengths") {
      inputs.push_back(b.input({kBatch}, "lengths", kInt32));
      data.push_back(integers_of(Dtype::I32, {kBatch}, {3, 2}));
    }
    if (kind == "bias") {
      inputs.insert(inputs.end(), {"", "", b.input({1, kHeads, kLength, kLength}, "bias")});
      data.push_back(bias);
    }
    b.output(microsoft(b, "Attention", inputs));
    b.attr("num_heads", kHeads);
    if (kind == "causal") b.attr("unidirectional", int64_t{1});
    if (kind == "scale of 0") b.attr("scale", 0.0f);
    Counts counts = all;
    if (kind == "mask" || kind == "lengths") counts = two_of_second;
    if (kind == "causal") counts = [](int64_t, int64_t i, int64_t j) { return j <= i; };
    expect_run(b, data, attention(q, k, v, counts, kind == "bias" ? &bias : nullptr));
  }
}

/// All but the conversion of the integers: softmax and scores stay on the chip, and the projection is a layer of its
/// own.
TEST(MicrosoftAttention, AMaskIsComputedByTheChip) {
  OnnxBuilder b;
  b.output(microsoft(b, "Attention",
                     {b.input({2, 64, 64}), b.weights({64, 192}), b.weights({192}), b.input({2, 64}, "mask", kInt32)}));
  b.attr("num_heads", int64_t{4});
  const graph::Graph g = import_graph(b.bytes());
  size_t host = 0;
  for (const graph::Node &n : g.nodes) host += !graph::runs_on_chip(g, n);
  EXPECT_EQ(host, 1u);
  EXPECT_EQ(g.sources.at(1).name, "Attention_0.qkv");
}

TEST(MicrosoftAttention, ManyHeads) {
  const Tensor k = numbers({kBatch, kLength, kSize}, 5), v = numbers({kBatch, kLength, kSize}, 6);
  OnnxBuilder b;
  b.output(microsoft(b, "MultiHeadAttention",
                     {b.input(kDims, "q"), b.input(kDims, "k"), b.input(kDims, "v"), b.floats(list(kB)),
                      b.input({kBatch, kLength}, "mask", kInt32)}));
  b.attr("num_heads", kHeads);
  const auto shifted = [](const Tensor &x, int64_t from) {
    Tensor out = x;
    for (int64_t i = 0; i < x.count(); ++i) out.as<float>()[i] += kB.as<float>()[from + i % kSize];
    return out;
  };
  expect_run(b, {kX, k, v, integers_of(Dtype::I32, {kBatch, kLength}, {1, 1, 1, 1, 1, 0})},
             attention(shifted(kX, 0), shifted(k, kSize), shifted(v, 2 * kSize), two_of_second));
}

/// Integers that are the numbers of the float32 network.
TEST(MicrosoftAttention, OfIntegers) {
  Tensor x(Dtype::F32, kX.shape), w(Dtype::F32, kW.shape);
  std::vector<int> xq, wq;
  for (int64_t i = 0; i < x.count(); ++i) {
    xq.push_back(static_cast<int>(i * 37 % 256));
    x.as<float>()[i] = static_cast<float>(xq.back() - 128) * 0.01f;
  }
  for (int64_t i = 0; i < w.count(); ++i) {
    wq.push_back(static_cast<int>(i * 29 % 255) - 127);
    w.as<float>()[i] = static_cast<float>(wq.back() - 3) * 0.02f;
  }
  for (const bool late : {false, true}) {
    OnnxBuilder b;
    b.output(microsoft(
        b, "QAttention",
        {b.input(kDims, "x", kUint8), integers(b, kInt8, {kSize, 3 * kSize}, wq), b.floats(list(kB)), b.scalar(0.01f),
         b.scalar(0.02f), "", late ? b.input({}, "zero", kUint8) : zero_point(b, {1, 128, kUint8}),
         zero_point(b, {1, 3, kInt8})}));
    b.attr("num_heads", kHeads);
    std::vector<Tensor> inputs{integers_of(Dtype::U8, x.shape, xq)};
    if (late) inputs.push_back(integers_of(Dtype::U8, {}, {128}));
    expect_run(b, inputs,
               attention(projected(x, w, kB, 0), projected(x, w, kB, kSize), projected(x, w, kB, 2 * kSize), all));
  }
}

TEST(MicrosoftAttention, Embeddings) {
  OnnxBuilder b;
  b.output(microsoft(
      b, "EmbedLayerNormalization",
      {b.input({1, 2}, "ids", kInt32), b.input({1, 2}, "segments", kInt32), b.constant({3, 2}, {0, 0, 1, 5, 2, 2}),
       b.constant({4, 2}, {0, 1, 0, 0, 9, 9, 9, 9}), b.constant({2, 2}, {0, 0, 0, 1}), b.floats({1, 10}),
       b.floats({0, 100}), b.input({1, 2}, "mask", kInt32)}));
  b.output(b.more_output());
  // Sums (1, 6) and (2, 3): normalized to (-1, 1) each.
  const std::vector<Tensor> inputs{integers_of(Dtype::I32, {1, 2}, {1, 2}), integers_of(Dtype::I32, {1, 2}, {0, 1}),
                                   integers_of(Dtype::I32, {1, 2}, {1, 0})};
  expect_run(b, inputs, {-1, 110, -1, 110});
  std::vector<Tensor> out;
  ASSERT_TRUE(graph::evaluate_graph(import_graph(b.bytes()), inputs, out).ok());
  EXPECT_EQ(cpu::load(out.at(1), 0), 1) << "one element of the mask counts";
}

TEST(MicrosoftAttention, Errors) {
  const auto net = [](const Dims &x, int64_t heads, const Dims &mask = {}) {
    OnnxBuilder b;
    std::vector<std::string> inputs{b.input(x), b.weights({x.back(), 12}), b.weights({12})};
    if (!mask.empty()) inputs.push_back(b.input(mask, "mask", kInt32));
    b.output(microsoft(b, "Attention", inputs));
    b.attr("num_heads", heads);
    return b;
  };
  const auto says = [](const OnnxBuilder &b, const char *text) {
    EXPECT_NE(message(b).find(text), std::string::npos) << message(b);
  };
  EXPECT_EQ(message(net({2, 3, 4}, 2)), "");
  says(net({3, 4}, 2), "Attention 'Attention_0': operand 0 is [3, 4], [batch, length, size] was expected");
  says(net({2, 3, 4}, 0), "num_heads is 0, a number above 0 was expected");
  says(net({2, 3, 4}, 2, {2, 3, 3}), "mask 'mask' is [2, 3, 3], [2, 3] or [2] was expected");
  OnnxBuilder past = net({2, 3, 4}, 2), sizes = net({2, 3, 4}, 2);
  says(net({2, 3, 4}, 2, {2, 4}), "mask 'mask' is [2, 4], [2, 3] or [2] was expected");
  OnnxBuilder packed, narrow, embed;
  packed.output(microsoft(packed, "MultiHeadAttention", {packed.input({2, 3, 2, 3, 2})}));
  packed.attr("num_heads", int64_t{2});
  says(packed, "[batch, length, size] was expected");
  narrow.output(microsoft(narrow, "Attention",
                          {narrow.input({2, 3, 4}), narrow.weights({4, 12}), narrow.weights({12}), "", "",
                           narrow.input({2, 2, 3, 2}, "bias")}));
  narrow.attr("num_heads", int64_t{2});
  says(narrow, "bias of scores 'bias' is [2, 2, 3, 2], [2, 2, 3, 3] was expected, or 1 in its place");
  embed.output(microsoft(embed, "EmbedLayerNormalization",
                         {embed.input({1, 5}, "ids", kInt32), "", embed.weights({3, 2}), embed.weights({4, 2}), "",
                          embed.weights({2}), embed.weights({2})}));
  says(embed, "the table of places is [4, 2], 5 rows were expected");
  past.more_output();
  says(past, "results behind the first are not supported");
  sizes.attr("qkv_hidden_sizes", Dims{4, 4, 5});
  says(sizes, "weights have 12 columns, which are not the sizes of queries, keys and values");
}

}  // namespace
}  // namespace npu::test
