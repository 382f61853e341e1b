// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables and TLB.
 *
 * Tables are in system memory, charged to the process that causes them. They survive device resets.
 * Removal unmaps them, but address spaces of open files keep them.
 *
 * The device caches invalid translations, too: every change needs an invalidation, which must
 * complete before memory or tables are reused.
 *
 * An address space needs an ASID only while a queue uses it, and keeps it until another one needs
 * it.
 */
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_mmu.h"
#include "qnpu_recover.h"
#include "qnpu_trace.h"

#define QNPU_TABLE_SHIFT	12
#define QNPU_TABLE_BYTES	BIT(QNPU_TABLE_SHIFT)
#define QNPU_INDEX_BITS		9
#define QNPU_ROOT_LEVEL		(NPU_PT_LEVELS - 1)
#define QNPU_LARGE_LEVEL	1

/* An invalidation waits for accesses, not for jobs; a software model on a busy host is slow. */
#define QNPU_INV_TIMEOUT	(5 * HZ)

/* A page table; under the lock of its address space. */
struct qnpu_pt {
	u64 *entries;			/* its memory */
	dma_addr_t dma;			/* its bus address; valid until qnpu_mmu.gone */
	struct list_head live;		/* in qnpu_mmu.live, under live_lock */
	struct list_head link;		/* in a list of tables to be freed */
	u32 used;			/* valid entries */
	u32 level;			/* 3 for the root to 0 */
	DECLARE_BITMAP(leaf, NPU_PT_ENTRIES); /* valid leaf entries */
	struct qnpu_pt *child[];	/* lower tables; none at level 0 */
};

/* Size of the ASID table, a multiple of the device's page size. */
static size_t qnpu_asid_bytes(const struct qnpu_device *npu)
{
	return round_up(npu->asids * sizeof(struct npu_asid_entry), QNPU_TABLE_BYTES);
}

static u32 qnpu_level_shift(u32 level)
{
	return QNPU_TABLE_SHIFT + level * QNPU_INDEX_BITS;
}

static u32 qnpu_index(u64 va, u32 level)
{
	return (va >> qnpu_level_shift(level)) & (NPU_PT_ENTRIES - 1);
}

/* Write @count entries from @index on: @entry, plus @step for each next one. */
static void qnpu_pt_write(struct qnpu_device *npu, struct qnpu_pt *pt, u32 index, u32 count,
			  u64 entry, u64 step)
{
	u32 i;
	int idx;

	for (i = 0; i < count; i++)
		WRITE_ONCE(pt->entries[index + i], entry + i * step);
	if (!drm_dev_enter(&npu->drm, &idx))
		return;
	dma_sync_single_for_device(npu->drm.dev, pt->dma + index * sizeof(u64),
				   count * sizeof(u64), DMA_TO_DEVICE);
	drm_dev_exit(idx);
}

static struct qnpu_pt *qnpu_pt_alloc(struct qnpu_space *space, u32 level)
{
	struct device *dev = space->npu->drm.dev;
	struct qnpu_mmu *mmu = &space->npu->mmu;
	struct qnpu_pt *pt;
	int ret = -ENOMEM;

	pt = kzalloc(struct_size(pt, child, level ? NPU_PT_ENTRIES : 0), QNPU_GFP_USER);
	if (!pt)
		return ERR_PTR(ret);
	pt->level = level;
	pt->entries = kzalloc(QNPU_TABLE_BYTES, QNPU_GFP_USER);
	if (!pt->entries)
		goto err;

	mutex_lock(&mmu->live_lock);
	if (mmu->gone) {
		ret = -ENODEV;
		goto err_unlock;
	}
	pt->dma = dma_map_single(dev, pt->entries, QNPU_TABLE_BYTES, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, pt->dma))
		goto err_unlock;
	list_add(&pt->live, &mmu->live);
	atomic_inc(&mmu->tables_used);
	mutex_unlock(&mmu->live_lock);

	return pt;

err_unlock:
	mutex_unlock(&mmu->live_lock);
err:
	kfree(pt->entries);
	kfree(pt);
	return ERR_PTR(ret);
}

static void qnpu_pt_unmap(struct qnpu_device *npu, struct qnpu_pt *pt)
{
	dma_unmap_single(npu->drm.dev, pt->dma, QNPU_TABLE_BYTES, DMA_TO_DEVICE);
}

/* Free a table and all tables below it. */
static void qnpu_pt_free(struct qnpu_space *space, struct qnpu_pt *pt)
{
	struct qnpu_mmu *mmu = &space->npu->mmu;
	u32 i;

	for (i = 0; pt->level && pt->used && i < NPU_PT_ENTRIES; i++) {
		if (pt->child[i])
			qnpu_pt_free(space, pt->child[i]);
	}

	mutex_lock(&mmu->live_lock);
	list_del(&pt->live);
	if (!mmu->gone)
		qnpu_pt_unmap(space->npu, pt);
	mutex_unlock(&mmu->live_lock);
	atomic_dec(&mmu->tables_used);
	kfree(pt->entries);
	kfree(pt);
}

/* Invalidation */

static bool qnpu_inv_is_done(struct qnpu_device *npu, u32 generation, u32 ticket)
{
	bool done;
	int idx;

	/* A reset invalidates the entire TLB. */
	if (READ_ONCE(npu->mmu.generation) != generation || drm_dev_is_unplugged(&npu->drm))
		return true;
	if (!qnpu_device_try_enter(npu, &idx))
		return false;
	/* Both counters wrap. A removed card reads as ones, which must end the wait, too. */
	done = (s32)(qnpu_read(npu, NPU_REG_INV_DONE) - ticket) >= 0 ||
	       qnpu_is_gone(qnpu_read(npu, NPU_REG_ID));
	qnpu_device_exit(npu, idx);

	return done;
}

/*
 * Invalidate a range, and wait until the device has dropped all old translations. Zero bytes stand
 * for the entire address space. A device that does not answer is reset, which invalidates, too.
 */
static void qnpu_space_invalidate(struct qnpu_space *space, u64 va, u64 bytes)
{
	struct qnpu_device *npu = space->npu;
	struct qnpu_mmu *mmu = &npu->mmu;
	u32 generation, ticket;
	int idx, asid;
	long left;

	wmb(); /* the entries, write-combined or uncached, before the command or the resume */
	/* Otherwise a reset follows before the device works again. */
	if (!qnpu_device_enter_awake(npu, &idx))
		return;

	mutex_lock(&mmu->inv_lock);
	asid = space->asid;
	/* The TLB has no entries without an ASID; qnpu_space_attach() invalidates a new ASID. */
	if (asid == QNPU_NO_ASID) {
		mutex_unlock(&mmu->inv_lock);
		qnpu_device_exit(npu, idx);
		return;
	}
	generation = mmu->generation;
	qnpu_write64(npu, NPU_REG_INV_ADDR, va);
	qnpu_write64(npu, NPU_REG_INV_BYTES, bytes);
	qnpu_write(npu, NPU_REG_INV_ASID, asid);
	ticket = qnpu_read(npu, NPU_REG_INV_ISSUED);
	trace_qnpu_invalidate(npu, asid, va, bytes, ticket);
	mutex_unlock(&mmu->inv_lock);
	qnpu_device_exit(npu, idx);

	left = wait_event_timeout(mmu->inv_wait, qnpu_inv_is_done(npu, generation, ticket),
				  QNPU_INV_TIMEOUT);
	trace_qnpu_invalidate_done(npu, asid, ticket, left);
	if (!left) {
		drm_err(&npu->drm, "invalidation %u of asid %d is not answered\n", ticket, asid);
		qnpu_recover_request(npu, "the MMU does not answer");
		flush_work(&npu->event_work);
	}
}

/* Called by the interrupt handler when invalidations are complete. */
void qnpu_mmu_invalidated(struct qnpu_device *npu)
{
	wake_up_all(&npu->mmu.inv_wait);
}

/* Called after a reset, which has flushed the TLB: ends all waits. */
void qnpu_mmu_forget(struct qnpu_device *npu)
{
	mutex_lock(&npu->mmu.inv_lock);
	WRITE_ONCE(npu->mmu.generation, npu->mmu.generation + 1);
	mutex_unlock(&npu->mmu.inv_lock);
	wake_up_all(&npu->mmu.inv_wait);
}

/* Mapping */

/* Find or allocate the table at @level that maps @va. */
static struct qnpu_pt *qnpu_space_table(struct qnpu_space *space, u64 va, u32 level)
{
	struct qnpu_pt *pt = space->root, *next;
	u32 index;

	while (pt->level > level) {
		index = qnpu_index(va, pt->level);
		next = pt->child[index];
		if (!next) {
			next = qnpu_pt_alloc(space, pt->level - 1);
			if (IS_ERR(next))
				return next;
			pt->child[index] = next;
			pt->used++;
			wmb(); /* the empty table before the entry that points to it */
			qnpu_pt_write(space->npu, pt, index, 1, next->dma | NPU_PTE_VALID, 0);
		}
		pt = next;
	}

	return pt;
}

/* Set leaves of one table, as many as fit it and @bytes. Returns the bytes mapped. */
static s64 qnpu_space_set(struct qnpu_space *space, u64 va, u64 bytes, u32 level, u64 entry)
{
	struct qnpu_pt *pt = qnpu_space_table(space, va, level);
	u32 index = qnpu_index(va, level), shift = qnpu_level_shift(level), count, i;

	if (IS_ERR(pt))
		return PTR_ERR(pt);

	count = min_t(u64, NPU_PT_ENTRIES - index, bytes >> shift);
	for (i = index; i < index + count; i++)
		pt->used += !__test_and_set_bit(i, pt->leaf);
	qnpu_pt_write(space->npu, pt, index, count, entry, BIT_ULL(shift));

	return (u64)count << shift;
}

static int qnpu_space_set_run(struct qnpu_space *space, u64 va, const struct qnpu_mem_run *run,
			      u64 flags)
{
	s64 done;
	u64 at;

	if ((run->addr | (run->addr + run->bytes - 1)) & ~(NPU_PTE_ADDR | (SZ_4K - 1)))
		return -ERANGE;

	/* Small pages end before the next large page, where a table ends, too. */
	for (at = 0; at < run->bytes; at += done) {
		u64 left = run->bytes - at, entry = (run->addr + at) | flags | NPU_PTE_VALID;

		if (IS_ALIGNED((va + at) | (run->addr + at), SZ_2M) && left >= SZ_2M)
			done = qnpu_space_set(space, va + at, left, QNPU_LARGE_LEVEL,
					      entry | NPU_PTE_LARGE);
		else
			done = qnpu_space_set(space, va + at, left, 0, entry);
		if (done < 0)
			return done;
		cond_resched();
	}

	return 0;
}

/* Map memory without a buffer. @flags: NPU_PTE_WRITE, NPU_PTE_SYSTEM. All or nothing. */
int qnpu_space_map_fixed(struct qnpu_space *space, u64 va, const struct qnpu_mem_run *run,
			 u64 flags)
{
	int ret = qnpu_space_set_run(space, va, run, flags);

	if (ret)
		qnpu_space_unmap(space, va, run->bytes);
	else
		qnpu_space_invalidate(space, va, run->bytes);

	return ret;
}

/*
 * Map a buffer's pages of @system or card memory, or change the flags of its mapping, which cannot
 * fail: NPU_PTE_WRITE or NPU_PTE_CONST. The reservation lock is held. On return the device uses the
 * new translations; on error nothing is mapped.
 */
int qnpu_space_map(struct qnpu_space *space, u64 va, struct qnpu_bo *bo, bool system, u64 flags)
{
	u64 size = bo->tbo.base.size, offset;
	struct qnpu_mem_run run;
	int ret;

	if (system)
		flags |= NPU_PTE_SYSTEM;

	for (offset = 0; offset < size; offset += run.bytes) {
		qnpu_mem_run(bo, system, offset, &run);
		ret = qnpu_space_set_run(space, va + offset, &run, flags);
		if (ret) {
			qnpu_space_unmap(space, va, size);
			return ret;
		}
	}
	qnpu_space_invalidate(space, va, size);

	return 0;
}

/* Result of clearing entries. */
struct qnpu_unmap {
	struct list_head empty;		/* tables without entries, freed after the invalidation */
	u64 start;			/* range to invalidate, with the range of empty tables */
	u64 end;
};

/*
 * Clear the leaves of a range, and the entries of tables that become empty. A failed map may have
 * left tables without leaves.
 */
static void qnpu_space_clear(struct qnpu_space *space, struct qnpu_pt *pt, u64 va, u64 end,
			     struct qnpu_unmap *unmap)
{
	u32 i = qnpu_index(va, pt->level), last = qnpu_index(end - 1, pt->level), count;
	u64 span = BIT_ULL(qnpu_level_shift(pt->level)), at;
	struct qnpu_pt *child;

	for (; i <= last; i += max(count, 1)) {
		count = find_next_zero_bit(pt->leaf, last + 1, i) - i;
		bitmap_clear(pt->leaf, i, count);
		child = pt->level ? pt->child[i] : NULL;
		if (child) {
			at = (va & -(span << QNPU_INDEX_BITS)) + i * span;
			qnpu_space_clear(space, child, max(va, at), min(end, at + span), unmap);
			cond_resched();
			if (child->used)
				continue;
			list_add(&child->link, &unmap->empty);
			unmap->start = min(unmap->start, at);
			unmap->end = max(unmap->end, at + span);
			pt->child[i] = NULL;
			count = 1;
		}
		if (!count)
			continue;
		qnpu_pt_write(space->npu, pt, i, count, 0, 0);
		pt->used -= count;
	}
}

/* Unmap a range of pages, mapped or not. On return the device cannot access them. */
void qnpu_space_unmap(struct qnpu_space *space, u64 va, u64 bytes)
{
	struct qnpu_unmap unmap = { .start = va, .end = va + bytes };
	struct qnpu_pt *pt, *next;

	INIT_LIST_HEAD(&unmap.empty);
	qnpu_space_clear(space, space->root, va, va + bytes, &unmap);
	qnpu_space_invalidate(space, unmap.start, unmap.end - unmap.start);

	list_for_each_entry_safe(pt, next, &unmap.empty, link)
		qnpu_pt_free(space, pt);
}

/* Address spaces */

static void qnpu_asid_write(struct qnpu_device *npu, int asid, u64 root)
{
	int idx;

	wmb(); /* the tables before the entry that points to them */
	if (!drm_dev_enter(&npu->drm, &idx))
		return;
	WRITE_ONCE(npu->mmu.asid_entries[asid].root, root);
	drm_dev_exit(idx);
}

/* Find an ASID: an unused one, or that of the address space idle for longest. */
static int qnpu_asid_find(struct qnpu_device *npu)
{
	struct qnpu_mmu *mmu = &npu->mmu;
	struct qnpu_space *space;
	int asid;

	lockdep_assert_held(&mmu->inv_lock);

	/* Fences may depend on this, so it must not reclaim memory. */
	asid = ida_alloc_max(&mmu->asids, npu->asids - 1, GFP_NOWAIT | __GFP_NOWARN);
	if (asid >= 0)
		return asid;
	space = list_first_entry_or_null(&mmu->idle, struct qnpu_space, idle);
	if (!space)
		return -ENOSPC;
	list_del_init(&space->idle);
	asid = space->asid;
	space->asid = QNPU_NO_ASID;

	return asid;
}

/*
 * Assign an ASID for a queue that starts to use the address space; the device is held, but not
 * entered. -ENOSPC: other queues use all ASIDs.
 */
int qnpu_space_attach(struct qnpu_space *space)
{
	struct qnpu_mmu *mmu = &space->npu->mmu;
	bool fresh;
	int asid;

	mutex_lock(&mmu->inv_lock);
	fresh = space->asid == QNPU_NO_ASID;
	asid = fresh ? qnpu_asid_find(space->npu) : space->asid;
	if (asid < 0) {
		mutex_unlock(&mmu->inv_lock);
		return asid;
	}
	if (fresh)
		qnpu_asid_write(space->npu, asid, space->root->dma | NPU_ASID_VALID);
	space->asid = asid;
	list_del_init(&space->idle);
	space->users++;
	mutex_unlock(&mmu->inv_lock);
	/* The TLB may have entries of the previous address space with this ASID. */
	if (fresh)
		qnpu_space_invalidate(space, 0, 0);

	return 0;
}

/* Undo qnpu_space_attach(). */
void qnpu_space_detach(struct qnpu_space *space)
{
	struct qnpu_mmu *mmu = &space->npu->mmu;

	guard(mutex)(&mmu->inv_lock);
	if (!--space->users)
		list_add_tail(&space->idle, &mmu->idle);
}

/* Create an empty address space. */
int qnpu_space_init(struct qnpu_space *space, struct qnpu_device *npu)
{
	space->npu = npu;
	space->asid = QNPU_NO_ASID;
	INIT_LIST_HEAD(&space->idle);
	space->root = qnpu_pt_alloc(space, QNPU_ROOT_LEVEL);

	return PTR_ERR_OR_ZERO(space->root);
}

/* Free an address space without users. */
void qnpu_space_fini(struct qnpu_space *space)
{
	struct qnpu_device *npu = space->npu;
	struct qnpu_mmu *mmu = &npu->mmu;
	int asid;

	mutex_lock(&mmu->inv_lock);
	/* Off the idle list, so nothing takes its ASID. */
	list_del_init(&space->idle);
	asid = space->asid;
	if (asid != QNPU_NO_ASID)
		qnpu_asid_write(npu, asid, 0);
	mutex_unlock(&mmu->inv_lock);
	if (asid != QNPU_NO_ASID) {
		qnpu_space_invalidate(space, 0, 0);
		ida_free(&mmu->asids, asid);
	}
	qnpu_pt_free(space, space->root);
}

/*
 * Read an entry of the ASID table or of a page table at a bus address. The device is held. -EFAULT:
 * there is no table.
 */
int qnpu_mmu_read(struct qnpu_device *npu, u64 addr, u64 *entry)
{
	struct qnpu_mmu *mmu = &npu->mmu;
	struct qnpu_pt *pt;

	if (!IS_ALIGNED(addr, sizeof(*entry)))
		return -EFAULT;
	if (addr >= mmu->asid_table && addr - mmu->asid_table < qnpu_asid_bytes(npu)) {
		*entry = READ_ONCE(*(u64 *)((void *)mmu->asid_entries + addr - mmu->asid_table));
		return 0;
	}
	guard(mutex)(&mmu->live_lock);
	list_for_each_entry(pt, &mmu->live, live) {
		if (addr < pt->dma || addr - pt->dma >= QNPU_TABLE_BYTES)
			continue;
		*entry = READ_ONCE(pt->entries[(addr - pt->dma) / sizeof(*entry)]);
		return 0;
	}

	return -EFAULT;
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_WATCH)
/* Returns the offset of a physical address in a page table; -ENOENT: not in any. */
s64 qnpu_mmu_find_table(struct qnpu_device *npu, phys_addr_t addr)
{
	struct qnpu_mmu *mmu = &npu->mmu;
	struct qnpu_pt *pt;

	guard(mutex)(&mmu->live_lock);
	list_for_each_entry(pt, &mmu->live, live) {
		if (addr - virt_to_phys(pt->entries) < QNPU_TABLE_BYTES)
			return addr - virt_to_phys(pt->entries);
	}

	return -ENOENT;
}
EXPORT_SYMBOL_GPL(qnpu_mmu_find_table);
#endif

static void qnpu_pt_count(const struct qnpu_pt *pt, struct qnpu_space_usage *usage)
{
	u32 i;

	usage->tables[pt->level]++;
	*(pt->level ? &usage->large : &usage->small) += bitmap_weight(pt->leaf, NPU_PT_ENTRIES);
	for (i = 0; pt->level && i < NPU_PT_ENTRIES; i++) {
		if (pt->child[i])
			qnpu_pt_count(pt->child[i], usage);
	}
}

/* Count tables and leaves. The address space is locked. */
void qnpu_space_usage(const struct qnpu_space *space, struct qnpu_space_usage *usage)
{
	memset(usage, 0, sizeof(*usage));
	qnpu_pt_count(space->root, usage);
}

/* Unmap all tables, for removal; idempotent. Address spaces of open files keep the memory. */
void qnpu_mmu_release_dma(struct qnpu_device *npu)
{
	struct qnpu_mmu *mmu = &npu->mmu;
	struct qnpu_pt *pt;

	guard(mutex)(&mmu->live_lock);
	if (mmu->gone)
		return;
	list_for_each_entry(pt, &mmu->live, live)
		qnpu_pt_unmap(npu, pt);
	mmu->gone = true;
}

static void qnpu_mmu_fini(struct drm_device *drm, void *arg)
{
	struct qnpu_mmu *mmu = arg;

	qnpu_mmu_release_dma(to_qnpu_device(drm));
	ida_destroy(&mmu->asids);
	mutex_destroy(&mmu->inv_lock);
	mutex_destroy(&mmu->live_lock);
}

/* Allocate an empty ASID table. */
int qnpu_mmu_init(struct qnpu_device *npu)
{
	struct qnpu_mmu *mmu = &npu->mmu;

	ida_init(&mmu->asids);
	mutex_init(&mmu->inv_lock);
	init_waitqueue_head(&mmu->inv_wait);
	mutex_init(&mmu->live_lock);
	INIT_LIST_HEAD(&mmu->live);
	INIT_LIST_HEAD(&mmu->idle);
	mmu->asid_entries = dmam_alloc_coherent(npu->drm.dev, qnpu_asid_bytes(npu),
						&mmu->asid_table, GFP_KERNEL);
	if (!mmu->asid_entries)
		return -ENOMEM;

	return drmm_add_action_or_reset(&npu->drm, qnpu_mmu_fini, mmu);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_mmu_test.c"
#endif
