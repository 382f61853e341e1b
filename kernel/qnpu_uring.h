/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_URING_H
#define QNPU_URING_H

struct io_uring_cmd;

int qnpu_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

#endif
