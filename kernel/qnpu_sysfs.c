// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attributes of the PCI function, in its folder "qnpu"; docs/reference/uapi.md describes each.
 */
#include <linux/device.h>
#include <linux/math64.h>

#include <drm/drm_managed.h>

#include "qnpu_device.h"
#include "qnpu_sysfs.h"

/* So that readers who do not know of each other get something that is worth a number each. */
#define QNPU_INTERVAL_NS	(250 * NSEC_PER_MSEC)

static int qnpu_sysfs_status(struct device *dev, struct drm_npu_status_info *info)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	int ret, idx;

	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	qnpu_device_status(npu, info);
	qnpu_device_exit(npu, idx);

	return 0;
}

/* What a card is, and does not change. */
#define QNPU_INFO_ATTR(_name, _format, ...)						\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	const struct qnpu_device *npu = dev_get_drvdata(dev);				\
	const struct drm_npu_dev_info *info = &npu->info;				\
											\
	return sysfs_emit(buf, _format "\n", __VA_ARGS__);				\
}											\
static DEVICE_ATTR_RO(_name)

QNPU_INFO_ATTR(hw_version, "%u.%u", info->hw_version >> 16, info->hw_version & 0xffff);
QNPU_INFO_ATTR(isa_version, "%u", info->isa_version);
QNPU_INFO_ATTR(cores, "%u", info->cores);
QNPU_INFO_ATTR(max_clock_khz, "%u", info->clock_khz);

/* Those that contexts can have. */
static ssize_t queues_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", qnpu_copy_user_queues(dev_get_drvdata(dev)));
}
static DEVICE_ATTR_RO(queues);

/* What the card, or the driver, says now. */
#define QNPU_STATUS_ATTR(_name, _field)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	struct drm_npu_status_info info;						\
	int ret = qnpu_sysfs_status(dev, &info);					\
											\
	return ret ?: sysfs_emit(buf, "%u\n", info._field);				\
}											\
static DEVICE_ATTR_RO(_name)

QNPU_STATUS_ATTR(clock_khz, clock_khz);
QNPU_STATUS_ATTR(ecc_corrected, ecc_corrected);
QNPU_STATUS_ATTR(ecc_uncorrected, ecc_uncorrected);
QNPU_STATUS_ATTR(resets, resets);
QNPU_STATUS_ATTR(core_resets, core_resets);
QNPU_STATUS_ATTR(aborted_jobs, aborted_jobs);
QNPU_STATUS_ATTR(thermal_events, thermal_events);

static ssize_t qnpu_sysfs_counters(struct device *dev, char *buf, size_t offset)
{
	const struct qnpu_device *npu = dev_get_drvdata(dev);
	struct drm_npu_status_info info;
	const u64 *counters = (void *)&info + offset;
	ssize_t length = 0;
	u32 core;
	int ret;

	ret = qnpu_sysfs_status(dev, &info);
	if (ret)
		return ret;

	for (core = 0; core < npu->info.cores; core++)
		length += sysfs_emit_at(buf, length, "%llu%c", counters[core],
					core + 1 < npu->info.cores ? ' ' : '\n');

	return length;
}

static ssize_t busy_cycles_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return qnpu_sysfs_counters(dev, buf, offsetof(struct drm_npu_status_info, busy_cycles));
}
static DEVICE_ATTR_ADMIN_RO(busy_cycles);

static ssize_t jobs_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return qnpu_sysfs_counters(dev, buf, offsetof(struct drm_npu_status_info, jobs));
}
static DEVICE_ATTR_ADMIN_RO(jobs);

/* Close the interval if it was long enough. A reset of the card starts its counters again. */
static void qnpu_utilisation_update(struct qnpu_device *npu, const struct drm_npu_status_info *info)
{
	struct qnpu_utilisation *util = &npu->utilisation;
	u64 passed = info->card_ns - util->since;
	u32 core;

	lockdep_assert_held(&util->lock);

	if (util->since && passed < QNPU_INTERVAL_NS)
		return;

	for (core = 0; core < npu->info.cores; core++) {
		u64 now = info->busy_ns[core], last = util->busy_ns[core];
		u64 busy = now >= last ? now - last : now;

		util->percent[core] =
			util->since ? div64_u64(min(busy, passed) * 100, passed) : 0;
		util->busy_ns[core] = now;
	}
	util->since = info->card_ns;
}

static ssize_t utilization_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	struct drm_npu_status_info info;
	ssize_t length = 0;
	u32 core;
	int ret;

	ret = qnpu_sysfs_status(dev, &info);
	if (ret)
		return ret;

	mutex_lock(&npu->utilisation.lock);
	qnpu_utilisation_update(npu, &info);
	for (core = 0; core < npu->info.cores; core++)
		length += sysfs_emit_at(buf, length, "%u%c", npu->utilisation.percent[core],
					core + 1 < npu->info.cores ? ' ' : '\n');
	mutex_unlock(&npu->utilisation.lock);

	return length;
}
static DEVICE_ATTR_RO(utilization);

static struct attribute *qnpu_sysfs_attrs[] = {
	&dev_attr_hw_version.attr,
	&dev_attr_isa_version.attr,
	&dev_attr_cores.attr,
	&dev_attr_queues.attr,
	&dev_attr_max_clock_khz.attr,
	&dev_attr_clock_khz.attr,
	&dev_attr_utilization.attr,
	&dev_attr_busy_cycles.attr,
	&dev_attr_jobs.attr,
	&dev_attr_resets.attr,
	&dev_attr_core_resets.attr,
	&dev_attr_aborted_jobs.attr,
	&dev_attr_thermal_events.attr,
	&dev_attr_ecc_corrected.attr,
	&dev_attr_ecc_uncorrected.attr,
	NULL
};

static const struct attribute_group qnpu_sysfs_group = {
	.name = "qnpu",
	.attrs = qnpu_sysfs_attrs,
};

/* Made by the driver core after probe, taken away before remove. */
const struct attribute_group *qnpu_sysfs_groups[] = {
	&qnpu_sysfs_group,
	NULL
};

/**
 * qnpu_sysfs_init - prepare what the attributes need
 * @npu: device
 */
int qnpu_sysfs_init(struct qnpu_device *npu)
{
	return drmm_mutex_init(&npu->drm, &npu->utilisation.lock);
}
