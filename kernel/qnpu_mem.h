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
 * Memory that user space causes: charged to the memory cgroup of the caller. At its limit the call
 * fails; without __GFP_RETRY_MAYFAIL a process of the cgroup would be killed.
 */
#define QNPU_GFP_USER	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* The card's DDR. */
struct qnpu_card_manager {
	struct ttm_resource_manager base; /* TTM's part */
	struct gpu_buddy buddy;		/* which parts are free, under lock */
	struct mutex lock;		/* protects buddy */
};

/* Memory of a card. */
struct qnpu_mem {
	struct ttm_device ttm;		/* memory manager of both kinds */
	struct qnpu_card_manager card;	/* card DDR, TTM_PL_VRAM */
	struct ttm_resource_manager system; /* system memory, TTM_PL_TT */
	struct list_head mapped;	/* pages (struct qnpu_tt) that are mapped for DMA */
	struct mutex mapped_lock;	/* protects mapped; innermost */
	struct list_head external;	/* buffers of memory of others that is mapped for DMA */
	struct mutex external_lock;	/* protects external and what that has mapped; innermost */
	atomic_t detaching;		/* imports that have left external and are still attached */
	struct mutex claim_lock;	/* protects waiters, spaces and all claims; innermost */
	struct list_head waiters;	/* struct qnpu_residency without room, oldest first */
	struct list_head spaces;	/* struct qnpu_vm with buffers on the card */
	atomic_t freed;			/* jobs that have freed their buffers; wraps */
	wait_queue_head_t freed_wait;	/* woken when freed moves */
	atomic_t failed_moves;		/* out of the card, for want of system memory; wraps */
	atomic64_t evicted;		/* bytes of card buffers in system memory */
	atomic64_t evictions;		/* moves out of the card since the driver was bound */
};

/* How full the card's DDR is, bytes. */
struct qnpu_card_space {
	u64 total;			/* that buffers can have */
	u64 free;			/* not in use */
	u64 largest;			/* largest free block */
};

/* A stretch of a buffer that is contiguous for the card. */
struct qnpu_mem_run {
	u64 addr;			/* DDR offset or bus address */
	u64 bytes;			/* length */
};

int qnpu_mem_init(struct qnpu_device *npu);
void qnpu_mem_unmap_cpu(struct qnpu_device *npu);
u64 qnpu_mem_system_bytes(void);
u64 qnpu_mem_card_bytes(struct qnpu_device *npu);
void qnpu_mem_card_space(struct qnpu_device *npu, struct qnpu_card_space *space);
void qnpu_mem_run(struct qnpu_bo *bo, bool system, u64 offset, struct qnpu_mem_run *run);
void qnpu_mem_card_run(struct ttm_resource *res, u64 offset, struct qnpu_mem_run *run);
void qnpu_mem_clear_card(struct qnpu_device *npu);
int qnpu_mem_by_cpu(struct qnpu_device *npu, struct ttm_resource *card, struct page **pages,
		    bool out);

#endif
