// SPDX-License-Identifier: GPL-2.0-only
/* The device as a whole: access, identity, reset, start and stop, sensors. */
#include <linux/export.h>
#include <linux/iopoll.h>

#include <drm/drm_print.h>

#include "qnpu_device.h"
#include "qnpu_pm.h"

/*
 * A reset takes one bounded step of a command, which is slow in a software model on a busy host. It
 * is retried before the device counts as lost.
 */
#define QNPU_RESET_TIMEOUT_US	(5 * USEC_PER_SEC)
#define QNPU_RESET_TRIES	6
#define QNPU_RESET_POLL_US	1000

/* Keep the device bound and powered. Resumes a suspended device if @wake, else fails. */
static bool qnpu_device_get(struct qnpu_device *npu, int *idx, bool wake)
{
	if (!drm_dev_enter(&npu->drm, idx))
		return false;
	if (wake ? !qnpu_pm_get(npu) : qnpu_pm_get_if_awake(npu))
		return true;
	drm_dev_exit(*idx);

	return false;
}

static void qnpu_device_put(struct qnpu_device *npu, int idx)
{
	qnpu_pm_put(npu);
	drm_dev_exit(idx);
}

/*
 * Begins access to the device or its memory, until qnpu_device_exit() with @idx. Resumes it, and
 * waits for a reset or a bus repair to end, so that no access is lost. The caller must not allocate
 * memory, wait for fences, or enter again. -ENODEV: the device is gone or lost; -EINTR: a fatal
 * signal is pending.
 */
int qnpu_device_enter(struct qnpu_device *npu, int *idx)
{
	int ret;

	do {
		if (!qnpu_device_get(npu, idx, true))
			return -ENODEV;
		ret = down_read_killable(&npu->reset_lock);
		if (!ret && qnpu_device_is_up(npu))
			return 0;
		if (!ret)
			up_read(&npu->reset_lock);
		qnpu_device_put(npu, *idx);
		if (ret)
			return ret;
		if (READ_ONCE(npu->wedged))
			return -ENODEV;
		ret = wait_event_killable(npu->online_wait, qnpu_device_is_up(npu) ||
					  READ_ONCE(npu->wedged));
	} while (!ret);

	return -EINTR;
}
EXPORT_SYMBOL_GPL(qnpu_device_enter);

/*
 * Enters the device, after a reset in progress. Fails if it is suspended or offline, since a reset
 * follows before it works again.
 */
bool qnpu_device_enter_awake(struct qnpu_device *npu, int *idx)
{
	if (!qnpu_device_get(npu, idx, false))
		return false;
	down_read(&npu->reset_lock);
	if (qnpu_device_is_up(npu))
		return true;
	qnpu_device_exit(npu, *idx);

	return false;
}

/* Enters the device if it is up, without waiting. */
bool qnpu_device_try_enter(struct qnpu_device *npu, int *idx)
{
	if (!qnpu_device_get(npu, idx, false))
		return false;
	if (down_read_trylock(&npu->reset_lock)) {
		if (qnpu_device_is_up(npu))
			return true;
		up_read(&npu->reset_lock);
	}
	qnpu_device_put(npu, *idx);

	return false;
}

void qnpu_device_exit(struct qnpu_device *npu, int idx)
{
	up_read(&npu->reset_lock);
	qnpu_device_put(npu, idx);
}
EXPORT_SYMBOL_GPL(qnpu_device_exit);

/* Read and check the identity registers, whose values size arrays and bound loops. */
int qnpu_device_identify(struct qnpu_device *npu)
{
	struct drm_npu_dev_info *info = &npu->info;

	info->chip_id = qnpu_read(npu, NPU_REG_ID);
	info->hw_version = qnpu_read(npu, NPU_REG_HW_VERSION);
	info->isa_version = qnpu_read(npu, NPU_REG_ISA_VERSION);
	info->features = qnpu_read(npu, NPU_REG_FEATURES);
	info->cores = qnpu_read(npu, NPU_REG_CORES);
	info->queues = qnpu_read(npu, NPU_REG_QUEUES);
	info->lmem_bytes = qnpu_read(npu, NPU_REG_LMEM_BYTES);
	info->clock_khz = qnpu_read(npu, NPU_REG_CLOCK_KHZ);
	info->ddr_bytes = qnpu_read64(npu, NPU_REG_DDR_BYTES);
	npu->asids = qnpu_read(npu, NPU_REG_ASIDS);
	npu->max_ring_log2 = qnpu_read(npu, NPU_REG_MAX_RING_LOG2);
	npu->irq.hw_vectors = qnpu_read(npu, NPU_REG_VECTORS);

	if (info->chip_id != NPU_CHIP_ID) {
		drm_err(&npu->drm, "chip id %#x, expected %#x\n", info->chip_id, NPU_CHIP_ID);
		return -ENODEV;
	}
	if (info->hw_version >> 16 != NPU_HW_VERSION >> 16) {
		drm_err(&npu->drm, "hardware version %u.%u, expected %u.x\n",
			info->hw_version >> 16, info->hw_version & 0xffff, NPU_HW_VERSION >> 16);
		return -ENODEV;
	}
	if (!info->cores || info->cores > NPU_MAX_CORES ||
	    !info->queues || info->queues > NPU_MAX_QUEUES ||
	    !npu->asids || npu->asids > NPU_MAX_ASIDS || !npu->irq.hw_vectors ||
	    !info->clock_khz || qnpu_read(npu, NPU_REG_VA_BITS) != NPU_VA_BITS) {
		drm_err(&npu->drm, "impossible capabilities: %u cores, %u queues, %u asids, %u vectors, %u kHz\n",
			info->cores, info->queues, npu->asids, npu->irq.hw_vectors,
			info->clock_khz);
		return -ENODEV;
	}
	if (info->ddr_bytes && !(info->features & NPU_FEATURE_SYSTEM_TABLES)) {
		drm_err(&npu->drm, "the card has no page tables in system memory\n");
		return -ENODEV;
	}
	if (info->ddr_bytes > npu->ddr_mapped) {
		drm_err(&npu->drm, "%llu bytes of DDR do not fit the %llu that can be seen\n",
			info->ddr_bytes, (u64)npu->ddr_mapped);
		return -ENODEV;
	}

	return 0;
}

static int qnpu_device_try_reset(struct qnpu_device *npu)
{
	u32 value;
	int ret;

	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_RESET);
	ret = readl_poll_timeout(npu->regs + NPU_REG_CTRL, value,
				 !(value & NPU_CTRL_RESET) || qnpu_is_gone(value),
				 QNPU_RESET_POLL_US, QNPU_RESET_TIMEOUT_US);
	if (!ret && !qnpu_is_gone(value))
		ret = readl_poll_timeout(npu->regs + NPU_REG_STATUS, value,
					 value & NPU_STATUS_READY,
					 QNPU_RESET_POLL_US, QNPU_RESET_TIMEOUT_US);

	return ret ?: qnpu_is_gone(value) ? -EIO : 0;
}

/*
 * Reset the device and wait until it is ready. It is then idle, with its state lost, and accesses
 * no memory. The DDR keeps its contents.
 */
int qnpu_device_reset(struct qnpu_device *npu)
{
	u32 try;
	int ret;

	for (try = 1; try <= QNPU_RESET_TRIES; try++) {
		/* Without power an access may be an error of the bus. */
		ret = qnpu_bus_power_on(npu);
		if (ret) {
			drm_err(&npu->drm, "it cannot be switched on: error %d\n", ret);
			break;
		}
		ret = qnpu_device_try_reset(npu);
		if (ret != -ETIMEDOUT)
			break;
		drm_warn(&npu->drm, "reset timed out, try %u of %u\n", try, QNPU_RESET_TRIES);
		/* Power, clock and reset lines may still work. */
		if (npu->bus->power_on)
			qnpu_bus_cut_off(npu);
	}

	return ret;
}

/* Start a device that was reset. */
void qnpu_device_start(struct qnpu_device *npu)
{
	qnpu_write64(npu, NPU_REG_ASID_TABLE, npu->mmu.asid_table | NPU_ASID_TABLE_SYSTEM);
	qnpu_write(npu, NPU_REG_EVENT_ENABLE,
		   NPU_EVENT_STATUS_INVALIDATED | NPU_EVENT_STATUS_QUEUE_ERROR |
		   NPU_EVENT_STATUS_FATAL | NPU_EVENT_STATUS_ECC | NPU_EVENT_STATUS_THERMAL);
	qnpu_write(npu, NPU_REG_CLOCK_SELECT, READ_ONCE(npu->clock.state));
	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);
}

/* Block DMA, even if the device ignores resets. */
void qnpu_device_stop(struct qnpu_device *npu)
{
	if (qnpu_device_try_reset(npu))
		drm_warn(&npu->drm, "reset failed\n");
	qnpu_bus_cut_off(npu);
}

/* Sample the device's and the system's clock together. The device is entered. */
void qnpu_device_time(struct qnpu_device *npu, struct drm_npu_time_info *info)
{
	unsigned long flags;
	u64 before, after;

	local_irq_save(flags);
	before = ktime_get_ns();
	info->card_ns = qnpu_read64(npu, NPU_REG_TIME_NS);
	after = ktime_get_ns();
	local_irq_restore(flags);

	info->window_ns = after - before;
	info->monotonic_ns = before + info->window_ns / 2;
}

static u64 qnpu_device_busy_ns(struct qnpu_device *npu, u32 core)
{
	return npu->kept.busy_ns[core] + qnpu_read64(npu, NPU_BUSY_REG(core, NPU_BUSY_NS));
}

/*
 * Get the busy time of each core since the previous call, in ns. @last: the previous sample,
 * updated; the device is entered. A reset zeroes the counters. Returns the elapsed time, ns.
 */
u64 qnpu_device_busy(struct qnpu_device *npu, struct qnpu_busy *last, u64 *busy)
{
	u64 now = qnpu_read64(npu, NPU_REG_TIME_NS), passed = now - last->card_ns;
	u32 core;

	last->card_ns = now;
	for (core = 0; core < npu->info.cores; core++) {
		now = qnpu_device_busy_ns(npu, core);
		busy[core] = now - (now >= last->busy_ns[core] ? last->busy_ns[core] : 0);
		busy[core] = min(busy[core], passed);
		last->busy_ns[core] = now;
	}

	return passed;
}

/* Read sensors and counters. The device is entered. */
void qnpu_device_status(struct qnpu_device *npu, struct drm_npu_status_info *info)
{
	const struct drm_npu_status_info *kept = &npu->kept;
	u32 core;

	BUILD_BUG_ON(DRM_NPU_MAX_CORES != NPU_MAX_CORES);

	memset(info, 0, sizeof(*info));
	info->temperature_mc = (s32)qnpu_read(npu, NPU_REG_TEMP_MC);
	info->power_mw = qnpu_read(npu, NPU_REG_POWER_MW);
	info->voltage_mv = qnpu_read(npu, NPU_REG_VOLTAGE_MV);
	info->clock_khz = qnpu_read(npu, NPU_REG_CUR_CLOCK_KHZ);
	info->ecc_corrected = kept->ecc_corrected + qnpu_read(npu, NPU_REG_ECC_CORRECTED);
	info->ecc_uncorrected = kept->ecc_uncorrected + qnpu_read(npu, NPU_REG_ECC_UNCORRECTED);
	info->resets = READ_ONCE(npu->resets);
	info->losses = READ_ONCE(npu->losses);
	info->core_busy = qnpu_read(npu, NPU_REG_CORE_BUSY);
	info->fan_rpm = qnpu_read(npu, NPU_REG_FAN_RPM);
	info->core_resets = atomic_read(&npu->counters.core_resets);
	info->aborted_jobs = atomic_read(&npu->counters.aborted_jobs);
	info->thermal_events = atomic_read(&npu->counters.thermal_events);
	info->card_ns = qnpu_read64(npu, NPU_REG_TIME_NS);

	for (core = 0; core < npu->info.cores; core++) {
		info->busy_cycles[core] =
			kept->busy_cycles[core] +
			qnpu_read64(npu, NPU_CORE_REG(core, NPU_CORE_BUSY_CYCLES));
		info->jobs[core] = kept->jobs[core] +
				   qnpu_read64(npu, NPU_CORE_REG(core, NPU_CORE_JOBS));
		info->busy_ns[core] = qnpu_device_busy_ns(npu, core);
	}
}
