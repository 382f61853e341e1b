// SPDX-License-Identifier: MIT
// Allocating and freeing device memory.
#include <cerrno>

#include "libnpu/bmlib/memory.h"

namespace npu::bm {

int allocate(const Handle &handle, uint64_t size, uint64_t *address) {
  npu_bo *bo = nullptr;
  if (int err = npu_bo_create(handle.npu(), size, DRM_NPU_BO_CARD, &bo)) return err;
  handle.device().add(bo);
  *address = npu_bo_address(bo);
  return 0;
}

int release(const Handle &handle, uint64_t address) {
  npu_bo *bo = handle.device().remove(address);
  if (!bo)
    return fail(-ENOENT, "device address %#llx is not the start of an allocation: nothing was freed",
                static_cast<unsigned long long>(address));
  npu_bo_unref(bo);
  return 0;
}

namespace {

/// Bytes that the caller asked for, as far as they could be computed.
struct Size {
  uint64_t bytes;
  bool ok;
};

Size bytes_of(uint64_t count) { return {count, true}; }

Size dwords(long long count) {
  uint64_t bytes = 0;
  const bool ok = count >= 0 && multiply(static_cast<uint64_t>(count), 4, bytes);
  return {bytes, ok};
}

Size dwords(uint64_t count) {
  uint64_t bytes = 0;
  const bool ok = multiply(count, 4, bytes);
  return {bytes, ok};
}

Size neurons(uint64_t n, uint64_t c, uint64_t h, uint64_t w) {
  uint64_t count = 0;
  if (!multiply(n, c, count) || !multiply(count, h, count) || !multiply(count, w, count)) return {0, false};
  return dwords(count);
}

Size neurons(int n, int c, int h, int w) {
  if (n < 0 || c < 0 || h < 0 || w < 0) return {0, false};
  return neurons(static_cast<uint64_t>(n), static_cast<uint64_t>(c), static_cast<uint64_t>(h),
                 static_cast<uint64_t>(w));
}

template <typename Descriptor>
bm_status_t allocate(const char *where, bm_handle_t handle, Descriptor *pmem, const Size &size) {
  if (pmem) *pmem = null_descriptor<Descriptor>();
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!pmem) return npu_bm_status(fail(-EINVAL, "no place for the descriptor"), where);
  if (!size.ok) return npu_bm_status(fail(-EINVAL, "a negative count, or more bytes than a number can have"), where);
  if (size.bytes > std::numeric_limits<decltype(pmem->size)>::max())
    return npu_bm_status(fail(-EINVAL, "%llu bytes are more than a descriptor with a 32-bit size can have: use _u64",
                              static_cast<unsigned long long>(size.bytes)),
                         where);
  uint64_t address = 0;
  const int err = npu::bm::allocate(*h, size.bytes, &address);
  if (!err) *pmem = device_descriptor<Descriptor>(address, size.bytes);
  return npu_bm_status(err, where);
}

/// The card has one heap, whatever its number: 0, or an error that was logged.
bm_status_t check_heap(const char *where, int heap_id) {
  if (heap_id >= 0 && heap_id < kHeaps) return BM_SUCCESS;
  return npu_bm_status(fail(-EINVAL, "heap %d: expected 0 to %d", heap_id, kHeaps - 1), where);
}

bm_status_t check_mask(const char *where, int mask) {
  if (mask & ((1 << kHeaps) - 1)) return BM_SUCCESS;
  return npu_bm_status(fail(-EINVAL, "heap mask %#x: expected one of the bits 0 to %d", mask, kHeaps - 1), where);
}

template <typename Descriptor>
bm_status_t allocate_if(bm_status_t checked, const char *where, bm_handle_t handle, Descriptor *pmem, uint64_t size) {
  if (pmem) *pmem = null_descriptor<Descriptor>();
  return checked == BM_SUCCESS ? allocate(where, handle, pmem, bytes_of(size)) : checked;
}

bm_status_t allocate_address(bm_status_t checked, const char *where, bm_handle_t handle, unsigned long long *paddr,
                             uint64_t size) {
  if (!paddr) return npu_bm_status(fail(-EINVAL, "no place for the address"), where);
  *paddr = 0;
  bm_device_mem_u64_t mem;
  const bm_status_t status = allocate_if(checked, where, handle, &mem, size);
  if (status == BM_SUCCESS) *paddr = mem.u.device.device_addr;
  return status;
}

void free_memory(const char *where, bm_handle_t handle, const Memory &mem) {
  const auto h = find(handle);
  if (!h)
    bad_handle(where);
  else if (mem.type != BM_MEM_TYPE_DEVICE)
    npu_bm_status(fail(-EINVAL, "the descriptor is of type %u, not device memory: nothing was freed", mem.type), where);
  else
    npu_bm_status(release(*h, mem.address), where);
}

}  // namespace
}  // namespace npu::bm

using namespace npu::bm;

bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size) {
  return allocate(__func__, handle, pmem, bytes_of(size));
}
bm_status_t sg_malloc_device_byte(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long size) {
  return allocate(__func__, handle, pmem, bytes_of(size));
}
bm_status_t bm_malloc_device_byte_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long size) {
  return allocate(__func__, handle, pmem, bytes_of(size));
}

bm_status_t bm_malloc_device_byte_heap(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id, unsigned int size) {
  return allocate_if(check_heap(__func__, heap_id), __func__, handle, pmem, size);
}
bm_status_t sg_malloc_device_byte_heap(bm_handle_t handle, sg_device_mem_t *pmem, int heap_id,
                                       unsigned long long size) {
  return allocate_if(check_heap(__func__, heap_id), __func__, handle, pmem, size);
}
bm_status_t bm_malloc_device_byte_heap_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, int heap_id,
                                           unsigned long long size) {
  return allocate_if(check_heap(__func__, heap_id), __func__, handle, pmem, size);
}

bm_status_t bm_malloc_device_byte_heap_mask(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id_mask,
                                            unsigned int size) {
  return allocate_if(check_mask(__func__, heap_id_mask), __func__, handle, pmem, size);
}
bm_status_t sg_malloc_device_byte_heap_mask(bm_handle_t handle, sg_device_mem_t *pmem, int heap_id_mask,
                                            unsigned long long size) {
  return allocate_if(check_mask(__func__, heap_id_mask), __func__, handle, pmem, size);
}
bm_status_t bm_malloc_device_byte_heap_mask_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, int heap_id_mask,
                                                unsigned long long size) {
  return allocate_if(check_mask(__func__, heap_id_mask), __func__, handle, pmem, size);
}

bm_status_t bm_malloc_device_dword(bm_handle_t handle, bm_device_mem_t *pmem, int count) {
  return allocate(__func__, handle, pmem, dwords(static_cast<long long>(count)));
}
bm_status_t sg_malloc_device_dword(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long count) {
  return allocate(__func__, handle, pmem, dwords(static_cast<uint64_t>(count)));
}
bm_status_t bm_malloc_device_dword_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long count) {
  return allocate(__func__, handle, pmem, dwords(static_cast<uint64_t>(count)));
}

bm_status_t bm_malloc_neuron_device(bm_handle_t handle, bm_device_mem_t *pmem, int n, int c, int h, int w) {
  return allocate(__func__, handle, pmem, neurons(n, c, h, w));
}
bm_status_t sg_malloc_neuron_device(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long n,
                                    unsigned long long c, unsigned long long h, unsigned long long w) {
  return allocate(__func__, handle, pmem, neurons(uint64_t{n}, uint64_t{c}, uint64_t{h}, uint64_t{w}));
}
bm_status_t bm_malloc_neuron_device_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long n,
                                        unsigned long long c, unsigned long long h, unsigned long long w) {
  return allocate(__func__, handle, pmem, neurons(uint64_t{n}, uint64_t{c}, uint64_t{h}, uint64_t{w}));
}

bm_status_t bm_malloc_device_mem(bm_handle_t handle, unsigned long long *paddr, int heap_id, unsigned long long size) {
  return allocate_address(check_heap(__func__, heap_id), __func__, handle, paddr, size);
}
bm_status_t bm_malloc_device_mem_mask(bm_handle_t handle, unsigned long long *paddr, int heap_id_mask,
                                      unsigned long long size) {
  return allocate_address(check_mask(__func__, heap_id_mask), __func__, handle, paddr, size);
}

void bm_free_device(bm_handle_t handle, bm_device_mem_t mem) { free_memory(__func__, handle, memory_of(mem)); }
void sg_free_device(bm_handle_t handle, sg_device_mem_t mem) { free_memory(__func__, handle, memory_of(mem)); }
void bm_free_device_u64(bm_handle_t handle, bm_device_mem_u64_t mem) { free_memory(__func__, handle, memory_of(mem)); }
void bm_free_device_mem(bm_handle_t handle, unsigned long long paddr) {
  free_memory(__func__, handle, {paddr, 0, BM_MEM_TYPE_DEVICE});
}
