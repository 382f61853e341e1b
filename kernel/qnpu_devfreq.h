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

/* The device's clock; state and load are under the lock of devfreq. */
struct qnpu_clock {
	u32 state;			/* restored after a reset */
	struct qnpu_busy last;		/* at the last request for the load */
	struct devfreq_dev_profile profile; /* constant after probe */
	struct devfreq *devfreq;	/* NULL: the clock stays at its highest */
};

void qnpu_devfreq_init(struct qnpu_device *npu);

#endif
