// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watchdog and recovery.
 *
 * The watchdog looks at the first job of a queue when it is that for a while, so that the time
 * counts, too, that the job waits for a core. A job that has not begun, or that makes progress, is
 * left alone. One that is stuck is killed with the smallest means that helps: abort the job, reset
 * its core, reset the card. Jobs of others that a reset of the card costs end with -ECANCELED;
 * those that had not begun are submitted again.
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

/* What an order to stop may take: one bounded step of a command, on a busy host. */
#define QNPU_STOP_TIMEOUT	(2 * HZ)

/*
 * Looks in a row without progress before a job counts as stuck. One is not enough: the host may
 * have been elsewhere.
 */
#define QNPU_MAX_STALLS		2

/* Looks in a row at an idle card that does not begin a job, before the card is reset. */
#define QNPU_MAX_IDLE		2

/* Resets of the card for one job that it does not begin, before the queue is given up. */
#define QNPU_MAX_JOB_RESETS	2

/* Completions that cannot be true, before the card is reset. */
#define QNPU_MAX_BAD_COMPLETIONS	4

/* Time that all jobs get before the system sleeps. */
#define QNPU_DRAIN_TIMEOUT	(10 * HZ)
/* Time that a job on a core gets when the device goes to sleep. */
#define QNPU_SLEEP_TIMEOUT_US	(10 * USEC_PER_SEC)

/* How long a repair of the bus may take; nobody tells when it has failed. */
#define QNPU_REPAIR_TIMEOUT	(30 * HZ)

/* How often a card that says nothing is looked at. */
#define QNPU_PULSE		HZ

static unsigned int qnpu_job_limit_ms = 600000;
module_param_named(job_limit_ms, qnpu_job_limit_ms, uint, 0644);
MODULE_PARM_DESC(job_limit_ms, "time that even a job that makes progress may run, 0: no limit");

/** struct qnpu_core_view - a job on its cores, as registers show it */
struct qnpu_core_view {
	/** @cores: mask of the cores that it runs on */
	u32 cores;

	/** @commands: commands of the job that are retired, of all its cores */
	u64 commands;

	/** @progress: sum of its cores' PROGRESS */
	u64 progress;
};

/* Find the cores that a job runs on. */
static bool qnpu_recover_find(struct qnpu_ctx_job *job, struct qnpu_core_view *view)
{
	struct qnpu_device *npu = job->ctx->npu;
	u32 busy = qnpu_read(npu, NPU_REG_CORE_BUSY);
	u32 core;

	memset(view, 0, sizeof(*view));
	for (core = 0; core < npu->info.cores; core++) {
		if (!(busy & BIT(core)) ||
		    qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE)) != job->ctx->queue.index ||
		    qnpu_read64(npu, NPU_CORE_REG(core, NPU_CORE_JOB_ID)) != job->seqno)
			continue;

		view->cores |= BIT(core);
		view->commands += (u64)qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_TIU_COMMAND)) +
				  qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_GDMA_COMMAND));
		view->progress += qnpu_read64(npu, NPU_CORE_REG(core, NPU_CORE_PROGRESS));
	}

	return view->cores;
}

/* Does a running job seem to move? */
static bool qnpu_recover_moved(struct qnpu_ctx_job *job, const struct qnpu_core_view *view)
{
	struct qnpu_watch *watch = &job->watch;
	bool moved = view->progress != watch->progress;

	watch->progress = view->progress;
	if (!watch->running) {
		watch->running = true;
		watch->since = jiffies;
		return true;
	}
	watch->stalls = moved ? 0 : watch->stalls + 1;

	return watch->stalls < QNPU_MAX_STALLS;
}

static bool qnpu_recover_over_limit(const struct qnpu_ctx_job *job)
{
	u32 limit = READ_ONCE(qnpu_job_limit_ms);

	return limit && time_after(jiffies, job->watch.since + msecs_to_jiffies(limit));
}

/* Wait for the card to give a job back; interrupts may be lost, so look as well. */
static bool qnpu_recover_wait(struct qnpu_ctx_job *job)
{
	unsigned long end = jiffies + QNPU_STOP_TIMEOUT;

	do {
		qnpu_hw_queue_process(&job->ctx->queue);
		if (dma_fence_wait_timeout(job->fence, false, msecs_to_jiffies(10)) > 0)
			return true;
	} while (time_before(jiffies, end));

	return dma_fence_is_signaled(job->fence);
}

/* Abort a job, or reset its cores. Returns true if only a reset of the card is left. */
static bool qnpu_recover_kill(struct qnpu_ctx_job *job, const struct qnpu_core_view *view,
			      u32 cause)
{
	struct qnpu_device *npu = job->ctx->npu;

	WRITE_ONCE(job->killed, cause);
	mutex_lock(&npu->hw_lock);
	qnpu_coredump_kill(job, "watchdog");
	mutex_unlock(&npu->hw_lock);

	trace_qnpu_job_abort(job, view->cores);
	atomic_inc(&npu->counters.aborted_jobs);
	qnpu_hw_queue_abort(&job->ctx->queue, job->seqno);
	if (qnpu_recover_wait(job))
		return false;

	drm_warn(&npu->drm, "cores %#x do not abort job %llu: resetting them\n", view->cores,
		 job->seqno);
	trace_qnpu_core_reset(job, view->cores);
	atomic_inc(&npu->counters.core_resets);
	qnpu_write(npu, NPU_REG_CORE_RESET, view->cores);
	if (qnpu_recover_wait(job))
		return false;

	drm_warn(&npu->drm, "cores %#x do not reset: resetting the card\n", view->cores);

	return true;
}

/*
 * A job that has not begun waits for its turn. If no core has anything to do, it waits in vain: the
 * card has lost it, and is reset. That does not cost the job anything, but it is not done for ever.
 * Returns true if the card has to be reset.
 */
static bool qnpu_recover_lost(struct qnpu_ctx_job *job)
{
	struct qnpu_device *npu = job->ctx->npu;
	struct qnpu_watch *watch = &job->watch;
	bool reset;

	if (qnpu_hw_queue_is_behind(&job->ctx->queue)) {
		queue_work(npu->timeout_wq, &npu->event_work);
		return false;
	}
	if (qnpu_read(npu, NPU_REG_CORE_BUSY)) {
		watch->idle = 0;
		return false;
	}
	if (++watch->idle < QNPU_MAX_IDLE)
		return false;

	watch->idle = 0;
	drm_warn(&npu->drm, "queue %u, job %llu: the card is idle and does not begin it\n",
		 job->ctx->queue.index, job->seqno);
	if (watch->resets++ < QNPU_MAX_JOB_RESETS)
		return true;

	mutex_lock(&npu->hw_lock);
	reset = qnpu_hw_queue_fail(&job->ctx->queue, -EIO);
	mutex_unlock(&npu->hw_lock);

	return reset;
}

/*
 * The device is entered, and the caller has a reference to the job. Returns true if the card has to
 * be reset.
 */
static bool qnpu_recover_look(struct qnpu_ctx_job *job)
{
	struct qnpu_device *npu = job->ctx->npu;
	struct qnpu_core_view view;
	bool moved;

	/* One that has died is noticed by qnpu_recover_pulse_work(). */
	if (qnpu_is_gone(qnpu_read(npu, NPU_REG_ID)))
		return false;
	qnpu_irq_look(npu);
	if (qnpu_hw_queue_process(&job->ctx->queue))
		drm_dbg(&npu->drm, "a completion interrupt was lost\n");
	if (dma_fence_is_signaled(job->fence) || job->skip_error)
		return false;

	/* It waits for a queue pair. */
	if (!qnpu_hw_queue_is_attached(&job->ctx->queue))
		return false;
	if (!qnpu_recover_find(job, &view))
		return qnpu_recover_lost(job);
	moved = qnpu_recover_moved(job, &view);
	if (moved && !qnpu_recover_over_limit(job))
		return false;

	drm_warn(&npu->drm, "queue %u, job %llu: %s on cores %#x after %llu commands, aborting it\n",
		 job->ctx->queue.index, job->seqno,
		 moved ? "longer than job_limit_ms" : "no progress", view.cores, view.commands);

	return qnpu_recover_kill(job, &view,
				 moved ? DRM_NPU_CAUSE_LIMIT : DRM_NPU_CAUSE_STALL);
}

static void qnpu_recover_watch(struct qnpu_ctx_job *job)
{
	struct qnpu_device *npu = job->ctx->npu;
	u32 resets = READ_ONCE(npu->resets);
	bool reset = false;
	int idx;

	/* During a reset there is nothing to look at, and the next look is soon. */
	if (qnpu_device_try_enter(npu, &idx)) {
		reset = qnpu_recover_look(job);
		qnpu_device_exit(npu, idx);
	}
	if (reset)
		qnpu_recover_device(npu, resets);
}

/**
 * qnpu_recover_watch_work - look at the first job of a queue, if it is that for long
 * @work: the context's watch_work
 *
 * Whatever is done about it, the job stays where it is: it is finished as any other.
 */
void qnpu_recover_watch_work(struct work_struct *work)
{
	struct qnpu_ctx *ctx = container_of(to_delayed_work(work), struct qnpu_ctx, watch_work);
	unsigned long since, now = jiffies, next = ctx->timeout;
	struct qnpu_ctx_job *job;
	bool cookie;

	job = qnpu_hw_queue_watched_job(&ctx->queue, &since);
	if (!job)
		return;

	cookie = dma_fence_begin_signalling();
	if (time_before(now, since + ctx->timeout))
		next = since + ctx->timeout - now;
	else
		qnpu_recover_watch(job);
	dma_fence_end_signalling(cookie);
	qnpu_job_put(job);
	queue_delayed_work(ctx->npu->timeout_wq, &ctx->watch_work, next);
}

/* Device reset */

/* Nobody else touches the card, nor its memory, until qnpu_recover_unlock(). */
static void qnpu_recover_lock(struct qnpu_device *npu)
{
	down_write(&npu->reset_lock);
	mutex_lock(&npu->hw_lock);
}

static void qnpu_recover_unlock(struct qnpu_device *npu)
{
	mutex_unlock(&npu->hw_lock);
	up_write(&npu->reset_lock);
}

/* The card does not reach memory any more: jobs and calls, now and in future, end with -ENODEV. */
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

/* Nothing helps any more. */
static void qnpu_recover_give_up(struct qnpu_device *npu, const char *why)
{
	u32 i;

	lockdep_assert_held_write(&npu->reset_lock);
	lockdep_assert_held(&npu->hw_lock);

	if (npu->wedged)
		return;
	drm_err(&npu->drm, "%s: the card is lost\n", why);

	trace_qnpu_device_lost(npu);
	/* Nobody rings its doorbells when it has no power. */
	for (i = 0; i < npu->info.queues; i++) {
		if (npu->queues[i])
			qnpu_hw_queue_leave(npu->queues[i]);
	}
	qnpu_bus_cut_off(npu);
	/* Before anybody can know that the card is lost; faults wait for the reset_lock. */
	qnpu_mem_unmap_cpu(npu);
	qnpu_recover_fail_all(npu);
	schedule_work(&npu->lost_work);
}

/**
 * qnpu_recover_lost_work - tell user space that the card is lost, or has come back
 * @work: the device's lost_work
 *
 * As drm_dev_wedged_event() would, which knows no accel nodes.
 */
void qnpu_recover_lost_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(work, struct qnpu_device, lost_work);
	bool lost = READ_ONCE(npu->wedged);
	char *env[2] = { lost ? "WEDGED=rebind,bus-reset" : "WEDGED=none" };

	kobject_uevent_env(&npu->drm.accel->kdev->kobj, KOBJ_CHANGE, env);
}

/* A card whose identity reads as ones has died, or was pulled. */
static void qnpu_recover_lose_dead(struct qnpu_device *npu)
{
	qnpu_recover_lock(npu);
	/* Not while its bus is being repaired. */
	if (!npu->offline && qnpu_is_gone(qnpu_read(npu, NPU_REG_ID)))
		qnpu_recover_give_up(npu, "the card does not answer");
	qnpu_recover_unlock(npu);
}

/*
 * Leave the card alone, and remember which queues have a job on a core: what they wrote so far is
 * not known, so these jobs are lost. No job begins any more before that is asked.
 */
static void qnpu_recover_begin(struct qnpu_device *npu, u32 cause)
{
	struct qnpu_hw_queue *queue;
	u32 i;

	lockdep_assert_held(&npu->hw_lock);

	lockdep_assert_held_write(&npu->reset_lock);

	trace_qnpu_device_reset(npu);
	WRITE_ONCE(npu->reset_cause, cause);
	qnpu_write(npu, NPU_REG_CTRL, 0);
	/* What an earlier one has found that was not finished stays. */
	for (i = 0; i < npu->info.queues; i++) {
		queue = npu->queues[i];
		if (queue && qnpu_hw_queue_suspend(queue))
			__set_bit(i, npu->running);
	}
}

/*
 * A lost card answers a reset. The contents of its memory are unknown, so all of it is zeroed.
 * Contexts of before stay dead, except the driver's own.
 */
static void qnpu_recover_take_back(struct qnpu_device *npu)
{
	u32 i;

	lockdep_assert_held_write(&npu->reset_lock);

	drm_warn(&npu->drm, "the card is back%s\n", npu->ddr ? ", with empty memory" : "");
	qnpu_mem_clear_card(npu);
	WRITE_ONCE(npu->losses, npu->losses + 1);
	bitmap_zero(npu->running, NPU_MAX_QUEUES);
	for (i = 0; i < npu->info.queues; i++) {
		if (npu->queues[i] && npu->queues[i]->ctx->internal)
			qnpu_hw_queue_reopen(npu->queues[i]);
	}
	qnpu_bus_let_on(npu);
	WRITE_ONCE(npu->wedged, false);
	qnpu_mem_unmap_cpu(npu); /* pages of nobody; see qnpu_gem_fault_nobody() */
	schedule_work(&npu->lost_work);
}

static void qnpu_recover_finish(struct qnpu_device *npu)
{
	u32 i;
	int ret;

	lockdep_assert_held(&npu->hw_lock);

	ret = qnpu_device_reset(npu);
	if (!ret && npu->wedged)
		qnpu_recover_take_back(npu);
	npu->bad_completions = 0;
	if (!ret)
		qnpu_device_start(npu);
	else
		qnpu_recover_give_up(npu, "it does not come back from a reset");
	qnpu_mmu_forget(npu);

	for (i = 0; i < npu->info.queues && !ret; i++) {
		if (npu->queues[i])
			qnpu_hw_queue_resume(npu->queues[i], test_bit(i, npu->running));
	}
	if (!ret)
		bitmap_zero(npu->running, NPU_MAX_QUEUES);
	if (!ret)
		trace_qnpu_device_restart(npu);
}

static void qnpu_recover_reset(struct qnpu_device *npu)
{
	drm_warn(&npu->drm, "device reset\n");
	qnpu_recover_begin(npu, DRM_NPU_CAUSE_RECOVERY);
	memset(&npu->kept, 0, sizeof(npu->kept));
	WRITE_ONCE(npu->resets, npu->resets + 1);
	qnpu_recover_finish(npu);
}

/**
 * qnpu_recover_reset_prepare - the PCI core is about to reset the card
 * @npu: device; locked until qnpu_recover_reset_done(), since the card does not even decode its
 *	memory meanwhile: who maps it, writes page tables or zeroes waits
 */
void qnpu_recover_reset_prepare(struct qnpu_device *npu)
{
	qnpu_recover_lock(npu);
	qnpu_mem_unmap_cpu(npu);
	qnpu_recover_begin(npu, DRM_NPU_CAUSE_RESET);
	qnpu_irq_disable(npu);
}

/**
 * qnpu_recover_reset_done - the PCI core has reset the card
 * @npu: device
 */
void qnpu_recover_reset_done(struct qnpu_device *npu)
{
	qnpu_irq_enable(npu);
	WRITE_ONCE(npu->resets, npu->resets + 1);
	qnpu_recover_finish(npu);
	qnpu_recover_unlock(npu);
}

static void qnpu_recover_set_online(struct qnpu_device *npu)
{
	WRITE_ONCE(npu->offline, false);
	WRITE_ONCE(npu->asleep, false);
	wake_up_all(&npu->online_wait);
	qnpu_attach_kick(npu);
}

/**
 * qnpu_recover_lose - the card will not come back
 * @npu: device
 * @why: for the log
 */
void qnpu_recover_lose(struct qnpu_device *npu, const char *why)
{
	qnpu_recover_lock(npu);
	qnpu_recover_give_up(npu, why);
	qnpu_recover_set_online(npu);
	qnpu_recover_unlock(npu);
}

/**
 * qnpu_recover_end - the driver lets go of the card: whatever waits for it ends
 * @npu: device, about to be unplugged, its pulse_work cancelled
 *
 * drm_dev_unplug() waits for everybody inside of drm_dev_enter(). Some of these wait for jobs, and
 * others to get in for the repair of the bus: nobody would see to either of them from then on.
 */
void qnpu_recover_end(struct qnpu_device *npu)
{
	qnpu_recover_lock(npu);
	/* One that is lost is cut off already, and may have no power. */
	if (!npu->wedged)
		qnpu_device_stop(npu);
	qnpu_recover_fail_all(npu);
	qnpu_recover_set_online(npu);
	qnpu_recover_unlock(npu);
}

static bool qnpu_recover_has_jobs(struct qnpu_device *npu)
{
	struct qnpu_ctx *ctx;
	bool any = false;

	mutex_lock(&npu->hw_lock);
	list_for_each_entry(ctx, &npu->ctxs, link)
		any = any || qnpu_hw_queue_has_jobs(&ctx->queue);
	mutex_unlock(&npu->hw_lock);

	return any;
}

/* Returns true if the card has to be reset. */
static bool qnpu_recover_cancel(struct qnpu_device *npu)
{
	struct qnpu_ctx *ctx;
	bool reset = false;

	mutex_lock(&npu->hw_lock);
	list_for_each_entry(ctx, &npu->ctxs, link) {
		if (qnpu_hw_queue_has_jobs(&ctx->queue))
			reset |= !!qnpu_hw_queue_cancel(&ctx->queue, DRM_NPU_CAUSE_SLEEP);
	}
	mutex_unlock(&npu->hw_lock);

	return reset;
}

/**
 * qnpu_recover_drain - end all jobs before the system sleeps
 * @npu: device without further submissions
 *
 * Other drivers may wait for fences of jobs before they sleep, so none depends on the end of the
 * sleep. Jobs get some seconds; then they are cancelled, also those that wait for fences of others.
 */
void qnpu_recover_drain(struct qnpu_device *npu)
{
	unsigned long end = jiffies + QNPU_DRAIN_TIMEOUT;
	u32 resets;
	bool reset;
	int idx;

	while (qnpu_recover_has_jobs(npu) && time_before(jiffies, end))
		msleep(20);
	if (!qnpu_recover_has_jobs(npu) || !qnpu_device_enter_online(npu, &idx))
		return;
	drm_warn(&npu->drm, "jobs do not end: they are cancelled before the system sleeps\n");
	resets = READ_ONCE(npu->resets);
	reset = qnpu_recover_cancel(npu);
	qnpu_device_exit(npu, idx);
	if (reset)
		qnpu_recover_device(npu, resets);
}

/**
 * qnpu_recover_empty - the card has lost its memory while it had no power
 * @npu: device at rest, without buffers on the card
 */
void qnpu_recover_empty(struct qnpu_device *npu)
{
	qnpu_recover_lock(npu);
	if (!npu->wedged && npu->ddr)
		qnpu_mem_clear_card(npu);
	qnpu_recover_unlock(npu);
}

/* Wait until no queue has a job on a core; nothing begins meanwhile. */
static int qnpu_recover_rest(struct qnpu_device *npu)
{
	u32 i, status;
	int ret = 0;

	qnpu_write(npu, NPU_REG_CTRL, 0);
	for (i = 0; i < npu->info.queues && !ret; i++) {
		if (npu->queues[i])
			ret = read_poll_timeout(qnpu_hw_queue_status, status,
						!(status & NPU_QUEUE_STATUS_RUNNING),
						USEC_PER_MSEC, QNPU_SLEEP_TIMEOUT_US, false,
						npu->queues[i]);
	}

	return ret;
}

/**
 * qnpu_recover_sleep - bring the card to rest before it loses its state
 * @npu: device; nobody else is at work on it
 *
 * Jobs that are on a core are waited for, but not for ever: no user keeps the system awake. What
 * the card is asked to forget it has forgotten.
 */
void qnpu_recover_sleep(struct qnpu_device *npu)
{
	struct drm_npu_status_info kept;

	qnpu_recover_lock(npu);
	if (!npu->wedged) {
		if (qnpu_recover_rest(npu))
			drm_warn(&npu->drm, "a job does not end: it is lost in the sleep\n");
		qnpu_mem_unmap_cpu(npu);
		qnpu_recover_begin(npu, DRM_NPU_CAUSE_SLEEP);
		if (npu->runtime_pm) {
			qnpu_device_status(npu, &kept);
			npu->kept = kept;
		}
		qnpu_device_reset(npu);
		qnpu_mmu_forget(npu);
	}
	WRITE_ONCE(npu->asleep, true);
	qnpu_recover_unlock(npu);
}

/**
 * qnpu_recover_offline - the bus has failed, and the card with it
 * @npu: device
 *
 * It makes no access to memory until qnpu_recover_wake().
 */
void qnpu_recover_offline(struct qnpu_device *npu)
{
	qnpu_recover_lock(npu);
	if (!npu->wedged) {
		qnpu_mem_unmap_cpu(npu);
		qnpu_recover_begin(npu, DRM_NPU_CAUSE_BUS);
		npu->offline_since = jiffies;
		WRITE_ONCE(npu->offline, true);
		qnpu_bus_cut_off(npu);
	}
	qnpu_recover_unlock(npu);
}

/**
 * qnpu_recover_wake - go on with a card that was at rest or offline
 * @npu: device
 * @reset: that was a reset, which cost jobs
 *
 * What has not begun is given to the card again.
 */
void qnpu_recover_wake(struct qnpu_device *npu, bool reset)
{
	qnpu_recover_lock(npu);
	if (!npu->wedged) {
		qnpu_bus_let_on(npu);
		if (reset)
			WRITE_ONCE(npu->resets, npu->resets + 1);
		qnpu_recover_finish(npu);
	}
	qnpu_recover_set_online(npu);
	qnpu_recover_unlock(npu);
}

/**
 * qnpu_recover_device - reset the card and put its queues to work again
 * @npu: device
 * @resets: count of resets that the caller saw before the failure; if there was one since, it
 *	is repaired; one that sleeps is
 */
void qnpu_recover_device(struct qnpu_device *npu, u32 resets)
{
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return;

	if (qnpu_pm_get_if_awake(npu)) {
		qnpu_recover_lock(npu);
		if (npu->resets == resets && !npu->wedged && !npu->offline)
			qnpu_recover_reset(npu);
		qnpu_recover_unlock(npu);
		qnpu_pm_put(npu);
	}

	drm_dev_exit(idx);
}

/*
 * A queue with a completion that cannot be true. No job begins while it is stopped and its
 * completions are sorted out, so that it is certain which jobs have run; then it goes on. Returns
 * true if the card has to be reset instead.
 */
static bool qnpu_recover_bad_completion(struct qnpu_device *npu, struct qnpu_hw_queue *queue)
{
	int ret;

	drm_err(&npu->drm, "queue %u: a completion that cannot be true\n", queue->index);
	qnpu_hw_queue_dump(queue, "a completion that cannot be true");

	WRITE_ONCE(npu->reset_cause, DRM_NPU_CAUSE_RECOVERY);
	qnpu_write(npu, NPU_REG_CTRL, 0);
	ret = qnpu_hw_queue_settle(queue);
	if (ret || ++npu->bad_completions >= QNPU_MAX_BAD_COMPLETIONS)
		return true;

	qnpu_hw_queue_resume(queue, false);
	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);

	return false;
}

static bool qnpu_recover_queue(struct qnpu_device *npu, struct qnpu_hw_queue *queue)
{
	u32 status;

	if (READ_ONCE(queue->distrusted))
		return qnpu_recover_bad_completion(npu, queue);

	status = qnpu_hw_queue_status(queue);
	if (qnpu_is_gone(status) || !(status & NPU_QUEUE_STATUS_ERROR))
		return false;
	drm_err(&npu->drm, "queue %u has stopped with an error\n", queue->index);

	return qnpu_hw_queue_fail(queue, -EIO);
}

static bool qnpu_recover_queues(struct qnpu_device *npu)
{
	bool reset = false;
	u32 i;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu->info.queues && !reset; i++) {
		if (npu->queues[i])
			reset = qnpu_recover_queue(npu, npu->queues[i]);
	}
	mutex_unlock(&npu->hw_lock);

	return reset;
}

static void qnpu_recover_process(struct qnpu_device *npu)
{
	u32 i;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu->info.queues; i++) {
		if (npu->queues[i])
			qnpu_hw_queue_process(npu->queues[i]);
	}
	mutex_unlock(&npu->hw_lock);
}

static bool qnpu_recover_answers(struct qnpu_device *npu)
{
	return !qnpu_bus_power_on(npu) && !qnpu_is_gone(qnpu_read(npu, NPU_REG_ID)) &&
	       !(qnpu_read(npu, NPU_REG_CTRL) & NPU_CTRL_RESET);
}

/* A lost card that answers again, and whose last reset is over, is taken back. */
static void qnpu_recover_retry(struct qnpu_device *npu)
{
	qnpu_recover_lock(npu);
	if (npu->wedged && qnpu_recover_answers(npu)) {
		WRITE_ONCE(npu->resets, npu->resets + 1);
		qnpu_recover_finish(npu);
	}
	/* It was switched on for a look. */
	if (npu->wedged)
		qnpu_bus_cut_off(npu);
	qnpu_recover_unlock(npu);
}

/* Look at a card that may have died, or whose interrupts may be lost. */
static void qnpu_recover_check(struct qnpu_device *npu)
{
	bool gone;
	int idx;

	if (!qnpu_device_enter_online(npu, &idx))
		return;
	gone = qnpu_is_gone(qnpu_read(npu, NPU_REG_ID));
	if (!gone) {
		qnpu_irq_look(npu);
		qnpu_recover_process(npu);
		if (npu->runtime_pm)
			qnpu_attach_trim(npu);
	}
	qnpu_device_exit(npu, idx);

	if (gone)
		qnpu_recover_lose_dead(npu);
}

/* One that is lost is woken for a look, one that sleeps is not. */
static void qnpu_recover_look_after(struct qnpu_device *npu)
{
	if (READ_ONCE(npu->wedged)) {
		if (qnpu_pm_get(npu))
			return;
		qnpu_recover_retry(npu);
	} else {
		if (!qnpu_pm_get_if_awake(npu))
			return;
		qnpu_recover_check(npu);
	}
	qnpu_pm_put(npu);
}

/**
 * qnpu_recover_pulse_work - look after the card once in a while, unless it sleeps
 * @work: the device's pulse_work
 */
void qnpu_recover_pulse_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(to_delayed_work(work), struct qnpu_device,
					       pulse_work);
	int idx;

	if (!drm_dev_enter(&npu->drm, &idx))
		return;
	if (READ_ONCE(npu->offline) &&
	    time_after(jiffies, npu->offline_since + QNPU_REPAIR_TIMEOUT))
		qnpu_recover_lose(npu, "the bus is not repaired");
	qnpu_recover_look_after(npu);
	drm_dev_exit(idx);

	if (READ_ONCE(npu->wedged) || !qnpu_pm_is_asleep(npu))
		qnpu_recover_pulse(npu);
}

/**
 * qnpu_recover_pulse - see to it that qnpu_recover_pulse_work() runs
 * @npu: device
 */
void qnpu_recover_pulse(struct qnpu_device *npu)
{
	queue_delayed_work(system_freezable_wq, &npu->pulse_work, QNPU_PULSE);
}

/**
 * qnpu_recover_event_work - see to a queue or a card that has stopped
 * @work: the device's event_work
 */
void qnpu_recover_event_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(work, struct qnpu_device, event_work);
	bool reset = false, cookie = dma_fence_begin_signalling();
	u32 resets = READ_ONCE(npu->resets);
	u32 status;
	int idx;

	if (qnpu_device_enter_awake(npu, &idx)) {
		status = qnpu_read(npu, NPU_REG_STATUS);
		if (!qnpu_is_gone(status))
			reset = status & NPU_STATUS_FATAL || qnpu_recover_queues(npu);
		qnpu_device_exit(npu, idx);
	}
	if (reset)
		qnpu_recover_device(npu, resets);
	dma_fence_end_signalling(cookie);
}
