// SPDX-License-Identifier: GPL-2.0-only
/*
 * Temperature, power and voltage for sensors(1).
 */
#include <linux/hwmon.h>
#include <linux/units.h>

#include "npu_device.h"
#include "npu_hwmon.h"

static umode_t npu_hwmon_is_visible(const void *data, enum hwmon_sensor_types type, u32 attr,
				    int channel)
{
	return 0444;
}

static int npu_hwmon_read(struct device *dev, enum hwmon_sensor_types type, u32 attr, int channel,
			  long *value)
{
	struct npu_device *npu = dev_get_drvdata(dev);
	int idx, ret = 0;

	if (!npu_device_enter(npu, &idx))
		return -ENODEV;

	switch (type) {
	case hwmon_temp:
		*value = (s32)npu_read(npu, NPU_REG_TEMP_MC);
		break;
	case hwmon_power:
		*value = (long)npu_read(npu, NPU_REG_POWER_MW) * MICROWATT_PER_MILLIWATT;
		break;
	case hwmon_in:
		*value = npu_read(npu, NPU_REG_VOLTAGE_MV);
		break;
	default:
		ret = -EOPNOTSUPP;
		break;
	}
	npu_device_exit(idx);

	return ret;
}

static const struct hwmon_ops npu_hwmon_ops = {
	.is_visible = npu_hwmon_is_visible,
	.read = npu_hwmon_read,
};

static const struct hwmon_channel_info * const npu_hwmon_channels[] = {
	HWMON_CHANNEL_INFO(temp, HWMON_T_INPUT),
	HWMON_CHANNEL_INFO(power, HWMON_P_INPUT),
	HWMON_CHANNEL_INFO(in, HWMON_I_INPUT),
	NULL
};

static const struct hwmon_chip_info npu_hwmon_chip = {
	.ops = &npu_hwmon_ops,
	.info = npu_hwmon_channels,
};

/**
 * npu_hwmon_init - register the sensors, until the driver lets go of the card
 * @npu: device
 */
int npu_hwmon_init(struct npu_device *npu)
{
	struct device *hwmon;

	hwmon = devm_hwmon_device_register_with_info(npu->drm.dev, "npu", npu, &npu_hwmon_chip,
						     NULL);

	return PTR_ERR_OR_ZERO(hwmon);
}
