/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_HW_QUEUE_H
#define QNPU_HW_QUEUE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "npu_regs.h"

struct qnpu_ctx;
struct qnpu_ctx_job;
struct qnpu_device;
struct qnpu_vector;

/* Entries of each ring; one stays free to tell a full ring from an empty one. */
#define QNPU_RING_LOG2		5
#define QNPU_RING_ENTRIES	BIT(QNPU_RING_LOG2)
#define QNPU_RING_JOBS		(QNPU_RING_ENTRIES - 1)

/* Size of the largest descriptor, rounded up to its alignment of 64 bytes. */
#define QNPU_DESC_BYTES \
	ALIGN(sizeof(struct npu_job) + NPU_MAX_CORES * sizeof(struct npu_stream) + \
	      NPU_MAX_REGIONS * sizeof(struct npu_region), 64)

/* Index of a queue without a queue pair. */
#define QNPU_NO_QUEUE		U32_MAX

/* DMA memory of a queue pair: both rings, and the descriptor of each entry of @sq. */
struct qnpu_rings {
	struct npu_cqe cq[QNPU_RING_ENTRIES];	/* written by the device */
	struct npu_sqe sq[QNPU_RING_ENTRIES];
	u8 desc[QNPU_RING_ENTRIES][QNPU_DESC_BYTES] __aligned(64);
};

/* The jobs of a context, and its queue pair while it has one. */
struct qnpu_hw_queue {
	struct qnpu_device *npu;
	struct qnpu_ctx *ctx;
	u32 index;			/* queue pair, or QNPU_NO_QUEUE; under hw_lock */
	u32 core_mask;
	u32 priority;
	struct qnpu_vector *vector;	/* receives its completions */
	struct list_head link;		/* in the vector's list, under its lock */
	struct list_head attach_link;	/* in qnpu_attach.waiting, under qnpu_attach.lock */
	unsigned long attached;		/* jiffies of the last attach, under hw_lock */
	struct qnpu_rings *rings;
	dma_addr_t rings_dma;

	spinlock_t lock;	/* for all below and the context's results; taken in hard IRQ */
	u32 sq_tail;		/* next entry to write */
	u32 cq_head;		/* next entry to read */
	u32 cq_told;		/* last cq_head written to the doorbell */
	u32 cq_phase;		/* phase bit of a new completion */
	struct list_head jobs;		/* no unsignalled in-fences, in order; also skipped jobs */
	struct list_head waiting;	/* jobs after those; the first one waits for in-fences */
	u32 to_run;		/* jobs in @jobs that are not skipped; also read locklessly */
	u32 on_card;		/* the leading ones of these, in the ring; also read locklessly */
	bool watched;		/* the watchdog's work is queued */
	bool enabled;		/* the device fetches entries */
	bool distrusted;	/* an invalid completion was seen; none is taken until a reset */
	int error;		/* errno of new jobs once the queue has failed, else 0 */
	u64 done_ns;		/* completion time of the last job */
	unsigned long done;	/* the same in jiffies */
	u64 job_ns;		/* run time of that job, from its write or the previous job's end */
};

/* Returns true if it has a queue pair. Stable under hw_lock or the queue's lock. */
static inline bool qnpu_hw_queue_is_attached(const struct qnpu_hw_queue *queue)
{
	return READ_ONCE(queue->index) != QNPU_NO_QUEUE;
}

void qnpu_hw_queue_init(struct qnpu_hw_queue *queue, struct qnpu_ctx *ctx, u32 priority,
			u32 core_mask);
int qnpu_hw_queue_attach(struct qnpu_hw_queue *queue, u32 index);
void qnpu_hw_queue_detach(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_shutdown(struct qnpu_hw_queue *queue, int error);

void qnpu_hw_queue_push(struct qnpu_hw_queue *queue, struct qnpu_ctx_job **jobs, u32 count);
void qnpu_hw_queue_feed(struct qnpu_hw_queue *queue);
bool qnpu_hw_queue_process_some(struct qnpu_hw_queue *queue, u32 *most);
bool qnpu_hw_queue_process(struct qnpu_hw_queue *queue);

struct qnpu_hw_queue *qnpu_hw_queue_next(struct qnpu_device *npu, u32 *index);
u32 qnpu_hw_queue_status(struct qnpu_hw_queue *queue);
u32 qnpu_hw_queue_cores(struct qnpu_hw_queue *queue);
u64 qnpu_hw_queue_since_ns(struct qnpu_hw_queue *queue, u64 seqno);
struct qnpu_ctx_job *qnpu_hw_queue_watched_job(struct qnpu_hw_queue *queue, unsigned long *since);
void qnpu_hw_queue_check_phase(struct qnpu_hw_queue *queue);
bool qnpu_hw_queue_has_failed(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_abort(struct qnpu_hw_queue *queue, u64 seqno);

void qnpu_hw_queue_suspend(struct qnpu_hw_queue *queue);
int qnpu_hw_queue_stop(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_resume(struct qnpu_hw_queue *queue);
void qnpu_hw_queue_set_error(struct qnpu_hw_queue *queue, int error);
void qnpu_hw_queue_fail_all(struct qnpu_hw_queue *queue, int error);
void qnpu_hw_queue_cancel(struct qnpu_hw_queue *queue, u32 cause);

#endif
