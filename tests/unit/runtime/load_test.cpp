// SPDX-License-Identifier: MIT
// Loading models, what programs learn about them, and what is refused.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::affine;
using test_models::file;
using test_models::net;
using test_models::plus;
using test_models::sample;
using namespace test_runtime;
using LoadTest = RuntimeTest;

TEST_F(LoadTest, GivesTheNetworksInTheOrderOfTheFile) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  ASSERT_EQ(bmrt_get_network_number(p_bmrt), 4);
  const char **names = nullptr;
  bmrt_get_network_names(p_bmrt, &names);
  ASSERT_TRUE(names);
  const char *const expected[] = {"plus", "affine", "keep", "sum"};
  for (int i = 0; i < 4; ++i) EXPECT_STREQ(names[i], expected[i]);
  free(names);
  EXPECT_EQ(bmrt_get_bm_handle(p_bmrt), handle);
}

TEST_F(LoadTest, DescribesANetwork) {
  ASSERT_TRUE(load(file({net("stages", {plus({1, 8}, 1), plus({4, 8}, 1)})}))) << bmrt_last_error();
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "stages");
  ASSERT_TRUE(info);
  EXPECT_STREQ(info->name, "stages");
  EXPECT_FALSE(info->is_dynamic);
  ASSERT_EQ(info->input_num, 1);
  ASSERT_EQ(info->output_num, 1);
  EXPECT_STREQ(info->input_names[0], "x");
  EXPECT_STREQ(info->output_names[0], "y");
  EXPECT_EQ(info->input_dtypes[0], BM_FLOAT32);
  EXPECT_EQ(info->output_dtypes[0], BM_FLOAT32);
  EXPECT_EQ(info->input_scales[0], 1.0f);
  EXPECT_EQ(info->output_scales[0], 1.0f);
  EXPECT_EQ(info->input_zero_point[0], 0);
  EXPECT_EQ(info->output_zero_point[0], 0);
  EXPECT_EQ(info->input_loc_devices[0], 0);
  EXPECT_EQ(info->output_loc_devices[0], 0);
  EXPECT_EQ(info->max_input_bytes[0], 128u);
  EXPECT_EQ(info->max_output_bytes[0], 128u);
  EXPECT_EQ(info->core_num, 1);
  EXPECT_EQ(info->addr_mode, 0);
  ASSERT_EQ(info->stage_num, 2);
  const bm_shape_t first = shape({1, 8}), second = shape({4, 8});
  EXPECT_TRUE(bmrt_shape_is_same(&info->stages[0].input_shapes[0], &first));
  EXPECT_TRUE(bmrt_shape_is_same(&info->stages[1].output_shapes[0], &second));
  EXPECT_EQ(bm_mem_get_device_size(info->stages[0].input_mems[0]), 32u);
  EXPECT_EQ(bm_mem_get_device_size(info->stages[1].output_mems[0]), 128u);
  bmrt_print_network_info(info);
  bmrt_show_neuron_network(p_bmrt);
  bmrt_trace(p_bmrt);
}

// Programs use the stages' memory as their input and output, and even write into the descriptors.
TEST_F(LoadTest, StageMemoryCanBeUsedAndOverwritten) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "plus");
  ASSERT_TRUE(info);
  const bm_device_mem_t x = info->stages[0].input_mems[0], y = info->stages[0].output_mems[0];
  float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_EQ(bm_memcpy_s2d(handle, x, values), BM_SUCCESS) << npu_last_error();
  bm_tensor_t in = tensor(x, {1, 8}), out = tensor(y, {1, 8});
  info->stages[0].input_mems[0] = bm_mem_null();
  std::memset(&info->stages[0].output_mems[0], 0xff, sizeof(bm_device_mem_t));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(launch("plus", in, out)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    EXPECT_EQ(read(handle, y), (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11}));
  }
}

TEST_F(LoadTest, AddsModelsOneAfterAnother) {
  ASSERT_TRUE(load(file({net("a", {plus({4}, 1)})}))) << bmrt_last_error();
  const bm_net_info_t *a = bmrt_get_network_info(p_bmrt, "a");
  ASSERT_TRUE(load(file({net("b", {plus({4}, 2)})}))) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_info(p_bmrt, "a"), a);  // valid until bmrt_destroy
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 2);
}

TEST_F(LoadTest, RefusesANameTwiceAndLoadsNothingOfThatFile) {
  ASSERT_TRUE(load(file({net("a", {plus({4}, 1)})}))) << bmrt_last_error();
  const uint64_t before = held();
  EXPECT_FALSE(load(file({net("new", {plus({4}, 1)}), net("a", {plus({4}, 1)})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "a network named 'a' is loaded already")) << bmrt_last_error();
  EXPECT_FALSE(load(file({net("c", {plus({4}, 1)}), net("c", {plus({4}, 2)})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "two of its networks are named 'c'")) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 1);
  EXPECT_EQ(held(), before);
  EXPECT_FALSE(bmrt_get_network_info(p_bmrt, "new"));
  EXPECT_TRUE(contains(bmrt_last_error(), "no network named 'new' is loaded; there are: 'a'")) << bmrt_last_error();
}

TEST_F(LoadTest, RefusesMoreLocalMemoryThanTheCardHas) {
  drm_npu_dev_info info;
  ASSERT_EQ(npu_device_info(device, &info), 0);
  npu::bmodel::StageDesc stage = plus({4}, 1);
  stage.lmem_bytes = info.lmem_bytes + 4096;
  EXPECT_FALSE(load(file({net("big", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "'big' was compiled for " + std::to_string(stage.lmem_bytes) +
                                              " bytes of local memory, this card has " +
                                              std::to_string(info.lmem_bytes)))
      << bmrt_last_error();
  stage.lmem_bytes = info.lmem_bytes;
  EXPECT_TRUE(load(file({net("fits", {stage})}))) << bmrt_last_error();
}

TEST_F(LoadTest, RefusesDamagedAndForeignModelsAndGoesOn) {
  std::vector<uint8_t> bytes = sample();
  EXPECT_FALSE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size() - 1));
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_load_bmodel_data: (memory): truncated")) << bmrt_last_error();
  const std::string chip = "QNPU1";
  std::copy_n("XNPU9", 5, std::search(bytes.begin(), bytes.end(), chip.begin(), chip.end()));
  EXPECT_FALSE(load(bytes));
  EXPECT_TRUE(contains(bmrt_last_error(), "compiled for XNPU9, this device is QNPU1")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, "/nonexistent.bmodel"));
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_load_bmodel: /nonexistent.bmodel: cannot open")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, nullptr));
  EXPECT_FALSE(bmrt_load_bmodel_data(p_bmrt, nullptr, 5));
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 0);
  expect_working();
}

TEST_F(LoadTest, RefusesStagesThatDiffer) {
  npu::bmodel::StageDesc other = plus({2, 8}, 1);
  other.inputs[0].name = "z";
  EXPECT_FALSE(load(file({net("n", {plus({1, 8}, 1), other})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "its stages differ in the names or types")) << bmrt_last_error();
}

TEST_F(LoadTest, VerifiesHashesWhenAsked) {
  std::vector<uint8_t> bytes = file({net("affine", {affine(16)})});
  const float w[] = {1, 2, 3, 4};
  const auto *pattern = reinterpret_cast<const uint8_t *>(w);
  const auto at = std::search(bytes.begin(), bytes.end(), pattern, pattern + sizeof w);
  ASSERT_NE(at, bytes.end());
  *at ^= 1;
  setenv("NPU_VERIFY_MODEL", "1", 1);
  EXPECT_FALSE(load(bytes));
  EXPECT_TRUE(contains(bmrt_last_error(), "do not have the SHA-256 that the file states")) << bmrt_last_error();
  *at ^= 1;
  EXPECT_TRUE(load(bytes)) << bmrt_last_error();
  unsetenv("NPU_VERIFY_MODEL");
}

TEST_F(LoadTest, OpensAFileThatCannotBeWritten) {
  char dir[] = "/tmp/npu-load-XXXXXX";
  ASSERT_TRUE(mkdtemp(dir));
  const std::string path = std::string(dir) + "/m.bmodel";
  const std::vector<uint8_t> bytes = sample();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  chmod(path.c_str(), 0444);
  EXPECT_TRUE(bmrt_load_bmodel(p_bmrt, path.c_str())) << bmrt_last_error();
  unlink(path.c_str());
  rmdir(dir);
}

TEST_F(LoadTest, BringsCoefficientsToTheCardEachWay) {
  constexpr uint32_t kCount =
      (20 << 20) / sizeof(float) + 77;  // both ways, then the faster one, then less than a chunk
  Floats numbers(kCount);
  for (uint32_t i = 0; i < kCount; ++i) numbers[i] = static_cast<float>(i);
  test_models::Stage stage;
  stage.input("x", {1}).output("y", {kCount}).coeff(numbers);
  stage.copy(stage.coeff(), 0, stage.out(0), 0, kCount);
  const auto bytes = test_models::file({test_models::net("big", {stage.finish()})});
  char path[] = "/tmp/load-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  for (const char *way : {"", "mapping", "uring"}) {
    setenv("NPU_LOAD", way, 1);
    void *const runtime = bmrt_create(handle);
    ASSERT_TRUE(bmrt_load_bmodel(runtime, path)) << bmrt_last_error();
    const DeviceFloats x(handle, {0});
    const bm_tensor_t in = tensor(x.mem(), {1});
    bm_tensor_t out{};
    ASSERT_TRUE(bmrt_launch_tensor(runtime, "big", &in, 1, &out, 1)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    EXPECT_TRUE(read(handle, out.device_mem) == numbers) << "NPU_LOAD=" << way;
    bm_free_device(handle, out.device_mem);
    bmrt_destroy(runtime);  // else the next one shares them
  }
  setenv("NPU_LOAD", "floppy", 1);
  void *const runtime = bmrt_create(handle);
  EXPECT_FALSE(bmrt_load_bmodel(runtime, path));
  EXPECT_TRUE(strstr(bmrt_last_error(), "NPU_LOAD=floppy: expected mapping or uring")) << bmrt_last_error();
  unsetenv("NPU_LOAD");
  EXPECT_TRUE(bmrt_load_bmodel(runtime, path)) << bmrt_last_error();
  bmrt_destroy(runtime);
  unlink(path);
}

TEST_F(LoadTest, TakesBackEverything) {
  bmrt_destroy(p_bmrt);
  p_bmrt = nullptr;
  const uint64_t before = held();
  for (int i = 0; i < 3; ++i) {
    void *const runtime = bmrt_create(handle);
    ASSERT_TRUE(runtime) << bmrt_last_error();
    const auto bytes = sample();
    EXPECT_TRUE(bmrt_load_bmodel_data(runtime, bytes.data(), bytes.size())) << bmrt_last_error();
    EXPECT_GT(held(), before);
    bmrt_destroy(runtime);
    EXPECT_EQ(held(), before);
  }
}

TEST_F(LoadTest, RefusesToBeCreatedWithoutAHandle) {
  EXPECT_FALSE(bmrt_create(nullptr));
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_create: ")) << bmrt_last_error();
  bmrt_destroy(nullptr);
  EXPECT_EQ(bmrt_get_network_number(nullptr), 0);
  EXPECT_FALSE(bmrt_get_network_info(nullptr, "x"));
  EXPECT_FALSE(bmrt_get_bm_handle(nullptr));
}

}  // namespace
