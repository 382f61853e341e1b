// SPDX-License-Identifier: MIT
// Element types of a file's inputs, outputs and weights, and values that the caller gives for inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "compiler/api/npuc.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/subnet.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using onnx::TensorProto;

constexpr uint32_t kBmFloat32 = 0, kBmUint8 = 3, kBmInt32 = 6, kBmUint32 = 7;

std::string compile(const OnnxBuilder &b, compiler::Compiled &out, const compiler::Options &options = {}) {
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), options, out).message();
}

graph::Tensor tensor_of(const bmodel::TensorDesc &t, const std::vector<double> &values) {
  graph::Tensor out(cpu::make_kind(t.dtype, {}).dtype, graph::Shape(t.shape.begin(), t.shape.end()));
  for (size_t i = 0; i < values.size(); ++i) cpu::store(out, static_cast<int64_t>(i), values[i]);
  return out;
}

/// Runs a network of one output.
std::vector<double> run(const bmodel::StageDesc &stage, const std::vector<std::vector<double>> &inputs) {
  std::vector<graph::Tensor> in;
  for (size_t k = 0; k < inputs.size(); ++k) in.push_back(tensor_of(stage.inputs[k], inputs[k]));
  const StageResult result = run_stage(stage, in, lmem_of(stage));
  EXPECT_EQ(result.error, "");
  std::vector<double> out;
  if (result.error.empty())
    for (int64_t i = 0; i < result.outputs[0].count(); ++i) out.push_back(cpu::load(result.outputs[0], i));
  return out;
}

TEST(Types, WideIntegersAreNarrowerInTheBmodel) {
  OnnxBuilder b;
  b.output(b.op("Mul", {b.input({3}, "x", TensorProto::INT64), b.ints({1 << 20})}));
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  const bmodel::StageDesc &stage = out.net.stages[0];
  EXPECT_EQ(stage.inputs[0].dtype, kBmInt32);
  EXPECT_EQ(stage.outputs[0].dtype, kBmInt32);
  EXPECT_EQ(stage.inputs[0].bytes, 12u);
  // The product is exact in 64 bits; the output saturates.
  EXPECT_EQ(run(stage, {{3, -5, 4096}}), (std::vector<double>{3 << 20, -5 * (1 << 20), INT32_MAX}));
  EXPECT_NE(out.report.text().find("input 'x' is int64 in the file, and int32 in the .bmodel"), std::string::npos);
}

TEST(Types, BoolsAreBytesAndAnythingButZeroIsTrue) {
  OnnxBuilder b;
  b.output(b.op("Xor", {b.input({4}, "a", TensorProto::BOOL), b.input({4}, "b", TensorProto::BOOL)}));
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  const bmodel::StageDesc &stage = out.net.stages[0];
  EXPECT_EQ(stage.inputs[0].dtype, kBmUint8);
  EXPECT_EQ(stage.outputs[0].dtype, kBmUint8);
  EXPECT_EQ(run(stage, {{0, 255, 7, 0}, {0, 1, 0, 128}}), (std::vector<double>{0, 0, 1, 1}));
}

TEST(Types, UnsignedIntegersKeepTheirWidthWhereTheBmodelHasIt) {
  OnnxBuilder b;
  b.output(b.op("Add", {b.input({2}, "a", TensorProto::UINT64), b.input({2}, "b", TensorProto::UINT64)}));
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  EXPECT_EQ(out.net.stages[0].outputs[0].dtype, kBmUint32);
  EXPECT_EQ(run(out.net.stages[0], {{1, 4e9}, {2, 4e9}}), (std::vector<double>{3, UINT32_MAX}));
}

TEST(Types, InputsThatNobodyReadHaveTheirOwnSize) {
  OnnxBuilder b;
  b.input({12}, "flags", TensorProto::BOOL);
  b.output(b.op("Relu", {b.input({3}, "x")}));
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  const bmodel::StageDesc &stage = out.net.stages[0];
  ASSERT_TRUE(stage.subs.empty());
  for (const npu_program_region &r : stage.regions)
    if (r.kind == NPU_PROGRAM_INPUT) {
      EXPECT_EQ(r.bytes, stage.inputs[r.index].bytes) << stage.inputs[r.index].name;
    }
  EXPECT_EQ(run(stage, {std::vector<double>(12, 1), {1, -1, 2}}), (std::vector<double>{1, 0, 2}));
}

class OtherFloats : public testing::TestWithParam<TensorProto::DataType> {};

TEST_P(OtherFloats, AreConvertedToFloat32) {
  OnnxBuilder b;
  b.output(b.op("Add", {b.input({2}, "x", GetParam()), b.input({2}, "y", GetParam())}));
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  EXPECT_EQ(out.net.stages[0].inputs[0].dtype, kBmFloat32);
  EXPECT_TRUE(out.net.stages[0].subs.empty()) << "the chip computes it";
  EXPECT_EQ(run(out.net.stages[0], {{1, 2}, {0.5, -3}}), (std::vector<double>{1.5, -1}));
  EXPECT_NE(out.report.text().find("in the file, and float32 in the .bmodel"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, OtherFloats,
                         testing::Values(TensorProto::FLOAT16, TensorProto::BFLOAT16, TensorProto::DOUBLE));

TEST(Types, CastsBetweenFloatsDoNothing) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.op("Cast", {b.input({2}, "x")})}));
  b.model.mutable_graph()->mutable_node(0)->add_attribute();
  auto &to = *b.model.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(TensorProto::FLOAT16);
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  EXPECT_TRUE(out.net.stages[0].subs.empty());
  EXPECT_EQ(run(out.net.stages[0], {{1.0f / 3, 1 + std::ldexp(1, -12)}}),
            (std::vector<double>{1.0f / 3, 1 + std::ldexp(1, -12)}));
}

TEST(Types, StringsAreRefusedWithTheTensor) {
  OnnxBuilder b;
  b.output(b.op("Identity", {b.input({2}, "words", TensorProto::STRING)}));
  compiler::Compiled out;
  EXPECT_EQ(compile(b, out), "input 'words' is string, tensors of numbers are supported");
}

class GivenInputs : public testing::Test {
 protected:
  void SetUp() override {
    b_.output(b_.op("Reshape", {b_.input({2, 3}, "x"), b_.input({1}, "shape", TensorProto::INT64)}));
  }
  std::string compile_with(const std::string &text, compiler::Compiled &out) {
    compiler::Options options;
    const Status parsed = compiler::parse_input(text, options.values);
    return parsed.ok() ? compile(b_, out, options) : parsed.message();
  }
  OnnxBuilder b_;
};

TEST_F(GivenInputs, AreConstants) {
  compiler::Compiled out;
  EXPECT_NE(compile(b_, out).find("'shape'"), std::string::npos);
  b_.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->clear_shape();
  ASSERT_EQ(compile_with("shape=3,-1", out), "");
  ASSERT_EQ(out.net.stages[0].inputs.size(), 1u);
  EXPECT_EQ(out.net.stages[0].outputs[0].shape, (std::vector<uint64_t>{3, 2}));
}

TEST_F(GivenInputs, ThatDoNotFitAreNamed) {
  compiler::Compiled out;
  EXPECT_EQ(compile_with("shape=3,2", out), "input 'shape' is given a value of the shape [2], the model has [1]");
  EXPECT_EQ(compile_with("form=6", out), "a value is given for 'form', the inputs are 'x', 'shape'");
  for (const char *bad : {"shape", "=3", "shape=", "shape=3,", "shape=a", "shape=1;2"})
    EXPECT_NE(compile_with(bad, out).find("--input"), std::string::npos) << bad;
  EXPECT_NE(compile_with("shape=/nonexistent.npy", out).find("cannot read /nonexistent.npy"), std::string::npos);
}

/// Numbers of a command line have no dimensions, or one.
TEST_F(GivenInputs, MayLeaveOutDimensionsOfOne) {
  compiler::Compiled out;
  ASSERT_EQ(compile_with("shape=6", out), "");
  EXPECT_EQ(out.net.stages[0].outputs[0].shape, (std::vector<uint64_t>{6}));
  for (const auto &[dims, text, error] :
       std::initializer_list<std::tuple<std::vector<int64_t>, const char *, const char *>>{
           {{1, 2}, "shape=3,2", ""},
           {{1, -1}, "shape=3,2", ""},
           {{-1, 1}, "shape=3,2", ""},
           {{-1}, "shape=6", ""},
           {{2, 1}, "shape=3,2", ""},
           {{-1, -1}, "shape=3,2", "input 'shape' is given a value of the shape [2], the model has [?, ?]"},
           {{3}, "shape=3,2", "input 'shape' is given a value of the shape [2], the model has [3]"},
           {{2, 2}, "shape=3,2", "input 'shape' is given a value of the shape [2], the model has [2, 2]"}}) {
    auto &shape = *b_.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (const int64_t d : dims) d < 0 ? (void)shape.add_dim() : shape.add_dim()->set_dim_value(d);
    out = {};
    EXPECT_EQ(compile_with(text, out), error);
  }
  b_.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(compile_with("shape=2.5", out),
            "input 'shape' is int64, and is given 2.500000, which that type does not have");
}

/// Finite numbers of float64 stay finite, and the report says which did not fit.
TEST(Types, NumbersOfFloat64ThatFloat32DoesNotHaveAreNamed) {
  for (const bool attribute : {false, true}) {
    OnnxBuilder b;
    TensorProto wide;
    wide.set_name("w");
    wide.set_data_type(TensorProto::DOUBLE);
    wide.add_dims(5);
    for (const double v : {1.5, 1e300, -1.7976931348623157e308, HUGE_VAL, 3.4028235677973366e38})
      wide.add_double_data(v);
    std::string w = "w";
    if (attribute) {
      w = b.op("Constant", {});
      auto &a = *b.model.mutable_graph()->mutable_node(0)->add_attribute();
      a.set_name("value");
      a.set_type(onnx::AttributeProto::TENSOR);
      *a.mutable_t() = wide;
    } else {
      *b.model.mutable_graph()->add_initializer() = wide;
    }
    b.output(b.op("Min", {b.input({5}, "x", TensorProto::DOUBLE), w}));
    compiler::Compiled out;
    ASSERT_EQ(compile(b, out), "");
    constexpr double kMost = std::numeric_limits<float>::max();
    EXPECT_EQ(run(out.net.stages[0], {std::vector<double>(5, HUGE_VAL)}),
              (std::vector<double>{1.5, kMost, -kMost, HUGE_VAL, kMost}));
    EXPECT_EQ(
        out.report.warnings,
        (std::vector<std::string>{std::string(attribute ? "the value of Constant 'Constant_0'" : "initializer 'w'") +
                                  ": element 1 is 1e+300 in float64, which float32 cannot hold, and became "
                                  "3.40282347e+38; so did 2 more"}));
  }
}

/// A .npy file of format 1, as numpy writes it.
void write_npy(const std::string &path, const std::string &descr, const std::string &shape, const std::string &data,
               const char *fortran = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += "\n";
  std::ofstream(path, std::ios::binary) << std::string("\x93NUMPY\x01\0", 8) << static_cast<char>(header.size() & 255)
                                        << static_cast<char>(header.size() >> 8) << header << data;
}

TEST_F(GivenInputs, ComeFromFilesOfNumpy) {
  const std::string path = testing::TempDir() + "given" + std::to_string(getpid()) + ".npy";
  write_npy(path, "<i8", "(1,)", std::string("\x06\0\0\0\0\0\0\0", 8));
  compiler::Compiled out;
  ASSERT_EQ(compile_with("shape=" + path, out), "");
  EXPECT_EQ(out.net.stages[0].outputs[0].shape, (std::vector<uint64_t>{6}));
  write_npy(path, "<i8", "(2,)", std::string(8, 0));
  EXPECT_NE(compile_with("shape=" + path, out).find("its data has not the size"), std::string::npos);
  write_npy(path, ">i8", "(1,)", std::string("\0\0\0\0\0\0\0\x06", 8), "True");
  ASSERT_EQ(compile_with("shape=" + path, out), "");
  EXPECT_EQ(out.net.stages[0].outputs[0].shape, (std::vector<uint64_t>{6}));
  std::ofstream(path, std::ios::trunc) << "nothing of the kind";
  EXPECT_NE(compile_with("shape=" + path, out).find("not a .npy file"), std::string::npos);
  std::filesystem::remove(path);
}

/// x + (weights - zero) * 1, where the weights are packed into those bytes.
OnnxBuilder with_packed(int type, const std::vector<uint8_t> &bytes, int64_t count, bool raw, int zero) {
  OnnxBuilder b(25);
  const auto packed = [&](const char *name, const std::vector<uint8_t> &data, int64_t n) {
    onnx::TensorProto &t = *b.model.mutable_graph()->add_initializer();
    t.set_name(name);
    t.set_data_type(type);
    t.add_dims(n);
    for (const uint8_t byte : data)
      raw ? t.mutable_raw_data()->push_back(static_cast<char>(byte)) : t.add_int32_data(byte);
    return std::string(name);
  };
  std::vector<std::string> inputs{packed("w", bytes, count), b.scalar(1)};
  if (zero) inputs.push_back(packed("z", {static_cast<uint8_t>(zero)}, 1));
  b.output(b.op("Add", {b.input({count}), b.op("DequantizeLinear", inputs)}));
  return b;
}

/// What the weights are, without what an infinity or NaN does to a sum.
std::vector<double> unpacked(int type, const std::vector<uint8_t> &bytes, int64_t count, int zero = 0) {
  std::vector<double> out;
  for (const bool raw : {false, true}) {
    compiler::Compiled compiled;
    EXPECT_EQ(compile(with_packed(type, bytes, count, raw, zero), compiled), "");
    if (compiled.net.stages.empty()) return {};
    const auto now = run(compiled.net.stages[0], {std::vector<double>(static_cast<size_t>(count), 0)});
    EXPECT_TRUE(out.empty() || now == out || std::isnan(out.back()));
    out = now;
  }
  return out;
}

TEST(Types, WeightsOfFewBitsAreUnpacked) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(unpacked(22, {0x21, 0x87, 0x0f}, 5), (Numbers{1, 2, 7, -8, -1}));
  EXPECT_EQ(unpacked(21, {0x21, 0x87, 0x0f}, 5, 1), (Numbers{0, 1, 6, 7, 14}));
  EXPECT_EQ(unpacked(25, {0xe4, 0x01}, 5), (Numbers{0, 1, 2, 3, 1}));
  EXPECT_EQ(unpacked(26, {0xe4, 0x02}, 5), (Numbers{0, 1, -2, -1, -2}));
  EXPECT_EQ(unpacked(23, {0x10, 0x32, 0x74, 0x9f}, 8), (Numbers{0, 0.5, 1, 1.5, 2, 6, -6, -0.5}));
}

/// The largest and the smallest number of each form, and 1 of both signs.
TEST(Types, WeightsOfFloatingPointOfEightBits) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(unpacked(17, {0x7e, 0x01, 0x38, 0xb8}, 4), (Numbers{448, std::ldexp(1, -9), 1, -1}));
  EXPECT_EQ(unpacked(18, {0x7f, 0x01, 0x40, 0xc0}, 4), (Numbers{240, std::ldexp(1, -10), 1, -1}));
  EXPECT_EQ(unpacked(19, {0x7b, 0x01, 0x3c, 0xbc}, 4), (Numbers{57344, std::ldexp(1, -16), 1, -1}));
  EXPECT_EQ(unpacked(20, {0x7f, 0x01, 0x40, 0xc0}, 4), (Numbers{57344, std::ldexp(1, -17), 1, -1}));
  EXPECT_EQ(unpacked(24, {0xfe, 0x7f, 0x80, 0x00}, 4), (Numbers{std::ldexp(1, 127), 1, 2, std::ldexp(1, -127)}));
  EXPECT_EQ(unpacked(19, {0x7c, 0xfc}, 2), (Numbers{HUGE_VAL, -HUGE_VAL}));
  for (const auto &[type, pattern] : {std::pair(17, 0x7f), {17, 0xff}, {18, 0x80}, {19, 0x7d}, {20, 0x80}, {24, 0xff}})
    EXPECT_TRUE(std::isnan(unpacked(type, {static_cast<uint8_t>(pattern)}, 1).at(0))) << type;
}

TEST(Types, PackedWeightsThatDoNotFitTheirShapeOrOperator) {
  compiler::Compiled out;
  EXPECT_EQ(compile(with_packed(22, {0x21, 0x43}, 5, true, 0), out),
            "initializer 'w': int4 [5] needs 3 bytes, the file has 2");
  // The zero point of a QuantizeLinear says which numbers there are.
  OnnxBuilder b = with_packed(22, {0x21}, 2, true, 0);
  b.output(b.op("QuantizeLinear", {b.input({2}), b.scalar(1), "w"}));
  EXPECT_NE(compile(b, out).find("QuantizeLinear 'QuantizeLinear_2': it reads 'w', which is int4"), std::string::npos)
      << compile(b, out);
}

/// Numbers of 4 bits, and of 8 with a point, are named by their types.
TEST(Types, ThatAreTooNarrowAreNamed) {
  OnnxBuilder input, weight, to(19);
  compiler::Compiled out;
  input.output(input.op("Relu", {input.input({2}, "x", 22)}));
  EXPECT_EQ(compile(input, out), "input 'x' is int4, numbers of at least 8 bits (floating point: 16) are supported");
  weight.output(weight.op("Add", {weight.input({2}), weight.floats({1, 2})}));
  onnx::TensorProto &w = *weight.model.mutable_graph()->mutable_initializer(0);
  w.set_data_type(17);
  for (const int32_t byte : {56, 64}) w.add_int32_data(byte);
  EXPECT_NE(compile(weight, out).find("which is float8e4m3fn, numbers of at least"), std::string::npos)
      << compile(weight, out);
  to.output(to.op("Cast", {to.input({2})}));
  to.attr("to", int64_t{19});
  EXPECT_NE(compile(to, out).find("cannot cast to float8e5m2 (type 19)"), std::string::npos) << compile(to, out);
  compiler::Options options;
  options.values["x"] = graph::make_f32({2}, {1, 2});
  EXPECT_EQ(compile(input, out, options),
            "input 'x' is int4, numbers of at least 8 bits (floating point: 16) are supported");
}

}  // namespace
}  // namespace npu::test
