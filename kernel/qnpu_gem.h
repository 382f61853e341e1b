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

/** enum qnpu_claim - what a submission that waits for card memory wants of a buffer */
enum qnpu_claim {
	/* nothing */
	QNPU_CLAIM_NONE,
	/* it names the buffer: nobody moves it out again meanwhile */
	QNPU_CLAIM_USE,
	/* the room of the buffer, as soon as its jobs are finished */
	QNPU_CLAIM_ROOM,
};

/* A buffer. */
struct qnpu_bo {
	struct ttm_buffer_object tbo;	/* base class; TTM's object, and in it the GEM object */
	/**
	 * @flags: DRM_NPU_BO_CARD or DRM_NPU_BO_SYSTEM, with the latter also DRM_NPU_BO_PINNED and
	 * DRM_NPU_BO_READONLY; constant
	 */
	u32 flags;
	struct dma_buf *dma_buf;	/* imported dma-buf, with a reference; NULL: none */
	/* drm_file.client_id of its first file; constant, 0 for imports */
	u64 maker;
	u32 handle;			/* handle in that file */
	/* in qnpu_mem.external while memory of others is mapped; external_lock */
	struct list_head external_link;
	/* address space of its maker, with a reference; NULL: none */
	struct qnpu_vm *owner;
	/* cgroup that its pages are charged to, with a reference; NULL: none */
	struct mem_cgroup *memcg;
	struct qnpu_userptr *userptr;	/* pinned memory of a process, owned; NULL: none */
	/* page that is mapped once the device is lost; under the reservation lock */
	struct page *dummy;
	/* no CPU access, no writing job; set once, under the reservation lock */
	bool sealed;
	/* it has been mapped past the caches; set once, read without a lock */
	bool uncached;
	/* its contents were lost with the card before it moved; reservation lock */
	bool lost;
	/* qnpu_device.losses when its contents became valid; reservation lock */
	u32 losses;
	bool refused;			/* the card had no room for it; reservation lock */
	atomic_t leaving;		/* it takes no new jobs, since it is to move */
	/* in qnpu_mem.resident while it is on the card, under claim_lock */
	struct list_head resident_link;
	/* in qnpu_residency.claims of the claimant, under qnpu_mem.claim_lock */
	struct list_head claim_link;
	enum qnpu_claim claim;		/* what the claimant wants, under qnpu_mem.claim_lock */
	/* TTM_PL_ or QNPU_BO_NOWHERE; written under the reservation lock */
	u32 mem_type;
	/* protects vmas; inside of the reservation lock, outside of qnpu_vm.lock */
	struct mutex vma_lock;
	struct list_head vmas;		/* address spaces that the buffer has an address in */
};

/* A buffer that has not got memory yet, or any more. */
#define QNPU_BO_NOWHERE	U32_MAX

/* Memory that a file has handles of, bytes. */
struct qnpu_gem_usage {
	struct drm_memory_stats card;	/* buffers for the card; resident is without evicted ones */
	/* buffers in system memory; resident is with evicted ones */
	struct drm_memory_stats system;
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
void qnpu_bo_restored(struct qnpu_bo *bo, bool lost);
int qnpu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_seal(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file);

struct qnpu_bo *qnpu_bo_create(struct qnpu_device *npu, struct qnpu_vm *vm, u64 size, u32 flags);
struct qnpu_bo *qnpu_bo_create_sg(struct qnpu_device *npu, u64 size, u32 flags,
				  struct sg_table *sg, struct dma_buf *dma_buf);
void qnpu_bo_attached(struct qnpu_bo *bo);
int qnpu_bo_sync(struct qnpu_bo *bo, const struct drm_npu_bo_sync *args);
void qnpu_gem_release_dma(struct qnpu_device *npu);
void qnpu_gem_usage(struct drm_file *file, struct qnpu_gem_usage *usage);

#endif
