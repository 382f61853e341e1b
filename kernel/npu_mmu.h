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

struct dma_pool;
struct npu_bo;
struct npu_device;
struct npu_mem_run;
struct npu_pt;
struct npu_table_ops;
struct npu_user;

/** struct npu_mmu - page tables of a device */
struct npu_mmu {
	/** @ops: where they are; constant after probe */
	const struct npu_table_ops *ops;

	/** @asid_table: address of the ASID table: a DDR offset, or a bus address */
	u64 asid_table;

	/** @table_count: tables that there can be */
	u32 table_count;

	/** @reserved_start: on the card: DDR offset from which on the DDR belongs to tables */
	u64 reserved_start;

	/** @tables_start: on the card: DDR offset of the first table */
	u64 tables_start;

	/**
	 * @roots: on the card: what the entries of the ASID table hold, or will hold when the card
	 * is back
	 */
	u64 *roots;

	/** @tables: on the card: tables in use, as index from @tables_start; locks itself */
	struct ida tables;

	/** @pool: in system memory: where tables come from; NULL once the device is gone */
	struct dma_pool *pool;

	/** @asid_entries: in system memory: the ASID table; NULL once the device is gone */
	struct npu_asid_entry *asid_entries;

	/** @live: tables in use, under @live_lock */
	struct list_head live;

	/** @live_lock: protects @live; nothing inside of it */
	struct mutex live_lock;

	/** @tables_used: how many that are */
	atomic_t tables_used;

	/** @asids: address spaces in use; locks itself */
	struct ida asids;

	/** @asids_used: how many that are */
	atomic_t asids_used;

	/** @inv_lock: protects the invalidation registers and writes of @generation */
	struct mutex inv_lock;

	/** @generation: moves with each device reset, which forgets all translations */
	u32 generation;

	/** @inv_wait: woken when invalidations complete */
	wait_queue_head_t inv_wait;
};

/**
 * struct npu_space - an address space of the card
 *
 * All of it is protected by the lock of the struct npu_vm that embeds it.
 */
struct npu_space {
	/** @npu: device */
	struct npu_device *npu;

	/** @user: who pays for it; NULL: the driver's own */
	struct npu_user *user;

	/** @root: level 3 table */
	struct npu_pt *root;

	/** @asid: its number */
	u32 asid;
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
void npu_mmu_restore(struct npu_device *npu);
void npu_mmu_release_dma(struct npu_device *npu);

int npu_space_init(struct npu_space *space, struct npu_device *npu, struct npu_user *user);
void npu_space_fini(struct npu_space *space);
int npu_space_map(struct npu_space *space, u64 va, struct npu_bo *bo, bool system, u64 flags);
int npu_space_map_fixed(struct npu_space *space, u64 va, const struct npu_mem_run *run, u64 flags);
void npu_space_unmap(struct npu_space *space, u64 va, u64 bytes);
void npu_space_usage(const struct npu_space *space, struct npu_space_usage *usage);

#endif
