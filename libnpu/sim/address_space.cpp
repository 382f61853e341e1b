// SPDX-License-Identifier: MIT
#include "libnpu/sim/address_space.h"

#include <npu_regs.h>

namespace npu::sim {
namespace {

constexpr unsigned kLevelBits = 9;
static_assert(1u << kLevelBits == NPU_PT_ENTRIES);
static_assert(kPage == 1u << NPU_PAGE_SHIFT && kBlock == 1u << NPU_BLOCK_SHIFT);

uint64_t load(const uint64_t *entry) { return __atomic_load_n(entry, __ATOMIC_RELAXED); }
void store(uint64_t *entry, uint64_t value) { __atomic_store_n(entry, value, __ATOMIC_RELEASE); }

/// How much one entry maps at this place of a range: a block where both addresses and the rest of the range allow it.
uint64_t step(uint64_t va, uint64_t target, uint64_t left) {
  return ((va | target) & (kBlock - 1)) == 0 && left >= kBlock ? kBlock : kPage;
}

}  // namespace

AddressSpace::~AddressSpace() {
  for (uint64_t table : owned_) tables_.give_back(table, kPage);
}

bool AddressSpace::init() { return (root_ = new_table()) != 0; }

uint64_t AddressSpace::new_table() {
  const auto table = tables_.take(kPage, kPage);
  if (!table) return 0;
  ddr_.clear(*table, kPage);
  owned_.push_back(*table);
  return *table;
}

uint64_t *AddressSpace::entry(uint64_t table, uint64_t va, unsigned level) const {
  const uint64_t index = va >> (NPU_PAGE_SHIFT + kLevelBits * level) & (NPU_PT_ENTRIES - 1);
  return reinterpret_cast<uint64_t *>(ddr_.data() + table) + index;
}

uint64_t *AddressSpace::leaf(uint64_t va, unsigned level, bool create) {
  uint64_t table = root_;
  for (unsigned l = NPU_PT_LEVELS - 1; l > level; l--) {
    uint64_t *e = entry(table, va, l);
    if (!(load(e) & NPU_PTE_VALID)) {
      const uint64_t next = create ? new_table() : 0;
      if (!next) return nullptr;
      store(e, next | NPU_PTE_VALID);
    }
    if (load(e) & NPU_PTE_LARGE) return nullptr;
    table = load(e) & NPU_PTE_ADDR;
  }
  return entry(table, va, level);
}

bool AddressSpace::map(uint64_t va, uint64_t target, uint64_t bytes, uint64_t flags) {
  for (uint64_t done = 0; done < bytes;) {
    uint64_t size = step(va + done, target + done, bytes - done);
    uint64_t *e = leaf(va + done, 1, true);
    // Where an earlier, smaller buffer left a table, that is used again.
    if (size == kBlock && e && (load(e) & (NPU_PTE_VALID | NPU_PTE_LARGE)) == NPU_PTE_VALID) size = kPage;
    if (size == kPage) e = leaf(va + done, 0, true);
    if (!e) {
      unmap(va, done);
      return false;
    }
    store(e, (target + done) | flags | NPU_PTE_VALID | (size == kBlock ? NPU_PTE_LARGE : 0));
    done += size;
  }
  return true;
}

void AddressSpace::unmap(uint64_t va, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    uint64_t *block = leaf(va + done, 1, false);
    if (block && load(block) & NPU_PTE_LARGE) {
      store(block, 0);
      done += kBlock;
      continue;
    }
    if (uint64_t *e = leaf(va + done, 0, false)) store(e, 0);
    done += kPage;
  }
}

}  // namespace npu::sim
