/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_FENCE_H
#define NPU_FENCE_H

#include <linux/dma-fence.h>

struct npu_ctx;

/** struct npu_hw_fence - signals when the card is done with a job */
struct npu_hw_fence {
	/** @base: base class */
	struct dma_fence base;

	/** @ctx: context, with a reference: it holds the lock */
	struct npu_ctx *ctx;
};

struct dma_fence *npu_fence_create(struct npu_ctx *ctx);
void npu_fence_arm(struct dma_fence *fence, u64 seqno);
int npu_fence_error(struct dma_fence *fence);

#endif
