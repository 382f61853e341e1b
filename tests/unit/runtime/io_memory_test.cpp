// SPDX-License-Identifier: MIT
// stages[].input_mems and output_mems: memory of the runtime that programs use as they like; in networks with addr_mode
// 1 they keep state there (KV caches) between launches, those with addr_mode 0 have it in common with others of their
// kind.
#include "npu_isa.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::file;
using test_models::net;
using test_models::plus;
using namespace test_runtime;

/// Inputs x, cache; outputs y and next = x + cache: a step of a network that carries state.
npu::bmodel::StageDesc step(uint64_t count) {
  test_models::Stage s;
  const auto n = static_cast<uint32_t>(count);
  s.input("x", {1, count}).input("cache", {1, count}).output("y", {1, count}).output("next", {1, count});
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, n);
  s.copy(s.in(1), 0, NPU_REGION_LOCAL, 1024, n);
  s.add(0, 1024, 2048, n, 2);
  s.copy(NPU_REGION_LOCAL, 2048, s.out(0), 0, n, 1);
  s.copy(NPU_REGION_LOCAL, 2048, s.out(1), 0, n, 1);
  return s.finish();
}

class IoMemoryTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    auto with_state = net("state", {step(4), step(8)});
    with_state.addr_mode = 1;
    ASSERT_TRUE(load(file({with_state, net("plus", {plus({1, 8}, 3)})}))) << bmrt_last_error();
  }
  const bm_net_info_t &info(const char *name) { return *bmrt_get_network_info(p_bmrt, name); }
  void write(const bm_device_mem_t &mem, Floats values) {
    ASSERT_EQ(bm_memcpy_s2d(handle, mem, values.data()), BM_SUCCESS) << npu_last_error();
  }
  /// A step whose cache stays in the input's memory.
  void step_in_place(int stage, int count) {
    const bm_stage_info_t &s = info("state").stages[stage];
    const bm_tensor_t in[] = {tensor(s.input_mems[0], {1, count}), tensor(s.input_mems[1], {1, count})};
    bm_tensor_t out[] = {tensor(s.output_mems[0], {1, count}), tensor(s.input_mems[1], {1, count})};
    ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "state", in, 2, out, 2, true, false)) << bmrt_last_error();
  }
};

TEST_F(IoMemoryTest, TheModeIsTold) {
  EXPECT_EQ(info("state").addr_mode, ADDR_MODE_IO_ALONE);
  EXPECT_EQ(info("plus").addr_mode, ADDR_MODE_BASIC);
}

TEST_F(IoMemoryTest, CachesLiveInTheirInputFromLaunchToLaunch) {
  const bm_stage_info_t &s = info("state").stages[0];
  write(s.input_mems[0], {1, 2, 3, 4});
  write(s.input_mems[1], {0, 0, 0, 0});
  for (int i = 0; i < 5; ++i) step_in_place(0, 4);  // nobody waits in between
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(read(handle, s.output_mems[0]), (Floats{5, 10, 15, 20}));
  EXPECT_EQ(read(handle, s.input_mems[1]), (Floats{5, 10, 15, 20}));
  EXPECT_EQ(read(handle, s.input_mems[0]), (Floats{1, 2, 3, 4}));
}

TEST_F(IoMemoryTest, EveryStageAndNetworkHasItsOwn) {
  const bm_stage_info_t &first = info("state").stages[0], &second = info("state").stages[1];
  const bm_stage_info_t &other = info("plus").stages[0];
  write(first.input_mems[0], Floats(4, 1));
  write(first.input_mems[1], Floats(4, 0));
  write(second.input_mems[0], Floats(8, 10));
  write(second.input_mems[1], Floats(8, 100));
  write(other.input_mems[0], Floats(8, -1));
  step_in_place(0, 4);
  step_in_place(1, 8);
  step_in_place(0, 4);
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(read(handle, first.input_mems[1]), Floats(4, 2));
  EXPECT_EQ(read(handle, second.input_mems[1]), Floats(8, 110));
  EXPECT_EQ(read(handle, other.input_mems[0]), Floats(8, -1));
}

// A model's layers: each adds the mask, which the program writes for the first one only.
TEST_F(IoMemoryTest, LikeNetworksOfModeZeroShareTheirs) {
  std::vector<npu::bmodel::NetDesc> layers;
  for (int i = 0; i < 3; ++i) layers.push_back(net("layer" + std::to_string(i), {step(4)}));
  ASSERT_TRUE(load(file(layers))) << bmrt_last_error();
  ASSERT_TRUE(load(file({net("layer3", {step(4)}), net("wider", {step(8)})}))) << bmrt_last_error();
  const DeviceFloats first(handle, {1, 2, 3, 4});
  bm_device_mem_t hidden = first.mem();
  for (int i = 0; i < 4; ++i) {
    const std::string name = "layer" + std::to_string(i);
    const bm_stage_info_t &s = info(name.c_str()).stages[0];
    EXPECT_EQ(bm_memcpy_d2d_byte(handle, s.input_mems[0], 0, hidden, 0, 16), BM_SUCCESS);
    if (i == 0) write(s.input_mems[1], {0, 10, 100, 1000});
    const bm_tensor_t in[] = {tensor(s.input_mems[0], {1, 4}), tensor(s.input_mems[1], {1, 4})};
    bm_tensor_t out[] = {tensor(s.output_mems[0], {1, 4}), tensor(s.output_mems[1], {1, 4})};
    ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, name.c_str(), in, 2, out, 2, true, false)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    hidden = s.output_mems[0];
  }
  EXPECT_EQ(read(handle, hidden), (Floats{1, 42, 403, 4004}));
  const auto place = [&](const char *name) { return info(name).stages[0].input_mems[0].u.device.device_addr; };
  EXPECT_EQ(place("layer0"), place("layer3"));
  EXPECT_NE(place("layer0"), place("wider"));
  EXPECT_NE(place("layer0"), place("state"));
}

// Programs hand a prefill network's outputs to a decoder by writing its descriptors.
TEST_F(IoMemoryTest, DescriptorsMayBeOverwrittenWithOthers) {
  const bm_stage_info_t &s = info("state").stages[0];
  const DeviceFloats own(handle, {7, 7, 7, 7});
  const bm_device_mem_t cache = s.input_mems[1];
  write(s.input_mems[0], Floats(4, 1));
  write(cache, Floats(4, 0));
  s.input_mems[1] = own.mem();
  step_in_place(0, 4);
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(own.read(), Floats(4, 8));
  EXPECT_EQ(read(handle, cache), Floats(4, 0));
  s.input_mems[1] = cache;
}

TEST_F(IoMemoryTest, FreeingItIsRefused) {
  const bm_device_mem_t x = info("plus").stages[0].input_mems[0];
  bm_free_device(handle, x);  // not the program's: logged, nothing happens
  write(x, Floats(8, 2));
  EXPECT_EQ(read(handle, x), Floats(8, 2));
}

}  // namespace
