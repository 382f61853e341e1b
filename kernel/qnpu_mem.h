/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_MEM_H
#define QNPU_MEM_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include <drm/ttm/ttm_device.h>
#include <drm/ttm/ttm_placement.h>
#include <drm/ttm/ttm_resource.h>

#include "qnpu_compat.h"

struct qnpu_bo;
struct page;
struct qnpu_device;

/*
 * Allocations on behalf of user space: charged to the caller's memory cgroup. At its limit they
 * fail; __GFP_RETRY_MAYFAIL avoids the OOM killer.
 */
#define QNPU_GFP_USER	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Allocator of the card's DDR. */
struct qnpu_card_manager {
	struct ttm_resource_manager base; /* base class */
	struct gpu_buddy buddy;		/* free blocks, under @lock */
	struct mutex lock;		/* protects buddy */
};

/* Memory managers of a device. */
struct qnpu_mem {
	struct ttm_device ttm;		/* memory manager of both kinds */
	struct qnpu_card_manager card;	/* card DDR, TTM_PL_VRAM */
	struct ttm_resource_manager system; /* system memory, TTM_PL_TT */
	struct list_head mapped;	/* struct qnpu_tt with DMA mappings */
	struct mutex mapped_lock;	/* protects mapped; innermost */
	struct list_head external;	/* imported and pinned buffers with DMA mappings */
	struct mutex external_lock;	/* protects external and its DMA mappings; innermost */
	atomic_t detaching;		/* imports that are off @external but still attached */
	struct mutex claim_lock;	/* protects waiters, spaces and all claims; innermost */
	struct list_head waiters;	/* struct qnpu_residency without memory, oldest first */
	struct list_head spaces;	/* struct qnpu_vm with buffers on the card */
	atomic_t freed;			/* counts jobs that have released their buffers; wraps */
	wait_queue_head_t freed_wait;	/* woken when @freed changes */
	atomic64_t evicted;		/* bytes of card buffers in system memory */
	atomic64_t evictions;		/* evictions since the driver was bound */
};

/* Usage of the card's DDR, bytes. */
struct qnpu_card_space {
	u64 total;			/* available to buffers */
	u64 free;			/* not in use */
	u64 largest;			/* largest free block */
};

/* A range of a buffer that is contiguous for the card. */
struct qnpu_mem_run {
	u64 addr;			/* DDR offset or bus address */
	u64 bytes;
};

int qnpu_mem_init(struct qnpu_device *npu);
void qnpu_mem_unmap_cpu(struct qnpu_device *npu);
u64 qnpu_mem_system_bytes(void);
u64 qnpu_mem_system_room(void);
u64 qnpu_mem_card_bytes(struct qnpu_device *npu);
void qnpu_mem_card_space(struct qnpu_device *npu, struct qnpu_card_space *space);
void qnpu_mem_run(struct qnpu_bo *bo, bool system, u64 offset, struct qnpu_mem_run *run);
void qnpu_mem_card_run(struct ttm_resource *res, u64 offset, struct qnpu_mem_run *run);
void qnpu_mem_clear_card(struct qnpu_device *npu);
int qnpu_mem_by_cpu(struct qnpu_device *npu, struct ttm_resource *card, struct page **pages,
		    bool out);

#endif
