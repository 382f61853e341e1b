/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_COMPAT_H
#define NPU_COMPAT_H

/*
 * Differences between kernels, bridged in one place. npu_compat_config.h is made by
 * npu_compat_probe.sh, which asks the compiler: version numbers lie where distributions backport.
 */
#include <linux/dma-fence.h>
#include <linux/io_uring/cmd.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>

#include <drm/gpu_scheduler.h>
#include <drm/ttm/ttm_bo.h>

#include "npu_compat_config.h"

#ifdef NPU_HAVE_GPU_BUDDY
#include <linux/gpu_buddy.h>

#define npu_buddy			gpu_buddy
#define npu_buddy_block			gpu_buddy_block
#define npu_buddy_init			gpu_buddy_init
#define npu_buddy_fini			gpu_buddy_fini
#define npu_buddy_alloc_blocks		gpu_buddy_alloc_blocks
#define npu_buddy_free_list(mm, list)	gpu_buddy_free_list(mm, list, 0)
#define npu_buddy_block_offset		gpu_buddy_block_offset
#define npu_buddy_block_size		gpu_buddy_block_size
#else
#include <drm/drm_buddy.h>

#define npu_buddy			drm_buddy
#define npu_buddy_block			drm_buddy_block
#define npu_buddy_init			drm_buddy_init
#define npu_buddy_fini			drm_buddy_fini
#define npu_buddy_alloc_blocks		drm_buddy_alloc_blocks
#define npu_buddy_free_list(mm, list)	drm_buddy_free_list(mm, list, 0)
#define npu_buddy_block_offset		drm_buddy_block_offset
#define npu_buddy_block_size		drm_buddy_block_size
#endif

/**
 * struct npu_sched_config - what drm_sched_init() is told, whatever its form
 * @ops: callbacks
 * @submit_wq: queue of the submission and cleanup work
 * @timeout_wq: queue of the watchdog
 * @credit_limit: jobs on the card at once
 * @timeout: watchdog period, jiffies
 * @name: name of the scheduler
 * @dev: device, for messages
 */
struct npu_sched_config {
	const struct drm_sched_backend_ops *ops;
	struct workqueue_struct *submit_wq;
	struct workqueue_struct *timeout_wq;
	u32 credit_limit;
	long timeout;
	const char *name;
	struct device *dev;
};

static inline int npu_sched_init(struct drm_gpu_scheduler *sched,
				 const struct npu_sched_config *config)
{
#ifdef NPU_HAVE_SCHED_INIT_ARGS
	const struct drm_sched_init_args args = {
		.ops = config->ops,
		.submit_wq = config->submit_wq,
		.timeout_wq = config->timeout_wq,
		.num_rqs = 1,
		.credit_limit = config->credit_limit,
		.timeout = config->timeout,
		.name = config->name,
		.dev = config->dev,
	};

	return drm_sched_init(sched, &args);
#else
	return drm_sched_init(sched, config->ops, config->submit_wq, 1, config->credit_limit, 0,
			      config->timeout, config->timeout_wq, NULL, config->name,
			      config->dev);
#endif
}

static inline int npu_sched_job_init(struct drm_sched_job *job, struct drm_sched_entity *entity,
				     void *owner, u64 client_id)
{
#ifdef NPU_HAVE_SCHED_JOB_CLIENT_ID
	return drm_sched_job_init(job, entity, 1, owner, client_id);
#else
	return drm_sched_job_init(job, entity, 1, owner);
#endif
}

/**
 * npu_sched_put_back - answer of timedout_job() for a job that stays where it is
 * @job: the job that the scheduler took off its list of pending jobs
 * @start: start the scheduler's work; not while somebody relies on its being stopped
 *
 * Schedulers with DRM_GPU_SCHED_STAT_NO_HANG put the job back themselves. The others have to be
 * helped: the job goes back to the head of the list, and since it may have finished meanwhile,
 * when nobody saw it in the list, the cleanup work is started. Linux 6.17 made this unnecessary.
 */
static inline enum drm_gpu_sched_stat npu_sched_put_back(struct drm_sched_job *job, bool start)
{
#ifdef NPU_HAVE_SCHED_NO_HANG
	return DRM_GPU_SCHED_STAT_NO_HANG;
#else
	struct drm_gpu_scheduler *sched = job->sched;

	spin_lock(&sched->job_list_lock);
	list_add(&job->list, &sched->pending_list);
	spin_unlock(&sched->job_list_lock);
	if (start)
		drm_sched_wqueue_start(sched);

	return DRM_GPU_SCHED_STAT_NOMINAL;
#endif
}

/**
 * npu_sched_drop_dependency - make an entity wait for nothing
 * @entity: entity, its scheduler's work stopped
 *
 * drm_sched_entity_fini() does this, too, but puts the fence a second time if the fence signals in
 * the very moment. The jobs themselves still know what they wait for.
 *
 * Mended by upstream/0001-drm-sched-put-the-dependency-of-an-entity-once.patch.
 */
static inline void npu_sched_drop_dependency(struct drm_sched_entity *entity)
{
	struct dma_fence *fence;

	rcu_read_lock();
	fence = READ_ONCE(entity->dependency);
	if (fence)
		fence = dma_fence_get_rcu(fence);
	rcu_read_unlock();

	if (fence && dma_fence_remove_callback(fence, &entity->cb)) {
		entity->dependency = NULL;
		dma_fence_put(fence); /* the callback's */
	}
	if (fence)
		dma_fence_put(fence);

	/* A callback that could not be removed is running or has run, and clears the field. */
	while (READ_ONCE(entity->dependency))
		cpu_relax();
}

/**
 * npu_sched_keep_parent - a scheduler's fence keeps its scheduler
 * @job: job that was killed before it was run, and so has no parent
 * @fence: its hardware fence, whose context embeds the scheduler
 *
 * Where a fence is asked for its name even after it has signalled, as before Linux 6.17, that of
 * the scheduler reads it from the scheduler.
 */
static inline void npu_sched_keep_parent(struct drm_sched_job *job, struct dma_fence *fence)
{
#ifndef NPU_HAVE_FENCE_NAMES
	job->s_fence->parent = dma_fence_get(fence);
#endif
}

/* No pages from the DMA API's pools, none below 4 GiB. */
#ifdef NPU_HAVE_TTM_ALLOC_FLAGS
#define npu_ttm_device_init(ttm, funcs, dev, mapping, offsets) \
	ttm_device_init(ttm, funcs, dev, mapping, offsets, 0)
#else
#define npu_ttm_device_init(ttm, funcs, dev, mapping, offsets) \
	ttm_device_init(ttm, funcs, dev, mapping, offsets, false, false)
#endif

#ifdef NPU_HAVE_URING_SQE_CMD_TYPE
#define npu_io_uring_sqe_cmd(sqe, type)	io_uring_sqe_cmd(sqe, type)
#else
#define npu_io_uring_sqe_cmd(sqe, type)	((const type *)io_uring_sqe_cmd(sqe))
#endif

static inline void npu_io_uring_cmd_done(struct io_uring_cmd *cmd, int ret,
					 unsigned int issue_flags)
{
#ifdef NPU_HAVE_URING_DONE_RES2
	io_uring_cmd_done(cmd, ret, 0, issue_flags);
#else
	io_uring_cmd_done(cmd, ret, issue_flags);
#endif
}

/*
 * NPU_IO_URING_TASK_WORK(name, func) - make func(cmd, issue_flags)
 * the callback @name for io_uring_cmd_do_in_task_lazy()
 */
#ifdef NPU_HAVE_URING_TW_REQ
#define NPU_IO_URING_TASK_WORK(name, func)						\
static void name(struct io_tw_req tw_req, io_tw_token_t tw)				\
{											\
	func(io_uring_cmd_from_tw(tw_req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);		\
}
#else
#define NPU_IO_URING_TASK_WORK(name, func)						\
static void name(struct io_uring_cmd *cmd, unsigned int issue_flags)			\
{											\
	func(cmd, issue_flags);								\
}
#endif

#ifdef NPU_HAVE_TTM_BO_FINI
#define npu_ttm_bo_put ttm_bo_fini
#else
#define npu_ttm_bo_put ttm_bo_put
#endif

#ifdef NPU_HAVE_DMA_BUF_INVALIDATE
#define npu_dma_buf_moving dma_buf_invalidate_mappings
#else
#define npu_dma_buf_moving dma_buf_move_notify
#endif

#ifdef NPU_HAVE_UNQUOTED_NS
#define NPU_IMPORT_DMA_BUF() MODULE_IMPORT_NS(DMA_BUF)
#else
#define NPU_IMPORT_DMA_BUF() MODULE_IMPORT_NS("DMA_BUF")
#endif

#endif
