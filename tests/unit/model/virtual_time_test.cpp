// SPDX-License-Identifier: MIT
// Virtual time, docs/reference/hardware.md section 8.4: everything has its instant on the board's clock. Expected
// instants are written out from the tables of section 8.1 (a NOP is 32 cycles; a cycle of 1 GHz is a nanosecond).
#include <algorithm>
#include <numeric>

#include "npu_hw_params.h"
#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint64_t kNop = 32;

JobSpec nops(unsigned count, unsigned engine = kTiu) {
  JobSpec j;
  j.stream[engine].assign(count, nop());
  return j;
}

/// All bytes of an area, one byte a time from itself to itself.
npu_cmd_copy copy(uint32_t bytes, uint32_t from, uint32_t to) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.src_region = from;
    c.dst_region = to;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = bytes;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

/// 2^36 multiply-accumulates in 2^30 cycles.
Cmd long_product() {
  return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
    c.out_addr = 4 << 20;
    c.wgt_region = NPU_REGION_LOCAL;
    c.batch = 65536;
    c.m = 1;
    c.k = 1 << 20;
    c.n = 1;
  });
}

class VirtualTime : public ::testing::Test {
 protected:
  VirtualTime() : m(options()) { m.bring_up(); }

  static Machine::Options options() {
    Machine::Options o;
    o.clock = true;
    o.lmem = 8 << 20;
    return o;
  }
  uint64_t now() const { return m.board.now(); }
  void go_to(uint64_t ns) { m.board.set_clock(m.model(), ns); }
  uint64_t core(unsigned number, uint32_t reg) { return m.r64(NPU_CORE_REG(number, reg)); }
  uint32_t retired(uint32_t reg) { return m.r32(NPU_CORE_REG(0, reg)); }

  Machine m;
};

TEST_F(VirtualTime, NeedsNoThreads) { EXPECT_EQ(npu_model_thread_count(m.model()), 0u); }

TEST_F(VirtualTime, AJobCompletesAtItsDoorbellPlusItsCycles) {
  TestQueue &q = m.queue(0);
  const uint64_t rung = now();
  const uint64_t id = q.submit(nops(3));
  EXPECT_FALSE(q.poll());
  go_to(rung + 3 * kNop - 1);
  EXPECT_FALSE(q.poll());
  EXPECT_EQ(m.board.interrupts(1), 0u);
  EXPECT_EQ(q.fence().seqno, 0u);
  EXPECT_TRUE(q.status() & NPU_QUEUE_STATUS_RUNNING);
  go_to(rung + 3 * kNop);
  const auto c = q.poll();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->job_id, id);
  EXPECT_EQ(c->end_cycle - c->start_cycle, 3 * kNop);
  EXPECT_EQ(m.board.interrupts(1), 1u);
  EXPECT_EQ(q.fence().seqno, id);
}

TEST_F(VirtualTime, AnEmptyJobCompletesInItsInstant) {
  TestQueue &q = m.queue(0);
  const uint64_t rung = now();
  q.submit(nops(0));
  EXPECT_EQ(m.board.wanted(), rung);
  EXPECT_TRUE(m.board.next(m.model()));
  EXPECT_TRUE(q.poll());
  EXPECT_EQ(now(), rung);
}

TEST_F(VirtualTime, JobsOfAQueueFollowOneAnother) {
  TestQueue &q = m.queue(0);
  const uint64_t rung = now();
  for (unsigned i = 1; i <= 3; ++i) q.submit(nops(i));
  uint64_t at = rung;
  for (unsigned i = 1; i <= 3; ++i) {
    at += i * kNop;
    go_to(at - 1);
    EXPECT_FALSE(q.poll());
    go_to(at);
    EXPECT_TRUE(q.poll());
  }
}

TEST_F(VirtualTime, AThirdJobTakesTheCoreThatIsFreeFirst) {
  const uint64_t rung = now();
  m.queue(0).submit(nops(10));
  m.queue(1).submit(nops(4));
  m.queue(2).submit(nops(2));
  EXPECT_TRUE(m.board.next(m.model()));
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 3u);
  go_to(rung + 6 * kNop);
  EXPECT_TRUE(m.queue(1).poll());
  const auto c = m.queue(2).poll();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->core, 1u);
  EXPECT_FALSE(m.queue(0).poll());
  go_to(rung + 10 * kNop);
  EXPECT_TRUE(m.queue(0).poll());
}

TEST_F(VirtualTime, AGangThatMayReserveNothingAsksForNoTime) {
  Machine::Options o = options();
  o.cores = 4;
  Machine four(o);
  const auto gang = [](uint32_t mask) {
    JobSpec j = nops(1);
    j.core_mask = mask;
    j.at(1, kTiu).push_back(nop());
    return j;
  };
  JobSpec holds = nops(100);
  holds.core_mask = 0b0010;
  const uint64_t rung = four.board.now();
  four.queue(0).submit(holds);
  npu_model_advance(four.model());
  four.queue(1).submit(gang(0b0011));  // reserves core 0 and waits for core 1
  npu_model_advance(four.model());
  four.queue(2).submit(gang(0b0110));  // core 2 is free, and reserving it might lock both out
  npu_model_advance(four.model());
  EXPECT_EQ(four.board.wanted(), rung + kNop);  // the end of a command
  EXPECT_EQ(four.r32(NPU_REG_CORE_BUSY), 0b0010u);
  four.board.set_clock(four.model(), rung + 102 * kNop);
  for (unsigned q = 0; q < 3; ++q) EXPECT_TRUE(four.queue(q).poll()) << q;
}

TEST_F(VirtualTime, ABoardThatIsLateChangesNothing) {
  const uint64_t rung = now();
  m.queue(0).submit(nops(10));
  m.queue(0).submit(nops(10));
  m.board.oversleep(rung + 15 * kNop + 7);
  npu_model_advance(m.model());
  EXPECT_TRUE(m.queue(0).poll());
  EXPECT_FALSE(m.queue(0).poll());
  EXPECT_EQ(core(0, NPU_CORE_BUSY_CYCLES), 15 * kNop + 7);
  go_to(rung + 20 * kNop - 1);
  EXPECT_FALSE(m.queue(0).poll());
  go_to(rung + 20 * kNop);
  EXPECT_TRUE(m.queue(0).poll());
}

TEST_F(VirtualTime, ProfilesHaveTheInstantsOfTheirJobs) {
  EXPECT_TRUE(m.r32(NPU_REG_FEATURES) & NPU_FEATURE_VIRTUAL_TIME);
  EXPECT_EQ(m.r64(NPU_REG_TIME_NS), now());
  const Area a = m.allocate(kPage);
  JobSpec j = nops(100);
  j.regions = {a.region()};
  j.flags |= NPU_JOB_PROFILE;
  j.profile_bytes = kPage;
  const uint64_t rung = now(), begun = rung + 50 * kNop;
  m.queue(0).submit(nops(50));
  m.queue(0).submit(j);
  go_to(begun + 200);
  m.w32(NPU_REG_CLOCK_SELECT, 1);  // the remaining 3000 cycles at half the clock
  const uint64_t end = begun + 200 + 2 * 3000;
  m.board.oversleep(end + 7);
  npu_model_advance(m.model());
  npu_profile_header h;
  m.get(a, 0, &h, sizeof h);
  EXPECT_EQ(h.cycles, 100 * kNop);
  EXPECT_EQ(h.begin_ns, begun);
  EXPECT_EQ(h.end_ns, end);
}

TEST_F(VirtualTime, ACommandTakesEffectInTheCycleInWhichItBegins) {
  const Area from = m.allocate(kPage), to = m.allocate(kPage);
  std::vector<uint8_t> data(kPage);
  std::iota(data.begin(), data.end(), uint8_t{1});
  m.put(from, 0, data.data(), kPage);
  JobSpec j;
  j.regions = {from.region(), to.region()};
  j.gdma(nop()).gdma(copy(kPage, 0, 1));
  const uint64_t rung = now();
  m.queue(0).submit(j);
  go_to(rung + kNop - 1);
  EXPECT_EQ(m.content(to), std::vector<uint8_t>(kPage));
  EXPECT_EQ(retired(NPU_CORE_GDMA_COMMAND), 0u);
  go_to(rung + kNop);
  EXPECT_EQ(m.content(to), data);
  EXPECT_EQ(retired(NPU_CORE_GDMA_COMMAND), 1u);
  // fixed part 32 and latency 200, then both sides share 64 bytes a cycle
  const uint64_t end = rung + kNop + 32 + 200 + 2 * kPage / 64;
  go_to(end - 1);
  EXPECT_FALSE(m.queue(0).poll());
  go_to(end);
  EXPECT_TRUE(m.queue(0).poll());
}

TEST_F(VirtualTime, CountersIncludeTheJobThatRuns) {
  const uint64_t rung = now();
  m.queue(0).submit(nops(100));
  go_to(rung + 1000);
  EXPECT_EQ(core(0, NPU_CORE_BUSY_CYCLES), 1000u);
  EXPECT_EQ(core(0, NPU_CORE_TIU_CYCLES), 1000u);
  EXPECT_EQ(core(0, NPU_CORE_GDMA_CYCLES), 0u);
  EXPECT_EQ(retired(NPU_CORE_TIU_COMMAND), 1000 / kNop);
  EXPECT_EQ(core(0, NPU_CORE_PROGRESS), 1000 / kNop);
  EXPECT_EQ(core(0, NPU_CORE_JOBS), 0u);
  go_to(rung + 100 * kNop);
  EXPECT_EQ(core(0, NPU_CORE_BUSY_CYCLES), 100 * kNop);
  EXPECT_EQ(core(0, NPU_CORE_TIU_CYCLES), 100 * kNop);
  EXPECT_EQ(core(0, NPU_CORE_JOBS), 1u);
}

TEST_F(VirtualTime, TimeAtWorkIsThatOfTheClock) {
  const auto busy = [&](unsigned core) { return m.r64(NPU_BUSY_REG(core, NPU_BUSY_NS)); };
  const uint64_t rung = now(), before = m.r64(NPU_REG_TIME_NS);
  m.queue(0).submit(nops(100));
  go_to(rung + 200);
  EXPECT_EQ(busy(0), m.r64(NPU_REG_TIME_NS) - before);  // of the job that runs
  m.w32(NPU_REG_CLOCK_SELECT, 1);
  go_to(rung + 200 + 2 * (100 * kNop - 200));
  const uint64_t all = busy(0);
  EXPECT_EQ(all, m.r64(NPU_REG_TIME_NS) - before);
  EXPECT_EQ(core(0, NPU_CORE_JOBS), 1u);
  go_to(now() + 5000);
  EXPECT_EQ(busy(0), all);  // and nothing more
  EXPECT_EQ(busy(1), 0u);
}

TEST_F(VirtualTime, ASlowerClockMakesCyclesLonger) {
  const uint64_t rung = now();
  m.queue(0).submit(nops(100));
  go_to(rung + 200);
  m.w32(NPU_REG_CLOCK_SELECT, 1);  // the remaining 3000 cycles at half the clock
  go_to(rung + 200 + 2 * 1000);
  EXPECT_EQ(core(0, NPU_CORE_BUSY_CYCLES), 1200u);
  m.w32(NPU_REG_CLOCK_SELECT, 2);  // and 2000 at a quarter
  const uint64_t end = rung + 200 + 2 * 1000 + 4 * 2000;
  go_to(end - 1);
  EXPECT_FALSE(m.queue(0).poll());
  go_to(end);
  const auto c = m.queue(0).poll();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->end_cycle - c->start_cycle, 100 * kNop);
}

TEST_F(VirtualTime, AnInstantIsTheFirstNanosecondThatHasTheCycle) {
  Machine::Options o = options();
  o.edit = [](npu_model_config &c) { c.clock_khz = 300000; };
  Machine slow(o);
  slow.bring_up();
  const uint64_t rung = slow.board.now(), made = 1000;  // the test's boards begin at 1000 ns, and the chip with them
  slow.queue(0).submit(nops(1));
  const uint64_t began = (rung - made) * 300000 / 1000000;
  const uint64_t end = made + ((began + kNop) * 1000000 + 299999) / 300000;
  slow.board.set_clock(slow.model(), end - 1);
  EXPECT_FALSE(slow.queue(0).poll());
  slow.board.set_clock(slow.model(), end);
  EXPECT_TRUE(slow.queue(0).poll());
}

TEST_F(VirtualTime, AnAbortEndsTheJobAtOnce) {
  const uint64_t rung = now();
  const uint64_t id = m.queue(0).submit(nops(1000));
  go_to(rung + 777);
  m.queue(0).abort(id);
  ASSERT_TRUE(m.board.next(m.model()));
  EXPECT_EQ(now(), rung + 777);
  const auto c = m.queue(0).poll();
  ASSERT_TRUE(c);
  EXPECT_STATUS(*c, NPU_STATUS_ABORTED);
  EXPECT_EQ(c->end_cycle - c->start_cycle, 777u);
}

TEST_F(VirtualTime, DisableAndResetsAreCompleteAtTheNextRead) {
  TestQueue &q = m.queue(0);
  q.submit(nops(1000));
  go_to(now() + 100);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CTRL), 0);
  EXPECT_EQ(q.status(), 0u);
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  q.enable();
  q.submit(nops(1000));
  go_to(now() + 100);
  m.w32(NPU_REG_CORE_RESET, 1);
  EXPECT_STATUS(q.wait(), NPU_STATUS_CORE_RESET);
  q.submit(nops(1000));
  go_to(now() + 100);
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  EXPECT_EQ(m.r32(NPU_REG_STATUS), NPU_STATUS_READY);
  EXPECT_EQ(m.r32(NPU_REG_CTRL), 0u);
  EXPECT_EQ(m.board.wanted(), UINT64_MAX);
}

TEST_F(VirtualTime, AnInvalidationIsCompleteAtTheWrite) {
  const uint32_t before = m.r32(NPU_REG_INV_DONE);
  m.queue(0).submit(nops(1000));
  go_to(now() + 100);
  m.w32(NPU_REG_INV_ASID, 0);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), before + 1);
}

TEST_F(VirtualTime, AJobThatStandsStillGoesOnFromThere) {
  TestQueue &q = m.queue(0);
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG_AFTER, 2);
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG, 1);
  const uint64_t rung = now();
  q.submit(nops(3));
  go_to(rung + 5000);
  EXPECT_EQ(m.board.wanted(), UINT64_MAX);  // nothing happens however long it takes
  EXPECT_EQ(core(0, NPU_CORE_BUSY_CYCLES), 2 * kNop);
  EXPECT_EQ(core(0, NPU_CORE_PROGRESS), 2u);
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG, 0);
  go_to(rung + 5000 + kNop - 1);
  EXPECT_FALSE(q.poll());
  go_to(rung + 5000 + kNop);
  const auto c = q.poll();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->end_cycle - c->start_cycle, 3 * kNop);
}

TEST_F(VirtualTime, WhoStandsStillObeysWhatItObeysInHostTime) {
  TestQueue &q = m.queue(0);
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_STUCK_CORE, 1);
  const uint64_t id = q.submit(nops(3));
  go_to(now() + 100);
  q.abort(id);
  m.w32(NPU_REG_CORE_RESET, 1);
  go_to(now() + 100);
  EXPECT_FALSE(q.poll());
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 1u);
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  EXPECT_EQ(m.r32(NPU_REG_STATUS), NPU_STATUS_READY);
}

TEST_F(VirtualTime, ALongCommandTakesStepsAndCanBeStopped) {
  JobSpec j;
  j.tiu(long_product());
  TestQueue &q = m.queue(0);
  const uint64_t rung = now();
  const uint64_t id = q.submit(j);
  go_to(rung + 10 * 65536 + 5);
  EXPECT_EQ(core(0, NPU_CORE_PROGRESS), 10u);
  EXPECT_EQ(core(0, NPU_CORE_TIU_CYCLES), 10 * 65536u + 5);
  q.abort(id);
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_ABORTED);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 10 * 65536u + 5);
}

TEST_F(VirtualTime, AFaultInALaterStepHasTheCyclesOfTheCommandsBegin) {
  constexpr uint64_t kBytes = 16 << 20;  // four steps
  const Area from = m.allocate(kBytes), to = m.allocate(kBytes);
  m.unmap(to.asid, to.va + 9 * (1 << 20));
  m.wait_invalidated(m.invalidate(to.asid));
  JobSpec j;
  j.regions = {from.region(), to.region()};
  j.gdma(nop()).gdma(copy(kBytes, 0, 1));
  const uint64_t rung = now();
  m.queue(0).submit(j);
  go_to(rung + kNop + 2 * 32768 - 1);
  EXPECT_FALSE(m.queue(0).poll());
  go_to(rung + kNop + 2 * 32768);
  const auto c = m.queue(0).poll();
  ASSERT_TRUE(c);
  EXPECT_STATUS(*c, NPU_STATUS_PAGE_FAULT);
  EXPECT_EQ(c->fault_addr, to.va + 9 * (1 << 20));
  EXPECT_EQ(c->command, 1u);
  EXPECT_EQ(c->end_cycle - c->start_cycle, kNop);
}

TEST_F(VirtualTime, ASlowCommandTakesItsStepsAllTheTime) {
  constexpr uint64_t kBytes = 8 << 20;  // every second one, 256 KiB of these in a step
  const Area from = m.allocate(kBytes), to = m.allocate(kBytes / 2);
  m.unmap(to.asid, to.va + kBytes / 2 - (1 << 20));
  m.wait_invalidated(m.invalidate(to.asid));
  npu_cmd_copy slow = copy(kBytes / 2, 0, 1);
  slow.src_stride[5] = 2;
  JobSpec j;
  j.regions = {from.region(), to.region()};
  j.gdma(nop()).gdma(slow);
  // Rows of one byte, 64 from memory each, to a dense one; 64 bytes a cycle.
  constexpr uint64_t kAlone = kNop + 200 + (kBytes / 2 * 64 + kBytes / 2) / 64;
  static_assert(kAlone / 64 > 32768);
  const uint64_t rung = now();
  m.queue(0).submit(j);
  go_to(rung + kNop + 12 * (kAlone / 64) - 1);
  EXPECT_FALSE(m.queue(0).poll());
  go_to(rung + kNop + 12 * (kAlone / 64));
  const auto c = m.queue(0).poll();
  ASSERT_TRUE(c);
  EXPECT_STATUS(*c, NPU_STATUS_PAGE_FAULT);
}

TEST_F(VirtualTime, TheModelEndsInTheMiddleOfALongCommand) {
  JobSpec j;
  j.tiu(long_product());
  m.queue(0).submit(j);
  go_to(now() + 100);
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 1u);
}

TEST_F(VirtualTime, SensorsFollowTheBoardsClock) {
  Machine::Options o = options();
  o.edit = [](npu_model_config &c) { c.clock_khz = 1000; };
  Machine slow(o);
  slow.bring_up();
  EXPECT_EQ(slow.r32(NPU_REG_POWER_MW), uint32_t{NPU_IDLE_MW});
  const uint64_t rung = slow.board.now();
  slow.queue(0).submit(nops(20000));  // 0.64 s
  slow.board.set_clock(slow.model(), rung + 249 * 1000 * 1000);
  EXPECT_EQ(slow.r32(NPU_REG_POWER_MW), uint32_t{NPU_IDLE_MW});
  slow.board.set_clock(slow.model(), rung + 300 * 1000 * 1000);
  EXPECT_EQ(slow.r32(NPU_REG_POWER_MW), uint32_t{NPU_IDLE_MW} + NPU_CORE_MW);
}

/// What a chip tells of a program: the trace, with cycles, and the registers at some instants.
std::vector<std::string> story(uint64_t seed) {
  Machine::Options o;
  o.clock = true;
  o.edit = [=](npu_model_config &c) { c.seed = seed; };
  Machine m(o);
  m.bring_up();
  std::vector<std::string> told;
  for (unsigned i = 0; i < 40; ++i) {
    m.queue(i % 4, {0, i % 4}).submit(nops(i * 7 % 23, i % 2));
    m.board.set_clock(m.model(), m.board.now() + i * 37 % 500);
    told.push_back(std::to_string(m.r64(NPU_REG_PROGRESS)) + " " + std::to_string(m.r32(NPU_REG_CORE_BUSY)));
  }
  m.board.set_clock(m.model(), m.board.now() + 1000000);
  const auto trace = m.board.take_trace();
  told.insert(told.end(), trace.begin(), trace.end());
  return told;
}

TEST(VirtualTimes, TwoRunsAreTheSame) {
  const auto first = story(0), other = story(7);
  EXPECT_GT(first.size(), 100u);
  EXPECT_EQ(first, story(0));
  EXPECT_EQ(other, story(7));
  EXPECT_NE(first, other);
  EXPECT_NE(other, story(8));
}

/// What the document leaves open, section 8.5: delays of less than 2048 cycles, in the order of section 4.3.
class Seeds : public ::testing::TestWithParam<uint64_t> {
 protected:
  Seeds() : m(options()) { m.bring_up(); }

  static Machine::Options options() {
    Machine::Options o;
    o.clock = true;
    o.edit = [](npu_model_config &c) { c.seed = GetParam(); };
    return o;
  }

  Machine m;
};

TEST_P(Seeds, DelayAJobByLessThanTheyMay) {
  TestQueue &q = m.queue(0);
  const uint64_t rung = m.board.now();
  const uint64_t id = q.submit(nops(3));
  uint64_t entry = 0, fence = 0, raised = 0;
  while (!raised && m.board.next(m.model())) {
    if (!entry && q.poll(false)) entry = m.board.now();
    if (!fence && q.fence().seqno == id) fence = m.board.now();
    if (m.board.interrupts(1)) raised = m.board.now();
  }
  const uint64_t end = rung + 3 * kNop;
  EXPECT_GE(entry, end);
  EXPECT_LT(entry, end + 2 * 2048);
  EXPECT_GE(fence, entry);
  EXPECT_LT(fence, entry + 2048);
  EXPECT_GE(raised, fence);
  EXPECT_LT(raised, fence + 2048);
}

TEST_P(Seeds, KeepTheOldTranslationUntilTheInvalidationIsDone) {
  const Area from = m.allocate(kPage), to = m.allocate(kPage);
  JobSpec j;
  j.regions = {from.region(), to.region()};
  j.gdma(copy(kPage, 0, 1));
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK);
  m.unmap(from.asid, from.va);
  const uint32_t ticket = m.invalidate(from.asid);
  EXPECT_EQ(m.r32(NPU_REG_INV_ISSUED), ticket);
  const uint64_t asked = m.board.now();
  m.wait_invalidated(ticket);
  EXPECT_LT(m.board.now(), asked + 2048);
  EXPECT_STATUS(m.run(j), NPU_STATUS_PAGE_FAULT);
}

TEST_P(Seeds, DisableBetweenThePartsOfACompletion) {
  TestQueue &q = m.queue(0);
  q.submit(nops(1));
  while (!q.poll(false) && m.board.next(m.model())) {
  }
  q.disable();
  EXPECT_EQ(q.status(), 0u);
  q.enable();
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
}

INSTANTIATE_TEST_SUITE_P(Many, Seeds, ::testing::Range<uint64_t>(1, 30));

}  // namespace
}  // namespace npu::test
