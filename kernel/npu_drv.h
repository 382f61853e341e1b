/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_DRV_H
#define NPU_DRV_H

struct drm_driver;
struct npu_device;

extern const struct drm_driver npu_driver;

int npu_drv_probe(struct npu_device *npu);
void npu_drv_shutdown(struct npu_device *npu);
void npu_drv_remove(struct npu_device *npu);

#endif
