/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_QUERY_H
#define QNPU_QUERY_H

struct drm_device;
struct drm_file;
struct drm_printer;

int qnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file);
void qnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file);

#endif
