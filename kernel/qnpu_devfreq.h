/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEVFREQ_H
#define QNPU_DEVFREQ_H

#include <linux/devfreq.h>
#include <linux/types.h>

#include "npu_regs.h"

struct qnpu_device;

/** struct qnpu_busy - what the cores had counted when somebody looked */
struct qnpu_busy {
	/** @card_ns: when that was, by the card's clock; 0: never */
	u64 card_ns;

	/** @busy_ns: time in which each core had a job */
	u64 busy_ns[NPU_MAX_CORES];
};

/** struct qnpu_clock - the device's clock */
struct qnpu_clock {
	/** @state: clock state; written by devfreq under its lock, restored after a reset */
	u32 state;

	/** @last: when devfreq asked for the load; under its lock */
	struct qnpu_busy last;

	/** @profile: constant after probe */
	struct devfreq_dev_profile profile;

	/** @devfreq: NULL: the clock stays at its highest; constant after probe */
	struct devfreq *devfreq;
};

void qnpu_devfreq_init(struct qnpu_device *npu);

#endif
