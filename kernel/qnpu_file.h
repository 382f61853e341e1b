/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_FILE_H
#define QNPU_FILE_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include <drm/drm_file.h>

#include "qnpu_cache_watch.h"

struct drm_device;
struct qnpu_device;
struct qnpu_vm;

/* An open file. */
struct qnpu_file {
	struct qnpu_device *npu;
	struct qnpu_cache_task opener;	/* opening process, if there is a cache watch; constant */
	u64 opener_space;		/* physical address of its page table, or 0 */
	bool closing;			/* unused, and the cache watch has handled all reports */
	struct mutex lock;		/* serialises the creation of vm */
	struct qnpu_vm *vm;		/* address space, or NULL; constant once it is created */
	struct xarray ctxs;		/* contexts by id; has a lock of its own */
};

static inline struct qnpu_file *to_qnpu_file(struct drm_file *file)
{
	return file->driver_priv;
}

int qnpu_file_open(struct drm_device *drm, struct drm_file *file);
void qnpu_file_postclose(struct drm_device *drm, struct drm_file *file);
struct qnpu_vm *qnpu_file_vm(struct drm_file *file);

#endif
