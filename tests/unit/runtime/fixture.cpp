// SPDX-License-Identifier: MIT
#include "tests/unit/runtime/fixture.h"

#include <cstdlib>

namespace test_runtime {

DeviceFloats::DeviceFloats(bm_handle_t handle, const std::vector<float> &values) : handle_(handle) {
  const auto bytes = static_cast<unsigned int>(values.size() * sizeof(float));
  EXPECT_EQ(bm_malloc_device_byte(handle, &mem_, bytes), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(bm_memcpy_s2d(handle, mem_, const_cast<float *>(values.data())), BM_SUCCESS) << npu_last_error();
}

std::vector<float> DeviceFloats::read() const { return test_runtime::read(handle_, mem_); }

bm_device_mem_t DeviceFloats::part(unsigned int offset, unsigned int bytes) const {
  return bm_mem_from_device(bm_mem_get_device_addr(mem_) + offset, bytes);
}

std::vector<float> read(bm_handle_t handle, const bm_device_mem_t &mem) {
  std::vector<float> values(bm_mem_get_device_size(mem) / sizeof(float));
  EXPECT_EQ(bm_memcpy_d2s(handle, values.data(), mem), BM_SUCCESS) << npu_last_error();
  return values;
}

bm_shape_t shape(const std::vector<int> &dims) {
  bm_shape_t s;
  bmrt_shape(&s, dims.data(), static_cast<int>(dims.size()));
  return s;
}

bm_tensor_t tensor(const bm_device_mem_t &mem, const std::vector<int> &dims, bm_data_type_t dtype) {
  bm_tensor_t t;
  bmrt_tensor_with_device(&t, mem, dtype, shape(dims));
  return t;
}

Floats plus_each(Floats values, float constant) {
  for (float &v : values) v += constant;
  return values;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

bool has_own_memory(npu_device *device) {
  drm_npu_dev_info info{};
  EXPECT_EQ(npu_device_info(device, &info), 0) << npu_last_error();
  return info.ddr_bytes != 0;
}

uint64_t held_by_process(npu_device *device) {
  // What libnpu has of the system for each of up to four threads that copy, from the first copy on: its own business,
  // and more than any test here holds.
  constexpr uint64_t kCopyLane = (2 << 20) + 4096;
  drm_npu_memory_info info{};
  EXPECT_EQ(npu_device_memory(device, &info), 0) << npu_last_error();
  return has_own_memory(device) ? info.file_card : info.file_system % kCopyLane;
}

void RuntimeTest::SetUp() {
  ASSERT_EQ(npu_device_open(0, &device), 0) << npu_last_error();
  ASSERT_EQ(bm_dev_request(&handle, 0), BM_SUCCESS) << npu_last_error();
  p_bmrt = bmrt_create(handle);
  ASSERT_TRUE(p_bmrt) << bmrt_last_error();
}

void RuntimeTest::TearDown() {
  bmrt_destroy(p_bmrt);
  if (handle) bm_dev_free(handle);
  npu_device_close(device);
}

bool RuntimeTest::load(const std::vector<uint8_t> &bytes) {
  return bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size());
}

bool RuntimeTest::launch(const char *net, const bm_tensor_t &in, bm_tensor_t &out, bool user_mem) {
  return bmrt_launch_tensor_ex(p_bmrt, net, &in, 1, &out, 1, user_mem, false);
}

void TwoCards::SetUp() {
  const char *given = getenv("NPU_SIM");
  setenv("NPU_SIM", (std::string(given ? given : "") + (given && *given ? "," : "") + "cards=2").c_str(), 1);
  int count = 0;
  ASSERT_EQ(bm_dev_getcount(&count), BM_SUCCESS) << npu_last_error();
  ASSERT_GE(count, 2) << "these tests need npu-vm --cards 2, or the simulator";
  for (int i = 0; i < 2; ++i) ASSERT_EQ(bm_dev_request(&handles[i], i), BM_SUCCESS) << npu_last_error();
  p_bmrt = bmrt_create_ex(handles, 2);
  ASSERT_TRUE(p_bmrt) << bmrt_last_error();
}

void TwoCards::TearDown() {
  bmrt_destroy(p_bmrt);
  for (bm_handle_t handle : handles)
    if (handle) bm_dev_free(handle);
}

void RuntimeTest::expect_working() {
  void *const runtime = bmrt_create(handle);
  ASSERT_TRUE(runtime) << bmrt_last_error();
  const auto bytes = test_models::sample();
  ASSERT_TRUE(bmrt_load_bmodel_data(runtime, bytes.data(), bytes.size())) << bmrt_last_error();
  const DeviceFloats x(handle, {1, 2, 3, 4, 5, 6, 7, 8}), y(handle, std::vector<float>(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  EXPECT_TRUE(bmrt_launch_tensor_ex(runtime, "plus", &in, 1, &out, 1, true, false)) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11}));
  bmrt_destroy(runtime);
}

}  // namespace test_runtime
