// SPDX-License-Identifier: MIT
// What passes for float32 make of quantized operators, as text.
#include <gtest/gtest.h>

#include "compiler/graph/evaluate.h"
#include "compiler/passes/passes.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

/// Padding with a number in front of a QLinearConv whose zero point is 3.
graph::Graph padded(int value) {
  OnnxBuilder b;
  const std::string x = b.op(
      "Pad", {b.input({1, 1, 2, 2}, "x", kUint8), b.ints({0, 0, 1, 2, 0, 0, 0, 0}), integers(b, kUint8, {}, {value})});
  b.output(b.op("QLinearConv", {x, b.scalar(1), zero_point(b, {1, 3, kUint8}), integers(b, kInt8, {1, 1, 1, 1}, {2}),
                                b.scalar(1), zero_point(b, {}), b.scalar(1), zero_point(b, {})}));
  return import_graph(b.bytes());
}

TEST(QuantizedPasses, PaddingWithTheZeroPointMerges) {
  graph::Graph g = padded(3);
  graph::merge_pad(g);
  EXPECT_EQ(node_lines(g),
            "t6: int8 [1, 1, 3, 4] = Conv(x, q5, -, #11) begin=[1, 2] quantized=true x_zero=3 out=int8\n"
            "output t6 = t6\n");
}

TEST(QuantizedPasses, PaddingWithZeroIsDataWhereTheZeroPointIsAnother) {
  graph::Graph g = padded(0);
  const std::string before = node_lines(g);
  graph::merge_pad(g);
  EXPECT_EQ(node_lines(g), before);
}

TEST(QuantizedPasses, WeightsOfIntegersAreNotScaled) {
  OnnxBuilder b;
  const std::string y =
      microsoft(b, "MatMulIntegerToFloat",
                {b.input({1, 2}, "x", kUint8), integers(b, kInt8, {2, 2}, {1, 2, 3, 4}), b.scalar(1), b.scalar(1)});
  b.output(b.op("Mul", {y, b.floats({2, 3})}));
  graph::Graph g = import_graph(b.bytes());
  const std::string before = node_lines(g);
  graph::fold_affine(g);
  EXPECT_EQ(node_lines(g), before);
}

/// What integers stand for, then `f`, then integers again, fused.
template <class F>
graph::Graph fused(const Dims &dims, F f) {
  OnnxBuilder b;
  const Scaled q{0.5f, 3, kUint8};
  b.output(quantize(b, f(b, dequantize(b, b.input(dims, "x", q.type), q)), {0.25f, -5, kInt8}));
  graph::Graph g = import_graph(b.bytes());
  graph::fuse_quantized(g);
  return g;
}

TEST(QuantizedPasses, AnAverageThatIsSplitIsFloatBetweenItsParts) {
  const auto average = [](const Dims &dims) {
    return fused(dims, [](OnnxBuilder &b, const std::string &x) { return b.op("GlobalAveragePool", {x}); });
  };
  graph::Graph g = average({1, 1, 20, 20});
  graph::split_pool(g, 50);
  EXPECT_EQ(node_lines(g),
            "t5#9: float32 [1, 1, 20, 1] = Pool(x) kernel=[1, 20] max=false in_quant=0.5@3\n"
            "t5#8: int8 [1, 1, 1, 1] = Pool(t5#9) kernel=[20, 1] max=false out_quant=0.25@-5 out_type=int8\n"
            "output t5 = t5#8\n");
  g = average({1, 1, 7});
  graph::split_pool(g, 5);
  EXPECT_EQ(node_lines(g),
            "t5#9: float32 [1, 1, 3] = Pool(x) kernel=[3, 1] stride=[3, 1] end=[2, 0] max=false count_pad=true "
            "counted_end=[2, 0] in_quant=0.5@3\n"
            "t5#10: float32 [1, 1, 1] = Pool(t5#9) kernel=[3, 1] max=false\n"
            "t5#8: int8 [1, 1, 1] = Binary(t5#10, #11) kind=Mul out_quant=0.25@-5 out_type=int8\noutput t5 = t5#8\n");
  // The mean of 4 to 10 less 3 is 4, times 0.5 by 0.25 is 8.
  graph::Tensor x(graph::Dtype::U8, {1, 1, 7});
  for (size_t i = 0; i < 7; ++i) x.data[i] = static_cast<uint8_t>(4 + i);
  std::vector<graph::Tensor> out;
  ASSERT_EQ(graph::evaluate_graph(g, {x}, out).message(), "");
  EXPECT_EQ(out[0].as<int8_t>()[0], 8 - 5);
}

}  // namespace
}  // namespace npu::test
