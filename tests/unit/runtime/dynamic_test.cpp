// SPDX-License-Identifier: MIT
// Dynamic networks: any batch up to that of the largest stage.
#include <cstdlib>
#include <thread>

#include "npu_isa.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using npu::bmodel::StageDesc;
using test_models::file;
using test_models::net;
using test_models::plus;
using namespace test_runtime;

/// y = x + constant for a batch of up to `rows`, 4 numbers each. The constant tells which stage ran.
StageDesc rows(uint64_t count, float constant) {
  StageDesc stage = plus({count, 4}, constant);
  stage.is_dynamic = stage.n_dynamic = 1;
  return stage;
}

Floats numbers(size_t rows) {
  Floats out;
  for (size_t i = 0; i < 4 * rows; ++i) out.push_back(static_cast<float>(i + 1));
  return out;
}

class DynamicTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(load(file({net("any", {rows(8, 80), rows(2, 20), rows(4, 40)})}))) << bmrt_last_error();
  }
};

TEST_F(DynamicTest, TheSmallestStageThatHoldsTheBatchRuns) {
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "any");
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->is_dynamic);
  EXPECT_EQ(info->max_input_bytes[0], 128u);
  const float constants[] = {0, 20, 20, 40, 40, 80, 80, 80, 80};
  for (int batch = 1; batch <= 8; ++batch) {
    const Floats values = numbers(static_cast<size_t>(batch));
    const DeviceFloats x(handle, values), y(handle, Floats(4 * 8, -1));
    const bm_tensor_t in = tensor(x.mem(), {batch, 4});
    bm_tensor_t out = tensor(y.mem(), {8, 4});
    ASSERT_TRUE(launch("any", in, out)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    const bm_shape_t expected = shape({batch, 4});
    EXPECT_TRUE(bmrt_shape_is_same(&out.shape, &expected)) << batch;
    Floats all = plus_each(values, constants[batch]);
    all.resize(4 * 8, -1);
    EXPECT_EQ(y.read(), all) << "what is beyond the batch stays as it was; batch " << batch;
    bm_tensor_t query = in;
    EXPECT_EQ(bmrt_get_stage_index(p_bmrt, "any", &query), batch <= 2 ? 1 : batch <= 4 ? 2 : 0);
  }
}

TEST_F(DynamicTest, InputsAndOutputsNeedRoomForTheBatchOnly) {
  const DeviceFloats x(handle, numbers(3));
  const uint64_t before = held();
  bm_tensor_t in = tensor(x.mem(), {3, 4}), out{};
  ASSERT_TRUE(launch("any", in, out, false)) << bmrt_last_error();
  EXPECT_EQ(bm_mem_get_device_size(out.device_mem), 48u);
  EXPECT_EQ(read(handle, out.device_mem), plus_each(numbers(3), 40));
  bm_free_device(handle, out.device_mem);
  EXPECT_EQ(held(), before);
  const DeviceFloats small(handle, Floats(11));
  out = tensor(small.mem(), {3, 4});
  EXPECT_FALSE(launch("any", in, out));
  EXPECT_TRUE(contains(bmrt_last_error(), "its device memory has 44 bytes, the tensor needs 48")) << bmrt_last_error();
}

TEST_F(DynamicTest, DataMayHaveAnyBatch) {
  for (int batch = 1; batch <= 8; ++batch) {
    Floats x = numbers(static_cast<size_t>(batch));
    void *inputs[] = {x.data()}, *outputs[] = {nullptr};
    const bm_shape_t in = shape({batch, 4});
    bm_shape_t out;
    ASSERT_TRUE(bmrt_launch_data(p_bmrt, "any", inputs, &in, 1, outputs, &out, 1, false)) << bmrt_last_error();
    EXPECT_TRUE(bmrt_shape_is_same(&out, &in));
    const auto *y = static_cast<float *>(outputs[0]);
    EXPECT_EQ(Floats(y, y + 4 * batch), plus_each(x, batch <= 2 ? 20 : batch <= 4 ? 40 : 80));
    free(outputs[0]);
  }
}

TEST_F(DynamicTest, AnInputMayBeTheOutput) {
  const DeviceFloats both(handle, numbers(3));
  bm_tensor_t in = tensor(both.mem(), {3, 4}), out = in;
  ASSERT_TRUE(launch("any", in, out)) << bmrt_last_error();
  EXPECT_EQ(both.read(), plus_each(numbers(3), 40));
}

TEST_F(DynamicTest, OtherShapesAreRefused) {
  const DeviceFloats x(handle, Floats(64)), y(handle, Floats(64));
  for (const std::vector<int> &dims : {std::vector<int>{9, 4}, {0, 4}, {-1, 4}, {4, 3}, {32}, {2, 2, 2}, {1, 8}}) {
    const bm_tensor_t in = tensor(x.mem(), dims);
    bm_tensor_t out = tensor(y.mem(), {8, 4});
    EXPECT_FALSE(launch("any", in, out));
    EXPECT_TRUE(contains(bmrt_last_error(), "expected [8,4] or [2,4] or [4,4] or a smaller batch (dimension 0)"))
        << bmrt_last_error();
  }
  const bm_tensor_t in = tensor(x.mem(), {3, 4});
  bm_tensor_t out = tensor(y.mem(), {3, 4});
  EXPECT_FALSE(get_bmodel_api_info_c(p_bmrt, "any", &in, 1, &out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "a batch that is smaller than its stage's")) << bmrt_last_error();
}

TEST_F(DynamicTest, AllInputsHaveTheSameBatch) {
  test_models::Stage s;
  s.input("a", {4, 4}).input("b", {4, 4}).output("c", {4, 4});
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, 16).copy(s.in(1), 0, NPU_REGION_LOCAL, 1024, 16);
  s.add(0, 1024, 2048, 16, 2).copy(NPU_REGION_LOCAL, 2048, s.out(0), 0, 16, 1);
  StageDesc stage = s.finish();
  stage.is_dynamic = stage.n_dynamic = 1;
  ASSERT_TRUE(load(file({net("two", {stage})}))) << bmrt_last_error();
  const DeviceFloats a(handle, numbers(4)), b(handle, numbers(4)), c(handle, Floats(16));
  bm_tensor_t out = tensor(c.mem(), {4, 4});
  const auto launch_two = [&](int first, int second) {
    const bm_tensor_t in[] = {tensor(a.mem(), {first, 4}), tensor(b.mem(), {second, 4})};
    return bmrt_launch_tensor_ex(p_bmrt, "two", in, 2, &out, 1, true, false);
  };
  EXPECT_TRUE(launch_two(3, 3)) << bmrt_last_error();
  for (const auto &[first, second] : {std::pair{3, 2}, {2, 3}, {4, 3}, {3, 4}}) {
    EXPECT_FALSE(launch_two(first, second));
    EXPECT_TRUE(contains(bmrt_last_error(), "no stage has the input shapes")) << bmrt_last_error();
  }
}

TEST_F(DynamicTest, WhatCannotBeDynamicIsRefused) {
  StageDesc sizes = rows(2, 1), fixed = plus({2, 4}, 1);
  sizes.n_dynamic = 0;
  StageDesc mixed = rows(4, 1);
  StageDesc outputs = rows(4, 1);
  outputs.outputs[0].shape = {2, 8};
  StageDesc flow = test_models::there_and_back();
  flow.is_dynamic = flow.n_dynamic = 1;
  struct {
    std::vector<StageDesc> stages;
    const char *message;
  } const cases[] = {
      {{sizes},
       "compiled for any shape (dynamic), but the network is not in the file: only the batch may vary (n_dynamic)"},
      {{mixed, fixed}, "some of its stages are dynamic and others are not"},
      {{outputs}, "dynamic, but tensor 'y' has another dimension 0 than input 'x'"},
      {{flow}, "dynamic in its batch alone, and of several sub-networks: not supported"},
  };
  for (const auto &c : cases) {
    EXPECT_FALSE(load(file({net("other", c.stages)})));
    EXPECT_TRUE(contains(bmrt_last_error(), std::string("network 'other': ") + c.message)) << bmrt_last_error();
  }
}

TEST_F(DynamicTest, AFailingJobIsReportedByTheLaunch) {
  StageDesc stage = test_models::overrun(4);
  stage.is_dynamic = stage.n_dynamic = 1;
  ASSERT_TRUE(load(file({net("bad", {stage})}))) << bmrt_last_error();
  const DeviceFloats x(handle, Floats(4)), y(handle, Floats(4));
  bm_tensor_t in = tensor(x.mem(), {3}), out = tensor(y.mem(), {3});
  EXPECT_FALSE(launch("bad", in, out));
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'bad': the job failed")) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS);
}

TEST_F(DynamicTest, ThreadsDoNotDisturbEachOther) {
  bmrt_set_max_launches(p_bmrt, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 20; ++i) {
        const int batch = 1 + (t + i) % 8;
        Floats x = plus_each(numbers(static_cast<size_t>(batch)), static_cast<float>(100 * t)), y(x.size());
        void *inputs[] = {x.data()}, *outputs[] = {y.data()};
        const bm_shape_t in = shape({batch, 4});
        bm_shape_t out;
        EXPECT_TRUE(bmrt_launch_data(p_bmrt, "any", inputs, &in, 1, outputs, &out, 1, true)) << bmrt_last_error();
        EXPECT_EQ(y, plus_each(x, batch <= 2 ? 20 : batch <= 4 ? 40 : 80));
      }
    });
  for (std::thread &t : threads) t.join();
}

}  // namespace
