/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_USERPTR_H
#define QNPU_USERPTR_H

#include <linux/dma-direction.h>
#include <linux/list.h>
#include <linux/types.h>

struct drm_device;
struct drm_file;
struct mm_struct;
struct qnpu_bo;
struct qnpu_device;
struct page;
struct sg_table;
struct cred;

/**
 * struct qnpu_userptr - memory of a process that a buffer was made of
 *
 * Constant if not said otherwise.
 */
struct qnpu_userptr {
	/** @npu: device */
	struct qnpu_device *npu;

	/** @mm: whose memory; a reference to the structure only, the process may be gone */
	struct mm_struct *mm;

	/** @payer: whose locked memory it is, with a reference; NULL: not counted */
	const struct cred *payer;

	/** @addr: where it was when the buffer was made */
	u64 addr;

	/** @readonly: jobs do not write it */
	bool readonly;

	/** @pages: its pages, pinned; NULL for a bounce buffer */
	struct page **pages;

	/** @count: entries of @pages */
	unsigned long count;

	/** @sg: the pages for the card */
	struct sg_table *sg;

	/**
	 * @link: in qnpu_mem.pinned while @sg is mapped for DMA, under qnpu_mem.pinned_lock; else
	 * empty
	 */
	struct list_head link;
};

int qnpu_ioctl_bo_userptr(struct drm_device *drm, void *data, struct drm_file *file);

int qnpu_userptr_sync(struct qnpu_bo *bo, u64 offset, u64 bytes, u32 direction);
int qnpu_userptr_copy_in(struct qnpu_bo *bo, u64 offset, u64 bytes);
int qnpu_userptr_copy_out(struct qnpu_bo *bo, u64 offset, u64 bytes);
void qnpu_userptr_destroy(struct qnpu_userptr *userptr);
void qnpu_userptr_release_dma(struct qnpu_device *npu);

#endif
