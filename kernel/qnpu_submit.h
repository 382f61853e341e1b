/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_SUBMIT_H
#define QNPU_SUBMIT_H

#include <linux/types.h>

struct dma_fence;
struct drm_device;
struct drm_file;
struct drm_npu_submit;

int qnpu_submit_check(const struct drm_npu_submit *args);
int qnpu_submit(struct drm_file *file, const struct drm_npu_submit *args, bool nonblock,
		struct dma_fence **fences);

int qnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file);

#endif
