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

/* Signals when a job is finished; may outlive the job, the file and the device. */
struct qnpu_fence {
	struct dma_fence base;
	struct qnpu_ctx *ctx;		/* with a reference: it holds the lock */
};

/* State of the watchdog for a job; used by its work only. */
struct qnpu_watch {
	bool running;			/* the job was seen on a core */
	unsigned long since;		/* jiffies at which it was first */
	u64 progress;			/* sum of its cores' PROGRESS at the last look */
	u32 stalls;			/* looks in a row without progress, or at an idle device */
	u32 resets;			/* of the device, since it had not begun the job */
};

/* A syncobj that gets a job's fence. */
struct qnpu_out_sync {
	struct drm_syncobj *syncobj;	/* with a reference */
	struct dma_fence_chain *chain;	/* link for a timeline, NULL for a binary one */
	u64 point;			/* of the timeline */
};

/* A fence that a job waits for. */
struct qnpu_dep {
	struct dma_fence *fence;	/* with a reference; also a point of a timeline */
	struct dma_fence_cb cb;		/* unused if the fence is of the job's own context */
	struct qnpu_ctx_job *job;
	struct qnpu_dep *next;		/* in qnpu_ctx_job.deps */
	bool listens;			/* @cb has been added */
	bool implicit;			/* of a buffer: its error does not matter */
};

/* Sizes of the arrays of a job. */
struct qnpu_job_shape {
	u32 streams;
	u32 regions;
	u32 in_syncs;
	u32 out_syncs;
};

/*
 * A job in the driver, one allocation with its arrays. Constant from its submission on, but for
 * what is under the queue's lock. The queue has a reference until the job is finished; the watchdog
 * has one while it looks at the job.
 */
struct qnpu_ctx_job {
	refcount_t refs;		/* the last put releases what the job uses */
	struct qnpu_ctx *ctx;		/* kept by @fence */
	struct dma_fence *fence;	/* with a reference */
	u64 seqno;			/* in the context, and the device's id of the job */
	u32 killed;			/* DRM_NPU_CAUSE_ if the driver kills it; else 0 */
	bool explicit;			/* no implicit fences */
	bool large;			/* more than a page, so perhaps not contiguous */

	bool on_card;			/* in the ring; under the queue's lock, up to @taken */
	bool begun;			/* it was on a core when its queue was suspended */
	int skip_error;			/* not 0: the job is skipped */
	struct list_head link;		/* in the queue's @jobs or @waiting */
	u64 given_ns;			/* time at which it was written to the ring */
	unsigned long taken;		/* jiffies at which its fences had signalled */

	atomic_t pending;		/* unsignalled foreign fences; plus one until queued */
	u64 after;			/* job of the context to be finished before, or 0 */
	int in_error;			/* of an in-fence that had failed before the submission */
	u32 in_count;
	struct qnpu_dep *in_deps;	/* memory for in-fences, @in_count of it in use */
	struct qnpu_dep *deps;		/* list of all fences that it waits for */

	struct npu_job *desc;		/* descriptor as the device reads it */
	u32 desc_bytes;
	u32 region_count;		/* entries of @vmas */
	u64 write_mask;			/* regions that the job may write */
	struct qnpu_vma **vmas;		/* mapping of each region, with a reference */
	u32 out_count;
	struct qnpu_out_sync *out_syncs; /* used until the job is queued */
	struct qnpu_watch watch;

	struct qnpu_vm *releases;	/* its mappings wait for @release_work; or NULL */
	struct work_struct release_work; /* takes locks that no end of a job waits for */
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
