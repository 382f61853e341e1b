/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_FENCE_H
#define QNPU_FENCE_H

#include <linux/dma-fence.h>

struct qnpu_ctx;

/** struct qnpu_hw_fence - signals when the card is done with a job */
struct qnpu_hw_fence {
	/** @base: base class */
	struct dma_fence base;

	/** @ctx: context, with a reference: it holds the lock */
	struct qnpu_ctx *ctx;
};

struct dma_fence *qnpu_fence_create(struct qnpu_ctx *ctx);
void qnpu_fence_arm(struct dma_fence *fence, u64 seqno);
int qnpu_fence_error(struct dma_fence *fence);

#endif
