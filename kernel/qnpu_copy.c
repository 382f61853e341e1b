// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zeroing and copying of card memory by the card itself.
 *
 * The driver owns an address space, in which all DDR of buffers is mapped, and the card's last
 * queue pair. It submits FILL and COPY commands, one job at a time, at the highest priority. The
 * watchdog and resets treat its jobs like any others. If the card fails, because of a reset or of
 * long jobs on all cores, the CPU repeats the work. On a card with a single queue pair users get
 * it, and the CPU does all the work.
 */
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>

#include <drm/drm_drv.h>
#include <drm/drm_managed.h>
#include <drm/ttm/ttm_tt.h>

#include "npu_isa.h"
#include "qnpu_copy.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_job.h"
#include "qnpu_mem.h"
#include "qnpu_pages.h"
#include "qnpu_vm.h"

/* Commands per job. */
#define QNPU_COPY_COMMANDS	512
#define QNPU_COPY_BYTES		(QNPU_COPY_COMMANDS * NPU_CMD_BYTES)
/* Limit in bytes for one command and for one job, since other moves wait for it. */
#define QNPU_COPY_RUN		SZ_64M
#define QNPU_COPY_JOB		SZ_256M

/* Time that a job may wait for a core before the CPU does the work instead. */
#define QNPU_COPY_PATIENCE	(HZ / 2)

/* Pause after such a wait, so that consecutive evictions do not each repeat it. */
#define QNPU_COPY_PAUSE		(5 * HZ)

/* Regions of the driver's jobs. */
enum {
	QNPU_COPY_REGION_COMMANDS,
	QNPU_COPY_REGION_CARD,
	QNPU_COPY_REGION_SYSTEM,
	QNPU_COPY_REGIONS,
};

/* Jobs */

/* FILL is COPY without a source. Buffers are whole pages, so all moves use words of 8 bytes. */
static void qnpu_copy_command(struct npu_cmd_copy *cmd, const struct qnpu_mem_run *run, u64 offset,
			      bool copy, bool out)
{
	static_assert(offsetof(struct npu_cmd_fill, dims) == offsetof(struct npu_cmd_copy, dims));

	*cmd = (struct npu_cmd_copy) {
		.opcode = copy ? NPU_OP_COPY : NPU_OP_FILL,
		.dst_offset = out ? offset : run->addr,
		.dst_region = out ? QNPU_COPY_REGION_SYSTEM : QNPU_COPY_REGION_CARD,
		.dst_dtype = NPU_DTYPE_S64,
		.dims = { 1, 1, 1, 1, 1, run->bytes / sizeof(u64) },
		.dst_stride[5] = 1,
	};
	if (!copy)
		return;
	cmd->src_offset = out ? run->addr : offset;
	cmd->src_region = out ? QNPU_COPY_REGION_CARD : QNPU_COPY_REGION_SYSTEM;
	cmd->src_dtype = NPU_DTYPE_S64;
	cmd->src_stride[5] = 1;
}

static struct qnpu_ctx_job *qnpu_copy_job(struct qnpu_device *npu, u32 count,
					  const struct drm_mm_node *window)
{
	const struct qnpu_job_shape shape = {
		.streams = 1,
		.regions = window ? QNPU_COPY_REGIONS : QNPU_COPY_REGION_SYSTEM,
	};
	struct qnpu_ctx_job *job = qnpu_job_alloc(npu->copy.ctx, &shape);
	struct npu_region *regions;
	struct npu_stream *stream;

	if (IS_ERR(job))
		return job;
	stream = (void *)(job->desc + 1);
	regions = (void *)(stream + 1);

	job->desc->magic = NPU_JOB_MAGIC;
	job->desc->version = NPU_JOB_VERSION;
	job->desc->flags = NPU_JOB_IRQ;
	job->desc->stream_count = shape.streams;
	job->desc->region_count = shape.regions;
	stream->gdma_region = QNPU_COPY_REGION_COMMANDS;
	stream->gdma_count = count;
	regions[QNPU_COPY_REGION_COMMANDS] = (struct npu_region) {
		.va = npu->copy.commands_node.start,
		.bytes = QNPU_COPY_BYTES,
		.access = NPU_ACCESS_READ,
	};
	regions[QNPU_COPY_REGION_CARD] = (struct npu_region) {
		.va = npu->copy.card.start,
		.bytes = npu->copy.card.size,
		.access = NPU_ACCESS_READ | NPU_ACCESS_WRITE,
	};
	if (window)
		regions[QNPU_COPY_REGION_SYSTEM] = (struct npu_region) {
			.va = window->start,
			.bytes = window->size,
			.access = NPU_ACCESS_READ | NPU_ACCESS_WRITE,
		};

	return job;
}

/* Abort a job that has waited for a core for too long. */
static void qnpu_copy_take_back(struct qnpu_copy *copy, u64 seqno)
{
	struct qnpu_ctx *ctx = copy->ctx;
	int idx;

	if (!qnpu_device_try_enter(ctx->npu, &idx))
		return;
	if (!(qnpu_hw_queue_status(&ctx->queue) & NPU_QUEUE_STATUS_RUNNING)) {
		copy->paused_until = jiffies + QNPU_COPY_PAUSE;
		qnpu_hw_queue_abort(&ctx->queue, seqno);
	}
	qnpu_device_exit(ctx->npu, idx);
}

/* Run the first @count commands. */
static int qnpu_copy_run(struct qnpu_device *npu, u32 count, const struct drm_mm_node *window)
{
	struct qnpu_copy *copy = &npu->copy;
	struct qnpu_ctx_job *job;
	struct dma_fence *fence;
	int ret;

	lockdep_assert_held(&copy->lock);

	if (time_before(jiffies, copy->paused_until))
		return -EBUSY;
	job = qnpu_copy_job(npu, count, window);
	if (IS_ERR(job))
		return PTR_ERR(job);
	fence = dma_fence_get(job->fence);

	mutex_lock(&copy->ctx->submit_lock);
	qnpu_job_arm(job);
	qnpu_job_push(copy->ctx, &job, 1);
	mutex_unlock(&copy->ctx->submit_lock);

	while (!dma_fence_wait_timeout(fence, false, QNPU_COPY_PATIENCE))
		qnpu_copy_take_back(copy, fence->seqno);
	ret = fence->error;
	dma_fence_put(fence);

	return ret;
}

/*
 * Zero card memory, or copy it to or from the pages mapped at @window. After an error the whole
 * operation must be repeated.
 */
static int qnpu_copy_by_card(struct qnpu_device *npu, struct ttm_resource *card,
			     const struct drm_mm_node *window, bool out)
{
	struct qnpu_copy *copy = &npu->copy;
	struct qnpu_mem_run run;
	u64 offset = 0, end;
	int ret = 0;
	u32 count;

	while (offset < card->size && !ret) {
		end = min(card->size, offset + QNPU_COPY_JOB);
		mutex_lock(&copy->lock);
		for (count = 0; count < QNPU_COPY_COMMANDS && offset < end; count++) {
			qnpu_mem_card_run(card, offset, &run);
			run.bytes = min(run.bytes, QNPU_COPY_RUN);
			qnpu_copy_command(&copy->commands[count], &run, offset, window, out);
			offset += run.bytes;
		}
		ret = qnpu_copy_run(npu, count, window);
		mutex_unlock(&copy->lock);
	}

	return ret;
}

/* Address space */

/* Map the pages of a buffer, or else @run, at any free address. */
static int qnpu_copy_map(struct qnpu_vm *vm, struct drm_mm_node *node, struct qnpu_bo *bo,
			 const struct qnpu_mem_run *run, u64 flags)
{
	u64 bytes = bo ? bo->tbo.base.size : run->bytes;
	int ret;

	guard(mutex)(&vm->lock);
	ret = drm_mm_insert_node_generic(&vm->mm, node, bytes, SZ_2M, 0, DRM_MM_INSERT_BEST);
	if (ret)
		return ret;
	ret = bo ? qnpu_space_map(&vm->space, node->start, bo, true, flags) :
		   qnpu_space_map_fixed(&vm->space, node->start, run, flags);
	if (ret)
		drm_mm_remove_node(node);

	return ret;
}

static void qnpu_copy_unmap(struct qnpu_vm *vm, struct drm_mm_node *node)
{
	guard(mutex)(&vm->lock);
	if (drm_mm_node_allocated(node)) {
		qnpu_space_unmap(&vm->space, node->start, node->size);
		drm_mm_remove_node(node);
	}
}

/* Moves */

static int qnpu_copy_move_by_card(struct qnpu_device *npu, struct qnpu_bo *bo,
				  struct ttm_resource *card, bool out)
{
	struct drm_mm_node window = {};
	int ret;

	ret = qnpu_copy_map(npu->copy.vm, &window, bo, NULL, NPU_PTE_WRITE);
	if (ret)
		return ret;
	ret = qnpu_copy_by_card(npu, card, &window, out);
	if (!ret && out)
		qnpu_pages_sync(npu, bo->tbo.ttm, 0, card->size, DRM_NPU_SYNC_FROM_DEVICE);
	qnpu_copy_unmap(npu->copy.vm, &window);

	return ret;
}

/*
 * Copies a buffer between @card and its populated pages, under its reservation lock. Without a
 * buffer: zeroes @card.
 */
int qnpu_copy_move(struct qnpu_device *npu, struct qnpu_bo *bo, struct ttm_resource *card, bool out)
{
	struct ttm_tt *tt = bo ? bo->tbo.ttm : NULL;
	int ret = -ENODEV, idx;

	/* Whichever of the two reads the pages; also for bounce buffers of the DMA mapping. */
	if (tt && !out)
		qnpu_pages_sync(npu, tt, 0, card->size,
				DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE);

	if (drm_dev_enter(&npu->drm, &idx)) {
		if (npu->copy.ctx)
			ret = bo ? qnpu_copy_move_by_card(npu, bo, card, out) :
				   qnpu_copy_by_card(npu, card, NULL, false);
		drm_dev_exit(idx);
	}

	if (!ret)
		return 0;
	ret = qnpu_mem_by_cpu(npu, card, tt ? tt->pages : NULL, out);
	if (tt && out && !ret)
		qnpu_pages_sync(npu, tt, 0, card->size, DRM_NPU_SYNC_TO_DEVICE);

	return ret;
}

/* Returns true if the driver needs its own queue pair, and one remains for users. */
static bool qnpu_copy_has_queue(struct qnpu_device *npu)
{
	return npu->info.ddr_bytes && npu->info.queues > 1;
}

/* Returns the number of queue pairs available to contexts. */
u32 qnpu_copy_user_queues(struct qnpu_device *npu)
{
	return npu->info.queues - qnpu_copy_has_queue(npu);
}

/* Set-up */

/* Drain all operations of a device that is unplugged or whose probe fails. */
void qnpu_copy_fini(struct qnpu_device *npu)
{
	struct qnpu_copy *copy = &npu->copy;

	if (copy->ctx) {
		qnpu_ctx_kill(copy->ctx, -ENODEV);
		qnpu_ctx_put(copy->ctx);
		copy->ctx = NULL;
	}
	if (copy->vm) {
		qnpu_copy_unmap(copy->vm, &copy->commands_node);
		qnpu_copy_unmap(copy->vm, &copy->card);
		qnpu_vm_put(copy->vm);
		copy->vm = NULL;
	}
}

static int qnpu_copy_set_up(struct qnpu_device *npu)
{
	const struct qnpu_mem_run card = { .bytes = qnpu_mem_card_bytes(npu) };
	struct qnpu_mem_run commands = { .bytes = QNPU_COPY_BYTES };
	struct qnpu_copy *copy = &npu->copy;
	struct qnpu_ctx *ctx;
	struct qnpu_vm *vm;
	dma_addr_t dma;
	int ret;

	copy->commands = dmam_alloc_coherent(npu->drm.dev, QNPU_COPY_BYTES, &dma, GFP_KERNEL);
	if (!copy->commands)
		return -ENOMEM;
	commands.addr = dma;
	vm = qnpu_vm_create(npu);
	if (IS_ERR(vm))
		return PTR_ERR(vm);
	copy->vm = vm;
	ret = qnpu_copy_map(vm, &copy->card, NULL, &card, NPU_PTE_WRITE);
	if (!ret)
		ret = qnpu_copy_map(vm, &copy->commands_node, NULL, &commands, NPU_PTE_SYSTEM);
	if (ret)
		return ret;
	ctx = qnpu_ctx_create(npu, vm, true, DRM_NPU_PRIORITY_REALTIME,
			      GENMASK(npu->info.cores - 1, 0));
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	copy->ctx = ctx;

	return qnpu_attach_queue(&ctx->queue);
}

/* Set up queue and address space on a started card. */
int qnpu_copy_init(struct qnpu_device *npu)
{
	int ret;

	if (!qnpu_copy_has_queue(npu))
		return 0;
	ret = drmm_mutex_init(&npu->drm, &npu->copy.lock);
	if (ret)
		return ret;
	npu->copy.paused_until = jiffies;
	ret = qnpu_copy_set_up(npu);
	if (ret)
		qnpu_copy_fini(npu);

	return ret;
}
