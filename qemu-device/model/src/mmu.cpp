// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/mmu.h"

#include <algorithm>
#include <utility>

namespace npu::model {

namespace {

constexpr uint64_t kMaxVa = (uint64_t{1} << NPU_VA_BITS) - 1;
constexpr unsigned kLevelBits = 9;

unsigned level_shift(unsigned level) { return NPU_PAGE_SHIFT + level * kLevelBits; }

uint64_t table_index(uint64_t va, unsigned level) { return va >> level_shift(level) & (NPU_PT_ENTRIES - 1); }

bool meets(uint64_t first, uint64_t last, uint64_t other_first, uint64_t other_last) {
  return first <= other_last && other_first <= last;
}

}  // namespace

void Tlb::flush() {
  entries.fill({});
  table_tag = 0;
  root_asid = NPU_MAX_ASIDS;
}

Mmu::Mmu(const Config &config, const Board &board, unsigned slots, std::function<void(Moved)> moved)
    : board_(board),
      ddr_(config.ddr),
      ddr_bytes_(config.ddr_bytes),
      asids_(config.asids),
      moved_(std::move(moved)),
      slots_(slots),
      constants_(config.asids) {}

// ---- page walks ----

/// A word of a table.
bool Mmu::load(uint64_t address, uint64_t &value) const {
  if (ddr_bytes_ == 0 || asid_table() & NPU_ASID_TABLE_SYSTEM) return board_.read(address, &value, sizeof value);
  if (address > ddr_bytes_ - sizeof value) return false;
  // Software changes entries while the chip walks: one access for each, so that none is seen half written.
  value = __atomic_load_n(reinterpret_cast<const uint64_t *>(ddr_ + address), __ATOMIC_ACQUIRE);
  return true;
}

uint64_t Mmu::find_root(Tlb &tlb, uint32_t asid) const {
  if (tlb.root_asid == asid) return tlb.root;
  tlb.root_asid = asid;
  tlb.root = 0;
  uint64_t entry, reserved;
  const uint64_t table = asid_table() & ~uint64_t{NPU_ASID_TABLE_SYSTEM};
  if (asid >= asids_ || (table & ~uint64_t{NPU_PTE_ADDR}) || !load(table + asid * sizeof(npu_asid_entry), entry) ||
      !load(table + asid * sizeof(npu_asid_entry) + offsetof(npu_asid_entry, reserved), reserved))
    return 0;
  if (!(entry & NPU_ASID_VALID) || (entry & ~(NPU_ASID_VALID | NPU_ASID_ROOT)) || reserved) return 0;
  return tlb.root = entry;
}

/// Descends to the level 0 table of va. Returns its entry, or 0; a block found on the way is left in `block`.
uint64_t Mmu::find_table(Tlb &tlb, uint32_t asid, uint64_t va, uint64_t &block) const {
  uint64_t entry = find_root(tlb, asid);
  if (!entry) return 0;
  for (unsigned level = NPU_PT_LEVELS - 1; level > 0; --level) {
    if (!load((entry & NPU_PTE_ADDR) + table_index(va, level) * sizeof entry, entry)) return 0;
    if (!(entry & NPU_PTE_VALID) || (entry & NPU_PTE_RESERVED)) return 0;
    if (level == 1 && (entry & NPU_PTE_LARGE)) {
      if ((entry & NPU_PTE_ADDR) % kBlockBytes == 0) block = entry;
      return 0;
    }
    if (entry & ~(NPU_PTE_VALID | NPU_PTE_ADDR)) return 0;
  }
  return entry;
}

/// The leaf entry for the 4 KiB page of va, 0 when there is none.
uint64_t Mmu::walk(Tlb &tlb, uint32_t asid, uint64_t va) const {
  const uint64_t tag = key(asid, va >> NPU_BLOCK_SHIFT, NPU_VA_BITS - NPU_BLOCK_SHIFT);
  if (tlb.table_tag != tag) {
    uint64_t block = 0;
    const uint64_t table = find_table(tlb, asid, va, block);
    if (block) return block + (va % kBlockBytes & ~uint64_t{kPageBytes - 1});
    if (!table) return 0;
    tlb.table_tag = tag;
    tlb.table = table & NPU_PTE_ADDR;
  }
  uint64_t leaf;
  if (!load(tlb.table + table_index(va, 0) * sizeof leaf, leaf)) return 0;
  if (!(leaf & NPU_PTE_VALID) || (leaf & (NPU_PTE_RESERVED | NPU_PTE_LARGE))) return 0;
  return leaf;
}

Fault Mmu::resolve(uint64_t pte, uint64_t va, bool write, Translation &out) const {
  if (!pte) return {NPU_STATUS_PAGE_FAULT, write, va};
  if (write && (!(pte & NPU_PTE_WRITE) || (pte & NPU_PTE_CONST))) return {NPU_STATUS_PAGE_ACCESS, write, va};
  const uint64_t size = pte & NPU_PTE_LARGE ? kBlockBytes : kPageBytes;
  out.addr = (pte & NPU_PTE_ADDR) + va % kPageBytes;
  out.bytes = size - va % size;
  out.system = pte & NPU_PTE_SYSTEM;
  out.constant = pte & NPU_PTE_CONST;
  if (out.system) return {};
  if (out.addr >= ddr_bytes_) return {NPU_STATUS_DMA_ERROR, write, va};
  out.bytes = std::min(out.bytes, ddr_bytes_ - out.addr);
  return {};
}

// ---- access sections and invalidation ----

void Mmu::begin(unsigned slot, uint32_t asid, Tlb &tlb) {
  std::lock_guard lock(mutex_);
  if (tlb.seen != issued_ || tlb.seen < flushed_) apply(tlb);
  slots_[slot] = {true, asid, issued_};
}

void Mmu::end(unsigned slot) {
  Moved moved;
  {
    std::lock_guard lock(mutex_);
    slots_[slot].active = false;
    if (pending_first_ != pending_end_) moved = complete();
  }
  announce(moved);
}

void Mmu::announce(Moved moved) {
  if (moved.done || moved.forget) moved_(moved);
}

/// Brings a TLB up to date with the invalidations it has not seen.
void Mmu::apply(Tlb &tlb) const {
  if (tlb.seen < flushed_ || issued_ - tlb.seen > kLog) {
    tlb.flush();
    tlb.seen = issued_;
    return;
  }
  for (; tlb.seen != issued_; ++tlb.seen) {
    const Invalidation &inv = log_[tlb.seen % kLog];
    tlb.table_tag = 0;
    if (inv.root && tlb.root_asid == inv.asid) tlb.root_asid = NPU_MAX_ASIDS;
    const uint64_t low = key(inv.asid, inv.first >> NPU_PAGE_SHIFT, NPU_VA_BITS - NPU_PAGE_SHIFT);
    const uint64_t high = key(inv.asid, inv.last >> NPU_PAGE_SHIFT, NPU_VA_BITS - NPU_PAGE_SHIFT);
    for (Tlb::Entry &e : tlb.entries)
      if (e.tag >= low && e.tag <= high) e = {};
  }
}

void Mmu::invalidate(uint32_t asid, uint64_t addr, uint64_t bytes) {
  Moved moved;
  {
    std::lock_guard lock(mutex_);
    Invalidation inv;
    inv.asid = std::min(asid, uint32_t{NPU_MAX_ASIDS});
    inv.root = bytes == 0;
    addr = std::min(addr, kMaxVa);
    inv.first = bytes ? addr & ~uint64_t{kPageBytes - 1} : 0;
    inv.last = bytes == 0 || bytes - 1 > kMaxVa - addr ? kMaxVa : (addr + bytes - 1) | (kPageBytes - 1);
    log_[issued_ % kLog] = inv;
    inv.ticket = ++issued_;
    inv.forget = asid < asids_ && drop_constants(inv);
    queue(inv);
    moved = complete();
  }
  announce(moved);
}

/// Puts an invalidation behind those that wait. Where too many wait, the last one takes it in and waits for every older
/// access, whatever its address space.
void Mmu::queue(const Invalidation &inv) {
  if (pending_end_ - pending_first_ < kMaxPending) {
    pending_[pending_end_++ % kMaxPending] = inv;
    return;
  }
  Invalidation &last = pending_[(pending_end_ - 1) % kMaxPending];
  // No later access finds copies of these identities, so they may go before the tickets are complete.
  for (const Invalidation *i : {static_cast<const Invalidation *>(&last), &inv})
    if (i->forget) note_forgotten(i->identity);
  last.ticket = inv.ticket;
  last.all = true;
  last.forget = false;
}

void Mmu::note_forgotten(uint32_t identity) {
  if (forgotten_count_ < kMaxForgotten)
    forgotten_[forgotten_count_++] = identity;
  else
    forget_every_ = true;
}

/// Completes, in order, the invalidations that no older access holds back.
Mmu::Moved Mmu::complete() {
  Moved moved;
  for (; pending_first_ != pending_end_; ++pending_first_) {
    const Invalidation &inv = pending_[pending_first_ % kMaxPending];
    for (const Slot &s : slots_)
      if (s.active && (inv.all || s.asid == inv.asid) && s.ticket < inv.ticket) return moved;
    if (inv.forget) note_forgotten(inv.identity);
    moved.forget = forgotten_count_ != 0;
    moved.done = true;
    done_ = inv.ticket;
  }
  return moved;
}

uint32_t Mmu::issued() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(issued_ - base_);
}

uint32_t Mmu::done() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(done_ - base_);
}

/// INV_ISSUED and INV_DONE count on from there.
void Mmu::restart(uint32_t tickets) {
  std::lock_guard lock(mutex_);
  base_ = issued_ - tickets;
}

bool Mmu::reset() {
  std::lock_guard lock(mutex_);
  for (; pending_first_ != pending_end_; ++pending_first_)
    if (const Invalidation &inv = pending_[pending_first_ % kMaxPending]; inv.forget) note_forgotten(inv.identity);
  flushed_ = base_ = done_ = ++issued_;
  for (uint32_t asid = 0; asid < asids_; ++asid) {
    Constants &c = constants_[asid];
    if (c.ranges.empty()) continue;
    note_forgotten(identity(asid));
    ++c.generation;
    c.ranges.clear();
  }
  asid_table_.store(0);
  inv_addr.store(0);
  inv_bytes.store(0);
  return forgotten_count_ != 0;
}

// ---- constant ranges ----

/// Forgets the known ranges of the ASID if the invalidation meets one; then its packed copies have lost their identity.
bool Mmu::drop_constants(Invalidation &inv) {
  Constants &c = constants_[inv.asid];
  c.invalidated = inv.ticket;
  const bool met = std::any_of(c.ranges.begin(), c.ranges.end(),
                               [&](const Range &r) { return meets(r.first, r.last, inv.first, inv.last); });
  if (!met) return false;
  inv.identity = identity(inv.asid);
  ++c.generation;
  c.ranges.clear();
  return true;
}

bool Mmu::find_constant(unsigned slot, uint64_t va, uint64_t bytes, uint32_t &id) {
  std::lock_guard lock(mutex_);
  const uint32_t asid = slots_[slot].asid;
  if (asid >= asids_ || constants_[asid].invalidated > slots_[slot].ticket) return false;
  id = identity(asid);
  const auto &ranges = constants_[asid].ranges;
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range &r) { return va >= r.first && va + (bytes - 1) <= r.last; });
}

bool Mmu::note_constant(unsigned slot, uint64_t va, uint64_t bytes, uint32_t &id) {
  std::lock_guard lock(mutex_);
  const Slot &s = slots_[slot];
  Constants &c = constants_[s.asid];
  if (c.invalidated > s.ticket) return false;
  Range range{va & ~uint64_t{kPageBytes - 1}, (va + bytes - 1) | (kPageBytes - 1)};
  // Ranges that touch become one, so that the weights of a network end up as a single range.
  std::erase_if(c.ranges, [&](const Range &r) {
    if (r.first > range.last + 1 || range.first > r.last + 1) return false;
    range = {std::min(range.first, r.first), std::max(range.last, r.last)};
    return true;
  });
  if (c.ranges.size() >= kMaxRanges) return false;
  c.ranges.push_back(range);
  id = identity(s.asid);
  return true;
}

std::vector<uint32_t> Mmu::take_forgotten() {
  std::vector<uint32_t> taken;
  taken.reserve(kMaxForgotten);
  std::lock_guard lock(mutex_);
  if (forget_every_)
    taken.push_back(kEveryIdentity);
  else
    taken.assign(forgotten_.begin(), forgotten_.begin() + forgotten_count_);
  forgotten_count_ = 0;
  forget_every_ = false;
  return taken;
}

}  // namespace npu::model
