// SPDX-License-Identifier: MIT
// A crew by itself: order within lanes, marks between them, with helpers and without, and its end.
#include "qemu-device/model/src/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

namespace npu::test {
namespace {

using model::Crew;
using model::Gate;
using model::Helper;

constexpr uint64_t kLong = 1 << 20;  // cycles that are worth a thread

/// Helpers of so many lanes, with their threads or without.
class Helpers {
 public:
  Helpers(unsigned lanes, bool threads) : helpers_(lanes) {
    if (!threads) return;
    for (Helper &helper : helpers_) {
      helper.expect_thread();
      threads_.emplace_back([&helper] { helper.serve(); });
    }
  }
  ~Helpers() {
    for (Helper &helper : helpers_) helper.leave();
    for (std::thread &thread : threads_) thread.join();
  }
  std::vector<Helper *> all() {
    std::vector<Helper *> all;
    for (Helper &helper : helpers_) all.push_back(&helper);
    return all;
  }

 private:
  std::deque<Helper> helpers_;
  std::vector<std::thread> threads_;
};

/// Lanes, seed, and whether helpers have threads.
class CrewOrder : public testing::TestWithParam<std::tuple<unsigned, unsigned, bool>> {};

TEST_P(CrewOrder, LanesKeepTheirsAndMarksHold) {
  const unsigned lanes = std::get<0>(GetParam()), seed = std::get<1>(GetParam());
  const bool threads = std::get<2>(GetParam());
  Helpers helpers(lanes, threads);
  std::minstd_rand random(seed);
  std::array<std::atomic<uint64_t>, NPU_MAX_CORES> done{};
  std::array<std::array<Crew::Marks, 3001>, NPU_MAX_CORES> wanted;
  std::atomic<unsigned> wrong{0};
  Gate gate;
  Crew crew(helpers.all(), &gate, [&](unsigned lane, uint64_t mark) {
    for (unsigned l = 0; l < lanes; ++l) wrong += done[l].load() < wanted[lane][mark][l];
    wrong += done[lane].fetch_add(1) + 1 != mark;
  });
  Crew::Marks added{}, after{};
  for (unsigned i = 0; i < 3000; ++i) {
    const unsigned lane = random() % lanes;
    if (random() % 4 == 0)
      for (unsigned l = 0; l < lanes; ++l) after[l] = added[l] ? random() % (added[l] + 1) : 0;
    EXPECT_EQ(crew.next_mark(lane), ++added[lane]);
    wanted[lane][added[lane]] = after;
    crew.add(lane, after, random() % 3 ? 100 : kLong);
    if (random() % 256 == 0) crew.reduce(random() % 64);
  }
  crew.reduce(0);
  for (unsigned l = 0; l < lanes; ++l) EXPECT_EQ(done[l], added[l]);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(gate.rest(0));
}
INSTANTIATE_TEST_SUITE_P(Random, CrewOrder,
                         testing::Combine(testing::Values(1u, 2u, 3u, 8u), testing::Range(1u, 6u), testing::Bool()));

TEST(Crew, LongWorkOfTwoLanesIsDoneAtTheSameTime) {
  Helpers helpers(2, true);
  std::atomic<unsigned> there{0};
  Crew crew(helpers.all(), nullptr, [&](unsigned, uint64_t) {
    ++there;
    while (there < 2) std::this_thread::yield();
  });
  crew.add(0, {}, kLong);
  crew.add(1, {}, kLong);
  crew.reduce(0);
  EXPECT_EQ(there, 2u);
}

TEST(Crew, ReduceLeavesWhatItMay) {
  Helpers helpers(2, false);
  unsigned done = 0;
  Crew crew(helpers.all(), nullptr, [&](unsigned, uint64_t) { ++done; });
  for (unsigned i = 0; i < 10; ++i) crew.add(i % 2, {}, 1);
  crew.reduce(4);
  EXPECT_EQ(done, 6u);
  crew.reduce(0);
  EXPECT_EQ(done, 10u);
}

TEST(Crew, HelpersSayWhenTheyLeave) {
  Helpers helpers(3, true);
  std::atomic<unsigned> there{0}, left{0};
  {
    Crew crew(
        helpers.all(), nullptr,
        [&](unsigned, uint64_t) {
          ++there;
          while (there < 3) std::this_thread::yield();
        },
        [&] { ++left; });
    for (unsigned lane = 0; lane < 3; ++lane) crew.add(lane, {}, kLong);
    crew.reduce(0);
    EXPECT_EQ(left, 0u);
  }
  EXPECT_EQ(left, 2u);
}

TEST(Crew, NobodyRestsWhileOneWorksWhateverTheOthersDo) {
  Gate gate;
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      const Gate::Work working(&gate);
      const Gate::Rest rest(&gate);
    }
  });
  unsigned wrong = 0;
  for (unsigned i = 0; i < 3000000; ++i) wrong += gate.rest(1);
  over = true;
  other.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(Crew, ItsEndDropsWhatHasNotBegun) {
  Helpers helpers(2, true);
  std::atomic<unsigned> done{0};
  const Crew::Work count = [&](unsigned, uint64_t) { ++done; };
  {
    Crew crew(helpers.all(), nullptr, count);
    crew.add(0, {}, kLong);
    crew.add(1, {1}, kLong);  // waits for what nobody does
  }
  EXPECT_EQ(done, 0u);
  Crew next(helpers.all(), nullptr, count);  // the helpers are free again
  next.add(1, {}, kLong);
  next.reduce(0);
  EXPECT_EQ(done, 1u);
}

}  // namespace
}  // namespace npu::test
