/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_HWMON_H
#define QNPU_HWMON_H

#include <linux/kconfig.h>

struct qnpu_device;

#if IS_REACHABLE(CONFIG_HWMON)
int qnpu_hwmon_init(struct qnpu_device *npu);
#else
static inline int qnpu_hwmon_init(struct qnpu_device *npu)
{
	return 0;
}
#endif

#endif
