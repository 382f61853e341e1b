// SPDX-License-Identifier: MIT
// Dynamic networks whose shapes a launch decides: compiled by the runtime, from the network in the file.
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "bmruntime_legacy.h"
#include "compiler/api/npuc.h"
#include "tests/unit/compiler/onnx_builder.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using namespace test_runtime;
using npu::compiler::Compiled;
using npu::compiler::Options;
using npu::test::OnnxBuilder;

constexpr int kChannels = 2, kFilters = 5;

/// relu(conv3x3(x)) with padding, x [n,2,h,w] of any n, h, w; and the weights, for the test's own convolution.
struct Conv {
  Conv() {
    OnnxBuilder b;
    const std::string x = b.input({1, kChannels, 1, 1}, "x");
    const std::string w = b.weights({kFilters, kChannels, 3, 3});
    const std::string c = b.op("Conv", {x, w});
    b.attr("pads", std::vector<int64_t>{1, 1, 1, 1});
    b.output(b.op("Relu", {c}));
    auto &dims = *b.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const int d : {0, 2, 3}) dims.mutable_dim(d)->set_dim_param("d" + std::to_string(d));
    const auto &values = b.model.graph().initializer(0).float_data();
    weights.assign(values.begin(), values.end());
    onnx = b.bytes();
  }
  /// By the definition.
  Floats operator()(const Floats &x, int n, int h, int w) const {
    Floats out;
    for (int i = 0; i < n; ++i)
      for (int f = 0; f < kFilters; ++f)
        for (int r = 0; r < h; ++r)
          for (int c = 0; c < w; ++c) out.push_back(static_cast<float>(std::max(at(x, h, w, i, f, r, c), 0.0)));
    return out;
  }
  double at(const Floats &x, int h, int w, int i, int f, int r, int c) const {
    double sum = 0;
    for (int k = 0; k < kChannels; ++k)
      for (int y = 0; y < 3; ++y)
        for (int z = 0; z < 3; ++z) {
          const int row = r + y - 1, column = c + z - 1;
          if (row < 0 || row >= h || column < 0 || column >= w) continue;
          sum += double{x[static_cast<size_t>(((i * kChannels + k) * h + row) * w + column)]} *
                 weights[static_cast<size_t>(((f * kChannels + k) * 3 + y) * 3 + z)];
        }
    return sum;
  }
  std::string onnx;
  Floats weights;
};

Compiled compiled(const std::string &onnx, const std::vector<int64_t> &shape) {
  Options options;
  options.name = "conv";
  options.shapes["x"] = shape;
  Compiled out;
  const npu::Status status = npu::compiler::compile_onnx(onnx.data(), onnx.size(), options, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

std::vector<uint8_t> bmodel(const Compiled &network) {
  std::vector<uint8_t> out;
  EXPECT_TRUE(npu::compiler::write_bmodel(network, out).ok());
  return out;
}

Floats numbers(int count) {
  Floats out;
  for (int i = 0; i < count; ++i) out.push_back(std::sin(static_cast<float>(i) * 0.7f));
  return out;
}

void expect_near(const Floats &got, const Floats &expected, const std::string &what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << what << " element " << i;
}

class ShapesTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    network_ = compiled(conv_.onnx, {4, kChannels, 20, 24});
    const auto status = npu::compiler::make_dynamic(conv_.onnx.data(), conv_.onnx.size(), network_);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(load(bmodel(network_))) << bmrt_last_error();
  }
  /// Launches, compares with the definition.
  void run(int n, int h, int w) {
    const std::string what = std::to_string(n) + "x" + std::to_string(h) + "x" + std::to_string(w);
    const Floats values = numbers(n * kChannels * h * w);
    const DeviceFloats x(handle, values);
    bm_tensor_t in = tensor(x.mem(), {n, kChannels, h, w}), out{};
    ASSERT_TRUE(launch("conv", in, out, false)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    const bm_shape_t expected = shape({n, kFilters, h, w});
    EXPECT_TRUE(bmrt_shape_is_same(&out.shape, &expected)) << what;
    expect_near(read(handle, out.device_mem), conv_(values, n, h, w), what);
    bm_free_device(handle, out.device_mem);
  }
  /// How often the runtime compiles meanwhile. Another runtime's trace, which has the calls of the process, tells.
  template <class F>
  int compilations(F what) {
    char dir[] = "/tmp/shapes-XXXXXX";
    EXPECT_TRUE(mkdtemp(dir));
    setenv("BMRUNTIME_ENABLE_PROFILE", "1", 1);
    setenv("BMRUNTIME_PROFILE_FILE", (std::string(dir) + "/trace").c_str(), 1);
    void *const tracer = bmrt_create(handle);
    unsetenv("BMRUNTIME_ENABLE_PROFILE");
    unsetenv("BMRUNTIME_PROFILE_FILE");
    what();
    bmrt_destroy(tracer);
    int count = 0, calls = 0;
    for (const auto &path : std::filesystem::directory_iterator(dir)) {
      const auto events = nlohmann::json::parse(std::ifstream(path.path()));
      for (const auto &e : events)
        if (e["ph"] == "X") ++calls, count += e["name"] == "compile";
    }
    EXPECT_GT(calls, 0) << "no trace in " << dir;
    std::filesystem::remove_all(dir);
    return count;
  }
  void expect_refused(const std::vector<int> &dims, const std::string &message) {
    const DeviceFloats x(handle, Floats(4 * kChannels * 32 * 32));
    bm_tensor_t in = tensor(x.mem(), dims), out{};
    EXPECT_FALSE(launch("conv", in, out, false)) << message;
    EXPECT_TRUE(contains(bmrt_last_error(), message)) << bmrt_last_error();
  }

  const Conv conv_;
  Compiled network_;
};

TEST_F(ShapesTest, AnyShapeUpToTheStagesGivesWhatTheDefinitionSays) {
  EXPECT_TRUE(bmrt_get_network_info(p_bmrt, "conv")->is_dynamic);
  EXPECT_TRUE(bmrt_can_batch_size_change(p_bmrt, 0, "conv"));
  EXPECT_TRUE(bmrt_can_height_and_width_change(p_bmrt, 0, "conv"));
  for (const auto &[n, h, w] : std::vector<std::array<int, 3>>{
           {4, 20, 24}, {1, 20, 24}, {3, 1, 1}, {4, 7, 24}, {2, 20, 1}, {1, 13, 17}, {4, 20, 23}, {1, 13, 17}})
    run(n, h, w);
}

TEST_F(ShapesTest, ModelledCyclesAreThoseOfTheSameNetworkCompiledForTheShape) {
  for (const auto &[n, h, w] : std::vector<std::array<int, 3>>{{1, 9, 24}, {3, 20, 5}, {4, 20, 24}}) {
    run(n, h, w);
    uint64_t cycles = 0;
    ASSERT_TRUE(bmrt_last_launch_cycles(p_bmrt, &cycles)) << bmrt_last_error();
    EXPECT_EQ(cycles, compiled(conv_.onnx, {n, kChannels, h, w}).report.cycles);
  }
}

TEST_F(ShapesTest, AShapeIsCompiledOnce) {
  run(2, 6, 6);
  const uint64_t before = held();
  for (int i = 0; i < 5; ++i) run(2, 6, 6);
  EXPECT_EQ(held(), before);
  run(2, 6, 7);
  EXPECT_GT(held(), before) << "another program";
}

/// The file of a plug-in may be replaced while programs run that have loaded it.
TEST_F(ShapesTest, ALoadedPluginNeedsItsFileNoMore) {
  char dir[] = "/tmp/shapes-XXXXXX";
  ASSERT_TRUE(mkdtemp(dir));
  const std::string copy = std::string(dir) + "/plugin.so";
  std::filesystem::copy_file(getenv("NPU_TEST_PLUGIN_FILE"), copy);
  EXPECT_TRUE(bmrt_load_plugin(copy.c_str())) << bmrt_last_error();
  std::filesystem::remove_all(dir);
  run(2, 5, 9);
  run(1, 9, 5);
}

TEST_F(ShapesTest, TheOldInterfaceVariesHeightAndWidth) {
  EXPECT_TRUE(bmrt_can_batch_size_change(p_bmrt, 0, "conv"));
  EXPECT_TRUE(bmrt_can_height_and_width_change(p_bmrt, 0, "conv"));
  const Floats values = numbers(2 * kChannels * 5 * 9);
  const DeviceFloats x(handle, values), y(handle, Floats(2 * kFilters * 45));
  bm_shape_t found;
  ASSERT_TRUE(bmrt_launch_nhw(p_bmrt, 0, "conv", &x.mem(), 1, &y.mem(), 1, 2, 5, 9, &found)) << bmrt_last_error();
  ASSERT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS) << npu_last_error();
  const bm_shape_t expected = shape({2, kFilters, 5, 9});
  EXPECT_TRUE(bmrt_shape_is_same(&found, &expected));
  expect_near(y.read(), conv_(values, 2, 5, 9), "bmrt_launch_nhw");
}

TEST_F(ShapesTest, LaunchesDoNotWaitForTheirJobs) {
  run(1, 8, 8);
  const DeviceFloats x(handle, numbers(kChannels * 64)), y(handle, Floats(kFilters * 64));
  const bm_tensor_t in = tensor(x.mem(), {1, kChannels, 8, 8});
  bm_tensor_t out = tensor(y.mem(), {1, kFilters, 8, 8});
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(launch("conv", in, out)) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  expect_near(y.read(), conv_(numbers(kChannels * 64), 1, 8, 8), "after 200 launches");
}

TEST_F(ShapesTest, OtherShapesAreRefusedWithTheReason) {
  const char *const beyond = "expected [4,2,20,24] or smaller ones";
  for (const std::vector<int> &dims : {std::vector<int>{5, 2, 20, 24},
                                       {4, 2, 21, 24},
                                       {4, 2, 20, 25},
                                       {0, 2, 20, 24},
                                       {4, 2, -3, 24},
                                       {4, 2, 480},
                                       {1, 4, 2, 20, 24}})
    expect_refused(dims, beyond);
  const uint64_t before = held();
  for (int i = 0; i < 3; ++i)
    expect_refused({4, 1, 20, 24},
                   "network 'conv': input shapes [4,1,20,24]: input 'x' is given the shape [4, 1, 20, 24]");
  EXPECT_EQ(held(), before);
  run(1, 4, 4);
}

TEST_F(ShapesTest, MemoryOfTheCallerHasToHoldTheShape) {
  const DeviceFloats x(handle, numbers(kChannels * 25)), y(handle, Floats(kFilters * 25 - 1));
  const bm_tensor_t in = tensor(x.mem(), {1, kChannels, 5, 5});
  bm_tensor_t out = tensor(y.mem(), {1, kFilters, 5, 5});
  EXPECT_FALSE(launch("conv", in, out));
  EXPECT_TRUE(contains(bmrt_last_error(), "its device memory has 496 bytes, the tensor needs 500"))
      << bmrt_last_error();
}

TEST_F(ShapesTest, DataMayHaveAnyShape) {
  Floats x = numbers(2 * kChannels * 3 * 11);
  void *inputs[] = {x.data()}, *outputs[] = {nullptr};
  const bm_shape_t in = shape({2, kChannels, 3, 11}), expected = shape({2, kFilters, 3, 11});
  bm_shape_t out;
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "conv", inputs, &in, 1, outputs, &out, 1, false)) << bmrt_last_error();
  EXPECT_TRUE(bmrt_shape_is_same(&out, &expected));
  const auto *y = static_cast<const float *>(outputs[0]);
  expect_near(Floats(y, y + 2 * kFilters * 33), conv_(x, 2, 3, 11), "launch_data");
  free(outputs[0]);
}

TEST_F(ShapesTest, MoreShapesThanAreKeptWork) {
  const DeviceFloats x(handle, numbers(kChannels * 30)), y(handle, Floats(kFilters * 30));
  const bm_tensor_t in = tensor(x.mem(), {1, kChannels, 1, 15});
  bm_tensor_t out = tensor(y.mem(), {1, kFilters, 1, 15});
  api_info_c *const record = get_bmodel_api_info_c(p_bmrt, "conv", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(record) << bmrt_last_error();
  const auto shapes = [this](int first, int end) {
    for (int i = first; i < end; ++i) run(1, 1 + i / 24, 1 + i % 24);
  };
  shapes(0, 40);
  const uint64_t full = held();
  shapes(40, 120);
  EXPECT_LE(held(), full + full / 8) << "what was used longest ago is forgotten";
  run(1, 1, 1);
  // A launch as data keeps its program.
  ASSERT_EQ(bm_send_api(handle, record->api_id[0], record->api_data[0],
                        static_cast<unsigned int>(record->api_data_subsize[0])),
            BM_SUCCESS)
      << npu_last_error();
  ASSERT_EQ(bm_sync_api(handle), BM_SUCCESS) << npu_last_error();
  Floats got = y.read();
  got.resize(kFilters * 15);
  expect_near(got, conv_(numbers(kChannels * 15), 1, 1, 15), "bm_send_api");
  bmrt_free_api_info(record);
}

TEST_F(ShapesTest, WhatWasUsedLongestAgoIsForgottenFirst) {
  constexpr int kKept = 32;  // Variants::kMost
  const auto shape_number = [this](int i) { run(1, 1 + i / 24, 1 + i % 24); };
  for (int i = 0; i < kKept; ++i) shape_number(i);
  shape_number(0);
  shape_number(kKept);  // in place of shape 1
  EXPECT_EQ(compilations([&] {
              for (int i = 0; i <= kKept; ++i)
                if (i != 1) shape_number(i);
            }),
            0);
  EXPECT_EQ(compilations([&] { shape_number(1); }), 1);
}

TEST_F(ShapesTest, ThreadsDoNotDisturbEachOther) {
  bmrt_set_max_launches(p_bmrt, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 24; ++i) run(1 + (t + i) % 3, 2 + i % 5, 3 + t % 2);
    });
  bmrt_set_max_launches(p_bmrt, 3);
  for (std::thread &t : threads) t.join();
}

TEST_F(ShapesTest, TheStageOfAShapeIsTheSmallestThatHoldsIt) {
  Compiled two = compiled(conv_.onnx, {4, kChannels, 20, 24});
  ASSERT_TRUE(npu::compiler::add_stage(compiled(conv_.onnx, {8, kChannels, 5, 5}), two).ok());
  ASSERT_TRUE(npu::compiler::add_stage(compiled(conv_.onnx, {1, kChannels, 20, 24}), two).ok());
  two.net.name = "two";
  ASSERT_TRUE(npu::compiler::make_dynamic(conv_.onnx.data(), conv_.onnx.size(), two).ok());
  ASSERT_TRUE(load(bmodel(two))) << bmrt_last_error();
  const auto stage = [&](const std::vector<int> &dims) {
    bm_tensor_t in{};
    in.shape = shape(dims);
    return bmrt_get_stage_index(p_bmrt, "two", &in);
  };
  EXPECT_EQ(stage({4, 2, 20, 24}), 0);
  EXPECT_EQ(stage({2, 2, 20, 24}), 0);
  EXPECT_EQ(stage({1, 2, 20, 24}), 2);
  EXPECT_EQ(stage({1, 2, 6, 5}), 2);
  EXPECT_EQ(stage({8, 2, 5, 5}), 1);
  EXPECT_EQ(stage({8, 2, 6, 5}), -1);
  EXPECT_TRUE(contains(bmrt_last_error(), "expected [4,2,20,24] or [8,2,5,5] or [1,2,20,24] or smaller ones"));
  const Floats values = numbers(7 * kChannels * 4 * 5);
  const DeviceFloats x(handle, values);
  bm_tensor_t in = tensor(x.mem(), {7, kChannels, 4, 5}), out{};
  ASSERT_TRUE(launch("two", in, out, false)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  expect_near(read(handle, out.device_mem), conv_(values, 7, 4, 5), "of two stages");
  bm_free_device(handle, out.device_mem);
}

TEST_F(ShapesTest, AFileWithoutOpenDimensionsCannotBeDynamic) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({1, 4}, "x")}));
  const std::string onnx = b.bytes();
  Compiled fixed = compiled(onnx, {1, 4});
  EXPECT_EQ(npu::compiler::make_dynamic(onnx.data(), onnx.size(), fixed).message(),
            "--dynamic: the file fixes all dimensions of its inputs, none may vary");
}

TEST_F(ShapesTest, ABadHeaderOfTheNetworkIsRefused) {
  network_.net.name = "other";
  const std::vector<uint8_t> good = bmodel(network_);
  const std::string_view magic = "QSRC";
  const auto at = std::search(good.begin(), good.end(), magic.begin(), magic.end()) - good.begin();
  const std::pair<int, const char *> cases[] = {
      {0, "its code for dynamic shapes (binary_ir) is another chip's"},
      {4, "its network (binary_ir) is of version 254, expected 1"},
      {6, "the header of its network (binary_ir) has another size, or reserved"},
      {8, "has format 254, expected 1"},
      {12, "the header of its network (binary_ir) has another size, or reserved"},
      {17, "bytes, its header says"},
      {24, "the header of its network (binary_ir) has another size, or reserved"}};
  for (const auto &[offset, message] : cases) {
    auto bytes = good;
    bytes[static_cast<size_t>(at + offset)] = offset == 17 ? 0xff : 254;
    EXPECT_FALSE(load(bytes)) << offset;
    EXPECT_TRUE(contains(bmrt_last_error(), message)) << offset << ": " << bmrt_last_error();
    EXPECT_TRUE(contains(bmrt_last_error(), "network 'other'")) << bmrt_last_error();
  }
  ASSERT_TRUE(load(good)) << bmrt_last_error();
}

TEST_F(ShapesTest, ANetworkThatIsNotOneIsFoundOutByTheLaunch) {
  Compiled bad = network_;
  bad.net.name = "bad";
  bad.net.source = {'n', 'o', 'i', 's', 'e'};
  ASSERT_TRUE(load(bmodel(bad))) << bmrt_last_error();
  const auto load_other = [&](const char *name, bool named) {
    OnnxBuilder b;
    const std::string r = b.op("Relu", {b.input({1, kChannels, 1, 1}, "x")});
    b.output(r);
    if (named) b.output(b.op("Relu", {b.op("Relu", {r})}));  // the name of the stage's output, behind another one
    const std::string onnx = b.bytes();
    bad.net.name = name;
    bad.net.source.assign(onnx.begin(), onnx.end());
    ASSERT_TRUE(load(bmodel(bad))) << bmrt_last_error();
  };
  load_other("other", true);
  load_other("nameless", false);
  const DeviceFloats x(handle, numbers(4 * kChannels * 20 * 24));
  const auto refused = [&](const char *name, const std::vector<int> &dims, const char *message) {
    bm_tensor_t in = tensor(x.mem(), dims), out{};
    EXPECT_FALSE(launch(name, in, out, false));
    EXPECT_TRUE(contains(bmrt_last_error(), message)) << bmrt_last_error();
  };
  refused("bad", {1, kChannels, 1, 1}, "network 'bad': input shapes [1,2,1,1]: not an ONNX file");
  refused("other", {1, kChannels, 1, 1}, "the network in the file has other tensors than its stages");
  refused("nameless", {1, kChannels, 1, 1}, "type of output 't3': the network has no such output; it has 't1'");
  for (const char *name : {"bad", "other", "nameless"}) {
    bm_tensor_t in = tensor(x.mem(), {4, kChannels, 20, 24}), out{};
    ASSERT_TRUE(launch(name, in, out, false)) << "a stage's own shape needs no compiler: " << bmrt_last_error();
    bm_free_device(handle, out.device_mem);
  }
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS);
}

// The stage's program and weights are in memory of the program's, those of other shapes in the runtime's.
TEST_F(ShapesTest, AStageMayLieInMemoryOfTheProgram) {
  const auto bytes = bmodel(network_);
  mem_info_t info;
  ASSERT_TRUE(bmrt_get_bmodel_data_info(bytes.data(), bytes.size(), &info)) << bmrt_last_error();
  std::vector<bm_device_mem_t> mine;
  for (memory_t *m : {&info.instruction_mem, &info.coeff_mem, &info.io_mem, &info.neuron_mem}) {
    if (!m->size) continue;
    ASSERT_EQ(bm_malloc_device_byte(handle, &mine.emplace_back(), static_cast<unsigned int>(m->size)), BM_SUCCESS);
    m->addr = static_cast<int64_t>(bm_mem_get_device_addr(mine.back()));
  }
  void *const other = std::exchange(p_bmrt, bmrt_create(handle));
  ASSERT_TRUE(bmrt_load_bmodel_data_with_mem(p_bmrt, bytes.data(), bytes.size(), &info)) << bmrt_last_error();
  run(4, 20, 24);
  run(3, 17, 11);
  run(4, 20, 24);
  // Without its weights the stage gives zeros; what was compiled has its own.
  const DeviceFloats x(handle, numbers(4 * kChannels * 20 * 24));
  const auto coeff = bm_mem_from_device(static_cast<unsigned long long>(info.coeff_mem.addr),
                                        static_cast<unsigned int>(info.coeff_mem.size));
  ASSERT_EQ(bm_memset_device(handle, 0, coeff), BM_SUCCESS) << npu_last_error();
  bm_tensor_t in = tensor(x.mem(), {4, kChannels, 20, 24}), out{};
  ASSERT_TRUE(launch("conv", in, out, false)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(read(handle, out.device_mem), Floats(4 * kFilters * 20 * 24, 0.0f));
  bm_free_device(handle, out.device_mem);
  run(3, 17, 11);
  bmrt_destroy(std::exchange(p_bmrt, other));
  for (const bm_device_mem_t &mem : mine) bm_free_device(handle, mem);
}

}  // namespace
