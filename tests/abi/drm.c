/* SPDX-License-Identifier: MIT */
/* uapi/drm/npu_accel.h, interface 1.0. Nothing here may ever change; later versions add lines. */
#include <npu_accel.h>

#include "tests/abi/abi.h"

/* Numbers: direction << 30 | size << 16 | 'd' << 8 | 0x40 + n. */
VALUE(DRM_IOCTL_NPU_DEV_QUERY, 0xC0106440u);
VALUE(DRM_IOCTL_NPU_BO_CREATE, 0xC0206441u);
VALUE(DRM_IOCTL_NPU_BO_INFO, 0xC0206442u);
VALUE(DRM_IOCTL_NPU_BO_SYNC, 0x40186443u);
VALUE(DRM_IOCTL_NPU_BO_SEAL, 0x40086444u);
VALUE(DRM_IOCTL_NPU_BO_WAIT, 0x40106445u);
VALUE(DRM_IOCTL_NPU_CTX_CREATE, 0xC0186446u);
VALUE(DRM_IOCTL_NPU_CTX_DESTROY, 0x40086447u);
VALUE(DRM_IOCTL_NPU_CTX_QUERY, 0xC0606448u);
VALUE(DRM_IOCTL_NPU_SUBMIT, 0x40186449u);
VALUE(DRM_IOCTL_NPU_WAIT, 0xC060644Au);

VALUE(DRM_NPU_QUERY_DEV, 0);
VALUE(DRM_NPU_QUERY_MEMORY, 1);
VALUE(DRM_NPU_QUERY_STATUS, 2);
VALUE(DRM_NPU_MAX_CORES, 8);
VALUE(DRM_NPU_BO_CARD, 0x1);
VALUE(DRM_NPU_BO_SYSTEM, 0x2);
VALUE(DRM_NPU_BO_SEALED, 0x100);
VALUE(DRM_NPU_SYNC_TO_DEVICE, 0x1);
VALUE(DRM_NPU_SYNC_FROM_DEVICE, 0x2);
VALUE(DRM_NPU_PRIORITY_LOW, 0);
VALUE(DRM_NPU_PRIORITY_NORMAL, 1);
VALUE(DRM_NPU_PRIORITY_HIGH, 2);
VALUE(DRM_NPU_PRIORITY_REALTIME, 3);
VALUE(DRM_NPU_REGION_READ, 0x1);
VALUE(DRM_NPU_REGION_WRITE, 0x2);
VALUE(DRM_NPU_JOB_EXPLICIT, 0x1);
VALUE(DRM_NPU_BO_WAIT_WRITERS, 0x1);
VALUE(DRM_NPU_BUS_PCI, 0);
VALUE(DRM_NPU_BUS_PLATFORM, 1);
VALUE(DRM_NPU_INFO_NONCOHERENT, 0x1);
VALUE(DRM_NPU_MMAP_WC, 0x80000000000ull);
VALUE(DRM_NPU_QUERY_WATCH, 4);
VALUE(DRM_NPU_WATCH_PRESENT, 0x1);
VALUE(DRM_NPU_WATCH_ENABLED, 0x2);

SIZE(struct drm_npu_dev_query, 16);
AT(struct drm_npu_dev_query, type, 0);
AT(struct drm_npu_dev_query, size, 4);
AT(struct drm_npu_dev_query, pointer, 8);

SIZE(struct drm_npu_dev_info, 96);
AT(struct drm_npu_dev_info, chip_id, 0);
AT(struct drm_npu_dev_info, hw_version, 4);
AT(struct drm_npu_dev_info, isa_version, 8);
AT(struct drm_npu_dev_info, features, 12);
AT(struct drm_npu_dev_info, cores, 16);
AT(struct drm_npu_dev_info, queues, 20);
AT(struct drm_npu_dev_info, lmem_bytes, 24);
AT(struct drm_npu_dev_info, clock_khz, 28);
AT(struct drm_npu_dev_info, ddr_bytes, 32);
AT(struct drm_npu_dev_info, va_start, 40);
AT(struct drm_npu_dev_info, va_end, 48);
AT(struct drm_npu_dev_info, max_regions, 56);
AT(struct drm_npu_dev_info, max_jobs, 60);
AT(struct drm_npu_dev_info, max_in_flight, 64);
AT(struct drm_npu_dev_info, pci_domain, 68);
AT(struct drm_npu_dev_info, pci_bus, 72);
AT(struct drm_npu_dev_info, pci_device, 76);
AT(struct drm_npu_dev_info, pci_function, 80);
AT(struct drm_npu_dev_info, bus, 84);
AT(struct drm_npu_dev_info, flags, 88);
AT(struct drm_npu_dev_info, cache_line, 92);

SIZE(struct drm_npu_memory_info, 80);
AT(struct drm_npu_memory_info, card_total, 0);
AT(struct drm_npu_memory_info, card_free, 8);
AT(struct drm_npu_memory_info, card_largest, 16);
AT(struct drm_npu_memory_info, file_card, 24);
AT(struct drm_npu_memory_info, file_system, 32);
AT(struct drm_npu_memory_info, file_largest, 40);
AT(struct drm_npu_memory_info, file_card_max, 48);
AT(struct drm_npu_memory_info, file_evicted, 56);
AT(struct drm_npu_memory_info, card_evicted, 64);
AT(struct drm_npu_memory_info, evictions, 72);

SIZE(struct drm_npu_status_info, 264);
AT(struct drm_npu_status_info, temperature_mc, 0);
AT(struct drm_npu_status_info, power_mw, 4);
AT(struct drm_npu_status_info, voltage_mv, 8);
AT(struct drm_npu_status_info, clock_khz, 12);
AT(struct drm_npu_status_info, ecc_corrected, 16);
AT(struct drm_npu_status_info, ecc_uncorrected, 20);
AT(struct drm_npu_status_info, resets, 24);
AT(struct drm_npu_status_info, core_busy, 28);
AT(struct drm_npu_status_info, busy_cycles, 32);
AT(struct drm_npu_status_info, jobs, 96);
AT(struct drm_npu_status_info, fan_rpm, 160);
AT(struct drm_npu_status_info, core_resets, 164);
AT(struct drm_npu_status_info, aborted_jobs, 168);
AT(struct drm_npu_status_info, thermal_events, 172);
AT(struct drm_npu_status_info, busy_ns, 176);
AT(struct drm_npu_status_info, card_ns, 240);
AT(struct drm_npu_status_info, files, 248);
AT(struct drm_npu_status_info, losses, 252);
AT(struct drm_npu_status_info, flags, 256);
AT(struct drm_npu_status_info, pad, 260);

SIZE(struct drm_npu_time_info, 24);
AT(struct drm_npu_time_info, card_ns, 0);
AT(struct drm_npu_time_info, monotonic_ns, 8);
AT(struct drm_npu_time_info, window_ns, 16);

SIZE(struct drm_npu_watch_info, 24);
AT(struct drm_npu_watch_info, flags, 0);
AT(struct drm_npu_watch_info, lost, 4);
AT(struct drm_npu_watch_info, uncleaned, 8);
AT(struct drm_npu_watch_info, stale, 12);
AT(struct drm_npu_watch_info, overwritten, 16);
AT(struct drm_npu_watch_info, discarded, 20);

SIZE(struct drm_npu_bo_create, 32);
AT(struct drm_npu_bo_create, size, 0);
AT(struct drm_npu_bo_create, flags, 8);
AT(struct drm_npu_bo_create, handle, 12);
AT(struct drm_npu_bo_create, va, 16);
AT(struct drm_npu_bo_create, mmap_offset, 24);

SIZE(struct drm_npu_bo_info, 32);
AT(struct drm_npu_bo_info, handle, 0);
AT(struct drm_npu_bo_info, flags, 4);
AT(struct drm_npu_bo_info, size, 8);
AT(struct drm_npu_bo_info, va, 16);
AT(struct drm_npu_bo_info, mmap_offset, 24);

SIZE(struct drm_npu_bo_sync, 24);
AT(struct drm_npu_bo_sync, handle, 0);
AT(struct drm_npu_bo_sync, direction, 4);
AT(struct drm_npu_bo_sync, offset, 8);
AT(struct drm_npu_bo_sync, size, 16);

SIZE(struct drm_npu_bo_userptr, 32);
AT(struct drm_npu_bo_userptr, addr, 0);
AT(struct drm_npu_bo_userptr, size, 8);
AT(struct drm_npu_bo_userptr, flags, 16);
AT(struct drm_npu_bo_userptr, handle, 20);
AT(struct drm_npu_bo_userptr, va, 24);

SIZE(struct drm_npu_bo_seal, 8);
AT(struct drm_npu_bo_seal, handle, 0);
AT(struct drm_npu_bo_seal, pad, 4);

SIZE(struct drm_npu_bo_wait, 16);
AT(struct drm_npu_bo_wait, handle, 0);
AT(struct drm_npu_bo_wait, flags, 4);
AT(struct drm_npu_bo_wait, timeout_ns, 8);

SIZE(struct drm_npu_ctx_create, 24);
AT(struct drm_npu_ctx_create, priority, 0);
AT(struct drm_npu_ctx_create, core_mask, 4);
AT(struct drm_npu_ctx_create, flags, 8);
AT(struct drm_npu_ctx_create, ctx_id, 12);
AT(struct drm_npu_ctx_create, fence_offset, 16);

SIZE(struct drm_npu_ctx_destroy, 8);
AT(struct drm_npu_ctx_destroy, ctx_id, 0);
AT(struct drm_npu_ctx_destroy, pad, 4);

SIZE(struct drm_npu_fault, 56);
AT(struct drm_npu_fault, seqno, 0);
AT(struct drm_npu_fault, offset, 8);
AT(struct drm_npu_fault, fault_addr, 16);
AT(struct drm_npu_fault, status, 24);
AT(struct drm_npu_fault, engine, 28);
AT(struct drm_npu_fault, core, 32);
AT(struct drm_npu_fault, command, 36);
AT(struct drm_npu_fault, region, 40);
AT(struct drm_npu_fault, access, 44);
AT(struct drm_npu_fault, bytes, 48);
AT(struct drm_npu_fault, cause, 52);

SIZE(struct drm_npu_ctx_query, 96);
AT(struct drm_npu_ctx_query, ctx_id, 0);
AT(struct drm_npu_ctx_query, pad, 4);
AT(struct drm_npu_ctx_query, submitted, 8);
AT(struct drm_npu_ctx_query, completed, 16);
AT(struct drm_npu_ctx_query, errors, 24);
AT(struct drm_npu_ctx_query, victims, 32);
AT(struct drm_npu_ctx_query, fault, 40);

SIZE(struct drm_npu_region, 24);
AT(struct drm_npu_region, handle, 0);
AT(struct drm_npu_region, access, 4);
AT(struct drm_npu_region, offset, 8);
AT(struct drm_npu_region, size, 16);

SIZE(struct drm_npu_stream, 32);
AT(struct drm_npu_stream, tiu_region, 0);
AT(struct drm_npu_stream, gdma_region, 4);
AT(struct drm_npu_stream, tiu_count, 8);
AT(struct drm_npu_stream, gdma_count, 12);
AT(struct drm_npu_stream, tiu_offset, 16);
AT(struct drm_npu_stream, gdma_offset, 24);

SIZE(struct drm_npu_sync, 16);
AT(struct drm_npu_sync, handle, 0);
AT(struct drm_npu_sync, flags, 4);
AT(struct drm_npu_sync, point, 8);

SIZE(struct drm_npu_job, 104);
AT(struct drm_npu_job, regions, 0);
AT(struct drm_npu_job, streams, 8);
AT(struct drm_npu_job, in_syncs, 16);
AT(struct drm_npu_job, out_syncs, 24);
AT(struct drm_npu_job, region_count, 32);
AT(struct drm_npu_job, region_stride, 36);
AT(struct drm_npu_job, stream_count, 40);
AT(struct drm_npu_job, stream_stride, 44);
AT(struct drm_npu_job, in_sync_count, 48);
AT(struct drm_npu_job, out_sync_count, 52);
AT(struct drm_npu_job, sync_stride, 56);
AT(struct drm_npu_job, flags, 60);
AT(struct drm_npu_job, core_mask, 64);
AT(struct drm_npu_job, profile_region, 68);
AT(struct drm_npu_job, profile_offset, 72);
AT(struct drm_npu_job, profile_bytes, 80);
AT(struct drm_npu_job, pad, 84);
AT(struct drm_npu_job, budget, 88);
AT(struct drm_npu_job, seqno, 96);

SIZE(struct drm_npu_submit, 24);
AT(struct drm_npu_submit, ctx_id, 0);
AT(struct drm_npu_submit, flags, 4);
AT(struct drm_npu_submit, jobs, 8);
AT(struct drm_npu_submit, job_count, 16);
AT(struct drm_npu_submit, job_stride, 20);

SIZE(struct drm_npu_uring_submit, 16);
AT(struct drm_npu_uring_submit, submit, 0);
AT(struct drm_npu_uring_submit, flags, 8);
AT(struct drm_npu_uring_submit, pad, 12);

SIZE(struct drm_npu_wait, 96);
AT(struct drm_npu_wait, ctx_id, 0);
AT(struct drm_npu_wait, pad, 4);
AT(struct drm_npu_wait, seqno, 8);
AT(struct drm_npu_wait, timeout_ns, 16);
AT(struct drm_npu_wait, cycles, 24);
AT(struct drm_npu_wait, error, 32);
AT(struct drm_npu_wait, known, 36);
AT(struct drm_npu_wait, fault, 40);
