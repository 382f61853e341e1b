/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_PRIME_H
#define QNPU_PRIME_H

#include <linux/types.h>

struct dma_buf;
struct dma_buf_attachment;
struct drm_device;
struct drm_file;
struct drm_gem_object;
struct qnpu_bo;
struct sg_table;
struct vm_area_struct;

int qnpu_prime_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			    int *fd);
int qnpu_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle);
struct sg_table *qnpu_prime_get_sg_table(struct drm_gem_object *obj);
struct dma_buf *qnpu_prime_export(struct drm_gem_object *obj, int flags);
struct drm_gem_object *qnpu_prime_import(struct drm_device *drm, struct dma_buf *dma_buf);
struct drm_gem_object *qnpu_prime_import_sg_table(struct drm_device *drm,
						  struct dma_buf_attachment *attach,
						  struct sg_table *sg);
int qnpu_prime_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma);
int qnpu_prime_sync(struct qnpu_bo *bo, u32 direction);

#endif
