/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_DEBUGFS_H
#define NPU_DEBUGFS_H

struct npu_device;

void npu_debugfs_init(struct npu_device *npu);

#endif
