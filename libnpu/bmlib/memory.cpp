// SPDX-License-Identifier: MIT
// Descriptors, allocation, copies, mappings.
#include <cerrno>
#include <cstring>

#include "handle.h"

using namespace npu::bm;

namespace {

constexpr int kHeaps = 3;  // numbers that programs for the vendor's cards use

/// The buffer behind [offset, offset + size) of a descriptor.
struct Place {
  npu_bo *bo = nullptr;
  uint64_t offset = 0;

  Place() = default;
  Place(const Place &) = delete;
  Place &operator=(const Place &) = delete;
  ~Place() { npu_bo_unref(bo); }

  int find(const Handle &handle, const bm_device_mem_t &mem, uint64_t at, uint64_t size) {
    if (mem.flags.u.mem_type != BM_MEM_TYPE_DEVICE && mem.flags.u.mem_type != BM_MEM_TYPE_INT8_DEVICE)
      return fail(-EINVAL, "the descriptor is of type %d, not device memory", static_cast<int>(mem.flags.u.mem_type));
    if (at > mem.size || size > mem.size - at)
      return fail(-EINVAL, "offset %llu and %llu bytes are beyond the descriptor's %u bytes",
                  static_cast<unsigned long long>(at), static_cast<unsigned long long>(size), mem.size);
    if (int err = npu_bo_find(handle.npu(), mem.u.device.device_addr, &bo, &offset)) return err;
    offset += at;
    if (offset > npu_bo_size(bo) || size > npu_bo_size(bo) - offset)
      return fail(-EINVAL, "%llu bytes at device address %#llx are beyond the allocation at %#llx of %llu bytes",
                  static_cast<unsigned long long>(size), static_cast<unsigned long long>(mem.u.device.device_addr + at),
                  static_cast<unsigned long long>(npu_bo_address(bo)),
                  static_cast<unsigned long long>(npu_bo_size(bo)));
    return 0;
  }
};

int copy_in(const Handle &handle, const bm_device_mem_t &dst, const void *src, uint64_t size, uint64_t offset) {
  Place place;
  if (int err = place.find(handle, dst, offset, size)) return err;
  return npu_write(place.bo, place.offset, src, size);
}

int copy_out(const Handle &handle, void *dst, const bm_device_mem_t &src, uint64_t size, uint64_t offset) {
  Place place;
  if (int err = place.find(handle, src, offset, size)) return err;
  return npu_read(place.bo, place.offset, dst, size);
}

int copy_within(const Handle &handle, const bm_device_mem_t &dst, uint64_t dst_offset, const bm_device_mem_t &src,
                uint64_t src_offset, uint64_t size) {
  Place to, from;
  if (int err = to.find(handle, dst, dst_offset, size)) return err;
  if (int err = from.find(handle, src, src_offset, size)) return err;
  return npu_copy(to.bo, to.offset, from.bo, from.offset, size);
}

/// Three bytes are no element of the chip: the pattern is written.
int fill_three(const Place &place, uint64_t size, const uint8_t *value) {
  uint8_t pattern[3 * 1024];
  for (size_t i = 0; i < sizeof(pattern); i++) pattern[i] = value[i % 3];
  for (uint64_t done = 0; done < size; done += sizeof(pattern)) {
    const uint64_t piece = std::min<uint64_t>(sizeof(pattern), size - done);
    if (int err = npu_write(place.bo, place.offset + done, pattern, piece)) return err;
  }
  return 0;
}

int fill(const Handle &handle, const bm_device_mem_t &mem, const void *value, int mode) {
  if (!value || mode < 1 || mode > 4) return fail(-EINVAL, "mode %d: expected a value of 1 to 4 bytes", mode);
  if (mem.size % static_cast<unsigned int>(mode))
    return fail(-EINVAL, "%u bytes are not a multiple of mode %d", mem.size, mode);
  Place place;
  if (int err = place.find(handle, mem, 0, mem.size)) return err;
  if (mode == 3) return fill_three(place, mem.size, static_cast<const uint8_t *>(value));
  uint32_t word = 0;
  memcpy(&word, value, static_cast<size_t>(mode));
  return npu_fill(place.bo, place.offset, mem.size, word, static_cast<unsigned int>(mode));
}

int sync(const Handle &handle, const bm_device_mem_t *dmem, uint64_t offset, uint64_t size, uint32_t direction) {
  if (!dmem) return fail(-EINVAL, "no descriptor");
  Place place;
  if (int err = place.find(handle, *dmem, offset, size)) return err;
  return npu_bo_sync(place.bo, place.offset, size, direction);
}

int allocate(const Handle &handle, bm_device_mem_t *pmem, uint64_t size) {
  npu_bo *bo = nullptr;
  if (int err = npu_bo_create(handle.npu(), size, DRM_NPU_BO_CARD, &bo)) return err;
  handle.device().add(bo);
  *pmem = bm_mem_from_device(npu_bo_address(bo), static_cast<unsigned int>(size));
  return 0;
}

}  // namespace

// ---- descriptors ----

bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem) { return mem.flags.u.mem_type; }

unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem) { return mem.u.device.device_addr; }

void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr) {
  pmem->u.device.device_addr = addr;
  pmem->flags.u.mem_type = BM_MEM_TYPE_DEVICE;
}

unsigned int bm_mem_get_device_size(struct bm_mem_desc mem) { return mem.size; }

void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size) { pmem->size = size; }

unsigned int bm_mem_get_size(struct bm_mem_desc mem) { return mem.size; }

void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr) {
  *pmem = bm_mem_from_device(addr, size);
}

bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len) {
  bm_device_mem_t mem{};
  mem.u.device.device_addr = device_addr;
  mem.flags.u.mem_type = BM_MEM_TYPE_DEVICE;
  mem.size = len;
  return mem;
}

void *bm_mem_get_system_addr(struct bm_mem_desc mem) { return mem.u.system.system_addr; }

void bm_mem_set_system_addr(struct bm_mem_desc *pmem, void *addr) {
  pmem->u.system.system_addr = addr;
  pmem->flags.u.mem_type = BM_MEM_TYPE_SYSTEM;
}

bm_system_mem_t bm_mem_from_system(void *system_addr) {
  bm_system_mem_t mem{};
  bm_mem_set_system_addr(&mem, system_addr);
  return mem;
}

bm_device_mem_t bm_mem_null(void) {
  bm_device_mem_t mem{};
  mem.u.device.device_addr = BM_MEM_ADDR_NULL;
  mem.flags.u.mem_type = BM_MEM_TYPE_INVALID;
  return mem;
}

// ---- allocation ----

bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!pmem) return npu_bm_status(fail(-EINVAL, "no place for the descriptor"), __func__);
  *pmem = bm_mem_null();
  return npu_bm_status(allocate(*h, pmem, size), __func__);
}

bm_status_t bm_malloc_device_byte_heap(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id, unsigned int size) {
  if (pmem) *pmem = bm_mem_null();
  if (heap_id < 0 || heap_id >= kHeaps)
    return npu_bm_status(fail(-EINVAL, "heap %d: expected 0 to %d", heap_id, kHeaps - 1), __func__);
  return bm_malloc_device_byte(handle, pmem, size);
}

bm_status_t bm_malloc_device_byte_heap_mask(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id_mask,
                                            unsigned int size) {
  if (pmem) *pmem = bm_mem_null();
  if (!(heap_id_mask & ((1 << kHeaps) - 1)))
    return npu_bm_status(fail(-EINVAL, "heap mask %#x: expected one of the bits 0 to %d", heap_id_mask, kHeaps - 1),
                         __func__);
  return bm_malloc_device_byte(handle, pmem, size);
}

void bm_free_device(bm_handle_t handle, bm_device_mem_t mem) {
  const auto h = find(handle);
  if (!h) {
    bad_handle(__func__);
    return;
  }
  npu_bo *bo = mem.flags.u.mem_type == BM_MEM_TYPE_DEVICE ? h->device().remove(mem.u.device.device_addr) : nullptr;
  if (!bo)
    npu_bm_status(fail(-ENOENT, "device address %#llx is not the start of an allocation: nothing was freed",
                       static_cast<unsigned long long>(mem.u.device.device_addr)),
                  __func__);
  npu_bo_unref(bo);
}

// ---- copies ----

bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size,
                                         unsigned int offset) {
  const auto h = find(handle);
  return h ? npu_bm_status(copy_in(*h, dst, src, size, offset), __func__) : bad_handle(__func__);
}

bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size) {
  return bm_memcpy_s2d_partial_offset(handle, dst, src, size, 0);
}

bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src) {
  return bm_memcpy_s2d_partial_offset(handle, dst, src, dst.size, 0);
}

bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size,
                                         unsigned int offset) {
  const auto h = find(handle);
  return h ? npu_bm_status(copy_out(*h, dst, src, size, offset), __func__) : bad_handle(__func__);
}

bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size) {
  return bm_memcpy_d2s_partial_offset(handle, dst, src, size, 0);
}

bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src) {
  return bm_memcpy_d2s_partial_offset(handle, dst, src, src.size, 0);
}

bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src,
                               size_t src_offset, size_t size) {
  const auto h = find(handle);
  return h ? npu_bm_status(copy_within(*h, dst, dst_offset, src, src_offset, size), __func__) : bad_handle(__func__);
}

bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src, int src_offset,
                          int len) {
  if (dst_offset < 0 || src_offset < 0 || len < 0)
    return npu_bm_status(
        fail(-EINVAL, "offsets %d and %d, %d dwords: expected no negative number", dst_offset, src_offset, len),
        __func__);
  constexpr size_t kDword = 4;
  return bm_memcpy_d2d_byte(handle, dst, static_cast<size_t>(dst_offset), src, static_cast<size_t>(src_offset),
                            kDword * static_cast<size_t>(len));
}

bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem) {
  const auto h = find(handle);
  return h ? npu_bm_status(fill(*h, mem, value, mode), __func__) : bad_handle(__func__);
}

bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem) {
  int copy = value;
  return bm_memset_device_ext(handle, &copy, sizeof(copy), mem);
}

// ---- mappings ----

bm_status_t(bm_mem_mmap_device_mem)(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!dmem || !vmem) return npu_bm_status(fail(-EINVAL, "no descriptor or no place for the address"), __func__);
  Place place;
  void *ptr = nullptr;
  int err = place.find(*h, *dmem, 0, dmem->size);
  if (!err) err = npu_bo_map(place.bo, &ptr);
  if (err) return npu_bm_status(err, __func__);
  uint8_t *first = static_cast<uint8_t *>(ptr) + place.offset;
  h->device().add_mapping(first, npu_bo_ref(place.bo));
  *vmem = reinterpret_cast<uintptr_t>(first);
  return BM_SUCCESS;
}

bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  npu_bo *bo = size >= 0 ? h->device().remove_mapping(vmem) : nullptr;
  if (!bo) return npu_bm_status(fail(-EINVAL, "%p with %d bytes is no mapping of device memory", vmem, size), __func__);
  npu_bo_unmap(bo);
  npu_bo_unref(bo);
  return BM_SUCCESS;
}

bm_status_t bm_mem_invalidate_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                                 unsigned int len) {
  const auto h = find(handle);
  return h ? npu_bm_status(sync(*h, dmem, offset, len, DRM_NPU_SYNC_FROM_DEVICE), __func__) : bad_handle(__func__);
}

bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
  return bm_mem_invalidate_partial_device_mem(handle, dmem, 0, dmem ? dmem->size : 0);
}

bm_status_t bm_mem_flush_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                            unsigned int len) {
  const auto h = find(handle);
  return h ? npu_bm_status(sync(*h, dmem, offset, len, DRM_NPU_SYNC_TO_DEVICE), __func__) : bad_handle(__func__);
}

bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
  return bm_mem_flush_partial_device_mem(handle, dmem, 0, dmem ? dmem->size : 0);
}
