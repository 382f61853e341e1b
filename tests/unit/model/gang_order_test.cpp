// SPDX-License-Identifier: MIT
// Random programs of several cores without races: what their cores compute at the same time is what one thread computes
// in order, with errors or without.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint32_t kSlot = 16 << 10, kSlots = 12, kLocalSlots = 4;
constexpr uint64_t kRecords = 256 << 10;

/// Commands in the order of their making, with the semaphores that they need: each engine signals one of its own.
class Program {
 public:
  Program(unsigned cores, unsigned seed) : cores_(cores), random_(seed), known_(2 * cores, Clock(2 * cores)) {
    slots_.resize(kSlots + cores * kLocalSlots, {0, 0, Clock(2 * cores)});
    signals_.resize(2 * cores);
    signalled_.resize(2 * cores);
  }

  JobSpec make(unsigned commands) {
    job_.at(cores_ - 1, kTiu);
    while (commands--) {
      const unsigned core = upto(cores_ - 1), local = kSlots + core * kLocalSlots + upto(kLocalSlots - 1);
      const unsigned shared = upto(kSlots - 1), other = upto(kSlots - 1), bytes = 64u << upto(8);
      const unsigned gdma = 2 * core + kGdma;
      switch (upto(3)) {
        case 0:
          add(2 * core + kTiu, local, local, with<npu_cmd_unary>([&](npu_cmd_unary &c) {
                c.subop = NPU_ACT_SIGMOID;
                c.count = bytes / 4;
                c.in_addr = c.out_addr = at(local);
              }));
          break;
        case 1:
          add(gdma, shared, local, copy(shared, local, bytes));
          break;
        case 2:
          if (shared != other) add(gdma, shared, other, copy(shared, other, bytes));
          break;
        default:
          add(gdma, local, shared, copy(local, shared, bytes));
      }
    }
    return job_;
  }
  unsigned upto(unsigned n) { return random_() % (n + 1); }

 private:
  /// Commands of each engine that are known to be over.
  using Clock = std::vector<size_t>;
  struct Slot {
    unsigned writer = 0;
    size_t written = 0;  ///< by the command of that number, from 1
    Clock read;          ///< likewise, an engine
  };

  std::vector<Cmd> &stream(unsigned engine) { return job_.at(engine / 2, engine % 2); }
  static uint32_t at(unsigned slot) { return slot < kSlots ? slot * kSlot : (slot - kSlots) % kLocalSlots * kSlot; }
  static uint8_t region(unsigned slot) { return slot < kSlots ? 0 : NPU_REGION_LOCAL; }
  static Cmd copy(unsigned from, unsigned to, uint32_t bytes) {
    return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
      c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
      c.src_region = region(from);
      c.src_offset = at(from);
      c.dst_region = region(to);
      c.dst_offset = at(to);
      std::fill_n(c.dims, 6, 1u);
      c.dims[5] = bytes;
      c.src_stride[5] = c.dst_stride[5] = 1;
    });
  }

  /// Gives the engine a command that reads one slot and writes one, behind all that it must follow.
  void add(unsigned engine, unsigned from, unsigned to, const Cmd &command) {
    for (unsigned number : {from, to})
      if (slots_[number].written) follow(engine, slots_[number].writer, slots_[number].written);
    for (unsigned e = 0; e < 2 * cores_; ++e)
      if (slots_[to].read[e]) follow(engine, e, slots_[to].read[e]);
    stream(engine).push_back(command);
    slots_[from].read[engine] = stream(engine).size();
    slots_[to] = {engine, stream(engine).size(), Clock(2 * cores_)};
  }
  void follow(unsigned engine, unsigned other, size_t count) {
    if (engine == other || known_[engine][other] >= count) return;
    if (signalled_[other] < count) {
      stream(other).push_back(with<npu_cmd_sem_signal>([&](npu_cmd_sem_signal &c) {
        c.sem = other;
        c.value = 1;
      }));
      ++signals_[other];
      signalled_[other] = stream(other).size();
    }
    stream(engine).push_back(with<npu_cmd_sem_wait>([&](npu_cmd_sem_wait &c) {
      c.sem = other;
      c.value = signals_[other];
    }));
    known_[engine][other] = signalled_[other];
  }

  const unsigned cores_;
  std::minstd_rand random_;
  JobSpec job_;
  std::vector<Clock> known_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> signals_;
  Clock signalled_;  ///< number of the last signal's command
};

/// All that a run leaves.
struct Outcome {
  npu_cqe entry;
  std::vector<uint8_t> data, profile;
  std::vector<uint64_t> counters;
};

class GangOrder : public testing::TestWithParam<unsigned> {
 protected:
  struct Bench {
    Machine m;
    const Area data = m.allocate(kSlots * kSlot, Place::System), records = m.allocate(kRecords);
    explicit Bench(unsigned cores) : m({.cores = cores}) {}
  };
  std::unique_ptr<Bench> bench_;

  Outcome run(JobSpec job, bool one_thread) {
    std::vector<uint8_t> bytes(bench_->data.bytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>((i * 11 + i / 1000) & 0x3f);
    bench_->m.put(bench_->data, 0, bytes.data(), bytes.size());
    bytes.assign(kRecords, 0);
    bench_->m.put(bench_->records, 0, bytes.data(), kRecords);
    npu_model_check_races(bench_->m.model(), one_thread);
    const std::vector<uint64_t> before = counters();
    Outcome o;
    o.entry = bench_->m.run(job);
    o.counters = counters();
    for (size_t i = 0; i < before.size(); ++i) o.counters[i] -= before[i];
    o.data = bench_->m.content(bench_->data);
    o.profile = bench_->m.content(bench_->records);
    std::fill_n(o.profile.begin() + offsetof(npu_profile_header, job_id), 8, 0);
    std::fill_n(o.profile.begin() + offsetof(npu_profile_header, begin_ns), 16, 0);
    return o;
  }
  /// Of all cores: those that grow.
  std::vector<uint64_t> counters() {
    std::vector<uint64_t> all;
    for (unsigned core = 0; core < GetParam(); ++core)
      for (uint32_t r : {NPU_CORE_BUSY_CYCLES, NPU_CORE_TIU_CYCLES, NPU_CORE_GDMA_CYCLES, NPU_CORE_JOBS})
        all.push_back(bench_->m.r64(NPU_CORE_REG(core, r)));
    return all;
  }
  std::vector<uint32_t> retired() {
    std::vector<uint32_t> all;
    for (unsigned core = 0; core < GetParam(); ++core)
      for (uint32_t r : {NPU_CORE_TIU_COMMAND, NPU_CORE_GDMA_COMMAND})
        all.push_back(bench_->m.r32(NPU_CORE_REG(core, r)));
    return all;
  }
};

TEST_P(GangOrder, IsThatOfOneThread) {
  const char *runs = std::getenv("NPU_TEST_RUNS"), *first = std::getenv("NPU_TEST_SEED");
  const unsigned from = first ? static_cast<unsigned>(std::atoi(first)) : 1;
  const unsigned to = from + (runs ? static_cast<unsigned>(std::atoi(runs)) : 40);
  unsigned failed = 0;
  for (unsigned seed = from; seed < to; ++seed) {
    if (seed % 16 == 0) bench_.reset();  // memory for jobs is not given back
    if (!bench_) bench_ = std::make_unique<Bench>(GetParam());
    SCOPED_TRACE("seed " + std::to_string(seed));
    Program program(GetParam(), seed);
    JobSpec job = program.make(20 + program.upto(200));
    job.regions = {bench_->data.region(), bench_->records.region()};
    job.flags |= NPU_JOB_PROFILE;
    job.profile_region = 1;
    job.profile_bytes = kRecords;
    const uint64_t bad =
        bench_->m.physical(0, bench_->data.va + program.upto(kSlots - 1) * kSlot + program.upto(3) * kPage);
    const bool faulty = seed % 3 == 0;
    if (faulty) bench_->m.board.poison(bad);
    const Outcome one = run(job, true);
    ASSERT_NE(one.entry.status, NPU_STATUS_INTERNAL) << "a race";
    const std::vector<uint32_t> all = retired();
    for (unsigned i = 0; i < 3; ++i) {
      const Outcome many = run(job, false);
      ASSERT_STATUS(many.entry, one.entry.status);
      ASSERT_EQ(many.entry.core, one.entry.core);
      ASSERT_EQ(many.entry.engine, one.entry.engine);
      ASSERT_EQ(many.entry.command, one.entry.command);
      ASSERT_EQ(many.entry.offset, one.entry.offset);
      ASSERT_EQ(many.entry.fault_addr, one.entry.fault_addr);
      ASSERT_EQ(many.entry.end_cycle - many.entry.start_cycle, one.entry.end_cycle - one.entry.start_cycle);
      ASSERT_EQ(many.counters, one.counters);
      ASSERT_TRUE(many.profile == one.profile);
      if (one.entry.status) continue;
      ASSERT_TRUE(many.data == one.data);
      ASSERT_EQ(retired(), all);
    }
    failed += one.entry.status != NPU_STATUS_OK;
    if (faulty) bench_->m.board.cure(bad);
  }
  EXPECT_GT(failed, 0u);
}
INSTANTIATE_TEST_SUITE_P(Cores, GangOrder, testing::Values(2u, 4u, 8u));

/// Everything that can end or hold up jobs, while several gangs and small jobs are under way.
class GangTrouble : public testing::TestWithParam<unsigned> {};

TEST_P(GangTrouble, EndsWhateverComesTogether) {
  const unsigned cores = GetParam();
  const char *runs = std::getenv("NPU_TEST_RUNS"), *first = std::getenv("NPU_TEST_SEED");
  const unsigned from = first ? static_cast<unsigned>(std::atoi(first)) : 1;
  const unsigned to = from + (runs ? static_cast<unsigned>(std::atoi(runs)) : 10);
  for (unsigned seed = from; seed < to; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Machine m({.cores = cores});
    std::minstd_rand random(seed);
    const auto upto = [&](unsigned n) { return random() % (n + 1); };
    constexpr unsigned kQueues = 5, kJobs = 3;
    std::vector<Prepared> jobs;
    Area data;  // of a queue: its jobs run one after the other
    for (unsigned i = 0; i < kQueues * kJobs; ++i) {
      if (i % kJobs == 0) data = m.allocate(kSlots * kSlot, Place::System);
      JobSpec job = Program(1 + upto(cores - 1), random()).make(10 + upto(300));
      job.regions = {data.region()};
      jobs.push_back(m.prepare(0, job));
    }
    unsigned pending[kQueues] = {};
    const uint64_t bad = m.physical(0, data.va);
    bool paused = false;
    for (unsigned n = 0; n < kQueues; ++n) m.queue(n, {.priority = n % 4});
    for (unsigned i = 0; i < 300; ++i) {
      const unsigned n = upto(kQueues - 1);
      TestQueue &q = m.queue(n);
      switch (upto(40)) {
        case 0:
        case 1:
        case 2:
          npu_model_pause(m.model(), paused = !paused);
          break;
        case 3:
        case 4:
          q.abort(q.last_id() - upto(3));
          break;
        case 5:
          m.w32(NPU_REG_CORE_RESET, 1 + upto((1u << cores) - 2));
          break;
        case 6:
          npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG_AFTER, upto(20));
          npu_model_set_fault(m.model(), NPU_MODEL_FAULT_HANG + upto(2), upto(2));
          break;
        case 7:
          for (unsigned fault : {NPU_MODEL_FAULT_HANG, NPU_MODEL_FAULT_STUCK_ABORT, NPU_MODEL_FAULT_STUCK_CORE})
            npu_model_set_fault(m.model(), fault, 0);
          break;
        case 8:
          m.board.poison(bad);
          break;
        case 9:
          m.board.cure(bad);
          break;
        case 10:
          if (upto(3)) break;
          m.reset();
          m.bring_up();
          for (unsigned k = 0; k < kQueues; ++k) {
            m.queue(k).enable();
            pending[k] = 0;
          }
          break;
        default:
          if (pending[n] < 10) {
            q.submit(jobs[n * kJobs + upto(kJobs - 1)]);
            ++pending[n];
          }
      }
      while (pending[n] && q.poll()) --pending[n];
    }
    if (seed % 3 == 0) continue;  // the model ends in the middle of it
    if (paused) npu_model_pause(m.model(), false);
    for (unsigned fault : {NPU_MODEL_FAULT_HANG, NPU_MODEL_FAULT_STUCK_ABORT, NPU_MODEL_FAULT_STUCK_CORE})
      npu_model_set_fault(m.model(), fault, 0);
    for (unsigned n = 0; n < kQueues; ++n)
      for (; pending[n]; --pending[n]) m.queue(n).wait();
    eventually([&] { return m.r32(NPU_REG_CORE_BUSY) == 0; }, "idle cores");
    npu_model_pause(m.model(), true);  // all rest, and are counted so
    npu_model_pause(m.model(), false);
  }
}
INSTANTIATE_TEST_SUITE_P(Cores, GangTrouble, testing::Values(2u, 4u, 8u));

}  // namespace
}  // namespace npu::test
