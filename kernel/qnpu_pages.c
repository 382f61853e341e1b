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

#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_pages.h"

/* The largest piece: a block that one entry of a page table maps. */
#define QNPU_MAX_ORDER	(21 - PAGE_SHIFT)

/** struct qnpu_tt - pages of a buffer */
struct qnpu_tt {
	/** @base: TTM's part */
	struct ttm_tt base;

	/** @bo: whose */
	struct qnpu_bo *bo;

	/** @pieces: pieces of each order; the larger ones come first in the buffer */
	u32 pieces[QNPU_MAX_ORDER + 1];

	/** @mapped: pages that are mapped for DMA, in whole pieces; under qnpu_mem.mapped_lock */
	u32 mapped;

	/** @link: in qnpu_mem.mapped while its pages are mapped for DMA, under mapped_lock */
	struct list_head link;
};

static struct qnpu_tt *to_qnpu_tt(struct ttm_tt *tt)
{
	return container_of(tt, struct qnpu_tt, base);
}

/* Call @function for each piece from the first one on, as far as @pages go. */
static void qnpu_pages_for_each(struct qnpu_device *npu, struct qnpu_tt *tt, u32 pages,
				void (*function)(struct qnpu_device *npu, struct qnpu_tt *tt,
						 u32 at, u32 order))
{
	u32 at = 0, n;
	int order;

	for (order = QNPU_MAX_ORDER; order >= 0; order--) {
		for (n = 0; n < tt->pieces[order] && at < pages; n++) {
			function(npu, tt, at, order);
			at += 1u << order;
		}
	}
}

/* DMA */

static void qnpu_piece_unmap(struct qnpu_device *npu, struct qnpu_tt *tt, u32 at, u32 order)
{
	struct device *dev = npu->drm.dev;
	dma_addr_t dma = tt->base.dma_address[at];

	/* No program has the pages mapped any more. Dirty lines are written back, not discarded. */
	if (!npu->coherent)
		dma_sync_single_for_device(dev, dma, PAGE_SIZE << order, DMA_BIDIRECTIONAL);
	dma_unmap_page(dev, dma, PAGE_SIZE << order, DMA_BIDIRECTIONAL);
}

/* The pages stay in use: caches may hold stores of programs that have them mapped. */
static void qnpu_piece_unmap_used(struct qnpu_device *npu, struct qnpu_tt *tt, u32 at, u32 order)
{
	dma_unmap_page_attrs(npu->drm.dev, tt->base.dma_address[at], PAGE_SIZE << order,
			     DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
}

static void qnpu_pages_unmap(struct qnpu_device *npu, struct qnpu_tt *tt, bool used)
{
	qnpu_pages_for_each(npu, tt, tt->mapped, used ? qnpu_piece_unmap_used : qnpu_piece_unmap);
	tt->mapped = 0;
	list_del_init(&tt->link);
}

static int qnpu_piece_map(struct qnpu_device *npu, struct qnpu_tt *tt, u32 at, u32 order)
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
static int qnpu_pages_mapped(struct qnpu_mem *mem, struct qnpu_tt *tt)
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
 * qnpu_pages_release_dma - undo all DMA mappings of pages, because the device goes away
 * @npu: device, unplugged, its card stopped
 *
 * The pages stay until their buffers go: others may have imported them. TTM's function for this
 * would free them, and does not end while another thread frees a buffer
 * (upstream/drm-ttm, patch 1).
 */
void qnpu_pages_release_dma(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;
	struct qnpu_tt *tt, *next;

	mutex_lock(&mem->mapped_lock);
	mem->gone = true;
	list_for_each_entry_safe(tt, next, &mem->mapped, link)
		qnpu_pages_unmap(npu, tt, true);
	mutex_unlock(&mem->mapped_lock);
}

static void qnpu_piece_sync(struct device *dev, dma_addr_t dma, size_t bytes, u32 direction)
{
	if (!dma_need_sync(dev, dma))
		return;
	if (direction & DRM_NPU_SYNC_TO_DEVICE)
		dma_sync_single_for_device(dev, dma, bytes, DMA_BIDIRECTIONAL);
	if (direction & DRM_NPU_SYNC_FROM_DEVICE)
		dma_sync_single_for_cpu(dev, dma, bytes, DMA_BIDIRECTIONAL);
}

/* Each call stays within what was mapped at once, and within what is asked for. */
static void qnpu_pages_sync_range(struct device *dev, struct qnpu_tt *tt, u64 first, u64 end,
				  u32 direction)
{
	u64 start = 0, piece, stop, at, to;
	int order;

	for (order = QNPU_MAX_ORDER; order >= 0 && start < end; order--) {
		piece = PAGE_SIZE << order;
		stop = start + tt->pieces[order] * piece;
		for (at = max(first, start); at < min(end, stop); at = to) {
			to = min(end, start + round_down(at - start, piece) + piece);
			qnpu_piece_sync(dev,
					tt->base.dma_address[at >> PAGE_SHIFT] + offset_in_page(at),
					to - at, direction);
			cond_resched();
		}
		start = stop;
	}
}

/**
 * qnpu_pages_sync - caches, and bounce buffers of the DMA mapping
 * @npu: device
 * @base: pages of a buffer's own, mapped for DMA
 * @offset: first byte
 * @bytes: how many
 * @direction: DRM_NPU_SYNC_ flags; with both the CPU's writes come first
 *
 * Not a byte more than is asked for: others may be at work on its neighbours. Nothing is done once
 * the device is gone, and the DMA mappings with it: -ENODEV.
 */
int qnpu_pages_sync(struct qnpu_device *npu, struct ttm_tt *base, u64 offset, u64 bytes,
		    u32 direction)
{
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	if (dma_dev_need_sync(npu->drm.dev))
		qnpu_pages_sync_range(npu->drm.dev, to_qnpu_tt(base), offset, offset + bytes,
				      direction);
	drm_dev_exit(idx);

	return 0;
}

/* Pages */

static void qnpu_piece_free(struct qnpu_device *npu, struct qnpu_tt *tt, u32 at, u32 order)
{
	__free_pages(tt->base.pages[at], order);
}

static void qnpu_pages_free(struct qnpu_device *npu, struct qnpu_tt *tt)
{
	qnpu_pages_for_each(npu, tt, tt->base.num_pages, qnpu_piece_free);
	memset(tt->pieces, 0, sizeof(tt->pieces));
}

/*
 * A piece of memory, charged to whoever is the active cgroup. A move must not fail for a limit of
 * the owner's: it goes beyond the limit, and whatever they ask for next finds that.
 */
static struct page *qnpu_piece_alloc(struct qnpu_tt *tt, u32 order)
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

static u32 qnpu_pages_max_order(struct qnpu_device *npu)
{
	size_t bytes = min_t(size_t, dma_max_mapping_size(npu->drm.dev),
			     PAGE_SIZE << QNPU_MAX_ORDER);

	return bytes > PAGE_SIZE ? ilog2(bytes >> PAGE_SHIFT) : 0;
}

/* Pieces from large to small: what was too large once is not asked for again. */
static int qnpu_pages_alloc(struct qnpu_device *npu, struct qnpu_tt *tt)
{
	u32 order = qnpu_pages_max_order(npu), at = 0, i;
	int ret = -ENOMEM;
	struct page *page;

	while (at < tt->base.num_pages) {
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			goto err;
		}
		order = min_t(u32, order, ilog2(tt->base.num_pages - at));
		page = qnpu_piece_alloc(tt, order);
		if (!page && !order)
			goto err;
		if (!page) {
			order--;
			continue;
		}
		for (i = 0; i < 1u << order; i++)
			tt->base.pages[at + i] = page + i;
		tt->pieces[order]++;
		if (qnpu_piece_map(npu, tt, at, order)) {
			at += 1u << order;
			goto err;
		}
		at += 1u << order;
		cond_resched();
	}

	return 0;

err:
	qnpu_pages_for_each(npu, tt, tt->mapped, qnpu_piece_unmap);
	tt->mapped = 0;
	qnpu_pages_for_each(npu, tt, at, qnpu_piece_free);
	memset(tt->pieces, 0, sizeof(tt->pieces));
	return ret;
}

/* TTM's callbacks */

/**
 * qnpu_pages_create - ttm_device_funcs.ttm_tt_create
 * @tbo: buffer
 * @page_flags: TTM_TT_FLAG_
 */
struct ttm_tt *qnpu_pages_create(struct ttm_buffer_object *tbo, u32 page_flags)
{
	struct qnpu_tt *tt = kzalloc_obj(*tt, QNPU_GFP_USER);

	if (!tt)
		return NULL;

	/* With an array of bus addresses. */
	if (ttm_sg_tt_init(&tt->base, tbo, page_flags, ttm_cached)) {
		kfree(tt);
		return NULL;
	}
	tt->bo = to_qnpu_bo(tbo);
	INIT_LIST_HEAD(&tt->link);

	return &tt->base;
}

/**
 * qnpu_pages_populate - ttm_device_funcs.ttm_tt_populate
 * @ttm: TTM's part of the device
 * @base: pages to be found
 * @ctx: TTM's
 */
int qnpu_pages_populate(struct ttm_device *ttm, struct ttm_tt *base, struct ttm_operation_ctx *ctx)
{
	struct qnpu_device *npu = container_of(ttm, struct qnpu_device, mem.ttm);
	struct qnpu_tt *tt = to_qnpu_tt(base);
	struct mem_cgroup *old;
	int idx, ret;

	if (base->page_flags & TTM_TT_FLAG_EXTERNAL)
		return drm_prime_sg_to_dma_addr_array(base->sg, base->dma_address, base->num_pages);

	/* The device does not go while pages are mapped that are in no list yet. */
	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	old = set_active_memcg(tt->bo->memcg);
	ret = qnpu_pages_alloc(npu, tt);
	set_active_memcg(old);
	if (!ret) {
		ret = qnpu_pages_mapped(&npu->mem, tt);
		if (ret) {
			qnpu_pages_for_each(npu, tt, tt->mapped, qnpu_piece_unmap);
			tt->mapped = 0;
			qnpu_pages_free(npu, tt);
		}
	}
	drm_dev_exit(idx);

	return ret;
}

/**
 * qnpu_pages_unpopulate - ttm_device_funcs.ttm_tt_unpopulate
 * @ttm: TTM's part of the device
 * @base: pages to be given back
 */
void qnpu_pages_unpopulate(struct ttm_device *ttm, struct ttm_tt *base)
{
	struct qnpu_device *npu = container_of(ttm, struct qnpu_device, mem.ttm);
	struct qnpu_tt *tt = to_qnpu_tt(base);

	if (base->page_flags & TTM_TT_FLAG_EXTERNAL)
		return;

	/* The device does not go while pages are still mapped that are in no list any more. */
	mutex_lock(&npu->mem.mapped_lock);
	if (!list_empty(&tt->link))
		qnpu_pages_unmap(npu, tt, false);
	mutex_unlock(&npu->mem.mapped_lock);
	qnpu_pages_free(npu, tt);
}

/**
 * qnpu_pages_destroy - ttm_device_funcs.ttm_tt_destroy
 * @ttm: TTM's part of the device
 * @base: without pages
 */
void qnpu_pages_destroy(struct ttm_device *ttm, struct ttm_tt *base)
{
	ttm_tt_fini(base);
	kfree(to_qnpu_tt(base));
}

/* Set-up */

/**
 * qnpu_pages_init - set up what belongs to pages
 * @mem: memory of a card
 */
void qnpu_pages_init(struct qnpu_mem *mem)
{
	INIT_LIST_HEAD(&mem->mapped);
	mutex_init(&mem->mapped_lock);
}

/**
 * qnpu_pages_fini - undo qnpu_pages_init()
 * @mem: memory of a card
 */
void qnpu_pages_fini(struct qnpu_mem *mem)
{
	mutex_destroy(&mem->mapped_lock);
}
