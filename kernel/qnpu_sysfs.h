/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_SYSFS_H
#define QNPU_SYSFS_H

#include <linux/mutex.h>
#include <linux/sysfs.h>
#include <linux/types.h>

#include "npu_regs.h"

struct qnpu_device;

/** struct qnpu_utilisation - how busy the cores were in the last interval that is over */
struct qnpu_utilisation {
	/** @lock: protects all below */
	struct mutex lock;

	/** @since: when the present interval began, ns of the card's clock; 0: not yet */
	u64 since;

	/** @busy_ns: what each core's time with jobs was then, ns */
	u64 busy_ns[NPU_MAX_CORES];

	/** @percent: of the last interval, each core */
	u32 percent[NPU_MAX_CORES];
};

extern const struct attribute_group *qnpu_sysfs_groups[];

int qnpu_sysfs_init(struct qnpu_device *npu);

#endif
