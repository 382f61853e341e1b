// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers that are shared with others by dma-buf.
 *
 * Export: other devices reach system memory only. A card buffer that one of them maps moves there,
 * and stays as long as the importer cannot follow moves; jobs use it where it is. An importer that
 * can is told before a move, and maps it anew.
 *
 * Import: the exporter keeps the memory in place while it is attached, so it is mapped once. Moves,
 * CPU mappings and caches of such a buffer are the exporter's business.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include <drm/drm_prime.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_compat.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_prime.h"
#include "qnpu_residency.h"
#include "qnpu_sysfs.h"

#ifdef QNPU_HAVE_UNQUOTED_NS
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif

static struct qnpu_device *bo_to_qnpu(struct qnpu_bo *bo)
{
	return to_qnpu_device(bo->tbo.base.dev);
}

static struct qnpu_bo *qnpu_bo_of(struct dma_buf *dma_buf)
{
	return gem_to_qnpu_bo(dma_buf->priv);
}

/* Moves a buffer to system memory. -EBUSY: jobs use it, and @wait is not set. */
static int qnpu_prime_to_system(struct qnpu_bo *bo, bool wait)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_TT };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	struct ttm_operation_ctx ctx = {
		.interruptible = true,
		.no_wait_gpu = !wait,
		.gfp_retry_mayfail = true,
	};

	return ttm_bo_validate(&bo->tbo, &placement, &ctx);
}

/* A device of this driver, on any bus. */
static bool qnpu_prime_is_ours(const struct device *dev)
{
	return dev->driver && dev->driver->dev_groups == qnpu_sysfs_groups;
}

/* Export */

static int qnpu_prime_pin_idle(struct qnpu_bo *bo)
{
	struct dma_resv *resv = bo->tbo.base.resv;
	int ret, idx;

	ret = dma_resv_lock_interruptible(resv, NULL);
	if (ret)
		return ret;
	ret = -ENODEV;
	if (drm_dev_enter(bo->tbo.base.dev, &idx)) {
		ret = qnpu_prime_to_system(bo, false);
		drm_dev_exit(idx);
	}
	if (!ret)
		ttm_bo_pin(&bo->tbo);
	dma_resv_unlock(resv);

	return ret;
}

static long qnpu_prime_wait_idle(struct qnpu_bo *bo)
{
	return dma_resv_wait_timeout(bo->tbo.base.resv, DMA_RESV_USAGE_BOOKKEEP, true,
				     MAX_SCHEDULE_TIMEOUT);
}

/*
 * Pins a buffer in system memory, which is where other devices reach it. Meanwhile it takes no new
 * jobs, so that the wait for those that use it ends. The reservation lock is not held over the
 * wait.
 */
static int qnpu_prime_pin(struct qnpu_bo *bo, bool wait)
{
	long left = 0;
	int ret;

	qnpu_residency_hold(bo);
	do {
		ret = qnpu_prime_pin_idle(bo);
		if (ret == -EBUSY && wait)
			left = qnpu_prime_wait_idle(bo);
	} while (ret == -EBUSY && wait && left > 0);
	qnpu_residency_release(bo);

	return left < 0 ? left : ret;
}

static void qnpu_prime_unpin(struct qnpu_bo *bo)
{
	dma_resv_lock(bo->tbo.base.resv, NULL);
	ttm_bo_unpin(&bo->tbo);
	dma_resv_unlock(bo->tbo.base.resv);
}

/*
 * Called without the reservation lock. Another device of this driver attaches under a lock that its
 * users need: it waits before, see qnpu_prime_fd_to_handle().
 */
static int qnpu_prime_attach(struct dma_buf *dma_buf, struct dma_buf_attachment *attach)
{
	return qnpu_prime_pin(qnpu_bo_of(dma_buf), !qnpu_prime_is_ours(attach->dev));
}

static void qnpu_prime_detached(struct dma_buf *dma_buf, struct dma_buf_attachment *attach)
{
	qnpu_prime_unpin(qnpu_bo_of(dma_buf));
}

static struct sg_table *qnpu_prime_map(struct dma_buf_attachment *attach,
				       enum dma_data_direction direction)
{
	struct qnpu_bo *bo = qnpu_bo_of(attach->dmabuf);
	struct drm_device *drm = bo->tbo.base.dev;
	struct sg_table *sg;
	int ret, idx;

	/* Nobody writes what is sealed. */
	if (bo->sealed && direction != DMA_TO_DEVICE)
		return ERR_PTR(-EACCES);
	if (!drm_dev_enter(drm, &idx))
		return ERR_PTR(-ENODEV);

	sg = drm_prime_pages_to_sg(drm, bo->tbo.ttm->pages, bo->tbo.ttm->num_pages);
	if (IS_ERR(sg))
		goto out;

	/* This device has mapped the same pages, and may be the importer. */
	ret = dma_map_sgtable(attach->dev, sg, direction, DMA_ATTR_SKIP_CPU_SYNC);
	if (ret) {
		sg_free_table(sg);
		kfree(sg);
		sg = ERR_PTR(ret);
		goto out;
	}
	/* Caches are written back for an importer that does not see them. */
	dma_sync_sgtable_for_device(attach->dev, sg, direction);
	attach->priv = sg;
out:
	drm_dev_exit(idx);
	return sg;
}

static void qnpu_prime_unmap(struct dma_buf_attachment *attach, struct sg_table *sg,
			     enum dma_data_direction direction)
{
	/* Without an invalidation, which would discard stores that programs make meanwhile. */
	attach->priv = NULL;
	dma_unmap_sgtable(attach->dev, sg, direction, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sg);
	kfree(sg);
}

/* For the kernel's own users: where all of it is memory like any other, whatever the card's is. */
static int qnpu_prime_vmap(struct dma_buf *dma_buf, struct iosys_map *map)
{
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);
	int ret, idx;

	/* There is no mapping for reading only. */
	if (bo->sealed)
		return -EACCES;
	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return -ENODEV;

	ret = qnpu_prime_to_system(bo, true);
	if (!ret)
		ret = ttm_bo_vmap(&bo->tbo, map);
	if (!ret)
		ttm_bo_pin(&bo->tbo);
	drm_dev_exit(idx);

	return ret;
}

static void qnpu_prime_vunmap(struct dma_buf *dma_buf, struct iosys_map *map)
{
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);

	ttm_bo_vunmap(&bo->tbo, map);
	ttm_bo_unpin(&bo->tbo);
}

/* The mappings of all importers: they may be less coherent than this device, or bounced. */
static int qnpu_prime_sync_importers(struct dma_buf *dma_buf, u32 direction)
{
	struct dma_buf_attachment *attach;
	int ret;

	ret = dma_resv_lock_interruptible(dma_buf->resv, NULL);
	if (ret)
		return ret;
	list_for_each_entry(attach, &dma_buf->attachments, node) {
		if (!attach->priv)
			continue;
		if (direction & DRM_NPU_SYNC_TO_DEVICE)
			dma_sync_sgtable_for_device(attach->dev, attach->priv, DMA_BIDIRECTIONAL);
		else
			dma_sync_sgtable_for_cpu(attach->dev, attach->priv, DMA_BIDIRECTIONAL);
		cond_resched();
	}
	dma_resv_unlock(dma_buf->resv);
	return 0;
}

static int qnpu_prime_cpu_access(struct dma_buf *dma_buf, u32 direction)
{
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);
	const struct drm_npu_bo_sync args = { .direction = direction, .size = dma_buf->size };

	return qnpu_prime_sync_importers(dma_buf, direction) ?: qnpu_bo_sync(bo, &args);
}

static int qnpu_prime_begin_cpu_access(struct dma_buf *dma_buf, enum dma_data_direction direction)
{
	return qnpu_prime_cpu_access(dma_buf, DRM_NPU_SYNC_FROM_DEVICE);
}

static int qnpu_prime_end_cpu_access(struct dma_buf *dma_buf, enum dma_data_direction direction)
{
	/* The CPU has only read. */
	if (direction == DMA_FROM_DEVICE)
		return 0;
	return qnpu_prime_cpu_access(dma_buf, DRM_NPU_SYNC_TO_DEVICE);
}

static const struct dma_buf_ops qnpu_dma_buf_ops = {
	.attach = qnpu_prime_attach,
	.detach = qnpu_prime_detached,
	.map_dma_buf = qnpu_prime_map,
	.unmap_dma_buf = qnpu_prime_unmap,
	.begin_cpu_access = qnpu_prime_begin_cpu_access,
	.end_cpu_access = qnpu_prime_end_cpu_access,
	.release = drm_gem_dmabuf_release,
	.mmap = drm_gem_dmabuf_mmap,
	.vmap = qnpu_prime_vmap,
	.vunmap = qnpu_prime_vunmap,
};

/**
 * qnpu_prime_export - make a dma-buf of a buffer
 * @obj: the buffer, not an imported one
 * @flags: DRM_CLOEXEC, DRM_RDWR
 *
 * Memory of a process is not for others: they could keep it pinned at the cost of that process.
 */
struct dma_buf *qnpu_prime_export(struct drm_gem_object *obj, int flags)
{
	struct dma_buf_export_info info = {
		.exp_name = KBUILD_MODNAME,
		.owner = THIS_MODULE,
		.ops = &qnpu_dma_buf_ops,
		.size = obj->size,
		.flags = flags,
		.priv = obj,
		.resv = obj->resv,
	};

	if (gem_to_qnpu_bo(obj)->userptr)
		return ERR_PTR(-EOPNOTSUPP);

	return drm_gem_dmabuf_export(obj->dev, &info);
}

/*
 * A dma-buf without write access. DRM's own code gives a buffer one dma-buf, with the access of its
 * first export, and returns that for all others.
 */
static int qnpu_prime_export_readonly(struct drm_file *file, u32 handle, u32 flags, int *fd)
{
	struct drm_gem_object *obj;
	struct dma_buf *dma_buf;
	int ret;

	obj = drm_gem_object_lookup(file, handle);
	if (!obj)
		return -ENOENT;
	dma_buf = gem_to_qnpu_bo(obj)->dma_buf ? ERR_PTR(-EOPNOTSUPP) :
						 qnpu_prime_export(obj, flags);
	drm_gem_object_put(obj);
	if (IS_ERR(dma_buf))
		return PTR_ERR(dma_buf);
	ret = dma_buf_fd(dma_buf, flags);
	if (ret < 0) {
		dma_buf_put(dma_buf);
		return ret;
	}
	*fd = ret;

	return 0;
}

/**
 * qnpu_prime_handle_to_fd - drm_driver.prime_handle_to_fd
 * @drm: device
 * @file: caller
 * @handle: buffer
 * @flags: DRM_CLOEXEC, DRM_RDWR
 * @fd: answer
 *
 * The device is held: DRM's own code looks at the attachment of an imported buffer, which goes with
 * the device.
 */
int qnpu_prime_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			    int *fd)
{
	int ret, idx;

	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	if (flags & DRM_RDWR)
		ret = drm_gem_prime_handle_to_fd(drm, file, handle, flags, fd);
	else
		ret = qnpu_prime_export_readonly(file, handle, flags, fd);
	drm_dev_exit(idx);

	return ret;
}

/**
 * qnpu_prime_is_attached - does another device, or driver, have access to a buffer?
 * @bo: buffer, its reservation lock held
 */
bool qnpu_prime_is_attached(struct qnpu_bo *bo)
{
	dma_resv_assert_held(bo->tbo.base.resv);

	return bo->tbo.pin_count;
}

/* Import */

/*
 * Does an import of one of our dma-bufs attach to it? A writable or sealed one of the same device
 * is the buffer that it was exported from. One without write access becomes a buffer of its own,
 * which jobs and programs only read.
 */
static bool qnpu_prime_attaches(struct drm_device *drm, struct dma_buf *dma_buf)
{
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);

	if (bo->tbo.base.dev != drm)
		return true;

	return !(dma_buf->file->f_mode & FMODE_WRITE) && !READ_ONCE(bo->sealed);
}

static void qnpu_prime_attached(struct qnpu_device *npu, struct qnpu_bo *bo)
{
	mutex_lock(&npu->mem.imports_lock);
	list_add(&bo->import_link, &npu->mem.imports);
	mutex_unlock(&npu->mem.imports_lock);
}

/*
 * Imports what another device of this driver has exported: the wait for its jobs is here, without a
 * lock that others need.
 */
static int qnpu_prime_import_ours(struct drm_device *drm, struct drm_file *file, struct qnpu_bo *bo,
				  int fd, u32 *handle)
{
	int ret;

	ret = qnpu_prime_pin(bo, true);
	if (ret)
		return ret;
	ret = drm_gem_prime_fd_to_handle(drm, file, fd, handle);
	qnpu_prime_unpin(bo);

	return ret;
}

/**
 * qnpu_prime_fd_to_handle - drm_driver.prime_fd_to_handle
 * @drm: device
 * @file: caller
 * @fd: dma-buf
 * @handle: answer
 */
int qnpu_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle)
{
	struct dma_buf *dma_buf = dma_buf_get(fd);
	int ret;

	if (IS_ERR(dma_buf))
		return PTR_ERR(dma_buf);

	/*
	 * If a thread replaces the file behind the number meanwhile, that one may be busy: -EBUSY.
	 */
	if (dma_buf->ops == &qnpu_dma_buf_ops && qnpu_prime_attaches(drm, dma_buf))
		ret = qnpu_prime_import_ours(drm, file, qnpu_bo_of(dma_buf), fd, handle);
	else
		ret = drm_gem_prime_fd_to_handle(drm, file, fd, handle);
	dma_buf_put(dma_buf);

	return ret;
}

/*
 * Writes caches back, for exporters that map their memory without that (udmabuf): the importer
 * would see what memory held before the zeros of new pages (upstream/udmabuf, patch 3). No store
 * gets lost. Returns false where that is impossible: memory without pages, or whose pages
 * CONFIG_DMABUF_DEBUG hides.
 */
static bool qnpu_prime_clean(struct qnpu_device *npu, struct sg_table *sg)
{
	if (npu->coherent)
		return true;
	if (IS_ENABLED(CONFIG_DMABUF_DEBUG) || !sg_page(sg->sgl))
		return false;
	dma_sync_sgtable_for_device(npu->drm.dev, sg, DMA_BIDIRECTIONAL);

	return true;
}

/**
 * qnpu_prime_import - make a buffer of a dma-buf
 * @drm: device
 * @dma_buf: dma-buf
 *
 * A writable one of the same card is the buffer that it was exported from.
 */
struct drm_gem_object *qnpu_prime_import(struct drm_device *drm, struct dma_buf *dma_buf)
{
	struct drm_gem_object *obj;
	int idx;

	if (dma_buf->ops == &qnpu_dma_buf_ops && !qnpu_prime_attaches(drm, dma_buf)) {
		obj = dma_buf->priv;
		drm_gem_object_get(obj);
		return obj;
	}

	/* Nothing is mapped for DMA behind the back of a device that goes away. */
	if (!drm_dev_enter(drm, &idx))
		return ERR_PTR(-ENODEV);
	obj = drm_gem_prime_import(drm, dma_buf);
	if (!IS_ERR(obj))
		qnpu_prime_attached(to_qnpu_device(drm), gem_to_qnpu_bo(obj));
	drm_dev_exit(idx);

	return obj;
}

/**
 * qnpu_prime_import_sg_table - make a buffer of what an exporter has mapped for the card
 * @drm: device
 * @attach: the card's attachment to the dma-buf
 * @sg: its memory
 */
struct drm_gem_object *qnpu_prime_import_sg_table(struct drm_device *drm,
						  struct dma_buf_attachment *attach,
						  struct sg_table *sg)
{
	struct dma_buf *dma_buf = attach->dmabuf;
	struct qnpu_bo *bo;

	if (!PAGE_ALIGNED(dma_buf->size) || dma_buf->size > QNPU_BO_MAX_SIZE)
		return ERR_PTR(-EINVAL);

	qnpu_prime_clean(to_qnpu_device(drm), sg);
	dma_resv_lock(dma_buf->resv, NULL);
	bo = qnpu_bo_create_import(to_qnpu_device(drm), dma_buf, sg);
	dma_resv_unlock(dma_buf->resv);

	return IS_ERR(bo) ? ERR_CAST(bo) : &bo->tbo.base;
}

/* Take an attachment from a buffer; NULL if somebody else has done so. */
static struct dma_buf_attachment *qnpu_prime_take(struct qnpu_bo *bo)
{
	struct dma_buf_attachment *attach = bo->tbo.base.import_attach;

	lockdep_assert_held(&bo_to_qnpu(bo)->mem.imports_lock);

	list_del_init(&bo->import_link);
	bo->tbo.base.import_attach = NULL;
	if (attach)
		atomic_inc(&bo_to_qnpu(bo)->mem.detaching);

	return attach;
}

static void qnpu_prime_drop(struct qnpu_mem *mem, struct dma_buf_attachment *attach,
			    struct sg_table *sg)
{
	struct dma_buf *dma_buf = attach->dmabuf;

	dma_buf_unmap_attachment_unlocked(attach, sg, DMA_BIDIRECTIONAL);
	dma_buf_detach(dma_buf, attach);
	if (atomic_dec_and_test(&mem->detaching))
		wake_up_var(&mem->detaching);
	dma_buf_put(dma_buf);
}

/**
 * qnpu_prime_detach - the end of an imported buffer
 * @bo: buffer, imported or not
 */
void qnpu_prime_detach(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = &bo_to_qnpu(bo)->mem;
	struct dma_buf_attachment *attach;

	if (!bo->dma_buf)
		return;

	mutex_lock(&mem->imports_lock);
	attach = qnpu_prime_take(bo);
	mutex_unlock(&mem->imports_lock);
	if (attach)
		qnpu_prime_drop(mem, attach, bo->tbo.sg);
}

/**
 * qnpu_prime_release_dma - give back what others have mapped for a device that goes away
 * @npu: device, unplugged, its card stopped
 *
 * Waits for those that are just giving it back themselves.
 */
void qnpu_prime_release_dma(struct qnpu_device *npu)
{
	struct dma_buf_attachment *attach;
	struct qnpu_mem *mem = &npu->mem;
	struct sg_table *sg;
	struct qnpu_bo *bo;

	mutex_lock(&mem->imports_lock);
	while ((bo = list_first_entry_or_null(&mem->imports, struct qnpu_bo, import_link))) {
		sg = bo->tbo.sg;
		attach = qnpu_prime_take(bo);
		/* From here on the buffer may be gone; the exporter's locks are not for inside. */
		mutex_unlock(&mem->imports_lock);
		if (attach)
			qnpu_prime_drop(mem, attach, sg);
		mutex_lock(&mem->imports_lock);
	}
	mutex_unlock(&mem->imports_lock);
	wait_var_event(&mem->detaching, !atomic_read(&mem->detaching));
}

/**
 * qnpu_prime_mmap - map an imported buffer: its exporter does
 * @obj: buffer
 * @vma: mapping with a reference to @obj, which it does not need
 */
int qnpu_prime_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	int ret;

	if (gem_to_qnpu_bo(obj)->flags & DRM_NPU_BO_READONLY) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = NULL;
	vma->vm_ops = NULL;
	ret = dma_buf_mmap(gem_to_qnpu_bo(obj)->dma_buf, vma, 0);
	if (!ret)
		drm_gem_object_put(obj);

	return ret;
}

/* udmabuf refuses an end before the first begin, which would discard stores. */
static int qnpu_prime_end_of(struct qnpu_bo *bo)
{
	int ret = dma_buf_end_cpu_access(bo->dma_buf, DMA_BIDIRECTIONAL);

	if (ret != -EINVAL)
		return ret;
	if (qnpu_prime_clean(bo_to_qnpu(bo), bo->tbo.sg))
		return 0;

	return dma_buf_begin_cpu_access(bo->dma_buf, DMA_BIDIRECTIONAL) ?:
	       dma_buf_end_cpu_access(bo->dma_buf, DMA_BIDIRECTIONAL);
}

/**
 * qnpu_prime_sync - cache maintenance of an imported buffer, by its exporter
 * @bo: buffer
 * @direction: DRM_NPU_SYNC_ flags
 *
 * The direction of DMA is always both: an exporter may map its memory for the first direction that
 * it sees, and use that mapping for all others (upstream/udmabuf, patch 1).
 */
int qnpu_prime_sync(struct qnpu_bo *bo, u32 direction)
{
	int ret = 0;

	if (direction & DRM_NPU_SYNC_TO_DEVICE)
		ret = qnpu_prime_end_of(bo);
	if (!ret && direction & DRM_NPU_SYNC_FROM_DEVICE)
		ret = dma_buf_begin_cpu_access(bo->dma_buf, DMA_BIDIRECTIONAL);

	return ret;
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_prime_test.c"
#endif
