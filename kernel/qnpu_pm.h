/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_PM_H
#define QNPU_PM_H

#include <linux/types.h>

struct device;
struct qnpu_device;

void qnpu_pm_enable(struct qnpu_device *npu);
void qnpu_pm_disable(struct qnpu_device *npu);
int qnpu_pm_get(struct qnpu_device *npu);
bool qnpu_pm_get_if_awake(struct qnpu_device *npu);
void qnpu_pm_put(struct qnpu_device *npu);
void qnpu_pm_was_busy(struct qnpu_device *npu);
bool qnpu_pm_is_asleep(struct qnpu_device *npu);

int qnpu_pm_prepare(struct device *dev);
int qnpu_pm_suspend(struct device *dev);
int qnpu_pm_resume(struct device *dev);

#endif
