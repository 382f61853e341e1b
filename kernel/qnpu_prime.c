// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sharing of buffers by dma-buf.
 *
 * Export: other devices can access system memory only. A card buffer moves there on the first
 * attach and stays until the last detach; jobs use it there.
 *
 * Import: the exporter keeps attached memory in place, so it is mapped once. The exporter also does
 * CPU mappings and cache maintenance.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

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

static struct qnpu_bo *qnpu_bo_of(struct dma_buf *dma_buf)
{
	return gem_to_qnpu_bo(dma_buf->priv);
}

/* Export */

/*
 * Move a buffer to system memory and pin it. It takes no new jobs until then, so that the wait for
 * unfinished ones ends; the wait is outside the reservation lock. -EBUSY: it is in use, and @wait
 * is false.
 */
static int qnpu_prime_pin(struct qnpu_bo *bo, bool wait)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_TT };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	struct ttm_operation_ctx ctx = {
		.interruptible = true,
		.no_wait_gpu = true,
		.gfp_retry_mayfail = true,
	};
	struct dma_resv *resv = bo->tbo.base.resv;
	long left = 1;
	int ret, idx;

	atomic_inc(&bo->leaving);
	do {
		ret = dma_resv_lock_interruptible(resv, NULL);
		if (ret)
			break;
		ret = -ENODEV;
		if (drm_dev_enter(bo->tbo.base.dev, &idx)) {
			ret = ttm_bo_validate(&bo->tbo, &placement, &ctx);
			if (!ret)
				ttm_bo_pin(&bo->tbo);
			drm_dev_exit(idx);
		}
		dma_resv_unlock(resv);
		if (ret == -EBUSY && wait)
			left = dma_resv_wait_timeout(resv, DMA_RESV_USAGE_BOOKKEEP, true,
						     MAX_SCHEDULE_TIMEOUT);
	} while (ret == -EBUSY && wait && left > 0);
	atomic_dec(&bo->leaving);
	qnpu_residency_wake(to_qnpu_device(bo->tbo.base.dev));

	return left < 0 ? left : ret;
}

static void qnpu_prime_unpin(struct qnpu_bo *bo)
{
	dma_resv_lock(bo->tbo.base.resv, NULL);
	ttm_bo_unpin(&bo->tbo);
	dma_resv_unlock(bo->tbo.base.resv);
}

/*
 * Runs without the reservation lock. Another device of this driver attaches under a lock that all
 * its users need, so qnpu_prime_fd_to_handle() waits first.
 */
static int qnpu_prime_attach(struct dma_buf *dma_buf, struct dma_buf_attachment *attach)
{
	const struct device_driver *driver = attach->dev->driver;
	bool ours = driver && driver->dev_groups == qnpu_sysfs_groups;

	return qnpu_prime_pin(qnpu_bo_of(dma_buf), !ours);
}

static void qnpu_prime_detach(struct dma_buf *dma_buf, struct dma_buf_attachment *attach)
{
	qnpu_prime_unpin(qnpu_bo_of(dma_buf));
}

/* drm_gem_object_funcs.get_sg_table: pages of a pinned buffer. */
struct sg_table *qnpu_prime_get_sg_table(struct drm_gem_object *obj)
{
	const struct ttm_tt *tt = gem_to_qnpu_bo(obj)->tbo.ttm;

	return drm_prime_pages_to_sg(obj->dev, tt->pages, tt->num_pages);
}

static struct sg_table *qnpu_prime_map(struct dma_buf_attachment *attach,
				       enum dma_data_direction direction)
{
	struct qnpu_bo *bo = qnpu_bo_of(attach->dmabuf);
	struct sg_table *sg;
	int idx;

	if (bo->sealed && direction != DMA_TO_DEVICE)
		return ERR_PTR(-EACCES);
	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return ERR_PTR(-ENODEV);

	sg = drm_gem_map_dma_buf(attach, direction);
	if (!IS_ERR(sg)) {
		/* The helper maintains no caches; the importer may be non-coherent. */
		dma_sync_sgtable_for_device(attach->dev, sg, direction);
		attach->priv = sg;
	}
	drm_dev_exit(idx);

	return sg;
}

static void qnpu_prime_unmap(struct dma_buf_attachment *attach, struct sg_table *sg,
			     enum dma_data_direction direction)
{
	attach->priv = NULL;
	drm_gem_unmap_dma_buf(attach, sg, direction);
}

/* Maintain caches for this device and for all importers, which may be less coherent. */
static int qnpu_prime_cpu_access(struct dma_buf *dma_buf, u32 direction)
{
	const struct drm_npu_bo_sync args = { .direction = direction, .size = dma_buf->size };
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

	return qnpu_bo_sync(qnpu_bo_of(dma_buf), &args);
}

static int qnpu_prime_begin_cpu_access(struct dma_buf *dma_buf, enum dma_data_direction direction)
{
	return qnpu_prime_cpu_access(dma_buf, DRM_NPU_SYNC_FROM_DEVICE);
}

static int qnpu_prime_end_cpu_access(struct dma_buf *dma_buf, enum dma_data_direction direction)
{
	if (direction == DMA_FROM_DEVICE)
		return 0; /* the CPU has only read */

	return qnpu_prime_cpu_access(dma_buf, DRM_NPU_SYNC_TO_DEVICE);
}

static const struct dma_buf_ops qnpu_dma_buf_ops = {
	.attach = qnpu_prime_attach,
	.detach = qnpu_prime_detach,
	.map_dma_buf = qnpu_prime_map,
	.unmap_dma_buf = qnpu_prime_unmap,
	.begin_cpu_access = qnpu_prime_begin_cpu_access,
	.end_cpu_access = qnpu_prime_end_cpu_access,
	.release = drm_gem_dmabuf_release,
	.mmap = drm_gem_dmabuf_mmap,
};

/*
 * drm_gem_object_funcs.export of a native buffer. User memory is not exported: others could keep it
 * pinned at the expense of its process.
 */
struct dma_buf *qnpu_prime_export(struct drm_gem_object *obj, int flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);

	if (gem_to_qnpu_bo(obj)->userptr)
		return ERR_PTR(-EOPNOTSUPP);
	info.ops = &qnpu_dma_buf_ops;
	info.size = obj->size;
	info.flags = flags;
	info.priv = obj;
	info.resv = obj->resv;

	return drm_gem_dmabuf_export(obj->dev, &info);
}

/*
 * Export a read-only dma-buf. DRM's helper would share one dma-buf among all exports, with the
 * access mode of the first.
 */
static int qnpu_prime_export_readonly(struct drm_file *file, u32 handle, u32 flags, int *fd)
{
	struct drm_gem_object *obj = drm_gem_object_lookup(file, handle);
	struct dma_buf *dma_buf;

	if (!obj)
		return -ENOENT;
	dma_buf = gem_to_qnpu_bo(obj)->dma_buf ? ERR_PTR(-EOPNOTSUPP) :
						 qnpu_prime_export(obj, flags);
	drm_gem_object_put(obj);
	if (IS_ERR(dma_buf))
		return PTR_ERR(dma_buf);
	*fd = dma_buf_fd(dma_buf, flags);
	if (*fd < 0)
		dma_buf_put(dma_buf);

	return min(*fd, 0);
}

/* drm_driver.prime_handle_to_fd: removal ends the attachments that DRM's helper reads. */
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

/* Import */

/*
 * Returns true if an import of this driver's own dma-buf yields the exported buffer itself. A
 * read-only dma-buf becomes a separate buffer, read-only for jobs and programs. So does a second
 * one, because DRM's helper tracks one per buffer.
 */
static bool qnpu_prime_is_same(struct drm_device *drm, struct dma_buf *dma_buf)
{
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);
	struct dma_buf *known = READ_ONCE(bo->tbo.base.dma_buf);

	return bo->tbo.base.dev == drm && (!known || known == dma_buf) &&
	       (dma_buf->file->f_mode & FMODE_WRITE || READ_ONCE(bo->sealed));
}

/*
 * drm_driver.prime_fd_to_handle: waits for jobs that use the exported buffer before DRM's helper
 * takes locks. -EBUSY: another thread has meanwhile replaced @fd by that of a busy buffer.
 */
int qnpu_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle)
{
	struct dma_buf *dma_buf = dma_buf_get(fd);
	struct qnpu_bo *pinned = NULL;
	int ret = 0;

	if (IS_ERR(dma_buf))
		return PTR_ERR(dma_buf);

	if (dma_buf->ops == &qnpu_dma_buf_ops && !qnpu_prime_is_same(drm, dma_buf)) {
		pinned = qnpu_bo_of(dma_buf);
		ret = qnpu_prime_pin(pinned, true);
	}
	if (!ret) {
		ret = drm_gem_prime_fd_to_handle(drm, file, fd, handle);
		if (pinned)
			qnpu_prime_unpin(pinned);
	}
	dma_buf_put(dma_buf);

	return ret;
}

/*
 * Write back caches on behalf of udmabuf (upstream/udmabuf, patches 1 and 3): otherwise the device
 * reads old memory instead of the zeros of new pages. Returns false if there are no pages.
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

/* drm_driver.gem_prime_import */
struct drm_gem_object *qnpu_prime_import(struct drm_device *drm, struct dma_buf *dma_buf)
{
	struct drm_gem_object *obj;
	int idx;

	if (dma_buf->ops == &qnpu_dma_buf_ops && qnpu_prime_is_same(drm, dma_buf)) {
		obj = dma_buf->priv;
		drm_gem_object_get(obj);
		return obj;
	}

	/* Removal must not miss a new DMA mapping. */
	if (!drm_dev_enter(drm, &idx))
		return ERR_PTR(-ENODEV);
	obj = drm_gem_prime_import(drm, dma_buf);
	if (!IS_ERR(obj))
		qnpu_bo_attached(gem_to_qnpu_bo(obj));
	drm_dev_exit(idx);

	return obj;
}

/* drm_driver.gem_prime_import_sg_table */
struct drm_gem_object *qnpu_prime_import_sg_table(struct drm_device *drm,
						  struct dma_buf_attachment *attach,
						  struct sg_table *sg)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct dma_buf *dma_buf = attach->dmabuf;
	u32 flags = DRM_NPU_BO_SYSTEM;
	struct qnpu_bo *bo;

	if (!PAGE_ALIGNED(dma_buf->size) || dma_buf->size > QNPU_BO_MAX_SIZE)
		return ERR_PTR(-EINVAL);
	if (!(dma_buf->file->f_mode & FMODE_WRITE))
		flags |= DRM_NPU_BO_READONLY;

	qnpu_prime_clean(npu, sg);
	bo = qnpu_bo_create_sg(npu, dma_buf->size, flags, sg, dma_buf);

	return IS_ERR(bo) ? ERR_CAST(bo) : &bo->tbo.base;
}

/* Let the exporter map an imported buffer. Consumes the reference of @vma to @obj. */
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

/* Like dma_buf_end_cpu_access(), which udmabuf rejects before the first begin. */
static int qnpu_prime_end_access(struct qnpu_bo *bo)
{
	int idx, ret = dma_buf_end_cpu_access(bo->dma_buf, DMA_BIDIRECTIONAL);

	if (ret != -EINVAL || !drm_dev_enter(bo->tbo.base.dev, &idx))
		return ret;
	if (qnpu_prime_clean(to_qnpu_device(bo->tbo.base.dev), bo->tbo.sg))
		ret = 0;
	drm_dev_exit(idx);

	return ret;
}

/*
 * Cache maintenance of an imported buffer, by its exporter. DMA is always bidirectional, because
 * udmabuf reuses the mapping of the first call (upstream/udmabuf, patch 1).
 */
int qnpu_prime_sync(struct qnpu_bo *bo, u32 direction)
{
	int ret = 0;

	if (direction & DRM_NPU_SYNC_TO_DEVICE)
		ret = qnpu_prime_end_access(bo);
	if (!ret && direction & DRM_NPU_SYNC_FROM_DEVICE)
		ret = dma_buf_begin_cpu_access(bo->dma_buf, DMA_BIDIRECTIONAL);

	return ret;
}
