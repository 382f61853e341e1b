// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hardware fences.
 *
 * A fence can outlive the file, the context and the card: others hold it in syncobjs and sync
 * files. Each holds a reference to its context and to the module; those of the driver's own
 * context never leave it, and would keep the module from being unloaded. Whoever drops the last
 * reference to the module here still has to return from its text: qnpu_exit() waits for that.
 */
#include <linux/dma-fence-chain.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_fence.h"

static struct qnpu_hw_fence *to_qnpu_hw_fence(struct dma_fence *fence)
{
	return container_of(fence, struct qnpu_hw_fence, base);
}

static const char *qnpu_fence_driver_name(struct dma_fence *fence)
{
	return "qnpu";
}

static const char *qnpu_fence_timeline_name(struct dma_fence *fence)
{
	return "qnpu-queue";
}

static void qnpu_fence_release(struct dma_fence *base)
{
	struct qnpu_hw_fence *fence = to_qnpu_hw_fence(base);

	bool internal = fence->ctx->internal;

	qnpu_ctx_put(fence->ctx);
	dma_fence_free(base);
	if (!internal)
		module_put(THIS_MODULE);
}

static const struct dma_fence_ops qnpu_fence_ops = {
	.get_driver_name = qnpu_fence_driver_name,
	.get_timeline_name = qnpu_fence_timeline_name,
	.release = qnpu_fence_release,
};

/**
 * qnpu_fence_create - make a fence that is ready to be armed
 * @ctx: context
 *
 * Everything that can fail is done here, so that running a job cannot. The seqno comes later:
 * numbers are given in the order of submission.
 */
struct dma_fence *qnpu_fence_create(struct qnpu_ctx *ctx)
{
	struct qnpu_hw_fence *fence;

	fence = kzalloc_obj(*fence, QNPU_GFP_USER);
	if (!fence)
		return NULL;

	/* The caller runs in an ioctl of this module. */
	if (!ctx->internal)
		__module_get(THIS_MODULE);
	fence->ctx = qnpu_ctx_get(ctx);
	dma_fence_init(&fence->base, &qnpu_fence_ops, &ctx->fence_lock, ctx->fence_context, 0);

	return &fence->base;
}

/**
 * qnpu_fence_arm - number a fence, before anybody else sees it
 * @fence: fence
 * @seqno: its number
 */
void qnpu_fence_arm(struct dma_fence *fence, u64 seqno)
{
	fence->seqno = seqno;
}

/**
 * qnpu_fence_error - the error that a signalled fence carries
 * @fence: fence, also a point of a timeline
 *
 * Points of a timeline are links of a chain, which carry no error themselves.
 */
int qnpu_fence_error(struct dma_fence *fence)
{
	int status = dma_fence_get_status(dma_fence_chain_contained(fence));

	return status < 0 ? status : 0;
}
