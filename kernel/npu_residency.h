/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_RESIDENCY_H
#define NPU_RESIDENCY_H

#include <linux/list.h>
#include <linux/types.h>

struct npu_bo;
struct npu_device;
struct npu_vma;

/** struct npu_residency - an attempt to have all buffers of a submission on the card */
struct npu_residency {
	/** @npu: device */
	struct npu_device *npu;

	/** @link: in npu_mem.line while it waits for card memory */
	struct list_head link;

	/** @evict: idle buffers of others may be moved out; nobody else makes an attempt */
	bool evict;

	/** @seen: jobs that had freed their buffers when the attempt began */
	u32 seen;

	/** @busy: after -EBUSY the buffer that is to be waited for; the caller has a reference */
	struct npu_bo *busy;
};

void npu_residency_init(struct npu_residency *residency, struct npu_device *npu);
int npu_residency_begin(struct npu_residency *residency);
int npu_residency_add(struct npu_residency *residency, struct npu_vma *vma);
bool npu_residency_try_begin(struct npu_residency *residency);
int npu_residency_try_add(struct npu_vma *vma);
void npu_residency_end(struct npu_residency *residency);
int npu_residency_retry(struct npu_residency *residency, int error);
void npu_residency_leave(struct npu_residency *residency);

bool npu_residency_claim_begin(struct npu_residency *residency);
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
