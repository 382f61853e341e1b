/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEVFREQ_H
#define QNPU_DEVFREQ_H

#include <linux/devfreq.h>
#include <linux/types.h>

#include "npu_regs.h"

struct qnpu_device;

/* What the cores had counted when somebody looked. */
struct qnpu_busy {
	u64 card_ns;			/* when that was, by the card's clock; 0: never */

	u64 busy_ns[NPU_MAX_CORES];	/* time in which each core had a job */
};

/* The device's clock. */
struct qnpu_clock {
	/* clock state; written by devfreq under its lock, restored after a reset */
	u32 state;

	struct qnpu_busy last;		/* when devfreq asked for the load; under its lock */

	struct devfreq_dev_profile profile; /* constant after probe */

	/* NULL: the clock stays at its highest; constant after probe */
	struct devfreq *devfreq;
};

void qnpu_devfreq_init(struct qnpu_device *npu);

#endif
