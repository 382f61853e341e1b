/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_PRIME_H
#define NPU_PRIME_H

#include <linux/types.h>

struct dma_buf;
struct dma_buf_attachment;
struct drm_device;
struct drm_file;
struct drm_gem_object;
struct npu_bo;
struct npu_device;
struct sg_table;
struct vm_area_struct;

int npu_prime_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			   int *fd);
int npu_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle);
struct dma_buf *npu_prime_export(struct drm_gem_object *obj, int flags);
struct drm_gem_object *npu_prime_import(struct drm_device *drm, struct dma_buf *dma_buf);
struct drm_gem_object *npu_prime_import_sg_table(struct drm_device *drm,
						 struct dma_buf_attachment *attach,
						 struct sg_table *sg);
int npu_prime_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma);
int npu_prime_sync(struct npu_bo *bo, u32 direction);
void npu_prime_detach(struct npu_bo *bo);
void npu_prime_release_dma(struct npu_device *npu);
bool npu_prime_is_attached(struct npu_bo *bo);

#endif
