/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_GEM_H
#define NPU_GEM_H

#include <linux/list.h>
#include <linux/spinlock.h>

#include <drm/drm_gem.h>
#include <drm/ttm/ttm_bo.h>

struct drm_device;
struct drm_file;
struct drm_printer;

/** struct npu_bo - a buffer */
struct npu_bo {
	/** @tbo: base class; TTM's object, and in it the GEM object */
	struct ttm_buffer_object tbo;

	/** @flags: DRM_NPU_BO_CARD or DRM_NPU_BO_SYSTEM, constant */
	u32 flags;

	/** @sealed: no CPU access, no writing job; set once, under the reservation lock */
	bool sealed;

	/** @no_space: set to true when the card is full; the creator's, NULL after creation */
	bool *no_space;

	/** @vma_lock: protects @vmas */
	spinlock_t vma_lock;

	/** @vmas: address spaces that the buffer is mapped in */
	struct list_head vmas;
};

/** struct npu_gem_usage - memory that a file has handles of, bytes */
struct npu_gem_usage {
	/** @card: card memory */
	u64 card;

	/** @system: system memory */
	u64 system;

	/** @largest: largest buffer */
	u64 largest;

	/** @card_active: card memory that unfinished jobs use */
	u64 card_active;

	/** @system_active: likewise system memory */
	u64 system_active;
};

static inline struct npu_bo *to_npu_bo(struct ttm_buffer_object *tbo)
{
	return container_of(tbo, struct npu_bo, tbo);
}

static inline struct npu_bo *gem_to_npu_bo(struct drm_gem_object *obj)
{
	return container_of(obj, struct npu_bo, tbo.base);
}

int npu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file);
int npu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file);
int npu_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file);
int npu_ioctl_bo_seal(struct drm_device *drm, void *data, struct drm_file *file);
int npu_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file);

void npu_gem_usage(struct drm_file *file, struct npu_gem_usage *usage);

#endif
