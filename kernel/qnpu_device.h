/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_DEVICE_H
#define QNPU_DEVICE_H

#include <linux/atomic.h>
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

/* Event counts since probe. */
struct qnpu_counters {
	atomic_t core_resets;		/* resets of single cores */
	atomic_t aborted_jobs;		/* jobs that the watchdog has aborted */
	atomic_t thermal_events;	/* crossings of the temperature limit, up and down */
	atomic64_t done_ns[NPU_MAX_CORES]; /* last completion seen on each core, ktime_get_ns() */
};

/* Utilization of the cores, under qnpu_sysfs_lock. */
struct qnpu_utilisation {
	struct qnpu_busy last;		/* start of the current interval */
	u32 percent[NPU_MAX_CORES];	/* utilization of each core in the previous interval */
};

/* A device. Freed with the last reference to @drm, which may be long after the unplug. */
struct qnpu_device {
	struct drm_device drm;		/* its parent is the PCI function or the platform device */
	const struct qnpu_bus_ops *bus;

	/* Constant after probe; regs and ddr are valid inside qnpu_device_enter(). */
	bool runtime_pm;		/* powered off while unused */
	bool coherent;			/* device and CPU snoop each other's caches */
	void __iomem *regs;		/* BAR0 */
	void __iomem *ddr;		/* BAR2, write-combined; NULL: no local memory */
	resource_size_t ddr_phys;	/* CPU physical address of BAR2 */
	resource_size_t ddr_mapped;	/* size of BAR2 */
	struct drm_npu_dev_info info;	/* identity registers */
	u32 asids;			/* entries of the ASID table */
	u32 max_ring_log2;		/* largest ring, log2 of entries */

	struct qnpu_mem mem;
	struct qnpu_copy copy;
	struct qnpu_mmu mmu;
	struct qnpu_irq irq;
	struct qnpu_attach attach;

	/*
	 * Read-locked by qnpu_device_enter(), write-locked over each reset. Outside hw_lock. Job
	 * completion may depend on it, so its holders neither allocate memory nor wait for jobs.
	 */
	struct rw_semaphore reset_lock;
	/*
	 * Serialises start, stop and reset of queues and device. Held over waits for the device,
	 * but not over waits for jobs or memory allocations.
	 */
	struct mutex hw_lock;

	struct list_head ctxs;		/* contexts that are not killed, under hw_lock */
	struct qnpu_hw_queue *queues[NPU_MAX_QUEUES]; /* by queue pair; written under hw_lock */
	atomic_t contexts;		/* contexts with DMA mappings, see qnpu_ctx_kill_all() */
	u32 resets;			/* device resets since probe; written under hw_lock */
	u32 reset_cause;		/* DRM_NPU_CAUSE_ of the last reset or stop; hw_lock */

	/* Written under reset_lock. */
	bool offline;			/* during a PCI reset, or from a bus error to its repair */
	bool asleep;			/* suspended, by system sleep or runtime PM */
	bool wedged;			/* lost or removed: calls fail, pulse_work polls it */
	u32 losses;			/* number of returns of a lost card, with empty memory */
	unsigned long offline_until;	/* jiffies at which an offline device is declared lost */
	struct drm_npu_status_info kept; /* counters saved at suspend */
	wait_queue_head_t online_wait;	/* woken when offline or asleep ends */

	struct qnpu_counters counters;
	struct qnpu_utilisation utilisation;
	struct qnpu_clock clock;	/* clock state that devfreq chooses */
	struct qnpu_coredump coredump;

	struct workqueue_struct *timeout_wq; /* ordered, so that watchdogs never run concurrently */
	bool reset_wanted;		/* see qnpu_recover_request(); cleared by a reset */
	struct work_struct event_work;	/* handles events in process context */
	struct delayed_work pulse_work;	/* polls a device that raises no interrupt */
	struct work_struct lost_work;	/* sends the uevent of a lost device */
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

/* Returns true if a register read as ones: the device is absent, dead, or unpowered. */
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

/* Returns true if the device may be accessed. Stable under reset_lock or hw_lock. */
static inline bool qnpu_device_is_up(const struct qnpu_device *npu)
{
	return !READ_ONCE(npu->wedged) && !READ_ONCE(npu->offline) && !READ_ONCE(npu->asleep);
}

int __must_check qnpu_device_enter(struct qnpu_device *npu, int *idx);
bool qnpu_device_enter_awake(struct qnpu_device *npu, int *idx);
bool qnpu_device_try_enter(struct qnpu_device *npu, int *idx);
void qnpu_device_exit(struct qnpu_device *npu, int idx);
int qnpu_device_identify(struct qnpu_device *npu);
int qnpu_device_reset(struct qnpu_device *npu);
void qnpu_device_start(struct qnpu_device *npu);
void qnpu_device_stop(struct qnpu_device *npu);
void qnpu_device_status(struct qnpu_device *npu, struct drm_npu_status_info *info);
u64 qnpu_device_busy(struct qnpu_device *npu, struct qnpu_busy *last, u64 *busy);
void qnpu_device_time(struct qnpu_device *npu, struct drm_npu_time_info *info);

#endif
