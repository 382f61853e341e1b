/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_HWMON_H
#define NPU_HWMON_H

#include <linux/kconfig.h>

struct npu_device;

#if IS_REACHABLE(CONFIG_HWMON)
int npu_hwmon_init(struct npu_device *npu);
#else
static inline int npu_hwmon_init(struct npu_device *npu)
{
	return 0;
}
#endif

#endif
