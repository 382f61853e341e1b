// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers of memory that belongs to a process.
 *
 * Its pages are pinned for as long as the buffer lives. The pins keep the pages themselves: munmap,
 * truncation and the end of the process take them out of the process, not out of the buffer. After
 * fork() the parent keeps the pinned pages, and the child gets copies at once instead of sharing
 * them until somebody writes (that is what pins are, as opposed to references).
 *
 * What cannot be pinned can have a bounce buffer: an ordinary system buffer, and BO_SYNC copies
 * between it and the process.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include <drm/drm_prime.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_userptr.h"
#include "qnpu_vm.h"

/*
 * Caches are BO_SYNC's business, and the same pages may be in several buffers: a mapping must not
 * write or read them behind the back of the process. Only what a new buffer begins with is seen to,
 * once it is there.
 */
#define QNPU_USERPTR_DMA_ATTRS	DMA_ATTR_SKIP_CPU_SYNC

/* Bytes whose caches are seen to between two chances for others to run. */
#define QNPU_USERPTR_STEP	SZ_2M

/* Pages pinned at one go. */
#define QNPU_PIN_PAGES	(SZ_16M >> PAGE_SHIFT)

/*
 * Accounting. Pinned pages count as locked memory of the user, since a process can be gone long
 * before the buffer that it made through a file of others, and of the owners of the user namespaces
 * around it, each with the limit at the creation of its namespace: so the ids of a namespace are no
 * way around the limit. That is inc_rlimit_ucounts(), which modules cannot call. VmPin of the
 * process shows its part.
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

static int qnpu_userptr_charge(struct qnpu_userptr *userptr)
{
	int ret;

	if (!capable(CAP_IPC_LOCK)) {
		ret = qnpu_memlock_charge(current_ucounts(), userptr->count);
		if (ret)
			return ret;
		userptr->payer = get_current_cred();
	}
	atomic64_add(userptr->count, &userptr->mm->pinned_vm);

	return 0;
}

static void qnpu_userptr_uncharge(struct qnpu_userptr *userptr)
{
	if (userptr->payer) {
		qnpu_memlock_uncharge(userptr->payer->ucounts, NULL, userptr->count);
		put_cred(userptr->payer);
		userptr->payer = NULL;
	}
	atomic64_sub(userptr->count, &userptr->mm->pinned_vm);
}

/* Pinning */

/*
 * Pinning says -EFAULT whatever is wrong. Here is told apart what is wrong with the range and what
 * is wrong with its memory; pinning has the last word, since all of this can change meanwhile.
 */
static int qnpu_userptr_check(const struct qnpu_userptr *userptr)
{
	unsigned long need = userptr->readonly ? VM_READ : VM_READ | VM_WRITE;
	unsigned long at = userptr->addr, end = at + (userptr->count << PAGE_SHIFT);
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	bool special = false;

	vma_iter_init(&vmi, userptr->mm, at);
	if (mmap_read_lock_killable(userptr->mm))
		return -EINTR;
	for_each_vma_range(vmi, vma, end) {
		if (vma->vm_start > at || (vma->vm_flags & need) != need)
			break;
		if (vma->vm_flags & (VM_IO | VM_PFNMAP))
			special = true;
		at = vma->vm_end;
	}
	mmap_read_unlock(userptr->mm);

	if (at < end)
		return -EFAULT;

	return special ? -EOPNOTSUPP : 0;
}

static void qnpu_userptr_unpin(struct qnpu_userptr *userptr, unsigned long count)
{
	unpin_user_pages_dirty_lock(userptr->pages, count, !userptr->readonly);
	kvfree(userptr->pages);
	userptr->pages = NULL;
}

static int qnpu_userptr_pin_pages(struct qnpu_userptr *userptr)
{
	unsigned int flags = FOLL_LONGTERM | (userptr->readonly ? 0 : FOLL_WRITE);
	unsigned long done = 0;
	int ret;

	while (done < userptr->count) {
		ret = pin_user_pages_fast(userptr->addr + (done << PAGE_SHIFT),
					  min(userptr->count - done, QNPU_PIN_PAGES), flags,
					  userptr->pages + done);
		if (ret <= 0) {
			qnpu_userptr_unpin(userptr, done);
			/* The range was all right: it is the kind of memory. */
			return ret == -EFAULT || !ret ? -EOPNOTSUPP : ret;
		}
		done += ret;
		if (fatal_signal_pending(current)) {
			qnpu_userptr_unpin(userptr, done);
			return -EINTR;
		}
		cond_resched();
	}

	return 0;
}

static int qnpu_userptr_pin(struct qnpu_userptr *userptr)
{
	int ret;

	ret = qnpu_userptr_check(userptr);
	if (ret)
		return ret;
	ret = qnpu_userptr_charge(userptr);
	if (ret)
		return ret;

	userptr->pages = kvmalloc_array(userptr->count, sizeof(*userptr->pages),
					GFP_KERNEL | __GFP_NOWARN);
	ret = userptr->pages ? qnpu_userptr_pin_pages(userptr) : -ENOMEM;
	if (ret)
		qnpu_userptr_uncharge(userptr);

	return ret;
}

/* For the card */

/* How pinned memory is mapped for DMA. */
static enum dma_data_direction qnpu_userptr_direction(const struct qnpu_userptr *userptr)
{
	return userptr->readonly ? DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
}

static int qnpu_userptr_map(struct qnpu_userptr *userptr)
{
	struct qnpu_device *npu = userptr->npu;
	struct sg_table *sg;
	int ret;

	sg = drm_prime_pages_to_sg(&npu->drm, userptr->pages, userptr->count);
	if (IS_ERR(sg))
		return PTR_ERR(sg);

	ret = dma_map_sgtable(npu->drm.dev, sg, qnpu_userptr_direction(userptr),
			      QNPU_USERPTR_DMA_ATTRS);
	if (ret) {
		sg_free_table(sg);
		kfree(sg);
		return ret == -EREMOTEIO ? -EIO : ret;
	}

	userptr->sg = sg;
	mutex_lock(&npu->mem.pinned_lock);
	list_add(&userptr->link, &npu->mem.pinned);
	mutex_unlock(&npu->mem.pinned_lock);

	return 0;
}

/*
 * Without cache maintenance: an invalidation would discard stores that the process makes meanwhile.
 */
static void qnpu_userptr_unmap_locked(struct qnpu_userptr *userptr)
{
	struct qnpu_device *npu = userptr->npu;

	lockdep_assert_held(&npu->mem.pinned_lock);
	dma_unmap_sgtable(npu->drm.dev, userptr->sg, qnpu_userptr_direction(userptr),
			  QNPU_USERPTR_DMA_ATTRS);
	list_del_init(&userptr->link);
}

static void qnpu_userptr_unmap(struct qnpu_userptr *userptr)
{
	struct qnpu_mem *mem = &userptr->npu->mem;

	if (!userptr->sg)
		return;

	mutex_lock(&mem->pinned_lock);
	if (!list_empty(&userptr->link))
		qnpu_userptr_unmap_locked(userptr);
	mutex_unlock(&mem->pinned_lock);

	sg_free_table(userptr->sg);
	kfree(userptr->sg);
}

/**
 * qnpu_userptr_release_dma - undo the DMA mappings of all memory of processes
 * @npu: device that goes away, its card stopped
 *
 * The pages stay pinned until their buffers are closed.
 */
void qnpu_userptr_release_dma(struct qnpu_device *npu)
{
	struct qnpu_userptr *userptr, *next;

	mutex_lock(&npu->mem.pinned_lock);
	list_for_each_entry_safe(userptr, next, &npu->mem.pinned, link)
		qnpu_userptr_unmap_locked(userptr);
	mutex_unlock(&npu->mem.pinned_lock);
}

/*
 * How far memory goes on without a jump, for the CPU and for the device: what a single call can see
 * to, however the pages were mapped.
 */
static u64 qnpu_userptr_run(struct qnpu_bo *bo, u64 at, u64 end, u64 step)
{
	const dma_addr_t *dma = bo->tbo.ttm->dma_address;
	struct page **pages = bo->userptr->pages;
	u64 page = at >> PAGE_SHIFT;

	end = min(end, round_down(at, step) + step);
	while (++page << PAGE_SHIFT < end && dma[page] == dma[page - 1] + PAGE_SIZE &&
	       page_to_pfn(pages[page]) == page_to_pfn(pages[page - 1]) + 1)
		;

	return min(end, page << PAGE_SHIFT);
}

static void qnpu_userptr_sync_range(struct qnpu_bo *bo, u64 offset, u64 end, u32 direction)
{
	enum dma_data_direction mapped = qnpu_userptr_direction(bo->userptr);
	struct device *dev = bo->tbo.base.dev->dev;
	u64 at, to, step = QNPU_USERPTR_STEP;
	dma_addr_t dma;

	/* Where memory goes through bounce buffers these are neighbours by accident. */
	if (dma_max_mapping_size(dev) < step)
		step = PAGE_SIZE;
	for (at = offset; at < end; at = to) {
		to = qnpu_userptr_run(bo, at, end, step);
		dma = bo->tbo.ttm->dma_address[at >> PAGE_SHIFT] + offset_in_page(at);
		if (!dma_need_sync(dev, dma))
			continue;
		if (direction & DRM_NPU_SYNC_TO_DEVICE)
			dma_sync_single_for_device(dev, dma, to - at, mapped);
		if (direction & DRM_NPU_SYNC_FROM_DEVICE)
			dma_sync_single_for_cpu(dev, dma, to - at, mapped);
		cond_resched();
	}
}

/*
 * Pages may be in several buffers. The checker of the DMA API cannot tell which of their mappings
 * is meant, but where it is the whole of one.
 */
static void qnpu_userptr_sync_whole(struct qnpu_bo *bo, u32 direction)
{
	enum dma_data_direction mapped = qnpu_userptr_direction(bo->userptr);
	struct device *dev = bo->tbo.base.dev->dev;

	if (direction & DRM_NPU_SYNC_TO_DEVICE)
		dma_sync_sgtable_for_device(dev, bo->userptr->sg, mapped);
	if (direction & DRM_NPU_SYNC_FROM_DEVICE)
		dma_sync_sgtable_for_cpu(dev, bo->userptr->sg, mapped);
}

/**
 * qnpu_userptr_sync - caches of pinned memory of a process
 * @bo: buffer of such memory
 * @offset: first byte
 * @bytes: how many
 * @direction: DRM_NPU_SYNC_ flags
 *
 * As qnpu_pages_sync().
 */
int qnpu_userptr_sync(struct qnpu_bo *bo, u64 offset, u64 bytes, u32 direction)
{
	struct drm_device *drm = bo->tbo.base.dev;
	int idx;

	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	if (dma_dev_need_sync(drm->dev)) {
		if (!offset && bytes == (u64)bo->userptr->count << PAGE_SHIFT)
			qnpu_userptr_sync_whole(bo, direction);
		else
			qnpu_userptr_sync_range(bo, offset, offset + bytes, direction);
	}
	drm_dev_exit(idx);

	return 0;
}

/* Life */

static struct qnpu_userptr *qnpu_userptr_create(struct qnpu_device *npu,
						const struct drm_npu_bo_userptr *args)
{
	struct qnpu_userptr *userptr = kzalloc_obj(*userptr);

	if (!userptr)
		return NULL;

	userptr->npu = npu;
	userptr->mm = current->mm;
	userptr->addr = args->addr;
	userptr->readonly = args->flags & DRM_NPU_USERPTR_READONLY;
	userptr->count = args->size >> PAGE_SHIFT;
	INIT_LIST_HEAD(&userptr->link);
	mmgrab(userptr->mm);

	return userptr;
}

/**
 * qnpu_userptr_destroy - let go of the memory of a process; may sleep
 * @userptr: memory that the card has no access to any more, or NULL
 */
void qnpu_userptr_destroy(struct qnpu_userptr *userptr)
{
	if (!userptr)
		return;

	qnpu_userptr_unmap(userptr);
	if (userptr->pages) {
		qnpu_userptr_unpin(userptr, userptr->count);
		qnpu_userptr_uncharge(userptr);
	}
	mmdrop(userptr->mm);
	kfree(userptr);
}

/* Bounce buffers */

/*
 * Copy a part of a page. The device is entered only where nobody can make the kernel wait: the
 * memory of a process may be one whose faults another process answers, or does not.
 */
static int qnpu_userptr_copy_page(struct qnpu_bo *bo, u64 at, u32 bytes, void *stage, bool in)
{
	void __user *user = u64_to_user_ptr(bo->userptr->addr + at);
	int idx;

	if (in && copy_from_user(stage, user, bytes))
		return -EFAULT;

	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return -ENODEV;
	if (in)
		memcpy_to_page(bo->tbo.ttm->pages[at >> PAGE_SHIFT], offset_in_page(at), stage,
			       bytes);
	else
		memcpy_from_page(stage, bo->tbo.ttm->pages[at >> PAGE_SHIFT], offset_in_page(at),
				 bytes);
	drm_dev_exit(idx);

	return !in && copy_to_user(user, stage, bytes) ? -EFAULT : 0;
}

static int qnpu_userptr_copy(struct qnpu_bo *bo, u64 offset, u64 bytes, bool in)
{
	u64 at, end = offset + bytes;
	void *stage;
	int ret = 0;
	u32 step;

	/* Addresses mean something in the process that gave them, and nowhere else. */
	if (current->mm != bo->userptr->mm)
		return -EPERM;

	stage = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!stage)
		return -ENOMEM;

	for (at = offset; at < end && !ret; at += step) {
		step = min_t(u64, end - at, PAGE_SIZE - offset_in_page(at));
		ret = fatal_signal_pending(current) ?
			      -EINTR :
			      qnpu_userptr_copy_page(bo, at, step, stage, in);
		cond_resched();
	}
	kfree(stage);

	return ret;
}

/**
 * qnpu_userptr_copy_in - copy what the process has to its bounce buffer
 * @bo: bounce buffer
 * @offset: first byte
 * @bytes: how many, inside of the buffer
 */
int qnpu_userptr_copy_in(struct qnpu_bo *bo, u64 offset, u64 bytes)
{
	return qnpu_userptr_copy(bo, offset, bytes, true);
}

/**
 * qnpu_userptr_copy_out - copy what a bounce buffer has to its process
 * @bo: bounce buffer
 * @offset: first byte
 * @bytes: how many, inside of the buffer
 *
 * What jobs cannot write has nothing that the process does not have.
 */
int qnpu_userptr_copy_out(struct qnpu_bo *bo, u64 offset, u64 bytes)
{
	return bo->userptr->readonly ? 0 : qnpu_userptr_copy(bo, offset, bytes, false);
}

/* Creation */

static struct qnpu_bo *qnpu_userptr_bo_pinned(struct qnpu_userptr *userptr)
{
	struct qnpu_device *npu = userptr->npu;
	u32 flags = DRM_NPU_BO_SYSTEM | DRM_NPU_BO_PINNED;
	struct qnpu_bo *bo;
	int ret, idx;

	if (userptr->readonly)
		flags |= DRM_NPU_BO_READONLY;

	/* Held, so that nothing is mapped for DMA behind the back of a device that goes away. */
	if (!drm_dev_enter(&npu->drm, &idx))
		return ERR_PTR(-ENODEV);
	ret = qnpu_userptr_map(userptr);
	if (ret)
		bo = ERR_PTR(ret);
	else
		bo = qnpu_bo_create_pinned(npu, (u64)userptr->count << PAGE_SHIFT, flags,
					   userptr->sg);
	drm_dev_exit(idx);

	return bo;
}

static struct qnpu_bo *qnpu_userptr_bo_bounce(struct qnpu_userptr *userptr, struct qnpu_vm *vm)
{
	struct qnpu_device *npu = userptr->npu;
	u32 flags = DRM_NPU_BO_SYSTEM | DRM_NPU_BO_BOUNCE;
	struct qnpu_bo *bo;
	int idx;

	if (userptr->readonly)
		flags |= DRM_NPU_BO_READONLY;

	if (!drm_dev_enter(&npu->drm, &idx))
		return ERR_PTR(-ENODEV);
	bo = qnpu_bo_create(npu, vm, (u64)userptr->count << PAGE_SHIFT, flags);
	drm_dev_exit(idx);

	return bo;
}

static struct qnpu_bo *qnpu_userptr_bo(struct qnpu_userptr *userptr, struct qnpu_vm *vm,
				       bool bounce)
{
	int ret = qnpu_userptr_pin(userptr);

	if (!ret)
		return qnpu_userptr_bo_pinned(userptr);
	if (bounce && (ret == -EOPNOTSUPP || ret == -ENOMEM))
		return qnpu_userptr_bo_bounce(userptr, vm);

	return ERR_PTR(ret);
}

static int qnpu_userptr_check_args(struct qnpu_device *npu, const struct drm_npu_bo_userptr *args)
{
	u64 end;

	if (args->flags & ~(DRM_NPU_USERPTR_READONLY | DRM_NPU_USERPTR_BOUNCE))
		return -EINVAL;
	if (!args->size || !PAGE_ALIGNED(args->addr) || !PAGE_ALIGNED(args->size) ||
	    check_add_overflow(args->addr, args->size, &end))
		return -EINVAL;
	if (!access_ok(u64_to_user_ptr(args->addr), args->size))
		return -EFAULT;

	return args->size > qnpu_mem_system_bytes() ? -ENOMEM : 0;
}

/**
 * qnpu_ioctl_bo_userptr - DRM_IOCTL_NPU_BO_USERPTR
 * @drm: device
 * @data: struct drm_npu_bo_userptr
 * @file: caller
 */
int qnpu_ioctl_bo_userptr(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct drm_npu_bo_userptr *args = data;
	struct qnpu_userptr *userptr;
	struct qnpu_vm *vm;
	struct qnpu_bo *bo;
	int ret;

	ret = qnpu_userptr_check_args(npu, args);
	if (ret)
		return ret;
	vm = qnpu_file_vm(file);
	if (IS_ERR(vm))
		return PTR_ERR(vm);

	userptr = qnpu_userptr_create(npu, args);
	if (!userptr)
		return -ENOMEM;
	bo = qnpu_userptr_bo(userptr, vm, args->flags & DRM_NPU_USERPTR_BOUNCE);
	if (IS_ERR(bo)) {
		qnpu_userptr_destroy(userptr);
		return PTR_ERR(bo);
	}

	bo->userptr = userptr;
	bo->maker = file->client_id;
	/* Caches may have all that was written to new pages, zeros, and memory what others left. */
	if (bo->flags & DRM_NPU_BO_PINNED)
		ret = qnpu_userptr_sync(bo, 0, args->size, DRM_NPU_SYNC_TO_DEVICE);
	if (!ret)
		ret = drm_gem_handle_create(file, &bo->tbo.base, &args->handle);
	bo->handle = args->handle;
	if (!ret)
		ret = qnpu_vm_address(file, bo, &args->va);
	drm_gem_object_put(&bo->tbo.base);

	return ret;
}
