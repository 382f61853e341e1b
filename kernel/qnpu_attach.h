/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_ATTACH_H
#define QNPU_ATTACH_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "npu_regs.h"

struct qnpu_device;
struct qnpu_hw_queue;
struct qnpu_rings;

/** struct qnpu_slot - memory of a queue pair of the card */
struct qnpu_slot {
	/** @rings: coherent memory; NULL: not made yet */
	struct qnpu_rings *rings;

	/** @rings_dma: its bus address */
	dma_addr_t rings_dma;
};

/** struct qnpu_attach - which contexts have a queue pair of the card */
struct qnpu_attach {
	/** @slots: memory of the queue pairs, by number; only grows, under @slots_lock */
	struct qnpu_slot slots[NPU_MAX_QUEUES];

	/** @slot_count: queue pairs that have memory, from number 0 on; under @slots_lock */
	u32 slot_count;

	/** @slots_lock: memory is allocated under it */
	struct mutex slots_lock;

	/** @waiting: queues without a queue pair that have jobs, under @lock */
	struct list_head waiting;

	/** @lock: protects @waiting; inside of qnpu_hw_queue.lock */
	spinlock_t lock;

	/** @mutex: held while @work looks after a queue */
	struct mutex mutex;

	/** @work: gives queue pairs to those that wait */
	struct delayed_work work;

	/** @wq: ordered, runs @work */
	struct workqueue_struct *wq;
};

int qnpu_attach_init(struct qnpu_device *npu);
void qnpu_attach_fini(struct qnpu_device *npu);
void qnpu_attach_release_dma(struct qnpu_device *npu);
int qnpu_attach_prepare(struct qnpu_device *npu, u32 contexts);
int qnpu_attach_internal(struct qnpu_hw_queue *queue);
void qnpu_attach_request(struct qnpu_hw_queue *queue);
void qnpu_attach_cancel(struct qnpu_hw_queue *queue);
void qnpu_attach_kick(struct qnpu_device *npu);
void qnpu_attach_trim(struct qnpu_device *npu);

#endif
