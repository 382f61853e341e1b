/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_PM_H
#define NPU_PM_H

struct device;

int npu_pm_suspend(struct device *dev);
int npu_pm_resume(struct device *dev);

#endif
