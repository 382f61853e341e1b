/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_CTX_H
#define QNPU_CTX_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <drm/drm_vma_manager.h>

#include "qnpu_device.h"
#include "qnpu_hw_queue.h"
#include "qnpu_vm.h"

struct drm_device;
struct drm_file;
struct vm_area_struct;

/* Identifiers of contexts are page numbers of their fence pages, below those of GEM objects. */
#define QNPU_MAX_CTX_ID		(DRM_FILE_PAGE_OFFSET_START - 1)

/* Jobs whose results are remembered, see struct drm_npu_wait. */
#define QNPU_CTX_RESULTS	256

/* Failures whose details are remembered. */
#define QNPU_CTX_FAULTS		32
/* Jobs that a context can have unfinished before a submission waits. */
#define QNPU_CTX_MAX_JOBS	64

/** struct qnpu_result - how a job ended */
struct qnpu_result {
	/** @cycles: modelled cycles */
	u64 cycles;

	/** @error: 0 or negative errno */
	int error;
};

/** struct qnpu_ctx - a context: a queue of the card, and what became of its jobs */
struct qnpu_ctx {
	/** @kref: the file, unfinished calls, jobs, fences and mappings of the fence page */
	struct kref kref;

	/** @rcu: fences are read under RCU, and lead here */
	struct rcu_head rcu;

	/** @npu: device; valid until killed, and while jobs exist */
	struct qnpu_device *npu;

	/** @vm: address space; NULL once killed */
	struct qnpu_vm *vm;

	/** @link: in qnpu_device.ctxs until it is killed, under hw_lock */
	struct list_head link;

	/** @id: in the file */
	u32 id;

	/** @internal: the driver's own, see qnpu_copy.c; nobody outside sees its fences */
	bool internal;

	/** @core_mask: cores for its jobs */
	u32 core_mask;

	/** @queue: queue of the card; the lock in it protects the results below */
	struct qnpu_hw_queue queue;

	/** @kick_work: jobs of @queue have waited for fences, which have signalled */
	struct work_struct kick_work;

	/** @orphaned: killed, with unfinished jobs that wait for fences; holds the device */
	bool orphaned;

	/** @watch_work: the watchdog; runs while @queue has jobs */
	struct delayed_work watch_work;

	/** @timeout: time between two looks of the watchdog at a job, jiffies */
	unsigned long timeout;

	/** @fence_lock: lock of the jobs' fences; inside of the queue's lock */
	spinlock_t fence_lock;

	/** @fence_context: timeline of the jobs' fences */
	u64 fence_context;

	/** @fence_page: struct npu_fence that the card writes, mapped by users */
	struct page *fence_page;

	/** @fence_dma: its bus address; unmapped once killed */
	dma_addr_t fence_dma;

	/** @kill_lock: serialises qnpu_ctx_kill() */
	struct mutex kill_lock;

	/** @killed: the queue is gone, under @kill_lock */
	bool killed;

	/** @dead: what submissions end with once the context is being killed, else 0 */
	int dead;

	/** @submit_lock: keeps numbers, queue and waits for room in one order */
	struct mutex submit_lock;

	/** @wait: woken when a job is finished */
	wait_queue_head_t wait;

	/** @submitted: last number given; written under @submit_lock */
	u64 submitted;

	/** @completed: all jobs up to this one are finished; under the queue's lock */
	u64 completed;

	/** @errors: jobs that failed through their own fault; under the queue's lock */
	u64 errors;

	/** @victims: jobs lost for the fault of another; under the queue's lock */
	u64 victims;

	/** @faults: ring of the last faults; under the queue's lock */
	struct drm_npu_fault faults[QNPU_CTX_FAULTS];

	/** @fault_count: faults so far; under the queue's lock */
	u64 fault_count;

	/** @results: ring of results by number; under the queue's lock */
	struct qnpu_result results[QNPU_CTX_RESULTS];
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

struct qnpu_ctx *qnpu_ctx_create_internal(struct qnpu_device *npu, struct qnpu_vm *vm);
void qnpu_ctx_put(struct qnpu_ctx *ctx);
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
