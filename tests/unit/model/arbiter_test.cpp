// SPDX-License-Identifier: MIT
// Which queue's job a core gets: priorities with ageing, core masks, cores working at the same time.
#include <algorithm>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

JobSpec nops(unsigned n, uint32_t mask = 0) {
  JobSpec j;
  j.core_mask = mask;
  for (unsigned i = 0; i < n; ++i) j.tiu(nop());
  return j;
}

/// Lets queues of these priorities, with `jobs` jobs each, compete for one core and returns the queues in the order in
/// which their jobs ran.
std::vector<unsigned> compete(const std::vector<uint32_t> &priorities, unsigned jobs) {
  Machine m({.cores = 1});
  m.w32(NPU_REG_CTRL, 0);
  for (unsigned i = 0; i < priorities.size(); ++i) {
    TestQueue &q = m.queue(i, {.priority = priorities[i], .sq_log2 = 8, .cq_log2 = 8});
    const Prepared p = m.prepare(0, nops(1));
    for (unsigned n = 0; n < jobs; ++n) q.submit(p, n + 1 == jobs);
    eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  }
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  std::vector<std::pair<uint64_t, unsigned>> order;
  for (unsigned i = 0; i < priorities.size(); ++i)
    for (unsigned n = 0; n < jobs; ++n) order.emplace_back(m.queue(i).wait().start_cycle, i);
  std::sort(order.begin(), order.end());
  std::vector<unsigned> queues;
  for (const auto &o : order) queues.push_back(o.second);
  return queues;
}

/// The rule of docs/reference/hardware.md section 4.2, on its own.
std::vector<unsigned> predict(const std::vector<uint32_t> &priorities, unsigned jobs) {
  struct State {
    unsigned left, age, served;
  };
  std::vector<State> s(priorities.size(), {jobs, 0, 0});
  std::vector<unsigned> order;
  for (unsigned t = 1; order.size() < priorities.size() * jobs; ++t) {
    int best = -1;
    for (unsigned i = 0; i < s.size(); ++i) {
      if (!s[i].left) continue;
      const auto rank = [&](unsigned k) {
        return std::pair(8 * priorities[k] + s[k].age, -static_cast<int>(s[k].served));
      };
      if (best < 0 || rank(i) > rank(static_cast<unsigned>(best))) best = static_cast<int>(i);
    }
    for (unsigned i = 0; i < s.size(); ++i)
      if (s[i].left && static_cast<int>(i) != best) s[i].age = std::min(s[i].age + 1, 64u);
    State &b = s[static_cast<unsigned>(best)];
    b = {b.left - 1, 0, t};
    order.push_back(static_cast<unsigned>(best));
  }
  return order;
}

TEST(Arbiter, FollowsPriorityAndAge) {
  for (const std::vector<uint32_t> &p :
       {std::vector<uint32_t>{0, 1, 2, 3}, {3, 0}, {1, 1, 1}, {0, 0, 3, 3, 2}, {2, 0, 1, 0, 3, 1}})
    EXPECT_EQ(compete(p, 60), predict(p, 60));
}

TEST(Arbiter, LowPriorityIsNotStarved) {
  const std::vector<unsigned> order = compete({0, 3}, 100);
  // 8 * 3 = 24 rounds make up for the difference.
  const auto first = std::find(order.begin(), order.end(), 0u) - order.begin();
  EXPECT_GE(first, 24);
  EXPECT_LE(first, 26);
  EXPECT_GE(std::count(order.begin(), order.begin() + 100, 0u), 3);
}

TEST(Arbiter, EqualPrioritiesTakeTurns) {
  const std::vector<unsigned> order = compete({1, 1, 1}, 10);
  for (size_t i = 3; i < order.size(); ++i) EXPECT_EQ(order[i], order[i - 3]);
}

TEST(Arbiter, JobsKeepToTheirCores) {
  Machine m({.cores = 4});
  for (uint32_t core = 0; core < 4; ++core) {
    TestQueue &pinned = m.queue(core, {.core_mask = 1u << core});
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(pinned.run(nops(1)).core, core);
  }
  TestQueue &q = m.queue(8, {.core_mask = 0b1110});
  for (uint32_t core = 1; core < 4; ++core)
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(q.run(nops(1, 1u << core)).core, core);
  const npu_cqe c = q.run(nops(1, 1));
  EXPECT_STATUS(c, NPU_STATUS_BAD_DESCRIPTOR);
  EXPECT_EQ(c.offset, offsetof(npu_job, core_mask));
}

/// Address spaces share by modelled cycles in both kinds of time; sharing_test.cpp has more in virtual time.
TEST(Arbiter, AddressSpacesShareByModelledCycles) {
  constexpr uint64_t kNop = 1000;
  constexpr unsigned kJobs = 100, kShort = 4, kLong = 32;
  Machine m({.cores = 1, .edit = [](npu_model_config &c) { c.tiu_fixed = kNop; }});
  m.w32(NPU_REG_CTRL, 0);
  const auto fill = [&](unsigned queue, uint32_t asid, unsigned commands) {
    TestQueue &q = m.queue(queue, {.asid = asid, .sq_log2 = 8, .cq_log2 = 8});
    const Prepared p = m.prepare(asid, nops(commands));
    for (unsigned n = 0; n < kJobs; ++n) q.submit(p, n + 1 == kJobs);
    eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  };
  for (unsigned i = 0; i < 8; ++i) fill(i, 1, kLong);
  fill(8, 2, kShort);
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  // The core's clock says how much it had done when the only queue of the second address space was through.
  npu_cqe last{};
  for (unsigned n = 0; n < kJobs; ++n) last = m.queue(8).wait();
  EXPECT_NEAR(static_cast<double>(last.end_cycle), 2.0 * kJobs * kShort * kNop, 2.0 * kLong * kNop);
}

/// A job that waits in a bus access.
JobSpec blocked_job(Machine &m, uint64_t &bus) {
  const Area from = m.allocate(kPage, Place::System);
  bus = m.physical(0, from.va);
  JobSpec j;
  j.regions = {from.region()};
  j.gdma(with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.dst_region = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
  }));
  return j;
}

TEST(Cores, CountWhileTheyAreReserved) {
  constexpr uint64_t kNop = 1000;
  Machine m({.edit = [](npu_model_config &c) { c.tiu_fixed = kNop; }});
  uint64_t bus;
  JobSpec long_job = blocked_job(m, bus);
  long_job.regions[0] = m.allocate(kPage, Place::System, 2).region();
  bus = m.physical(2, long_job.regions[0].va);
  long_job.stream[kTiu].assign(64, nop());
  m.board.block(bus);
  TestQueue &a = m.queue(0, {.asid = 1}), &b = m.queue(1, {.asid = 2, .core_mask = 1});
  b.submit(long_job);
  m.board.wait_blocked();
  // The gang reserves core 1 as long as the other job has core 0.
  JobSpec gang = nops(1);
  gang.at(1, kTiu).push_back(nop());
  a.submit(gang);
  eventually([&] { return a.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  m.board.release();
  EXPECT_STATUS(b.wait(), NPU_STATUS_OK);
  EXPECT_STATUS(a.wait(), NPU_STATUS_OK);
  m.w32(NPU_REG_CTRL, 0);
  a.submit(nops(1, 1));
  eventually([&] { return a.reg(NPU_QUEUE_SQ_HEAD) == 2; }, "fetched");
  b.submit(nops(1, 1));
  eventually([&] { return b.reg(NPU_QUEUE_SQ_HEAD) == 2; }, "fetched");
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  EXPECT_GT(a.wait().start_cycle, b.wait().start_cycle) << "66 thousand core cycles against 64 thousand";
}

TEST(Cores, WorkAtTheSameTime) {
  Machine m;
  uint64_t bus;
  const JobSpec stuck = blocked_job(m, bus);
  m.board.block(bus);
  TestQueue &a = m.queue(0), &b = m.queue(1);
  a.submit(stuck);
  m.board.wait_blocked();
  EXPECT_EQ(a.status(), NPU_QUEUE_STATUS_ENABLED | NPU_QUEUE_STATUS_RUNNING);
  const uint32_t busy = m.r32(NPU_REG_CORE_BUSY);
  EXPECT_TRUE(busy == 1 || busy == 2);
  const uint32_t core = busy - 1;
  EXPECT_EQ(m.r64(NPU_CORE_REG(core, NPU_CORE_JOB_ID)), 1u);
  EXPECT_EQ(m.r32(NPU_CORE_REG(core, NPU_CORE_QUEUE)), 0u);
  for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(b.run(nops(2)).core, core ^ 1);
  EXPECT_FALSE(a.poll());
  m.board.release();
  EXPECT_STATUS(a.wait(), NPU_STATUS_OK);
  eventually([&] { return m.r32(NPU_REG_CORE_BUSY) == 0; }, "idle");
}

TEST(Cores, FrontEndServesWhileAllAreBusy) {
  Machine m({.cores = 1});
  uint64_t bus;
  const JobSpec stuck = blocked_job(m, bus);
  m.board.block(bus);
  m.queue(0).submit(stuck);
  m.board.wait_blocked();
  // A malformed job is answered, a good one fetched, an abort of it answered, though no core is free.
  JobSpec bad = nops(1);
  bad.edit = [](std::vector<uint8_t> &d) { d[0] = 0; };
  TestQueue &q = m.queue(1);
  EXPECT_STATUS(q.run(bad), NPU_STATUS_BAD_DESCRIPTOR);
  const uint64_t id = q.submit(nops(1));
  eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 2; }, "fetched");
  q.abort(id + 1);
  EXPECT_FALSE(q.poll());
  q.abort(id);
  const npu_cqe c = q.wait();
  EXPECT_STATUS(c, NPU_STATUS_ABORTED);
  EXPECT_EQ(c.job_id, id);
  EXPECT_EQ(c.core, 0xff);
  m.board.release();
  EXPECT_STATUS(m.queue(0).wait(), NPU_STATUS_OK);
  EXPECT_STATUS(q.run(nops(1)), NPU_STATUS_OK);
}

}  // namespace
}  // namespace npu::test
