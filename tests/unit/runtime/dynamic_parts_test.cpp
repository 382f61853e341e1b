// SPDX-License-Identifier: MIT
// Dynamic networks with parts for the CPU: token indices look up a table, the chip multiplies, and two more outputs
// depend on one input each.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "bmruntime_legacy.h"
#include "compiler/api/npuc.h"
#include "tests/unit/compiler/onnx_builder.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using namespace test_runtime;
using npu::compiler::Compiled;
using npu::compiler::Options;
using npu::test::OnnxBuilder;

constexpr int kTokens = 64, kWidth = 64;

/// y = table[ids] @ weights [n,t,64], picked = GridSample(image 3x3, grid) [1,1,h,2], size = shape of ids (int64).
struct Text {
  Text() {
    OnnxBuilder b(16);
    const std::string ids = b.input({1, 1}, "ids", onnx::TensorProto::INT64);
    const std::string grid = b.input({1, 1, 2, 2}, "grid");
    const std::string rows = b.op("Gather", {b.weights({kTokens, kWidth}), ids});
    b.named("look up");
    y = b.op("MatMul", {rows, b.weights({kWidth, kWidth})});
    const std::string image = b.constant({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
    picked = b.op("GridSample", {image, grid});
    b.attr("align_corners", int64_t{1});
    size = b.op("Shape", {ids});
    b.output(y).output(picked).output(size);
    for (int i = 0; i < 3; ++i)  // the file has no shapes of outputs
      b.model.mutable_graph()->mutable_output(i)->mutable_type()->mutable_tensor_type()->clear_shape();
    b.model.mutable_graph()->mutable_output(2)->mutable_type()->mutable_tensor_type()->set_elem_type(
        onnx::TensorProto::INT64);
    const auto open = [&b](int input, int dim, const char *name) {
      auto &type = *b.model.mutable_graph()->mutable_input(input)->mutable_type()->mutable_tensor_type();
      type.mutable_shape()->mutable_dim(dim)->set_dim_param(name);
    };
    open(0, 0, "n");
    open(0, 1, "t");
    open(1, 1, "h");
    for (int i = 0; i < 2; ++i) {
      const auto &values = b.model.graph().initializer(i).float_data();
      constants[i].assign(values.begin(), values.end());
    }
    onnx = b.bytes();
  }

  /// By the definition.
  Floats rows(const std::vector<int32_t> &ids) const {
    Floats out;
    for (const int32_t id : ids)
      for (int c = 0; c < kWidth; ++c) {
        double sum = 0;
        for (int k = 0; k < kWidth; ++k)
          sum += double{constants[0][static_cast<size_t>(id * kWidth + k)]} *
                 constants[1][static_cast<size_t>(k * kWidth + c)];
        out.push_back(static_cast<float>(sum));
      }
    return out;
  }

  std::string onnx, y, picked, size;
  Floats constants[2];
};

class DynamicPartsTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    Options options;
    options.name = "text";
    options.shapes = {{"ids", {3, 16}}, {"grid", {1, 9, 2, 2}}};
    Compiled compiled;
    ASSERT_EQ(npu::compiler::compile_onnx(text_.onnx.data(), text_.onnx.size(), options, compiled).message(), "");
    ASSERT_GT(compiled.report.host_parts, 0u);
    ASSERT_GT(compiled.report.tiu_commands, 0u) << "the chip has a part, too";
    ASSERT_EQ(npu::compiler::make_dynamic(text_.onnx.data(), text_.onnx.size(), compiled).message(), "");
    std::vector<uint8_t> bytes;
    ASSERT_TRUE(npu::compiler::write_bmodel(compiled, bytes).ok());
    ASSERT_TRUE(load(bytes)) << bmrt_last_error();
  }

  /// Launches with `n` rows of `t` indices and a grid of `h` rows. What the launch says: see bmrt_last_error().
  bool launch_with(int n, int t, int h, int32_t first, Floats &y, Floats &picked, std::vector<int32_t> &size) {
    std::vector<int32_t> ids = ids_of(n, t, first);
    Floats grid = grid_of(h);
    void *inputs[] = {ids.data(), grid.data()}, *outputs[3] = {};
    const bm_shape_t in[] = {shape({n, t}), shape({1, h, 2, 2})};
    bm_shape_t out[3];
    if (!bmrt_launch_data(p_bmrt, "text", inputs, in, 2, outputs, out, 3, false)) return false;
    const std::vector<int> expected[] = {{n, t, kWidth}, {1, 1, h, 2}, {2}};
    for (int k = 0; k < 3; ++k) {
      const bm_shape_t right = shape(expected[k]);
      EXPECT_TRUE(bmrt_shape_is_same(&out[k], &right)) << "output " << k;
    }
    const auto *const a = static_cast<float *>(outputs[0]), *const b = static_cast<float *>(outputs[1]);
    const auto *const c = static_cast<int32_t *>(outputs[2]);
    y.assign(a, a + n * t * kWidth);
    picked.assign(b, b + 2 * h);
    size.assign(c, c + 2);
    for (void *p : outputs) free(p);
    return true;
  }

  static std::vector<int32_t> ids_of(int n, int t, int32_t first) {
    std::vector<int32_t> out;
    for (int i = 0; i < n * t; ++i) out.push_back((first + 7 * i) % kTokens);
    return out;
  }
  /// The centres of pixels, in turn.
  static Floats grid_of(int h) {
    Floats out;
    for (int i = 0; i < 2 * h; ++i) {
      out.push_back(static_cast<float>(i % 3 - 1));
      out.push_back(static_cast<float>(i / 3 % 3 - 1));
    }
    return out;
  }

  void run(int n, int t, int h, int32_t first = 0) {
    Floats y, picked, expected_picked;
    std::vector<int32_t> size;
    ASSERT_TRUE(launch_with(n, t, h, first, y, picked, size)) << bmrt_last_error();
    const Floats expected = text_.rows(ids_of(n, t, first));
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4) << n << "x" << t << " element " << i;
    for (int i = 0; i < 2 * h; ++i) expected_picked.push_back(static_cast<float>(i % 9));
    EXPECT_EQ(picked, expected_picked);
    EXPECT_EQ(size, (std::vector<int32_t>{n, t}));
  }

  const Text text_;
};

TEST_F(DynamicPartsTest, NamesTypesAndLargestShapesAreThoseOfTheFile) {
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "text");
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->is_dynamic);
  EXPECT_TRUE(bmrt_can_height_and_width_change(p_bmrt, 0, "text"));
  EXPECT_STREQ(info->input_names[0], "ids");
  EXPECT_STREQ(info->input_names[1], "grid");
  EXPECT_EQ(info->input_dtypes[0], BM_INT32);
  const std::string names[] = {text_.y, text_.picked, text_.size};
  const bm_data_type_t types[] = {BM_FLOAT32, BM_FLOAT32, BM_INT32};
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(info->output_names[k], names[k]);
    EXPECT_EQ(info->output_dtypes[k], types[k]);
  }
  EXPECT_EQ(info->max_output_bytes[0], size_t{4} * 3 * 16 * kWidth);
}

// A row alone is too little work for the chip: then the network is one part, on the CPU.
TEST_F(DynamicPartsTest, AnyShapeGivesWhatTheDefinitionSays) {
  for (const auto &[n, t, h] :
       std::vector<std::array<int, 3>>{{3, 16, 9}, {1, 1, 9}, {1, 1, 1}, {3, 15, 1}, {2, 16, 4}, {1, 5, 4}, {1, 6, 4}})
    run(n, t, h, n + t);
}

TEST_F(DynamicPartsTest, ThreadsDoNotDisturbEachOther) {
  bmrt_set_max_launches(p_bmrt, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 12; ++i) run(1 + (t + i) % 3, 14 + i % 3, 1 + i % 2, t);
    });
  for (std::thread &t : threads) t.join();
}

// 36 shapes for each n, and 32 are kept; those of a smaller n take less memory.
TEST_F(DynamicPartsTest, MoreShapesThanAreKeptWork) {
  const auto shapes_of = [this](int n) {
    for (int t = 13; t <= 16; ++t)
      for (int h = 1; h <= 9; ++h) run(n, t, h);
  };
  shapes_of(3);
  const uint64_t full = held();
  shapes_of(2);
  EXPECT_LE(held(), full) << "what was used longest ago is forgotten";
  run(1, 1, 1);
}

TEST_F(DynamicPartsTest, OtherShapesAreRefusedWithTheReason) {
  Floats y, picked;
  std::vector<int32_t> size;
  const uint64_t before = held();
  for (const auto &[n, t, h] : std::vector<std::array<int, 3>>{{4, 16, 9}, {3, 17, 9}, {3, 16, 10}, {0, 1, 1}}) {
    EXPECT_FALSE(launch_with(n, t, h, 0, y, picked, size));
    EXPECT_TRUE(contains(bmrt_last_error(), "network 'text': no stage has the input shapes")) << bmrt_last_error();
    EXPECT_TRUE(contains(bmrt_last_error(), "expected [3,16] [1,9,2,2] or smaller ones")) << bmrt_last_error();
  }
  EXPECT_EQ(held(), before);
  run(3, 16, 9);
}

TEST_F(DynamicPartsTest, AnErrorInTheDataNamesPartAndNode) {
  Floats grid = grid_of(1);
  std::vector<int32_t> ids{5, kTokens};
  void *inputs[] = {ids.data(), grid.data()}, *outputs[3] = {};
  const bm_shape_t in[] = {shape({1, 2}), shape({1, 1, 2, 2})};
  bm_shape_t out[3];
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(bmrt_launch_data(p_bmrt, "text", inputs, in, 2, outputs, out, 3, false));
    for (const char *part : {"network 'text': sub-network ", "(Gather 'look up')", "64"})
      EXPECT_TRUE(contains(bmrt_last_error(), part)) << bmrt_last_error();
  }
  run(1, 2, 1);
}

}  // namespace
