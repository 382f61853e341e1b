// SPDX-License-Identifier: GPL-2.0-only
/*
 * System sleep, and runtime PM of a device that is powered off while unused.
 *
 * Attached queue pairs and threads inside qnpu_device_enter() keep the device awake. It has no
 * queues when it suspends, so no job must be drained, and page tables change without invalidations
 * until it resumes. At system suspend there may be queues, but user space is frozen first, and all
 * jobs end (qnpu_recover_drain()). Works still run, and find the device asleep.
 */
#include <linux/devfreq.h>
#include <linux/device.h>
#include <linux/pm_runtime.h>

#include "qnpu_device.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"

/* Autosuspend delay, ms: programs create a context, use it and exit. */
#define QNPU_AUTOSUSPEND_MS	200

/*
 * Resume a device and keep it awake until qnpu_pm_put(). A resume takes reset_lock. Fails with
 * -ENODEV, and clears the runtime PM error, so that the next call retries.
 */
int qnpu_pm_get(struct qnpu_device *npu)
{
	int ret;

	if (!npu->runtime_pm)
		return 0;
	ret = pm_runtime_resume_and_get(npu->drm.dev);
	if (!ret) {
		pm_runtime_mark_last_busy(npu->drm.dev);
		return 0;
	}
	/* -EACCES: runtime PM is disabled, as during system suspend. */
	if (ret != -EACCES) {
		dev_err_ratelimited(npu->drm.dev, "resume failed: error %d\n", ret);
		pm_runtime_set_suspended(npu->drm.dev);
	}

	return -ENODEV;
}

/* Like qnpu_pm_get(), without waiting: a device that is suspending or resuming counts as asleep. */
bool qnpu_pm_get_if_awake(struct qnpu_device *npu)
{
	return !npu->runtime_pm || pm_runtime_get_if_active(npu->drm.dev) > 0;
}

/* Allow suspend QNPU_AUTOSUSPEND_MS after the device was last resumed or busy. */
void qnpu_pm_put(struct qnpu_device *npu)
{
	if (npu->runtime_pm)
		pm_runtime_put(npu->drm.dev);
}

/* Restart the autosuspend delay. The device is kept awake. */
void qnpu_pm_was_busy(struct qnpu_device *npu)
{
	if (npu->runtime_pm)
		pm_runtime_mark_last_busy(npu->drm.dev);
}

bool qnpu_pm_is_asleep(struct qnpu_device *npu)
{
	return npu->runtime_pm && pm_runtime_status_suspended(npu->drm.dev);
}

/* Enable runtime PM of a powered device, which stays awake until qnpu_pm_put(). */
void qnpu_pm_enable(struct qnpu_device *npu)
{
	struct device *dev = npu->drm.dev;

	/* Without CONFIG_PM it is always powered. */
	if (!IS_ENABLED(CONFIG_PM))
		return;
	npu->runtime_pm = true;
	pm_runtime_set_autosuspend_delay(dev, QNPU_AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(dev);
	pm_runtime_set_active(dev);
	pm_runtime_get_noresume(dev);
	pm_runtime_enable(dev);
}

/* Undo qnpu_pm_enable() after qnpu_pm_get(); the caller powers the device off. */
void qnpu_pm_disable(struct qnpu_device *npu)
{
	struct device *dev = npu->drm.dev;

	if (!npu->runtime_pm)
		return;
	pm_runtime_dont_use_autosuspend(dev);
	pm_runtime_disable(dev);
	pm_runtime_put_noidle(dev);
	pm_runtime_set_suspended(dev);
}

/* End all jobs before any device suspends. @dev is the parent of the DRM device, as below. */
int qnpu_pm_prepare(struct device *dev)
{
	qnpu_recover_drain(dev_get_drvdata(dev));
	return 0;
}

/* Quiesce a device. Waits for jobs on a core; a job that takes too long is lost. */
int qnpu_pm_suspend(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);

	devfreq_suspend_device(npu->clock.devfreq);
	qnpu_recover_sleep(npu);

	return 0;
}

int qnpu_pm_resume(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);

	qnpu_recover_wake(npu);
	devfreq_resume_device(npu->clock.devfreq);

	return 0;
}
