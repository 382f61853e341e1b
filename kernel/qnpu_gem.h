/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_GEM_H
#define QNPU_GEM_H

#include <linux/list.h>
#include <linux/mutex.h>

#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/npu_accel.h>
#include <drm/ttm/ttm_bo.h>
#include <drm/ttm/ttm_placement.h>
#include <drm/ttm/ttm_resource.h>

/* Larger requests are nonsense, and could overflow sums of sizes. */
#define QNPU_BO_MAX_SIZE	BIT_ULL(40)

struct dma_buf;
struct mem_cgroup;
struct page;
struct qnpu_device;
struct qnpu_userptr;
struct qnpu_vm;
struct sg_table;

/* What a submission that waits for card memory wants of a buffer. */
enum qnpu_claim {
	QNPU_CLAIM_NONE,		/* nothing */
	QNPU_CLAIM_USE,			/* it names the buffer: nobody moves it out meanwhile */
	QNPU_CLAIM_ROOM,		/* the room of the buffer, once its jobs are finished */
};

/* A buffer. */
struct qnpu_bo {
	struct ttm_buffer_object tbo;	/* base class; TTM's object, and in it the GEM object */
	u32 flags;			/* DRM_NPU_BO_CARD, _SYSTEM, _PINNED, _READONLY; constant */
	struct dma_buf *dma_buf;	/* imported dma-buf, with a reference; NULL: none */
	u64 maker;			/* drm_file.client_id of its first file; 0 for imports */
	u32 handle;			/* handle in that file */
	struct list_head external_link;	/* in qnpu_mem.external while mapped; external_lock */
	struct qnpu_vm *owner;		/* address space of its maker, with a reference, or NULL */
	struct mem_cgroup *memcg;	/* cgroup that pays for it, with a reference, or NULL */
	struct qnpu_userptr *userptr;	/* pinned memory of a process, owned; NULL: none */
	struct page *dummy;		/* what is mapped of a lost device; reservation lock */
	bool sealed;			/* no CPU access, no writing job; reservation lock */
	bool uncached;			/* it has been mapped past the caches; set once */
	bool lost;			/* contents lost before it moved; reservation lock */
	bool refused;			/* the card had no room for it; reservation lock */
	u32 losses;			/* qnpu_device.losses at valid contents; reservation lock */
	atomic_t leaving;		/* it takes no new jobs, since it is to move */
	struct list_head resident_link;	/* in qnpu_vm.residents while on the card; claim_lock */
	struct list_head claim_link;	/* in qnpu_residency.claims of the claimant; claim_lock */
	enum qnpu_claim claim;		/* what the claimant wants; claim_lock */
	u32 mem_type;			/* TTM_PL_ or QNPU_BO_NOWHERE; reservation lock */
	struct mutex vma_lock;		/* protects vmas; outside of qnpu_vm.lock */
	struct list_head vmas;		/* address spaces that the buffer has an address in */
};

/* A buffer that has not got memory yet, or any more. */
#define QNPU_BO_NOWHERE	U32_MAX

/* Memory that a file has handles of, bytes. */
struct qnpu_gem_usage {
	struct drm_memory_stats card;	/* buffers for the card; resident is without evicted ones */
	struct drm_memory_stats system;	/* system buffers; resident is with evicted ones */
	u64 evicted;			/* card buffers that are in system memory at present */
	u64 largest;			/* size of the largest buffer */
};

static inline struct qnpu_bo *to_qnpu_bo(struct ttm_buffer_object *tbo)
{
	return container_of(tbo, struct qnpu_bo, tbo);
}

static inline struct qnpu_bo *gem_to_qnpu_bo(struct drm_gem_object *obj)
{
	return container_of(obj, struct qnpu_bo, tbo.base);
}

/* Bytes that a buffer has, or wants, of the card. */
static inline u64 qnpu_bo_card_bytes(const struct qnpu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_CARD ? bo->tbo.base.size : 0;
}

/* Is a card buffer in system memory? Without the reservation lock the answer is soon old. */
static inline bool qnpu_bo_is_evicted(const struct qnpu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_CARD && READ_ONCE(bo->mem_type) == TTM_PL_TT;
}

/* Is a buffer in system memory? With the reservation lock held. */
static inline bool qnpu_bo_is_in_system(const struct qnpu_bo *bo)
{
	return bo->tbo.resource->mem_type != TTM_PL_VRAM;
}

/*
 * Is a buffer where jobs use it? With the reservation lock held. A card buffer that another device
 * uses, too, is where that one can reach it.
 */
static inline bool qnpu_bo_is_home(const struct qnpu_bo *bo)
{
	if (!bo->tbo.resource)
		return false;
	if (bo->flags & DRM_NPU_BO_CARD && !bo->tbo.pin_count)
		return bo->tbo.resource->mem_type == TTM_PL_VRAM;

	return bo->flags & DRM_NPU_BO_CARD || bo->tbo.resource->mem_type == TTM_PL_TT;
}

bool qnpu_bo_is_lost(const struct qnpu_bo *bo);
void qnpu_bo_restored(struct qnpu_bo *bo, bool lost, u32 losses);
int qnpu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_seal(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file);

struct qnpu_bo *qnpu_bo_create_sg(struct qnpu_device *npu, u64 size, u32 flags,
				  struct sg_table *sg, struct dma_buf *dma_buf);
void qnpu_bo_attached(struct qnpu_bo *bo);
int qnpu_bo_sync(struct qnpu_bo *bo, const struct drm_npu_bo_sync *args);
void qnpu_gem_release_dma(struct qnpu_device *npu);
void qnpu_gem_usage(struct drm_file *file, struct qnpu_gem_usage *usage);

#endif
