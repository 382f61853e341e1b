/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_JOB_H
#define NPU_JOB_H

#include <linux/list.h>
#include <linux/workqueue.h>

#include <drm/gpu_scheduler.h>

#include "npu_regs.h"

struct dma_fence;
struct drm_device;
struct drm_file;
struct npu_ctx;
struct npu_user;
struct npu_vma;

/* Jobs of one submission. */
#define NPU_SUBMIT_MAX_JOBS	64

/* Syncobjs of one job, in or out. */
#define NPU_JOB_MAX_SYNCS	256

/** struct npu_watch - what the watchdog knows about a job; used by its work only */
struct npu_watch {
	/** @running: the job was seen on a core */
	bool running;

	/** @since: when that was first, jiffies */
	unsigned long since;

	/** @progress: sum of its cores' PROGRESS at the last look */
	u64 progress;

	/** @idle: looks in a row at which the card had nothing to do, and yet did not begin it */
	u32 idle;

	/** @resets: resets of the card because of that */
	u32 resets;

	/** @stalls: looks in a row at which it had made no progress */
	u32 stalls;
};

/** struct npu_out_sync - a syncobj that gets a job's fence */
struct npu_out_sync {
	/** @syncobj: with a reference */
	struct drm_syncobj *syncobj;

	/** @chain: link for a timeline, NULL for a binary one */
	struct dma_fence_chain *chain;

	/** @point: point of the timeline */
	u64 point;
};

/**
 * struct npu_sched_job - a job in the driver
 *
 * Constant from its submission on, if not said otherwise. The scheduler's free_job() ends its life.
 */
struct npu_sched_job {
	/** @base: the scheduler's part */
	struct drm_sched_job base;

	/** @ctx: context; kept by @fence */
	struct npu_ctx *ctx;

	/** @user: who it is charged to, with a reference; NULL for the driver's own */
	struct npu_user *user;

	/** @charged: it still is; until it is finished, or freed if that never happens */
	bool charged;

	/** @seqno: number in the context, and its id for the card */
	u64 seqno;

	/** @fence: hardware fence, with a reference */
	struct dma_fence *fence;

	/** @ctx_link: in npu_ctx.unfinished from submission to end, under the queue's lock */
	struct list_head ctx_link;

	/** @link: in the queue's list of unfinished jobs, under its lock */
	struct list_head link;

	/** @skip_error: not 0: the card does not see this job; under the queue's lock */
	int skip_error;

	/** @on_card: it has been given to the card; under the queue's lock */
	bool on_card;

	/** @given_ns: when; under the queue's lock */
	u64 given_ns;

	/** @started: run_job() was called; the scheduler's work only */
	bool started;

	/** @counted: in npu_ctx.sched_jobs; as @started, for the driver's own from the push on */
	bool counted;

	/** @timed_out: the watchdog has killed it; set before the card is told */
	bool timed_out;

	/** @explicit: no implicit fences */
	bool explicit;

	/** @desc: descriptor as the card wants it */
	void *desc;

	/** @desc_bytes: its size */
	u32 desc_bytes;

	/** @region_count: entries of @vmas */
	u32 region_count;

	/** @write_mask: regions that the job may write */
	u64 write_mask;

	/** @vmas: mapping of each region, with a reference */
	struct npu_vma *vmas[NPU_MAX_REGIONS];

	/** @in_count: entries of @in_fences */
	u32 in_count;

	/** @in_fences: fences whose errors cancel the job, with references */
	struct dma_fence **in_fences;

	/** @own_fences: hardware fences of unfinished jobs of the same context */
	struct dma_fence **own_fences;

	/** @own_count: entries of @own_fences */
	u32 own_count;

	/** @out_count: entries of @out_syncs */
	u32 out_count;

	/** @out_syncs: used until the job is queued, then freed */
	struct npu_out_sync *out_syncs;

	/** @watch: the watchdog's */
	struct npu_watch watch;

	/** @release_work: frees what needs locks that the scheduler's work must not wait for */
	struct work_struct release_work;
};

static inline struct npu_sched_job *to_npu_sched_job(struct drm_sched_job *base)
{
	return container_of(base, struct npu_sched_job, base);
}

extern const struct drm_sched_backend_ops npu_sched_ops;

int npu_job_error(const struct npu_sched_job *job, const struct npu_cqe *cqe);
void npu_job_finish(struct npu_sched_job *job, int error, const struct npu_cqe *cqe);
void npu_job_put_resources(struct npu_sched_job *job);

struct npu_sched_job *npu_job_alloc(struct npu_ctx *ctx, u64 client_id);
int npu_job_charge(struct npu_sched_job *job, struct npu_user *user);
void npu_job_add_in_fence(struct npu_sched_job *job, struct dma_fence *fence);
void npu_job_discard(struct npu_sched_job *job);
void npu_job_arm(struct npu_sched_job *job);
void npu_job_push(struct npu_sched_job *job);

int npu_job_module_init(void);
void npu_job_module_exit(void);
void npu_job_flush_released(void);

#endif
