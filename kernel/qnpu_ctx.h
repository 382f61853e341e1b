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

/* Identifiers of contexts are page numbers of their fence pages, below those of GEM objects. */
#define QNPU_MAX_CTX_ID		(DRM_FILE_PAGE_OFFSET_START - 1)

#define QNPU_CTX_RESULTS	256	/* results that are remembered, see struct drm_npu_wait */
#define QNPU_CTX_FAULTS		32	/* failures whose details are remembered */
#define QNPU_CTX_MAX_JOBS	64	/* unfinished jobs before a submission waits */

/* The result of a job. */
struct qnpu_result {
	u64 cycles;			/* modelled cycles */
	int error;			/* 0 or negative errno */
};

/* A context: a queue of the device, and the results of its jobs. */
struct qnpu_ctx {
	struct kref kref;		/* file, calls, jobs, fences, mappings of the fence page */
	struct rcu_head rcu;		/* fences are read under RCU, and point here */
	struct qnpu_device *npu;	/* valid until killed, and while jobs exist */
	struct qnpu_vm *vm;		/* address space; NULL once killed */
	struct list_head link;		/* in npu->ctxs until killed, under hw_lock */
	u32 id;				/* in the file */
	u32 core_mask;			/* cores for its jobs */
	bool internal;			/* the driver's own, see qnpu_copy.c; fences stay inside */
	bool killed;			/* the queue is gone, under kill_lock */
	bool orphaned;			/* killed; jobs that wait for fences hold the device */
	int dead;			/* what submissions return once it is being killed, or 0 */
	struct mutex kill_lock;		/* serialises qnpu_ctx_kill() */

	struct qnpu_hw_queue queue;	/* its lock protects the results below */
	struct work_struct kick_work;	/* fences have signalled that jobs of the queue wait for */
	struct delayed_work watch_work;	/* the watchdog; runs while the queue has jobs */
	unsigned long timeout;		/* period of the watchdog, jiffies */

	spinlock_t fence_lock;		/* lock of the jobs' fences; inside of the queue's lock */
	u64 fence_context;		/* timeline of the jobs' fences */
	struct page *fence_page;	/* struct npu_fence for users, written by the device */
	dma_addr_t fence_dma;		/* its bus address; unmapped once killed */

	struct mutex submit_lock;	/* keeps numbers, queue and waits for room in one order */
	wait_queue_head_t wait;		/* woken when a job is finished */
	u64 submitted;			/* last number given; written under submit_lock */

	/* Under the queue's lock. */
	u64 completed;			/* all jobs up to this one are finished */
	u64 errors;			/* jobs that failed by themselves */
	u64 victims;			/* jobs lost to a failure of another one */
	u64 fault_count;
	struct drm_npu_fault faults[QNPU_CTX_FAULTS];	/* ring of the last ones */
	struct qnpu_result results[QNPU_CTX_RESULTS];	/* ring by number */
};

static inline struct qnpu_ctx *qnpu_ctx_get(struct qnpu_ctx *ctx)
{
	kref_get(&ctx->kref);

	return ctx;
}

/* Has a context unfinished jobs? */
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
