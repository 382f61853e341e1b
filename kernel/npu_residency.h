/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_RESIDENCY_H
#define NPU_RESIDENCY_H

#include <linux/list.h>
#include <linux/types.h>

struct npu_bo;
struct npu_device;
struct npu_vma;
struct task_struct;

/** struct npu_residency - a submission whose buffers have to come to the card */
struct npu_residency {
	/** @npu: device */
	struct npu_device *npu;

	/** @task: the submitter */
	struct task_struct *task;

	/** @link: in npu_mem.waiters while it waits for card memory, under npu_mem.claim_lock */
	struct list_head link;

	/** @seq: order of arrival in that list; U64_MAX: not in it */
	u64 seq;

	/** @claims: buffers that it has a claim on, under npu_mem.claim_lock */
	struct list_head claims;

	/** @missing: bytes that it still has to bring to the card, under npu_mem.claim_lock */
	u64 missing;

	/** @claimed: bytes of its NPU_CLAIM_ROOM claims, under npu_mem.claim_lock */
	u64 claimed;

	/** @aside: free bytes that its claims have left, kept for it; under npu_mem.claim_lock */
	u64 aside;

	/** @evict: idle buffers of others may be moved out */
	bool evict;

	/** @seen: npu_mem.freed when the attempt began */
	u32 seen;

	/** @busy: after -EBUSY the buffer to wait for; the caller has a reference */
	struct npu_bo *busy;
};

void npu_residency_init(struct npu_residency *residency, struct npu_device *npu);
void npu_residency_begin(struct npu_residency *residency);
int npu_residency_add(struct npu_residency *residency, struct npu_vma *vma);
int npu_residency_try_add(struct npu_vma *vma);
int npu_residency_retry(struct npu_residency *residency, int error);
void npu_residency_leave(struct npu_residency *residency);
void npu_residency_claim_begin(struct npu_residency *residency);
void npu_residency_claim_use(struct npu_residency *residency, struct npu_bo *bo);
void npu_residency_claim_end(struct npu_residency *residency);
u64 npu_residency_set_aside(struct npu_device *npu);
bool npu_residency_may_evict(struct npu_bo *bo);
void npu_residency_moved(struct npu_bo *bo, bool to_card);
void npu_residency_forget(struct npu_bo *bo);
void npu_residency_hold(struct npu_bo *bo);
void npu_residency_release(struct npu_bo *bo);
void npu_residency_wake(struct npu_device *npu);

#endif
