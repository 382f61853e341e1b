/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_TABLE_H
#define NPU_TABLE_H

#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/types.h>

struct npu_device;

#define NPU_TABLE_BYTES		SZ_4K

/** struct npu_table - memory of one page table */
struct npu_table {
	/** @addr: where the device finds it: a DDR offset, or a bus address; constant */
	u64 addr;

	/**
	 * @entries: of a table in system memory that itself, NULL once the device is gone; of one
	 * on the card what it holds, or will hold when the card is back
	 */
	u64 *entries;

	/** @live: in npu_mmu.live, under its lock */
	struct list_head live;
};

/** struct npu_table_ops - where page tables and the ASID table are, and how one writes them */
struct npu_table_ops {
	/** @init: find room for the ASID table, and empty it */
	int (*init)(struct npu_device *npu);

	/** @fini: undo @init, once the device has no access any more; also twice */
	void (*fini)(struct npu_device *npu);

	/** @alloc: find room for a table without entries; -EXFULL: there is no more */
	int (*alloc)(struct npu_device *npu, struct npu_table *table);

	/** @free: undo @alloc */
	void (*free)(struct npu_device *npu, struct npu_table *table);

	/**
	 * @write: change @count entries from @index on, to @entry and @step more each; when the
	 * device is gone nothing happens
	 */
	void (*write)(struct npu_device *npu, struct npu_table *table, u32 index, u32 count,
		      u64 entry, u64 step);

	/** @write_root: likewise the entry of an address space in the ASID table */
	void (*write_root)(struct npu_device *npu, u32 asid, u64 root);

	/** @restore: write all of them again; the device is locked for a reset */
	void (*restore)(struct npu_device *npu);

	/** @read: the entry at an address, as the device sees it; -EFAULT: there is no table */
	int (*read)(struct npu_device *npu, u64 addr, u64 *entry);
};

u64 npu_asid_bytes(struct npu_device *npu);

extern const struct npu_table_ops npu_tables_on_card;
extern const struct npu_table_ops npu_tables_in_system;

#endif
