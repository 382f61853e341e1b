// SPDX-License-Identifier: GPL-2.0-only
/*
 * The card as a whole: identity, reset, start and stop, sensors.
 */
#include <linux/export.h>
#include <linux/iopoll.h>

#include <drm/drm_print.h>

#include "qnpu_device.h"
#include "qnpu_pm.h"

/*
 * A reset ends within one bounded step of a command; a software model on a busy host is slow. The
 * order is repeated, and only a card that ignores all of them is lost.
 */
#define QNPU_RESET_TIMEOUT_US	(5 * USEC_PER_SEC)
#define QNPU_RESET_TRIES	6
#define QNPU_RESET_POLL_US	1000

/**
 * qnpu_device_hold - keep the device bound
 * @npu: device
 * @idx: cookie for qnpu_device_release()
 *
 * For what belongs to the device but does not touch the card, like DMA mappings and contexts.
 * Memory may be allocated inside. Returns false when the card is gone or given up.
 */
bool qnpu_device_hold(struct qnpu_device *npu, int *idx)
{
	if (!drm_dev_enter(&npu->drm, idx))
		return false;

	if (READ_ONCE(npu->wedged)) {
		drm_dev_exit(*idx);
		return false;
	}

	return true;
}

void qnpu_device_release(int idx)
{
	drm_dev_exit(idx);
}

static bool qnpu_device_is_online(const struct qnpu_device *npu)
{
	return !READ_ONCE(npu->offline) && !READ_ONCE(npu->asleep);
}

/* With the lock: may the card be touched? Leaves if not. */
static bool qnpu_device_stay(struct qnpu_device *npu, int idx)
{
	if (!npu->wedged && qnpu_device_is_online(npu))
		return true;

	qnpu_device_exit(npu, idx);

	return false;
}

/* The device does not go, and is or gets awake. */
static bool qnpu_device_come_in(struct qnpu_device *npu, int *idx, bool wake)
{
	if (!drm_dev_enter(&npu->drm, idx))
		return false;
	if (wake ? !qnpu_pm_get(npu) : qnpu_pm_get_if_awake(npu))
		return true;
	drm_dev_exit(*idx);

	return false;
}

/**
 * qnpu_device_enter - begin to touch the card or its memory
 * @npu: device
 * @idx: cookie for qnpu_device_exit()
 *
 * Wakes it, waits for the end of a reset, and until the bus is repaired, so that no access is lost.
 * In between nothing may be allocated, no fence may be waited for, and nobody may enter again.
 *
 * Returns false when the card is gone or given up: then nothing may be read or written.
 */
bool qnpu_device_enter(struct qnpu_device *npu, int *idx)
{
	while (!qnpu_device_enter_online(npu, idx)) {
		/* One that cannot be woken is as good as gone; it has no bus to be repaired. */
		if (drm_dev_is_unplugged(&npu->drm) || READ_ONCE(npu->wedged) || npu->runtime_pm)
			return false;
		wait_event(npu->online_wait, qnpu_device_is_online(npu));
	}

	return true;
}

/* With the lock, or not (@ret): -ENODEV or -EAGAIN if the card may not be touched. */
static int qnpu_device_locked(struct qnpu_device *npu, int idx, int ret)
{
	if (ret) {
		qnpu_pm_put(npu);
		drm_dev_exit(idx);
		return ret;
	}
	if (qnpu_device_stay(npu, idx))
		return 0;

	return qnpu_device_is_online(npu) ? -ENODEV : -EAGAIN;
}

/**
 * qnpu_device_enter_killable - qnpu_device_enter() for page faults
 * @npu: device
 * @idx: cookie for qnpu_device_exit()
 *
 * Returns -EINTR when a fatal signal is pending, -ENODEV when the card is gone or given up.
 */
int qnpu_device_enter_killable(struct qnpu_device *npu, int *idx)
{
	int ret;

	for (;;) {
		if (!qnpu_device_come_in(npu, idx, true))
			return -ENODEV;
		ret = qnpu_device_locked(npu, *idx, down_read_killable(&npu->reset_lock));
		if (ret != -EAGAIN)
			return ret;
		ret = wait_event_killable(npu->online_wait, qnpu_device_is_online(npu));
		if (ret)
			return -EINTR;
	}
}

/**
 * qnpu_device_enter_online - the same for what can be left undone
 * @npu: device
 * @idx: cookie for qnpu_device_exit()
 *
 * Wakes it, and waits for the end of a reset. Returns false also while the bus is broken.
 */
bool qnpu_device_enter_online(struct qnpu_device *npu, int *idx)
{
	if (!qnpu_device_come_in(npu, idx, true))
		return false;
	down_read(&npu->reset_lock);

	return qnpu_device_stay(npu, *idx);
}
EXPORT_SYMBOL_GPL(qnpu_device_enter_online);

/**
 * qnpu_device_enter_awake - the same for what a card that sleeps need not be woken for
 * @npu: device
 * @idx: cookie for qnpu_device_exit()
 *
 * Returns false also while the bus is broken, and while it sleeps.
 */
bool qnpu_device_enter_awake(struct qnpu_device *npu, int *idx)
{
	if (!qnpu_device_come_in(npu, idx, false))
		return false;
	down_read(&npu->reset_lock);

	return qnpu_device_stay(npu, *idx);
}

/**
 * qnpu_device_try_enter - the same without waiting
 * @npu: device
 * @idx: cookie for qnpu_device_exit()
 *
 * Returns false also during a reset, and while it sleeps.
 */
bool qnpu_device_try_enter(struct qnpu_device *npu, int *idx)
{
	if (!qnpu_device_come_in(npu, idx, false))
		return false;
	if (!down_read_trylock(&npu->reset_lock)) {
		qnpu_pm_put(npu);
		drm_dev_exit(*idx);
		return false;
	}

	return qnpu_device_stay(npu, *idx);
}

void qnpu_device_exit(struct qnpu_device *npu, int idx)
{
	up_read(&npu->reset_lock);
	qnpu_pm_put(npu);
	drm_dev_exit(idx);
}
EXPORT_SYMBOL_GPL(qnpu_device_exit);

static void qnpu_device_read_info(struct qnpu_device *npu)
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
	info->mac_ic = qnpu_read(npu, NPU_REG_MAC_IC);
	info->mac_oc = qnpu_read(npu, NPU_REG_MAC_OC);
	info->mac_pixels = qnpu_read(npu, NPU_REG_MAC_PIXELS);
	info->lmem_bw = qnpu_read(npu, NPU_REG_LMEM_BW);
	info->ew_lanes = qnpu_read(npu, NPU_REG_EW_LANES);
	info->tiu_fixed = qnpu_read(npu, NPU_REG_TIU_FIXED);
	info->gdma_fixed = qnpu_read(npu, NPU_REG_GDMA_FIXED);
	info->ddr_latency = qnpu_read(npu, NPU_REG_DDR_LATENCY);
	info->ddr_bw = qnpu_read(npu, NPU_REG_DDR_BW);
	info->rate_16 = qnpu_read(npu, NPU_REG_RATE_16);
	info->rate_8 = qnpu_read(npu, NPU_REG_RATE_8);

	npu->asids = qnpu_read(npu, NPU_REG_ASIDS);
	npu->max_ring_log2 = qnpu_read(npu, NPU_REG_MAX_RING_LOG2);
	npu->irq.hw_vectors = qnpu_read(npu, NPU_REG_VECTORS);
}

/**
 * qnpu_device_identify - read and check the identity registers
 * @npu: device
 *
 * The values size arrays and loops of the driver, so none is believed without a look.
 */
int qnpu_device_identify(struct qnpu_device *npu)
{
	const struct drm_npu_dev_info *info = &npu->info;

	qnpu_device_read_info(npu);

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
	u32 ctrl, status;
	int ret;

	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_RESET);
	ret = read_poll_timeout(qnpu_read, ctrl, !(ctrl & NPU_CTRL_RESET) || qnpu_is_gone(ctrl),
				QNPU_RESET_POLL_US, QNPU_RESET_TIMEOUT_US, false, npu,
				NPU_REG_CTRL);
	if (ret)
		return -ETIMEDOUT;
	if (qnpu_is_gone(ctrl))
		return -EIO;

	ret = read_poll_timeout(qnpu_read, status, status & NPU_STATUS_READY, QNPU_RESET_POLL_US,
				QNPU_RESET_TIMEOUT_US, false, npu, NPU_REG_STATUS);
	if (ret)
		return -ETIMEDOUT;

	return qnpu_is_gone(status) ? -EIO : 0;
}

/* What does not obey the order may obey those who hold its power, clock and reset. */
static void qnpu_device_power_cycle(struct qnpu_device *npu)
{
	if (!npu->bus->power_on)
		return;
	qnpu_bus_cut_off(npu);
	if (qnpu_bus_power_on(npu))
		drm_err(&npu->drm, "it cannot be switched on again\n");
}

/**
 * qnpu_device_reset - reset the card and wait until it is ready
 * @npu: device
 *
 * Afterwards the card does nothing, knows nothing and accesses no memory. The DDR keeps its
 * contents.
 */
int qnpu_device_reset(struct qnpu_device *npu)
{
	u32 tries = 0;
	int ret;

	do {
		ret = qnpu_device_try_reset(npu);
		if (ret == -ETIMEDOUT) {
			drm_warn(&npu->drm, "no answer to a reset, try %u of %u\n", tries + 1,
				 QNPU_RESET_TRIES);
			qnpu_device_power_cycle(npu);
		}
	} while (ret == -ETIMEDOUT && ++tries < QNPU_RESET_TRIES);

	return ret;
}

/**
 * qnpu_device_start - bring a card that was reset to work
 * @npu: device
 */
void qnpu_device_start(struct qnpu_device *npu)
{
	qnpu_write64(npu, NPU_REG_ASID_TABLE, npu->mmu.asid_table | NPU_ASID_TABLE_SYSTEM);
	qnpu_write(npu, NPU_REG_EVENT_ENABLE,
		   NPU_EVENT_STATUS_INVALIDATED | NPU_EVENT_STATUS_QUEUE_ERROR |
		   NPU_EVENT_STATUS_FATAL | NPU_EVENT_STATUS_ECC | NPU_EVENT_STATUS_THERMAL);
	qnpu_write(npu, NPU_REG_CLOCK_SELECT, READ_ONCE(npu->clock.state));
	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);
}

/**
 * qnpu_device_stop - make sure that the card does not touch memory any more
 * @npu: device
 */
void qnpu_device_stop(struct qnpu_device *npu)
{
	if (qnpu_device_try_reset(npu))
		drm_warn(&npu->drm, "the card does not answer a reset\n");

	/* What does not obey a reset is cut off from the bus. */
	qnpu_bus_cut_off(npu);
}

/**
 * qnpu_device_time - look at the card's clock and at the system's
 * @npu: device, entered
 * @info: answer
 */
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

/**
 * qnpu_device_keep_counters - remember what the card has counted, which it is about to forget
 * @npu: device, its reset_lock held for writing
 */
void qnpu_device_keep_counters(struct qnpu_device *npu)
{
	struct drm_npu_status_info info;
	struct qnpu_kept *kept = &npu->kept;
	u32 core;

	lockdep_assert_held_write(&npu->reset_lock);

	qnpu_device_status(npu, &info);
	kept->ecc_corrected = info.ecc_corrected;
	kept->ecc_uncorrected = info.ecc_uncorrected;
	for (core = 0; core < npu->info.cores; core++) {
		kept->busy_cycles[core] = info.busy_cycles[core];
		kept->jobs[core] = info.jobs[core];
		kept->busy_ns[core] = info.busy_ns[core];
	}
}

static u64 qnpu_device_busy_ns(struct qnpu_device *npu, u32 core)
{
	return npu->kept.busy_ns[core] + qnpu_read64(npu, NPU_BUSY_REG(core, NPU_BUSY_NS));
}

/**
 * qnpu_device_busy - how long the cores had jobs since the last call
 * @npu: device, entered
 * @last: what they had counted then
 * @busy: answer, ns of each core
 *
 * A reset starts the counters again. Returns the time that has passed, ns.
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

/**
 * qnpu_device_status - read sensors and counters
 * @npu: device, entered
 * @info: answer
 */
void qnpu_device_status(struct qnpu_device *npu, struct drm_npu_status_info *info)
{
	const struct qnpu_kept *kept = &npu->kept;
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
