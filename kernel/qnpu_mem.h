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

/** struct qnpu_card_manager - the card's DDR */
struct qnpu_card_manager {
	/** @base: TTM's part */
	struct ttm_resource_manager base;
	/** @buddy: which parts are free, under @lock */
	struct gpu_buddy buddy;
	/** @lock: protects @buddy */
	struct mutex lock;
};

/** struct qnpu_mem - memory of a card */
struct qnpu_mem {
	/** @ttm: memory manager of both kinds */
	struct ttm_device ttm;
	/** @card: card DDR, TTM_PL_VRAM */
	struct qnpu_card_manager card;
	/** @system: system memory, TTM_PL_TT */
	struct ttm_resource_manager system;
	/** @mapped: pages of buffers that are mapped for DMA, under @mapped_lock */
	struct list_head mapped;
	/** @mapped_lock: protects @mapped; nothing inside of it */
	struct mutex mapped_lock;
	/** @external: buffers of memory of others that is mapped for DMA, under @external_lock */
	struct list_head external;
	/** @external_lock: protects @external and what its buffers have mapped; innermost */
	struct mutex external_lock;
	/** @detaching: imports that have left @external and are still attached */
	atomic_t detaching;
	/** @claim_lock: protects @waiters, @resident and all claims; innermost */
	struct mutex claim_lock;
	/** @waiters: submissions (struct qnpu_residency) that wait for card memory, oldest first */
	struct list_head waiters;
	/** @resident: buffers on the card, in the order of their arrival */
	struct list_head resident;
	/** @freed: jobs that have freed their buffers; wraps */
	atomic_t freed;
	/** @freed_wait: woken when @freed moves */
	wait_queue_head_t freed_wait;
	/** @evicted: bytes of card buffers that are in system memory at present */
	atomic64_t evicted;
	/** @evictions: moves out of the card since the driver was bound */
	atomic64_t evictions;
};

/** struct qnpu_card_space - how full the card's DDR is, bytes */
struct qnpu_card_space {
	/** @total: that buffers can have */
	u64 total;
	/** @free: not in use */
	u64 free;
	/** @largest: largest free block */
	u64 largest;
};

/** struct qnpu_mem_run - a stretch of a buffer that is contiguous for the card */
struct qnpu_mem_run {
	/** @addr: DDR offset or bus address */
	u64 addr;
	/** @bytes: length */
	u64 bytes;
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
