// SPDX-License-Identifier: MIT
// What all handles of one device share: allocations and mappings.
#include "handle.h"

namespace npu::bm {

Device::~Device() {
  for (const auto &[ptr, bo] : mappings_) {
    npu_bo_unmap(bo);
    npu_bo_unref(bo);
  }
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

void Device::add_mapping(void *ptr, npu_bo *bo) {
  std::lock_guard lock(mutex_);
  mappings_.emplace(ptr, bo);
}

npu_bo *Device::remove_mapping(void *ptr) {
  std::lock_guard lock(mutex_);
  const auto it = mappings_.find(ptr);
  if (it == mappings_.end()) return nullptr;
  npu_bo *bo = it->second;
  mappings_.erase(it);
  return bo;
}

}  // namespace npu::bm
