// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watchdog and recovery.
 *
 * The scheduler's timer starts when a job is given to the card, so it also counts the time that the
 * job waits for a core. A job that has not begun, or that makes progress, is put back. One that
 * is stuck is killed with the smallest means that helps: abort the job, reset its core, reset the
 * card. Jobs of others that a reset of the card costs end with -ECANCELED; those that had not begun
 * are submitted again.
 */
#include <linux/iopoll.h>
#include <linux/jiffies.h>

#include <drm/drm_print.h>

#include "npu_coredump.h"
#include "npu_ctx.h"
#include "npu_device.h"
#include "npu_drv.h"
#include "npu_job.h"
#include "npu_recover.h"
#include "npu_trace.h"

/* What an order to stop may take: one bounded step of a command, on a busy host. */
#define NPU_STOP_TIMEOUT	(2 * HZ)

/*
 * Looks in a row without progress before a job counts as stuck. One is not enough: the host may
 * have been elsewhere.
 */
#define NPU_MAX_DOUBTS		2

/* Looks in a row at an idle card that does not begin a job, before the card is reset. */
#define NPU_MAX_IDLE		2

/* Resets of the card for one job that it does not begin, before the queue is given up. */
#define NPU_MAX_REVIVALS	2

/* Completions that cannot be true, before the card is reset: it has lost its mind. */
#define NPU_MAX_LIES		4

/* What a job on a core may take when the system goes to sleep. */
#define NPU_SLEEP_TIMEOUT_US	(10 * USEC_PER_SEC)

/* How long a repair of the bus may take; nobody tells when it has failed. */
#define NPU_REPAIR_TIMEOUT	(30 * HZ)

/* How often a card that says nothing is looked at. */
#define NPU_PULSE		HZ

static bool npu_recover_is_gone(struct npu_device *npu);

/** struct npu_core_view - a job on its cores, as registers show it */
struct npu_core_view {
	/** @cores: mask of the cores that it runs on */
	u32 cores;

	/** @commands: commands of the job that are retired, of all its cores */
	u64 commands;

	/** @progress: sum of its cores' PROGRESS */
	u64 progress;
};

/* Find the cores that a job runs on. */
static bool npu_recover_find(struct npu_kjob *job, struct npu_core_view *view)
{
	struct npu_device *npu = job->ctx->npu;
	u32 busy = npu_read(npu, NPU_REG_CORE_BUSY);
	u32 core;

	memset(view, 0, sizeof(*view));
	for (core = 0; core < npu->info.cores; core++) {
		if (!(busy & BIT(core)) ||
		    npu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE)) != job->ctx->queue.index ||
		    npu_read64(npu, NPU_CORE_REG(core, NPU_CORE_JOB_ID)) != job->seqno)
			continue;

		view->cores |= BIT(core);
		view->commands += (u64)npu_read(npu, NPU_CORE_REG(core, NPU_CORE_TIU_COMMAND)) +
				  npu_read(npu, NPU_CORE_REG(core, NPU_CORE_GDMA_COMMAND));
		view->progress += npu_read64(npu, NPU_CORE_REG(core, NPU_CORE_PROGRESS));
	}

	return view->cores;
}

/* Does a running job seem to move? */
static bool npu_recover_moved(struct npu_kjob *job, const struct npu_core_view *view)
{
	struct npu_watch *watch = &job->watch;
	bool moved = view->progress != watch->progress;

	watch->progress = view->progress;
	if (!watch->running) {
		watch->running = true;
		watch->since = jiffies;
		return true;
	}
	watch->doubts = moved ? 0 : watch->doubts + 1;

	return watch->doubts < NPU_MAX_DOUBTS;
}

static bool npu_recover_over_limit(const struct npu_kjob *job)
{
	u32 limit = READ_ONCE(npu_job_limit_ms);

	return limit && time_after(jiffies, job->watch.since + msecs_to_jiffies(limit));
}

/* Wait for the card to give a job back; interrupts may be lost, so look as well. */
static bool npu_recover_wait(struct npu_kjob *job)
{
	unsigned long end = jiffies + NPU_STOP_TIMEOUT;

	do {
		npu_hw_queue_process(&job->ctx->queue);
		if (dma_fence_wait_timeout(job->fence, false, msecs_to_jiffies(10)) > 0)
			return true;
	} while (time_before(jiffies, end));

	return dma_fence_is_signaled(job->fence);
}

static void npu_recover_kill(struct npu_kjob *job, const struct npu_core_view *view)
{
	struct npu_device *npu = job->ctx->npu;
	u32 resets = READ_ONCE(npu->resets);

	WRITE_ONCE(job->timed_out, true);
	mutex_lock(&npu->hw_lock);
	npu_coredump_kill(job, "watchdog");
	mutex_unlock(&npu->hw_lock);

	trace_npu_job_abort(job, view->cores);
	atomic_inc(&npu->counters.aborted_jobs);
	npu_hw_queue_abort(&job->ctx->queue, job->seqno);
	if (npu_recover_wait(job))
		return;

	drm_warn(&npu->drm, "cores %#x do not abort job %llu: resetting them\n", view->cores,
		 job->seqno);
	trace_npu_core_reset(job, view->cores);
	atomic_inc(&npu->counters.core_resets);
	npu_write(npu, NPU_REG_CORE_RESET, view->cores);
	if (npu_recover_wait(job))
		return;

	drm_warn(&npu->drm, "cores %#x do not reset: resetting the card\n", view->cores);
	npu_recover_device(npu, resets);
}

/*
 * A job that has not begun waits for its turn. If no core has anything to do, it waits in vain: the
 * card has lost it, and is reset. That does not cost the job anything, but it is not done for ever.
 */
static void npu_recover_lost(struct npu_kjob *job)
{
	struct npu_device *npu = job->ctx->npu;
	struct npu_watch *watch = &job->watch;

	if (npu_hw_queue_is_behind(&job->ctx->queue)) {
		queue_work(npu->timeout_wq, &npu->event_work);
		return;
	}
	if (npu_read(npu, NPU_REG_CORE_BUSY)) {
		watch->idle = 0;
		return;
	}
	if (++watch->idle < NPU_MAX_IDLE)
		return;

	watch->idle = 0;
	drm_warn(&npu->drm, "queue %u, job %llu: the card is idle and does not begin it\n",
		 job->ctx->queue.index, job->seqno);
	if (watch->revivals++ < NPU_MAX_REVIVALS) {
		npu_recover_device(npu, READ_ONCE(npu->resets));
	} else {
		mutex_lock(&npu->hw_lock);
		npu_hw_queue_fail(&job->ctx->queue, -EIO);
		mutex_unlock(&npu->hw_lock);
	}
}

/* The device is entered, the job is on nobody's list and cannot be freed. */
static void npu_recover_look(struct npu_kjob *job)
{
	struct npu_device *npu = job->ctx->npu;
	struct npu_core_view view;

	if (npu_recover_is_gone(npu))
		return;
	npu_irq_look(npu);
	if (npu_hw_queue_process(&job->ctx->queue))
		drm_dbg(&npu->drm, "a completion interrupt was lost\n");
	if (dma_fence_is_signaled(job->fence) || job->skip_error)
		return;

	if (!npu_recover_find(job, &view)) {
		npu_recover_lost(job);
		return;
	}
	if (npu_recover_moved(job, &view) && !npu_recover_over_limit(job))
		return;

	drm_warn(&npu->drm, "queue %u, job %llu: no end in sight on cores %#x, after %llu commands\n",
		 job->ctx->queue.index, job->seqno, view.cores, view.commands);
	npu_recover_kill(job, &view);
}

/**
 * npu_recover_timedout_job - the scheduler's timer has run out for a job
 * @base: first of the jobs that were given to the card
 *
 * Whatever is done about it, the job goes back: its fence says when it is finished.
 */
enum drm_gpu_sched_stat npu_recover_timedout_job(struct drm_sched_job *base)
{
	struct npu_kjob *job = to_npu_kjob(base);
	int idx;

	if (npu_device_enter(job->ctx->npu, &idx)) {
		npu_recover_look(job);
		npu_device_exit(idx);
	}

	return npu_sched_put_back(base, !READ_ONCE(job->ctx->sched_stopped));
}

/* Device reset */

/* Nothing helps any more: all jobs and calls, now and in future, end with -ENODEV. */
static void npu_recover_give_up(struct npu_device *npu, const char *why)
{
	u32 i;

	lockdep_assert_held(&npu->hw_lock);

	if (npu->wedged)
		return;
	drm_err(&npu->drm, "%s: the card is lost\n", why);

	WRITE_ONCE(npu->wedged, true);
	trace_npu_device_lost(npu);
	pci_clear_master(to_pci_dev(npu->drm.dev));
	for (i = 0; i < npu->info.queues; i++) {
		if (npu->queues[i])
			npu_hw_queue_fail_all(npu->queues[i], -ENODEV);
	}
	npu_mmu_forget(npu);
	schedule_work(&npu->lost_work);
}

/**
 * npu_recover_lost_work - tell user space that the card is lost
 * @work: the device's lost_work
 *
 * As drm_dev_wedged_event() would, which knows no accel nodes.
 */
void npu_recover_lost_work(struct work_struct *work)
{
	struct npu_device *npu = container_of(work, struct npu_device, lost_work);
	char *env[2] = { "WEDGED=rebind,bus-reset" };

	kobject_uevent_env(&npu->drm.accel->kdev->kobj, KOBJ_CHANGE, env);
}

/* A card whose identity reads as ones has died, or was pulled. Gives it up. */
static bool npu_recover_is_gone(struct npu_device *npu)
{
	if (!npu_is_gone(npu_read(npu, NPU_REG_ID)))
		return false;

	mutex_lock(&npu->hw_lock);
	/* Not while it is being reset, by us or by the PCI core. */
	if (!npu->offline && npu_is_gone(npu_read(npu, NPU_REG_ID)))
		npu_recover_give_up(npu, "the card does not answer");
	mutex_unlock(&npu->hw_lock);

	return true;
}

/*
 * Leave the card alone, and remember which queues have a job on a core: what they wrote so far is
 * not known, so these jobs are lost. No job begins any more before that is asked.
 */
static void npu_recover_begin(struct npu_device *npu)
{
	struct npu_hw_queue *queue;
	u32 i;

	lockdep_assert_held(&npu->hw_lock);

	trace_npu_device_reset(npu);
	npu_write(npu, NPU_REG_CTRL, 0);
	bitmap_zero(npu->running, NPU_MAX_QUEUES);
	for (i = 0; i < npu->info.queues; i++) {
		queue = npu->queues[i];
		if (queue && npu_hw_queue_suspend(queue))
			__set_bit(i, npu->running);
	}
}

static void npu_recover_finish(struct npu_device *npu)
{
	u32 i;
	int ret;

	lockdep_assert_held(&npu->hw_lock);

	ret = npu->wedged ? -ENODEV : npu_device_reset(npu);
	npu->lies = 0;
	if (!ret)
		npu_device_start(npu);
	else
		npu_recover_give_up(npu, "it does not come back from a reset");
	npu_mmu_forget(npu);

	for (i = 0; i < npu->info.queues && !ret; i++) {
		if (npu->queues[i])
			npu_hw_queue_resume(npu->queues[i], test_bit(i, npu->running));
	}
	if (!ret)
		trace_npu_device_restart(npu);
}

static void npu_recover_reset(struct npu_device *npu)
{
	drm_warn(&npu->drm, "device reset\n");
	npu_recover_begin(npu);
	WRITE_ONCE(npu->resets, npu->resets + 1);
	npu_recover_finish(npu);
}

/**
 * npu_recover_reset_prepare - the PCI core is about to reset the card
 * @npu: device; its hw_lock is held until npu_recover_reset_done()
 */
void npu_recover_reset_prepare(struct npu_device *npu)
{
	mutex_lock(&npu->hw_lock);
	npu_recover_begin(npu);
}

/**
 * npu_recover_reset_done - the PCI core has reset the card
 * @npu: device
 */
void npu_recover_reset_done(struct npu_device *npu)
{
	WRITE_ONCE(npu->resets, npu->resets + 1);
	npu_recover_finish(npu);
	mutex_unlock(&npu->hw_lock);
}

/**
 * npu_recover_lose - the card will not come back
 * @npu: device
 * @why: for the log
 */
void npu_recover_lose(struct npu_device *npu, const char *why)
{
	mutex_lock(&npu->hw_lock);
	npu->offline = false;
	npu_recover_give_up(npu, why);
	mutex_unlock(&npu->hw_lock);
}

/* Wait until no queue has a job on a core; nothing begins meanwhile. */
static int npu_recover_rest(struct npu_device *npu)
{
	u32 i, status;
	int ret = 0;

	npu_write(npu, NPU_REG_CTRL, 0);
	for (i = 0; i < npu->info.queues && !ret; i++) {
		if (npu->queues[i])
			ret = read_poll_timeout(npu_hw_queue_status, status,
						!(status & NPU_QUEUE_STATUS_RUNNING),
						USEC_PER_MSEC, NPU_SLEEP_TIMEOUT_US, false,
						npu->queues[i]);
	}
	if (ret)
		npu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);

	return ret;
}

/**
 * npu_recover_sleep - bring the card to rest before it loses its state
 * @npu: device; nobody else is at work on it
 *
 * Jobs that are on a core are waited for. -EBUSY: one takes too long; then all goes on.
 */
int npu_recover_sleep(struct npu_device *npu)
{
	int ret = 0;

	mutex_lock(&npu->hw_lock);
	if (!npu->wedged && npu_recover_rest(npu)) {
		drm_warn(&npu->drm, "a job does not end: the card stays awake\n");
		ret = -EBUSY;
	} else if (!npu->wedged) {
		npu_recover_begin(npu);
		npu_device_reset(npu);
	}
	mutex_unlock(&npu->hw_lock);

	return ret;
}

/**
 * npu_recover_offline - the bus has failed, and the card with it
 * @npu: device
 *
 * It makes no access to memory until npu_recover_wake().
 */
void npu_recover_offline(struct npu_device *npu)
{
	mutex_lock(&npu->hw_lock);
	if (!npu->wedged) {
		npu_recover_begin(npu);
		npu->offline = true;
		npu->offline_since = jiffies;
		pci_clear_master(to_pci_dev(npu->drm.dev));
	}
	mutex_unlock(&npu->hw_lock);
}

/**
 * npu_recover_wake - go on with a card that was at rest or offline
 * @npu: device
 * @reset: that was a reset, which cost jobs
 *
 * What has not begun is given to the card again.
 */
void npu_recover_wake(struct npu_device *npu, bool reset)
{
	mutex_lock(&npu->hw_lock);
	npu->offline = false;
	if (!npu->wedged) {
		pci_set_master(to_pci_dev(npu->drm.dev));
		if (reset)
			WRITE_ONCE(npu->resets, npu->resets + 1);
		npu_recover_finish(npu);
	}
	mutex_unlock(&npu->hw_lock);
}

/**
 * npu_recover_device - reset the card and put its queues to work again
 * @npu: device
 * @resets: count of resets that the caller saw before the trouble; if there was one since, the
 *	trouble is over
 */
void npu_recover_device(struct npu_device *npu, u32 resets)
{
	int idx;

	if (!npu_device_enter(npu, &idx))
		return;

	mutex_lock(&npu->hw_lock);
	if (npu->resets == resets && !npu->wedged && !npu->offline)
		npu_recover_reset(npu);
	mutex_unlock(&npu->hw_lock);

	npu_device_exit(idx);
}

/*
 * A queue with a completion that cannot be true. No job begins while it is stopped and its
 * completions are sorted out, so that it is certain which jobs have run; then it goes on.
 */
static void npu_recover_liar(struct npu_device *npu, struct npu_hw_queue *queue)
{
	int ret;

	drm_err(&npu->drm, "queue %u: a completion that cannot be true\n", queue->index);
	npu_hw_queue_dump(queue, "a completion that cannot be true");

	npu_write(npu, NPU_REG_CTRL, 0);
	ret = npu_hw_queue_settle(queue);
	if (ret || ++npu->lies >= NPU_MAX_LIES) {
		npu_recover_reset(npu);
		return;
	}
	npu_hw_queue_resume(queue, false);
	npu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);
}

static void npu_recover_queue(struct npu_device *npu, struct npu_hw_queue *queue)
{
	u32 status;

	if (READ_ONCE(queue->distrusted)) {
		npu_recover_liar(npu, queue);
		return;
	}

	status = npu_hw_queue_status(queue);
	if (npu_is_gone(status) || !(status & NPU_QUEUE_STATUS_ERROR))
		return;
	drm_err(&npu->drm, "queue %u has stopped with an error\n", queue->index);
	npu_hw_queue_fail(queue, -EIO);
}

static void npu_recover_queues(struct npu_device *npu)
{
	u32 i;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu->info.queues && !npu->wedged && !npu->offline; i++) {
		if (npu->queues[i])
			npu_recover_queue(npu, npu->queues[i]);
	}
	mutex_unlock(&npu->hw_lock);
}

static void npu_recover_process(struct npu_device *npu)
{
	u32 i;

	mutex_lock(&npu->hw_lock);
	if (npu->offline && time_after(jiffies, npu->offline_since + NPU_REPAIR_TIMEOUT))
		npu_recover_give_up(npu, "the bus is not repaired");
	for (i = 0; i < npu->info.queues; i++) {
		if (npu->queues[i])
			npu_hw_queue_process(npu->queues[i]);
	}
	mutex_unlock(&npu->hw_lock);
}

/**
 * npu_recover_pulse_work - look at a card that may have died, or whose interrupts may be lost
 * @work: the device's pulse_work
 */
void npu_recover_pulse_work(struct work_struct *work)
{
	struct npu_device *npu = container_of(to_delayed_work(work), struct npu_device, pulse_work);
	int idx;

	if (!npu_device_enter(npu, &idx))
		return;
	if (!npu_recover_is_gone(npu))
		npu_irq_look(npu);
	npu_recover_process(npu);
	npu_device_exit(idx);

	npu_recover_pulse(npu);
}

/**
 * npu_recover_pulse - see to it that npu_recover_pulse_work() runs
 * @npu: device
 */
void npu_recover_pulse(struct npu_device *npu)
{
	queue_delayed_work(system_freezable_wq, &npu->pulse_work, NPU_PULSE);
}

/**
 * npu_recover_event_work - see to a queue or a card that has stopped
 * @work: the device's event_work
 */
void npu_recover_event_work(struct work_struct *work)
{
	struct npu_device *npu = container_of(work, struct npu_device, event_work);
	u32 resets = READ_ONCE(npu->resets);
	u32 status;
	int idx;

	if (!npu_device_enter(npu, &idx))
		return;

	status = npu_read(npu, NPU_REG_STATUS);
	if (!npu_is_gone(status)) {
		if (status & NPU_STATUS_FATAL)
			npu_recover_device(npu, resets);
		else
			npu_recover_queues(npu);
	}

	npu_device_exit(idx);
}
