// SPDX-License-Identifier: MIT
// A small driver for the chip model: card memory, page tables, queues, jobs. It knows docs/reference/hardware.md only,
// nothing of the model's inside.
#ifndef NPU_TEST_MODEL_MACHINE_H
#define NPU_TEST_MODEL_MACHINE_H

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "npu_isa.hpp"
#include "npu_model.h"
#include "npu_regs.h"
#include "tests/unit/model/board.h"

namespace npu::test {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kBlock = 2 << 20;
inline constexpr unsigned kTiu = NPU_ENGINE_TIU, kGdma = NPU_ENGINE_GDMA;

/// The bytes of a command.
struct Cmd {
  std::array<uint8_t, NPU_CMD_BYTES> bytes{};

  Cmd() = default;
  template <class T>
  Cmd(const T &c) {  // NOLINT: any command struct is a command
    static_assert(sizeof c == NPU_CMD_BYTES);
    std::memcpy(bytes.data(), &c, sizeof c);
  }
};

/// A command of type T with fields set by f.
template <class T, class F>
T with(F f) {
  T c = hw::make<T>();
  f(c);
  return c;
}
Cmd nop(uint32_t wait = 0);

/// Memory of an address space.
struct Area {
  uint32_t asid = 0;
  uint64_t va = 0;
  uint64_t bytes = 0;

  npu_region region(uint32_t access = NPU_ACCESS_READ | NPU_ACCESS_WRITE) const {
    npu_region r{};
    r.va = va;
    r.bytes = bytes;
    r.access = access;
    return r;
  }
};

enum class Place { Card, CardScattered, CardBlocks, System, SystemScattered };
inline constexpr Place kPlaces[] = {Place::Card, Place::CardScattered, Place::CardBlocks, Place::System,
                                    Place::SystemScattered};

/// What a test wants done. Regions are numbered in order; those of the streams come behind.
struct JobSpec {
  std::vector<npu_region> regions;
  std::vector<Cmd> stream[2];                         ///< kTiu, kGdma
  std::vector<std::array<std::vector<Cmd>, 2>> more;  ///< the same for the job's further cores
  uint64_t budget = 0;
  uint32_t core_mask = 0;
  uint16_t flags = NPU_JOB_IRQ;
  uint32_t profile_region = 0, profile_bytes = 0;
  uint64_t profile_offset = 0;
  std::function<void(std::vector<uint8_t> &)> edit;  ///< last change to the descriptor's bytes

  JobSpec &tiu(const Cmd &c) { return stream[kTiu].push_back(c), *this; }
  JobSpec &gdma(const Cmd &c) { return stream[kGdma].push_back(c), *this; }
  unsigned cores() const { return 1 + static_cast<unsigned>(more.size()); }
  /// The commands of an engine of the core-th core, which is made if it is the next.
  std::vector<Cmd> &at(unsigned core, unsigned engine) {
    if (core > more.size()) more.resize(core);
    return core ? more[core - 1][engine] : stream[engine];
  }
};

/// A descriptor in system memory.
struct Prepared {
  uint64_t desc = 0;
  uint32_t bytes = 0;
  uint64_t stream_va[2] = {};
};

struct QueueOptions {
  uint32_t asid = 0, priority = 1, core_mask = 0, vector = 1;  ///< core_mask 0: all cores
  uint32_t sq_log2 = 4, cq_log2 = 4;
};

class Machine;

/// A queue pair and its rings.
class TestQueue {
 public:
  TestQueue(Machine &m, unsigned number, const QueueOptions &options);

  void enable();
  /// Writes 0 to CTRL and waits for STATUS 0.
  void disable();
  uint32_t status();
  void wait_off();
  uint64_t submit(const JobSpec &job);
  /// Returns the job id; `ring` false: the doorbell comes later.
  uint64_t submit(const Prepared &p, bool ring = true);
  void submit_entry(const npu_sqe &e, bool ring = true);
  void ring_doorbell();
  /// The next completion, acknowledged unless `consume` is false.
  npu_cqe wait(bool consume = true);
  std::optional<npu_cqe> poll(bool consume = true);
  void consume();
  npu_cqe run(const JobSpec &job);
  void abort(uint64_t id);
  /// The chip writes the fence page after the completion entry, its number last: who waited for the entry only may find
  /// the page in the middle of that.
  void wait_fence(uint64_t id);
  const npu_fence fence();
  uint32_t reg(uint32_t r);
  unsigned number() const { return number_; }
  uint64_t cq_base() const { return cq_; }
  uint64_t sq_base() const { return sq_; }
  uint64_t fence_base() const { return fence_; }
  uint64_t last_id() const { return next_id_ - 1; }

 private:
  uint64_t fence_seqno();

  Machine &m_;
  const unsigned number_;
  const QueueOptions options_;
  uint64_t sq_, cq_, fence_;
  uint32_t tail_ = 0, head_ = 0, seen_ = 0, phase_ = 1;
  uint64_t next_id_ = 1;
};

class Machine {
 public:
  struct Options {
    uint32_t cores = 2, queues = 16, asids = 8, lmem = 256 * 1024;
    uint64_t ddr = 64 << 20;  ///< 0: a block in a SoC; tables and all other memory are then system memory
    const char *backend = "reference";
    bool clock = false;          ///< in virtual time, whatever NPU_TEST_TIME says
    bool system_tables = false;  ///< page tables of a card in system memory
    std::function<void(npu_model_config &)> edit;
  };

  explicit Machine(const Options &options);
  Machine() : Machine(Options{}) {}
  ~Machine();
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  npu_model *model() { return model_; }
  uint32_t r32(uint64_t reg) { return static_cast<uint32_t>(npu_model_read(model_, reg, 4)); }
  uint64_t r64(uint64_t reg) { return npu_model_read(model_, reg, 8); }
  void w32(uint64_t reg, uint32_t v) { npu_model_write(model_, reg, v, 4); }
  void w64(uint64_t reg, uint64_t v) { npu_model_write(model_, reg, v, 8); }

  /// Sets ASID_TABLE and CTRL.ENABLE as a driver does after reset.
  void bring_up();
  void reset();
  /// Stops the threads and waits for them.
  void stop();

  // ---- card memory and page tables ----
  uint8_t *ddr(uint64_t offset) { return ddr_ + offset; }
  uint64_t ddr_bytes() const { return options_.ddr; }
  uint64_t card_pages(uint64_t pages, uint64_t align = kPage);
  uint64_t table_pages(uint64_t pages);
  void store(uint64_t address, uint64_t value);
  uint64_t load(uint64_t address);
  void set_root(uint32_t asid, uint64_t entry);
  /// DDR offset of the entry that maps va at a level (0 or 1), tables made on the way.
  uint64_t entry_of(uint32_t asid, uint64_t va, unsigned level = 0);
  /// DDR offset of the table of a level (3: the root) on the way to va.
  uint64_t table_of(uint32_t asid, uint64_t va, unsigned level);
  void map(uint32_t asid, uint64_t va, uint64_t addr, uint64_t flags);
  void unmap(uint32_t asid, uint64_t va);
  /// Returns the ticket.
  uint32_t invalidate(uint32_t asid, uint64_t addr = 0, uint64_t bytes = 0);
  void wait_invalidated(uint32_t ticket);

  /// Fresh memory at a fresh address, with a guard page on both sides.
  Area allocate(uint64_t bytes, Place place = Place::Card, uint32_t asid = 0, uint64_t extra_flags = NPU_PTE_WRITE);
  /// An area that starts at any byte of fresh memory.
  Area allocate_at(uint64_t lead, uint64_t bytes, Place place, uint32_t asid = 0);
  void put(const Area &a, uint64_t offset, const void *data, uint64_t bytes);
  void get(const Area &a, uint64_t offset, void *data, uint64_t bytes);
  std::vector<uint8_t> content(const Area &a);
  /// Bus address or DDR offset behind a virtual address.
  uint64_t physical(uint32_t asid, uint64_t va) const { return pages_.at({asid, va / kPage}).addr + va % kPage; }

  // ---- jobs ----
  TestQueue &queue(unsigned number, QueueOptions options = {});
  Prepared prepare(uint32_t asid, const JobSpec &job);
  uint64_t bus_copy(const void *data, size_t bytes);
  /// Runs a job on a queue of its own and returns its completion.
  npu_cqe run(const JobSpec &job) { return queue(0).run(job); }

  TestBoard board;

 private:
  struct Page {
    uint64_t addr;
    bool system;
  };
  uint8_t *host(uint32_t asid, uint64_t va);
  uint8_t *table_memory(uint64_t address) {
    return ddr_ && !options_.system_tables ? ddr_ + address : board.host(address);
  }

  const Options options_;
  uint8_t *ddr_ = nullptr;
  npu_model *model_ = nullptr;
  std::vector<std::thread> threads_;
  uint64_t next_page_ = 0;
  uint64_t next_va_ = 0x10'0000'0000;
  uint64_t asid_table_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, Page> pages_;
  std::map<unsigned, std::unique_ptr<TestQueue>> queues_;
};

/// Does this run of the tests use virtual time (docs/reference/hardware.md section 8.4)? NPU_TEST_TIME=virtual asks for
/// it.
bool virtual_time();
/// The back ends that this build has.
inline std::vector<const char *> backends() {
#ifdef NPU_TEST_ONEDNN
  return {"reference", "onednn"};
#else
  return {"reference"};
#endif
}
/// Waits until f() is true; fails the test after a generous time, in virtual time when the chips wait for nothing.
void eventually(const std::function<bool()> &f, const char *what);
/// A name for a status, for messages.
const char *status_name(uint32_t status);

#define EXPECT_STATUS(cqe, expected) EXPECT_EQ((cqe).status, expected) << npu::test::status_name((cqe).status)
#define ASSERT_STATUS(cqe, expected) ASSERT_EQ((cqe).status, expected) << npu::test::status_name((cqe).status)

}  // namespace npu::test

#endif  // NPU_TEST_MODEL_MACHINE_H
