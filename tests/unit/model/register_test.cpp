// SPDX-License-Identifier: MIT
// BAR0: identity, reset values, access sizes, events, interrupt test.
#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

TEST(Registers, IdentityAndLimits) {
  Machine m({.cores = 3, .queues = 7, .asids = 5, .lmem = 64 * 1024, .ddr = 16 << 20});
  EXPECT_EQ(m.r32(0x000), 0x55504e51u);
  EXPECT_EQ(m.r32(0x004), 0x00010000u);
  EXPECT_EQ(m.r32(0x008), 3u);
  EXPECT_EQ(m.r32(0x00c), virtual_time() ? 0x3fu : 0x2fu);
  EXPECT_EQ(m.r32(0x010), 3u);
  EXPECT_EQ(m.r32(0x014), 7u);
  EXPECT_EQ(m.r32(0x018), 5u);
  EXPECT_EQ(m.r32(0x01c), 48u);
  EXPECT_EQ(m.r32(0x020), 64u * 1024);
  EXPECT_EQ(m.r32(0x024), 32u);
  EXPECT_EQ(m.r64(0x028), 16u << 20);
  EXPECT_EQ(m.r32(0x030), 1000000u);
  EXPECT_EQ(m.r32(0x038), 16u);
  const uint32_t cost[] = {32, 32, 2, 512, 128, 32, 32, 200, 64, 2, 4};
  for (unsigned i = 0; i < std::size(cost); ++i) EXPECT_EQ(m.r32(0x040 + 4 * i), cost[i]) << i;
  EXPECT_EQ(m.r32(NPU_REG_CUR_CLOCK_KHZ), 1000000u);
  EXPECT_GT(m.r32(NPU_REG_VOLTAGE_MV), 0u);
}

TEST(Registers, CostParametersComeFromTheConfiguration) {
  Machine m({.edit = [](npu_model_config &c) {
    c.mac_ic = 16;
    c.ddr_bw = 100;
    c.tiu_fixed = 7;
    c.rate_16 = 3;
    c.rate_8 = 5;
  }});
  EXPECT_EQ(m.r32(NPU_REG_MAC_IC), 16u);
  EXPECT_EQ(m.r32(NPU_REG_DDR_BW), 100u);
  EXPECT_EQ(m.r32(NPU_REG_TIU_FIXED), 7u);
  EXPECT_EQ(m.r32(NPU_REG_RATE_16), 3u);
  EXPECT_EQ(m.r32(NPU_REG_RATE_8), 5u);
  JobSpec j;
  j.tiu(nop());
  const npu_cqe c = m.run(j);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 7u);
}

void expect_power_on(Machine &m) {
  EXPECT_EQ(m.r32(NPU_REG_CTRL), 0u);
  EXPECT_EQ(m.r32(NPU_REG_STATUS), NPU_STATUS_READY);
  for (uint32_t reg : {NPU_REG_CORE_BUSY, NPU_REG_EVENT_STATUS, NPU_REG_EVENT_ENABLE, NPU_REG_INV_ISSUED,
                       NPU_REG_INV_DONE, NPU_REG_ECC_CORRECTED, NPU_REG_ECC_UNCORRECTED})
    EXPECT_EQ(m.r32(reg), 0u) << reg;
  for (uint32_t reg : {NPU_REG_PROGRESS, NPU_REG_ASID_TABLE, NPU_REG_INV_ADDR, NPU_REG_INV_BYTES})
    EXPECT_EQ(m.r64(reg), 0u) << reg;
  for (unsigned c = 0; c < 2; ++c) {
    for (uint32_t r = NPU_CORE_BUSY_CYCLES; r <= NPU_CORE_JOB_ID; r += 8) EXPECT_EQ(m.r64(NPU_CORE_REG(c, r)), 0u) << r;
    EXPECT_EQ(m.r64(NPU_BUSY_REG(c, NPU_BUSY_NS)), 0u);
    for (uint32_t r = NPU_CORE_QUEUE; r <= NPU_CORE_GDMA_COMMAND; r += 4) EXPECT_EQ(m.r32(NPU_CORE_REG(c, r)), 0u) << r;
  }
  for (unsigned q = 0; q < 16; ++q) {
    for (uint32_t r = NPU_QUEUE_SQ_BASE; r <= NPU_QUEUE_FENCE_ADDR; r += 8)
      EXPECT_EQ(m.r64(NPU_QUEUE_REG(q, r)), 0u) << r;
    for (uint32_t r = NPU_QUEUE_SQ_LOG2; r <= NPU_QUEUE_CQ_TAIL; r += 4) EXPECT_EQ(m.r32(NPU_QUEUE_REG(q, r)), 0u) << r;
  }
}

TEST(Registers, ResetRestoresPowerOnValues) {
  Machine m;
  m.reset();
  expect_power_on(m);
  m.bring_up();
  TestQueue &q = m.queue(5, {.asid = 1, .priority = 3, .vector = 2});
  JobSpec j;
  j.tiu(nop()).gdma(nop());
  EXPECT_STATUS(q.run(j), NPU_STATUS_OK);
  m.wait_invalidated(m.invalidate(3, 0x1000, 0x2000));
  EXPECT_EQ(m.r64(NPU_REG_PROGRESS), 2u);
  npu_model_reset(m.model());
  eventually([&] { return m.r32(NPU_REG_STATUS) & NPU_STATUS_READY; }, "reset done");
  expect_power_on(m);
  // Tickets count from 1 again, and the chip works as before.
  m.bring_up();
  EXPECT_EQ(m.invalidate(1), 1u);
  q.enable();
  EXPECT_STATUS(q.run(j), NPU_STATUS_OK);
}

TEST(Registers, WideOnesAreOneAccessOrTwoHalves) {
  Machine m;
  const uint64_t reg = NPU_REG_INV_ADDR;
  m.w64(reg, 0x1122'3344'5566'7000);
  EXPECT_EQ(m.r64(reg), 0x1122'3344'5566'7000u);
  EXPECT_EQ(m.r32(reg), 0x5566'7000u);
  EXPECT_EQ(m.r32(reg + 4), 0x1122'3344u);
  m.w32(reg, 0xaaaa'a000);
  EXPECT_EQ(m.r64(reg), 0x1122'3344'5566'7000u) << "only the high half takes effect";
  m.w32(reg + 4, 0x1234);
  EXPECT_EQ(m.r64(reg), 0x1234'aaaa'a000u);
  // Each register has its own waiting low half.
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_SQ_BASE), 0x40);
  m.w32(NPU_QUEUE_REG(1, NPU_QUEUE_SQ_BASE), 0x80);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CQ_BASE), 0xc0);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_SQ_BASE) + 4, 1);
  m.w32(NPU_QUEUE_REG(1, NPU_QUEUE_SQ_BASE) + 4, 2);
  m.w32(NPU_QUEUE_REG(0, NPU_QUEUE_CQ_BASE) + 4, 3);
  EXPECT_EQ(m.r64(NPU_QUEUE_REG(0, NPU_QUEUE_SQ_BASE)), 0x1'0000'0040u);
  EXPECT_EQ(m.r64(NPU_QUEUE_REG(1, NPU_QUEUE_SQ_BASE)), 0x2'0000'0080u);
  EXPECT_EQ(m.r64(NPU_QUEUE_REG(0, NPU_QUEUE_CQ_BASE)), 0x3'0000'00c0u);
}

TEST(Registers, OtherAccessesReadZeroAndAreIgnored) {
  Machine m;
  for (unsigned size : {1u, 2u, 3u, 16u}) EXPECT_EQ(npu_model_read(m.model(), NPU_REG_ID, size), 0u) << size;
  EXPECT_EQ(npu_model_read(m.model(), NPU_REG_ID, 8), 0u) << "a 32-bit register";
  EXPECT_EQ(npu_model_read(m.model(), NPU_REG_ID + 2, 4), 0u);
  EXPECT_EQ(npu_model_read(m.model(), NPU_REG_DDR_BYTES + 4, 8), 0u);
  for (uint64_t hole : {0x03cull, 0x06cull, 0x10ull + NPU_CORE_REG(2, 0), 0xfff0ull, NPU_QUEUE_REG(16, 0) + 0ull,
                        NPU_DOORBELL_REG(0, 8) + 0ull, NPU_DOORBELL_REG(16, 0) + 0ull, 0x200000ull, ~7ull})
    for (unsigned size : {4u, 8u}) {
      EXPECT_EQ(npu_model_read(m.model(), hole, size), 0u) << std::hex << hole;
      npu_model_write(m.model(), hole, ~0ull, size);
    }
  npu_model_write(m.model(), NPU_REG_EVENT_ENABLE, 0, 2);
  EXPECT_NE(m.r32(NPU_REG_EVENT_ENABLE), 0u);
  m.w32(NPU_REG_ID, 0);
  EXPECT_EQ(m.r32(NPU_REG_ID), NPU_CHIP_ID);
  EXPECT_STATUS(m.run({}), NPU_STATUS_OK);
}

TEST(Registers, InterruptTestRaisesAnyVector) {
  Machine m;
  for (unsigned v : {0u, 7u, 15u}) {
    m.w32(NPU_REG_IRQ_TEST, v);
    EXPECT_EQ(m.board.interrupts(v), 1u);
  }
  m.w32(NPU_REG_IRQ_TEST, 16);
  m.w32(NPU_REG_IRQ_TEST, ~0u);
  EXPECT_EQ(m.board.interrupts(16), 0u);
}

TEST(Registers, CallbackMayUseRegisters) {
  Machine m;
  std::atomic<uint32_t> seen{0};
  m.board.on_interrupt(
      [&](unsigned) { seen = m.r32(NPU_REG_STATUS) | m.r32(NPU_QUEUE_REG(0, NPU_QUEUE_STATUS)) << 8; });
  m.w32(NPU_REG_IRQ_TEST, 3);
  EXPECT_EQ(seen, NPU_STATUS_READY);
  EXPECT_STATUS(m.run({}), NPU_STATUS_OK);
  // The job counts as running until the chip has done all that belongs to its completion.
  const uint32_t running = NPU_QUEUE_STATUS_ENABLED | NPU_QUEUE_STATUS_RUNNING;
  eventually([&] { return seen == (NPU_STATUS_READY | running << 8); }, "interrupt");
  m.stop();
}

TEST(Events, RaiseVector0OnlyWhenAnEnabledBitBecomesSet) {
  Machine m;
  m.w32(NPU_REG_EVENT_ENABLE, 0);
  m.wait_invalidated(m.invalidate(0));
  EXPECT_EQ(m.r32(NPU_REG_EVENT_STATUS), NPU_EVENT_STATUS_INVALIDATED);
  EXPECT_EQ(m.board.interrupts(0), 0u);
  m.w32(NPU_REG_EVENT_ENABLE, NPU_EVENT_STATUS_INVALIDATED);
  EXPECT_EQ(m.board.interrupts(0), 0u) << "enabling is not becoming set";
  m.wait_invalidated(m.invalidate(0));
  EXPECT_EQ(m.board.interrupts(0), 0u) << "still set";
  m.w32(NPU_REG_EVENT_STATUS, NPU_EVENT_STATUS_QUEUE_ERROR);
  EXPECT_EQ(m.r32(NPU_REG_EVENT_STATUS), NPU_EVENT_STATUS_INVALIDATED);
  m.w32(NPU_REG_EVENT_STATUS, NPU_EVENT_STATUS_INVALIDATED);
  EXPECT_EQ(m.r32(NPU_REG_EVENT_STATUS), 0u);
  m.wait_invalidated(m.invalidate(0));
  EXPECT_EQ(m.board.interrupts(0), 1u);
}

TEST(Control, NothingStartsBeforeEnable) {
  Machine m;
  m.w32(NPU_REG_CTRL, 0);
  TestQueue &q = m.queue(0);
  const uint64_t id = q.submit(JobSpec{});
  eventually([&] { return q.reg(NPU_QUEUE_SQ_HEAD) == 1; }, "fetched");
  EXPECT_EQ(q.status(), NPU_QUEUE_STATUS_ENABLED);
  EXPECT_FALSE(q.poll());
  m.w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  EXPECT_EQ(q.wait().job_id, id);
}

}  // namespace
}  // namespace npu::test
