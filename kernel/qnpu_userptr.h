/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_USERPTR_H
#define QNPU_USERPTR_H

#include <linux/types.h>

struct cred;
struct drm_device;
struct drm_file;
struct mm_struct;
struct page;
struct qnpu_bo;
struct qnpu_device;
struct sg_table;

/* Pinned memory of a process; constant after creation except @sg. */
struct qnpu_userptr {
	struct mm_struct *mm;		/* with mmgrab(): the process may have exited */
	const struct cred *payer;	/* user charged for locked memory, with a ref, or NULL */
	bool readonly;			/* jobs must not write it */
	unsigned long count;		/* pages accounted */
	unsigned long pinned;		/* valid entries of @pages; equals @count after creation */
	struct page **pages;
	struct sg_table *sg;		/* DMA mapping, until removal; qnpu_mem.external_lock */
};

int qnpu_ioctl_bo_userptr(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_userptr_sync(struct qnpu_bo *bo, u64 offset, u64 bytes, u32 direction);
void qnpu_userptr_unmap(struct qnpu_device *npu, struct qnpu_userptr *userptr);
void qnpu_userptr_destroy(struct qnpu_userptr *userptr);

#endif
