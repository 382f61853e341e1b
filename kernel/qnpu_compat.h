/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_COMPAT_H
#define QNPU_COMPAT_H

/*
 * The sources use the API names of the newest kernel; this header maps them to older kernels. The
 * series for upstream (upstream/README.md) drops it. qnpu_compat_probe.sh generates
 * qnpu_compat_config.h by test compilations: version numbers mislead where distributions backport.
 */
#include <linux/dma-fence-array.h>
#include <linux/io_uring/cmd.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include <drm/ttm/ttm_bo.h>
#include <drm/ttm/ttm_device.h>

#include "qnpu_compat_config.h"

#ifdef QNPU_HAVE_GPU_BUDDY
#include <linux/gpu_buddy.h>
#else
#include <drm/drm_buddy.h>

#define gpu_buddy			drm_buddy
#define gpu_buddy_block			drm_buddy_block
#define gpu_buddy_init			drm_buddy_init
#define gpu_buddy_fini			drm_buddy_fini
#define gpu_buddy_alloc_blocks		drm_buddy_alloc_blocks
#define gpu_buddy_free_list		drm_buddy_free_list
#define gpu_buddy_block_offset		drm_buddy_block_offset
#define gpu_buddy_block_size		drm_buddy_block_size
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(P, ...)		kzalloc(sizeof(P), (__VA_ARGS__ + 0) ?: GFP_KERNEL)
#define kzalloc_flex(P, FAM, COUNT, ...) \
	kzalloc(struct_size_t(typeof(P), FAM, COUNT), (__VA_ARGS__ + 0) ?: GFP_KERNEL)
#endif

/* The driver passes no flags: no DMA pools, no GFP_DMA32. */
#ifndef QNPU_HAVE_TTM_ALLOC_FLAGS
#define ttm_device_init(ttm, funcs, dev, mapping, offsets, flags) \
	ttm_device_init(ttm, funcs, dev, mapping, offsets, (flags) != 0, false)
#endif

#ifndef QNPU_HAVE_URING_SQE_CMD_TYPE
#define io_uring_sqe_cmd(sqe, type)	((const type *)io_uring_sqe_cmd(sqe))
#endif

#ifdef QNPU_HAVE_URING_DONE_RES2
#define io_uring_cmd_done(cmd, ret, issue_flags) \
	io_uring_cmd_done(cmd, ret, 0, issue_flags)
#endif

#ifdef QNPU_HAVE_FENCE_ARRAY_ANY
#define dma_fence_array_init(array, count, fences, context, seqno) \
	dma_fence_array_init(array, count, fences, context, seqno, false)
#endif

#ifndef QNPU_HAVE_TTM_BO_FINI
#define ttm_bo_fini			ttm_bo_put
#endif

#endif
