/* SPDX-License-Identifier: MIT */
/* bmlib_runtime.h: on 64 bits the layouts of the vendor's library, which object files rely on; on 32 bits ours are the
 * same. */
#include <bmlib_runtime.h>

#include "abi.h"

VALUE(BM_SUCCESS, 0);
VALUE(BM_ERR_DEVNOTREADY, 1);
VALUE(BM_ERR_FAILURE, 2);
VALUE(BM_ERR_TIMEOUT, 3);
VALUE(BM_ERR_PARAM, 4);
VALUE(BM_ERR_NOMEM, 5);
VALUE(BM_ERR_DATA, 6);
VALUE(BM_ERR_BUSY, 7);
VALUE(BM_ERR_NOFEATURE, 8);
VALUE(BM_NOT_SUPPORTED, 9);
VALUE(BM_MEM_TYPE_DEVICE, 0);
VALUE(BM_MEM_TYPE_HOST, 1);
VALUE(BM_MEM_TYPE_SYSTEM, 2);
VALUE(BM_MEM_TYPE_INT8_DEVICE, 3);
VALUE(BM_MEM_TYPE_INVALID, 4);
VALUE(BM_MEM_ADDR_NULL, 0xfffffffff);
VALUE(BMLIB_LOG_QUIET, -8);
VALUE(BMLIB_LOG_PANIC, 0);
VALUE(BMLIB_LOG_FATAL, 8);
VALUE(BMLIB_LOG_ERROR, 16);
VALUE(BMLIB_LOG_WARNING, 24);
VALUE(BMLIB_LOG_INFO, 32);
VALUE(BMLIB_LOG_VERBOSE, 40);
VALUE(BMLIB_LOG_DEBUG, 48);
VALUE(BMLIB_LOG_TRACE, 56);

SIZE(bm_status_t, 4);
SIZE(bm_mem_type_t, 4);
SIZE(bm_mem_flags_t, 4);
SIZE2(bm_handle_t, 8, 4);

SIZE(bm_device_mem_t, 24);
AT(bm_device_mem_t, u.device.device_addr, 0);
AT(bm_device_mem_t, u.device.reserved, 8);
AT(bm_device_mem_t, u.device.dmabuf_fd, 12);
AT(bm_device_mem_t, u.system.system_addr, 0);
AT2(bm_device_mem_t, u.system.reserved0, 8, 4);
AT2(bm_device_mem_t, u.system.reserved1, 12, 8);
AT(bm_device_mem_t, flags, 16);
AT(bm_device_mem_t, size, 20);
SIZE(bm_system_mem_t, 24);

SIZE(bm_device_mem_u64_t, 32);
AT(bm_device_mem_u64_t, u.device.device_addr, 0);
AT(bm_device_mem_u64_t, u.device.reserved, 8);
AT(bm_device_mem_u64_t, u.device.dmabuf_fd, 12);
AT(bm_device_mem_u64_t, flags, 16);
AT(bm_device_mem_u64_t, size, 24);
SIZE(bm_system_mem_u64_t, 32);

SIZE(bm_heap_stat_t, 12);
AT(bm_heap_stat_t, mem_total, 0);
AT(bm_heap_stat_t, mem_avail, 4);
AT(bm_heap_stat_t, mem_used, 8);

SIZE(bm_dev_stat_t, 64);
AT(bm_dev_stat_t, mem_total, 0);
AT(bm_dev_stat_t, mem_used, 4);
AT(bm_dev_stat_t, tpu_util, 8);
AT(bm_dev_stat_t, heap_num, 12);
AT(bm_dev_stat_t, heap_stat, 16);

SIZE(struct bm_misc_info, 80);
AT(struct bm_misc_info, pcie_soc_mode, 0);
AT(struct bm_misc_info, ddr_ecc_enable, 4);
AT(struct bm_misc_info, ddr0a_size, 8);
AT(struct bm_misc_info, ddr0b_size, 16);
AT(struct bm_misc_info, ddr1_size, 24);
AT(struct bm_misc_info, ddr2_size, 32);
AT(struct bm_misc_info, chipid, 40);
AT(struct bm_misc_info, chipid_bit_mask, 48);
AT(struct bm_misc_info, driver_version, 56);
AT(struct bm_misc_info, domain_bdf, 60);
AT(struct bm_misc_info, board_version, 64);
AT(struct bm_misc_info, a53_enable, 68);
AT(struct bm_misc_info, dyn_enable, 72);

/* The call as documentation writes it, and as the prototype has it. */
bm_status_t map_as_documented(bm_handle_t handle, bm_device_mem_t *mem, void **pointer);
bm_status_t map_as_documented(bm_handle_t handle, bm_device_mem_t *mem, void **pointer) {
  return bm_mem_mmap_device_mem(handle, mem, (uint64_t *)pointer);
}
bm_status_t map_as_declared(bm_handle_t handle, bm_device_mem_t *mem, unsigned long long *address);
bm_status_t map_as_declared(bm_handle_t handle, bm_device_mem_t *mem, unsigned long long *address) {
  return bm_mem_mmap_device_mem(handle, mem, address);
}
