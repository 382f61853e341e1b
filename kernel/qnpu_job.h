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

/* Jobs per submission. */
#define QNPU_SUBMIT_MAX_JOBS	64

/* Timeline points that the jobs of one submission signal. */
#define QNPU_SUBMIT_MAX_POINTS	256

/* Syncobjs per job, in or out. */
#define QNPU_JOB_MAX_SYNCS	256

/* Signals when a job is finished; may outlive job, file and device. */
struct qnpu_fence {
	struct dma_fence base;
	struct qnpu_ctx *ctx;		/* with a reference, as it holds the fence's lock */
};

/* The watchdog's state for a job; only its work uses it. */
struct qnpu_watch {
	bool running;			/* the job was seen on a core */
	unsigned long since;		/* jiffies when it was first seen there */
	u64 progress;			/* sum of its cores' PROGRESS at the last check */
	u32 stalls;			/* consecutive checks without progress, or device idle */
	u32 resets;			/* device resets because the job did not start */
};

/* A syncobj that receives a job's fence. */
struct qnpu_out_sync {
	struct drm_syncobj *syncobj;	/* with a reference */
	struct dma_fence_chain *chain;	/* chain link of a timeline; NULL for a binary syncobj */
	u64 point;			/* point on the timeline */
};

/* A fence that a job waits for. */
struct qnpu_dep {
	struct dma_fence *fence;	/* with a reference; may be a timeline point */
	struct dma_fence_cb cb;		/* unused if the fence is of the job's own context */
	struct qnpu_ctx_job *job;
	struct qnpu_dep *next;		/* in qnpu_ctx_job.deps */
	bool listens;			/* @cb has been added */
	bool implicit;			/* implicit fence of a buffer: errors are ignored */
};

/* Array sizes of a job. */
struct qnpu_job_shape {
	u32 streams;
	u32 regions;
	u32 in_syncs;
	u32 out_syncs;
};

/*
 * A job, in one allocation with its arrays. Constant once submitted, but for fields under the
 * queue's lock. The queue holds a reference until the job is finished, the watchdog while it checks
 * the job.
 */
struct qnpu_ctx_job {
	refcount_t refs;		/* the last put releases the job's resources */
	struct qnpu_ctx *ctx;		/* pinned by @fence */
	struct dma_fence *fence;	/* with a reference */
	u64 seqno;			/* in the context; also the device's id of the job */
	u32 killed;			/* DRM_NPU_CAUSE_ if the driver has killed it, else 0 */
	bool explicit;			/* ignores implicit fences */
	bool large;			/* larger than a page, so perhaps not contiguous */

	bool on_card;			/* in the ring; the queue's lock covers all up to @taken */
	bool begun;			/* it was on a core when its queue was suspended */
	int skip_error;			/* if not 0, the job is skipped with this errno */
	struct list_head link;		/* in @jobs or @waiting of the queue */
	u64 given_ns;			/* time of the write to the ring */
	unsigned long taken;		/* jiffies when its last in-fence had signalled */

	atomic_t pending;		/* unsignalled foreign fences, plus 1 until queued */
	u64 after;			/* seqno of the same context to wait for, or 0 */
	int in_error;			/* of an in-fence that had failed before the submission */
	u32 in_count;
	struct qnpu_dep *in_deps;	/* storage for in-fences, of which @in_count are in use */
	struct qnpu_dep *deps;		/* list of all fences that it waits for */

	struct npu_job *desc;		/* descriptor in the device's format */
	u32 desc_bytes;
	u32 region_count;		/* entries of @vmas */
	u64 write_mask;			/* regions that the job may write */
	struct qnpu_vma **vmas;		/* mapping of each region, with a reference */
	u32 out_count;
	struct qnpu_out_sync *out_syncs; /* used until the job is queued */
	struct qnpu_watch watch;

	struct qnpu_vm *releases;	/* address space with mappings to drop, or NULL */
	struct work_struct release_work; /* may take locks that jobs' completion must not take */
};

struct qnpu_ctx_job *qnpu_job_alloc(struct qnpu_ctx *ctx, const struct qnpu_job_shape *shape);
void qnpu_job_add_in_fence(struct qnpu_ctx_job *job, struct dma_fence *fence);
int qnpu_job_add_buffer_fences(struct qnpu_ctx_job *job, struct dma_resv *resv,
			       enum dma_resv_usage usage);
void qnpu_job_discard(struct qnpu_ctx_job *job);
void qnpu_job_arm(struct qnpu_ctx_job *job);
void qnpu_job_push(struct qnpu_ctx *ctx, struct qnpu_ctx_job **jobs, u32 count);
void qnpu_job_kick(struct qnpu_ctx *ctx);
void qnpu_job_stop_listening(struct qnpu_ctx_job *job);
bool qnpu_job_is_ready(const struct qnpu_ctx_job *job);
int qnpu_job_in_error(const struct qnpu_ctx_job *job);
void qnpu_job_finish(struct qnpu_ctx_job *job, int error, const struct npu_cqe *cqe);
void qnpu_job_put(struct qnpu_ctx_job *job);

static inline void qnpu_job_get(struct qnpu_ctx_job *job)
{
	refcount_inc(&job->refs);
}

int qnpu_fence_error(struct dma_fence *fence);

int qnpu_job_module_init(void);
void qnpu_job_module_exit(void);

#endif
