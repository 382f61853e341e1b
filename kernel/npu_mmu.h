/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_MMU_H
#define NPU_MMU_H

#include <linux/atomic.h>
#include <linux/idr.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "npu_regs.h"

struct npu_bo;
struct npu_device;
struct npu_mem_run;
struct npu_pt;

/** struct npu_mmu - page tables of a device, in system memory */
struct npu_mmu {
	/** @asid_entries: ASID table, coherent memory; NULL once the device is gone */
	struct npu_asid_entry *asid_entries;

	/** @asid_table: its bus address */
	dma_addr_t asid_table;

	/** @live: tables in use (struct npu_pt), under @live_lock */
	struct list_head live;

	/** @gone: no table is mapped for DMA any more, under @live_lock */
	bool gone;

	/** @live_lock: protects @live and @gone; innermost */
	struct mutex live_lock;

	/** @tables_used: tables in @live */
	atomic_t tables_used;

	/** @asids: ASIDs in use; locks itself */
	struct ida asids;

	/** @idle: address spaces that keep an ASID without using it, oldest first; @inv_lock */
	struct list_head idle;

	/**
	 * @inv_lock: protects the invalidation registers, the ASIDs of address spaces, and writes
	 * of @generation
	 */
	struct mutex inv_lock;

	/** @generation: moves with each device reset, which forgets all translations */
	u32 generation;

	/** @inv_wait: woken when invalidations complete */
	wait_queue_head_t inv_wait;
};

/* The ASID of an address space that has none. */
#define NPU_NO_ASID	(-1)

/**
 * struct npu_space - an address space of the card
 *
 * Protected by the lock of the struct npu_vm that embeds it, if not said otherwise.
 */
struct npu_space {
	/** @npu: device */
	struct npu_device *npu;

	/** @root: level 3 table */
	struct npu_pt *root;

	/** @asid: its number or NPU_NO_ASID, under npu_mmu.inv_lock */
	int asid;

	/** @users: queues that use it, under npu_mmu.inv_lock */
	u32 users;

	/** @idle: in npu_mmu.idle while it has an ASID without users, under npu_mmu.inv_lock */
	struct list_head idle;
};

/** struct npu_space_usage - what an address space consists of */
struct npu_space_usage {
	/** @tables: tables of each level */
	u32 tables[NPU_PT_LEVELS];

	/** @small: leaves that map a page */
	u32 small;

	/** @large: leaves that map a block */
	u32 large;
};

int npu_mmu_init(struct npu_device *npu);
void npu_mmu_invalidated(struct npu_device *npu);
void npu_mmu_forget(struct npu_device *npu);
void npu_mmu_release_dma(struct npu_device *npu);

int npu_mmu_read(struct npu_device *npu, u64 addr, u64 *entry);
s64 npu_mmu_find_table(struct npu_device *npu, phys_addr_t addr);
int npu_space_init(struct npu_space *space, struct npu_device *npu);
void npu_space_fini(struct npu_space *space);
int npu_space_attach(struct npu_space *space);
void npu_space_detach(struct npu_space *space);
int npu_space_map(struct npu_space *space, u64 va, struct npu_bo *bo, bool system, u64 flags);
int npu_space_map_fixed(struct npu_space *space, u64 va, const struct npu_mem_run *run, u64 flags);
void npu_space_unmap(struct npu_space *space, u64 va, u64 bytes);
void npu_space_usage(const struct npu_space *space, struct npu_space_usage *usage);

#endif
