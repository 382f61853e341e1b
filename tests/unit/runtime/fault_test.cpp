// SPDX-License-Identifier: MIT
// Jobs that fail on the card: their owner learns what happened, everything else goes on.
#include <stdlib.h>

#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::deadlock;
using test_models::file;
using test_models::net;
using test_models::overrun;
using test_models::plus;
using namespace test_runtime;

class FaultTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    npu::bmodel::StageDesc opcode = plus({4}, 1), reserved = plus({4}, 1);
    opcode.gdma[0] = 0xee;
    reserved.gdma[127] = 1;
    ASSERT_TRUE(load(file({net("overrun", {overrun(4)}), net("deadlock", {deadlock()}), net("opcode", {opcode}),
                           net("reserved", {reserved}), net("good", {plus({4}, 1)})})))
        << bmrt_last_error();
  }
  /// The text of bm_thread_sync()'s error and of bmrt_last_launch_cycles().
  std::pair<std::string, std::string> failure(const char *name) {
    const DeviceFloats in(handle, {1, 2, 3, 4}), out(handle, Floats(4));
    bm_tensor_t t = tensor(out.mem(), {4});
    EXPECT_TRUE(launch(name, tensor(in.mem(), {4}), t)) << bmrt_last_error();
    EXPECT_EQ(bm_thread_sync(handle), BM_ERR_FAILURE);
    const std::string text = npu_last_error();
    uint64_t cycles;
    EXPECT_FALSE(bmrt_last_launch_cycles(p_bmrt, &cycles));
    EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << "an error is reported once";
    return {text, bmrt_last_error()};
  }
};

TEST_F(FaultTest, AnOverrunNamesCommandAndTensor) {
  const auto [sync, last] = failure("overrun");
  EXPECT_TRUE(contains(sync, "GDMA command 0, region 0, offset 0x4 size 0x10 beyond the region")) << sync;
  EXPECT_TRUE(contains(last, "network 'overrun': the job failed:")) << last;
  EXPECT_TRUE(contains(last, "GDMA command 0, region 0")) << last;
  EXPECT_TRUE(contains(last, "(region 0 is input 0 'x')")) << last;
  expect_working();
}

TEST_F(FaultTest, ADeadlockEnds) {
  const auto [sync, last] = failure("deadlock");
  EXPECT_TRUE(contains(last, "GDMA command 0: deadlock")) << last;
  expect_working();
}

TEST_F(FaultTest, BadCommandsAreNamed) {
  auto texts = failure("opcode");
  EXPECT_TRUE(contains(texts.second, "GDMA command 0: opcode or sub-operation unknown")) << texts.second;
  texts = failure("reserved");
  EXPECT_TRUE(contains(texts.second, "GDMA command 0, byte 127: a reserved bit")) << texts.second;
  expect_working();
}

TEST_F(FaultTest, TheFirstErrorIsReportedAndLaterLaunchesRun) {
  const DeviceFloats in(handle, {1, 2, 3, 4}), out(handle, Floats(4)), spoilt(handle, Floats(4));
  bm_tensor_t good = tensor(out.mem(), {4}), bad = tensor(spoilt.mem(), {4});
  ASSERT_TRUE(launch("overrun", tensor(in.mem(), {4}), bad)) << bmrt_last_error();
  ASSERT_TRUE(launch("deadlock", tensor(in.mem(), {4}), bad)) << bmrt_last_error();
  ASSERT_TRUE(launch("good", tensor(in.mem(), {4}), good)) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_ERR_FAILURE);
  EXPECT_TRUE(contains(npu_last_error(), "beyond the region")) << npu_last_error();
  uint64_t cycles = 0;
  EXPECT_TRUE(bmrt_last_launch_cycles(p_bmrt, &cycles)) << bmrt_last_error();
  EXPECT_GT(cycles, 0u);
  EXPECT_EQ(out.read(), (Floats{2, 3, 4, 5}));
}

TEST_F(FaultTest, OtherThreadsDoNotGetTheError) {
  const DeviceFloats in(handle, {1, 2, 3, 4}), out(handle, Floats(4));
  bm_tensor_t bad = tensor(out.mem(), {4});
  ASSERT_TRUE(launch("overrun", tensor(in.mem(), {4}), bad)) << bmrt_last_error();
  std::thread([&] {
    EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    const DeviceFloats a(handle, {1, 2, 3, 4}), b(handle, Floats(4));
    bm_tensor_t t = tensor(b.mem(), {4});
    EXPECT_TRUE(launch("good", tensor(a.mem(), {4}), t)) << bmrt_last_error();
    EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    EXPECT_EQ(b.read(), (Floats{2, 3, 4, 5}));
  }).join();
  EXPECT_EQ(bm_thread_sync(handle), BM_ERR_FAILURE);
}

TEST_F(FaultTest, LaunchDataReportsItsOwnFailure) {
  Floats values{1, 2, 3, 4};
  void *in = values.data(), *out = nullptr;
  const bm_shape_t s = shape({4});
  bm_shape_t got{};
  const uint64_t before = held();
  EXPECT_FALSE(bmrt_launch_data(p_bmrt, "overrun", &in, &s, 1, &out, &got, 1, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_launch_data: network 'overrun': the job failed")) << bmrt_last_error();
  EXPECT_FALSE(out);
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << "reported already";
  EXPECT_EQ(held(), before);
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "good", &in, &s, 1, &out, &got, 1, false)) << bmrt_last_error();
  free(out);
}

TEST_F(FaultTest, CyclesAreKnownOnlyAfterALaunch) {
  uint64_t cycles = 0;
  EXPECT_FALSE(bmrt_last_launch_cycles(p_bmrt, &cycles));
  EXPECT_TRUE(contains(bmrt_last_error(), "this thread has launched nothing on this runtime")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_last_launch_cycles(nullptr, &cycles));
  EXPECT_FALSE(bmrt_last_launch_cycles(p_bmrt, nullptr));
}

// Modelled time does not depend on what else the card does, nor on the run.
TEST_F(FaultTest, CyclesRepeat) {
  const DeviceFloats in(handle, {1, 2, 3, 4}), out(handle, Floats(4));
  bm_tensor_t t = tensor(out.mem(), {4});
  uint64_t first = 0;
  for (int i = 0; i < 5; ++i) {
    uint64_t cycles = 0;
    ASSERT_TRUE(launch("good", tensor(in.mem(), {4}), t)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS);
    ASSERT_TRUE(bmrt_last_launch_cycles(p_bmrt, &cycles)) << bmrt_last_error();
    if (i == 0) first = cycles;
    EXPECT_EQ(cycles, first);
  }
}

}  // namespace
