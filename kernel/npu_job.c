// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs on their way through scheduler and card: run, finish, free.
 */
#include <linux/dma-fence-chain.h>
#include <linux/slab.h>

#include <drm/drm_print.h>
#include <drm/drm_syncobj.h>

#include "npu_ctx.h"
#include "npu_device.h"
#include "npu_drv.h"
#include "npu_fence.h"
#include "npu_job.h"
#include "npu_recover.h"
#include "npu_residency.h"
#include "npu_trace.h"
#include "npu_vm.h"

/* Life before the card */

/**
 * npu_job_alloc - make an empty job
 * @ctx: context
 * @client_id: who asks, for traces
 */
struct npu_kjob *npu_job_alloc(struct npu_ctx *ctx, u64 client_id)
{
	struct npu_kjob *job;
	int ret;

	job = kzalloc(sizeof(*job), GFP_KERNEL);
	if (!job)
		return ERR_PTR(-ENOMEM);

	INIT_LIST_HEAD(&job->link);
	job->ctx = ctx;
	job->fence = npu_fence_create(ctx);
	if (!job->fence) {
		kfree(job);
		return ERR_PTR(-ENOMEM);
	}

	ret = npu_sched_job_init(&job->base, &ctx->entity, ctx, client_id);
	if (ret) {
		npu_job_put_resources(job);
		return ERR_PTR(ret);
	}

	return job;
}

/**
 * npu_job_charge - count a job for a user until it is finished
 * @job: job
 * @user: who submits it
 */
int npu_job_charge(struct npu_kjob *job, struct npu_user *user)
{
	int ret = npu_quota_charge(user, NPU_QUOTA_JOBS, 1);

	if (ret)
		return ret;
	job->user = npu_user_get(user);
	job->charged = true;

	return 0;
}

static void npu_job_uncharge(struct npu_kjob *job)
{
	if (job->charged)
		npu_quota_uncharge(job->user, NPU_QUOTA_JOBS, 1);
	job->charged = false;
}

/**
 * npu_job_discard - undo npu_job_alloc() for a job that was not armed
 * @job: job
 */
void npu_job_discard(struct npu_kjob *job)
{
	drm_sched_job_cleanup(&job->base);
	npu_job_put_resources(job);
}

/**
 * npu_job_arm - number a job; from here on it has to be pushed
 * @job: job, complete; the context's submit_lock is held until it is pushed
 */
void npu_job_arm(struct npu_kjob *job)
{
	struct npu_ctx *ctx = job->ctx;
	unsigned long flags;

	lockdep_assert_held(&ctx->submit_lock);

	spin_lock_irqsave(&ctx->queue.lock, flags);
	job->seqno = ++ctx->submitted;
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	npu_fence_arm(job->fence, job->seqno);
	drm_sched_job_arm(&job->base);
	trace_npu_job_submit(job);
}

/**
 * npu_job_push - give a job to the scheduler
 * @job: job, armed; it can be gone on return
 */
void npu_job_push(struct npu_kjob *job)
{
	/* A job can outlive its file, and even the card; the module is kept by its fence. */
	drm_dev_get(&job->ctx->npu->drm);
	drm_sched_entity_push_job(&job->base);
}

/* Errors */

/**
 * npu_job_error - the errno of a job that the card has finished, or lost
 * @job: job
 * @cqe: what the card said, NULL if the job was on a core when the card was reset
 */
int npu_job_error(const struct npu_kjob *job, const struct npu_cqe *cqe)
{
	switch (cqe ? cqe->status : NPU_STATUS_ABORTED) {
	case NPU_STATUS_OK:
		return 0;
	case NPU_STATUS_BUDGET:
		return -ETIME;
	case NPU_STATUS_ABORTED:
	case NPU_STATUS_CORE_RESET:
		return job->timed_out ? -ETIME : -ECANCELED;
	default:
		return -EIO;
	}
}

static void npu_job_fill_fault(const struct npu_kjob *job, const struct npu_cqe *cqe,
			       struct drm_npu_fault *fault)
{
	BUILD_BUG_ON(DRM_NPU_REGION_READ != NPU_ACCESS_READ);
	BUILD_BUG_ON(DRM_NPU_REGION_WRITE != NPU_ACCESS_WRITE);

	memset(fault, 0, sizeof(*fault));
	fault->seqno = job->seqno;
	if (!cqe) {
		fault->status = NPU_STATUS_ABORTED;
		fault->engine = NPU_ENGINE_NONE;
		fault->core = 0xff;
		fault->command = NPU_COMMAND_NONE;
		fault->region = NPU_REGION_NONE;
		return;
	}

	fault->offset = cqe->offset;
	fault->fault_addr = cqe->fault_addr;
	fault->status = cqe->status;
	fault->engine = cqe->engine;
	fault->core = cqe->core;
	fault->command = cqe->command;
	fault->region = cqe->region;
	fault->bytes = cqe->bytes;
	if (cqe->phase & NPU_CQE_ACCESS_READ)
		fault->access |= DRM_NPU_REGION_READ;
	if (cqe->phase & NPU_CQE_ACCESS_WRITE)
		fault->access |= DRM_NPU_REGION_WRITE;
}

/*
 * A job has all its cores for all its time. Where there were more to choose from than it has
 * streams, the card names only one of them.
 */
static void npu_job_account(struct npu_kjob *job, const struct npu_cqe *cqe, u64 cycles)
{
	const struct npu_job *desc = job->desc;
	unsigned long mask = desc->core_mask;
	unsigned int core;

	if (hweight_long(mask) != desc->stream_count) {
		npu_vm_account(job->ctx->vm, cqe->core, cycles);
		return;
	}

	for_each_set_bit(core, &mask, NPU_MAX_CORES)
		npu_vm_account(job->ctx->vm, core, cycles);
}

/* Remember the result in the context, under the queue's lock. */
static void npu_job_record(struct npu_kjob *job, int error, const struct npu_cqe *cqe)
{
	struct npu_ctx *ctx = job->ctx;
	struct npu_result *result = &ctx->results[job->seqno % NPU_CTX_RESULTS];

	memset(result, 0, sizeof(*result));
	result->seqno = job->seqno;
	result->error = error;
	if (cqe) {
		result->cycles = cqe->end_cycle - cqe->start_cycle;
		npu_job_account(job, cqe, result->cycles);
	}

	if (error) {
		/* A job that never ran has no fault to tell. */
		if (!job->skip_error)
			npu_job_fill_fault(job, cqe, &result->fault);
		if (error == -ECANCELED || error == -ENODEV)
			ctx->victims++;
		else
			ctx->errors++;
		if (result->fault.seqno)
			ctx->fault = result->fault;
	}

	atomic64_inc(&ctx->vm->jobs);
	ctx->completed = job->seqno;
}

/**
 * npu_job_finish - a job is done: record the result, signal the fence, wake those who wait
 * @job: job, off the queue's list; the queue's lock is held. It may be gone on return.
 * @error: how it ended
 * @cqe: what the card said, or NULL
 */
void npu_job_finish(struct npu_kjob *job, int error, const struct npu_cqe *cqe)
{
	struct dma_fence *fence = dma_fence_get(job->fence);
	struct npu_ctx *ctx = job->ctx;

	lockdep_assert_held(&ctx->queue.lock);

	if (!job->skip_error)
		npu_load_end(&ctx->npu->load);
	/* Before anyone knows: who has waited for a job can submit the next one. */
	npu_job_uncharge(job);
	npu_job_record(job, error, cqe);
	trace_npu_job_done(job, error, cqe);
	if (error)
		dma_fence_set_error(fence, error);
	dma_fence_signal(fence);
	wake_up_all(&ctx->wait);
	dma_fence_put(fence);
}

/* Running */

/* An in-fence that a job of the same context signals, and that has not yet done so. */
static struct dma_fence *npu_job_own_fence(struct npu_kjob *job, struct dma_fence *fence)
{
	struct drm_sched_fence *s_fence = to_drm_sched_fence(fence);

	if (!s_fence || s_fence->sched != &job->ctx->sched || !s_fence->parent ||
	    dma_fence_is_signaled(s_fence->parent))
		return NULL;

	return dma_fence_get(s_fence->parent);
}

/*
 * The scheduler does not wait for fences of the same entity, since its jobs run in order anyway. An
 * in-fence has to be waited for nevertheless: whether it carries an error decides what to do.
 */
static struct dma_fence *npu_sched_prepare_job(struct drm_sched_job *base,
					       struct drm_sched_entity *entity)
{
	struct npu_kjob *job = to_npu_kjob(base);
	struct dma_fence *fence;
	u32 i;

	for (i = 0; i < job->in_count; i++) {
		fence = npu_job_own_fence(job, job->in_fences[i]);
		if (fence) {
			trace_npu_job_wait(job, fence);
			return fence;
		}
	}

	return NULL;
}

static int npu_job_in_error(struct npu_kjob *job)
{
	u32 i;

	for (i = 0; i < job->in_count; i++) {
		if (npu_fence_error(job->in_fences[i]))
			return -ECANCELED;
	}

	return 0;
}

static struct dma_fence *npu_sched_run_job(struct drm_sched_job *base)
{
	struct npu_kjob *job = to_npu_kjob(base);

	job->started = true;
	atomic_inc(&job->ctx->sched_jobs);
	npu_hw_queue_push(&job->ctx->queue, job, npu_job_in_error(job));

	return dma_fence_get(job->fence);
}

/* Freeing */

/**
 * npu_job_put_resources - free a job and what it holds
 * @job: job, unknown to scheduler and card; may sleep
 */
void npu_job_put_resources(struct npu_kjob *job)
{
	u32 i;

	for (i = 0; i < job->out_count; i++) {
		dma_fence_chain_free(job->out_syncs[i].chain);
		drm_syncobj_put(job->out_syncs[i].syncobj);
	}
	kfree(job->out_syncs);

	for (i = 0; i < job->in_count; i++)
		dma_fence_put(job->in_fences[i]);
	kfree(job->in_fences);

	for (i = 0; i < job->region_count; i++)
		npu_vma_put(job->vmas[i]);
	npu_residency_wake(job->ctx->npu);

	npu_job_uncharge(job);
	npu_user_put(job->user);
	kfree(job->desc);
	dma_fence_put(job->fence);
	kfree(job);
}

static void npu_job_release_work(struct work_struct *work)
{
	struct npu_kjob *job = container_of(work, struct npu_kjob, release_work);
	struct drm_device *drm = &job->ctx->npu->drm;

	npu_job_put_resources(job);
	drm_dev_put(drm);
}

/*
 * The scheduler's fence names the scheduler for as long as it lives. The hardware fence, its
 * parent, keeps the context and so the scheduler; a job that was killed before it ran has none yet.
 */
static void npu_job_adopt(struct npu_kjob *job)
{
	dma_fence_set_error(job->fence, -ECANCELED);
	dma_fence_signal(job->fence);
	job->base.s_fence->parent = dma_fence_get(job->fence);
}

static void npu_sched_free_job(struct drm_sched_job *base)
{
	struct npu_kjob *job = to_npu_kjob(base);
	struct npu_ctx *ctx = job->ctx;
	bool started = job->started;

	if (!started)
		npu_job_adopt(job);
	drm_sched_job_cleanup(base);

	/* The scheduler's work must not wait for locks that are held while memory is allocated. */
	npu_ctx_get(ctx);
	INIT_WORK(&job->release_work, npu_job_release_work);
	queue_work(npu_release_wq, &job->release_work);

	if (started && atomic_dec_and_test(&ctx->sched_jobs))
		wake_up_all(&ctx->wait);
	npu_ctx_put(ctx);
}

const struct drm_sched_backend_ops npu_sched_ops = {
	.prepare_job = npu_sched_prepare_job,
	.run_job = npu_sched_run_job,
	.timedout_job = npu_recover_timedout_job,
	.free_job = npu_sched_free_job,
};
