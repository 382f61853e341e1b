/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_FILE_H
#define QNPU_FILE_H

#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include <drm/drm_file.h>

struct drm_device;
struct qnpu_device;
struct qnpu_vm;

/* An open file. */
struct qnpu_file {
	struct qnpu_device *npu;
	struct mutex lock;		/* serialises the creation of @vm */
	struct qnpu_vm *vm;		/* address space or NULL; constant once created */
	struct xarray ctxs;		/* contexts by id; has its own lock */
};

/* Event for qnpu_watch.ko, with a struct drm_file: the current process gets a handle. */
#define QNPU_FILE_GETS_BO	0

/* Event: a handle is being closed, perhaps with its file; the buffer still has its address. */
#define QNPU_FILE_LOSES_BO	1

extern struct blocking_notifier_head qnpu_file_notifiers;

static inline struct qnpu_file *to_qnpu_file(struct drm_file *file)
{
	return file->driver_priv;
}

int qnpu_file_open(struct drm_device *drm, struct drm_file *file);
void qnpu_file_postclose(struct drm_device *drm, struct drm_file *file);
struct qnpu_vm *qnpu_file_vm(struct drm_file *file);

#endif
