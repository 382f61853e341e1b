// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zeroing and moving of memory by the card.
 *
 * The driver is a client of its own card: it has an address space, in which buffers' part of the
 * DDR is mapped from end to end, and the card's last queue, to which it submits jobs of FILL and
 * COPY commands like anybody else, only with the highest priority. Watchdog and resets treat them
 * as any other job. What the card cannot do, because it was reset in the middle or is busy with
 * long jobs on all cores, the CPU does: both kinds of operations can be begun again. A card with a
 * single queue leaves it to its users, and the CPU does everything. Without card memory there is
 * nothing to do.
 */
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <drm/drm_print.h>
#include <drm/ttm/ttm_tt.h>

#include "npu_isa.h"
#include "qnpu_copy.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_job.h"
#include "qnpu_mem.h"
#include "qnpu_vm.h"

/* Commands of one job: a slot is a page of the card's. */
#define QNPU_COPY_SLOT		SZ_4K
#define QNPU_COPY_COMMANDS	(QNPU_COPY_SLOT / NPU_CMD_BYTES)

/* How long an operation may wait for a core before the CPU takes it over. */
#define QNPU_COPY_PATIENCE	(HZ / 2)

/* How long the card is not asked any more when that has happened. */
#define QNPU_COPY_PAUSE		(5 * HZ)

/* Regions of the driver's jobs. */
enum {
	QNPU_COPY_REGION_COMMANDS,
	QNPU_COPY_REGION_CARD,
	QNPU_COPY_REGION_SYSTEM,
	QNPU_COPY_REGIONS,
};

/** struct qnpu_copy_op - one job of the driver's own */
struct qnpu_copy_op {
	/** @base: fence; signals when memory is as asked for, whoever did it */
	struct dma_fence base;

	/** @lock: of @base, which others may hold and ask long after the device is gone */
	spinlock_t lock;

	/** @npu: device */
	struct qnpu_device *npu;

	/** @cb: on the job's fence */
	struct dma_fence_cb cb;

	/** @work: finishes what the card has not done */
	struct work_struct work;

	/** @slot: slot with the commands */
	u32 slot;

	/** @clear: memory to be zeroed is in @runs; else the one who waits does it */
	bool clear;

	/** @count: entries of @runs, and commands */
	u32 count;

	/** @runs: pieces of card memory */
	struct qnpu_mem_run runs[QNPU_COPY_COMMANDS];
};

/* Fences */

static const char *qnpu_copy_driver_name(struct dma_fence *fence)
{
	return "qnpu";
}

static const char *qnpu_copy_timeline_name(struct dma_fence *fence)
{
	return "qnpu-copy";
}

static void qnpu_copy_op_release(struct dma_fence *fence)
{
	dma_fence_free(fence);
	module_put(THIS_MODULE);
}

static const struct dma_fence_ops qnpu_copy_fence_ops = {
	.get_driver_name = qnpu_copy_driver_name,
	.get_timeline_name = qnpu_copy_timeline_name,
	.release = qnpu_copy_op_release,
};

/* Slots */

static int qnpu_copy_try_slot(struct qnpu_copy *copy)
{
	unsigned long flags;
	u32 slot;

	spin_lock_irqsave(&copy->slots_lock, flags);
	slot = find_first_zero_bit(copy->slots, QNPU_COPY_SLOTS);
	if (slot < QNPU_COPY_SLOTS)
		__set_bit(slot, copy->slots);
	spin_unlock_irqrestore(&copy->slots_lock, flags);

	return slot < QNPU_COPY_SLOTS ? slot : -EBUSY;
}

static void qnpu_copy_put_slot(struct qnpu_copy *copy, u32 slot)
{
	unsigned long flags;

	spin_lock_irqsave(&copy->slots_lock, flags);
	__clear_bit(slot, copy->slots);
	spin_unlock_irqrestore(&copy->slots_lock, flags);
	wake_up(&copy->slots_wait);
}

/* Operations */

static void qnpu_copy_op_finish(struct qnpu_copy_op *op, int error)
{
	if (error)
		dma_fence_set_error(&op->base, error);
	dma_fence_signal(&op->base);
	dma_fence_put(&op->base);
}

static void qnpu_copy_op_work(struct work_struct *work)
{
	struct qnpu_copy_op *op = container_of(work, struct qnpu_copy_op, work);
	int ret = 0;
	u32 i;

	for (i = 0; i < op->count && !ret; i++)
		ret = qnpu_mem_cpu_clear(op->npu, op->runs[i].addr, op->runs[i].bytes);
	qnpu_copy_op_finish(op, ret);
}

static struct qnpu_copy_op *qnpu_copy_op_create(struct qnpu_device *npu, bool clear)
{
	struct qnpu_copy *copy = &npu->copy;
	struct qnpu_copy_op *op;
	int slot;

	op = kzalloc_obj(*op);
	if (!op)
		return NULL;

	/* Whoever has a slot never waits for anything but the card. */
	wait_event(copy->slots_wait, (slot = qnpu_copy_try_slot(copy)) >= 0);

	/* The caller runs in an ioctl of this module. */
	__module_get(THIS_MODULE);
	op->npu = npu;
	op->slot = slot;
	op->clear = clear;
	INIT_WORK(&op->work, qnpu_copy_op_work);
	/* A timeline each: the CPU can finish one before those that began earlier. */
	spin_lock_init(&op->lock);
	dma_fence_init(&op->base, &qnpu_copy_fence_ops, &op->lock, dma_fence_context_alloc(1), 1);

	return op;
}

static void qnpu_copy_op_done(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct qnpu_copy_op *op = container_of(cb, struct qnpu_copy_op, cb);
	struct qnpu_copy *copy = &op->npu->copy;
	int error = fence->error;

	atomic_dec(&copy->pending);
	qnpu_copy_put_slot(copy, op->slot);
	if (!error)
		atomic64_inc(&copy->by_card);

	if (error && op->clear) {
		atomic64_inc(&copy->by_cpu);
		queue_work(copy->wq, &op->work);
	} else {
		qnpu_copy_op_finish(op, error);
	}
}

static void *qnpu_copy_command(struct qnpu_copy_op *op, const struct qnpu_mem_run *run)
{
	void *commands = op->npu->copy.commands + op->slot * QNPU_COPY_SLOT;
	void *command = commands + op->count * NPU_CMD_BYTES;

	op->runs[op->count++] = *run;
	memset(command, 0, NPU_CMD_BYTES);

	return command;
}

/* Buffers are whole pages, so everything is moved in words of 8 bytes. */
static void qnpu_copy_shape(u32 dims[6], u64 bytes)
{
	u32 i;

	for (i = 0; i < 5; i++)
		dims[i] = 1;
	dims[5] = bytes / sizeof(u64);
}

static void qnpu_copy_add_fill(struct qnpu_copy_op *op, const struct qnpu_mem_run *run)
{
	struct npu_cmd_fill *cmd = qnpu_copy_command(op, run);

	cmd->opcode = NPU_OP_FILL;
	cmd->dst_region = QNPU_COPY_REGION_CARD;
	cmd->dst_offset = run->addr;
	cmd->dst_dtype = NPU_DTYPE_S64;
	cmd->dst_stride[5] = 1;
	qnpu_copy_shape(cmd->dims, run->bytes);
}

static void qnpu_copy_add_copy(struct qnpu_copy_op *op, const struct qnpu_mem_run *run, u64 offset,
			       bool out)
{
	struct npu_cmd_copy *cmd = qnpu_copy_command(op, run);

	cmd->opcode = NPU_OP_COPY;
	cmd->src_region = out ? QNPU_COPY_REGION_CARD : QNPU_COPY_REGION_SYSTEM;
	cmd->src_offset = out ? run->addr : offset;
	cmd->dst_region = out ? QNPU_COPY_REGION_SYSTEM : QNPU_COPY_REGION_CARD;
	cmd->dst_offset = out ? offset : run->addr;
	cmd->src_dtype = NPU_DTYPE_S64;
	cmd->dst_dtype = NPU_DTYPE_S64;
	cmd->src_stride[5] = 1;
	cmd->dst_stride[5] = 1;
	qnpu_copy_shape(cmd->dims, run->bytes);
}

/* Jobs */

static void qnpu_copy_fill_desc(struct qnpu_copy_op *op, struct npu_job *desc,
				const struct drm_mm_node *window)
{
	struct qnpu_copy *copy = &op->npu->copy;
	struct npu_stream *stream = (void *)(desc + 1);
	struct npu_region *regions = (void *)(stream + 1);

	desc->magic = NPU_JOB_MAGIC;
	desc->version = NPU_JOB_VERSION;
	desc->flags = NPU_JOB_IRQ;
	desc->stream_count = 1;
	desc->region_count = window ? QNPU_COPY_REGIONS : QNPU_COPY_REGION_SYSTEM;

	stream->gdma_region = QNPU_COPY_REGION_COMMANDS;
	stream->gdma_count = op->count;

	regions[QNPU_COPY_REGION_COMMANDS] = (struct npu_region) {
		.va = copy->commands_node.start + op->slot * QNPU_COPY_SLOT,
		.bytes = QNPU_COPY_SLOT,
		.access = NPU_ACCESS_READ,
	};
	regions[QNPU_COPY_REGION_CARD] = (struct npu_region) {
		.va = copy->card.start,
		.bytes = qnpu_mem_card_bytes(op->npu),
		.access = NPU_ACCESS_READ | NPU_ACCESS_WRITE,
	};
	if (window)
		regions[QNPU_COPY_REGION_SYSTEM] = (struct npu_region) {
			.va = window->start,
			.bytes = window->size,
			.access = NPU_ACCESS_READ | NPU_ACCESS_WRITE,
		};
}

static struct qnpu_ctx_job *qnpu_copy_job_create(struct qnpu_copy_op *op,
						 const struct drm_mm_node *window)
{
	struct qnpu_ctx *ctx = op->npu->copy.ctx;
	const struct qnpu_job_shape shape = {
		.streams = 1,
		.regions = window ? QNPU_COPY_REGIONS : QNPU_COPY_REGION_SYSTEM,
	};
	struct qnpu_ctx_job *job;

	job = qnpu_job_alloc(ctx, &shape);
	if (!IS_ERR(job))
		qnpu_copy_fill_desc(op, job->desc, window);

	return job;
}

/* Queue an operation. Its job's callback has a reference, and so has the caller. */
static int qnpu_copy_op_queue(struct qnpu_copy_op *op, const struct drm_mm_node *window)
{
	struct qnpu_copy *copy = &op->npu->copy;
	struct qnpu_ctx *ctx = copy->ctx;
	struct qnpu_ctx_job *job;

	job = qnpu_copy_job_create(op, window);
	if (IS_ERR(job))
		return PTR_ERR(job);

	mutex_lock(&ctx->submit_lock);
	if (READ_ONCE(ctx->dead)) {
		mutex_unlock(&ctx->submit_lock);
		qnpu_job_discard(job);
		return -ENODEV;
	}

	qnpu_job_arm(job);
	dma_fence_get(&op->base);
	atomic_inc(&copy->pending);
	dma_fence_add_callback(job->fence, &op->cb, qnpu_copy_op_done);
	qnpu_job_push(ctx, &job, 1);
	mutex_unlock(&ctx->submit_lock);

	queue_delayed_work(copy->wq, &copy->overdue_work, QNPU_COPY_PATIENCE);

	return 0;
}

/* Queue it, or forget it. */
static int qnpu_copy_op_start(struct qnpu_copy_op *op, const struct drm_mm_node *window)
{
	int ret = qnpu_copy_op_queue(op, window);

	if (!ret)
		return 0;

	qnpu_copy_put_slot(&op->npu->copy, op->slot);
	dma_fence_put(&op->base);

	return ret;
}

static int qnpu_copy_op_wait(struct qnpu_copy_op *op)
{
	int ret;

	dma_fence_wait(&op->base, false);
	ret = op->base.error;
	dma_fence_put(&op->base);

	return ret;
}

/* The operation that is next to be done. */
static u64 qnpu_copy_next(struct qnpu_ctx *ctx)
{
	unsigned long flags;
	u64 next;

	spin_lock_irqsave(&ctx->queue.lock, flags);
	next = ctx->completed + 1;
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	return next;
}

/* Take an operation back, unless it is on a core. */
static bool qnpu_copy_abort(struct qnpu_ctx *ctx, u64 next)
{
	bool waits;
	int idx;

	if (!qnpu_device_try_enter(ctx->npu, &idx))
		return false;
	waits = !(qnpu_hw_queue_status(&ctx->queue) & NPU_QUEUE_STATUS_RUNNING);
	if (waits)
		qnpu_hw_queue_abort(&ctx->queue, next);
	qnpu_device_exit(ctx->npu, idx);

	return waits;
}

/* Take all of them back. The card is reached by the next one only: the others follow it. */
static void qnpu_copy_take_back(struct qnpu_copy *copy, u64 next)
{
	unsigned long end = jiffies + QNPU_COPY_PATIENCE;
	struct qnpu_ctx *ctx = copy->ctx;

	while (atomic_read(&copy->pending) && time_before(jiffies, end) &&
	       qnpu_copy_abort(ctx, next)) {
		WRITE_ONCE(copy->paused_until, jiffies + QNPU_COPY_PAUSE);
		wait_event_timeout(ctx->wait, qnpu_copy_next(ctx) != next, msecs_to_jiffies(10));
		next = qnpu_copy_next(ctx);
	}
}

/*
 * Operations wait for a core like any job, and a job of a user may run for long. That must not keep
 * others from their memory: what waits is taken back, and the CPU does it, and what comes in the
 * next seconds, too. Otherwise each of many buffers that make room for another would wait anew,
 * while all submissions wait for them.
 */
static void qnpu_copy_take_over(struct work_struct *work)
{
	struct qnpu_copy *copy = container_of(to_delayed_work(work), struct qnpu_copy,
					      overdue_work);
	struct qnpu_ctx *ctx = copy->ctx;
	u64 next;

	/* With nothing on its way there may not even be a queue any more. */
	if (!ctx || !atomic_read(&copy->pending))
		return;

	next = qnpu_copy_next(ctx);
	if (next == copy->last_next)
		qnpu_copy_take_back(copy, next);
	copy->last_next = next;
	queue_delayed_work(copy->wq, &copy->overdue_work, QNPU_COPY_PATIENCE);
}

/* Does the card do it? With the gate taken. */
static bool qnpu_copy_is_open(const struct qnpu_copy *copy)
{
	return copy->ctx && !time_before(jiffies, READ_ONCE(copy->paused_until));
}

/* What users of this file ask for */

static struct dma_fence *qnpu_copy_clear_through(struct qnpu_device *npu, struct ttm_resource *to)
{
	struct qnpu_mem_run run;
	struct qnpu_copy_op *op = NULL;
	u64 offset;
	int ret;

	for (offset = 0; offset < to->size; offset += run.bytes) {
		if (op && op->count == QNPU_COPY_COMMANDS) {
			ret = qnpu_copy_op_start(op, NULL) ?: qnpu_copy_op_wait(op);
			if (ret)
				return ERR_PTR(ret);
			op = NULL;
		}
		if (!op)
			op = qnpu_copy_op_create(npu, true);
		if (!op)
			return ERR_PTR(-ENOMEM);
		qnpu_mem_card_run(to, offset, &run);
		qnpu_copy_add_fill(op, &run);
	}

	ret = qnpu_copy_op_start(op, NULL);

	return ret ? ERR_PTR(ret) : &op->base;
}

/**
 * qnpu_copy_clear - let the card zero new card memory
 * @npu: device
 * @to: the memory
 *
 * Returns a fence that signals when all of it is zero, with a reference, or an error: then nothing
 * is to be expected of the card, and the caller has to do it.
 */
struct dma_fence *qnpu_copy_clear(struct qnpu_device *npu, struct ttm_resource *to)
{
	struct qnpu_copy *copy = &npu->copy;
	struct dma_fence *fence;

	down_read(&copy->gate);
	fence = qnpu_copy_is_open(copy) ? qnpu_copy_clear_through(npu, to) : ERR_PTR(-EOPNOTSUPP);
	up_read(&copy->gate);

	return fence;
}

/* Copy between DDR and a window in the driver's address space that shows the buffer's pages. */
static int qnpu_copy_through(struct qnpu_device *npu, struct ttm_resource *card,
			     const struct drm_mm_node *window, bool out)
{
	struct qnpu_mem_run run;
	struct qnpu_copy_op *op;
	u64 offset = 0;
	int ret = 0;

	while (offset < card->size && !ret) {
		op = qnpu_copy_op_create(npu, false);
		if (!op)
			return -ENOMEM;
		for (; op->count < QNPU_COPY_COMMANDS && offset < card->size; offset += run.bytes) {
			qnpu_mem_card_run(card, offset, &run);
			qnpu_copy_add_copy(op, &run, offset, out);
		}
		ret = qnpu_copy_op_start(op, window) ?: qnpu_copy_op_wait(op);
	}

	return ret;
}

static int qnpu_copy_move_through(struct qnpu_device *npu, struct qnpu_bo *bo,
				  struct ttm_resource *card, bool out)
{
	struct qnpu_vm *vm = npu->copy.vm;
	struct drm_mm_node window = {};
	int ret;

	mutex_lock(&vm->lock);
	ret = drm_mm_insert_node_generic(&vm->mm, &window, card->size, SZ_2M, 0,
					 DRM_MM_INSERT_BEST);
	if (!ret) {
		ret = qnpu_space_map(&vm->space, window.start, bo, true, NPU_PTE_WRITE);
		if (ret)
			drm_mm_remove_node(&window);
	}
	mutex_unlock(&vm->lock);
	if (ret)
		return ret;

	ret = qnpu_copy_through(npu, card, &window, out);

	mutex_lock(&vm->lock);
	qnpu_space_unmap(&vm->space, window.start, card->size);
	drm_mm_remove_node(&window);
	mutex_unlock(&vm->lock);

	return ret;
}

/**
 * qnpu_copy_move - let the card copy a buffer between its memory and system memory
 * @npu: device
 * @bo: buffer, its reservation lock held, its pages of system memory populated
 * @card: its memory on the card
 * @out: away from the card
 *
 * Returns when it is done, or with an error: then the caller has to do it.
 */
int qnpu_copy_move(struct qnpu_device *npu, struct qnpu_bo *bo, struct ttm_resource *card, bool out)
{
	struct qnpu_copy *copy = &npu->copy;
	int ret;

	down_read(&copy->gate);
	ret = qnpu_copy_is_open(copy) ? qnpu_copy_move_through(npu, bo, card, out) : -EOPNOTSUPP;
	up_read(&copy->gate);
	if (ret)
		atomic64_inc(&copy->by_cpu);

	return ret;
}

/* Is there anything for a queue of the driver's own to do, and would one be left for users? */
static bool qnpu_copy_has_queue(struct qnpu_device *npu)
{
	return npu->info.ddr_bytes && npu->info.queues > 1;
}

/**
 * qnpu_copy_user_queues - queues of the card that contexts can have
 * @npu: device
 */
u32 qnpu_copy_user_queues(struct qnpu_device *npu)
{
	return npu->info.queues - qnpu_copy_has_queue(npu);
}

/* Set-up */

static int qnpu_copy_map(struct qnpu_device *npu, struct drm_mm_node *node,
			 const struct qnpu_mem_run *run, u64 flags)
{
	struct qnpu_vm *vm = npu->copy.vm;
	int ret;

	mutex_lock(&vm->lock);
	ret = drm_mm_insert_node_generic(&vm->mm, node, run->bytes, SZ_2M, 0, DRM_MM_INSERT_BEST);
	if (!ret) {
		ret = qnpu_space_map_fixed(&vm->space, node->start, run, flags);
		if (ret)
			drm_mm_remove_node(node);
	}
	mutex_unlock(&vm->lock);

	return ret;
}

static void qnpu_copy_unmap(struct qnpu_device *npu, struct drm_mm_node *node)
{
	struct qnpu_vm *vm = npu->copy.vm;

	if (!drm_mm_node_allocated(node))
		return;

	mutex_lock(&vm->lock);
	qnpu_space_unmap(&vm->space, node->start, node->size);
	drm_mm_remove_node(node);
	mutex_unlock(&vm->lock);
}

static int qnpu_copy_init_vm(struct qnpu_device *npu)
{
	struct qnpu_copy *copy = &npu->copy;
	const struct qnpu_mem_run card = { .bytes = qnpu_mem_card_bytes(npu) };
	struct qnpu_mem_run commands = { .bytes = QNPU_COPY_SLOTS * QNPU_COPY_SLOT };
	int ret;

	copy->commands = dma_alloc_coherent(npu->drm.dev, commands.bytes, &copy->commands_dma,
					    GFP_KERNEL);
	if (!copy->commands)
		return -ENOMEM;
	commands.addr = copy->commands_dma;

	ret = qnpu_copy_map(npu, &copy->card, &card, NPU_PTE_WRITE);
	if (ret)
		return ret;

	return qnpu_copy_map(npu, &copy->commands_node, &commands, NPU_PTE_SYSTEM);
}

static void qnpu_copy_drop(struct qnpu_device *npu)
{
	struct qnpu_copy *copy = &npu->copy;

	if (copy->vm) {
		qnpu_copy_unmap(npu, &copy->commands_node);
		qnpu_copy_unmap(npu, &copy->card);
		qnpu_vm_put(copy->vm);
		copy->vm = NULL;
	}
	if (copy->commands)
		dma_free_coherent(npu->drm.dev, QNPU_COPY_SLOTS * QNPU_COPY_SLOT, copy->commands,
				  copy->commands_dma);
	copy->commands = NULL;
	if (copy->wq)
		destroy_workqueue(copy->wq);
	copy->wq = NULL;
}

/**
 * qnpu_copy_init - take a queue and an address space of the card
 * @npu: device, at work
 */
int qnpu_copy_init(struct qnpu_device *npu)
{
	struct qnpu_copy *copy = &npu->copy;
	struct qnpu_ctx *ctx;
	int ret;

	init_rwsem(&copy->gate);
	spin_lock_init(&copy->slots_lock);
	init_waitqueue_head(&copy->slots_wait);
	copy->paused_until = jiffies;
	INIT_DELAYED_WORK(&copy->overdue_work, qnpu_copy_take_over);
	if (!qnpu_copy_has_queue(npu))
		return 0;

	copy->wq = alloc_workqueue("qnpu-copy", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!copy->wq)
		return -ENOMEM;

	copy->vm = qnpu_vm_create(npu);
	if (IS_ERR(copy->vm)) {
		ret = PTR_ERR(copy->vm);
		copy->vm = NULL;
		goto err;
	}
	ret = qnpu_copy_init_vm(npu);
	if (ret)
		goto err;

	ctx = qnpu_ctx_create_internal(npu, copy->vm);
	if (IS_ERR(ctx)) {
		ret = PTR_ERR(ctx);
		goto err;
	}
	copy->ctx = ctx;

	return 0;

err:
	qnpu_copy_drop(npu);
	return ret;
}

/**
 * qnpu_copy_fini - finish all operations, and give queue and address space back
 * @npu: device, unplugged, or about to be given up by probe
 */
void qnpu_copy_fini(struct qnpu_device *npu)
{
	struct qnpu_copy *copy = &npu->copy;

	struct qnpu_ctx *ctx = copy->ctx;

	if (!ctx)
		return;

	/* Operations end, then whoever waits for one leaves, and nobody comes in any more. */
	qnpu_ctx_kill(ctx, -ENODEV);
	down_write(&copy->gate);
	copy->ctx = NULL;
	up_write(&copy->gate);

	cancel_delayed_work_sync(&copy->overdue_work);
	flush_workqueue(copy->wq);
	qnpu_ctx_put(ctx);
	qnpu_copy_drop(npu);
}
