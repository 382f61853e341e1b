// SPDX-License-Identifier: MIT
// What the importer makes of quantized operators: the graph as text, results against numbers worked out by hand and
// against the same networks whose scales arrive at run time, and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "compiler/api/npuc.h"
#include "compiler/graph/evaluate.h"
#include "compiler/graph/print.h"
#include "compiler/graph/quantized_constant.h"
#include "runtime/cpu/element.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;

graph::Graph import(const OnnxBuilder &b) { return import_graph(b.bytes()); }

std::vector<Tensor> evaluate(const graph::Graph &g, const std::vector<Tensor> &inputs) {
  std::vector<Tensor> out;
  EXPECT_EQ(graph::evaluate_graph(g, inputs, out).message(), "");
  return out;
}

std::vector<double> numbers(const Tensor &t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(cpu::load(t, i));
  return out;
}

std::vector<double> run(const OnnxBuilder &b, const std::vector<Tensor> &inputs) {
  const std::vector<Tensor> out = evaluate(import(b), inputs);
  return out.empty() ? std::vector<double>() : numbers(out[0]);
}

Tensor tensor(Dtype type, const Shape &shape, const std::vector<double> &values) {
  Tensor t(type, shape);
  for (size_t i = 0; i < values.size(); ++i) cpu::store(t, static_cast<int64_t>(i), values[i]);
  return t;
}

std::string message(const OnnxBuilder &b) {
  compiler::Compiled out;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, out).message();
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// The graph.

TEST(QuantizeImport, KnownScalesMakeARequant) {
  OnnxBuilder b;
  b.output(rounded(b, b.input({2, 3}, "x"), {0.5f, 3, kUint8}));
  EXPECT_EQ(node_lines(import(b)),
            "t2: uint8 [2, 3] = Requant(x) out_quant=0.5@3 to=uint8\n"
            "t4: float32 [2, 3] = Requant(t2) in_quant=0.5@3\n"
            "output t4 = t4\n");
}

/// A program learns from the .bmodel what the integers of inputs and outputs stand for.
TEST(QuantizeImport, TensorsOfTheNetworkHaveTheirScales) {
  OnnxBuilder b;
  const Scaled in{0.25f, 7, kUint8}, result{0.5f, -3, kInt8};
  const std::string real = dequantize(b, b.input({1, 4}, "x", kUint8), in);
  b.output(quantize(b, b.op("Add", {real, real}), result));
  b.output(b.op("Relu", {real}));
  compiler::Compiled out;
  const std::string file = b.bytes();
  ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), {}, out).message(), "");
  const bmodel::StageDesc &stage = out.net.stages[0];
  // Of inputs what numbers are multiplied by, as the vendor's compiler writes it.
  EXPECT_EQ(stage.inputs[0].scale, 1 / in.scale);
  EXPECT_EQ(stage.inputs[0].step, in.scale);
  EXPECT_EQ(stage.inputs[0].zero_point, in.zero);
  EXPECT_EQ(stage.outputs[0].scale, result.scale);
  EXPECT_EQ(stage.outputs[0].step, result.scale);
  EXPECT_EQ(stage.outputs[0].zero_point, result.zero);
  EXPECT_EQ(stage.outputs[1].scale, 1.0f);
  EXPECT_EQ(stage.outputs[1].step, 0.0f);
  EXPECT_EQ(stage.outputs[1].zero_point, 0);
}

TEST(QuantizeImport, SixteenBitsAreARequantToo) {
  OnnxBuilder b(21);
  b.output(rounded(b, b.input({2}, "x"), {0.5f, -7, onnx::TensorProto::INT16}));
  EXPECT_SAYS(graph::to_text(import(b)), "int16 [2] = Requant(x) out_quant=0.5@-7 to=int16");
}

TEST(QuantizeImport, ScalesThatArriveOrGoAlongAnAxisAreComputedWith) {
  OnnxBuilder late, several;
  late.output(late.op("QuantizeLinear", {late.input({2}, "x"), late.input({}, "scale")}));
  several.output(several.op("QuantizeLinear", {several.input({2, 2}, "x"), several.floats({1, 2})}));
  several.attr("axis", int64_t{0});
  for (const OnnxBuilder *b : {&late, &several}) {
    EXPECT_SAYS(graph::to_text(import(*b)), "kind=Div");
    EXPECT_EQ(graph::to_text(import(*b)).find("Requant"), std::string::npos);
  }
}

const graph::QuantizedConstant *integers_of_second_operand(const graph::Graph &g) {
  return g[g.nodes.back().inputs[1]].quantized.get();
}

TEST(QuantizeImport, WeightsKeepTheirIntegersWhileTheyMove) {
  OnnxBuilder b;
  const std::string w = integers(b, kInt8, {2, 3}, {1, 2, 3, -4, -5, -6});
  const std::string real = b.op("DequantizeLinear", {w, b.floats({0.5f, 2})});
  b.attr("axis", int64_t{0});
  b.output(b.op("Gemm", {b.input({1, 3}), real}));
  b.attr("transB", int64_t{1});
  const graph::Graph g = import(b);
  const graph::QuantizedConstant *q = integers_of_second_operand(g);
  ASSERT_TRUE(q);
  EXPECT_EQ(graph::shape_text(q->integers->shape), "[3, 2]");
  EXPECT_EQ(numbers(*q->integers), (std::vector<double>{1, -4, 2, -5, 3, -6}));
  EXPECT_EQ(q->scales, (std::vector<float>{0.5f, 2}));
  EXPECT_EQ(q->axis, 1u);
  EXPECT_EQ(numbers(*g[g.nodes.back().inputs[1]].constant), (std::vector<double>{0.5, -8, 1, -10, 1.5, -12}));
}

TEST(QuantizeImport, WeightsThatAreReshapedKeepTheirAxis) {
  const auto axis_behind = [](const std::vector<int64_t> &shape) -> int {
    OnnxBuilder b;
    const std::string w = integers(b, kInt8, {2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    const std::string real = b.op("DequantizeLinear", {w, b.floats({0.5f, 2})});
    b.attr("axis", int64_t{0});
    b.output(b.op("Add", {b.input({1}), b.op("Reshape", {real, b.ints(shape)})}));
    const graph::Graph g = import(b);
    const graph::QuantizedConstant *q = integers_of_second_operand(g);
    return q ? static_cast<int>(q->axis) : -1;
  };
  EXPECT_EQ(axis_behind({2, 2, 3}), 0);
  EXPECT_EQ(axis_behind({1, 2, 6}), 1);
  EXPECT_EQ(axis_behind({3, 4}), -1) << "rows of both scales";
  EXPECT_EQ(axis_behind({12}), -1);
}

TEST(QuantizeImport, WeightsThatAreCutKeepTheirIntegersWhereTheirScalesAreWhole) {
  /// From, to and step of an axis, of which row 0 and row 1 have scales of their own.
  const auto keeps = [](int64_t axis, int64_t from, int64_t to, int64_t step) {
    OnnxBuilder b;
    const std::string w = integers(b, kInt8, {2, 3}, {1, 2, 3, 4, 5, 6});
    const std::string real = b.op("DequantizeLinear", {w, b.floats({0.5f, 2})});
    b.attr("axis", int64_t{0});
    b.output(b.op("Add",
                  {b.input({1}), b.op("Slice", {real, b.ints({from}), b.ints({to}), b.ints({axis}), b.ints({step})})}));
    return integers_of_second_operand(import(b)) != nullptr;
  };
  EXPECT_TRUE(keeps(1, 1, 3, 1));
  EXPECT_TRUE(keeps(1, 2, -100, -1));
  EXPECT_FALSE(keeps(0, 1, -100, -1)) << "back to front";
  EXPECT_FALSE(keeps(0, 1, 2, 1)) << "one of them";
}

TEST(QuantizeImport, WeightsOfFourBitsKeepTheirIntegers) {
  OnnxBuilder b(21);
  onnx::TensorProto &w = *b.model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(22);  // int4
  w.add_dims(3);
  w.set_raw_data(std::string("\xf1\x08", 2));  // 1, -1, -8
  b.output(b.op("Add", {b.input({3}), b.op("DequantizeLinear", {"w", b.scalar(2)})}));
  const graph::Graph g = import(b);
  ASSERT_TRUE(integers_of_second_operand(g));
  EXPECT_EQ(numbers(*integers_of_second_operand(g)->integers), (std::vector<double>{1, -1, -8}));
}

TEST(QuantizeImport, ASingleZeroPoint) {
  const auto single = [](const Tensor &integers, std::vector<int32_t> zeros, size_t axis, int32_t &zero) {
    return graph::with_single_zero(std::make_shared<Tensor>(integers), zeros, axis, zero);
  };
  int32_t zero = 99;
  const Tensor w = tensor(Dtype::U8, {2, 2}, {128, 255, 0, 1});
  graph::TensorPtr found = single(w, {128}, 0, zero);
  ASSERT_TRUE(found);
  EXPECT_EQ(graph::kind_text(*found), "int8 [2, 2]");
  EXPECT_EQ(numbers(*found), (std::vector<double>{0, 127, -128, -127}));
  EXPECT_EQ(zero, 0);
  found = single(w, {127}, 0, zero);  // 128 is no int8
  ASSERT_TRUE(found);
  EXPECT_EQ(graph::kind_text(*found), "uint8 [2, 2]");
  EXPECT_EQ(zero, 127);
  found = single(w, {200, 100}, 0, zero);  // of rows
  ASSERT_TRUE(found);
  EXPECT_EQ(numbers(*found), (std::vector<double>{-72, 55, -100, -99}));
  EXPECT_EQ(single(w, {200, 100}, 1, zero), nullptr) << "0 - 200";
}

TEST(QuantizeImport, ProductsAreOneOperator) {
  OnnxBuilder b;
  const auto scale = [&](float v) { return b.scalar(v); };
  b.output(b.op("QLinearConv",
                {b.input({1, 1, 4, 4}, "x", kUint8), scale(0.5f), zero_point(b, {1, 3, kUint8}),
                 integers(b, kInt8, {2, 1, 1, 1}, {1, 2}), b.floats({0.25f, 1}), integers(b, kInt8, {2}, {0, 0}),
                 scale(2), zero_point(b, {1, -5, kInt8}), b.ints32({10, 20})}));
  EXPECT_EQ(node_lines(import(b)),
            "t5: int8 [1, 2, 4, 4] = Conv(x, q3, i4, #9) quantized=true x_zero=3 out_zero=-5 out=int8\n"
            "output t5 = t5\n");
  OnnxBuilder m;
  m.output(m.op("MatMulInteger", {m.input({2, 3}, "a", kUint8), m.input({3, 2}, "b", kInt8),
                                  zero_point(m, {1, 200, kUint8}), zero_point(m, {1, -1, kInt8})}));
  EXPECT_EQ(node_lines(import(m)),
            "t1: int32 [2, 2] = MatMul(a, b, -) quantized=true x_zero=200 w_zero=-1 out=int32\n"
            "output t1 = t1\n");
}

// Operators whose scales and zero points are known against the same with all of them as inputs.

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : random_(seed) {}
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance() { return random_() & 1; }
  int type() { return chance() ? kInt8 : kUint8; }
  float scale() { return static_cast<float>(from(1, 4000)) / 65536; }
  std::vector<double> bytes(int type, int64_t n) {
    std::vector<double> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<double>(type == kInt8 ? from(-128, 127) : from(0, 255)));
    return out;
  }

 private:
  std::mt19937 random_;
};

/// A network of one node. Each operand is an input, or, `known`, an initializer; the first is always an input.
class OneNode {
 public:
  explicit OneNode(bool known) : known_(known) {}

  void operand(int type, const Shape &shape, const std::vector<double> &values, bool always_input = false) {
    const bool is_float = type == onnx::TensorProto::FLOAT;
    if (!known_ || names_.empty() || always_input) {
      names_.push_back(b.input(shape, "in" + std::to_string(names_.size()), type));
      inputs_.push_back(tensor(static_cast<Dtype>(type), shape, values));
    } else if (is_float) {
      names_.push_back(b.constant(shape, {values.begin(), values.end()}));
    } else {
      std::vector<int> whole;
      for (double v : values) whole.push_back(static_cast<int>(v));
      names_.push_back(integers(b, type, shape, whole));
    }
  }

  std::vector<double> run(const std::string &type, const std::function<void(OnnxBuilder &)> &attributes) {
    const std::string y = b.op(type, names_);
    attributes(b);
    b.output(y);
    graph_ = import(b);
    return numbers(evaluate(graph_, inputs_).at(0));
  }

  OnnxBuilder b;
  graph::Graph graph_;

 private:
  bool known_;
  std::vector<std::string> names_;
  std::vector<Tensor> inputs_;
};

struct Operand {
  int type;
  Shape shape;
  std::vector<double> values;
  bool always_input = false;
};

/// Both forms give the same; the known one is a single node (and reshapes, where vectors are matrices).
void expect_same(
    const std::string &type, const std::vector<Operand> &operands,
    const std::function<void(OnnxBuilder &)> &attributes = [](OnnxBuilder &) {}) {
  OneNode known(true), late(false);
  for (const Operand &o : operands)
    for (OneNode *n : {&known, &late}) n->operand(o.type, o.shape, o.values, o.always_input);
  EXPECT_EQ(known.run(type, attributes), late.run(type, attributes)) << type;
  size_t others = 0;
  for (const graph::Node &n : known.graph_.nodes) others += n.op != graph::Op::Reshape;
  EXPECT_EQ(others, 1u) << node_lines(known.graph_);
  EXPECT_TRUE(std::any_of(known.graph_.nodes.begin(), known.graph_.nodes.end(), graph::is_quantized));
}

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt32 = onnx::TensorProto::INT32;

TEST(QuantizeImport, QLinearConvIsWhatItsStepsAre) {
  Numbers r(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t groups = r.from(1, 2), inner = r.from(1, 3), outer = groups * r.from(1, 2), k = r.from(1, 3);
    const bool line = r.chance(), vector = r.chance();
    const Shape x = line ? Shape{1, groups * inner, 9} : Shape{2, groups * inner, 5, 6};
    const Shape w = line ? Shape{outer, inner, k} : Shape{outer, inner, k, k};
    const int xt = r.type(), wt = r.type(), yt = r.type();
    std::vector<double> scales, zeros, bias;
    const double zero = r.bytes(wt, 1)[0];
    for (int64_t i = 0; i < (vector ? outer : 1); ++i) {
      scales.push_back(r.scale());
      zeros.push_back(zero);
    }
    const Shape per = vector ? Shape{outer} : Shape{};
    for (int64_t i = 0; i < outer; ++i) bias.push_back(static_cast<double>(r.from(-3000, 3000)));
    std::vector<Operand> operands{{xt, x, r.bytes(xt, graph::element_count(x))},
                                  {kFloat, {}, {r.scale()}},
                                  {xt, {}, r.bytes(xt, 1)},
                                  {wt, w, r.bytes(wt, graph::element_count(w)), r.chance()},
                                  {kFloat, per, scales},
                                  {wt, per, zeros},
                                  {kFloat, {1}, {r.scale() * 64}},
                                  {yt, {1}, r.bytes(yt, 1)}};
    if (r.chance()) operands.push_back({kInt32, {outer}, bias, r.chance()});
    const int64_t stride = r.from(1, 2), dilation = r.from(1, 2);
    const bool padded = r.chance();
    expect_same("QLinearConv", operands, [&](OnnxBuilder &b) {
      b.attr("group", groups);
      b.attr("strides", std::vector<int64_t>(w.size() - 2, stride));
      b.attr("dilations", std::vector<int64_t>(w.size() - 2, dilation));
      if (padded) b.attr("auto_pad", "SAME_UPPER");
    });
  }
}

TEST(QuantizeImport, ConvIntegerIsWhatItsStepsAre) {
  Numbers r(2);
  for (int round = 0; round < 20; ++round) {
    const int xt = r.type(), wt = r.type();
    std::vector<Operand> operands{{xt, {1, 3, 6, 5}, r.bytes(xt, 90)}, {wt, {2, 3, 3, 2}, r.bytes(wt, 36)}};
    if (r.chance()) operands.push_back({xt, {}, r.bytes(xt, 1)});
    if (operands.size() == 3 && r.chance()) operands.push_back({wt, {}, r.bytes(wt, 1)});
    expect_same("ConvInteger", operands, [&](OnnxBuilder &b) { b.attr("pads", std::vector<int64_t>{1, 0, 2, 1}); });
  }
}

TEST(QuantizeImport, MatrixProductsAreWhatTheirStepsAre) {
  Numbers r(3);
  for (int round = 0; round < 60; ++round) {
    const int64_t m = r.from(1, 4), k = r.from(1, 40), n = r.from(1, 5);
    const int at = r.type(), bt = r.type(), yt = r.type();
    const Shape a = r.chance() ? Shape{k} : r.chance() ? Shape{m, k} : Shape{2, m, k};
    const Shape b = r.chance() ? Shape{k, n} : r.chance() ? Shape{1, k, n} : Shape{k};
    const bool columns = b.size() == 2 && r.chance();
    std::vector<double> scales;
    for (int64_t i = 0; i < (columns ? n : 1); ++i) scales.push_back(r.scale());
    const Operand left{at, a, r.bytes(at, graph::element_count(a))};
    const Operand right{bt, b, r.bytes(bt, graph::element_count(b)), r.chance()};
    const Operand left_zero{at, {}, r.bytes(at, 1)}, right_zero{bt, {}, r.bytes(bt, 1)};
    if (a.size() == 1 && b.size() == 1) continue;  // a scalar: ONNX Runtime does not take it
    expect_same("MatMulInteger", {left, right, left_zero, right_zero});
    expect_same("QLinearMatMul", {left,
                                  {kFloat, {}, {r.scale()}},
                                  left_zero,
                                  right,
                                  {kFloat, columns ? Shape{n} : Shape{}, scales},
                                  right_zero,
                                  {kFloat, {}, {r.scale() * 64}},
                                  {yt, {}, r.bytes(yt, 1)}});
  }
}

TEST(QuantizeImport, ZeroPointsOfChannels) {
  // Channel 0: 2 * (3 - 1) = 4, channel 1: 2 * (200 - 100) = 200, at scale 1 each.
  const auto network = [](const std::vector<int> &weights) {
    OnnxBuilder b;
    b.output(b.op("ConvInteger", {b.input({1, 1, 1}, "x", kUint8), integers(b, kUint8, {2, 1, 1}, weights),
                                  zero_point(b, {1, 0, kUint8}), integers(b, kUint8, {2}, {1, 100})}));
    return b;
  };
  const Tensor x = tensor(Dtype::U8, {1, 1, 1}, {2});
  EXPECT_EQ(run(network({3, 200}), {x}), (std::vector<double>{4, 200}));
  EXPECT_EQ(import(network({3, 200})).nodes.size(), 1u);
  EXPECT_EQ(run(network({255, 200}), {x}), (std::vector<double>{508, 200})) << "254 is no int8";
  EXPECT_GT(import(network({255, 200})).nodes.size(), 1u);
}

/// As float32 the sums are a product of the chip; as int32, which the same operator also has to be, they are computed
/// step by step.
TEST(QuantizeImport, ZeroPointsThatArriveAreTakenFromTheSums) {
  Numbers r(11);
  int late = 0;
  for (int round = 0; round < 60; ++round) {
    const bool conv = r.chance(), line = r.chance(), vectors = r.chance();
    const int xt = r.type(), wt = r.type();
    const int64_t groups = conv ? r.from(1, 2) : 1, n = groups * r.from(1, 3), k = r.from(1, 30);
    const Dims x = conv         ? line ? Dims{2, 2 * groups, 7} : Dims{1, 2 * groups, 5, 6}
                           : r.chance() ? Dims{k}
                                : Dims{2, 3, k};
    const Dims w = conv ? line ? Dims{n, 2, 3} : Dims{n, 2, 3, 2} : Dims{k, n};
    OnnxBuilder b;
    std::vector<int> weights, zeros;
    for (const double v : r.bytes(wt, graph::element_count(w))) weights.push_back(static_cast<int>(v));
    for (const double v : r.bytes(wt, vectors ? n : 1)) zeros.push_back(static_cast<int>(v));
    const std::string y = b.op(conv ? "ConvInteger" : "MatMulInteger",
                               {b.input(x, "x", xt), integers(b, wt, w, weights), b.input({}, "zero", xt),
                                integers(b, wt, vectors ? Dims{n} : Dims{}, zeros)});
    if (conv) b.attr("group", groups);
    const int64_t padding = conv ? r.from(0, 3) : 0;
    if (padding == 1) b.attr("pads", line ? Dims{1, 2} : Dims{1, 0, 2, 1});
    if (padding > 1) b.attr("auto_pad", padding == 2 ? "SAME_UPPER" : "SAME_LOWER");
    if (conv && r.chance()) b.attr("strides", line ? Dims{2} : Dims{2, 1});
    if (conv && r.chance()) b.attr("dilations", line ? Dims{2} : Dims{1, 2});
    const std::string real = b.op("Cast", {y});
    b.attr("to", int64_t{kFloat});
    b.output(y).output(real);
    const graph::Graph g = import(b);
    const Dtype type = static_cast<Dtype>(xt);
    const std::vector<Tensor> inputs{tensor(type, x, r.bytes(xt, graph::element_count(x))),
                                     tensor(type, {}, r.bytes(xt, 1))};
    const std::vector<Tensor> out = evaluate(g, inputs);
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(numbers(out[0]), numbers(out[1])) << node_lines(g);
    late += node_lines(g).find(xt == kUint8 ? "x_zero=128" : "quantized=true") != std::string::npos;
  }
  EXPECT_GT(late, 30) << "others have zero points that are too different for int8";
}

/// Padding that is the zero point costs no coefficients, however large the picture is.
TEST(QuantizeImport, PicturesWithAZeroPointThatArrivesArePadded) {
  OnnxBuilder b;
  const std::string y = b.op("ConvInteger", {b.input({1, 3, 224, 224}, "x", kUint8),
                                             integers(b, kInt8, {64, 3, 7, 7}, std::vector<int>(64 * 3 * 49, 3)),
                                             b.input({}, "zero", kUint8)});
  b.attr("pads", Dims{3, 3, 3, 3});
  b.attr("strides", Dims{2, 2});
  const std::string real = b.op("Cast", {y});
  b.attr("to", int64_t{kFloat});
  b.output(real);
  const graph::Graph g = import(b);
  EXPECT_SAYS(node_lines(g), "x_zero=128");
  for (const graph::Value &v : g.values)
    if (v.constant) {
      EXPECT_LE(v.constant->count(), 64 * 3 * 49);
    }
}

TEST(QuantizeImport, SumsThatFloat32CannotHoldAreNotTaken) {
  for (const int64_t k : {1032, 1033}) {  // 128 * 127 * 1032 = 16776192 < 2^24
    OnnxBuilder b;
    const std::string y =
        b.op("MatMulInteger", {b.input({1, k}, "x", kUint8), integers(b, kInt8, {k, 1}, std::vector<int>(k, 127)),
                               b.input({}, "zero", kUint8), zero_point(b, {1, 0, kInt8})});
    const std::string real = b.op("Cast", {y});
    b.attr("to", int64_t{kFloat});
    b.output(real);
    EXPECT_EQ(node_lines(import(b)).find("quantized=true") != std::string::npos, k == 1032);
    EXPECT_EQ(run(b, {tensor(Dtype::U8, {1, k}, std::vector<double>(k, 255)), tensor(Dtype::U8, {}, {1})}),
              (std::vector<double>{static_cast<double>(static_cast<float>(254 * 127 * k))}));
  }
}

/// As ONNX Runtime has it; the formula of ONNX divides zero by zero.
TEST(QuantizeImport, ScaleOfNothingButZerosIsOne) {
  OnnxBuilder b;
  b.output(b.op("DynamicQuantizeLinear", {b.input({3}, "x")}));
  const std::string scale = b.more_output(), zero = b.more_output();
  b.output(scale).output(zero);
  const auto results = [&](const std::vector<double> &x) {
    std::vector<std::vector<double>> all;
    for (const Tensor &t : evaluate(import(b), {tensor(Dtype::F32, {3}, x)})) all.push_back(numbers(t));
    return all;
  };
  EXPECT_EQ(results({0, 0, 0}), (std::vector<std::vector<double>>{{0, 0, 0}, {1}, {0}}));
  EXPECT_EQ(results({0, -255, 0}), (std::vector<std::vector<double>>{{255, 0, 255}, {1}, {255}}));
}

TEST(QuantizeImport, VolumesAreComputedInSteps) {
  OnnxBuilder b;
  b.output(b.op("ConvInteger", {b.input({1, 1, 2, 2, 2}, "x", kUint8),
                                integers(b, kUint8, {1, 1, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1})}));
  EXPECT_EQ(run(b, {tensor(Dtype::U8, {1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}), (std::vector<double>{36}));
}

TEST(QuantizeImport, MaximaOfIntegersStayIntegers) {
  OnnxBuilder b;
  b.output(b.op("MaxPool", {b.input({1, 1, 1, 3}, "x", kInt8)}));
  b.attr("kernel_shape", std::vector<int64_t>{1, 2});
  EXPECT_SAYS(node_lines(import(b)), "int8 [1, 1, 1, 2] = Pool(x)");
  EXPECT_EQ(run(b, {tensor(Dtype::I8, {1, 1, 1, 3}, {-5, -7, 3})}), (std::vector<double>{-5, 3}));
}

// Operators of ONNX Runtime.

TEST(MicrosoftImport, ElementByElement) {
  // (20 - 10) * 0.5 = 5, (4 - 0) * 0.25 = 1; their sum by 0.1 is 60, their product 50.
  const auto network = [](const char *type) {
    OnnxBuilder b;
    b.output(
        microsoft(b, type,
                  {b.input({1}, "a", kUint8), b.scalar(0.5f), zero_point(b, {1, 10, kUint8}), b.input({1}, "b", kUint8),
                   b.scalar(0.25f), "", b.scalar(0.1f), zero_point(b, {1, 3, kUint8})}));
    return b;
  };
  const std::vector<Tensor> inputs{tensor(Dtype::U8, {1}, {20}), tensor(Dtype::U8, {1}, {4})};
  EXPECT_EQ(run(network("QLinearAdd"), inputs), (std::vector<double>{63}));
  EXPECT_EQ(run(network("QLinearMul"), inputs), (std::vector<double>{53}));
}

TEST(MicrosoftImport, FunctionsOfOneOperand) {
  const auto network = [](const char *type, float out_scale) {
    OnnxBuilder b;
    b.output(microsoft(b, type,
                       {b.input({4}, "x", kInt8), b.scalar(0.5f), zero_point(b, {1, 2, kInt8}), b.scalar(out_scale),
                        zero_point(b, {1, -128, kInt8})}));
    return b;
  };
  const Tensor x = tensor(Dtype::I8, {4}, {2, 4, 0, 127});  // 0, 1, -1, 62.5
  EXPECT_EQ(run(network("QLinearSigmoid", 1 / 256.f), {x}), (std::vector<double>{0, 59, -59, 127}));
  OnnxBuilder leaky = network("QLinearLeakyRelu", 0.25f);
  leaky.attr("alpha", 0.75f);
  EXPECT_EQ(run(leaky, {x}), (std::vector<double>{-128, -124, -128, 122}));
  OnnxBuilder b;
  b.output(microsoft(b, "QLinearSigmoid", {b.input({1}, "x", kInt8), b.scalar(1), "", b.scalar(1 / 64.f)}));
  EXPECT_EQ(run(b, {tensor(Dtype::I8, {1}, {0})}), (std::vector<double>{32})) << "without zero points";
}

TEST(MicrosoftImport, Softmax) {
  // With an axis in the middle, of the version where the dimensions behind it are one with it, and of the later one.
  const auto network = [](int64_t opset) {
    OnnxBuilder b;
    b.output(microsoft(b, "QLinearSoftmax",
                       {b.input({1, 2, 2}, "x", kUint8), b.scalar(1), zero_point(b, {1, 0, kUint8}),
                        b.scalar(1 / 256.f), zero_point(b, {1, 0, kUint8})}));
    b.attr("axis", int64_t{1}).attr("opset", opset);
    return b;
  };
  const Tensor x = tensor(Dtype::U8, {1, 2, 2}, {7, 7, 7, 7});
  EXPECT_EQ(run(network(11), {x}), (std::vector<double>{64, 64, 64, 64}));
  EXPECT_EQ(run(network(13), {x}), (std::vector<double>{128, 128, 128, 128}));
}

TEST(MicrosoftImport, Averages) {
  const Scaled in{0.5f, 4, kUint8}, out{0.25f, 0, kUint8};
  for (const bool last : {false, true}) {
    OnnxBuilder b, global;
    for (OnnxBuilder *n : {&b, &global}) {
      const std::vector<std::string> inputs{n->input(last ? Dims{1, 1, 2, 2} : Dims{1, 2, 1, 2}, "x", kUint8),
                                            n->scalar(in.scale), zero_point(*n, in), n->scalar(out.scale),
                                            zero_point(*n, out)};
      n->output(microsoft(*n, n == &b ? "QLinearAveragePool" : "QLinearGlobalAveragePool", inputs));
      n->attr("channels_last", int64_t{last});
    }
    b.attr("kernel_shape", std::vector<int64_t>{1, 2});
    // Channels 6 and 8, 10 and 12: averages 7 - 4 = 3 and 7, times 0.5 by 0.25.
    const Tensor x =
        last ? tensor(Dtype::U8, {1, 1, 2, 2}, {6, 10, 8, 12}) : tensor(Dtype::U8, {1, 2, 1, 2}, {6, 8, 10, 12});
    EXPECT_EQ(run(b, {x}), (std::vector<double>{6, 14})) << last;
    EXPECT_EQ(run(global, {x}), (std::vector<double>{6, 14})) << last;
  }
}

TEST(MicrosoftImport, Concat) {
  OnnxBuilder b;
  b.output(microsoft(
      b, "QLinearConcat",
      {b.scalar(0.5f), zero_point(b, {1, 10, kUint8}), b.input({1}, "a", kUint8), b.scalar(1),
       zero_point(b, {1, 0, kUint8}), b.input({2}, "b", kUint8), b.scalar(0.5f), zero_point(b, {1, 10, kUint8})}));
  b.attr("axis", int64_t{0});
  EXPECT_EQ(run(b, {tensor(Dtype::U8, {1}, {3}), tensor(Dtype::U8, {2}, {3, 250})}), (std::vector<double>{16, 3, 250}));
}

TEST(MicrosoftImport, Gemm) {
  // a is (1, 2) * 0.5; rows of b (3, 4) with scale 1, (5, 6) with scale 2: products 5.5, 17; bias 2 * 0.5, 3 * 1.
  const auto network = [](bool to_float, float alpha) {
    OnnxBuilder b;
    std::vector<std::string> inputs{b.input({2, 1}, "a", kUint8),
                                    b.scalar(0.5f),
                                    zero_point(b, {1, 1, kUint8}),
                                    integers(b, kInt8, {2, 2}, {3, 4, 5, 6}),
                                    b.floats({1, 2}),
                                    integers(b, kInt8, {2}, {0, 0}),
                                    integers(b, kInt32, {2}, {2, 3})};
    if (!to_float) inputs.insert(inputs.end(), {b.scalar(0.5f), zero_point(b, {1, 0, kUint8})});
    b.output(microsoft(b, "QGemm", inputs));
    b.attr("transA", int64_t{1}).attr("transB", int64_t{1}).attr("alpha", alpha);
    return b;
  };
  const Tensor a = tensor(Dtype::U8, {2, 1}, {2, 3});
  EXPECT_EQ(run(network(true, 1), {a}), (std::vector<double>{6.5, 20}));
  EXPECT_EQ(run(network(true, 2), {a}), (std::vector<double>{13, 40}));
  EXPECT_EQ(run(network(false, 1), {a}), (std::vector<double>{13, 40}));
}

TEST(MicrosoftImport, MatrixProductsToFloat) {
  OnnxBuilder b, late;
  for (OnnxBuilder *n : {&b, &late})
    n->output(microsoft(
        *n, "MatMulIntegerToFloat",
        {n->input({1, 2}, "a", kUint8), integers(*n, kInt8, {2, 2}, {1, 2, 3, 4}), n->scalar(0.5f), n->floats({1, 2}),
         n == &b ? zero_point(*n, {1, 1, kUint8}) : n->input({}, "zero", kUint8), "", n->floats({10, 20})}));
  const Tensor a = tensor(Dtype::U8, {1, 2}, {2, 4});  // 1, 3: products 10, 14
  EXPECT_EQ(run(b, {a}), (std::vector<double>{15, 34}));
  EXPECT_EQ(run(late, {a, tensor(Dtype::U8, {}, {1})}), (std::vector<double>{15, 34}));
  EXPECT_SAYS(node_lines(import(b)), "MatMul(a, q1, -, #6) quantized=true x_zero=1");
  OnnxBuilder dynamic;
  dynamic.output(microsoft(dynamic, "DynamicQuantizeMatMul",
                           {dynamic.input({1, 2}, "a"), integers(dynamic, kInt8, {2, 1}, {3, 5}), dynamic.scalar(0.5f),
                            zero_point(dynamic, {1, 1, kInt8}), dynamic.floats({100})}));
  // From -1 to 254 is a scale of 1, -1 and 254 as they are: (-1 * 2 + 254 * 4) * 0.5 + 100
  EXPECT_EQ(run(dynamic, {tensor(Dtype::F32, {1, 2}, {-1, 254})}), (std::vector<double>{607}));
}

TEST(MicrosoftImport, QuantizeOf16Bits) {
  OnnxBuilder b;
  const Scaled q{0.5f, -1000, onnx::TensorProto::INT16};
  const std::string y = microsoft(b, "QuantizeLinear", {b.input({2}, "x"), b.scalar(q.scale), zero_point(b, q)});
  b.output(microsoft(b, "DequantizeLinear", {y, b.scalar(q.scale), zero_point(b, q)}));
  EXPECT_EQ(run(b, {tensor(Dtype::F32, {2}, {3.3, 1e6})}), (std::vector<double>{3.5, 16883.5}));
}

// Errors.

TEST(QuantizeErrors, Scales) {
  for (const auto &[scale, found] :
       {std::pair(0.f, "is 0.000000"), {-1.f, "is -1.000000"}, {NAN, "is nan"}, {INFINITY, "is inf"}}) {
    OnnxBuilder q, d, c;
    q.output(q.op("QuantizeLinear", {q.input({2}), q.scalar(scale)}));
    EXPECT_SAYS(message(q), "QuantizeLinear 'QuantizeLinear_0': scale 's2': element 0 " + std::string(found) +
                                ", expected numbers above 0 that are finite");
    d.output(
        d.op("Add", {d.input({2}), d.op("DequantizeLinear", {integers(d, kInt8, {2}, {1, 2}), d.floats({1, scale})})}));
    d.model.mutable_graph()->mutable_node(0)->mutable_attribute()->Add()->CopyFrom([] {
      onnx::AttributeProto a;
      a.set_name("axis");
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(0);
      return a;
    }());
    EXPECT_SAYS(message(d), "DequantizeLinear 'DequantizeLinear_0': scale 'c2': element 1 " + std::string(found));
    c.output(c.op("QLinearMatMul",
                  {c.input({1, 2}, "a", kInt8), c.scalar(1), zero_point(c, {}), integers(c, kInt8, {2, 1}, {1, 2}),
                   c.scalar(1), zero_point(c, {}), c.scalar(scale), zero_point(c, {})}));
    EXPECT_SAYS(message(c), "QLinearMatMul 'QLinearMatMul_0': scale 's3': element 0 " + std::string(found));
  }
}

TEST(QuantizeErrors, ScalesOfAnotherTypeOrLength) {
  OnnxBuilder type, length, channels, zeros;
  type.output(type.op("QuantizeLinear", {type.input({2}), type.ints32({1})}));
  EXPECT_SAYS(message(type), "scale 'i2' is int32, expected a floating-point type");
  length.output(length.op("QuantizeLinear", {length.input({2, 3}), length.floats({1, 2})}));
  EXPECT_SAYS(message(length),
              "QuantizeLinear 'QuantizeLinear_0': scale or zero point 'c2' [2], expected 1 element, or 3 "
              "for axis 1 of [2, 3]");
  channels.output(
      channels.op("QLinearConv",
                  {channels.input({1, 1, 4, 4}, "x", kUint8), channels.scalar(1), zero_point(channels, {1, 0, kUint8}),
                   integers(channels, kInt8, {3, 1, 1, 1}, {1, 2, 3}), channels.floats({1, 2}),
                   zero_point(channels, {}), channels.scalar(1), zero_point(channels, {})}));
  EXPECT_SAYS(message(channels),
              "QLinearConv 'QLinearConv_0': scale or zero point 'c2' [2], expected 1 element, or 3 for "
              "axis 1 of [1, 3, 4, 4]");
  for (const bool at_run_time : {false, true}) {
    OnnxBuilder bias;
    bias.output(bias.op(
        "QLinearConv",
        {bias.input({1, 1, 4, 4}, "x", kUint8), bias.scalar(1), zero_point(bias, {1, 0, kUint8}),
         integers(bias, kInt8, {3, 1, 1, 1}, {1, 2, 3}), at_run_time ? bias.input({}, "s", kFloat) : bias.scalar(1),
         zero_point(bias, {}), bias.scalar(1), zero_point(bias, {}), bias.ints32({7})}));
    EXPECT_SAYS(message(bias), "[1], expected [3] for weights [3, 1, 1, 1]");
    EXPECT_SAYS(message(bias), "QLinearConv 'QLinearConv_0': bias 'i");
  }
  zeros.output(zeros.op("DequantizeLinear",
                        {zeros.input({2, 3}, "x", kInt8), zeros.scalar(1), integers(zeros, kInt8, {2}, {1, 2})}));
  EXPECT_SAYS(message(zeros), "scale or zero point 'q2' [2], expected 1 element, or 3 for axis 1 of [2, 3]");
}

TEST(QuantizeErrors, AxesAndBlocks) {
  OnnxBuilder axis;
  axis.output(axis.op("QuantizeLinear", {axis.input({2, 3}), axis.floats({1, 2, 3})}));
  axis.attr("axis", int64_t{2});
  EXPECT_SAYS(message(axis), "QuantizeLinear 'QuantizeLinear_0': axis 2 of a tensor with 2 dimensions");
  const auto blocks = [](const Dims &shape, const std::vector<float> &scales, int64_t size) {
    OnnxBuilder b(21);
    b.output(b.op("DequantizeLinear", {b.input({4, 2}, "x", kInt8), b.constant(shape, scales)}));
    b.attr("axis", int64_t{0}).attr("block_size", size);
    return message(b);
  };
  EXPECT_SAYS(blocks({2, 2}, {1, 2, 3, 4}, -2), "DequantizeLinear 'DequantizeLinear_0': block_size is -2");
  EXPECT_SAYS(blocks({2, 2}, {1, 2, 3, 4}, 1), "scale or zero point 'c1' [2, 2], expected [4, 2] for blocks of 1");
  EXPECT_SAYS(blocks({2, 2}, {1, 2, NAN, 4}, 2),
              "scale 'c1': element 2 is nan, expected numbers from 0 on that are finite");
  EXPECT_SAYS(blocks({2, 2}, {1, 2, 3, -4}, 2), "scale 'c1': element 3 is -4.000000");
  EXPECT_EQ(blocks({2, 2}, {1, 2, 3, 0}, 2), "") << "a block of zeros";
  OnnxBuilder zero, wide;
  zero.output(zero.op("QuantizeLinear", {zero.input({2}), zero.scalar(1), zero.ints32({3})}));
  EXPECT_SAYS(message(zero), "QuantizeLinear 'QuantizeLinear_0': quantization to int32, supported: uint8, int8");
  wide.output(wide.op("QuantizeLinear", {wide.input({2, 3}), wide.scalar(1), integers(wide, kInt8, {2}, {1, 2})}));
  EXPECT_SAYS(message(wide), "scale or zero point 'q2' [2], expected 1 element, or 3 for axis 1 of [2, 3]");
}

TEST(QuantizeErrors, ZeroPointsOfAnotherType) {
  OnnxBuilder d, m, c, u;
  d.output(d.op("DequantizeLinear", {d.input({2}, "x", kInt8), d.scalar(1), zero_point(d, {1, 3, kUint8})}));
  EXPECT_SAYS(message(d), "DequantizeLinear 'DequantizeLinear_0': zero point 'q2' is uint8, expected int8");
  m.output(m.op("MatMulInteger",
                {m.input({1, 2}, "a", kInt8), m.input({2, 1}, "b", kInt8), zero_point(m, {}), m.ints32({3})}));
  EXPECT_SAYS(message(m), "MatMulInteger 'MatMulInteger_0': zero point 'i1' is int32, expected int8");
  c.output(microsoft(c, "QLinearSigmoid",
                     {c.input({2}, "x", kInt8), c.scalar(1), c.ints32({3}), c.scalar(1), zero_point(c, {})}));
  EXPECT_SAYS(message(c), "com.microsoft.QLinearSigmoid 'QLinearSigmoid_0': zero point 'i2' is int32, expected int8");
  u.output(microsoft(u, "QLinearSigmoid",
                     {u.input({2}, "x", kInt8), u.scalar(1), zero_point(u, {}), u.scalar(1), u.ints32({3})}));
  EXPECT_SAYS(message(u), "a result of int32, supported: uint8, int8");
}

TEST(QuantizeErrors, AttributesOfMicrosoftOperators) {
  OnnxBuilder b;
  b.output(microsoft(b, "QGemm", {b.input({1, 1}, "a", kInt8)}));
  b.attr("beta", 1.f);
  EXPECT_SAYS(message(b),
              "attribute 'beta' is not one of com.microsoft.QGemm; its attributes are: alpha, transA, transB");
  OnnxBuilder unknown;
  unknown.output(microsoft(unknown, "DynamicQuantizeLSTM", {unknown.input({1, 1}, "a", kInt8)}));
  EXPECT_SAYS(message(unknown),
              "com.microsoft.DynamicQuantizeLSTM 'DynamicQuantizeLSTM_0': the operator is not supported");
}

}  // namespace
}  // namespace npu::test
