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
#include "npu_fence.h"
#include "npu_job.h"
#include "npu_recover.h"
#include "npu_residency.h"
#include "npu_trace.h"
#include "npu_vm.h"

/* Frees jobs; of the module, since a job can be the last user of its device. */
static struct workqueue_struct *npu_release_wq;

/* Life before the card */

/**
 * npu_job_alloc - make an empty job
 * @ctx: context
 * @client_id: who asks, for traces
 */
struct npu_sched_job *npu_job_alloc(struct npu_ctx *ctx, u64 client_id)
{
	struct npu_sched_job *job;
	int ret;

	job = kzalloc(sizeof(*job), NPU_GFP_USER);
	if (!job)
		return ERR_PTR(-ENOMEM);

	INIT_LIST_HEAD(&job->link);
	INIT_LIST_HEAD(&job->ctx_link);
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
int npu_job_charge(struct npu_sched_job *job, struct npu_user *user)
{
	int ret = npu_quota_charge(user, NPU_QUOTA_JOBS, 1);

	if (ret)
		return ret;
	job->user = npu_user_get(user);
	job->charged = true;

	return 0;
}

static void npu_job_uncharge(struct npu_sched_job *job)
{
	if (job->charged)
		npu_quota_uncharge(job->user, NPU_QUOTA_JOBS, 1);
	job->charged = false;
}

/**
 * npu_job_discard - undo npu_job_alloc() for a job that was not armed
 * @job: job
 */
void npu_job_discard(struct npu_sched_job *job)
{
	drm_sched_job_cleanup(&job->base);
	npu_job_put_resources(job);
}

/**
 * npu_job_arm - number a job; from here on it has to be pushed
 * @job: job, complete; the context's submit_lock is held until it is pushed
 */
void npu_job_arm(struct npu_sched_job *job)
{
	struct npu_ctx *ctx = job->ctx;
	unsigned long flags;

	lockdep_assert_held(&ctx->submit_lock);

	spin_lock_irqsave(&ctx->queue.lock, flags);
	job->seqno = ++ctx->submitted;
	list_add_tail(&job->ctx_link, &ctx->unfinished);
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	npu_fence_arm(job->fence, job->seqno);
	drm_sched_job_arm(&job->base);
	trace_npu_job_submit(job);
}

/* The end of the context waits for it: not for jobs of users that wait for who knows what. */
static void npu_job_count(struct npu_sched_job *job)
{
	if (!job->counted)
		atomic_inc(&job->ctx->sched_jobs);
	job->counted = true;
}

/**
 * npu_job_push - give a job to the scheduler
 * @job: job, armed; it can be gone on return
 */
void npu_job_push(struct npu_sched_job *job)
{
	/* A job can outlive its file, and even the card; the module is kept by its fence. */
	drm_dev_get(&job->ctx->npu->drm);
	/* The scheduler kills jobs in a work of its own: the driver's own context waits for it. */
	if (job->ctx->internal)
		npu_job_count(job);
	drm_sched_entity_push_job(&job->base);
}

/* Errors */

/**
 * npu_job_error - the errno of a job that the card has finished, or lost
 * @job: job
 * @cqe: what the card said, NULL if the job was on a core when the card was reset
 */
int npu_job_error(const struct npu_sched_job *job, const struct npu_cqe *cqe)
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

static void npu_job_fill_fault(const struct npu_sched_job *job, const struct npu_cqe *cqe,
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
static void npu_job_account(struct npu_sched_job *job, const struct npu_cqe *cqe, u64 cycles)
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
static void npu_job_record(struct npu_sched_job *job, int error, const struct npu_cqe *cqe)
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
void npu_job_finish(struct npu_sched_job *job, int error, const struct npu_cqe *cqe)
{
	struct dma_fence *fence = dma_fence_get(job->fence);
	struct npu_ctx *ctx = job->ctx;

	lockdep_assert_held(&ctx->queue.lock);

	if (!job->skip_error)
		npu_load_end(&ctx->npu->load);
	list_del_init(&job->ctx_link);
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

/**
 * npu_job_add_in_fence - remember a fence whose error cancels a job
 * @job: job with room for it in its arrays
 * @fence: fence, its reference is the job's from here on
 *
 * The scheduler does not wait for fences of the same entity, since its jobs run in order anyway.
 * They have to be waited for nevertheless: whether one carries an error decides what to do. So the
 * hardware fence of such a job is remembered, too.
 */
void npu_job_add_in_fence(struct npu_sched_job *job, struct dma_fence *fence)
{
	struct npu_ctx *ctx = job->ctx;
	struct npu_sched_job *other;
	unsigned long flags;

	job->in_fences[job->in_count++] = fence;

	spin_lock_irqsave(&ctx->queue.lock, flags);
	list_for_each_entry(other, &ctx->unfinished, ctx_link) {
		if (&other->base.s_fence->finished == fence) {
			job->own_fences[job->own_count++] = dma_fence_get(other->fence);
			break;
		}
	}
	spin_unlock_irqrestore(&ctx->queue.lock, flags);
}

static struct dma_fence *npu_sched_prepare_job(struct drm_sched_job *base,
					       struct drm_sched_entity *entity)
{
	struct npu_sched_job *job = to_npu_sched_job(base);
	u32 i;

	for (i = 0; i < job->own_count; i++) {
		if (!dma_fence_is_signaled(job->own_fences[i])) {
			trace_npu_job_wait(job, job->own_fences[i]);
			return dma_fence_get(job->own_fences[i]);
		}
	}

	return NULL;
}

/*
 * Of a job of the same context the hardware fence counts: that one is known to have signalled, the
 * scheduler's may be just about to.
 */
static int npu_job_in_error(struct npu_sched_job *job)
{
	u32 i;

	for (i = 0; i < job->own_count; i++) {
		if (npu_fence_error(job->own_fences[i]))
			return -ECANCELED;
	}
	for (i = 0; i < job->in_count; i++) {
		if (npu_fence_error(job->in_fences[i]))
			return -ECANCELED;
	}

	return 0;
}

static struct dma_fence *npu_sched_run_job(struct drm_sched_job *base)
{
	struct npu_sched_job *job = to_npu_sched_job(base);
	bool cookie = dma_fence_begin_signalling();

	job->started = true;
	npu_job_count(job);
	npu_hw_queue_push(&job->ctx->queue, job, npu_job_in_error(job));
	dma_fence_end_signalling(cookie);

	return dma_fence_get(job->fence);
}

/* Freeing */

/**
 * npu_job_put_resources - free a job and what it holds
 * @job: job, unknown to scheduler and card; may sleep
 */
void npu_job_put_resources(struct npu_sched_job *job)
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
	for (i = 0; i < job->own_count; i++)
		dma_fence_put(job->own_fences[i]);
	kfree(job->own_fences);

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
	struct npu_sched_job *job = container_of(work, struct npu_sched_job, release_work);
	struct drm_device *drm = &job->ctx->npu->drm;

	npu_job_put_resources(job);
	drm_dev_put(drm);
}

/* The end of a job that the scheduler has not started. */
static void npu_job_drop(struct npu_sched_job *job)
{
	unsigned long flags;

	spin_lock_irqsave(&job->ctx->queue.lock, flags);
	list_del_init(&job->ctx_link);
	spin_unlock_irqrestore(&job->ctx->queue.lock, flags);

	dma_fence_set_error(job->fence, -ECANCELED);
	dma_fence_signal(job->fence);
	npu_sched_keep_parent(&job->base, job->fence);
}

static void npu_sched_free_job(struct drm_sched_job *base)
{
	struct npu_sched_job *job = to_npu_sched_job(base);
	struct npu_ctx *ctx = job->ctx;
	bool counted = job->counted;

	if (!job->started)
		npu_job_drop(job);
	drm_sched_job_cleanup(base);

	/* The scheduler's work must not wait for locks that are held while memory is allocated. */
	npu_ctx_get(ctx);
	INIT_WORK(&job->release_work, npu_job_release_work);
	queue_work(npu_release_wq, &job->release_work);

	if (counted && atomic_dec_and_test(&ctx->sched_jobs))
		wake_up_all(&ctx->wait);
	npu_ctx_put(ctx);
}

const struct drm_sched_backend_ops npu_sched_ops = {
	.prepare_job = npu_sched_prepare_job,
	.run_job = npu_sched_run_job,
	.timedout_job = npu_recover_timedout_job,
	.free_job = npu_sched_free_job,
};

/* The module */

/**
 * npu_job_flush_released - wait until all jobs that the scheduler has given back are freed
 */
void npu_job_flush_released(void)
{
	flush_workqueue(npu_release_wq);
}

/**
 * npu_job_module_init - prepare what jobs of all devices share
 */
int npu_job_module_init(void)
{
	npu_release_wq = alloc_workqueue("npu-release", WQ_UNBOUND | WQ_FREEZABLE, 0);

	return npu_release_wq ? 0 : -ENOMEM;
}

/**
 * npu_job_module_exit - undo npu_job_module_init()
 */
void npu_job_module_exit(void)
{
	destroy_workqueue(npu_release_wq);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_NPU_KUNIT_TEST)
#include "npu_job_test.c"
#endif
