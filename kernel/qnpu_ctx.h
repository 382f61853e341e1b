/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_CTX_H
#define QNPU_CTX_H

#include <linux/cleanup.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <drm/drm_vma_manager.h>
#include <drm/npu_accel.h>

#include "qnpu_hw_queue.h"

struct drm_device;
struct drm_file;
struct qnpu_device;
struct qnpu_vm;
struct vm_area_struct;

/* Context ids are page offsets of fence pages in mmap(), below those of GEM objects. */
#define QNPU_MAX_CTX_ID		(DRM_FILE_PAGE_OFFSET_START - 1)

#define QNPU_CTX_RESULTS	256	/* results kept, see struct drm_npu_wait */
#define QNPU_CTX_FAULTS		32	/* failures whose details are kept */
#define QNPU_CTX_MAX_JOBS	64	/* unfinished jobs; beyond these a submission blocks */

/* Result of a job. */
struct qnpu_result {
	u64 cycles;			/* modelled cycles */
	int error;			/* 0 or negative errno */
};

/* A context: a software queue, and the results of its jobs. */
struct qnpu_ctx {
	struct kref kref;		/* held by file, calls, jobs, fences, fence page mappings */
	struct rcu_head rcu;		/* RCU readers of fences dereference the context */
	struct qnpu_device *npu;	/* valid until killed, and while jobs exist */
	struct qnpu_vm *vm;		/* address space; NULL once killed */
	struct list_head link;		/* in npu->ctxs until killed, under hw_lock */
	u32 id;				/* in the file */
	u32 core_mask;			/* cores that its jobs may use */
	bool internal;			/* the driver's own, see qnpu_copy.c; fences stay private */
	bool killed;			/* the queue is shut down, under kill_lock */
	bool orphaned;			/* killed; jobs that wait for fences hold the device */
	int dead;			/* errno of new submissions once a kill has begun, or 0 */
	struct mutex kill_lock;		/* serialises qnpu_ctx_kill() */

	struct qnpu_hw_queue queue;	/* @queue.lock also protects the results below */
	struct work_struct kick_work;	/* pushes jobs whose in-fences have signalled */
	struct delayed_work watch_work;	/* watchdog; pending while the queue has jobs */
	unsigned long timeout;		/* watchdog period, jiffies */

	spinlock_t fence_lock;		/* lock of the jobs' fences; inside queue.lock */
	u64 fence_context;		/* timeline of the jobs' fences */
	struct page *fence_page;	/* struct npu_fence, mapped by users, set by the device */
	dma_addr_t fence_dma;		/* its bus address; unmapped once killed */

	struct mutex submit_lock;	/* keeps seqnos, pushes and waits for room in order */
	wait_queue_head_t wait;		/* woken when a job is finished */
	u64 submitted;			/* last seqno assigned; written under submit_lock */

	/* Protected by queue.lock. */
	u64 completed;			/* all jobs up to this seqno are finished */
	u64 errors;			/* jobs that failed by themselves */
	u64 victims;			/* jobs lost to another job's failure */
	u64 fault_count;
	struct drm_npu_fault faults[QNPU_CTX_FAULTS];	/* ring of the last @fault_count */
	struct qnpu_result results[QNPU_CTX_RESULTS];	/* ring indexed by seqno */
};

static inline struct qnpu_ctx *qnpu_ctx_get(struct qnpu_ctx *ctx)
{
	kref_get(&ctx->kref);

	return ctx;
}

/* Returns true if the context has unfinished jobs. */
static inline bool qnpu_ctx_is_busy(const struct qnpu_ctx *ctx)
{
	return READ_ONCE(ctx->completed) != READ_ONCE(ctx->submitted);
}

void qnpu_ctx_put(struct qnpu_ctx *ctx);

DEFINE_FREE(qnpu_ctx, struct qnpu_ctx *, qnpu_ctx_put(_T))

struct qnpu_ctx *qnpu_ctx_create(struct qnpu_device *npu, struct qnpu_vm *vm, bool internal,
				 u32 priority, u32 core_mask);
struct qnpu_ctx *qnpu_ctx_lookup(struct drm_file *file, u32 id);
void qnpu_ctx_kill(struct qnpu_ctx *ctx, int error);
void qnpu_ctx_kill_all(struct qnpu_device *npu, int error);
void qnpu_ctx_close(struct drm_file *file);
int qnpu_ctx_mmap_fence(struct drm_file *file, struct vm_area_struct *vma);

int qnpu_ioctl_ctx_create(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_ctx_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_ctx_query(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_ioctl_wait(struct drm_device *drm, void *data, struct drm_file *file);

#endif
