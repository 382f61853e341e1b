// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: TTM with two places, the card's DDR (TTM_PL_VRAM, a buddy allocator) and system memory
 * that the card may see (TTM_PL_TT).
 *
 * Buffers for the card begin there if there is room, else in system memory. They come to the card
 * when a submission needs them, and go when they are idle and others need the room:
 * qnpu_residency.c asks for the moves, the move callback here makes them. A move takes the buffer
 * out of all address spaces first. Buffers for system memory never move.
 *
 * A block of a SoC has no memory of its own: there is no TTM_PL_VRAM then, the card has 0 bytes,
 * and nothing ever moves.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
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

/* Bytes cleared or copied between two chances for others to run. */
#define QNPU_CPU_STEP	SZ_2M

/* From this size on the card zeroes new memory: before, the CPU is done before the card begins. */
#define QNPU_CLEAR_BY_CARD	SZ_256K

/** struct qnpu_card_resource - a piece of DDR */
struct qnpu_card_resource {
	/** @base: TTM's part */
	struct ttm_resource base;

	/** @blocks: buddy blocks, in the order of the buffer's pages */
	struct list_head blocks;

	/** @extents: the same as extents in that order, neighbours merged; @count of them */
	struct qnpu_card_extent *extents;

	/** @count: entries of @extents */
	u32 count;
};

/** struct qnpu_card_extent - a contiguous part of a piece of DDR */
struct qnpu_card_extent {
	/** @offset: of its first byte in the buffer */
	u64 offset;

	/** @addr: DDR offset of that byte */
	u64 addr;

	/** @bytes: size */
	u64 bytes;
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

static struct qnpu_system_manager *to_system_manager(struct ttm_resource_manager *man)
{
	return container_of(man, struct qnpu_system_manager, base);
}

/* Card DDR */

/*
 * Blocks are a list, and a fragmented buffer has thousands: a table that can be searched, so that
 * neither a walk over all of the buffer nor a page fault looks at the blocks before.
 */
static int qnpu_card_index(struct qnpu_card_manager *card, struct qnpu_card_resource *res)
{
	struct qnpu_card_extent *last = NULL;
	struct gpu_buddy_block *block;
	u64 offset = 0, addr, bytes;
	size_t count = list_count_nodes(&res->blocks);

	res->extents = kvmalloc_array(count, sizeof(*res->extents), QNPU_GFP_USER);
	if (!res->extents)
		return -ENOMEM;

	list_for_each_entry(block, &res->blocks, link) {
		addr = gpu_buddy_block_offset(block);
		bytes = gpu_buddy_block_size(&card->buddy, block);
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

	return 0;
}

static int qnpu_card_alloc(struct ttm_resource_manager *man, struct ttm_buffer_object *tbo,
			   const struct ttm_place *place, struct ttm_resource **out)
{
	struct qnpu_card_manager *card = to_card_manager(man);
	struct qnpu_card_resource *res;
	int ret;

	res = kzalloc_obj(*res, QNPU_GFP_USER);
	if (!res)
		return -ENOMEM;

	ttm_resource_init(tbo, place, &res->base);
	INIT_LIST_HEAD(&res->blocks);

	/*
	 * The allocator takes a request beyond its size for a mistake. It serves from the largest
	 * blocks down, each aligned to its size: 2 MiB entries are used wherever there is room.
	 */
	ret = -ENOSPC;
	mutex_lock(&card->lock);
	if (tbo->base.size <= card->buddy.size && tbo->base.size <= card->buddy.avail)
		ret = gpu_buddy_alloc_blocks(&card->buddy, 0, card->buddy.size, tbo->base.size,
					     PAGE_SIZE, &res->blocks, 0);
	if (!ret) {
		ret = qnpu_card_index(card, res);
		if (ret)
			gpu_buddy_free_list(&card->buddy, &res->blocks, 0);
	}
	mutex_unlock(&card->lock);
	if (ret) {
		ttm_resource_fini(man, &res->base);
		kfree(res);
		return ret;
	}

	res->base.bus.caching = ttm_write_combined;
	*out = &res->base;

	return 0;
}

static void qnpu_card_free(struct ttm_resource_manager *man, struct ttm_resource *base)
{
	struct qnpu_card_manager *card = to_card_manager(man);
	struct qnpu_card_resource *res = to_card_resource(base);

	mutex_lock(&card->lock);
	gpu_buddy_free_list(&card->buddy, &res->blocks, 0);
	mutex_unlock(&card->lock);

	ttm_resource_fini(man, &res->base);
	kvfree(res->extents);
	kfree(res);
}

static const struct ttm_resource_manager_func qnpu_card_funcs = {
	.alloc = qnpu_card_alloc,
	.free = qnpu_card_free,
};

/* The extent that holds a byte of a resource. */
static const struct qnpu_card_extent *qnpu_card_extent(struct ttm_resource *base, u64 offset)
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

	return &res->extents[low];
}

/**
 * qnpu_mem_card_bytes - DDR that buffers can have
 * @npu: device
 */
u64 qnpu_mem_card_bytes(struct qnpu_device *npu)
{
	return npu->mem.card.buddy.size;
}

/**
 * qnpu_mem_card_space - how full the card is
 * @npu: device
 * @space: answer
 *
 * The allocator does not tell its largest free block, so a block of each size is asked for, from
 * large to small. A refusal costs a look at a few list heads.
 */
void qnpu_mem_card_space(struct qnpu_device *npu, struct qnpu_card_space *space)
{
	struct qnpu_card_manager *card = &npu->mem.card;
	u64 size;

	memset(space, 0, sizeof(*space));
	if (!qnpu_mem_card_bytes(npu))
		return;

	mutex_lock(&card->lock);
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
	mutex_unlock(&card->lock);
}

/* System memory */

/* What the buffers of all cards of this machine have of its memory. */
static atomic64_t qnpu_system_used;

/**
 * qnpu_mem_system_bytes - system memory that the buffers of all cards can have
 *
 * The rest of the system has to live, too.
 */
u64 qnpu_mem_system_bytes(void)
{
	return ((u64)totalram_pages() << PAGE_SHIFT) / 4 * 3;
}

/* What is new leaves an eighth to moves: two buffers that change places need room for one more. */
static u64 qnpu_system_limit(bool move)
{
	u64 all = qnpu_mem_system_bytes();

	return move ? all : all - all / 8;
}

static bool qnpu_system_has_room(u64 bytes)
{
	return (u64)atomic64_read(&qnpu_system_used) + bytes <= qnpu_system_limit(true);
}

/** struct qnpu_system_resource - a buffer's claim to system memory */
struct qnpu_system_resource {
	/** @base: TTM's part */
	struct ttm_resource base;

	/** @counted: bytes in qnpu_system_used; imported memory is counted by those who made it */
	u64 counted;
};

static int qnpu_system_alloc(struct ttm_resource_manager *man, struct ttm_buffer_object *tbo,
			     const struct ttm_place *place, struct ttm_resource **out)
{
	struct qnpu_system_resource *res;
	u64 used;

	res = kzalloc_obj(*res, QNPU_GFP_USER);
	if (!res)
		return -ENOMEM;

	if (!to_qnpu_bo(tbo)->dma_buf) {
		res->counted = tbo->base.size;
		used = atomic64_add_return(res->counted, &qnpu_system_used);
		if (used > qnpu_system_limit(tbo->resource)) {
			atomic64_sub(res->counted, &qnpu_system_used);
			kfree(res);
			return -ENOSPC;
		}
	}
	atomic64_add(tbo->base.size, &to_system_manager(man)->used);
	ttm_resource_init(tbo, place, &res->base);
	*out = &res->base;

	return 0;
}

static void qnpu_system_free(struct ttm_resource_manager *man, struct ttm_resource *base)
{
	struct qnpu_system_resource *res = container_of(base, struct qnpu_system_resource, base);

	atomic64_sub(base->size, &to_system_manager(man)->used);
	atomic64_sub(res->counted, &qnpu_system_used);
	ttm_resource_fini(man, base);
	kfree(res);
}

static const struct ttm_resource_manager_func qnpu_system_funcs = {
	.alloc = qnpu_system_alloc,
	.free = qnpu_system_free,
};

/* TTM's callbacks */

/**
 * qnpu_mem_cpu_clear - zero card memory without the card's help
 * @npu: device
 * @at: DDR offset
 * @bytes: size
 */
int qnpu_mem_cpu_clear(struct qnpu_device *npu, u64 at, u64 bytes)
{
	u64 end = at + bytes, stop;
	int idx;

	while (at < end) {
		stop = min(end, at + QNPU_CPU_STEP);
		if (!qnpu_device_enter(npu, &idx))
			return -ENODEV;
		for (; at < stop; at += sizeof(u64))
			__raw_writeq(0, npu->ddr + at);
		qnpu_device_exit(npu, idx);
		cond_resched();
	}
	wmb(); /* the zeros before anyone is told where they are */

	return 0;
}

/**
 * qnpu_mem_clear_card - zero all buffers' part of the card, since nobody knows what it holds
 * @npu: device, its reset_lock held for writing, no CPU mappings
 */
void qnpu_mem_clear_card(struct qnpu_device *npu)
{
	u64 at, step, end = qnpu_mem_card_bytes(npu);

	lockdep_assert_held_write(&npu->reset_lock);

	for (at = 0; at < end; at += step) {
		step = min_t(u64, end - at, QNPU_CPU_STEP);
		memset_io(npu->ddr + at, 0, step);
		cond_resched();
	}
	wmb(); /* the zeros before anyone is told where they are */
}

/* Copy pages between a stretch of DDR and system memory. */
static void qnpu_card_copy_pages(struct qnpu_device *npu, u64 card, struct page **pages, u64 count,
				 bool out)
{
	void *page;
	u64 i;

	for (i = 0; i < count; i++, card += PAGE_SIZE) {
		page = kmap_local_page(pages[i]);
		if (out)
			memcpy_fromio(page, npu->ddr + card, PAGE_SIZE);
		else
			memcpy_toio(npu->ddr + card, page, PAGE_SIZE);
		kunmap_local(page);
	}
}

/* Copy a buffer's contents between the card and its pages. */
static int qnpu_card_copy(struct qnpu_device *npu, struct ttm_resource *base, struct page **pages,
			  bool out)
{
	struct qnpu_card_resource *res = to_card_resource(base);
	u64 at, end, step;
	int idx;
	u32 i;

	for (i = 0; i < res->count; i++) {
		at = res->extents[i].addr;
		end = at + res->extents[i].bytes;

		for (; at < end; at += step) {
			step = min(end - at, QNPU_CPU_STEP);
			if (!qnpu_device_enter(npu, &idx))
				return -ENODEV;
			qnpu_card_copy_pages(npu, at, pages, step >> PAGE_SHIFT, out);
			qnpu_device_exit(npu, idx);
			pages += step >> PAGE_SHIFT;
			cond_resched();
		}
	}
	wmb(); /* the copy before anyone is told where it is */

	return 0;
}

/*
 * Freshly allocated DDR holds what its last owner left. The card zeroes it while the caller goes
 * on; whoever wants to see it, CPU or job, waits for the fence.
 */
static int qnpu_move_clear(struct qnpu_device *npu, struct ttm_buffer_object *tbo,
			   struct ttm_resource *to)
{
	struct dma_fence *fence;
	struct qnpu_mem_run run;
	u64 offset;
	int ret;

	if (to->size >= QNPU_CLEAR_BY_CARD) {
		fence = qnpu_copy_clear(npu, to);
		if (!IS_ERR(fence)) {
			dma_resv_add_fence(tbo->base.resv, fence, DMA_RESV_USAGE_KERNEL);
			dma_fence_put(fence);
			return 0;
		}
	}

	for (offset = 0; offset < to->size; offset += run.bytes) {
		qnpu_mem_card_run(to, offset, &run);
		ret = qnpu_mem_cpu_clear(npu, run.addr, run.bytes);
		if (ret)
			return ret;
	}

	return 0;
}

/* A buffer's first place. TTM has zeroed pages of system memory. */
static int qnpu_move_first(struct qnpu_device *npu, struct ttm_buffer_object *tbo,
			   struct ttm_resource *to)
{
	int ret;

	if (to->mem_type == TTM_PL_VRAM) {
		ret = qnpu_move_clear(npu, tbo, to);
		if (ret)
			return ret;
	}
	ttm_bo_move_null(tbo, to);

	return 0;
}

/*
 * In system memory the pages are what counts, not what a bounce buffer of the DMA mapping may hold:
 * CPU mappings show the pages.
 */
static int qnpu_move_contents(struct qnpu_device *npu, struct ttm_buffer_object *tbo,
			      struct ttm_resource *to)
{
	bool out = to->mem_type == TTM_PL_TT;
	struct ttm_resource *card = out ? tbo->resource : to;
	int ret;

	if (!out)
		qnpu_pages_sync(npu, tbo->ttm, 0, tbo->base.size, DRM_NPU_SYNC_TO_DEVICE);
	ret = qnpu_copy_move(npu, to_qnpu_bo(tbo), card, out);
	if (out && !ret)
		qnpu_pages_sync(npu, tbo->ttm, 0, tbo->base.size, DRM_NPU_SYNC_FROM_DEVICE);
	if (ret)
		ret = qnpu_card_copy(npu, card, tbo->ttm->pages, out);
	if (ret)
		return ret;

	if (out)
		atomic64_inc(&npu->mem.evictions);
	ttm_bo_move_sync_cleanup(tbo, to);

	return 0;
}

/* Say where a buffer is now, for those who ask without its lock. */
static void qnpu_move_account(struct qnpu_device *npu, struct qnpu_bo *bo, u32 mem_type)
{
	bool was_out = qnpu_bo_is_evicted(bo), is_out;

	qnpu_bo_restored(bo, qnpu_bo_is_lost(bo));
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
	int from = old ? (int)old->mem_type : -1;
	bool card = new_mem->mem_type == TTM_PL_VRAM || (old && old->mem_type == TTM_PL_VRAM);
	int ret;

	if (!old) {
		ret = qnpu_move_first(npu, tbo, new_mem);
		goto out;
	}

	/* Pages that the card may not see have no bus addresses. */
	if (card && (new_mem->mem_type == TTM_PL_SYSTEM || old->mem_type == TTM_PL_SYSTEM)) {
		*hop = (struct ttm_place) { .mem_type = TTM_PL_TT };
		return -EMULTIHOP;
	}

	ret = ttm_bo_wait_ctx(tbo, ctx);
	if (ret)
		return ret;
	qnpu_vm_unmap(bo);

	if (card)
		ret = qnpu_move_contents(npu, tbo, new_mem);
	else
		ttm_bo_move_null(tbo, new_mem);
out:
	if (!ret) {
		trace_qnpu_bo_move(bo, from, new_mem->mem_type);
		qnpu_move_account(npu, bo, new_mem->mem_type);
	}

	return ret;
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

/* Only the card is made free, and only of what is idle: nobody waits for jobs with locks held. */
static bool qnpu_ttm_eviction_valuable(struct ttm_buffer_object *tbo, const struct ttm_place *place)
{
	if (tbo->resource->mem_type != TTM_PL_VRAM || !qnpu_residency_may_evict(to_qnpu_bo(tbo)) ||
	    !dma_resv_test_signaled(tbo->base.resv, DMA_RESV_USAGE_BOOKKEEP))
		return false;

	return qnpu_system_has_room(tbo->base.size);
}

static int qnpu_ttm_io_mem_reserve(struct ttm_device *ttm, struct ttm_resource *res)
{
	struct qnpu_device *npu = ttm_to_qnpu(ttm);

	if (res->mem_type != TTM_PL_VRAM)
		return 0;

	res->bus.offset = npu->ddr_phys + qnpu_card_extent(res, 0)->addr;
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

/**
 * qnpu_mem_unmap_cpu - take all CPU mappings of buffers away; the next access is a fault
 * @npu: device, its reset_lock held for writing
 */
void qnpu_mem_unmap_cpu(struct qnpu_device *npu)
{
	/* What is in system memory does not care what becomes of the card. */
	if (!qnpu_mem_card_bytes(npu))
		return;
	unmap_mapping_range(npu->drm.anon_inode->i_mapping,
			    (loff_t)DRM_FILE_PAGE_OFFSET_START << PAGE_SHIFT, 0, 1);
}

/**
 * qnpu_mem_card_run - where bytes of card memory are
 * @res: the memory
 * @offset: first byte, inside of it
 * @run: DDR offset of that byte and how far addresses go on without a jump
 */
void qnpu_mem_card_run(struct ttm_resource *res, u64 offset, struct qnpu_mem_run *run)
{
	const struct qnpu_card_extent *extent = qnpu_card_extent(res, offset);

	offset -= extent->offset;
	run->addr = extent->addr + offset;
	run->bytes = extent->bytes - offset;
}

/**
 * qnpu_mem_run - where a buffer's bytes are for the card
 * @bo: buffer, its reservation lock held
 * @system: ask for its pages of system memory, else for its card memory
 * @offset: first byte, page aligned, inside the buffer
 * @run: address of that byte and how far addresses go on without a jump
 */
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

static bool qnpu_mem_has_card(const struct qnpu_mem *mem)
{
	return mem->card.buddy.size;
}

static int qnpu_mem_init_buddy(struct qnpu_device *npu)
{
	u64 bytes = round_down(npu->info.ddr_bytes, PAGE_SIZE);

	return bytes ? gpu_buddy_init(&npu->mem.card.buddy, bytes, PAGE_SIZE) : 0;
}

static void qnpu_mem_fini_buddy(struct qnpu_mem *mem)
{
	if (qnpu_mem_has_card(mem))
		gpu_buddy_fini(&mem->card.buddy);
}

static void qnpu_mem_fini(struct drm_device *drm, void *arg)
{
	struct qnpu_mem *mem = arg;

	/* Buffers with memory of others are freed by TTM's work, which needs the managers. */
	flush_workqueue(mem->ttm.wq);

	qnpu_manager_remove(mem, &mem->system.base, TTM_PL_TT);
	if (qnpu_mem_has_card(mem))
		qnpu_manager_remove(mem, &mem->card.base, TTM_PL_VRAM);
	ttm_device_fini(&mem->ttm);
	qnpu_mem_fini_buddy(mem);
	mutex_destroy(&mem->pinned_lock);
	mutex_destroy(&mem->imports_lock);
	mutex_destroy(&mem->mapped_lock);
	mutex_destroy(&mem->card.lock);
	mutex_destroy(&mem->claim_lock);
}

/**
 * qnpu_mem_init - set memory management up
 * @npu: device, identified
 */
int qnpu_mem_init(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;
	int ret;

	INIT_LIST_HEAD(&mem->mapped);
	mutex_init(&mem->mapped_lock);
	INIT_LIST_HEAD(&mem->imports);
	mutex_init(&mem->imports_lock);
	INIT_LIST_HEAD(&mem->pinned);
	mutex_init(&mem->pinned_lock);
	mutex_init(&mem->claim_lock);
	INIT_LIST_HEAD(&mem->waiters);
	INIT_LIST_HEAD(&mem->resident);
	init_waitqueue_head(&mem->freed_wait);
	mutex_init(&mem->card.lock);
	ret = qnpu_mem_init_buddy(npu);
	if (ret)
		return ret;

	ret = ttm_device_init(&mem->ttm, &qnpu_ttm_funcs, npu->drm.dev,
			      npu->drm.anon_inode->i_mapping, npu->drm.vma_offset_manager, 0);
	if (ret) {
		qnpu_mem_fini_buddy(mem);
		return ret;
	}

	mem->card.base.func = &qnpu_card_funcs;
	if (qnpu_mem_has_card(mem))
		qnpu_manager_add(mem, &mem->card.base, TTM_PL_VRAM, qnpu_mem_card_bytes(npu));
	mem->system.base.func = &qnpu_system_funcs;
	mem->system.base.use_tt = true;
	qnpu_manager_add(mem, &mem->system.base, TTM_PL_TT, qnpu_mem_system_bytes());

	return drmm_add_action_or_reset(&npu->drm, qnpu_mem_fini, mem);
}
