/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_FILE_H
#define NPU_FILE_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include <drm/drm_file.h>

#include "npu_cache_watch.h"

struct drm_device;
struct npu_device;

struct npu_vm;

/** struct npu_file - an open file */
struct npu_file {
	/** @npu: device */
	struct npu_device *npu;

	/** @opener: the process that has opened it, where there is a cache watch; constant */
	struct npu_cache_task opener;

	/** @opener_space: likewise physical address of its page table; 0: not known */
	u64 opener_space;

	/** @closing: nobody uses it any more, and all reports of the cache watch are looked into */
	bool closing;

	/** @lock: protects the creation of @vm */
	struct mutex lock;

	/** @vm: address space, made when it is first needed, then constant */
	struct npu_vm *vm;

	/** @ctxs: contexts by id; locks itself */
	struct xarray ctxs;
};

static inline struct npu_file *to_npu_file(struct drm_file *file)
{
	return file->driver_priv;
}

int npu_file_open(struct drm_device *drm, struct drm_file *file);
void npu_file_postclose(struct drm_device *drm, struct drm_file *file);
struct npu_vm *npu_file_vm(struct drm_file *file);

#endif
