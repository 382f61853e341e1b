// SPDX-License-Identifier: MIT
// Address translation: the ASID table, page walks, TLBs, and invalidation that is complete exactly when the accesses
// which began before it have ended. docs/reference/hardware.md section 3.
#ifndef NPU_MODEL_MMU_H
#define NPU_MODEL_MMU_H

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "qemu-device/model/src/board.h"
#include "qemu-device/model/src/config.h"
#include "qemu-device/model/src/error.h"

namespace npu::model {

/// Cached translations of one core. Only its thread touches it, inside access sections.
struct Tlb {
  static constexpr unsigned kEntries = 1024;
  struct Entry {
    uint64_t tag = 0;  ///< asid and page number plus 1; 0: empty
    uint64_t pte = 0;  ///< leaf of the 4 KiB page, LARGE if it is part of a block; 0: no translation
  };

  std::array<Entry, kEntries> entries;
  uint64_t table_tag = 0;  ///< asid and block number plus 1 of the last level 0 table; 0: none
  uint64_t table = 0;
  uint32_t root_asid = NPU_MAX_ASIDS;  ///< ASID whose root is cached; NPU_MAX_ASIDS: none
  uint64_t root = 0;                   ///< 0: that ASID has no valid root
  uint64_t seen = 0;                   ///< invalidations applied

  void flush();
};

/// Where a virtual address leads.
struct Translation {
  uint64_t addr = 0;   ///< DDR offset or bus address
  uint64_t bytes = 0;  ///< from there to the end of the page or block
  bool system = false;
  bool constant = false;
};

class Mmu {
 public:
  /// What an invalidation or the end of an access has set in motion.
  struct Moved {
    bool done = false;    ///< INV_DONE moved
    bool forget = false;  ///< take_forgotten() has something
  };

  /// `moved` is called without a lock held. `slots`: accessors that exist, one a core.
  Mmu(const Config &config, const Board &board, unsigned slots, std::function<void(Moved)> moved);

  void set_asid_table(uint64_t address) { asid_table_.store(address); }
  uint64_t asid_table() const { return asid_table_.load(); }

  /// INV_ADDR and INV_BYTES, for the next invalidation.
  std::atomic<uint64_t> inv_addr{0};
  std::atomic<uint64_t> inv_bytes{0};
  /// INV_ASID: starts an invalidation; a size of 0 means the whole ASID and its root.
  void invalidate(uint32_t asid) { invalidate(asid, inv_addr.load(), inv_bytes.load()); }
  void invalidate(uint32_t asid, uint64_t addr, uint64_t bytes);
  uint32_t issued() const;
  uint32_t done() const;
  /// Forgets everything. True when take_forgotten() has something. Precondition: no access section is open.
  bool reset();
  /// For an archive: the registers. Precondition: no access section is open. Loading forgets everything else, as
  /// reset() does.
  template <class A>
  void visit_state(A &a) {
    uint32_t tickets = issued();
    a(asid_table_, inv_addr, inv_bytes, tickets);
    if (a.loading()) restart(tickets);
  }

  /// Access sections of a slot: every use of a translation lies between begin and end.
  void begin(unsigned slot, uint32_t asid, Tlb &tlb);
  void end(unsigned slot);

  Fault translate(Tlb &tlb, uint32_t asid, uint64_t va, bool write, Translation &out) const {
    if (va >> NPU_VA_BITS) return {NPU_STATUS_PAGE_FAULT, write, va};
    const uint64_t page = va >> NPU_PAGE_SHIFT, tag = key(asid, page, NPU_VA_BITS - NPU_PAGE_SHIFT);
    Tlb::Entry &e = tlb.entries[page % Tlb::kEntries];
    if (e.tag != tag) {
      e.pte = walk(tlb, asid, va);
      e.tag = tag;
    }
    return resolve(e.pte, va, write, out);
  }

  /// Ranges that are known to be const DDR pages, so that a packed copy may stand for them. `identity` names the
  /// contents for Backend: it changes with each invalidation that meets a known range. Both are called inside a section
  /// of the slot.
  bool find_constant(unsigned slot, uint64_t va, uint64_t bytes, uint32_t &identity);
  /// Records a range whose pages the caller has just translated; false when an invalidation came in between.
  bool note_constant(unsigned slot, uint64_t va, uint64_t bytes, uint32_t &identity);
  /// Identities that nothing uses any more; kEveryIdentity when they were too many to count.
  std::vector<uint32_t> take_forgotten();

 private:
  struct Slot {
    bool active = false;
    uint32_t asid = 0;
    uint64_t ticket = 0;  ///< invalidations issued when the section began
  };
  struct Invalidation {
    uint64_t ticket = 0;
    uint32_t asid = 0;
    bool all = false;  ///< stands for several, of any ASID
    bool root = false;
    bool forget = false;
    uint32_t identity = 0;  ///< with forget
    uint64_t first = 0, last = 0;
  };
  struct Range {
    uint64_t first, last;  ///< bytes, inclusive, whole pages
  };
  struct Constants {
    uint32_t generation = 0;
    uint64_t invalidated = 0;  ///< ticket of the last invalidation
    std::vector<Range> ranges;
  };

  static constexpr unsigned kLog = 64;
  static constexpr unsigned kMaxPending = 64;      // beyond that invalidations become one of every ASID
  static constexpr unsigned kMaxForgotten = 1024;  // beyond that every identity is forgotten
  static constexpr unsigned kMaxRanges = 256;      // of an ASID; what is beyond counts as not constant
  static constexpr unsigned kAsidBits = 10;
  static_assert(NPU_MAX_ASIDS <= 1u << kAsidBits);

  static uint64_t key(uint32_t asid, uint64_t number, unsigned bits) { return (uint64_t{asid} << bits | number) + 1; }
  uint32_t identity(uint32_t asid) const { return constants_[asid].generation << kAsidBits | asid; }
  Fault resolve(uint64_t pte, uint64_t va, bool write, Translation &out) const;
  uint64_t walk(Tlb &tlb, uint32_t asid, uint64_t va) const;
  uint64_t find_table(Tlb &tlb, uint32_t asid, uint64_t va, uint64_t &block) const;
  uint64_t find_root(Tlb &tlb, uint32_t asid) const;
  bool load(uint64_t address, uint64_t &value) const;
  void apply(Tlb &tlb) const;
  bool drop_constants(Invalidation &inv);
  void queue(const Invalidation &inv);
  void note_forgotten(uint32_t identity);
  Moved complete();
  void restart(uint32_t tickets);
  void announce(Moved moved);

  const Board &board_;
  const uint8_t *ddr_;
  const uint64_t ddr_bytes_;  ///< 0: tables are in system memory
  const uint32_t asids_;
  const std::function<void(Moved)> moved_;
  std::atomic<uint64_t> asid_table_{0};

  mutable std::mutex mutex_;  // guards all below
  uint64_t issued_ = 0;       // never restarts; the registers count from base_
  uint64_t done_ = 0;
  uint64_t base_ = 0;
  uint64_t flushed_ = 0;  // TLBs that have seen less than this are flushed as a whole
  std::array<Invalidation, kLog> log_;
  // Register accesses add to these: they never grow.
  std::array<Invalidation, kMaxPending> pending_;
  uint64_t pending_first_ = 0, pending_end_ = 0;  // count for ever; an entry's place is its number modulo the size
  std::vector<Slot> slots_;
  std::vector<Constants> constants_;
  std::array<uint32_t, kMaxForgotten> forgotten_;
  unsigned forgotten_count_ = 0;
  bool forget_every_ = false;
};

}  // namespace npu::model

#endif  // NPU_MODEL_MMU_H
