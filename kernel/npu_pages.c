// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of buffers in system memory: TTM's callbacks for them.
 *
 * They are charged to the memory cgroup of the process that made the buffer, also those of a card
 * buffer that has to make room for others.
 *
 * Pages are not taken from TTM's pool, which charges nobody, and keeps to itself how large the
 * pieces are that it has found and mapped: the device can go before the pages, and then only their
 * mappings must go with it.
 */
#include <linux/dma-mapping.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <drm/drm_prime.h>
#include <drm/ttm/ttm_tt.h>

#include "npu_device.h"
#include "npu_gem.h"
#include "npu_pages.h"

/* The largest piece: a block that one entry of a page table maps. */
#define NPU_MAX_ORDER	(21 - PAGE_SHIFT)

/** struct npu_tt - pages of a buffer */
struct npu_tt {
	/** @base: TTM's part */
	struct ttm_tt base;

	/** @bo: whose */
	struct npu_bo *bo;

	/** @pieces: pieces of each order; the larger ones come first in the buffer */
	u32 pieces[NPU_MAX_ORDER + 1];

	/** @mapped: pages that are mapped for DMA, in whole pieces; under npu_mem.mapped_lock */
	u32 mapped;

	/** @link: in npu_mem.mapped while its pages are mapped for DMA, under mapped_lock */
	struct list_head link;
};

static struct npu_tt *to_npu_tt(struct ttm_tt *tt)
{
	return container_of(tt, struct npu_tt, base);
}

/* Call @function for each piece from the first one on, as far as @pages go. */
static void npu_pages_for_each(struct npu_device *npu, struct npu_tt *tt, u32 pages,
			       void (*function)(struct npu_device *npu, struct npu_tt *tt, u32 at,
						u32 order))
{
	u32 at = 0, n;
	int order;

	for (order = NPU_MAX_ORDER; order >= 0; order--) {
		for (n = 0; n < tt->pieces[order] && at < pages; n++) {
			function(npu, tt, at, order);
			at += 1u << order;
		}
	}
}

/* DMA */

static void npu_piece_unmap(struct npu_device *npu, struct npu_tt *tt, u32 at, u32 order)
{
	struct device *dev = npu->drm.dev;
	dma_addr_t dma = tt->base.dma_address[at];

	/* No program has the pages mapped any more. Dirty lines are written back, not discarded. */
	if (!npu->coherent)
		dma_sync_single_for_device(dev, dma, PAGE_SIZE << order, DMA_BIDIRECTIONAL);
	dma_unmap_page(dev, dma, PAGE_SIZE << order, DMA_BIDIRECTIONAL);
}

/* The pages stay in use: caches may hold stores of programs that have them mapped. */
static void npu_piece_unmap_used(struct npu_device *npu, struct npu_tt *tt, u32 at, u32 order)
{
	dma_unmap_page_attrs(npu->drm.dev, tt->base.dma_address[at], PAGE_SIZE << order,
			     DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
}

static void npu_pages_unmap(struct npu_device *npu, struct npu_tt *tt, bool used)
{
	npu_pages_for_each(npu, tt, tt->mapped, used ? npu_piece_unmap_used : npu_piece_unmap);
	tt->mapped = 0;
	list_del_init(&tt->link);
}

static int npu_piece_map(struct npu_device *npu, struct npu_tt *tt, u32 at, u32 order)
{
	dma_addr_t dma = dma_map_page(npu->drm.dev, tt->base.pages[at], 0, PAGE_SIZE << order,
				      DMA_BIDIRECTIONAL);
	u32 i;

	if (dma_mapping_error(npu->drm.dev, dma))
		return -ENOMEM;
	for (i = 0; i < 1u << order; i++)
		tt->base.dma_address[at + i] = dma + (u64)i * PAGE_SIZE;
	tt->mapped = at + (1u << order);

	return 0;
}

/* From here on its DMA mappings go with the device, if that comes first. */
static int npu_pages_mapped(struct npu_mem *mem, struct npu_tt *tt)
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

/**
 * npu_pages_release_dma - undo all DMA mappings of pages, because the device goes away
 * @npu: device, unplugged, its card stopped
 *
 * The pages stay until their buffers go: others may have imported them. TTM's function for this
 * would free them, and does not end while another thread frees a buffer
 * (upstream/drm-ttm, patch 1).
 */
void npu_pages_release_dma(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;
	struct npu_tt *tt, *next;

	mutex_lock(&mem->mapped_lock);
	mem->gone = true;
	list_for_each_entry_safe(tt, next, &mem->mapped, link)
		npu_pages_unmap(npu, tt, true);
	mutex_unlock(&mem->mapped_lock);
}

static void npu_piece_sync(struct device *dev, dma_addr_t dma, size_t bytes, u32 direction)
{
	if (!dma_need_sync(dev, dma))
		return;
	if (direction & DRM_NPU_SYNC_TO_DEVICE)
		dma_sync_single_for_device(dev, dma, bytes, DMA_BIDIRECTIONAL);
	if (direction & DRM_NPU_SYNC_FROM_DEVICE)
		dma_sync_single_for_cpu(dev, dma, bytes, DMA_BIDIRECTIONAL);
}

/* Each call stays within what was mapped at once, and within what is asked for. */
static void npu_pages_sync_range(struct device *dev, struct npu_tt *tt, u64 first, u64 end,
				 u32 direction)
{
	u64 start = 0, piece, stop, at, to;
	int order;

	for (order = NPU_MAX_ORDER; order >= 0 && start < end; order--) {
		piece = PAGE_SIZE << order;
		stop = start + tt->pieces[order] * piece;
		for (at = max(first, start); at < min(end, stop); at = to) {
			to = min(end, start + round_down(at - start, piece) + piece);
			npu_piece_sync(dev,
				       tt->base.dma_address[at >> PAGE_SHIFT] + offset_in_page(at),
				       to - at, direction);
			cond_resched();
		}
		start = stop;
	}
}

/**
 * npu_pages_sync - caches, and bounce buffers of the DMA mapping
 * @npu: device
 * @base: pages of a buffer's own, mapped for DMA
 * @offset: first byte
 * @bytes: how many
 * @direction: DRM_NPU_SYNC_ flags; with both the CPU's writes come first
 *
 * Not a byte more than is asked for: others may be at work on its neighbours. Nothing is done once
 * the device is gone, and the DMA mappings with it: -ENODEV.
 */
int npu_pages_sync(struct npu_device *npu, struct ttm_tt *base, u64 offset, u64 bytes,
		   u32 direction)
{
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	if (dma_dev_need_sync(npu->drm.dev))
		npu_pages_sync_range(npu->drm.dev, to_npu_tt(base), offset, offset + bytes,
				     direction);
	drm_dev_exit(idx);

	return 0;
}

/* Pages */

static void npu_piece_free(struct npu_device *npu, struct npu_tt *tt, u32 at, u32 order)
{
	__free_pages(tt->base.pages[at], order);
}

static void npu_pages_free(struct npu_device *npu, struct npu_tt *tt)
{
	npu_pages_for_each(npu, tt, tt->base.num_pages, npu_piece_free);
	memset(tt->pieces, 0, sizeof(tt->pieces));
}

/*
 * A piece of memory, charged to whoever is the active cgroup. A move must not fail for a limit of
 * the owner's: it goes beyond the limit, and whatever they ask for next finds that.
 */
static struct page *npu_piece_alloc(struct npu_tt *tt, u32 order)
{
	gfp_t gfp = GFP_HIGHUSER | __GFP_NOWARN | __GFP_ACCOUNT;
	struct page *page;

	if (tt->base.page_flags & TTM_TT_FLAG_ZERO_ALLOC)
		gfp |= __GFP_ZERO;
	if (order)
		return alloc_pages(gfp | __GFP_NORETRY | __GFP_NOMEMALLOC, order);

	gfp |= __GFP_RETRY_MAYFAIL;
	page = alloc_page(gfp);
	if (!page && tt->bo->tbo.resource)
		page = alloc_page(gfp | __GFP_HIGH);

	return page;
}

static u32 npu_pages_max_order(struct npu_device *npu)
{
	size_t bytes = min_t(size_t, dma_max_mapping_size(npu->drm.dev),
			     PAGE_SIZE << NPU_MAX_ORDER);

	return bytes > PAGE_SIZE ? ilog2(bytes >> PAGE_SHIFT) : 0;
}

/* Pieces from large to small: what was too large once is not asked for again. */
static int npu_pages_alloc(struct npu_device *npu, struct npu_tt *tt)
{
	u32 order = npu_pages_max_order(npu), at = 0, i;
	int ret = -ENOMEM;
	struct page *page;

	while (at < tt->base.num_pages) {
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			goto err;
		}
		order = min_t(u32, order, ilog2(tt->base.num_pages - at));
		page = npu_piece_alloc(tt, order);
		if (!page && !order)
			goto err;
		if (!page) {
			order--;
			continue;
		}
		for (i = 0; i < 1u << order; i++)
			tt->base.pages[at + i] = page + i;
		tt->pieces[order]++;
		if (npu_piece_map(npu, tt, at, order)) {
			at += 1u << order;
			goto err;
		}
		at += 1u << order;
		cond_resched();
	}

	return 0;

err:
	npu_pages_for_each(npu, tt, tt->mapped, npu_piece_unmap);
	tt->mapped = 0;
	npu_pages_for_each(npu, tt, at, npu_piece_free);
	memset(tt->pieces, 0, sizeof(tt->pieces));
	return ret;
}

/* TTM's callbacks */

/**
 * npu_pages_create - ttm_device_funcs.ttm_tt_create
 * @tbo: buffer
 * @page_flags: TTM_TT_FLAG_
 */
struct ttm_tt *npu_pages_create(struct ttm_buffer_object *tbo, u32 page_flags)
{
	struct npu_tt *tt = kzalloc_obj(*tt, NPU_GFP_USER);

	if (!tt)
		return NULL;

	/* With an array of bus addresses. */
	if (ttm_sg_tt_init(&tt->base, tbo, page_flags, ttm_cached)) {
		kfree(tt);
		return NULL;
	}
	tt->bo = to_npu_bo(tbo);
	INIT_LIST_HEAD(&tt->link);

	return &tt->base;
}

/**
 * npu_pages_populate - ttm_device_funcs.ttm_tt_populate
 * @ttm: TTM's part of the device
 * @base: pages to be found
 * @ctx: TTM's
 */
int npu_pages_populate(struct ttm_device *ttm, struct ttm_tt *base, struct ttm_operation_ctx *ctx)
{
	struct npu_device *npu = container_of(ttm, struct npu_device, mem.ttm);
	struct npu_tt *tt = to_npu_tt(base);
	struct mem_cgroup *old;
	int idx, ret;

	if (base->page_flags & TTM_TT_FLAG_EXTERNAL)
		return drm_prime_sg_to_dma_addr_array(base->sg, base->dma_address, base->num_pages);

	/* The device does not go while pages are mapped that are in no list yet. */
	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	old = set_active_memcg(tt->bo->memcg);
	ret = npu_pages_alloc(npu, tt);
	set_active_memcg(old);
	if (!ret) {
		ret = npu_pages_mapped(&npu->mem, tt);
		if (ret) {
			npu_pages_for_each(npu, tt, tt->mapped, npu_piece_unmap);
			tt->mapped = 0;
			npu_pages_free(npu, tt);
		}
	}
	drm_dev_exit(idx);

	return ret;
}

/**
 * npu_pages_unpopulate - ttm_device_funcs.ttm_tt_unpopulate
 * @ttm: TTM's part of the device
 * @base: pages to be given back
 */
void npu_pages_unpopulate(struct ttm_device *ttm, struct ttm_tt *base)
{
	struct npu_device *npu = container_of(ttm, struct npu_device, mem.ttm);
	struct npu_tt *tt = to_npu_tt(base);

	if (base->page_flags & TTM_TT_FLAG_EXTERNAL)
		return;

	/* The device does not go while pages are still mapped that are in no list any more. */
	mutex_lock(&npu->mem.mapped_lock);
	if (!list_empty(&tt->link))
		npu_pages_unmap(npu, tt, false);
	mutex_unlock(&npu->mem.mapped_lock);
	npu_pages_free(npu, tt);
}

/**
 * npu_pages_destroy - ttm_device_funcs.ttm_tt_destroy
 * @ttm: TTM's part of the device
 * @base: without pages
 */
void npu_pages_destroy(struct ttm_device *ttm, struct ttm_tt *base)
{
	ttm_tt_fini(base);
	kfree(to_npu_tt(base));
}

/* Set-up */

/**
 * npu_pages_init - set up what belongs to pages
 * @mem: memory of a card
 */
void npu_pages_init(struct npu_mem *mem)
{
	INIT_LIST_HEAD(&mem->mapped);
	mutex_init(&mem->mapped_lock);
}

/**
 * npu_pages_fini - undo npu_pages_init()
 * @mem: memory of a card
 */
void npu_pages_fini(struct npu_mem *mem)
{
	mutex_destroy(&mem->mapped_lock);
}
