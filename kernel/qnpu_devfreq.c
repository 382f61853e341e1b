// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clock states, chosen by devfreq. Without devfreq or its governor the clock stays at its highest.
 */
#include <linux/math64.h>
#include <linux/pm_opp.h>

#include <drm/drm_print.h>

#include "qnpu_devfreq.h"
#include "qnpu_device.h"

/* Clock states, see docs/reference/hardware.md: full, half, a quarter. */
#define QNPU_CLOCK_STATES	3

#define QNPU_DEVFREQ_POLL_MS	100

/* Voltage of the slowest clock state; each faster state adds to it. */
#define QNPU_UVOLT_MIN		600000
#define QNPU_UVOLT_STEP		100000

static unsigned long qnpu_clock_hz(const struct qnpu_device *npu, u32 state)
{
	return (npu->info.clock_khz >> state) * 1000ul;
}

static int qnpu_devfreq_target(struct device *dev, unsigned long *freq, u32 flags)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	u32 state = QNPU_CLOCK_STATES - 1;
	int idx;

	while (state && qnpu_clock_hz(npu, state) < *freq)
		state--;
	*freq = qnpu_clock_hz(npu, state);
	WRITE_ONCE(npu->clock.state, state);

	/* A reset or a resume, if one is under way, applies the same state. */
	if (qnpu_device_enter_awake(npu, &idx)) {
		qnpu_write(npu, NPU_REG_CLOCK_SELECT, state);
		qnpu_device_exit(npu, idx);
	}

	return 0;
}

/* Load is the busy time of the busiest core; model cycles are only known when a job ends. */
static int qnpu_devfreq_status(struct device *dev, struct devfreq_dev_status *status)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	u64 busy[NPU_MAX_CORES] = {}, passed = NSEC_PER_USEC;
	u32 core;
	int idx;

	if (qnpu_device_enter_awake(npu, &idx)) {
		passed = qnpu_device_busy(npu, &npu->clock.last, busy);
		qnpu_device_exit(npu, idx);
	}
	for (core = 1; core < npu->info.cores; core++)
		busy[0] = max(busy[0], busy[core]);
	status->current_frequency = qnpu_clock_hz(npu, npu->clock.state);
	status->total_time = div_u64(passed, NSEC_PER_USEC);
	status->busy_time = div_u64(busy[0], NSEC_PER_USEC);

	return 0;
}

static void qnpu_devfreq_remove_opps(void *dev)
{
	dev_pm_opp_remove_all_dynamic(dev);
}

/*
 * devfreq requires an OPP table. Without CONFIG_OF the OPP core warns about interconnect paths,
 * because its stub returns an error instead of "none".
 */
static int qnpu_devfreq_add_opps(struct qnpu_device *npu)
{
	struct device *dev = npu->drm.dev;
	u32 i;
	int ret;

	ret = devm_add_action(dev, qnpu_devfreq_remove_opps, dev);
	for (i = 0; i < QNPU_CLOCK_STATES && !ret; i++)
		ret = dev_pm_opp_add(dev, qnpu_clock_hz(npu, QNPU_CLOCK_STATES - 1 - i),
				     QNPU_UVOLT_MIN + i * QNPU_UVOLT_STEP);
	if (!ret && !IS_ENABLED(CONFIG_OF))
		drm_info(&npu->drm, "clock states are set up; without CONFIG_OF a message about interconnect paths can be ignored\n");

	return ret;
}

/* Let devfreq choose the clock of a started device, until the driver is unbound. */
void qnpu_devfreq_init(struct qnpu_device *npu)
{
	struct devfreq *devfreq;

	/* Only an emulator has a clock so slow that the states do not differ. */
	if (npu->info.clock_khz < BIT(QNPU_CLOCK_STATES) || qnpu_devfreq_add_opps(npu))
		return;

	npu->clock.profile = (struct devfreq_dev_profile) {
		.initial_freq = qnpu_clock_hz(npu, 0),
		.polling_ms = QNPU_DEVFREQ_POLL_MS,
		.timer = DEVFREQ_TIMER_DELAYED,
		.target = qnpu_devfreq_target,
		.get_dev_status = qnpu_devfreq_status,
	};
	devfreq = devm_devfreq_add_device(npu->drm.dev, &npu->clock.profile,
					  DEVFREQ_GOV_SIMPLE_ONDEMAND, NULL);
	if (IS_ERR(devfreq))
		drm_dbg(&npu->drm, "the clock stays at its highest: %pe\n", devfreq);
	else
		npu->clock.devfreq = devfreq;
}
