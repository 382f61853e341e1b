/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_PM_H
#define NPU_PM_H

#include <linux/types.h>

struct device;
struct npu_device;

void npu_pm_enable(struct npu_device *npu);
void npu_pm_disable(struct npu_device *npu);
int npu_pm_get(struct npu_device *npu);
bool npu_pm_get_if_awake(struct npu_device *npu);
void npu_pm_put(struct npu_device *npu);
void npu_pm_was_busy(struct npu_device *npu);
bool npu_pm_is_asleep(struct npu_device *npu);

int npu_pm_prepare(struct device *dev);
int npu_pm_suspend(struct device *dev);
int npu_pm_resume(struct device *dev);

#endif
