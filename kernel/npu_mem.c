// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: TTM with two places, the card's DDR (TTM_PL_VRAM, a buddy allocator) and system memory
 * that the card may see (TTM_PL_TT).
 *
 * Buffers for the card begin there if there is room, else in system memory. They come to the card
 * when a submission needs them, and go when they are idle and others need the room: npu_residency.c
 * asks for the moves, the move callback here makes them. A move takes the buffer out of all address
 * spaces first. Buffers for system memory never move.
 */
#include <linux/dma-mapping.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <drm/drm_managed.h>
#include <drm/drm_prime.h>
#include <drm/drm_print.h>
#include <drm/ttm/ttm_tt.h>

#include "npu_copy.h"
#include "npu_device.h"
#include "npu_gem.h"
#include "npu_mem.h"
#include "npu_prime.h"
#include "npu_trace.h"
#include "npu_userptr.h"
#include "npu_vm.h"

/* Bytes cleared or copied between two chances for others to run. */
#define NPU_CPU_STEP	SZ_2M

/* From this size on the card zeroes new memory: before, the CPU is done before the card begins. */
#define NPU_CLEAR_BY_CARD	SZ_256K

/** struct npu_card_resource - a piece of DDR */
struct npu_card_resource {
	/** @base: TTM's part */
	struct ttm_resource base;

	/** @blocks: buddy blocks, in the order of the buffer's pages */
	struct list_head blocks;
};

static struct npu_device *ttm_to_npu(struct ttm_device *ttm)
{
	return container_of(ttm, struct npu_device, mem.ttm);
}

static struct npu_card_resource *to_card_resource(struct ttm_resource *res)
{
	return container_of(res, struct npu_card_resource, base);
}

static struct npu_card_manager *to_card_manager(struct ttm_resource_manager *man)
{
	return container_of(man, struct npu_card_manager, base);
}

static struct npu_system_manager *to_system_manager(struct ttm_resource_manager *man)
{
	return container_of(man, struct npu_system_manager, base);
}

/* Card DDR */

static int npu_card_alloc(struct ttm_resource_manager *man, struct ttm_buffer_object *tbo,
			  const struct ttm_place *place, struct ttm_resource **out)
{
	struct npu_card_manager *card = to_card_manager(man);
	struct npu_card_resource *res;
	int ret;

	res = kzalloc(sizeof(*res), GFP_KERNEL);
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
	if (tbo->base.size <= card->buddy.size)
		ret = npu_buddy_alloc_blocks(&card->buddy, 0, card->buddy.size, tbo->base.size,
					     PAGE_SIZE, &res->blocks, 0);
	mutex_unlock(&card->lock);
	if (ret) {
		to_npu_bo(tbo)->refused = ret == -ENOSPC;
		ttm_resource_fini(man, &res->base);
		kfree(res);
		return ret;
	}

	res->base.bus.caching = ttm_write_combined;
	*out = &res->base;

	return 0;
}

static void npu_card_free(struct ttm_resource_manager *man, struct ttm_resource *base)
{
	struct npu_card_manager *card = to_card_manager(man);
	struct npu_card_resource *res = to_card_resource(base);

	mutex_lock(&card->lock);
	npu_buddy_free_list(&card->buddy, &res->blocks);
	mutex_unlock(&card->lock);

	ttm_resource_fini(man, &res->base);
	kfree(res);
}

static const struct ttm_resource_manager_func npu_card_funcs = {
	.alloc = npu_card_alloc,
	.free = npu_card_free,
};

/* The block that holds a byte of a resource, and where in it. */
static struct npu_buddy_block *npu_card_block(struct npu_device *npu, struct ttm_resource *base,
					      u64 *offset)
{
	struct npu_card_resource *res = to_card_resource(base);
	struct npu_buddy_block *block;
	u64 bytes;

	list_for_each_entry(block, &res->blocks, link) {
		bytes = npu_buddy_block_size(&npu->mem.card.buddy, block);
		if (*offset < bytes)
			return block;
		*offset -= bytes;
	}

	return NULL;
}

/**
 * npu_mem_card_bytes - DDR that buffers can have
 * @npu: device
 */
u64 npu_mem_card_bytes(struct npu_device *npu)
{
	return npu->mem.card.buddy.size;
}

/**
 * npu_mem_card_space - how full the card is
 * @npu: device
 * @space: answer
 *
 * The allocator does not tell its largest free block, so a block of each size is asked for, from
 * large to small. A refusal costs a look at a few list heads.
 */
void npu_mem_card_space(struct npu_device *npu, struct npu_card_space *space)
{
	struct npu_card_manager *card = &npu->mem.card;
	u64 size;

	mutex_lock(&card->lock);
	space->total = card->buddy.size;
	space->free = card->buddy.avail;
	space->largest = 0;

	for (size = rounddown_pow_of_two(card->buddy.size);
	     size >= PAGE_SIZE && !space->largest; size >>= 1) {
		LIST_HEAD(blocks);

		if (size > space->free ||
		    npu_buddy_alloc_blocks(&card->buddy, 0, card->buddy.size, size, size, &blocks,
					   0))
			continue;
		space->largest = size;
		npu_buddy_free_list(&card->buddy, &blocks);
	}
	mutex_unlock(&card->lock);
}

/* System memory */

/**
 * npu_mem_system_bytes - system memory that buffers can have
 *
 * The rest of the system has to live, too.
 */
u64 npu_mem_system_bytes(void)
{
	return ((u64)totalram_pages() << PAGE_SHIFT) / 4 * 3;
}

static int npu_system_alloc(struct ttm_resource_manager *man, struct ttm_buffer_object *tbo,
			    const struct ttm_place *place, struct ttm_resource **out)
{
	struct npu_system_manager *system = to_system_manager(man);
	struct ttm_resource *res;
	u64 used = atomic64_add_return(tbo->base.size, &system->used);

	/*
	 * The limit is for what is new. Eviction must not fail, and only swaps places; what is
	 * imported is counted by those who made it, and here to be seen.
	 */
	if (!tbo->resource && !to_npu_bo(tbo)->dma_buf && used > npu_mem_system_bytes()) {
		atomic64_sub(tbo->base.size, &system->used);
		return -ENOSPC;
	}

	res = kzalloc(sizeof(*res), GFP_KERNEL);
	if (!res) {
		atomic64_sub(tbo->base.size, &system->used);
		return -ENOMEM;
	}

	ttm_resource_init(tbo, place, res);
	*out = res;

	return 0;
}

static void npu_system_free(struct ttm_resource_manager *man, struct ttm_resource *res)
{
	atomic64_sub(res->size, &to_system_manager(man)->used);
	ttm_resource_fini(man, res);
	kfree(res);
}

static const struct ttm_resource_manager_func npu_system_funcs = {
	.alloc = npu_system_alloc,
	.free = npu_system_free,
};

/* TTM's callbacks */

/** struct npu_tt - pages of a buffer */
struct npu_tt {
	/** @base: TTM's part */
	struct ttm_tt base;

	/** @link: in npu_mem.mapped while its pages are mapped for DMA, under mapped_lock */
	struct list_head link;
};

static struct npu_tt *to_npu_tt(struct ttm_tt *tt)
{
	return container_of(tt, struct npu_tt, base);
}

static struct ttm_tt *npu_tt_create(struct ttm_buffer_object *tbo, u32 page_flags)
{
	struct npu_tt *tt = kzalloc(sizeof(*tt), GFP_KERNEL);

	if (!tt)
		return NULL;

	/* With an array of bus addresses, so that TTM maps for DMA what it allocates. */
	if (ttm_sg_tt_init(&tt->base, tbo, page_flags, ttm_cached)) {
		kfree(tt);
		return NULL;
	}
	INIT_LIST_HEAD(&tt->link);

	return &tt->base;
}

/* From here on its DMA mappings go with the device, if that comes first. */
static int npu_tt_mapped(struct npu_mem *mem, struct npu_tt *tt)
{
	int ret = 0;

	mutex_lock(&mem->mapped_lock);
	if (mem->gone)
		ret = -ENODEV;
	else
		list_add(&tt->link, &mem->mapped);
	mutex_unlock(&mem->mapped_lock);

	return ret;
}

/* TTM's pages come in powers of two, and are mapped as such. */
static void npu_tt_unmap(struct device *dev, struct npu_tt *tt)
{
	struct page **pages = tt->base.pages;
	u32 i, count;

	for (i = 0; i < tt->base.num_pages; i += count) {
		count = 1u << page_private(pages[i]);
		dma_unmap_page(dev, tt->base.dma_address[i], (size_t)count << PAGE_SHIFT,
			       DMA_BIDIRECTIONAL);
	}
	list_del_init(&tt->link);
}

static int npu_tt_populate(struct ttm_device *ttm, struct ttm_tt *tt,
			   struct ttm_operation_ctx *ctx)
{
	struct npu_device *npu = ttm_to_npu(ttm);
	int idx, ret;

	if (tt->page_flags & TTM_TT_FLAG_EXTERNAL)
		return drm_prime_sg_to_dma_addr_array(tt->sg, tt->dma_address, tt->num_pages);

	/* The device does not go while pages are mapped that are in no list yet. */
	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	ret = ttm_pool_alloc(&ttm->pool, tt, ctx);
	if (!ret) {
		ret = npu_tt_mapped(&npu->mem, to_npu_tt(tt));
		if (ret)
			ttm_pool_free(&ttm->pool, tt);
	}
	drm_dev_exit(idx);

	return ret;
}

static void npu_tt_unpopulate(struct ttm_device *ttm, struct ttm_tt *tt)
{
	struct npu_device *npu = ttm_to_npu(ttm);
	dma_addr_t *addresses = tt->dma_address;

	if (tt->page_flags & TTM_TT_FLAG_EXTERNAL)
		return;

	/* Nor while pages are still mapped that are in no list any more. */
	mutex_lock(&npu->mem.mapped_lock);
	if (!list_empty(&to_npu_tt(tt)->link))
		npu_tt_unmap(npu->drm.dev, to_npu_tt(tt));
	mutex_unlock(&npu->mem.mapped_lock);

	/* Without addresses TTM unmaps nothing. They are a part of the array of pages. */
	tt->dma_address = NULL;
	ttm_pool_free(&ttm->pool, tt);
	tt->dma_address = addresses;
}

static void npu_tt_destroy(struct ttm_device *ttm, struct ttm_tt *tt)
{
	ttm_tt_fini(tt);
	kfree(to_npu_tt(tt));
}

/**
 * npu_mem_cpu_clear - zero card memory without the card's help
 * @npu: device
 * @at: DDR offset
 * @bytes: size
 */
int npu_mem_cpu_clear(struct npu_device *npu, u64 at, u64 bytes)
{
	u64 end = at + bytes, stop;
	int idx;

	while (at < end) {
		stop = min(end, at + NPU_CPU_STEP);
		if (!npu_device_enter(npu, &idx))
			return -ENODEV;
		for (; at < stop; at += sizeof(u64))
			__raw_writeq(0, npu->ddr + at);
		npu_device_exit(idx);
		cond_resched();
	}
	wmb(); /* the zeros before anyone is told where they are */

	return 0;
}

/* Copy pages between a stretch of DDR and system memory. */
static void npu_card_copy_pages(struct npu_device *npu, u64 card, struct page **pages, u64 count,
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
static int npu_card_copy(struct npu_device *npu, struct ttm_resource *base, struct page **pages,
			 bool out)
{
	struct npu_card_resource *res = to_card_resource(base);
	struct npu_buddy_block *block;
	u64 at, end, step;
	int idx;

	list_for_each_entry(block, &res->blocks, link) {
		at = npu_buddy_block_offset(block);
		end = at + npu_buddy_block_size(&npu->mem.card.buddy, block);

		for (; at < end; at += step) {
			step = min(end - at, NPU_CPU_STEP);
			if (!npu_device_enter(npu, &idx))
				return -ENODEV;
			npu_card_copy_pages(npu, at, pages, step >> PAGE_SHIFT, out);
			npu_device_exit(idx);
			pages += step >> PAGE_SHIFT;
			cond_resched();
		}
	}
	wmb(); /* the copy before anyone is told where it is */

	return 0;
}

/* Where the CPU writes and the card reads through a bounce buffer, or the other way round. */
static void npu_tt_sync(struct npu_device *npu, struct ttm_tt *tt, bool for_device)
{
	struct device *dev = npu->drm.dev;
	u32 i;

	if (!dma_dev_need_sync(dev))
		return;

	for (i = 0; i < tt->num_pages; i++) {
		if (!dma_need_sync(dev, tt->dma_address[i]))
			continue;
		if (for_device)
			dma_sync_single_for_device(dev, tt->dma_address[i], PAGE_SIZE,
						   DMA_BIDIRECTIONAL);
		else
			dma_sync_single_for_cpu(dev, tt->dma_address[i], PAGE_SIZE,
						DMA_BIDIRECTIONAL);
	}
}

/*
 * Freshly allocated DDR holds what its last owner left. The card zeroes it while the caller goes
 * on; whoever wants to see it, CPU or job, waits for the fence.
 */
static int npu_move_clear(struct npu_device *npu, struct ttm_buffer_object *tbo,
			  struct ttm_resource *to)
{
	struct dma_fence *fence;
	struct npu_mem_run run;
	u64 offset;
	int ret;

	if (to->size >= NPU_CLEAR_BY_CARD) {
		fence = npu_copy_clear(npu, to);
		if (!IS_ERR(fence)) {
			dma_resv_add_fence(tbo->base.resv, fence, DMA_RESV_USAGE_KERNEL);
			dma_fence_put(fence);
			return 0;
		}
	}

	for (offset = 0; offset < to->size; offset += run.bytes) {
		npu_mem_card_run(npu, to, offset, &run);
		ret = npu_mem_cpu_clear(npu, run.addr, run.bytes);
		if (ret)
			return ret;
	}

	return 0;
}

/* A buffer's first place. TTM has zeroed pages of system memory. */
static int npu_move_first(struct npu_device *npu, struct ttm_buffer_object *tbo,
			  struct ttm_resource *to)
{
	int ret;

	if (to->mem_type == TTM_PL_VRAM) {
		ret = npu_move_clear(npu, tbo, to);
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
static int npu_move_contents(struct npu_device *npu, struct ttm_buffer_object *tbo,
			     struct ttm_resource *to)
{
	bool out = to->mem_type == TTM_PL_TT;
	struct ttm_resource *card = out ? tbo->resource : to;
	int ret;

	if (!out)
		npu_tt_sync(npu, tbo->ttm, true);
	ret = npu_copy_move(npu, to_npu_bo(tbo), card, out);
	if (out && !ret)
		npu_tt_sync(npu, tbo->ttm, false);
	if (ret)
		ret = npu_card_copy(npu, card, tbo->ttm->pages, out);
	if (ret)
		return ret;

	if (out)
		atomic64_inc(&npu->mem.evictions);
	ttm_bo_move_sync_cleanup(tbo, to);

	return 0;
}

/* Say where a buffer is now, for those who ask without its lock. */
static void npu_move_account(struct npu_device *npu, struct npu_bo *bo, u32 mem_type)
{
	bool was_out = npu_bo_is_evicted(bo), is_out;

	WRITE_ONCE(bo->mem_type, mem_type);
	is_out = npu_bo_is_evicted(bo);
	if (is_out && !was_out)
		atomic64_add(bo->tbo.base.size, &npu->mem.evicted);
	if (was_out && !is_out)
		atomic64_sub(bo->tbo.base.size, &npu->mem.evicted);
}

static int npu_ttm_move(struct ttm_buffer_object *tbo, bool evict, struct ttm_operation_ctx *ctx,
			struct ttm_resource *new_mem, struct ttm_place *hop)
{
	struct npu_device *npu = ttm_to_npu(tbo->bdev);
	struct npu_bo *bo = to_npu_bo(tbo);
	struct ttm_resource *old = tbo->resource;
	int from = old ? (int)old->mem_type : -1;
	bool card = new_mem->mem_type == TTM_PL_VRAM || (old && old->mem_type == TTM_PL_VRAM);
	int ret;

	if (!old) {
		ret = npu_move_first(npu, tbo, new_mem);
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
	npu_prime_moving(bo);
	npu_vm_unmap(bo);

	if (card)
		ret = npu_move_contents(npu, tbo, new_mem);
	else
		ttm_bo_move_null(tbo, new_mem);
out:
	if (!ret) {
		trace_npu_bo_move(bo, from, new_mem->mem_type);
		npu_move_account(npu, bo, new_mem->mem_type);
	}

	return ret;
}

static void npu_ttm_delete_mem_notify(struct ttm_buffer_object *tbo)
{
	npu_move_account(ttm_to_npu(tbo->bdev), to_npu_bo(tbo), NPU_BO_NOWHERE);
}

static void npu_ttm_evict_flags(struct ttm_buffer_object *tbo, struct ttm_placement *placement)
{
	static const struct ttm_place system = { .mem_type = TTM_PL_TT };

	placement->placement = &system;
	placement->num_placement = 1;
}

/* Only the card is made free, and only of what is idle: nobody waits for jobs with locks held. */
static bool npu_ttm_eviction_valuable(struct ttm_buffer_object *tbo, const struct ttm_place *place)
{
	return tbo->resource->mem_type == TTM_PL_VRAM &&
	       dma_resv_test_signaled(tbo->base.resv, DMA_RESV_USAGE_BOOKKEEP);
}

static int npu_ttm_io_mem_reserve(struct ttm_device *ttm, struct ttm_resource *res)
{
	struct npu_device *npu = ttm_to_npu(ttm);
	struct npu_buddy_block *block;
	u64 offset = 0;

	if (res->mem_type != TTM_PL_VRAM)
		return 0;

	block = npu_card_block(npu, res, &offset);
	res->bus.offset = npu->ddr_phys + npu_buddy_block_offset(block);
	res->bus.is_iomem = true;
	res->bus.caching = ttm_write_combined;

	return 0;
}

static unsigned long npu_ttm_io_mem_pfn(struct ttm_buffer_object *tbo, unsigned long page)
{
	struct npu_device *npu = ttm_to_npu(tbo->bdev);
	u64 offset = (u64)page << PAGE_SHIFT;
	struct npu_buddy_block *block;

	block = npu_card_block(npu, tbo->resource, &offset);

	return PHYS_PFN(npu->ddr_phys + npu_buddy_block_offset(block) + offset);
}

static const struct ttm_device_funcs npu_ttm_funcs = {
	.ttm_tt_create = npu_tt_create,
	.ttm_tt_populate = npu_tt_populate,
	.ttm_tt_unpopulate = npu_tt_unpopulate,
	.ttm_tt_destroy = npu_tt_destroy,
	.move = npu_ttm_move,
	.delete_mem_notify = npu_ttm_delete_mem_notify,
	.evict_flags = npu_ttm_evict_flags,
	.eviction_valuable = npu_ttm_eviction_valuable,
	.io_mem_reserve = npu_ttm_io_mem_reserve,
	.io_mem_pfn = npu_ttm_io_mem_pfn,
};

/**
 * npu_mem_card_run - where bytes of card memory are
 * @npu: device
 * @res: the memory
 * @offset: first byte, inside of it
 * @run: DDR offset of that byte and how far addresses go on without a jump
 */
void npu_mem_card_run(struct npu_device *npu, struct ttm_resource *res, u64 offset,
		      struct npu_mem_run *run)
{
	struct npu_buddy_block *block = npu_card_block(npu, res, &offset);

	run->addr = npu_buddy_block_offset(block) + offset;
	run->bytes = npu_buddy_block_size(&npu->mem.card.buddy, block) - offset;
}

/**
 * npu_mem_run - where a buffer's bytes are for the card
 * @bo: buffer, its reservation lock held
 * @system: ask for its pages of system memory, else for its card memory
 * @offset: first byte, page aligned, inside the buffer
 * @run: address of that byte and how far addresses go on without a jump
 */
void npu_mem_run(struct npu_bo *bo, bool system, u64 offset, struct npu_mem_run *run)
{
	struct ttm_buffer_object *tbo = &bo->tbo;
	u64 pages = (tbo->base.size - offset) >> PAGE_SHIFT, n = 1;
	const dma_addr_t *dma;

	if (!system) {
		npu_mem_card_run(ttm_to_npu(tbo->bdev), tbo->resource, offset, run);
		return;
	}

	dma = tbo->ttm->dma_address + (offset >> PAGE_SHIFT);
	while (n < pages && dma[n] == dma[n - 1] + PAGE_SIZE)
		n++;
	run->addr = dma[0];
	run->bytes = n << PAGE_SHIFT;
}

/* Set-up */

static void npu_mem_fini(struct drm_device *drm, void *arg)
{
	struct npu_mem *mem = arg;

	/* Buffers with memory of others are freed by TTM's work, which needs the managers. */
	flush_workqueue(mem->ttm.wq);

	ttm_resource_manager_set_used(&mem->system.base, false);
	ttm_resource_manager_evict_all(&mem->ttm, &mem->system.base);
	ttm_resource_manager_cleanup(&mem->system.base);
	ttm_set_driver_manager(&mem->ttm, TTM_PL_TT, NULL);

	ttm_resource_manager_set_used(&mem->card.base, false);
	ttm_resource_manager_evict_all(&mem->ttm, &mem->card.base);
	ttm_resource_manager_cleanup(&mem->card.base);
	ttm_set_driver_manager(&mem->ttm, TTM_PL_VRAM, NULL);

	ttm_device_fini(&mem->ttm);
	npu_buddy_fini(&mem->card.buddy);
	mutex_destroy(&mem->pinned_lock);
	mutex_destroy(&mem->imports_lock);
	mutex_destroy(&mem->mapped_lock);
	mutex_destroy(&mem->card.lock);
}

/**
 * npu_mem_init - set memory management up
 * @npu: device, its page tables already have their part of the DDR
 */
int npu_mem_init(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;
	struct ttm_resource_manager *man;
	int ret;

	INIT_LIST_HEAD(&mem->mapped);
	mutex_init(&mem->mapped_lock);
	INIT_LIST_HEAD(&mem->imports);
	mutex_init(&mem->imports_lock);
	INIT_LIST_HEAD(&mem->pinned);
	mutex_init(&mem->pinned_lock);
	init_rwsem(&mem->turns);
	init_waitqueue_head(&mem->freed_wait);
	mutex_init(&mem->card.lock);
	ret = npu_buddy_init(&mem->card.buddy, npu->mmu.reserved_start, PAGE_SIZE);
	if (ret)
		return ret;

	ret = npu_ttm_device_init(&mem->ttm, &npu_ttm_funcs, npu->drm.dev,
				  npu->drm.anon_inode->i_mapping, npu->drm.vma_offset_manager);
	if (ret) {
		npu_buddy_fini(&mem->card.buddy);
		return ret;
	}

	man = &mem->card.base;
	man->func = &npu_card_funcs;
	ttm_resource_manager_init(man, &mem->ttm, npu->mmu.reserved_start);
	ttm_set_driver_manager(&mem->ttm, TTM_PL_VRAM, man);
	ttm_resource_manager_set_used(man, true);

	man = &mem->system.base;
	man->func = &npu_system_funcs;
	man->use_tt = true;
	ttm_resource_manager_init(man, &mem->ttm, npu_mem_system_bytes());
	ttm_set_driver_manager(&mem->ttm, TTM_PL_TT, man);
	ttm_resource_manager_set_used(man, true);

	return drmm_add_action_or_reset(&npu->drm, npu_mem_fini, mem);
}

/**
 * npu_mem_release_dma - undo all DMA mappings of buffers, because the device goes away
 * @npu: device, unplugged, its card stopped
 *
 * The pages stay until their buffers go: others may have imported them. TTM's function for this
 * would free them, and does not end when a buffer is just being freed by somebody else.
 */
void npu_mem_release_dma(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;
	struct npu_tt *tt, *next;

	npu_userptr_release_dma(npu);
	npu_prime_release_dma(npu);

	mutex_lock(&mem->mapped_lock);
	mem->gone = true;
	list_for_each_entry_safe(tt, next, &mem->mapped, link)
		npu_tt_unmap(npu->drm.dev, tt);
	mutex_unlock(&mem->mapped_lock);
}
