/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_COPY_H
#define QNPU_COPY_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <drm/drm_mm.h>

struct dma_fence;
struct qnpu_bo;
struct qnpu_ctx;
struct qnpu_device;
struct qnpu_vm;
struct ttm_resource;

/* Jobs that can be on their way at once: what a ring takes. */
#define QNPU_COPY_SLOTS	31

/** struct qnpu_copy - the driver's own queue of the card, which zeroes and moves memory */
struct qnpu_copy {
	/** @gate: held for reading by those who use the queue, for writing to take it away */
	struct rw_semaphore gate;

	/** @ctx: queue, NULL: the CPU does everything; written under @gate */
	struct qnpu_ctx *ctx;

	/** @vm: its address space */
	struct qnpu_vm *vm;

	/** @card: where buffers' part of the DDR is mapped in @vm */
	struct drm_mm_node card;

	/** @commands: commands for each slot, coherent */
	void *commands;

	/** @commands_dma: its bus address */
	dma_addr_t commands_dma;

	/** @commands_node: where it is mapped in @vm */
	struct drm_mm_node commands_node;

	/** @slots: slots in use */
	DECLARE_BITMAP(slots, QNPU_COPY_SLOTS);

	/** @slots_lock: protects @slots; taken by fence callbacks */
	spinlock_t slots_lock;

	/** @slots_wait: woken when a slot becomes free */
	wait_queue_head_t slots_wait;

	/** @pending: operations on the card */
	atomic_t pending;

	/** @wq: runs what the CPU has to finish, and @overdue_work */
	struct workqueue_struct *wq;

	/** @overdue_work: takes operations back that wait for a core too long */
	struct delayed_work overdue_work;

	/** @last_next: the job that was next when @overdue_work last looked; used by it only */
	u64 last_next;

	/** @paused_until: when the card is asked again, after its cores were busy; jiffies */
	unsigned long paused_until;

	/** @by_card: operations that the card did since the driver was bound */
	atomic64_t by_card;

	/** @by_cpu: operations that the CPU did, since the card could not, or was too busy */
	atomic64_t by_cpu;
};

int qnpu_copy_init(struct qnpu_device *npu);
void qnpu_copy_fini(struct qnpu_device *npu);
u32 qnpu_copy_user_queues(struct qnpu_device *npu);

struct dma_fence *qnpu_copy_clear(struct qnpu_device *npu, struct ttm_resource *to);
int qnpu_copy_move(struct qnpu_device *npu, struct qnpu_bo *bo, struct ttm_resource *card,
		   bool out);

#endif
