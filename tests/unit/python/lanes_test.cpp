// SPDX-License-Identifier: MIT
// Launches of many threads, and of lanes, while what they use is closed under them.
#include "python/native/lanes.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/unit/runtime/models.h"

namespace {

using namespace npu::python;

constexpr size_t kCount = 16;
using Floats = std::vector<float>;

/// What "affine" computes, of numbers that are all the same.
Floats affine_of(float x) {
  Floats y(kCount);
  for (size_t i = 0; i < kCount; ++i) y[i] = 2 * x + static_cast<float>(i + 1);
  return y;
}

class Lanes : public testing::Test {
 protected:
  Lanes() {
    const std::vector<uint8_t> model = test_models::sample();
    runtime->load(model.data(), model.size());
  }

  Launch launch(const Floats &x) const {
    Launch made;
    made.runtime = runtime;
    made.network = "affine";
    made.inputs.push_back({x.data(), BM_FLOAT32, {kCount}, nullptr});
    made.outputs.resize(1);
    made.check();
    return made;
  }

  static Floats result(const Launch &done) {
    const auto *const y = static_cast<const float *>(done.outputs[0].own.get());
    return {y, y + kCount};
  }

  DevicePtr device = std::make_shared<Device>(0);
  RuntimePtr runtime = std::make_shared<Runtime>(std::vector{device});
};

/// Until one fails; how many were right, and the failure.
struct Count {
  int right = 0, wrong = 0;
  std::string error;
};

TEST_F(Lanes, ClosingWaitsForLaunchesOfThreads) {
  std::atomic<int> begun{0};
  std::vector<Count> counts(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < counts.size(); ++t)
    threads.emplace_back([&, t] {
      try {
        for (int round = 0;; ++round, ++begun) {
          const auto number = static_cast<float>(t * 1000) + static_cast<float>(round);
          const Floats x(kCount, number);
          Launch one = launch(x);
          one.run();
          ++(result(one) == affine_of(number) ? counts[t].right : counts[t].wrong);
        }
      } catch (const Failure &failure) {
        counts[t].error = failure.what();
      }
    });
  while (begun < 100) std::this_thread::yield();
  runtime->close();
  EXPECT_EQ(runtime->in_flight(), 0);
  for (std::thread &thread : threads) thread.join();
  for (const Count &count : counts) {
    EXPECT_EQ(count.error, "the session is closed");
    EXPECT_EQ(count.wrong, 0);
  }
}

TEST_F(Lanes, EveryJobThatIsTakenIsDoneOnceAlsoWhenLanesStop) {
  constexpr size_t kThreads = 4, kJobs = 200;
  npu::python::Lanes lanes;
  const auto completions = std::make_shared<Completions>();
  std::vector<Floats> inputs;
  for (size_t i = 0; i < kThreads * kJobs; ++i) inputs.emplace_back(kCount, static_cast<float>(i));
  std::vector<std::vector<JobPtr>> taken(kThreads);
  std::atomic<size_t> submitted{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      try {
        for (size_t i = t * kJobs; i < (t + 1) * kJobs; ++i, ++submitted) {
          const auto job = std::make_shared<Job>();
          job->launch = launch(inputs[i]);
          job->unwanted = i % 7 == 3;
          lanes.submit(job, completions);
          taken[t].push_back(job);
        }
      } catch (const Failure &failure) {
        EXPECT_STREQ(failure.what(), "the session is closed");
      }
    });
  std::map<JobPtr, int> done;
  const auto take = [&] {
    for (const JobPtr &job : completions->take()) ++done[job];
  };
  while (submitted < kThreads * kJobs / 4) take();
  lanes.stop();
  for (std::thread &thread : threads) thread.join();
  pollfd ready{completions->fd(), POLLIN, 0};
  while (poll(&ready, 1, 0) == 1) take();

  size_t all = 0;
  for (size_t t = 0; t < kThreads; ++t)
    for (size_t i = 0; i < taken[t].size(); ++i, ++all) {
      const JobPtr &job = taken[t][i];
      EXPECT_EQ(done[job], 1);
      EXPECT_EQ(job->error, "");
      if (job->cancelled) continue;
      EXPECT_EQ(result(job->launch), affine_of(static_cast<float>(t * kJobs + i)));
    }
  EXPECT_EQ(done.size(), all);
  EXPECT_LE(lanes.threads(), npu::python::Lanes::kMost);
}

TEST_F(Lanes, AJobThatFailsSaysWhyAndTheNextOneIsRight) {
  npu::python::Lanes lanes;
  const auto completions = std::make_shared<Completions>();
  const Floats x(kCount, 3);
  const auto wrong = std::make_shared<Job>(), right = std::make_shared<Job>();
  wrong->launch = launch(x);
  wrong->launch.inputs[0].shape = {kCount / 2};
  right->launch = launch(x);
  lanes.submit(wrong, completions);
  lanes.submit(right, completions);
  std::vector<JobPtr> done;
  pollfd ready{completions->fd(), POLLIN, 0};
  while (done.size() < 2) {
    ASSERT_EQ(poll(&ready, 1, -1), 1);
    for (JobPtr &job : completions->take()) done.push_back(std::move(job));
  }
  EXPECT_NE(wrong->error.find("[8]"), std::string::npos) << wrong->error;
  EXPECT_EQ(right->error, "");
  EXPECT_EQ(result(right->launch), affine_of(3));
}

TEST_F(Lanes, ThreadsMapOneTensor) {
  const auto tensor = std::make_shared<Tensor>(device, Shape{4096}, BM_UINT8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([tensor, t] {
      for (int round = 0; round < 20; ++round) {
        const Tensor part = tensor->view({512}, t * 512);
        Tensor(part).map()[0] = static_cast<uint8_t>(t + 1);
        Tensor(part).flush();
      }
    });
  for (std::thread &thread : threads) thread.join();
  std::vector<uint8_t> bytes(4096);
  tensor->read(bytes.data());
  for (size_t t = 0; t < 8; ++t) EXPECT_EQ(bytes[t * 512], t + 1);
}

}  // namespace
