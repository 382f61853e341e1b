// SPDX-License-Identifier: GPL-2.0-only
/* Stub for qnpu_watch.ko, for kernels where DKMS builds qnpu_stub.c. */
#include <linux/module.h>

MODULE_DESCRIPTION("Reports of missing cache maintenance for QNPU devices: not for this kernel");
MODULE_LICENSE("GPL");
