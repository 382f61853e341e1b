/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_COPY_H
#define NPU_COPY_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <drm/drm_mm.h>

struct dma_fence;
struct npu_bo;
struct npu_ctx;
struct npu_device;
struct npu_vm;
struct ttm_resource;

/* Jobs that can be on their way at once: what a ring takes. */
#define NPU_COPY_SLOTS	31

/** struct npu_copy - the driver's own queue of the card, which zeroes and moves memory */
struct npu_copy {
	/** @gate: held for reading by those who use the queue, for writing to take it away */
	struct rw_semaphore gate;

	/** @ctx: queue, NULL: the CPU does everything; written under @gate */
	struct npu_ctx *ctx;

	/** @vm: its address space */
	struct npu_vm *vm;

	/** @card: where buffers' part of the DDR is mapped in @vm */
	struct drm_mm_node card;

	/** @commands: commands for each slot, coherent */
	void *commands;

	/** @commands_dma: its bus address */
	dma_addr_t commands_dma;

	/** @commands_node: where it is mapped in @vm */
	struct drm_mm_node commands_node;

	/** @slots: slots in use */
	DECLARE_BITMAP(slots, NPU_COPY_SLOTS);

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

int npu_copy_init(struct npu_device *npu);
void npu_copy_fini(struct npu_device *npu);
u32 npu_copy_user_queues(struct npu_device *npu);

struct dma_fence *npu_copy_clear(struct npu_device *npu, struct ttm_resource *to);
int npu_copy_move(struct npu_device *npu, struct npu_bo *bo, struct ttm_resource *card, bool out);

#endif
