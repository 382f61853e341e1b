/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_SYSFS_H
#define QNPU_SYSFS_H

#include <linux/sysfs.h>

/* Created by the driver core after probe, removed before remove(). */
extern const struct attribute_group *qnpu_sysfs_groups[];

#endif
