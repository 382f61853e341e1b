// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers backed by memory of a process.
 *
 * The pages are pinned for the lifetime of the buffer: munmap, truncation and exit release them
 * from the process only. fork() copies pinned pages for the child at once, so the parent keeps
 * them.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include <drm/drm_prime.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_userptr.h"
#include "qnpu_vm.h"

/* Pages pinned per call, which may disable interrupts. */
#define QNPU_PIN_PAGES	(SZ_16M >> PAGE_SHIFT)

/*
 * Accounting. Pinned pages count as locked memory of the user, because a process may exit long
 * before a buffer in another process's file. They also count for the owners of all parent user
 * namespaces, each with the limit at the creation of its namespace. So new ids in a namespace do
 * not multiply the limit. Modules cannot call inc_rlimit_ucounts().
 */
static void qnpu_memlock_uncharge(struct ucounts *from, const struct ucounts *to, long pages)
{
	struct ucounts *ucounts;

	for (ucounts = from; ucounts != to; ucounts = ucounts->ns->ucounts)
		atomic_long_sub(pages, &ucounts->rlimit[UCOUNT_RLIMIT_MEMLOCK]);
}

static int qnpu_memlock_charge(struct ucounts *from, long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK);
	struct ucounts *ucounts;
	long locked;

	for (ucounts = from; ucounts; ucounts = ucounts->ns->ucounts) {
		locked = atomic_long_add_return(pages, &ucounts->rlimit[UCOUNT_RLIMIT_MEMLOCK]);
		if (locked < 0 || locked > limit >> PAGE_SHIFT) {
			qnpu_memlock_uncharge(from, ucounts->ns->ucounts, pages);
			return -ENOMEM;
		}
		limit = get_userns_rlimit_max(ucounts->ns, UCOUNT_RLIMIT_MEMLOCK);
	}

	return 0;
}

/*
 * Pinning reports every failure as -EFAULT: tell a bad range (-EFAULT) from memory without
 * long-term pinning (-EOPNOTSUPP).
 */
static int qnpu_userptr_fault(const struct qnpu_userptr *userptr, u64 addr)
{
	unsigned long need = userptr->readonly ? VM_READ : VM_READ | VM_WRITE;
	unsigned long at = addr, end = at + (userptr->count << PAGE_SHIFT);
	struct vm_area_struct *vma;
	struct vma_iterator vmi;

	vma_iter_init(&vmi, userptr->mm, at);
	if (mmap_read_lock_killable(userptr->mm))
		return -EINTR;
	for_each_vma_range(vmi, vma, end) {
		if (vma->vm_start > at || (vma->vm_flags & need) != need)
			break;
		at = vma->vm_end;
	}
	mmap_read_unlock(userptr->mm);

	return at < end ? -EFAULT : -EOPNOTSUPP;
}

static int qnpu_userptr_pin(struct qnpu_userptr *userptr, u64 addr)
{
	unsigned int flags = FOLL_LONGTERM | (userptr->readonly ? 0 : FOLL_WRITE);
	unsigned long done;
	int ret;

	userptr->pages = kvmalloc_array(userptr->count, sizeof(*userptr->pages), QNPU_GFP_USER);
	if (!userptr->pages)
		return -ENOMEM;

	while (userptr->pinned < userptr->count) {
		done = userptr->pinned;
		ret = pin_user_pages_fast(addr + (done << PAGE_SHIFT),
					  min(userptr->count - done, QNPU_PIN_PAGES), flags,
					  userptr->pages + done);
		if (!ret || ret == -EFAULT)
			return qnpu_userptr_fault(userptr, addr);
		if (ret < 0)
			return ret;
		userptr->pinned += ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}

	return 0;
}

static enum dma_data_direction qnpu_userptr_direction(const struct qnpu_userptr *userptr)
{
	return userptr->readonly ? DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
}

/*
 * Other buffers may have mapped the same pages, so map and unmap maintain no caches. Zeros of new
 * pages are written back, or the device would read older contents of memory.
 */
static int qnpu_userptr_map(struct qnpu_device *npu, struct qnpu_userptr *userptr)
{
	struct sg_table *sg;
	int ret;

	sg = drm_prime_pages_to_sg(&npu->drm, userptr->pages, userptr->count);
	if (IS_ERR(sg))
		return PTR_ERR(sg);

	ret = dma_map_sgtable(npu->drm.dev, sg, qnpu_userptr_direction(userptr),
			      DMA_ATTR_SKIP_CPU_SYNC);
	if (ret) {
		sg_free_table(sg);
		kfree(sg);
		return ret == -EREMOTEIO ? -EIO : ret;
	}
	dma_sync_sgtable_for_device(npu->drm.dev, sg, qnpu_userptr_direction(userptr));
	userptr->sg = sg;

	return 0;
}

/*
 * Remove the DMA mapping; idempotent. No cache maintenance, as an invalidation would discard stores
 * of the process.
 */
void qnpu_userptr_unmap(struct qnpu_device *npu, struct qnpu_userptr *userptr)
{
	if (!userptr->sg)
		return;

	dma_unmap_sgtable(npu->drm.dev, userptr->sg, qnpu_userptr_direction(userptr),
			  DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(userptr->sg);
	kfree(userptr->sg);
	userptr->sg = NULL;
}

/*
 * Like qnpu_pages_sync(). A part is maintained page by page, because DMA neighbours may not be CPU
 * neighbours. The whole needs a single call: the DMA debug code finds the mapping of pages shared
 * by several buffers only by its size.
 */
int qnpu_userptr_sync(struct qnpu_bo *bo, u64 offset, u64 bytes, u32 direction)
{
	enum dma_data_direction mapped = qnpu_userptr_direction(bo->userptr);
	bool whole = !offset && bytes == bo->tbo.base.size;
	struct drm_device *drm = bo->tbo.base.dev;
	struct device *dev = drm->dev;
	u64 at, to, end = offset + bytes;
	dma_addr_t dma;
	int idx;

	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	if (!dma_dev_need_sync(dev))
		goto out;

	if (whole && direction & DRM_NPU_SYNC_TO_DEVICE)
		dma_sync_sgtable_for_device(dev, bo->userptr->sg, mapped);
	if (whole && direction & DRM_NPU_SYNC_FROM_DEVICE)
		dma_sync_sgtable_for_cpu(dev, bo->userptr->sg, mapped);
	for (at = offset; !whole && at < end; at = to) {
		to = min(end, round_down(at, PAGE_SIZE) + PAGE_SIZE);
		dma = bo->tbo.ttm->dma_address[at >> PAGE_SHIFT] + offset_in_page(at);
		if (!dma_need_sync(dev, dma))
			continue;
		if (direction & DRM_NPU_SYNC_TO_DEVICE)
			dma_sync_single_for_device(dev, dma, to - at, mapped);
		if (direction & DRM_NPU_SYNC_FROM_DEVICE)
			dma_sync_single_for_cpu(dev, dma, to - at, mapped);
		cond_resched();
	}
out:
	drm_dev_exit(idx);
	return 0;
}

static struct qnpu_userptr *qnpu_userptr_create(const struct drm_npu_bo_userptr *args)
{
	struct qnpu_userptr *userptr = kzalloc_obj(*userptr);
	int ret;

	if (!userptr)
		return ERR_PTR(-ENOMEM);

	userptr->readonly = args->flags & DRM_NPU_USERPTR_READONLY;
	userptr->count = args->size >> PAGE_SHIFT;
	if (!capable(CAP_IPC_LOCK)) {
		ret = qnpu_memlock_charge(current_ucounts(), userptr->count);
		if (ret) {
			kfree(userptr);
			return ERR_PTR(ret);
		}
		userptr->payer = get_current_cred();
	}
	userptr->mm = current->mm;
	mmgrab(userptr->mm);
	atomic64_add(userptr->count, &userptr->mm->pinned_vm);

	return userptr;
}

/* Unpin pages that are not mapped for DMA, and uncharge them; may sleep. */
void qnpu_userptr_destroy(struct qnpu_userptr *userptr)
{
	unpin_user_pages_dirty_lock(userptr->pages, userptr->pinned, !userptr->readonly);
	kvfree(userptr->pages);
	if (userptr->payer) {
		qnpu_memlock_uncharge(userptr->payer->ucounts, NULL, userptr->count);
		put_cred(userptr->payer);
	}
	atomic64_sub(userptr->count, &userptr->mm->pinned_vm);
	mmdrop(userptr->mm);
	kfree(userptr);
}

/* On success the buffer owns @userptr. */
static struct qnpu_bo *qnpu_userptr_bo(struct qnpu_device *npu, struct qnpu_userptr *userptr)
{
	u32 flags = DRM_NPU_BO_SYSTEM | DRM_NPU_BO_PINNED;
	struct qnpu_bo *bo;
	int ret, idx;

	if (userptr->readonly)
		flags |= DRM_NPU_BO_READONLY;

	/* Removal must not miss a new DMA mapping. */
	if (!drm_dev_enter(&npu->drm, &idx))
		return ERR_PTR(-ENODEV);
	ret = qnpu_userptr_map(npu, userptr);
	bo = ret ? ERR_PTR(ret) : qnpu_bo_create_sg(npu, (u64)userptr->count << PAGE_SHIFT, flags,
						    userptr->sg, NULL);
	if (IS_ERR(bo)) {
		qnpu_userptr_unmap(npu, userptr);
	} else {
		bo->userptr = userptr;
		qnpu_bo_attached(bo);
	}
	drm_dev_exit(idx);

	return bo;
}

/* Implements DRM_IOCTL_NPU_BO_USERPTR. */
int qnpu_ioctl_bo_userptr(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct drm_npu_bo_userptr *args = data;
	struct qnpu_userptr *userptr;
	struct qnpu_bo *bo;
	u64 end;
	int ret;

	if (args->flags & ~DRM_NPU_USERPTR_READONLY)
		return -EINVAL;
	if (!args->size || !PAGE_ALIGNED(args->addr) || !PAGE_ALIGNED(args->size) ||
	    check_add_overflow(args->addr, args->size, &end))
		return -EINVAL;
	if (args->size > qnpu_mem_system_bytes())
		return -ENOMEM;

	userptr = qnpu_userptr_create(args);
	if (IS_ERR(userptr))
		return PTR_ERR(userptr);
	ret = qnpu_userptr_pin(userptr, args->addr);
	bo = ret ? ERR_PTR(ret) : qnpu_userptr_bo(npu, userptr);
	if (IS_ERR(bo)) {
		qnpu_userptr_destroy(userptr);
		return PTR_ERR(bo);
	}

	bo->maker = file->client_id;
	ret = drm_gem_handle_create(file, &bo->tbo.base, &args->handle);
	bo->handle = args->handle;
	if (!ret)
		ret = qnpu_vm_address(file, bo, &args->va);
	drm_gem_object_put(&bo->tbo.base);

	return ret;
}
