// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address spaces of files.
 *
 * The kernel chooses addresses. An unmapped gap follows each buffer, so that an overrun never
 * reaches the next one.
 */
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_vm.h"

#define QNPU_VA_GUARD	SZ_64K

/* Creates an empty address space. */
struct qnpu_vm *qnpu_vm_create(struct qnpu_device *npu)
{
	struct qnpu_vm *vm;
	int ret;

	vm = kzalloc_obj(*vm, QNPU_GFP_USER);
	if (!vm)
		return ERR_PTR(-ENOMEM);

	ret = qnpu_space_init(&vm->space, npu);
	if (ret) {
		kfree(vm);
		return ERR_PTR(ret);
	}

	kref_init(&vm->kref);
	vm->npu = npu;
	INIT_LIST_HEAD(&vm->residents);
	mutex_init(&vm->lock);
	drm_mm_init(&vm->mm, npu->info.va_start, npu->info.va_end - npu->info.va_start);

	return vm;
}

static void qnpu_vm_release(struct kref *kref)
{
	struct qnpu_vm *vm = container_of(kref, struct qnpu_vm, kref);

	qnpu_space_fini(&vm->space);
	drm_mm_takedown(&vm->mm);
	mutex_destroy(&vm->lock);
	kfree(vm);
}

/* Drops a reference to an address space, or to NULL; may sleep. */
void qnpu_vm_put(struct qnpu_vm *vm)
{
	if (vm)
		kref_put(&vm->kref, qnpu_vm_release);
}

/* A finished job has dropped its mappings: drops its reference and its count. */
void qnpu_vm_released(struct qnpu_vm *vm)
{
	if (atomic_dec_and_test(&vm->releasing))
		wake_up_var(&vm->releasing);
	qnpu_vm_put(vm);
}

/* Waits until finished jobs have dropped all mappings; no context is left. */
void qnpu_vm_wait_released(struct qnpu_vm *vm)
{
	wait_var_event(&vm->releasing, !atomic_read(&vm->releasing));
}

/* Returns the mapping of a buffer in an address space, with a reference, or NULL. */
struct qnpu_vma *qnpu_vma_find(struct qnpu_vm *vm, struct qnpu_bo *bo)
{
	struct qnpu_vma *vma;

	guard(mutex)(&bo->vma_lock);
	list_for_each_entry(vma, &bo->vmas, link) {
		if (vma->vm == vm && kref_get_unless_zero(&vma->kref))
			return vma;
	}

	return NULL;
}

/* Releases the address. On return the device cannot access the memory through it. */
static void qnpu_vma_remove(struct qnpu_vma *vma)
{
	struct qnpu_vm *vm = vma->vm;

	guard(mutex)(&vm->lock);
	if (vma->mapped)
		qnpu_space_unmap(&vm->space, vma->node.start, vma->bo->tbo.base.size);
	drm_mm_remove_node(&vma->node);
	vm->card -= qnpu_bo_card_bytes(vma->bo);
}

static void qnpu_vma_release(struct kref *kref)
{
	struct qnpu_vma *vma = container_of(kref, struct qnpu_vma, kref);
	struct qnpu_vm *vm = vma->vm;
	struct qnpu_bo *bo = vma->bo;

	/* Stays on the list until unmapped, so that a move of the buffer finds it. */
	mutex_lock(&bo->vma_lock);
	qnpu_vma_remove(vma);
	list_del(&vma->link);
	mutex_unlock(&bo->vma_lock);

	kfree(vma);
	drm_gem_object_put(&bo->tbo.base);
	qnpu_vm_put(vm);
}

/* Drops a reference; may sleep, takes the address space's lock. */
void qnpu_vma_put(struct qnpu_vma *vma)
{
	kref_put(&vma->kref, qnpu_vma_release);
}

static u64 qnpu_vm_flags(const struct qnpu_bo *bo)
{
	/* Read-only is not constant: others may write the memory. */
	if (bo->sealed)
		return NPU_PTE_CONST;

	return bo->flags & DRM_NPU_BO_READONLY ? 0 : NPU_PTE_WRITE;
}

/* Maps a buffer, resident where jobs use it, at its address. Reservation lock held. */
int qnpu_vma_map(struct qnpu_vma *vma)
{
	struct qnpu_vm *vm = vma->vm;
	int ret = 0;

	dma_resv_assert_held(vma->bo->tbo.base.resv);

	guard(mutex)(&vm->lock);
	if (!vma->mapped)
		ret = qnpu_space_map(&vm->space, vma->node.start, vma->bo,
				     qnpu_bo_is_in_system(vma->bo), qnpu_vm_flags(vma->bo));
	vma->mapped = !ret;

	return ret;
}

/*
 * Assigns an address. The card buffers of one address space never exceed the card in sum, so that
 * all of them fit at once.
 */
static int qnpu_vma_place(struct qnpu_vma *vma)
{
	struct qnpu_vm *vm = vma->vm;
	u64 size = vma->bo->tbo.base.size;
	u64 align = size >= SZ_2M ? SZ_2M : SZ_64K;
	u64 card = qnpu_bo_card_bytes(vma->bo);
	int ret;

	guard(mutex)(&vm->lock);
	if (vm->card + card > qnpu_mem_card_bytes(vm->npu))
		return -ENOSPC;
	ret = drm_mm_insert_node_generic(&vm->mm, &vma->node,
					 round_up(size, SZ_64K) + QNPU_VA_GUARD, align, 0,
					 DRM_MM_INSERT_BEST);
	if (!ret)
		vm->card += card;

	return ret == -ENOSPC ? -ENOMEM : ret;
}

static int qnpu_vma_create(struct qnpu_vm *vm, struct qnpu_bo *bo)
{
	struct qnpu_vma *vma = kzalloc_obj(*vma, QNPU_GFP_USER);
	int ret;

	if (!vma)
		return -ENOMEM;
	kref_init(&vma->kref);
	vma->vm = vm;
	vma->bo = bo;
	ret = qnpu_vma_place(vma);
	if (!ret && qnpu_bo_is_home(bo)) {
		ret = qnpu_vma_map(vma);
		if (ret)
			qnpu_vma_remove(vma);
	}
	if (ret) {
		kfree(vma);
		return ret;
	}

	qnpu_vm_get(vm);
	drm_gem_object_get(&bo->tbo.base);
	guard(mutex)(&bo->vma_lock);
	list_add(&vma->link, &bo->vmas);

	return 0;
}

/*
 * Assigns a buffer's address for a new handle; its reservation lock is not held. All handles in an
 * address space share one address. An evicted buffer is mapped when it returns.
 */
int qnpu_vm_bind(struct qnpu_vm *vm, struct qnpu_bo *bo)
{
	int ret;

	/* Excludes sealing between the choice of flags and the list insertion. */
	ret = dma_resv_lock_interruptible(bo->tbo.base.resv, NULL);
	if (ret)
		return ret;

	if (!qnpu_vma_find(vm, bo))
		ret = qnpu_vma_create(vm, bo);
	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

/* Drops the mapping of a handle. Unfinished jobs keep the mapping. */
void qnpu_vm_unbind(struct qnpu_vm *vm, struct qnpu_bo *bo)
{
	struct qnpu_vma *vma = qnpu_vma_find(vm, bo);

	if (!vma)
		return;

	/* The references of qnpu_vma_find() and of the handle. */
	qnpu_vma_put(vma);
	qnpu_vma_put(vma);
}

/* Makes all mappings of a sealed buffer constant. Reservation lock held. */
void qnpu_vm_protect(struct qnpu_bo *bo)
{
	struct qnpu_vma *vma;

	dma_resv_assert_held(bo->tbo.base.resv);

	guard(mutex)(&bo->vma_lock);
	list_for_each_entry(vma, &bo->vmas, link) {
		guard(mutex)(&vma->vm->lock);
		if (vma->mapped)
			qnpu_space_map(&vma->vm->space, vma->node.start, bo,
				       qnpu_bo_is_in_system(bo), qnpu_vm_flags(bo));
	}
}

/*
 * Unmaps an idle buffer from all address spaces before a move; the addresses stay reserved.
 * Reservation lock held. On return the device cannot access the buffer.
 */
void qnpu_vm_unmap(struct qnpu_bo *bo)
{
	struct qnpu_vma *vma;

	dma_resv_assert_held(bo->tbo.base.resv);

	/* The list also holds mappings whose last reference was just dropped. */
	guard(mutex)(&bo->vma_lock);
	list_for_each_entry(vma, &bo->vmas, link) {
		guard(mutex)(&vma->vm->lock);
		if (vma->mapped)
			qnpu_space_unmap(&vma->vm->space, vma->node.start, bo->tbo.base.size);
		vma->mapped = false;
	}
}

/* Gets the device address of a buffer in a file; -ENOENT: it has none. */
int qnpu_vm_address(struct drm_file *file, struct qnpu_bo *bo, u64 *va)
{
	struct qnpu_vm *vm = qnpu_file_vm(file);
	struct qnpu_vma *vma;

	if (IS_ERR(vm))
		return PTR_ERR(vm);

	vma = qnpu_vma_find(vm, bo);
	if (!vma)
		return -ENOENT;

	*va = vma->node.start;
	qnpu_vma_put(vma);

	return 0;
}
