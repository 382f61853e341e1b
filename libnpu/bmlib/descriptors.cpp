// SPDX-License-Identifier: MIT
// Descriptors: plain values.
#include <cerrno>

#include "libnpu/bmlib/memory.h"

namespace npu::bm {

int Place::find(const Handle &handle, const Memory &mem, uint64_t at, uint64_t size) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  if (mem.type != BM_MEM_TYPE_DEVICE && mem.type != BM_MEM_TYPE_INT8_DEVICE)
    return fail(-EINVAL, "the descriptor is of type %u, not device memory", mem.type);
  if (at > mem.size || size > mem.size - at)
    return fail(-EINVAL, "offset %llu and %llu bytes are beyond the descriptor's %llu bytes", number(at), number(size),
                number(mem.size));
  if (int err = npu_bo_find(handle.npu(), mem.address, &bo, &offset)) return err;
  const uint64_t left = npu_bo_size(bo) - offset;
  if (at > left || size > left - at)
    return fail(-EINVAL, "%llu bytes at device address %#llx are beyond the allocation at %#llx of %llu bytes",
                number(size), number(mem.address + at), number(npu_bo_address(bo)), number(npu_bo_size(bo)));
  offset += at;
  return 0;
}

namespace {

template <typename Descriptor>
void set_address(Descriptor *pmem, uint64_t address) {
  pmem->u.device.device_addr = address;
  pmem->flags.u.mem_type = BM_MEM_TYPE_DEVICE;
}

template <typename Descriptor>
void set_pointer(Descriptor *pmem, void *pointer) {
  pmem->u.system.system_addr = pointer;
  pmem->flags.u.mem_type = BM_MEM_TYPE_SYSTEM;
}

}  // namespace
}  // namespace npu::bm

using namespace npu::bm;

bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem) { return mem.flags.u.mem_type; }
bm_mem_type_t sg_mem_get_type(struct sg_mem_desc mem) { return mem.flags.u.mem_type; }
bm_mem_type_t bm_mem_get_type_u64(struct bm_mem_desc_u64 mem) { return mem.flags.u.mem_type; }

unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem) { return mem.u.device.device_addr; }
unsigned long long sg_mem_get_device_addr(struct sg_mem_desc mem) { return mem.u.device.device_addr; }
unsigned long long bm_mem_get_device_addr_u64(struct bm_mem_desc_u64 mem) { return mem.u.device.device_addr; }

void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr) { set_address(pmem, addr); }
void sg_mem_set_device_addr(struct sg_mem_desc *pmem, unsigned long long addr) { set_address(pmem, addr); }
void bm_mem_set_device_addr_u64(struct bm_mem_desc_u64 *pmem, unsigned long long addr) { set_address(pmem, addr); }

unsigned int bm_mem_get_device_size(struct bm_mem_desc mem) { return mem.size; }
unsigned long long sg_mem_get_device_size(struct sg_mem_desc mem) { return mem.size; }
unsigned long long bm_mem_get_device_size_u64(struct bm_mem_desc_u64 mem) { return mem.size; }
unsigned int bm_mem_get_size(struct bm_mem_desc mem) { return mem.size; }

void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size) { pmem->size = size; }
void sg_mem_set_device_size(struct sg_mem_desc *pmem, unsigned long long size) { pmem->size = size; }
void bm_mem_set_device_size_u64(struct bm_mem_desc_u64 *pmem, unsigned long long size) { pmem->size = size; }

void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr) {
  *pmem = bm_mem_from_device(addr, size);
}
void sg_set_device_mem(sg_device_mem_t *pmem, unsigned long long size, unsigned long long addr) {
  *pmem = sg_mem_from_device(addr, size);
}
void bm_set_device_mem_u64(bm_device_mem_u64_t *pmem, unsigned long long size, unsigned long long addr) {
  *pmem = bm_mem_from_device_u64(addr, size);
}

bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len) {
  return device_descriptor<bm_device_mem_t>(device_addr, len);
}
sg_device_mem_t sg_mem_from_device(unsigned long long device_addr, unsigned long long len) {
  return device_descriptor<sg_device_mem_t>(device_addr, len);
}
bm_device_mem_u64_t bm_mem_from_device_u64(unsigned long long device_addr, unsigned long long len) {
  return device_descriptor<bm_device_mem_u64_t>(device_addr, len);
}

void *bm_mem_get_system_addr(struct bm_mem_desc mem) { return mem.u.system.system_addr; }
void *sg_mem_get_system_addr(struct sg_mem_desc mem) { return mem.u.system.system_addr; }
void *bm_mem_get_system_addr_u64(struct bm_mem_desc_u64 mem) { return mem.u.system.system_addr; }

void bm_mem_set_system_addr(struct bm_mem_desc *pmem, void *addr) { set_pointer(pmem, addr); }
void sg_mem_set_system_addr(struct sg_mem_desc *pmem, void *addr) { set_pointer(pmem, addr); }
void bm_mem_set_system_addr_u64(struct bm_mem_desc_u64 *pmem, void *addr) { set_pointer(pmem, addr); }

bm_system_mem_t bm_mem_from_system(void *system_addr) {
  bm_system_mem_t mem{};
  set_pointer(&mem, system_addr);
  return mem;
}

bm_device_mem_t bm_mem_null(void) { return null_descriptor<bm_device_mem_t>(); }
