/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_COREDUMP_H
#define QNPU_COREDUMP_H

#include <linux/ratelimit_types.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "qnpu_hw_queue.h"

struct qnpu_ctx;
struct qnpu_device;
struct qnpu_ctx_job;
struct qnpu_vma;

/** struct qnpu_dump_text - a text that ends where its memory does */
struct qnpu_dump_text {
	/** @data: memory, or NULL */
	char *data;

	/** @order: its size, pages */
	unsigned int order;

	/** @used: characters */
	size_t used;
};

/**
 * struct qnpu_coredump - the dump that is being made; there is room for one
 *
 * Whoever sets @busy owns the rest, and passes it on to the work.
 */
struct qnpu_coredump {
	/** @lock: protects @busy and @limit; taken by interrupt handlers */
	spinlock_t lock;

	/** @busy: a dump is being made */
	bool busy;

	/** @limit: how often that may be */
	struct ratelimit_state limit;

	/** @work: writes what is not yet written, and hands it to user space */
	struct work_struct work;

	/** @reason: why it is made */
	const char *reason;

	/** @ctx: context of the job, with a reference */
	struct qnpu_ctx *ctx;

	/** @asid: its address space */
	u32 asid;

	/** @seqno: the job */
	u64 seqno;

	/** @completed: @cqe is there */
	bool completed;

	/** @cqe: what the card said of the job */
	struct npu_cqe cqe;

	/** @desc_bytes: size of @desc */
	u32 desc_bytes;

	/** @desc: the job's descriptor */
	u8 desc[QNPU_DESC_BYTES] __aligned(8);

	/** @region_count: entries of @vmas */
	u32 region_count;

	/** @own_vmas: references are held on @vmas */
	bool own_vmas;

	/** @vmas: mapping of each region */
	struct qnpu_vma *vmas[NPU_MAX_REGIONS];

	/** @text: the dump */
	struct qnpu_dump_text text;
};

void qnpu_coredump_init(struct qnpu_device *npu);
void qnpu_coredump_fini(struct qnpu_device *npu);
void qnpu_coredump_fault(struct qnpu_ctx_job *job, const struct npu_cqe *cqe);
void qnpu_coredump_kill(struct qnpu_ctx_job *job, const char *reason);

#endif
