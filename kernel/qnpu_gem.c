// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: GEM objects over TTM.
 *
 * Handles, CPU mappings and unfinished jobs hold references to the GEM object, which holds the only
 * reference to TTM's.
 */
#include <linux/dma-buf.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

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

/* Pages mapped per fault, since most mappings are accessed sequentially. */
#define QNPU_FAULT_PAGES	64

static struct qnpu_device *bo_to_qnpu(const struct qnpu_bo *bo)
{
	return to_qnpu_device(bo->tbo.base.dev);
}

/* Register a DMA mapping of foreign memory, for removal; the device is held. */
void qnpu_bo_attached(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = &bo_to_qnpu(bo)->mem;

	guard(mutex)(&mem->external_lock);
	list_add(&bo->external_link, &mem->external);
}

/* Unmap. Drops the lock for an import, whose exporter may take other locks. */
static void qnpu_bo_detach_locked(struct qnpu_device *npu, struct qnpu_bo *bo)
{
	struct dma_buf_attachment *attach = bo->tbo.base.import_attach;
	struct sg_table *sg = bo->tbo.sg;
	struct qnpu_mem *mem = &npu->mem;
	struct dma_buf *dma_buf;

	list_del_init(&bo->external_link);
	if (bo->userptr) {
		qnpu_userptr_unmap(npu, bo->userptr);
		return;
	}

	bo->tbo.base.import_attach = NULL;
	atomic_inc(&mem->detaching);
	/* Another thread may free the buffer from here on. */
	mutex_unlock(&mem->external_lock);
	dma_buf = attach->dmabuf;
	dma_buf_unmap_attachment_unlocked(attach, sg, DMA_BIDIRECTIONAL);
	dma_buf_detach(dma_buf, attach);
	dma_buf_put(dma_buf);
	if (atomic_dec_and_test(&mem->detaching))
		wake_up_var(&mem->detaching);
	mutex_lock(&mem->external_lock);
}

/*
 * Unmaps all foreign memory, for removal. Buffers and pages stay. Waits for other threads that are
 * unmapping.
 */
void qnpu_gem_release_dma(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;
	struct qnpu_bo *bo;

	mutex_lock(&mem->external_lock);
	while ((bo = list_first_entry_or_null(&mem->external, struct qnpu_bo, external_link)))
		qnpu_bo_detach_locked(npu, bo);
	mutex_unlock(&mem->external_lock);
	wait_var_event(&mem->detaching, !atomic_read(&mem->detaching));
}

static void qnpu_bo_destroy(struct ttm_buffer_object *tbo)
{
	struct qnpu_bo *bo = to_qnpu_bo(tbo);

	trace_qnpu_bo_free(bo);
	drm_gem_object_release(&tbo->base);
	/* TTM has used the exporter's lock so far. */
	if (bo->dma_buf)
		dma_buf_put(bo->dma_buf);
	qnpu_vm_put(bo->owner);
	mem_cgroup_put(bo->memcg);
	if (bo->dummy)
		put_page(bo->dummy);
	mutex_destroy(&bo->vma_lock);
	kfree(bo);
}

static void qnpu_gem_free(struct drm_gem_object *obj)
{
	struct qnpu_device *npu = to_qnpu_device(obj->dev);
	struct qnpu_bo *bo = gem_to_qnpu_bo(obj);

	/* Ends the device's access now; TTM's work may run much later. */
	if (bo->dma_buf || bo->userptr) {
		guard(mutex)(&npu->mem.external_lock);
		if (!list_empty(&bo->external_link))
			qnpu_bo_detach_locked(npu, bo);
	}
	if (bo->userptr)
		qnpu_userptr_destroy(bo->userptr);
	ttm_bo_fini(&bo->tbo);
}

static int qnpu_gem_open(struct drm_gem_object *obj, struct drm_file *file)
{
	struct qnpu_vm *vm = qnpu_file_vm(file);

	blocking_notifier_call_chain(&qnpu_file_notifiers, QNPU_FILE_GETS_BO, file);

	return IS_ERR(vm) ? PTR_ERR(vm) : qnpu_vm_bind(vm, gem_to_qnpu_bo(obj));
}

static void qnpu_gem_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct qnpu_vm *vm = qnpu_file_vm(file);

	blocking_notifier_call_chain(&qnpu_file_notifiers, QNPU_FILE_LOSES_BO, file);
	if (!IS_ERR(vm))
		qnpu_vm_unbind(vm, gem_to_qnpu_bo(obj));
}

static int qnpu_bo_sync_system(struct qnpu_bo *bo, u64 offset, u64 bytes, u32 direction)
{
	if (bo->flags & DRM_NPU_BO_PINNED)
		return qnpu_userptr_sync(bo, offset, bytes, direction);

	return qnpu_pages_sync(bo_to_qnpu(bo), bo->tbo.ttm, offset, bytes, direction);
}

/*
 * Prepares an uncached mapping: writes dirty lines back, so that their eviction cannot overwrite
 * later stores. Does not invalidate, as other processes may store through the caches.
 */
static int qnpu_bo_mmap_uncached(struct qnpu_bo *bo, struct vm_area_struct *vma)
{
	if (!(bo->flags & DRM_NPU_BO_SYSTEM) || bo->dma_buf || bo->userptr)
		return -EINVAL;
	if (bo_to_qnpu(bo)->coherent) {
		vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
		return 0;
	}
	WRITE_ONCE(bo->uncached, true);

	return qnpu_bo_sync_system(bo, 0, bo->tbo.base.size, DRM_NPU_SYNC_TO_DEVICE);
}

static int qnpu_gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	/* qnpu_mmap() marks uncached mappings. */
	bool uncached = pgprot_val(vma->vm_page_prot) ==
			pgprot_val(pgprot_writecombine(vma->vm_page_prot));
	struct qnpu_bo *bo = gem_to_qnpu_bo(obj);
	int ret;

	if (bo->dma_buf && !uncached)
		return qnpu_prime_mmap(obj, vma);
	if (bo->userptr && !uncached)
		return -EOPNOTSUPP;

	/* PFN mappings cannot be private with copy-on-write. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	if (READ_ONCE(bo->sealed))
		return -EACCES;
	ret = uncached ? qnpu_bo_mmap_uncached(bo, vma) : 0;
	if (!ret)
		vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);

	return ret;
}

/*
 * Maps a dummy page if the device is removed or lost. The buffer owns the page, which bounds and
 * charges it even if a dma-buf is mapped without end.
 */
static vm_fault_t qnpu_gem_fault_dummy(struct vm_fault *vmf, struct qnpu_bo *bo)
{
	struct qnpu_device *npu = bo_to_qnpu(bo);
	struct vm_area_struct *vma = vmf->vma;
	vm_fault_t ret;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!bo->dummy)
		bo->dummy = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!bo->dummy)
		return VM_FAULT_OOM;

	/* Cached, because the zeros are in the cache. */
	ret = vmf_insert_pfn_prot(vma, vmf->address, page_to_pfn(bo->dummy),
				  vm_get_page_prot(vma->vm_flags));

	/* A returning device clears @wedged, then unmaps dummy pages, but may miss this one. */
	smp_mb(); /* the page before the check of @wedged */
	if (!drm_dev_is_unplugged(&npu->drm) && !READ_ONCE(npu->wedged))
		ttm_bo_unmap_virtual(&bo->tbo);

	return ret;
}

static int qnpu_gem_fault_no_change(pte_t *pte, unsigned long addr, void *data)
{
	return 0;
}

/*
 * Maps card memory inside qnpu_device_enter(): a reset removes such mappings first. Allocation is
 * forbidden there, so the page tables of the process are allocated before.
 */
static vm_fault_t qnpu_gem_fault_card(struct vm_fault *vmf, struct qnpu_bo *bo)
{
	struct qnpu_device *npu = bo_to_qnpu(bo);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long bytes = min(vma->vm_end - vmf->address, QNPU_FAULT_PAGES * PAGE_SIZE);
	vm_fault_t ret;
	int idx, error;

	if (apply_to_page_range(vma->vm_mm, vmf->address, bytes, qnpu_gem_fault_no_change, NULL))
		return VM_FAULT_OOM;
	error = qnpu_device_enter(npu, &idx);
	/* The access is retried, unless the signal kills the process first. */
	if (error == -EINTR)
		return VM_FAULT_NOPAGE;
	if (error)
		return qnpu_gem_fault_dummy(vmf, bo);
	ret = ttm_bo_vm_fault_reserved(vmf, vma->vm_page_prot, QNPU_FAULT_PAGES);
	qnpu_device_exit(npu, idx);

	return ret;
}

/*
 * Zeroing of new memory fails only if the card is lost. Then the entire card is zeroed before it is
 * mapped again, see qnpu_recover_take_back().
 */
static vm_fault_t qnpu_gem_fault(struct vm_fault *vmf)
{
	struct qnpu_bo *bo = to_qnpu_bo(vmf->vma->vm_private_data);
	vm_fault_t ret;
	int idx;

	ret = ttm_bo_vm_reserve(&bo->tbo, vmf);
	if (ret)
		return ret;

	if (bo->sealed) {
		ret = VM_FAULT_SIGBUS;
	} else if (bo->tbo.resource && bo->tbo.resource->mem_type == TTM_PL_VRAM) {
		ret = qnpu_gem_fault_card(vmf, bo);
	} else if (!drm_dev_enter(bo->tbo.base.dev, &idx)) {
		ret = qnpu_gem_fault_dummy(vmf, bo);
	} else {
		ret = ttm_bo_vm_fault_reserved(vmf, vmf->vma->vm_page_prot, QNPU_FAULT_PAGES);
		drm_dev_exit(idx);
	}
	/* A retry after a wait has dropped the lock. */
	if (ret != VM_FAULT_RETRY || vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
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
	.get_sg_table = qnpu_prime_get_sg_table,
	.mmap = qnpu_gem_mmap,
	.vm_ops = &qnpu_gem_vm_ops,
};

static struct qnpu_bo *qnpu_bo_alloc(struct qnpu_device *npu, u64 size, u32 flags)
{
	struct qnpu_bo *bo;

	/* drm_gem_vm_open() and TTM's fault handler share vm_private_data. */
	BUILD_BUG_ON(offsetof(struct ttm_buffer_object, base));

	bo = kzalloc_obj(*bo, QNPU_GFP_USER);
	if (!bo)
		return NULL;
	bo->flags = flags;
	bo->mem_type = QNPU_BO_NOWHERE;
	mutex_init(&bo->vma_lock);
	INIT_LIST_HEAD(&bo->vmas);
	INIT_LIST_HEAD(&bo->external_link);
	INIT_LIST_HEAD(&bo->resident_link);
	INIT_LIST_HEAD(&bo->claim_link);
	bo->tbo.base.funcs = &qnpu_gem_funcs;
	drm_gem_private_object_init(&npu->drm, &bo->tbo.base, size);

	return bo;
}

/* Creates a buffer of foreign memory that @sg maps for DMA; pinned memory if no @dma_buf. */
struct qnpu_bo *qnpu_bo_create_sg(struct qnpu_device *npu, u64 size, u32 flags,
				  struct sg_table *sg, struct dma_buf *dma_buf)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_TT };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	struct dma_resv *resv = dma_buf ? dma_buf->resv : NULL;
	struct qnpu_bo *bo = qnpu_bo_alloc(npu, size, flags);
	int ret;

	if (!bo)
		return ERR_PTR(-ENOMEM);
	if (dma_buf) {
		get_dma_buf(dma_buf);
		bo->dma_buf = dma_buf;
		dma_resv_lock(resv, NULL);
	}
	ret = ttm_bo_init_validate(&npu->mem.ttm, &bo->tbo, ttm_bo_type_sg, &placement, 0, true, sg,
				   resv, qnpu_bo_destroy);
	if (dma_buf)
		dma_resv_unlock(resv);
	if (ret)
		return ERR_PTR(ret);
	trace_qnpu_bo_create(bo);

	return bo;
}

/* Creates a zeroed buffer with pages of its own; the device is held. */
static struct qnpu_bo *qnpu_bo_create(struct qnpu_device *npu, struct qnpu_vm *vm, u64 size,
				      u32 flags)
{
	/* Creation evicts nothing: if the card is full, the buffer moves there on first use. */
	static const struct ttm_place places[] = {
		{ .mem_type = TTM_PL_VRAM, .flags = TTM_PL_FLAG_DESIRED },
		{ .mem_type = TTM_PL_TT, .flags = TTM_PL_FLAG_FALLBACK },
		{ .mem_type = TTM_PL_TT },
	};
	struct ttm_placement placement = { .placement = places, .num_placement = 2 };
	struct ttm_operation_ctx ctx = { .interruptible = true, .gfp_retry_mayfail = true };
	struct qnpu_bo *bo = qnpu_bo_alloc(npu, size, flags);
	int ret;

	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->owner = qnpu_vm_get(vm);
	bo->memcg = get_mem_cgroup_from_mm(current->mm);
	if (flags & DRM_NPU_BO_SYSTEM)
		placement = (struct ttm_placement) { .placement = &places[2], .num_placement = 1 };

	/* On failure TTM has freed the object. */
	ret = ttm_bo_init_reserved(&npu->mem.ttm, &bo->tbo, ttm_bo_type_device, &placement, 0,
				   &ctx, NULL, NULL, qnpu_bo_destroy);
	if (ret)
		return ERR_PTR(ret);
	trace_qnpu_bo_create(bo);
	ttm_bo_unreserve(&bo->tbo);

	return bo;
}

/* Implements DRM_IOCTL_NPU_BO_CREATE. */
int qnpu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct drm_npu_bo_create *args = data;
	struct qnpu_vm *vm;
	struct qnpu_bo *bo;
	int ret, idx;
	u64 size;

	if ((args->flags != DRM_NPU_BO_CARD && args->flags != DRM_NPU_BO_SYSTEM) || !args->size)
		return -EINVAL;
	if (args->size > QNPU_BO_MAX_SIZE)
		return args->flags & DRM_NPU_BO_CARD ? -ENOSPC : -ENOMEM;

	size = PAGE_ALIGN(args->size);
	if (args->flags & DRM_NPU_BO_CARD && size > qnpu_mem_card_bytes(npu))
		return -ENOSPC;
	vm = qnpu_file_vm(file);
	if (IS_ERR(vm))
		return PTR_ERR(vm);
	/* Removal must not miss a new DMA mapping. */
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	bo = qnpu_bo_create(npu, vm, size, args->flags);
	drm_dev_exit(idx);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	bo->maker = file->client_id;

	ret = drm_gem_handle_create(file, &bo->tbo.base, &args->handle);
	if (!ret) {
		bo->handle = args->handle;
		args->size = size;
		args->mmap_offset = drm_vma_node_offset_addr(&bo->tbo.base.vma_node);
		ret = qnpu_vm_address(file, bo, &args->va);
	}
	drm_gem_object_put(&bo->tbo.base);

	return ret;
}

/*
 * Returns true if the buffer's contents were lost with the card, whose memory is zeroed on its
 * return. Racy without the reservation lock.
 */
bool qnpu_bo_is_lost(const struct qnpu_bo *bo)
{
	return READ_ONCE(bo->lost) || (READ_ONCE(bo->mem_type) == TTM_PL_VRAM &&
				       READ_ONCE(bo->losses) != READ_ONCE(bo_to_qnpu(bo)->losses));
}

/*
 * Contents are valid as of @losses, a value of qnpu_device.losses, or @lost and have moved with
 * that state. Reservation lock held.
 */
void qnpu_bo_restored(struct qnpu_bo *bo, bool lost, u32 losses)
{
	WRITE_ONCE(bo->losses, losses);
	WRITE_ONCE(bo->lost, lost);
}

/* Implements DRM_IOCTL_NPU_BO_INFO. */
int qnpu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_info *args = data;
	struct drm_gem_object *obj = drm_gem_object_lookup(file, args->handle);
	struct qnpu_bo *bo;
	int ret;

	if (!obj)
		return -ENOENT;

	bo = gem_to_qnpu_bo(obj);
	args->flags = bo->flags |
		      (READ_ONCE(bo->sealed) ? DRM_NPU_BO_SEALED : 0) |
		      (qnpu_bo_is_evicted(bo) ? DRM_NPU_BO_EVICTED : 0) |
		      (bo->dma_buf ? DRM_NPU_BO_IMPORTED : 0) |
		      (qnpu_bo_is_lost(bo) ? DRM_NPU_BO_LOST : 0);
	args->size = obj->size;
	args->mmap_offset = bo->userptr ? 0 : drm_vma_node_offset_addr(&obj->vma_node);
	ret = qnpu_vm_address(file, bo, &args->va);
	drm_gem_object_put(obj);

	return ret;
}

/* Cache maintenance of the range in @args; takes the reservation lock. */
int qnpu_bo_sync(struct qnpu_bo *bo, const struct drm_npu_bo_sync *args)
{
	int ret;

	if (bo->dma_buf)
		return qnpu_prime_sync(bo, args->direction);
	if (bo->flags & DRM_NPU_BO_SYSTEM)
		return qnpu_bo_sync_system(bo, args->offset, args->size, args->direction);

	ret = dma_resv_lock_interruptible(bo->tbo.base.resv, NULL);
	if (ret)
		return ret;

	mb(); /* drains write-combining buffers, which suffices for card memory */
	if (qnpu_bo_is_home(bo) && qnpu_bo_is_in_system(bo))
		ret = qnpu_bo_sync_system(bo, args->offset, args->size, args->direction);
	if (!ret && args->direction & DRM_NPU_SYNC_TO_DEVICE && !args->offset &&
	    args->size == bo->tbo.base.size)
		qnpu_bo_restored(bo, false, READ_ONCE(bo_to_qnpu(bo)->losses));
	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

/* Implements DRM_IOCTL_NPU_BO_SYNC. */
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

/* Implements DRM_IOCTL_NPU_BO_SEAL. */
int qnpu_ioctl_bo_seal(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_bo_seal *args = data;
	struct drm_gem_object *obj;
	struct qnpu_bo *bo;
	int ret;

	if (args->pad)
		return -EINVAL;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	bo = gem_to_qnpu_bo(obj);
	ret = dma_resv_lock_interruptible(obj->resv, NULL);
	if (ret)
		goto out;
	if (bo->dma_buf || bo->userptr) {
		ret = -EOPNOTSUPP;
	} else if (bo->maker != file->client_id) {
		/* An importer must not take write access from the creator. */
		ret = -EPERM;
	} else if (!dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_WRITE) ||
		   bo->tbo.pin_count) {
		ret = -EBUSY;
	} else if (!bo->sealed) {
		WRITE_ONCE(bo->sealed, true);
		ttm_bo_unmap_virtual(&bo->tbo);
		/* Last chance to write back the CPU's stores. */
		if (bo->flags & DRM_NPU_BO_SYSTEM)
			qnpu_bo_sync_system(bo, 0, obj->size, DRM_NPU_SYNC_TO_DEVICE);
		qnpu_vm_protect(bo);
	}
	dma_resv_unlock(obj->resv);
out:
	drm_gem_object_put(obj);
	return ret;
}

/* Implements DRM_IOCTL_NPU_BO_WAIT. */
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

/* Sum up the memory behind a file's handles. */
void qnpu_gem_usage(struct drm_file *file, struct qnpu_gem_usage *usage)
{
	struct drm_memory_stats *stats;
	struct drm_gem_object *obj;
	int id;

	memset(usage, 0, sizeof(*usage));
	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		bool evicted = qnpu_bo_is_evicted(gem_to_qnpu_bo(obj));
		bool card = gem_to_qnpu_bo(obj)->flags & DRM_NPU_BO_CARD;

		stats = card ? &usage->card : &usage->system;
		if (drm_gem_object_is_shared_for_memory_stats(obj))
			stats->shared += obj->size;
		else
			stats->private += obj->size;
		if (!dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_BOOKKEEP))
			stats->active += obj->size;
		stats = card && !evicted ? &usage->card : &usage->system;
		stats->resident += obj->size;
		if (evicted)
			usage->evicted += obj->size;
		usage->largest = max_t(u64, usage->largest, obj->size);
	}
	spin_unlock(&file->table_lock);
}
