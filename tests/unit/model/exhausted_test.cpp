// SPDX-License-Identifier: MIT
// Register accesses while the host has no memory: none needs any for what it does, and none throws. A program
// of its own, since it replaces operator new.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "tests/unit/model/machine.h"

namespace {

thread_local bool exhausted = false;
std::atomic<uint64_t> refused{0};
thread_local bool spared = false;
std::atomic<bool> refuse_one{false};  // to the next thread that is not spared

void *allocate(std::size_t bytes) {
  if (exhausted || (!spared && refuse_one.load() && refuse_one.exchange(false))) {
    ++refused;
    throw std::bad_alloc();
  }
  if (void *p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}

}  // namespace

void *operator new(std::size_t bytes) { return allocate(bytes); }
void *operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete[](void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
void operator delete[](void *p, std::size_t) noexcept { std::free(p); }

namespace npu::test {
namespace {

/// While it lives the calling thread gets no memory.
struct Exhausted {
  Exhausted() { exhausted = true; }
  ~Exhausted() { exhausted = false; }
};

/// A job that waits in a bus access, so that its access section stays open.
JobSpec gated(const Area &gate) {
  JobSpec j;
  j.regions = {gate.region()};
  return j.gdma(with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.dst_region = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
  }));
}

TEST(Exhausted, InvalidationsTakeNoMemoryHoweverManyWait) {
  Machine m;
  const Area gate = m.allocate(kPage, Place::System);
  m.board.block(m.physical(0, gate.va));
  m.queue(0).submit(gated(gate));
  m.board.wait_blocked();
  constexpr uint32_t kMany = 200000;
  {
    Exhausted now;
    for (uint32_t i = 0; i < kMany; ++i) {
      m.w64(NPU_REG_INV_ADDR, uint64_t{i} * kPage);
      m.w64(NPU_REG_INV_BYTES, i % 3 * kPage);
      m.w32(NPU_REG_INV_ASID, i % 8);
    }
  }
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(m.r32(NPU_REG_INV_ISSUED), kMany);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), 0u) << "the first is of the address space in use";
  m.board.release();
  EXPECT_STATUS(m.queue(0).wait(), NPU_STATUS_OK);
  m.wait_invalidated(kMany);
  EXPECT_EQ(m.invalidate(1), kMany + 1);
  m.wait_invalidated(kMany + 1);
}

TEST(Exhausted, RegisterAccessesOfAllKindsThrowNothing) {
  Machine m;
  for (unsigned q = 0; q < 4; ++q) m.queue(q);
  std::mt19937 random(5);
  {
    Exhausted now;
    for (unsigned i = 0; i < 20000; ++i) {
      const uint64_t base = i % 4 == 0   ? 0
                            : i % 4 == 1 ? NPU_QUEUE_BASE
                            : i % 4 == 2 ? NPU_DOORBELL_BASE
                                         : NPU_CORE_BASE;
      const uint64_t reg = base + random() % 0x800 * 4;
      if (i % 2)
        m.w32(reg, random() % 64);
      else
        m.r32(reg);
    }
  }
  // What was refused are lines for the board's trace, which are lost.
  m.reset();
  m.bring_up();
  TestQueue &q = m.queue(9);
  EXPECT_STATUS(q.run({}), NPU_STATUS_OK);
}

TEST(Exhausted, AGangEndsThoughOneOfItsCoresIsInALongCommand) {
  spared = true;
  Machine m({.lmem = 8 << 20});
  const Area big = m.allocate(1 << 20, Place::System), records = m.allocate(1 << 20);
  JobSpec j;
  j.regions = {big.region(), records.region()};
  j.gdma(with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.dst_region = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 1 << 20;
    c.src_stride[5] = c.dst_stride[5] = 1;
  }));
  for (unsigned i = 0; i < 3000; ++i) j.tiu(nop());
  j.at(1, kTiu).push_back(with<npu_cmd_matmul>([](npu_cmd_matmul &c) {  // hours
    c.out_addr = 4 << 20;
    c.wgt_region = NPU_REGION_LOCAL;
    c.batch = 65536;
    c.m = 1;
    c.k = 1 << 20;
    c.n = 1;
  }));
  j.flags |= NPU_JOB_PROFILE;
  j.profile_region = 1;
  j.profile_bytes = 1 << 20;
  TestQueue &q = m.queue(0);
  m.board.block(m.physical(0, big.va));
  q.submit(j);
  m.board.wait_blocked();  // whoever hands out, since too much is handed out
  eventually([&] { return m.r64(NPU_CORE_REG(1, NPU_CORE_PROGRESS)) > 1; }, "the long command");
  refuse_one = true;
  m.board.release();
  EXPECT_STATUS(q.wait(), NPU_STATUS_INTERNAL);
  EXPECT_FALSE(refuse_one);
  EXPECT_STATUS(m.run(JobSpec{}.gdma(nop())), NPU_STATUS_OK);
}

TEST(Exhausted, JobsSubmittedThenRun) {
  Machine m;
  TestQueue &q = m.queue(0);
  const Prepared p = m.prepare(0, JobSpec{}.gdma(nop()));
  const uint64_t before = refused;
  for (unsigned i = 0; i < 100; ++i) {
    q.submit(p, false);
    {
      Exhausted now;
      q.ring_doorbell();
    }
    EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
  }
  EXPECT_EQ(refused, before);
}

}  // namespace
}  // namespace npu::test
