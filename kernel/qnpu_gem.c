// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: GEM objects over TTM.
 *
 * Handles, CPU mappings and unfinished jobs hold references to the GEM object, which holds the one
 * reference to TTM's.
 */
#include <linux/dma-buf.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <drm/drm_prime.h>
#include <drm/drm_print.h>
#include <drm/drm_utils.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_pages.h"
#include "qnpu_prime.h"
#include "qnpu_trace.h"
#include "qnpu_userptr.h"
#include "qnpu_vm.h"

/* Pages mapped at one fault: mappings are mostly read or written from end to end. */
#define QNPU_FAULT_PAGES	64

static void qnpu_bo_destroy(struct ttm_buffer_object *tbo)
{
	struct qnpu_bo *bo = to_qnpu_bo(tbo);

	trace_qnpu_bo_free(bo);
	qnpu_prime_detach(bo);
	drm_gem_object_release(&tbo->base);
	/* TTM has used the exporter's lock until now. */
	if (bo->dma_buf)
		dma_buf_put(bo->dma_buf);
	qnpu_vm_put(bo->owner);
	mem_cgroup_put(bo->memcg);
	if (bo->nobody)
		put_page(bo->nobody);
	mutex_destroy(&bo->vma_lock);
	kfree(bo);
}

static void qnpu_gem_free(struct drm_gem_object *obj)
{
	/* Whoever has closed a buffer finds its memory free, even if it was still being zeroed. */
	if (!gem_to_qnpu_bo(obj)->dma_buf)
		dma_resv_wait_timeout(obj->resv, DMA_RESV_USAGE_KERNEL, false,
				      MAX_SCHEDULE_TIMEOUT);
	/* Nor do pages stay pinned until TTM's work comes: the card has no access any more. */
	qnpu_userptr_destroy(gem_to_qnpu_bo(obj)->userptr);
	ttm_bo_fini(&gem_to_qnpu_bo(obj)->tbo);
}

static int qnpu_gem_open(struct drm_gem_object *obj, struct drm_file *file)
{
	struct qnpu_vm *vm = qnpu_file_vm(file);

	return IS_ERR(vm) ? PTR_ERR(vm) : qnpu_vm_bind(vm, gem_to_qnpu_bo(obj));
}

static void qnpu_gem_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct qnpu_vm *vm = qnpu_file_vm(file);

	/* Reports would not find a file that is closed itself. */
	if (!to_qnpu_file(file)->closing)
		qnpu_cache_watch_flush(to_qnpu_device(obj->dev));
	if (!IS_ERR(vm))
		qnpu_vm_unbind(vm, gem_to_qnpu_bo(obj));
}

/* Between caches and memory that the card reaches. */
static int qnpu_bo_sync_system(struct qnpu_bo *bo, u64 offset, u64 bytes, u32 direction)
{
	if (bo->flags & DRM_NPU_BO_PINNED)
		return qnpu_userptr_sync(bo, offset, bytes, direction);

	return qnpu_pages_sync(to_qnpu_device(bo->tbo.base.dev), bo->tbo.ttm, offset, bytes,
			       direction);
}

/* As qnpu_mmap() marks it. */
static bool qnpu_vma_is_uncached(const struct vm_area_struct *vma)
{
	return pgprot_val(vma->vm_page_prot) ==
	       pgprot_val(pgprot_writecombine(vma->vm_page_prot));
}

/* Memory of others, and that of the card, is mapped as it has to be. */
static bool qnpu_bo_may_be_uncached(const struct qnpu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_SYSTEM && !bo->dma_buf && !bo->userptr;
}

/*
 * Uncached mapping: dirty lines are written back first, so that none of them is evicted over later
 * stores. Lines are not invalidated: other processes may be writing through the caches. On a
 * coherent device the mapping is cached.
 */
static int qnpu_bo_mmap_uncached(struct qnpu_bo *bo, struct vm_area_struct *vma)
{
	if (to_qnpu_device(bo->tbo.base.dev)->coherent) {
		vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
		return 0;
	}
	WRITE_ONCE(bo->uncached, true);

	return qnpu_bo_sync_system(bo, 0, bo->tbo.base.size, DRM_NPU_SYNC_TO_DEVICE);
}

static int qnpu_gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	bool uncached = qnpu_vma_is_uncached(vma);
	struct qnpu_bo *bo = gem_to_qnpu_bo(obj);
	int ret = 0;

	if (uncached && !qnpu_bo_may_be_uncached(bo))
		return -EINVAL;
	if (bo->dma_buf)
		return qnpu_prime_mmap(obj, vma);
	if (bo->userptr)
		return -EOPNOTSUPP;

	/* Pages are inserted by frame number, which a private copy-on-write mapping cannot have. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	if (READ_ONCE(bo->sealed))
		return -EACCES;
	if (uncached)
		ret = qnpu_bo_mmap_uncached(bo, vma);
	if (!ret)
		vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);

	return ret;
}

/* Wait until memory is zeroed, as TTM does it, and let the access be tried again. */
static vm_fault_t qnpu_gem_fault_wait(struct vm_fault *vmf, struct qnpu_bo *bo)
{
	struct drm_gem_object *obj = &bo->tbo.base;
	long ret;

	if (!fault_flag_allow_retry_first(vmf->flags)) {
		ret = dma_resv_wait_timeout(obj->resv, DMA_RESV_USAGE_KERNEL, true,
					    MAX_SCHEDULE_TIMEOUT);
		return ret < 0 && ret != -ERESTARTSYS ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
	}
	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return VM_FAULT_RETRY;

	drm_gem_object_get(obj);
	mmap_read_unlock(vmf->vma->vm_mm);
	dma_resv_unlock(obj->resv);
	dma_resv_wait_timeout(obj->resv, DMA_RESV_USAGE_KERNEL, true, MAX_SCHEDULE_TIMEOUT);
	drm_gem_object_put(obj);

	return VM_FAULT_RETRY;
}

static int qnpu_gem_fault_no_change(pte_t *pte, unsigned long addr, void *data)
{
	return 0;
}

/*
 * A card that is gone, or lost: whoever looks sees a page of nobody. It is the buffer's, and freed
 * and charged as such, since mappings can be made and looked at without end (of a dma-buf, too).
 */
static vm_fault_t qnpu_gem_fault_nobody(struct vm_fault *vmf, struct qnpu_bo *bo)
{
	struct qnpu_device *npu = to_qnpu_device(bo->tbo.base.dev);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long at = vmf->address;
	unsigned long end = at + min(vma->vm_end - at, QNPU_FAULT_PAGES * PAGE_SIZE);
	vm_fault_t ret = VM_FAULT_NOPAGE;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!bo->nobody)
		bo->nobody = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!bo->nobody)
		return VM_FAULT_OOM;

	/* Through the caches, where its zeros are. */
	for (; at < end && ret == VM_FAULT_NOPAGE; at += PAGE_SIZE)
		ret = vmf_insert_pfn_prot(vma, at, page_to_pfn(bo->nobody),
					  vm_get_page_prot(vma->vm_flags));

	/* Whoever takes a lost card back says so, then takes these pages away: not too early. */
	smp_mb(); /* the page before the question */
	if (!drm_dev_is_unplugged(&npu->drm) && !READ_ONCE(npu->wedged))
		ttm_bo_unmap_virtual(&bo->tbo);

	return ret;
}

/*
 * Pages of the card, which is entered while they are inserted: whoever resets it takes all of them
 * away before. Nothing may be allocated then, so the process's page tables are made first.
 */
static vm_fault_t qnpu_gem_fault_card(struct vm_fault *vmf, struct qnpu_bo *bo)
{
	struct qnpu_device *npu = to_qnpu_device(bo->tbo.base.dev);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long bytes = min(vma->vm_end - vmf->address, QNPU_FAULT_PAGES * PAGE_SIZE);
	vm_fault_t ret;
	int idx, error;

	if (apply_to_page_range(vma->vm_mm, vmf->address, bytes, qnpu_gem_fault_no_change, NULL))
		return VM_FAULT_OOM;
	error = qnpu_device_enter_killable(npu, &idx);
	/* The access is tried again, unless the signal ends the process first. */
	if (error == -EINTR)
		return VM_FAULT_NOPAGE;
	if (error)
		return qnpu_gem_fault_nobody(vmf, bo);
	ret = ttm_bo_vm_fault_reserved(vmf, vma->vm_page_prot, QNPU_FAULT_PAGES);
	qnpu_device_exit(npu, idx);

	return ret;
}

/*
 * What memory held before it was this buffer's is never shown: where zeroing is not finished it is
 * waited for. It fails only when the card is lost, and then nothing of the card is shown until all
 * of it was zeroed, see qnpu_recover_take_back().
 */
static vm_fault_t qnpu_gem_fault_reserved(struct vm_fault *vmf, struct qnpu_bo *bo)
{
	vm_fault_t ret;
	int idx;

	if (bo->sealed)
		return VM_FAULT_SIGBUS;
	if (bo->tbo.resource && bo->tbo.resource->mem_type == TTM_PL_VRAM) {
		if (!dma_resv_test_signaled(bo->tbo.base.resv, DMA_RESV_USAGE_KERNEL))
			return qnpu_gem_fault_wait(vmf, bo);
		return qnpu_gem_fault_card(vmf, bo);
	}

	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return qnpu_gem_fault_nobody(vmf, bo);
	ret = ttm_bo_vm_fault_reserved(vmf, vmf->vma->vm_page_prot, QNPU_FAULT_PAGES);
	drm_dev_exit(idx);

	return ret;
}

static vm_fault_t qnpu_gem_fault(struct vm_fault *vmf)
{
	struct qnpu_bo *bo = to_qnpu_bo(vmf->vma->vm_private_data);
	vm_fault_t ret;

	ret = ttm_bo_vm_reserve(&bo->tbo, vmf);
	if (ret)
		return ret;

	ret = qnpu_gem_fault_reserved(vmf, bo);

	/* The lock is dropped already where a retry is asked for after a wait. */
	if (ret == VM_FAULT_RETRY && !(vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
		return ret;

	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

static const struct vm_operations_struct qnpu_gem_vm_ops = {
	.fault = qnpu_gem_fault,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

static const struct drm_gem_object_funcs qnpu_gem_funcs = {
	.free = qnpu_gem_free,
	.open = qnpu_gem_open,
	.close = qnpu_gem_close,
	.export = qnpu_prime_export,
	.mmap = qnpu_gem_mmap,
	.vm_ops = &qnpu_gem_vm_ops,
};

static struct qnpu_bo *qnpu_bo_alloc(struct qnpu_device *npu, u64 size, u32 flags)
{
	struct qnpu_bo *bo;

	/* GEM and TTM take fault handling and GEM references for one: the same pointer is both. */
	BUILD_BUG_ON(offsetof(struct ttm_buffer_object, base));

	bo = kzalloc_obj(*bo, QNPU_GFP_USER);
	if (!bo)
		return NULL;

	bo->flags = flags;
	bo->mem_type = QNPU_BO_NOWHERE;
	mutex_init(&bo->vma_lock);
	INIT_LIST_HEAD(&bo->vmas);
	INIT_LIST_HEAD(&bo->import_link);
	INIT_LIST_HEAD(&bo->resident_link);
	INIT_LIST_HEAD(&bo->claim_link);
	bo->tbo.base.funcs = &qnpu_gem_funcs;
	drm_gem_private_object_init(&npu->drm, &bo->tbo.base, size);

	return bo;
}

/* A buffer of somebody else's pages, mapped for the card; reserved on return. */
static struct qnpu_bo *qnpu_bo_create_sg(struct qnpu_device *npu, u64 size, u32 flags,
					 struct sg_table *sg, struct dma_buf *dma_buf)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_TT };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	struct ttm_operation_ctx ctx = { .interruptible = true };
	struct qnpu_bo *bo;
	int ret;

	bo = qnpu_bo_alloc(npu, size, flags);
	if (!bo)
		return ERR_PTR(-ENOMEM);

	if (dma_buf) {
		get_dma_buf(dma_buf);
		bo->dma_buf = dma_buf;
	}
	ret = ttm_bo_init_reserved(&npu->mem.ttm, &bo->tbo, ttm_bo_type_sg, &placement, 0, &ctx,
				   sg, dma_buf ? dma_buf->resv : NULL, qnpu_bo_destroy);
	if (ret)
		return ERR_PTR(ret);

	trace_qnpu_bo_create(bo);

	return bo;
}

/**
 * qnpu_bo_create_import - make a buffer of memory that belongs to an exporter
 * @npu: device
 * @dma_buf: the exporter's, its reservation lock held
 * @sg: the memory, mapped for the card
 */
struct qnpu_bo *qnpu_bo_create_import(struct qnpu_device *npu, struct dma_buf *dma_buf,
				      struct sg_table *sg)
{
	u32 flags = DRM_NPU_BO_SYSTEM;

	if (!(dma_buf->file->f_mode & FMODE_WRITE))
		flags |= DRM_NPU_BO_READONLY;
	return qnpu_bo_create_sg(npu, dma_buf->size, flags, sg, dma_buf);
}

/**
 * qnpu_bo_create_pinned - make a buffer of pages that somebody else has pinned and mapped
 * @npu: device
 * @size: bytes
 * @flags: see struct qnpu_bo
 * @sg: the memory, mapped for the card
 */
struct qnpu_bo *qnpu_bo_create_pinned(struct qnpu_device *npu, u64 size, u32 flags,
				      struct sg_table *sg)
{
	struct qnpu_bo *bo = qnpu_bo_create_sg(npu, size, flags, sg, NULL);

	if (!IS_ERR(bo))
		ttm_bo_unreserve(&bo->tbo);

	return bo;
}

/**
 * qnpu_bo_create - make a buffer with memory of its own, filled with zeros
 * @npu: device, held
 * @vm: address space of who makes it, or NULL
 * @size: bytes, multiple of a page
 * @flags: see struct qnpu_bo
 */
struct qnpu_bo *qnpu_bo_create(struct qnpu_device *npu, struct qnpu_vm *vm, u64 size, u32 flags)
{
	/* Creation evicts nobody: what finds no room on the card comes there when it is used. */
	static const struct ttm_place places[] = {
		{ .mem_type = TTM_PL_VRAM, .flags = TTM_PL_FLAG_DESIRED },
		{ .mem_type = TTM_PL_TT, .flags = TTM_PL_FLAG_FALLBACK },
		{ .mem_type = TTM_PL_TT },
	};
	struct ttm_placement placement = { .placement = places, .num_placement = 2 };
	struct ttm_operation_ctx ctx = { .interruptible = true, .gfp_retry_mayfail = true };
	struct qnpu_bo *bo;
	int ret;

	bo = qnpu_bo_alloc(npu, size, flags);
	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->owner = vm ? qnpu_vm_get(vm) : NULL;
	bo->memcg = get_mem_cgroup_from_mm(current->mm);
	if (flags & DRM_NPU_BO_SYSTEM)
		placement = (struct ttm_placement) { .placement = &places[2], .num_placement = 1 };

	/* On failure the object is gone. */
	ret = ttm_bo_init_reserved(&npu->mem.ttm, &bo->tbo, ttm_bo_type_device, &placement, 0,
				   &ctx, NULL, NULL, qnpu_bo_destroy);
	if (ret)
		return ERR_PTR(ret);

	trace_qnpu_bo_create(bo);
	ttm_bo_unreserve(&bo->tbo);

	return bo;
}

/**
 * qnpu_ioctl_bo_create - DRM_IOCTL_NPU_BO_CREATE
 * @drm: device
 * @data: struct drm_npu_bo_create
 * @file: caller
 */
int qnpu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct drm_npu_bo_create *args = data;
	struct qnpu_vm *vm;
	struct qnpu_bo *bo;
	int ret, idx;
	u64 size;

	if (args->flags != DRM_NPU_BO_CARD && args->flags != DRM_NPU_BO_SYSTEM)
		return -EINVAL;
	if (!args->size)
		return -EINVAL;
	if (args->size > QNPU_BO_MAX_SIZE)
		return args->flags & DRM_NPU_BO_CARD ? -ENOSPC : -ENOMEM;

	/* Held, so that nothing is mapped for DMA behind the back of a device that goes away. */
	size = PAGE_ALIGN(args->size);
	if (args->flags & DRM_NPU_BO_CARD && size > qnpu_mem_card_bytes(npu))
		return -ENOSPC;
	vm = qnpu_file_vm(file);
	if (IS_ERR(vm))
		return PTR_ERR(vm);
	if (!qnpu_device_hold(npu, &idx))
		return -ENODEV;
	bo = qnpu_bo_create(npu, vm, size, args->flags);
	qnpu_device_release(idx);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	bo->maker = file->client_id;

	ret = drm_gem_handle_create(file, &bo->tbo.base, &args->handle);
	if (ret)
		goto out;

	bo->handle = args->handle;
	args->size = size;
	args->mmap_offset = drm_vma_node_offset_addr(&bo->tbo.base.vma_node);
	ret = qnpu_vm_address(file, bo, &args->va);
out:
	drm_gem_object_put(&bo->tbo.base);
	return ret;
}

/**
 * qnpu_bo_is_lost - were the contents of a buffer lost with the card?
 * @bo: buffer; without its reservation lock the answer may be outdated
 *
 * A card that comes back after it was lost has memory full of zeros.
 */
bool qnpu_bo_is_lost(const struct qnpu_bo *bo)
{
	const struct qnpu_device *npu = to_qnpu_device(bo->tbo.base.dev);

	return READ_ONCE(bo->lost) || (READ_ONCE(bo->mem_type) == TTM_PL_VRAM &&
				       READ_ONCE(bo->losses) != READ_ONCE(npu->losses));
}

/**
 * qnpu_bo_restored - contents are valid, or have moved with their state
 * @bo: buffer, its reservation lock held
 * @lost: they are lost nevertheless
 */
void qnpu_bo_restored(struct qnpu_bo *bo, bool lost)
{
	WRITE_ONCE(bo->losses, READ_ONCE(to_qnpu_device(bo->tbo.base.dev)->losses));
	WRITE_ONCE(bo->lost, lost);
}

static u32 qnpu_bo_info_flags(const struct qnpu_bo *bo)
{
	u32 flags = bo->flags;

	if (READ_ONCE(bo->sealed))
		flags |= DRM_NPU_BO_SEALED;
	if (qnpu_bo_is_evicted(bo))
		flags |= DRM_NPU_BO_EVICTED;
	if (bo->dma_buf)
		flags |= DRM_NPU_BO_IMPORTED;
	if (qnpu_bo_is_lost(bo))
		flags |= DRM_NPU_BO_LOST;

	return flags;
}

/**
 * qnpu_ioctl_bo_info - DRM_IOCTL_NPU_BO_INFO
 * @drm: device
 * @data: struct drm_npu_bo_info
 * @file: caller
 */
int qnpu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_info *args = data;
	struct drm_gem_object *obj;
	struct qnpu_bo *bo;
	int ret;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;

	bo = gem_to_qnpu_bo(obj);
	args->flags = qnpu_bo_info_flags(bo);
	args->size = obj->size;
	args->mmap_offset = bo->userptr ? 0 : drm_vma_node_offset_addr(&obj->vma_node);
	ret = qnpu_vm_address(file, bo, &args->va);
	drm_gem_object_put(obj);

	return ret;
}

/* Between the memory of the caller and the buffer, and between that and the card. */
static int qnpu_bo_sync_bounce(struct qnpu_bo *bo, const struct drm_npu_bo_sync *args)
{
	int ret = 0;

	if (args->direction & DRM_NPU_SYNC_TO_DEVICE)
		ret = qnpu_userptr_copy_in(bo, args->offset, args->size);
	if (!ret)
		ret = qnpu_bo_sync_system(bo, args->offset, args->size, args->direction);
	if (!ret && args->direction & DRM_NPU_SYNC_FROM_DEVICE)
		ret = qnpu_userptr_copy_out(bo, args->offset, args->size);

	return ret;
}

/**
 * qnpu_bo_sync - cache maintenance
 * @bo: buffer, its reservation lock not held
 * @args: what, inside of the buffer
 */
int qnpu_bo_sync(struct qnpu_bo *bo, const struct drm_npu_bo_sync *args)
{
	int ret;

	if (bo->dma_buf)
		return qnpu_prime_sync(bo, args->direction);
	if (bo->flags & DRM_NPU_BO_BOUNCE)
		return qnpu_bo_sync_bounce(bo, args);
	if (bo->flags & DRM_NPU_BO_SYSTEM)
		return qnpu_bo_sync_system(bo, args->offset, args->size, args->direction);

	ret = dma_resv_lock_interruptible(bo->tbo.base.resv, NULL);
	if (ret)
		return ret;

	/*
	 * On the card: drains write-combining buffers, its memory needs nothing else. One that has
	 * made room for others has its caches seen to when it comes back.
	 */
	mb();
	if (qnpu_bo_is_home(bo) && qnpu_bo_is_in_system(bo))
		ret = qnpu_bo_sync_system(bo, args->offset, args->size, args->direction);
	if (!ret && args->direction & DRM_NPU_SYNC_TO_DEVICE && !args->offset &&
	    args->size == bo->tbo.base.size)
		qnpu_bo_restored(bo, false);
	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

/**
 * qnpu_ioctl_bo_sync - DRM_IOCTL_NPU_BO_SYNC
 * @drm: device
 * @data: struct drm_npu_bo_sync
 * @file: caller
 */
int qnpu_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_sync *args = data;
	struct drm_gem_object *obj;
	int ret;

	if (!args->direction ||
	    args->direction & ~(DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE))
		return -EINVAL;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;

	if (args->offset > obj->size || args->size > obj->size - args->offset)
		ret = -EINVAL;
	else
		ret = qnpu_bo_sync(gem_to_qnpu_bo(obj), args);
	drm_gem_object_put(obj);

	return ret;
}

/* What the CPU has written last is for the card, and nobody can say so any more. */
static void qnpu_bo_settle(struct qnpu_bo *bo)
{
	if (bo->flags & DRM_NPU_BO_SYSTEM)
		qnpu_bo_sync_system(bo, 0, bo->tbo.base.size, DRM_NPU_SYNC_TO_DEVICE);
}

/**
 * qnpu_ioctl_bo_seal - DRM_IOCTL_NPU_BO_SEAL
 * @drm: device
 * @data: struct drm_npu_bo_seal
 * @file: caller
 */
int qnpu_ioctl_bo_seal(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_seal *args = data;
	struct drm_gem_object *obj;
	struct qnpu_bo *bo;
	long wait;
	int ret;

	if (args->pad)
		return -EINVAL;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	bo = gem_to_qnpu_bo(obj);

	/* The driver's own writing, the zeros of a new buffer, is no reason to refuse. */
	wait = dma_resv_wait_timeout(obj->resv, DMA_RESV_USAGE_KERNEL, true, MAX_SCHEDULE_TIMEOUT);
	ret = wait < 0 ? wait : dma_resv_lock_interruptible(obj->resv, NULL);
	if (ret)
		goto out;

	if (bo->dma_buf || bo->userptr) {
		ret = -EOPNOTSUPP;
	} else if (bo->maker != file->client_id) {
		/* Who has got it from somebody else must not take it from the maker. */
		ret = -EPERM;
	} else if (!dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_WRITE) ||
		   qnpu_prime_is_attached(bo)) {
		ret = -EBUSY;
	} else if (!bo->sealed) {
		WRITE_ONCE(bo->sealed, true);
		ttm_bo_unmap_virtual(&bo->tbo);
		qnpu_bo_settle(bo);
		qnpu_vm_protect(bo);
	}
	dma_resv_unlock(obj->resv);
out:
	drm_gem_object_put(obj);
	return ret;
}

/**
 * qnpu_ioctl_bo_wait - DRM_IOCTL_NPU_BO_WAIT
 * @drm: device
 * @data: struct drm_npu_bo_wait
 * @file: caller
 */
int qnpu_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_wait *args = data;
	enum dma_resv_usage usage = DMA_RESV_USAGE_BOOKKEEP;
	struct drm_gem_object *obj;
	long ret;

	if (args->flags & ~DRM_NPU_BO_WAIT_WRITERS)
		return -EINVAL;
	if (args->flags & DRM_NPU_BO_WAIT_WRITERS)
		usage = DMA_RESV_USAGE_WRITE;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;

	ret = dma_resv_wait_timeout(obj->resv, usage, true,
				    drm_timeout_abs_to_jiffies(args->timeout_ns));
	drm_gem_object_put(obj);

	return ret > 0 ? 0 : ret ?: -ETIME;
}

/**
 * qnpu_gem_usage - what a file has handles of
 * @file: file
 * @usage: answer
 */
void qnpu_gem_usage(struct drm_file *file, struct qnpu_gem_usage *usage)
{
	struct drm_gem_object *obj;
	int id;

	memset(usage, 0, sizeof(*usage));

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		const struct qnpu_bo *bo = gem_to_qnpu_bo(obj);
		bool card = bo->flags & DRM_NPU_BO_CARD;
		bool shared = drm_gem_object_is_shared_for_memory_stats(obj);
		bool active = !dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_BOOKKEEP);

		*(card ? &usage->card : &usage->system) += obj->size;
		if (shared)
			*(card ? &usage->card_shared : &usage->system_shared) += obj->size;
		if (active)
			*(card ? &usage->card_active : &usage->system_active) += obj->size;
		if (qnpu_bo_is_evicted(bo))
			usage->evicted += obj->size;
		usage->largest = max_t(u64, usage->largest, obj->size);
	}
	spin_unlock(&file->table_lock);
}
