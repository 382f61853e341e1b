/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_VM_H
#define QNPU_VM_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/sizes.h>

#include <drm/drm_mm.h>

#include "npu_regs.h"
#include "qnpu_mmu.h"

struct drm_file;
struct qnpu_bo;
struct qnpu_device;

/*
 * Each device has a window of addresses, chosen by its node number, so that an address of one
 * device is invalid on another. The first 4 GiB of a window stay unmapped: a truncated address
 * always faults.
 */
#define QNPU_VA_WINDOW	BIT_ULL(40)
#define QNPU_VA_WINDOWS	(BIT_ULL(NPU_VA_BITS) / QNPU_VA_WINDOW)
#define QNPU_VA_EMPTY	SZ_4G

/* Address space of a file. */
struct qnpu_vm {
	/* held by the file, its contexts and each mapping */
	struct kref kref;
	struct qnpu_device *npu;
	struct mutex lock;		/* protects @mm, @space, @card; inside qnpu_bo.vma_lock */
	struct drm_mm mm;		/* addresses in use */
	struct qnpu_space space;	/* page tables */
	u64 card;			/* bytes of card buffers with an address here */
	u32 pairs;			/* queue pairs of its contexts, under hw_lock */
	struct list_head residents;	/* its buffers on the card, oldest first; claim_lock */
	struct list_head residents_link; /* in qnpu_mem.spaces while residents has some */
	u64 resident;			/* bytes of its buffers on the card, under claim_lock */
	atomic64_t cycles[NPU_MAX_CORES]; /* modelled cycles of finished jobs, by core */
	atomic64_t busy_ns[NPU_MAX_CORES]; /* busy time of finished jobs, by core */
	atomic64_t submissions;		/* submissions, of one job or more */
	atomic64_t jobs;		/* finished jobs */
	atomic_t releasing;		/* finished jobs that have yet to drop mappings */
};

/* Mapping of a buffer in an address space. */
struct qnpu_vma {
	struct kref kref;		/* held by each handle and each unfinished job */
	struct qnpu_vm *vm;		/* with a reference */
	struct qnpu_bo *bo;		/* with a reference */
	struct list_head link;		/* in qnpu_bo.vmas, under vma_lock */
	/* It is in the page tables; under vm->lock, and the reservation lock until teardown. */
	bool mapped;
	struct drm_mm_node node;	/* address range with its guard gap; under vm->lock */
};

struct qnpu_vm *qnpu_vm_create(struct qnpu_device *npu);
void qnpu_vm_put(struct qnpu_vm *vm);
void qnpu_vm_released(struct qnpu_vm *vm);
void qnpu_vm_wait_released(struct qnpu_vm *vm);
int qnpu_vm_bind(struct qnpu_vm *vm, struct qnpu_bo *bo);
void qnpu_vm_unbind(struct qnpu_vm *vm, struct qnpu_bo *bo);
void qnpu_vm_protect(struct qnpu_bo *bo);
void qnpu_vm_unmap(struct qnpu_bo *bo);
int qnpu_vm_address(struct drm_file *file, struct qnpu_bo *bo, u64 *va);

struct qnpu_vma *qnpu_vma_find(struct qnpu_vm *vm, struct qnpu_bo *bo);
int qnpu_vma_map(struct qnpu_vma *vma);
void qnpu_vma_put(struct qnpu_vma *vma);

static inline struct qnpu_vm *qnpu_vm_get(struct qnpu_vm *vm)
{
	kref_get(&vm->kref);

	return vm;
}

#endif
