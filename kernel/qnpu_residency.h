/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_RESIDENCY_H
#define QNPU_RESIDENCY_H

#include <linux/list.h>
#include <linux/types.h>

struct qnpu_bo;
struct qnpu_ctx;
struct qnpu_device;
struct qnpu_mem;
struct qnpu_vma;
struct task_struct;

/* A submission whose buffers must become resident. */
struct qnpu_residency {
	struct qnpu_ctx *ctx;
	struct qnpu_mem *mem;
	struct task_struct *task;	/* submitter */
	struct list_head link;		/* in qnpu_mem.waiters while it waits; claim_lock */
	struct list_head claims;	/* buffers claimed for it; claim_lock */
	u64 missing;			/* bytes of its buffers that are not resident yet */
	u64 aside;			/* bytes evicted for it and not yet used; claim_lock */
	u32 seen;			/* qnpu_mem.freed before the attempt */
	bool move_failed;		/* an eviction found no system memory; claim_lock */
	u32 tries;			/* consecutive attempts with @move_failed */
};

void qnpu_residency_init(struct qnpu_residency *residency, struct qnpu_ctx *ctx);
int qnpu_residency_add(struct qnpu_vma *vma);
int qnpu_residency_try_add(struct qnpu_vma *vma);
void qnpu_residency_queue(struct qnpu_residency *residency);
void qnpu_residency_use(struct qnpu_residency *residency, struct qnpu_bo *bo);
int qnpu_residency_retry(struct qnpu_residency *residency, int error);
void qnpu_residency_leave(struct qnpu_residency *residency);
bool qnpu_residency_may_evict(struct qnpu_bo *bo);
u64 qnpu_residency_aside(struct qnpu_bo *bo);
void qnpu_residency_moved(struct qnpu_bo *bo);
void qnpu_residency_move_failed(struct qnpu_device *npu);
void qnpu_residency_wake(struct qnpu_device *npu);

#endif
