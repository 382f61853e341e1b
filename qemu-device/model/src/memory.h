// SPDX-License-Identifier: MIT
// A core's access to memory by virtual address: translation, runs of contiguous pages, DDR pointers and bus transfers.
#ifndef NPU_MODEL_MEMORY_H
#define NPU_MODEL_MEMORY_H

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "qemu-device/model/src/board.h"
#include "qemu-device/model/src/config.h"
#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/mmu.h"
#include "qemu-device/model/src/origins.h"
#include "qemu-device/model/src/pace.h"

namespace npu::model {

/// A growing aligned buffer; never throws.
class Buffer {
 public:
  /// At least that many bytes, or nullptr when the host has none. Contents are lost.
  uint8_t *reserve(uint64_t bytes);
  /// Gives memory beyond a reasonable size back.
  void trim();

 private:
  struct Free {
    void operator()(uint8_t *p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  uint64_t bytes_ = 0;
};

/// One core's view of its job's address space. Owned by the core's thread.
class Memory {
 public:
  Memory(const Config &config, Mmu &mmu, const Board &board, unsigned slot)
      : ddr_(config.ddr), ddr_bytes_(config.ddr_bytes), mmu_(mmu), board_(board), slot_(slot) {
    who_.core = slot / kSlots;
    note(NPU_ENGINE_NONE, NPU_COMMAND_NONE, 0);
  }

  static constexpr unsigned kSlots = 2;  ///< of the MMU, a core: of its commands' accesses, and of fetching these

  /// An access section: all accesses lie inside one, no pointer survives it, and an invalidation waits for those that
  /// began before it. Keep them short: a command, or a chunk of one.
  class Section {
   public:
    explicit Section(Memory &memory) : memory_(memory) {
      memory_.mmu_.begin(memory_.slot_, memory_.asid_, memory_.tlb_);
    }
    ~Section() { memory_.mmu_.end(memory_.slot_); }
    Section(const Section &) = delete;
    Section &operator=(const Section &) = delete;

   private:
    Memory &memory_;
  };

  /// Physically contiguous bytes.
  struct Run {
    uint8_t *data = nullptr;  ///< DDR; nullptr: system memory
    uint64_t bus = 0;
    uint64_t bytes = 0;
  };

  void set_job(uint32_t asid, uint64_t id, uint32_t queue) {
    asid_ = who_.asid = asid;
    who_.job = id;
    who_.queue = queue;
  }
  /// The command whose accesses follow, for the board.
  void note(unsigned engine, uint32_t command, uint32_t layer) {
    who_.engine = engine;
    who_.command = command;
    who_.layer = layer;
  }
  /// Drops cached translations.
  void evict() { tlb_.flush(); }

  Fault read(uint64_t va, void *buf, uint64_t bytes);
  /// As read(), for memory that software may be writing at this moment. `done`: bytes read before the fault.
  Fault fetch(uint64_t va, void *buf, uint64_t bytes, uint64_t &done);
  Fault write(uint64_t va, const void *buf, uint64_t bytes);
  /// Memory to memory.
  Fault copy(uint64_t dst, uint64_t src, uint64_t bytes);

  /// The contiguous run at va, at most `limit` bytes.
  Fault run(uint64_t va, uint64_t limit, bool write, Run &out);
  /// A pointer when the whole range is contiguous in DDR, else nullptr: then `fault` tells whether the range has a
  /// hole.
  uint8_t *contiguous(uint64_t va, uint64_t bytes, bool write, Fault &fault);
  /// Translates the range without an access, up to the first page that faults. False: the job has to stop.
  bool probe(uint64_t va, uint64_t bytes, const Pace &pace, Fault &fault);
  /// True if equal `identity` (and va, bytes) stands for equal contents.
  bool constant(uint64_t va, uint64_t bytes, const Pace &pace, uint32_t &identity);
  uint64_t ddr_bytes() const { return ddr_bytes_; }

 private:
  template <class Copy>
  Fault read_with(uint64_t va, void *buf, uint64_t bytes, uint64_t &done, Copy copy);
  const npu_model_access &access(uint64_t va) {
    who_.va = va;
    return who_;
  }
  Fault bus_read(uint64_t va, const Run &run, void *buf, uint64_t &done);
  Fault bus_write(uint64_t va, const Run &run, const void *buf);
  Fault transfer(uint64_t dst, const Run &to, uint64_t src, const Run &from);

  template <class Each>
  bool for_pages(uint64_t va, uint64_t bytes, const Pace &pace, Each each);

  uint8_t *const ddr_;
  const uint64_t ddr_bytes_;
  Mmu &mmu_;
  const Board &board_;
  const unsigned slot_;
  uint32_t asid_ = 0;
  npu_model_access who_{};
  Tlb tlb_;
  Buffer bounce_;
};

/// A core's local memory: reads as zero at the start of every job. Only what was written is cleared. Whoever leaves it
/// by less than kGuard bytes on either side ends with SIGSEGV.
class LocalMemory {
 public:
  explicit LocalMemory(uint32_t bytes);
  ~LocalMemory();
  LocalMemory(const LocalMemory &) = delete;
  LocalMemory &operator=(const LocalMemory &) = delete;

  uint8_t *at(uint64_t offset) { return data_ + offset; }
  uint32_t size() const { return bytes_; }
  /// A command is about to write some or all of these bytes.
  void written(uint64_t first, uint64_t end) {
    if (end > dirty_) dirty_ = end;
    origins_.written(first, end);
  }
  void clear();
  Origins &origins() { return origins_; }

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(dirty_);
    if (dirty_ > bytes_) a.refuse();
    if (dirty_ <= bytes_) a.raw(data_, dirty_);
    if (a.loading()) origins_.clear();
  }

 private:
  static constexpr size_t kGuard = 1 << 20;

  const uint32_t bytes_;
  void *const mapping_;  // guard, local memory, guard
  uint8_t *data_;
  uint64_t dirty_ = 0;  ///< end of what may have been written
  Origins origins_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_MEMORY_H
