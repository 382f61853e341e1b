// SPDX-License-Identifier: MIT
// Queue pairs: configuration, order, wraps, full completion rings, fences, vectors, malformed entries and descriptors.
#include <functional>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

JobSpec nops(unsigned n) {
  JobSpec j;
  for (unsigned i = 0; i < n; ++i) j.tiu(nop());
  return j;
}

TEST(Queue, EmptyJobCompletesAndSaysWhere) {
  Machine m;
  TestQueue &q = m.queue(0);
  const npu_cqe c = q.run({});
  EXPECT_STATUS(c, NPU_STATUS_OK);
  EXPECT_EQ(c.start_cycle, c.end_cycle);
  EXPECT_LT(c.core, 2);
  EXPECT_EQ(c.engine, NPU_ENGINE_NONE);
  EXPECT_EQ(c.command, NPU_COMMAND_NONE);
  EXPECT_EQ(c.region, NPU_REGION_NONE);
  EXPECT_EQ(c.sq_head, 1u);
  EXPECT_EQ(c.offset, 0u);
  EXPECT_EQ(c.fault_addr, 0u);
  EXPECT_EQ(c.phase, NPU_CQE_PHASE | 0x100u << c.core);
}

TEST(Queue, CyclesCountOnFromTheCoresCounter) {
  Machine m({.cores = 1});
  TestQueue &q = m.queue(0);
  const uint64_t fixed = m.r32(NPU_REG_TIU_FIXED);
  const npu_cqe a = q.run(nops(3)), b = q.run(nops(2));
  EXPECT_EQ(a.start_cycle, 0u);
  EXPECT_EQ(a.end_cycle, 3 * fixed);
  EXPECT_EQ(b.start_cycle, 3 * fixed);
  EXPECT_EQ(b.end_cycle, 5 * fixed);
  EXPECT_EQ(m.r64(NPU_CORE_REG(0, NPU_CORE_BUSY_CYCLES)), 5 * fixed);
  EXPECT_EQ(m.r64(NPU_CORE_REG(0, NPU_CORE_TIU_CYCLES)), 5 * fixed);
  EXPECT_EQ(m.r64(NPU_CORE_REG(0, NPU_CORE_GDMA_CYCLES)), 0u);
  EXPECT_EQ(m.r64(NPU_CORE_REG(0, NPU_CORE_JOBS)), 2u);
  EXPECT_EQ(m.r32(NPU_CORE_REG(0, NPU_CORE_TIU_COMMAND)), 2u);
}

TEST(Queue, CompletesInOrderAcrossManyWraps) {
  Machine m;
  TestQueue &q = m.queue(3, {.sq_log2 = 3, .cq_log2 = 2});
  const Prepared p = m.prepare(0, nops(1));
  uint64_t submitted = 0, completed = 0;
  for (unsigned round = 0; round < 100; ++round) {
    // A ring of 8 has room for 7; the completion ring, at 3, is the narrower one and holds the chip back.
    while (submitted - completed < 7) submitted = q.submit(p);
    const npu_cqe c = q.wait();
    EXPECT_STATUS(c, NPU_STATUS_OK);
    ASSERT_EQ(c.job_id, ++completed);
    // Of the entries up to sq_head at least this job's own may be reused.
    EXPECT_GE((c.sq_head - completed) & 7, 0u);
  }
  while (completed < submitted) ASSERT_EQ(q.wait().job_id, ++completed);
}

TEST(Queue, FullCompletionRingHoldsBackAndStartsNothing) {
  Machine m;
  TestQueue &q = m.queue(0, {.sq_log2 = 4, .cq_log2 = 1});  // one completion fits
  const Prepared p = m.prepare(0, nops(1));
  for (unsigned i = 0; i < 5; ++i) q.submit(p);
  ASSERT_EQ(q.wait(false).job_id, 1u);
  const auto jobs = [&] { return m.r64(NPU_CORE_REG(0, NPU_CORE_JOBS)) + m.r64(NPU_CORE_REG(1, NPU_CORE_JOBS)); };
  eventually([&] { return jobs() == 2; }, "second job ran");
  // Its completion waits for room: other queues go on, this one starts no third job.
  EXPECT_STATUS(m.queue(1).run(nops(1)), NPU_STATUS_OK);
  EXPECT_EQ(jobs(), 3u);
  EXPECT_EQ(q.reg(NPU_QUEUE_CQ_TAIL), 1u);
  EXPECT_FALSE(q.poll(false));
  for (uint64_t id = 2; id <= 5; ++id) {
    q.consume();
    ASSERT_EQ(q.wait(false).job_id, id);
  }
}

TEST(Queue, WritesEntryThenPhaseThenFenceThenRaisesVector) {
  Machine m;
  TestQueue &q = m.queue(2, {.vector = 5});
  JobSpec bad = nops(1);
  bad.tiu(Cmd{});  // opcode 0
  EXPECT_STATUS(q.run(bad), NPU_STATUS_BAD_OPCODE);
  eventually([&] { return m.board.interrupts(5) == 1; }, "interrupt");
  m.board.record_writes(true);
  npu_fence at_interrupt{};
  m.board.on_interrupt([&](unsigned) { at_interrupt = q.fence(); });
  const uint64_t id = q.submit(nops(2));
  q.wait();
  eventually([&] { return m.board.interrupts(5) == 2; }, "interrupt");
  const auto writes = m.board.take_writes();
  const uint64_t entry = q.cq_base() + sizeof(npu_cqe);
  ASSERT_GE(writes.size(), 4u);
  EXPECT_EQ(writes[0], (std::pair<uint64_t, size_t>{entry, 60}));
  EXPECT_EQ(writes[1], (std::pair<uint64_t, size_t>{entry + 60, 4}));
  EXPECT_EQ(writes[2].first, q.fence_base() + 8);
  EXPECT_EQ(writes.back(), (std::pair<uint64_t, size_t>{q.fence_base(), 8}));
  m.stop();
  EXPECT_EQ(at_interrupt.seqno, id);
  EXPECT_EQ(at_interrupt.cycles, 2 * 32u);
  EXPECT_EQ(at_interrupt.errors, 1u);
  EXPECT_EQ(at_interrupt.status, NPU_STATUS_OK);
}

TEST(Queue, NoInterruptUnlessTheJobAsksForIt) {
  Machine m;
  TestQueue &q = m.queue(0, {.vector = 3});
  JobSpec quiet = nops(1);
  quiet.flags = 0;
  EXPECT_STATUS(q.run(quiet), NPU_STATUS_OK);
  EXPECT_STATUS(q.run(quiet), NPU_STATUS_OK);
  EXPECT_EQ(m.board.interrupts(3), 0u);
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
  eventually([&] { return m.board.interrupts(3) == 1; }, "interrupt");
  EXPECT_EQ(m.board.interrupts(0), 0u);
}

TEST(Queue, NoFenceWithoutAddress) {
  Machine m;
  TestQueue &q = m.queue(0);
  q.disable();
  m.w64(NPU_QUEUE_REG(0, NPU_QUEUE_FENCE_ADDR), 0);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CTRL), 1);
  m.board.record_writes(true);
  q.submit(m.prepare(0, nops(1)), false);
  m.w32(NPU_DOORBELL_REG(0, NPU_DOORBELL_SQ_TAIL), 0);
  m.w32(NPU_DOORBELL_REG(0, NPU_DOORBELL_SQ_TAIL), 1);
  eventually([&] { return q.reg(NPU_QUEUE_CQ_TAIL) == 1; }, "completion");
  EXPECT_EQ(m.board.take_writes().size(), 2u);
}

// ---- configuration ----

struct BadConfig {
  const char *name;
  uint32_t reg;
  uint64_t value;
};

class QueueConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(QueueConfig, IllegalValueIsAnErrorUntilDisabled) {
  Machine m;
  TestQueue &q = m.queue(1);
  q.disable();
  const BadConfig &bad = GetParam();
  const bool wide = bad.reg <= NPU_QUEUE_FENCE_ADDR;
  const uint64_t good = wide ? m.r64(NPU_QUEUE_REG(1, bad.reg)) : m.r32(NPU_QUEUE_REG(1, bad.reg));
  const auto set = [&](uint64_t v) {
    if (wide)
      m.w64(NPU_QUEUE_REG(1, bad.reg), v);
    else
      m.w32(NPU_QUEUE_REG(1, bad.reg), static_cast<uint32_t>(v));
  };
  m.w32(NPU_REG_EVENT_STATUS, ~0u);
  const unsigned before = m.board.interrupts(0);
  set(bad.value);
  m.w32(NPU_QUEUE_REG(1, NPU_QUEUE_CTRL), 1);
  EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ERROR);
  EXPECT_EQ(m.r32(NPU_REG_EVENT_STATUS), NPU_EVENT_STATUS_QUEUE_ERROR);
  EXPECT_EQ(m.board.interrupts(0), before + 1);
  m.w32(NPU_QUEUE_REG(1, NPU_QUEUE_CTRL), 0);
  EXPECT_EQ(q.status(), 0u);
  set(good);
  q.enable();
  EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ENABLED);
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
}

INSTANTIATE_TEST_SUITE_P(
    Each, QueueConfig,
    testing::Values(BadConfig{"sq_base", NPU_QUEUE_SQ_BASE, TestBoard::kBase + 32},
                    BadConfig{"cq_base", NPU_QUEUE_CQ_BASE, 8}, BadConfig{"sq_wraps", NPU_QUEUE_SQ_BASE, ~63ull},
                    BadConfig{"cq_wraps", NPU_QUEUE_CQ_BASE, ~63ull}, BadConfig{"fence", NPU_QUEUE_FENCE_ADDR, 16},
                    BadConfig{"sq_log2_0", NPU_QUEUE_SQ_LOG2, 0}, BadConfig{"sq_log2_17", NPU_QUEUE_SQ_LOG2, 17},
                    BadConfig{"cq_log2_0", NPU_QUEUE_CQ_LOG2, 0},
                    BadConfig{"cq_log2_high", NPU_QUEUE_CQ_LOG2, 0xffffffff}, BadConfig{"asid", NPU_QUEUE_ASID, 8},
                    BadConfig{"priority", NPU_QUEUE_PRIORITY, 4}, BadConfig{"no_core", NPU_QUEUE_CORE_MASK, 0},
                    BadConfig{"foreign_core", NPU_QUEUE_CORE_MASK, 5}, BadConfig{"vector", NPU_QUEUE_VECTOR, 16}),
    [](const auto &info) { return info.param.name; });

TEST(Queue, ConfigurationIsLockedWhileOn) {
  Machine m;
  TestQueue &q = m.queue(0);
  const uint64_t base = m.r64(NPU_QUEUE_REG(0, NPU_QUEUE_SQ_BASE));
  m.w64(NPU_QUEUE_REG(0, NPU_QUEUE_SQ_BASE), 64);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_ASID), 3);
  EXPECT_EQ(m.r64(NPU_QUEUE_REG(0, NPU_QUEUE_SQ_BASE)), base);
  EXPECT_EQ(m.r32(NPU_QUEUE_REG(0, NPU_QUEUE_ASID)), 0u);
  q.disable();
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_ASID), 3);
  EXPECT_EQ(m.r32(NPU_QUEUE_REG(0, NPU_QUEUE_ASID)), 3u);
}

TEST(Queue, DoorbellOutsideTheRingStopsTheQueueOnly) {
  for (uint32_t reg : {NPU_DOORBELL_SQ_TAIL, NPU_DOORBELL_CQ_HEAD}) {
    Machine m;
    TestQueue &q = m.queue(0);
    EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
    m.w32(NPU_REG_EVENT_STATUS, ~0u);
    m.w32(NPU_DOORBELL_REG(0, reg), 16);
    EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ENABLED | NPU_QUEUE_STATUS_ERROR);
    EXPECT_EQ(m.r32(NPU_REG_EVENT_STATUS), NPU_EVENT_STATUS_QUEUE_ERROR);
    q.submit(nops(1));
    EXPECT_STATUS(m.queue(1).run(nops(1)), NPU_STATUS_OK);
    EXPECT_FALSE(q.poll());
    q.disable();
    q.enable();
    const uint64_t id = q.submit(nops(1));
    EXPECT_EQ(q.wait().job_id, id);
  }
}

TEST(Queue, UnreadableRingStopsTheQueue) {
  Machine m;
  TestQueue &q = m.queue(0);
  m.board.poison(q.sq_base());
  q.submit(nops(1));
  eventually([&] { return q.status() & NPU_QUEUE_STATUS_ERROR; }, "error");
  EXPECT_EQ(q.reg(NPU_QUEUE_SQ_HEAD), 0u);
  m.board.cure(q.sq_base());
  q.disable();
  q.enable();
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
}

TEST(Queue, UnwritableRingStopsTheQueue) {
  Machine m;
  TestQueue &q = m.queue(0, {.sq_log2 = 4, .cq_log2 = 7});  // the completion ring has pages of its own
  m.board.poison(q.cq_base());
  q.submit(nops(1));
  eventually([&] { return q.status() & NPU_QUEUE_STATUS_ERROR; }, "error");
  EXPECT_EQ(q.reg(NPU_QUEUE_CQ_TAIL), 0u);
  EXPECT_STATUS(m.queue(1).run(nops(1)), NPU_STATUS_OK);
  q.disable();
}

// ---- entries and descriptors ----

/// Submits an entry as edited and expects BAD_DESCRIPTOR at `byte` of the 64 bytes of the entry.
void expect_bad_entry(uint64_t byte, const std::function<void(npu_sqe &)> &edit) {
  Machine m;
  TestQueue &q = m.queue(0, {.vector = 4});
  const Prepared p = m.prepare(0, nops(1));
  npu_sqe e{};
  e.job_id = 77;
  e.desc_addr = p.desc;
  e.desc_bytes = p.bytes;
  edit(e);
  q.submit_entry(e);
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_BAD_DESCRIPTOR);
  EXPECT_EQ(c.job_id, e.job_id);
  EXPECT_EQ(c.offset, byte);
  EXPECT_EQ(c.bytes, 64u);
  EXPECT_EQ(c.core, 0xff);
  EXPECT_EQ(c.phase & NPU_CQE_CORES, 0u);
  EXPECT_EQ(c.engine, NPU_ENGINE_NONE);
  eventually([&] { return m.board.interrupts(4) == 1; }, "interrupt");
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
  EXPECT_EQ(q.fence().errors, 1u);
}

TEST(Entry, EachMalformedFieldIsNamed) {
  expect_bad_entry(0, [](npu_sqe &e) { e.job_id = 0; });
  expect_bad_entry(8, [](npu_sqe &e) { e.desc_addr += 32; });
  expect_bad_entry(16, [](npu_sqe &e) { e.desc_bytes = 0; });
  expect_bad_entry(16, [](npu_sqe &e) { e.desc_bytes = 95; });
  expect_bad_entry(16, [](npu_sqe &e) { e.desc_bytes = 0xffffffff; });
  expect_bad_entry(16, [](npu_sqe &e) { e.desc_bytes += 32; });  // not what its counts say
  expect_bad_entry(20, [](npu_sqe &e) { e.flags = 1; });
  expect_bad_entry(24, [](npu_sqe &e) { e.reserved[0] = 1ull << 63; });
  expect_bad_entry(56, [](npu_sqe &e) { e.reserved[4] = 1; });
}

/// Edits byte-wise what a driver wrote, two regions and one TIU stream, and expects BAD_DESCRIPTOR there.
template <class T>
void expect_bad_descriptor(size_t field, T value, size_t blamed) {
  Machine m;
  JobSpec j = nops(1);
  j.regions = {m.allocate(4096).region()};
  j.edit = [&](std::vector<uint8_t> &d) { std::memcpy(&d[field], &value, sizeof value); };
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BAD_DESCRIPTOR) << field;
  EXPECT_EQ(c.offset, blamed);
  EXPECT_EQ(c.bytes, 64u + 32 + 2 * 32);
  EXPECT_STATUS(m.run(nops(1)), NPU_STATUS_OK);
}

TEST(Descriptor, EachMalformedHeaderFieldIsNamed) {
  expect_bad_descriptor<uint32_t>(0, 0, 0);
  expect_bad_descriptor<uint16_t>(4, 2, 4);
  expect_bad_descriptor<uint16_t>(6, 4, 6);
  expect_bad_descriptor<uint32_t>(8, 0, 8);
  expect_bad_descriptor<uint32_t>(8, 3, 8);
  expect_bad_descriptor<uint32_t>(12, 65, 12);
  expect_bad_descriptor<uint32_t>(16, 4, 16);
  expect_bad_descriptor<uint32_t>(20, 1, 20);
  expect_bad_descriptor<uint64_t>(32, 8, 32);
  expect_bad_descriptor<uint32_t>(40, 32, 40);
  expect_bad_descriptor<uint32_t>(44, 1, 44);
  expect_bad_descriptor<uint64_t>(48, 1, 48);
  expect_bad_descriptor<uint64_t>(56, 1, 56);
}

TEST(Descriptor, EachMalformedStreamOrRegionFieldIsNamed) {
  const size_t s = 64, r = 96;
  expect_bad_descriptor<uint64_t>(s + 8, 128, s + 8);          // a GDMA offset without a stream
  expect_bad_descriptor<uint8_t>(s + 25, 1, s + 25);           // likewise a region
  expect_bad_descriptor<uint32_t>(s + 16, 0x1000001, s + 16);  // too many commands
  expect_bad_descriptor<uint8_t>(s + 26, 1, s + 26);
  expect_bad_descriptor<uint8_t>(s + 31, 1, s + 31);
  expect_bad_descriptor<uint32_t>(r + 16, 4, r + 16);
  expect_bad_descriptor<uint32_t>(r + 20, 1, r + 20);
  expect_bad_descriptor<uint64_t>(r + 24, 1, r + 24);
  expect_bad_descriptor<uint32_t>(r + 32 + 16, 8, r + 32 + 16);
}

TEST(Descriptor, ProfileBufferIsCheckedBeforeTheJob) {
  Machine m;
  const Area a = m.allocate(4096);
  JobSpec j = nops(1);
  j.regions = {a.region(NPU_ACCESS_READ), a.region()};
  j.flags |= NPU_JOB_PROFILE;
  j.profile_region = 1;
  j.profile_bytes = 4096;
  j.profile_offset = 4;
  EXPECT_EQ(m.run(j).offset, 32u);
  j.profile_offset = 0;
  j.profile_bytes = sizeof(npu_profile_header) - 1;
  EXPECT_EQ(m.run(j).offset, 40u);
  j.profile_bytes = 4097;
  npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_REGION_BOUNDS);
  EXPECT_EQ(c.region, 1u);
  EXPECT_EQ(c.bytes, 4097u);
  EXPECT_EQ(c.engine, NPU_ENGINE_NONE);
  EXPECT_EQ(c.phase & ~NPU_CQE_CORES, NPU_CQE_PHASE | NPU_CQE_ACCESS_WRITE);
  EXPECT_EQ(c.start_cycle, c.end_cycle);
  j.profile_bytes = sizeof(npu_profile_header);
  j.profile_region = 0;
  EXPECT_STATUS(m.run(j), NPU_STATUS_REGION_ACCESS);
  j.profile_region = 9;
  EXPECT_STATUS(m.run(j), NPU_STATUS_REGION_ACCESS);
}

TEST(Descriptor, UnreadableOneIsABusErrorOfThatJobAlone) {
  Machine m;
  TestQueue &q = m.queue(0);
  std::vector<uint8_t> page(4096);
  const uint64_t at = m.bus_copy(page.data(), page.size());
  m.board.poison(at);
  npu_sqe e{};
  e.job_id = 5;
  e.desc_addr = at;
  e.desc_bytes = 96;
  q.submit_entry(e);
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.fault_addr, at);
  EXPECT_EQ(c.core, 0xff);
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
}

TEST(Stream, RegionAlignmentAndBoundsAreChecked) {
  Machine m;
  const auto run = [&](uint64_t offset, uint32_t count, uint8_t region) {
    JobSpec j = nops(4);
    j.regions = {m.allocate(4096).region(NPU_ACCESS_WRITE)};
    j.edit = [=](std::vector<uint8_t> &d) {
      npu_stream s{};
      s.tiu_offset = offset;
      s.tiu_count = count;
      s.tiu_region = region;
      std::memcpy(&d[64], &s, sizeof s);
    };
    return m.run(j);
  };
  EXPECT_STATUS(run(0, 4, 1), NPU_STATUS_OK);
  EXPECT_STATUS(run(128, 3, 1), NPU_STATUS_OK);
  npu_cqe c = run(64, 1, 1);
  EXPECT_STATUS(c, NPU_STATUS_UNALIGNED);
  EXPECT_EQ(c.offset, 64u);
  c = run(128, 4, 1);
  EXPECT_STATUS(c, NPU_STATUS_REGION_BOUNDS);
  EXPECT_EQ(c.offset, 128u);
  EXPECT_EQ(c.bytes, 512u);
  EXPECT_EQ(c.region, 1u);
  EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(c.command, NPU_COMMAND_NONE);
  EXPECT_STATUS(run(~127ull, 1, 1), NPU_STATUS_REGION_BOUNDS);
  EXPECT_STATUS(run(0, 1, 0), NPU_STATUS_REGION_ACCESS);
  EXPECT_STATUS(run(0, 1, 2), NPU_STATUS_REGION_ACCESS);
  EXPECT_STATUS(run(0, 1, 0xff), NPU_STATUS_REGION_ACCESS);
}

TEST(Queue, TellsItsNews) {
  Machine m;
  m.queue(0).run(nops(1));
  m.stop();
  std::string all;
  for (const std::string &line : m.board.take_trace()) all += line + "\n";
  for (const char *kind :
       {"queue_enable: queue 0", "job_start: queue 0 job 1", "job_done: queue 0 job 1 status 0 cycles 32"})
    EXPECT_NE(all.find(kind), std::string::npos) << all;
}

}  // namespace
}  // namespace npu::test
