// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs from submission to completion: fences, dependencies, results, and release of resources.
 *
 * A queue runs its jobs in submission order. The submit call itself queues a job whose fences have
 * signalled; a job with unsignalled fences, and all later ones, are waiting jobs. Fences of the
 * same context need no callback, because the queue checks them after each completion. Callbacks of
 * foreign fences count down, and the last one queues a work.
 *
 * A fence may outlive file, context and device, so it holds references to its context and to the
 * module. Fences of the driver's own context are never exported and do not pin the module.
 * qnpu_exit() waits until the last module_put() has returned.
 */
#include <linux/bitfield.h>
#include <linux/dma-fence-chain.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <drm/drm_print.h>
#include <drm/drm_syncobj.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_job.h"
#include "qnpu_residency.h"
#include "qnpu_trace.h"
#include "qnpu_vm.h"

/* For release_work of jobs and kick_work of contexts; global, since jobs may outlive the device. */
static struct workqueue_struct *qnpu_release_wq;
static struct workqueue_struct *qnpu_kick_wq;

/* Fences */

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
	struct qnpu_ctx *ctx = container_of(base, struct qnpu_fence, base)->ctx;
	bool internal = ctx->internal;

	qnpu_ctx_put(ctx);
	dma_fence_free(base);
	if (!internal)
		module_put(THIS_MODULE);
}

static const struct dma_fence_ops qnpu_fence_ops = {
	.get_driver_name = qnpu_fence_driver_name,
	.get_timeline_name = qnpu_fence_timeline_name,
	.release = qnpu_fence_release,
};

/* The seqno is assigned when the job is armed. */
static struct dma_fence *qnpu_fence_create(struct qnpu_ctx *ctx)
{
	struct qnpu_fence *fence = kzalloc_obj(*fence, QNPU_GFP_USER);

	if (!fence)
		return NULL;
	/* The caller runs in an ioctl of this module, so it is pinned. */
	if (!ctx->internal)
		__module_get(THIS_MODULE);
	fence->ctx = qnpu_ctx_get(ctx);
	dma_fence_init(&fence->base, &qnpu_fence_ops, &ctx->fence_lock, ctx->fence_context, 0);

	return &fence->base;
}

/* Returns the error of a signalled fence; a dma_fence_chain link has none itself. */
int qnpu_fence_error(struct dma_fence *fence)
{
	int status = dma_fence_get_status(dma_fence_chain_contained(fence));

	return status < 0 ? status : 0;
}

/* Submission */

/* Allocate a job with its arrays, and all resources that its completion needs. */
struct qnpu_ctx_job *qnpu_job_alloc(struct qnpu_ctx *ctx, const struct qnpu_job_shape *shape)
{
	size_t desc_bytes = sizeof(struct npu_job) + shape->streams * sizeof(struct npu_stream) +
			    shape->regions * sizeof(struct npu_region);
	size_t in_deps = ALIGN(sizeof(struct qnpu_ctx_job), sizeof(u64));
	size_t out_syncs = in_deps + shape->in_syncs * sizeof(struct qnpu_dep);
	size_t vmas = out_syncs + shape->out_syncs * sizeof(struct qnpu_out_sync);
	size_t desc = vmas + shape->regions * sizeof(struct qnpu_vma *);
	struct qnpu_ctx_job *job;

	job = kvzalloc(desc + desc_bytes, QNPU_GFP_USER);
	if (!job)
		return ERR_PTR(-ENOMEM);

	job->large = desc + desc_bytes > PAGE_SIZE;
	job->in_deps = (void *)job + in_deps;
	job->out_syncs = (void *)job + out_syncs;
	job->vmas = (void *)job + vmas;
	job->desc = (void *)job + desc;
	job->desc_bytes = desc_bytes;
	refcount_set(&job->refs, 1);
	atomic_set(&job->pending, 1);
	INIT_LIST_HEAD(&job->link);
	job->ctx = ctx;
	job->fence = qnpu_fence_create(ctx);
	if (!job->fence) {
		kvfree(job);
		return ERR_PTR(-ENOMEM);
	}

	return job;
}

/* Undo qnpu_job_alloc() of a job that is not armed. */
void qnpu_job_discard(struct qnpu_ctx_job *job)
{
	u32 i;

	for (i = 0; i < job->out_count; i++) {
		dma_fence_chain_free(job->out_syncs[i].chain);
		drm_syncobj_put(job->out_syncs[i].syncobj);
	}
	qnpu_job_put(job);
}

/* Assign the seqno of a complete job; submit_lock is held until the push that must follow. */
void qnpu_job_arm(struct qnpu_ctx_job *job)
{
	struct qnpu_ctx *ctx = job->ctx;

	lockdep_assert_held(&ctx->submit_lock);

	job->seqno = ctx->submitted + 1;
	WRITE_ONCE(ctx->submitted, job->seqno);
	job->fence->seqno = job->seqno;
	trace_qnpu_job_submit(job);
}

/* In-fences */

/* Returns true if only jobs of @ctx signal @fence; @last is then their last seqno. */
static bool qnpu_job_is_own_fence(const struct qnpu_ctx *ctx, struct dma_fence *fence, u64 *last)
{
	struct dma_fence *link;

	*last = 0;
	dma_fence_chain_for_each(link, fence) {
		const struct dma_fence *of_job = dma_fence_chain_contained(link);

		if (of_job->context != ctx->fence_context) {
			dma_fence_put(link);
			return false;
		}
		*last = max(*last, of_job->seqno);
	}

	return true;
}

/*
 * Add an in-fence, whose error cancels the job. Takes over the reference. Fences of the same
 * context are added, too, because a fence has its error only once signalled.
 */
void qnpu_job_add_in_fence(struct qnpu_ctx_job *job, struct dma_fence *fence)
{
	struct qnpu_dep *dep;
	u64 last;

	if (dma_fence_is_signaled(fence)) {
		if (qnpu_fence_error(fence))
			job->in_error = -ECANCELED;
		dma_fence_put(fence);
		return;
	}

	dep = &job->in_deps[job->in_count++];
	dep->fence = fence;
	dep->job = job;
	dep->next = job->deps;
	job->deps = dep;
	if (qnpu_job_is_own_fence(job->ctx, fence, &last))
		job->after = max(job->after, last);
	else
		dep->listens = true;
}

/* Keep only the last fence of each timeline. */
static bool qnpu_job_merge_implicit(struct qnpu_ctx_job *job, struct dma_fence *fence)
{
	struct qnpu_dep *dep;

	for (dep = job->deps; dep; dep = dep->next) {
		if (!dep->implicit || dep->fence->context != fence->context)
			continue;
		if (dma_fence_is_later(fence, dep->fence)) {
			dma_fence_put(dep->fence);
			dep->fence = dma_fence_get(fence);
		}
		return true;
	}

	return false;
}

/* Add the fences in a buffer's locked @resv, except those of the same context. */
int qnpu_job_add_buffer_fences(struct qnpu_ctx_job *job, struct dma_resv *resv,
			       enum dma_resv_usage usage)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	struct qnpu_dep *dep;

	dma_resv_for_each_fence(&cursor, resv, usage, fence) {
		if (fence->context == job->ctx->fence_context || dma_fence_is_signaled(fence) ||
		    qnpu_job_merge_implicit(job, fence))
			continue;

		dep = kzalloc_obj(*dep, QNPU_GFP_USER);
		if (!dep)
			return -ENOMEM;
		dep->fence = dma_fence_get(fence);
		dep->job = job;
		dep->listens = true;
		dep->implicit = true;
		dep->next = job->deps;
		job->deps = dep;
	}

	return 0;
}

/* Queue the context's kick_work, which holds its own reference. */
void qnpu_job_kick(struct qnpu_ctx *ctx)
{
	qnpu_ctx_get(ctx);
	if (!queue_work(qnpu_kick_wq, &ctx->kick_work))
		qnpu_ctx_put(ctx);
}

/* Runs in any context. The job lives until the callback is removed or has returned. */
static void qnpu_dep_signaled(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct qnpu_ctx_job *job = container_of(cb, struct qnpu_dep, cb)->job;

	if (atomic_dec_and_test(&job->pending))
		qnpu_job_kick(job->ctx);
}

static void qnpu_job_listen(struct qnpu_ctx_job *job)
{
	struct qnpu_dep *dep;

	for (dep = job->deps; dep; dep = dep->next) {
		if (dep->listens) {
			atomic_inc(&job->pending);
			if (dma_fence_add_callback(dep->fence, &dep->cb, qnpu_dep_signaled)) {
				atomic_dec(&job->pending);
				dep->listens = false;
				continue;
			}
		}
		trace_qnpu_job_wait(job, dep->fence);
	}
}

/* Push armed jobs in order to their queue, under submit_lock. They may be freed on return. */
void qnpu_job_push(struct qnpu_ctx *ctx, struct qnpu_ctx_job **jobs, u32 count)
{
	bool cookie = dma_fence_begin_signalling();
	u32 i;

	for (i = 0; i < count; i++)
		qnpu_job_listen(jobs[i]);
	qnpu_hw_queue_push(&ctx->queue, jobs, count);
	dma_fence_end_signalling(cookie);
}

/* Remove all callbacks of a waiting job; those that cannot be removed have returned. */
void qnpu_job_stop_listening(struct qnpu_ctx_job *job)
{
	struct qnpu_dep *dep;

	for (dep = job->deps; dep; dep = dep->next) {
		if (dep->listens)
			dma_fence_remove_callback(dep->fence, &dep->cb);
		dep->listens = false;
	}
}

/* Returns true if all in-fences have signalled. The queue's lock is held. */
bool qnpu_job_is_ready(const struct qnpu_ctx_job *job)
{
	return !atomic_read(&job->pending) && job->ctx->completed >= job->after;
}

/* Returns the errno of a ready job with a failed in-fence, else 0. */
int qnpu_job_in_error(const struct qnpu_ctx_job *job)
{
	const struct qnpu_dep *dep;

	if (job->in_error)
		return job->in_error;
	for (dep = job->deps; dep; dep = dep->next) {
		if (!dep->implicit && qnpu_fence_error(dep->fence))
			return -ECANCELED;
	}

	return 0;
}

/* Results */

/* Returns the errno of a job that the device has finished or lost. */
static int qnpu_job_error(const struct qnpu_ctx_job *job, const struct npu_cqe *cqe)
{
	switch (cqe ? cqe->status : NPU_STATUS_ABORTED) {
	case NPU_STATUS_OK:
		return 0;
	case NPU_STATUS_BUDGET:
		return -ETIME;
	case NPU_STATUS_ABORTED:
	case NPU_STATUS_CORE_RESET:
		return READ_ONCE(job->killed) ? -ETIME : -ECANCELED;
	default:
		return -EIO;
	}
}

/* Returns the cause of an abort, or of the reset that cancelled the job. */
static u32 qnpu_job_cause(const struct qnpu_ctx_job *job, int error, const struct npu_cqe *cqe)
{
	u32 killed = READ_ONCE(job->killed);

	if (error == -ENODEV)
		return DRM_NPU_CAUSE_LOST;
	if (killed)
		return killed;
	if (READ_ONCE(job->ctx->dead))
		return DRM_NPU_CAUSE_DESTROYED;
	/* Another job caused a core reset, or the queue was stopped or has failed. */
	if (cqe || job->ctx->queue.error)
		return DRM_NPU_CAUSE_RECOVERY;

	return READ_ONCE(job->ctx->npu->reset_cause);
}

static void qnpu_job_fill_fault(const struct qnpu_ctx_job *job, int error,
				const struct npu_cqe *cqe, struct drm_npu_fault *fault)
{
	BUILD_BUG_ON(DRM_NPU_REGION_READ != NPU_ACCESS_READ);
	BUILD_BUG_ON(DRM_NPU_REGION_WRITE != NPU_ACCESS_WRITE);

	memset(fault, 0, sizeof(*fault));
	fault->seqno = job->seqno;
	if (!cqe || cqe->status == NPU_STATUS_ABORTED || cqe->status == NPU_STATUS_CORE_RESET)
		fault->cause = qnpu_job_cause(job, error, cqe);
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
 * A core's busy time with a job starts once the card has the job, and earlier jobs of queue and
 * core are complete. So busy times of a core never overlap.
 */
static u64 qnpu_job_busy_ns(const struct qnpu_ctx_job *job, u32 core)
{
	const struct qnpu_hw_queue *queue = &job->ctx->queue;
	atomic64_t *done = &job->ctx->npu->counters.done_ns[core];
	s64 begin, now = queue->done_ns, last = atomic64_read(done);

	do {
		begin = max_t(s64, last, now - queue->job_ns);
		if (begin >= now)
			return 0;
	} while (!atomic64_try_cmpxchg(done, &last, now));

	return now - begin;
}

/*
 * A job occupies all its cores throughout. The completion names them; for a lost job they are known
 * only if it could not choose.
 */
static void qnpu_job_account(const struct qnpu_ctx_job *job, const struct npu_cqe *cqe, u64 cycles)
{
	const struct npu_job *desc = job->desc;
	unsigned long mask = desc->core_mask;
	struct qnpu_vm *vm = job->ctx->vm;
	unsigned int core;

	if (cqe)
		mask &= FIELD_GET(NPU_CQE_CORES, cqe->phase);
	else if (hweight_long(mask) != desc->stream_count)
		return;

	for_each_set_bit(core, &mask, NPU_MAX_CORES) {
		atomic64_add(cycles, &vm->cycles[core]);
		atomic64_add(qnpu_job_busy_ns(job, core), &vm->busy_ns[core]);
	}
}

/* Record the result in the context, under the queue's lock. */
static void qnpu_job_record(struct qnpu_ctx_job *job, int error, const struct npu_cqe *cqe)
{
	struct qnpu_ctx *ctx = job->ctx;
	struct qnpu_result *result = &ctx->results[job->seqno % QNPU_CTX_RESULTS];

	result->error = error;
	result->cycles = cqe ? cqe->end_cycle - cqe->start_cycle : 0;

	/* The cores are unknown for a job that has not started. */
	if (ctx->vm && (cqe || job->begun))
		qnpu_job_account(job, cqe, result->cycles);

	if (error) {
		/* A job that never ran has no fault details. */
		if (!job->skip_error)
			qnpu_job_fill_fault(job, error, cqe,
					    &ctx->faults[ctx->fault_count++ % QNPU_CTX_FAULTS]);
		if (error == -ECANCELED || error == -ENODEV)
			ctx->victims++;
		else
			ctx->errors++;
	}
	/* The jobs of an orphan outlive the address space. */
	if (ctx->vm)
		atomic64_inc(&ctx->vm->jobs);
	WRITE_ONCE(ctx->completed, job->seqno);
}

/*
 * Complete a job that is off the queue's list: record the result, signal the fence, wake waiters,
 * drop the queue's reference. @error: errno of a job that did not finish on the device, or 0.
 */
void qnpu_job_finish(struct qnpu_ctx_job *job, int error, const struct npu_cqe *cqe)
{
	struct qnpu_ctx *ctx = job->ctx;

	lockdep_assert_held(&ctx->queue.lock);

	error = error ?: qnpu_job_error(job, cqe);
	qnpu_job_record(job, error, cqe);
	trace_qnpu_job_done(job, error, cqe);
	if (error)
		dma_fence_set_error(job->fence, error);
	if (job->skip_error)
		dma_fence_signal(job->fence);
	else
		dma_fence_signal_timestamp(job->fence, ns_to_ktime(ctx->queue.done_ns));
	if (wq_has_sleeper(&ctx->wait))
		wake_up_all(&ctx->wait);
	qnpu_job_put(job);
}

/* Release */

static void qnpu_job_free(struct qnpu_ctx_job *job)
{
	struct qnpu_dep *dep, *next;

	for (dep = job->deps; dep; dep = next) {
		next = dep->next;
		dma_fence_put(dep->fence);
		if (dep->implicit)
			kfree(dep);
	}
	qnpu_residency_wake(job->ctx->npu);
	dma_fence_put(job->fence);
	kvfree(job);
}

static void qnpu_job_release_work(struct work_struct *work)
{
	struct qnpu_ctx_job *job = container_of(work, struct qnpu_ctx_job, release_work);
	struct drm_device *drm = &job->ctx->npu->drm;
	struct qnpu_vm *vm = job->releases;

	while (job->region_count)
		qnpu_vma_put(job->vmas[--job->region_count]);
	qnpu_job_free(job);
	if (vm)
		qnpu_vm_released(vm);
	drm_dev_put(drm);
}

/* Drop a reference, in any context. A work drops last references to mappings. */
void qnpu_job_put(struct qnpu_ctx_job *job)
{
	if (!refcount_dec_and_test(&job->refs))
		return;
	/* Mappings with other references are dropped without locks. */
	while (job->region_count &&
	       refcount_dec_not_one(&job->vmas[job->region_count - 1]->kref.refcount))
		job->region_count--;
	if (!job->region_count && !job->large) {
		qnpu_job_free(job);
		return;
	}

	/* The close of the file waits for this. */
	if (job->region_count) {
		job->releases = qnpu_vm_get(job->vmas[0]->vm);
		atomic_inc(&job->releases->releasing);
	}
	/* The job may outlive file and card; its fence pins the module. */
	drm_dev_get(&job->ctx->npu->drm);
	INIT_WORK(&job->release_work, qnpu_job_release_work);
	queue_work(qnpu_release_wq, &job->release_work);
}

/* Module */

int qnpu_job_module_init(void)
{
	qnpu_release_wq = alloc_workqueue("qnpu-release", WQ_UNBOUND, 0);
	if (!qnpu_release_wq)
		return -ENOMEM;
	qnpu_kick_wq = alloc_workqueue("qnpu-kick", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!qnpu_kick_wq) {
		destroy_workqueue(qnpu_release_wq);
		return -ENOMEM;
	}

	return 0;
}

void qnpu_job_module_exit(void)
{
	destroy_workqueue(qnpu_kick_wq);
	destroy_workqueue(qnpu_release_wq);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_job_test.c"
#endif
