// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watchdog and recovery. The watchdog checks the first job of a queue. A stuck job is aborted, then
 * its cores are reset, then the device. All other failures lead to a device reset by event_work:
 * jobs on a core end with -ECANCELED, the others are submitted again. A device that ignores the
 * reset is wedged: it is cut off from the bus, and all jobs end with -ENODEV.
 */
#include <linux/delay.h>
#include <linux/dma-fence.h>
#include <linux/iopoll.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>

#include <drm/drm_file.h>
#include <drm/drm_print.h>

#include "qnpu_coredump.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_job.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"
#include "qnpu_trace.h"

/* Time to abort a job or to reset a core: one bounded step of a command, on a busy host. */
#define QNPU_STOP_TIMEOUT	(2 * HZ)

/* Consecutive checks without progress; one is not enough if the host was preempted. */
#define QNPU_MAX_STALLS		2

/* Device resets for one job that does not start, before the queue is failed. */
#define QNPU_MAX_JOB_RESETS	2

/* Time for all jobs before system sleep, or for a job on a core before suspend or reset. */
#define QNPU_DRAIN_TIMEOUT	(10 * HZ)
#define QNPU_SLEEP_TIMEOUT_US	(10 * USEC_PER_SEC)
#define QNPU_RESET_TIMEOUT_US	(50 * USEC_PER_MSEC)

/* Time for a repair of the bus, whose failure is not reported. */
#define QNPU_REPAIR_TIMEOUT	(30 * HZ)
/* Time for a reset by the PCI core, which waits up to a minute for the device. */
#define QNPU_RESET_TIMEOUT	(120 * HZ)

static unsigned int qnpu_job_limit_ms = 10000;
module_param_named(job_limit_ms, qnpu_job_limit_ms, uint, 0644);
MODULE_PARM_DESC(job_limit_ms, "time that even a job that makes progress may run, 0: no limit");

/* Watchdog */

/* Returns true if the job on @cores has made progress. */
static bool qnpu_recover_moved(struct qnpu_ctx_job *job, u32 cores)
{
	struct qnpu_device *npu = job->ctx->npu;
	struct qnpu_watch *watch = &job->watch;
	unsigned long mask = cores;
	unsigned int core;
	u64 progress = 0;
	bool moved;

	for_each_set_bit(core, &mask, npu->info.cores)
		progress += qnpu_read64(npu, NPU_CORE_REG(core, NPU_CORE_PROGRESS));
	moved = progress != watch->progress;
	watch->progress = progress;
	if (!watch->running) {
		watch->running = true;
		watch->since = jiffies;
		moved = true;
	}
	watch->stalls = moved ? 0 : watch->stalls + 1;

	return watch->stalls < QNPU_MAX_STALLS;
}

/* Wait for the job with a timeout; polls, because its interrupt may be lost. */
static bool qnpu_recover_wait(struct qnpu_ctx_job *job)
{
	unsigned long end = jiffies + QNPU_STOP_TIMEOUT;

	while (!dma_fence_is_signaled(job->fence)) {
		if (time_after(jiffies, end))
			return false;
		fsleep(USEC_PER_MSEC);
		qnpu_hw_queue_process(&job->ctx->queue);
	}

	return true;
}

/* Abort a job; if that fails, reset its cores, then the device. */
static void qnpu_recover_kill(struct qnpu_ctx_job *job, u32 cores, u32 cause)
{
	struct qnpu_device *npu = job->ctx->npu;

	WRITE_ONCE(job->killed, cause);
	trace_qnpu_job_abort(job, cores);
	atomic_inc(&npu->counters.aborted_jobs);
	mutex_lock(&npu->hw_lock);
	qnpu_coredump_kill(job, "watchdog");
	if (qnpu_hw_queue_is_attached(&job->ctx->queue))
		qnpu_hw_queue_abort(&job->ctx->queue, job->seqno);
	mutex_unlock(&npu->hw_lock);
	if (qnpu_recover_wait(job))
		return;

	drm_warn(&npu->drm, "job %llu: abort timed out, resetting cores %#x\n", job->seqno, cores);
	trace_qnpu_core_reset(job, cores);
	atomic_inc(&npu->counters.core_resets);
	qnpu_write(npu, NPU_REG_CORE_RESET, cores);
	if (!qnpu_recover_wait(job))
		qnpu_recover_request(npu, "cores do not reset");
}

/* A job that does not start on idle cores is lost. A device reset resubmits it, a few times. */
static void qnpu_recover_not_begun(struct qnpu_ctx_job *job)
{
	struct qnpu_device *npu = job->ctx->npu;
	struct qnpu_watch *watch = &job->watch;

	qnpu_hw_queue_check_phase(&job->ctx->queue);
	watch->stalls = qnpu_read(npu, NPU_REG_CORE_BUSY) ? 0 : watch->stalls + 1;
	if (watch->stalls < QNPU_MAX_STALLS)
		return;

	watch->stalls = 0;
	if (watch->resets++ >= QNPU_MAX_JOB_RESETS)
		qnpu_hw_queue_set_error(&job->ctx->queue, -EIO);
	qnpu_recover_request(npu, "the idle device does not start a job");
}

/* The device is entered, and the caller holds a reference to the job. */
static void qnpu_recover_look(struct qnpu_ctx_job *job)
{
	struct qnpu_hw_queue *queue = &job->ctx->queue;
	struct qnpu_device *npu = job->ctx->npu;
	u32 cores, limit;
	bool moved;

	/* See qnpu_recover_pulse_work(). */
	if (qnpu_is_gone(qnpu_read(npu, NPU_REG_ID)))
		return;
	qnpu_irq_look(npu);
	if (qnpu_hw_queue_process(queue))
		drm_dbg(&npu->drm, "a completion interrupt was lost\n");
	if (dma_fence_is_signaled(job->fence) || job->skip_error ||
	    !qnpu_hw_queue_is_attached(queue))
		return;

	cores = qnpu_hw_queue_cores(queue);
	if (!cores) {
		qnpu_recover_not_begun(job);
		return;
	}
	moved = qnpu_recover_moved(job, cores);
	limit = READ_ONCE(qnpu_job_limit_ms);
	if (moved &&
	    !(limit && time_after(jiffies, job->watch.since + msecs_to_jiffies(limit))))
		return;

	drm_warn(&npu->drm, "queue %u, job %llu: %s on cores %#x, aborting it\n", queue->index,
		 job->seqno, moved ? "longer than job_limit_ms" : "no progress", cores);
	qnpu_recover_kill(job, cores, moved ? DRM_NPU_CAUSE_LIMIT : DRM_NPU_CAUSE_STALL);
}

/* The watchdog: check the first job of a queue once it is there for ctx->timeout. */
void qnpu_recover_watch_work(struct work_struct *work)
{
	struct qnpu_ctx *ctx = container_of(to_delayed_work(work), struct qnpu_ctx, watch_work);
	unsigned long since, now = jiffies, next = ctx->timeout;
	struct qnpu_ctx_job *job;
	bool cookie;
	int idx;

	job = qnpu_hw_queue_watched_job(&ctx->queue, &since);
	if (!job)
		return;

	cookie = dma_fence_begin_signalling();
	if (time_before(now, since + ctx->timeout)) {
		next = since + ctx->timeout - now;
	} else if (qnpu_device_try_enter(ctx->npu, &idx)) {
		qnpu_recover_look(job);
		qnpu_device_exit(ctx->npu, idx);
	}
	dma_fence_end_signalling(cookie);
	qnpu_job_put(job);
	queue_delayed_work(ctx->npu->timeout_wq, &ctx->watch_work, next);
}

/* Device reset */

/* Excludes all other accesses to the device and its memory. */
DEFINE_LOCK_GUARD_1(qnpu_reset, struct qnpu_device,
		    down_write(&_T->lock->reset_lock); mutex_lock(&_T->lock->hw_lock),
		    mutex_unlock(&_T->lock->hw_lock); up_write(&_T->lock->reset_lock))

static void qnpu_recover_suspend_queues(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue;
	u32 i = 0;

	while ((queue = qnpu_hw_queue_next(npu, &i)))
		qnpu_hw_queue_suspend(queue);
}

/* DMA is blocked: present and future jobs and calls end with -ENODEV. */
static void qnpu_recover_fail_all(struct qnpu_device *npu)
{
	struct qnpu_ctx *ctx;

	lockdep_assert_held_write(&npu->reset_lock);
	lockdep_assert_held(&npu->hw_lock);

	WRITE_ONCE(npu->wedged, true);
	list_for_each_entry(ctx, &npu->ctxs, link)
		qnpu_hw_queue_fail_all(&ctx->queue, -ENODEV);
	qnpu_mmu_forget(npu);
}

static void qnpu_recover_give_up(struct qnpu_device *npu, const char *why)
{
	lockdep_assert_held_write(&npu->reset_lock);

	if (npu->wedged)
		return;
	drm_err(&npu->drm, "%s: the device is lost\n", why);
	trace_qnpu_device_lost(npu);
	qnpu_recover_suspend_queues(npu);
	qnpu_bus_cut_off(npu);
	/* Before calls fail; page faults wait for reset_lock. */
	qnpu_mem_unmap_cpu(npu);
	qnpu_recover_fail_all(npu);
	schedule_work(&npu->lost_work);
}

/* Send the uevent of a loss or return; drm_dev_wedged_event() does not support accel nodes. */
void qnpu_recover_lost_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(work, struct qnpu_device, lost_work);
	bool lost = READ_ONCE(npu->wedged);
	char *env[2] = { lost ? "WEDGED=rebind,bus-reset" : "WEDGED=none" };

	kobject_uevent_env(&npu->drm.accel->kdev->kobj, KOBJ_CHANGE, env);
}

/* Drain the cores. No job starts meanwhile. */
static int qnpu_recover_rest(struct qnpu_device *npu, u32 timeout_us)
{
	struct qnpu_hw_queue *queue;
	u32 status, i = 0;
	int ret = 0;

	qnpu_write(npu, NPU_REG_CTRL, 0);
	while (!ret && (queue = qnpu_hw_queue_next(npu, &i)))
		ret = read_poll_timeout(qnpu_hw_queue_status, status,
					!(status & NPU_QUEUE_STATUS_RUNNING), USEC_PER_MSEC,
					timeout_us, false, queue);

	return ret;
}

/* Suspend all queues. The arbiter is off, so it is certain which jobs have started. */
static void qnpu_recover_begin(struct qnpu_device *npu, u32 cause)
{
	struct drm_npu_status_info kept = {};

	lockdep_assert_held_write(&npu->reset_lock);

	trace_qnpu_device_reset(npu);
	WRITE_ONCE(npu->reset_cause, cause);
	if (cause != DRM_NPU_CAUSE_SLEEP)
		WRITE_ONCE(npu->resets, npu->resets + 1);
	qnpu_write(npu, NPU_REG_CTRL, 0);
	qnpu_recover_suspend_queues(npu);
	if (cause == DRM_NPU_CAUSE_SLEEP && npu->runtime_pm)
		qnpu_device_status(npu, &kept);
	npu->kept = kept;
}

/* A lost device has answered a reset. Earlier contexts stay dead, except the driver's own. */
static void qnpu_recover_take_back(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue;
	u32 i = 0;

	drm_warn(&npu->drm, "the device is back%s\n", npu->ddr ? ", with empty memory" : "");
	qnpu_mem_clear_card(npu);
	WRITE_ONCE(npu->resets, npu->resets + 1);
	WRITE_ONCE(npu->losses, npu->losses + 1);
	memset(&npu->kept, 0, sizeof(npu->kept));
	while ((queue = qnpu_hw_queue_next(npu, &i))) {
		if (queue->ctx->internal)
			qnpu_hw_queue_set_error(queue, READ_ONCE(queue->ctx->dead));
	}
	WRITE_ONCE(npu->wedged, false);
	qnpu_mem_unmap_cpu(npu); /* zaps dummy pages; see qnpu_gem_fault_dummy() */
	schedule_work(&npu->lost_work);
}

/* Reset the device, and resume all queues. */
static void qnpu_recover_finish(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue;
	u32 i = 0;

	lockdep_assert_held_write(&npu->reset_lock);

	npu->reset_wanted = false;
	if (qnpu_device_reset(npu)) {
		qnpu_recover_give_up(npu, "it does not come back from a reset");
		return;
	}

	if (npu->wedged)
		qnpu_recover_take_back(npu);
	qnpu_bus_let_on(npu);
	qnpu_device_start(npu);
	qnpu_mmu_forget(npu);
	while ((queue = qnpu_hw_queue_next(npu, &i)))
		qnpu_hw_queue_resume(queue);
	trace_qnpu_device_restart(npu);
}

/* Request a device reset. The caller has entered, or holds hw_lock with the device up. */
void qnpu_recover_request(struct qnpu_device *npu, const char *why)
{
	drm_warn(&npu->drm, "%s: resetting the device\n", why);
	WRITE_ONCE(npu->reset_wanted, true);
	queue_work(npu->timeout_wq, &npu->event_work);
}

static bool qnpu_recover_needs_reset(struct qnpu_device *npu)
{
	u32 i = 0, status = qnpu_read(npu, NPU_REG_STATUS);
	struct qnpu_hw_queue *queue;
	bool reset = READ_ONCE(npu->reset_wanted);

	if (qnpu_is_gone(status))
		return reset;
	while ((queue = qnpu_hw_queue_next(npu, &i)))
		reset |= qnpu_hw_queue_has_failed(queue);

	return reset || status & NPU_STATUS_FATAL;
}

/* Reset the device after a request or a failure. */
void qnpu_recover_event_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(work, struct qnpu_device, event_work);
	bool cookie = dma_fence_begin_signalling();

	/* An offline or suspended device is reset before it works again. */
	scoped_guard(qnpu_reset, npu) {
		if (qnpu_device_is_up(npu) && qnpu_recover_needs_reset(npu)) {
			qnpu_recover_rest(npu, QNPU_RESET_TIMEOUT_US);
			qnpu_recover_begin(npu, DRM_NPU_CAUSE_RECOVERY);
			qnpu_recover_finish(npu);
		}
	}
	dma_fence_end_signalling(cookie);
}

/* Loss, suspend, and resets by the bus */

static void qnpu_recover_set_online(struct qnpu_device *npu)
{
	WRITE_ONCE(npu->offline, false);
	WRITE_ONCE(npu->asleep, false);
	wake_up_all(&npu->online_wait);
	qnpu_attach_kick(npu);
}

/* Give up a device that does not come back. */
void qnpu_recover_lose(struct qnpu_device *npu, const char *why)
{
	guard(qnpu_reset)(npu);
	qnpu_recover_give_up(npu, why);
	qnpu_recover_set_online(npu);
}

/* End all jobs and waits, for which drm_dev_unplug() would wait. pulse_work is stopped. */
void qnpu_recover_end(struct qnpu_device *npu)
{
	guard(qnpu_reset)(npu);
	/* A lost device is cut off already, and may have no power. */
	if (!npu->wedged) {
		qnpu_recover_suspend_queues(npu);
		qnpu_device_stop(npu);
	}
	qnpu_recover_fail_all(npu);
	qnpu_recover_set_online(npu);
}

static bool qnpu_recover_has_jobs(struct qnpu_device *npu)
{
	struct qnpu_ctx *ctx;

	guard(mutex)(&npu->hw_lock);
	list_for_each_entry(ctx, &npu->ctxs, link) {
		if (qnpu_ctx_is_busy(ctx))
			return true;
	}

	return false;
}

/* Reset the device if it is up, and cancel all jobs. */
static void qnpu_recover_cancel(struct qnpu_device *npu)
{
	struct qnpu_ctx *ctx;

	guard(qnpu_reset)(npu);
	if (!qnpu_device_is_up(npu))
		return;
	qnpu_recover_begin(npu, DRM_NPU_CAUSE_SLEEP);
	if (!qnpu_device_reset(npu)) {
		list_for_each_entry(ctx, &npu->ctxs, link) {
			if (qnpu_ctx_is_busy(ctx))
				qnpu_hw_queue_cancel(&ctx->queue, DRM_NPU_CAUSE_SLEEP);
		}
	}
	qnpu_recover_finish(npu);
}

/*
 * End all jobs before system sleep. There are no submissions. Other drivers may wait for the fences
 * before they suspend, so after a timeout jobs are cancelled, also waiting ones.
 */
void qnpu_recover_drain(struct qnpu_device *npu)
{
	unsigned long end = jiffies + QNPU_DRAIN_TIMEOUT;

	while (qnpu_recover_has_jobs(npu) && time_before(jiffies, end))
		msleep(20);
	if (!qnpu_recover_has_jobs(npu) || qnpu_pm_get(npu))
		return;
	drm_warn(&npu->drm, "jobs do not finish, cancelling them before system sleep\n");
	qnpu_recover_cancel(npu);
	qnpu_pm_put(npu);
}

/* Quiesce the device before it loses its state. No other thread uses it. */
void qnpu_recover_sleep(struct qnpu_device *npu)
{
	guard(qnpu_reset)(npu);
	if (!npu->wedged) {
		if (qnpu_recover_rest(npu, QNPU_SLEEP_TIMEOUT_US))
			drm_warn(&npu->drm, "a job does not finish, it is lost by the suspend\n");
		qnpu_mem_unmap_cpu(npu);
		qnpu_recover_begin(npu, DRM_NPU_CAUSE_SLEEP);
		qnpu_device_reset(npu);
		qnpu_bus_cut_off(npu);
		qnpu_mmu_forget(npu);
	}
	WRITE_ONCE(npu->asleep, true);
}

/* The bus has failed or will reset the device: no DMA until it wakes. */
void qnpu_recover_offline(struct qnpu_device *npu, u32 cause)
{
	guard(qnpu_reset)(npu);
	if (!npu->wedged) {
		qnpu_mem_unmap_cpu(npu);
		qnpu_recover_begin(npu, cause);
		qnpu_bus_cut_off(npu);
	}
	npu->offline_until = jiffies + (cause == DRM_NPU_CAUSE_BUS ? QNPU_REPAIR_TIMEOUT :
								     QNPU_RESET_TIMEOUT);
	WRITE_ONCE(npu->offline, true);
}

/* Give up a device that has been offline for too long. */
static void qnpu_recover_check_offline(struct qnpu_device *npu)
{
	guard(qnpu_reset)(npu);
	if (!npu->offline || time_before(jiffies, npu->offline_until))
		return;
	if (!npu->wedged)
		qnpu_recover_give_up(npu, "the bus is not repaired");
	qnpu_recover_set_online(npu);
}

static bool qnpu_recover_answers(struct qnpu_device *npu)
{
	return !qnpu_bus_power_on(npu) && !qnpu_is_gone(qnpu_read(npu, NPU_REG_ID)) &&
	       !(qnpu_read(npu, NPU_REG_CTRL) & NPU_CTRL_RESET);
}

/* Resume after suspend or offline; a lost device that answers again is recovered. */
void qnpu_recover_wake(struct qnpu_device *npu)
{
	guard(qnpu_reset)(npu);
	if (npu->wedged ? qnpu_recover_answers(npu) : npu->offline || npu->asleep)
		qnpu_recover_finish(npu);
	if (npu->wedged)
		qnpu_bus_cut_off(npu);
	qnpu_recover_set_online(npu);
}

/* The quiescent device, without resident buffers, has lost its memory with its power. */
void qnpu_recover_empty(struct qnpu_device *npu)
{
	guard(qnpu_reset)(npu);
	if (!npu->wedged && npu->ddr)
		qnpu_mem_clear_card(npu);
}

/* Check a device that may have died, or whose interrupts may be lost. */
static void qnpu_recover_check(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue;
	u32 i = 0;
	int idx;

	if (!qnpu_device_try_enter(npu, &idx))
		return;
	if (qnpu_is_gone(qnpu_read(npu, NPU_REG_ID))) {
		qnpu_recover_request(npu, "it does not answer");
	} else {
		qnpu_irq_look(npu);
		mutex_lock(&npu->hw_lock);
		while ((queue = qnpu_hw_queue_next(npu, &i)))
			qnpu_hw_queue_process(queue);
		mutex_unlock(&npu->hw_lock);
		if (npu->runtime_pm)
			qnpu_attach_trim(npu);
	}
	qnpu_device_exit(npu, idx);
}

/* Check the device once a second, unless it is suspended. */
void qnpu_recover_pulse_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(to_delayed_work(work), struct qnpu_device,
					       pulse_work);
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return;
	if (READ_ONCE(npu->offline)) {
		qnpu_recover_check_offline(npu);
	} else if (!READ_ONCE(npu->wedged)) {
		qnpu_recover_check(npu);
	} else if (!qnpu_pm_get(npu)) {
		qnpu_recover_wake(npu);
		qnpu_pm_put(npu);
	}
	drm_dev_exit(idx);

	if (READ_ONCE(npu->wedged) || !qnpu_pm_is_asleep(npu))
		qnpu_recover_pulse(npu);
}

/* Schedule a check in a second, since a failing device may report nothing. */
void qnpu_recover_pulse(struct qnpu_device *npu)
{
	queue_delayed_work(system_freezable_wq, &npu->pulse_work, HZ);
}
