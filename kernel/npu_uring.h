/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_URING_H
#define NPU_URING_H

struct io_uring_cmd;

int npu_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

#endif
