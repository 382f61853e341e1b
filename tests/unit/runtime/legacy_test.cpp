// SPDX-License-Identifier: MIT
// The old C interface: what programs of before call, and those that use a function of it beside the new one.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "bmruntime_legacy.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::file;
using test_models::net;
using test_models::plus;
using test_models::sample;
using namespace test_runtime;

const Floats kX{1, 2, 3, 4, 5, 6, 7, 8}, kY{4, 5, 6, 7, 8, 9, 10, 11};

/// "plus" (x + 3, [1,8]), "affine", "keep", "sum" and then "stages" (+ 1 for [1,2,2,2], + 2 for [2,2,2,2]).
class LegacyTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(load(sample())) << bmrt_last_error();
    ASSERT_TRUE(load(file({net("stages", {plus({1, 2, 2, 2}, 1), plus({2, 2, 2, 2}, 2)})}))) << bmrt_last_error();
  }
};

// ---- runtimes

TEST_F(LegacyTest, ARuntimeOnAHandleOfTheCallers) {
  void *other = create_bmruntime(&handle, "any chip");
  ASSERT_TRUE(other) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_bm_handle(other), handle);
  destroy_bmruntime(other);
  EXPECT_EQ(bm_get_devid(handle), 0);  // it is still the caller's
}

TEST_F(LegacyTest, ARuntimeWithAHandleOfItsOwn) {
  void *other = create_bmruntime(nullptr, "any chip", 0);
  ASSERT_TRUE(other) << bmrt_last_error();
  auto *own = static_cast<bm_handle_t>(bmrt_get_bm_handle(other));
  EXPECT_NE(own, handle);
  bm_device_mem_t mem;
  EXPECT_EQ(bm_malloc_device_byte(own, &mem, 64), BM_SUCCESS);
  destroy_bmruntime(other);
  EXPECT_EQ(bm_get_devid(own), -1);  // gone with the runtime

  other = create_bmruntime_per_device(nullptr, "any chip", 0);
  own = static_cast<bm_handle_t>(bmrt_get_bm_handle(other));
  bmrt_destroy(other);
  EXPECT_EQ(bm_get_devid(own), -1);
}

TEST_F(LegacyTest, NoRuntimeWithoutADevice) {
  EXPECT_FALSE(create_bmruntime(nullptr, "any chip", 1000));
  EXPECT_TRUE(contains(bmrt_last_error(), "create_bmrt_helper: no NPU device 1000")) << bmrt_last_error();
  bm_handle_t nobody = nullptr;
  EXPECT_FALSE(create_bmruntime(&nobody, "any chip"));
}

TEST_F(LegacyTest, AContextIsADirectory) {
  char directory[] = "/tmp/legacy-XXXXXX";
  ASSERT_TRUE(mkdtemp(directory));
  const std::string path = std::string(directory) + "/compilation.bmodel";
  EXPECT_FALSE(bmrt_load_context(p_bmrt, directory));
  EXPECT_TRUE(contains(bmrt_last_error(), path)) << bmrt_last_error();
  const auto bytes = file({net("from_directory", {plus({1, 8}, 3)})});
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(bmrt_load_context(p_bmrt, directory)) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_index(p_bmrt, "from_directory"), 5);
  EXPECT_FALSE(bmrt_load_context(p_bmrt, nullptr));
  unlink(path.c_str());
  rmdir(directory);
}

// ---- questions

TEST_F(LegacyTest, NamesOfTensors) {
  int number = 0;
  const char **names = nullptr;
  ASSERT_TRUE(bmrt_get_input_tensor(p_bmrt, 0, "sum", &number, &names)) << bmrt_last_error();
  ASSERT_EQ(number, 2);
  EXPECT_STREQ(names[0], "a");
  EXPECT_STREQ(names[1], "b");
  free(names);
  ASSERT_TRUE(bmrt_get_output_tensor(p_bmrt, 2, nullptr, &number, &names)) << bmrt_last_error();  // "keep"
  ASSERT_EQ(number, 2);
  EXPECT_STREQ(names[0], "inc");
  free(names);
  EXPECT_FALSE(bmrt_get_input_tensor(p_bmrt, 0, "nothing", &number, &names));
  EXPECT_FALSE(names);
  EXPECT_FALSE(bmrt_get_input_tensor(p_bmrt, 5, "", &number, &names));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_get_input_tensor: network number 5 of 5");
  EXPECT_FALSE(bmrt_get_input_tensor(p_bmrt, 0, nullptr, nullptr, &names));
}

TEST_F(LegacyTest, TheLargestShapeOfATensor) {
  int dims[BM_MAX_DIMS_NUM] = {};
  ASSERT_EQ(bmrt_get_input_blob_max_shape(p_bmrt, "x", 0, "stages", dims), 4);
  EXPECT_EQ(dims[0], 2);
  EXPECT_EQ(dims[3], 2);
  ASSERT_EQ(bmrt_get_output_blob_max_shape(p_bmrt, "y", 0, nullptr, dims), 2);
  EXPECT_EQ(dims[1], 8);
  int n = -1, c = -1, h = -1, w = -1;
  bmrt_get_input_blob_max_nhw(p_bmrt, "x", 0, "stages", &n, &c, &h, &w);
  EXPECT_EQ((std::vector{n, c, h, w}), (std::vector{2, 2, 2, 2}));
  bmrt_get_output_blob_max_nhw(p_bmrt, "y", 0, "plus", &n, &c, &h, &w);
  EXPECT_EQ((std::vector{n, c, h, w}), (std::vector{1, 8, 1, 1}));
  EXPECT_EQ(bmrt_get_input_blob_max_shape(p_bmrt, "z", 0, "plus", dims), -1);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_get_input_blob_max_shape: network 'plus' has no input 'z'; it has: 'x'");
  bmrt_get_output_blob_max_nhw(p_bmrt, "x", 0, "plus", &n, &c, &h, &w);
  EXPECT_EQ((std::vector{n, c, h, w}), (std::vector{0, 0, 0, 0}));
}

TEST_F(LegacyTest, TypesAndStoreModes) {
  ASSERT_TRUE(load(file({net("choose", {test_models::choose()})}))) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_input_data_type(p_bmrt, "x", 0, "choose"), BM_FLOAT32);
  EXPECT_EQ(bmrt_get_input_data_type(p_bmrt, "flag", 0, "choose"), BM_INT32);
  EXPECT_EQ(bmrt_get_output_data_type(p_bmrt, "index", 0, "choose"), BM_INT32);
  EXPECT_EQ(bmrt_get_output_data_type(p_bmrt, "x", 0, "choose"), -1);
  EXPECT_EQ(bmrt_get_input_gmem_stmode(p_bmrt, "x", 0, "choose"), BM_STORE_1N);
  EXPECT_EQ(bmrt_get_output_gmem_stmode(p_bmrt, "y", 0, nullptr), BM_STORE_1N);
  EXPECT_EQ(bmrt_get_output_gmem_stmode(p_bmrt, "y", 99, nullptr), -1);
  const auto mixed = test_models::mirror({4, 8}, BM_INT8, BM_STORE_4N, BM_STORE_1N);
  ASSERT_TRUE(load(file({net("mixed", {mixed})}))) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_input_gmem_stmode(p_bmrt, "x", 0, "mixed"), BM_STORE_4N);
  EXPECT_EQ(bmrt_get_output_gmem_stmode(p_bmrt, "y", 0, "mixed"), BM_STORE_1N);
}

TEST_F(LegacyTest, LaunchWithStoreModes) {
  ASSERT_TRUE(load(file({net("mirror", {test_models::mirror({4, 8}, BM_INT8, BM_STORE_1N, BM_STORE_1N)})})));
  uint8_t bytes[32], turned[32], found[32];
  for (size_t i = 0; i < 8; ++i)
    for (size_t b = 0; b < 4; ++b) {  // 4N: the batches of one position stand together
      bytes[i * 4 + b] = static_cast<uint8_t>(10 * b + i);
      turned[i * 4 + b] = static_cast<uint8_t>(10 * b + 7 - i);
    }
  const DeviceFloats x(handle, std::vector<float>(8)), y(handle, std::vector<float>(8));
  ASSERT_EQ(bm_memcpy_s2d(handle, x.mem(), bytes), BM_SUCCESS);
  int mode = BM_STORE_4N;
  const int dims = 2, numbers[] = {4, 8};
  ASSERT_TRUE(
      bmrt_launch_shape_stmode(p_bmrt, 0, "mirror", &x.mem(), 1, &dims, numbers, &y.mem(), 1, &mode, &mode, nullptr))
      << bmrt_last_error();
  ASSERT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS) << npu_last_error();
  ASSERT_EQ(bm_memcpy_d2s(handle, found, y.mem()), BM_SUCCESS);
  EXPECT_EQ(std::memcmp(found, turned, sizeof found), 0);
}

TEST_F(LegacyTest, WhichNetworksTakeAnyBatch) {
  auto dynamic = plus({4, 8}, 1);
  dynamic.is_dynamic = dynamic.n_dynamic = 1;
  ASSERT_TRUE(load(file({net("dynamic", {dynamic})}))) << bmrt_last_error();
  EXPECT_TRUE(bmrt_can_batch_size_change(p_bmrt, 0, "dynamic"));
  EXPECT_FALSE(bmrt_can_batch_size_change(p_bmrt, 0, "plus"));
  EXPECT_FALSE(bmrt_can_height_and_width_change(p_bmrt, 0, "dynamic"));
  EXPECT_FALSE(bmrt_can_height_and_width_change(p_bmrt, 0, "nothing"));
  EXPECT_TRUE(contains(bmrt_last_error(), "no network named 'nothing'")) << bmrt_last_error();
}

// ---- launches

TEST_F(LegacyTest, LaunchByNumberAndByName) {
  const DeviceFloats x(handle, kX), y(handle, Floats(8, -1));
  bm_shape_t out{};
  for (const char *name : {"plus", "", static_cast<const char *>(nullptr)}) {
    EXPECT_EQ(bm_memset_device(handle, 0, y.mem()), BM_SUCCESS);
    ASSERT_TRUE(bmrt_launch(p_bmrt, 0, name, &x.mem(), 1, &y.mem(), 1, &out)) << bmrt_last_error();
    EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
    EXPECT_EQ(y.read(), kY);
    EXPECT_EQ(out.num_dims, 2);
    EXPECT_EQ(out.dims[1], 8);
  }
  EXPECT_TRUE(bmrt_launch(p_bmrt, 0, "plus", &x.mem(), 1, &y.mem(), 1, nullptr)) << bmrt_last_error();
  uint64_t us = 0;
  EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
  bmrt_get_last_api_process_time_us(p_bmrt, &us);
  EXPECT_FALSE(bmrt_launch(p_bmrt, 0, "plus", &x.mem(), 2, &y.mem(), 1, nullptr));
  EXPECT_FALSE(bmrt_launch(p_bmrt, 0, "plus", nullptr, 1, &y.mem(), 1, nullptr));
  EXPECT_FALSE(bmrt_launch(p_bmrt, 0, "plus", &x.mem(), 1, &y.mem(), -1, nullptr));
  ASSERT_TRUE(bmrt_launch(p_bmrt, 0, "stages", &x.mem(), 1, &y.mem(), 1, &out)) << bmrt_last_error();
  EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
  EXPECT_EQ(out.dims[0], 1);  // the first of two stages
  EXPECT_EQ(y.read(), (Floats{2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(LegacyTest, LaunchWithAShape) {
  const DeviceFloats a(handle, {1, 2, 3, 4}), b(handle, {10, 20, 30, 40}), c(handle, Floats(4, -1));
  const bm_device_mem_t in[] = {a.mem(), b.mem()};
  const int dims[] = {2, 2}, shapes[] = {1, 4, 2, 2};
  bm_shape_t out{};
  ASSERT_TRUE(bmrt_launch_shape(p_bmrt, 0, "sum", in, 2, dims, shapes, &c.mem(), 1, &out)) << bmrt_last_error();
  EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
  EXPECT_EQ(c.read(), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(bmrt_shape_count(&out), 4u);
  const int nine[] = {9, 2};
  EXPECT_FALSE(bmrt_launch_shape(p_bmrt, 0, "sum", in, 2, nine, shapes, &c.mem(), 1, &out));
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 has 9 dims")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_launch_shape(p_bmrt, 0, "sum", in, 2, nullptr, shapes, &c.mem(), 1, &out));
}

TEST_F(LegacyTest, LaunchWithBatchHeightAndWidthChoosesTheStage) {
  const DeviceFloats x(handle, Floats(16, 1)), y(handle, Floats(16, -1));
  bm_shape_t out{};
  ASSERT_TRUE(bmrt_launch_nhw(p_bmrt, 0, "stages", &x.mem(), 1, &y.mem(), 1, 1, 2, 2, &out)) << bmrt_last_error();
  EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
  EXPECT_EQ(out.dims[0], 1);
  Floats expected(16, -1);
  std::fill_n(expected.begin(), 8, 2.0f);
  EXPECT_EQ(y.read(), expected);

  int one_n = BM_STORE_1N, h = 2, w = 2;
  ASSERT_TRUE(bmrt_launch_nhw_stmode(p_bmrt, 0, "stages", &x.mem(), 1, &y.mem(), 1, 2, 2, 2, &one_n, &one_n, &out))
      << bmrt_last_error();
  EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
  EXPECT_EQ(out.dims[0], 2);
  EXPECT_EQ(y.read(), Floats(16, 3));
  EXPECT_TRUE(bmrt_launch_nhw_stmode_multi_input(p_bmrt, 0, "stages", &x.mem(), 1, &y.mem(), 1, 2, &h, &w, nullptr,
                                                 nullptr, nullptr))
      << bmrt_last_error();
  EXPECT_EQ(bmrt_thread_sync(p_bmrt), BM_SUCCESS);
  EXPECT_FALSE(bmrt_launch_nhw_stmode_multi_input(p_bmrt, 0, "stages", &x.mem(), 1, &y.mem(), 1, 2, nullptr, &w,
                                                  nullptr, nullptr, nullptr));
  EXPECT_FALSE(bmrt_launch_nhw(p_bmrt, 0, "stages", &x.mem(), 1, &y.mem(), 1, 3, 2, 2, &out));  // no such stage
  EXPECT_FALSE(bmrt_launch_nhw(p_bmrt, 0, "plus", &x.mem(), 1, &y.mem(), 1, 1, 2, 2, &out));
  EXPECT_TRUE(contains(bmrt_last_error(), "'plus' input 0 has 2 dims")) << bmrt_last_error();
}

TEST_F(LegacyTest, LaunchWithDataOfTheProcess) {
  Floats in{1, 2, 3, 4, 10, 20, 30, 40}, out(4, -1);
  const int shapes[] = {1, 4, 1, 1, 1, 2, 2, 1};
  bm_shape_t shape{};
  // Each input has one stage's number of elements; "sum" has one stage, so its dims may be others.
  ASSERT_TRUE(bmrt_launch_cpu_data(p_bmrt, 0, "sum", in.data(), 2, out.data(), 1, shapes, &shape)) << bmrt_last_error();
  EXPECT_EQ(out, (Floats{11, 22, 33, 44}));
  EXPECT_EQ(bmrt_shape_count(&shape), 4u);

  Floats a{5, 6, 7, 8}, both(8, -1);
  const int four[] = {4, 1, 1, 1};
  ASSERT_TRUE(bmrt_launch_cpu_data(p_bmrt, 2, nullptr, a.data(), 1, both.data(), 2, four, nullptr))
      << bmrt_last_error();  // "keep": a + 1 and a
  EXPECT_EQ(both, (Floats{6, 7, 8, 9, 5, 6, 7, 8}));
  EXPECT_FALSE(bmrt_launch_cpu_data(p_bmrt, 0, "sum", in.data(), 2, out.data(), 1, nullptr, &shape));
  EXPECT_FALSE(bmrt_launch_cpu_data(p_bmrt, 0, "sum", in.data(), 1, out.data(), 1, shapes, &shape));
}

TEST_F(LegacyTest, ThreadsWaitForTheirOwnLaunches) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const DeviceFloats x(handle, kX), y(handle, Floats(8, -1));
      for (int i = 0; i < 20; ++i)
        right += bmrt_launch(p_bmrt, 0, "plus", &x.mem(), 1, &y.mem(), 1, nullptr) &&
                 bmrt_thread_sync(p_bmrt) == BM_SUCCESS && y.read() == kY;
    });
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(right, 80);
}

// ---- memory

TEST_F(LegacyTest, MemoryByTheRuntime) {
  const uint64_t before = held();
  bm_device_mem_t mem, neuron;
  ASSERT_EQ(bmrt_malloc_device_byte(p_bmrt, &mem, 32), BM_SUCCESS);
  ASSERT_EQ(bmrt_malloc_neuron_device(p_bmrt, &neuron, 1, 2, 3, 4), BM_SUCCESS);
  EXPECT_EQ(bm_mem_get_device_size(neuron), 96u);
  Floats x = kX, got(8, 0);
  EXPECT_EQ(bmrt_memcpy_s2d(p_bmrt, mem, x.data()), BM_SUCCESS);
  EXPECT_EQ(bmrt_memcpy_d2s(p_bmrt, got.data(), mem), BM_SUCCESS);
  EXPECT_EQ(got, kX);
  Floats two{-1, -2};
  EXPECT_EQ(bmrt_memcpy_s2d_withsize(p_bmrt, mem, two.data(), 8), BM_SUCCESS);
  EXPECT_EQ(bmrt_memcpy_s2d_withsize_offset(p_bmrt, mem, two.data(), 8, 24), BM_SUCCESS);
  EXPECT_EQ(bmrt_memcpy_d2s_withsize(p_bmrt, got.data(), mem, 16), BM_SUCCESS);
  EXPECT_EQ(bmrt_memcpy_d2s_withsize_offset(p_bmrt, got.data() + 4, mem, 16, 16), BM_SUCCESS);
  EXPECT_EQ(got, (Floats{-1, -2, 3, 4, 5, 6, -1, -2}));
  EXPECT_EQ(bmrt_memcpy_s2d_withsize_offset(p_bmrt, mem, two.data(), 8, 28), BM_ERR_PARAM);
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_memcpy_s2d_withsize_offset: ")) << bmrt_last_error();
  EXPECT_EQ(bmrt_memcpy_d2s(nullptr, got.data(), mem), BM_ERR_PARAM);
  bmrt_free_device(p_bmrt, mem);
  bmrt_free_device(p_bmrt, neuron);
  EXPECT_EQ(held(), before);
  int count = 0;
  EXPECT_EQ(bmrt_dev_getcount(nullptr, &count), BM_SUCCESS);
  EXPECT_GE(count, 1);
}

}  // namespace
