// SPDX-License-Identifier: GPL-2.0-only
/* Attributes in the device's directory "qnpu": Documentation/ABI/testing/sysfs-driver-qnpu. */
#include <linux/device.h>
#include <linux/math64.h>

#include "qnpu_device.h"
#include "qnpu_query.h"
#include "qnpu_sysfs.h"

/* Minimum interval, ns: several independent readers share the utilisation. */
#define QNPU_INTERVAL_NS	(250 * NSEC_PER_MSEC)

/* Protects qnpu_device.utilisation; inside of reset_lock. */
static DEFINE_MUTEX(qnpu_sysfs_lock);

/* Constant after probe. */
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

static ssize_t queues_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", qnpu_copy_user_queues(dev_get_drvdata(dev)));
}
static DEVICE_ATTR_RO(queues);

#define QNPU_STATUS_SHOW(_name, _value)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	struct drm_npu_status_info info;						\
	int ret = qnpu_query_status(dev_get_drvdata(dev), &info);			\
											\
	return ret ?: sysfs_emit(buf, "%llu\n", (u64)info._value);			\
}

QNPU_STATUS_SHOW(clock_khz, clock_khz)
static DEVICE_ATTR_RO(clock_khz);
QNPU_STATUS_SHOW(ecc_corrected, ecc_corrected)
static DEVICE_ATTR_RO(ecc_corrected);
QNPU_STATUS_SHOW(ecc_uncorrected, ecc_uncorrected)
static DEVICE_ATTR_RO(ecc_uncorrected);
QNPU_STATUS_SHOW(resets, resets)
static DEVICE_ATTR_RO(resets);
QNPU_STATUS_SHOW(core_resets, core_resets)
static DEVICE_ATTR_RO(core_resets);
QNPU_STATUS_SHOW(aborted_jobs, aborted_jobs)
static DEVICE_ATTR_RO(aborted_jobs);
QNPU_STATUS_SHOW(thermal_events, thermal_events)
static DEVICE_ATTR_RO(thermal_events);

/* Returns the core of an attribute coreN_NAME. */
static u32 qnpu_core_of(const struct device_attribute *attr)
{
	return attr->attr.name[strlen("core")] - '0';
}

QNPU_STATUS_SHOW(busy_cycles, busy_cycles[qnpu_core_of(attr)])
QNPU_STATUS_SHOW(jobs, jobs[qnpu_core_of(attr)])

/* Update all cores' utilisation, once the interval is over. */
static void qnpu_utilisation_update(struct qnpu_device *npu)
{
	struct qnpu_utilisation *util = &npu->utilisation;
	bool first = !util->last.card_ns;
	u64 busy[NPU_MAX_CORES], passed;
	u32 core;

	if (!first && qnpu_read64(npu, NPU_REG_TIME_NS) - util->last.card_ns < QNPU_INTERVAL_NS)
		return;

	passed = qnpu_device_busy(npu, &util->last, busy);
	for (core = 0; core < npu->info.cores; core++)
		util->percent[core] = first ? 0 : div64_u64(busy[core] * 100, passed);
}

static ssize_t utilization_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	int ret, idx;
	u32 percent;

	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	mutex_lock(&qnpu_sysfs_lock);
	qnpu_utilisation_update(npu);
	percent = npu->utilisation.percent[qnpu_core_of(attr)];
	mutex_unlock(&qnpu_sysfs_lock);
	qnpu_device_exit(npu, idx);

	return sysfs_emit(buf, "%u\n", percent);
}

/* Exact counters of all users: root only. */
#define QNPU_CORE(n) {								\
	__ATTR(core##n##_utilization, 0444, utilization_show, NULL),		\
	__ATTR(core##n##_busy_cycles, 0400, busy_cycles_show, NULL),		\
	__ATTR(core##n##_jobs, 0400, jobs_show, NULL),				\
}

static struct device_attribute qnpu_core[NPU_MAX_CORES][3] = {
	QNPU_CORE(0), QNPU_CORE(1), QNPU_CORE(2), QNPU_CORE(3),
	QNPU_CORE(4), QNPU_CORE(5), QNPU_CORE(6), QNPU_CORE(7),
};

/* Cores' attributes come first, for qnpu_sysfs_is_visible(). */
static struct attribute *qnpu_sysfs_attrs[] = {
	&qnpu_core[0][0].attr, &qnpu_core[0][1].attr, &qnpu_core[0][2].attr,
	&qnpu_core[1][0].attr, &qnpu_core[1][1].attr, &qnpu_core[1][2].attr,
	&qnpu_core[2][0].attr, &qnpu_core[2][1].attr, &qnpu_core[2][2].attr,
	&qnpu_core[3][0].attr, &qnpu_core[3][1].attr, &qnpu_core[3][2].attr,
	&qnpu_core[4][0].attr, &qnpu_core[4][1].attr, &qnpu_core[4][2].attr,
	&qnpu_core[5][0].attr, &qnpu_core[5][1].attr, &qnpu_core[5][2].attr,
	&qnpu_core[6][0].attr, &qnpu_core[6][1].attr, &qnpu_core[6][2].attr,
	&qnpu_core[7][0].attr, &qnpu_core[7][1].attr, &qnpu_core[7][2].attr,
	&dev_attr_hw_version.attr,
	&dev_attr_isa_version.attr,
	&dev_attr_cores.attr,
	&dev_attr_queues.attr,
	&dev_attr_max_clock_khz.attr,
	&dev_attr_clock_khz.attr,
	&dev_attr_resets.attr,
	&dev_attr_core_resets.attr,
	&dev_attr_aborted_jobs.attr,
	&dev_attr_thermal_events.attr,
	&dev_attr_ecc_corrected.attr,
	&dev_attr_ecc_uncorrected.attr,
	NULL
};

static umode_t qnpu_sysfs_is_visible(struct kobject *kobj, struct attribute *attr, int index)
{
	const struct qnpu_device *npu = dev_get_drvdata(kobj_to_dev(kobj));
	u32 core = index / ARRAY_SIZE(qnpu_core[0]);

	return core < npu->info.cores || core >= NPU_MAX_CORES ? attr->mode : 0;
}

static const struct attribute_group qnpu_sysfs_group = {
	.name = "qnpu",
	.attrs = qnpu_sysfs_attrs,
	.is_visible = qnpu_sysfs_is_visible,
};

const struct attribute_group *qnpu_sysfs_groups[] = {
	&qnpu_sysfs_group,
	NULL
};
