// SPDX-License-Identifier: MIT
// The store of packed copies: bound, order of eviction, forgetting.
#include "qemu-device/model/src/compute/onednn/packed_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "qemu-device/model/src/config.h"

namespace npu::test {
namespace {

using model::PackedCache;
using model::PackedKey;

const auto kLayout = std::make_shared<const model::Layout>(model::Layout{1, 2, 3});

PackedKey key(uint32_t asid, uint64_t va) { return {asid, va, 4096, 0, kLayout}; }
PackedCache::Ref copy(size_t bytes) { return std::make_shared<model::Packed>(std::make_shared<char[]>(bytes), bytes); }

TEST(PackedCache, DropsTheLeastRecentlyUsedBeyondItsBound) {
  PackedCache cache(4 * 1024);
  for (uint64_t va : {1, 2, 3, 4}) cache.insert(key(1, va), copy(1024), cache.ticket(1));
  EXPECT_TRUE(cache.find(key(1, 1)));
  cache.insert(key(1, 5), copy(1024), cache.ticket(1));
  EXPECT_FALSE(cache.find(key(1, 2)));
  for (uint64_t va : {1, 3, 4, 5}) EXPECT_TRUE(cache.find(key(1, va))) << va;
  EXPECT_EQ(cache.bytes(), 4096u);
  cache.insert(key(1, 6), copy(2048), cache.ticket(1));
  EXPECT_LE(cache.bytes(), 4096u);
  cache.insert(key(1, 7), copy(8192), cache.ticket(1));
  EXPECT_FALSE(cache.find(key(1, 7))) << "larger than the bound";
  EXPECT_TRUE(cache.find(key(1, 6)));
}

TEST(PackedCache, HoldsNoMoreMemoryThanItsBoundWhereFewCopiesKeepTheirBlocks) {
  constexpr size_t kBound = 64 * 1024, kBlock = kBound / 16;
  PackedCache cache(kBound);
  const auto add = [&](uint64_t va, size_t bytes) {
    const std::shared_ptr<void> memory = cache.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
    std::memset(memory.get(), static_cast<int>(va), bytes);
    cache.insert(key(1, va), std::make_shared<model::Packed>(memory, bytes), cache.ticket(1));
  };
  for (uint64_t va = 0; va < 2000; ++va) {
    add(va, va % 7 ? 64 + va % 900 : 5000);
    // One copy of many is used again and again, so it is not the oldest.
    for (uint64_t often = 0; often < va; often += 16) cache.find(key(1, often));
    ASSERT_LE(cache.held(), kBound + kBlock);
    const PackedCache::Ref newest = cache.find(key(1, va));
    ASSERT_TRUE(newest);
    const auto *bytes = static_cast<const uint8_t *>(newest->data.get());
    ASSERT_EQ(std::count(bytes, bytes + newest->bytes, static_cast<uint8_t>(va)), newest->bytes);
  }
  const PackedCache::Ref used = cache.find(key(1, 1999));
  cache.forget(1);
  EXPECT_LE(cache.held(), 2 * kBlock) << "the newest block, and the one of the copy in use";
}

TEST(PackedCache, TellsKeysApart) {
  PackedCache cache(1 << 20);
  cache.insert(key(1, 1), copy(64), cache.ticket(1));
  EXPECT_FALSE(cache.find(key(2, 1)));
  EXPECT_FALSE(cache.find(key(1, 2)));
  PackedKey other = key(1, 1);
  other.bytes = 8192;
  EXPECT_FALSE(cache.find(other));
  other = key(1, 1);
  other.part = 1;
  EXPECT_FALSE(cache.find(other));
  other = key(1, 1);
  other.layout = std::make_shared<const model::Layout>(model::Layout{1, 2, 4});
  EXPECT_FALSE(cache.find(other));
  other.layout = std::make_shared<const model::Layout>(*kLayout);
  EXPECT_TRUE(cache.find(other)) << "equal layouts are one";
}

TEST(PackedCache, ForgetsOneAddressSpaceAndRefusesCopiesFromBefore) {
  PackedCache cache(1 << 20);
  cache.insert(key(1, 1), copy(64), cache.ticket(1));
  cache.insert(key(2, 1), copy(64), cache.ticket(2));
  const auto in_use = cache.find(key(1, 1));
  const uint64_t old = cache.ticket(1);
  cache.forget(1);
  EXPECT_FALSE(cache.find(key(1, 1)));
  EXPECT_TRUE(cache.find(key(2, 1)));
  EXPECT_EQ(cache.bytes(), 64u);
  EXPECT_NE(in_use->data.get(), nullptr);
  cache.insert(key(1, 1), copy(64), old);
  EXPECT_FALSE(cache.find(key(1, 1)));
  cache.insert(key(1, 1), copy(64), cache.ticket(1));
  EXPECT_TRUE(cache.find(key(1, 1)));
}

TEST(PackedCache, ForgetsEveryIdentityAtOnce) {
  PackedCache cache(1 << 20);
  for (uint32_t asid = 0; asid < 20; ++asid) cache.insert(key(asid, 1), copy(64), cache.ticket(asid));
  const uint64_t old = cache.ticket(7);
  cache.forget(model::kEveryIdentity);
  EXPECT_EQ(cache.bytes(), 0u);
  cache.insert(key(7, 1), copy(64), old);
  EXPECT_EQ(cache.bytes(), 0u) << "a copy from before";
}

TEST(PackedCache, ThreadsMayDoEverythingAtOnce) {
  PackedCache cache(16 * 64);
  const auto work = [&](uint32_t asid) {
    for (int i = 0; i < 5000; ++i) {
      const PackedKey k = key(asid, i % 20);
      if (!cache.find(k)) cache.insert(k, copy(64), cache.ticket(asid));
      if (i % 97 == 0) cache.forget(i % 2);
    }
  };
  std::thread a(work, 0), b(work, 1), c(work, 0);
  a.join();
  b.join();
  c.join();
  EXPECT_LE(cache.bytes(), 16u * 64);
}

}  // namespace
}  // namespace npu::test
