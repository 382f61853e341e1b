// SPDX-License-Identifier: MIT
// What all handles of one device share: allocations and mappings.
#include "libnpu/bmlib/handle.h"
#include "libnpu/src/private.h"

namespace npu::bm {

void unmap(const Mapping &mapping) {
  if (mapping.cached)
    npu_bo_unmap(mapping.bo);
  else
    npu_private_bo_unmap_uncached(mapping.bo);
  npu_bo_unref(mapping.bo);
}

Device::~Device() {
  for (const auto &[ptr, mapping] : mappings_) unmap(mapping);
  for (const auto &[address, bo] : allocations_) npu_bo_unref(bo);
  npu_device_close(device_);
}

void Device::add(npu_bo *bo) {
  std::lock_guard lock(mutex_);
  allocations_[npu_bo_address(bo)] = bo;
}

npu_bo *Device::remove(uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto it = allocations_.find(address);
  if (it == allocations_.end()) return nullptr;
  npu_bo *bo = it->second;
  allocations_.erase(it);
  return bo;
}

void Device::add_mapping(void *ptr, const Mapping &mapping) {
  std::lock_guard lock(mutex_);
  mappings_.emplace(ptr, mapping);
}

bool Device::remove_mapping(void *ptr, Mapping *mapping) {
  std::lock_guard lock(mutex_);
  const auto it = mappings_.find(ptr);
  if (it == mappings_.end()) return false;
  *mapping = it->second;
  mappings_.erase(it);
  return true;
}

bool Device::find_mapped(const void *ptr, uint64_t *address) {
  std::lock_guard lock(mutex_);
  // Mappings may lie inside one another: the nearest one that begins before need not be the one that reaches.
  const auto wanted = reinterpret_cast<uintptr_t>(ptr);
  for (const auto &[first, mapping] : mappings_) {
    const auto start = reinterpret_cast<uintptr_t>(first);
    if (wanted < start || wanted - start >= mapping.size) continue;
    *address = npu_bo_address(mapping.bo) + mapping.offset + (wanted - start);
    return true;
  }
  return false;
}

}  // namespace npu::bm
