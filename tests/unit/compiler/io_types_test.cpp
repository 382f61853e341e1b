// SPDX-License-Identifier: MIT
// Inputs and outputs of other types than the file's: graphs as text, and computed, against the network as it is.
#include "compiler/passes/io_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/api/npuc.h"
#include "compiler/graph/print.h"
#include "compiler/passes/passes.h"
#include "runtime/cpu/numbers.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Graph;
using graph::IoTypes;
using graph::Tensor;

constexpr Scaled kX{0.5f, 128, kUint8}, kY{0.25f, -5, kInt8};

struct Typed {
  Graph graph;
  Status status;
};

Typed typed(const OnnxBuilder &b, const IoTypes &types) {
  Typed out{import_graph(b.bytes()), {}};
  graph::fuse_quantized(out.graph);
  out.status = graph::set_io_types(out.graph, types);
  return out;
}

IoTypes all(Dtype inputs, Dtype outputs) { return {{inputs, {}}, {outputs, {}}}; }
IoTypes input(const std::string &name, Dtype type) { return {{Dtype::Undefined, {{name, type}}}, {}}; }
IoTypes output(const std::string &name, Dtype type) { return {{}, {Dtype::Undefined, {{name, type}}}}; }

std::string text(const OnnxBuilder &b, const IoTypes &types) {
  const Typed t = typed(b, types);
  EXPECT_TRUE(t.status.ok()) << t.status.message();
  std::string all = graph::to_text(t.graph), out;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at) + 1;
    if (all.compare(at, 8, "constant") != 0) out += all.substr(at, end - at);
    at = end;
  }
  return out;
}

std::string error(const OnnxBuilder &b, const IoTypes &types) { return typed(b, types).status.message(); }

/// Float32 in and out, 8 bits between.
OnnxBuilder float_borders() {
  OnnxBuilder b;
  const std::string x = rounded(b, b.input({1, 2, 3, 3}, "x"), kX);
  const std::string w = b.op("DequantizeLinear", {integers(b, kInt8, {2, 2, 1, 1}, {3, -4, 100, 7}), b.scalar(0.125f)});
  b.output(rounded(b, b.op("Conv", {x, w}), kY));
  return b;
}

/// 8 bits in and out.
OnnxBuilder integer_borders() {
  OnnxBuilder b;
  const std::string x = dequantize(b, b.input({1, 2, 3, 3}, "x", kX.type), kX);
  b.output(quantize(b, b.op("Relu", {x}), kY));
  return b;
}

TEST(IoTypes, WhatQuantizesAnInputAndDequantizesAnOutputGoes) {
  EXPECT_EQ(text(float_borders(), {}),
            "input x: float32 [1, 2, 3, 3]\n"
            "t2: uint8 [1, 2, 3, 3] = Requant(x) out_quant=0.5@128 to=uint8\n"
            "t9: int8 [1, 2, 3, 3] = Conv(t2, #17, -, #18) quantized=true x_zero=128 out_zero=-5 out=int8\n"
            "t11: float32 [1, 2, 3, 3] = Requant(t9) in_quant=0.25@-5\n"
            "output t11 = t11\n");
  const IoTypes bytes = all(Dtype::U8, Dtype::I8);
  EXPECT_EQ(text(float_borders(), bytes),
            "input x: uint8 [1, 2, 3, 3]\n"
            "t9: int8 [1, 2, 3, 3] = Conv(x, #17, -, #18) quantized=true x_zero=128 out_zero=-5 out=int8\n"
            "output t11 = t9\n");
  const Graph g = typed(float_borders(), bytes).graph;
  EXPECT_EQ(g[g.inputs[0]].quant, (graph::Quant{0.5f, 128}));
  EXPECT_EQ(g[g.outputs[0]].quant, (graph::Quant{0.25f, -5}));
  ASSERT_GE(g.notes.size(), 2u);
  EXPECT_EQ(g.notes[g.notes.size() - 2], "input 'x' is uint8 instead of float32, scale 0.5, zero point 128");
  EXPECT_EQ(g.notes.back(), "output 't11' is int8 instead of float32, scale 0.25, zero point -5");
}

TEST(IoTypes, TheOtherTypeOf8BitsHasTheSameNumbers) {
  EXPECT_EQ(text(float_borders(), all(Dtype::I8, Dtype::U8)),
            "input x: int8 [1, 2, 3, 3]\n"
            "t2: uint8 [1, 2, 3, 3] = Requant(x) in_quant=0.5@0 out_quant=0.5@128 to=uint8\n"
            "t9: int8 [1, 2, 3, 3] = Conv(t2, #17, -, #18) quantized=true x_zero=128 out_zero=-5 out=int8\n"
            "t11: uint8 [1, 2, 3, 3] = Requant(t9) in_quant=0.25@-5 out_quant=0.25@123 to=uint8\n"
            "output t11 = t11\n");
}

TEST(IoTypes, IntegersBecomeNumbers) {
  EXPECT_EQ(text(integer_borders(), all(Dtype::F32, Dtype::F32)),
            "input x: float32 [1, 2, 3, 3]\n"
            "#0: uint8 [1, 2, 3, 3] = Requant(x) out_quant=0.5@128 to=uint8\n"
            "#8: int8 [1, 2, 3, 3] = Requant(#0) in_quant=0.5@128 out_quant=0.25@-5 kind=Relu to=int8\n"
            "t5: float32 [1, 2, 3, 3] = Requant(#8) in_quant=0.25@-5\n"
            "output t5 = t5\n");
}

TEST(IoTypes, HalfPrecisionIsACastAtTheBorder) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({3}, "x")}));
  EXPECT_EQ(text(b, all(Dtype::F16, Dtype::BF16)),
            "input x: float16 [3]\n"
            "#0: float32 [3] = Cast(x)\n"
            "#1: float32 [3] = Unary(#0) kind=Relu\n"
            "t1: bfloat16 [3] = Cast(#1) to=bfloat16\n"
            "output t1 = t1\n");
  EXPECT_EQ(text(integer_borders(), all(Dtype::BF16, Dtype::F16)),
            "input x: bfloat16 [1, 2, 3, 3]\n"
            "#10: float32 [1, 2, 3, 3] = Cast(x)\n"
            "#0: uint8 [1, 2, 3, 3] = Requant(#10) out_quant=0.5@128 to=uint8\n"
            "#8: int8 [1, 2, 3, 3] = Requant(#0) in_quant=0.5@128 out_quant=0.25@-5 kind=Relu to=int8\n"
            "#11: float32 [1, 2, 3, 3] = Requant(#8) in_quant=0.25@-5\n"
            "t5: float16 [1, 2, 3, 3] = Cast(#11) to=float16\n"
            "output t5 = t5\n");
}

TEST(IoTypes, ThroughMovesAndForSeveralReaders) {
  OnnxBuilder b;
  const std::string x = b.input({1, 2, 3}, "x");
  const std::string turned = b.op("Transpose", {x});
  b.attr("perm", Dims{0, 2, 1});
  b.output(quantize(b, turned, kX)).output(quantize(b, b.op("Reshape", {x, b.ints({6})}), kX));
  b.output(b.op("Sqrt", {x}));
  EXPECT_EQ(text(b, input("x", Dtype::U8)),
            "input x: uint8 [1, 2, 3]\n"
            "#0: float32 [1, 2, 3] = Requant(x) in_quant=0.5@128\n"
            "#12: uint8 [1, 3, 2] = Transpose(x) perm=[0, 2, 1]\n"
            "#14: uint8 [6] = Reshape(x) shape=[6]\n"
            "t8: float32 [1, 2, 3] = Unary(#0) kind=Sqrt\n"
            "output t3 = #12\n"
            "output t7 = #14\n"
            "output t8 = t8\n");
  OnnxBuilder back;
  const std::string y = back.op("Transpose", {dequantize(back, back.input({1, 2, 3}, "x", kX.type), kX)});
  back.attr("perm", Dims{0, 2, 1});
  back.output(y).output(back.op("Sqrt", {y}));
  EXPECT_EQ(text(back, output(y, Dtype::U8)),
            "input x: uint8 [1, 2, 3]\n"
            "t3: uint8 [1, 3, 2] = Transpose(x) perm=[0, 2, 1]\n"
            "#4: float32 [1, 3, 2] = Requant(t3) in_quant=0.5@128\n"
            "t4: float32 [1, 3, 2] = Unary(#4) kind=Sqrt\n"
            "output t3 = t3\n"
            "output t4 = t4\n");
}

TEST(IoTypes, OthersStayAsTheyAre) {
  OnnxBuilder b;
  const std::string i = b.input({2}, "i", onnx::TensorProto::INT32);
  b.output(b.op("Gather", {rounded(b, b.input({3, 2}, "x"), kX), i})).output(b.op("Add", {i, i}));
  const Graph g = typed(b, all(Dtype::U8, Dtype::U8)).graph;
  EXPECT_EQ(g[g.inputs[0]].dtype, Dtype::I32);
  EXPECT_EQ(g[g.inputs[1]].dtype, Dtype::U8);
  EXPECT_EQ(g[g.outputs[0]].dtype, Dtype::U8);
  EXPECT_EQ(g[g.outputs[1]].dtype, Dtype::I32);
}

TEST(IoTypes, Errors) {
  OnnxBuilder b;
  const std::string x = b.input({4}, "x"), i = b.input({4}, "i", kUint8), z = b.input({4}, "z");
  b.output(b.op("Sqrt", {x})).named("root");
  b.output(b.op("Cast", {i}));
  b.attr("to", int64_t{onnx::TensorProto::INT32});
  b.output(quantize(b, z, kX)).output(quantize(b, z, kY)).output(z);
  EXPECT_EQ(error(b, input("y", Dtype::U8)), "type of input 'y': the network has no such input; it has 'x', 'i', 'z'");
  EXPECT_EQ(error(b, input("x", Dtype::U8)), "input 'x' as uint8: it has no scale: Sqrt 'root' reads it in float32");
  EXPECT_EQ(error(b, all(Dtype::I8, Dtype::Undefined)),
            "input 'x' as int8: it has no scale: Sqrt 'root' reads it in float32");
  EXPECT_EQ(error(b, input("i", Dtype::F32)), "input 'i' as float32: it is uint8 without a scale");
  EXPECT_EQ(error(b, input("z", Dtype::I8)),
            "input 'z' as int8: it is quantized in two ways: with scale 0.5, zero point 128 and with scale 0.25, zero "
            "point -5 by QuantizeLinear 'QuantizeLinear_3'");
  const std::string root = b.model.graph().output(0).name(), cast = b.model.graph().output(1).name();
  EXPECT_EQ(error(b, output(root, Dtype::I8)),
            "output '" + root + "' as int8: it has no scale: Sqrt 'root' makes it in float32");
  EXPECT_EQ(error(b, output(cast, Dtype::F16)), "output '" + cast + "' as float16: it is int32 without a scale");
  EXPECT_EQ(error(b, output("z", Dtype::I8)),
            "output 'z' as int8: it has no scale: it is an input or a constant of float32");
}

TEST(IoTypes, AsPeopleTypeThem) {
  IoTypes::Side side;
  EXPECT_TRUE(compiler::parse_io_type("--input-type", "uint8", side).ok());
  EXPECT_TRUE(compiler::parse_io_type("--input-type", "a=b=bf16", side).ok());
  EXPECT_TRUE(compiler::parse_io_type("--input-type", "c=float16", side).ok());
  EXPECT_EQ(side.all, Dtype::U8);
  EXPECT_EQ(side.named.at("a=b"), Dtype::BF16);
  EXPECT_EQ(side.named.at("c"), Dtype::F16);
  const auto error = [&](const char *text) { return compiler::parse_io_type("--input-type", text, side).message(); };
  const std::string expected = ": TYPE or NAME=TYPE is expected, TYPE is int8, uint8, float16, bfloat16 or float32";
  EXPECT_EQ(error("int4"), "--input-type int4" + expected);
  EXPECT_EQ(error("=int8"), "--input-type =int8" + expected);
  EXPECT_EQ(error("x="), "--input-type x=" + expected);
  EXPECT_EQ(error("c=int8"), "--input-type names 'c' twice");
  EXPECT_EQ(error("int8"), "--input-type gives all tensors a type twice");
}

// Compiled.

bmodel::StageDesc compiled(const OnnxBuilder &b, const IoTypes &types) {
  compiler::Options options;
  options.io_types = types;
  compiler::Compiled out;
  const std::string bytes = b.bytes();
  const Status status = compiler::compile_onnx(bytes.data(), bytes.size(), options, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out.net.stages.empty() ? bmodel::StageDesc{} : out.net.stages[0];
}

Tensor run(const bmodel::StageDesc &stage, const Tensor &x) {
  const StageResult result = run_stage(stage, {x}, lmem_of(stage));
  EXPECT_EQ(result.error, "");
  return result.outputs.empty() ? Tensor() : result.outputs[0];
}

Tensor stored_as(const Tensor &x, Dtype type, const graph::Quant &quant) {
  Tensor out(type, x.shape);
  cpu::store_numbers(type, quant, x.as<float>(), static_cast<size_t>(x.count()), out.data.data());
  return out;
}

Tensor numbers_of(const Tensor &x, const graph::Quant &quant) {
  Tensor out(Dtype::F32, x.shape);
  cpu::load_numbers(x.dtype, quant, x.data.data(), static_cast<size_t>(x.count()), out.as<float>());
  return out;
}

/// What the file says of a tensor that is not float32.
graph::Quant quant_of(const bmodel::TensorDesc &t) { return {t.step, t.zero_point}; }

/// The network with other borders, what goes in and comes out converted by what its file says, gives the same numbers.
void expect_same(const OnnxBuilder &b, Dtype inputs, Dtype outputs) {
  Tensor x(Dtype::F32, {1, 2, 3, 3});
  for (int i = 0; i < 18; ++i) x.as<float>()[i] = 7.3f * static_cast<float>(i) - 68;  // some beyond 8 bits
  // Numbers that integers of the input stand for: what another input is rounded to.
  x = numbers_of(stored_as(x, Dtype::U8, {kX.scale, kX.zero}), {kX.scale, kX.zero});
  const bmodel::StageDesc plain = compiled(b, all(Dtype::F32, Dtype::F32)), other = compiled(b, all(inputs, outputs));
  const Tensor expected = run(plain, x);
  const Tensor y = run(other, stored_as(x, inputs, quant_of(other.inputs[0])));
  EXPECT_EQ(y.dtype, outputs);
  EXPECT_EQ(numbers_of(y, quant_of(other.outputs[0])).data,
            numbers_of(stored_as(expected, outputs, quant_of(other.outputs[0])), quant_of(other.outputs[0])).data)
      << graph::dtype_name(inputs) << " to " << graph::dtype_name(outputs);
}

TEST(IoTypes, EveryBorderGivesTheSameNumbers) {
  for (const OnnxBuilder &b : {float_borders(), integer_borders()})
    for (const Dtype in : {Dtype::I8, Dtype::U8, Dtype::F16, Dtype::BF16, Dtype::F32})
      for (const Dtype out : {Dtype::I8, Dtype::U8, Dtype::F16, Dtype::BF16, Dtype::F32}) expect_same(b, in, out);
}

/// Also where the network stores 16 bits: no conversion is left then.
TEST(IoTypes, OutputsOf16BitsBesideReals) {
  OnnxBuilder b;
  const std::string x = b.op("Conv", {b.input({1, 2, 3, 3}, "x"), b.weights({4, 2, 1, 1})});
  b.output(b.op("Conv", {b.op("Relu", {x}), b.weights({2, 4, 1, 1})}));
  for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
    compiler::Options options;
    options.io_types = all(Dtype::F32, half);
    options.reals = half;
    compiler::Compiled out;
    const std::string bytes = b.bytes();
    ASSERT_TRUE(compiler::compile_onnx(bytes.data(), bytes.size(), options, out).ok());
    EXPECT_EQ(out.net.stages[0].outputs.at(0).bytes, 36u);
    const StageResult result = run_stage(out.net.stages[0], {Tensor(Dtype::F32, {1, 2, 3, 3})}, 8 << 20);
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.outputs.at(0).dtype, half);
  }
}

/// An output that is another one as well is copied where a part of the network runs on the CPU.
/// Its name is that of the input, also where the output has another type.
TEST(IoTypes, AnOutputMayBeAnInput) {
  for (const Dtype type : {Dtype::F16, Dtype::BF16}) {
    OnnxBuilder b;
    const std::string x = b.input({1, 4}, "x");
    b.output(b.op("Relu", {x})).output(b.op("Identity", {x}));
    const Typed t = typed(b, all(Dtype::Undefined, type));
    ASSERT_EQ(t.status.message(), "");
    EXPECT_EQ(t.graph[t.graph.inputs[0]].name, "x");
    EXPECT_EQ(t.graph[t.graph.outputs[1]].dtype, type);
    EXPECT_FALSE(t.graph[t.graph.outputs[1]].name.empty());
    EXPECT_NE(t.graph[t.graph.outputs[1]].name, "x");
  }
}

/// --reals bf16 and an output of float16: it is rounded once, by the cast.
TEST(IoTypes, OutputsOfTheOtherTypeOf16BitsAreRoundedOnce) {
  OnnxBuilder b;
  b.output(b.op("MatMul", {b.input({4, 8}, "x"), b.weights({8, 8})}));
  Typed t = typed(b, all(Dtype::Undefined, Dtype::F16));
  ASSERT_EQ(t.status.message(), "");
  graph::use_half(t.graph, Dtype::BF16);
  EXPECT_NE(graph::to_text(t.graph).find("float32 [4, 8] = MatMul"), std::string::npos) << graph::to_text(t.graph);
}

TEST(IoTypes, OutputsOfOneValueHaveItsScale) {
  OnnxBuilder b;
  const std::string x = rounded(b, b.op("Atan", {b.input({1, 2, 3, 3}, "x")}), kX);
  const std::string y = quantize(b, b.op("Relu", {x}), kX);
  b.output(y);
  b.output(b.op("Identity", {y}));
  const bmodel::StageDesc stage = compiled(b, {});
  ASSERT_EQ(stage.outputs.size(), 2u);
  EXPECT_EQ(stage.outputs[0].step, 0.5f);
  EXPECT_EQ(stage.outputs[1].step, stage.outputs[0].step);
  EXPECT_EQ(stage.outputs[1].zero_point, stage.outputs[0].zero_point);
}

/// Scales in the file are what programs multiply by, on both sides.
TEST(IoTypes, TheFileHasScalesAndZeroPoints) {
  const bmodel::StageDesc stage = compiled(float_borders(), all(Dtype::U8, Dtype::I8));
  const bmodel::TensorDesc &x = stage.inputs.at(0), &y = stage.outputs.at(0);
  EXPECT_EQ(x.dtype, 3u);
  EXPECT_EQ(x.bytes, 18u);
  EXPECT_EQ(x.scale, 2.0f);
  EXPECT_EQ(x.step, 0.5f);
  EXPECT_EQ(x.zero_point, 128);
  EXPECT_EQ(y.dtype, 2u);
  EXPECT_EQ(y.scale, 0.25f);
  EXPECT_EQ(y.step, 0.25f);
  EXPECT_EQ(y.zero_point, -5);
  EXPECT_TRUE(stage.subs.empty()) << "all of it runs on the chip";
  const bmodel::StageDesc plain = compiled(float_borders(), {});
  EXPECT_EQ(plain.inputs.at(0).scale, 1.0f);
  EXPECT_EQ(plain.inputs.at(0).step, 0.0f);
}

}  // namespace
}  // namespace npu::test
