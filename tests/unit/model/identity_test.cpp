// SPDX-License-Identifier: MIT
// The MMU from the inside: identities of constant ranges, which packed weights are kept under. They must be new before
// the old ones are forgotten.
#include <gtest/gtest.h>

#include <cstdlib>

#include "qemu-device/model/src/mmu.h"

namespace npu::test {
namespace {

using model::Config;
using model::Mmu;
using model::Tlb;

class Identity : public testing::Test {
 protected:
  Identity()
      : ddr_(static_cast<uint8_t *>(std::calloc(16, 4096))),
        config_(make()),
        mmu_(config_, board_, 2, [this](Mmu::Moved m) { forget_ |= m.forget; }) {}
  ~Identity() override { std::free(ddr_); }

  /// Notes a range inside a section of slot 0 and returns its identity.
  uint32_t note(uint32_t asid, uint64_t va, uint64_t bytes) {
    uint32_t id = ~0u;
    mmu_.begin(0, asid, tlb_);
    EXPECT_TRUE(mmu_.note_constant(0, va, bytes, id));
    mmu_.end(0);
    return id;
  }
  bool known(uint32_t asid, uint64_t va, uint64_t bytes) {
    uint32_t id;
    mmu_.begin(0, asid, tlb_);
    const bool found = mmu_.find_constant(0, va, bytes, id);
    mmu_.end(0);
    return found;
  }

 private:
  Config make() {
    Config c;
    c.ddr = ddr_;
    c.ddr_bytes = 16 * 4096;
    c.asids = 4;
    return c;
  }

 protected:
  uint8_t *const ddr_;
  const Config config_;
  model::Faults faults_;
  const model::Board board_{{}, nullptr, faults_};
  bool forget_ = false;
  Mmu mmu_;
  Tlb tlb_;
};

TEST_F(Identity, ChangesWithAnInvalidationThatMeetsTheRange) {
  const uint32_t first = note(1, 0x10000, 5000), other = note(2, 0x10000, 5000);
  EXPECT_NE(first, other);
  EXPECT_TRUE(known(1, 0x10000, 5000));
  EXPECT_TRUE(known(1, 0x10fff, 0x1001)) << "whole pages";
  EXPECT_FALSE(known(1, 0x10000, 0x2001));
  EXPECT_FALSE(known(3, 0x10000, 1));
  mmu_.invalidate(1, 0x12000, 0x1000);  // the page behind
  mmu_.invalidate(1, 0xf000, 0x1000);   // the page before
  mmu_.invalidate(3, 0, 0);
  EXPECT_TRUE(known(1, 0x10000, 5000));
  EXPECT_FALSE(forget_);
  EXPECT_TRUE(mmu_.take_forgotten().empty());
  mmu_.invalidate(1, 0x11fff, 1);
  EXPECT_TRUE(forget_);
  EXPECT_FALSE(known(1, 0x10000, 1));
  EXPECT_TRUE(known(2, 0x10000, 5000));
  EXPECT_EQ(mmu_.take_forgotten(), std::vector<uint32_t>{first});
  EXPECT_NE(note(1, 0x10000, 5000), first);
}

TEST_F(Identity, IsForgottenOnlyAfterTheLastAccessThatMayUseIt) {
  const uint32_t id = note(1, 0, 4096);
  Tlb other;
  mmu_.begin(1, 1, other);
  mmu_.invalidate(1, 0, 0);
  EXPECT_FALSE(known(1, 0, 4096)) << "but at once for whoever begins later";
  EXPECT_TRUE(mmu_.take_forgotten().empty());
  mmu_.end(1);
  EXPECT_EQ(mmu_.take_forgotten(), std::vector<uint32_t>{id});
}

TEST_F(Identity, IsNotGivenToTranslationsFromBeforeAnInvalidation) {
  uint32_t id;
  mmu_.begin(0, 1, tlb_);
  mmu_.invalidate(1, 0x5000, 0x1000);
  EXPECT_FALSE(mmu_.note_constant(0, 0, 4096, id));
  mmu_.end(0);
  mmu_.begin(0, 1, tlb_);
  mmu_.invalidate(2, 0, 0);  // another space
  EXPECT_TRUE(mmu_.note_constant(0, 0, 4096, id));
  mmu_.end(0);
}

TEST_F(Identity, OfLaterTranslationsIsNotFoundByAnEarlierSection) {
  uint32_t id;
  Tlb other;
  mmu_.begin(1, 1, other);
  mmu_.invalidate(1, 0, 0x1000);
  note(1, 0, 4096);
  EXPECT_FALSE(mmu_.find_constant(1, 0, 4096, id));
  mmu_.end(1);
  mmu_.begin(1, 1, other);
  EXPECT_TRUE(mmu_.find_constant(1, 0, 4096, id));
  mmu_.end(1);
}

TEST_F(Identity, NeighboursBecomeOneRange) {
  const uint32_t id = note(1, 0x1000, 0x1000);
  EXPECT_EQ(note(1, 0x3000, 0x1000), id);
  EXPECT_FALSE(known(1, 0x1000, 0x3000));
  EXPECT_EQ(note(1, 0x2000, 0x1000), id);
  EXPECT_TRUE(known(1, 0x1000, 0x3000));
}

TEST_F(Identity, ResetForgetsAll) {
  const uint32_t one = note(1, 0, 1), two = note(2, 0, 1);
  EXPECT_TRUE(mmu_.reset());
  EXPECT_EQ(mmu_.take_forgotten(), (std::vector<uint32_t>{one, two}));
  EXPECT_FALSE(known(1, 0, 1));
  EXPECT_NE(note(1, 0, 1), one);
  EXPECT_EQ(mmu_.issued(), 0u);
}

}  // namespace
}  // namespace npu::test
