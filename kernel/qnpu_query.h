/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_QUERY_H
#define QNPU_QUERY_H

struct drm_device;
struct drm_file;
struct drm_npu_status_info;
struct drm_npu_watch_info;
struct drm_printer;
struct qnpu_device;

int qnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file);
int qnpu_query_status(struct qnpu_device *npu, struct drm_npu_status_info *info);
int qnpu_query_watch(struct qnpu_device *npu, struct drm_npu_watch_info *info);
void qnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file);

#endif
