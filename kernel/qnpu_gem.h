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

/* Upper limit of a buffer, so that sums of sizes cannot overflow. */
#define QNPU_BO_MAX_SIZE	BIT_ULL(40)

struct dma_buf;
struct mem_cgroup;
struct page;
struct qnpu_device;
struct qnpu_userptr;
struct qnpu_vm;
struct sg_table;

/* Claim on a buffer by the oldest submission that waits for card memory. */
enum qnpu_claim {
	QNPU_CLAIM_NONE,		/* no claim */
	QNPU_CLAIM_USE,			/* the submission uses the buffer; eviction is forbidden */
	QNPU_CLAIM_ROOM,		/* the buffer is evicted for its memory once it is idle */
};

/* A buffer object. */
struct qnpu_bo {
	struct ttm_buffer_object tbo;	/* base class, which contains the GEM object */
	u32 flags;			/* DRM_NPU_BO_CARD, _SYSTEM, _PINNED, _READONLY; constant */
	struct dma_buf *dma_buf;	/* imported dma-buf, with a reference, or NULL */
	u64 maker;			/* drm_file.client_id of the creator; 0 for imports */
	u32 handle;			/* handle in the creator's file */
	struct list_head external_link;	/* in qnpu_mem.external while mapped; external_lock */
	struct qnpu_vm *owner;		/* creator's address space, with a reference, or NULL */
	struct mem_cgroup *memcg;	/* cgroup charged for it, with a reference, or NULL */
	struct qnpu_userptr *userptr;	/* pinned memory of a process, owned, or NULL */
	struct page *dummy;		/* for CPU mappings of a lost device; resv lock */
	bool sealed;			/* no CPU access, no jobs that write; resv lock */
	bool uncached;			/* ever mapped uncached; never cleared */
	bool lost;			/* contents were lost before it moved; resv lock */
	bool refused;			/* the card had no room for it; resv lock */
	u32 losses;			/* qnpu_device.losses at valid contents; resv lock */
	atomic_t leaving;		/* nonzero: takes no new jobs, as it is about to move */
	struct list_head resident_link;	/* in qnpu_vm.residents while on the card; claim_lock */
	struct list_head claim_link;	/* in qnpu_residency.claims of the claimant; claim_lock */
	enum qnpu_claim claim;		/* claim_lock */
	u32 mem_type;			/* TTM_PL_ or QNPU_BO_NOWHERE; resv lock */
	struct mutex vma_lock;		/* protects vmas; outside qnpu_vm.lock */
	struct list_head vmas;		/* its mapping in each address space */
};

/* The buffer has no memory yet, or no longer. */
#define QNPU_BO_NOWHERE	U32_MAX

/* Memory behind a file's handles, bytes. */
struct qnpu_gem_usage {
	struct drm_memory_stats card;	/* card buffers; resident excludes evicted ones */
	struct drm_memory_stats system;	/* system buffers; resident includes evicted card buffers */
	u64 evicted;			/* card buffers currently in system memory */
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

/* Returns the bytes that a buffer uses, or would use, on the card. */
static inline u64 qnpu_bo_card_bytes(const struct qnpu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_CARD ? bo->tbo.base.size : 0;
}

/* Returns true if a card buffer is in system memory; racy without the reservation lock. */
static inline bool qnpu_bo_is_evicted(const struct qnpu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_CARD && READ_ONCE(bo->mem_type) == TTM_PL_TT;
}

/* Returns true if a buffer is in system memory. Reservation lock held. */
static inline bool qnpu_bo_is_in_system(const struct qnpu_bo *bo)
{
	return bo->tbo.resource->mem_type != TTM_PL_VRAM;
}

/*
 * Returns true if a buffer is where jobs use it: a card buffer on the card, unless another device
 * has attached to it. Reservation lock held.
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
