/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_BUS_H
#define QNPU_BUS_H

#include <linux/types.h>

struct drm_driver;
struct pci_driver;
struct platform_driver;
struct qnpu_device;

/* Operations that depend on the bus; shared code goes through these only. */
struct qnpu_bus_ops {
	u32 kind;	/* DRM_NPU_BUS_ */
	bool line;	/* the single interrupt is level-triggered, held up by LINE_STATUS */

	/* Allocate at most @want interrupts for npu->irq.vectors; returns their number. */
	int (*irqs)(struct qnpu_device *npu, u32 want);
	/* Power on until registers respond. In probe, on resume, or under reset_lock. */
	int (*power_on)(struct qnpu_device *npu);
	/* Enable DMA of a device that was reset. Locked like power_on. NULL: always enabled. */
	void (*let_on)(struct qnpu_device *npu);
	/* Block the device's DMA, even if the device ignores resets. Locked like power_on. */
	void (*cut_off)(struct qnpu_device *npu);
};

extern const struct drm_driver qnpu_driver;
extern struct pci_driver qnpu_pci_driver;
extern struct platform_driver qnpu_platform_driver;

int qnpu_drv_probe(struct qnpu_device *npu);
void qnpu_drv_shutdown(struct qnpu_device *npu);
void qnpu_drv_remove(struct qnpu_device *npu);

#endif
