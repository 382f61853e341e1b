// SPDX-License-Identifier: MIT
// Cards as sessions have them open, on the simulator; calls of the libraries below fail where a test wants it.
#include "ort/ep/card.h"

#include <gtest/gtest.h>
#include <npu.h>

#include <set>

namespace {

bool no_facts = false;
std::set<bm_handle_t> failing;
std::vector<bm_handle_t> synced;

}  // namespace

// The linker gives these to card.cpp in place of the libraries' (--wrap).
extern "C" int __real_npu_device_query(npu_device *device, uint32_t query, void *answer, size_t bytes);
extern "C" int __wrap_npu_device_query(npu_device *device, uint32_t query, void *answer, size_t bytes) {
  return no_facts ? -EIO : __real_npu_device_query(device, query, answer, bytes);
}

extern "C" bm_status_t __wrap_bm_thread_sync(bm_handle_t handle) {
  synced.push_back(handle);
  return failing.count(handle) ? BM_ERR_FAILURE : BM_SUCCESS;
}

namespace npu::ort {
namespace {

class CardTest : public testing::Test {
 protected:
  void SetUp() override {
    no_facts = false;
    failing.clear();
    synced.clear();
  }
  static std::shared_ptr<Card> open(int index) {
    std::shared_ptr<Card> card;
    EXPECT_TRUE(Card::open(index, card).ok());
    return card;
  }
};

TEST_F(CardTest, OneThatCannotBeOpenedWholeIsNotThere) {
  std::shared_ptr<Card> card;
  no_facts = true;
  EXPECT_FALSE(Card::open(0, card).ok());
  EXPECT_EQ(card, nullptr);
  no_facts = false;
  ASSERT_TRUE(Card::open(0, card).ok());
  EXPECT_GT(card->lmem_bytes(), 0u);
  EXPECT_FALSE(Card::open(99, card).ok());
  EXPECT_EQ(card->index(), 0);
}

TEST_F(CardTest, ThatThereIsNoneHasAReason) {
  int cards = 0;
  EXPECT_TRUE(count_cards(cards).ok());
  EXPECT_EQ(cards, 2);
  setenv("NPU_DEVICE", "x", 1);
  const Status wrong = count_cards(cards);
  setenv("NPU_DEVICE", "sim", 1);
  EXPECT_EQ(wrong.message(), "NPU_DEVICE=x: expected drm, sim or auto");
  EXPECT_EQ(cards, 0);
}

TEST_F(CardTest, ACopyWaitsForThoseWhoWriteWhatItReads) {
  const auto first = open(0), second = open(0), other = open(1);
  note_launch(first, {{0x1000, 0x2000}});
  note_launch(second, {{0x2000, 0x3000}, {0x8000, 0x9000}});
  note_launch(other, {{0x2000, 0x3000}});
  failing = {first->handle(), other->handle()};
  EXPECT_TRUE(sync_writers(0, {0x2fff, 0x4000}).ok());
  EXPECT_EQ(synced, std::vector{second->handle()});
  EXPECT_TRUE(sync_writers(0, {0x3000, 0x8000}).ok());
  EXPECT_EQ(synced.size(), 1u);
  EXPECT_FALSE(sync_writers(0, {0x1800, 0x1801}).ok());
  EXPECT_EQ(synced.back(), first->handle());
  EXPECT_FALSE(sync_writers(1, {0x2000, 0x2001}).ok());
  EXPECT_EQ(synced.back(), other->handle());
  // Each was waited for, and told what there was to tell.
  EXPECT_TRUE(sync_writers(0, {0, UINT64_MAX}).ok());
  EXPECT_TRUE(sync_writers(1, {0, UINT64_MAX}).ok());
  EXPECT_EQ(synced.size(), 3u);
}

TEST_F(CardTest, WhoHasWaitedIsNotWaitedForAgain) {
  const auto card = open(0);
  note_launch(card, {{0x1000, 0x2000}});
  EXPECT_TRUE(card->sync_thread().ok());
  EXPECT_TRUE(sync_writers(0, {0x1000, 0x2000}).ok());
  EXPECT_EQ(synced.size(), 1u);
}

TEST_F(CardTest, NotesOfManyLaunchesStillCoverTheirMemory) {
  const auto card = open(0);
  for (uint64_t i = 0; i < 10000; ++i) note_launch(card, {{i * 0x1000, i * 0x1000 + 1}});
  EXPECT_TRUE(sync_writers(0, {0, 1}).ok());
  EXPECT_EQ(synced.size(), 1u);
}

}  // namespace
}  // namespace npu::ort
