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

/* Memory of a queue pair: coherent, until the driver is unbound. */
struct qnpu_slot {
	struct qnpu_rings *rings;
	dma_addr_t rings_dma;
};

/* Multiplexes the device's queue pairs among contexts. */
struct qnpu_attach {
	struct mutex slots_lock;	/* for both below, which only grow; held over allocations */
	struct qnpu_slot slots[NPU_MAX_QUEUES];
	u32 slot_count;			/* slots with memory, from number 0 on */

	spinlock_t lock;		/* for @waiting; inside qnpu_hw_queue.lock */
	struct list_head waiting;	/* queues with jobs but no queue pair */

	struct mutex mutex;		/* held while @work attaches a queue */
	struct delayed_work work;
	struct workqueue_struct *wq;	/* ordered */
};

int qnpu_attach_init(struct qnpu_device *npu);
void qnpu_attach_fini(struct qnpu_device *npu);
int qnpu_attach_prepare(struct qnpu_device *npu, u32 contexts);
int qnpu_attach_queue(struct qnpu_hw_queue *queue);
void qnpu_attach_request(struct qnpu_hw_queue *queue);
void qnpu_attach_cancel(struct qnpu_hw_queue *queue);
void qnpu_attach_kick(struct qnpu_device *npu);
void qnpu_attach_trim(struct qnpu_device *npu);

#endif
