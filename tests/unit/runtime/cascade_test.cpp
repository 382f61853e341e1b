// SPDX-License-Identifier: MIT
// Distributed networks: steps on several cards, or on one.
#include <thread>

#include "npu_isa.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using npu::bmodel::NetDesc;
using npu::bmodel::StageDesc;
using test_models::file;
using test_models::plus;
using namespace test_runtime;

const Floats kX{1, 2, 3, 9, 5, 6, 7, 8};

/// A step of "whole". Names that begin with "h" are hidden.
NetDesc step(uint32_t number, uint32_t device, const StageDesc &program, const std::vector<std::string> &inputs,
             const std::vector<std::string> &outputs) {
  static int count = 0;
  StageDesc stage = program;
  const auto rename = [](std::vector<npu::bmodel::TensorDesc> &list, const std::vector<std::string> &names) {
    for (size_t i = 0; i < names.size(); ++i) {
      list[i].name = names[i];
      list[i].hidden = names[i][0] == 'h';
    }
  };
  rename(stage.inputs, inputs);
  rename(stage.outputs, outputs);
  NetDesc net = test_models::net("part" + std::to_string(++count), {stage});
  net.part_of = "whole";
  net.step = number;
  net.device = device;
  return net;
}

const std::vector<uint64_t> kRow{1, 8};

/// Both inputs [1,8], added.
StageDesc add() {
  test_models::Stage s;
  s.input("a", kRow).input("b", kRow).output("c", kRow);
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, 8);
  s.copy(s.in(1), 0, NPU_REGION_LOCAL, 1024, 8);
  s.add(0, 1024, 2048, 8, 2);
  s.copy(NPU_REGION_LOCAL, 2048, s.out(0), 0, 8, 1);
  return s.finish();
}

/// x + 1 on the first card, + 2 on the card `second`.
std::vector<NetDesc> chain(uint32_t second) {
  return {step(1, second, plus(kRow, 2), {"h"}, {"y"}), step(0, 0, plus(kRow, 1), {"x"}, {"h"})};
}

/// (x + 1) on the first card beside (x + 10) on the other, then their sum.
std::vector<NetDesc> side_by_side(uint32_t other) {
  return {step(0, 0, plus(kRow, 1), {"x"}, {"h1"}), step(0, other, plus(kRow, 10), {"x"}, {"h2"}),
          step(5, 0, add(), {"h1", "h2"}, {"y"})};
}

Floats launch_data(void *p_bmrt, Floats x) {
  Floats y(8, -1);
  void *inputs[] = {x.data()}, *outputs[] = {y.data()};
  const bm_shape_t in = shape({1, 8});
  bm_shape_t out;
  EXPECT_TRUE(bmrt_launch_data(p_bmrt, "whole", inputs, &in, 1, outputs, &out, 1, true)) << bmrt_last_error();
  return y;
}

// ---- on one card

using CascadeTest = RuntimeTest;

TEST_F(CascadeTest, StepsOfOneCardRunInTheirOrder) {
  ASSERT_TRUE(load(file(chain(0)))) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 1);
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "whole");
  ASSERT_TRUE(info) << bmrt_last_error();
  EXPECT_EQ(info->input_num, 1);
  EXPECT_EQ(info->output_num, 1);
  EXPECT_STREQ(info->output_names[0], "y");
  EXPECT_EQ(launch_data(p_bmrt, kX), plus_each(kX, 3));
  bmrt_trace(p_bmrt);
}

TEST_F(CascadeTest, TensorsAreNumberedByTheirIndex) {
  auto first = step(0, 0, plus(kRow, 1), {"x"}, {"late"}), second = step(1, 0, add(), {"w", "late"}, {"early"});
  first.stages[0].outputs[0].index = 1;
  first.stages[0].inputs[0].index = 1;
  ASSERT_TRUE(load(file({first, second}))) << bmrt_last_error();
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "whole");
  ASSERT_TRUE(info);
  EXPECT_STREQ(info->input_names[0], "w");
  EXPECT_STREQ(info->input_names[1], "x");
  EXPECT_STREQ(info->output_names[0], "early");
  EXPECT_STREQ(info->output_names[1], "late");
}

TEST_F(CascadeTest, WhatMakesNoNetworkIsRefused) {
  struct {
    std::vector<NetDesc> nets;
    const char *message;
  } cases[] = {
      {chain(1), "it is for device 1, the runtime has 1 (bmrt_create_ex)"},
      {{step(0, 0, plus(kRow, 1), {"h0"}, {"y"})}, "it reads 'h0', which no step before it writes"},
      {{step(0, 0, plus(kRow, 1), {"x"}, {"h0"}), step(0, 0, plus(kRow, 1), {"h0"}, {"y"})},
       "it reads 'h0', which no step before it writes"},
      {{step(0, 0, plus(kRow, 1), {"x"}, {"y"}), step(1, 0, plus(kRow, 1), {"x"}, {"y"})},
       "it writes 'y', which another step writes, too"},
      {{step(0, 0, plus(kRow, 1), {"x"}, {"y"}), step(1, 0, plus(kRow, 1), {"y"}, {"x"})},
       "it writes 'x', an input of the network"},
      {{step(0, 0, plus(kRow, 1), {"x"}, {"h0"}), step(1, 0, plus({8}, 1), {"h0"}, {"y"})},
       "tensor 'h0' has another type or shape than elsewhere"},
      {{step(0, 0, plus(kRow, 1), {"x"}, {"h0"})}, "it has no output, all tensors are hidden"},
      {{step(0, 0, test_models::there_and_back(), {"x"}, {"y"})}, "a step of several sub-networks: not supported"},
  };
  for (const auto &c : cases) {
    EXPECT_FALSE(load(file(c.nets))) << c.message;
    EXPECT_TRUE(contains(bmrt_last_error(), c.message)) << bmrt_last_error();
    EXPECT_TRUE(contains(bmrt_last_error(), "network 'whole' stage 0")) << bmrt_last_error();
  }
  auto nets = chain(0);
  nets[0].stages.push_back(nets[0].stages[0]);
  EXPECT_FALSE(load(file(nets)));
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'whole': its steps have different numbers of stages"))
      << bmrt_last_error();
  auto other = test_models::net("whole", {plus(kRow, 1)});
  EXPECT_FALSE(load(file({other, chain(0)[1]})));
  EXPECT_TRUE(contains(bmrt_last_error(), "two of its networks are named 'whole'")) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 0);
}

TEST_F(CascadeTest, AFailingStepIsNamed) {
  ASSERT_TRUE(load(file({step(0, 0, plus({8}, 1), {"x"}, {"h0"}), step(3, 0, test_models::overrun(8), {"h0"}, {"y"})})))
      << bmrt_last_error();
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  bm_tensor_t in = tensor(x.mem(), {8}), out = tensor(y.mem(), {8});
  EXPECT_FALSE(launch("whole", in, out));
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'whole': the job failed")) << bmrt_last_error();
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 'h0'")) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << "the launch has told already";
  expect_working();
}

// ---- on two

class TwoCardsCascadeTest : public TwoCards {};

TEST_F(TwoCardsCascadeTest, StepsRunOnTheirCards) {
  const auto bytes = file(chain(1));
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "whole");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->input_loc_devices[0], 0);
  EXPECT_EQ(info->output_loc_devices[0], 1);
  bm_tensor_t in, out;
  ASSERT_TRUE(bmrt_tensor_ex(&in, p_bmrt, info->input_loc_devices[0], BM_FLOAT32, shape({1, 8})));
  ASSERT_TRUE(bmrt_tensor_ex(&out, p_bmrt, info->output_loc_devices[0], BM_FLOAT32, shape({1, 8})));
  for (int i = 0; i < 3; ++i) {
    Floats x = plus_each(kX, static_cast<float>(i));
    ASSERT_EQ(bm_memcpy_s2d(handles[0], in.device_mem, x.data()), BM_SUCCESS);
    ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "whole", &in, 1, &out, 1, true, false)) << bmrt_last_error();
    EXPECT_EQ(read(handles[1], out.device_mem), plus_each(x, 3)) << "finished when the launch returns";
  }
  // The runtime's own memory of the stage is on the right cards, too.
  const bm_device_mem_t x = info->stages[0].input_mems[0], y = info->stages[0].output_mems[0];
  ASSERT_EQ(bm_memcpy_s2d(handles[0], x, const_cast<float *>(kX.data())), BM_SUCCESS) << npu_last_error();
  bm_tensor_t own_in = tensor(x, {1, 8}), own_out = tensor(y, {1, 8});
  ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "whole", &own_in, 1, &own_out, 1, true, false)) << bmrt_last_error();
  EXPECT_EQ(read(handles[1], y), plus_each(kX, 3));
  bm_free_device(handles[0], in.device_mem);
  bm_free_device(handles[1], out.device_mem);
}

TEST_F(TwoCardsCascadeTest, CardsWorkSideBySideInAStep) {
  const auto bytes = file(side_by_side(1));
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  Floats expected = kX;
  for (float &v : expected) v = 2 * v + 11;
  EXPECT_EQ(launch_data(p_bmrt, kX), expected);
  uint64_t cycles = 0;
  EXPECT_TRUE(bmrt_last_launch_cycles(p_bmrt, &cycles)) << bmrt_last_error();
  EXPECT_GT(cycles, 0u);
}

TEST_F(TwoCardsCascadeTest, OutputsAreAllocatedOnTheirCard) {
  const auto bytes = file(chain(1));
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  const DeviceFloats x(handles[0], kX);
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out;
  ASSERT_TRUE(bmrt_launch_tensor(p_bmrt, "whole", &in, 1, &out, 1)) << bmrt_last_error();
  EXPECT_EQ(read(handles[1], out.device_mem), plus_each(kX, 3));
  bm_free_device(handles[1], out.device_mem);
  ASSERT_TRUE(bmrt_free_pre_alloc_mem(p_bmrt, "whole")) << bmrt_last_error();
}

TEST_F(TwoCardsCascadeTest, LargeTensorsPassWhole) {
  constexpr uint32_t kCount = 1500000;  // more than one piece of a transfer
  test_models::Stage copy;
  copy.input("x", {kCount}).output("y", {kCount});
  copy.copy(copy.in(0), 0, copy.out(0), 0, kCount);
  const StageDesc program = copy.finish();
  const auto bytes = file({step(0, 1, program, {"x"}, {"h"}), step(1, 0, program, {"h"}, {"y"})});
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  Floats x(kCount), y(kCount);
  for (uint32_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i);
  void *inputs[] = {x.data()}, *outputs[] = {y.data()};
  const bm_shape_t in = shape({kCount});
  bm_shape_t out;
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "whole", inputs, &in, 1, outputs, &out, 1, true)) << bmrt_last_error();
  EXPECT_EQ(x, y);
}

TEST_F(TwoCardsCascadeTest, ThreadsDoNotDisturbEachOther) {
  const auto bytes = file(side_by_side(1));
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  bmrt_set_max_launches(p_bmrt, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 15; ++i) {
        const Floats x = plus_each(kX, static_cast<float>(100 * t + i));
        Floats expected = x;
        for (float &v : expected) v = 2 * v + 11;
        EXPECT_EQ(launch_data(p_bmrt, x), expected);
      }
    });
  for (std::thread &t : threads) t.join();
}

}  // namespace
