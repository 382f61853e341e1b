// SPDX-License-Identifier: MIT
// Faults on demand: each does what docs/reference/hardware.md section 9 says, as often as wanted, and no more.
#include <algorithm>
#include <chrono>
#include <string>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

using namespace std::chrono_literals;

class Faults : public testing::Test {
 protected:
  Machine m;
  const Area data = m.allocate(kPage);

  void set(unsigned fault, uint64_t value) { ASSERT_EQ(npu_model_set_fault(m.model(), fault, value), 0); }
  uint64_t get(unsigned fault) { return npu_model_fault(m.model(), fault); }

  JobSpec job(unsigned nops = 3) {
    JobSpec j;
    j.regions = {data.region()};
    for (unsigned i = 0; i < nops; ++i) j.gdma(nop());
    j.gdma(with<npu_cmd_copy>([](npu_cmd_copy &c) {
      c.dst_region = NPU_REGION_LOCAL;
      std::fill_n(c.dims, 6, 1u);
    }));
    return j;
  }
  void works(TestQueue &q) { EXPECT_STATUS(q.run(job()), NPU_STATUS_OK); }
  /// Submits a job that stands still, and waits until it does: from its last command on nothing else can happen. The
  /// device's progress tells, because a core shows the command numbers of its last job until it prepares the next.
  uint64_t stand_still(TestQueue &q, unsigned fault, uint64_t after = 2) {
    set(NPU_MODEL_FAULT_HANG_AFTER, after);
    set(fault, 1);
    const uint64_t there = m.r64(NPU_REG_PROGRESS) + after;
    const uint64_t id = q.submit(job());
    eventually([&] { return get(fault) == 0 && m.r64(NPU_REG_PROGRESS) >= there; }, "the job to stand still");
    return id;
  }
  void no_end(TestQueue &q) {
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(q.poll());
    EXPECT_NE(m.r32(NPU_REG_CORE_BUSY), 0u);
  }
};

TEST_F(Faults, HaveNamesAndTexts) {
  for (unsigned f = 0; f < NPU_MODEL_FAULT_COUNT; ++f) {
    EXPECT_FALSE(std::string(npu_model_fault_name(f)).empty());
    EXPECT_FALSE(std::string(npu_model_fault_text(f)).empty());
    EXPECT_EQ(get(f), 0u) << npu_model_fault_name(f);
  }
  EXPECT_EQ(npu_model_fault_name(NPU_MODEL_FAULT_COUNT), nullptr);
  EXPECT_EQ(npu_model_set_fault(m.model(), NPU_MODEL_FAULT_COUNT, 0), -EINVAL);
  EXPECT_EQ(npu_model_set_fault(m.model(), NPU_MODEL_FAULT_DEAD, 2), -EINVAL);
  EXPECT_EQ(npu_model_set_fault(m.model(), NPU_MODEL_FAULT_TEMPERATURE, 300000), -EINVAL);
}

TEST_F(Faults, AHangMakesNoProgressAndObeysAnAbort) {
  TestQueue &q = m.queue(0);
  const uint64_t id = stand_still(q, NPU_MODEL_FAULT_HANG);
  no_end(q);
  const unsigned core = m.r32(NPU_REG_CORE_BUSY) == 1 ? 0 : 1;
  const uint64_t at = NPU_CORE_BASE + core * NPU_CORE_STRIDE;
  EXPECT_EQ(m.r32(at + NPU_CORE_GDMA_COMMAND), 2u);
  const uint64_t progress = m.r64(at + NPU_CORE_PROGRESS);
  EXPECT_EQ(progress, m.r64(NPU_REG_PROGRESS));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(m.r64(at + NPU_CORE_PROGRESS), progress);
  q.abort(id + 1);
  no_end(q);
  q.abort(id);
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
  works(q);
}

TEST_F(Faults, OthersGoOnBesideAHang) {
  TestQueue &q = m.queue(0), &other = m.queue(1);
  const uint64_t id = stand_still(q, NPU_MODEL_FAULT_HANG);
  for (int i = 0; i < 20; ++i) works(other);
  m.wait_invalidated(m.invalidate(0));
  q.abort(id);
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
}

TEST_F(Faults, AStuckCoreIgnoresAbortAndDisable) {
  TestQueue &q = m.queue(0);
  const uint64_t id = stand_still(q, NPU_MODEL_FAULT_STUCK_ABORT);
  q.abort(id);
  no_end(q);
  m.w32(NPU_REG_CORE_RESET, m.r32(NPU_REG_CORE_BUSY));
  EXPECT_STATUS(q.wait(), NPU_STATUS_CORE_RESET);
  works(q);

  stand_still(q, NPU_MODEL_FAULT_STUCK_ABORT);
  m.w32(NPU_QUEUE_BASE + NPU_QUEUE_CTRL, 0);
  no_end(q);
  EXPECT_TRUE(q.status() & NPU_QUEUE_STATUS_RUNNING);
  m.w32(NPU_REG_CORE_RESET, m.r32(NPU_REG_CORE_BUSY));
  q.wait_off();
  EXPECT_FALSE(q.poll());
}

TEST_F(Faults, AStuckCoreMayNeedADeviceReset) {
  TestQueue &q = m.queue(0);
  const uint64_t id = stand_still(q, NPU_MODEL_FAULT_STUCK_CORE);
  q.abort(id);
  m.w32(NPU_REG_CORE_RESET, 3);
  no_end(q);
  m.reset();
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  EXPECT_FALSE(q.poll());
}

TEST_F(Faults, OrNotEvenObeyThat) {
  TestQueue &q = m.queue(0);
  stand_still(q, NPU_MODEL_FAULT_STUCK_DEVICE);
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  npu_model_reset(m.model());
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(m.r32(NPU_REG_CTRL) & NPU_CTRL_RESET);
  EXPECT_FALSE(m.r32(NPU_REG_STATUS) & NPU_STATUS_READY);
  set(NPU_MODEL_FAULT_STUCK_DEVICE, 0);
  eventually([&] { return m.r32(NPU_REG_STATUS) & NPU_STATUS_READY; }, "the reset");
}

TEST_F(Faults, TheModelStopsWithAStuckCore) {
  stand_still(m.queue(0), NPU_MODEL_FAULT_STUCK_DEVICE);
  m.stop();
}

TEST_F(Faults, ClearingAHangLetsTheJobGoOn) {
  TestQueue &q = m.queue(0);
  stand_still(q, NPU_MODEL_FAULT_STUCK_CORE);
  set(NPU_MODEL_FAULT_HANG, 0);  // another one
  no_end(q);
  set(NPU_MODEL_FAULT_STUCK_CORE, 0);
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
}

TEST_F(Faults, InterruptsAreLostAsOftenAsWanted) {
  set(NPU_MODEL_FAULT_LOST_INTERRUPTS, 2);
  for (int i = 0; i < 3; ++i) m.w32(NPU_REG_IRQ_TEST, 5);
  EXPECT_EQ(m.board.interrupts(5), 1u);
  set(NPU_MODEL_FAULT_LOST_INTERRUPTS, 1);
  TestQueue &q = m.queue(0);
  works(q);
  EXPECT_EQ(m.board.interrupts(1), 0u);
  works(q);
  eventually([&] { return m.board.interrupts(1) == 1; }, "the interrupt");
}

TEST_F(Faults, CompletionsAreCorrupt) {
  TestQueue &q = m.queue(0);
  set(NPU_MODEL_FAULT_CORRUPT_ID, 1);
  uint64_t id = q.submit(job());
  EXPECT_NE(q.wait().job_id, id);
  q.wait_fence(id);

  set(NPU_MODEL_FAULT_CORRUPT_STATUS, 1);
  id = q.submit(job());
  const npu_cqe c = q.wait();
  EXPECT_EQ(c.job_id, id);
  EXPECT_GT(c.status, NPU_STATUS_INTERNAL);
  EXPECT_GT(c.core, NPU_MAX_CORES);
  EXPECT_LT(c.end_cycle, c.start_cycle);
  works(q);

  set(NPU_MODEL_FAULT_CORRUPT_PHASE, 1);
  const uint32_t tail = q.reg(NPU_QUEUE_SQ_HEAD);  // one completion an entry; CQ_TAIL follows what was written
  q.submit(job());
  eventually([&] { return q.reg(NPU_QUEUE_CQ_TAIL) == tail + 1; }, "the completion to be written");
  EXPECT_FALSE(q.poll());
  q.disable();
  EXPECT_EQ(q.reg(NPU_QUEUE_CQ_TAIL), tail + 1);
  EXPECT_EQ(q.reg(NPU_QUEUE_SQ_HEAD), tail + 1);
}

TEST_F(Faults, AnUncorrectableErrorEndsOneJob) {
  TestQueue &q = m.queue(0);
  m.w32(NPU_REG_EVENT_ENABLE, NPU_EVENT_STATUS_ECC);
  set(NPU_MODEL_FAULT_ECC_UNCORRECTED, 1);
  q.submit(job(4));
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_ECC);
  EXPECT_EQ(c.engine, NPU_ENGINE_GDMA);
  EXPECT_EQ(c.command, 4u);
  EXPECT_EQ(c.region, 0u);
  EXPECT_EQ(c.fault_addr, data.va);
  EXPECT_EQ(m.r32(NPU_REG_ECC_UNCORRECTED), 1u);
  eventually([&] { return m.board.interrupts(0) == 1; }, "the event");
  EXPECT_EQ(m.r32(NPU_REG_EVENT_STATUS), NPU_EVENT_STATUS_ECC);
  works(q);
  EXPECT_EQ(m.r32(NPU_REG_ECC_CORRECTED), 0u);
}

TEST_F(Faults, CorrectedErrorsAreCounted) {
  m.w32(NPU_REG_EVENT_ENABLE, NPU_EVENT_STATUS_ECC);
  set(NPU_MODEL_FAULT_ECC_CORRECTED, 3);
  set(NPU_MODEL_FAULT_ECC_CORRECTED, 4);
  EXPECT_EQ(m.r32(NPU_REG_ECC_CORRECTED), 7u);
  EXPECT_EQ(m.board.interrupts(0), 1u);
  EXPECT_EQ(get(NPU_MODEL_FAULT_ECC_CORRECTED), 0u);
  m.reset();
  EXPECT_EQ(m.r32(NPU_REG_ECC_CORRECTED), 0u);
}

TEST_F(Faults, AHotChipIsThrottled) {
  const uint32_t clock = m.r32(NPU_REG_CLOCK_KHZ);
  m.w32(NPU_REG_EVENT_ENABLE, NPU_EVENT_STATUS_THERMAL);
  const auto heat = [&](uint32_t mc) {
    m.w32(NPU_REG_EVENT_STATUS, NPU_EVENT_STATUS_THERMAL);
    set(NPU_MODEL_FAULT_TEMPERATURE, mc);
    return m.r32(NPU_REG_CUR_CLOCK_KHZ);
  };
  EXPECT_EQ(heat(NPU_TEMP_LIMIT_MC - 1), clock);
  EXPECT_EQ(m.board.interrupts(0), 0u);
  EXPECT_EQ(heat(NPU_TEMP_LIMIT_MC), clock / 2);
  EXPECT_EQ(m.r32(NPU_REG_TEMP_MC), unsigned{NPU_TEMP_LIMIT_MC});
  EXPECT_EQ(m.board.interrupts(0), 1u);
  EXPECT_EQ(heat(NPU_TEMP_RESUME_MC), clock / 2);
  EXPECT_EQ(m.board.interrupts(0), 1u);
  EXPECT_EQ(heat(0), clock);
  EXPECT_EQ(m.board.interrupts(0), 2u);
  works(m.queue(0));
}

TEST_F(Faults, AFatalErrorNeedsAReset) {
  m.w32(NPU_REG_EVENT_ENABLE, NPU_EVENT_STATUS_FATAL);
  TestQueue &q = m.queue(0);
  set(NPU_MODEL_FAULT_FATAL, 1);
  EXPECT_EQ(m.r32(NPU_REG_STATUS), NPU_STATUS_READY | NPU_STATUS_FATAL);
  EXPECT_EQ(m.board.interrupts(0), 1u);
  q.submit(job());
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(q.poll());
  m.reset();
  EXPECT_EQ(m.r32(NPU_REG_STATUS), unsigned{NPU_STATUS_READY});
}

TEST_F(Faults, ADeadCardReadsOnesAndDoesNothing) {
  TestQueue &q = m.queue(0);
  works(q);
  const uint64_t transfers = m.board.transfers();
  set(NPU_MODEL_FAULT_DEAD, 1);
  EXPECT_EQ(m.r32(NPU_REG_ID), UINT32_MAX);
  EXPECT_EQ(m.r64(NPU_REG_PROGRESS), UINT64_MAX);
  m.w32(NPU_REG_IRQ_TEST, 3);
  q.submit(job());
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(m.board.interrupts(3), 0u);
  EXPECT_EQ(m.board.transfers(), transfers);
  set(NPU_MODEL_FAULT_DEAD, 0);
  EXPECT_EQ(m.r32(NPU_REG_ID), unsigned{NPU_CHIP_ID});
  q.ring_doorbell();
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
}

TEST_F(Faults, ACardThatDiesUnderAJobStopsItsQueue) {
  TestQueue &q = m.queue(0);
  const uint64_t id = stand_still(q, NPU_MODEL_FAULT_HANG);
  set(NPU_MODEL_FAULT_DEAD, 1);
  set(NPU_MODEL_FAULT_HANG, 0);
  eventually(
      [&] {
        for (const std::string &line : m.board.take_trace())
          if (line.find("queue_error") != std::string::npos) return true;
        return false;
      },
      "the queue to stop");
  set(NPU_MODEL_FAULT_DEAD, 0);
  EXPECT_TRUE(q.status() & NPU_QUEUE_STATUS_ERROR);
  EXPECT_FALSE(q.poll());
  EXPECT_NE(id, 0u);
}

}  // namespace
}  // namespace npu::test
