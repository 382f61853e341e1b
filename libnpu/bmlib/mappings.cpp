// SPDX-License-Identifier: MIT
// Device memory in the process, and its cache.
#include <cerrno>

#include "libnpu/bmlib/memory.h"
#include "libnpu/src/private.h"

using namespace npu::bm;

namespace {

int map(const Handle &handle, const Memory &mem, bool cached, unsigned long long *vmem) {
  Place place;
  void *ptr = nullptr;
  if (int err = place.find(handle, mem, 0, mem.size)) return err;
  if (int err = cached ? npu_bo_map(place.bo, &ptr) : npu_private_bo_map_uncached(place.bo, &ptr)) return err;
  uint8_t *first = static_cast<uint8_t *>(ptr) + place.offset;
  handle.device().add_mapping(first, {npu_bo_ref(place.bo), mem.size, place.offset, cached});
  *vmem = reinterpret_cast<uintptr_t>(first);
  return 0;
}

template <typename Descriptor>
bm_status_t map(const char *where, bm_handle_t handle, const Descriptor *dmem, bool cached, unsigned long long *vmem) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!dmem || !vmem) return npu_bm_status(fail(-EINVAL, "no descriptor or no place for the address"), where);
  return npu_bm_status(map(*h, memory_of(*dmem), cached, vmem), where);
}

bm_status_t unmap(const char *where, bm_handle_t handle, void *vmem, unsigned long long size) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  Mapping mapping{};
  if (!h->device().remove_mapping(vmem, &mapping))
    return npu_bm_status(fail(-EINVAL, "%p with %llu bytes is no mapping of device memory", vmem, size), where);
  unmap(mapping);
  return BM_SUCCESS;
}

template <typename Descriptor>
bm_status_t sync(const char *where, bm_handle_t handle, const Descriptor *dmem, uint64_t offset, uint64_t size,
                 uint32_t direction) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!dmem) return npu_bm_status(fail(-EINVAL, "no descriptor"), where);
  Place place;
  if (int err = place.find(*h, memory_of(*dmem), offset, size)) return npu_bm_status(err, where);
  return npu_bm_status(npu_bo_sync(place.bo, place.offset, size, direction), where);
}

template <typename Descriptor>
uint64_t size_of(const Descriptor *dmem) {
  return dmem ? dmem->size : 0;
}

constexpr uint32_t kFlush = DRM_NPU_SYNC_TO_DEVICE;
constexpr uint32_t kInvalidate = DRM_NPU_SYNC_FROM_DEVICE;

}  // namespace

bm_status_t(bm_mem_mmap_device_mem)(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
  return map(__func__, handle, dmem, true, vmem);
}
bm_status_t sg_mem_mmap_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long *vmem) {
  return map(__func__, handle, dmem, true, vmem);
}
bm_status_t bm_mem_mmap_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem, unsigned long long *vmem) {
  return map(__func__, handle, dmem, true, vmem);
}

bm_status_t(bm_mem_mmap_device_mem_no_cache)(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
  return map(__func__, handle, dmem, false, vmem);
}
bm_status_t sg_mem_mmap_device_mem_no_cache(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long *vmem) {
  return map(__func__, handle, dmem, false, vmem);
}
bm_status_t bm_mem_mmap_device_mem_no_cache_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                unsigned long long *vmem) {
  return map(__func__, handle, dmem, false, vmem);
}

bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size) {
  return unmap(__func__, handle, size >= 0 ? vmem : nullptr, static_cast<unsigned int>(size));
}
bm_status_t sg_mem_unmap_device_mem(bm_handle_t handle, void *vmem, unsigned long long size) {
  return unmap(__func__, handle, vmem, size);
}
bm_status_t bm_mem_unmap_device_mem_u64(bm_handle_t handle, void *vmem, unsigned long long size) {
  return unmap(__func__, handle, vmem, size);
}

bm_status_t bm_mem_vir_to_phy(bm_handle_t handle, unsigned long long vmem, unsigned long long *device_mem) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!device_mem) return npu_bm_status(fail(-EINVAL, "no place for the address"), __func__);
  uint64_t address = 0;
  if (!h->device().find_mapped(reinterpret_cast<const void *>(static_cast<uintptr_t>(vmem)), &address))
    return npu_bm_status(fail(-EINVAL, "%#llx lies in no mapping of device memory", vmem), __func__);
  *device_mem = address;
  return BM_SUCCESS;
}

bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
  return sync(__func__, handle, dmem, 0, size_of(dmem), kInvalidate);
}
bm_status_t sg_mem_invalidate_device_mem(bm_handle_t handle, sg_device_mem_t *dmem) {
  return sync(__func__, handle, dmem, 0, size_of(dmem), kInvalidate);
}
bm_status_t bm_mem_invalidate_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem) {
  return sync(__func__, handle, dmem, 0, size_of(dmem), kInvalidate);
}

bm_status_t bm_mem_invalidate_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                                 unsigned int len) {
  return sync(__func__, handle, dmem, offset, len, kInvalidate);
}
bm_status_t sg_mem_invalidate_partial_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long offset,
                                                 unsigned long long len) {
  return sync(__func__, handle, dmem, offset, len, kInvalidate);
}
bm_status_t bm_mem_invalidate_partial_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                     unsigned long long offset, unsigned long long len) {
  return sync(__func__, handle, dmem, offset, len, kInvalidate);
}

bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
  return sync(__func__, handle, dmem, 0, size_of(dmem), kFlush);
}
bm_status_t sg_mem_flush_device_mem(bm_handle_t handle, sg_device_mem_t *dmem) {
  return sync(__func__, handle, dmem, 0, size_of(dmem), kFlush);
}
bm_status_t bm_mem_flush_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem) {
  return sync(__func__, handle, dmem, 0, size_of(dmem), kFlush);
}

bm_status_t bm_mem_flush_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                            unsigned int len) {
  return sync(__func__, handle, dmem, offset, len, kFlush);
}
bm_status_t sg_mem_flush_partial_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long offset,
                                            unsigned long long len) {
  return sync(__func__, handle, dmem, offset, len, kFlush);
}
bm_status_t bm_mem_flush_partial_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                unsigned long long offset, unsigned long long len) {
  return sync(__func__, handle, dmem, offset, len, kFlush);
}
