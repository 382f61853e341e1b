/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_MMU_H
#define QNPU_MMU_H

#include <linux/atomic.h>
#include <linux/idr.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "npu_regs.h"

struct qnpu_bo;
struct qnpu_device;
struct qnpu_mem_run;
struct qnpu_pt;

/* Page tables of a device, in system memory. */
struct qnpu_mmu {
	struct npu_asid_entry *asid_entries; /* ASID table, coherent memory; freed on removal */
	dma_addr_t asid_table;		/* its bus address */
	struct list_head live;		/* tables in use (struct qnpu_pt), under live_lock */
	bool gone;			/* all tables' DMA mappings are gone, under live_lock */
	struct mutex live_lock;		/* protects @live and @gone; innermost */
	atomic_t tables_used;		/* length of @live */
	struct ida asids;		/* ASIDs in use; has its own lock */
	struct list_head idle;		/* spaces with an unused ASID, oldest first; inv_lock */
	struct mutex inv_lock;		/* protects invalidation registers, ASIDs and @generation */
	u32 generation;			/* counts resets, which flush the TLB */
	wait_queue_head_t inv_wait;	/* woken when invalidations complete */
};

/* The address space has no ASID. */
#define QNPU_NO_ASID	(-1)

/* A device address space; under the lock of its qnpu_vm unless noted otherwise. */
struct qnpu_space {
	struct qnpu_device *npu;
	struct qnpu_pt *root;		/* root table (level 3) */
	int asid;			/* ASID or QNPU_NO_ASID, under qnpu_mmu.inv_lock */
	u32 users;			/* attached queues, under qnpu_mmu.inv_lock */
	struct list_head idle;		/* in qnpu_mmu.idle, under qnpu_mmu.inv_lock */
};

/* Statistics of an address space. */
struct qnpu_space_usage {
	u32 tables[NPU_PT_LEVELS];	/* tables per level */
	u32 small;			/* leaves that map a page */
	u32 large;			/* leaves that map a block */
};

int qnpu_mmu_init(struct qnpu_device *npu);
void qnpu_mmu_invalidated(struct qnpu_device *npu);
void qnpu_mmu_forget(struct qnpu_device *npu);
void qnpu_mmu_release_dma(struct qnpu_device *npu);

int qnpu_mmu_read(struct qnpu_device *npu, u64 addr, u64 *entry);
int qnpu_space_init(struct qnpu_space *space, struct qnpu_device *npu);
void qnpu_space_fini(struct qnpu_space *space);
int qnpu_space_attach(struct qnpu_space *space);
void qnpu_space_detach(struct qnpu_space *space);
int qnpu_space_map(struct qnpu_space *space, u64 va, struct qnpu_bo *bo, bool system, u64 flags);
int qnpu_space_map_fixed(struct qnpu_space *space, u64 va, const struct qnpu_mem_run *run,
			 u64 flags);
void qnpu_space_unmap(struct qnpu_space *space, u64 va, u64 bytes);
void qnpu_space_usage(const struct qnpu_space *space, struct qnpu_space_usage *usage);

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_WATCH)
s64 qnpu_mmu_find_table(struct qnpu_device *npu, phys_addr_t addr);
#endif

#endif
