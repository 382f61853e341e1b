// SPDX-License-Identifier: MIT
// Commands of hours: abort, queue disable, core reset, device reset and the end of the model end each of them, on every
// back end, and the progress register moves meanwhile.
#include <algorithm>
#include <cstdlib>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint32_t kLmem = 8 << 20;
constexpr uint32_t kOut = 4 << 20;  // where results lie in local memory

/// A legal command, alone in its stream, that takes longer than any test waits.
struct Long {
  const char *name;
  unsigned engine;
  Cmd (*make)();
};

Cmd batches() {
  return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
    c.out_addr = kOut;
    c.wgt_region = NPU_REGION_LOCAL;
    c.batch = 65536;
    c.m = 1;
    c.k = 1 << 20;
    c.n = 1;
  });
}

Cmd pool(uint16_t kernel, uint8_t op) {
  return with<npu_cmd_pool>([=](npu_cmd_pool &c) {
    c.subop = op;
    c.out_addr = kOut;
    c.n = 1;
    c.ih = c.iw = c.oh = c.ow = 999;
    c.c = 1;
    c.kh = c.kw = kernel;
    c.sh = c.sw = c.dh = c.dw = 1;
    c.pad_t = c.pad_l = kernel / 2;
  });
}

Cmd conv(uint32_t ic, uint32_t oc, uint32_t groups, uint8_t region) {
  return with<npu_cmd_conv>([=](npu_cmd_conv &c) {
    c.out_addr = kOut;
    c.wgt_region = region;
    c.n = 1;
    c.ih = c.iw = c.oh = c.ow = 512;
    c.ic = ic;
    c.oc = oc;
    c.groups = groups;
    c.kh = c.kw = 512;
    c.sh = c.sw = c.dh = c.dw = 1;
    c.pad_t = c.pad_l = 256;
  });
}

Cmd copy() {
  return with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.src_region = c.dst_region = NPU_REGION_LOCAL;
    c.dst_offset = kOut;
    std::fill_n(c.dims, 6, 1u);
    c.dims[4] = 0xfff;
    c.dims[5] = 1 << 20;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

Cmd fill() {
  return with<npu_cmd_fill>([](npu_cmd_fill &c) {
    c.dst_region = 0;
    std::fill_n(c.dims, 6, 1u);
    c.dims[4] = 1 << 13;
    c.dims[5] = 1 << 17;
    c.dst_stride[4] = 1;
    c.dst_stride[5] = 16;
  });
}

const Long kCommands[] = {
    {"MatmulOfManyBatches", kTiu, batches},
    {"PoolMax", kTiu, [] { return pool(999, NPU_POOL_MAX); }},
    {"PoolAverage", kTiu, [] { return pool(512, NPU_POOL_AVG); }},
    {"ConvWithLocalWeights", kTiu, [] { return conv(1, 1, 1, NPU_REGION_LOCAL); }},
    {"ConvWithStreamedWeights", kTiu, [] { return conv(4, 2, 1, 0); }},
    {"ConvOfGroups", kTiu, [] { return conv(4, 4, 2, 0); }},
    {"ConvDepthwise", kTiu, [] { return conv(4, 4, 4, 0); }},
    {"Copy", kGdma, copy},
    {"Fill", kGdma, fill},
};

class LongCommand : public testing::TestWithParam<std::tuple<Long, const char *>> {
 protected:
  static Machine::Options options() {
    setenv("NPU_MODEL_LIBDIR", NPU_TEST_LIBDIR, 0);
    Machine::Options o;
    o.lmem = kLmem;
    o.backend = std::get<1>(GetParam());
    return o;
  }

  /// A job of core `core`, in memory of its own: two cores that write one place would be a race of theirs.
  JobSpec job(unsigned core) const {
    JobSpec j;
    j.regions = {memory[core].region()};
    for (unsigned i = 0; i < 100; ++i)
      j.stream[std::get<0>(GetParam()).engine].push_back(std::get<0>(GetParam()).make());
    return j;
  }
  /// Submits the command on a core's queue and waits until some of its steps are done.
  uint64_t start(unsigned core = 0) {
    const uint64_t before = m.r64(NPU_REG_PROGRESS), id = m.queue(core).submit(job(core));
    eventually([&] { return m.r64(NPU_REG_PROGRESS) > before + 1; }, "progress inside the command");
    return id;
  }
  void works(TestQueue &q) { EXPECT_STATUS(q.run(JobSpec{}.tiu(nop())), NPU_STATUS_OK); }

  Machine m{options()};
  const Area memory[2] = {m.allocate(16 << 20, Place::CardBlocks), m.allocate(16 << 20, Place::CardBlocks)};
};

TEST_P(LongCommand, ObeysAbort) {
  TestQueue &q = m.queue(0);
  const uint64_t id = start();
  q.abort(id);
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
  works(q);
}

TEST_P(LongCommand, ObeysDisableAndCoreReset) {
  TestQueue &q = m.queue(0);
  start();
  q.disable();
  q.enable();
  start();
  m.w32(NPU_REG_CORE_RESET, 3);
  EXPECT_STATUS(q.wait(), NPU_STATUS_CORE_RESET);
  works(q);
}

TEST_P(LongCommand, ObeysDeviceResetOnAllCores) {
  TestQueue &a = m.queue(0);
  start(0);
  start(1);
  m.reset();
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  m.bring_up();
  a.enable();
  works(a);
}

TEST_P(LongCommand, EndsWithTheModel) {
  start();
  m.stop();
  EXPECT_FALSE(m.queue(0).poll());
}

TEST_P(LongCommand, HoldsNoInvalidationBackForLongerThanAStep) {
  TestQueue &q = m.queue(0);
  const uint64_t id = start();
  m.wait_invalidated(m.invalidate(0));
  EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ENABLED | NPU_QUEUE_STATUS_RUNNING) << "the job goes on";
  q.abort(id);
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
}

INSTANTIATE_TEST_SUITE_P(All, LongCommand,
                         testing::Combine(testing::ValuesIn(kCommands), testing::ValuesIn(backends())),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace npu::test
