// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: TTM with two memory types, the card's DDR (TTM_PL_VRAM, a buddy allocator) and system
 * memory mapped for DMA (TTM_PL_TT). A SoC block has no TTM_PL_VRAM.
 *
 * Card buffers are created on the card if there is room, else in system memory. They move in when a
 * submission needs them, and are evicted when idle and others need the memory. qnpu_residency.c
 * requests the moves, the move callback here performs them. System buffers never move.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>
#include <drm/drm_vma_manager.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_copy.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_mem.h"
#include "qnpu_pages.h"
#include "qnpu_prime.h"
#include "qnpu_residency.h"
#include "qnpu_trace.h"
#include "qnpu_vm.h"

/* Bytes cleared or copied between two calls of cond_resched(). */
#define QNPU_CPU_STEP	SZ_2M

/* Smallest size that the card zeroes; below it the CPU is faster than the start of a job. */
#define QNPU_CLEAR_BY_CARD	SZ_256K

/* A contiguous part of a DDR allocation. */
struct qnpu_card_extent {
	u64 offset;			/* offset of its first byte in the buffer */
	u64 addr;			/* DDR offset of that byte */
	u64 bytes;
};

/* A DDR allocation. */
struct qnpu_card_resource {
	struct ttm_resource base;	/* base class */
	struct list_head blocks;	/* buddy blocks, in the order of the buffer's pages */
	u32 count;			/* entries of @extents */
	struct qnpu_card_extent extents[]; /* the blocks in that order, neighbours merged */
};

static struct qnpu_device *ttm_to_qnpu(struct ttm_device *ttm)
{
	return container_of(ttm, struct qnpu_device, mem.ttm);
}

static struct qnpu_card_resource *to_card_resource(struct ttm_resource *res)
{
	return container_of(res, struct qnpu_card_resource, base);
}

static struct qnpu_card_manager *to_card_manager(struct ttm_resource_manager *man)
{
	return container_of(man, struct qnpu_card_manager, base);
}

/* Card DDR */

/*
 * A fragmented buffer has thousands of list-linked blocks. A searchable table spares page faults
 * and walks a scan of the blocks before their offset.
 */
static void qnpu_card_index(struct gpu_buddy *buddy, struct qnpu_card_resource *res)
{
	struct qnpu_card_extent *last = NULL;
	struct gpu_buddy_block *block;
	u64 offset = 0, addr, bytes;

	list_for_each_entry(block, &res->blocks, link) {
		addr = gpu_buddy_block_offset(block);
		bytes = gpu_buddy_block_size(buddy, block);
		if (last && last->addr + last->bytes == addr) {
			last->bytes += bytes;
		} else {
			last = &res->extents[res->count++];
			*last = (struct qnpu_card_extent) {
				.offset = offset, .addr = addr, .bytes = bytes,
			};
		}
		offset += bytes;
	}
}

static void qnpu_card_free_blocks(struct qnpu_card_manager *card, struct list_head *blocks)
{
	guard(mutex)(&card->lock);
	gpu_buddy_free_list(&card->buddy, blocks, 0);
}

static int qnpu_card_alloc(struct ttm_resource_manager *man, struct ttm_buffer_object *tbo,
			   const struct ttm_place *place, struct ttm_resource **out)
{
	struct qnpu_card_manager *card = to_card_manager(man);
	struct qnpu_card_resource *res;
	int ret = -ENOSPC;
	LIST_HEAD(blocks);

	/* Largest blocks first, each aligned to its size, so that 2 MiB entries fit. */
	mutex_lock(&card->lock);
	if (tbo->base.size + qnpu_residency_aside(to_qnpu_bo(tbo)) <= card->buddy.avail)
		ret = gpu_buddy_alloc_blocks(&card->buddy, 0, card->buddy.size, tbo->base.size,
					     PAGE_SIZE, &blocks, 0);
	mutex_unlock(&card->lock);
	to_qnpu_bo(tbo)->refused = ret == -ENOSPC;
	if (ret)
		return ret;

	res = kvzalloc(struct_size(res, extents, list_count_nodes(&blocks)), QNPU_GFP_USER);
	if (!res) {
		qnpu_card_free_blocks(card, &blocks);
		return -ENOMEM;
	}
	ttm_resource_init(tbo, place, &res->base);
	list_replace(&blocks, &res->blocks);
	qnpu_card_index(&card->buddy, res);
	*out = &res->base;

	return 0;
}

static void qnpu_card_free(struct ttm_resource_manager *man, struct ttm_resource *base)
{
	struct qnpu_card_resource *res = to_card_resource(base);

	qnpu_card_free_blocks(to_card_manager(man), &res->blocks);
	ttm_resource_fini(man, &res->base);
	kvfree(res);
}

static const struct ttm_resource_manager_func qnpu_card_funcs = {
	.alloc = qnpu_card_alloc,
	.free = qnpu_card_free,
};

/* Get the address of a byte of card memory, and the length of the contiguous run from it. */
void qnpu_mem_card_run(struct ttm_resource *base, u64 offset, struct qnpu_mem_run *run)
{
	struct qnpu_card_resource *res = to_card_resource(base);
	u32 low = 0, high = res->count, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (res->extents[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	offset -= res->extents[low].offset;
	run->addr = res->extents[low].addr + offset;
	run->bytes = res->extents[low].bytes - offset;
}

/* The same for a page of a buffer in @system or card memory. Reservation lock held. */
void qnpu_mem_run(struct qnpu_bo *bo, bool system, u64 offset, struct qnpu_mem_run *run)
{
	struct ttm_buffer_object *tbo = &bo->tbo;
	u64 pages = (tbo->base.size - offset) >> PAGE_SHIFT, n = 1;
	const dma_addr_t *dma;

	if (!system) {
		qnpu_mem_card_run(tbo->resource, offset, run);
		return;
	}

	dma = tbo->ttm->dma_address + (offset >> PAGE_SHIFT);
	while (n < pages && dma[n] == dma[n - 1] + PAGE_SIZE)
		n++;
	run->addr = dma[0];
	run->bytes = n << PAGE_SHIFT;
}

/* Returns the DDR available to buffers, bytes. */
u64 qnpu_mem_card_bytes(struct qnpu_device *npu)
{
	return npu->mem.card.buddy.size;
}

/*
 * Get the usage of the card's DDR. The allocator does not report its largest free block, so the
 * sizes are tried from large to small. A failed attempt only checks a few list heads.
 */
void qnpu_mem_card_space(struct qnpu_device *npu, struct qnpu_card_space *space)
{
	struct qnpu_card_manager *card = &npu->mem.card;
	u64 size;

	memset(space, 0, sizeof(*space));
	if (!qnpu_mem_card_bytes(npu))
		return;

	guard(mutex)(&card->lock);
	space->total = card->buddy.size;
	space->free = card->buddy.avail;
	for (size = rounddown_pow_of_two(card->buddy.size);
	     size >= PAGE_SIZE && !space->largest; size >>= 1) {
		LIST_HEAD(blocks);

		if (size > space->free ||
		    gpu_buddy_alloc_blocks(&card->buddy, 0, card->buddy.size, size, size, &blocks,
					   0))
			continue;
		space->largest = size;
		gpu_buddy_free_list(&card->buddy, &blocks, 0);
	}
}

/* System memory */

/* System memory used by the buffers of all cards of this machine, bytes. */
static atomic64_t qnpu_system_used;

/* System memory available to buffers of all cards; the rest of the system needs some, too. */
u64 qnpu_mem_system_bytes(void)
{
	return ((u64)totalram_pages() << PAGE_SHIFT) / 4 * 3;
}

/* Returns the system memory that evictions may still use, bytes. */
u64 qnpu_mem_system_room(void)
{
	u64 used = atomic64_read(&qnpu_system_used), limit = qnpu_mem_system_bytes();

	return limit - min(used, limit);
}

/* The exporter accounts imported memory. */
static u64 qnpu_system_counted(struct ttm_buffer_object *tbo)
{
	return to_qnpu_bo(tbo)->dma_buf ? 0 : tbo->base.size;
}

static int qnpu_system_alloc(struct ttm_resource_manager *man, struct ttm_buffer_object *tbo,
			     const struct ttm_place *place, struct ttm_resource **out)
{
	u64 counted = qnpu_system_counted(tbo), limit = qnpu_mem_system_bytes();
	struct ttm_resource *res = kzalloc_obj(*res, QNPU_GFP_USER);

	if (!res)
		return -ENOMEM;

	/* New buffers leave an eighth for moves: to swap two buffers needs room for one more. */
	if (!tbo->resource)
		limit -= limit / 8;
	if (counted && atomic64_add_return(counted, &qnpu_system_used) > limit) {
		atomic64_sub(counted, &qnpu_system_used);
		kfree(res);
		return -ENOSPC;
	}
	ttm_resource_init(tbo, place, res);
	*out = res;

	return 0;
}

static void qnpu_system_free(struct ttm_resource_manager *man, struct ttm_resource *res)
{
	atomic64_sub(qnpu_system_counted(res->bo), &qnpu_system_used);
	ttm_resource_fini(man, res);
	kfree(res);
}

static const struct ttm_resource_manager_func qnpu_system_funcs = {
	.alloc = qnpu_system_alloc,
	.free = qnpu_system_free,
};

/* TTM's callbacks */

/* Zeroes the entire card, whose contents are unknown. There are no CPU mappings. */
void qnpu_mem_clear_card(struct qnpu_device *npu)
{
	u64 at, step, end = qnpu_mem_card_bytes(npu);

	lockdep_assert_held_write(&npu->reset_lock);

	for (at = 0; at < end; at += step) {
		step = min_t(u64, end - at, QNPU_CPU_STEP);
		memset_io(npu->ddr + at, 0, step);
		cond_resched();
	}
	wmb(); /* the zeros before their addresses are published */
}

/* Zero a range of DDR, or copy it to or from pages. */
static void qnpu_card_step(struct qnpu_device *npu, u64 at, u64 bytes, struct page **pages,
			   bool out)
{
	void __iomem *end = npu->ddr + at + bytes, *card;
	void *page;

	if (!pages) {
		memset_io(npu->ddr + at, 0, bytes);
		return;
	}
	for (card = npu->ddr + at; card < end; card += PAGE_SIZE) {
		page = kmap_local_page(*pages++);
		if (out)
			memcpy_fromio(page, card, PAGE_SIZE);
		else
			memcpy_toio(card, page, PAGE_SIZE);
		kunmap_local(page);
	}
}

/* CPU fallback: zeroes card memory, or with @pages copies it to or from them. */
int qnpu_mem_by_cpu(struct qnpu_device *npu, struct ttm_resource *card, struct page **pages,
		    bool out)
{
	struct qnpu_mem_run run;
	u64 offset, step;
	int ret, idx;

	for (offset = 0; offset < card->size; offset += step) {
		qnpu_mem_card_run(card, offset, &run);
		step = min(run.bytes, QNPU_CPU_STEP);
		/* Zeroing of a large new buffer must be killable. */
		if (!pages && fatal_signal_pending(current))
			return -EINTR;
		ret = qnpu_device_enter(npu, &idx);
		if (ret)
			return ret;
		qnpu_card_step(npu, run.addr, step, pages ? pages + (offset >> PAGE_SHIFT) : NULL,
			       out);
		/* A dead card reads as ones. The step is repeated until it is repaired or lost. */
		if (qnpu_is_gone(qnpu_read(npu, NPU_REG_ID)))
			step = 0;
		qnpu_device_exit(npu, idx);
		cond_resched();
	}
	wmb(); /* the contents before their addresses are published */

	return 0;
}

/* Publish a buffer's memory type for lockless readers. */
static void qnpu_move_account(struct qnpu_device *npu, struct qnpu_bo *bo, u32 mem_type)
{
	bool was_out = qnpu_bo_is_evicted(bo), is_out;

	WRITE_ONCE(bo->mem_type, mem_type);
	is_out = qnpu_bo_is_evicted(bo);
	if (is_out && !was_out)
		atomic64_add(bo->tbo.base.size, &npu->mem.evicted);
	if (was_out && !is_out)
		atomic64_sub(bo->tbo.base.size, &npu->mem.evicted);
	qnpu_residency_moved(bo);
}

static int qnpu_ttm_move(struct ttm_buffer_object *tbo, bool evict, struct ttm_operation_ctx *ctx,
			 struct ttm_resource *new_mem, struct ttm_place *hop)
{
	struct qnpu_device *npu = ttm_to_qnpu(tbo->bdev);
	struct qnpu_bo *bo = to_qnpu_bo(tbo);
	struct ttm_resource *old = tbo->resource;
	int from = old ? (int)old->mem_type : -1, ret = 0;
	bool in = new_mem->mem_type == TTM_PL_VRAM, out = from == TTM_PL_VRAM;
	u32 losses = READ_ONCE(npu->losses);

	/* TTM_PL_SYSTEM pages have no DMA address. */
	if ((in && from == TTM_PL_SYSTEM) || (out && new_mem->mem_type == TTM_PL_SYSTEM)) {
		*hop = (struct ttm_place) { .mem_type = TTM_PL_TT };
		return -EMULTIHOP;
	}

	if (old) {
		ret = ttm_bo_wait_ctx(tbo, ctx);
		if (ret)
			return ret;
		qnpu_vm_unmap(bo);
	}
	/* New DDR holds a former owner's data; TTM has zeroed system memory. */
	if (in && !old)
		ret = new_mem->size < QNPU_CLEAR_BY_CARD ?
			      qnpu_mem_by_cpu(npu, new_mem, NULL, false) :
			      qnpu_copy_move(npu, NULL, new_mem, false);
	else if (in || out)
		ret = qnpu_copy_move(npu, bo, out ? old : new_mem, out);
	if (ret)
		return ret;

	if (old && (in || out))
		ttm_bo_move_sync_cleanup(tbo, new_mem);
	else
		ttm_bo_move_null(tbo, new_mem);
	if (out)
		atomic64_inc(&npu->mem.evictions);
	trace_qnpu_bo_move(bo, from, new_mem->mem_type);
	/* A loss after the copy is one of the new memory. */
	qnpu_bo_restored(bo, qnpu_bo_is_lost(bo), losses);
	qnpu_move_account(npu, bo, new_mem->mem_type);

	return 0;
}

static void qnpu_ttm_delete_mem_notify(struct ttm_buffer_object *tbo)
{
	qnpu_move_account(ttm_to_qnpu(tbo->bdev), to_qnpu_bo(tbo), QNPU_BO_NOWHERE);
}

static void qnpu_ttm_evict_flags(struct ttm_buffer_object *tbo, struct ttm_placement *placement)
{
	static const struct ttm_place system = { .mem_type = TTM_PL_TT };

	placement->placement = &system;
	placement->num_placement = 1;
}

/* Evict from the card only, and only idle buffers: no wait for jobs under locks. */
static bool qnpu_ttm_eviction_valuable(struct ttm_buffer_object *tbo, const struct ttm_place *place)
{
	if (tbo->resource->mem_type != TTM_PL_VRAM ||
	    !qnpu_residency_may_evict(to_qnpu_bo(tbo)) ||
	    !dma_resv_test_signaled(tbo->base.resv, DMA_RESV_USAGE_BOOKKEEP))
		return false;
	if (tbo->base.size <= qnpu_mem_system_room())
		return true;
	qnpu_residency_move_failed(ttm_to_qnpu(tbo->bdev));

	return false;
}

static int qnpu_ttm_io_mem_reserve(struct ttm_device *ttm, struct ttm_resource *res)
{
	struct qnpu_mem_run run;

	if (res->mem_type != TTM_PL_VRAM)
		return 0;

	qnpu_mem_card_run(res, 0, &run);
	res->bus.offset = ttm_to_qnpu(ttm)->ddr_phys + run.addr;
	res->bus.is_iomem = true;
	res->bus.caching = ttm_write_combined;

	return 0;
}

static unsigned long qnpu_ttm_io_mem_pfn(struct ttm_buffer_object *tbo, unsigned long page)
{
	struct qnpu_device *npu = ttm_to_qnpu(tbo->bdev);
	struct qnpu_mem_run run;

	qnpu_mem_card_run(tbo->resource, (u64)page << PAGE_SHIFT, &run);

	return PHYS_PFN(npu->ddr_phys + run.addr);
}

static const struct ttm_device_funcs qnpu_ttm_funcs = {
	.ttm_tt_create = qnpu_pages_create,
	.ttm_tt_populate = qnpu_pages_populate,
	.ttm_tt_unpopulate = qnpu_pages_unpopulate,
	.ttm_tt_destroy = qnpu_pages_destroy,
	.move = qnpu_ttm_move,
	.delete_mem_notify = qnpu_ttm_delete_mem_notify,
	.evict_flags = qnpu_ttm_evict_flags,
	.eviction_valuable = qnpu_ttm_eviction_valuable,
	.io_mem_reserve = qnpu_ttm_io_mem_reserve,
	.io_mem_pfn = qnpu_ttm_io_mem_pfn,
};

/* Zaps all CPU mappings of buffers, under reset_lock; the next access faults. */
void qnpu_mem_unmap_cpu(struct qnpu_device *npu)
{
	/* A reset does not affect system memory. */
	if (!qnpu_mem_card_bytes(npu))
		return;
	unmap_mapping_range(npu->drm.anon_inode->i_mapping,
			    (loff_t)DRM_FILE_PAGE_OFFSET_START << PAGE_SHIFT, 0, 1);
}

/* Set-up */

static void qnpu_manager_add(struct qnpu_mem *mem, struct ttm_resource_manager *man, u32 place,
			     u64 bytes)
{
	ttm_resource_manager_init(man, &mem->ttm, bytes);
	ttm_set_driver_manager(&mem->ttm, place, man);
	ttm_resource_manager_set_used(man, true);
}

static void qnpu_manager_remove(struct qnpu_mem *mem, struct ttm_resource_manager *man, u32 place)
{
	ttm_resource_manager_set_used(man, false);
	ttm_resource_manager_evict_all(&mem->ttm, man);
	ttm_resource_manager_cleanup(man);
	ttm_set_driver_manager(&mem->ttm, place, NULL);
}

static void qnpu_mem_fini(struct drm_device *drm, void *arg)
{
	struct qnpu_mem *mem = arg;

	/* TTM's work frees buffers of foreign memory, and needs the managers. */
	flush_workqueue(mem->ttm.wq);

	qnpu_manager_remove(mem, &mem->system, TTM_PL_TT);
	if (mem->card.buddy.size)
		qnpu_manager_remove(mem, &mem->card.base, TTM_PL_VRAM);
	ttm_device_fini(&mem->ttm);
	if (mem->card.buddy.size)
		gpu_buddy_fini(&mem->card.buddy);
}

int qnpu_mem_init(struct qnpu_device *npu)
{
	u64 bytes = round_down(npu->info.ddr_bytes, PAGE_SIZE);
	struct qnpu_mem *mem = &npu->mem;
	int ret;

	INIT_LIST_HEAD(&mem->mapped);
	INIT_LIST_HEAD(&mem->external);
	INIT_LIST_HEAD(&mem->waiters);
	INIT_LIST_HEAD(&mem->spaces);
	init_waitqueue_head(&mem->freed_wait);
	ret = drmm_mutex_init(&npu->drm, &mem->card.lock) ?:
	      drmm_mutex_init(&npu->drm, &mem->mapped_lock) ?:
	      drmm_mutex_init(&npu->drm, &mem->external_lock) ?:
	      drmm_mutex_init(&npu->drm, &mem->claim_lock);
	if (!ret && bytes)
		ret = gpu_buddy_init(&mem->card.buddy, bytes, PAGE_SIZE);
	if (ret)
		return ret;

	ret = ttm_device_init(&mem->ttm, &qnpu_ttm_funcs, npu->drm.dev,
			      npu->drm.anon_inode->i_mapping, npu->drm.vma_offset_manager, 0);
	if (ret) {
		if (bytes)
			gpu_buddy_fini(&mem->card.buddy);
		return ret;
	}

	mem->card.base.func = &qnpu_card_funcs;
	if (bytes)
		qnpu_manager_add(mem, &mem->card.base, TTM_PL_VRAM, bytes);
	mem->system.func = &qnpu_system_funcs;
	mem->system.use_tt = true;
	qnpu_manager_add(mem, &mem->system, TTM_PL_TT, qnpu_mem_system_bytes());

	return drmm_add_action_or_reset(&npu->drm, qnpu_mem_fini, mem);
}
