/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_JOB_H
#define NPU_JOB_H

#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>

#include "npu_regs.h"

struct dma_fence_chain;
struct drm_syncobj;
struct npu_ctx;
struct npu_vm;
struct npu_vma;

/* Jobs of one submission. */
#define NPU_SUBMIT_MAX_JOBS	64

/* Points of timelines that the jobs of one submission signal. */
#define NPU_SUBMIT_MAX_POINTS	256

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

/** struct npu_dep - a fence that a job waits for */
struct npu_dep {
	/** @fence: with a reference; also a point of a timeline */
	struct dma_fence *fence;

	/** @cb: called when it signals; unused if it is of the job's own context */
	struct dma_fence_cb cb;

	/** @job: who waits */
	struct npu_ctx_job *job;

	/** @next: in npu_ctx_job.implicit */
	struct npu_dep *next;

	/** @listens: @cb has been added */
	bool listens;
};

/** struct npu_job_shape - how much a job has of everything; what it is allocated by */
struct npu_job_shape {
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
 * struct npu_ctx_job - a job in the driver, one allocation with all that its shape says
 *
 * Constant from its submission on, if not said otherwise. The queue has a reference until the job
 * is finished; the watchdog has one while it looks at the job.
 */
struct npu_ctx_job {
	/** @refs: references; the last one releases what the job uses, in any context */
	refcount_t refs;

	/** @ctx: context; kept by @fence */
	struct npu_ctx *ctx;

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
	struct npu_vma **vmas;

	/** @in_error: one of the in-fences has signalled with an error before the submission */
	int in_error;

	/** @in_count: entries of @in_deps */
	u32 in_count;

	/** @in_deps: in-fences that had not signalled at submission; their errors cancel the job */
	struct npu_dep *in_deps;

	/** @implicit: fences of buffers that it waits for; their errors do not matter */
	struct npu_dep *implicit;

	/** @out_count: entries of @out_syncs */
	u32 out_count;

	/** @out_syncs: used until the job is queued */
	struct npu_out_sync *out_syncs;

	/** @watch: the watchdog's */
	struct npu_watch watch;

	/**
	 * @releases: address space whose mappings @release_work drops, with a reference; or NULL
	 */
	struct npu_vm *releases;
	/** @release_work: lets go of what needs locks that the end of a job must not wait for */
	struct work_struct release_work;
};

int npu_job_error(const struct npu_ctx_job *job, const struct npu_cqe *cqe);
bool npu_job_is_ready(const struct npu_ctx_job *job);
int npu_job_in_error(const struct npu_ctx_job *job);
void npu_job_finish(struct npu_ctx_job *job, int error, const struct npu_cqe *cqe);

struct npu_ctx_job *npu_job_alloc(struct npu_ctx *ctx, const struct npu_job_shape *shape);
void npu_job_add_in_fence(struct npu_ctx_job *job, struct dma_fence *fence);
int npu_job_add_buffer_fences(struct npu_ctx_job *job, struct dma_resv *resv,
			      enum dma_resv_usage usage);
void npu_job_kick(struct npu_ctx *ctx);
void npu_job_discard(struct npu_ctx_job *job);
void npu_job_arm(struct npu_ctx_job *job);
void npu_job_push(struct npu_ctx *ctx, struct npu_ctx_job **jobs, u32 count);
void npu_job_listen(struct npu_ctx_job *job);
void npu_job_stop_listening(struct npu_ctx_job *job);
void npu_job_put(struct npu_ctx_job *job);

static inline void npu_job_get(struct npu_ctx_job *job)
{
	refcount_inc(&job->refs);
}

int npu_job_module_init(void);
void npu_job_module_exit(void);


#endif
