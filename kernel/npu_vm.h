/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_VM_H
#define NPU_VM_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/sizes.h>

#include <drm/drm_mm.h>

#include "npu_mmu.h"
#include "npu_regs.h"

struct drm_file;
struct npu_bo;
struct npu_device;


/*
 * Each device has a window of addresses, chosen by the number of its node: an address of one
 * device means nothing on another. The first 4 GiB of a window are empty, so that a truncated
 * address never hits.
 */
#define NPU_VA_WINDOW	BIT_ULL(40)
#define NPU_VA_WINDOWS	(BIT_ULL(NPU_VA_BITS) / NPU_VA_WINDOW)
#define NPU_VA_EMPTY	SZ_4G

/** struct npu_vm - address space of a file */
struct npu_vm {
	/** @kref: the file, its contexts and each mapping hold references */
	struct kref kref;

	/** @npu: device */
	struct npu_device *npu;

	/** @lock: protects @mm, @space and @card; inside of reservation and mapping locks */
	struct mutex lock;

	/** @mm: addresses in use */
	struct drm_mm mm;

	/** @space: page tables */
	struct npu_space space;

	/** @card: bytes of card buffers that have an address here, wherever they are at present */
	u64 card;

	/** @pairs: queue pairs of the card that its contexts have, under hw_lock */
	u32 pairs;

	/** @resident: bytes of its own buffers that are on the card, under npu_mem.claim_lock */
	u64 resident;

	/** @passed: claims have gone over all its buffers, under npu_mem.claim_lock */
	bool passed;

	/** @cycles: modelled cycles of the file's finished jobs, by core */
	atomic64_t cycles[NPU_MAX_CORES];

	/** @busy_ns: time that each core was busy with the file's finished jobs */
	atomic64_t busy_ns[NPU_MAX_CORES];

	/** @submissions: the file's submissions, of one job or more */
	atomic64_t submissions;

	/** @jobs: the file's finished jobs */
	atomic64_t jobs;
	/**
	 * @releasing: finished jobs that still have to drop mappings; see npu_vm_wait_released()
	 */
	atomic_t releasing;
};

/** struct npu_vma - a buffer in an address space */
struct npu_vma {
	/** @kref: each handle and each unfinished job hold a reference */
	struct kref kref;

	/** @vm: address space, with a reference */
	struct npu_vm *vm;

	/** @bo: buffer, with a reference */
	struct npu_bo *bo;

	/** @link: in the buffer's list, under its vma_lock */
	struct list_head link;

	/**
	 * @mapped: the page tables show the buffer; under the address space's lock, and changed
	 * only with the buffer's reservation lock held, except at the very end
	 */
	bool mapped;

	/** @node: place, guard gap included; under the address space's lock */
	struct drm_mm_node node;
};

struct npu_vm *npu_vm_create(struct npu_device *npu);
void npu_vm_put(struct npu_vm *vm);
void npu_vm_released(struct npu_vm *vm);
void npu_vm_wait_released(struct npu_vm *vm);
int npu_vm_bind(struct npu_vm *vm, struct npu_bo *bo);
void npu_vm_unbind(struct npu_vm *vm, struct npu_bo *bo);
void npu_vm_protect(struct npu_bo *bo);
void npu_vm_unmap(struct npu_bo *bo);
int npu_vm_address(struct drm_file *file, struct npu_bo *bo, u64 *va);

struct npu_vma *npu_vma_find(struct npu_vm *vm, struct npu_bo *bo);
int npu_vma_map(struct npu_vma *vma);
void npu_vma_put(struct npu_vma *vma);

static inline struct npu_vm *npu_vm_get(struct npu_vm *vm)
{
	kref_get(&vm->kref);

	return vm;
}

#endif
