// SPDX-License-Identifier: MIT
// Ending jobs early: abort, queue disable, core reset, device reset, the end of the model; while running, waiting, and
// in a bus access. Others are never affected.
#include <algorithm>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

/// Waits in a bus access to `gate`, then runs many commands.
JobSpec gated(Machine &m, const Area &gate, unsigned commands = 50) {
  JobSpec j;
  j.regions = {gate.region()};
  j.gdma(with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.dst_region = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
  }));
  for (unsigned i = 0; i < commands; ++i) j.gdma(nop());
  static_cast<void>(m);
  return j;
}

/// A long job: many fills of much memory with a stride of 0 between, minutes if it ran to its end.
JobSpec endless(Machine &m) {
  const Area a = m.allocate(4 << 20);
  JobSpec j;
  j.regions = {a.region()};
  for (unsigned i = 0; i < 100; ++i)
    j.gdma(with<npu_cmd_copy>([](npu_cmd_copy &c) {
      c.src_region = NPU_REGION_LOCAL;
      std::fill_n(c.dims, 6, 1u);
      c.dims[4] = 0xf00;
      c.dims[5] = 1 << 20;
      c.dst_stride[5] = 1;  // the outer dimension repeats: the last write wins
    }));
  return j;
}

class Stop : public testing::Test {
 protected:
  Machine m;
  const Area gate = m.allocate(kPage, Place::System);

  void block() { m.board.block(m.physical(0, gate.va)); }
  /// Submits a gated job and waits until it stands in its bus access.
  uint64_t start(TestQueue &q, unsigned commands = 50) {
    block();
    const uint64_t id = q.submit(gated(m, gate, commands));
    m.board.wait_blocked();
    return id;
  }
  void works(TestQueue &q) { EXPECT_STATUS(q.run(gated(m, gate, 3)), NPU_STATUS_OK); }
};

TEST_F(Stop, AbortKillsTheNamedJobOnly) {
  TestQueue &q = m.queue(0);
  const uint64_t id = start(q);
  const uint64_t next = q.submit(gated(m, gate, 3));
  q.abort(id + 7);
  q.abort(next);  // not fetched yet: nothing happens
  q.abort(id);
  m.board.release();
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_ABORTED);
  EXPECT_EQ(c.job_id, id);
  EXPECT_LT(c.core, 2);
  EXPECT_EQ(c.command, NPU_COMMAND_NONE);
  EXPECT_LT(c.end_cycle - c.start_cycle, 50u * 32);
  const npu_cqe d = q.wait();
  EXPECT_EQ(d.job_id, next);
  EXPECT_STATUS(d, NPU_STATUS_OK);
  works(q);
}

TEST_F(Stop, AbortReachesIntoLongCommands) {
  TestQueue &q = m.queue(0);
  const uint64_t id = q.submit(endless(m));
  const uint64_t before = m.r64(NPU_REG_PROGRESS);
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > before + 3; }, "progress inside a command");
  q.abort(id);
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_ABORTED);
  works(q);
}

TEST_F(Stop, AbortOfAWaitingJob) {
  m.w32(NPU_REG_CTRL, 0);
  TestQueue &q = m.queue(0);
  const uint64_t id = q.submit(gated(m, gate)), next = q.submit(gated(m, gate, 3));
  eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  q.abort(id);
  npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_ABORTED);
  EXPECT_EQ(c.core, 0xff);
  EXPECT_EQ(c.start_cycle, c.end_cycle);
  EXPECT_FALSE(q.poll());
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  c = q.wait();
  EXPECT_EQ(c.job_id, next);
  EXPECT_STATUS(c, NPU_STATUS_OK);
}

TEST_F(Stop, AbortWhileFetching) {
  TestQueue &q = m.queue(0);
  const Prepared p = m.prepare(0, gated(m, gate, 3));
  m.board.block(q.sq_base());
  const uint64_t id = q.submit(p);
  m.board.wait_blocked();
  q.abort(id);
  m.board.release();
  const npu_cqe c = q.wait();
  // Ids that share a page with the ring may be fetched before or after: either way the job was named while it was being
  // fetched.
  EXPECT_STATUS(c, NPU_STATUS_ABORTED);
  works(q);
}

TEST_F(Stop, AbortAfterTheEndDoesNothing) {
  TestQueue &q = m.queue(0);
  for (unsigned i = 0; i < 20; ++i) {
    works(q);
    q.abort(q.last_id());
    q.abort(0);
    q.abort(~0ull);
  }
  works(q);
}

TEST_F(Stop, DisableAbortsAndCompletesNothing) {
  TestQueue &q = m.queue(0), &other = m.queue(1);
  start(q);
  q.submit(gated(m, gate, 3));
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CTRL), 0);
  // In the bus access the job cannot stop: the queue is not off yet, and everything else works.
  EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ENABLED | NPU_QUEUE_STATUS_RUNNING);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CTRL), 1);
  EXPECT_EQ(m.r32(NPU_QUEUE_REG(0, NPU_QUEUE_CTRL)), 0u) << "not before it is off";
  EXPECT_STATUS(other.run({}), NPU_STATUS_OK);
  m.board.release();
  q.wait_off();
  EXPECT_FALSE(q.poll());
  EXPECT_EQ(q.fence().seqno, 0u);
  EXPECT_EQ(m.board.interrupts(1), 1u) << "the other queue's only";
  q.enable();
  works(q);
  works(other);
}

TEST_F(Stop, DisableReachesIntoLongCommands) {
  TestQueue &q = m.queue(0);
  q.submit(endless(m));
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > 3; }, "progress inside a command");
  q.disable();
  EXPECT_LT(m.r64(NPU_REG_PROGRESS), 1000000u) << "long before its end";
  EXPECT_FALSE(q.poll());
  q.enable();
  works(q);
}

TEST_F(Stop, DisableWithAJobThatWaits) {
  m.w32(NPU_REG_CTRL, 0);
  TestQueue &q = m.queue(0);
  q.submit(gated(m, gate));
  eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CTRL), 0);
  EXPECT_EQ(q.status(), 0u) << "at once";
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  EXPECT_STATUS(m.queue(1).run({}), NPU_STATUS_OK);
  EXPECT_FALSE(q.poll());
  q.enable();
  works(q);
}

TEST_F(Stop, DisableWithACompletionHeldBack) {
  TestQueue &q = m.queue(0, {.cq_log2 = 1});
  const Prepared p = m.prepare(0, gated(m, gate, 1));
  for (unsigned i = 0; i < 3; ++i) q.submit(p);
  q.wait(false);
  eventually([&] { return m.r64(NPU_CORE_REG(0, NPU_CORE_JOBS)) + m.r64(NPU_CORE_REG(1, NPU_CORE_JOBS)) == 2; },
             "second job");
  q.disable();
  EXPECT_EQ(q.fence().seqno, 1u);
  q.enable();
  works(q);
}

TEST_F(Stop, DisableWhileFetchingAndWhileCompleting) {
  for (bool completing : {false, true}) {
    TestQueue &q = m.queue(completing ? 2 : 3, {.sq_log2 = 6, .cq_log2 = 6});
    const Prepared p = m.prepare(0, gated(m, gate, 1));
    m.board.block(completing ? q.cq_base() : q.sq_base());
    q.submit(p);
    m.board.wait_blocked();
    m.w32(NPU_QUEUE_REG(q.number(), NPU_QUEUE_CTRL), 0);
    const uint32_t running = completing ? NPU_QUEUE_STATUS_RUNNING : 0;  // until the completion is written
    EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ENABLED | running);
    m.board.release();
    q.wait_off();
    q.enable();
    works(q);
  }
}

TEST_F(Stop, CoreResetEndsItsJobOnly) {
  TestQueue &q = m.queue(0), &other = m.queue(1);
  const uint64_t id = start(q);
  const uint32_t mine = m.r32(NPU_REG_CORE_BUSY);
  m.w32(NPU_REG_CORE_RESET, ~mine);  // the other core, and cores that are not there
  EXPECT_STATUS(other.run({}), NPU_STATUS_OK);
  m.w32(NPU_REG_CORE_RESET, mine);
  m.board.release();
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_CORE_RESET);
  EXPECT_EQ(c.job_id, id);
  EXPECT_EQ(1u << c.core, mine);
  works(q);
  works(other);
}

TEST_F(Stop, CoreResetReachesIntoLongCommands) {
  TestQueue &q = m.queue(0);
  q.submit(endless(m));
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > 3; }, "progress inside a command");
  m.w32(NPU_REG_CORE_RESET, 3);
  EXPECT_STATUS(q.wait(), NPU_STATUS_CORE_RESET);
  works(q);
}

TEST_F(Stop, DeviceResetDropsEverything) {
  TestQueue &q = m.queue(0), &other = m.queue(1);
  start(q);
  const uint64_t before = m.board.interrupts(1);
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  // The write returns at once; in the bus access the core cannot stop.
  EXPECT_EQ(m.r32(NPU_REG_STATUS), 0u);
  EXPECT_EQ(m.r32(NPU_REG_CTRL), NPU_CTRL_RESET);
  EXPECT_EQ(m.r32(NPU_REG_ID), NPU_CHIP_ID);
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);  // ignored during a reset
  m.w32(NPU_REG_IRQ_TEST, 9);
  EXPECT_EQ(m.board.interrupts(9), 0u);
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  EXPECT_EQ(m.r32(NPU_REG_CTRL), NPU_CTRL_RESET);
  m.board.release();
  eventually([&] { return m.r32(NPU_REG_STATUS) & NPU_STATUS_READY; }, "reset done");
  EXPECT_EQ(m.r32(NPU_REG_CTRL), 0u);
  EXPECT_EQ(q.status(), 0u);
  EXPECT_FALSE(q.poll());
  EXPECT_EQ(q.fence().seqno, 0u);
  EXPECT_EQ(m.board.interrupts(1), before);
  m.bring_up();
  q.enable();
  other.enable();
  works(q);
  works(other);
}

TEST_F(Stop, DeviceResetReachesIntoLongCommandsOnAllCores) {
  TestQueue &a = m.queue(0), &b = m.queue(1);
  a.submit(endless(m));
  b.submit(endless(m));
  eventually([&] { return m.r32(NPU_REG_CORE_BUSY) == 3 && m.r64(NPU_REG_PROGRESS) > 10; }, "both at work");
  m.reset();
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  EXPECT_EQ(m.r64(NPU_REG_PROGRESS), 0u);
  m.bring_up();
  a.enable();
  works(a);
}

TEST_F(Stop, ResetWithInvalidationPending) {
  TestQueue &q = m.queue(0);
  start(q);
  m.invalidate(0);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), 0u);
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  m.board.release();
  eventually([&] { return m.r32(NPU_REG_STATUS) & NPU_STATUS_READY; }, "reset done");
  EXPECT_EQ(m.r32(NPU_REG_INV_ISSUED), 0u);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), 0u);
  m.bring_up();
  EXPECT_EQ(m.invalidate(0), 1u);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), 1u);
}

TEST_F(Stop, ModelEndsWithJobsRunning) {
  m.queue(0).submit(endless(m));
  m.queue(1).submit(endless(m));
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > 3; }, "at work");
  m.stop();  // returns only when all threads have left
  EXPECT_FALSE(m.queue(0).poll());
}

TEST_F(Stop, AbortedJobIsCountedAndItsProfileWritten) {
  const Area records = m.allocate(kPage);
  TestQueue &q = m.queue(0);
  JobSpec j = gated(m, gate);
  j.stream[kGdma].insert(j.stream[kGdma].begin(), nop());
  j.regions.push_back(records.region());
  j.flags |= NPU_JOB_PROFILE;
  j.profile_region = 1;
  j.profile_bytes = kPage;
  block();
  const uint64_t id = q.submit(j);
  m.board.wait_blocked();
  q.abort(id);
  m.board.release();
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
  q.wait_fence(id);
  EXPECT_EQ(q.fence().errors, 1u);
  npu_profile_header h;
  m.get(records, 0, &h, sizeof h);
  EXPECT_GE(h.records, 1u);
  EXPECT_EQ(h.job_id, id);
}

TEST_F(Stop, PausedJobsStandStillAndGoOn) {
  TestQueue &q = m.queue(0);
  q.submit(endless(m));
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > 3; }, "at work");
  npu_model_pause(m.model(), true);
  const uint64_t before = m.r64(NPU_REG_PROGRESS);
  TestQueue &other = m.queue(1);
  const uint64_t id = other.submit(gated(m, gate, 3));
  for (unsigned i = 0; i < 100000; ++i) ASSERT_EQ(m.r64(NPU_REG_PROGRESS), before);
  EXPECT_EQ(other.reg(NPU_QUEUE_SQ_HEAD), 0u);
  npu_model_pause(m.model(), false);
  EXPECT_EQ(other.wait().job_id, id);
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > before; }, "progress");
  npu_model_pause(m.model(), true);
  q.abort(1);
  m.reset();
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  npu_model_pause(m.model(), false);
  m.bring_up();
  q.enable();
  works(q);
}

TEST_F(Stop, PauseWaitsForNoJobThatHangs) {
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG, 1);
  TestQueue &q = m.queue(0);
  const uint64_t id = q.submit(gated(m, gate, 3));
  eventually([&] { return m.r32(NPU_REG_CORE_BUSY) != 0; }, "begun");
  npu_model_pause(m.model(), true);
  npu_model_pause(m.model(), false);
  q.abort(id);
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
}

TEST_F(Stop, ModelEndsWhilePaused) {
  m.queue(0).submit(endless(m));
  eventually([&] { return m.r64(NPU_REG_PROGRESS) > 3; }, "at work");
  npu_model_pause(m.model(), true);
  m.stop();
}

// ---- streams that change under the chip ----

TEST(RewrittenStream, IsCheckedAsItIsRun) {
  Machine m;
  const Area big = m.allocate(kPage);
  JobSpec j;
  j.regions = {big.region()};
  const Cmd good = with<npu_cmd_fill>([](npu_cmd_fill &c) {
    c.dst_dtype = NPU_DTYPE_S64;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 512;
    c.dst_stride[5] = 1;
    c.value = 0x1111111111111111;
  });
  // The same command, but far outside the region: must never take effect.
  const Cmd evil = with<npu_cmd_fill>([&](npu_cmd_fill &c) {
    std::memcpy(&c, good.bytes.data(), sizeof c);
    c.dst_offset = 1 << 20;
    c.dims[5] = 0xffffff;
  });
  const unsigned commands = 400;
  for (unsigned i = 0; i < commands; ++i) j.gdma(good);
  TestQueue &q = m.queue(0);
  const Prepared p = m.prepare(0, j);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (unsigned n = 0; !done; ++n)
      for (unsigned i = 0; i < commands && !done; i += 1 + n % 3) {
        const Cmd &c = n % 2 ? good : evil;
        const uint64_t at = m.physical(0, p.stream_va[kGdma] + i * NPU_CMD_BYTES);
        for (unsigned word = 0; word < NPU_CMD_BYTES; word += 8) {
          uint64_t v;
          std::memcpy(&v, &c.bytes[word], 8);
          m.store(at + word, v);
        }
      }
  });
  unsigned bounds = 0;
  for (unsigned i = 0; i < 200; ++i) {
    q.submit(p);
    const npu_cqe c = q.wait();
    if (c.status == NPU_STATUS_REGION_BOUNDS) {
      ++bounds;
    } else {
      ASSERT_STATUS(c, NPU_STATUS_OK);
    }
  }
  done = true;
  writer.join();
  EXPECT_GT(bounds, 0u);
  q.disable();
  q.enable();
  EXPECT_STATUS(q.run({}), NPU_STATUS_OK);
}

}  // namespace
}  // namespace npu::test
