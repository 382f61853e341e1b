// SPDX-License-Identifier: MIT
// The chip as a block of a SoC: no memory of its own, tables in system memory, and a board that is told on whose behalf
// the bus is accessed. docs/reference/hardware.md section 1.1.
#include <algorithm>
#include <mutex>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

Machine::Options soc() {
  Machine::Options o;
  o.ddr = 0;
  return o;
}

/// Copies `bytes` from region 0 to region 1, after a NOP.
JobSpec copy_job(const Area &from, const Area &to, uint32_t bytes) {
  JobSpec j;
  j.regions = {from.region(NPU_ACCESS_READ), to.region(NPU_ACCESS_WRITE)};
  j.gdma(nop());
  j.gdma(with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.layer = 42;
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.dst_region = 1;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = bytes;
    c.src_stride[5] = c.dst_stride[5] = 1;
  }));
  return j;
}

std::vector<uint8_t> pattern(uint64_t bytes) {
  std::vector<uint8_t> v(bytes);
  for (uint64_t i = 0; i < bytes; ++i) v[i] = static_cast<uint8_t>(i * 7 + 1);
  return v;
}

TEST(Soc, HasNoMemoryOfItsOwn) {
  Machine m(soc());
  EXPECT_EQ(m.r64(NPU_REG_DDR_BYTES), 0u);
  // What belongs to the board reads zero in the chip, and takes no write.
  for (uint32_t reg : {NPU_REG_LINE_STATUS, NPU_REG_WATCH_CTRL, NPU_REG_REPORT_KIND}) {
    m.w32(reg, ~0u);
    EXPECT_EQ(m.r32(reg), 0u) << std::hex << reg;
  }
}

TEST(Soc, WalksTablesInSystemMemory) {
  Machine m(soc());
  const uint32_t bytes = 5 * kPage + 77;
  const Area from = m.allocate_at(100, bytes, Place::SystemScattered), to = m.allocate_at(4000, bytes, Place::System);
  const auto data = pattern(bytes);
  m.put(from, 0, data.data(), bytes);
  EXPECT_STATUS(m.run(copy_job(from, to, bytes)), NPU_STATUS_OK);
  EXPECT_EQ(m.content(to), data);
}

TEST(Soc, ALeafWithoutSystemLeadsNowhere) {
  Machine m(soc());
  const Area from = m.allocate(64), to = m.allocate(64);
  m.map(0, from.va, m.physical(0, from.va), 0);
  const npu_cqe c = m.run(copy_job(from, to, 64));
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.fault_addr, from.va);
}

TEST(Soc, ATableThatCannotBeReadIsNoTranslation) {
  for (unsigned level = 0; level < NPU_PT_LEVELS; ++level) {
    Machine m(soc());
    const Area from = m.allocate(64), to = m.allocate(64);
    const JobSpec job = copy_job(from, to, 64);
    // The tables of other levels of the same walk stay readable: each is a page of its own.
    const uint64_t table = m.table_of(0, from.va, level);
    const Prepared p = m.prepare(0, job);
    m.board.poison(table);
    TestQueue &q = m.queue(0);
    q.submit(p);
    EXPECT_STATUS(q.wait(), NPU_STATUS_PAGE_FAULT) << level;
    m.board.cure(table);
    m.wait_invalidated(m.invalidate(0));
    EXPECT_STATUS(m.run(job), NPU_STATUS_OK) << level;
  }
}

TEST(Soc, AnAsidTableNowhereIsNoTranslation) {
  Machine m(soc());
  const Area from = m.allocate(64), to = m.allocate(64);
  const JobSpec job = copy_job(from, to, 64);
  const uint64_t table = m.r64(NPU_REG_ASID_TABLE);
  for (uint64_t bad : {uint64_t{0}, ~uint64_t{0xfff}, uint64_t{1} << 51}) {
    m.w64(NPU_REG_ASID_TABLE, bad);
    m.wait_invalidated(m.invalidate(0));
    EXPECT_STATUS(m.run(job), NPU_STATUS_PAGE_FAULT) << std::hex << bad;
  }
  m.w64(NPU_REG_ASID_TABLE, table);
  m.wait_invalidated(m.invalidate(0));
  EXPECT_STATUS(m.run(job), NPU_STATUS_OK);
}

/// Calls of job_read and job_write.
struct Noted {
  std::mutex mutex;
  std::vector<npu_model_access> reads, writes;
  npu_model_board calls{};
  TestBoard *board = nullptr;

  static int read(void *opaque, const npu_model_access *access, uint64_t addr, void *buf, size_t bytes) {
    return note(&Noted::reads, opaque, *access), instance->calls.dma_read(opaque, addr, buf, bytes);
  }
  static int write(void *opaque, const npu_model_access *access, uint64_t addr, const void *buf, size_t bytes) {
    return note(&Noted::writes, opaque, *access), instance->calls.dma_write(opaque, addr, buf, bytes);
  }
  static void note(std::vector<npu_model_access> Noted::*list, void *, const npu_model_access &access) {
    std::lock_guard lock(instance->mutex);
    (instance->*list).push_back(access);
  }
  static Noted *instance;
};

Noted *Noted::instance;

TEST(Soc, TellsTheBoardWhoseAccessItIs) {
  Noted noted;
  Noted::instance = &noted;
  Machine::Options o = soc();
  o.edit = [&](npu_model_config &c) {
    noted.calls = *c.board;
    noted.calls.job_read = Noted::read;
    noted.calls.job_write = Noted::write;
    c.board = &noted.calls;
  };
  Machine m(o);
  const Area from = m.allocate(kPage, Place::System, 3), to = m.allocate(kPage, Place::System, 3);
  TestQueue &q = m.queue(5, {.asid = 3, .core_mask = 2});
  const npu_cqe done = q.run(copy_job(from, to, kPage));
  ASSERT_STATUS(done, NPU_STATUS_OK);

  bool fetched = false, read = false, written = false;
  for (const auto *list : {&noted.reads, &noted.writes})
    for (const npu_model_access &a : *list) {
      EXPECT_EQ(a.job, done.job_id);
      EXPECT_EQ(a.queue, 5u);
      EXPECT_EQ(a.asid, 3u);
      EXPECT_EQ(a.core, 1u);
      const bool command = a.engine == NPU_ENGINE_GDMA && a.command == 1 && a.layer == 42;
      fetched |= a.engine == NPU_ENGINE_NONE && a.command == NPU_COMMAND_NONE && list == &noted.reads;
      read |= command && a.va == from.va && list == &noted.reads;
      written |= command && a.va == to.va && list == &noted.writes;
      EXPECT_TRUE(command || a.engine == NPU_ENGINE_NONE);
    }
  EXPECT_TRUE(fetched && read && written);
}

}  // namespace
}  // namespace npu::test
