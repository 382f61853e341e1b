// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submission: arguments are copied, checked and built into jobs. Once all jobs of a submission are
 * ready, a step that cannot fail queues them.
 *
 * Each structure is copied from user space once, and only the copy is used.
 */
#include <linux/capability.h>
#include <linux/dma-fence-chain.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <drm/drm_exec.h>
#include <drm/drm_syncobj.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_job.h"
#include "qnpu_residency.h"
#include "qnpu_submit.h"
#include "qnpu_vm.h"

static unsigned int qnpu_budget_ms = 10000;
module_param_named(budget_ms, qnpu_budget_ms, uint, 0644);
MODULE_PARM_DESC(budget_ms, "modelled time of a job without a budget of its own, and the most for others, 0: no limit");

/* Largest element of a user's array; later versions may extend elements up to this size. */
#define QNPU_MAX_STRIDE	1024

/* Job lists up to this length are on the stack. */
#define QNPU_FEW_JOBS	8

/* Fences of one context on a buffer: its last reader and its last writer. */
#define QNPU_FENCES_OF_CTX	2

/* The jobs of one submission. */
struct qnpu_batch {
	struct drm_file *file;
	struct qnpu_ctx *ctx;
	struct qnpu_ctx_job **jobs;	/* owned until they are queued */
	u32 count;			/* jobs built so far */
	u32 points;			/* timeline points that they signal */
	u64 first;			/* seqno of the first job, once queued */
	struct dma_fence **fences;	/* receives a reference to each job's fence, or NULL */
	bool nonblock;			/* returns -EAGAIN instead of blocking on room or locks */
	u32 handle;			/* the last buffer looked up; 0: none */
	struct qnpu_vma *vma;		/* its mapping; a job holds the reference */
};

/* Returns the mapping of the next region of all jobs, from *@i and *@r on, or NULL. */
static struct qnpu_vma *qnpu_batch_next(const struct qnpu_batch *batch, u32 *i, u32 *r)
{
	for (; *i < batch->count; ++*i, *r = 0) {
		if (*r < batch->jobs[*i]->region_count)
			return batch->jobs[*i]->vmas[(*r)++];
	}

	return NULL;
}

/* Copying */

static bool qnpu_stride_is_valid(u32 stride, size_t size)
{
	return stride >= size && stride <= QNPU_MAX_STRIDE && IS_ALIGNED(stride, sizeof(u64));
}

/*
 * Copy element @i of a user's array. Fields unknown to the kernel must be zero. The constant @size
 * spares the usual copy the check of its destination.
 */
static __always_inline int qnpu_copy_element(void *to, const size_t size, u64 array, u32 stride,
					     u32 i)
{
	const void __user *from = u64_to_user_ptr(array + (u64)i * stride);
	int ret;

	if (stride == size)
		return copy_from_user(to, from, size) ? -EFAULT : 0;
	if (!qnpu_stride_is_valid(stride, size))
		return -EINVAL;
	ret = copy_struct_from_user(to, size, from, stride);

	return ret == -E2BIG ? -EINVAL : ret;
}

/* Returns true if a range is within @size, without overflow. */
static bool qnpu_range_is_inside(u64 offset, u64 bytes, u64 size)
{
	return offset <= size && bytes <= size - offset;
}

/* Building */

/* Returns a handle's mapping, with a reference. Jobs of a submission often share a buffer. */
static struct qnpu_vma *qnpu_batch_vma(struct qnpu_batch *batch, u32 handle)
{
	struct drm_gem_object *obj;
	struct qnpu_vma *vma;

	if (batch->vma && batch->handle == handle) {
		kref_get(&batch->vma->kref);
		return batch->vma;
	}

	obj = drm_gem_object_lookup(batch->file, handle);
	if (!obj)
		return ERR_PTR(-ENOENT);
	/* A file with a context has an address space. */
	vma = qnpu_vma_find(to_qnpu_file(batch->file)->vm, gem_to_qnpu_bo(obj));
	drm_gem_object_put(obj);
	if (!vma)
		return ERR_PTR(-ENOENT);
	batch->vma = vma;
	batch->handle = handle;

	return vma;
}

static int qnpu_job_add_region(struct qnpu_batch *batch, struct qnpu_ctx_job *job,
			       const struct drm_npu_region *args, struct npu_region *region)
{
	struct qnpu_vma *vma;

	if (!args->access || args->access & ~(DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE))
		return -EINVAL;
	vma = qnpu_batch_vma(batch, args->handle);
	if (IS_ERR(vma))
		return PTR_ERR(vma);
	if (args->access & DRM_NPU_REGION_WRITE)
		job->write_mask |= BIT_ULL(job->region_count);
	job->vmas[job->region_count++] = vma;	/* the job owns the reference now */

	if (!args->size || !qnpu_range_is_inside(args->offset, args->size, vma->bo->tbo.base.size))
		return -EINVAL;
	region->va = vma->node.start + args->offset;
	region->bytes = args->size;
	region->access = args->access;

	return 0;
}

static int qnpu_check_stream(const struct qnpu_ctx_job *job, const struct npu_region *regions,
			     u32 region, u32 count, u64 offset)
{
	if (!count)
		return region || offset ? -EINVAL : 0;

	if (count > NPU_MAX_STREAM_COMMANDS || region >= job->region_count ||
	    !(regions[region].access & NPU_ACCESS_READ) || !IS_ALIGNED(offset, NPU_CMD_BYTES) ||
	    !qnpu_range_is_inside(offset, (u64)count * NPU_CMD_BYTES, regions[region].bytes))
		return -EINVAL;

	return 0;
}

static int qnpu_job_add_stream(const struct qnpu_ctx_job *job, const struct drm_npu_stream *args,
			       const struct npu_region *regions, struct npu_stream *stream)
{
	int ret;

	ret = qnpu_check_stream(job, regions, args->tiu_region, args->tiu_count,
				args->tiu_offset) ?:
	      qnpu_check_stream(job, regions, args->gdma_region, args->gdma_count,
				args->gdma_offset);
	if (ret)
		return ret;

	stream->tiu_offset = args->tiu_offset;
	stream->gdma_offset = args->gdma_offset;
	stream->tiu_count = args->tiu_count;
	stream->gdma_count = args->gdma_count;
	stream->tiu_region = args->tiu_region;
	stream->gdma_region = args->gdma_region;

	return 0;
}

static int qnpu_job_add_profile(const struct qnpu_ctx_job *job, const struct drm_npu_job *args,
				const struct npu_region *regions, struct npu_job *desc)
{
	const struct npu_region *region;

	if (!args->profile_bytes)
		return args->profile_region || args->profile_offset ? -EINVAL : 0;

	if (args->profile_region >= job->region_count ||
	    args->profile_bytes < sizeof(struct npu_profile_header) ||
	    !IS_ALIGNED(args->profile_offset, sizeof(u64)))
		return -EINVAL;
	region = &regions[args->profile_region];
	if (!(region->access & NPU_ACCESS_WRITE) ||
	    !qnpu_range_is_inside(args->profile_offset, args->profile_bytes, region->bytes))
		return -EINVAL;

	desc->flags |= NPU_JOB_PROFILE;
	desc->profile_region = args->profile_region;
	desc->profile_offset = args->profile_offset;
	desc->profile_bytes = args->profile_bytes;

	return 0;
}

/* Modelled cycles that a job may use; bounded, since a job holds its cores until it ends. */
static u64 qnpu_job_budget(const struct qnpu_device *npu, u64 wanted)
{
	u64 most = (u64)READ_ONCE(qnpu_budget_ms) * npu->info.clock_khz;

	if (!wanted || !most)
		return wanted ?: most;

	return wanted <= most || capable(CAP_SYS_RESOURCE) ? wanted : most;
}

static int qnpu_job_build(struct qnpu_batch *batch, struct qnpu_ctx_job *job,
			  const struct drm_npu_job *args)
{
	struct npu_job *desc = job->desc;
	struct npu_stream *streams = (void *)(desc + 1);
	struct npu_region *regions = (void *)(streams + args->stream_count);
	struct drm_npu_region region;
	struct drm_npu_stream stream;
	u32 i;
	int ret;

	for (i = 0; i < args->region_count; i++) {
		ret = qnpu_copy_element(&region, sizeof(region), args->regions,
					args->region_stride, i);
		ret = ret ?: qnpu_job_add_region(batch, job, &region, &regions[i]);
		if (ret)
			return ret;
	}

	for (i = 0; i < args->stream_count; i++) {
		ret = qnpu_copy_element(&stream, sizeof(stream), args->streams,
					args->stream_stride, i);
		ret = ret ?: qnpu_job_add_stream(job, &stream, regions, &streams[i]);
		if (ret)
			return ret;
	}

	desc->magic = NPU_JOB_MAGIC;
	desc->version = NPU_JOB_VERSION;
	desc->flags = NPU_JOB_IRQ;
	desc->stream_count = args->stream_count;
	desc->region_count = args->region_count;
	desc->core_mask = args->core_mask ?: batch->ctx->core_mask;
	desc->budget = qnpu_job_budget(batch->ctx->npu, args->budget);

	return qnpu_job_add_profile(job, args, regions, desc);
}

static int qnpu_job_add_in_sync(struct qnpu_batch *batch, struct qnpu_ctx_job *job,
				const struct drm_npu_sync *sync)
{
	struct dma_fence *fence;
	int ret = drm_syncobj_find_fence(batch->file, sync->handle, sync->point, 0, &fence);

	if (!ret)
		qnpu_job_add_in_fence(job, fence);

	return ret;
}

static int qnpu_job_add_out_sync(struct qnpu_batch *batch, struct qnpu_ctx_job *job,
				 const struct drm_npu_sync *sync)
{
	struct qnpu_out_sync *out = &job->out_syncs[job->out_count];

	out->syncobj = drm_syncobj_find(batch->file, sync->handle);
	if (!out->syncobj)
		return -ENOENT;
	job->out_count++;

	if (!sync->point)
		return 0;
	if (++batch->points > QNPU_SUBMIT_MAX_POINTS)
		return -EINVAL;
	out->point = sync->point;
	out->chain = dma_fence_chain_alloc();

	return out->chain ? 0 : -ENOMEM;
}

/* The lookup of a point walks the timeline, whose length user space controls. */
static int qnpu_job_add_syncs(struct qnpu_batch *batch, struct qnpu_ctx_job *job,
			      const struct drm_npu_job *args)
{
	u32 i, ins = args->in_sync_count, count = ins + args->out_sync_count;
	struct drm_npu_sync sync;
	int ret;

	for (i = 0; i < count; i++) {
		ret = qnpu_copy_element(&sync, sizeof(sync),
					i < ins ? args->in_syncs : args->out_syncs,
					args->sync_stride, i < ins ? i : i - ins);
		if (ret)
			return ret;
		if (sync.flags)
			return -EINVAL;
		ret = i < ins ? qnpu_job_add_in_sync(batch, job, &sync) :
				qnpu_job_add_out_sync(batch, job, &sync);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}

	return 0;
}

static int qnpu_job_check(const struct qnpu_ctx *ctx, const struct drm_npu_job *args)
{
	u32 cores = hweight32(args->core_mask ?: ctx->core_mask);

	if (args->pad || args->flags & ~DRM_NPU_JOB_EXPLICIT ||
	    args->region_count > NPU_MAX_REGIONS || args->in_sync_count > QNPU_JOB_MAX_SYNCS ||
	    args->out_sync_count > QNPU_JOB_MAX_SYNCS || args->core_mask & ~ctx->core_mask)
		return -EINVAL;

	if (!(ctx->npu->info.features & NPU_FEATURE_GANG))
		cores = 1;

	return args->stream_count && args->stream_count <= cores ? 0 : -EINVAL;
}

/* After an error the batch owns the incomplete job, too. */
static int qnpu_batch_add_job(struct qnpu_batch *batch, const struct drm_npu_job *args)
{
	const struct qnpu_job_shape shape = {
		.streams = args->stream_count,
		.regions = args->region_count,
		.in_syncs = args->in_sync_count,
		.out_syncs = args->out_sync_count,
	};
	struct qnpu_ctx_job *job;
	int ret;

	ret = qnpu_job_check(batch->ctx, args);
	if (ret)
		return ret;
	job = qnpu_job_alloc(batch->ctx, &shape);
	if (IS_ERR(job))
		return PTR_ERR(job);
	batch->jobs[batch->count++] = job;
	job->explicit = args->flags & DRM_NPU_JOB_EXPLICIT;
	ret = qnpu_job_build(batch, job, args);

	return ret ?: qnpu_job_add_syncs(batch, job, args);
}

static int qnpu_batch_add_jobs(struct qnpu_batch *batch, const struct drm_npu_submit *args)
{
	struct drm_npu_job job;
	u32 i;
	int ret;

	for (i = 0; i < args->job_count; i++) {
		ret = qnpu_copy_element(&job, sizeof(job), args->jobs, args->job_stride, i);
		ret = ret ?: qnpu_batch_add_job(batch, &job);
		if (ret)
			return ret;
	}

	return 0;
}

/* Commit: under all reservation locks, assign seqnos and publish fences */

/* Returns true if a job overwrites an entire buffer without reading it. */
static bool qnpu_job_replaces(const struct qnpu_ctx_job *job, u32 r)
{
	const struct npu_job *desc = job->desc;
	const struct npu_stream *streams = (const void *)(desc + 1);
	const struct npu_region *regions = (const void *)(streams + desc->stream_count);

	return regions[r].access == NPU_ACCESS_WRITE &&
	       regions[r].bytes == job->vmas[r]->bo->tbo.base.size;
}

static int qnpu_job_check_buffers(struct qnpu_ctx_job *job)
{
	u32 r;
	int ret;

	for (r = 0; r < job->region_count; r++) {
		struct qnpu_bo *bo = job->vmas[r]->bo;
		bool write = job->write_mask & BIT_ULL(r);

		if (write && (bo->sealed || bo->flags & DRM_NPU_BO_READONLY))
			return -EACCES;
		if (qnpu_bo_is_lost(bo) && !qnpu_job_replaces(job, r))
			return -ENODATA;
		/* Explicit jobs must wait for the zeroing, too. */
		ret = qnpu_job_add_buffer_fences(job, bo->tbo.base.resv,
						 job->explicit ? DMA_RESV_USAGE_KERNEL :
								 dma_resv_usage_rw(write));
		if (ret)
			return ret;
	}

	return 0;
}

/* Number a job and publish its fence; it must be pushed afterwards. */
static void qnpu_job_commit(struct qnpu_ctx_job *job)
{
	u32 r;

	qnpu_job_arm(job);
	for (r = 0; r < job->region_count; r++) {
		struct qnpu_bo *bo = job->vmas[r]->bo;
		bool write = job->write_mask & BIT_ULL(r);

		dma_resv_add_fence(bo->tbo.base.resv, job->fence,
				   write ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ);
		/* Not one that has been lost since qnpu_job_check_buffers(). */
		if (qnpu_bo_is_lost(bo) && qnpu_job_replaces(job, r))
			qnpu_bo_restored(bo, false, READ_ONCE(job->ctx->npu->losses));
	}
}

static int qnpu_batch_commit_locked(struct qnpu_batch *batch)
{
	u32 i;
	int ret;

	for (i = 0; i < batch->count; i++) {
		ret = qnpu_job_check_buffers(batch->jobs[i]);
		if (ret)
			return ret;
	}

	/* No failure is possible from here on. */
	batch->first = batch->ctx->submitted + 1;
	for (i = 0; i < batch->count; i++) {
		qnpu_job_commit(batch->jobs[i]);
		if (batch->fences)
			batch->fences[i] = dma_fence_get(batch->jobs[i]->fence);
	}

	return 0;
}

static int qnpu_batch_lock_buffers(struct qnpu_batch *batch, struct drm_exec *exec)
{
	struct qnpu_vma *vma;
	int ret = 0;

	drm_exec_until_all_locked(exec) {
		u32 i = 0, r = 0;

		while ((vma = qnpu_batch_next(batch, &i, &r))) {
			ret = drm_exec_prepare_obj(exec, &vma->bo->tbo.base, QNPU_FENCES_OF_CTX);
			drm_exec_retry_on_contention(exec);
			if (ret)
				return ret;
		}
	}

	return ret;
}

/* Lock all buffers, make them resident, and commit. */
static int qnpu_batch_attempt(struct qnpu_batch *batch, struct qnpu_residency *residency)
{
	int ret = READ_ONCE(batch->ctx->dead);
	struct drm_exec exec;
	struct qnpu_vma *vma;
	u32 i = 0, r = 0;

	if (!ret && fatal_signal_pending(current))
		ret = -EINTR;
	if (ret)
		return ret;

	drm_exec_init(&exec, DRM_EXEC_INTERRUPTIBLE_WAIT | DRM_EXEC_IGNORE_DUPLICATES, 0);
	ret = qnpu_batch_lock_buffers(batch, &exec);
	while (!ret && (vma = qnpu_batch_next(batch, &i, &r)))
		ret = qnpu_residency_add(vma);
	if (ret == -ENOSPC) {
		qnpu_residency_queue(residency);
		for (i = 0, r = 0; (vma = qnpu_batch_next(batch, &i, &r));)
			qnpu_residency_use(residency, vma->bo);
	} else if (!ret) {
		ret = qnpu_batch_commit_locked(batch);
	}
	drm_exec_fini(&exec);

	return ret;
}

static int qnpu_batch_commit(struct qnpu_batch *batch)
{
	struct qnpu_residency residency;
	int ret;

	qnpu_residency_init(&residency, batch->ctx);
	do {
		ret = qnpu_batch_attempt(batch, &residency);
		if (ret)
			ret = qnpu_residency_retry(&residency, ret);
	} while (ret == -EAGAIN);
	qnpu_residency_leave(&residency);

	return ret;
}

/*
 * Commit without blocking, which drm_exec does not support. The ticket tells buffers locked here
 * from those locked by another thread.
 */
static int qnpu_batch_try_commit(struct qnpu_batch *batch)
{
	struct ww_acquire_ctx ticket;
	struct qnpu_vma *vma;
	u32 i = 0, r = 0;
	int ret = 0;

	ww_acquire_init(&ticket, &reservation_ww_class);
	while (!ret && (vma = qnpu_batch_next(batch, &i, &r))) {
		struct dma_resv *resv = vma->bo->tbo.base.resv;

		if (dma_resv_locking_ctx(resv) != &ticket &&
		    !ww_mutex_trylock(&resv->lock, &ticket))
			ret = -EAGAIN;
		ret = ret ?: qnpu_residency_try_add(vma);
		ret = ret ?: dma_resv_reserve_fences(resv, QNPU_FENCES_OF_CTX);
	}
	if (!ret)
		ret = qnpu_batch_commit_locked(batch);

	for (i = 0, r = 0; (vma = qnpu_batch_next(batch, &i, &r));) {
		if (dma_resv_locking_ctx(vma->bo->tbo.base.resv) == &ticket)
			dma_resv_unlock(vma->bo->tbo.base.resv);
	}
	ww_acquire_fini(&ticket);

	return ret;
}

/* Queueing */

static bool qnpu_ctx_has_room(struct qnpu_ctx *ctx, u32 count)
{
	u64 completed = READ_ONCE(ctx->completed);

	smp_rmb(); /* in this order, so that @completed never exceeds @submitted */

	return READ_ONCE(ctx->submitted) - completed + count <= QNPU_CTX_MAX_JOBS ||
	       READ_ONCE(ctx->dead);
}

/*
 * Store the fence in the job's out-syncs. Adding a point walks all unsignalled points, so no shared
 * lock is held, and the number of points is bounded.
 */
static void qnpu_job_signal_syncs(struct qnpu_ctx_job *job)
{
	u32 i;

	for (i = 0; i < job->out_count; i++) {
		struct qnpu_out_sync *out = &job->out_syncs[i];

		if (out->chain) {
			drm_syncobj_add_point(out->syncobj, out->chain, job->fence, out->point);
			cond_resched();
		} else {
			drm_syncobj_replace_fence(out->syncobj, job->fence);
		}
		/* Not in the job's completion, which may be in an interrupt handler. */
		drm_syncobj_put(out->syncobj);
	}
	job->out_count = 0;
}

/* Take submit_lock, with room for the jobs. Threads that wait for room hold it. */
static int qnpu_batch_lock_ctx(struct qnpu_batch *batch)
{
	struct qnpu_ctx *ctx = batch->ctx;
	int ret;

	if (batch->nonblock) {
		if (!mutex_trylock(&ctx->submit_lock))
			return -EAGAIN;
		ret = qnpu_ctx_has_room(ctx, batch->count) ? 0 : -EAGAIN;
	} else {
		ret = mutex_lock_interruptible(&ctx->submit_lock);
		if (ret)
			return ret;
		ret = wait_event_interruptible(ctx->wait, qnpu_ctx_has_room(ctx, batch->count));
	}
	if (ret)
		mutex_unlock(&ctx->submit_lock);

	return ret;
}

static int qnpu_batch_queue(struct qnpu_batch *batch)
{
	struct qnpu_ctx *ctx = batch->ctx;
	u32 i;
	int ret;

	ret = qnpu_batch_lock_ctx(batch);
	if (ret)
		return ret;

	/* Fast path: no lock is contended, and all buffers are resident. */
	ret = READ_ONCE(ctx->dead) ?: qnpu_batch_try_commit(batch);
	if (ret == -EAGAIN && !batch->nonblock)
		ret = qnpu_batch_commit(batch);

	/*
	 * Push after the buffers are unlocked. A pushed job may finish at once, and drop the last
	 * reference to a buffer, which must not happen under reservation locks.
	 */
	for (i = 0; !ret && i < batch->count; i++)
		qnpu_job_signal_syncs(batch->jobs[i]);
	if (!ret)
		qnpu_job_push(ctx, batch->jobs, batch->count);
	mutex_unlock(&ctx->submit_lock);

	return ret;
}

static int qnpu_write_seqnos(const struct drm_npu_submit *args, u64 first)
{
	u32 i;

	for (i = 0; i < args->job_count; i++) {
		u64 __user *to = u64_to_user_ptr(args->jobs + (u64)i * args->job_stride +
						 offsetof(struct drm_npu_job, seqno));

		if (put_user(first ? first + i : 0, to))
			return -EFAULT;
	}

	return 0;
}

/* The checks of a submission that need no context, among them the number of jobs. */
int qnpu_submit_check(const struct drm_npu_submit *args)
{
	bool valid = !args->flags && args->job_count && args->job_count <= QNPU_SUBMIT_MAX_JOBS &&
		     qnpu_stride_is_valid(args->job_stride, sizeof(struct drm_npu_job));

	return valid ? 0 : -EINVAL;
}

/*
 * Submits jobs. @args: private copy that passed qnpu_submit_check(). @nonblock: -EAGAIN instead of
 * blocking on room in the context or on a lock. @fences: zeroed array for the fences of all jobs,
 * or NULL; the caller puts its entries, also after an error.
 */
int qnpu_submit(struct drm_file *file, const struct drm_npu_submit *args, bool nonblock,
		struct dma_fence **fences)
{
	struct qnpu_ctx *ctx __free(qnpu_ctx) = qnpu_ctx_lookup(file, args->ctx_id);
	struct qnpu_ctx_job *few[QNPU_FEW_JOBS];
	struct qnpu_batch batch = {
		.file = file, .ctx = ctx, .jobs = few, .fences = fences, .nonblock = nonblock,
	};
	u32 i;
	int ret;

	if (!ctx)
		return -ENOENT;
	/* Fail early, before any job is built. */
	if (nonblock && !qnpu_ctx_has_room(ctx, args->job_count))
		return -EAGAIN;
	if (args->job_count > QNPU_FEW_JOBS)
		batch.jobs = kmalloc_array(args->job_count, sizeof(*batch.jobs), GFP_KERNEL);
	if (!batch.jobs)
		return -ENOMEM;

	ret = qnpu_batch_add_jobs(&batch, args);
	/* Faults show up now, while nothing is queued yet. */
	ret = ret ?: qnpu_write_seqnos(args, 0);
	ret = ret ?: qnpu_batch_queue(&batch);
	if (!ret) {
		atomic64_inc(&to_qnpu_file(file)->vm->submissions);
		ret = qnpu_write_seqnos(args, batch.first);
	} else {
		for (i = 0; i < batch.count; i++)
			qnpu_job_discard(batch.jobs[i]);
	}
	if (batch.jobs != few)
		kfree(batch.jobs);

	return ret;
}

/* DRM_IOCTL_NPU_SUBMIT */
int qnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	int ret = qnpu_submit_check(data);

	return ret ?: qnpu_submit(file, data, false, NULL);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_submit_test.c"
#endif
