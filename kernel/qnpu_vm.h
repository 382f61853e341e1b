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
 * Each device has a window of addresses, chosen by the number of its node: an address of one
 * device means nothing on another. The first 4 GiB of a window are empty, so that a truncated
 * address never hits.
 */
#define QNPU_VA_WINDOW	BIT_ULL(40)
#define QNPU_VA_WINDOWS	(BIT_ULL(NPU_VA_BITS) / QNPU_VA_WINDOW)
#define QNPU_VA_EMPTY	SZ_4G

/* Address space of a file. */
struct qnpu_vm {
	/* the file, its contexts and each mapping hold references */
	struct kref kref;
	struct qnpu_device *npu;	/* device */
	struct mutex lock;		/* protects mm, space, card; inside of qnpu_bo.vma_lock */
	struct drm_mm mm;		/* addresses in use */
	struct qnpu_space space;	/* page tables */
	u64 card;			/* bytes of card buffers with an address here */
	u32 pairs;			/* queue pairs that its contexts have, under hw_lock */
	struct list_head residents;	/* own buffers on the card, oldest first; claim_lock */
	struct list_head residents_link; /* in qnpu_mem.spaces if there are some; claim_lock */
	u64 resident;			/* their bytes; claim_lock */
	atomic64_t cycles[NPU_MAX_CORES]; /* modelled cycles of the file's finished jobs, by core */
	atomic64_t busy_ns[NPU_MAX_CORES]; /* time that each core was busy with these jobs */
	atomic64_t submissions;		/* the file's submissions, of one job or more */
	atomic64_t jobs;		/* the file's finished jobs */
	atomic_t releasing;		/* finished jobs that still have to drop mappings */
};

/* A buffer in an address space. */
struct qnpu_vma {
	struct kref kref;		/* each handle and each unfinished job hold a reference */
	struct qnpu_vm *vm;		/* address space, with a reference */
	struct qnpu_bo *bo;		/* buffer, with a reference */
	struct list_head link;		/* in the buffer's list, under its vma_lock */
	/* The page tables show it; vm->lock, and until the very end the reservation lock. */
	bool mapped;
	struct drm_mm_node node;	/* place, guard gap included; under vm->lock */
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
