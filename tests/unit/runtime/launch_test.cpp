// SPDX-License-Identifier: MIT
// Launching: right results, ownership of outputs, shared memory, and arguments that are refused.
#include <stdlib.h>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::affine;
using test_models::file;
using test_models::keep;
using test_models::net;
using test_models::plus;
using test_models::sample;
using namespace test_runtime;

class LaunchTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(load(sample())) << bmrt_last_error();
  }
  void sync() { ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error(); }
  /// A launch of "plus" that has to be refused; the reason.
  std::string refusal(const bm_tensor_t &in, const bm_tensor_t &out, bool user_mem = true) {
    bm_tensor_t copy = out;
    EXPECT_FALSE(launch("plus", in, copy, user_mem));
    EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << "a refused launch is not a failed job";
    return bmrt_last_error();
  }

  const Floats x8{1, 2, 3, 4, 5, 6, 7, 8}, y8{4, 5, 6, 7, 8, 9, 10, 11};
};

TEST_F(LaunchTest, ComputesWithCoefficientsAndActivationMemory) {
  Floats values(16), expected(16);
  for (size_t i = 0; i < 16; ++i) {
    values[i] = static_cast<float>(i) * 0.5f;
    expected[i] = 2 * values[i] + static_cast<float>(i + 1);
  }
  const DeviceFloats x(handle, values), y(handle, Floats(16));
  bm_tensor_t out = tensor(y.mem(), {16});
  ASSERT_TRUE(launch("affine", tensor(x.mem(), {16}), out)) << bmrt_last_error();
  sync();
  EXPECT_EQ(y.read(), expected);
}

TEST_F(LaunchTest, TakesSeveralInputs) {
  const DeviceFloats a(handle, {1, 2, 3, 4}), b(handle, {10, 20, 30, 40}), c(handle, Floats(4));
  const bm_tensor_t in[] = {tensor(a.mem(), {1, 4}), tensor(b.mem(), {2, 2})};
  bm_tensor_t out = tensor(c.mem(), {});
  ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "sum", in, 2, &out, 1, true, false)) << bmrt_last_error();
  sync();
  EXPECT_EQ(c.read(), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(out.shape.num_dims, 1);
  EXPECT_EQ(out.shape.dims[0], 4);
}

TEST_F(LaunchTest, AllocatesOutputsWhenTheCallerHasNone) {
  const uint64_t before = held();
  {
    const DeviceFloats x(handle, x8);
    const bm_tensor_t in = tensor(x.mem(), {1, 8});
    bm_tensor_t out{};
    ASSERT_TRUE(bmrt_launch_tensor(p_bmrt, "plus", &in, 1, &out, 1)) << bmrt_last_error();
    sync();
    EXPECT_EQ(out.dtype, BM_FLOAT32);
    EXPECT_EQ(out.st_mode, BM_STORE_1N);
    EXPECT_EQ(bmrt_tensor_bytesize(&out), 32u);
    EXPECT_EQ(read(handle, out.device_mem), y8);
    bm_free_device(handle, out.device_mem);
  }
  EXPECT_EQ(held(), before);
}

TEST_F(LaunchTest, TakesAnotherShapeWithAsManyElements) {
  const DeviceFloats x(handle, x8), y(handle, Floats(8));
  bm_tensor_t out = tensor(y.mem(), {});
  ASSERT_TRUE(launch("plus", tensor(x.mem(), {2, 2, 2}), out)) << bmrt_last_error();
  sync();
  EXPECT_EQ(y.read(), y8);
  EXPECT_EQ(out.shape.num_dims, 2);
}

TEST_F(LaunchTest, ChoosesTheStageByShape) {
  ASSERT_TRUE(load(file({net("stages", {plus({1, 4}, 1), plus({2, 4}, 2)})}))) << bmrt_last_error();
  const DeviceFloats x(handle, x8), y(handle, Floats(8));
  bm_tensor_t out = tensor(y.mem(), {});
  ASSERT_TRUE(launch("stages", tensor(x.mem(), {2, 4}), out)) << bmrt_last_error();
  sync();
  EXPECT_EQ(y.read(), (Floats{3, 4, 5, 6, 7, 8, 9, 10}));
  ASSERT_TRUE(launch("stages", tensor(x.mem(), {1, 4}), out)) << bmrt_last_error();
  sync();
  EXPECT_EQ(y.read(), (Floats{2, 3, 4, 5, 7, 8, 9, 10}));
  EXPECT_FALSE(launch("stages", tensor(x.mem(), {4, 2}), out));  // several stages: exact shapes only
  EXPECT_TRUE(contains(bmrt_last_error(), "no stage has the input shapes [4,2]; expected [1,4] or [2,4]"))
      << bmrt_last_error();
}

// ---- memory that programs lay out themselves

TEST_F(LaunchTest, InputsAndOutputsMayLieAnywhereInAllocations) {
  const DeviceFloats pool(handle, Floats(4096, -1.0f));
  Floats values = x8;
  for (const unsigned offset : {4u, 36u, 4092u, 8188u}) {
    const bm_device_mem_t x = pool.part(offset, 32), y = pool.part(offset + 64, 32);
    ASSERT_EQ(bm_memcpy_s2d(handle, x, values.data()), BM_SUCCESS) << npu_last_error();
    bm_tensor_t out = tensor(y, {1, 8});
    ASSERT_TRUE(launch("plus", tensor(x, {1, 8}), out)) << bmrt_last_error();
    sync();
    EXPECT_EQ(read(handle, y), y8) << "offset " << offset;
    EXPECT_EQ(read(handle, pool.part(offset + 32, 32)), Floats(8, -1.0f)) << "between them";
    EXPECT_EQ(read(handle, pool.part(offset + 96, 4)), Floats(1, -1.0f)) << "behind the output";
    ASSERT_EQ(bm_memset_device_ext(handle, values.data(), 1, pool.part(offset, 96)), BM_SUCCESS);
    Floats again(24, -1.0f);
    ASSERT_EQ(bm_memcpy_s2d(handle, pool.part(offset, 96), again.data()), BM_SUCCESS);
  }
}

TEST_F(LaunchTest, InputMemoryMayBeOutputMemory) {
  const DeviceFloats xy(handle, x8);
  bm_tensor_t out = tensor(xy.mem(), {1, 8});
  ASSERT_TRUE(launch("plus", tensor(xy.mem(), {1, 8}), out)) << bmrt_last_error();
  sync();
  EXPECT_EQ(xy.read(), y8);
}

// "keep" writes inc before it reads its input again; what the compiler states about that makes the runtime stage the
// output.
TEST_F(LaunchTest, OutputsThatWouldOverwriteALivingInputAreStaged) {
  ASSERT_TRUE(load(file({net("careless", {keep(4, false)})}))) << bmrt_last_error();
  struct {
    const char *net;
    Floats kept;
  } const cases[] = {{"keep", {1, 2, 3, 4}}, {"careless", {2, 3, 4, 5}}};
  for (const auto &c : cases) {
    const DeviceFloats shared(handle, {1, 2, 3, 4}), kept(handle, Floats(4));
    const bm_tensor_t in = tensor(shared.mem(), {4});
    bm_tensor_t out[] = {tensor(shared.mem(), {4}), tensor(kept.mem(), {4})};
    ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, c.net, &in, 1, out, 2, true, false)) << bmrt_last_error();
    sync();
    EXPECT_EQ(shared.read(), (Floats{2, 3, 4, 5})) << c.net;
    EXPECT_EQ(kept.read(), c.kept) << c.net;  // without the facts the damage shows: the test can tell
  }
}

TEST_F(LaunchTest, PartlySharedMemoryIsStagedToo) {
  const DeviceFloats pool(handle, {0, 0, 1, 2, 3, 4, 0, 0}), kept(handle, Floats(4));
  const bm_tensor_t in = tensor(pool.part(8, 16), {4});
  bm_tensor_t out[] = {tensor(pool.part(16, 16), {4}), tensor(kept.mem(), {4})};
  ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "keep", &in, 1, out, 2, true, false)) << bmrt_last_error();
  sync();
  EXPECT_EQ(pool.read(), (Floats{0, 0, 1, 2, 2, 3, 4, 5}));
  EXPECT_EQ(kept.read(), (Floats{1, 2, 3, 4}));
}

TEST_F(LaunchTest, LaunchesChainWithoutASync) {
  const DeviceFloats a(handle, Floats(8, 0.0f)), b(handle, Floats(8));
  bm_tensor_t ta = tensor(a.mem(), {1, 8}), tb = tensor(b.mem(), {1, 8});
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(launch("plus", ta, tb)) << bmrt_last_error();
    ASSERT_TRUE(launch("plus", tb, ta)) << bmrt_last_error();
  }
  sync();
  EXPECT_EQ(a.read(), Floats(8, 300.0f));
}

TEST_F(LaunchTest, FreedMemoryLivesUntilItsLaunchIsFinished) {
  for (int i = 0; i < 20; ++i) {
    bm_device_mem_t x;
    ASSERT_EQ(bm_malloc_device_byte(handle, &x, 32), BM_SUCCESS);
    Floats values = x8;
    ASSERT_EQ(bm_memcpy_s2d(handle, x, values.data()), BM_SUCCESS);
    const DeviceFloats y(handle, Floats(8));
    bm_tensor_t out = tensor(y.mem(), {1, 8});
    ASSERT_TRUE(launch("plus", tensor(x, {1, 8}), out)) << bmrt_last_error();
    bm_free_device(handle, x);
    sync();
    EXPECT_EQ(y.read(), y8);
  }
}

// ---- arguments that are refused, and that nothing is lost by them

TEST_F(LaunchTest, RefusesWrongTensors) {
  const DeviceFloats x(handle, x8), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8}), out = tensor(y.mem(), {1, 8});
  std::string why = refusal(tensor(x.mem(), {1, 8}, BM_INT8), out);
  EXPECT_TRUE(contains(why, "network 'plus' input 0 ('x'): type int8, expected float32")) << why;
  why = refusal(tensor(x.mem(), {1, 7}), out);
  EXPECT_TRUE(contains(why, "no stage has the input shapes [1,7]; expected [1,8]")) << why;
  why = refusal(tensor(x.part(0, 28), {1, 8}), out);
  EXPECT_TRUE(contains(why, "input 0 ('x'): its device memory has 28 bytes, the tensor needs 32")) << why;
  why = refusal(in, tensor(y.part(0, 31), {1, 8}));
  EXPECT_TRUE(contains(why, "output 0 ('y'): its device memory has 31 bytes, the tensor needs 32")) << why;
  why = refusal(tensor(x.part(4084, 32), {1, 8}), out);
  EXPECT_TRUE(contains(why, "its device memory ends 12 bytes behind its address, the tensor needs 32")) << why;
  bm_tensor_t odd = in;
  odd.st_mode = BM_STORE_4N;
  why = refusal(odd, out);
  EXPECT_TRUE(contains(why, "input 0 ('x'): store mode BM_STORE_4N, tensors of type float32 may have BM_STORE_1N"))
      << why;
  odd = in;
  odd.shape.num_dims = 9;
  EXPECT_TRUE(contains(refusal(odd, out), "9 dims, at most 8 are possible"));
  odd = out;
  odd.st_mode = BM_STORE_2N;
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", &in, 1, &odd, 1, true, true));
  EXPECT_TRUE(contains(bmrt_last_error(), "output 0 ('y'): store mode BM_STORE_2N")) << bmrt_last_error();
  expect_working();
}

TEST_F(LaunchTest, RefusesWrongCountsAndNames) {
  const DeviceFloats x(handle, x8), y(handle, Floats(8));
  const bm_tensor_t in[] = {tensor(x.mem(), {1, 8}), tensor(x.mem(), {1, 8})};
  bm_tensor_t out[] = {tensor(y.mem(), {1, 8}), tensor(y.mem(), {1, 8})};
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", in, 2, out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "'plus' has 1 inputs and 1 outputs, the launch has 2 and 1"));
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", in, 1, out, 2, true, false));
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", in, -1, out, 1, true, false));
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", nullptr, 1, out, 1, true, false));
  EXPECT_FALSE(bmrt_launch_tensor_ex(nullptr, "plus", in, 1, out, 1, true, false));
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, nullptr, in, 1, out, 1, true, false));
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "minus", in, 1, out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "no network named 'minus' is loaded; there are: 'plus' 'affine'"));
  expect_working();
}

TEST_F(LaunchTest, RefusesFreedAndForeignMemory) {
  const DeviceFloats x(handle, x8), y(handle, Floats(8));
  bm_device_mem_t gone;
  ASSERT_EQ(bm_malloc_device_byte(handle, &gone, 32), BM_SUCCESS);
  bm_free_device(handle, gone);
  std::string why = refusal(tensor(gone, {1, 8}), tensor(y.mem(), {1, 8}));
  EXPECT_TRUE(contains(why, "input 0 ('x'): device address")) << why;
  EXPECT_TRUE(contains(why, "belongs to no buffer of this process")) << why;
  why = refusal(tensor(x.mem(), {1, 8}), tensor(bm_mem_from_device(0x7000, 32), {1, 8}));
  EXPECT_TRUE(contains(why, "output 0 ('y'): device address 0x7000")) << why;
  why = refusal(tensor(bm_mem_null(), {1, 8}), tensor(y.mem(), {1, 8}));
  EXPECT_TRUE(contains(why, "input 0 ('x'): ")) << why;
  expect_working();
}

TEST_F(LaunchTest, ARefusedLaunchLeavesNoOutputs) {
  const DeviceFloats x(handle, x8);
  const uint64_t before = held();
  const bm_tensor_t in = tensor(x.part(4084, 16), {4});  // found only after the outputs were allocated
  bm_tensor_t out[2] = {};
  EXPECT_FALSE(bmrt_launch_tensor(p_bmrt, "keep", &in, 1, out, 2));
  EXPECT_TRUE(contains(bmrt_last_error(), "its device memory ends 12 bytes behind")) << bmrt_last_error();
  EXPECT_EQ(held(), before);
  EXPECT_EQ(bm_mem_get_type(out[0].device_mem), BM_MEM_TYPE_INVALID);
}

/// All device memory that can be had, but perhaps a few pages.
std::vector<bm_device_mem_t> hoard_memory(bm_handle_t handle) {
  std::vector<bm_device_mem_t> hoard;
  for (unsigned int ask = 0x80000000u; ask >= 4096; ask /= 2)
    for (bm_device_mem_t mem; bm_malloc_device_byte(handle, &mem, ask) == BM_SUCCESS;) hoard.push_back(mem);
  return hoard;
}

TEST_F(LaunchTest, OutOfDeviceMemoryIsExplainedAndPasses) {
  const DeviceFloats x(handle, x8);
  const std::vector<bm_device_mem_t> hoard = hoard_memory(handle);
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out{};
  bool refused = false;
  std::vector<bm_device_mem_t> crumbs;  // single pages that were left
  for (int i = 0; i < 64 && !refused; ++i) {
    refused = !launch("plus", in, out, false);
    if (!refused) crumbs.push_back(out.device_mem);
  }
  EXPECT_TRUE(refused);
  const std::string why = bmrt_last_error();
  const std::vector<std::string> of_card{"requested", "free", "largest free block"},
      of_system{"not enough system memory"};
  EXPECT_TRUE(contains(why, "network 'plus' output 0 ('y')")) << why;
  for (const std::string &word : has_own_memory(device) ? of_card : of_system) EXPECT_TRUE(contains(why, word)) << why;
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  for (const bm_device_mem_t &m : hoard) bm_free_device(handle, m);
  for (const bm_device_mem_t &m : crumbs) bm_free_device(handle, m);
  ASSERT_TRUE(launch("plus", in, out, false)) << bmrt_last_error();
  sync();
  EXPECT_EQ(read(handle, out.device_mem), y8);
  bm_free_device(handle, out.device_mem);
}

TEST_F(LaunchTest, RunsOnChosenCores) {
  drm_npu_dev_info info;
  ASSERT_EQ(npu_device_info(device, &info), 0);
  const DeviceFloats x(handle, x8), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  const int last = static_cast<int>(info.cores) - 1;
  for (const std::vector<int> &cores : {std::vector<int>{0}, {last}, {last, last, 0}, {}}) {
    drm_npu_status_info before{}, after{};
    ASSERT_EQ(npu_device_status(device, &before), 0);
    ASSERT_TRUE(bmrt_launch_tensor_multi_cores(p_bmrt, "plus", &in, 1, &out, 1, true, false, cores.data(),
                                               static_cast<int>(cores.size())))
        << bmrt_last_error();
    sync();
    ASSERT_EQ(npu_device_status(device, &after), 0);
    if (!cores.empty()) {
      const auto first = static_cast<size_t>(cores[0]);
      EXPECT_EQ(after.jobs[first], before.jobs[first] + 1);
    }
    EXPECT_EQ(y.read(), y8);
  }
  const int none = last + 1;
  EXPECT_FALSE(bmrt_launch_tensor_multi_cores(p_bmrt, "plus", &in, 1, &out, 1, true, false, &none, 1));
  EXPECT_TRUE(contains(bmrt_last_error(), "core " + std::to_string(none) + " does not exist")) << bmrt_last_error();
}

// ---- data in system memory

TEST_F(LaunchTest, LaunchDataGivesMemoryOrUsesTheCallers) {
  Floats values = x8, result(8);
  void *in = values.data(), *out = nullptr;
  const bm_shape_t want = shape({1, 8});
  bm_shape_t got{};
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "plus", &in, &want, 1, &out, &got, 1, false)) << bmrt_last_error();
  EXPECT_TRUE(bmrt_shape_is_same(&got, &want));
  EXPECT_EQ(Floats(static_cast<float *>(out), static_cast<float *>(out) + 8), y8);
  free(out);
  void *mine = result.data();
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "plus", &in, &want, 1, &mine, &got, 1, true)) << bmrt_last_error();
  EXPECT_EQ(result, y8);
}

TEST_F(LaunchTest, LaunchDataRefusesAndLeavesNothing) {
  const uint64_t before = held();
  Floats values = x8;
  void *in = values.data(), *out = nullptr;
  const bm_shape_t right = shape({1, 8}), wrong = shape({3});
  bm_shape_t got{};
  EXPECT_FALSE(bmrt_launch_data(p_bmrt, "plus", &in, &wrong, 1, &out, &got, 1, false));
  EXPECT_FALSE(out);
  EXPECT_FALSE(bmrt_launch_data(p_bmrt, "plus", &out, &right, 1, &out, &got, 1, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 ('x'): null pointer")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_launch_data(p_bmrt, "plus", &in, &right, 1, &out, &got, 1, true));
  EXPECT_TRUE(contains(bmrt_last_error(), "output 0 ('y'): null pointer")) << bmrt_last_error();
  EXPECT_EQ(held(), before);
}

TEST_F(LaunchTest, TensorsKnowTheirSizes) {
  bm_tensor_t t{};
  ASSERT_TRUE(bmrt_tensor(&t, p_bmrt, BM_UINT16, shape({3, 5}))) << bmrt_last_error();
  EXPECT_EQ(bmrt_tensor_bytesize(&t), 30u);
  EXPECT_EQ(bmrt_tensor_device_size(&t), 30u);
  bm_free_device(handle, t.device_mem);
  EXPECT_FALSE(bmrt_tensor(&t, p_bmrt, BM_FLOAT32, shape({65536, 65536})));
  EXPECT_FALSE(bmrt_tensor(nullptr, p_bmrt, BM_FLOAT32, shape({1})));
  EXPECT_FALSE(bmrt_tensor(&t, p_bmrt, BM_FLOAT32, shape({1, -2})));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_tensor: dimension 1 is -2");
  EXPECT_FALSE(bmrt_tensor(&t, p_bmrt, static_cast<bm_data_type_t>(15), shape({1})));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_tensor: type 15 does not exist");
  const int dims[9] = {};
  bm_shape_t many;
  bmrt_shape(&many, dims, 9);
  EXPECT_EQ(many.num_dims, 0);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_shape: 9 dims, 0 to 8 are possible");
  bmrt_shape(&many, nullptr, 2);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_shape: null pointer instead of dims");
}

}  // namespace
