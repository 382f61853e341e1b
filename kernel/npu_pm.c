// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sleep of the system, as far as it is the same on every bus. Nobody is at work on the card then:
 * user space and the driver's workqueues are frozen before.
 */
#include <linux/device.h>

#include "npu_device.h"
#include "npu_pm.h"
#include "npu_recover.h"

/**
 * npu_pm_suspend - bring a device to rest
 * @dev: parent of the DRM device
 *
 * Jobs that are on a core are waited for; one that takes too long is lost.
 */
int npu_pm_suspend(struct device *dev)
{
	npu_recover_sleep(dev_get_drvdata(dev));

	return 0;
}

/**
 * npu_pm_resume - put it to work again
 * @dev: parent of the DRM device
 */
int npu_pm_resume(struct device *dev)
{
	npu_recover_wake(dev_get_drvdata(dev), false);

	return 0;
}
