// SPDX-License-Identifier: MIT
// The page tables of one address space, in card memory. Not thread-safe: the device's mutex serialises changes; the
// chip walks at the same time.
#ifndef NPU_SIM_ADDRESS_SPACE_H
#define NPU_SIM_ADDRESS_SPACE_H

#include <cstdint>
#include <vector>

#include "libnpu/sim/memory.h"
#include "libnpu/sim/ranges.h"

namespace npu::sim {

class AddressSpace {
 public:
  /// tables: offsets in ddr that tables may take.
  AddressSpace(Memory &ddr, Ranges &tables) : ddr_(ddr), tables_(tables) {}
  ~AddressSpace();
  AddressSpace(const AddressSpace &) = delete;
  AddressSpace &operator=(const AddressSpace &) = delete;

  /// False: no memory for the root table.
  bool init();
  uint64_t root() const { return root_; }

  /// Maps whole pages; target is a DDR offset, or a bus address with NPU_PTE_SYSTEM in flags. False (and nothing
  /// mapped): no memory for tables.
  bool map(uint64_t va, uint64_t target, uint64_t bytes, uint64_t flags);
  /// Clears entries; the caller invalidates before it reuses anything.
  void unmap(uint64_t va, uint64_t bytes);

 private:
  uint64_t new_table();
  uint64_t *entry(uint64_t table, uint64_t va, unsigned level) const;
  uint64_t *leaf(uint64_t va, unsigned level, bool create);

  Memory &ddr_;
  Ranges &tables_;
  uint64_t root_ = 0;
  std::vector<uint64_t> owned_;
};

}  // namespace npu::sim

#endif  // NPU_SIM_ADDRESS_SPACE_H
