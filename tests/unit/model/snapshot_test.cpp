// SPDX-License-Identifier: MIT
// A chip that is saved and loaded does from there on what it would have done: trace, counters, memory.
#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint64_t kBig = 8 << 20;  // bytes that are copied in two steps

npu_cmd_copy copy(uint64_t bytes, uint32_t from, uint32_t to) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.src_region = static_cast<uint8_t>(from);
    c.dst_region = static_cast<uint8_t>(to);
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = static_cast<uint32_t>(bytes);
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

Cmd product() {
  return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
    c.batch = 1;
    c.m = c.n = 64;
    c.k = 64;
    c.out_addr = 0x8000;
    c.wgt_region = NPU_REGION_LOCAL;
    c.wgt_offset = 0x4000;
  });
}

int take(void *to, const void *data, size_t bytes) {
  const auto *p = static_cast<const uint8_t *>(data);
  static_cast<std::vector<uint8_t> *>(to)->assign(p, p + bytes);
  return 0;
}

/// Everything that somebody outside can see of the rest of a story.
struct Rest {
  std::vector<std::string> trace;
  std::vector<uint64_t> registers;
  std::vector<uint8_t> ddr, system;
  uint64_t interrupts = 0;

  bool operator==(const Rest &) const = default;
};

class Snapshot : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kSystem = 4 << 20;  // of system memory that is looked at

  Snapshot() : m(options()) {
    m.bring_up();
    fill();
    submit();
    m.board.take_trace();
  }

  static Machine::Options options() {
    Machine::Options o;
    o.clock = true;
    o.ddr = 32 << 20;
    o.edit = [](npu_model_config &c) { c.seed = GetParam(); };
    return o;
  }

  void fill() {
    from = m.allocate(kBig, Place::CardScattered);
    to = m.allocate(kBig, Place::Card);
    records = m.allocate(8 * kPage);
    std::vector<uint8_t> data(kBig);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 4096);
    m.put(from, 0, data.data(), kBig);
  }

  void submit() {
    JobSpec big;
    big.regions = {from.region(), to.region(), records.region()};
    big.flags = NPU_JOB_IRQ | NPU_JOB_PROFILE;
    big.profile_region = 2;
    big.profile_bytes = 8 * kPage;
    big.gdma(copy(0x8000, 0, NPU_REGION_LOCAL)).gdma(copy(kBig, 0, 1));
    for (unsigned i = 0; i < 40; ++i) big.tiu(product());
    big.gdma(copy(0x8000, NPU_REGION_LOCAL, 1));
    JobSpec gang;
    for (unsigned core = 0; core < 2; ++core) {
      if (core == 0) gang.at(core, kTiu).assign(10000, nop());
      gang.at(core, kTiu).push_back(with<npu_cmd_sem_signal>([&](npu_cmd_sem_signal &c) {
        c.sem = core;
        c.value = 1;
      }));
      gang.at(core, kTiu).push_back(with<npu_cmd_sem_wait>([&](npu_cmd_sem_wait &c) {
        c.sem = 1 - core;
        c.value = 1;
      }));
      for (unsigned i = 0; i < 30; ++i) gang.at(core, kGdma).push_back(nop());
    }
    m.queue(0, {0, 2}).submit(big);
    for (unsigned i = 0; i < 6; ++i) {
      m.queue(1).submit(gang);
      JobSpec small;
      small.stream[i % 2].assign(17 + i, nop());
      m.queue(2).submit(small);
      m.queue(3, {.asid = 1}).submit(small);
    }
  }

  std::vector<uint8_t> save() {
    std::vector<uint8_t> bytes;
    char message[256] = "";
    EXPECT_EQ(npu_model_save(m.model(), take, &bytes, message, sizeof message), 0) << message;
    return bytes;
  }
  std::vector<uint8_t> memory() { return {m.board.host(TestBoard::kBase), m.board.host(TestBoard::kBase) + kSystem}; }
  std::vector<uint8_t> ddr() { return {m.ddr(0), m.ddr(0) + m.ddr_bytes()}; }

  /// The story's end, from now on. It begins with another byte in what is copied: who has copied it keeps the old.
  Rest rest() {
    Rest r;
    *m.ddr(m.physical(from.asid, from.va + kBig / 4)) ^= 0xff;
    m.board.take_trace();
    const unsigned before = m.board.interrupts(1);
    for (unsigned i = 0; i < 100; ++i) {
      m.board.set_clock(m.model(), m.board.now() + 50021);
      for (uint32_t reg : {NPU_CORE_BUSY_CYCLES, NPU_CORE_TIU_CYCLES, NPU_CORE_GDMA_CYCLES, NPU_CORE_JOBS,
                           NPU_CORE_PROGRESS, NPU_CORE_JOB_ID})
        for (unsigned core = 0; core < 2; ++core) r.registers.push_back(m.r64(NPU_CORE_REG(core, reg)));
      for (unsigned core = 0; core < 2; ++core) r.registers.push_back(m.r64(NPU_BUSY_REG(core, NPU_BUSY_NS)));
      for (unsigned q = 0; q < 4; ++q) r.registers.push_back(m.r32(NPU_QUEUE_REG(q, NPU_QUEUE_STATUS)));
    }
    r.trace = m.board.take_trace();
    r.ddr = ddr();
    r.system = memory();
    r.interrupts = m.board.interrupts(1) - before;
    return r;
  }

  Machine m;
  Area from, to, records;
};

TEST_P(Snapshot, GoesOnAsItWouldHave) {
  for (uint64_t step : {0u, 33u, 20000u, 103000u, 300001u}) {
    SCOPED_TRACE(step);
    m.board.set_clock(m.model(), m.board.now() + step);
    const auto state = save();
    const auto memory = this->memory(), ddr = this->ddr();
    const uint64_t now = m.board.now();
    const Rest expected = rest();
    if (step == 0) {
      EXPECT_EQ(expected.interrupts, 19u);
    }
    std::copy(memory.begin(), memory.end(), m.board.host(TestBoard::kBase));
    std::copy(ddr.begin(), ddr.end(), m.ddr(0));
    m.board.turn_back(now);
    char message[256] = "";
    ASSERT_EQ(npu_model_load(m.model(), state.data(), state.size(), message, sizeof message), 0) << message;
    EXPECT_EQ(save(), state);
    const Rest again = rest();
    EXPECT_EQ(again.trace, expected.trace);
    EXPECT_EQ(again.registers, expected.registers);
    EXPECT_TRUE(again.ddr == expected.ddr);
    EXPECT_TRUE(again.system == expected.system);
    EXPECT_EQ(again.interrupts, expected.interrupts);
    // Back once more, for the next instant.
    std::copy(memory.begin(), memory.end(), m.board.host(TestBoard::kBase));
    std::copy(ddr.begin(), ddr.end(), m.ddr(0));
    m.board.turn_back(now);
    ASSERT_EQ(npu_model_load(m.model(), state.data(), state.size(), message, sizeof message), 0) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Snapshot, ::testing::Values(0, 1));

class SnapshotRefused : public ::testing::Test {
 protected:
  static Machine::Options options(std::function<void(npu_model_config &)> edit = {}) {
    Machine::Options o;
    o.clock = true;
    o.edit = std::move(edit);
    return o;
  }
  static std::string saved(Machine &m, std::vector<uint8_t> &bytes, int expected) {
    char message[256] = "";
    EXPECT_EQ(npu_model_save(m.model(), take, &bytes, message, sizeof message), expected);
    return message;
  }
  static std::string loaded(Machine &m, const std::vector<uint8_t> &bytes) {
    char message[256] = "";
    EXPECT_EQ(npu_model_load(m.model(), bytes.data(), bytes.size(), message, sizeof message), -EINVAL);
    EXPECT_EQ(m.r32(NPU_REG_STATUS), NPU_STATUS_READY);
    return message;
  }
};

TEST_F(SnapshotRefused, OfAnotherChipNamesBoth) {
  Machine two(options()), one(options([](npu_model_config &c) { c.cores = 1; }));
  std::vector<uint8_t> bytes;
  EXPECT_EQ(saved(two, bytes, 0), "");
  EXPECT_EQ(loaded(one, bytes), "the snapshot is of a chip with cores 2, this one has 1");
  Machine slow(options([](npu_model_config &c) { c.rate_8 = 1; }));
  EXPECT_EQ(loaded(slow, bytes), "the snapshot is of a chip with rate_8 4, this one has 1");
  Machine fast(options([](npu_model_config &c) { c.rate_16 = 4; }));
  EXPECT_EQ(loaded(fast, bytes), "the snapshot is of a chip with rate_16 2, this one has 4");
}

TEST_F(SnapshotRefused, OfAnotherVersionNamesBoth) {
  Machine m(options());
  std::vector<uint8_t> bytes;
  EXPECT_EQ(saved(m, bytes, 0), "");
  bytes[8] = 99;
  EXPECT_EQ(loaded(m, bytes), "the snapshot is of a chip with state version 99, this one has 6");
  bytes[0] = 0;
  EXPECT_EQ(loaded(m, bytes), "this is no snapshot of a chip");
}

TEST_F(SnapshotRefused, NotOfAChipWithAnotherSeed) {
  Machine m(options()), seven(options([](npu_model_config &c) { c.seed = 7; }));
  std::vector<uint8_t> bytes;
  EXPECT_EQ(saved(m, bytes, 0), "");
  EXPECT_EQ(npu_model_load(seven.model(), bytes.data(), bytes.size(), nullptr, 0), 0);
}

TEST_F(SnapshotRefused, ThatIsCutShort) {
  Machine m(options());
  std::vector<uint8_t> bytes;
  EXPECT_EQ(saved(m, bytes, 0), "");
  for (size_t left : {bytes.size() - 1, bytes.size() / 2, size_t{200}})
    EXPECT_EQ(loaded(m, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(left)}), "the snapshot is damaged");
  EXPECT_EQ(loaded(m, {}), "this is no snapshot of a chip");
}

TEST_F(SnapshotRefused, WhileAJobDoesNotObey) {
  Machine m(options());
  m.bring_up();
  npu_model_set_fault(m.model(), NPU_MODEL_FAULT_STUCK_ABORT, 1);
  JobSpec j;
  j.tiu(nop());
  const uint64_t id = m.queue(3).submit(j);
  std::vector<uint8_t> bytes;
  EXPECT_EQ(saved(m, bytes, 0), "");
  m.queue(3).abort(id);
  EXPECT_EQ(saved(m, bytes, -EBUSY), "the job of queue 3 is being stopped: it cannot be saved");
}

TEST_F(SnapshotRefused, InHostTime) {
  if (virtual_time()) return;  // there is none
  Machine m;
  std::vector<uint8_t> bytes;
  EXPECT_EQ(saved(m, bytes, -EBUSY), "a chip in host time cannot be saved: its board lends it no clock");
}

}  // namespace
}  // namespace npu::test
