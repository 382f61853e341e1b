// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sleep of the system, and runtime PM of a device that is switched off while unused.
 *
 * Each queue pair in use keeps such a device awake, and so does each thread inside of
 * qnpu_device_enter(). It sleeps without queues, so no job has to be waited for, and page tables
 * change without an invalidation meanwhile. When the system goes to sleep there may be queues, but
 * user space and the driver's workqueues are frozen before.
 */
#include <linux/devfreq.h>
#include <linux/device.h>
#include <linux/pm_runtime.h>

#include "qnpu_device.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"

/* An idle device stays awake so long: programs create a context, use it and end. */
#define QNPU_AUTOSUSPEND_MS	200

/*
 * Wake a device, and keep it awake until qnpu_pm_put(); waking takes its reset_lock. Fails with
 * -ENODEV, and clears the error of runtime PM, so that the next call tries again.
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
	/* -EACCES: runtime PM is disabled, as while the system goes to sleep. */
	if (ret != -EACCES) {
		dev_err_ratelimited(npu->drm.dev, "it does not wake up: error %d\n", ret);
		pm_runtime_set_suspended(npu->drm.dev);
	}

	return -ENODEV;
}

/* As qnpu_pm_get(), without waiting: a device that is about to sleep or wake counts as asleep. */
bool qnpu_pm_get_if_awake(struct qnpu_device *npu)
{
	return !npu->runtime_pm || pm_runtime_get_if_active(npu->drm.dev) > 0;
}

/* The device may sleep QNPU_AUTOSUSPEND_MS after it was last woken or busy. */
void qnpu_pm_put(struct qnpu_device *npu)
{
	if (npu->runtime_pm)
		pm_runtime_put(npu->drm.dev);
}

/* Restart the delay of autosuspend; the device is kept awake. */
void qnpu_pm_was_busy(struct qnpu_device *npu)
{
	if (npu->runtime_pm)
		pm_runtime_mark_last_busy(npu->drm.dev);
}

bool qnpu_pm_is_asleep(struct qnpu_device *npu)
{
	return npu->runtime_pm && pm_runtime_status_suspended(npu->drm.dev);
}

/* Let a device that is switched on sleep while unused; it is awake until qnpu_pm_put(). */
void qnpu_pm_enable(struct qnpu_device *npu)
{
	struct device *dev = npu->drm.dev;

	/* Without CONFIG_PM it is always on. */
	if (!IS_ENABLED(CONFIG_PM))
		return;
	npu->runtime_pm = true;
	pm_runtime_set_autosuspend_delay(dev, QNPU_AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(dev);
	pm_runtime_set_active(dev);
	pm_runtime_get_noresume(dev);
	pm_runtime_enable(dev);
}

/* Undo qnpu_pm_enable() for a device that is awake by qnpu_pm_get(); the caller switches it off. */
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

/* Before any device sleeps: jobs end. The parent of the DRM device is @dev, as in the next two. */
int qnpu_pm_prepare(struct device *dev)
{
	qnpu_recover_drain(dev_get_drvdata(dev));
	return 0;
}

/* Quiesce a device. Jobs on a core are waited for; one that takes too long is lost. */
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
