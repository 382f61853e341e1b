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

/** struct qnpu_file - an open file */
struct qnpu_file {
	/** @npu: device */
	struct qnpu_device *npu;

	/** @opener: the process that has opened it, where there is a cache watch; constant */
	struct qnpu_cache_task opener;

	/** @opener_space: likewise physical address of its page table; 0: not known */
	u64 opener_space;

	/** @closing: nobody uses it any more, and all reports of the cache watch are looked into */
	bool closing;

	/** @lock: protects the creation of @vm */
	struct mutex lock;

	/** @vm: address space, made when it is first needed, then constant */
	struct qnpu_vm *vm;

	/** @ctxs: contexts by id; locks itself */
	struct xarray ctxs;
};

static inline struct qnpu_file *to_qnpu_file(struct drm_file *file)
{
	return file->driver_priv;
}

int qnpu_file_open(struct drm_device *drm, struct drm_file *file);
void qnpu_file_postclose(struct drm_device *drm, struct drm_file *file);
struct qnpu_vm *qnpu_file_vm(struct drm_file *file);

#endif
