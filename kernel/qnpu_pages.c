// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of buffers in system memory: the TTM callbacks for them.
 *
 * They are charged to the memory cgroup of the process that created the buffer, also the pages of
 * an evicted card buffer. TTM's pool charges no cgroup and cannot be interrupted.
 *
 * The pages come in contiguous pieces, each with one DMA mapping; the first page of a piece holds
 * its order as private data. Removal of the device only unmaps the pages.
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
#include "qnpu_residency.h"

/* The largest piece: a block that one page table entry maps. */
#define QNPU_MAX_ORDER	(21 - PAGE_SHIFT)

/* Pages of a buffer. */
struct qnpu_tt {
	struct ttm_tt base;		/* base class */
	struct qnpu_bo *bo;		/* the buffer */
	struct list_head link;		/* in qnpu_mem.mapped while they are mapped for DMA */
};

static struct qnpu_tt *to_qnpu_tt(struct ttm_tt *tt)
{
	return container_of(tt, struct qnpu_tt, base);
}

/* Returns the order of the piece at page @at. Larger pieces come first, so each is aligned. */
static u32 qnpu_piece_order(const struct ttm_tt *tt, u32 at)
{
	u32 order = QNPU_MAX_ORDER;

	while (page_private(tt->pages[round_down(at, 1u << order)]) != order)
		order--;

	return order;
}

/* DMA */

/* Unmap the first @pages. */
static void qnpu_pages_unmap(struct qnpu_device *npu, struct ttm_tt *tt, u32 pages, bool used)
{
	struct device *dev = npu->drm.dev;
	size_t bytes;
	u32 at;

	for (at = 0; at < pages; at += bytes >> PAGE_SHIFT) {
		bytes = PAGE_SIZE << page_private(tt->pages[at]);
		/* Caches may hold stores of programs, so write them back. */
		if (!used && !npu->coherent)
			dma_sync_single_for_device(dev, tt->dma_address[at], bytes,
						   DMA_BIDIRECTIONAL);
		dma_unmap_page_attrs(dev, tt->dma_address[at], bytes, DMA_BIDIRECTIONAL,
				     used ? DMA_ATTR_SKIP_CPU_SYNC : 0);
	}
}

/*
 * Undo all DMA mappings of an unplugged, stopped device. The pages stay until their buffers are
 * freed, since others may have imported them. TTM's function for this would free them, and hangs
 * while another thread frees a buffer (upstream/drm-ttm, patch 1).
 */
void qnpu_pages_release_dma(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;
	struct qnpu_tt *tt;

	mutex_lock(&mem->mapped_lock);
	while ((tt = list_first_entry_or_null(&mem->mapped, struct qnpu_tt, link))) {
		qnpu_pages_unmap(npu, &tt->base, tt->base.num_pages, true);
		list_del_init(&tt->link);
		/* Threads that free other buffers wait for one buffer at a time. */
		mutex_unlock(&mem->mapped_lock);
		cond_resched();
		mutex_lock(&mem->mapped_lock);
	}
	mutex_unlock(&mem->mapped_lock);
}

/*
 * Maintain caches and SWIOTLB bounce buffers of a buffer's own pages; for both directions writeback
 * comes first. Limited to the exact range: others may be using the bytes around it. -ENODEV: the
 * device and its DMA mappings are gone.
 */
int qnpu_pages_sync(struct qnpu_device *npu, struct ttm_tt *base, u64 offset, u64 bytes,
		    u32 direction)
{
	struct device *dev = npu->drm.dev;
	u64 at, to, end = offset + bytes;
	dma_addr_t dma;
	u32 page;
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	/* Each call must stay within one DMA mapping. */
	for (at = offset; at < end && dma_dev_need_sync(dev); at = to) {
		page = at >> PAGE_SHIFT;
		dma = base->dma_address[page] + offset_in_page(at);
		to = min(end, round_up(at + 1, PAGE_SIZE << qnpu_piece_order(base, page)));
		if (direction & DRM_NPU_SYNC_TO_DEVICE)
			dma_sync_single_for_device(dev, dma, to - at, DMA_BIDIRECTIONAL);
		if (direction & DRM_NPU_SYNC_FROM_DEVICE)
			dma_sync_single_for_cpu(dev, dma, to - at, DMA_BIDIRECTIONAL);
		cond_resched();
	}
	drm_dev_exit(idx);

	return 0;
}

/* Pages */

/* Free the first @pages. */
static void qnpu_pages_free(struct ttm_tt *tt, u32 pages)
{
	u32 at, order;

	for (at = 0; at < pages; at += 1u << order) {
		order = page_private(tt->pages[at]);
		set_page_private(tt->pages[at], 0);
		__free_pages(tt->pages[at], order);
	}
}

/*
 * Allocate a piece, charged to the active cgroup. An eviction must not fail at the limit of the
 * buffer's owner: it exceeds the limit, and the owner's next allocation must reclaim or fail.
 */
static struct page *qnpu_piece_alloc(struct qnpu_tt *tt, u32 order)
{
	gfp_t gfp = GFP_HIGHUSER | __GFP_NOWARN | __GFP_ACCOUNT;
	bool move = tt->bo->tbo.resource;
	struct page *page = NULL;

	if (tt->base.page_flags & TTM_TT_FLAG_ZERO_ALLOC)
		gfp |= __GFP_ZERO;
	/* With little reclaim, so that a cgroup at its limit does not delay the move. */
	if (move)
		gfp |= __GFP_HIGH;
	if (order || move)
		page = alloc_pages(gfp | __GFP_NORETRY | (order ? __GFP_NOMEMALLOC : 0), order);
	if (!page && !order)
		page = alloc_page(gfp | __GFP_RETRY_MAYFAIL);

	return page;
}

/* Allocate and map a piece of 2^@order pages, or a smaller one. */
static int qnpu_piece_make(struct qnpu_device *npu, struct qnpu_tt *tt, u32 at, u32 *order)
{
	struct page *page;
	dma_addr_t dma;
	u32 i;

	while (!(page = qnpu_piece_alloc(tt, *order))) {
		if (!*order)
			return -ENOMEM;
		--*order;
	}
	dma = dma_map_page(npu->drm.dev, page, 0, PAGE_SIZE << *order, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(npu->drm.dev, dma)) {
		__free_pages(page, *order);
		return -ENOMEM;
	}
	set_page_private(page, *order);
	for (i = 0; i < 1u << *order; i++) {
		tt->base.pages[at + i] = page + i;
		tt->base.dma_address[at + i] = dma + (u64)i * PAGE_SIZE;
	}

	return 0;
}

/* Allocate pieces of falling order: a failed order is not retried. */
static int qnpu_pages_alloc(struct qnpu_device *npu, struct qnpu_tt *tt)
{
	size_t largest = clamp_t(size_t, dma_max_mapping_size(npu->drm.dev), PAGE_SIZE,
				 PAGE_SIZE << QNPU_MAX_ORDER);
	u32 order = ilog2(largest >> PAGE_SHIFT), at;
	int ret;

	for (at = 0; at < tt->base.num_pages; at += 1u << order) {
		order = min_t(u32, order, ilog2(tt->base.num_pages - at));
		ret = fatal_signal_pending(current) ? -EINTR :
						      qnpu_piece_make(npu, tt, at, &order);
		if (ret) {
			qnpu_pages_unmap(npu, &tt->base, at, false);
			qnpu_pages_free(&tt->base, at);
			return ret;
		}
		cond_resched();
	}

	return 0;
}

/* TTM's callbacks */

struct ttm_tt *qnpu_pages_create(struct ttm_buffer_object *tbo, u32 page_flags)
{
	struct qnpu_tt *tt = kzalloc_obj(*tt, QNPU_GFP_USER);

	if (!tt)
		return NULL;

	/* with an array of DMA addresses */
	if (ttm_sg_tt_init(&tt->base, tbo, page_flags, ttm_cached)) {
		kfree(tt);
		return NULL;
	}
	tt->bo = to_qnpu_bo(tbo);
	INIT_LIST_HEAD(&tt->link);

	return &tt->base;
}

int qnpu_pages_populate(struct ttm_device *ttm, struct ttm_tt *base, struct ttm_operation_ctx *ctx)
{
	struct qnpu_device *npu = container_of(ttm, struct qnpu_device, mem.ttm);
	struct qnpu_tt *tt = to_qnpu_tt(base);
	struct mem_cgroup *old;
	int idx, ret;

	if (base->page_flags & TTM_TT_FLAG_EXTERNAL)
		return drm_prime_sg_to_dma_addr_array(base->sg, base->dma_address, base->num_pages);

	/* Keeps removal out while mapped pages are not yet on the list. */
	if (!drm_dev_enter(&npu->drm, &idx))
		return -ENODEV;
	old = set_active_memcg(tt->bo->memcg);
	ret = qnpu_pages_alloc(npu, tt);
	set_active_memcg(old);
	if (!ret) {
		mutex_lock(&npu->mem.mapped_lock);
		list_add(&tt->link, &npu->mem.mapped);
		mutex_unlock(&npu->mem.mapped_lock);
	} else if (tt->bo->tbo.resource) {
		qnpu_residency_move_failed(npu);
	}
	drm_dev_exit(idx);

	return ret;
}

void qnpu_pages_unpopulate(struct ttm_device *ttm, struct ttm_tt *base)
{
	struct qnpu_device *npu = container_of(ttm, struct qnpu_device, mem.ttm);
	struct qnpu_tt *tt = to_qnpu_tt(base);
	bool there;
	int idx;

	if (base->page_flags & TTM_TT_FLAG_EXTERNAL)
		return;

	/* Removal waits for this thread, or takes mapped_lock once the device is unplugged. */
	there = drm_dev_enter(&npu->drm, &idx);
	mutex_lock(&npu->mem.mapped_lock);
	if (!there && !list_empty(&tt->link))
		qnpu_pages_unmap(npu, base, base->num_pages, false);
	list_del_init(&tt->link);
	mutex_unlock(&npu->mem.mapped_lock);
	if (there) {
		qnpu_pages_unmap(npu, base, base->num_pages, false);
		drm_dev_exit(idx);
	}
	qnpu_pages_free(base, base->num_pages);
}

void qnpu_pages_destroy(struct ttm_device *ttm, struct ttm_tt *base)
{
	ttm_tt_fini(base);
	kfree(to_qnpu_tt(base));
}
