/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_COMPAT_H
#define NPU_COMPAT_H

/*
 * Differences between kernels, bridged in one place. npu_compat_config.h is made by
 * npu_compat_probe.sh, which asks the compiler: version numbers lie where distributions backport.
 */
#include <linux/dma-fence.h>
#include <linux/io_uring/cmd.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>

#include <drm/ttm/ttm_bo.h>

#include "npu_compat_config.h"

#ifdef NPU_HAVE_GPU_BUDDY
#include <linux/gpu_buddy.h>

#define npu_buddy			gpu_buddy
#define npu_buddy_block			gpu_buddy_block
#define npu_buddy_init			gpu_buddy_init
#define npu_buddy_fini			gpu_buddy_fini
#define npu_buddy_alloc_blocks		gpu_buddy_alloc_blocks
#define npu_buddy_free_list(mm, list)	gpu_buddy_free_list(mm, list, 0)
#define npu_buddy_block_offset		gpu_buddy_block_offset
#define npu_buddy_block_size		gpu_buddy_block_size
#else
#include <drm/drm_buddy.h>

#define npu_buddy			drm_buddy
#define npu_buddy_block			drm_buddy_block
#define npu_buddy_init			drm_buddy_init
#define npu_buddy_fini			drm_buddy_fini
#define npu_buddy_alloc_blocks		drm_buddy_alloc_blocks
#define npu_buddy_free_list(mm, list)	drm_buddy_free_list(mm, list, 0)
#define npu_buddy_block_offset		drm_buddy_block_offset
#define npu_buddy_block_size		drm_buddy_block_size
#endif

/* No pages from the DMA API's pools, none below 4 GiB. */
#ifdef NPU_HAVE_TTM_ALLOC_FLAGS
#define npu_ttm_device_init(ttm, funcs, dev, mapping, offsets) \
	ttm_device_init(ttm, funcs, dev, mapping, offsets, 0)
#else
#define npu_ttm_device_init(ttm, funcs, dev, mapping, offsets) \
	ttm_device_init(ttm, funcs, dev, mapping, offsets, false, false)
#endif

#ifdef NPU_HAVE_URING_SQE_CMD_TYPE
#define npu_io_uring_sqe_cmd(sqe, type)	io_uring_sqe_cmd(sqe, type)
#else
#define npu_io_uring_sqe_cmd(sqe, type)	((const type *)io_uring_sqe_cmd(sqe))
#endif

static inline void npu_io_uring_cmd_done(struct io_uring_cmd *cmd, int ret,
					 unsigned int issue_flags)
{
#ifdef NPU_HAVE_URING_DONE_RES2
	io_uring_cmd_done(cmd, ret, 0, issue_flags);
#else
	io_uring_cmd_done(cmd, ret, issue_flags);
#endif
}

/*
 * NPU_IO_URING_TASK_WORK(name, func) - make func(cmd, issue_flags)
 * the callback @name for io_uring_cmd_do_in_task_lazy()
 */
#ifdef NPU_HAVE_URING_TW_REQ
#define NPU_IO_URING_TASK_WORK(name, func)						\
static void name(struct io_tw_req tw_req, io_tw_token_t tw)				\
{											\
	func(io_uring_cmd_from_tw(tw_req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);		\
}
#else
#define NPU_IO_URING_TASK_WORK(name, func)						\
static void name(struct io_uring_cmd *cmd, unsigned int issue_flags)			\
{											\
	func(cmd, issue_flags);								\
}
#endif

#ifdef NPU_HAVE_TTM_BO_FINI
#define npu_ttm_bo_put ttm_bo_fini
#else
#define npu_ttm_bo_put ttm_bo_put
#endif

#ifdef NPU_HAVE_UNQUOTED_NS
#define NPU_IMPORT_DMA_BUF() MODULE_IMPORT_NS(DMA_BUF)
#else
#define NPU_IMPORT_DMA_BUF() MODULE_IMPORT_NS("DMA_BUF")
#endif

#endif
