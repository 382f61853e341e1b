// SPDX-License-Identifier: MIT
// The same for each sample, on several threads.
#include "compiler/quantize/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>

namespace npu::test {
namespace {

/// A stack that no address space has, for all threads from now on: none can be started.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_init(&before_);
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 60);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads &) = delete;
  NoThreads &operator=(const NoThreads &) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Parallel, GoesOnWithTheThreadsThatThereAre) {
  const NoThreads none;
  quantize::Options options;
  options.threads = 4;
  std::atomic<size_t> sum = 0;
  const Status status = quantize::for_each(10, "test", options, [&](size_t i, size_t) {
    sum += i;
    return Status();
  });
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(sum, 45u);
}

TEST(Parallel, ReturnsTheErrorOfTheSmallestIndex) {
  quantize::Options options;
  options.threads = 4;
  const Status status = quantize::for_each(10, "test", options,
                                           [](size_t i, size_t) { return i == 3 ? Status::error("three") : Status(); });
  EXPECT_EQ(status.message(), "three");
}

}  // namespace
}  // namespace npu::test
