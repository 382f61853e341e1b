// SPDX-License-Identifier: MIT
// float16 and bfloat16: operators of mixed types on the chip against the operators on the host, and what use_half()
// makes of networks.
#include "compiler/passes/passes.h"
#include "tests/unit/compiler/graph_net.h"
#include "tests/unit/compiler/onnx_builder.h"
#include "tests/unit/compiler/quantized_nets.h"
#include "tests/unit/compiler/share.h"

namespace npu::test {
namespace {

using graph::ActKind;
using graph::BinaryKind;
using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;

constexpr int64_t kSizes[] = {64 << 10, 128 << 10, 8 << 20};

/// What two sums of the same products in different orders may differ by, and where they fall on two sides of a middle
/// between neighbours, one step of the result.
double step_of(Dtype type) { return type == Dtype::F16 ? 0x1p-10 : type == Dtype::BF16 ? 0x1p-7 : 1e-4; }

/// What a network gives out is float32.
void expect_on_chip(Net &net, ValueId v, unsigned seed) {
  const double step = step_of(net[v].dtype);
  if (graph::is_half(net[v].dtype)) v = net.add(Op::Cast, {v}, graph::CastAttrs{Dtype::F32});
  net.expect_near(v, kSizes[seed % 3], step);
}

Tensor small(Random &r, Dtype type, const Shape &shape, int64_t terms) {
  Tensor t(type, shape);
  const float size = 1 / std::sqrt(static_cast<float>(terms));
  for (int64_t i = 0; i < t.count(); ++i) cpu::store(t, i, static_cast<double>(r.real(-size, size)));
  return t;
}

TEST(Half, Convolutions) {
  for (unsigned seed = 0; seed < share_of(90); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    graph::ConvAttrs a;
    int64_t ic = r.number(1, 70), oc = r.number(1, 70);
    const int64_t kind = r.number(0, 3), size = r.number(3, 24), n = r.number(1, 2);
    if (kind == 0) a.groups = oc = ic;
    if (kind == 1) ic *= 2, oc *= 2, a.groups = 2;
    if (seed % 10 == 9) ic = 512, oc = 600, a.groups = 1;
    for (size_t d = 0; d < 2; ++d) {
      a.window.kernel[d] = kind == 3 ? 1 : r.number(1, 3);
      a.window.stride[d] = r.number(1, 2);
      a.window.begin[d] = a.window.end[d] = r.number(0, a.window.kernel[d] - 1);
    }
    a.quant.out = r.real_type();
    if (r.chance()) a.act = {ActKind::LeakyRelu, 0.1f};
    const int64_t terms = ic / a.groups * a.window.kernel[0] * a.window.kernel[1];
    const Shape weights{oc, ic / a.groups, a.window.kernel[0], a.window.kernel[1]};
    const std::vector<ValueId> in{net.input(r.real_type(), {n, ic, size, size}),
                                  net.constant(small(r, r.real_type(), weights, terms)),
                                  r.chance() ? net.constant(Dtype::F32, {oc}) : graph::kNoValue};
    ASSERT_NO_FATAL_FAILURE(expect_on_chip(net, net.add(Op::Conv, in, a), seed));
  }
}

TEST(Half, MatrixProducts) {
  for (unsigned seed = 0; seed < share_of(90); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    int64_t m = r.number(1, 40), k = r.number(1, 300), n = r.number(1, 90);
    const int64_t batch = r.number(1, 3);
    if (seed % 10 == 9) k = 30000, n = 64, m = 3;
    graph::MatMulAttrs a;
    a.quant.out = r.real_type();
    const ValueId x = net.input(r.real_type(), {batch, m, k});
    ValueId w = net.constant(small(r, r.real_type(), {k, n}, k));
    if (r.chance()) w = net.add(Op::Binary, {w, net.input(r.real_type(), {batch, 1, n})}, graph::BinaryAttrs{});
    const ValueId bias = r.chance() ? net.constant(Dtype::F32, {n}) : graph::kNoValue;
    // The sum of a product with an operand of that size is as large as sqrt(k).
    const ValueId y = net.add(Op::MatMul, {x, w, bias}, a);
    graph::BinaryAttrs smaller{BinaryKind::Mul};
    smaller.out_type = a.quant.out;
    Tensor factor(Dtype::F32, {1});
    *factor.as<float>() = 1 / std::sqrt(static_cast<float>(k));
    ASSERT_NO_FATAL_FAILURE(
        expect_on_chip(net, net.add(Op::Binary, {y, net.constant(std::move(factor))}, smaller), seed));
  }
}

TEST(Half, ElementWisePoolingsAndSoftmax) {
  for (unsigned seed = 0; seed < share_of(160); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Shape shape{r.number(1, 3), r.number(1, 40), r.number(4, 40), r.number(4, 30)};
    ValueId v = net.input(r.real_type(), shape);
    switch (seed % 4) {
      case 0: {
        graph::BinaryAttrs a;
        a.kind = static_cast<BinaryKind>(r.number(0, 2) == 2 ? 5 : r.number(0, 2));
        a.out_type = r.real_type();
        Shape other = r.chance() ? shape : Shape{1};
        v = net.add(Op::Binary, {v, r.chance() ? net.input(r.real_type(), shape) : net.constant(r.real_type(), other)},
                    a);
        break;
      }
      case 1: {
        constexpr ActKind kKinds[] = {ActKind::Relu, ActKind::Sigmoid, ActKind::Tanh, ActKind::Gelu,
                                      ActKind::HardSwish};
        v = net.add(Op::Transpose, {v}, graph::TransposeAttrs{{0, 2, 3, 1}});
        v = net.add(Op::Unary, {v}, graph::UnaryAttrs{{kKinds[r.number(0, 4)]}});
        break;
      }
      case 2: {
        graph::PoolAttrs a;
        a.max = r.chance();
        a.out_type = r.real_type();
        for (size_t d = 0; d < 2; ++d) a.window.kernel[d] = r.number(1, 4), a.window.stride[d] = r.number(1, 3);
        v = net.add(Op::Pool, {v}, a);
        break;
      }
      default: {
        graph::SoftmaxAttrs a;
        a.axis = static_cast<int>(r.number(1, 3));
        a.out_type = r.real_type();
        v = net.add(Op::Softmax, {v}, a);
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_on_chip(net, v, seed));
  }
}

/// Integers on one side, real numbers of 16 bits on the other.
TEST(Half, BesideIntegers) {
  for (unsigned seed = 0; seed < share_of(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Dtype byte = r.byte_type(), half = r.chance() ? Dtype::F16 : Dtype::BF16;
    const Shape shape{r.number(1, 3), r.number(1, 30), r.number(1, 30)};
    graph::RequantAttrs leave;
    leave.in = r.quant(byte);
    leave.to = half;
    ValueId v = net.add(Op::Requant, {net.input(byte, shape)}, leave);
    graph::BinaryAttrs sum;
    sum.b = r.quant(byte);
    sum.out_type = half;
    v = net.add(Op::Binary, {v, net.input(byte, shape)}, sum);
    graph::RequantAttrs enter;
    enter.out = r.quant(byte);
    enter.to = byte;
    v = net.add(Op::Requant, {v}, enter);
    ASSERT_NO_FATAL_FAILURE(net.expect_same(v, kSizes[seed % 3]));
  }
}

/// The padding of a Pad in 16 bits, views, and a Concat whose parts are made in its place.
TEST(Half, Moves) {
  for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
    Random r(7);
    Net net(r);
    const ValueId x = net.input(half, {2, 6, 9, 11});
    ValueId y = net.add(Op::Pad, {x}, graph::PadAttrs{{0, 0, 1, 2}, {0, 0, 3, 1}, -1.5});
    y = net.add(Op::Transpose, {y}, graph::TransposeAttrs{{0, 3, 1, 2}});
    const ValueId z = net.add(Op::Unary, {y}, graph::UnaryAttrs{{ActKind::Relu}});
    y = net.add(Op::Concat, {y, z}, graph::ConcatAttrs{1});
    ASSERT_NO_FATAL_FAILURE(expect_on_chip(net, y, 0));
  }
}

/// What use_half() makes of a network.
Graph halved(const OnnxBuilder &b, Dtype half) {
  Graph g = import_graph(b.bytes());
  graph::remove_dead(g);
  graph::fuse_activation(g);
  graph::expand_reduce(g);
  graph::use_half(g, half);
  graph::remove_dead(g);
  return g;
}

std::vector<Dtype> types_of(const Graph &g, Op op) {
  std::vector<Dtype> types;
  for (const Node &n : g.nodes)
    if (n.op == op) types.push_back(g[n.output].dtype);
  return types;
}

TEST(UseHalf, WhatLiesBetweenProductsIsHalfAndTheOutputIsNot) {
  OnnxBuilder b;
  std::string x = b.input({1, 8, 16, 16});
  x = b.op("Conv", {x, b.weights({16, 8, 3, 3})});
  x = b.op("Relu", {x});
  x = b.op("Conv", {x, b.weights({4, 16, 1, 1}), b.weights({4})});
  b.output(b.op("Flatten", {x}));
  for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
    const Graph g = halved(b, half);
    EXPECT_EQ(types_of(g, Op::Conv), (std::vector{half, Dtype::F32}));
    EXPECT_EQ(types_of(g, Op::Cast), (std::vector{half}));  // the input
    for (const Node &n : g.nodes)
      if (n.op == Op::Conv) {
        EXPECT_EQ(g[n.inputs[1]].dtype, half);
      }
    EXPECT_EQ(g[g.inputs[0]].dtype, Dtype::F32);
    EXPECT_EQ(g[g.outputs[0]].dtype, Dtype::F32);
  }
}

/// 300 * 300 is no float16: a normalization by the mean of squares keeps them in float32.
TEST(UseHalf, SquaresStaySingle) {
  OnnxBuilder b;
  const std::string x = b.input({4, 64});
  const std::string y = b.op("MatMul", {x, b.weights({64, 64})});
  std::string s = b.op("Mul", {y, y});
  s = b.op("ReduceMean", {s});
  b.attr("axes", std::vector<int64_t>{-1});
  s = b.op("Sqrt", {s});
  b.output(b.op("MatMul", {b.op("Div", {y, s}), b.weights({64, 8})}));
  const Graph g = halved(b, Dtype::F16);
  EXPECT_EQ(types_of(g, Op::Pool), (std::vector{Dtype::F32}));
  EXPECT_EQ(types_of(g, Op::Unary), (std::vector{Dtype::F32}));
  EXPECT_EQ(types_of(g, Op::Binary), (std::vector{Dtype::F32, Dtype::F16}));
  Tensor in(Dtype::F32, {4, 64});
  for (int64_t i = 0; i < in.count(); ++i) in.as<float>()[i] = static_cast<float>(i % 7 - 3) * 1000;
  std::vector<Tensor> out, single;
  ASSERT_TRUE(graph::evaluate_graph(g, {in}, out).ok());
  ASSERT_TRUE(graph::evaluate_graph(import_graph(b.bytes()), {in}, single).ok());
  for (int64_t i = 0; i < out[0].count(); ++i) EXPECT_NEAR(out[0].as<float>()[i], single[0].as<float>()[i], 0.01) << i;
}

TEST(UseHalf, WeightsThatFloat16DoesNotHaveStaySingle) {
  OnnxBuilder b;
  const std::string x = b.input({1, 4});
  const std::string w = b.constant({4, 2}, {1, 2, 3, 4, 5, 6, 7, 70000});
  b.output(b.op("MatMul", {b.op("MatMul", {x, w}), b.weights({2, 2})}));
  Graph g = halved(b, Dtype::F16);
  EXPECT_EQ(g[g.nodes[1].inputs[1]].dtype, Dtype::F32);
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_EQ(g.notes[0], "'" + w + "' stays float32: float16 does not have its numbers");
  g = halved(b, Dtype::BF16);
  EXPECT_EQ(g[g.nodes[1].inputs[1]].dtype, Dtype::BF16);
}

/// Moves that bring such numbers: all that they put together is float32.
TEST(UseHalf, MovesOfNumbersThatFloat16DoesNotHaveStaySingle) {
  for (const bool pad : {false, true}) {
    OnnxBuilder b;
    std::string x = b.op("Conv", {b.input({1, 2, 4, 4}), b.weights({2, 2, 1, 1})});
    if (pad) {
      x = b.op("Pad", {x, b.indices({8}, {0, 0, 1, 1, 0, 0, 1, 1}), b.constant({}, {1e5f})});
    } else {
      x = b.op("Concat", {x, b.constant({1, 1, 4, 4}, std::vector<float>(16, 1e5f))});
      b.attr("axis", int64_t{1});
    }
    b.output(b.op("Conv", {x, b.weights({2, pad ? 2 : 3, 1, 1})}));
    for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
      const Graph g = halved(b, half);
      const Dtype type = half == Dtype::F16 ? Dtype::F32 : half;
      EXPECT_EQ(types_of(g, pad ? Op::Pad : Op::Concat), (std::vector{type}));
      std::vector<Tensor> out;
      Tensor in(Dtype::F32, {1, 2, 4, 4});
      ASSERT_TRUE(graph::evaluate_graph(g, {in}, out).ok());
      EXPECT_TRUE(std::isfinite(out[0].as<float>()[0]));
    }
  }
}

/// A product of integers, and what makes real numbers of its sums.
OnnxBuilder net_of_integers(bool dynamic, float scale_of_w) {
  OnnxBuilder b;
  std::vector<int> numbers(96 * 4);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i * 29 % 41) + 40;
  const std::string w = integers(b, kInt8, {96, 4}, numbers);
  std::string y, scale;
  if (dynamic) {
    const std::string q = b.op("DynamicQuantizeLinear", {b.input({2, 96}, "x")});
    const std::string zero = (scale = b.more_output(), b.more_output());
    y = b.op("MatMulInteger", {q, w, zero});
  } else {
    y = b.op("MatMulInteger", {b.input({2, 96}, "x", kUint8), w, zero_point(b, {1, 3, kUint8})});
  }
  y = b.op("Cast", {y});
  b.attr("to", int64_t{1});
  y = b.op("Mul", {y, dynamic ? b.op("Mul", {scale, b.constant({}, {scale_of_w})}) : b.constant({}, {scale_of_w})});
  // A product, so that what lies in front of it is stored in 16 bits.
  b.output(b.op("MatMul", {b.op("Add", {y, b.constant({4}, {1, 2, 3, 4})}), b.constant({4, 1}, {1, 1, 1, 1})}));
  return b;
}

/// Sums reach 10^6, which is no float16; a zero point that arrives makes the result the difference of two of them.
/// Extremes and scales may be what float16 does not have.
TEST(UseHalf, SumsOfIntegersStaySingle) {
  for (const double size : {0.0, 1.0, 1e5, 1e-6}) {
    const bool dynamic = size > 0;
    SCOPED_TRACE(size);
    const OnnxBuilder b = net_of_integers(dynamic, dynamic ? static_cast<float>(0.1 / size) : 1e-4f);
    Tensor in(dynamic ? Dtype::F32 : Dtype::U8, {2, 96});
    for (int64_t i = 0; i < in.count(); ++i)
      cpu::store(in, i,
                 dynamic ? (i % 48 == 5   ? -size
                            : i % 48 == 6 ? 3e-3 * size
                                          : 0)
                         : static_cast<double>(200 + i % 50));
    std::vector<Tensor> single, out;
    ASSERT_TRUE(graph::evaluate_graph(import_graph(b.bytes()), {in}, single).ok());
    for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
      const Graph g = halved(b, half);
      ASSERT_TRUE(graph::evaluate_graph(g, {in}, out).ok());
      EXPECT_TRUE(g.notes.empty() || g.notes[0].find("stays float32") == std::string::npos) << g.notes[0];
      bool any = false;
      for (const Node &n : g.nodes) any = any || (n.op == Op::Binary && g[n.output].dtype == half);
      EXPECT_TRUE(any) << "nothing is stored in 16 bits";
      for (int64_t i = 0; i < out[0].count(); ++i)
        EXPECT_NEAR(out[0].as<float>()[i], single[0].as<float>()[i],
                    std::fabs(single[0].as<float>()[i]) * step_of(half));
    }
  }
}

/// What the CPU computes takes float32.
TEST(UseHalf, OperatorsOfTheCpuGetSingles) {
  OnnxBuilder b;
  std::string x = b.input({4, 32});
  x = b.op("Relu", {b.op("MatMul", {x, b.weights({32, 32})})});
  x = b.op("Atan", {x});
  b.output(b.op("MatMul", {x, b.weights({32, 8})}));
  const Graph g = halved(b, Dtype::F16);
  for (const Node &n : g.nodes)
    if (n.op == Op::Unary) {
      EXPECT_EQ(g[n.inputs[0]].dtype, Dtype::F32);
    }
  // The product in front stores float32 itself.
  EXPECT_EQ(types_of(g, Op::Cast), (std::vector{Dtype::F16, Dtype::F16}));
}

}  // namespace
}  // namespace npu::test
