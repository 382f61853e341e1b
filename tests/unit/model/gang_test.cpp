// SPDX-License-Identifier: MIT
// Jobs of several cores: semaphores, modelled time, deadlocks, faults, and how the arbiter collects their cores.
#include <algorithm>
#include <random>

#include "npu_cost.hpp"
#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

Cmd post(uint32_t sem, uint32_t value = 1, uint32_t wait = 0) {
  return with<npu_cmd_sem_signal>([&](npu_cmd_sem_signal &c) {
    c.sem = sem;
    c.value = value;
    c.wait = wait;
  });
}

Cmd await(uint32_t sem, uint32_t value = 1, uint32_t wait = 0) {
  return with<npu_cmd_sem_wait>([&](npu_cmd_sem_wait &c) {
    c.sem = sem;
    c.value = value;
    c.wait = wait;
  });
}

Cmd move(uint8_t from, uint8_t to, uint32_t bytes, uint64_t from_offset = 0, uint64_t to_offset = 0) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.src_region = from;
    c.src_offset = from_offset;
    c.dst_region = to;
    c.dst_offset = to_offset;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = bytes;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

Cmd sigmoid(uint32_t count) {
  return with<npu_cmd_unary>([&](npu_cmd_unary &c) {
    c.subop = NPU_ACT_SIGMOID;
    c.count = count;
  });
}

JobSpec nops(unsigned n, uint32_t mask = 0) {
  JobSpec j;
  j.core_mask = mask;
  for (unsigned i = 0; i < n; ++i) j.tiu(nop());
  return j;
}

/// A job that does little on each of so many cores.
JobSpec gang(unsigned cores, uint32_t mask = 0) {
  JobSpec j = nops(1, mask);
  for (unsigned c = 1; c < cores; ++c) j.at(c, kTiu).push_back(nop());
  return j;
}

hw::Timeline predict(JobSpec j) {
  std::vector<hw::TimedCore> cores(j.cores());
  for (unsigned n = 0; n < 2 * j.cores(); ++n)
    for (const Cmd &c : j.at(n / 2, n % 2)) {
      const auto head = hw::decode<npu_cmd_sem_wait>(c.bytes.data());
      uint8_t bytes[NPU_CMD_BYTES];
      std::copy(c.bytes.begin(), c.bytes.end(), bytes);
      cores[n / 2].stream[n % 2].push_back(
          {hw::command_cost(bytes, n % 2 == kGdma, {}), head.wait, head.opcode, head.sem, head.value});
    }
  return hw::simulate(cores, {});
}

TEST(Gang, IsAFeature) {
  Machine m;
  EXPECT_TRUE(m.r32(NPU_REG_FEATURES) & NPU_FEATURE_GANG);
  EXPECT_EQ(m.r32(NPU_REG_SEMAPHORES), NPU_MAX_SEMAPHORES);
}

TEST(Gang, CoresHandDataToAndFro) {
  Machine m;
  constexpr uint32_t kRounds = 8, kBytes = 1024;
  const Area a = m.allocate(kRounds * kBytes), b = m.allocate(kRounds * kBytes), c = m.allocate(kRounds * kBytes);
  std::vector<uint8_t> data(a.bytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 256);
  m.put(a, 0, data.data(), data.size());
  // Core 0 takes a to b, core 1 b to c; each slice only when the other core has finished the one before.
  JobSpec j;
  j.regions = {a.region(), b.region(), c.region()};
  for (uint32_t i = 0; i < kRounds; ++i) {
    const uint64_t at = i * kBytes;
    if (i) j.at(0, kGdma).push_back(await(1, i));
    j.at(0, kGdma).push_back(move(0, NPU_REGION_LOCAL, kBytes, at));
    j.at(0, kGdma).push_back(move(NPU_REGION_LOCAL, 1, kBytes, 0, at));
    j.at(0, kGdma).push_back(post(0));
    j.at(1, kGdma).push_back(await(0, i + 1));
    j.at(1, kGdma).push_back(move(1, NPU_REGION_LOCAL, kBytes, at));
    j.at(1, kGdma).push_back(move(NPU_REGION_LOCAL, 2, kBytes, 0, at));
    j.at(1, kGdma).push_back(post(1));
  }
  const npu_cqe done = m.run(j);
  ASSERT_STATUS(done, NPU_STATUS_OK);
  EXPECT_EQ(done.core, 0);
  EXPECT_EQ(m.content(c), data);
  // Nothing overlaps: 16 signals and 15 + 1 waits at 32, 32 copies at 232 and a flow of 1024 bytes at 64 a cycle.
  EXPECT_EQ(done.end_cycle - done.start_cycle, kRounds * 4 * 32 + kRounds * 4 * (232 + 16) - 32u);
}

TEST(Gang, EnginesOfOneCoreHaveSemaphoresToo) {
  Machine m;
  JobSpec j;
  j.gdma(nop()).gdma(post(31, 5)).tiu(await(31, 5)).tiu(nop());
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_OK);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 4 * 32u);
}

TEST(Gang, SemaphoresSaturateAndBeginAtZero) {
  Machine m;
  JobSpec full;
  full.gdma(post(0, ~0u)).gdma(post(0, ~0u)).tiu(await(0, ~0u));
  EXPECT_STATUS(m.run(full), NPU_STATUS_OK);
  JobSpec next;
  next.tiu(await(0, 1));
  EXPECT_STATUS(m.run(next), NPU_STATUS_DEADLOCK) << "nothing is left of the job before";
}

TEST(Gang, FieldsAreChecked) {
  Machine m;
  const auto expect = [&](const Cmd &cmd, uint16_t status, uint64_t offset) {
    for (unsigned e : {kTiu, kGdma}) {
      JobSpec j;
      j.stream[e] = {cmd};
      const npu_cqe c = m.run(j);
      EXPECT_STATUS(c, status);
      EXPECT_EQ(c.offset, offset);
      EXPECT_EQ(c.command, 0u);
    }
  };
  expect(post(NPU_MAX_SEMAPHORES), NPU_STATUS_BAD_FIELD, 16);
  expect(await(~0u), NPU_STATUS_BAD_FIELD, 16);
  expect(post(0, 0), NPU_STATUS_BAD_FIELD, 20);
  expect(await(0, 0), NPU_STATUS_BAD_FIELD, 20);
  Cmd reserved = post(0);
  reserved.bytes[24] = 1;
  expect(reserved, NPU_STATUS_RESERVED_BITS, 24);
}

TEST(Gang, CountsOfCoresAreChecked) {
  Machine m({.cores = 4});
  const auto bad = [&](const JobSpec &j) {
    const npu_cqe c = m.run(j);
    EXPECT_STATUS(c, NPU_STATUS_BAD_DESCRIPTOR);
    EXPECT_EQ(c.offset, offsetof(npu_job, stream_count));
  };
  bad(gang(5));
  bad(gang(3, 0b1010));
  JobSpec none = nops(1);
  none.edit = [](std::vector<uint8_t> &d) { d[offsetof(npu_job, stream_count)] = 0; };
  bad(none);
  JobSpec second = gang(2);
  second.edit = [](std::vector<uint8_t> &d) { d[sizeof(npu_job) + 2 * sizeof(npu_stream) - 1] = 1; };
  const npu_cqe c = m.run(second);
  EXPECT_STATUS(c, NPU_STATUS_BAD_DESCRIPTOR);
  EXPECT_EQ(c.offset, sizeof(npu_job) + 2 * sizeof(npu_stream) - 1);
  EXPECT_STATUS(m.run(gang(4)), NPU_STATUS_OK);
  EXPECT_STATUS(m.run(gang(2, 0b1010)), NPU_STATUS_OK);
}

/// A job of random commands on so many cores. Waits are only for what stands before them in the order of their making,
/// so that they can be met.
JobSpec random_gang(std::mt19937 &rng, unsigned cores, const Area &a) {
  const auto upto = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n)(rng); };
  JobSpec j;
  j.regions = {a.region()};
  uint32_t signalled[4] = {};
  for (unsigned i = 0; i < 40 * cores; ++i) {
    const unsigned core = upto(cores - 1), e = upto(1), sem = upto(3);
    const uint32_t other = static_cast<uint32_t>(j.at(core, e ^ 1).size());
    auto &mine = j.at(core, e);
    switch (upto(5)) {
      case 0:
        mine.push_back(post(sem, 1 + upto(2), upto(other)));
        signalled[sem] += hw::decode<npu_cmd_sem_signal>(mine.back().bytes.data()).value;
        break;
      case 1:
        if (signalled[sem]) mine.push_back(await(sem, 1 + upto(signalled[sem] - 1), upto(other)));
        break;
      case 2:
        mine.push_back(nop(upto(other)));
        break;
      default:
        if (e == kGdma)
          mine.push_back(upto(1) ? move(0, NPU_REGION_LOCAL, 1 + upto(50000))
                                 : move(NPU_REGION_LOCAL, 0, 1 + upto(900), 0, 51200 + core * 1024));  // each its own
        else
          mine.push_back(sigmoid(1 + upto(9000)));
    }
  }
  return j;
}

TEST(Gang, CyclesAndProfileEqualThePrediction) {
  for (unsigned cores : {2u, 3u, 8u}) {
    Machine m({.cores = cores});
    const Area data = m.allocate(64 * 1024), records = m.allocate(64 * 1024);
    std::mt19937 rng(cores);
    for (unsigned round = 0; round < 20; ++round) {
      JobSpec j = random_gang(rng, cores, data);
      if (round % 5 == 4) j.at(round % cores, kTiu).push_back(await(round % 4, 1000));
      j.regions.push_back(records.region(NPU_ACCESS_WRITE));
      j.flags |= NPU_JOB_PROFILE;
      j.profile_region = 1;
      j.profile_bytes = 64 * 1024;
      const hw::Timeline t = predict(j);
      const npu_cqe c = m.run(j);
      ASSERT_EQ(t.deadlock, round % 5 == 4);
      ASSERT_STATUS(c, t.deadlock ? NPU_STATUS_DEADLOCK : NPU_STATUS_OK);
      ASSERT_EQ(c.end_cycle - c.start_cycle, t.cycles);
      if (t.deadlock) continue;
      npu_profile_header h;
      m.get(records, 0, &h, sizeof h);
      EXPECT_EQ(h.dropped, 0u);
      uint64_t at = sizeof h;
      for (unsigned n = 0; n < 2 * j.cores(); ++n)
        for (uint32_t i = 0; i < j.at(n / 2, n % 2).size(); ++i, at += sizeof(npu_profile)) {
          npu_profile r;
          m.get(records, at, &r, sizeof r);
          ASSERT_EQ(r.core, n / 2);
          ASSERT_EQ(r.engine, n % 2);
          ASSERT_EQ(r.command, i);
          ASSERT_EQ(r.start, t.spans[n][i].start);
          ASSERT_EQ(r.end, t.spans[n][i].end);
        }
      EXPECT_EQ(at, sizeof h + h.records * sizeof(npu_profile));
    }
  }
}

/// One row by a matrix of 128 x 128 that comes from region 0: 65536 bytes, 2048 multiply-accumulates of 64.
Cmd stream_weights() {
  return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
    c.batch = c.m = 1;
    c.k = c.n = 128;
    c.out_addr = 0x20000;
  });
}

TEST(Gang, EachCoreHasAPortToMemoryThatItsOwnFlowsShare) {
  Machine m;
  const Area a = m.allocate(128 * 1024);
  JobSpec j;
  j.regions = {a.region()};
  for (unsigned core = 0; core < 2; ++core) {
    j.at(core, kGdma).push_back(move(0, NPU_REGION_LOCAL, 65536, core * 65536));
    const npu_cqe c = m.run(j);
    EXPECT_EQ(c.end_cycle - c.start_cycle, 232u + 65536 / 64) << core + 1 << " cores";
  }
  // For 232 cycles the weights flow alone; what is left of them, 50688 bytes, has half of the port, and the copy then
  // has taken as many: the rest of it has all.
  j.at(0, kTiu).push_back(stream_weights());
  const npu_cqe c = m.run(j);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 232u + 50688 / 32 + (65536 - 50688) / 64);
}

TEST(Gang, LocalMemoryIsEachCoresOwn) {
  Machine m;
  const Area in = m.allocate(64), out = m.allocate(128);
  std::vector<uint8_t> ones(64, 1);
  m.put(in, 0, ones.data(), 64);
  JobSpec j;
  j.regions = {in.region(), out.region()};
  j.at(0, kGdma) = {move(0, NPU_REGION_LOCAL, 64), post(0), move(NPU_REGION_LOCAL, 1, 64)};
  j.at(1, kGdma) = {await(0), move(NPU_REGION_LOCAL, 1, 64, 0, 64)};
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  ones.resize(128);
  EXPECT_EQ(m.content(out), ones);
}

// ---- ends ----

TEST(Gang, DeadlockIsFoundOverAllCores) {
  Machine m;
  JobSpec cross = nops(0);
  cross.at(0, kGdma) = {nop(), await(0), post(1)};
  cross.at(1, kTiu) = {await(1), post(0)};
  npu_cqe c = m.run(cross);
  EXPECT_STATUS(c, NPU_STATUS_DEADLOCK);
  EXPECT_EQ(c.core, 0);
  EXPECT_EQ(c.engine, NPU_ENGINE_GDMA);
  EXPECT_EQ(c.command, 1u);
  EXPECT_EQ(c.phase & NPU_CQE_CORES, 0x300u);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 32u);
  JobSpec late = gang(1);
  late.at(0, kGdma) = {post(0, 2)};
  late.at(1, kTiu) = {await(0, 3)};
  c = m.run(late);
  EXPECT_STATUS(c, NPU_STATUS_DEADLOCK);
  EXPECT_EQ(c.core, 1);
  EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(c.command, 0u);
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST(Gang, AFaultOnOneCoreEndsAll) {
  Machine m;
  const Area a = m.allocate(kPage);
  JobSpec j;
  j.regions = {a.region()};
  for (unsigned i = 0; i < 100; ++i) j.tiu(sigmoid(1000));
  j.tiu(await(0));
  j.at(1, kGdma) = {nop(), move(0, NPU_REGION_LOCAL, kPage + 1)};
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_REGION_BOUNDS);
  EXPECT_EQ(c.core, 1);
  EXPECT_EQ(c.engine, NPU_ENGINE_GDMA);
  EXPECT_EQ(c.command, 1u);
  EXPECT_EQ(c.region, 0u);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 32u);
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST(Gang, BudgetsCountForEachEngineOfEachCore) {
  Machine m;
  JobSpec j = nops(4);
  for (unsigned i = 0; i < 5; ++i) j.at(1, kGdma).push_back(nop());
  j.budget = 5 * 32;
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK);
  j.budget = 5 * 32 - 1;
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BUDGET);
  EXPECT_EQ(c.core, 1);
  EXPECT_EQ(c.command, 4u);
}

class GangStop : public testing::Test {
 protected:
  Machine m{{.lmem = 8 << 20}};
  static constexpr uint32_t kBig = 1 << 20;
  const Area gate = m.allocate(kPage, Place::System);
  const Area big = m.allocate(kBig, Place::System);

  /// A job that waits in a bus access, once for each core that it is given.
  JobSpec gated(unsigned cores, uint32_t mask = 0) {
    JobSpec j = gang(cores, mask);
    j.regions = {gate.region()};
    j.gdma(move(0, NPU_REGION_LOCAL, 1)).gdma(nop());
    return j;
  }
  /// Two cores that copy the same, for long enough that a thread is woken for it.
  JobSpec both() {
    JobSpec j;
    j.regions = {big.region()};
    for (unsigned core = 0; core < 2; ++core)
      j.at(core, kGdma) = {move(0, NPU_REGION_LOCAL, kBig), move(0, NPU_REGION_LOCAL, kBig)};
    return j;
  }
  /// A command that nobody waits for.
  static Cmd hours() {
    return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
      c.out_addr = 4 << 20;
      c.wgt_region = NPU_REGION_LOCAL;
      c.batch = 65536;
      c.m = 1;
      c.k = 1 << 20;
      c.n = 1;
    });
  }
  void start(TestQueue &q, const JobSpec &j) {
    m.board.block(m.physical(0, gate.va));
    q.submit(j);
    m.board.wait_blocked();
  }
};

TEST_F(GangStop, RegistersShowAllItsCores) {
  TestQueue &q = m.queue(3);
  start(q, gated(2));
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 3u);
  for (unsigned core = 0; core < 2; ++core) {
    EXPECT_EQ(m.r32(NPU_CORE_REG(core, NPU_CORE_QUEUE)), 3u);
    EXPECT_EQ(m.r64(NPU_CORE_REG(core, NPU_CORE_JOB_ID)), q.last_id());
  }
  m.board.release();
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
  for (unsigned core = 0; core < 2; ++core) EXPECT_EQ(m.r64(NPU_CORE_REG(core, NPU_CORE_JOBS)), 1u);
}

TEST_F(GangStop, AResetOfOneCoreEndsIt) {
  for (uint32_t core = 0; core < 2; ++core) {
    start(m.queue(0), gated(2));
    m.w32(NPU_REG_CORE_RESET, 1u << core);
    m.board.release();
    EXPECT_STATUS(m.queue(0).wait(), NPU_STATUS_CORE_RESET);
    EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
  }
}

TEST_F(GangStop, AbortReachesARunningGang) {
  start(m.queue(0), gated(2));
  m.queue(0).abort(m.queue(0).last_id());
  m.board.release();
  EXPECT_STATUS(m.queue(0).wait(), NPU_STATUS_ABORTED);
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST_F(GangStop, CoresComputeAtTheSameTime) {
  TestQueue &q = m.queue(0);
  m.board.block(m.physical(0, big.va));
  q.submit(both());
  m.board.wait_blocked(2);
  m.board.release();
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
}

TEST_F(GangStop, OfTwoFaultsTheFirstThatBeganCounts) {
  TestQueue &q = m.queue(0);
  JobSpec j = both();
  j.at(1, kGdma).insert(j.at(1, kGdma).begin(), nop());
  const Area later = m.allocate(kBig, Place::System);
  j.regions.push_back(later.region());
  j.at(1, kGdma)[1] = move(1, NPU_REGION_LOCAL, kBig);
  m.board.poison(m.physical(0, later.va));
  m.board.poison(m.physical(0, big.va));
  m.board.block(m.physical(0, big.va));
  q.submit(j);
  m.board.wait_blocked();
  eventually([&] { return m.r64(NPU_CORE_REG(1, NPU_CORE_PROGRESS)) >= 2; }, "the second core's fault");
  m.board.release();
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.core, 0);
  EXPECT_EQ(c.command, 0u);
  EXPECT_EQ(c.region, 0u);
  EXPECT_EQ(c.end_cycle, c.start_cycle) << "as if nothing had begun since";
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST_F(GangStop, AFaultEndsWhatBeganLater) {
  TestQueue &q = m.queue(0);
  JobSpec j;
  j.regions = {big.region()};
  j.at(0, kGdma).push_back(move(0, NPU_REGION_LOCAL, kBig));
  j.at(1, kTiu).push_back(hours());
  m.board.poison(m.physical(0, big.va));
  m.board.block(m.physical(0, big.va));
  q.submit(j);
  m.board.wait_blocked();
  eventually([&] { return m.r64(NPU_CORE_REG(1, NPU_CORE_PROGRESS)) > 1; }, "the other core's work");
  m.board.release();
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.core, 0);
  EXPECT_EQ(m.r32(NPU_CORE_REG(1, NPU_CORE_TIU_COMMAND)), 0u);
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST_F(GangStop, AFaultComesBeforeTheHangBehindIt) {
  JobSpec j = gang(2);
  j.regions = {big.region()};
  j.at(0, kTiu).clear();
  j.at(0, kGdma) = {move(0, NPU_REGION_LOCAL, kBig), nop()};
  m.board.poison(m.physical(0, big.va));
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG_AFTER, 1);
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_STUCK_CORE, 1);
  EXPECT_STATUS(m.run(j), NPU_STATUS_DMA_ERROR);
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST_F(GangStop, AFailedJobCountsAsIfNothingHadBegunSince) {
  const Area records = m.allocate(64 * 1024);
  JobSpec j;
  j.regions = {big.region(), records.region()};
  j.at(0, kGdma) = {nop(), move(0, NPU_REGION_LOCAL, kBig), nop()};
  for (unsigned i = 0; i < 100; ++i) j.at(1, kTiu).push_back(nop());
  j.flags |= NPU_JOB_PROFILE;
  j.profile_region = 1;
  j.profile_bytes = 64 * 1024;
  m.board.poison(m.physical(0, big.va));
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.command, 1u);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 32u);
  npu_profile_header h;
  m.get(records, 0, &h, sizeof h);
  EXPECT_EQ(h.records, 2u) << "a command of each core";
  EXPECT_EQ(h.dropped, 0u);
  EXPECT_EQ(h.cycles, 32u);
  for (unsigned core = 0; core < 2; ++core) {
    EXPECT_EQ(m.r64(NPU_CORE_REG(core, NPU_CORE_BUSY_CYCLES)), 32u);
    EXPECT_EQ(m.r64(NPU_CORE_REG(core, core ? NPU_CORE_TIU_CYCLES : NPU_CORE_GDMA_CYCLES)), 32u);
  }
  EXPECT_EQ(m.r32(NPU_CORE_REG(0, NPU_CORE_GDMA_COMMAND)), 1u) << "what failed has not retired";
}

TEST_F(GangStop, NothingHappensWhilePaused) {
  TestQueue &q = m.queue(0);
  JobSpec two;
  two.regions = {big.region()};
  for (unsigned core = 0; core < 2; ++core) two.at(core, kGdma).push_back(move(0, NPU_REGION_LOCAL, 256 << 10));
  const Prepared p = m.prepare(0, two);
  std::minstd_rand random(1);
  const auto state = [&] {
    return std::array<uint64_t, 5>{m.r64(NPU_REG_PROGRESS), q.fence().seqno, q.reg(NPU_QUEUE_CQ_TAIL),
                                   m.r64(NPU_CORE_REG(0, NPU_CORE_JOBS)), m.board.transfers()};
  };
  unsigned pending = 0;
  for (unsigned i = 0; i < 1000; ++i) {
    for (; pending < 4; ++pending) q.submit(p);
    for (unsigned n = random() % 20000; n--;) std::atomic_signal_fence(std::memory_order_seq_cst);
    npu_model_pause(m.model(), true);
    const auto before = state();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ASSERT_EQ(state(), before) << "pause " << i;
    npu_model_pause(m.model(), false);
    while (pending && q.poll()) --pending;
  }
  for (; pending; --pending) EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
}

TEST_F(GangStop, AbortReachesAllItsCores) {
  TestQueue &q = m.queue(0);
  m.board.block(m.physical(0, big.va));
  q.submit(both());
  m.board.wait_blocked(2);
  q.abort(q.last_id());
  m.board.release();
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
  EXPECT_STATUS(m.run(gang(2)), NPU_STATUS_OK);
}

TEST_F(GangStop, PauseWaitsForAllItsCores) {
  TestQueue &q = m.queue(0);
  JobSpec j;
  for (unsigned core = 0; core < 2; ++core) j.at(core, kTiu).push_back(hours());
  q.submit(j);
  const auto progress = [&](unsigned core) { return m.r64(NPU_CORE_REG(core, NPU_CORE_PROGRESS)); };
  for (unsigned i = 0; i < 5; ++i) {
    const uint64_t at[] = {progress(0), progress(1)};
    eventually([&] { return progress(0) > at[0] && progress(1) > at[1]; }, "at work");
    npu_model_pause(m.model(), true);
    const uint64_t before = m.r64(NPU_REG_PROGRESS);
    for (unsigned k = 0; k < 10000; ++k) ASSERT_EQ(m.r64(NPU_REG_PROGRESS), before);
    npu_model_pause(m.model(), false);
  }
  q.abort(q.last_id());
  EXPECT_STATUS(q.wait(), NPU_STATUS_ABORTED);
}

TEST_F(GangStop, LongStreamsAreNotHeldAsAWhole) {
  const Area out = m.allocate(kPage);
  JobSpec j;
  j.regions = {out.region()};
  for (unsigned core = 0; core < 2; ++core)
    for (unsigned i = 0; i < 5000; ++i)
      j.at(core, kGdma).push_back(move(NPU_REGION_LOCAL, 0, 4, 0, core * 2048 + i % 256 * 4));
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK);
  for (unsigned core = 0; core < 2; ++core) EXPECT_EQ(m.r32(NPU_CORE_REG(core, NPU_CORE_GDMA_COMMAND)), 5000u);
}

TEST_F(GangStop, DeviceResetDropsIt) {
  start(m.queue(0), gated(2));
  m.w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  m.board.release();
  eventually([&] { return m.r32(NPU_REG_STATUS) & NPU_STATUS_READY; }, "ready");
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  EXPECT_FALSE(m.queue(0).poll());
}

TEST_F(GangStop, CoresThatAreKeptForAnAbortedGangGoBack) {
  start(m.queue(0), gated(1, 0b10));  // core 1 is busy
  TestQueue &waits = m.queue(1), &small = m.queue(2);
  const uint64_t id = waits.submit(gang(2));
  eventually([&] { return waits.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  small.submit(nops(1, 0b01));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(small.poll()) << "core 0 is kept for the gang";
  waits.abort(id);
  EXPECT_STATUS(waits.wait(), NPU_STATUS_ABORTED);
  EXPECT_EQ(small.wait().core, 0);
  // The same when its queue is disabled.
  waits.submit(gang(2));
  eventually([&] { return waits.reg(NPU_QUEUE_SQ_HEAD) == 2; }, "fetched");
  waits.disable();
  EXPECT_EQ(small.run(nops(1, 0b01)).core, 0);
  m.board.release();
  EXPECT_STATUS(m.queue(0).wait(), NPU_STATUS_OK);
  EXPECT_STATUS(m.queue(4).run(gang(2)), NPU_STATUS_OK);
}

// ---- arbitration ----

/// A gang among streams of small jobs on all cores: how many small jobs of each stream began before it?
unsigned small_jobs_before_gang(uint32_t gang_priority, uint32_t small_priority, unsigned cores) {
  constexpr unsigned kJobs = 100;
  Machine m({.cores = cores});
  m.w32(NPU_REG_CTRL, 0);
  for (unsigned c = 0; c < cores; ++c)
    for (unsigned n = 0; n < 2; ++n) {
      TestQueue &q = m.queue(2 * c + n, {.priority = small_priority, .core_mask = 1u << c, .sq_log2 = 8, .cq_log2 = 8});
      const Prepared p = m.prepare(0, nops(1));
      for (unsigned i = 0; i < kJobs; ++i) q.submit(p, i + 1 == kJobs);
      eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
    }
  TestQueue &q = m.queue(2 * cores, {.priority = gang_priority});
  q.submit(gang(cores));
  eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  const uint64_t began = q.wait().start_cycle;
  unsigned before = 0;
  for (unsigned n = 0; n < 2; ++n)  // those of core 0, whose clock start_cycle is
    for (unsigned i = 0; i < kJobs; ++i) before += m.queue(n).wait().start_cycle < began;
  return before;
}

TEST(GangArbiter, SmallJobsDoNotStarveAGang) {
  for (unsigned cores : {2u, 4u}) {
    // Its turn comes by age on the first core that it waits for; until the others have ended what they run, that is
    // idle.
    EXPECT_LE(small_jobs_before_gang(1, 1, cores), 4u);
    EXPECT_LE(small_jobs_before_gang(0, 3, cores), 30u);
  }
}

TEST(GangArbiter, GangsDoNotLockEachOtherOut) {
  Machine m({.cores = 4, .queues = 32});
  const uint32_t masks[] = {0b0011, 0b0110, 0b1100, 0b1001, 0b1111, 0b0111, 0b1011, 0b0101};
  constexpr unsigned kJobs = 200;
  std::vector<TestQueue *> queues;
  for (unsigned i = 0; i < 16; ++i) {
    const uint32_t mask = masks[i % 8];
    const unsigned size = i < 8 ? static_cast<unsigned>(std::popcount(mask)) : 2;
    TestQueue &q = m.queue(i, {.priority = i % 4, .core_mask = mask, .sq_log2 = 9, .cq_log2 = 9});
    const Prepared p = m.prepare(0, gang(size));
    for (unsigned n = 0; n < kJobs; ++n) q.submit(p, n % 7 == 0 || n + 1 == kJobs);
    queues.push_back(&q);
  }
  for (TestQueue *q : queues)
    for (unsigned n = 0; n < kJobs; ++n) ASSERT_STATUS(q->wait(), NPU_STATUS_OK);
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
}

TEST(GangArbiter, GangsSmallJobsAndAbortsTogether) {
  Machine m({.cores = 3, .queues = 16});
  std::mt19937 rng(5);
  const auto upto = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n)(rng); };
  std::vector<Prepared> kinds;
  for (unsigned cores : {1u, 2u, 3u}) kinds.push_back(m.prepare(0, gang(cores)));
  unsigned pending[6] = {};
  for (unsigned i = 0; i < 3000; ++i) {
    const unsigned n = upto(5);
    TestQueue &q = m.queue(n, {.priority = n % 4});
    if (pending[n] < 10) {
      q.submit(kinds[upto(2)]);
      ++pending[n];
    }
    if (upto(3) == 0) q.abort(q.last_id());
    while (pending[n] && q.poll()) --pending[n];
  }
  for (unsigned n = 0; n < 6; ++n)
    while (pending[n]) {
      const npu_cqe c = m.queue(n).wait();
      EXPECT_TRUE(c.status == NPU_STATUS_OK || c.status == NPU_STATUS_ABORTED);
      --pending[n];
    }
  EXPECT_STATUS(m.queue(7).run(gang(3)), NPU_STATUS_OK);
}

}  // namespace
}  // namespace npu::test
