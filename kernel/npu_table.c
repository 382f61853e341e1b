// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of page tables and of the ASID table: at the end of a card's DDR, or, where there is none,
 * in system memory.
 *
 * Of tables on the card the driver keeps a copy in its own memory, so that it never reads over the
 * bus, and can write them anew when a card that was given up comes back. Tables in system memory
 * are coherent memory: they survive whatever happens to the device, but have to go before the
 * driver lets go of it, although address spaces may stay longer.
 */
#include <linux/dma-mapping.h>
#include <linux/dmapool.h>
#include <linux/io.h>
#include <linux/slab.h>

#include <drm/drm_print.h>

#include "npu_device.h"
#include "npu_mmu.h"
#include "npu_table.h"

static void npu_table_add(struct npu_mmu *mmu, struct npu_table *table)
{
	mutex_lock(&mmu->live_lock);
	list_add(&table->live, &mmu->live);
	mutex_unlock(&mmu->live_lock);
}

/**
 * npu_asid_bytes - bytes of the ASID table, whole pages of the device
 * @npu: device, identified
 */
u64 npu_asid_bytes(struct npu_device *npu)
{
	return round_up((u64)npu->asids * sizeof(struct npu_asid_entry), NPU_TABLE_BYTES);
}

/* On the card */

static void npu_card_write_root_now(struct npu_device *npu, u32 asid)
{
	u64 entry = npu->mmu.asid_table + asid * sizeof(struct npu_asid_entry);

	writeq(READ_ONCE(npu->mmu.roots[asid]),
	       npu->ddr + entry + offsetof(struct npu_asid_entry, root));
	writeq(0, npu->ddr + entry + offsetof(struct npu_asid_entry, reserved));
}

/* Write a whole table, with the device entered or locked for a reset. */
static void npu_card_write_all(struct npu_device *npu, struct npu_table *table)
{
	u32 i;

	for (i = 0; i < NPU_PT_ENTRIES; i++)
		writeq(READ_ONCE(table->entries[i]), npu->ddr + table->addr + i * sizeof(u64));
}

/*
 * Tables get one part in 64 of the DDR: enough to map eight times the DDR with small pages.
 */
static int npu_card_tables_init(struct npu_device *npu)
{
	struct npu_mmu *mmu = &npu->mmu;
	u64 ddr = round_down(npu->info.ddr_bytes, NPU_TABLE_BYTES);
	u64 table_bytes = round_down(max_t(u64, ddr / 64, SZ_1M), NPU_TABLE_BYTES);
	u64 asid_bytes = npu_asid_bytes(npu);
	u32 asid;

	if (ddr < 4 * (asid_bytes + table_bytes)) {
		drm_err(&npu->drm, "%llu bytes of DDR are not enough\n", npu->info.ddr_bytes);
		return -ENODEV;
	}

	mmu->roots = kvcalloc(npu->asids, sizeof(*mmu->roots), GFP_KERNEL);
	if (!mmu->roots)
		return -ENOMEM;
	mmu->reserved_start = ddr - asid_bytes - table_bytes;
	mmu->asid_table = mmu->reserved_start;
	mmu->tables_start = mmu->asid_table + asid_bytes;
	mmu->table_count = table_bytes / NPU_TABLE_BYTES;
	for (asid = 0; asid < npu->asids; asid++)
		npu_card_write_root_now(npu, asid);
	wmb(); /* before the card is told where the table is */

	return 0;
}

static void npu_card_tables_fini(struct npu_device *npu)
{
	kvfree(npu->mmu.roots);
	npu->mmu.roots = NULL;
}

static int npu_card_table_alloc(struct npu_device *npu, struct npu_table *table)
{
	struct npu_mmu *mmu = &npu->mmu;
	int page, idx;

	table->entries = kzalloc(NPU_TABLE_BYTES, NPU_GFP_USER);
	if (!table->entries)
		return -ENOMEM;
	page = ida_alloc_max(&mmu->tables, mmu->table_count - 1, GFP_KERNEL);
	if (page < 0) {
		kfree(table->entries);
		return page == -ENOSPC ? -EXFULL : page;
	}

	table->addr = mmu->tables_start + (u64)page * NPU_TABLE_BYTES;
	atomic_inc(&mmu->tables_used);
	npu_table_add(mmu, table);
	if (npu_device_enter(npu, &idx)) {
		npu_card_write_all(npu, table);
		npu_device_exit(npu, idx);
	}

	return 0;
}

static void npu_card_table_free(struct npu_device *npu, struct npu_table *table)
{
	struct npu_mmu *mmu = &npu->mmu;

	mutex_lock(&mmu->live_lock);
	list_del(&table->live);
	mutex_unlock(&mmu->live_lock);
	ida_free(&mmu->tables, (table->addr - mmu->tables_start) / NPU_TABLE_BYTES);
	atomic_dec(&mmu->tables_used);
	kfree(table->entries);
}

static void npu_card_table_write(struct npu_device *npu, struct npu_table *table, u32 index,
				 u32 count, u64 entry, u64 step)
{
	u32 i;
	int idx;

	for (i = 0; i < count; i++)
		WRITE_ONCE(table->entries[index + i], entry + i * step);
	if (!npu_device_enter(npu, &idx))
		return;
	for (i = 0; i < count; i++)
		writeq(entry + i * step, npu->ddr + table->addr + (index + i) * sizeof(u64));
	npu_device_exit(npu, idx);
}

static void npu_card_write_root(struct npu_device *npu, u32 asid, u64 root)
{
	int idx;

	WRITE_ONCE(npu->mmu.roots[asid], root);
	if (!npu_device_enter(npu, &idx))
		return;
	npu_card_write_root_now(npu, asid);
	npu_device_exit(npu, idx);
}

/*
 * A change that is just being made is in our copy already, or is written by whoever makes it, who
 * waits for the lock.
 */
static void npu_card_tables_restore(struct npu_device *npu)
{
	struct npu_mmu *mmu = &npu->mmu;
	struct npu_table *table;
	u32 asid;

	mutex_lock(&mmu->live_lock);
	list_for_each_entry(table, &mmu->live, live) {
		npu_card_write_all(npu, table);
		cond_resched();
	}
	mutex_unlock(&mmu->live_lock);
	for (asid = 0; asid < npu->asids; asid++)
		npu_card_write_root_now(npu, asid);
	wmb(); /* before the card is told where they are */
}

static int npu_card_table_read(struct npu_device *npu, u64 addr, u64 *entry)
{
	if (addr > npu->info.ddr_bytes - sizeof(*entry))
		return -EFAULT;
	*entry = readq(npu->ddr + addr);

	return 0;
}

const struct npu_table_ops npu_tables_on_card = {
	.init = npu_card_tables_init,
	.fini = npu_card_tables_fini,
	.alloc = npu_card_table_alloc,
	.free = npu_card_table_free,
	.write = npu_card_table_write,
	.write_root = npu_card_write_root,
	.restore = npu_card_tables_restore,
	.read = npu_card_table_read,
};

/* In system memory */

/*
 * The same share of the memory as of a card's. The pool keeps what it has had, so nobody is charged
 * for it but by quotas.
 */
static int npu_system_tables_init(struct npu_device *npu)
{
	struct npu_mmu *mmu = &npu->mmu;
	dma_addr_t dma;

	mmu->pool = dma_pool_create("npu-tables", npu->drm.dev, NPU_TABLE_BYTES, NPU_TABLE_BYTES,
				    0);
	if (!mmu->pool)
		return -ENOMEM;
	mmu->asid_entries = dma_alloc_coherent(npu->drm.dev, npu_asid_bytes(npu), &dma,
					       GFP_KERNEL);
	if (!mmu->asid_entries) {
		dma_pool_destroy(mmu->pool);
		mmu->pool = NULL;
		return -ENOMEM;
	}
	mmu->asid_table = dma;
	mmu->table_count = npu_mem_system_bytes() / 64 / NPU_TABLE_BYTES;

	return 0;
}

/* Address spaces that files still have keep their tables without memory. */
static void npu_system_tables_fini(struct npu_device *npu)
{
	struct npu_mmu *mmu = &npu->mmu;
	struct npu_table *table;

	if (!mmu->pool)
		return;

	mutex_lock(&mmu->live_lock);
	list_for_each_entry(table, &mmu->live, live) {
		dma_pool_free(mmu->pool, table->entries, table->addr);
		table->entries = NULL;
	}
	dma_pool_destroy(mmu->pool);
	mmu->pool = NULL;
	mutex_unlock(&mmu->live_lock);
	dma_free_coherent(npu->drm.dev, npu_asid_bytes(npu), mmu->asid_entries, mmu->asid_table);
	mmu->asid_entries = NULL;
}

/* With the device there. */
static int npu_system_table_find(struct npu_device *npu, struct npu_table *table)
{
	struct npu_mmu *mmu = &npu->mmu;
	dma_addr_t dma;

	if (atomic_inc_return(&mmu->tables_used) > mmu->table_count) {
		atomic_dec(&mmu->tables_used);
		return -EXFULL;
	}
	table->entries = dma_pool_zalloc(mmu->pool, GFP_KERNEL | __GFP_NOWARN, &dma);
	if (!table->entries) {
		atomic_dec(&mmu->tables_used);
		return -ENOMEM;
	}
	table->addr = dma;
	npu_table_add(mmu, table);

	return 0;
}

static int npu_system_table_alloc(struct npu_device *npu, struct npu_table *table)
{
	int ret, idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	ret = npu_system_table_find(npu, table);
	drm_dev_exit(idx);

	return ret;
}

static void npu_system_table_free(struct npu_device *npu, struct npu_table *table)
{
	struct npu_mmu *mmu = &npu->mmu;

	mutex_lock(&mmu->live_lock);
	list_del(&table->live);
	if (table->entries)
		dma_pool_free(mmu->pool, table->entries, table->addr);
	mutex_unlock(&mmu->live_lock);
	atomic_dec(&mmu->tables_used);
}

/* Whatever state the device is in: nothing but memory is touched. */
static void npu_system_table_write(struct npu_device *npu, struct npu_table *table, u32 index,
				   u32 count, u64 entry, u64 step)
{
	u32 i;
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return;
	for (i = 0; i < count; i++)
		WRITE_ONCE(table->entries[index + i], entry + i * step);
	drm_dev_exit(idx);
}

static void npu_system_write_root(struct npu_device *npu, u32 asid, u64 root)
{
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return;
	WRITE_ONCE(npu->mmu.asid_entries[asid].root, root);
	drm_dev_exit(idx);
}

static void npu_system_tables_restore(struct npu_device *npu)
{
	/* Nothing that happens to the device takes them away. */
}

static int npu_system_table_read(struct npu_device *npu, u64 addr, u64 *entry)
{
	struct npu_mmu *mmu = &npu->mmu;
	u64 asid_bytes = npu_asid_bytes(npu);
	struct npu_table *table;
	int ret = -EFAULT;

	if (!IS_ALIGNED(addr, sizeof(*entry)))
		return ret;
	if (addr >= mmu->asid_table && addr - mmu->asid_table < asid_bytes) {
		*entry = READ_ONCE(*(u64 *)((void *)mmu->asid_entries + addr - mmu->asid_table));
		return 0;
	}

	mutex_lock(&mmu->live_lock);
	list_for_each_entry(table, &mmu->live, live) {
		if (addr < table->addr || addr - table->addr >= NPU_TABLE_BYTES)
			continue;
		*entry = READ_ONCE(table->entries[(addr - table->addr) / sizeof(*entry)]);
		ret = 0;
		break;
	}
	mutex_unlock(&mmu->live_lock);

	return ret;
}

const struct npu_table_ops npu_tables_in_system = {
	.init = npu_system_tables_init,
	.fini = npu_system_tables_fini,
	.alloc = npu_system_table_alloc,
	.free = npu_system_table_free,
	.write = npu_system_table_write,
	.write_root = npu_system_write_root,
	.restore = npu_system_tables_restore,
	.read = npu_system_table_read,
};
