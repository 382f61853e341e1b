// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables and TLB. Where tables live is npu_table.c's business.
 *
 * The card caches invalid translations, too: every change is followed by an invalidation, and
 * nothing is done with memory or tables before that is complete.
 */
#include <linux/log2.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "npu_device.h"
#include "npu_gem.h"
#include "npu_mmu.h"
#include "npu_recover.h"
#include "npu_table.h"
#include "npu_trace.h"

#define NPU_TABLE_SHIFT		12
#define NPU_INDEX_BITS		9
#define NPU_ROOT_LEVEL		(NPU_PT_LEVELS - 1)
#define NPU_LARGE_LEVEL		1

/* An invalidation waits for accesses, not for jobs; a software model on a busy host is slow. */
#define NPU_INV_TIMEOUT		(5 * HZ)

/** struct npu_pt - the driver's view of one table */
struct npu_pt {
	/** @table: its memory */
	struct npu_table table;

	/** @used: valid entries */
	u32 used;

	/** @level: 3 for the root to 0 */
	u32 level;

	/** @link: in a list of tables to be freed */
	struct list_head link;

	/** @leaf: entries that are valid leaves */
	DECLARE_BITMAP(leaf, NPU_PT_ENTRIES);

	/** @child: tables below; only above level 0 */
	struct npu_pt *child[];
};

static u32 npu_level_shift(u32 level)
{
	return NPU_TABLE_SHIFT + level * NPU_INDEX_BITS;
}

static u32 npu_index(u64 va, u32 level)
{
	return (va >> npu_level_shift(level)) & (NPU_PT_ENTRIES - 1);
}

static void npu_pt_write(struct npu_device *npu, struct npu_pt *pt, u32 index, u64 entry)
{
	npu->mmu.ops->write(npu, &pt->table, index, 1, entry, 0);
}

static struct npu_pt *npu_pt_new(struct npu_device *npu, u32 level)
{
	u32 children = level ? NPU_PT_ENTRIES : 0;
	struct npu_pt *pt;
	int ret;

	pt = kzalloc(struct_size(pt, child, children), NPU_GFP_USER);
	if (!pt)
		return ERR_PTR(-ENOMEM);
	/* Not "no space": there may be plenty of it, which nothing is left to map with. */
	ret = npu->mmu.ops->alloc(npu, &pt->table);
	if (ret) {
		kfree(pt);
		return ERR_PTR(ret);
	}
	pt->level = level;
	INIT_LIST_HEAD(&pt->link);

	return pt;
}

static struct npu_pt *npu_pt_alloc(struct npu_space *space, u32 level)
{
	struct npu_pt *pt;
	int ret;

	ret = npu_quota_charge(space->user, NPU_QUOTA_TABLES, 1);
	if (ret)
		return ERR_PTR(ret);
	pt = npu_pt_new(space->npu, level);
	if (IS_ERR(pt))
		npu_quota_uncharge(space->user, NPU_QUOTA_TABLES, 1);

	return pt;
}

static void npu_pt_free(struct npu_space *space, struct npu_pt *pt)
{
	struct npu_device *npu = space->npu;

	npu->mmu.ops->free(npu, &pt->table);
	npu_quota_uncharge(space->user, NPU_QUOTA_TABLES, 1);
	kfree(pt);
}

static void npu_pt_free_tree(struct npu_space *space, struct npu_pt *pt)
{
	u32 i;

	for (i = 0; pt->level && i < NPU_PT_ENTRIES; i++) {
		if (pt->child[i])
			npu_pt_free_tree(space, pt->child[i]);
	}
	npu_pt_free(space, pt);
}

/* Invalidation */

static bool npu_inv_is_done(struct npu_device *npu, u32 generation, u32 ticket)
{
	bool done;
	int idx;

	/* A reset, which invalidates everything, and the end of the card say so. */
	if (READ_ONCE(npu->mmu.generation) != generation || drm_dev_is_unplugged(&npu->drm))
		return true;
	if (!npu_device_try_enter(npu, &idx))
		return false;

	/* Both counters wrap. A card that is gone reads as ones, which has to end the wait, too. */
	done = (s32)(npu_read(npu, NPU_REG_INV_DONE) - ticket) >= 0 ||
	       npu_is_gone(npu_read(npu, NPU_REG_ID));
	npu_device_exit(npu, idx);

	return done;
}

/* A card that sleeps, or is about to, has no translations left when it does anything again. */
static bool npu_inv_enter(struct npu_device *npu, int *idx)
{
	return npu->runtime_pm ? npu_device_enter_awake(npu, idx) : npu_device_enter(npu, idx);
}

/*
 * Invalidate a range and wait until the card uses no old translation. Zero bytes stand for the
 * whole address space with its root. A card that does not answer is reset: that invalidates, too.
 */
static void npu_space_invalidate(struct npu_space *space, u64 va, u64 bytes)
{
	struct npu_device *npu = space->npu;
	struct npu_mmu *mmu = &npu->mmu;
	u32 generation, ticket, resets;
	long left;
	int idx;

	wmb(); /* the entries, write-combined or without cache, before the command, or its waking */
	if (!npu_inv_enter(npu, &idx))
		return;

	mutex_lock(&mmu->inv_lock);
	resets = READ_ONCE(npu->resets);
	generation = mmu->generation;
	npu_write64(npu, NPU_REG_INV_ADDR, va);
	npu_write64(npu, NPU_REG_INV_BYTES, bytes);
	npu_write(npu, NPU_REG_INV_ASID, space->asid);
	ticket = npu_read(npu, NPU_REG_INV_ISSUED);
	trace_npu_invalidate(npu, space->asid, va, bytes, ticket);
	mutex_unlock(&mmu->inv_lock);
	npu_device_exit(npu, idx);

	left = wait_event_timeout(mmu->inv_wait, npu_inv_is_done(npu, generation, ticket),
				  NPU_INV_TIMEOUT);
	trace_npu_invalidate_done(npu, space->asid, ticket, left);

	if (!left) {
		drm_err(&npu->drm, "invalidation %u of asid %u is not answered\n", ticket,
			space->asid);
		npu_recover_device(npu, resets);
	}
}

/**
 * npu_mmu_invalidated - the card has completed invalidations
 * @npu: device
 *
 * Called by the interrupt handler.
 */
void npu_mmu_invalidated(struct npu_device *npu)
{
	wake_up_all(&npu->mmu.inv_wait);
}

/**
 * npu_mmu_forget - the card has lost its translations in a reset
 * @npu: device
 *
 * Whoever waits for an invalidation has what it waits for.
 */
void npu_mmu_forget(struct npu_device *npu)
{
	mutex_lock(&npu->mmu.inv_lock);
	WRITE_ONCE(npu->mmu.generation, npu->mmu.generation + 1);
	mutex_unlock(&npu->mmu.inv_lock);
	wake_up_all(&npu->mmu.inv_wait);
}

/* Mapping */

/* The table at @level that maps @va, made where it is missing. */
static struct npu_pt *npu_space_table(struct npu_space *space, u64 va, u32 level)
{
	struct npu_pt *pt = space->root, *next;
	u32 index;

	while (pt->level > level) {
		index = npu_index(va, pt->level);
		next = pt->child[index];
		if (!next) {
			next = npu_pt_alloc(space, pt->level - 1);
			if (IS_ERR(next))
				return next;
			pt->child[index] = next;
			pt->used++;
			wmb(); /* the empty table before the entry that leads to it */
			npu_pt_write(space->npu, pt, index, next->table.addr | NPU_PTE_VALID);
		}
		pt = next;
	}

	return pt;
}

/*
 * Set leaves of one table, from @va on, the first to @entry, as many as fit into it and into
 * @bytes. Returns the bytes mapped.
 */
static s64 npu_space_set(struct npu_space *space, u64 va, u64 bytes, u32 level, u64 entry)
{
	struct npu_pt *pt = npu_space_table(space, va, level);
	u32 index = npu_index(va, level), shift = npu_level_shift(level), count, i;

	if (IS_ERR(pt))
		return PTR_ERR(pt);

	count = min_t(u64, NPU_PT_ENTRIES - index, bytes >> shift);
	for (i = index; i < index + count; i++)
		pt->used += !__test_and_set_bit(i, pt->leaf);
	space->npu->mmu.ops->write(space->npu, &pt->table, index, count, entry, BIT_ULL(shift));

	return (u64)count << shift;
}

static bool npu_can_be_large(u64 va, u64 addr, u64 bytes)
{
	return IS_ALIGNED(va | addr, SZ_2M) && bytes >= SZ_2M;
}

static int npu_space_set_run(struct npu_space *space, u64 va, const struct npu_mem_run *run,
			     u64 flags)
{
	s64 done;
	u64 at;

	if ((run->addr | (run->addr + run->bytes - 1)) & ~(NPU_PTE_ADDR | (SZ_4K - 1)))
		return -ERANGE;

	/* Where small pages become large ones a table ends, and a run only gets smaller. */
	for (at = 0; at < run->bytes; at += done) {
		u64 left = run->bytes - at, entry = (run->addr + at) | flags | NPU_PTE_VALID;

		if (npu_can_be_large(va + at, run->addr + at, left))
			done = npu_space_set(space, va + at, left, NPU_LARGE_LEVEL,
					     entry | NPU_PTE_LARGE);
		else
			done = npu_space_set(space, va + at, left, 0, entry);
		if (done < 0)
			return done;
		cond_resched();
	}

	return 0;
}

/**
 * npu_space_map_fixed - map memory that is not a buffer's
 * @space: address space
 * @va: address
 * @run: the memory
 * @flags: NPU_PTE_WRITE, NPU_PTE_SYSTEM
 *
 * Otherwise as npu_space_map().
 */
int npu_space_map_fixed(struct npu_space *space, u64 va, const struct npu_mem_run *run, u64 flags)
{
	int ret = npu_space_set_run(space, va, run, flags);

	if (ret)
		npu_space_unmap(space, va, run->bytes);
	else
		npu_space_invalidate(space, va, run->bytes);

	return ret;
}

/**
 * npu_space_map - map a buffer, or change the flags of its mapping
 * @space: address space
 * @va: address, aligned as npu_vm_bind() does it
 * @bo: buffer, its reservation lock held
 * @system: its pages of system memory, else its card memory
 * @flags: NPU_PTE_WRITE or NPU_PTE_CONST
 *
 * On return the card uses the new translations. On error nothing is mapped. Changing flags needs
 * no tables and does not fail.
 */
int npu_space_map(struct npu_space *space, u64 va, struct npu_bo *bo, bool system, u64 flags)
{
	u64 size = bo->tbo.base.size, offset;
	struct npu_mem_run run;
	int ret;

	if (system)
		flags |= NPU_PTE_SYSTEM;

	for (offset = 0; offset < size; offset += run.bytes) {
		npu_mem_run(bo, system, offset, &run);
		ret = npu_space_set_run(space, va + offset, &run, flags);
		if (ret)
			goto err;
	}
	npu_space_invalidate(space, va, size);

	return 0;

err:
	npu_space_unmap(space, va, size);
	return ret;
}

/* What one step of npu_space_unmap() found out. */
struct npu_unmap {
	/* tables without entries, freed after the invalidation */
	struct list_head empty;
	/* the range to invalidate, grown to all that an empty table covered */
	u64 start;
	u64 end;
};

/* Take tables without entries out of the tree, from @level up. */
static void npu_space_prune(struct npu_space *space, u64 va, struct npu_pt **path, u32 level,
			    struct npu_unmap *unmap)
{
	while (!path[level]->used && level < NPU_ROOT_LEVEL) {
		struct npu_pt *parent = path[level + 1];
		u64 covered = BIT_ULL(npu_level_shift(level + 1));
		u32 index = npu_index(va, level + 1);

		list_add(&path[level]->link, &unmap->empty);
		unmap->start = min(unmap->start, round_down(va, covered));
		unmap->end = max(unmap->end, round_down(va, covered) + covered);
		parent->child[index] = NULL;
		parent->used--;
		npu_pt_write(space->npu, parent, index, 0);
		level++;
	}
}

/* Clear leaves of one table, from @index on, as long as there are any, at most @count. */
static u32 npu_pt_clear(struct npu_device *npu, struct npu_pt *pt, u32 index, u64 count)
{
	u32 limit = min_t(u64, NPU_PT_ENTRIES, index + count);
	u32 cleared = find_next_zero_bit(pt->leaf, limit, index) - index;

	if (!cleared)
		return 0;
	bitmap_clear(pt->leaf, index, cleared);
	npu->mmu.ops->write(npu, &pt->table, index, cleared, 0, 0);
	pt->used -= cleared;

	return cleared;
}

/*
 * Clear the leaves of the table at @va, and tables that are empty on the way up, also where there
 * is no leaf: an attempt to map may have made tables, but no more. Returns the bytes passed.
 */
static u64 npu_space_clear(struct npu_space *space, u64 va, u64 bytes, struct npu_unmap *unmap)
{
	struct npu_pt *path[NPU_PT_LEVELS] = {};
	struct npu_pt *pt = space->root;
	u32 level, index, cleared;
	u64 span;

	for (;;) {
		level = pt->level;
		index = npu_index(va, level);
		path[level] = pt;
		if (!level || test_bit(index, pt->leaf) || !pt->child[index])
			break;
		pt = pt->child[index];
	}

	span = BIT_ULL(npu_level_shift(level));
	/* Up to 2^39: more than the macros divide by. */
	cleared = npu_pt_clear(space->npu, pt, index, (bytes + span - 1) >> npu_level_shift(level));
	npu_space_prune(space, va, path, level, unmap);

	return max(cleared, 1) * span - (va & (span - 1));
}

/**
 * npu_space_unmap - take a mapping away
 * @space: address space
 * @va: start
 * @bytes: size, whole pages; parts of it may not be mapped
 *
 * On return the card makes no more access through it.
 */
void npu_space_unmap(struct npu_space *space, u64 va, u64 bytes)
{
	struct npu_unmap unmap = { .start = va, .end = va + bytes };
	struct npu_pt *pt, *next;
	u64 at;

	INIT_LIST_HEAD(&unmap.empty);
	for (at = va; at < va + bytes;) {
		at += npu_space_clear(space, at, va + bytes - at, &unmap);
		cond_resched();
	}

	npu_space_invalidate(space, unmap.start, unmap.end - unmap.start);

	list_for_each_entry_safe(pt, next, &unmap.empty, link)
		npu_pt_free(space, pt);
}

/* Address spaces */

static void npu_asid_write(struct npu_space *space, u64 root)
{
	wmb(); /* the root table before the entry that leads to it */
	space->npu->mmu.ops->write_root(space->npu, space->asid, root);
}

/**
 * npu_mmu_restore - write all tables anew, to a card whose memory lost them or missed changes
 * @npu: device, its reset_lock held for writing
 */
void npu_mmu_restore(struct npu_device *npu)
{
	lockdep_assert_held_write(&npu->reset_lock);

	npu->mmu.ops->restore(npu);
}

/**
 * npu_space_init - make an empty address space
 * @space: address space
 * @npu: device
 * @user: who pays for it and its tables, outlives it; NULL: the driver's own
 *
 * -ENOSPC: the card has no more address spaces. -EXFULL: it has no more page tables.
 */
int npu_space_init(struct npu_space *space, struct npu_device *npu, struct npu_user *user)
{
	int asid, ret;

	space->npu = npu;
	space->user = user;
	ret = npu_quota_charge(user, NPU_QUOTA_SPACES, 1);
	if (ret)
		return ret;
	asid = ida_alloc_max(&npu->mmu.asids, npu->asids - 1, GFP_KERNEL);
	if (asid < 0) {
		ret = asid;
		goto err_quota;
	}
	space->asid = asid;

	space->root = npu_pt_alloc(space, NPU_ROOT_LEVEL);
	if (IS_ERR(space->root)) {
		ret = PTR_ERR(space->root);
		goto err_asid;
	}

	atomic_inc(&npu->mmu.asids_used);
	npu_asid_write(space, space->root->table.addr | NPU_ASID_VALID);
	npu_space_invalidate(space, 0, 0);

	return 0;

err_asid:
	ida_free(&npu->mmu.asids, asid);
err_quota:
	npu_quota_uncharge(user, NPU_QUOTA_SPACES, 1);
	return ret;
}

/**
 * npu_space_fini - give an address space up
 * @space: address space; no queue uses it any more
 */
void npu_space_fini(struct npu_space *space)
{
	struct npu_device *npu = space->npu;

	npu_asid_write(space, 0);
	npu_space_invalidate(space, 0, 0);
	npu_pt_free_tree(space, space->root);
	ida_free(&npu->mmu.asids, space->asid);
	atomic_dec(&npu->mmu.asids_used);
	npu_quota_uncharge(space->user, NPU_QUOTA_SPACES, 1);
}

static void npu_pt_count(const struct npu_pt *pt, struct npu_space_usage *usage)
{
	u32 i, leaves = bitmap_weight(pt->leaf, NPU_PT_ENTRIES);

	usage->tables[pt->level]++;
	*(pt->level ? &usage->large : &usage->small) += leaves;
	for (i = 0; pt->level && i < NPU_PT_ENTRIES; i++) {
		if (pt->child[i])
			npu_pt_count(pt->child[i], usage);
	}
}

/**
 * npu_space_usage - count tables and leaves
 * @space: address space, its lock held
 * @usage: answer
 */
void npu_space_usage(const struct npu_space *space, struct npu_space_usage *usage)
{
	memset(usage, 0, sizeof(*usage));
	npu_pt_count(space->root, usage);
}

/* Set-up */

static void npu_mmu_fini(struct drm_device *drm, void *arg)
{
	struct npu_device *npu = to_npu_device(drm);
	struct npu_mmu *mmu = arg;

	mmu->ops->fini(npu);
	ida_destroy(&mmu->tables);
	ida_destroy(&mmu->asids);
	mutex_destroy(&mmu->inv_lock);
	mutex_destroy(&mmu->live_lock);
}

/**
 * npu_mmu_release_dma - give memory of the system back that the device has used for tables
 * @npu: device, unplugged, its card stopped
 *
 * What the card itself has, or had, is its own.
 */
void npu_mmu_release_dma(struct npu_device *npu)
{
	if (npu->mmu.ops == &npu_tables_in_system)
		npu->mmu.ops->fini(npu);
}

/**
 * npu_mmu_init - find room for tables, and clear the ASID table
 * @npu: device, identified, its registers and memory mapped
 */
int npu_mmu_init(struct npu_device *npu)
{
	struct npu_mmu *mmu = &npu->mmu;

	ida_init(&mmu->tables);
	ida_init(&mmu->asids);
	mutex_init(&mmu->inv_lock);
	init_waitqueue_head(&mmu->inv_wait);
	mutex_init(&mmu->live_lock);
	INIT_LIST_HEAD(&mmu->live);
	mmu->ops = npu->info.ddr_bytes ? &npu_tables_on_card : &npu_tables_in_system;

	return mmu->ops->init(npu) ?: drmm_add_action_or_reset(&npu->drm, npu_mmu_fini, mmu);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_NPU_KUNIT_TEST)
#include "npu_mmu_test.c"
#endif
