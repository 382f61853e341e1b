// SPDX-License-Identifier: MIT
// Coefficients and commands are on the card once in a process, by content, and sealed.
#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::affine;
using test_models::file;
using test_models::net;
using namespace test_runtime;

constexpr uint32_t kCount = 32;

/// "NAME" with coefficients 1, 2, 3 ..., the last of them replaced, and so much padding that they fill pages.
std::vector<uint8_t> model(const char *name, float last = kCount) {
  auto stage = affine(kCount);
  std::memcpy(stage.coeff.data() + (kCount - 1) * sizeof(float), &last, sizeof last);
  return file({net(name, {stage})});
}

class SharingTest : public RuntimeTest {
 protected:
  /// Card memory that one more runtime with this model takes, and the runtime.
  uint64_t cost_of(const std::vector<uint8_t> &bytes, void *&runtime) {
    const uint64_t before = held();
    runtime = bmrt_create(handle);
    EXPECT_TRUE(bmrt_load_bmodel_data(runtime, bytes.data(), bytes.size())) << bmrt_last_error();
    return held() - before;
  }
  /// The last output for an input of zeros: the last coefficient.
  float last_coefficient(void *runtime, const char *name) {
    const DeviceFloats x(handle, Floats(kCount)), y(handle, Floats(kCount));
    const bm_tensor_t in = tensor(x.mem(), {kCount});
    bm_tensor_t out = tensor(y.mem(), {kCount});
    EXPECT_TRUE(bmrt_launch_tensor_ex(runtime, name, &in, 1, &out, 1, true, false)) << bmrt_last_error();
    EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS);
    return y.read().back();
  }
};

constexpr uint64_t kPage = 4096, kIoPages = 2;

TEST_F(SharingTest, RuntimesShareWhatIsEqual) {
  void *first, *second, *other;
  const uint64_t alone = cost_of(model("a"), first);
  EXPECT_GE(alone, kIoPages * kPage + 2 * kPage) << "input, output, coefficients, commands";
  EXPECT_EQ(cost_of(model("b"), second), kIoPages * kPage) << "another name, the same contents";
  const uint64_t different = cost_of(model("a", -7), other);
  EXPECT_EQ(different, kIoPages * kPage + kPage) << "the commands are shared, the coefficients differ";
  EXPECT_EQ(last_coefficient(first, "a"), 32.0f);
  EXPECT_EQ(last_coefficient(other, "a"), -7.0f);
  bmrt_destroy(first);
  EXPECT_EQ(last_coefficient(second, "b"), 32.0f) << "its coefficients outlive the runtime that brought them";
  bmrt_destroy(second);
  bmrt_destroy(other);
}

TEST_F(SharingTest, TheLastUserFreesThem) {
  const uint64_t before = held();
  for (int i = 0; i < 3; ++i) {
    void *first, *second;
    cost_of(model("a"), first);
    cost_of(model("a"), second);
    bmrt_destroy(first);
    bmrt_destroy(second);
    EXPECT_EQ(held(), before);
  }
}

// A model whose coefficients differ in one byte that no fingerprint looks at may not get the other's.
TEST_F(SharingTest, EveryByteCounts) {
  auto stage = affine(kCount);
  stage.coeff.resize(64 << 10);
  auto changed = stage;
  changed.coeff[33333] ^= 1;
  void *first, *second, *third;
  const auto bytes = file({net("a", {stage})}), bytes_changed = file({net("a", {changed})});
  cost_of(bytes, first);
  EXPECT_GE(cost_of(bytes_changed, second), uint64_t{64} << 10);
  EXPECT_EQ(cost_of(bytes_changed, third), kIoPages * kPage);
  for (void *runtime : {first, second, third}) bmrt_destroy(runtime);
}

TEST_F(SharingTest, ThreadsThatLoadAtOnceShare) {
  const auto bytes = model("a");
  void *first;
  const uint64_t before = held(), alone = cost_of(bytes, first);
  bmrt_destroy(first);
  constexpr int kThreads = 8;
  void *runtimes[kThreads];
  std::vector<std::thread> threads;
  for (void *&runtime : runtimes)
    threads.emplace_back([this, &bytes, &runtime] {
      runtime = bmrt_create(handle);
      EXPECT_TRUE(bmrt_load_bmodel_data(runtime, bytes.data(), bytes.size())) << bmrt_last_error();
    });
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(held() - before, alone + (kThreads - 1) * kIoPages * kPage);
  for (void *runtime : runtimes) bmrt_destroy(runtime);
}

TEST_F(SharingTest, NobodyCanWriteThem) {
  ASSERT_TRUE(load(model("a")));
  // The program gets no address of them: looked for around an allocation.
  const DeviceFloats x(handle, Floats(8));
  const uint64_t here = bm_mem_get_device_addr(x.mem()), around = 1024 * kPage;
  int sealed = 0;
  for (uint64_t at = here > around ? here - around : kPage; at < here + around; at += kPage) {
    npu_bo *bo;
    uint64_t offset;
    if (npu_bo_find(device, at, &bo, &offset) != 0) continue;
    const uint32_t zero = 0;
    void *p;
    if (offset == 0 && npu_write(bo, 0, &zero, 4) == -EACCES) {
      ++sealed;
      EXPECT_EQ(npu_bo_map(bo, &p), -EACCES);
    }
    npu_bo_unref(bo);
  }
  EXPECT_EQ(sealed, 2) << "commands and coefficients";
}

}  // namespace
