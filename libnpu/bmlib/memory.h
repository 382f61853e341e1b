// SPDX-License-Identifier: MIT
// Descriptors of all three types, and the buffers behind them.
#ifndef NPU_BMLIB_MEMORY_H
#define NPU_BMLIB_MEMORY_H

#include <algorithm>
#include <cstdint>
#include <limits>

#include "libnpu/bmlib/handle.h"

namespace npu::bm {

constexpr int kHeaps = 3;  // numbers that programs for the vendor's cards use

/// What a descriptor of any type says.
struct Memory {
  uint64_t address;
  uint64_t size;
  unsigned int type;
};

template <typename Descriptor>
Memory memory_of(const Descriptor &mem) {
  return {mem.u.device.device_addr, mem.size, static_cast<unsigned int>(mem.flags.u.mem_type)};
}

template <typename Descriptor>
Descriptor device_descriptor(uint64_t address, uint64_t size) {
  Descriptor mem{};
  mem.u.device.device_addr = address;
  mem.flags.u.mem_type = BM_MEM_TYPE_DEVICE;
  mem.size = static_cast<decltype(mem.size)>(size);
  return mem;
}

template <typename Descriptor>
Descriptor null_descriptor() {
  auto mem = device_descriptor<Descriptor>(BM_MEM_ADDR_NULL, 0);
  mem.flags.u.mem_type = BM_MEM_TYPE_INVALID;
  return mem;
}

/// The buffer behind a part of a descriptor, with a reference.
struct Place {
  npu_bo *bo = nullptr;
  uint64_t offset = 0;

  Place() = default;
  Place(const Place &) = delete;
  Place &operator=(const Place &) = delete;
  ~Place() { npu_bo_unref(bo); }

  /// [at, at + size) of the descriptor.
  int find(const Handle &handle, const Memory &mem, uint64_t at, uint64_t size);
};

/// False on overflow.
inline bool multiply(uint64_t a, uint64_t b, uint64_t &product) { return !__builtin_mul_overflow(a, b, &product); }

// ---- allocation.cpp ----

/// A buffer of the handle's device, remembered there. Negative errno.
int allocate(const Handle &handle, uint64_t size, uint64_t *address);
/// Frees what begins at the address. Negative errno: nothing does.
int release(const Handle &handle, uint64_t address);

// ---- copies.cpp ----

int copy_in(Handle &handle, const Memory &dst, const void *src, uint64_t size, uint64_t offset);
int copy_out(Handle &handle, void *dst, const Memory &src, uint64_t size, uint64_t offset);

}  // namespace npu::bm

#endif  // NPU_BMLIB_MEMORY_H
