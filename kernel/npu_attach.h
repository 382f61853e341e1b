/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_ATTACH_H
#define NPU_ATTACH_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "npu_regs.h"

struct npu_device;
struct npu_hw_queue;
struct npu_rings;

/** struct npu_slot - memory of a queue pair of the card */
struct npu_slot {
	/** @rings: coherent memory; NULL: not made yet */
	struct npu_rings *rings;

	/** @rings_dma: its bus address */
	dma_addr_t rings_dma;
};

/** struct npu_attach - which contexts have a queue pair of the card */
struct npu_attach {
	/** @slots: memory of the queue pairs, by number; only grows, under @slots_lock */
	struct npu_slot slots[NPU_MAX_QUEUES];

	/** @slot_count: queue pairs that have memory, from number 0 on; under @slots_lock */
	u32 slot_count;

	/** @slots_lock: memory is allocated under it */
	struct mutex slots_lock;

	/** @waiting: queues without a queue pair that have jobs, under @lock */
	struct list_head waiting;

	/** @lock: protects @waiting; inside of npu_hw_queue.lock */
	spinlock_t lock;

	/** @mutex: held while @work looks after a queue */
	struct mutex mutex;

	/** @work: gives queue pairs to those that wait */
	struct delayed_work work;

	/** @wq: ordered, runs @work */
	struct workqueue_struct *wq;
};

int npu_attach_init(struct npu_device *npu);
void npu_attach_fini(struct npu_device *npu);
void npu_attach_release_dma(struct npu_device *npu);
int npu_attach_prepare(struct npu_device *npu, u32 contexts);
int npu_attach_internal(struct npu_hw_queue *queue);
void npu_attach_request(struct npu_hw_queue *queue);
void npu_attach_cancel(struct npu_hw_queue *queue);
void npu_attach_kick(struct npu_device *npu);
void npu_attach_trim(struct npu_device *npu);

#endif
