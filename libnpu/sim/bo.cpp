// SPDX-License-Identifier: MIT
// Buffers of the user-space driver.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "libnpu/sim/deadline.h"
#include "libnpu/sim/file.h"
#include "libnpu/src/revoke.h"

namespace npu::sim {

Bo::~Bo() {
  if (mapped) {
    file.space_->unmap(va, size);
    file.chip_->invalidate(file.asid_, va, size);
  }
  for (const auto &[ptr, bytes] : mappings) munmap(ptr, bytes);
  if (va) file.va_space_->give_back(va, size + kPage);
  if (in_ddr) {
    file.chip_->ddr().clear(ddr_offset, size);
    file.ddr_space_->give_back(ddr_offset, size);
    file.card_used_ -= size;
  }
  if (memory) {
    if (bus) file.chip_->bus().detach(bus);
    file.system_used_ -= size;
  }
}

std::shared_ptr<Bo> File::find_bo(uint32_t handle) const {
  const auto it = bos_.find(handle);
  return it == bos_.end() ? nullptr : it->second;
}

int File::place(Bo &bo) {
  const uint64_t align = bo.size >= kBlock ? kBlock : kPage;
  if (bo.card()) {
    auto offset = ddr_space_->take(bo.size, align);
    if (!offset) offset = ddr_space_->take(bo.size, kPage);
    if (!offset) return -ENOSPC;
    bo.ddr_offset = *offset;
    bo.in_ddr = true;
    card_used_ += bo.size;
  } else {
    bo.memory = Memory::create("npu-system", bo.size);
    if (!bo.memory) return -ENOMEM;
    system_used_ += bo.size;
    bo.bus = chip_->bus().attach(bo.memory->data(), bo.size);
    if (!bo.bus) return -ENOMEM;
  }
  // One page stays unmapped behind every buffer: an overrun faults instead of reaching the neighbour.
  const auto va = va_space_->take(bo.size + kPage, align);
  if (!va) return -ENOMEM;
  bo.va = *va;
  return 0;
}

int File::map_into_chip(Bo &bo) {
  const uint64_t target = bo.card() ? bo.ddr_offset : bo.bus;
  const uint64_t rights = bo.sealed ? NPU_PTE_CONST : NPU_PTE_WRITE;
  const bool mapped = space_->map(bo.va, target, bo.size, rights | (bo.card() ? 0 : NPU_PTE_SYSTEM));
  bo.mapped = bo.mapped || mapped;
  chip_->invalidate(asid_, bo.va, bo.size);
  return mapped ? 0 : -ENOMEM;
}

int File::bo_create(drm_npu_bo_create &args) {
  if (!args.size || (args.flags != DRM_NPU_BO_CARD && args.flags != DRM_NPU_BO_SYSTEM)) return -EINVAL;
  if (args.size > UINT64_MAX / 2) return args.flags == DRM_NPU_BO_CARD ? -ENOSPC : -ENOMEM;
  Lock lock(mutex_);
  if (dead_) return -ENODEV;
  progress();
  auto bo = std::make_shared<Bo>(*this);
  bo->flags = args.flags;
  bo->size = page_align(args.size);
  if (int err = place(*bo)) return err;
  if (int err = map_into_chip(*bo)) return err;
  while (bos_.count(next_handle_) || !next_handle_) next_handle_++;
  args.handle = next_handle_++;
  args.size = bo->size;
  args.va = bo->va;
  args.mmap_offset = static_cast<uint64_t>(args.handle) * kPage;
  bos_[args.handle] = std::move(bo);
  return 0;
}

int File::bo_close(uint32_t handle) {
  Lock lock(mutex_);
  return bos_.erase(handle) ? 0 : -ENOENT;
}

int File::bo_info(drm_npu_bo_info &args) {
  Lock lock(mutex_);
  const auto bo = find_bo(args.handle);
  if (!bo) return -ENOENT;
  args.flags = bo->flags | (bo->sealed ? DRM_NPU_BO_SEALED : 0);
  args.size = bo->size;
  args.va = bo->va;
  args.mmap_offset = static_cast<uint64_t>(args.handle) * kPage;
  return 0;
}

int File::bo_map(uint32_t handle, uint64_t size, void **ptr) {
  Lock lock(mutex_);
  if (dead_) return -ENODEV;
  const auto bo = find_bo(handle);
  if (!bo) return -ENOENT;
  if (bo->sealed) return -EACCES;
  if (size != bo->size) return -EINVAL;
  void *mapping = bo->card() ? chip_->ddr().map(bo->ddr_offset, size, true) : bo->memory->map(0, size, true);
  if (!mapping) return -ENOMEM;
  bo->mappings[mapping] = size;
  *ptr = mapping;
  return 0;
}

void File::bo_unmap(uint32_t handle, void *ptr, uint64_t size) {
  Lock lock(mutex_);
  if (const auto bo = find_bo(handle)) bo->mappings.erase(ptr);
  munmap(ptr, size);
}

int File::bo_sync(const drm_npu_bo_sync &args) {
  constexpr uint32_t kBoth = DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE;
  if (!args.direction || args.direction & ~kBoth) return -EINVAL;
  Lock lock(mutex_);
  const auto bo = find_bo(args.handle);
  if (!bo) return -ENOENT;
  if (args.offset > bo->size || args.size > bo->size - args.offset) return -EINVAL;
  // The model reads the very same memory: there is no cache to maintain.
  return 0;
}

int File::bo_seal(const drm_npu_bo_seal &args) {
  if (args.pad) return -EINVAL;
  Lock lock(mutex_);
  if (dead_) return -ENODEV;
  progress();
  const auto bo = find_bo(args.handle);
  if (!bo) return -ENOENT;
  if (bo->sealed) return 0;
  if (std::any_of(bo->users.begin(), bo->users.end(), [](const auto &user) { return user.second; })) return -EBUSY;
  for (const auto &[ptr, bytes] : bo->mappings)
    if (!revoke(ptr, bytes)) return -ENOMEM;
  bo->sealed = true;
  return map_into_chip(*bo);
}

int File::bo_wait(const drm_npu_bo_wait &args) {
  if (args.flags & ~DRM_NPU_BO_WAIT_WRITERS) return -EINVAL;
  const bool writers_only = args.flags & DRM_NPU_BO_WAIT_WRITERS;
  Lock lock(mutex_);
  const auto bo = find_bo(args.handle);
  if (!bo) return -ENOENT;
  for (;;) {
    progress();
    if (std::none_of(bo->users.begin(), bo->users.end(),
                     [&](const auto &user) { return user.second || !writers_only; }))
      return 0;
    if (!wait_until(changed_, lock, args.timeout_ns)) return -ETIME;
  }
}

}  // namespace npu::sim
