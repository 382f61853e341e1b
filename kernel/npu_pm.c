// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sleep, resets by the PCI core, and errors of the bus.
 *
 * The card's memory keeps its contents in all of these (docs/hardware.md, section 9), so page
 * tables and buffers stay where they are. Queues and everything else that the card knows are made
 * anew. While the system goes to sleep nobody is at work on the card: user space and the driver's
 * workqueues are frozen before.
 */
#include <linux/pci.h>
#include <linux/pm.h>

#include <drm/drm_print.h>

#include "npu_device.h"
#include "npu_pm.h"
#include "npu_recover.h"

/* Jobs that are on a core are waited for; one that takes too long is lost. */
static int npu_pm_suspend(struct device *dev)
{
	struct npu_device *npu = dev_get_drvdata(dev);

	npu_recover_sleep(npu);

	return 0;
}

static int npu_pm_resume(struct device *dev)
{
	struct npu_device *npu = dev_get_drvdata(dev);

	npu_recover_wake(npu, false);
	pci_save_state(to_pci_dev(dev));

	return 0;
}

/* The card's memory does not survive without power, and is too large to be written away. */
static int npu_pm_freeze(struct device *dev)
{
	struct npu_device *npu = dev_get_drvdata(dev);

	drm_warn(&npu->drm, "hibernation would lose the card's memory\n");

	return -EOPNOTSUPP;
}

const struct dev_pm_ops npu_pm_ops = {
	.suspend = pm_sleep_ptr(npu_pm_suspend),
	.resume = pm_sleep_ptr(npu_pm_resume),
	.freeze = pm_sleep_ptr(npu_pm_freeze),
};

/* Resets that somebody asked the PCI core for */

static void npu_reset_prepare(struct pci_dev *pdev)
{
	npu_recover_reset_prepare(pci_get_drvdata(pdev));
}

static void npu_reset_done(struct pci_dev *pdev)
{
	npu_recover_reset_done(pci_get_drvdata(pdev));
	pci_save_state(pdev);
}

/* Errors of the bus: whatever they were, the card is reset. */

static pci_ers_result_t npu_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct npu_device *npu = pci_get_drvdata(pdev);

	drm_err(&npu->drm, "PCI error, channel state %u\n", state);
	if (state == pci_channel_io_perm_failure) {
		npu_recover_lose(npu, "the bus has given it up");
		return PCI_ERS_RESULT_DISCONNECT;
	}
	npu_recover_offline(npu);

	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t npu_slot_reset(struct pci_dev *pdev)
{
	struct npu_device *npu = pci_get_drvdata(pdev);

	pci_restore_state(pdev);
	pci_save_state(pdev);
	if (npu_is_gone(npu_read(npu, NPU_REG_ID))) {
		npu_recover_lose(npu, "it does not answer after a reset of its slot");
		return PCI_ERS_RESULT_DISCONNECT;
	}

	return PCI_ERS_RESULT_RECOVERED;
}

static void npu_error_resume(struct pci_dev *pdev)
{
	npu_recover_wake(pci_get_drvdata(pdev), true);
}

const struct pci_error_handlers npu_err_handler = {
	.error_detected = npu_error_detected,
	.slot_reset = npu_slot_reset,
	.resume = npu_error_resume,
	.reset_prepare = npu_reset_prepare,
	.reset_done = npu_reset_done,
};
