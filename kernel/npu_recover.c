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
#include <linux/jiffies.h>

#include <drm/drm_print.h>

#include "npu_ctx.h"
#include "npu_device.h"
#include "npu_drv.h"
#include "npu_job.h"
#include "npu_recover.h"
#include "npu_trace.h"

/* What an order to stop may take: one bounded step of a command, on a busy host. */
#define NPU_STOP_TIMEOUT	(2 * HZ)

/*
 * Doubts before a job counts as stuck. Where other cores make progress, this one may do so, too, in
 * the middle of a long command: that raises hardly any. A look at which nothing moves raises more,
 * but once is not enough: the host may have been elsewhere.
 */
#define NPU_MAX_DOUBTS		24
#define NPU_DOUBTS_OTHERS	1
#define NPU_DOUBTS_NOBODY	12

/* Looks in a row at an idle card that does not begin a job, before the card is reset. */
#define NPU_MAX_IDLE		2

/* Resets of the card for one job that it does not begin, before the queue is given up. */
#define NPU_MAX_REVIVALS	2

/** struct npu_core_view - a job on its cores, as registers show it */
struct npu_core_view {
	/** @cores: mask of its cores */
	u32 cores;

	/** @others: other cores are busy, too */
	bool others;

	/** @commands: commands of the job that are retired */
	u64 commands;

	/** @progress: the card's PROGRESS */
	u64 progress;
};

/* Find the cores that a job runs on: while one works, others may wait for it. */
static bool npu_recover_find(struct npu_kjob *job, struct npu_core_view *view)
{
	struct npu_device *npu = job->ctx->npu;
	u32 busy = npu_read(npu, NPU_REG_CORE_BUSY);
	u32 core;

	memset(view, 0, sizeof(*view));
	if (npu_is_gone(busy))
		return false;

	for (core = 0; core < npu->info.cores; core++) {
		if (!(busy & BIT(core)) ||
		    npu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE)) != job->ctx->queue.index ||
		    npu_read64(npu, NPU_CORE_REG(core, NPU_CORE_JOB_ID)) != job->seqno)
			continue;

		view->cores |= BIT(core);
		view->commands += npu_read(npu, NPU_CORE_REG(core, NPU_CORE_TIU_COMMAND));
		view->commands += npu_read(npu, NPU_CORE_REG(core, NPU_CORE_GDMA_COMMAND));
	}
	view->others = busy & ~view->cores;
	view->progress = npu_read64(npu, NPU_REG_PROGRESS);

	return view->cores;
}

/* Does a running job seem to move? */
static bool npu_recover_moved(struct npu_kjob *job, const struct npu_core_view *view)
{
	struct npu_watch *watch = &job->watch;
	bool own = view->commands != watch->commands;
	bool any = view->progress != watch->progress;

	watch->commands = view->commands;
	watch->progress = view->progress;

	if (!watch->running) {
		watch->running = true;
		watch->since = jiffies;
		return true;
	}

	/* PROGRESS is the sum of all cores: steps inside a long command are only certain alone. */
	if (own || (any && !view->others))
		watch->doubts = 0;
	else
		watch->doubts += any ? NPU_DOUBTS_OTHERS : NPU_DOUBTS_NOBODY;

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

	if (npu_hw_queue_process(&job->ctx->queue))
		drm_warn_once(&npu->drm, "a completion interrupt was lost\n");
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

static void npu_recover_give_up(struct npu_device *npu)
{
	u32 i;

	drm_err(&npu->drm, "the card does not come back from a reset: given up\n");

	WRITE_ONCE(npu->wedged, true);
	trace_npu_device_lost(npu);
	pci_clear_master(to_pci_dev(npu->drm.dev));
	for (i = 0; i < npu->info.queues; i++) {
		if (npu->queues[i])
			npu_hw_queue_fail_all(npu->queues[i], -ENODEV);
	}
}

/*
 * Leave the card alone, and remember which queues have a job on a core: what they wrote so far is
 * not known, so these jobs are lost.
 */
static void npu_recover_begin(struct npu_device *npu)
{
	struct npu_hw_queue *queue;
	u32 i;

	lockdep_assert_held(&npu->hw_lock);

	trace_npu_device_reset(npu);
	bitmap_zero(npu->running, NPU_MAX_QUEUES);
	for (i = 0; i < npu->info.queues; i++) {
		queue = npu->queues[i];
		if (!queue)
			continue;
		npu_hw_queue_suspend(queue);
		if (npu_hw_queue_status(queue) & NPU_QUEUE_STATUS_RUNNING)
			__set_bit(i, npu->running);
	}
}

static void npu_recover_finish(struct npu_device *npu)
{
	u32 i;
	int ret;

	lockdep_assert_held(&npu->hw_lock);

	ret = npu_device_reset(npu);
	WRITE_ONCE(npu->resets, npu->resets + 1);
	if (!ret)
		npu_device_start(npu);
	else
		npu_recover_give_up(npu);
	npu_mmu_forget(npu);

	for (i = 0; i < npu->info.queues && !ret; i++) {
		if (npu->queues[i])
			npu_hw_queue_resume(npu->queues[i], test_bit(i, npu->running));
	}
	if (!ret)
		trace_npu_device_restart(npu);
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
	npu_recover_finish(npu);
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
	if (npu->resets == resets && !npu->wedged) {
		drm_warn(&npu->drm, "device reset\n");
		npu_recover_begin(npu);
		npu_recover_finish(npu);
	}
	mutex_unlock(&npu->hw_lock);

	npu_device_exit(idx);
}

static void npu_recover_queues(struct npu_device *npu)
{
	u32 i, status;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu->info.queues; i++) {
		if (!npu->queues[i])
			continue;
		status = npu_hw_queue_status(npu->queues[i]);
		if (npu_is_gone(status) || !(status & NPU_QUEUE_STATUS_ERROR))
			continue;
		drm_err(&npu->drm, "queue %u has stopped with an error\n", i);
		npu_hw_queue_fail(npu->queues[i], -EIO);
	}
	mutex_unlock(&npu->hw_lock);
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
