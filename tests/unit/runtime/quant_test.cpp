// SPDX-License-Identifier: MIT
// Networks with integers and half precision at their borders: what the runtime says of them, and numbers of float32 in
// and out by the C and the C++ interface. Expected numbers are computed here, by the definitions of ONNX.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "bmruntime_cpp.h"
#include "compiler/api/npuc.h"
#include "tests/unit/compiler/quantized_nets.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using namespace test_runtime;
using npu::graph::Dtype;
using npu::test::Dims;
using npu::test::OnnxBuilder;
using npu::test::Scaled;

constexpr Scaled kX{0.1f, 128, npu::test::kUint8}, kY{0.3f, -5, npu::test::kInt8};
constexpr int kCount = 24;

/// y = relu(x) + b with 8 bits between float32; b = 1, without rounding of its own.
std::string onnx(bool open_batch = false) {
  OnnxBuilder b;
  const std::string x = npu::test::rounded(b, b.input({1, 2, 3, 4}, "x"), kX);
  if (open_batch) {
    auto &type = *b.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
    type.mutable_shape()->mutable_dim(0)->set_dim_param("n");
  }
  const std::string r = npu::test::rounded(b, b.op("Relu", {x}), kX);
  const std::string y = npu::test::rounded(b, b.op("Add", {r, b.scalar(1)}), kY);
  b.output(y);
  b.model.mutable_graph()->mutable_output(0)->set_name("y");
  for (auto &n : *b.model.mutable_graph()->mutable_node())
    for (auto &name : *n.mutable_output())
      if (name == y) name = "y";
  return b.bytes();
}

std::vector<uint8_t> bmodel(Dtype in, Dtype out, const std::string &name) {
  npu::compiler::Options options;
  options.io_types.inputs.all = in;
  options.io_types.outputs.all = out;
  options.name = name;
  npu::compiler::Compiled compiled;
  const std::string file = onnx();
  std::vector<uint8_t> bytes;
  npu::Status status = npu::compiler::compile_onnx(file.data(), file.size(), options, compiled);
  if (status.ok()) status = npu::compiler::write_bmodel(compiled, bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

/// QuantizeLinear; halves to even.
int quantized(float v, const Scaled &q) {
  const bool is_signed = q.type == npu::test::kInt8;
  const double steps = std::isnan(v) ? 0 : static_cast<double>(v / q.scale), low = std::floor(steps);
  const double rest = steps - low;
  const double whole = rest > 0.5 || (rest == 0.5 && std::fmod(low, 2) != 0) ? low + 1 : low;
  return static_cast<int>(std::clamp(whole + q.zero, is_signed ? -128.0 : 0.0, is_signed ? 127.0 : 255.0));
}

float dequantized(int n, const Scaled &q) { return static_cast<float>(n - q.zero) * q.scale; }

/// What the network computes, step by step.
float expected(float x) {
  const float r = dequantized(quantized(std::max(0.0f, dequantized(quantized(x, kX), kX)), kX), kX);
  return dequantized(quantized(r + 1, kY), kY);
}

Floats expected(const Floats &x) {
  Floats out;
  for (const float v : x) out.push_back(expected(v));
  return out;
}

/// Some beyond the range, and the middles between two integers.
Floats numbers() {
  Floats out;
  for (int i = 0; i < kCount; ++i) out.push_back(static_cast<float>(i - 8) * 1.05f + (i % 3 ? 0.0f : 0.05f));
  out[0] = -1e30f;
  out[1] = std::numeric_limits<float>::infinity();
  out[2] = std::numeric_limits<float>::quiet_NaN();
  return out;
}

class QuantTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(load(bmodel(Dtype::U8, Dtype::I8, "bytes"))) << bmrt_last_error();
    ASSERT_TRUE(load(bmodel(Dtype::F32, Dtype::F32, "floats"))) << bmrt_last_error();
    ASSERT_TRUE(load(bmodel(Dtype::F16, Dtype::BF16, "halves"))) << bmrt_last_error();
  }
  Floats launched(const char *net, const Floats &x) {
    const float *const in[] = {x.data()};
    Floats y(kCount, -1);
    float *out[] = {y.data()};
    const bm_shape_t in_shape = shape({1, 2, 3, 4});
    bm_shape_t out_shape;
    EXPECT_TRUE(bmrt_launch_data_float32(p_bmrt, net, in, &in_shape, 1, out, &out_shape, 1, true)) << bmrt_last_error();
    EXPECT_TRUE(bmrt_shape_is_same(&in_shape, &out_shape));
    return y;
  }
};

TEST_F(QuantTest, TheInformationHasTypesScalesAndZeroPoints) {
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "bytes");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->input_dtypes[0], BM_UINT8);
  EXPECT_EQ(info->output_dtypes[0], BM_INT8);
  EXPECT_EQ(info->input_scales[0], 1 / kX.scale) << "what numbers are multiplied by, as the vendor has it";
  EXPECT_EQ(info->output_scales[0], kY.scale);
  EXPECT_EQ(info->input_zero_point[0], kX.zero);
  EXPECT_EQ(info->output_zero_point[0], kY.zero);
  EXPECT_EQ(info->max_input_bytes[0], static_cast<size_t>(kCount));
  EXPECT_EQ(info->max_output_bytes[0], static_cast<size_t>(kCount));
  for (const char *name : {"floats", "halves"}) {
    info = bmrt_get_network_info(p_bmrt, name);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->input_scales[0], 1);
    EXPECT_EQ(info->output_scales[0], 1);
    EXPECT_EQ(info->input_zero_point[0], 0);
  }
  EXPECT_EQ(info->input_dtypes[0], BM_FLOAT16);
  EXPECT_EQ(info->output_dtypes[0], BM_BFLOAT16);
}

TEST_F(QuantTest, SaysWhatElementsStandFor) {
  bmrt_quant_t quant;
  ASSERT_TRUE(bmrt_get_input_quant(p_bmrt, "bytes", 0, &quant)) << bmrt_last_error();
  EXPECT_EQ(quant.dtype, BM_UINT8);
  EXPECT_EQ(quant.step, kX.scale) << "not 1 over its reciprocal";
  EXPECT_EQ(quant.zero_point, kX.zero);
  ASSERT_TRUE(bmrt_get_output_quant(p_bmrt, "bytes", 0, &quant));
  EXPECT_EQ(quant.dtype, BM_INT8);
  EXPECT_EQ(quant.step, kY.scale);
  EXPECT_EQ(quant.zero_point, kY.zero);
  ASSERT_TRUE(bmrt_get_output_quant(p_bmrt, "floats", 0, &quant));
  EXPECT_EQ(quant.dtype, BM_FLOAT32);
  EXPECT_FALSE(bmrt_get_input_quant(p_bmrt, "bytes", 1, &quant));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_get_input_quant: network 'bytes' has 1 inputs, there is no number 1");
  EXPECT_FALSE(bmrt_get_output_quant(p_bmrt, "bytes", -1, &quant));
  EXPECT_FALSE(bmrt_get_output_quant(p_bmrt, "nothing", 0, &quant));
  EXPECT_FALSE(bmrt_get_output_quant(p_bmrt, "bytes", 0, nullptr));
}

/// A file of the vendor's, or of an older compiler, has the scale alone.
TEST_F(QuantTest, WithoutAStepTheScaleCounts) {
  npu::bmodel::StageDesc stage = test_models::mirror({1, 4}, 3, 0, 0);
  stage.inputs[0].scale = 8;
  stage.inputs[0].zero_point = 3;
  stage.outputs[0].scale = 0.25f;
  ASSERT_TRUE(load(test_models::file({test_models::net("old", {stage})}))) << bmrt_last_error();
  bmrt_quant_t quant;
  ASSERT_TRUE(bmrt_get_input_quant(p_bmrt, "old", 0, &quant));
  EXPECT_EQ(quant.step, 0.125f);
  EXPECT_EQ(quant.zero_point, 3);
  ASSERT_TRUE(bmrt_get_output_quant(p_bmrt, "old", 0, &quant));
  EXPECT_EQ(quant.step, 0.25f);
}

TEST_F(QuantTest, ConvertsNumbersAndElements) {
  const Floats values = numbers();
  const bmrt_quant_t x{BM_UINT8, kX.scale, kX.zero}, y{BM_INT8, kY.scale, kY.zero};
  std::vector<uint8_t> bytes(kCount);
  ASSERT_TRUE(bmrt_quantize(&x, values.data(), kCount, bytes.data())) << bmrt_last_error();
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(bytes[i], quantized(values[i], kX)) << values[i];
  std::vector<int8_t> integers{-128, -5, -4, 0, 127};
  Floats back(5);
  ASSERT_TRUE(bmrt_dequantize(&y, integers.data(), 5, back.data()));
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(back[i], dequantized(integers[i], kY));
  const bmrt_quant_t half{BM_FLOAT16, 0, 0}, brain{BM_BFLOAT16, -1, 7}, single{BM_FLOAT32, 0, 0};
  const Floats two{1.5f, -65520};
  uint16_t short_floats[2];
  ASSERT_TRUE(bmrt_quantize(&half, two.data(), 2, short_floats)) << "a step means nothing there";
  EXPECT_EQ(short_floats[0], 0x3e00);
  EXPECT_EQ(short_floats[1], 0xfc00);
  ASSERT_TRUE(bmrt_quantize(&brain, two.data(), 2, short_floats));
  EXPECT_EQ(short_floats[0], 0x3fc0);
  EXPECT_EQ(short_floats[1], 0xc780);
  ASSERT_TRUE(bmrt_dequantize(&brain, short_floats, 2, back.data()));
  EXPECT_EQ(back[1], -65536);
  ASSERT_TRUE(bmrt_quantize(&single, two.data(), 2, back.data()));
  EXPECT_EQ(back[1], -65520);
  EXPECT_TRUE(bmrt_quantize(&x, nullptr, 0, nullptr)) << "of nothing";
}

TEST_F(QuantTest, RefusesWhatIsNoQuantization) {
  const float v = 1;
  uint8_t q = 0;
  const auto error = [&](const bmrt_quant_t &quant) {
    EXPECT_FALSE(bmrt_quantize(&quant, &v, 1, &q));
    return std::string(bmrt_last_error());
  };
  EXPECT_EQ(error({BM_UINT8, 0, 0}), "bmrt_quantize: step 0.000000, expected a number above 0 that is finite");
  EXPECT_TRUE(contains(error({BM_UINT8, -1, 0}), "step -1"));
  EXPECT_TRUE(contains(error({BM_UINT8, std::numeric_limits<float>::quiet_NaN(), 0}), "step nan"));
  EXPECT_TRUE(contains(error({BM_UINT8, std::numeric_limits<float>::infinity(), 0}), "step inf"));
  EXPECT_EQ(error({BM_UINT8, 1, 256}), "bmrt_quantize: zero point 256 is outside uint8");
  EXPECT_EQ(error({BM_INT8, 1, -129}), "bmrt_quantize: zero point -129 is outside int8");
  EXPECT_EQ(error({BM_INT4, 1, 0}),
            "bmrt_quantize: type 9 cannot be converted: float32, float16, bfloat16 and integers of 8 to 32 bits can");
  EXPECT_TRUE(contains(error({static_cast<bm_data_type_t>(-1), 1, 0}), "type -1 cannot be converted"));
  const bmrt_quant_t right{BM_UINT8, 1, 0};
  EXPECT_FALSE(bmrt_quantize(nullptr, &v, 1, &q));
  EXPECT_FALSE(bmrt_quantize(&right, nullptr, 1, &q));
  EXPECT_FALSE(bmrt_dequantize(&right, &q, 1, nullptr));
  EXPECT_FALSE(bmrt_dequantize(nullptr, &q, 1, nullptr));
}

TEST_F(QuantTest, LaunchesWithNumbers) {
  const Floats x = numbers(), y = expected(x);
  EXPECT_EQ(launched("bytes", x), y);
  EXPECT_EQ(launched("floats", x), y) << "the same to the bit where the network quantizes";
  // Half precision rounds what goes in and what comes out.
  Floats whole(kCount), rounded;
  for (size_t i = 0; i < kCount; ++i) whole[i] = static_cast<float>(i) - 6;
  const Floats h = launched("halves", whole), exact = expected(whole);
  for (size_t i = 0; i < kCount; ++i) EXPECT_NEAR(h[i], exact[i], std::fabs(exact[i]) / 256);
}

TEST_F(QuantTest, WithoutNumbersNothingIsConverted) {
  const Floats values = numbers(), y = expected(values);
  std::vector<uint8_t> x;
  for (const float v : values) x.push_back(static_cast<uint8_t>(quantized(v, kX)));
  std::vector<int8_t> out(kCount);
  void *in_data[] = {x.data()}, *out_data[] = {out.data()};
  const bm_shape_t in_shape = shape({1, 2, 3, 4});
  bm_shape_t out_shape;
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "bytes", in_data, &in_shape, 1, out_data, &out_shape, 1, true));
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(dequantized(out[i], kY), y[i]);
}

TEST_F(QuantTest, OutputsOfTheRuntimesAreNumbersToo) {
  const Floats x = numbers(), y = expected(x);
  const float *const in[] = {x.data()};
  float *out[] = {nullptr};
  const bm_shape_t in_shape = shape({1, 2, 3, 4});
  bm_shape_t out_shape;
  ASSERT_TRUE(bmrt_launch_data_float32(p_bmrt, "bytes", in, &in_shape, 1, out, &out_shape, 1, false));
  EXPECT_EQ(Floats(out[0], out[0] + kCount), y);
  std::free(out[0]);
}

TEST_F(QuantTest, RefusedLaunchesSayWhy) {
  const Floats x = numbers();
  const float *in[] = {x.data()};
  Floats y(kCount);
  float *out[] = {y.data()};
  const bm_shape_t good = shape({1, 2, 3, 4}), bad = shape({1, 2, 3, 5});
  bm_shape_t out_shape;
  const auto launch = [&](const char *net, const bm_shape_t *shapes) {
    EXPECT_FALSE(bmrt_launch_data_float32(p_bmrt, net, in, shapes, 1, out, &out_shape, 1, true));
    return std::string(bmrt_last_error());
  };
  EXPECT_TRUE(contains(launch("nothing", &good), "bmrt_launch_data_float32: no network named 'nothing'"));
  EXPECT_TRUE(contains(launch("bytes", &bad), "no stage has the input shapes [1,2,3,5]"));
  EXPECT_TRUE(contains(launch("bytes", nullptr), "null pointer instead of tensors"));
  for (const int count : {0, 2, std::numeric_limits<int>::max()}) {
    EXPECT_FALSE(bmrt_launch_data_float32(p_bmrt, "bytes", in, &good, count, out, &out_shape, 1, true));
    EXPECT_TRUE(contains(bmrt_last_error(), "network 'bytes': " + std::to_string(count) + " inputs, expected 1"));
    EXPECT_FALSE(bmrt_launch_data_float32(p_bmrt, "bytes", in, &good, 1, out, &out_shape, count, true));
    EXPECT_TRUE(contains(bmrt_last_error(), "network 'bytes': " + std::to_string(count) + " outputs, expected 1"));
  }
  in[0] = nullptr;
  EXPECT_TRUE(contains(launch("bytes", &good), "network 'bytes' input 0 ('x'): null pointer"));
  in[0] = x.data();
  out[0] = nullptr;
  EXPECT_TRUE(contains(launch("bytes", &good), "network 'bytes' output 0 ('y'): null pointer"));
}

/// A model whose file has a quantization that is none: the launch says so, and nothing else happens.
TEST_F(QuantTest, ADamagedScaleIsAnError) {
  npu::bmodel::StageDesc stage = test_models::mirror({1, 4}, 3, 0, 0);
  stage.inputs[0].scale = 0;
  stage.outputs[0].zero_point = 300;
  ASSERT_TRUE(load(test_models::file({test_models::net("damaged", {stage})}))) << bmrt_last_error();
  const Floats x(4);
  const float *const in[] = {x.data()};
  Floats y(4);
  float *out[] = {y.data()};
  const bm_shape_t in_shape = shape({1, 4});
  bm_shape_t out_shape;
  EXPECT_FALSE(bmrt_launch_data_float32(p_bmrt, "damaged", in, &in_shape, 1, out, &out_shape, 1, true));
  EXPECT_STREQ(bmrt_last_error(),
               "bmrt_launch_data_float32: network 'damaged' input 0 ('x'): step inf, expected a number above 0 that is "
               "finite");
}

TEST_F(QuantTest, TensorsOfTheCppInterfaceTakeAndGiveNumbers) {
  bmruntime::Context context(handle);
  const auto bytes = bmodel(Dtype::U8, Dtype::I8, "bytes");
  ASSERT_EQ(context.load_bmodel(bytes.data(), bytes.size()), BM_SUCCESS) << bmrt_last_error();
  bmruntime::Network network(context, "bytes");
  bmruntime::Tensor *const x = network.Input("x"), *const y = network.Output("y");
  ASSERT_TRUE(x && y);
  const Floats values = numbers();
  Floats result(kCount);
  ASSERT_EQ(x->CopyFromFloat(values.data()), BM_SUCCESS) << bmrt_last_error();
  ASSERT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
  ASSERT_EQ(y->CopyToFloat(result.data()), BM_SUCCESS) << bmrt_last_error();
  EXPECT_EQ(result, expected(values));
  std::vector<uint8_t> raw(kCount);
  ASSERT_EQ(x->CopyTo(raw.data()), BM_SUCCESS);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(raw[i], quantized(values[i], kX));
  EXPECT_EQ(x->CopyToFloat(nullptr), BM_ERR_PARAM);
  EXPECT_EQ(x->CopyFromFloat(nullptr), BM_ERR_PARAM);
  EXPECT_TRUE(contains(bmrt_last_error(), "Tensor::CopyFromFloat: null pointer")) << bmrt_last_error();
  x->set_store_mode(BM_STORE_4N);
  EXPECT_EQ(x->CopyFromFloat(values.data()), BM_ERR_PARAM);
  EXPECT_TRUE(contains(bmrt_last_error(), "only BM_STORE_1N is converted")) << bmrt_last_error();
  EXPECT_EQ(x->CopyToFloat(result.data()), BM_ERR_PARAM);
}

/// What the runtime compiles for other shapes has the types of the stage.
TEST_F(QuantTest, DynamicNetworksKeepTheirTypes) {
  const std::string file = onnx(true);
  npu::compiler::Options options;
  options.io_types = {{Dtype::U8, {}}, {Dtype::I8, {}}};
  options.name = "open";
  options.shapes["x"] = {4, 2, 3, 4};
  npu::compiler::Compiled compiled;
  std::vector<uint8_t> bytes;
  ASSERT_TRUE(npu::compiler::compile_onnx(file.data(), file.size(), options, compiled).ok());
  ASSERT_TRUE(npu::compiler::make_dynamic(file.data(), file.size(), compiled).ok());
  ASSERT_TRUE(npu::compiler::write_bmodel(compiled, bytes).ok());
  ASSERT_TRUE(load(bytes)) << bmrt_last_error();
  const Floats x = numbers();
  EXPECT_EQ(launched("open", x), expected(x)) << "a batch of 1";
}

TEST_F(QuantTest, ThreadsConvertSideBySide) {
  const Floats x = numbers(), y = expected(x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 8; ++i) EXPECT_EQ(launched(i % 2 ? "bytes" : "floats", x), y);
    });
  for (std::thread &t : threads) t.join();
}

}  // namespace
