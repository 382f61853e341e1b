// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submission: what user space asks for is copied, checked and made into jobs; when all of a
 * submission's jobs are ready, they are queued in a step that cannot fail.
 *
 * Every structure is copied once, and only the copy is looked at.
 */
#include <linux/capability.h>
#include <linux/dma-fence-chain.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <drm/drm_exec.h>
#include <drm/drm_print.h>
#include <drm/drm_syncobj.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_fence.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_job.h"
#include "qnpu_params.h"
#include "qnpu_residency.h"
#include "qnpu_submit.h"
#include "qnpu_vm.h"

/* An element of a user's array may grow in later versions, but not without end. */
#define QNPU_MAX_STRIDE	1024

/* Jobs of a submission that need no memory of their own to be listed. */
#define QNPU_FEW_JOBS	8

/* Fences that one context can have on a buffer: its last reader and its last writer. */
#define QNPU_FENCES_OF_CTX	2

/** struct qnpu_batch - the jobs of one submission */
struct qnpu_batch {
	/** @ctx: context, with a reference */
	struct qnpu_ctx *ctx;

	/** @jobs: the jobs, owned until they are queued */
	struct qnpu_ctx_job **jobs;

	/** @count: jobs made */
	u32 count;

	/** @points: points of timelines that they signal */
	u32 points;

	/** @first: number of the first job, once queued */
	u64 first;

	/** @fences: gets a reference to the fence of each job, or NULL */
	struct dma_fence **fences;

	/** @nonblock: -EAGAIN instead of waiting for room or for a lock */
	bool nonblock;

	/** @handle: the buffer that was looked up last, while jobs are made; 0: none */
	u32 handle;

	/** @vma: its mapping; a job has the reference */
	struct qnpu_vma *vma;
};

/* Copying */

static bool qnpu_stride_is_valid(u32 stride, size_t size)
{
	return stride >= size && stride <= QNPU_MAX_STRIDE && IS_ALIGNED(stride, sizeof(u64));
}

/* What the kernel does not know of a larger element must be zero. */
static noinline int qnpu_copy_larger(void *to, size_t size, const void __user *from, u32 stride)
{
	int ret = copy_struct_from_user(to, size, from, stride);

	return ret == -E2BIG ? -EINVAL : ret;
}

/*
 * Copy element @i of a user's array. Mostly user space knows the same fields: with a size that the
 * compiler knows, too, the copy needs no check of where it goes.
 */
static __always_inline int qnpu_copy_element(void *to, const size_t size, u64 array, u32 stride,
					     u32 i)
{
	const void __user *from = u64_to_user_ptr(array + (u64)i * stride);

	if (stride != size)
		return qnpu_copy_larger(to, size, from, stride);

	return copy_from_user(to, from, size) ? -EFAULT : 0;
}

/* A range inside of something of a given size, without overflow. */
static bool qnpu_range_is_inside(u64 offset, u64 bytes, u64 size)
{
	return offset <= size && bytes <= size - offset;
}

/* Regions */

static struct qnpu_vma *qnpu_vma_lookup(struct drm_file *file, u32 handle)
{
	struct qnpu_vm *vm = qnpu_file_vm(file);
	struct drm_gem_object *obj;
	struct qnpu_vma *vma;

	if (IS_ERR(vm))
		return ERR_CAST(vm);

	obj = drm_gem_object_lookup(file, handle);
	if (!obj)
		return ERR_PTR(-ENOENT);
	vma = qnpu_vma_find(vm, gem_to_qnpu_bo(obj));
	drm_gem_object_put(obj);

	return vma ?: ERR_PTR(-ENOENT);
}

/*
 * The mapping of a handle, with a reference. Jobs of one submission name the same buffers again and
 * again: their commands, mostly.
 */
static struct qnpu_vma *qnpu_batch_vma(struct qnpu_batch *batch, struct drm_file *file, u32 handle)
{
	struct qnpu_vma *vma;

	if (batch->vma && batch->handle == handle) {
		kref_get(&batch->vma->kref);
		return batch->vma;
	}

	vma = qnpu_vma_lookup(file, handle);
	if (!IS_ERR(vma)) {
		batch->vma = vma;
		batch->handle = handle;
	}

	return vma;
}

static int qnpu_job_add_region(struct qnpu_ctx_job *job, struct qnpu_batch *batch,
			       struct drm_file *file, const struct drm_npu_region *args,
			       struct npu_region *region)
{
	struct qnpu_vma *vma;
	u32 index = job->region_count;

	if (!args->access || args->access & ~(DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE))
		return -EINVAL;

	vma = qnpu_batch_vma(batch, file, args->handle);
	if (IS_ERR(vma))
		return PTR_ERR(vma);

	/* From here on the job has the reference. */
	job->vmas[index] = vma;
	job->region_count++;

	if (!args->size || !qnpu_range_is_inside(args->offset, args->size, vma->bo->tbo.base.size))
		return -EINVAL;

	region->va = vma->node.start + args->offset;
	region->bytes = args->size;
	region->access = args->access;
	if (args->access & DRM_NPU_REGION_WRITE)
		job->write_mask |= BIT_ULL(index);

	return 0;
}

static int qnpu_job_add_regions(struct qnpu_ctx_job *job, struct qnpu_batch *batch,
				struct drm_file *file, const struct drm_npu_job *args,
				struct npu_region *regions)
{
	struct drm_npu_region region;
	u32 i;
	int ret;

	if (args->region_count && !qnpu_stride_is_valid(args->region_stride, sizeof(region)))
		return -EINVAL;

	for (i = 0; i < args->region_count; i++) {
		ret = qnpu_copy_element(&region, sizeof(region), args->regions,
					args->region_stride, i);
		if (ret)
			return ret;
		ret = qnpu_job_add_region(job, batch, file, &region, &regions[i]);
		if (ret)
			return ret;
	}

	return 0;
}

/* Streams */

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

static int qnpu_job_add_stream(const struct qnpu_ctx_job *job, const struct drm_npu_job *args,
			       u32 i, const struct npu_region *regions,
			       struct npu_stream *stream)
{
	struct drm_npu_stream user;
	int ret;

	ret = qnpu_copy_element(&user, sizeof(user), args->streams, args->stream_stride, i);
	if (ret)
		return ret;

	ret = qnpu_check_stream(job, regions, user.tiu_region, user.tiu_count, user.tiu_offset);
	if (ret)
		return ret;
	ret = qnpu_check_stream(job, regions, user.gdma_region, user.gdma_count, user.gdma_offset);
	if (ret)
		return ret;

	stream->tiu_offset = user.tiu_offset;
	stream->gdma_offset = user.gdma_offset;
	stream->tiu_count = user.tiu_count;
	stream->gdma_count = user.gdma_count;
	stream->tiu_region = user.tiu_region;
	stream->gdma_region = user.gdma_region;

	return 0;
}

static int qnpu_job_add_streams(const struct qnpu_ctx_job *job, const struct drm_npu_job *args,
				const struct npu_region *regions, struct npu_stream *streams)
{
	u32 i;
	int ret;

	if (!qnpu_stride_is_valid(args->stream_stride, sizeof(struct drm_npu_stream)))
		return -EINVAL;

	for (i = 0; i < args->stream_count; i++) {
		ret = qnpu_job_add_stream(job, args, i, regions, &streams[i]);
		if (ret)
			return ret;
	}

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

/*
 * Modelled cycles that a job may use. A job has its cores for itself until its end, so that users
 * cannot be left to say how long that is.
 */
static u64 qnpu_job_budget(const struct qnpu_device *npu, u64 wanted)
{
	u64 most = (u64)READ_ONCE(qnpu_budget_ms) * npu->info.clock_khz;

	if (!wanted || !most)
		return wanted ?: most;

	return wanted <= most || capable(CAP_SYS_RESOURCE) ? wanted : most;
}

static int qnpu_job_build(struct qnpu_ctx_job *job, struct qnpu_batch *batch,
			  struct drm_file *file, const struct drm_npu_job *args)
{
	struct npu_job *desc = job->desc;
	struct npu_stream *streams = (void *)(desc + 1);
	struct npu_region *regions = (void *)(streams + args->stream_count);
	struct qnpu_ctx *ctx = job->ctx;
	int ret;

	ret = qnpu_job_add_regions(job, batch, file, args, regions);
	if (ret)
		return ret;
	ret = qnpu_job_add_streams(job, args, regions, streams);
	if (ret)
		return ret;

	desc->magic = NPU_JOB_MAGIC;
	desc->version = NPU_JOB_VERSION;
	desc->flags = NPU_JOB_IRQ;
	desc->stream_count = args->stream_count;
	desc->region_count = args->region_count;
	desc->core_mask = args->core_mask ?: ctx->core_mask;
	desc->budget = qnpu_job_budget(ctx->npu, args->budget);

	return qnpu_job_add_profile(job, args, regions, desc);
}

/* Syncobjs */

static int qnpu_job_add_in_sync(struct qnpu_ctx_job *job, struct drm_file *file,
				const struct drm_npu_sync *sync)
{
	struct dma_fence *fence;
	int ret;

	ret = drm_syncobj_find_fence(file, sync->handle, sync->point, 0, &fence);
	if (ret)
		return ret;

	qnpu_job_add_in_fence(job, fence);

	return 0;
}

static int qnpu_job_add_out_sync(struct qnpu_ctx_job *job, struct qnpu_batch *batch,
				 struct drm_file *file, const struct drm_npu_sync *sync)
{
	struct qnpu_out_sync *out = &job->out_syncs[job->out_count];

	out->syncobj = drm_syncobj_find(file, sync->handle);
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

/* Looking for a point walks along a timeline, which is as long as its users have made it. */
static int qnpu_job_add_syncs(struct qnpu_ctx_job *job, struct qnpu_batch *batch,
			      struct drm_file *file, const struct drm_npu_job *args)
{
	u32 i, count = args->in_sync_count + args->out_sync_count;
	struct drm_npu_sync sync;
	int ret;

	if (count && !qnpu_stride_is_valid(args->sync_stride, sizeof(sync)))
		return -EINVAL;

	for (i = 0; i < count; i++) {
		bool in = i < args->in_sync_count;

		ret = qnpu_copy_element(&sync, sizeof(sync), in ? args->in_syncs : args->out_syncs,
					args->sync_stride, in ? i : i - args->in_sync_count);
		if (ret)
			return ret;
		if (sync.flags)
			return -EINVAL;

		if (in)
			ret = qnpu_job_add_in_sync(job, file, &sync);
		else
			ret = qnpu_job_add_out_sync(job, batch, file, &sync);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}

	return 0;
}

/* Jobs */

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

static struct qnpu_ctx_job *qnpu_job_create(struct qnpu_batch *batch, struct drm_file *file,
					    const struct drm_npu_job *args)
{
	const struct qnpu_job_shape shape = {
		.streams = args->stream_count,
		.regions = args->region_count,
		.in_syncs = args->in_sync_count,
		.out_syncs = args->out_sync_count,
	};
	struct qnpu_ctx *ctx = batch->ctx;
	struct qnpu_ctx_job *job;
	int ret;

	ret = qnpu_job_check(ctx, args);
	if (ret)
		return ERR_PTR(ret);

	job = qnpu_job_alloc(ctx, &shape);
	if (IS_ERR(job))
		return job;
	job->explicit = args->flags & DRM_NPU_JOB_EXPLICIT;

	ret = qnpu_job_build(job, batch, file, args);
	if (!ret)
		ret = qnpu_job_add_syncs(job, batch, file, args);
	if (ret) {
		qnpu_job_discard(job);
		return ERR_PTR(ret);
	}

	return job;
}

/* Queueing */

static bool qnpu_ctx_has_room(struct qnpu_ctx *ctx, u32 count)
{
	u64 completed = READ_ONCE(ctx->completed);

	smp_rmb(); /* in this order: never more completed than submitted */

	return READ_ONCE(ctx->submitted) - completed + count <= QNPU_CTX_MAX_JOBS ||
	       READ_ONCE(ctx->dead);
}

static int qnpu_batch_lock_buffers(struct qnpu_batch *batch, struct drm_exec *exec)
{
	u32 i, r;
	int ret = 0;

	drm_exec_until_all_locked(exec) {
		for (i = 0; i < batch->count; i++) {
			struct qnpu_ctx_job *job = batch->jobs[i];

			for (r = 0; r < job->region_count; r++) {
				ret = drm_exec_prepare_obj(exec, &job->vmas[r]->bo->tbo.base,
							   QNPU_FENCES_OF_CTX);
				drm_exec_retry_on_contention(exec);
				if (ret)
					return ret;
			}
		}
	}

	return ret;
}

static int qnpu_batch_make_resident(struct qnpu_batch *batch)
{
	u32 i, r;
	int ret;

	for (i = 0; i < batch->count; i++) {
		for (r = 0; r < batch->jobs[i]->region_count; r++) {
			ret = qnpu_residency_add(batch->jobs[i]->vmas[r]);
			if (ret)
				return ret;
		}
	}

	return 0;
}

/* With all buffers locked, where the card has no room. */
static void qnpu_batch_claim(struct qnpu_batch *batch, struct qnpu_residency *residency)
{
	u32 i, r;

	qnpu_residency_queue(residency);
	for (i = 0; i < batch->count; i++) {
		for (r = 0; r < batch->jobs[i]->region_count; r++)
			qnpu_residency_use(residency, batch->jobs[i]->vmas[r]->bo);
	}
}

/* Lock all buffers, once they are all where the jobs use them. */
static int qnpu_batch_lock(struct qnpu_batch *batch, struct qnpu_residency *residency,
			   struct drm_exec *exec)
{
	int ret;

	do {
		ret = READ_ONCE(batch->ctx->dead);
		if (!ret && fatal_signal_pending(current))
			ret = -EINTR;
		if (ret)
			break;
		drm_exec_init(exec, DRM_EXEC_INTERRUPTIBLE_WAIT | DRM_EXEC_IGNORE_DUPLICATES, 0);
		ret = qnpu_batch_lock_buffers(batch, exec);
		if (!ret)
			ret = qnpu_batch_make_resident(batch);
		if (ret) {
			if (ret == -ENOSPC)
				qnpu_batch_claim(batch, residency);
			drm_exec_fini(exec);
			ret = qnpu_residency_retry(residency, ret);
		}
	} while (ret == -EAGAIN);

	if (ret)
		qnpu_residency_leave(residency);

	return ret;
}

/*
 * The same without waiting for anybody, for which drm_exec has no form. The ticket tells the
 * buffers that are locked already from those that somebody else has locked.
 */
static int qnpu_vma_trylock(struct qnpu_vma *vma, struct ww_acquire_ctx *ticket)
{
	struct dma_resv *resv = vma->bo->tbo.base.resv;
	int ret;

	if (dma_resv_locking_ctx(resv) != ticket && !ww_mutex_trylock(&resv->lock, ticket))
		return -EAGAIN;

	ret = qnpu_residency_try_add(vma);
	if (ret)
		return ret;

	return dma_resv_reserve_fences(resv, QNPU_FENCES_OF_CTX);
}

static int qnpu_batch_trylock_buffers(struct qnpu_batch *batch, struct ww_acquire_ctx *ticket)
{
	u32 i, r;
	int ret = 0;

	for (i = 0; i < batch->count && !ret; i++) {
		struct qnpu_ctx_job *job = batch->jobs[i];

		for (r = 0; r < job->region_count && !ret; r++)
			ret = qnpu_vma_trylock(job->vmas[r], ticket);
	}

	return ret;
}

static void qnpu_batch_unlock_buffers(struct qnpu_batch *batch, struct ww_acquire_ctx *ticket)
{
	u32 i, r;

	for (i = 0; i < batch->count; i++) {
		struct qnpu_ctx_job *job = batch->jobs[i];

		for (r = 0; r < job->region_count; r++) {
			struct dma_resv *resv = job->vmas[r]->bo->tbo.base.resv;

			if (dma_resv_locking_ctx(resv) == ticket)
				dma_resv_unlock(resv);
		}
	}
}

/* Does a job replace all of a buffer, which it does not read? */
static bool qnpu_job_replaces(const struct qnpu_ctx_job *job, u32 r)
{
	const struct npu_job *desc = job->desc;
	const struct npu_stream *streams = (const void *)(desc + 1);
	const struct npu_region *regions = (const void *)(streams + desc->stream_count);

	return regions[r].access == NPU_ACCESS_WRITE &&
	       regions[r].bytes == job->vmas[r]->bo->tbo.base.size;
}

/* The checks that need the buffers locked. */
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
		/* Nobody sees memory before it is zeroed. */
		ret = qnpu_job_add_buffer_fences(job, bo->tbo.base.resv,
						 job->explicit ? DMA_RESV_USAGE_KERNEL :
								 dma_resv_usage_rw(write));
		if (ret)
			return ret;
	}

	return 0;
}

static void qnpu_job_publish(struct qnpu_ctx_job *job)
{
	struct dma_fence *fence = job->fence;
	u32 i;

	for (i = 0; i < job->region_count; i++) {
		bool write = job->write_mask & BIT_ULL(i);
		struct qnpu_bo *bo = job->vmas[i]->bo;

		dma_resv_add_fence(bo->tbo.base.resv, fence,
				   write ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ);
		if (qnpu_bo_is_lost(bo))
			qnpu_bo_restored(bo, false);
	}
}

/* Number the job and let its fence be seen: from here on it has to be pushed. */
static void qnpu_job_commit(struct qnpu_ctx_job *job)
{
	qnpu_job_arm(job);
	qnpu_job_publish(job);
}

/* With all buffers locked: give them the jobs' fences. */
static int qnpu_batch_commit_locked(struct qnpu_batch *batch)
{
	u32 i;
	int ret;

	for (i = 0; i < batch->count; i++) {
		ret = qnpu_job_check_buffers(batch->jobs[i]);
		if (ret)
			return ret;
	}

	/* No way back from here. */
	batch->first = batch->ctx->submitted + 1;
	for (i = 0; i < batch->count; i++) {
		qnpu_job_commit(batch->jobs[i]);
		if (batch->fences)
			batch->fences[i] = dma_fence_get(batch->jobs[i]->fence);
	}

	return 0;
}

static int qnpu_batch_commit(struct qnpu_batch *batch)
{
	struct qnpu_residency residency;
	struct drm_exec exec;
	int ret;

	qnpu_residency_init(&residency, batch->ctx);
	ret = qnpu_batch_lock(batch, &residency, &exec);
	if (ret)
		return ret;

	ret = qnpu_batch_commit_locked(batch);
	drm_exec_fini(&exec);
	qnpu_residency_leave(&residency);

	return ret;
}

static int qnpu_batch_try_commit(struct qnpu_batch *batch)
{
	struct ww_acquire_ctx ticket;
	int ret;

	ww_acquire_init(&ticket, &reservation_ww_class);
	ret = qnpu_batch_trylock_buffers(batch, &ticket);
	if (!ret)
		ret = qnpu_batch_commit_locked(batch);
	qnpu_batch_unlock_buffers(batch, &ticket);
	ww_acquire_fini(&ticket);

	return ret;
}

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
		/* Not at the end of the job, in a context that this is not for. */
		drm_syncobj_put(out->syncobj);
	}
	job->out_count = 0;
}

/*
 * Give the out-syncs the fences of their jobs, and the jobs to their queue. A new point walks along
 * all points that have not signalled: nobody else waits for a lock meanwhile, and there are not
 * many of them in one submission.
 */
static void qnpu_batch_push(struct qnpu_batch *batch)
{
	u32 i;

	for (i = 0; i < batch->count; i++)
		qnpu_job_signal_syncs(batch->jobs[i]);
	qnpu_job_push(batch->ctx, batch->jobs, batch->count);
}

/* Get the context's lock, with room for the jobs. */
static int qnpu_batch_lock_ctx(struct qnpu_batch *batch)
{
	struct qnpu_ctx *ctx = batch->ctx;
	int ret;

	ret = mutex_lock_interruptible(&ctx->submit_lock);
	if (ret)
		return ret;

	ret = wait_event_interruptible(ctx->wait, qnpu_ctx_has_room(ctx, batch->count));
	if (ret)
		mutex_unlock(&ctx->submit_lock);

	return ret;
}

/* Whoever waits for room has the lock, so nobody is overtaken by those that cannot wait. */
static int qnpu_batch_trylock_ctx(struct qnpu_batch *batch)
{
	struct qnpu_ctx *ctx = batch->ctx;

	if (!mutex_trylock(&ctx->submit_lock))
		return -EAGAIN;
	if (qnpu_ctx_has_room(ctx, batch->count))
		return 0;
	mutex_unlock(&ctx->submit_lock);

	return -EAGAIN;
}

static int qnpu_batch_queue(struct qnpu_batch *batch)
{
	struct qnpu_ctx *ctx = batch->ctx;
	int ret;

	ret = batch->nonblock ? qnpu_batch_trylock_ctx(batch) : qnpu_batch_lock_ctx(batch);
	if (ret)
		return ret;

	/* Mostly nobody else has a lock, and all buffers are where they belong. */
	ret = READ_ONCE(ctx->dead) ?: qnpu_batch_try_commit(batch);
	if (ret == -EAGAIN && !batch->nonblock)
		ret = qnpu_batch_commit(batch);

	/*
	 * Only now that the buffers are unlocked: a job keeps its buffers, and is perhaps finished
	 * at once. A buffer's last reference must not go while others of the lot are locked.
	 */
	if (!ret)
		qnpu_batch_push(batch);
	mutex_unlock(&ctx->submit_lock);

	return ret;
}

static int qnpu_batch_create_jobs(struct qnpu_batch *batch, struct drm_file *file,
				  const struct drm_npu_submit *args)
{
	struct drm_npu_job job_args;
	struct qnpu_ctx_job *job;
	u32 i;
	int ret;

	for (i = 0; i < args->job_count; i++) {
		ret = qnpu_copy_element(&job_args, sizeof(job_args), args->jobs, args->job_stride,
					i);
		if (ret)
			return ret;

		job = qnpu_job_create(batch, file, &job_args);
		if (IS_ERR(job))
			return PTR_ERR(job);
		batch->jobs[batch->count++] = job;
	}

	return 0;
}

/* Where user space wants the number of job @i. */
static u64 __user *qnpu_seqno_pointer(const struct drm_npu_submit *args, u32 i)
{
	return u64_to_user_ptr(args->jobs + (u64)i * args->job_stride +
			       offsetof(struct drm_npu_job, seqno));
}

static int qnpu_write_seqnos(const struct drm_npu_submit *args, u64 first)
{
	u32 i;

	for (i = 0; i < args->job_count; i++) {
		if (put_user(first ? first + i : 0, qnpu_seqno_pointer(args, i)))
			return -EFAULT;
	}

	return 0;
}

/**
 * qnpu_submit_check - the checks of a submission that need no context
 * @args: private copy of what user space asks for
 *
 * Afterwards the number of jobs is believed.
 */
int qnpu_submit_check(const struct drm_npu_submit *args)
{
	if (args->flags || !args->job_count || args->job_count > QNPU_SUBMIT_MAX_JOBS ||
	    !qnpu_stride_is_valid(args->job_stride, sizeof(struct drm_npu_job)))
		return -EINVAL;

	return 0;
}

static int qnpu_batch_submit(struct qnpu_batch *batch, struct drm_file *file,
			     const struct drm_npu_submit *args)
{
	u32 i;
	int ret;

	/* All the work for nothing is spared where it can be foreseen. */
	if (batch->nonblock && !qnpu_ctx_has_room(batch->ctx, args->job_count))
		return -EAGAIN;

	ret = qnpu_batch_create_jobs(batch, file, args);
	/* Memory that cannot be written is found now, when nothing is queued yet. */
	if (!ret)
		ret = qnpu_write_seqnos(args, 0);
	if (!ret)
		ret = qnpu_batch_queue(batch);
	if (!ret) {
		atomic64_inc(&to_qnpu_file(file)->vm->submissions);
		return qnpu_write_seqnos(args, batch->first);
	}

	for (i = 0; i < batch->count; i++)
		qnpu_job_discard(batch->jobs[i]);

	return ret;
}

/**
 * qnpu_submit - submit jobs
 * @file: caller
 * @args: private copy of what user space asks for, qnpu_submit_check() passed
 * @nonblock: return -EAGAIN where the call would wait for room in the context, or for a lock
 * @fences: room for the fences of all jobs, zeroed, or NULL; the caller puts those that it finds,
 *	after an error too
 */
int qnpu_submit(struct drm_file *file, const struct drm_npu_submit *args, bool nonblock,
		struct dma_fence **fences)
{
	struct qnpu_batch batch = { .fences = fences, .nonblock = nonblock };
	struct qnpu_ctx_job *few[QNPU_FEW_JOBS];
	int ret = -ENOMEM;

	batch.ctx = qnpu_ctx_lookup(file, args->ctx_id);
	if (!batch.ctx)
		return -ENOENT;

	batch.jobs = few;
	if (args->job_count > QNPU_FEW_JOBS)
		batch.jobs = kmalloc_array(args->job_count, sizeof(*batch.jobs), GFP_KERNEL);
	if (batch.jobs)
		ret = qnpu_batch_submit(&batch, file, args);

	if (batch.jobs != few)
		kfree(batch.jobs);
	qnpu_ctx_put(batch.ctx);

	return ret;
}

/**
 * qnpu_ioctl_submit - DRM_IOCTL_NPU_SUBMIT
 * @drm: device
 * @data: struct drm_npu_submit
 * @file: caller
 */
int qnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_submit *args = data;
	int ret;

	ret = qnpu_submit_check(args);
	if (ret)
		return ret;

	return qnpu_submit(file, args, false, NULL);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_submit_test.c"
#endif
