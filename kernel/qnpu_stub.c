// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stub module for a kernel that cannot run the driver.
 *
 * DKMS builds a module for each kernel with installed headers. If one fails to build, the packages
 * of that kernel stay unconfigured and apt fails from then on, so such a kernel gets this stub. It
 * matches no device, and is loaded by hand only.
 */
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/printk.h>

static int __init qnpu_stub_init(void)
{
	pr_err("qnpu: not built for this kernel: it needs Linux 6.12 or later with DRM_ACCEL, DRM_TTM and DRM_BUDDY\n");

	return -ENODEV;
}
module_init(qnpu_stub_init);

MODULE_DESCRIPTION("QNPU neural processing unit: not for this kernel");
MODULE_LICENSE("GPL");
