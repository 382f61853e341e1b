/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEBUGFS_H
#define QNPU_DEBUGFS_H

struct qnpu_device;

void qnpu_debugfs_init(struct qnpu_device *npu);

#endif
