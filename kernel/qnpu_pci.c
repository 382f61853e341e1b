// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device as a PCI Express card: BARs, MSI-X vectors, system sleep, resets by the PCI core, and
 * bus errors. The card's memory survives all of these (docs/reference/hardware.md, section 9), so
 * buffers stay in place. Queues and all other state are set up again.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pm.h>

#include <drm/drm_print.h>

#include "qnpu_bus.h"
#include "qnpu_device.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"
#include "qnpu_sysfs.h"

/* The vectors are freed with the driver's other managed resources. */
static int qnpu_pci_irqs(struct qnpu_device *npu, u32 want)
{
	struct pci_dev *pdev = to_pci_dev(npu->drm.dev);
	int i, count = pci_alloc_irq_vectors(pdev, 1, want, PCI_IRQ_MSIX);

	if (count < 0)
		drm_err(&npu->drm, "no MSI-X vector: %d\n", count);
	for (i = 0; i < count; i++)
		npu->irq.vectors[i].irq = pci_irq_vector(pdev, i);

	return count;
}

static void qnpu_pci_let_on(struct qnpu_device *npu)
{
	pci_set_master(to_pci_dev(npu->drm.dev));
}

static void qnpu_pci_cut_off(struct qnpu_device *npu)
{
	pci_clear_master(to_pci_dev(npu->drm.dev));
}

static const struct qnpu_bus_ops qnpu_pci_bus = {
	.kind = DRM_NPU_BUS_PCI,
	.irqs = qnpu_pci_irqs,
	.let_on = qnpu_pci_let_on,
	.cut_off = qnpu_pci_cut_off,
};

/* Probe */

static int qnpu_pci_map_bars(struct qnpu_device *npu, struct pci_dev *pdev)
{
	int ret;

	ret = pcim_enable_device(pdev) ?: pcim_request_all_regions(pdev, "qnpu");
	if (ret)
		return ret;
	if (pci_resource_len(pdev, NPU_PCI_BAR_REGS) < NPU_BAR_REGS_BYTES) {
		drm_err(&npu->drm, "BAR %u is too small\n", NPU_PCI_BAR_REGS);
		return -ENODEV;
	}
	npu->regs = pcim_iomap(pdev, NPU_PCI_BAR_REGS, NPU_BAR_REGS_BYTES);
	npu->ddr_phys = pci_resource_start(pdev, NPU_PCI_BAR_DDR);
	npu->ddr_mapped = pci_resource_len(pdev, NPU_PCI_BAR_DDR);
	npu->ddr = devm_ioremap_wc(&pdev->dev, npu->ddr_phys, npu->ddr_mapped);

	return npu->regs && npu->ddr ? 0 : -ENOMEM;
}

static int qnpu_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct qnpu_device *npu;
	int ret;

	npu = devm_drm_dev_alloc(&pdev->dev, &qnpu_driver, struct qnpu_device, drm);
	if (IS_ERR(npu))
		return PTR_ERR(npu);
	npu->bus = &qnpu_pci_bus;
	npu->info.pci_domain = pci_domain_nr(pdev->bus);
	npu->info.pci_bus = pdev->bus->number;
	npu->info.pci_device = PCI_SLOT(pdev->devfn);
	npu->info.pci_function = PCI_FUNC(pdev->devfn);
	pci_set_drvdata(pdev, npu);

	ret = qnpu_pci_map_bars(npu, pdev);
	if (ret)
		return ret;
	/* Saved without bus mastering: qnpu_bus_let_on() enables it after a reset. */
	qnpu_pci_cut_off(npu);
	pci_save_state(pdev);

	return qnpu_drv_probe(npu);
}

static void qnpu_pci_remove(struct pci_dev *pdev)
{
	qnpu_drv_remove(pci_get_drvdata(pdev));
}

static void qnpu_pci_shutdown(struct pci_dev *pdev)
{
	qnpu_drv_shutdown(pci_get_drvdata(pdev));
}

/* System sleep */

static int qnpu_pci_resume(struct device *dev)
{
	pci_save_state(to_pci_dev(dev));

	return qnpu_pm_resume(dev);
}

/* Hibernation would lose the card's memory, which is too large to be saved. */
static int qnpu_pci_freeze(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	struct qnpu_card_space space;

	qnpu_mem_card_space(npu, &space);
	if (space.free != space.total) {
		drm_warn(&npu->drm, "hibernation would lose buffers in the card's memory\n");
		return -EBUSY;
	}

	return qnpu_pm_suspend(dev);
}

static int qnpu_pci_restore(struct device *dev)
{
	qnpu_recover_empty(dev_get_drvdata(dev));
	return qnpu_pci_resume(dev);
}

static const struct dev_pm_ops qnpu_pci_pm_ops = {
	.prepare = pm_sleep_ptr(qnpu_pm_prepare),
	.suspend = pm_sleep_ptr(qnpu_pm_suspend),
	.resume = pm_sleep_ptr(qnpu_pci_resume),
	.freeze = pm_sleep_ptr(qnpu_pci_freeze),
	.thaw = pm_sleep_ptr(qnpu_pci_resume),
	.poweroff = pm_sleep_ptr(qnpu_pm_suspend),
	.restore = pm_sleep_ptr(qnpu_pci_restore),
};

/* Resets by the PCI core, and bus errors, after which the card is reset */

static void qnpu_pci_reset_prepare(struct pci_dev *pdev)
{
	struct qnpu_device *npu = pci_get_drvdata(pdev);

	qnpu_recover_offline(npu, DRM_NPU_CAUSE_RESET);
	qnpu_irq_disable(npu);
}

static void qnpu_pci_reset_done(struct pci_dev *pdev)
{
	struct qnpu_device *npu = pci_get_drvdata(pdev);

	pci_save_state(pdev);
	qnpu_irq_enable(npu);
	qnpu_recover_wake(npu);
}

static pci_ers_result_t qnpu_pci_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct qnpu_device *npu = pci_get_drvdata(pdev);

	drm_err(&npu->drm, "PCI error, channel state %u\n", state);
	if (state == pci_channel_io_perm_failure) {
		qnpu_recover_lose(npu, "permanent bus failure");
		return PCI_ERS_RESULT_DISCONNECT;
	}
	qnpu_recover_offline(npu, DRM_NPU_CAUSE_BUS);

	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t qnpu_pci_slot_reset(struct pci_dev *pdev)
{
	struct qnpu_device *npu = pci_get_drvdata(pdev);

	pci_restore_state(pdev);
	pci_save_state(pdev);
	if (qnpu_is_gone(qnpu_read(npu, NPU_REG_ID))) {
		qnpu_recover_lose(npu, "no answer after a slot reset");
		return PCI_ERS_RESULT_DISCONNECT;
	}

	return PCI_ERS_RESULT_RECOVERED;
}

static void qnpu_pci_error_resume(struct pci_dev *pdev)
{
	qnpu_recover_wake(pci_get_drvdata(pdev));
}

static const struct pci_error_handlers qnpu_pci_err_handler = {
	.error_detected = qnpu_pci_error_detected,
	.slot_reset = qnpu_pci_slot_reset,
	.resume = qnpu_pci_error_resume,
	.reset_prepare = qnpu_pci_reset_prepare,
	.reset_done = qnpu_pci_reset_done,
};

static const struct pci_device_id qnpu_pci_ids[] = {
	{ PCI_DEVICE(NPU_PCI_VENDOR_ID, NPU_PCI_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, qnpu_pci_ids);

struct pci_driver qnpu_pci_driver = {
	.name = "qnpu",
	.id_table = qnpu_pci_ids,
	.probe = qnpu_pci_probe,
	.remove = qnpu_pci_remove,
	.shutdown = qnpu_pci_shutdown,
	.err_handler = &qnpu_pci_err_handler,
	.dev_groups = qnpu_sysfs_groups,
	.driver.pm = pm_sleep_ptr(&qnpu_pci_pm_ops),
};
