/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_RESIDENCY_H
#define NPU_RESIDENCY_H

#include <linux/types.h>

struct npu_device;
struct npu_vma;

/**
 * struct npu_residency - an attempt to have all buffers of a submission on the card
 *
 * Of the caller, who sets @npu and nothing else before the first attempt.
 */
struct npu_residency {
	/** @npu: device */
	struct npu_device *npu;

	/** @evict: idle buffers of others may be moved out; nobody else makes an attempt */
	bool evict;

	/** @seen: jobs that had freed their buffers when the attempt began */
	u32 seen;
};

int npu_residency_begin(struct npu_residency *residency);
int npu_residency_add(struct npu_residency *residency, struct npu_vma *vma);
bool npu_residency_try_begin(struct npu_residency *residency);
int npu_residency_try_add(struct npu_vma *vma);
void npu_residency_end(struct npu_residency *residency);
int npu_residency_retry(struct npu_residency *residency, int error);
void npu_residency_wake(struct npu_device *npu);

#endif
