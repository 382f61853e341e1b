// SPDX-License-Identifier: MIT
// Networks for several cores: a stream for each, which meet at semaphores; lists of cores; launches of both kinds side
// by side.
#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::file;
using test_models::net;
using test_models::relay;
using test_models::sample;
using namespace test_runtime;

const Floats kX{1, 2, 3, 4, 5, 6, 7, 8}, kY{4, 6, 8, 10, 12, 14, 16, 18};

class MultiCoreTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    drm_npu_dev_info info;
    ASSERT_EQ(npu_device_info(device, &info), 0);
    ASSERT_GE(info.cores, 2u) << "these tests need a card with two cores";
    cores = static_cast<int>(info.cores);
    ASSERT_TRUE(load(file({net("relay", {relay()})}))) << bmrt_last_error();
  }
  void expect_result(const std::vector<int> &list) {
    const DeviceFloats x(handle, kX), y(handle, Floats(8));
    const bm_tensor_t in = tensor(x.mem(), {1, 8});
    bm_tensor_t out = tensor(y.mem(), {1, 8});
    ASSERT_TRUE(bmrt_launch_tensor_multi_cores(p_bmrt, "relay", &in, 1, &out, 1, true, false, list.data(),
                                               static_cast<int>(list.size())))
        << bmrt_last_error();
    ASSERT_EQ(bm_thread_sync_from_core(handle, 1), BM_SUCCESS) << npu_last_error();
    EXPECT_EQ(y.read(), kY);
  }
  int cores = 0;
};

TEST_F(MultiCoreTest, SaysHowManyCoresItNeeds) {
  EXPECT_EQ(bmrt_get_network_info(p_bmrt, "relay")->core_num, 2);
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_info(p_bmrt, "plus")->core_num, 1);
}

TEST_F(MultiCoreTest, RunsWhateverTheListOfCoresLooksLike) {
  expect_result({});
  expect_result({0, 1});
  expect_result({1, 0});
  expect_result({1});           // one is missing
  expect_result({0, 0, 0, 1});  // duplicates
  std::vector<int> all;
  for (int core = 0; core < cores; ++core) all.push_back(core);
  expect_result(all);
}

TEST_F(MultiCoreTest, ACoreThatDoesNotExistIsAnError) {
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  for (const int wrong : {-1, cores}) {
    const int list[] = {0, wrong};
    EXPECT_FALSE(bmrt_launch_tensor_multi_cores(p_bmrt, "relay", &in, 1, &out, 1, true, false, list, 2));
    EXPECT_TRUE(contains(bmrt_last_error(), "core " + std::to_string(wrong) + " does not exist")) << bmrt_last_error();
  }
}

TEST_F(MultiCoreTest, CanBeSentAsData) {
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  api_info_c *info = get_bmodel_api_info_c(p_bmrt, "relay", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(info) << bmrt_last_error();
  ASSERT_EQ(bm_send_api(handle, static_cast<int>(info->api_id[0]), info->api_data[0],
                        static_cast<unsigned int>(info->api_data_subsize[0])),
            BM_SUCCESS)
      << npu_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), kY);
  bmrt_free_api_info(info);
}

TEST_F(MultiCoreTest, RunsBesideNetworksOfOneCore) {
  ASSERT_TRUE(load(sample())) << bmrt_last_error();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      const DeviceFloats x(handle, kX), y(handle, Floats(8));
      const bm_tensor_t in = tensor(x.mem(), {1, 8});
      bm_tensor_t out = tensor(y.mem(), {1, 8});
      for (int i = 0; i < 50; ++i)
        ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, t % 2 ? "relay" : "plus", &in, 1, &out, 1, true, false))
            << bmrt_last_error();
      ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
      EXPECT_EQ(y.read(), t % 2 ? kY : (Floats{4, 5, 6, 7, 8, 9, 10, 11}));
    });
  for (std::thread &t : threads) t.join();
}

TEST_F(MultiCoreTest, CoresThatWaitForEverEndTheJob) {
  ASSERT_TRUE(load(file({net("stuck", {relay(false)})}))) << bmrt_last_error();
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  ASSERT_TRUE(launch("stuck", tensor(x.mem(), {1, 8}), out)) << bmrt_last_error();
  EXPECT_NE(bm_thread_sync(handle), BM_SUCCESS);
  expect_result({});
}

TEST_F(MultiCoreTest, MoreCoresThanTheCardHasIsAReason) {
  auto stage = relay();
  while (static_cast<int>(stage.more_cores.size()) < cores) stage.more_cores.push_back(stage.more_cores[0]);
  EXPECT_FALSE(load(file({net("wide", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'wide' was compiled for " + std::to_string(cores + 1) +
                                              " cores, this card has " + std::to_string(cores)))
      << bmrt_last_error();
  stage = relay();
  stage.more_cores[0] = {};
  EXPECT_FALSE(load(file({net("empty", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "core 1 has no commands")) << bmrt_last_error();
}

}  // namespace
