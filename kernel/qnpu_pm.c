// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sleep: of the system, and of a device that can be switched off while nobody needs it.
 *
 * Such a device is kept awake by each queue, and by whoever is inside of qnpu_device_enter(). It
 * sleeps without queues, so that nothing has to be waited for, and loses translations that nobody
 * can use: whoever changes page tables meanwhile has nothing to invalidate. When the system goes to
 * sleep there may be queues, but nobody is at work on them: user space and the driver's workqueues
 * are frozen before.
 */
#include <linux/devfreq.h>
#include <linux/device.h>
#include <linux/pm_runtime.h>

#include "qnpu_device.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"

/* How long a device without work stays awake: programs make a context, use it and end. */
#define QNPU_AUTOSUSPEND_MS	200

/**
 * qnpu_pm_get - wake a device, and keep it awake until qnpu_pm_put()
 * @npu: device, not unplugged; its reset_lock not held, since waking takes it
 *
 * One that does not wake is asleep, whatever runtime PM makes of it: whoever is in charge of its
 * power may get over that, so that the next one tries again. Fails with -ENODEV.
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
	/* -EACCES: somebody holds runtime PM off, as while the system goes to sleep. */
	if (ret != -EACCES) {
		dev_err_ratelimited(npu->drm.dev, "it does not wake up: error %d\n", ret);
		pm_runtime_set_suspended(npu->drm.dev);
	}

	return -ENODEV;
}

/**
 * qnpu_pm_get_if_awake - keep a device awake until qnpu_pm_put(), if it is
 * @npu: device, not unplugged
 *
 * Does not wait. One that is just falling asleep, or waking up, counts as asleep.
 */
bool qnpu_pm_get_if_awake(struct qnpu_device *npu)
{
	return !npu->runtime_pm || pm_runtime_get_if_active(npu->drm.dev) > 0;
}

/**
 * qnpu_pm_put - the device may fall asleep, a while after it was last woken or busy
 * @npu: device
 *
 * Who only looks now and then, if it is awake, does not keep it so.
 */
void qnpu_pm_put(struct qnpu_device *npu)
{
	if (npu->runtime_pm)
		pm_runtime_put(npu->drm.dev);
}

/**
 * qnpu_pm_was_busy - the while begins now
 * @npu: device, kept awake
 */
void qnpu_pm_was_busy(struct qnpu_device *npu)
{
	if (npu->runtime_pm)
		pm_runtime_mark_last_busy(npu->drm.dev);
}

/**
 * qnpu_pm_is_asleep - is the device switched off?
 * @npu: device
 */
bool qnpu_pm_is_asleep(struct qnpu_device *npu)
{
	return npu->runtime_pm && pm_runtime_status_suspended(npu->drm.dev);
}

/**
 * qnpu_pm_enable - let a device sleep while nobody needs it
 * @npu: device, switched on, not yet at work; awake until qnpu_pm_put()
 */
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

/**
 * qnpu_pm_disable - undo qnpu_pm_enable(), for good
 * @npu: device, awake by qnpu_pm_get(); its owner switches it off
 */
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

/**
 * qnpu_pm_prepare - end all jobs before any device sleeps
 * @dev: parent of the DRM device
 */
int qnpu_pm_prepare(struct device *dev)
{
	qnpu_recover_drain(dev_get_drvdata(dev));
	return 0;
}

/**
 * qnpu_pm_suspend - bring a device to rest
 * @dev: parent of the DRM device
 *
 * Jobs that are on a core are waited for; one that takes too long is lost.
 */
int qnpu_pm_suspend(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);

	devfreq_suspend_device(npu->clock.devfreq);
	qnpu_recover_sleep(npu);

	return 0;
}

/**
 * qnpu_pm_resume - put it to work again
 * @dev: parent of the DRM device
 */
int qnpu_pm_resume(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);

	qnpu_recover_wake(npu, false);
	devfreq_resume_device(npu->clock.devfreq);

	return 0;
}
