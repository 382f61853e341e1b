/* SPDX-License-Identifier: MIT */
/* bmlib_runtime.h: on 64 bits the layouts of the vendor's library, which object files rely on; on 32 bits ours are the
 * same. */
#include <bmlib_runtime.h>

#include "tests/abi/abi.h"

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

SIZE(sg_device_mem_t, 32);
AT(sg_device_mem_t, u.device.device_addr, 0);
AT(sg_device_mem_t, u.device.reserved, 8);
AT(sg_device_mem_t, u.device.dmabuf_fd, 12);
AT(sg_device_mem_t, u.system.system_addr, 0);
AT(sg_device_mem_t, flags, 16);
AT(sg_device_mem_t, size, 24);
SIZE(sg_system_mem_t, 32);

SIZE(bm_heap_stat_byte_t, 40);
AT(bm_heap_stat_byte_t, heap_id, 0);
AT(bm_heap_stat_byte_t, mem_total, 8);
AT(bm_heap_stat_byte_t, mem_avail, 16);
AT(bm_heap_stat_byte_t, mem_used, 24);
AT(bm_heap_stat_byte_t, mem_start_addr, 32);

SIZE(bm_profile_t, 64);
AT(bm_profile_t, cdma_in_time, 0);
AT(bm_profile_t, cdma_in_counter, 8);
AT(bm_profile_t, cdma_out_time, 16);
AT(bm_profile_t, cdma_out_counter, 24);
AT(bm_profile_t, tpu_process_time, 32);
AT(bm_profile_t, tpu1_process_time, 40);
AT(bm_profile_t, sent_api_counter, 48);
AT(bm_profile_t, completed_api_counter, 56);

VALUE(BM1682_CHIPID_BIT_MASK, 1);
VALUE(BM1684_CHIPID_BIT_MASK, 2);
VALUE(BM1686_CHIPID_BIT_MASK, 4);
VALUE(MODULE_CDMA, 0);
VALUE(MODULE_GDMA, 1);
VALUE(MODULE_TPU, 2);
VALUE(MODULE_SMMU, 3);
VALUE(MODULE_SRAM, 4);
VALUE(MODULE_END, 5);
VALUE(PERF_MONITOR_GDMA, 0);
VALUE(PERF_MONITOR_TPU, 1);
VALUE(BMCPU_IDLE, 0);
VALUE(BMCPU_RUNNING, 1);
VALUE(BMCPU_FAULT, 2);
VALUE(BMCPU_EXEC_OPT_NO_FLUSH_CACHE, 1);

SIZE(bm_perf_monitor_t, 16);
AT(bm_perf_monitor_t, buffer_start_addr, 0);
AT(bm_perf_monitor_t, buffer_size, 8);
AT(bm_perf_monitor_t, monitor_id, 12);

SIZE(struct bm_module, 80);
AT(struct bm_module, lib_name, 0);
AT(struct bm_module, md5, 64);

SIZE2(tpu_launch_async_param_t, 16, 8);
AT2(tpu_launch_async_param_t, param_list, 0, 0);
AT2(tpu_launch_async_param_t, param_num, 8, 4);
SIZE2(boot_loader_version, 40, 20);
AT2(boot_loader_version, chip_version, 32, 16);
AT2(boot_loader_version, bl1_version, 0, 0);
AT2(boot_loader_version, bl2_version, 8, 4);
AT2(boot_loader_version, bl31_version, 16, 8);
AT2(boot_loader_version, uboot_version, 24, 12);

SIZE2(tpu_launch_param_t, 24, 16);
AT(tpu_launch_param_t, core_id, 0);
AT(tpu_launch_param_t, func_id, 4);
AT2(tpu_launch_param_t, param_data, 8, 8);
AT2(tpu_launch_param_t, param_size, 16, 12);

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
bm_status_t map_uncached(bm_handle_t handle, bm_device_mem_t *mem, void **pointer, unsigned long long *address);
bm_status_t map_uncached(bm_handle_t handle, bm_device_mem_t *mem, void **pointer, unsigned long long *address) {
  const bm_status_t status = bm_mem_mmap_device_mem_no_cache(handle, mem, (uint64_t *)pointer);
  return status == BM_SUCCESS ? bm_mem_mmap_device_mem_no_cache(handle, mem, address) : status;
}
