/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_BUS_H
#define QNPU_BUS_H

#include <linux/types.h>

struct drm_driver;
struct pci_driver;
struct platform_driver;
struct qnpu_device;

/* The parts that depend on the bus. Shared code calls these, and does not ask for the bus. */
struct qnpu_bus_ops {
	u32 kind;	/* DRM_NPU_BUS_ */
	bool line;	/* the one interrupt is a level, and LINE_STATUS keeps it up */

	/* Allocate at most @want interrupts for npu->irq.vectors; returns their number. */
	int (*irqs)(struct qnpu_device *npu, u32 want);
	/* Make registers answer, as after power-on. Under reset_lock, as the next, or in probe. */
	int (*power_on)(struct qnpu_device *npu);
	/* Let a device that was reset reach memory. NULL: it can. */
	void (*let_on)(struct qnpu_device *npu);
	/* Keep the device from memory, whatever it does. */
	void (*cut_off)(struct qnpu_device *npu);
};

extern const struct drm_driver qnpu_driver;
extern struct pci_driver qnpu_pci_driver;
extern struct platform_driver qnpu_platform_driver;

int qnpu_drv_probe(struct qnpu_device *npu);
void qnpu_drv_shutdown(struct qnpu_device *npu);
void qnpu_drv_remove(struct qnpu_device *npu);

#endif
