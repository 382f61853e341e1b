/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_FAIR_H
#define NPU_FAIR_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/types.h>

#include "npu_regs.h"

struct npu_device;
struct npu_hw_queue;

/** struct npu_share - a user's share of a card's cores, part of struct npu_user */
struct npu_share {
	/** @link: in npu_fair.shares while @queues is not 0, under npu_fair.lock */
	struct list_head link;

	/** @waiting: queues that may not give jobs to the card yet, under npu_fair.lock */
	struct list_head waiting;

	/** @queues: queues of the user, under npu_fair.lock */
	u32 queues;

	/** @active: those that may give jobs to the card, under npu_fair.lock */
	u32 active;

	/** @jobs: unfinished jobs that the card is to run */
	atomic_t jobs;

	/** @idle_since: when @jobs became 0, jiffies */
	unsigned long idle_since;
};

/** struct npu_hold - what a core works on */
struct npu_hold {
	/** @queue: whose job; U32_MAX: nobody's */
	u32 queue;

	/** @seqno: the job */
	u64 seqno;

	/** @since: when it was first seen there, jiffies */
	unsigned long since;
};

/** struct npu_fair - who may use a card's cores */
struct npu_fair {
	/** @lock: protects what belongs to the shares; outside of npu_hw_queue.lock */
	spinlock_t lock;

	/** @shares: those of users with contexts */
	struct list_head shares;

	/** @waiting: queues in the lists npu_share.waiting, under @lock */
	u32 waiting;

	/** @holds: of each core; used by npu_fair_look() only */
	struct npu_hold holds[NPU_MAX_CORES];

	/** @timer: gives the cores of a user who has become idle to the others */
	struct timer_list timer;
};

void npu_fair_init(struct npu_device *npu);
void npu_fair_fini(struct npu_device *npu);
void npu_fair_init_share(struct npu_share *share);
void npu_fair_add(struct npu_hw_queue *queue);
void npu_fair_remove(struct npu_hw_queue *queue);
void npu_fair_update(struct npu_hw_queue *queue);
bool npu_fair_look(struct npu_device *npu);
u32 npu_fair_depth(u64 job_ns);

#endif
