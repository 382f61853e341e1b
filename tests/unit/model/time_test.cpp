// SPDX-License-Identifier: MIT
// Modelled time: cycles as the compiler predicts them, waits, deadlocks, budgets, profiles.
#include <algorithm>
#include <random>

#include "npu_cost.hpp"
#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

const hw::CostParams kParams;

hw::Cost cost_of(const Cmd &c, unsigned engine) {
  uint8_t bytes[NPU_CMD_BYTES];
  std::copy(c.bytes.begin(), c.bytes.end(), bytes);
  return hw::command_cost(bytes, engine == kGdma, kParams);
}

hw::Timeline predict(const JobSpec &j) {
  hw::TimedCore core;
  for (unsigned e = 0; e < 2; ++e)
    for (const Cmd &c : j.stream[e]) {
      npu_cmd head;
      std::memcpy(&head, c.bytes.data(), sizeof head);
      core.stream[e].push_back({cost_of(c, e), head.wait});
    }
  return hw::simulate({core}, kParams);
}

template <class T>
Cmd waiting(T c, uint32_t wait, uint32_t layer = 0) {
  c.wait = wait;
  c.layer = layer;
  return c;
}

npu_cmd_copy load(uint32_t bytes, bool save = false) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    (save ? c.src_region : c.dst_region) = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = bytes;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

npu_cmd_matmul product(uint32_t m, uint32_t k, uint32_t n) {
  return with<npu_cmd_matmul>([&](npu_cmd_matmul &c) {
    c.batch = 1;
    c.m = m;
    c.k = k;
    c.n = n;
    c.in_addr = 0;
    c.out_addr = 0x10000;
  });
}

npu_cmd_unary sigmoid(uint32_t count) {
  return with<npu_cmd_unary>([&](npu_cmd_unary &c) {
    c.subop = NPU_ACT_SIGMOID;
    c.count = count;
  });
}

/// A job of random commands of both engines over region 0, with waits that can be met.
JobSpec random_job(std::mt19937 &rng, const Area &a) {
  const auto upto = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n)(rng); };
  JobSpec j;
  j.regions = {a.region()};
  uint32_t wait[2] = {};
  for (unsigned i = 0; i < 60; ++i) {
    const unsigned e = upto(1);
    auto &mine = j.stream[e], &other = j.stream[e ^ 1];
    // Waiting only for what stands already, and never less than before, cannot close a circle.
    if (upto(1)) wait[e] = std::max(wait[e], static_cast<uint32_t>(other.size()));
    if (e == kGdma)
      mine.push_back(upto(3) ? waiting(load(1 + upto(60000), upto(1)), wait[e], i)
                             : waiting(hw::decode<npu_cmd>(nop().bytes.data()), wait[e], i));
    else
      mine.push_back(upto(1) ? waiting(product(1 + upto(30), 1 + upto(40), 1 + upto(80)), wait[e], i)
                             : waiting(sigmoid(1 + upto(9000)), wait[e], i));
  }
  return j;
}

TEST(Time, CyclesAndProfileEqualThePrediction) {
  Machine m;
  const Area data = m.allocate(256 * 1024), records = m.allocate(64 * 1024);
  std::mt19937 rng(11);
  for (unsigned round = 0; round < 30; ++round) {
    JobSpec j = random_job(rng, data);
    j.regions.push_back(records.region(NPU_ACCESS_WRITE));
    j.flags |= NPU_JOB_PROFILE;
    j.profile_region = 1;
    j.profile_bytes = 64 * 1024;
    const hw::Timeline t = predict(j);
    ASSERT_FALSE(t.deadlock);
    TestQueue &q = m.queue(0);
    const npu_cqe c = q.run(j);
    ASSERT_STATUS(c, NPU_STATUS_OK);
    ASSERT_EQ(c.end_cycle - c.start_cycle, t.cycles);
    npu_profile_header h;
    m.get(records, 0, &h, sizeof h);
    ASSERT_EQ(h.records, 60u);
    EXPECT_EQ(h.dropped, 0u);
    EXPECT_EQ(h.job_id, c.job_id);
    EXPECT_EQ(h.cycles, t.cycles);
    uint64_t at = sizeof h;
    for (unsigned e = 0; e < 2; ++e)
      for (uint32_t i = 0; i < j.stream[e].size(); ++i, at += sizeof(npu_profile)) {
        npu_profile r;
        m.get(records, at, &r, sizeof r);
        npu_cmd head;
        std::memcpy(&head, j.stream[e][i].bytes.data(), sizeof head);
        const hw::Cost cost = cost_of(j.stream[e][i], e);
        ASSERT_EQ(r.command, i);
        ASSERT_EQ(r.engine, e);
        EXPECT_EQ(r.core, c.core);
        EXPECT_EQ(r.start, t.spans[e][i].start);
        EXPECT_EQ(r.end, t.spans[e][i].end);
        EXPECT_EQ(r.bytes, cost.flow_bytes);
        EXPECT_EQ(r.macs, cost.macs);
        EXPECT_EQ(r.layer, head.layer);
        EXPECT_EQ(r.opcode, head.opcode);
        EXPECT_EQ(r.subop, head.subop);
        EXPECT_EQ(r.reserved, 0u);
      }
  }
}

TEST(Time, IsTheSameBesideOtherJobsAndOnAnyCore) {
  Machine m;
  std::vector<Prepared> jobs;
  uint64_t cycles = 0;
  for (unsigned q = 0; q < 4; ++q) {
    std::mt19937 rng(12);  // equal jobs, each in memory of its own
    const JobSpec j = random_job(rng, m.allocate(256 * 1024));
    cycles = predict(j).cycles;
    jobs.push_back(m.prepare(0, j));
  }
  for (unsigned i = 0; i < 10; ++i)
    for (unsigned q = 0; q < 4; ++q) m.queue(q).submit(jobs[q]);
  for (unsigned i = 0; i < 10; ++i)
    for (unsigned q = 0; q < 4; ++q) {
      const npu_cqe c = m.queue(q).wait();
      EXPECT_STATUS(c, NPU_STATUS_OK);
      EXPECT_EQ(c.end_cycle - c.start_cycle, cycles);
    }
}

TEST(Time, KnownSmallJob) {
  // A load of 64 KiB takes 32 + 200, then 65536 / 64 cycles; the matrix product behind it 32 + its rows.
  Machine m;
  const Area a = m.allocate(64 * 1024);
  JobSpec j;
  j.regions = {a.region()};
  j.gdma(load(65536));
  npu_cmd_matmul c = product(8, 32, 32);
  c.wgt_region = NPU_REGION_LOCAL;
  j.tiu(waiting(c, 1));
  const npu_cqe done = m.run(j);
  // 8 rows of one step each, two at a time: 4; local bytes (8*32 + 32*32 + 8*32) * 4 = 6144 at 512 a cycle: 12.
  EXPECT_EQ(done.end_cycle - done.start_cycle, 232u + 1024 + 32 + 12);
}

TEST(Effects, AppearInModelledOrder) {
  // The product reads what the copy before it loaded, and the save stores what the product made: 20 rounds over the
  // same addresses.
  Machine m;
  const Area in = m.allocate(20 * 64), out = m.allocate(20 * 64);
  std::vector<float> data(20 * 16);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  m.put(in, 0, data.data(), in.bytes);
  JobSpec j;
  j.regions = {in.region(), out.region()};
  for (uint32_t i = 0; i < 20; ++i) {
    npu_cmd_copy get = load(64), put = load(64, true);
    get.src_offset = put.dst_offset = i * 64;
    put.dst_region = 1;
    j.gdma(waiting(get, i)).gdma(waiting(put, i + 1));
    j.tiu(waiting(with<npu_cmd_eltwise>([&](npu_cmd_eltwise &c) {
                    c.subop = NPU_ELTWISE_MUL;
                    c.flags = NPU_ELTWISEF_B_IMM;
                    c.imm = 2;
                    std::fill_n(c.dims, 5, 1u);
                    c.dims[4] = 16;
                    c.a_stride[4] = 1;
                  }),
                  2 * i + 1));
  }
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  std::vector<float> got(data.size());
  m.get(out, 0, got.data(), out.bytes);
  for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(got[i], 2 * data[i]);
}

// ---- deadlock ----

TEST(Deadlock, NamesTheFirstEngineAndItsCommand) {
  Machine m;
  JobSpec both;
  both.tiu(nop()).tiu(nop(2)).gdma(nop()).gdma(nop(2));
  npu_cqe c = m.run(both);
  EXPECT_STATUS(c, NPU_STATUS_DEADLOCK);
  EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(c.command, 1u);
  EXPECT_EQ(c.region, NPU_REGION_NONE);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 32u);
  JobSpec one;
  one.tiu(nop()).tiu(nop()).tiu(nop()).gdma(nop(3)).gdma(nop(4)).gdma(nop());
  c = m.run(one);
  EXPECT_STATUS(c, NPU_STATUS_DEADLOCK);
  EXPECT_EQ(c.engine, NPU_ENGINE_GDMA);
  EXPECT_EQ(c.command, 1u);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 4 * 32u);
  JobSpec none;
  none.tiu(nop(~0u));
  c = m.run(none);
  EXPECT_STATUS(c, NPU_STATUS_DEADLOCK);
  EXPECT_EQ(c.command, 0u);
  EXPECT_EQ(c.end_cycle, c.start_cycle);
  EXPECT_STATUS(m.run({}), NPU_STATUS_OK);
}

TEST(Deadlock, WaitingForItsOwnEndIsNone) {
  Machine m;
  JobSpec j;
  j.tiu(nop(1)).gdma(nop()).gdma(nop(1));
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK);
}

// ---- budget ----

TEST(Budget, HoldsToTheCycleForEachEngine) {
  Machine m;
  JobSpec j;
  for (unsigned i = 0; i < 5; ++i) j.tiu(nop());
  for (unsigned i = 0; i < 4; ++i) j.gdma(nop());
  j.budget = 5 * 32;
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK) << "each engine has a budget of its own";
  j.budget = 5 * 32 - 1;
  npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BUDGET);
  EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(c.command, 4u);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 4 * 32u);
  j.budget = 1;
  c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BUDGET);
  EXPECT_EQ(c.command, 0u);
  j.budget = 0;
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK) << "no limit";
}

TEST(Budget, CountsFlowsAtFullBandwidthAndHasNoEffectWhenPassed) {
  Machine m;
  const Area a = m.allocate(128 * 1024), out = m.allocate(64 * 1024);
  std::vector<uint8_t> ones(64 * 1024, 1);
  m.put(a, 0, ones.data(), ones.size());
  JobSpec j;
  j.regions = {a.region(), out.region()};
  npu_cmd_copy save = load(65536, true);
  save.dst_region = 1;
  j.gdma(load(65536)).gdma(save);
  const uint64_t each = 32 + 200 + 65536 / 64;
  j.budget = 2 * each - 1;
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BUDGET);
  EXPECT_EQ(c.engine, NPU_ENGINE_GDMA);
  EXPECT_EQ(c.command, 1u);
  EXPECT_EQ(m.content(out), std::vector<uint8_t>(64 * 1024));
  j.budget = 2 * each;
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK);
  EXPECT_EQ(m.content(out), ones);
}

TEST(Budget, HugeCostsDoNotWrap) {
  // Two copies with strides of one element that count 64 bytes each; their sum passes any sane budget.
  Machine m;
  const Area a = m.allocate(kPage);
  JobSpec j;
  npu_region r = a.region();
  r.bytes = ~0ull;
  j.regions = {r};
  npu_cmd_fill f = with<npu_cmd_fill>([](npu_cmd_fill &c) {
    c.dst_dtype = NPU_DTYPE_U8;
    std::fill_n(c.dims, 6, 1u);
    c.dims[4] = 0xffff;
    c.dims[5] = 0xffff;
  });
  j.gdma(f).gdma(f);
  j.budget = 0xffffull * 0xffff * 64;
  npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_OK);
  j.budget = 32 + 200 + 0xffffull * 0xffff * 64 / 64 - 1;
  c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BUDGET);
  EXPECT_EQ(c.command, 0u);
}

// ---- profile ----

TEST(Profile, WritesWhatFitsAndCountsTheRest) {
  Machine m;
  const Area a = m.allocate(kPage);
  JobSpec j;
  for (unsigned i = 0; i < 3; ++i) j.tiu(nop()).gdma(nop());
  j.regions = {a.region()};
  j.flags |= NPU_JOB_PROFILE;
  j.profile_offset = 8;
  for (unsigned room : {0u, 2u, 4u, 6u, 7u}) {
    std::vector<uint8_t> junk(kPage, 0xcc);
    m.put(a, 0, junk.data(), kPage);
    j.profile_bytes =
        static_cast<uint32_t>(sizeof(npu_profile_header) + room * sizeof(npu_profile) + (room == 4 ? 47 : 0));
    ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
    npu_profile_header h;
    m.get(a, 8, &h, sizeof h);
    const unsigned written = std::min(room, 6u);
    EXPECT_EQ(h.records, written);
    EXPECT_EQ(h.dropped, 6 - written);
    const auto all = m.content(a);
    for (unsigned i = 0; i < written; ++i) {
      npu_profile r;
      m.get(a, 8 + sizeof h + i * sizeof r, &r, sizeof r);
      EXPECT_EQ(r.engine, i / 3);
      EXPECT_EQ(r.command, i % 3);
      EXPECT_EQ(r.opcode, NPU_OP_NOP);
      EXPECT_EQ(r.end, 32 * (i % 3 + 1));
    }
    for (uint64_t i = 8 + sizeof h + written * sizeof(npu_profile); i < kPage; ++i)
      ASSERT_EQ(all[i], 0xcc) << "beyond the records";
    for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(all[i], 0xcc);
  }
}

TEST(Profile, SaysWhenTheJobBeganAndEnded) {
  Machine m;
  const Area a = m.allocate(kPage);
  JobSpec j;
  j.tiu(nop());
  j.regions = {a.region()};
  j.flags |= NPU_JOB_PROFILE;
  j.profile_bytes = kPage;
  const uint64_t before = m.r64(NPU_REG_TIME_NS);
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  const uint64_t after = m.r64(NPU_REG_TIME_NS);
  npu_profile_header h;
  m.get(a, 0, &h, sizeof h);
  EXPECT_LE(before, h.begin_ns);
  EXPECT_LE(h.begin_ns, h.end_ns);
  EXPECT_LE(h.end_ns, after);
}

TEST(Profile, IsWrittenForFailedJobsUpToTheFailure) {
  Machine m;
  const Area a = m.allocate(kPage);
  JobSpec j;
  j.tiu(nop()).tiu(nop()).tiu(Cmd{});
  j.regions = {a.region()};
  j.flags |= NPU_JOB_PROFILE;
  j.profile_bytes = kPage;
  EXPECT_STATUS(m.run(j), NPU_STATUS_BAD_OPCODE);
  npu_profile_header h;
  m.get(a, 0, &h, sizeof h);
  EXPECT_EQ(h.records, 2u);
  EXPECT_EQ(h.cycles, 64u);
}

TEST(Profile, FaultInItsBufferFailsTheJob) {
  Machine m;
  const Area a = m.allocate(2 * kPage);
  JobSpec j;
  for (unsigned i = 0; i < 100; ++i) j.tiu(nop());
  j.regions = {a.region()};
  j.flags |= NPU_JOB_PROFILE;
  j.profile_bytes = 2 * kPage;
  m.unmap(0, a.va + kPage);
  m.wait_invalidated(m.invalidate(0));
  const npu_cqe c = m.run(j);
  EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
  EXPECT_EQ(c.fault_addr, a.va + kPage);
  EXPECT_EQ(c.engine, NPU_ENGINE_NONE);
  EXPECT_EQ(c.region, 0u);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 3200u);
}

}  // namespace
}  // namespace npu::test
