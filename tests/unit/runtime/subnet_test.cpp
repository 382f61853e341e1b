// SPDX-License-Identifier: MIT
// Networks of several sub-networks: on the NPU, on the CPU, switches and merges.
#include <cstring>
#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::file;
using test_models::flow;
using test_models::merge;
using test_models::net;
using test_models::on_cpu;
using test_models::on_npu;
using test_models::pick;
using test_models::plus;
using test_models::rows_by_index;
using namespace test_runtime;

const Floats kX{1, 2, 3, 9, 5, 6, 7, 8};

class SubNetTest : public RuntimeTest {
 protected:
  /// Launches "choose" with data; returns its first output, and the index.
  Floats choose(const Floats &x, int32_t flag, int32_t &index) {
    Floats in = x, y(8, -1);
    void *inputs[] = {in.data(), &flag}, *outputs[] = {y.data(), &index};
    const bm_shape_t shapes[] = {shape({1, 8}), shape({1})};
    bm_shape_t results[2];
    EXPECT_TRUE(bmrt_launch_data(p_bmrt, "choose", inputs, shapes, 2, outputs, results, 2, true)) << bmrt_last_error();
    return y;
  }
  void load_choose() { ASSERT_TRUE(load(file({net("choose", {test_models::choose()})}))) << bmrt_last_error(); }
};

TEST_F(SubNetTest, ASwitchTakesTheBranchThatItsConditionNames) {
  load_choose();
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "choose");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->input_num, 2);
  EXPECT_EQ(info->output_num, 2);
  int32_t index = -1;
  for (const int32_t flag : {0, 1, 0, -5, 1 << 24}) {
    EXPECT_EQ(choose(kX, flag, index), plus_each(kX, flag ? 21 : 11)) << flag;
    EXPECT_EQ(index, 3);
  }
  bmrt_trace(p_bmrt);
}

TEST_F(SubNetTest, TensorsPassBetweenNpuAndCpu) {
  ASSERT_TRUE(load(file({net("back", {test_models::there_and_back()})}))) << bmrt_last_error();
  const DeviceFloats x(handle, {0.5, -3.75, 1e9, 2.25, -0.5, 1, 100.875, 3}), y(handle, Floats(8));
  bm_tensor_t in = tensor(x.mem(), {1, 8}), out = tensor(y.mem(), {1, 8});
  ASSERT_TRUE(launch("back", in, out)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), (Floats{3, 0, 1e9f, 5, 2, 4, 103, 6}));
  uint64_t cycles = 0, one = 0;
  ASSERT_TRUE(bmrt_last_launch_cycles(p_bmrt, &cycles)) << bmrt_last_error();
  ASSERT_TRUE(load(file({net("plus", {plus({1, 8}, 1)})}))) << bmrt_last_error();
  ASSERT_TRUE(launch("plus", in, out)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS);
  ASSERT_TRUE(bmrt_last_launch_cycles(p_bmrt, &one)) << bmrt_last_error();
  EXPECT_EQ(cycles, 2 * one) << "two programs of that kind ran";
}

TEST_F(SubNetTest, OutputsMayBeAllocatedByTheRuntime) {
  load_choose();
  const DeviceFloats x(handle, kX);
  const int32_t one = 1;
  float as_float;
  std::memcpy(&as_float, &one, sizeof one);
  const DeviceFloats flag(handle, {as_float});
  const bm_tensor_t in[] = {tensor(x.mem(), {1, 8}), tensor(flag.mem(), {1}, BM_INT32)};
  bm_tensor_t out[2];
  const uint64_t before = held();
  ASSERT_TRUE(bmrt_launch_tensor(p_bmrt, "choose", in, 2, out, 2)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(read(handle, out[0].device_mem), plus_each(kX, 21));
  EXPECT_EQ(out[1].dtype, BM_INT32);
  for (bm_tensor_t &t : out) bm_free_device(handle, t.device_mem);
  ASSERT_TRUE(bmrt_free_pre_alloc_mem(p_bmrt, "choose"));
  EXPECT_EQ(held(), before);
}

// What one sub-network writes as output must not disturb what a later one reads as input.
TEST_F(SubNetTest, AnOutputMayLieInTheMemoryOfAnInput) {
  const std::vector<uint64_t> row{1, 8};
  ASSERT_TRUE(load(file({net(
      "shared", {flow({test_models::tensor("x", row)}, {test_models::tensor("y", row), test_models::tensor("z", row)},
                      {on_npu(0, plus(row, 1), {"x"}, {"y"}, {1}), on_npu(1, plus(row, 2), {"x"}, {"z"}, {})})})})))
      << bmrt_last_error();
  for (const unsigned shift : {0u, 4u, 16u}) {
    const DeviceFloats both(handle, Floats(16)), z(handle, Floats(8));
    ASSERT_EQ(bm_memcpy_s2d_partial(handle, both.part(shift, 32), const_cast<float *>(kX.data()), 32), BM_SUCCESS);
    const bm_tensor_t in = tensor(both.part(shift, 32), {1, 8});
    bm_tensor_t out[] = {tensor(both.part(0, 32), {1, 8}), tensor(z.mem(), {1, 8})};
    ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "shared", &in, 1, out, 2, true, false)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    EXPECT_EQ(read(handle, both.part(0, 32)), plus_each(kX, 1));
    EXPECT_EQ(z.read(), plus_each(kX, 2));
  }
}

// A merge and a switch may give inputs of the network on as its outputs.
TEST_F(SubNetTest, AMergeForwardsWhatWasWrittenLast) {
  const std::vector<uint64_t> row{1, 8};
  const auto x = test_models::tensor("x", row), a = test_models::tensor("a", row), y = test_models::tensor("y", row);
  ASSERT_TRUE(load(file(
      {net("last", {flow({x}, {y}, {on_npu(0, plus(row, 5), {"x"}, {"a"}, {1}), merge(1, {x, a}, {y}, {{0, 1}}, {})})}),
       net("input", {flow({x}, {y}, {merge(0, {x}, {y}, {{0}}, {})})})})))
      << bmrt_last_error();
  const DeviceFloats dx(handle, kX), dy(handle, Floats(8));
  bm_tensor_t in = tensor(dx.mem(), {1, 8}), out = tensor(dy.mem(), {1, 8});
  ASSERT_TRUE(launch("last", in, out)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(dy.read(), plus_each(kX, 5));
  ASSERT_TRUE(launch("input", in, out)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(dy.read(), kX);
}

TEST_F(SubNetTest, EarlierLaunchesOfTheThreadAreSeen) {
  const std::vector<uint64_t> row{1, 8};
  npu_cpu_param axis{};
  axis.axis = 1;
  ASSERT_TRUE(load(file({net("plus", {plus(row, 3)}),
                         net("top", {flow({test_models::tensor("x", row)}, {test_models::tensor("y", {1}, 6)},
                                          {on_cpu(0, NPU_CPU_ARGMAX, {test_models::tensor("x", row)},
                                                  {test_models::tensor("y", {1}, 6)}, {}, axis)})})})))
      << bmrt_last_error();
  const DeviceFloats a(handle, kX), b(handle, Floats(8)), index(handle, Floats(1));
  bm_tensor_t first = tensor(a.mem(), {1, 8}), second = tensor(b.mem(), {1, 8}),
              out = tensor(index.mem(), {1}, BM_INT32);
  ASSERT_TRUE(launch("plus", first, second)) << bmrt_last_error();
  ASSERT_TRUE(launch("top", second, out)) << bmrt_last_error();
  int32_t found = -1;
  ASSERT_EQ(bm_memcpy_d2s(handle, &found, index.mem()), BM_SUCCESS);
  EXPECT_EQ(found, 3);
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS);
}

TEST_F(SubNetTest, AFailingSubNetworkIsNamed) {
  const std::vector<uint64_t> row{8};
  ASSERT_TRUE(load(file({net("bad", {flow({test_models::tensor("x", row)}, {test_models::tensor("z", row, 6)},
                                          {on_npu(4, test_models::overrun(8), {"x"}, {"y"}, {5}),
                                           on_cpu(5, NPU_CPU_CAST, {test_models::tensor("y", row)},
                                                  {test_models::tensor("z", row, 6)}, {})})}),
                         net("late", {flow({test_models::tensor("x", row)}, {test_models::tensor("y", row)},
                                           {on_npu(0, plus(row, 1), {"x"}, {"a"}, {1}),
                                            on_npu(1, test_models::overrun(8), {"a"}, {"y"}, {})})})})))
      << bmrt_last_error();
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  bm_tensor_t in = tensor(x.mem(), {8}), out = tensor(y.mem(), {8}, BM_INT32);
  EXPECT_FALSE(launch("bad", in, out));
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'bad': sub-network 5: the job failed")) << bmrt_last_error();
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 'x'")) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << "the launch has told already";
  ASSERT_TRUE(launch("late", in, out)) << bmrt_last_error();  // nothing looked at the result
  EXPECT_EQ(bm_thread_sync(handle), BM_ERR_FAILURE);
  uint64_t cycles;
  EXPECT_FALSE(bmrt_last_launch_cycles(p_bmrt, &cycles));
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 'a'")) << bmrt_last_error();
  expect_working();
}

TEST_F(SubNetTest, ThreadsDoNotDisturbEachOther) {
  load_choose();
  bmrt_set_max_launches(p_bmrt, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 25; ++i) {
        Floats x = plus_each(kX, static_cast<float>(100 * t + i));
        x[static_cast<size_t>(t)] = 5000;
        int32_t index = -1;
        const int32_t flag = (t + i) % 2;
        EXPECT_EQ(choose(x, flag, index), plus_each(x, flag ? 21 : 11));
        EXPECT_EQ(index, t);
      }
    });
  for (std::thread &t : threads) t.join();
}

TEST_F(SubNetTest, ARecordCannotBeMadeOfThem) {
  ASSERT_TRUE(load(file({net("back", {test_models::there_and_back()})}))) << bmrt_last_error();
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  EXPECT_FALSE(get_bmodel_api_info_c(p_bmrt, "back", &in, 1, &out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "several sub-networks")) << bmrt_last_error();
}

TEST_F(SubNetTest, AModelSaysWhatItNeeds) {
  const auto bytes = file({net("back", {test_models::there_and_back()})});
  mem_info_t info;
  ASSERT_TRUE(bmrt_get_bmodel_data_info(bytes.data(), bytes.size(), &info)) << bmrt_last_error();
  EXPECT_EQ(info.neuron_mem.size, 3u * 4096);
  EXPECT_GT(info.instruction_mem.size, 6u * 128);
  ASSERT_TRUE(load(bytes)) << bmrt_last_error();
  const uint64_t before = held();
  ASSERT_TRUE(bmrt_pre_alloc_mem(p_bmrt, "back")) << bmrt_last_error();
  EXPECT_EQ(held(), before + info.neuron_mem.size);
}

TEST_F(SubNetTest, UnknownOperatorsAreRefusedWhenLoading) {
  const auto x = test_models::tensor("x", {8}), y = test_models::tensor("y", {8});
  EXPECT_FALSE(load(file({net("odd", {flow({x}, {y}, {on_cpu(3, 99, {x}, {y}, {})})})})));
  EXPECT_TRUE(
      contains(bmrt_last_error(), "network 'odd' stage 0: sub-network 3: CPU operator 99 is unknown, there are 1 to 8"))
      << bmrt_last_error();
  npu_cpu_param axis{};
  axis.axis = 1;
  EXPECT_FALSE(load(file({net("odd", {flow({x}, {y}, {on_cpu(3, NPU_CPU_SOFTMAX, {x}, {y}, {}, axis)})})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "CPU operator Softmax: axis 1 of a tensor with 1 dims")) << bmrt_last_error();
}

class GraphTest : public RuntimeTest {
 protected:
  bool pick_rows(std::vector<int32_t> index, Floats &y) {
    Floats x = kX;
    y.assign(3, -1);
    void *inputs[] = {x.data(), index.data()}, *outputs[] = {y.data()};
    const bm_shape_t shapes[] = {shape({8}), shape({3})};
    bm_shape_t results[1];
    return bmrt_launch_data(p_bmrt, "pick", inputs, shapes, 2, outputs, results, 1, true);
  }
};

TEST_F(GraphTest, RunsBehindTheNpu) {
  ASSERT_TRUE(load(file({net("pick", {pick(rows_by_index())})}))) << bmrt_last_error();
  Floats y;
  ASSERT_TRUE(pick_rows({3, 0, -1}, y)) << bmrt_last_error();
  EXPECT_EQ(y, (Floats{10, 2, 9}));
}

TEST_F(GraphTest, WrongDataFailsTheLaunchAndNamesTheOperator) {
  ASSERT_TRUE(load(file({net("pick", {pick(rows_by_index())})}))) << bmrt_last_error();
  Floats y;
  EXPECT_FALSE(pick_rows({3, 8, 0}, y));
  EXPECT_TRUE(contains(bmrt_last_error(), "sub-network 1: operator 0 (Gather)")) << bmrt_last_error();
  EXPECT_TRUE(contains(bmrt_last_error(), "8")) << bmrt_last_error();
  ASSERT_TRUE(pick_rows({7, 7, 7}, y)) << bmrt_last_error();
  EXPECT_EQ(y, (Floats{9, 9, 9}));
}

TEST_F(GraphTest, ThatDoesNotFitItsTensorsIsRefusedWhenLoading) {
  npu::cpu::HostGraph graph = rows_by_index();
  graph.inputs[1].shape = {4};
  EXPECT_FALSE(load(file({net("pick", {pick(graph)})})));
  EXPECT_TRUE(contains(bmrt_last_error(),
                       "network 'pick' stage 0: sub-network 1: input 1 is int32 [3], the graph has int32 [4]"))
      << bmrt_last_error();
  npu::bmodel::StageDesc stage = pick(rows_by_index());
  stage.subs[1].param.pop_back();
  EXPECT_FALSE(load(file({net("pick", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "sub-network 1: its graph has ")) << bmrt_last_error();
  stage = pick(rows_by_index());
  stage.subs[1].param[64] ^= 1;
  EXPECT_FALSE(load(file({net("pick", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "sub-network 1: no graph for the CPU")) << bmrt_last_error();
}

}  // namespace
