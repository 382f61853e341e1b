// SPDX-License-Identifier: MIT
// What is known of local memory's contents: each byte's origin against a map with one entry a byte.
#include "qemu-device/model/src/origins.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace npu::test {
namespace {

using model::Origins;

TEST(Origins, SayOfNoByteWhatIsNotSo) {
  std::mt19937 rng(1);
  Origins origins;
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> truth;  // local byte: where it comes from
  unsigned found = 0;
  for (unsigned i = 0; i < 20000; ++i) {
    const uint64_t first = rng() % 200, end = first + 1 + rng() % 60;
    if (rng() % 3) {
      // Often the continuation of another copy.
      const uint64_t va = rng() % 2 ? first + 1000 : rng() % 10000;
      const uint32_t identity = rng() % 2;
      origins.note({first, end, va, identity});
      for (uint64_t at = first; at < end; ++at) truth[at] = {va + (at - first), identity};
    } else {
      origins.written(first, end);
      for (uint64_t at = first; at < end; ++at) truth.erase(at);
    }
    const uint64_t from = rng() % 200, to = from + 1 + rng() % 30;
    Origins::Origin origin;
    if (!origins.find(from, to, origin)) continue;
    ++found;
    for (uint64_t at = from; at < to; ++at) {
      ASSERT_TRUE(truth.contains(at));
      ASSERT_EQ(truth[at], (std::pair{origin.va + (at - from), origin.identity}));
    }
  }
  EXPECT_GT(found, 1000u);
}

TEST(Origins, JoinCopiesThatContinueEachOther) {
  Origins origins;
  Origins::Origin origin;
  origins.note({100, 200, 5000, 7});
  origins.note({200, 300, 5100, 7});
  ASSERT_TRUE(origins.find(150, 250, origin));
  EXPECT_EQ(origin.va, 5050u);
  origins.note({300, 400, 5200, 8});  // of other contents
  EXPECT_FALSE(origins.find(250, 350, origin));
  origins.written(160, 170);
  EXPECT_TRUE(origins.find(100, 160, origin));
  ASSERT_TRUE(origins.find(170, 300, origin));
  EXPECT_EQ(origin.va, 5070u);
  EXPECT_FALSE(origins.find(169, 300, origin));
  origins.clear();
  EXPECT_FALSE(origins.find(170, 171, origin));
}

}  // namespace
}  // namespace npu::test
