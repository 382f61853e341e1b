// SPDX-License-Identifier: MIT
// The arbiter divides the cores among address spaces, docs/reference/hardware.md section 4.2. Loads run in virtual
// time, and the core time of each address space is counted from the completions of its queues.
#include <algorithm>
#include <numeric>
#include <random>

#include "qemu-device/model/src/arbiter.h"
#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint64_t kNop = 1000;  // cycles
/// Number of NOPs of a job.
constexpr unsigned kLongJob = 64, kShortJob = 2;

/// Queues of an address space that are full of equal jobs.
struct Load {
  uint32_t asid;
  unsigned queues;
  unsigned nops;
  unsigned cores = 1;  ///< each job's number
  uint32_t mask = 0;   ///< the queues' core mask; 0: all cores
  uint32_t priority = 1;

  uint64_t cycles() const { return nops * kNop; }
};

class Sharing : public ::testing::Test {
 protected:
  void start(unsigned cores, uint64_t seed = 0) {
    Machine::Options o;
    o.clock = true;
    o.cores = cores;
    o.queues = 128;
    o.edit = [seed](npu_model_config &c) {
      c.seed = seed;
      c.tiu_fixed = kNop;
    };
    m = std::make_unique<Machine>(o);
    cores_ = cores;
    next_queue_ = 0;
    loads_.clear();
  }

  /// Adds queues whose jobs last for so many cycles. They begin when the time goes on.
  size_t add(const Load &load, uint64_t cycles) {
    JobSpec j;
    for (unsigned c = 0; c < load.cores; ++c) j.at(c, kTiu).assign(load.nops, nop());
    const Prepared p = m->prepare(load.asid, j);
    const uint64_t jobs = cycles / load.cycles() + 2;
    const auto log2 = static_cast<uint32_t>(std::bit_width(jobs));
    loads_.push_back({load, next_queue_});
    for (unsigned i = 0; i < load.queues; ++i) {
      TestQueue &q = m->queue(
          next_queue_++,
          {.asid = load.asid, .priority = load.priority, .core_mask = load.mask, .sq_log2 = log2, .cq_log2 = log2});
      for (uint64_t n = 0; n < jobs; ++n) q.submit(p, n + 1 == jobs);
    }
    return loads_.size() - 1;
  }
  void pass(uint64_t cycles) { m->board.set_clock(m->model(), m->board.now() + cycles); }

  uint64_t jobs(size_t load, unsigned queue) {
    return m->r32(NPU_QUEUE_REG(loads_[load].first + queue, NPU_QUEUE_CQ_TAIL));
  }
  /// Core cycles of a load's completed jobs.
  uint64_t core_time(size_t load) {
    const Load &l = loads_[load].load;
    uint64_t done = 0;
    for (unsigned q = 0; q < l.queues; ++q) done += jobs(load, q);
    return done * l.cycles() * l.cores;
  }
  std::vector<uint64_t> core_times() {
    std::vector<uint64_t> all;
    for (size_t i = 0; i < loads_.size(); ++i) all.push_back(core_time(i));
    return all;
  }
  /// Each load's part of the core time that all have had since `before`.
  std::vector<double> shares(const std::vector<uint64_t> &before = {}) {
    std::vector<uint64_t> time = core_times();
    for (size_t i = 0; i < before.size(); ++i) time[i] -= before[i];
    const auto sum = static_cast<double>(std::accumulate(time.begin(), time.end(), uint64_t{0}));
    std::vector<double> parts;
    for (uint64_t t : time) parts.push_back(static_cast<double>(t) / sum);
    return parts;
  }
  std::vector<double> share(unsigned cores, const std::vector<Load> &loads, uint64_t cycles) {
    start(cores);
    for (const Load &l : loads) add(l, cycles);
    pass(cycles);
    return shares();
  }
  uint64_t busy(unsigned core) { return m->r64(NPU_CORE_REG(core, NPU_CORE_BUSY_CYCLES)); }
  double utilisation(uint64_t cycles) {
    uint64_t sum = 0;
    for (unsigned c = 0; c < cores_; ++c) sum += busy(c);
    return static_cast<double>(sum) / static_cast<double>(cycles * cores_);
  }

  std::unique_ptr<Machine> m;

 private:
  struct Added {
    Load load;
    unsigned first;
  };
  std::vector<Added> loads_;
  unsigned cores_ = 0, next_queue_ = 0;
};

#define EXPECT_SHARE(share, expected) EXPECT_NEAR(share, expected, 0.1 * (expected))

constexpr uint64_t kWhile = 12'000'000;  // cycles, nearly 200 long jobs

TEST_F(Sharing, ManyQueuesOfGangsGetNoMoreThanOneQueue) {
  const Load many{1, 30, kLongJob, 2};
  // Gangs as long and shorter ones, and jobs of one core, for whose end the gangs have to wait.
  for (const Load &one :
       {Load{2, 1, kLongJob, 2}, Load{2, 1, kShortJob, 2}, Load{2, 1, kLongJob, 1}, Load{2, 1, kShortJob, 1}}) {
    SCOPED_TRACE(::testing::Message() << one.nops << " commands on " << one.cores);
    for (double part : share(2, {many, one}, kWhile)) EXPECT_SHARE(part, 0.5);
  }
  for (double part : share(4, {many, {2, 1, kLongJob, 2}}, kWhile)) EXPECT_SHARE(part, 0.5);
  for (double part : share(2, {many, {2, 30, kShortJob, 1}}, kWhile)) EXPECT_SHARE(part, 0.5);
}

TEST_F(Sharing, ManyQueuesGetNoMoreThanOneQueue) {
  for (unsigned many : {kShortJob, kLongJob})
    for (unsigned one : {kShortJob, kLongJob})
      for (unsigned cores : {1u, 2u}) {
        SCOPED_TRACE(::testing::Message() << many << " and " << one << " commands, cores " << cores);
        for (double part : share(cores, {{1, 62, many}, {2, 1, one}}, kWhile)) EXPECT_SHARE(part, 0.5);
        EXPECT_GT(utilisation(kWhile), 0.99);
      }
}

TEST_F(Sharing, ThreeAddressSpacesGetAThirdEach) {
  for (unsigned cores : {1u, 2u, 4u}) {
    SCOPED_TRACE(cores);
    for (double part : share(cores, {{1, 40, kLongJob}, {2, 8, kLongJob / 2}, {3, 20, kShortJob}}, kWhile))
      EXPECT_SHARE(part, 1.0 / 3);
    EXPECT_GT(utilisation(kWhile), 0.99);
  }
  // A core that is reserved for a gang counts, too, so that its jobs run for less.
  const auto parts = share(2, {{1, 40, kLongJob}, {2, 20, kLongJob, 2}, {3, 20, kShortJob}}, kWhile);
  EXPECT_NEAR(parts[0], parts[2], 0.02);
  EXPECT_GT(parts[1], 0.25);
}

TEST_F(Sharing, OneAddressSpaceAloneGetsAllCores) {
  for (unsigned queues : {8u, 30u}) {
    start(8);
    add({3, queues, kLongJob}, kWhile);
    pass(kWhile);
    for (unsigned c = 0; c < 8; ++c) EXPECT_EQ(busy(c), kWhile) << c;
  }
}

/// An address space that can use few cores leaves the others to those that can.
TEST_F(Sharing, WhatOneCannotUseIsNotLost) {
  const auto parts = share(8, {{1, 1, kLongJob}, {2, 20, kLongJob}, {3, 20, kShortJob}}, kWhile);
  EXPECT_SHARE(parts[0], 1.0 / 8);
  EXPECT_SHARE(parts[1], 3.5 / 8);
  EXPECT_SHARE(parts[2], 3.5 / 8);
  EXPECT_GT(utilisation(kWhile), 0.99);
}

// ---- time before ----

TEST_F(Sharing, TimeWithoutJobsGivesNoCredit) {
  constexpr uint64_t kEach = 4'000'000;
  for (bool gangs : {false, true}) {
    SCOPED_TRACE(gangs);
    start(2);
    const Load early{1, 10, kLongJob, gangs ? 2u : 1u}, late{2, 10, kShortJob};
    add(early, 3 * kEach);
    pass(2 * kEach);
    add(late, kEach);
    const auto before = core_times();
    pass(kEach);
    const uint64_t first = core_times()[0] - before[0];
    EXPECT_SHARE(static_cast<double>(first), static_cast<double>(kEach));
    for (double part : shares({before[0], 0})) EXPECT_SHARE(part, 0.5);
  }
}

/// A new address space does not get what another one, which could not use it, has left to a third.
TEST_F(Sharing, ANewcomerHasNoCreditOfOthers) {
  constexpr uint64_t kEach = 4'000'000;
  start(8);
  add({1, 1, kLongJob}, 3 * kEach);
  add({2, 30, kLongJob}, 3 * kEach);
  pass(2 * kEach);
  add({3, 30, kLongJob}, kEach);
  auto before = core_times();
  before[2] = 0;
  pass(kEach);
  const auto parts = shares(before);
  EXPECT_SHARE(parts[1], 3.5 / 8);
  EXPECT_SHARE(parts[2], 3.5 / 8);
}

TEST_F(Sharing, ASnapshotHasTheAccounts) {
  constexpr uint64_t kJob = kLongJob * kNop;
  start(1);
  add({1, 4, kLongJob}, 8 * kJob);
  m->board.next(m->model());
  const size_t other = add({2, 1, kShortJob}, 8 * kJob);
  pass(kJob);
  std::vector<uint8_t> bytes;
  const auto put = [](void *to, const void *data, size_t size) {
    static_cast<std::vector<uint8_t> *>(to)->assign(static_cast<const uint8_t *>(data),
                                                    static_cast<const uint8_t *>(data) + size);
    return 0;
  };
  ASSERT_EQ(npu_model_save(m->model(), put, &bytes, nullptr, 0), 0);
  ASSERT_EQ(npu_model_load(m->model(), bytes.data(), bytes.size(), nullptr, 0), 0);
  pass(kJob);
  EXPECT_EQ(core_time(other), kJob) << "it makes up for the job of the first address space";
}

// ---- priority ----

TEST_F(Sharing, PriorityPrecedesButStarvesNobody) {
  // 8 arbitrations make up for a step of priority.
  for (uint32_t high = 1; high <= 3; ++high)
    for (uint32_t low = 0; low < high; ++low) {
      SCOPED_TRACE(::testing::Message() << low << " beside " << high);
      const auto parts = share(1, {{1, 3, kShortJob, 1, 0, low}, {2, 30, kShortJob, 1, 0, high}}, kWhile);
      EXPECT_SHARE(parts[0], 1.0 / (1 + 8 * (high - low)));
    }
}

TEST_F(Sharing, PriorityPrecedesWhateverTheCoreTime) {
  start(1);
  add({1, 10, kLongJob, 1, 0, 2}, kWhile);
  pass(kWhile / 2);
  add({2, 10, kLongJob}, kWhile);
  auto before = core_times();
  before[1] = 0;
  pass(kWhile / 2);
  EXPECT_SHARE(shares(before)[0], 8.0 / 9);
}

TEST_F(Sharing, LongJobsOfLowPriorityGetNoMoreThanTheirShare) {
  const auto parts = share(1, {{1, 3, kLongJob, 1, 0, 0}, {2, 3, kShortJob}}, kWhile);
  EXPECT_LT(parts[0], 0.55);
  EXPECT_GT(parts[0], 0.1);
}

TEST_F(Sharing, WithinAnAddressSpacePriorityIsThatOfTheQueue) {
  start(1);
  add({1, 1, kShortJob, 1, 0, 1}, kWhile);
  add({1, 1, kShortJob, 1, 0, 2}, kWhile);
  add({2, 20, kShortJob, 1, 0, 2}, kWhile);
  pass(kWhile);
  const auto parts = shares();
  EXPECT_SHARE(parts[2], 0.5);
  EXPECT_SHARE(parts[0], 0.5 / 9);
}

// ---- core masks ----

TEST_F(Sharing, AQueueThatIsBoundToACoreIsServed) {
  for (unsigned cores : {2u, 8u}) {
    SCOPED_TRACE(cores);
    start(cores);
    // One queue of the second address space keeps taking the core that its job before had.
    add({1, 20, kShortJob}, kWhile);
    const size_t bound = add({1, 1, kShortJob, 1, 1}, kWhile), other = add({2, 1, kShortJob}, kWhile);
    pass(kWhile / 2);
    const uint64_t half = jobs(bound, 0);
    EXPECT_GT(half, kWhile / 2 / (kShortJob * kNop) / 500) << half;
    pass(kWhile / 2);
    EXPECT_GE(jobs(bound, 0), 2 * half - half / 5);
    EXPECT_SHARE(static_cast<double>(core_time(other)), static_cast<double>(kWhile));
  }
}

TEST_F(Sharing, AGangIsServedBesideAQueueThatIsBoundToACore) {
  start(2);
  add({1, 20, kShortJob}, kWhile);
  const size_t gang = add({1, 1, kShortJob, 2}, kWhile);
  add({2, 1, kShortJob, 1, 1}, kWhile);
  pass(kWhile);
  EXPECT_GT(jobs(gang, 0), 10u);
}

/// An overdue address space gets little out of turn beside its core time elsewhere, however long the job is.
TEST_F(Sharing, ABoundQueueTakesLittleOutOfTurn) {
  start(2);
  add({1, 1, kShortJob, 1, 2}, kWhile);
  const size_t bound = add({1, 1, 10 * kLongJob, 1, 1}, kWhile), other = add({2, 1, kShortJob, 1, 1}, kWhile);
  pass(kWhile);
  EXPECT_GT(core_time(bound), 0u);
  EXPECT_GT(static_cast<double>(core_time(other)), 0.85 * static_cast<double>(kWhile));
}

// ---- the instant of a choice ----

/// The arbiter chooses when something happens, not when software reads a register.
TEST_F(Sharing, DoesNotDependOnWhenRegistersAreRead) {
  const auto story = [&](uint64_t step, unsigned number) {
    start(4, number % 2);
    m->board.take_trace();
    std::minstd_rand random(number + 1);
    const auto any = [&](unsigned first, unsigned last) {
      return std::uniform_int_distribution<unsigned>(first, last)(random);
    };
    for (unsigned i = 0; i < 5; ++i) {
      const uint32_t mask = any(1, 15);
      add({any(1, 3), any(1, 6), any(1, 12), any(1, static_cast<unsigned>(std::popcount(mask))), mask, any(0, 2)},
          300'000);
    }
    for (uint64_t left = 300'000; left; left -= std::min(left, step)) {
      m->r32(NPU_REG_CORE_BUSY);
      pass(std::min(left, step));
    }
    return m->board.take_trace();
  };
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(story(9973, i), story(101, i)) << i;
}

// ---- the arbiter alone ----

/// Cores without a chip: jobs last as long as the test says.
class ArbiterAlone : public ::testing::Test {
 protected:
  using Arbiter = model::Arbiter;

  explicit ArbiterAlone(unsigned cores = 2) : cores_(cores) {}

  void want(unsigned queue, uint32_t asid, uint32_t mask = 0b11, unsigned cores = 1, uint32_t priority = 1) {
    arbiter.set_work(queue, asid, true);
    arbiter.add({queue, asid, mask, cores, priority});
  }
  /// The queue whose job begins with this core, or -1.
  int pick(unsigned core) {
    const auto grant = arbiter.pick(core, now);
    return grant ? static_cast<int>(grant->queue) : -1;
  }
  void end(uint32_t cores, uint64_t cycles) { arbiter.release(cores, cycles, now += cycles); }

  Arbiter arbiter{16, 8};
  uint64_t now = 0;
  unsigned cores_;
};

TEST_F(ArbiterAlone, CreditIsLimited) {
  // The first address space has entries and no job for a long time, as one whose jobs are short.
  arbiter.set_work(0, 1, true);
  constexpr uint64_t kLimit = Arbiter::kMostCredit, kJob = kLimit / 8;
  for (unsigned i = 0; i < 40; ++i) {
    want(1, 2);
    ASSERT_EQ(pick(0), 1);
    end(0b01, kJob);
  }
  // Now it has jobs, and gets as much as the limit before the other one is served again.
  uint64_t first = 0;
  for (;;) {
    if (first == 0) want(1, 2);
    want(0, 1);
    if (pick(0) == 1) break;
    end(0b01, kJob);
    first += kJob;
    ASSERT_LT(first, 3 * kLimit);
  }
  EXPECT_GE(first, kLimit);
  EXPECT_LE(first, kLimit + 2 * kJob);
}

TEST_F(ArbiterAlone, EqualOnesTakeTurns) {
  want(0, 1);
  ASSERT_EQ(pick(0), 0);
  end(0b01, 1'000'000);
  want(1, 2);
  ASSERT_EQ(pick(0), 1);
  end(0b01, 1'000'000);
  // The one that was served last comes back first.
  want(1, 2);
  want(0, 1);
  EXPECT_EQ(pick(0), 0);
}

TEST_F(ArbiterAlone, CoresThatAreReservedCount) {
  want(0, 2, 0b01);
  ASSERT_EQ(pick(0), 0);
  want(1, 1, 0b11, 2);
  ASSERT_EQ(pick(1), -1);
  EXPECT_EQ(arbiter.reserved(), 0b10u);
  end(0b01, 1'000'000);
  ASSERT_EQ(pick(0), 1);
  end(0b11, 1'000'000);
  // 2 million core cycles of the gang's job and 1 million in which a core was reserved: three jobs of the other.
  want(1, 1);
  for (unsigned i = 0; i < 2; ++i) {
    want(0, 2);
    EXPECT_EQ(pick(0), 0) << i;
    end(0b01, 1'000'000);
  }
  want(0, 2);
  EXPECT_EQ(pick(0), 1) << "both have had 3 million, and this one was served longer ago";
}

TEST_F(ArbiterAlone, ReservedCoresThatAreGivenBackCount) {
  want(0, 2, 0b01);
  ASSERT_EQ(pick(0), 0);
  want(1, 1, 0b11, 2);
  ASSERT_EQ(pick(1), -1);
  now += 5'000'000;
  arbiter.remove(1, now);
  EXPECT_EQ(arbiter.reserved(), 0u);
  arbiter.release(0b01, 1'000'000, now += 1);
  want(1, 1);
  want(0, 2, 0b11);
  EXPECT_EQ(pick(0), 1) << "5 million against 5 million and one";
}

TEST_F(ArbiterAlone, JobsThatTakeNoTimeCount) {
  want(0, 1, 0b01);
  ASSERT_EQ(pick(0), 0);
  end(0b01, 100 * Arbiter::kLeastCycles);
  want(0, 1, 0b01);
  unsigned empty = 0;
  for (; want(1, 2, 0b01), pick(0) == 1; ++empty) {
    end(0b01, 0);
    ASSERT_LT(empty, 200u);
  }
  EXPECT_GT(empty, 90u);
}

}  // namespace
}  // namespace npu::test
