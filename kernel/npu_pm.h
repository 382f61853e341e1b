/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_PM_H
#define NPU_PM_H

#include <linux/pci.h>
#include <linux/pm.h>

extern const struct dev_pm_ops npu_pm_ops;
extern const struct pci_error_handlers npu_err_handler;

#endif
