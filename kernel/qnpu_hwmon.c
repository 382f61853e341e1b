// SPDX-License-Identifier: GPL-2.0-only
/*
 * Temperature, power, voltage and fan for sensors(1).
 */
#include <linux/device.h>
#include <linux/hwmon.h>
#include <linux/units.h>

#include "qnpu_device.h"
#include "qnpu_hwmon.h"
#include "npu_hw_params.h"

static umode_t qnpu_hwmon_is_visible(const void *data, enum hwmon_sensor_types type, u32 attr,
				     int channel)
{
	return 0444;
}

/* Limits from the hardware guide; returns false for values read from the device. */
static bool qnpu_hwmon_limit(struct qnpu_device *npu, enum hwmon_sensor_types type, u32 attr,
			     long *value)
{
	if (type == hwmon_temp && attr == hwmon_temp_crit)
		*value = NPU_TEMP_LIMIT_MC;
	else if (type == hwmon_temp && attr == hwmon_temp_crit_hyst)
		*value = NPU_TEMP_RESUME_MC;
	else if (type == hwmon_power && attr == hwmon_power_max)
		*value = (NPU_IDLE_MW + npu->info.cores * NPU_CORE_MW) * MICROWATT_PER_MILLIWATT;
	else if (type == hwmon_fan && attr == hwmon_fan_max)
		*value = NPU_FAN_MAX_RPM;
	else
		return false;

	return true;
}

static int qnpu_hwmon_read(struct device *dev, enum hwmon_sensor_types type, u32 attr, int channel,
			   long *value)
{
	static const u32 inputs[hwmon_max] = {
		[hwmon_temp] = NPU_REG_TEMP_MC,
		[hwmon_power] = NPU_REG_POWER_MW,
		[hwmon_in] = NPU_REG_VOLTAGE_MV,
		[hwmon_fan] = NPU_REG_FAN_RPM,
	};
	struct qnpu_device *npu = dev_get_drvdata(dev);
	int ret, idx;

	if (qnpu_hwmon_limit(npu, type, attr, value))
		return 0;
	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	*value = (s32)qnpu_read(npu, inputs[type]);
	if (type == hwmon_power)
		*value *= MICROWATT_PER_MILLIWATT;
	qnpu_device_exit(npu, idx);

	return 0;
}

static int qnpu_hwmon_read_string(struct device *dev, enum hwmon_sensor_types type, u32 attr,
				  int channel, const char **label)
{
	static const char * const labels[hwmon_max] = {
		[hwmon_temp] = "chip",
		[hwmon_power] = "board",
		[hwmon_in] = "core",
		[hwmon_fan] = "fan",
	};

	*label = labels[type];

	return 0;
}

static const struct hwmon_ops qnpu_hwmon_ops = {
	.is_visible = qnpu_hwmon_is_visible,
	.read = qnpu_hwmon_read,
	.read_string = qnpu_hwmon_read_string,
};

static const struct hwmon_channel_info * const qnpu_hwmon_channels[] = {
	HWMON_CHANNEL_INFO(temp, HWMON_T_INPUT | HWMON_T_CRIT | HWMON_T_CRIT_HYST |
			   HWMON_T_LABEL),
	HWMON_CHANNEL_INFO(power, HWMON_P_INPUT | HWMON_P_MAX | HWMON_P_LABEL),
	HWMON_CHANNEL_INFO(in, HWMON_I_INPUT | HWMON_I_LABEL),
	HWMON_CHANNEL_INFO(fan, HWMON_F_INPUT | HWMON_F_MAX | HWMON_F_LABEL),
	NULL
};

static const struct hwmon_chip_info qnpu_hwmon_chip = {
	.ops = &qnpu_hwmon_ops,
	.info = qnpu_hwmon_channels,
};

/* Register sensors until the driver is unbound. */
int qnpu_hwmon_init(struct qnpu_device *npu)
{
	return PTR_ERR_OR_ZERO(devm_hwmon_device_register_with_info(npu->drm.dev, "qnpu", npu,
								    &qnpu_hwmon_chip, NULL));
}
