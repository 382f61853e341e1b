// SPDX-License-Identifier: MIT
// The race detector: what it reports, and that order by waits, semaphores and distinct bytes is none.
#include <algorithm>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

class Race : public testing::Test {
 protected:
  Race() { npu_model_check_races(m_.model(), true); }

  /// What the chip says of a race: the one line of its trace.
  std::string said() {
    std::string text;
    for (const std::string &line : m_.board.take_trace())
      if (line.starts_with("race")) text += line;
    return text;
  }
  npu_cqe run(const JobSpec &job) {
    JobSpec j = job;
    j.regions.insert(j.regions.begin(), memory_.region());
    return m_.run(j);
  }
  void expect_race(const JobSpec &job) {
    EXPECT_STATUS(run(job), NPU_STATUS_INTERNAL);
    EXPECT_NE(said(), "");
  }
  void expect_fine(const JobSpec &job) {
    EXPECT_STATUS(run(job), NPU_STATUS_OK);
    EXPECT_EQ(said(), "");
  }

  Machine m_;
  const Area memory_ = m_.allocate(64 << 10);
};

/// `rows` rows of `bytes`, a row every `src` and `dst` bytes. Region 0 is memory.
Cmd rows(uint8_t from, uint64_t from_at, int32_t src, uint8_t to, uint64_t to_at, int32_t dst, uint32_t rows,
         uint32_t bytes, uint32_t wait = 0) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.wait = wait;
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.src_region = from;
    c.src_offset = from_at;
    c.dst_region = to;
    c.dst_offset = to_at;
    std::fill_n(c.dims, 6, 1u);
    c.dims[4] = rows;
    c.dims[5] = bytes;
    c.src_stride[4] = src;
    c.dst_stride[4] = dst;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

constexpr uint8_t kLocal = NPU_REGION_LOCAL;

Cmd load(uint64_t to, uint32_t bytes, uint32_t wait = 0) { return rows(0, 0, 0, kLocal, to, 0, 1, bytes, wait); }
Cmd store(uint64_t from, uint32_t bytes, uint64_t to = 0, uint32_t wait = 0) {
  return rows(kLocal, from, 0, 0, to, 0, 1, bytes, wait);
}
Cmd relu(uint32_t in, uint32_t out, uint32_t count, uint32_t wait = 0) {
  return with<npu_cmd_unary>([&](npu_cmd_unary &c) {
    c.wait = wait;
    c.subop = NPU_ACT_RELU;
    c.in_addr = in;
    c.out_addr = out;
    c.count = count;
  });
}
template <class C>
Cmd semaphore(uint32_t wait = 0) {
  return with<C>([&](C &c) {
    c.value = 1;
    c.wait = wait;
  });
}

TEST_F(Race, AReadBeforeItsDataIsReported) {
  JobSpec j;
  j.gdma(load(256, 64)).tiu(relu(256, 1024, 16));
  const npu_cqe c = run(j);
  ASSERT_STATUS(c, NPU_STATUS_INTERNAL);
  EXPECT_EQ(c.engine, kGdma);  // of two that begin at one moment the TIU's does so first
  EXPECT_EQ(c.command, 0u);
  EXPECT_EQ(c.region, uint32_t{NPU_REGION_LOCAL});
  EXPECT_EQ(c.offset, 256u);
  EXPECT_EQ(c.bytes, 64u);
  EXPECT_TRUE(c.phase & NPU_CQE_ACCESS_WRITE);
  EXPECT_NE(
      said().find("GDMA command 0 of the job's core 0 writes 64 bytes at 0x100 of local memory; nothing orders it "
                  "behind TIU command 0 of the job's core 0 reads 64 bytes at 0x100 of local memory"),
      std::string::npos);
}

TEST_F(Race, IsReportedHoweverLongAgoTheOtherCommandEnded) {
  JobSpec j;
  j.tiu(relu(256, 1024, 16));
  for (int i = 0; i < 100; ++i) j.gdma(nop());
  j.gdma(store(1024, 64));
  const npu_cqe c = run(j);
  EXPECT_STATUS(c, NPU_STATUS_INTERNAL);
  EXPECT_EQ(c.command, 100u);
}

TEST_F(Race, WaitsOrderAndSoDoesWhatTheyOrderThemselves) {
  JobSpec j;
  j.gdma(load(256, 64)).gdma(nop()).gdma(store(1024, 64, 0, 1));  // waits for the only TIU command
  j.tiu(relu(256, 1024, 16, 2));                                  // for the NOP behind the load
  expect_fine(j);
  j.stream[kGdma][2] = store(1024, 64);
  expect_race(j);
}

TEST_F(Race, ReadsAndNeighboursAreNone) {
  JobSpec j;
  j.gdma(store(256, 64)).gdma(store(256, 64, 512)).tiu(relu(256, 1024, 16)).gdma(load(320, 64)).gdma(load(1088, 64));
  expect_fine(j);
}

TEST_F(Race, RowsBetweenRowsAreNone) {
  // Two cores write columns 0 to 15 and 16 to 31 of one matrix.
  JobSpec j;
  j.at(0, kGdma).push_back(rows(kLocal, 0, 16, 0, 0, 32, 64, 16));
  j.at(1, kGdma).push_back(rows(kLocal, 0, 16, 0, 16, 32, 64, 16));
  expect_fine(j);
  j.at(1, kGdma)[0] = rows(kLocal, 0, 16, 0, 15, 32, 64, 16);
  expect_race(j);
}

TEST_F(Race, NegativeStridesReachDownwards) {
  // Sixteen rows of 16 bytes, the first at 1024 and the last 15 * 64 bytes below.
  JobSpec j;
  j.gdma(rows(0, 0, 16, kLocal, 1024, -64, 16, 16)).tiu(relu(64, 4096, 4));
  expect_race(j);
  j.stream[kTiu][0] = relu(80, 4096, 4);  // behind the lowest row
  expect_fine(j);
}

TEST_F(Race, SemaphoresOrderCores) {
  JobSpec j;
  j.at(0, kGdma).push_back(store(0, 64));
  j.at(0, kGdma).push_back(semaphore<npu_cmd_sem_signal>());
  j.at(1, kGdma).push_back(semaphore<npu_cmd_sem_wait>());
  j.at(1, kGdma).push_back(load(0, 64));
  expect_fine(j);
  std::swap(j.at(0, kGdma)[0], j.at(0, kGdma)[1]);  // signals before it writes
  expect_race(j);
}

TEST_F(Race, LocalMemoriesAreDistinct) {
  JobSpec j;
  j.at(0, kGdma).push_back(load(0, 64));
  j.at(1, kTiu).push_back(relu(0, 64, 16));
  expect_fine(j);
}

TEST_F(Race, RegionsOfOneAddressAreOne) {
  JobSpec j;
  j.regions = {memory_.region()};  // number 1, the same bytes as number 0
  j.at(0, kGdma).push_back(store(0, 64, 128));
  j.at(1, kGdma).push_back(rows(kLocal, 0, 0, 1, 160, 0, 1, 64));
  expect_race(j);
}

TEST_F(Race, NobodyLooksUnlessAsked) {
  npu_model_check_races(m_.model(), false);
  JobSpec j;
  j.gdma(load(256, 64)).tiu(relu(256, 1024, 16));
  expect_fine(j);
}

}  // namespace
}  // namespace npu::test
