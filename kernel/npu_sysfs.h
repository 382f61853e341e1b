/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_SYSFS_H
#define NPU_SYSFS_H

#include <linux/mutex.h>
#include <linux/sysfs.h>
#include <linux/types.h>

#include "npu_regs.h"

struct npu_device;

/** struct npu_utilisation - how busy the cores were in the last interval that is over */
struct npu_utilisation {
	/** @lock: protects all below */
	struct mutex lock;

	/** @since: when the present interval began, ns of the card's clock; 0: not yet */
	u64 since;

	/** @busy_ns: what each core's time with jobs was then, ns */
	u64 busy_ns[NPU_MAX_CORES];

	/** @percent: of the last interval, each core */
	u32 percent[NPU_MAX_CORES];
};

extern const struct attribute_group *npu_sysfs_groups[];

int npu_sysfs_init(struct npu_device *npu);

#endif
