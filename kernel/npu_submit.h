/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_SUBMIT_H
#define NPU_SUBMIT_H

struct drm_device;
struct drm_file;

int npu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file);

#endif
