/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_IOCTL_H
#define QNPU_IOCTL_H

int qnpu_ioctl_filter(unsigned int cmd);

#endif
