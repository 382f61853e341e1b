// SPDX-License-Identifier: MIT
// A launch that cannot go on after its first jobs are submitted: when it returns, none of them is running, for their
// memory is the caller's and the next launch's again.
#include <dlfcn.h>

#include <cerrno>
#include <vector>

#include "npu_isa.h"
#include "npu_regs.h"
#include "tests/unit/runtime/fixture.h"

namespace {

struct Submitted {
  npu_context *context;
  uint64_t seqno;
};

/// Of this thread: how many submissions work before one fails (negative: all), and what they submitted.
thread_local int good_submissions = -1;
thread_local std::vector<Submitted> submitted;

}  // namespace

/// Stands before libnpu's for everything in this process. A failing one asks libnpu for nothing, which it refuses.
extern "C" int npu_submit(npu_context *context, const npu_job_desc *jobs, unsigned int count, uint64_t *seqno) {
  static const auto real = reinterpret_cast<decltype(&npu_submit)>(dlsym(RTLD_NEXT, "npu_submit"));
  if (good_submissions == 0) return real(context, jobs, 0, seqno);
  if (good_submissions > 0) --good_submissions;
  const int error = real(context, jobs, count, seqno);
  if (error == 0) submitted.push_back({context, *seqno});
  return error;
}

namespace {

using namespace test_runtime;
using test_models::file;
using test_models::flow;
using test_models::net;
using test_models::on_npu;
using test_models::plus;

class AbandonedTest : public RuntimeTest {
 protected:
  void TearDown() override {
    good_submissions = -1;
    submitted.clear();
    RuntimeTest::TearDown();
  }
  /// y = x, after work for a good fraction of a second.
  npu::bmodel::StageDesc slow() const {
    constexpr uint32_t kRounds = 200;
    drm_npu_dev_info info{};
    EXPECT_EQ(npu_device_info(device, &info), 0);
    const uint32_t half = info.lmem_bytes / 2;
    test_models::Stage s;
    s.input("x", {8}).output("y", {8});
    s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, 8);
    for (uint32_t i = 0; i < kRounds; ++i) s.apply(NPU_ELTWISE_ADD, half, 1, half, half / sizeof(float), 1);
    s.copy(NPU_REGION_LOCAL, 0, s.out(0), 0, 8, kRounds);
    return s.finish();
  }
};

TEST_F(AbandonedTest, NoJobRunsOnWhenALaterOneCannotBeSubmitted) {
  const std::vector<uint64_t> row{8};
  ASSERT_TRUE(load(
      file({net("two", {flow({test_models::tensor("x", row)}, {test_models::tensor("y", row)},
                             {on_npu(0, slow(), {"x"}, {"a"}, {1}), on_npu(1, plus(row, 1), {"a"}, {"y"}, {})})})})))
      << bmrt_last_error();
  const Floats values{1, 2, 3, 4, 5, 6, 7, 8};
  const DeviceFloats x(handle, values), y(handle, Floats(8));
  bm_tensor_t in = tensor(x.mem(), {8}), out = tensor(y.mem(), {8});
  submitted.clear();
  good_submissions = 1;
  EXPECT_FALSE(launch("two", in, out));
  good_submissions = -1;
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'two': sub-network 1: ")) << bmrt_last_error();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(npu_wait(submitted[0].context, submitted[0].seqno, 0, nullptr), 0) << "the first job runs on";
  EXPECT_EQ(y.read(), Floats(8));
  ASSERT_TRUE(launch("two", in, out)) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), plus_each(values, 1));
}

}  // namespace
