/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEVFREQ_H
#define QNPU_DEVFREQ_H

#include <linux/devfreq.h>
#include <linux/types.h>

#include "npu_regs.h"

struct qnpu_device;

/* A sample of the cores' busy counters. */
struct qnpu_busy {
	u64 card_ns;			/* device time of the sample; 0: no sample yet */
	u64 busy_ns[NPU_MAX_CORES];	/* time in which each core had a job */
};

/* Clock state; @state and @last are under devfreq's lock. */
struct qnpu_clock {
	u32 state;			/* current state, restored after a reset */
	struct qnpu_busy last;		/* sample of the last load request */
	struct devfreq_dev_profile profile; /* constant after probe */
	struct devfreq *devfreq;	/* NULL: the clock stays at its highest state */
};

void qnpu_devfreq_init(struct qnpu_device *npu);

#endif
