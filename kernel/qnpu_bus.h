/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_BUS_H
#define QNPU_BUS_H

#include <linux/types.h>

struct qnpu_device;

/**
 * struct qnpu_bus_ops - what depends on where a device sits: qnpu_pci.c, qnpu_platform.c
 *
 * Whatever is shared never asks for the kind of bus, but calls these.
 */
struct qnpu_bus_ops {
	/** @kind: DRM_NPU_BUS_ */
	u32 kind;

	/** @line: its one interrupt is a level, and LINE_STATUS keeps it up */
	bool line;

	/** @irq_alloc: get interrupts, @want at most; returns how many it are */
	int (*irq_alloc)(struct qnpu_device *npu, u32 want);

	/** @irq_number: Linux's number of interrupt @index */
	int (*irq_number)(struct qnpu_device *npu, u32 index);

	/** @irq_free: undo @irq_alloc; NULL: there is nothing to undo */
	void (*irq_free)(struct qnpu_device *npu);

	/**
	 * @power_on: let the registers answer, after @cut_off, too; the device is as after power-on
	 * then. NULL: they always do. With the reset_lock held for writing, as the next two, or
	 * while nobody else is there.
	 */
	int (*power_on)(struct qnpu_device *npu);

	/** @let_on: let a device that was reset reach memory; NULL: it does */
	void (*let_on)(struct qnpu_device *npu);

	/** @cut_off: from here on it reaches no memory, whatever it does */
	void (*cut_off)(struct qnpu_device *npu);
};

#ifdef CONFIG_PCI
int qnpu_pci_register(void);
void qnpu_pci_unregister(void);
#else
static inline int qnpu_pci_register(void)
{
	return 0;
}

static inline void qnpu_pci_unregister(void)
{
}
#endif

#ifdef CONFIG_OF
int qnpu_platform_register(void);
void qnpu_platform_unregister(void);
#else
static inline int qnpu_platform_register(void)
{
	return 0;
}

static inline void qnpu_platform_unregister(void)
{
}
#endif

#endif
