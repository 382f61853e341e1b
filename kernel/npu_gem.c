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

#include "npu_device.h"
#include "npu_file.h"
#include "npu_gem.h"
#include "npu_pages.h"
#include "npu_prime.h"
#include "npu_residency.h"
#include "npu_trace.h"
#include "npu_userptr.h"
#include "npu_vm.h"

/* Pages mapped at one fault: mappings are mostly read or written from end to end. */
#define NPU_FAULT_PAGES	64

static void npu_bo_destroy(struct ttm_buffer_object *tbo)
{
	struct npu_bo *bo = to_npu_bo(tbo);

	trace_npu_bo_free(bo);
	npu_prime_detach(bo);
	npu_residency_forget(bo);
	drm_gem_object_release(&tbo->base);
	/* TTM has used the exporter's lock until now. */
	if (bo->dma_buf)
		dma_buf_put(bo->dma_buf);
	npu_vm_put(bo->owner);
	mem_cgroup_put(bo->memcg);
	if (bo->nobody)
		put_page(bo->nobody);
	mutex_destroy(&bo->vma_lock);
	kfree(bo);
}

static void npu_gem_free(struct drm_gem_object *obj)
{
	/* Whoever has closed a buffer finds its memory free, even if it was still being zeroed. */
	if (!gem_to_npu_bo(obj)->dma_buf)
		dma_resv_wait_timeout(obj->resv, DMA_RESV_USAGE_KERNEL, false,
				      MAX_SCHEDULE_TIMEOUT);
	/* Nor do pages stay pinned until TTM's work comes: the card has no access any more. */
	npu_userptr_destroy(gem_to_npu_bo(obj)->userptr);
	ttm_bo_fini(&gem_to_npu_bo(obj)->tbo);
}

static int npu_gem_open(struct drm_gem_object *obj, struct drm_file *file)
{
	struct npu_vm *vm = npu_file_vm(file);

	return IS_ERR(vm) ? PTR_ERR(vm) : npu_vm_bind(vm, gem_to_npu_bo(obj));
}

static void npu_gem_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct npu_vm *vm = npu_file_vm(file);

	/* Reports would not find a file that is closed itself. */
	if (!to_npu_file(file)->closing)
		npu_cache_watch_flush(to_npu_device(obj->dev));
	if (!IS_ERR(vm))
		npu_vm_unbind(vm, gem_to_npu_bo(obj));
}

/* Between caches and memory that the card reaches. */
static int npu_bo_sync_system(struct npu_bo *bo, u64 offset, u64 bytes, u32 direction)
{
	if (bo->flags & DRM_NPU_BO_PINNED)
		return npu_userptr_sync(bo, offset, bytes, direction);

	return npu_pages_sync(to_npu_device(bo->tbo.base.dev), bo->tbo.ttm, offset, bytes,
			      direction);
}

/* As npu_mmap() marks it. */
static bool npu_vma_is_uncached(const struct vm_area_struct *vma)
{
	return pgprot_val(vma->vm_page_prot) ==
	       pgprot_val(pgprot_writecombine(vma->vm_page_prot));
}

/* Memory of others, and that of the card, is mapped as it has to be. */
static bool npu_bo_may_be_uncached(const struct npu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_SYSTEM && !bo->dma_buf && !bo->userptr;
}

/*
 * Uncached mapping: dirty lines are written back first, so that none of them is evicted over later
 * stores. Lines are not invalidated: other processes may be writing through the caches. On a
 * coherent device the mapping is cached.
 */
static int npu_bo_mmap_uncached(struct npu_bo *bo, struct vm_area_struct *vma)
{
	if (to_npu_device(bo->tbo.base.dev)->coherent) {
		vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
		return 0;
	}
	WRITE_ONCE(bo->uncached, true);

	return npu_bo_sync_system(bo, 0, bo->tbo.base.size, DRM_NPU_SYNC_TO_DEVICE);
}

static int npu_gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	bool uncached = npu_vma_is_uncached(vma);
	struct npu_bo *bo = gem_to_npu_bo(obj);
	int ret = 0;

	if (uncached && !npu_bo_may_be_uncached(bo))
		return -EINVAL;
	if (bo->dma_buf)
		return npu_prime_mmap(obj, vma);
	if (bo->userptr)
		return -EOPNOTSUPP;

	/* Pages are inserted by frame number, which a private copy-on-write mapping cannot have. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	if (READ_ONCE(bo->sealed))
		return -EACCES;
	if (uncached)
		ret = npu_bo_mmap_uncached(bo, vma);
	if (!ret)
		vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);

	return ret;
}

/* Wait until memory is zeroed, as TTM does it, and let the access be tried again. */
static vm_fault_t npu_gem_fault_wait(struct vm_fault *vmf, struct npu_bo *bo)
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

static int npu_gem_fault_no_change(pte_t *pte, unsigned long addr, void *data)
{
	return 0;
}

/*
 * A card that is gone, or lost: whoever looks sees a page of nobody. It is the buffer's, and freed
 * and charged as such, since mappings can be made and looked at without end (of a dma-buf, too).
 */
static vm_fault_t npu_gem_fault_nobody(struct vm_fault *vmf, struct npu_bo *bo)
{
	struct npu_device *npu = to_npu_device(bo->tbo.base.dev);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long at = vmf->address;
	unsigned long end = at + min(vma->vm_end - at, NPU_FAULT_PAGES * PAGE_SIZE);
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
static vm_fault_t npu_gem_fault_card(struct vm_fault *vmf, struct npu_bo *bo)
{
	struct npu_device *npu = to_npu_device(bo->tbo.base.dev);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long bytes = min(vma->vm_end - vmf->address, NPU_FAULT_PAGES * PAGE_SIZE);
	vm_fault_t ret;
	int idx, error;

	if (apply_to_page_range(vma->vm_mm, vmf->address, bytes, npu_gem_fault_no_change, NULL))
		return VM_FAULT_OOM;
	error = npu_device_enter_killable(npu, &idx);
	/* The access is tried again, unless the signal ends the process first. */
	if (error == -EINTR)
		return VM_FAULT_NOPAGE;
	if (error)
		return npu_gem_fault_nobody(vmf, bo);
	ret = ttm_bo_vm_fault_reserved(vmf, vma->vm_page_prot, NPU_FAULT_PAGES);
	npu_device_exit(npu, idx);

	return ret;
}

/*
 * What memory held before it was this buffer's is never shown: where zeroing is not finished it is
 * waited for. It fails only when the card is lost, and then nothing of the card is shown until all
 * of it was zeroed, see npu_recover_take_back().
 */
static vm_fault_t npu_gem_fault_reserved(struct vm_fault *vmf, struct npu_bo *bo)
{
	vm_fault_t ret;
	int idx;

	if (bo->sealed)
		return VM_FAULT_SIGBUS;
	if (bo->tbo.resource && bo->tbo.resource->mem_type == TTM_PL_VRAM) {
		if (!dma_resv_test_signaled(bo->tbo.base.resv, DMA_RESV_USAGE_KERNEL))
			return npu_gem_fault_wait(vmf, bo);
		return npu_gem_fault_card(vmf, bo);
	}

	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return npu_gem_fault_nobody(vmf, bo);
	ret = ttm_bo_vm_fault_reserved(vmf, vmf->vma->vm_page_prot, NPU_FAULT_PAGES);
	drm_dev_exit(idx);

	return ret;
}

static vm_fault_t npu_gem_fault(struct vm_fault *vmf)
{
	struct npu_bo *bo = to_npu_bo(vmf->vma->vm_private_data);
	vm_fault_t ret;

	ret = ttm_bo_vm_reserve(&bo->tbo, vmf);
	if (ret)
		return ret;

	ret = npu_gem_fault_reserved(vmf, bo);

	/* The lock is dropped already where a retry is asked for after a wait. */
	if (ret == VM_FAULT_RETRY && !(vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
		return ret;

	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

static const struct vm_operations_struct npu_gem_vm_ops = {
	.fault = npu_gem_fault,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

static const struct drm_gem_object_funcs npu_gem_funcs = {
	.free = npu_gem_free,
	.open = npu_gem_open,
	.close = npu_gem_close,
	.export = npu_prime_export,
	.mmap = npu_gem_mmap,
	.vm_ops = &npu_gem_vm_ops,
};

static struct npu_bo *npu_bo_alloc(struct npu_device *npu, u64 size, u32 flags)
{
	struct npu_bo *bo;

	/* GEM and TTM take fault handling and GEM references for one: the same pointer is both. */
	BUILD_BUG_ON(offsetof(struct ttm_buffer_object, base));

	bo = kzalloc_obj(*bo, NPU_GFP_USER);
	if (!bo)
		return NULL;

	bo->flags = flags;
	bo->mem_type = NPU_BO_NOWHERE;
	mutex_init(&bo->vma_lock);
	INIT_LIST_HEAD(&bo->vmas);
	INIT_LIST_HEAD(&bo->import_link);
	INIT_LIST_HEAD(&bo->resident_link);
	INIT_LIST_HEAD(&bo->claim_link);
	bo->tbo.base.funcs = &npu_gem_funcs;
	drm_gem_private_object_init(&npu->drm, &bo->tbo.base, size);

	return bo;
}

/* A buffer of somebody else's pages, mapped for the card; reserved on return. */
static struct npu_bo *npu_bo_create_sg(struct npu_device *npu, u64 size, u32 flags,
				       struct sg_table *sg, struct dma_buf *dma_buf)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_TT };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	struct ttm_operation_ctx ctx = { .interruptible = true };
	struct npu_bo *bo;
	int ret;

	bo = npu_bo_alloc(npu, size, flags);
	if (!bo)
		return ERR_PTR(-ENOMEM);

	if (dma_buf) {
		get_dma_buf(dma_buf);
		bo->dma_buf = dma_buf;
	}
	ret = ttm_bo_init_reserved(&npu->mem.ttm, &bo->tbo, ttm_bo_type_sg, &placement, 0, &ctx,
				   sg, dma_buf ? dma_buf->resv : NULL, npu_bo_destroy);
	if (ret)
		return ERR_PTR(ret);

	trace_npu_bo_create(bo);

	return bo;
}

/**
 * npu_bo_create_import - make a buffer of memory that belongs to an exporter
 * @npu: device
 * @dma_buf: the exporter's, its reservation lock held
 * @sg: the memory, mapped for the card
 */
struct npu_bo *npu_bo_create_import(struct npu_device *npu, struct dma_buf *dma_buf,
				    struct sg_table *sg)
{
	u32 flags = DRM_NPU_BO_SYSTEM;

	if (!(dma_buf->file->f_mode & FMODE_WRITE))
		flags |= DRM_NPU_BO_READONLY;
	return npu_bo_create_sg(npu, dma_buf->size, flags, sg, dma_buf);
}

/**
 * npu_bo_create_pinned - make a buffer of pages that somebody else has pinned and mapped
 * @npu: device
 * @size: bytes
 * @flags: see struct npu_bo
 * @sg: the memory, mapped for the card
 */
struct npu_bo *npu_bo_create_pinned(struct npu_device *npu, u64 size, u32 flags,
				    struct sg_table *sg)
{
	struct npu_bo *bo = npu_bo_create_sg(npu, size, flags, sg, NULL);

	if (!IS_ERR(bo))
		ttm_bo_unreserve(&bo->tbo);

	return bo;
}

/**
 * npu_bo_create - make a buffer with memory of its own, filled with zeros
 * @npu: device, held
 * @vm: address space of who makes it, or NULL
 * @size: bytes, multiple of a page
 * @flags: see struct npu_bo
 */
struct npu_bo *npu_bo_create(struct npu_device *npu, struct npu_vm *vm, u64 size, u32 flags)
{
	/* Creation evicts nobody: what finds no room on the card comes there when it is used. */
	static const struct ttm_place places[] = {
		{ .mem_type = TTM_PL_VRAM, .flags = TTM_PL_FLAG_DESIRED },
		{ .mem_type = TTM_PL_TT, .flags = TTM_PL_FLAG_FALLBACK },
		{ .mem_type = TTM_PL_TT },
	};
	struct ttm_placement placement = { .placement = places, .num_placement = 2 };
	struct ttm_operation_ctx ctx = { .interruptible = true, .gfp_retry_mayfail = true };
	struct npu_bo *bo;
	int ret;

	bo = npu_bo_alloc(npu, size, flags);
	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->owner = vm ? npu_vm_get(vm) : NULL;
	bo->memcg = get_mem_cgroup_from_mm(current->mm);
	if (flags & DRM_NPU_BO_SYSTEM)
		placement = (struct ttm_placement) { .placement = &places[2], .num_placement = 1 };

	/* On failure the object is gone. */
	ret = ttm_bo_init_reserved(&npu->mem.ttm, &bo->tbo, ttm_bo_type_device, &placement, 0,
				   &ctx, NULL, NULL, npu_bo_destroy);
	if (ret)
		return ERR_PTR(ret);

	trace_npu_bo_create(bo);
	ttm_bo_unreserve(&bo->tbo);

	return bo;
}

/**
 * npu_ioctl_bo_create - DRM_IOCTL_NPU_BO_CREATE
 * @drm: device
 * @data: struct drm_npu_bo_create
 * @file: caller
 */
int npu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct npu_device *npu = to_npu_device(drm);
	struct drm_npu_bo_create *args = data;
	struct npu_vm *vm;
	struct npu_bo *bo;
	int ret, idx;
	u64 size;

	if (args->flags != DRM_NPU_BO_CARD && args->flags != DRM_NPU_BO_SYSTEM)
		return -EINVAL;
	if (!args->size)
		return -EINVAL;
	if (args->size > NPU_BO_MAX_SIZE)
		return args->flags & DRM_NPU_BO_CARD ? -ENOSPC : -ENOMEM;

	/* Held, so that nothing is mapped for DMA behind the back of a device that goes away. */
	size = PAGE_ALIGN(args->size);
	if (args->flags & DRM_NPU_BO_CARD && size > npu_mem_card_bytes(npu))
		return -ENOSPC;
	vm = npu_file_vm(file);
	if (IS_ERR(vm))
		return PTR_ERR(vm);
	if (!npu_device_hold(npu, &idx))
		return -ENODEV;
	bo = npu_bo_create(npu, vm, size, args->flags);
	npu_device_release(idx);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	bo->maker = file->client_id;

	ret = drm_gem_handle_create(file, &bo->tbo.base, &args->handle);
	if (ret)
		goto out;

	bo->handle = args->handle;
	args->size = size;
	args->mmap_offset = drm_vma_node_offset_addr(&bo->tbo.base.vma_node);
	ret = npu_vm_address(file, bo, &args->va);
out:
	drm_gem_object_put(&bo->tbo.base);
	return ret;
}

/**
 * npu_bo_is_lost - were the contents of a buffer lost with the card?
 * @bo: buffer; without its reservation lock the answer may be outdated
 *
 * A card that comes back after it was lost has memory full of zeros.
 */
bool npu_bo_is_lost(const struct npu_bo *bo)
{
	const struct npu_device *npu = to_npu_device(bo->tbo.base.dev);

	return READ_ONCE(bo->lost) || (READ_ONCE(bo->mem_type) == TTM_PL_VRAM &&
				       READ_ONCE(bo->losses) != READ_ONCE(npu->losses));
}

/**
 * npu_bo_restored - contents are valid, or have moved with their state
 * @bo: buffer, its reservation lock held
 * @lost: they are lost nevertheless
 */
void npu_bo_restored(struct npu_bo *bo, bool lost)
{
	WRITE_ONCE(bo->losses, READ_ONCE(to_npu_device(bo->tbo.base.dev)->losses));
	WRITE_ONCE(bo->lost, lost);
}

static u32 npu_bo_info_flags(const struct npu_bo *bo)
{
	u32 flags = bo->flags;

	if (READ_ONCE(bo->sealed))
		flags |= DRM_NPU_BO_SEALED;
	if (npu_bo_is_evicted(bo))
		flags |= DRM_NPU_BO_EVICTED;
	if (bo->dma_buf)
		flags |= DRM_NPU_BO_IMPORTED;
	if (npu_bo_is_lost(bo))
		flags |= DRM_NPU_BO_LOST;

	return flags;
}

/**
 * npu_ioctl_bo_info - DRM_IOCTL_NPU_BO_INFO
 * @drm: device
 * @data: struct drm_npu_bo_info
 * @file: caller
 */
int npu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_info *args = data;
	struct drm_gem_object *obj;
	struct npu_bo *bo;
	int ret;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;

	bo = gem_to_npu_bo(obj);
	args->flags = npu_bo_info_flags(bo);
	args->size = obj->size;
	args->mmap_offset = bo->userptr ? 0 : drm_vma_node_offset_addr(&obj->vma_node);
	ret = npu_vm_address(file, bo, &args->va);
	drm_gem_object_put(obj);

	return ret;
}

/* Between the memory of the caller and the buffer, and between that and the card. */
static int npu_bo_sync_bounce(struct npu_bo *bo, const struct drm_npu_bo_sync *args)
{
	int ret = 0;

	if (args->direction & DRM_NPU_SYNC_TO_DEVICE)
		ret = npu_userptr_copy_in(bo, args->offset, args->size);
	if (!ret)
		ret = npu_bo_sync_system(bo, args->offset, args->size, args->direction);
	if (!ret && args->direction & DRM_NPU_SYNC_FROM_DEVICE)
		ret = npu_userptr_copy_out(bo, args->offset, args->size);

	return ret;
}

/**
 * npu_bo_sync - cache maintenance
 * @bo: buffer, its reservation lock not held
 * @args: what, inside of the buffer
 */
int npu_bo_sync(struct npu_bo *bo, const struct drm_npu_bo_sync *args)
{
	int ret;

	if (bo->dma_buf)
		return npu_prime_sync(bo, args->direction);
	if (bo->flags & DRM_NPU_BO_BOUNCE)
		return npu_bo_sync_bounce(bo, args);
	if (bo->flags & DRM_NPU_BO_SYSTEM)
		return npu_bo_sync_system(bo, args->offset, args->size, args->direction);

	ret = dma_resv_lock_interruptible(bo->tbo.base.resv, NULL);
	if (ret)
		return ret;

	/*
	 * On the card: drains write-combining buffers, its memory needs nothing else. One that has
	 * made room for others has its caches seen to when it comes back.
	 */
	mb();
	if (npu_bo_is_home(bo) && npu_bo_is_in_system(bo))
		ret = npu_bo_sync_system(bo, args->offset, args->size, args->direction);
	if (!ret && args->direction & DRM_NPU_SYNC_TO_DEVICE && !args->offset &&
	    args->size == bo->tbo.base.size)
		npu_bo_restored(bo, false);
	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

/**
 * npu_ioctl_bo_sync - DRM_IOCTL_NPU_BO_SYNC
 * @drm: device
 * @data: struct drm_npu_bo_sync
 * @file: caller
 */
int npu_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file)
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
		ret = npu_bo_sync(gem_to_npu_bo(obj), args);
	drm_gem_object_put(obj);

	return ret;
}

/* What the CPU has written last is for the card, and nobody can say so any more. */
static void npu_bo_settle(struct npu_bo *bo)
{
	if (bo->flags & DRM_NPU_BO_SYSTEM)
		npu_bo_sync_system(bo, 0, bo->tbo.base.size, DRM_NPU_SYNC_TO_DEVICE);
}

/**
 * npu_ioctl_bo_seal - DRM_IOCTL_NPU_BO_SEAL
 * @drm: device
 * @data: struct drm_npu_bo_seal
 * @file: caller
 */
int npu_ioctl_bo_seal(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_seal *args = data;
	struct drm_gem_object *obj;
	struct npu_bo *bo;
	long wait;
	int ret;

	if (args->pad)
		return -EINVAL;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	bo = gem_to_npu_bo(obj);

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
		   npu_prime_is_attached(bo)) {
		ret = -EBUSY;
	} else if (!bo->sealed) {
		WRITE_ONCE(bo->sealed, true);
		ttm_bo_unmap_virtual(&bo->tbo);
		npu_bo_settle(bo);
		npu_vm_protect(bo);
	}
	dma_resv_unlock(obj->resv);
out:
	drm_gem_object_put(obj);
	return ret;
}

/**
 * npu_ioctl_bo_wait - DRM_IOCTL_NPU_BO_WAIT
 * @drm: device
 * @data: struct drm_npu_bo_wait
 * @file: caller
 */
int npu_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file)
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
 * npu_gem_usage - what a file has handles of
 * @file: file
 * @usage: answer
 */
void npu_gem_usage(struct drm_file *file, struct npu_gem_usage *usage)
{
	struct drm_gem_object *obj;
	int id;

	memset(usage, 0, sizeof(*usage));

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		const struct npu_bo *bo = gem_to_npu_bo(obj);
		bool card = bo->flags & DRM_NPU_BO_CARD;
		bool shared = drm_gem_object_is_shared_for_memory_stats(obj);
		bool active = !dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_BOOKKEEP);

		*(card ? &usage->card : &usage->system) += obj->size;
		if (shared)
			*(card ? &usage->card_shared : &usage->system_shared) += obj->size;
		if (active)
			*(card ? &usage->card_active : &usage->system_active) += obj->size;
		if (npu_bo_is_evicted(bo))
			usage->evicted += obj->size;
		usage->largest = max_t(u64, usage->largest, obj->size);
	}
	spin_unlock(&file->table_lock);
}
