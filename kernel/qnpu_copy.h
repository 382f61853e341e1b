/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_COPY_H
#define QNPU_COPY_H

#include <linux/mutex.h>
#include <linux/types.h>

#include <drm/drm_mm.h>

struct npu_cmd_copy;
struct qnpu_bo;
struct qnpu_ctx;
struct qnpu_device;
struct qnpu_vm;
struct ttm_resource;

/* The driver's own queue of the card, which zeroes and moves memory. */
struct qnpu_copy {
	struct qnpu_ctx *ctx;		/* queue, NULL: the CPU does all; drm_dev_enter() */
	struct qnpu_vm *vm;		/* its address space */
	struct drm_mm_node card;	/* where buffers' part of the DDR is mapped in vm */
	struct mutex lock;		/* commands and paused_until; held while a job runs */
	struct npu_cmd_copy *commands;	/* commands of one job, coherent; freed by a removal */
	struct drm_mm_node commands_node; /* where that is mapped in vm */
	unsigned long paused_until;	/* no jobs before, as all cores were busy; jiffies */
};

int qnpu_copy_init(struct qnpu_device *npu);
void qnpu_copy_fini(struct qnpu_device *npu);
u32 qnpu_copy_user_queues(struct qnpu_device *npu);

int qnpu_copy_move(struct qnpu_device *npu, struct qnpu_bo *bo, struct ttm_resource *card,
		   bool out);

#endif
