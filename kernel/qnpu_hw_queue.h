/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_HW_QUEUE_H
#define QNPU_HW_QUEUE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "npu_regs.h"

struct qnpu_ctx;
struct qnpu_device;
struct qnpu_ctx_job;
struct qnpu_vector;

/* Entries of both rings; one stays free, since a full ring looks like an empty one. */
#define QNPU_RING_LOG2		5
#define QNPU_RING_ENTRIES	BIT(QNPU_RING_LOG2)
#define QNPU_RING_JOBS		(QNPU_RING_ENTRIES - 1)

/* Completions that are taken before the card is told: each time costs a write across the bus. */
#define QNPU_RING_TELL		(QNPU_RING_ENTRIES / 4)

/* Room of the largest descriptor, kept a multiple of the 64 bytes that the card asks for. */
#define QNPU_DESC_BYTES \
	ALIGN(sizeof(struct npu_job) + NPU_MAX_CORES * sizeof(struct npu_stream) + \
	      NPU_MAX_REGIONS * sizeof(struct npu_region), 64)

/** struct qnpu_rings - DMA memory of a queue, one allocation */
struct qnpu_rings {
	/** @cq: completion ring, written by the card */
	struct npu_cqe cq[QNPU_RING_ENTRIES];

	/** @sq: submission ring */
	struct npu_sqe sq[QNPU_RING_ENTRIES];

	/** @desc: a job descriptor for each entry of @sq */
	u8 desc[QNPU_RING_ENTRIES][QNPU_DESC_BYTES] __aligned(64);
};

/** struct qnpu_hw_queue - a queue pair of the card */
struct qnpu_hw_queue {
	/** @npu: device */
	struct qnpu_device *npu;

	/** @ctx: owner */
	struct qnpu_ctx *ctx;

	/** @index: number of its queue pair, or QNPU_NO_QUEUE; written under hw_lock */
	u32 index;

	/** @core_mask: cores for its jobs */
	u32 core_mask;

	/** @priority: for the arbiter */
	u32 priority;

	/** @vector: interrupt of its completions */
	struct qnpu_vector *vector;

	/** @link: in the vector's list, under its lock */
	struct list_head link;

	/** @attach_link: in qnpu_attach.waiting, under qnpu_attach.lock */
	struct list_head attach_link;

	/** @attached: when it got its queue pair, jiffies; under hw_lock */
	unsigned long attached;

	/** @rings: memory of its queue pair */
	struct qnpu_rings *rings;

	/** @rings_dma: its bus address */
	dma_addr_t rings_dma;

	/** @lock: protects all below and the results of the context; taken by interrupt handlers */
	spinlock_t lock;

	/** @sq_tail: next entry of the submission ring to be written */
	u32 sq_tail;

	/** @cq_head: next entry of the completion ring to be read */
	u32 cq_head;

	/** @cq_told: what of @cq_head the card knows */
	u32 cq_told;

	/** @cq_phase: phase bit that a new completion has */
	u32 cq_phase;

	/**
	 * @jobs: jobs that are not finished and wait for nothing but those before them, in order;
	 * also those that the card never sees
	 */
	struct list_head jobs;

	/** @waiting: jobs behind them: the first one waits for fences */
	struct list_head waiting;

	/** @to_run: how many of @jobs the card is to run, or runs; also read without the lock */
	u32 to_run;

	/** @watched: the watchdog's work will run */
	bool watched;

	/**
	 * @on_card: how many of them have been given to the card, the first ones that it sees; also
	 * read without the lock
	 */
	u32 on_card;

	/** @done_ns: when the last one was finished */
	u64 done_ns;

	/** @done: likewise, jiffies */
	unsigned long done;

	/** @job_ns: what it took, from when it was given to the card and the one before finished */
	u64 job_ns;

	/** @enabled: the card takes entries */
	bool enabled;

	/** @distrusted: a completion could not be true; none is taken until that is settled */
	bool distrusted;

	/** @error: what new jobs end with, once the queue is shut down for good; 0 before */
	int error;
};

/* The number of the queue pair of a queue that has none. */
#define QNPU_NO_QUEUE		U32_MAX

/* With hw_lock or the queue's lock held; else the answer may be outdated. */
static inline bool qnpu_hw_queue_is_attached(const struct qnpu_hw_queue *queue)
{
	return READ_ONCE(queue->index) != QNPU_NO_QUEUE;
}

/**
 * qnpu_hw_queue_has_backlog - are there jobs that the card has yet to be given?
 * @queue: queue
 *
 * Without the lock: a change is followed by qnpu_hw_queue_feed().
 */
static inline bool qnpu_hw_queue_has_backlog(const struct qnpu_hw_queue *queue)
{
	return READ_ONCE(queue->to_run) > READ_ONCE(queue->on_card);
}

void qnpu_hw_queue_init(struct qnpu_hw_queue *queue, struct qnpu_ctx *ctx, u32 priority,
			u32 core_mask);
int qnpu_hw_queue_attach(struct qnpu_hw_queue *queue, u32 index);
void qnpu_hw_queue_detach(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_destroy(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_shutdown(struct qnpu_hw_queue *queue, int error);

void qnpu_hw_queue_push(struct qnpu_hw_queue *queue, struct qnpu_ctx_job **jobs, u32 count);
void qnpu_hw_queue_kick(struct qnpu_hw_queue *queue);
struct qnpu_ctx_job *qnpu_hw_queue_watched_job(struct qnpu_hw_queue *queue, unsigned long *since);
bool qnpu_hw_queue_orphan(struct qnpu_hw_queue *queue);
bool qnpu_hw_queue_waits_for_fences(struct qnpu_hw_queue *queue);
bool qnpu_hw_queue_has_jobs(struct qnpu_hw_queue *queue);
int qnpu_hw_queue_cancel(struct qnpu_hw_queue *queue, u32 cause);
bool qnpu_hw_queue_process_some(struct qnpu_hw_queue *queue, u32 *most);
bool qnpu_hw_queue_process(struct qnpu_hw_queue *queue);

void qnpu_hw_queue_feed(struct qnpu_hw_queue *queue);
u64 qnpu_hw_queue_since_ns(struct qnpu_hw_queue *queue, u64 seqno);

bool qnpu_hw_queue_suspend(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_leave(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_dump(struct qnpu_hw_queue *queue, const char *reason);
int qnpu_hw_queue_settle(struct qnpu_hw_queue *queue);
bool qnpu_hw_queue_is_behind(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_resume(struct qnpu_hw_queue *queue, bool lost);
void qnpu_hw_queue_reopen(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_fail_all(struct qnpu_hw_queue *queue, int error);
u32 qnpu_hw_queue_status(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_abort(struct qnpu_hw_queue *queue, u64 seqno);
bool qnpu_hw_queue_fail(struct qnpu_hw_queue *queue, int error);

#endif
