// SPDX-License-Identifier: MIT
// Address spaces: walks, every kind of fault with its address, cached translations, invalidation that waits for the
// accesses in progress only.
#include <algorithm>
#include <functional>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

/// Copies `bytes` between region 0 (from) and region 1 (to).
JobSpec copy_job(const Area &from, const Area &to, uint64_t bytes, uint64_t src = 0, uint64_t dst = 0) {
  JobSpec j;
  j.regions = {from.region(), to.region()};
  j.gdma(with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.src_offset = src;
    c.dst_offset = dst;
    c.dst_region = 1;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = static_cast<uint32_t>(bytes);
    c.src_stride[5] = c.dst_stride[5] = 1;
  }));
  return j;
}

std::vector<uint8_t> pattern(uint64_t bytes, unsigned seed = 1) {
  std::vector<uint8_t> v(bytes);
  for (uint64_t i = 0; i < bytes; ++i) v[i] = static_cast<uint8_t>((i * 2654435761u + seed * 97) >> 13);
  return v;
}

TEST(Mmu, TranslatesPagesAndBlocksOfAllKinds) {
  Machine m;
  for (Place a : kPlaces)
    for (Place b : kPlaces) {
      const uint64_t bytes = 5 * kPage + 77;
      const Area from = m.allocate_at(100, bytes, a), to = m.allocate_at(4000, bytes, b);
      const auto data = pattern(bytes);
      m.put(from, 0, data.data(), bytes);
      EXPECT_STATUS(m.run(copy_job(from, to, bytes)), NPU_STATUS_OK);
      EXPECT_EQ(m.content(to), data) << static_cast<int>(a) << " to " << static_cast<int>(b);
    }
}

TEST(Mmu, AddressSpacesAreSeparate) {
  Machine m;
  const Area to = m.allocate(kPage, Place::Card, 2);
  for (uint32_t asid : {2u, 5u}) {
    const uint64_t page = m.card_pages(1);
    m.map(asid, 0x4000'0000, page, 0);
    *m.ddr(page) = static_cast<uint8_t>(asid);
  }
  m.map(5, to.va, m.physical(2, to.va), NPU_PTE_WRITE);
  for (uint32_t asid : {2u, 5u, 2u, 5u}) {
    TestQueue &q = m.queue(asid, {.asid = asid});
    EXPECT_STATUS(q.run(copy_job({asid, 0x4000'0000, 64}, {asid, to.va, 64}, 1)), NPU_STATUS_OK);
    EXPECT_EQ(m.content({2, to.va, 1})[0], asid);
  }
}

TEST(Mmu, TranslatesTheEdgesOfTheAddressSpace) {
  Machine m;
  const uint64_t last = (1ull << 48) - kPage;
  for (uint64_t va : {uint64_t{0}, uint64_t{1} << 39, (uint64_t{1} << 47) - kPage, uint64_t{1} << 47, last}) {
    const uint64_t page = m.card_pages(1);
    m.map(0, va, page, NPU_PTE_WRITE);
    const Area from = m.allocate(64);
    m.put(from, 0, &va, 8);
    EXPECT_STATUS(m.run(copy_job(from, {0, va, kPage}, 8, 0, kPage - 8)), NPU_STATUS_OK) << std::hex << va;
    EXPECT_EQ(*reinterpret_cast<uint64_t *>(m.ddr(page + kPage - 8)), va);
  }
}

// ---- faults ----

/// A copy of 3 pages between two places whose second page the test has broken; the fault is there, on that side.
struct FaultCase {
  const char *name;
  uint16_t status;
  bool write;
  std::function<void(Machine &, uint64_t va)> breaks;
};

class PageFault : public testing::TestWithParam<FaultCase> {};

TEST_P(PageFault, IsPreciseAndHarmless) {
  const FaultCase &f = GetParam();
  Machine m;
  const Area from = m.allocate(3 * kPage, Place::CardScattered), to = m.allocate(3 * kPage, Place::CardScattered);
  const uint64_t lead = 24;  // not the page's first byte, when the fault is in the first page touched
  for (uint64_t page : {0u, 1u}) {
    const Area &side = f.write ? to : from;
    const uint64_t va = side.va + page * kPage, good = m.load(m.entry_of(0, va));
    f.breaks(m, va);
    m.wait_invalidated(m.invalidate(0, side.va, side.bytes));
    const npu_cqe c = m.run(copy_job(from, to, 2 * kPage, lead, lead));
    EXPECT_STATUS(c, f.status);
    EXPECT_EQ(c.fault_addr, page ? va : va + lead);
    EXPECT_EQ(c.region, f.write ? 1u : 0u);
    EXPECT_EQ(c.offset, lead);
    EXPECT_EQ(c.bytes, 2 * kPage);
    EXPECT_EQ(c.engine, NPU_ENGINE_GDMA);
    EXPECT_EQ(c.command, 0u);
    EXPECT_EQ(c.phase & ~(NPU_CQE_PHASE | NPU_CQE_CORES), f.write ? NPU_CQE_ACCESS_WRITE : NPU_CQE_ACCESS_READ);
    EXPECT_EQ(c.start_cycle, c.end_cycle) << "the time at which the failing command began";
    m.store(m.entry_of(0, va), good);
    m.wait_invalidated(m.invalidate(0, side.va, side.bytes));
    EXPECT_STATUS(m.run(copy_job(from, to, 2 * kPage, lead, lead)), NPU_STATUS_OK);
  }
}

void change(Machine &m, uint64_t va, uint64_t clear, uint64_t set) {
  const uint64_t at = m.entry_of(0, va);
  m.store(at, (m.load(at) & ~clear) | set);
}

FaultCase entry_fault(const char *name, uint16_t status, bool write, uint64_t clear, uint64_t set) {
  return {name, status, write, [=](Machine &m, uint64_t va) { change(m, va, clear, set); }};
}

INSTANTIATE_TEST_SUITE_P(
    Leaf, PageFault,
    testing::Values(entry_fault("invalid_read", NPU_STATUS_PAGE_FAULT, false, NPU_PTE_VALID, 0),
                    entry_fault("invalid_write", NPU_STATUS_PAGE_FAULT, true, NPU_PTE_VALID, 0),
                    entry_fault("reserved_low", NPU_STATUS_PAGE_FAULT, false, 0, 0x20),
                    entry_fault("reserved_11", NPU_STATUS_PAGE_FAULT, false, 0, 0x800),
                    entry_fault("reserved_52", NPU_STATUS_PAGE_FAULT, false, 0, 1ull << 52),
                    entry_fault("reserved_63", NPU_STATUS_PAGE_FAULT, true, 0, 1ull << 63),
                    entry_fault("large_at_level_0", NPU_STATUS_PAGE_FAULT, false, 0, NPU_PTE_LARGE),
                    entry_fault("read_only", NPU_STATUS_PAGE_ACCESS, true, NPU_PTE_WRITE, 0),
                    entry_fault("const", NPU_STATUS_PAGE_ACCESS, true, NPU_PTE_WRITE, NPU_PTE_CONST),
                    entry_fault("const_and_write", NPU_STATUS_PAGE_ACCESS, true, 0, NPU_PTE_CONST),
                    entry_fault("beyond_ddr_read", NPU_STATUS_DMA_ERROR, false, NPU_PTE_ADDR, 64 << 20),
                    entry_fault("beyond_ddr_write", NPU_STATUS_DMA_ERROR, true, NPU_PTE_ADDR, NPU_PTE_ADDR),
                    entry_fault("no_bus_read", NPU_STATUS_DMA_ERROR, false, NPU_PTE_ADDR, NPU_PTE_SYSTEM | 0x1000),
                    entry_fault("no_bus_write", NPU_STATUS_DMA_ERROR, true, NPU_PTE_ADDR, NPU_PTE_SYSTEM | 0x1000)),
    [](const auto &info) { return info.param.name; });

/// Breaks a table entry on the way to an area at a level; every access to it faults at the area's first byte.
void expect_table_fault(unsigned level, const std::function<uint64_t(uint64_t)> &edit) {
  Machine m;
  const Area to = m.allocate(kPage), from = m.allocate(kPage, Place::Card, 1);
  m.map(1, to.va, m.physical(0, to.va), NPU_PTE_WRITE);
  TestQueue &q = m.queue(1, {.asid = 1});
  EXPECT_STATUS(q.run(copy_job(from, to, 64)), NPU_STATUS_OK);
  // A region of its own, far from streams and destination, so that only it is behind the broken entry.
  const uint64_t far = 0x7000'0000'0000;
  m.map(1, far, m.physical(1, from.va), 0);
  const uint64_t at = m.entry_of(1, far, level), good = m.load(at);
  m.wait_invalidated(m.invalidate(1));
  EXPECT_STATUS(q.run(copy_job({1, far, kPage}, to, 64)), NPU_STATUS_OK);
  m.store(at, edit(good));
  m.wait_invalidated(m.invalidate(1, far, kPage));
  const npu_cqe c = q.run(copy_job({1, far, kPage}, to, 64, 16));
  EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT) << level;
  EXPECT_EQ(c.fault_addr, far + 16);
  m.store(at, good);
  m.wait_invalidated(m.invalidate(1, far, kPage));
  EXPECT_STATUS(q.run(copy_job({1, far, kPage}, to, 64)), NPU_STATUS_OK);
}

TEST(Mmu, BrokenTablesFaultAtEachLevel) {
  for (unsigned level = 1; level < 4; ++level) {
    expect_table_fault(level, [](uint64_t) { return 0; });
    expect_table_fault(level, [](uint64_t e) { return e | 0x40; });
    expect_table_fault(level, [](uint64_t e) { return e | 1ull << 55; });
    expect_table_fault(level, [](uint64_t e) { return e | NPU_PTE_WRITE; });
    expect_table_fault(level, [](uint64_t e) { return e | NPU_PTE_SYSTEM; });
    expect_table_fault(level, [](uint64_t) { return (64ull << 20) | NPU_PTE_VALID; });
    expect_table_fault(level, [](uint64_t) { return NPU_PTE_ADDR | NPU_PTE_VALID; });
  }
  expect_table_fault(2, [](uint64_t e) { return e | NPU_PTE_LARGE; });
  expect_table_fault(3, [](uint64_t e) { return e | NPU_PTE_LARGE; });
  // A block that is not aligned to its size.
  expect_table_fault(1, [](uint64_t) { return kBlock + kPage + (NPU_PTE_LARGE | NPU_PTE_VALID); });
}

TEST(Mmu, AsidWithoutRootFaults) {
  Machine m;
  const Area a = m.allocate(kPage);
  for (const uint64_t root :
       std::initializer_list<uint64_t>{uint64_t{0}, m.card_pages(1), m.card_pages(1) | 3,
                                       uint64_t{1} << 60 | NPU_ASID_VALID, (uint64_t{64} << 20) | NPU_ASID_VALID}) {
    m.set_root(4, root);
    m.wait_invalidated(m.invalidate(4));
    JobSpec j;
    j.regions = {a.region()};
    TestQueue &q = m.queue(4, {.asid = 4});
    // The stream's fetch is the first access; ASID 0 holds its pages, ASID 4 has no tables.
    j.tiu(nop());
    const Prepared p = m.prepare(0, j);
    q.submit(p);
    const npu_cqe c = q.wait();
    EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
    EXPECT_EQ(c.fault_addr, p.stream_va[kTiu]);
    EXPECT_EQ(c.region, 1u);
    EXPECT_EQ(c.bytes, 128u);
    EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
    EXPECT_EQ(c.command, 0u);
  }
}

TEST(Mmu, AsidTableBeyondDdrFaults) {
  Machine m;
  for (uint64_t table : {uint64_t{64} << 20, ~(kPage - 1)}) {
    m.w64(NPU_REG_ASID_TABLE, table);
    m.wait_invalidated(m.invalidate(0));
    JobSpec j;
    j.tiu(nop());
    EXPECT_STATUS(m.run(j), NPU_STATUS_PAGE_FAULT) << std::hex << table;
  }
}

/// Tables of a card in system memory: what they map can be in DDR and in system memory.
TEST(Mmu, TablesCanBeInSystemMemory) {
  Machine::Options options;
  options.system_tables = true;
  Machine m(options);
  EXPECT_TRUE(m.r32(NPU_REG_FEATURES) & NPU_FEATURE_SYSTEM_TABLES);
  const Area card = m.allocate(3 * kPage, Place::CardScattered), system = m.allocate(3 * kPage, Place::SystemScattered);
  const uint64_t table = m.r64(NPU_REG_ASID_TABLE);
  EXPECT_TRUE(table & NPU_ASID_TABLE_SYSTEM);
  const JobSpec job = copy_job(card, system, 3 * kPage);
  EXPECT_STATUS(m.run(job), NPU_STATUS_OK);
  EXPECT_STATUS(m.run(copy_job(system, card, 3 * kPage)), NPU_STATUS_OK);
  // A table that the bus does not deliver is none. Without the bit the address is one in DDR, which is zero there.
  for (uint64_t bad : {(uint64_t{1} << 51) | NPU_ASID_TABLE_SYSTEM, table & ~uint64_t{NPU_ASID_TABLE_SYSTEM}}) {
    m.w64(NPU_REG_ASID_TABLE, bad);
    m.wait_invalidated(m.invalidate(0));
    EXPECT_STATUS(m.run(job), NPU_STATUS_PAGE_FAULT) << std::hex << bad;
  }
  m.w64(NPU_REG_ASID_TABLE, table);
  m.wait_invalidated(m.invalidate(0));
  EXPECT_STATUS(m.run(job), NPU_STATUS_OK);
}

TEST(Mmu, AddressesAbove48BitsFault) {
  Machine m;
  const Area to = m.allocate(kPage);
  for (uint64_t va : {1ull << 48, 1ull << 63, ~0xfffull}) {
    const npu_cqe c = m.run(copy_job({0, va, kPage}, to, 64));
    EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
    EXPECT_EQ(c.fault_addr, va);
  }
  // A region that reaches beyond: the first byte beyond is named, even where base and offset wrap.
  const uint64_t last = (1ull << 48) - kPage;
  m.map(0, last, m.card_pages(1), 0);
  npu_cqe c = m.run(copy_job({0, last, 2 * kPage}, to, kPage, 64));
  EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
  EXPECT_EQ(c.fault_addr, 1ull << 48);
  c = m.run(copy_job({0, to.va, ~0ull}, to, 16, 0 - to.va));
  EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
  EXPECT_EQ(c.fault_addr, ~0ull);
}

TEST(Mmu, BlockThatReachesBeyondDdrIsUsableUpToItsEnd) {
  Machine m({.ddr = (32 << 20) + 3 * kPage});
  const uint64_t va = 0x6000'0000'0000;
  m.map(0, va, 32 << 20, NPU_PTE_LARGE | NPU_PTE_WRITE);
  const Area from = m.allocate(4 * kPage);
  EXPECT_STATUS(m.run(copy_job(from, {0, va, kBlock}, 3 * kPage)), NPU_STATUS_OK);
  const npu_cqe c = m.run(copy_job(from, {0, va, kBlock}, 3 * kPage + 1));
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.fault_addr, va + 3 * kPage);
}

TEST(Mmu, BusErrorNamesThePageWithinALongTransfer) {
  Machine m;
  for (bool write : {false, true}) {
    const Area system = m.allocate_at(1000, 40 * kPage, Place::System), card = m.allocate(40 * kPage);
    const uint64_t bad = (system.va + 17 * kPage) & ~(kPage - 1);
    m.board.poison(m.physical(0, bad));
    const npu_cqe c = m.run(write ? copy_job(card, system, 40 * kPage) : copy_job(system, card, 40 * kPage));
    EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
    EXPECT_EQ(c.fault_addr, bad);
  }
}

// ---- cached translations ----

TEST(Tlb, OldTranslationsAreGoneAfterInvalidationOfTheirRange) {
  Machine m({.cores = 1});
  const uint64_t n = 3000;  // more than a TLB holds
  const Area from = m.allocate(n * kPage), to = m.allocate(n * kPage);
  const JobSpec j = copy_job(from, to, n * kPage);
  for (unsigned round = 0; round < 4; ++round) {
    ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
    // Move a few pages elsewhere: at both ends and in the middle, one invalidation each.
    for (uint64_t page : {uint64_t{0}, uint64_t{1} + round, n / 2 + round, n - 1}) {
      const uint64_t fresh = m.card_pages(1), va = from.va + page * kPage;
      std::memset(m.ddr(fresh), static_cast<int>(0x40 + round), kPage);
      m.map(0, va, fresh, 0);
      m.wait_invalidated(m.invalidate(0, va, kPage));
    }
    ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
    EXPECT_EQ(m.content(from), m.content(to));
  }
}

TEST(Tlb, ManyInvalidationsBetweenTwoJobsAreAllSeen) {
  Machine m({.cores = 1});
  const Area from = m.allocate(300 * kPage), to = m.allocate(300 * kPage);
  const JobSpec j = copy_job(from, to, 300 * kPage);
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  for (uint64_t page = 0; page < 300; ++page) {
    const uint64_t fresh = m.card_pages(1), va = from.va + page * kPage;
    std::memset(m.ddr(fresh), static_cast<int>(page), kPage);
    m.map(0, va, fresh, 0);
    m.invalidate(0, va, kPage);
  }
  EXPECT_EQ(m.r32(NPU_REG_INV_ISSUED), 300u);
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  EXPECT_EQ(m.content(from), m.content(to));
}

TEST(Tlb, AnyNumberOfInvalidationsBetweenTwoJobsIsSeen) {
  // Around the powers of two, of which one is the size of what the chip remembers: the oldest and the newest count.
  for (const unsigned count : {1u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u, 66u, 127u, 128u, 129u}) {
    Machine m({.cores = 1});
    const Area from = m.allocate(count * kPage), to = m.allocate(count * kPage);
    const JobSpec j = copy_job(from, to, count * kPage);
    const Prepared p = m.prepare(0, j);  // once, so that nothing else is invalidated between the two runs
    TestQueue &q = m.queue(0);
    q.submit(p);
    ASSERT_STATUS(q.wait(), NPU_STATUS_OK);
    for (uint64_t page = 0; page < count; ++page) {
      const uint64_t fresh = m.card_pages(1), va = from.va + page * kPage;
      std::memset(m.ddr(fresh), 0xa5, kPage);
      m.map(0, va, fresh, 0);
      m.invalidate(0, va, kPage);
    }
    q.submit(p);
    ASSERT_STATUS(q.wait(), NPU_STATUS_OK);
    EXPECT_EQ(m.content(to), std::vector<uint8_t>(count * kPage, 0xa5)) << count << " invalidations";
  }
}

TEST(Tlb, ADeviceResetForgetsTranslations) {
  Machine m({.cores = 1});
  const Area from = m.allocate(kPage), to = m.allocate(kPage);
  const Prepared p = m.prepare(0, copy_job(from, to, 64));
  m.queue(0).submit(p);
  ASSERT_STATUS(m.queue(0).wait(), NPU_STATUS_OK);
  // Another page under the same address, and no invalidation but the reset.
  const uint64_t fresh = m.card_pages(1);
  std::memset(m.ddr(fresh), 0x5a, kPage);
  m.map(0, from.va, fresh, 0);
  m.reset();
  m.bring_up();
  TestQueue &q = m.queue(0);
  q.enable();
  q.submit(p);
  ASSERT_STATUS(q.wait(), NPU_STATUS_OK);
  EXPECT_EQ(*m.ddr(m.physical(0, to.va)), 0x5a);
}

TEST(Mmu, CardAndSystemPagesOfEqualAddressesAreDistinct) {
  // A card page and behind it a system page whose bus address goes on where the card's offset ends: one transfer, two
  // kinds of memory.
  Machine m({.cores = 1, .ddr = TestBoard::kBase + (1 << 20)});
  const uint64_t bus = m.board.allocate(kPage), offset = bus - kPage;
  ASSERT_GE(offset, 64u << 20) << "of the card's memory nothing else uses";
  const uint64_t va = 0x6000'0000'0000;
  m.map(0, va, offset, NPU_PTE_WRITE);
  m.map(0, va + kPage, bus, NPU_PTE_WRITE | NPU_PTE_SYSTEM);
  const auto data = pattern(2 * kPage);
  std::memcpy(m.ddr(offset), data.data(), kPage);
  std::memcpy(m.board.host(bus), data.data() + kPage, kPage);
  const Area to = m.allocate(2 * kPage), back{0, va, 2 * kPage};
  ASSERT_STATUS(m.run(copy_job(back, to, 2 * kPage)), NPU_STATUS_OK);
  EXPECT_EQ(m.content(to), data);
  const auto other = pattern(2 * kPage, 2);
  m.put(to, 0, other.data(), other.size());
  ASSERT_STATUS(m.run(copy_job(to, back, 2 * kPage)), NPU_STATUS_OK);
  EXPECT_EQ(std::memcmp(m.ddr(offset), other.data(), kPage), 0);
  EXPECT_EQ(std::memcmp(m.board.host(bus), other.data() + kPage, kPage), 0);
}

TEST(Tlb, ReplacedRootAndTablesAreSeenAfterInvalidation) {
  Machine m({.cores = 1});
  const Area to = m.allocate(kPage);
  TestQueue &q = m.queue(0);
  for (unsigned round = 0; round < 3; ++round) {
    // A whole new set of tables for ASID 0 with the destination at the same address.
    const uint64_t page = m.card_pages(1);
    m.set_root(0, m.card_pages(1) | NPU_ASID_VALID);
    m.wait_invalidated(m.invalidate(0));
    m.map(0, to.va, page, NPU_PTE_WRITE);
    const Area from = m.allocate(kPage);
    const uint8_t mark = static_cast<uint8_t>(0x11 * (round + 1));
    m.put(from, 0, &mark, 1);
    ASSERT_STATUS(q.run(copy_job(from, to, 1)), NPU_STATUS_OK);
    EXPECT_EQ(*m.ddr(page), mark);
  }
}

TEST(Tlb, UnmappedPageFaultsAfterInvalidation) {
  Machine m;
  const Area from = m.allocate(kPage), to = m.allocate(kPage);
  for (unsigned i = 0; i < 4; ++i) ASSERT_STATUS(m.run(copy_job(from, to, 64)), NPU_STATUS_OK);
  m.unmap(0, from.va);
  m.wait_invalidated(m.invalidate(0, from.va, kPage));
  for (unsigned i = 0; i < 4; ++i) EXPECT_STATUS(m.run(copy_job(from, to, 64)), NPU_STATUS_PAGE_FAULT);
}

// ---- invalidation and accesses in progress ----

TEST(Invalidation, CompletesAtOnceWithoutAccesses) {
  Machine m;
  for (uint32_t t = 1; t <= 100; ++t) {
    EXPECT_EQ(m.invalidate(t % 8, t * kPage, kPage), t);
    EXPECT_EQ(m.r32(NPU_REG_INV_DONE), t);
  }
  m.invalidate(~0u);  // no such ASID: nothing to wait for
  m.invalidate(0, ~0ull, ~0ull);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), 102u);
  EXPECT_EQ(m.board.interrupts(0), 1u) << "the event stayed set";
}

TEST(Invalidation, WaitsForTheAccessInProgressAndNoLonger) {
  Machine m;
  const Area from = m.allocate(kPage, Place::System), to = m.allocate(kPage);
  const Area other = m.allocate(kPage, Place::Card, 1);
  JobSpec j = copy_job(from, to, 64);
  for (unsigned i = 0; i < 3; ++i) j.gdma(j.stream[kGdma][0]);
  m.board.block(m.physical(0, from.va));
  TestQueue &q = m.queue(0);
  q.submit(j);
  m.board.wait_blocked();
  // Another address space is not held back, as long as nothing before it is.
  const uint32_t first = m.invalidate(1);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), first);
  m.w32(NPU_REG_EVENT_STATUS, ~0u);
  const unsigned before = m.board.interrupts(0);
  const uint32_t held = m.invalidate(0, from.va, kPage), behind = m.invalidate(1, other.va, kPage);
  for (unsigned i = 0; i < 50; ++i) {
    ASSERT_EQ(m.r32(NPU_REG_INV_DONE), first) << "tickets complete in order";
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // The core that is not in the access works on, in that address space too.
  EXPECT_STATUS(m.queue(1).run({}), NPU_STATUS_OK);
  EXPECT_STATUS(m.queue(1).run(copy_job(to, to, 1, 0, 64)), NPU_STATUS_OK);
  EXPECT_EQ(m.r32(NPU_REG_INV_DONE), first);
  EXPECT_EQ(m.board.interrupts(0), before);
  m.board.release();
  m.wait_invalidated(behind);
  EXPECT_EQ(behind, held + 1);
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
  eventually([&] { return m.board.interrupts(0) == before + 1; }, "interrupt");
}

TEST(Invalidation, DoesNotWaitForTheEndOfTheJob) {
  Machine m;
  const Area a = m.allocate(kPage, Place::System), b = m.allocate(kPage, Place::System), to = m.allocate(kPage);
  JobSpec j = copy_job(a, to, 64);
  j.regions.push_back(b.region());
  j.gdma(with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    std::memcpy(&c, j.stream[kGdma][0].bytes.data(), sizeof c);
    c.src_region = 2;
  }));
  m.board.block(m.physical(0, a.va));
  TestQueue &q = m.queue(0);
  q.submit(j);
  m.board.wait_blocked();
  const uint32_t ticket = m.invalidate(0, a.va, kPage);
  // The first command's access ends, the second command's begins and stays.
  m.board.block(m.physical(0, b.va));
  m.wait_invalidated(ticket);
  m.board.wait_blocked();
  EXPECT_FALSE(q.poll());
  m.board.release();
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
}

TEST(Invalidation, AccessThatBeganBeforeUsesTheOldPageLaterOnesTheNew) {
  Machine m;
  const Area gate = m.allocate(kPage, Place::System), source = m.allocate(kPage), to = m.allocate(kPage);
  const uint64_t one = 1, two = 2;
  m.put(source, 0, &one, 8);
  JobSpec j;
  j.regions = {gate.region(), to.region(), source.region()};
  const auto copy = [&](uint8_t region, uint64_t dst) {
    j.gdma(with<npu_cmd_copy>([&](npu_cmd_copy &c) {
      c.src_dtype = c.dst_dtype = NPU_DTYPE_S64;
      c.src_region = region;
      c.dst_region = 1;
      c.dst_offset = dst;
      std::fill_n(c.dims, 6, 1u);
    }));
  };
  copy(2, 0);
  copy(0, 64);
  copy(2, 8);
  m.board.block(m.physical(0, gate.va));
  TestQueue &q = m.queue(0);
  q.submit(j);
  m.board.wait_blocked();
  const uint64_t fresh = m.card_pages(1);
  m.map(0, source.va, fresh, 0);
  std::memcpy(m.ddr(fresh), &two, 8);
  const uint32_t ticket = m.invalidate(0, source.va, kPage);
  m.board.release();
  m.wait_invalidated(ticket);
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
  uint64_t got[2];
  m.get(to, 0, got, sizeof got);
  EXPECT_EQ(got[0], one);
  EXPECT_EQ(got[1], two);
}

}  // namespace
}  // namespace npu::test
