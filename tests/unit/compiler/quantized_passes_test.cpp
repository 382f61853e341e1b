// SPDX-License-Identifier: MIT
// What passes for float32 make of quantised operators, as text.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace npu::test
