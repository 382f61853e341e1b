/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_RESIDENCY_H
#define QNPU_RESIDENCY_H

#include <linux/list.h>
#include <linux/types.h>

struct qnpu_bo;
struct qnpu_device;
struct qnpu_vma;
struct task_struct;

/** struct qnpu_residency - a submission whose buffers have to come to the card */
struct qnpu_residency {
	/** @npu: device */
	struct qnpu_device *npu;

	/** @task: the submitter */
	struct task_struct *task;

	/** @link: in qnpu_mem.waiters while it waits for card memory, under qnpu_mem.claim_lock */
	struct list_head link;

	/** @seq: order of arrival in that list; U64_MAX: not in it */
	u64 seq;

	/** @claims: buffers that it has a claim on, under qnpu_mem.claim_lock */
	struct list_head claims;

	/** @missing: bytes that it still has to bring to the card, under qnpu_mem.claim_lock */
	u64 missing;

	/** @claimed: bytes of its QNPU_CLAIM_ROOM claims, under qnpu_mem.claim_lock */
	u64 claimed;

	/** @aside: free bytes that its claims have left, kept for it; under qnpu_mem.claim_lock */
	u64 aside;

	/** @evict: idle buffers of others may be moved out */
	bool evict;

	/** @seen: qnpu_mem.freed when the attempt began */
	u32 seen;

	/** @busy: after -EBUSY the buffer to wait for; the caller has a reference */
	struct qnpu_bo *busy;
};

void qnpu_residency_init(struct qnpu_residency *residency, struct qnpu_device *npu);
void qnpu_residency_begin(struct qnpu_residency *residency);
int qnpu_residency_add(struct qnpu_residency *residency, struct qnpu_vma *vma);
int qnpu_residency_try_add(struct qnpu_vma *vma);
int qnpu_residency_retry(struct qnpu_residency *residency, int error);
void qnpu_residency_leave(struct qnpu_residency *residency);
void qnpu_residency_claim_begin(struct qnpu_residency *residency);
void qnpu_residency_claim_use(struct qnpu_residency *residency, struct qnpu_bo *bo);
void qnpu_residency_claim_end(struct qnpu_residency *residency);
u64 qnpu_residency_set_aside(struct qnpu_device *npu);
bool qnpu_residency_may_evict(struct qnpu_bo *bo);
void qnpu_residency_moved(struct qnpu_bo *bo, bool to_card);
void qnpu_residency_forget(struct qnpu_bo *bo);
void qnpu_residency_hold(struct qnpu_bo *bo);
void qnpu_residency_release(struct qnpu_bo *bo);
void qnpu_residency_wake(struct qnpu_device *npu);

#endif
