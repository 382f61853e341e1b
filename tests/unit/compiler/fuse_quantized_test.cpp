// SPDX-License-Identifier: MIT
// What becomes of operators between nodes that quantize: as text, and computed, against the file as it is.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/api/npuc.h"
#include "compiler/graph/evaluate.h"
#include "compiler/graph/print.h"
#include "compiler/passes/passes.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/compare_quantized.h"
#include "tests/unit/compiler/share.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Tensor;

Graph fused(const OnnxBuilder &b) {
  Graph g = import_graph(b.bytes());
  graph::fuse_quantized(g);
  return g;
}

constexpr Scaled kX{0.5f, 3, kUint8}, kY{0.25f, -5, kInt8};

// The graph.

/// Operators on what the integers x stand for, and what quantizes their result.
template <class F>
OnnxBuilder between(const Dims &dims, F f, const Scaled &x = kX, const Scaled &y = kY) {
  OnnxBuilder b;
  b.output(quantize(b, f(b, dequantize(b, b.input(dims, "x", x.type), x)), y));
  return b;
}
template <class F>
std::string text(const Dims &dims, F f) {
  return node_lines(fused(between(dims, f)));
}

using Name = const std::string &;

/// Weights of two channels.
std::string weights(OnnxBuilder &b, const Dims &dims, const std::vector<int> &values, const std::vector<float> &scales,
                    int64_t axis) {
  const std::string w = b.op("DequantizeLinear", {integers(b, kInt8, dims, values), b.floats(scales)});
  b.attr("axis", axis);
  return w;
}

std::string constants(const Graph &g) {
  const std::string all = graph::to_text(g);
  std::string out;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at) + 1;
    if (all.compare(at, 8, "constant") == 0) out += all.substr(at, end - at);
    at = end;
  }
  return out;
}

TEST(FuseQuantized, AConvolutionWithBiasAndFunction) {
  const Graph g = fused(between({1, 1, 3, 3}, [](OnnxBuilder &b, Name x) {
    const std::string w = weights(b, {2, 1, 1, 1}, {4, -6}, {0.5f, 2}, 0);
    const std::string y = b.op("Conv", {x, w, b.floats({1.5f, -10})});
    return b.op("Clip", {y, b.scalar(-1), b.scalar(6)});
  }));
  // Units of the sums are 0.25 and 1, steps of the result 0.25.
  EXPECT_EQ(node_lines(g),
            "t11: int8 [1, 2, 3, 3] = Conv(x, #17, #18, #19) kind=Clip a=-4 b=24 quantized=true x_zero=3 "
            "out_zero=-5 out=int8\noutput t11 = t11\n");
  EXPECT_EQ(constants(g),
            "constant #17: int8 [2, 1, 1, 1] = 4, -6\n"
            "constant #18: int32 [2] = 6, -10\n"
            "constant #19: float32 [2] = 1, 4\n");
}

TEST(FuseQuantized, WhatScalesAndShiftsChannelsGoesIntoFactorAndBias) {
  const Graph g = fused(between({1, 1, 3, 3}, [](OnnxBuilder &b, Name x) {
    const std::string w = weights(b, {2, 1, 1, 1}, {4, -6}, {0.5f, 2}, 0);
    const std::string y = b.op("Conv", {x, w, b.floats({1, 2})});
    return b.op("Sub", {b.constant({2, 1, 1}, {7, 8}), b.op("Mul", {y, b.constant({2, 1, 1}, {2, 4})})});
  }));
  EXPECT_EQ(node_lines(g),
            "t12: int8 [1, 2, 3, 3] = Conv(x, #18, #19, #20) quantized=true x_zero=3 out_zero=-5 out=int8\n"
            "output t12 = t12\n");
  // 7 - 2 * (1 + 0.25 sum) = -0.5 * (sum - 10), 8 - 4 * (2 + sum) = -4 * (sum - 0)
  EXPECT_EQ(constants(g),
            "constant #18: int8 [2, 1, 1, 1] = 4, -6\n"
            "constant #19: int32 [2] = -10, 0\n"
            "constant #20: float32 [2] = -2, -16\n");
}

TEST(FuseQuantized, ZeroPointsOfWeights) {
  const auto network = [](int type, const std::vector<int> &values, const std::vector<int> &zeros) {
    return fused(between({1, 2}, [&](OnnxBuilder &b, Name x) {
      const std::vector<float> scales(zeros.size(), 1);
      const std::string w = b.op("DequantizeLinear", {integers(b, type, {2, 2}, values), b.floats(scales),
                                                      integers(b, type, {static_cast<int64_t>(zeros.size())}, zeros)});
      b.attr("axis", int64_t{1});
      return b.op("MatMul", {x, w});
    }));
  };
  EXPECT_NE(constants(network(kUint8, {128, 130, 0, 255}, {128})).find("int8 [2, 2] = 0, 2, -128, 127"),
            std::string::npos);
  EXPECT_NE(constants(network(kUint8, {10, 130, 0, 255}, {10, 130})).find("int8 [2, 2] = 0, 0, -10, 125"),
            std::string::npos);
  EXPECT_NE(node_lines(network(kUint8, {1, 130, 0, 255}, {1})).find("w_zero=1 "), std::string::npos);
  const Graph left = network(kUint8, {1, 130, 0, 255}, {1, 2});
  EXPECT_EQ(node_lines(left).find("MatMul(x"), std::string::npos) << "254 and 253 are no int8";
  EXPECT_EQ(left.notes.at(1),
            "               MatMul 'MatMul_2' in float32: its weights have zero points that none replaces");
}

TEST(FuseQuantized, GemmOfTurnedWeights) {
  const Graph g = fused(between({3, 2}, [](OnnxBuilder &b, Name x) {
    const std::string w = weights(b, {2, 2}, {1, 2, 3, 4}, {0.5f, 2}, 0);
    const std::string y = b.op("Gemm", {x, w, b.floats({1, 2})});
    b.attr("transB", int64_t{1});
    return b.op("Relu", {y});
  }));
  EXPECT_EQ(node_lines(g),
            "t9: int8 [3, 2] = MatMul(x, #17, #18, #19) kind=Relu quantized=true x_zero=3 out_zero=-5 out=int8\n"
            "output t9 = t9\n");
  EXPECT_EQ(constants(g),
            "constant #17: int8 [2, 2] = 1, 3, 2, 4\n"
            "constant #18: int32 [2] = 4, 2\n"
            "constant #19: float32 [2] = 1, 4\n");
}

TEST(FuseQuantized, AProductOfTwoTensors) {
  EXPECT_EQ(text({1, 4, 2},
                 [](OnnxBuilder &b, Name x) {
                   const std::string y = b.op("Transpose", {x});
                   b.attr("perm", std::vector<int64_t>{0, 2, 1});
                   return b.op("Div", {b.op("MatMul", {x, y}), b.scalar(8)});
                 }),
            "#11: uint8 [1, 2, 4] = Transpose(x) perm=[0, 2, 1]\n"
            "t8: int8 [1, 4, 4] = MatMul(x, #11, -, #12) quantized=true x_zero=3 w_zero=3 out_zero=-5 out=int8\n"
            "output t8 = t8\n");
}

TEST(FuseQuantized, AProductThatNothingQuantizesIsFloat) {
  const auto network = [](const std::vector<float> &bias) {
    OnnxBuilder b;
    const std::string x = dequantize(b, b.input({1, 2}, "x", kX.type), kX);
    const std::string w = weights(b, {2, 2}, {1, 2, 3, 4}, {0.5f, 2}, 1);
    b.output(b.op("Relu", {b.op("Add", {b.op("MatMul", {x, w}), b.floats(bias)})}));
    return fused(b);
  };
  EXPECT_EQ(node_lines(network({0.5f, -3})),
            "t5: float32 [1, 2] = MatMul(x, #12, #13, #14) quantized=true x_zero=3\n"
            "t8: float32 [1, 2] = Unary(t5) kind=Relu\noutput t8 = t8\n");
  EXPECT_EQ(node_lines(network({0.3f, -3})),
            "t5: float32 [1, 2] = MatMul(x, #12, -, #13) quantized=true x_zero=3\n"
            "t7: float32 [1, 2] = Binary(t5, c6)\n"
            "t8: float32 [1, 2] = Unary(t7) kind=Relu\noutput t8 = t8\n")
      << "0.3 is no whole number of units";
}

TEST(FuseQuantized, ABiasInsideOfAConvolutionThatIsNoIntegerStandsBehindIt) {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({1, 1, 3}, "x", kX.type), kX);
  b.output(b.op("Conv", {x, weights(b, {2, 1, 1}, {1, 2}, {0.5f, 2}, 0), b.floats({0.3f, 1})}));
  const Graph g = fused(b);
  EXPECT_EQ(node_lines(g),
            "#13: float32 [1, 2, 3] = Conv(x, #11, -, #12) quantized=true x_zero=3\n"
            "t6: float32 [1, 2, 3] = Binary(#13, #14)\noutput t6 = t6\n");
}

TEST(FuseQuantized, SumsThatMayWrapRoundStayInFloat) {
  const auto network = [](int64_t terms) {
    return fused(between({1, terms}, [&](OnnxBuilder &b, Name x) {
      const std::string w = dequantize(
          b, integers(b, kUint8, {terms, 1}, std::vector<int>(static_cast<size_t>(terms), 255)), {1, 0, kUint8});
      return b.op("MatMul", {x, w});
    }));
  };
  // 252 * 255 * 33418 is the last that is below 2^31.
  EXPECT_EQ(network(33418).nodes.size(), 1u);
  const Graph left = network(33419);
  EXPECT_EQ(left.nodes.size(), 3u);
  EXPECT_EQ(left.notes.at(1), "               MatMul 'MatMul_2' in float32: its sums may not fit 32 bits");
}

TEST(FuseQuantized, QuantizingPassesMoves) {
  EXPECT_EQ(
      text({1, 1, 4, 2},
           [](OnnxBuilder &b, Name x) {
             const std::string y = b.op("Relu", {b.op("Conv", {x, weights(b, {2, 1, 1, 1}, {4, -6}, {1, 2}, 0)})});
             const std::string z = b.op("MaxPool", {y});
             b.attr("kernel_shape", std::vector<int64_t>{2, 1});
             return b.op("Flatten", {z});
           }),
      "#18: int8 [1, 2, 4, 2] = Conv(x, #16, -, #17) kind=Relu quantized=true x_zero=3 out_zero=-5 out=int8\n"
      "#19: int8 [1, 2, 3, 2] = Pool(#18) kernel=[2, 1]\n"
      "t10: int8 [1, 12] = Reshape(#19) shape=[1, 12]\noutput t10 = t10\n");
}

TEST(FuseQuantized, ABiasBehindMovesAndAClipOfTheIntegers) {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({1, 1, 3}, "x", kX.type), kX);
  const std::string y = b.op("Transpose", {b.op("Conv", {x, weights(b, {2, 1, 1}, {4, -6}, {0.5f, 2}, 0)})});
  b.attr("perm", std::vector<int64_t>{0, 2, 1});
  const std::string q = quantize(b, b.op("Relu", {b.op("Add", {y, b.floats({1.5f, -10})})}), kY);
  b.output(b.op("Clip", {q, "", integers(b, kInt8, {}, {7})}));
  const Graph g = fused(b);
  // From 0 to the number of the integer 7, 12 steps.
  EXPECT_EQ(node_lines(g),
            "#22: int8 [1, 2, 3] = Conv(x, #19, #20, #21) kind=Clip b=12 quantized=true x_zero=3 out_zero=-5 "
            "out=int8\nt11: int8 [1, 3, 2] = Transpose(#22) perm=[0, 2, 1]\noutput t12 = t11\n");
  EXPECT_EQ(constants(g),
            "constant #19: int8 [2, 1, 1] = 4, -6\nconstant #20: int32 [2] = 6, -10\n"
            "constant #21: float32 [2] = 1, 4\n");
}

TEST(FuseQuantized, FunctionsOfBytesAreTables) {
  OnnxBuilder b;
  const std::string q = quantize(b, b.input({3}, "x"), kX);
  b.output(dequantize(b, b.op("Clip", {q, "", integers(b, kUint8, {}, {9})}), kX));
  const Graph g = fused(b);
  EXPECT_EQ(node_lines(g),
            "t2: uint8 [3] = Requant(x) out_quant=0.5@3 to=uint8\nt3: uint8 [3] = Lookup(t2, #9)\n"
            "t5: float32 [3] = Requant(t3) in_quant=0.5@3\noutput t5 = t5\n");
  const graph::TensorPtr table = g[g.nodes.at(1).inputs.at(1)].constant;
  for (const size_t byte : {0, 8, 9, 10, 255}) EXPECT_EQ(table->data[byte], std::min<size_t>(byte, 9));
}

TEST(FuseQuantized, ABiasOfASumThatIsQuantizedIsRounded) {
  const auto network = [](float step) {
    OnnxBuilder b;
    const std::string x = dequantize(b, b.input({1, 2}, "x", kX.type), kX);
    const std::string w = weights(b, {2, 2}, {1, 2, 3, 4}, {0.5f, 2}, 1);
    const std::string y = b.op("Mul", {b.op("Add", {b.op("MatMul", {x, w}), b.floats({0.3f, -3})}), b.floats({2, 3})});
    b.output(quantize(b, b.op("Add", {y, dequantize(b, b.input({1, 2}, "y", kX.type), kX)}), {step, 0, kInt8}));
    return fused(b);
  };
  // A unit is 0.25, the bias 1.2 of them, times 2: an error of 0.1.
  EXPECT_EQ(node_lines(network(0.5f)),
            "t5: float32 [1, 2] = MatMul(x, #21, #22, #23) quantized=true x_zero=3\n"
            "t14: int8 [1, 2] = Binary(t5, y) b_quant=0.5@3 out_quant=0.5@0 out_type=int8\noutput t14 = t14\n");
  EXPECT_NE(constants(network(0.5f)).find("#22: int32 [2] = 1, -3\nconstant #23: float32 [2] = 0.5, 3"),
            std::string::npos);
  EXPECT_EQ(node_lines(network(0.25f)),
            "#23: float32 [1, 2] = MatMul(x, #21, -, #22) quantized=true x_zero=3\n"
            "t5: float32 [1, 2] = Binary(#23, #24)\n"
            "t14: int8 [1, 2] = Binary(t5, y) b_quant=0.5@3 out_quant=0.25@0 out_type=int8\noutput t14 = t14\n")
      << "0.1 is more than a quarter of a step";
}

TEST(FuseQuantized, ReadersOfAResultThatIsNotQuantized) {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({1, 2}, "x", kX.type), kX);
  const std::string y = b.op("MatMul", {x, weights(b, {2, 2}, {1, 2, 3, 4}, {1, 2}, 1)});
  b.output(quantize(b, y, kY)).output(b.op("Sin", {y}));
  EXPECT_EQ(node_lines(fused(b)),
            "t5: float32 [1, 2] = MatMul(x, #13, -, #14) quantized=true x_zero=3\n"
            "t7: int8 [1, 2] = Requant(t5) out_quant=0.25@-5 to=int8\n"
            "t8: float32 [1, 2] = Unary(t5) kind=Sin\noutput t7 = t7\noutput t8 = t8\n");
}

TEST(FuseQuantized, EqualNodesThatQuantizeAreOne) {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({1, 2}, "x", kX.type), kX);
  const std::string y = b.op("MatMul", {x, weights(b, {2, 2}, {1, 2, 3, 4}, {1, 2}, 1)});
  b.output(quantize(b, y, kY)).output(b.op("Transpose", {quantize(b, y, kY)}));
  EXPECT_EQ(node_lines(fused(b)),
            "t7: int8 [1, 2] = MatMul(x, #16, -, #17) quantized=true x_zero=3 out_zero=-5 out=int8\n"
            "t10: int8 [2, 1] = Transpose(t7) perm=[1, 0]\noutput t7 = t7\noutput t10 = t10\n");
}

TEST(FuseQuantized, ArithmeticWithTwoOperands) {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({2, 2}, "x", kX.type), kX),
                    y = dequantize(b, b.input({2, 2}, "y", kInt8), {1, 0});
  b.output(quantize(b, b.op("Relu", {b.op("Sub", {x, y})}), kY));
  EXPECT_EQ(node_lines(fused(b)),
            "t8: int8 [2, 2] = Binary(x, y) kind=Sub kind=Relu a_quant=0.5@3 b_quant=1@0 out_quant=0.25@-5 "
            "out_type=int8\noutput t8 = t8\n");
  EXPECT_EQ(text({2, 2},
                 [](OnnxBuilder &n, Name v) {
                   return n.op("Mul", {n.floats({2, 3}), v});
                 }),
            "t6: int8 [2, 2] = Binary(c3, x) kind=Mul b_quant=0.5@3 out_quant=0.25@-5 out_type=int8\noutput t6 = t6\n");
}

TEST(FuseQuantized, AveragesAndSoftmax) {
  EXPECT_EQ(text({1, 2, 4, 4}, [](OnnxBuilder &b, Name x) { return b.op("GlobalAveragePool", {x}); }),
            "t5: int8 [1, 2, 1, 1] = Pool(x) kernel=[4, 4] max=false in_quant=0.5@3 out_quant=0.25@-5 out_type=int8\n"
            "output t5 = t5\n");
  EXPECT_EQ(text({2, 4},
                 [](OnnxBuilder &b, Name x) {
                   const std::string y = b.op("Softmax", {x});
                   return b.attr("axis", int64_t{1}), y;
                 }),
            "t5: int8 [2, 4] = Softmax(x) axis=1 in_quant=0.5@3 out_quant=0.25@-5 out_type=int8\noutput t5 = t5\n");
}

TEST(FuseQuantized, MeansBecomeAverages) {
  EXPECT_EQ(
      text({2, 4},
           [](OnnxBuilder &b, Name x) {
             const std::string y = b.op("ReduceMean", {x});
             return b.attr("axes", std::vector<int64_t>{1}), y;
           }),
      "#11: uint8 [1, 2, 4, 1] = Reshape(x) shape=[1, 2, 4, 1]\n"
      "#12: int8 [1, 2, 1, 1] = Pool(#11) kernel=[4, 1] max=false in_quant=0.5@3 out_quant=0.25@-5 out_type=int8\n"
      "t5: int8 [2, 1] = Reshape(#12) shape=[2, 1]\noutput t5 = t5\n");
}

TEST(FuseQuantized, FunctionsOfOneTensorAreATable) {
  const Graph g = fused(between({2, 2}, [](OnnxBuilder &b, Name x) {
    return b.op("Mul", {x, b.op("Clip", {b.op("Add", {x, b.scalar(3)}), b.scalar(0), b.scalar(6)})});
  }));
  EXPECT_EQ(node_lines(g), "t10: int8 [2, 2] = Lookup(x, #13)\noutput t10 = t10\n");
  const graph::Value &table = g[g.nodes[0].inputs[1]];
  // Byte 4 is 0.5: 0.5 * 3.5 by 0.25 is 7; byte 0 is -1.5: -1.5 * 1.5 by 0.25 is -9; 255 saturates.
  ASSERT_EQ(graph::kind_text(table), "int8 [256]");
  EXPECT_EQ(table.constant->as<int8_t>()[4], 7 - 5);
  EXPECT_EQ(table.constant->as<int8_t>()[0], -9 - 5);
  EXPECT_EQ(table.constant->as<int8_t>()[255], 127);
}

TEST(FuseQuantized, ATableOfSignedBytesBeginsWithZero) {
  const Graph g =
      fused(between({2}, [](OnnxBuilder &b, Name x) { return b.op("Abs", {x}); }, {1, 0, kInt8}, {1, 0, kUint8}));
  const graph::TensorPtr table = g[g.nodes.at(0).inputs.at(1)].constant;
  for (size_t byte : {0, 1, 127, 128, 255}) EXPECT_EQ(table->data[byte], byte < 128 ? byte : 256 - byte);
}

TEST(FuseQuantized, SimpleFunctionsAreARequant) {
  EXPECT_EQ(text({2}, [](OnnxBuilder &b, Name x) { return b.op("Relu", {x}); }),
            "t5: int8 [2] = Requant(x) in_quant=0.5@3 out_quant=0.25@-5 kind=Relu to=int8\noutput t5 = t5\n");
}

TEST(FuseQuantized, IntegersThatStandForTwoThingsAreTwoTensors) {
  OnnxBuilder b;
  const std::string x = b.input({2}, "x", kX.type);
  b.output(quantize(b, b.op("Mul", {dequantize(b, x, kX), dequantize(b, x, {1, 3, kX.type})}), kY));
  EXPECT_EQ(node_lines(fused(b)),
            "t7: int8 [2] = Binary(x, x) kind=Mul a_quant=0.5@3 b_quant=1@3 out_quant=0.25@-5 out_type=int8\n"
            "output t7 = t7\n");
}

TEST(FuseQuantized, MovesTakeIntegers) {
  EXPECT_EQ(text({1, 2, 3},
                 [](OnnxBuilder &b, Name x) {
                   const std::string y = b.op("Pad", {x, b.ints({0, 0, 1, 0, 0, 0}), b.scalar(-1)});
                   return b.op("Slice", {y, b.ints({0}), b.ints({2}), b.ints({2})});
                 }),
            "#14: uint8 [1, 2, 4] = Pad(x) begin=[0, 0, 1] end=[0, 0, 0] value=1\n"
            "#15: uint8 [1, 2, 2] = Slice(#14) start=[0, 0, 0] step=[1, 1, 1] count=[1, 2, 2]\n"
            "t11: int8 [1, 2, 2] = Requant(#15) in_quant=0.5@3 out_quant=0.25@-5 to=int8\noutput t11 = t11\n");
  const Graph left = fused(between({2}, [](OnnxBuilder &b, Name x) {
    return b.op("Pad", {x, b.ints({1, 0}), b.scalar(0.3f)});
  }));
  EXPECT_EQ(node_lines(left),
            "t2: float32 [2] = Requant(x) in_quant=0.5@3\n"
            "t5: float32 [3] = Pad(t2) begin=[1] end=[0] value=0.300000012\n"
            "t7: int8 [3] = Requant(t5) out_quant=0.25@-5 to=int8\noutput t7 = t7\n");
  EXPECT_EQ(left.notes.at(1), "               Pad 'Pad_1' in float32: no integer stands for its padding");
}

TEST(FuseQuantized, PartsOfAConcatGetTheQuantizationOfTheResult) {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({1, 2}, "x", kX.type), kX),
                    y = dequantize(b, b.input({1, 2}, "y", kY.type), kY);
  b.output(quantize(b, b.op("Concat", {x, y, b.input({1, 2}, "z")}), kY));
  b.model.mutable_graph()->mutable_node(2)->add_attribute()->CopyFrom([] {
    onnx::AttributeProto a;
    a.set_name("axis");
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(1);
    return a;
  }());
  EXPECT_EQ(node_lines(fused(b)),
            "#13: int8 [1, 2] = Requant(x) in_quant=0.5@3 out_quant=0.25@-5 to=int8\n"
            "#14: int8 [1, 2] = Requant(z) out_quant=0.25@-5 to=int8\n"
            "t7: int8 [1, 6] = Concat(#13, y, #14) axis=1\noutput t7 = t7\n");
}

TEST(FuseQuantized, ChoicesBetweenIntegers) {
  EXPECT_EQ(text({1, 2},
                 [](OnnxBuilder &b, Name x) {
                   return b.op("Where", {b.input({2}, "c", onnx::TensorProto::BOOL), x, b.scalar(-8)});
                 }),
            "c#2: bool [2] = Cast(c#1) to=bool saturate=true\n"
            "#11: int8 [1, 2] = Requant(x) in_quant=0.5@3 out_quant=0.25@-5 to=int8\n"
            "#12: int8 [] = Requant(s3) out_quant=0.25@-5 to=int8\n"
            "t6: int8 [1, 2] = Where(c#2, #11, #12)\noutput t6 = t6\n");
}

TEST(FuseQuantized, RowsOfAQuantizedTable) {
  OnnxBuilder b;
  const std::string table = dequantize(b, integers(b, kInt8, {3, 2}, {1, 2, 3, 4, 5, 6}), kY);
  b.output(b.op("Gather", {table, b.input({4}, "i", onnx::TensorProto::INT32)}));
  EXPECT_EQ(node_lines(fused(b)),
            "#7: int8 [4, 2] = Gather(#6, i)\nt3: float32 [4, 2] = Requant(#7) in_quant=0.25@-5\noutput t3 = t3\n");
}

TEST(FuseQuantized, QuantizedAgain) {
  const auto network = [](const Scaled &second) {
    return node_lines(fused(between(
        {2}, [](OnnxBuilder &, Name x) { return x; }, kX, second)));
  };
  EXPECT_EQ(network(kX), "output t4 = x\n");
  EXPECT_EQ(network(kY), "t4: int8 [2] = Requant(x) in_quant=0.5@3 out_quant=0.25@-5 to=int8\noutput t4 = t4\n");
}

TEST(FuseQuantized, SixteenBitsMove) {
  const Scaled wide{0.5f, 3, onnx::TensorProto::INT16};
  OnnxBuilder b(21);
  const std::string x = dequantize(b, b.input({2, 3}, "x", wide.type), wide);
  b.output(quantize(b, b.op("Transpose", {x}), wide)).output(quantize(b, b.op("Sin", {x}), wide));
  EXPECT_EQ(node_lines(fused(b)),
            "t2: float32 [2, 3] = Requant(x) in_quant=0.5@3\n"
            "t5: int16 [3, 2] = Transpose(x) perm=[1, 0]\n"
            "t6: float32 [2, 3] = Unary(t2) kind=Sin\n"
            "t8: int16 [2, 3] = Requant(t6) out_quant=0.5@3 to=int16\noutput t5 = t5\noutput t8 = t8\n");
}

TEST(FuseQuantized, SaysWhatIsLeftInFloat) {
  const Graph g = fused(between({2, 4}, [](OnnxBuilder &b, Name x) {
    const std::string y = b.op("MatMul", {x, b.constant({4, 4}, std::vector<float>(16, 1))});
    return b.op("Add", {y, b.op("ReduceSum", {x, b.ints({1})})});
  }));
  EXPECT_EQ(g.notes, (std::vector<std::string>{
                         "integers       operators 2, next to them in float32 3",
                         "               MatMul 'MatMul_1' in float32: its weights are not of 8 bits with known scales",
                         "               ReduceSum 'ReduceSum_2' in float32: not between integers of known scales",
                         "               Add 'Add_3' in float32: not between integers of known scales"}));
}

TEST(FuseQuantized, NetworksWithoutQuantizationAreAsTheyWere) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.op("MatMul", {b.input({2, 2}, "x"), b.weights({2, 2})})}));
  Graph g = import_graph(b.bytes());
  const std::string before = graph::to_text(g);
  graph::fuse_quantized(g);
  EXPECT_EQ(graph::to_text(g), before);
  EXPECT_TRUE(g.notes.empty());
}

TEST(FuseQuantized, TheReportSaysWhereNodesWent) {
  const Graph g = fused(between({1, 1, 3, 3}, [](OnnxBuilder &b, Name x) {
    const std::string y = b.op("Conv", {x, weights(b, {2, 1, 1, 1}, {4, -6}, {1, 2}, 0)});
    return b.op("Relu", {b.op("Mul", {y, b.scalar(2)})});
  }));
  std::string fates;
  for (const graph::Source &s : g.sources) fates += s.type + ": " + s.fate + "\n";
  EXPECT_EQ(fates,
            "DequantizeLinear: in Conv_2\nDequantizeLinear: folded\nConv: \nMul: in Conv_2\nRelu: in Conv_2\n"
            "QuantizeLinear: in Conv_2\n");
}

// Computed.

/// Operators of float32, but for those that make integers of floating-point numbers or the other way round.
size_t left_in_float(const Graph &g) {
  size_t count = 0;
  for (const Node &n : g.nodes) count += !graph::is_quantized(n) && !graph::is_byte(g[n.output].dtype);
  return count;
}

/// All passes, parts for the CPU and the chip, against the graph in which only integers have been fused.
TEST(FuseQuantized, RandomNetworksAreCompiled) {
  for (uint32_t seed = 1; seed <= share_of(150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const QuantizedNet net = random_quantized_net(seed);
    const Graph f = fused(net.b);
    const std::vector<Tensor> inputs = random_inputs(f, seed);
    std::vector<Tensor> expected;
    ASSERT_EQ(graph::evaluate_graph(f, inputs, expected).message(), "");
    compiler::Compiled out;
    const std::string file = net.b.bytes();
    ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), {}, out).message(), "");
    const StageResult result = run_stage(out.net.stages[0], inputs, lmem_of(out.net.stages[0]));
    ASSERT_EQ(result.error, "");
    if (!net.integers_only) continue;
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_EQ(difference(result.outputs[k], expected[k], {{}, 0, net.outputs[k].error}), "") << node_lines(f);
  }
}

TEST(FuseQuantized, RandomNetworksAreWhatTheyWere) {
  std::map<std::string, size_t> seen;
  for (uint32_t seed = 1; seed <= share_of(4000) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const QuantizedNet net = random_quantized_net(seed);
    const Graph g = import_graph(net.b.bytes());
    const Graph f = fused(net.b);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    std::vector<Tensor> outputs;
    ASSERT_EQ(graph::evaluate_graph(f, inputs, outputs).message(), "");
    EXPECT_EQ(compare_steps(g, inputs, outputs, net.outputs), "") << node_lines(g);
    if (net.integers_only) {
      EXPECT_EQ(left_in_float(f), 0u) << node_lines(g) << "\n" << node_lines(f);
    }
    for (const Node &n : f.nodes)
      if (graph::is_quantized(n) || graph::is_byte(f[n.output].dtype)) ++seen[graph::op_name(n.op)];
  }
  for (const char *op : {"Conv", "MatMul", "Binary", "Pool", "Softmax", "Requant", "Lookup", "Transpose", "Reshape",
                         "Slice", "Concat", "Pad", "Gather", "Expand"})
    EXPECT_GT(seen[op], share_of(50)) << op;
}

}  // namespace
}  // namespace npu::test
