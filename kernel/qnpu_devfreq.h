/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEVFREQ_H
#define QNPU_DEVFREQ_H

#include <linux/ktime.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct devfreq;
struct qnpu_device;

/* Clock states of the card, see docs/reference/hardware.md: full, half, a quarter. */
#define QNPU_CLOCK_STATES	3

/**
 * struct qnpu_load - how long the card had work, by the clock on the wall
 *
 * Cycles will not do to choose a clock by: they are counted when a job ends, and say how long it
 * would have taken the chip that is modelled.
 */
struct qnpu_load {
	/** @jobs: jobs that the card has and has not finished; becomes 0, or not 0, under @lock */
	atomic_t jobs;

	/** @lock: protects all below; taken by interrupt handlers, inside of a queue's lock */
	spinlock_t lock;

	/** @since: when @jobs was 0 for the last time */
	ktime_t since;

	/** @busy: time with jobs until then */
	ktime_t busy;
};

/** struct qnpu_clock - the card's clock */
struct qnpu_clock {
	/** @state: clock state; written by devfreq under its lock, restored after a reset */
	u32 state;

	/** @hz: frequencies, ascending, so state 0 comes last; constant after probe */
	unsigned long hz[QNPU_CLOCK_STATES];

	/** @asked: when devfreq last asked for the load; under its lock */
	ktime_t asked;

	/** @busy: what the load was then */
	ktime_t busy;

	/** @devfreq: NULL: the clock stays as it is; constant after probe */
	struct devfreq *devfreq;
};

void qnpu_load_init(struct qnpu_load *load);
void qnpu_load_begin(struct qnpu_load *load, ktime_t now);
void qnpu_load_end(struct qnpu_load *load, ktime_t now);

void qnpu_devfreq_init(struct qnpu_device *npu);
void qnpu_devfreq_suspend(struct qnpu_device *npu);
void qnpu_devfreq_resume(struct qnpu_device *npu);

#endif
