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

/* The driver's own hardware queue, which zeroes and moves memory. */
struct qnpu_copy {
	struct qnpu_ctx *ctx;		/* queue; NULL: the CPU does all; inside drm_dev_enter() */
	struct qnpu_vm *vm;		/* address space of @ctx */
	struct drm_mm_node card;	/* mapping of the DDR that buffers can use, in @vm */
	struct mutex lock;		/* for @commands and @paused_until; held while a job runs */
	struct npu_cmd_copy *commands;	/* commands of one job, coherent; freed on removal */
	struct drm_mm_node commands_node; /* mapping of @commands in @vm */
	unsigned long paused_until;	/* jiffies; no jobs until then, as all cores were busy */
};

int qnpu_copy_init(struct qnpu_device *npu);
void qnpu_copy_fini(struct qnpu_device *npu);
u32 qnpu_copy_user_queues(struct qnpu_device *npu);

int qnpu_copy_move(struct qnpu_device *npu, struct qnpu_bo *bo, struct ttm_resource *card,
		   bool out);

#endif
