// SPDX-License-Identifier: GPL-2.0-only
/*
 * The card's clock, lowered by devfreq's governor while there is little to do.
 *
 * Without devfreq, or without the governor, the card stays at its full clock.
 */
#include <linux/devfreq.h>
#include <linux/pm_opp.h>

#include <drm/drm_print.h>

#include "qnpu_devfreq.h"
#include "qnpu_device.h"

/* Between two looks of the governor. */
#define QNPU_DEVFREQ_POLL_MS	100

/* Of the slowest clock state, and more for each faster one. */
#define QNPU_UVOLT_MIN		600000
#define QNPU_UVOLT_STEP		100000

/* Load */

void qnpu_load_init(struct qnpu_load *load)
{
	spin_lock_init(&load->lock);
}

/**
 * qnpu_load_begin - the card gets a job
 * @load: load
 * @now: ktime_get(), perhaps of a moment ago
 *
 * Only the first one and the last one matter for the time.
 */
void qnpu_load_begin(struct qnpu_load *load, ktime_t now)
{
	unsigned long flags;

	if (atomic_inc_not_zero(&load->jobs))
		return;

	spin_lock_irqsave(&load->lock, flags);
	if (atomic_inc_return(&load->jobs) == 1)
		load->since = now;
	spin_unlock_irqrestore(&load->lock, flags);
}

/**
 * qnpu_load_end - the card has finished a job, or it was taken away
 * @load: load
 * @now: ktime_get(), perhaps of a moment ago: when the job was seen to be done
 */
void qnpu_load_end(struct qnpu_load *load, ktime_t now)
{
	unsigned long flags;

	if (atomic_fetch_add_unless(&load->jobs, -1, 1) != 1)
		return;

	spin_lock_irqsave(&load->lock, flags);
	if (atomic_dec_and_test(&load->jobs))
		load->busy = ktime_add(load->busy, ktime_sub(now, load->since));
	spin_unlock_irqrestore(&load->lock, flags);
}

static ktime_t qnpu_load_busy(struct qnpu_load *load)
{
	unsigned long flags;
	ktime_t busy;

	spin_lock_irqsave(&load->lock, flags);
	busy = load->busy;
	if (atomic_read(&load->jobs))
		busy = ktime_add(busy, ktime_sub(ktime_get(), load->since));
	spin_unlock_irqrestore(&load->lock, flags);

	return busy;
}

/* devfreq */

static unsigned long qnpu_clock_hz(const struct qnpu_clock *clock)
{
	return clock->hz[QNPU_CLOCK_STATES - 1 - READ_ONCE(clock->state)];
}

static int qnpu_devfreq_target(struct device *dev, unsigned long *freq, u32 flags)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	u32 i = 0;
	int idx;

	while (i < QNPU_CLOCK_STATES - 1 && npu->clock.hz[i] < *freq)
		i++;
	WRITE_ONCE(npu->clock.state, QNPU_CLOCK_STATES - 1 - i);
	*freq = npu->clock.hz[i];

	/*
	 * A reset in this moment gives the card the same state, and so does waking up. A card that
	 * is gone has none.
	 */
	if (qnpu_device_enter_awake(npu, &idx)) {
		qnpu_write(npu, NPU_REG_CLOCK_SELECT, npu->clock.state);
		qnpu_device_exit(npu, idx);
	}

	return 0;
}

static int qnpu_devfreq_status(struct device *dev, struct devfreq_dev_status *status)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	struct qnpu_clock *clock = &npu->clock;
	ktime_t now = ktime_get(), busy = qnpu_load_busy(&npu->load);

	/* A job that ends later than it was said to be done takes back what was counted since. */
	if (ktime_before(busy, clock->busy))
		busy = clock->busy;
	status->current_frequency = qnpu_clock_hz(clock);
	status->total_time = ktime_to_us(ktime_sub(now, clock->asked));
	status->busy_time = ktime_to_us(ktime_sub(busy, clock->busy));
	clock->asked = now;
	clock->busy = busy;

	return 0;
}

static int qnpu_devfreq_current(struct device *dev, unsigned long *freq)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);

	*freq = qnpu_clock_hz(&npu->clock);

	return 0;
}

static struct devfreq_dev_profile qnpu_devfreq_profile(struct qnpu_device *npu)
{
	return (struct devfreq_dev_profile) {
		.initial_freq = qnpu_clock_hz(&npu->clock),
		.polling_ms = QNPU_DEVFREQ_POLL_MS,
		.timer = DEVFREQ_TIMER_DELAYED,
		.target = qnpu_devfreq_target,
		.get_dev_status = qnpu_devfreq_status,
		.get_cur_freq = qnpu_devfreq_current,
	};
}

static void qnpu_devfreq_remove_opps(void *dev)
{
	dev_pm_opp_remove_all_dynamic(dev);
}

/*
 * The clock states, with the voltages of docs/reference/hardware.md. devfreq takes a device only
 * with a table of the OPP core. That core warns of interconnect paths in kernels without CONFIG_OF,
 * where its own stub returns an error instead of "none".
 */
static int qnpu_devfreq_add_opps(struct qnpu_device *npu)
{
	struct device *dev = npu->drm.dev;
	u32 i;
	int ret;

	ret = devm_add_action(dev, qnpu_devfreq_remove_opps, dev);
	for (i = 0; i < QNPU_CLOCK_STATES && !ret; i++)
		ret = dev_pm_opp_add(dev, npu->clock.hz[i], QNPU_UVOLT_MIN + i * QNPU_UVOLT_STEP);
	if (!ret && !IS_ENABLED(CONFIG_OF))
		drm_info(&npu->drm, "clock states are set up; without CONFIG_OF a message about interconnect paths can be ignored\n");

	return ret;
}

/**
 * qnpu_devfreq_init - let devfreq choose the clock, until the driver lets go of the card
 * @npu: device, started
 */
void qnpu_devfreq_init(struct qnpu_device *npu)
{
	struct devfreq_dev_profile *profile;
	struct devfreq *devfreq;
	u32 i;

	/* A clock so slow, which only an emulator can have, has no states that differ. */
	if (npu->info.clock_khz < BIT(QNPU_CLOCK_STATES))
		return;

	for (i = 0; i < QNPU_CLOCK_STATES; i++)
		npu->clock.hz[i] = (npu->info.clock_khz >> (QNPU_CLOCK_STATES - 1 - i)) * 1000ul;
	npu->clock.asked = ktime_get();

	profile = devm_kmalloc(npu->drm.dev, sizeof(*profile), GFP_KERNEL);
	if (!profile || qnpu_devfreq_add_opps(npu))
		return;
	*profile = qnpu_devfreq_profile(npu);

	devfreq = devm_devfreq_add_device(npu->drm.dev, profile, DEVFREQ_GOV_SIMPLE_ONDEMAND, NULL);
	if (IS_ERR(devfreq))
		drm_dbg(&npu->drm, "the clock stays at its highest: %pe\n", devfreq);
	else
		npu->clock.devfreq = devfreq;
}

/**
 * qnpu_devfreq_suspend - nobody looks at the load of a device that sleeps
 * @npu: device, its reset_lock not held
 */
void qnpu_devfreq_suspend(struct qnpu_device *npu)
{
	if (npu->clock.devfreq)
		devfreq_suspend_device(npu->clock.devfreq);
}

/**
 * qnpu_devfreq_resume - undo qnpu_devfreq_suspend()
 * @npu: device
 */
void qnpu_devfreq_resume(struct qnpu_device *npu)
{
	if (npu->clock.devfreq)
		devfreq_resume_device(npu->clock.devfreq);
}
