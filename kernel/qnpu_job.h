/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_JOB_H
#define QNPU_JOB_H

#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>

#include "npu_regs.h"

struct dma_fence_chain;
struct drm_syncobj;
struct qnpu_ctx;
struct qnpu_vm;
struct qnpu_vma;

/* Jobs of one submission. */
#define QNPU_SUBMIT_MAX_JOBS	64

/* Points of timelines that the jobs of one submission signal. */
#define QNPU_SUBMIT_MAX_POINTS	256

/* Syncobjs of one job, in or out. */
#define QNPU_JOB_MAX_SYNCS	256

/** struct qnpu_watch - what the watchdog knows about a job; used by its work only */
struct qnpu_watch {
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

/** struct qnpu_out_sync - a syncobj that gets a job's fence */
struct qnpu_out_sync {
	/** @syncobj: with a reference */
	struct drm_syncobj *syncobj;

	/** @chain: link for a timeline, NULL for a binary one */
	struct dma_fence_chain *chain;

	/** @point: point of the timeline */
	u64 point;
};

/** struct qnpu_dep - a fence that a job waits for */
struct qnpu_dep {
	/** @fence: with a reference; also a point of a timeline */
	struct dma_fence *fence;

	/** @cb: called when it signals; unused if it is of the job's own context */
	struct dma_fence_cb cb;

	/** @job: who waits */
	struct qnpu_ctx_job *job;

	/** @next: in qnpu_ctx_job.implicit */
	struct qnpu_dep *next;

	/** @listens: @cb has been added */
	bool listens;
};

/** struct qnpu_job_shape - how much a job has of everything; what it is allocated by */
struct qnpu_job_shape {
	/** @streams: cores */
	u32 streams;

	/** @regions: regions */
	u32 regions;

	/** @in_syncs: syncobjs that it waits for */
	u32 in_syncs;

	/** @out_syncs: syncobjs that get its fence */
	u32 out_syncs;
};

/**
 * struct qnpu_ctx_job - a job in the driver, one allocation with all that its shape says
 *
 * Constant from its submission on, if not said otherwise. The queue has a reference until the job
 * is finished; the watchdog has one while it looks at the job.
 */
struct qnpu_ctx_job {
	/** @refs: references; the last one releases what the job uses, in any context */
	refcount_t refs;

	/** @ctx: context; kept by @fence */
	struct qnpu_ctx *ctx;

	/** @killed: the cause, DRM_NPU_CAUSE_, if the driver kills it; set before the abort */
	u32 killed;

	/** @explicit: no implicit fences */
	bool explicit;

	/** @large: more than a page, so perhaps not contiguous */
	bool large;

	/** @on_card: it has been given to the card; under the queue's lock */
	bool on_card;

	/** @begun: it was on a core when its queue was suspended; under the queue's lock */
	bool begun;

	/** @seqno: number in the context, and its id for the card */
	u64 seqno;

	/** @fence: its fence, with a reference */
	struct dma_fence *fence;

	/** @link: in the queue's list of unfinished or of waiting jobs, under its lock */
	struct list_head link;

	/** @pending: fences of others that have not signalled; one more until it is queued */
	atomic_t pending;

	/** @after: job of the same context that has to be finished before, 0: none */
	u64 after;

	/** @skip_error: not 0: the card does not see this job; under the queue's lock */
	int skip_error;

	/** @given_ns: when the card got it; under the queue's lock */
	u64 given_ns;

	/** @taken: when the queue got it, jiffies; under the queue's lock */
	unsigned long taken;

	/** @desc: descriptor as the card wants it */
	struct npu_job *desc;

	/** @desc_bytes: its size */
	u32 desc_bytes;

	/** @region_count: entries of @vmas */
	u32 region_count;

	/** @write_mask: regions that the job may write */
	u64 write_mask;

	/** @vmas: mapping of each region, with a reference */
	struct qnpu_vma **vmas;

	/** @in_error: one of the in-fences has signalled with an error before the submission */
	int in_error;

	/** @in_count: entries of @in_deps */
	u32 in_count;

	/** @in_deps: in-fences that had not signalled at submission; their errors cancel the job */
	struct qnpu_dep *in_deps;

	/** @implicit: fences of buffers that it waits for; their errors do not matter */
	struct qnpu_dep *implicit;

	/** @out_count: entries of @out_syncs */
	u32 out_count;

	/** @out_syncs: used until the job is queued */
	struct qnpu_out_sync *out_syncs;

	/** @watch: the watchdog's */
	struct qnpu_watch watch;

	/**
	 * @releases: address space whose mappings @release_work drops, with a reference; or NULL
	 */
	struct qnpu_vm *releases;
	/** @release_work: lets go of what needs locks that the end of a job must not wait for */
	struct work_struct release_work;
};

int qnpu_job_error(const struct qnpu_ctx_job *job, const struct npu_cqe *cqe);
bool qnpu_job_is_ready(const struct qnpu_ctx_job *job);
int qnpu_job_in_error(const struct qnpu_ctx_job *job);
void qnpu_job_finish(struct qnpu_ctx_job *job, int error, const struct npu_cqe *cqe);

struct qnpu_ctx_job *qnpu_job_alloc(struct qnpu_ctx *ctx, const struct qnpu_job_shape *shape);
void qnpu_job_add_in_fence(struct qnpu_ctx_job *job, struct dma_fence *fence);
int qnpu_job_add_buffer_fences(struct qnpu_ctx_job *job, struct dma_resv *resv,
			       enum dma_resv_usage usage);
void qnpu_job_kick(struct qnpu_ctx *ctx);
void qnpu_job_discard(struct qnpu_ctx_job *job);
void qnpu_job_arm(struct qnpu_ctx_job *job);
void qnpu_job_push(struct qnpu_ctx *ctx, struct qnpu_ctx_job **jobs, u32 count);
void qnpu_job_listen(struct qnpu_ctx_job *job);
void qnpu_job_stop_listening(struct qnpu_ctx_job *job);
void qnpu_job_put(struct qnpu_ctx_job *job);

static inline void qnpu_job_get(struct qnpu_ctx_job *job)
{
	refcount_inc(&job->refs);
}

int qnpu_job_module_init(void);
void qnpu_job_module_exit(void);


#endif
