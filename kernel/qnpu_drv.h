/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DRV_H
#define QNPU_DRV_H

struct drm_driver;
struct qnpu_device;

extern const struct drm_driver qnpu_driver;

int qnpu_drv_probe(struct qnpu_device *npu);
void qnpu_drv_shutdown(struct qnpu_device *npu);
void qnpu_drv_remove(struct qnpu_device *npu);

#endif
