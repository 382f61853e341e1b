// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libnpu/src/internal.h"
#include "libnpu/src/private.h"

namespace npu {
namespace {

/// The setting that gives an emulated card memory for what is used and as much again as was requested; empty: none
/// would. A card needs a part for page tables, too.
std::string more_memory(const npu_device *device, uint64_t used, uint64_t size) {
  constexpr uint64_t kMost = uint64_t{1} << 40;  // bytes that either setting takes
  const bool simulated = !strcmp(device->name, "sim");
  if (size > kMost / 4 || used > kMost / 4) return {};
  const std::string ddr =
      "ddr=" + std::to_string(std::max<uint64_t>(std::bit_ceil(used + size + size / 8) >> 20, 1)) + "M";
  return simulated ? "; NPU_SIM=" + ddr + " gives the simulated card more"
                   : "; an emulated board's card gets more by npu-vm --device " + ddr;
}

/// Requested, free, largest block, owner: what a person needs to know when memory ran out.
int out_of_memory(npu_device *device, int error, uint64_t size, uint32_t flags) {
  drm_npu_memory_info m{};
  if (npu_device_memory(device, &m)) m = {};
  const std::string in_card = bytes_text(m.file_card), largest = bytes_text(m.file_largest);
  const uint64_t used = uint64_t{m.card_total} - m.card_free;
  if (flags & DRM_NPU_BO_CARD)
    return fail(
        error,
        "device %u is out of memory: requested %s, free %s of %s, largest free block %s; this process holds %s of at "
        "most %s (its largest buffer: %s), others %s%s",
        device->index, bytes_text(size).c_str(), bytes_text(m.card_free).c_str(), bytes_text(m.card_total).c_str(),
        bytes_text(m.card_largest).c_str(), in_card.c_str(), bytes_text(m.file_card_max).c_str(), largest.c_str(),
        bytes_text(used - std::min<uint64_t>(m.file_card - m.file_evicted, used)).c_str(),
        more_memory(device, used, size).c_str());
  return fail(error,
              "not enough system memory or device addresses for a buffer of %s; this process' system buffers hold %s",
              bytes_text(size).c_str(), bytes_text(m.file_system).c_str());
}

/// bo->map_mutex is held uniquely.
void unmap_locked(npu_bo *bo) {
  if (bo->ptr) bo->device->transport->unmap(bo->device->file, bo->handle, bo->ptr, bo->size);
  bo->ptr = nullptr;
}

void unmap_uncached_locked(npu_bo *bo) {
  if (bo->uncached) bo->device->transport->unmap(bo->device->file, bo->handle, bo->uncached, bo->size);
  bo->uncached = nullptr;
}

int map_error(const npu_bo *bo, const char *where, int error) {
  return fail(error, "%s: %s at %#llx: %s", where, bytes_text(bo->size).c_str(), (unsigned long long)bo->va,
              strerror(-error));
}

void destroy(npu_bo *bo) {
  npu_device *device = bo->device;
  if (bo->owns_device) {
    std::lock_guard lock(device->bos_mutex);
    device->bos.erase(bo->va);
  }
  unmap_locked(bo);
  unmap_uncached_locked(bo);
  drm_gem_close args{};
  args.handle = bo->handle;
  call(device, DRM_IOCTL_GEM_CLOSE, &args);
  if (bo->owns_device) device_unref(device);
  delete bo;
}

drm_npu_bo_sync sync_of(const npu_bo *bo, uint64_t offset, uint64_t size, uint32_t direction) {
  drm_npu_bo_sync args{};
  args.handle = bo->handle;
  args.direction = direction;
  args.offset = offset;
  args.size = size;
  return args;
}

int sync_ended(uint32_t direction, int err) {
  return err ? fail(err, "npu_bo_sync: direction %#x: %s", direction, strerror(-err)) : 0;
}

bool range_ok(const npu_bo *bo, uint64_t offset, uint64_t size) {
  return offset <= bo->size && size <= bo->size - offset;
}

}  // namespace

int map_uncached_locked(npu_bo *bo) {
  if (bo->uncached) return 0;
  npu_device *d = bo->device;
  const auto map = d->transport->map_uncached ? d->transport->map_uncached : d->transport->map;
  const uint64_t offset = bo->mmap_offset | (d->coherent ? 0 : DRM_NPU_MMAP_WC);
  const int err = map(d->file, bo->handle, offset, bo->size, &bo->uncached);
  if (!err) return 0;
  bo->uncached = nullptr;
  return map_error(bo, "uncached mapping", err);
}

void begin_uncached(npu_bo *bo, uint64_t offset, uint64_t size) {
  bo->device->transport->begin_uncached(bo->device->file, bo->handle, offset, size);
}

int sync_uncached(npu_bo *bo, uint64_t offset, uint64_t size, uint32_t direction) {
  drm_npu_bo_sync args = sync_of(bo, offset, size, direction);
  return sync_ended(direction, bo->device->transport->sync_uncached(bo->device->file, &args));
}

int bo_wait(npu_bo *bo, uint32_t flags, int64_t timeout_ns) {
  drm_npu_bo_wait args{};
  args.handle = bo->handle;
  args.flags = flags;
  args.timeout_ns = deadline_of(timeout_ns);
  if (int err = call(bo->device, DRM_IOCTL_NPU_BO_WAIT, &args))
    return fail(err, "npu_bo_wait: %s", err == -ETIME ? "unfinished jobs still use the buffer" : strerror(-err));
  return 0;
}

int bo_create(npu_device *device, uint64_t size, uint32_t flags, bool owns_device, npu_bo **bo) {
  drm_npu_bo_create args{};
  args.size = size;
  args.flags = flags;
  if (int err = call(device, DRM_IOCTL_NPU_BO_CREATE, &args)) {
    if (err == -ENOSPC || err == -ENOMEM) return out_of_memory(device, err, size, flags);
    return fail(err, "cannot create a buffer of %s with flags %#x: %s", bytes_text(size).c_str(), flags,
                strerror(-err));
  }
  auto *b = new npu_bo{};
  b->device = device;
  b->owns_device = owns_device;
  b->refs = 1;
  b->handle = args.handle;
  b->flags = flags;
  b->size = args.size;
  b->va = args.va;
  b->mmap_offset = args.mmap_offset;
  if (owns_device) {
    npu_device_ref(device);
    std::lock_guard lock(device->bos_mutex);
    device->bos[b->va] = b;
  }
  *bo = b;
  return 0;
}

}  // namespace npu

int npu_bo_create(npu_device *device, uint64_t size, uint32_t flags, npu_bo **bo) {
  if (bo) *bo = nullptr;
  if (!device || !bo) return npu::fail(-EINVAL, "npu_bo_create: no device or no place for the buffer");
  if (!size) return npu::fail(-EINVAL, "npu_bo_create: a buffer has at least 1 byte");
  if (flags != DRM_NPU_BO_CARD && flags != DRM_NPU_BO_SYSTEM)
    return npu::fail(-EINVAL, "npu_bo_create: flags %#x: expected exactly one of DRM_NPU_BO_CARD and DRM_NPU_BO_SYSTEM",
                     flags);
  // Without memory of its own a device works on the system's.
  return npu::bo_create(device, size, device->own_memory ? flags : DRM_NPU_BO_SYSTEM, true, bo);
}

npu_bo *npu_bo_ref(npu_bo *bo) {
  bo->refs.fetch_add(1, std::memory_order_relaxed);
  return bo;
}

void npu_bo_unref(npu_bo *bo) {
  if (bo && bo->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) npu::destroy(bo);
}

uint64_t npu_bo_size(const npu_bo *bo) { return bo->size; }

uint32_t npu_bo_flags(const npu_bo *bo) { return bo->flags; }

uint64_t npu_bo_address(const npu_bo *bo) { return bo->va; }

npu_device *npu_bo_device(const npu_bo *bo) { return bo->device; }

int npu_bo_find(npu_device *device, uint64_t address, npu_bo **bo, uint64_t *offset) {
  if (!device || !bo) return npu::fail(-EINVAL, "npu_bo_find: no device or no place for the buffer");
  *bo = nullptr;
  std::unique_lock lock(device->bos_mutex);
  auto it = device->bos.upper_bound(address);
  if (it != device->bos.begin() && address - (--it)->first < it->second->size) {
    npu_bo *found = it->second;
    // A buffer whose last reference is going at this moment is none any more.
    unsigned int refs = found->refs.load(std::memory_order_relaxed);
    while (refs && !found->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_acq_rel)) continue;
    if (refs) {
      *bo = found;
      if (offset) *offset = address - found->va;
      return 0;
    }
  }
  lock.unlock();
  const int other = npu::device_with(address, device);
  if (other >= 0)
    return npu::fail(-ENOENT, "device address %#llx belongs to a buffer of device %d, expected one of device %u",
                     (unsigned long long)address, other, device->index);
  return npu::fail(-ENOENT, "device address %#llx belongs to no buffer of this process", (unsigned long long)address);
}

int npu_bo_map(npu_bo *bo, void **ptr) {
  if (!bo || !ptr) return npu::fail(-EINVAL, "npu_bo_map: no buffer or no place for the pointer");
  *ptr = nullptr;
  std::unique_lock lock(bo->map_mutex);
  if (bo->sealed) return npu::fail(-EACCES, "npu_bo_map: the buffer is sealed");
  if (!bo->ptr) {
    npu_device *d = bo->device;
    if (int err = d->transport->map(d->file, bo->handle, bo->mmap_offset, bo->size, &bo->ptr)) {
      bo->ptr = nullptr;
      return npu::map_error(bo, "npu_bo_map", err);
    }
  }
  bo->maps++;
  *ptr = bo->ptr;
  return 0;
}

void npu_bo_unmap(npu_bo *bo) {
  if (!bo) return;
  std::unique_lock lock(bo->map_mutex);
  if (bo->maps && !--bo->maps && !bo->kept) npu::unmap_locked(bo);
}

int npu_private_bo_map_uncached(npu_bo *bo, void **ptr) {
  if (!bo || !ptr) return npu::fail(-EINVAL, "uncached mapping: no buffer or no place for the pointer");
  if (!bo->device->checked && bo->device->coherent) return npu_bo_map(bo, ptr);
  std::unique_lock lock(bo->map_mutex);
  *ptr = nullptr;
  if (bo->sealed) return npu::fail(-EACCES, "uncached mapping: the buffer is sealed");
  if (int err = npu::map_uncached_locked(bo)) return err;
  bo->uncached_maps++;
  if (bo->device->checked) bo->device->transport->share_uncached(bo->device->file, bo->handle, true);
  *ptr = bo->uncached;
  return 0;
}

void npu_private_bo_unmap_uncached(npu_bo *bo) {
  if (!bo) return;
  if (!bo->device->checked && bo->device->coherent) {
    npu_bo_unmap(bo);
    return;
  }
  // The mapping itself stays for copies.
  std::unique_lock lock(bo->map_mutex);
  if (!bo->uncached_maps) return;
  bo->uncached_maps--;
  if (bo->device->checked) bo->device->transport->share_uncached(bo->device->file, bo->handle, false);
}

int npu_bo_sync(npu_bo *bo, uint64_t offset, uint64_t size, uint32_t direction) {
  if (!bo) return npu::fail(-EINVAL, "npu_bo_sync: no buffer");
  if (!npu::range_ok(bo, offset, size))
    return npu::fail(-EINVAL, "npu_bo_sync: offset %#llx size %#llx is beyond the buffer's %#llx bytes",
                     (unsigned long long)offset, (unsigned long long)size, (unsigned long long)bo->size);
  drm_npu_bo_sync args = npu::sync_of(bo, offset, size, direction);
  return npu::sync_ended(direction, npu::call(bo->device, DRM_IOCTL_NPU_BO_SYNC, &args));
}

int npu_bo_seal(npu_bo *bo) {
  if (!bo) return npu::fail(-EINVAL, "npu_bo_seal: no buffer");
  std::unique_lock lock(bo->map_mutex);
  if (bo->kept) {
    bo->kept = false;
    if (!bo->maps) npu::unmap_locked(bo);
  }
  if (!bo->uncached_maps) npu::unmap_uncached_locked(bo);
  npu_device *d = bo->device;
  drm_npu_bo_seal args{};
  args.handle = bo->handle;
  int err = npu::call(d, DRM_IOCTL_NPU_BO_SEAL, &args);
  if (err == -EBUSY) {
    // A job whose end npu_wait() saw on the fence page may be unfinished for the driver for another moment.
    constexpr int64_t kMoment = 200 * 1000000;
    drm_npu_bo_wait wait{};
    wait.handle = bo->handle;
    wait.timeout_ns = npu::deadline_of(kMoment);
    if (!npu::call(d, DRM_IOCTL_NPU_BO_WAIT, &wait)) err = npu::call(d, DRM_IOCTL_NPU_BO_SEAL, &args);
  }
  if (err)
    return npu::fail(err, "npu_bo_seal: %s",
                     err == -EBUSY ? "a job that writes the buffer is unfinished" : strerror(-err));
  bo->sealed = true;
  return 0;
}

int npu_bo_wait(npu_bo *bo, int64_t timeout_ns) {
  if (!bo) return npu::fail(-EINVAL, "npu_bo_wait: no buffer");
  return npu::bo_wait(bo, 0, timeout_ns);
}
