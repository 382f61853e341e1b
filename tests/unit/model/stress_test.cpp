// SPDX-License-Identifier: MIT
// Everything at once: many queues on several threads, random aborts, disables, invalidations, core and device resets.
// What must hold: completions in order and exactly once, right results of the jobs that say OK, an end.
#include <algorithm>
#include <random>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr unsigned kQueues = 12, kRounds = 60;

/// A job that writes `value` over an area, with some commands on both engines around.
JobSpec writer(const Area &a, uint64_t value, unsigned extra) {
  JobSpec j;
  j.regions = {a.region()};
  j.gdma(with<npu_cmd_fill>([&](npu_cmd_fill &c) {
    c.dst_dtype = NPU_DTYPE_S64;
    c.value = value;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = static_cast<uint32_t>(a.bytes / 8);
    c.dst_stride[5] = 1;
  }));
  for (unsigned i = 0; i < extra; ++i) j.tiu(nop(i % 2)).gdma(nop(i));
  return j;
}

/// One queue's client: submits, aborts at random, disables at random, checks order and results.
class Client {
 public:
  Client(Machine &m, unsigned number)
      : m_(m),
        rng_(number),
        queue_(m.queue(number, {.asid = number % 4, .priority = number % 4, .vector = 1 + number % 4, .cq_log2 = 2})) {
    const Place place = kPlaces[number % 5];
    area_ = m.allocate(3 * kPage, place, number % 4);
    for (uint64_t v : {1, 2, 3}) jobs_.push_back(m.prepare(number % 4, writer(area_, v, 20)));
    JobSpec bad = writer(area_, 4, 5);
    bad.tiu(Cmd{});
    jobs_.push_back(m.prepare(number % 4, bad));
  }

  void run() {
    for (unsigned round = 0; round < kRounds; ++round) {
      const unsigned burst = 1 + rng_() % 6;
      uint64_t first = 0, last = 0;
      for (unsigned i = 0; i < burst; ++i) {
        kind_ = rng_() % jobs_.size();
        last = queue_.submit(jobs_[kind_]);
        if (!first) first = last;
      }
      if (rng_() % 3 == 0) queue_.abort(first + rng_() % burst);
      if (rng_() % 4 == 0)
        m_.invalidate(static_cast<uint32_t>(rng_() % 4), rng_() % 2 ? area_.va : 0, rng_() % 2 ? kPage : 0);
      if (rng_() % 8 == 0) {
        queue_.disable();
        EXPECT_FALSE(poll_beyond_end());
        queue_.enable();
        continue;
      }
      for (uint64_t id = first; id <= last; ++id) check(queue_.wait(), id, id == last);
    }
  }

 private:
  /// After a disable: completions already written are fine, later ones are not.
  bool poll_beyond_end() {
    while (queue_.poll(false)) {
    }
    std::this_thread::yield();
    return queue_.poll(false).has_value();
  }

  void check(const npu_cqe &c, uint64_t id, bool last) {
    ASSERT_EQ(c.job_id, id);
    ASSERT_TRUE(c.status == NPU_STATUS_OK || c.status == NPU_STATUS_ABORTED || c.status == NPU_STATUS_BAD_OPCODE)
        << status_name(c.status);
    if (!last || c.status != NPU_STATUS_OK) return;
    std::vector<uint64_t> v(area_.bytes / 8);
    m_.get(area_, 0, v.data(), area_.bytes);
    for (uint64_t x : v) ASSERT_EQ(x, kind_ + 1);
  }

  Machine &m_;
  std::mt19937 rng_;
  TestQueue &queue_;
  Area area_;
  std::vector<Prepared> jobs_;
  uint64_t kind_ = 0;
};

TEST(Stress, QueuesWithAbortsDisablesAndInvalidations) {
  Machine m({.cores = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned i = 0; i < kQueues; ++i) clients.push_back(std::make_unique<Client>(m, i));
  std::vector<std::thread> threads;
  for (auto &c : clients) threads.emplace_back([&] { c->run(); });
  for (auto &t : threads) t.join();
  const uint32_t issued = m.r32(NPU_REG_INV_ISSUED);
  m.wait_invalidated(issued);
  EXPECT_EQ(m.r32(NPU_REG_CORE_BUSY), 0u);
  EXPECT_STATUS(m.queue(0).run({}), NPU_STATUS_OK);
}

TEST(Stress, CoreResetsHitOnlyWhatRuns) {
  Machine m({.cores = 3});
  std::atomic<bool> done{false};
  std::thread chaos([&] {
    for (unsigned i = 0; !done; ++i) {
      m.w32(NPU_REG_CORE_RESET, 1u << i % 3);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  std::vector<Prepared> jobs;
  for (unsigned q = 0; q < 4; ++q) jobs.push_back(m.prepare(0, writer(m.allocate(kPage), 1, 50)));
  unsigned ok = 0;
  std::vector<uint64_t> id(4);
  for (unsigned i = 0; i < 300; ++i) {
    for (unsigned q = 0; q < 4; ++q) id[q] = m.queue(q).submit(jobs[q]);
    for (unsigned q = 0; q < 4; ++q) {
      const npu_cqe c = m.queue(q).wait();
      ASSERT_EQ(c.job_id, id[q]);
      ASSERT_TRUE(c.status == NPU_STATUS_OK || c.status == NPU_STATUS_CORE_RESET);
      ok += c.status == NPU_STATUS_OK;
    }
  }
  done = true;
  chaos.join();
  EXPECT_GT(ok, 0u);
}

TEST(Stress, DeviceResetsAtRandomMoments) {
  Machine m;
  std::vector<Prepared> jobs;
  for (unsigned q = 0; q < 8; ++q)
    jobs.push_back(m.prepare(0, writer(m.allocate(64 * kPage, Place::SystemScattered), 7, 30)));
  std::mt19937 rng(3);
  for (unsigned round = 0; round < 100; ++round) {
    for (unsigned q = 0; q < 6; ++q) {
      TestQueue &queue = m.queue(q);
      if (round) queue.enable();
      for (unsigned i = 0; i < 1 + rng() % 8; ++i) queue.submit(jobs[q]);
    }
    if (rng() % 2) m.invalidate(0);
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % 300));
    m.reset();
    for (unsigned q = 0; q < 6; ++q) {
      while (m.queue(q).poll(false)) {
      }
      ASSERT_EQ(m.queue(q).status(), 0u);
    }
    m.bring_up();
  }
  m.queue(7).enable();
  m.queue(7).submit(jobs[7]);
  EXPECT_STATUS(m.queue(7).wait(), NPU_STATUS_OK);
}

TEST(Stress, StopAtRandomMoments) {
  std::mt19937 rng(4);
  for (unsigned round = 0; round < 30; ++round) {
    Machine m;
    for (unsigned q = 0; q < 4; ++q) {
      const Prepared p = m.prepare(0, writer(m.allocate(16 * kPage), 7, 10));
      for (unsigned i = 0; i < 5; ++i) m.queue(q).submit(p);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % 300));
    m.stop();
  }
}

}  // namespace
}  // namespace npu::test
