/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_DRV_H
#define NPU_DRV_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include <drm/drm_file.h>

struct npu_device;
struct npu_user;
struct npu_vm;
struct workqueue_struct;

/* Identifiers of contexts are page numbers of their fence pages, below those of GEM objects. */
#define NPU_MAX_CTX_ID	0xfffff

/** struct npu_file - an open file */
struct npu_file {
	/** @npu: device */
	struct npu_device *npu;

	/** @user: who has opened it, with a reference */
	struct npu_user *user;

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

struct npu_vm *npu_file_vm(struct drm_file *file);

/* Frees jobs; of the module, since a job can be the last user of its device. */
extern struct workqueue_struct *npu_release_wq;

extern unsigned int npu_timeout_ms;
extern unsigned int npu_busywait_us;
extern unsigned int npu_job_limit_ms;
extern unsigned int npu_budget_ms;

#endif
