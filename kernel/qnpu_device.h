/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEVICE_H
#define QNPU_DEVICE_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/npu_accel.h>

#include "npu_regs.h"

#include "qnpu_attach.h"
#include "qnpu_bus.h"
#include "qnpu_copy.h"
#include "qnpu_coredump.h"
#include "qnpu_devfreq.h"
#include "qnpu_irq.h"
#include "qnpu_mem.h"
#include "qnpu_mmu.h"

struct qnpu_hw_queue;

/** struct qnpu_kept - what counters of the card said before it was switched off, since a reset */
struct qnpu_kept {
	/** @busy_cycles: modelled cycles of each core */
	u64 busy_cycles[NPU_MAX_CORES];

	/** @jobs: jobs of each core */
	u64 jobs[NPU_MAX_CORES];

	/** @busy_ns: time in which each core had a job */
	u64 busy_ns[NPU_MAX_CORES];

	/** @ecc_corrected: memory errors */
	u32 ecc_corrected;

	/** @ecc_uncorrected: likewise */
	u32 ecc_uncorrected;
};

/** struct qnpu_counters - what happened since probe */
struct qnpu_counters {
	/** @core_resets: resets of single cores */
	atomic_t core_resets;

	/** @aborted_jobs: jobs that the watchdog has killed */
	atomic_t aborted_jobs;

	/** @thermal_events: times that the temperature limit was passed, either way */
	atomic_t thermal_events;

	/** @done_ns: when the last job of each core was seen to be done, ktime_get_ns() */
	atomic64_t done_ns[NPU_MAX_CORES];
};

/** struct qnpu_utilisation - how busy the cores were, under qnpu_sysfs_lock */
struct qnpu_utilisation {
	/** @last: when the present interval began */
	struct qnpu_busy last;

	/** @percent: of each core in the interval before */
	u32 percent[NPU_MAX_CORES];
};

/**
 * struct qnpu_device - one card
 *
 * Lives until the last reference to @drm is gone, which can be long after the card itself is.
 */
struct qnpu_device {
	/** @drm: base class; its parent is the card's PCI function, or the platform device */
	struct drm_device drm;

	/** @bus: what depends on that */
	const struct qnpu_bus_ops *bus;

	/** @runtime_pm: it is switched off while nobody needs it; constant after probe */
	bool runtime_pm;

	/** @coherent: it sees the processors' caches, and they see what it writes; constant */
	bool coherent;

	/** @regs: registers, BAR0; valid inside qnpu_device_enter(), and during probe and remove */
	void __iomem *regs;

	/** @ddr: BAR2, write-combined; valid as @regs. NULL: it has no memory of its own */
	void __iomem *ddr;

	/** @ddr_phys: CPU physical address of BAR2 */
	resource_size_t ddr_phys;

	/** @ddr_mapped: size of BAR2 */
	resource_size_t ddr_mapped;

	/** @info: what the identity registers said, constant after probe */
	struct drm_npu_dev_info info;

	/** @asids: entries of the ASID table, constant after probe */
	u32 asids;

	/** @max_ring_log2: largest ring, constant after probe */
	u32 max_ring_log2;

	/** @mem: card and system memory */
	struct qnpu_mem mem;

	/** @copy: zeroes and moves memory */
	struct qnpu_copy copy;

	/** @mmu: page tables and invalidation */
	struct qnpu_mmu mmu;

	/** @irq: interrupt vectors */
	struct qnpu_irq irq;

	/**
	 * @reset_lock: held for reading by whoever touches the card, its memory included, see
	 * qnpu_device_enter(); for writing over a reset of any kind. Outside of @hw_lock. No memory
	 * is allocated and no job is waited for under it: the end of a job may wait for it.
	 */
	struct rw_semaphore reset_lock;

	/**
	 * @hw_lock: serialises whatever starts, stops or resets queues and the card; held over
	 * waits for the card, never over waits for a job, never while memory is allocated
	 */
	struct mutex hw_lock;

	/** @attach: which contexts have a queue pair */
	struct qnpu_attach attach;

	/** @ctxs: all contexts that are not killed, under @hw_lock */
	struct list_head ctxs;

	/** @queues: queues with a queue pair, by its number; written under @hw_lock */
	struct qnpu_hw_queue *queues[NPU_MAX_QUEUES];

	/** @contexts: those that have memory mapped for DMA, see qnpu_ctx_kill_all() */
	atomic_t contexts;

	/** @running: queues that had a job on a core when a reset began; under @hw_lock */
	DECLARE_BITMAP(running, NPU_MAX_QUEUES);

	/** @resets: device resets since probe; written under @hw_lock */
	u32 resets;

	/**
	 * @reset_cause: cause of the last reset, or stop of a queue, DRM_NPU_CAUSE_; written under
	 * @hw_lock
	 */
	u32 reset_cause;

	/** @offline: after an error of the bus, until it is repaired; written under @reset_lock */
	bool offline;

	/** @asleep: the device sleeps, with the system or alone; written under @reset_lock */
	bool asleep;
	/** @online_wait: woken when @offline or @asleep ends */
	wait_queue_head_t online_wait;

	/** @offline_since: when that began, jiffies */
	unsigned long offline_since;

	/** @wedged: even a reset did not help, the card is left alone; written under @reset_lock */
	bool wedged;
	/**
	 * @losses: times that a lost card came back with empty memory; written under @reset_lock
	 */
	u32 losses;

	/** @kept: what was counted before it slept; written under @reset_lock */
	struct qnpu_kept kept;

	/** @counters: for those who watch */
	struct qnpu_counters counters;

	/** @utilisation: likewise */
	struct qnpu_utilisation utilisation;

	/** @clock: clock state, as devfreq chooses it */
	struct qnpu_clock clock;

	/** @timeout_wq: ordered, runs the watchdogs of all contexts, so that they never race */
	struct workqueue_struct *timeout_wq;

	/** @bad_completions: those since the last reset that could not be true; under @hw_lock */
	u32 bad_completions;

	/** @event_work: sees to events that need a sleeping context */
	struct work_struct event_work;

	/** @pulse_work: looks at a card that says nothing */
	struct delayed_work pulse_work;

	/** @coredump: the dump that is being made */
	struct qnpu_coredump coredump;

	/** @lost_work: tells user space when the card is lost */
	struct work_struct lost_work;
};

static inline struct qnpu_device *to_qnpu_device(struct drm_device *drm)
{
	return container_of(drm, struct qnpu_device, drm);
}

static inline u32 qnpu_read(struct qnpu_device *npu, u32 reg)
{
	return readl(npu->regs + reg);
}

static inline u64 qnpu_read64(struct qnpu_device *npu, u32 reg)
{
	return readq(npu->regs + reg);
}

static inline void qnpu_write(struct qnpu_device *npu, u32 reg, u32 value)
{
	writel(value, npu->regs + reg);
}

static inline void qnpu_write64(struct qnpu_device *npu, u32 reg, u64 value)
{
	writeq(value, npu->regs + reg);
}

/* What a register reads as whose card is absent or dead, or has no power. */
static inline bool qnpu_is_gone(u32 value)
{
	return value == ~0u;
}

static inline int qnpu_bus_power_on(struct qnpu_device *npu)
{
	return npu->bus->power_on ? npu->bus->power_on(npu) : 0;
}

static inline void qnpu_bus_let_on(struct qnpu_device *npu)
{
	if (npu->bus->let_on)
		npu->bus->let_on(npu);
}

static inline void qnpu_bus_cut_off(struct qnpu_device *npu)
{
	npu->bus->cut_off(npu);
}

bool qnpu_device_hold(struct qnpu_device *npu, int *idx);
void qnpu_device_release(int idx);

bool qnpu_device_enter(struct qnpu_device *npu, int *idx);
int qnpu_device_enter_killable(struct qnpu_device *npu, int *idx);
bool qnpu_device_enter_online(struct qnpu_device *npu, int *idx);
bool qnpu_device_enter_awake(struct qnpu_device *npu, int *idx);
bool qnpu_device_try_enter(struct qnpu_device *npu, int *idx);
void qnpu_device_exit(struct qnpu_device *npu, int idx);

int qnpu_device_identify(struct qnpu_device *npu);
int qnpu_device_reset(struct qnpu_device *npu);
void qnpu_device_start(struct qnpu_device *npu);
void qnpu_device_stop(struct qnpu_device *npu);
void qnpu_device_keep_counters(struct qnpu_device *npu);
void qnpu_device_status(struct qnpu_device *npu, struct drm_npu_status_info *info);
u64 qnpu_device_busy(struct qnpu_device *npu, struct qnpu_busy *last, u64 *busy);
void qnpu_device_time(struct qnpu_device *npu, struct drm_npu_time_info *info);

#endif
