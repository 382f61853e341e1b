// SPDX-License-Identifier: MIT
// System memory to device memory in one call.
#include <cerrno>

#include "libnpu/bmlib/memory.h"

using namespace npu::bm;

namespace {

int convert(Handle &handle, bm_mem_desc *dev_mem, const bm_mem_desc &sys_mem, bool need_copy, uint64_t bytes) {
  if (need_copy && (sys_mem.flags.u.mem_type != BM_MEM_TYPE_SYSTEM || !sys_mem.u.system.system_addr))
    return fail(-EINVAL, "the descriptor to copy from is not one of system memory");
  uint64_t address = 0;
  if (int err = allocate(handle, bytes, &address)) return err;
  const auto mem = device_descriptor<bm_device_mem_t>(address, bytes);
  if (need_copy) {
    if (int err = copy_in(handle, memory_of(mem), sys_mem.u.system.system_addr, bytes, 0)) {
      release(handle, address);
      return err;
    }
  }
  *dev_mem = mem;
  return 0;
}

/// The product of count and all of dims; false for a negative one, or more than a descriptor can have.
bool bytes_of(uint64_t element, std::initializer_list<int> dims, uint64_t &bytes) {
  bytes = element;
  for (int dim : dims)
    if (dim < 0 || !multiply(bytes, static_cast<uint64_t>(dim), bytes)) return false;
  return bytes <= UINT32_MAX;
}

bm_status_t convert(const char *where, bm_handle_t handle, bm_mem_desc *dev_mem, const bm_mem_desc &sys_mem,
                    bool need_copy, uint64_t element, std::initializer_list<int> dims) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!dev_mem) return npu_bm_status(fail(-EINVAL, "no place for the descriptor"), where);
  *dev_mem = null_descriptor<bm_device_mem_t>();
  uint64_t bytes = 0;
  if (!bytes_of(element, dims, bytes)) return npu_bm_status(fail(-EINVAL, "a negative size, or 4 GiB and more"), where);
  return npu_bm_status(convert(*h, dev_mem, sys_mem, need_copy, bytes), where);
}

constexpr uint64_t kDword = 4;

}  // namespace

bm_status_t bm_mem_convert_system_to_device_neuron(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                   struct bm_mem_desc sys_mem, bool need_copy, int n, int c, int h,
                                                   int w) {
  return convert(__func__, handle, dev_mem, sys_mem, need_copy, kDword, {n, c, h, w});
}
bm_status_t bm_mem_convert_system_to_device_neuron_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                        struct bm_mem_desc sys_mem, bool need_copy, int n, int c, int h,
                                                        int w) {
  return convert(__func__, handle, dev_mem, sys_mem, need_copy, 1, {n, c, h, w});
}
bm_status_t bm_mem_convert_system_to_device_coeff(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                  struct bm_mem_desc sys_mem, bool need_copy, int coeff_count) {
  return convert(__func__, handle, dev_mem, sys_mem, need_copy, kDword, {coeff_count});
}
bm_status_t bm_mem_convert_system_to_device_coeff_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                       struct bm_mem_desc sys_mem, bool need_copy, int coeff_count) {
  return convert(__func__, handle, dev_mem, sys_mem, need_copy, 1, {coeff_count});
}
