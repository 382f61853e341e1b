// SPDX-License-Identifier: MIT
// The C interface as its users have it: through the shared library, with wrong configurations and right ones. And the
// sensor model behind its registers.
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "npu_model.h"
#include "npu_regs.h"

namespace npu::test {
namespace {

npu_model_board board() {
  npu_model_board b{};
  b.dma_read = [](void *, uint64_t, void *, size_t) { return -1; };
  b.dma_write = [](void *, uint64_t, const void *, size_t) { return -1; };
  b.interrupt = [](void *, unsigned) {};
  return b;
}

class Facade : public testing::Test {
 protected:
  Facade() : calls_(board()), ddr_(std::aligned_alloc(4096, 1 << 20)) {
    config.abi = NPU_MODEL_ABI;
    config.ddr = ddr_;
    config.ddr_bytes = 1 << 20;
    config.board = &calls_;
    config.backend = "reference";
  }
  ~Facade() override { std::free(ddr_); }

  /// Expects a refusal that says why.
  void refused(int error, const char *word) {
    int got = 0;
    char message[200] = "";
    EXPECT_EQ(npu_model_create(&config, &got, message, sizeof message), nullptr);
    EXPECT_EQ(got, error);
    EXPECT_NE(std::string(message).find(word), std::string::npos) << message;
  }

  npu_model_config config{};

 private:
  npu_model_board calls_;
  void *ddr_;
};

TEST_F(Facade, DefaultsAreThoseOfTheHeader) {
  int error = 1;
  char message[8] = "x";
  npu_model *m = npu_model_create(&config, &error, message, sizeof message);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(error, 0);
  EXPECT_STREQ(message, "");
  const auto r = [&](uint32_t reg) { return npu_model_read(m, reg, 4); };
  EXPECT_EQ(r(NPU_REG_CORES), 2u);
  EXPECT_EQ(r(NPU_REG_QUEUES), 64u);
  EXPECT_EQ(r(NPU_REG_ASIDS), 256u);
  EXPECT_EQ(r(NPU_REG_VECTORS), 33u);
  EXPECT_EQ(r(NPU_REG_LMEM_BYTES), 8u << 20);
  EXPECT_EQ(r(NPU_REG_CLOCK_KHZ), 1000000u);
  EXPECT_STREQ(npu_model_backend(m), "reference");
  EXPECT_GE(npu_model_thread_count(m), 2u);
  npu_model_destroy(m);
}

TEST_F(Facade, WrongConfigurationsAreNamed) {
  const auto each = [&](auto change, int error, const char *word) {
    const npu_model_config good = config;
    change();
    refused(error, word);
    config = good;
  };
  each([&] { config.abi = NPU_MODEL_ABI + 1; }, -EINVAL, "abi");
  each([&] { config.cores = 9; }, -EINVAL, "cores");
  each([&] { config.queues = 257; }, -EINVAL, "queues");
  each([&] { config.asids = 1025; }, -EINVAL, "asids");
  each([&] { config.vectors = 2049; }, -EINVAL, "vectors");
  each([&] { config.lmem_bytes = 4095; }, -EINVAL, "lmem_bytes");
  each([&] { config.lmem_bytes = 4096 + 64; }, -EINVAL, "lmem_bytes");
  each([&] { config.lmem_bytes = (256u << 20) + 4096; }, -EINVAL, "lmem_bytes");
  each([&] { config.ddr = nullptr; }, -EINVAL, "ddr");
  each([&] { config.ddr = static_cast<char *>(config.ddr) + 8; }, -EINVAL, "ddr");
  each([&] { config.ddr_bytes = 0; }, -EINVAL, "ddr_bytes");
  each([&] { config.ddr_bytes = 4097; }, -EINVAL, "ddr_bytes");
  each([&] { config.board = nullptr; }, -EINVAL, "board");
  npu_model_board half = *config.board;
  half.now = [](void *) -> uint64_t { return 0; };
  each([&] { config.board = &half; }, -EINVAL, "wake_at");
  each([&] { config.backend = "magic"; }, -EINVAL, "magic");
  EXPECT_EQ(npu_model_create(nullptr, nullptr, nullptr, 0), nullptr);
}

TEST_F(Facade, ThreadsLeaveAfterStopEvenIfStoppedFirst) {
  npu_model *m = npu_model_create(&config, nullptr, nullptr, 0);
  ASSERT_NE(m, nullptr);
  npu_model_stop(m);
  for (unsigned i = 0; i <= npu_model_thread_count(m); ++i)
    npu_model_thread_main(m, i);  // one beyond the last does nothing
  npu_model_destroy(m);
}

TEST_F(Facade, SensorsReadSaneAtRest) {
  npu_model *m = npu_model_create(&config, nullptr, nullptr, 0);
  ASSERT_NE(m, nullptr);
  const auto temperature = static_cast<int32_t>(npu_model_read(m, NPU_REG_TEMP_MC, 4));
  EXPECT_GT(temperature, 20000);
  EXPECT_LT(temperature, 60000);
  EXPECT_EQ(npu_model_read(m, NPU_REG_POWER_MW, 4), 4000u);
  npu_model_destroy(m);
}

}  // namespace
}  // namespace npu::test
