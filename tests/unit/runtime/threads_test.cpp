// SPDX-License-Identifier: MIT
// Many threads, many runtimes, many launches in flight, and lifetimes that cross.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::affine;
using test_models::file;
using test_models::net;
using test_models::plus;
using test_models::sample;
using namespace test_runtime;
using ThreadsTest = RuntimeTest;

Floats input_of(int thread, int round) {
  Floats v(16);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(thread * 1000 + round) + static_cast<float>(i) / 16;
  return v;
}

Floats output_of(const Floats &x) {
  Floats y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i] + static_cast<float>(i + 1);
  return y;
}

/// `rounds` launches of "affine", `in_flight` at a time, each with its own data; counts wrong results and failures.
void hammer(bm_handle_t handle, void *p_bmrt, int thread, int rounds, int in_flight, std::atomic<int> &wrong) {
  std::vector<std::unique_ptr<DeviceFloats>> x, y;
  for (int i = 0; i < in_flight; ++i) {
    x.push_back(std::make_unique<DeviceFloats>(handle, Floats(16)));
    y.push_back(std::make_unique<DeviceFloats>(handle, Floats(16)));
  }
  for (int round = 0; round < rounds; round += in_flight) {
    for (int i = 0; i < in_flight; ++i) {
      Floats values = input_of(thread, round + i);
      const auto k = static_cast<size_t>(i);
      if (bm_memcpy_s2d(handle, x[k]->mem(), values.data()) != BM_SUCCESS) ++wrong;
      const bm_tensor_t in = tensor(x[k]->mem(), {16});
      bm_tensor_t out = tensor(y[k]->mem(), {16});
      if (!bmrt_launch_tensor_ex(p_bmrt, "affine", &in, 1, &out, 1, true, false)) ++wrong;
    }
    if (bm_thread_sync(handle) != BM_SUCCESS) ++wrong;
    for (int i = 0; i < in_flight; ++i)
      if (y[static_cast<size_t>(i)]->read() != output_of(input_of(thread, round + i))) ++wrong;
  }
}

void hammer_with(bm_handle_t handle, void *p_bmrt, int threads, int rounds, int in_flight) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back([&, t] { hammer(handle, p_bmrt, t, rounds, in_flight, wrong); });
  for (std::thread &t : all) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, EightThreadsShareANetwork) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  hammer_with(handle, p_bmrt, 8, 200, 4);
}

TEST_F(ThreadsTest, SixteenThreadsLaunchAThousandTimesEach) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  hammer_with(handle, p_bmrt, 16, 1000, 4);
}

/// Launches "affine" until the runtime refuses, which it does with this reason.
void launch_until_refused(bm_handle_t handle, void *p_bmrt, std::atomic<int> &launches, std::atomic<int> &wrong) {
  const DeviceFloats x(handle, Floats(16)), y(handle, Floats(16));
  const bm_tensor_t in = tensor(x.mem(), {16});
  bm_tensor_t out = tensor(y.mem(), {16});
  while (bmrt_launch_tensor_ex(p_bmrt, "affine", &in, 1, &out, 1, true, false)) ++launches;
  if (!contains(bmrt_last_error(), "the runtime was destroyed")) ++wrong;
  if (bm_thread_sync(handle) != BM_SUCCESS) ++wrong;
}

TEST_F(ThreadsTest, ARuntimeIsDestroyedWhileThreadsLaunch) {
  for (int round = 0; round < 20; ++round) {
    void *const doomed = bmrt_create(handle);
    const std::vector<uint8_t> model = sample();
    ASSERT_TRUE(bmrt_load_bmodel_data(doomed, model.data(), model.size())) << bmrt_last_error();
    std::atomic<int> launches{0}, wrong{0};
    std::vector<std::thread> all;
    for (int t = 0; t < 4; ++t) all.emplace_back([&] { launch_until_refused(handle, doomed, launches, wrong); });
    while (launches < 100) std::this_thread::yield();
    bmrt_destroy(doomed);
    for (std::thread &t : all) t.join();
    EXPECT_EQ(wrong, 0);
  }
  expect_working();
}

// TSan does not know a child that starts threads after a fork.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NPU_TEST_TSAN 1
#endif
#endif
#if !defined(NPU_TEST_TSAN) && !defined(__SANITIZE_THREAD__)

/// What is wrong in a child with its parent's objects; 0: nothing. It may not hang; what it ends stays its parent's.
int in_child(bm_handle_t parents, void *parents_runtime, const DeviceFloats &x) {
  bm_device_mem_t mem;
  if (bm_malloc_device_byte(parents, &mem, 64) != BM_ERR_PARAM) return 1;
  if (!contains(npu_last_error(), "of the process that this one was forked from")) return 2;
  const bm_tensor_t in = tensor(x.mem(), {16});
  bm_tensor_t out = in;
  if (bmrt_launch_tensor(parents_runtime, "affine", &in, 1, &out, 1)) return 3;
  if (!contains(bmrt_last_error(), "belongs to the process that this one was forked from")) return 4;
  bmrt_destroy(parents_runtime);
  bm_free_device(parents, x.mem());
  bm_dev_free(parents);
  bm_handle_t own;
  if (bm_dev_request(&own, 0) != BM_SUCCESS) return 5;
  void *const runtime = bmrt_create(own);
  const std::vector<uint8_t> model = sample();
  if (!bmrt_load_bmodel_data(runtime, model.data(), model.size())) return 6;
  const DeviceFloats mine(own, Floats(16));
  const bm_tensor_t my_in = tensor(mine.mem(), {16});
  if (!bmrt_launch_tensor(runtime, "affine", &my_in, 1, &out, 1) || bm_thread_sync(own) != BM_SUCCESS) return 7;
  bm_free_device(own, out.device_mem);
  bmrt_destroy(runtime);
  return 0;
}

TEST_F(ThreadsTest, AForkedChildLeavesItsParentsObjectsAlone) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  hammer_with(handle, p_bmrt, 1, 4, 4);
  const DeviceFloats x(handle, Floats(16));
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (!pid) _exit(in_child(handle, p_bmrt, x));
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  hammer_with(handle, p_bmrt, 2, 8, 4);
}

#endif

TEST_F(ThreadsTest, OneActivationBufferIsEnough) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  ASSERT_TRUE(bmrt_set_max_launches(p_bmrt, 1)) << bmrt_last_error();
  hammer_with(handle, p_bmrt, 8, 40, 4);
}

/// Activation memory that `launches` unsynchronised launches of "affine" (8192 bytes each) made the runtime take.
uint64_t pool_growth(bm_handle_t handle, npu_device *device, void *p_bmrt, int launches) {
  const DeviceFloats x(handle, Floats(16)), y(handle, Floats(16));
  const uint64_t before = held_by_process(device);
  for (int i = 0; i < launches; ++i) {
    const bm_tensor_t in = tensor(x.mem(), {16});
    bm_tensor_t out = tensor(y.mem(), {16});
    EXPECT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "affine", &in, 1, &out, 1, true, false)) << bmrt_last_error();
  }
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  return held_by_process(device) - before;
}

TEST_F(ThreadsTest, ThePoolKeepsToItsLimit) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  EXPECT_LE(pool_growth(handle, device, p_bmrt, 200), 16u * 8192u);
  void *const small = bmrt_create(handle);
  ASSERT_TRUE(small);
  ASSERT_TRUE(bmrt_set_max_launches(small, 1));
  const auto bytes = sample();
  ASSERT_TRUE(bmrt_load_bmodel_data(small, bytes.data(), bytes.size())) << bmrt_last_error();
  EXPECT_LE(pool_growth(handle, device, small, 100), 8192u);
  EXPECT_FALSE(bmrt_set_max_launches(small, 0));
  EXPECT_TRUE(contains(bmrt_last_error(), "0 launches, at least 1 is needed")) << bmrt_last_error();
  bmrt_destroy(small);
}

TEST_F(ThreadsTest, RuntimesDoNotDisturbEachOther) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  void *const other = bmrt_create(handle);
  ASSERT_TRUE(other);
  const auto bytes = file({net("affine", {affine(16)})});
  ASSERT_TRUE(bmrt_load_bmodel_data(other, bytes.data(), bytes.size())) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_number(other), 1);
  std::atomic<int> wrong{0};
  std::thread first([&] { hammer(handle, p_bmrt, 1, 100, 4, wrong); });
  std::thread second([&] { hammer(handle, other, 2, 100, 4, wrong); });
  first.join();
  second.join();
  bmrt_destroy(other);
  EXPECT_EQ(wrong, 0);
  hammer_with(handle, p_bmrt, 1, 8, 4);
}

TEST_F(ThreadsTest, LoadingWhileOthersLaunch) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  std::atomic<int> wrong{0};
  std::thread launcher([&] { hammer(handle, p_bmrt, 1, 100, 4, wrong); });
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(load(file({net("more" + std::to_string(i), {plus({4}, 1)})}))) << bmrt_last_error();
  launcher.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 14);
}

TEST_F(ThreadsTest, DestroyWaitsForUnfinishedLaunches) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  const DeviceFloats x(handle, input_of(1, 1)), y(handle, Floats(16));
  const bm_tensor_t in = tensor(x.mem(), {16});
  bm_tensor_t out = tensor(y.mem(), {16});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch("affine", in, out)) << bmrt_last_error();
  bmrt_destroy(p_bmrt);
  p_bmrt = nullptr;
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), output_of(input_of(1, 1)));
}

TEST_F(ThreadsTest, TheHandleMayBeFreedBeforeTheRuntime) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  bm_handle_t keep;  // the memory of this test
  ASSERT_EQ(bm_dev_request(&keep, 0), BM_SUCCESS);
  {
    const DeviceFloats x(keep, input_of(1, 1)), y(keep, Floats(16));
    const bm_tensor_t in = tensor(x.mem(), {16});
    bm_tensor_t out = tensor(y.mem(), {16});
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(launch("affine", in, out)) << bmrt_last_error();
    bm_dev_free(handle);
    // Launches still work, but there is no handle any more to allocate outputs with.
    EXPECT_TRUE(launch("affine", in, out)) << bmrt_last_error();
    bm_tensor_t none{};
    EXPECT_FALSE(launch("affine", in, none, false));
    bmrt_destroy(p_bmrt);
    EXPECT_EQ(y.read(), output_of(input_of(1, 1)));
  }
  bm_dev_free(keep);
  handle = nullptr;
  p_bmrt = nullptr;
}

TEST_F(ThreadsTest, ThreadsThatEndWithoutASyncLoseNothing) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  const DeviceFloats x(handle, input_of(3, 3)), y(handle, Floats(16));
  for (int i = 0; i < 30; ++i)
    std::thread([&] {
      const bm_tensor_t in = tensor(x.mem(), {16});
      bm_tensor_t out = tensor(y.mem(), {16});
      EXPECT_TRUE(launch("affine", in, out)) << bmrt_last_error();
    }).join();
  EXPECT_EQ(bm_handle_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), output_of(input_of(3, 3)));
}

TEST_F(ThreadsTest, IdleMemoryOfOneNetworkServesAnother) {
  bm_heap_stat_byte_t heap;
  ASSERT_EQ(bm_get_gmem_heap_stat_byte_by_id(handle, &heap, 0), BM_SUCCESS) << npu_last_error();
  const uint64_t ctx = heap.mem_avail / 5 * 2 / 4096 * 4096;
  auto first = affine(16), second = affine(16);
  for (auto *stage : {&first, &second}) {
    stage->ctx_bytes = ctx;
    for (auto &region : stage->regions)
      if (region.kind == NPU_PROGRAM_CTX) region.bytes = ctx;
  }
  ASSERT_TRUE(load(file({net("first", {first}), net("second", {second})}))) << bmrt_last_error();
  const DeviceFloats x(handle, std::vector<float>(16)), y(handle, std::vector<float>(16));
  bm_tensor_t out = tensor(y.mem(), {16});
  for (const char *name : {"first", "second", "first", "second"}) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(launch(name, tensor(x.mem(), {16}), out)) << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  }
}

}  // namespace
