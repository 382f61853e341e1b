// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs: ring arithmetic, completions, enable and disable.
 *
 * A queue finishes its jobs in order. A job that must not run (a failed in-fence) takes its place
 * in the list of jobs nevertheless, and is finished when all before it are: otherwise its fence
 * would tell those who wait for a buffer that earlier jobs are done, too. Jobs that wait for
 * fences, and all that are behind them, are in a list of their own; whoever has the lock and has
 * changed what they may wait for moves those on that are ready.
 */
#include <linux/bitfield.h>
#include <linux/dma-mapping.h>
#include <linux/iopoll.h>

#include <drm/drm_print.h>

#include "qnpu_attach.h"
#include "qnpu_copy.h"
#include "qnpu_coredump.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_hw_queue.h"
#include "qnpu_job.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"
#include "qnpu_trace.h"
#include "qnpu_vm.h"

/* A disable waits for one bounded step of a command; a software model on a busy host is slow. */
#define QNPU_QUEUE_TIMEOUT_US	(5 * USEC_PER_SEC)
#define QNPU_QUEUE_POLL_US	50

static u32 qnpu_queue_read(struct qnpu_hw_queue *queue, u32 reg)
{
	return qnpu_read(queue->npu, NPU_QUEUE_REG(queue->index, reg));
}

static void qnpu_queue_write(struct qnpu_hw_queue *queue, u32 reg, u32 value)
{
	qnpu_write(queue->npu, NPU_QUEUE_REG(queue->index, reg), value);
}

static void qnpu_queue_write64(struct qnpu_hw_queue *queue, u32 reg, u64 value)
{
	qnpu_write64(queue->npu, NPU_QUEUE_REG(queue->index, reg), value);
}

static void qnpu_doorbell(struct qnpu_hw_queue *queue, u32 reg, u32 value)
{
	qnpu_write(queue->npu, NPU_DOORBELL_REG(queue->index, reg), value);
}

static u32 qnpu_ring_next(u32 index)
{
	return (index + 1) & (QNPU_RING_ENTRIES - 1);
}

/**
 * qnpu_hw_queue_status - the queue's STATUS register
 * @queue: queue, its device entered
 */
u32 qnpu_hw_queue_status(struct qnpu_hw_queue *queue)
{
	return qnpu_queue_read(queue, NPU_QUEUE_STATUS);
}

/**
 * qnpu_hw_queue_abort - ask the card to kill a job
 * @queue: queue, its device entered
 * @seqno: the job; nothing happens if it is not on the card
 */
void qnpu_hw_queue_abort(struct qnpu_hw_queue *queue, u64 seqno)
{
	qnpu_queue_write64(queue, NPU_QUEUE_ABORT_JOB, seqno);
}

static struct qnpu_ctx_job *qnpu_hw_queue_first(struct qnpu_hw_queue *queue)
{
	return list_first_entry_or_null(&queue->jobs, struct qnpu_ctx_job, link);
}

/* Submission */

/* Write descriptor and entry of a job; the caller rings the doorbell. */
static void qnpu_hw_queue_write(struct qnpu_hw_queue *queue, struct qnpu_ctx_job *job, u64 now)
{
	u32 slot = queue->sq_tail;
	struct npu_sqe *sqe = &queue->rings->sq[slot];

	memcpy(queue->rings->desc[slot], job->desc, job->desc_bytes);
	memset(sqe, 0, sizeof(*sqe));
	sqe->job_id = job->seqno;
	sqe->desc_addr = queue->rings_dma + offsetof(struct qnpu_rings, desc) +
			 (u64)slot * QNPU_DESC_BYTES;
	sqe->desc_bytes = job->desc_bytes;

	queue->sq_tail = qnpu_ring_next(slot);
	job->on_card = true;
	job->given_ns = now;
	WRITE_ONCE(queue->on_card, queue->on_card + 1);
}

/* A job is finished, or has to begin anew on a card that was reset. */
static void qnpu_hw_queue_off_card(struct qnpu_hw_queue *queue, struct qnpu_ctx_job *job)
{
	if (!job->on_card)
		return;
	job->on_card = false;
	WRITE_ONCE(queue->on_card, queue->on_card - 1);
}

/* Take a job from the list that was to run on the card. */
static void qnpu_hw_queue_remove(struct qnpu_hw_queue *queue, struct qnpu_ctx_job *job, u64 now)
{
	queue->job_ns = now - max(queue->done_ns, job->given_ns);
	queue->done_ns = now;
	queue->done = jiffies;
	qnpu_hw_queue_off_card(queue, job);
	list_del_init(&job->link);
	WRITE_ONCE(queue->to_run, queue->to_run - 1);
}

/* Finish jobs at the head of the list that the card does not see. */
static void qnpu_hw_queue_finish_skipped(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *job, *next;

	list_for_each_entry_safe(job, next, &queue->jobs, link) {
		if (!job->skip_error)
			break;
		list_del_init(&job->link);
		qnpu_job_finish(job, job->skip_error, NULL);
	}
}

/* The watchdog looks now and then, as long as it finds a job. */
static void qnpu_hw_queue_watch(struct qnpu_hw_queue *queue)
{
	if (queue->watched)
		return;
	queue->watched = true;
	queue_delayed_work(queue->npu->timeout_wq, &queue->ctx->watch_work, queue->ctx->timeout);
}

/*
 * A job waits for nothing but those before it. Returns whether the card is to run it; otherwise it
 * may be finished.
 */
static bool qnpu_hw_queue_take(struct qnpu_hw_queue *queue, struct qnpu_ctx_job *job)
{
	job->taken = jiffies;
	job->skip_error = queue->error ?: qnpu_job_in_error(job);
	list_add_tail(&job->link, &queue->jobs);
	if (job->skip_error) {
		trace_qnpu_job_run(job, queue->sq_tail, job->skip_error);
		qnpu_hw_queue_finish_skipped(queue);
		return false;
	}

	WRITE_ONCE(queue->to_run, queue->to_run + 1);

	qnpu_hw_queue_watch(queue);

	return true;
}

/*
 * Take those of the waiting jobs that have what they wait for. Returns whether the card is to run
 * any of them.
 */
static bool qnpu_hw_queue_take_ready(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *job;
	bool run = false;

	lockdep_assert_held(&queue->lock);

	while ((job = list_first_entry_or_null(&queue->waiting, struct qnpu_ctx_job, link)) &&
	       qnpu_job_is_ready(job)) {
		list_del_init(&job->link);
		qnpu_job_stop_listening(job);
		run |= qnpu_hw_queue_take(queue, job);
	}

	return run;
}

/**
 * qnpu_hw_queue_push - take jobs that the card is to run, as soon as their fences have signalled
 * @queue: queue
 * @jobs: jobs, armed, in their order; they listen to the fences that they wait for
 * @count: how many
 *
 * A job with an in-fence that has failed is not run and ends with an error, in its turn.
 */
void qnpu_hw_queue_push(struct qnpu_hw_queue *queue, struct qnpu_ctx_job **jobs, u32 count)
{
	bool last, run = false;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&queue->lock, flags);
	for (i = 0; i < count; i++) {
		/* Where a fence was the last, its callback may still look at the job. */
		last = atomic_dec_and_test(&jobs[i]->pending);
		if (last && list_empty(&queue->waiting) && qnpu_job_is_ready(jobs[i]))
			run |= qnpu_hw_queue_take(queue, jobs[i]);
		else
			list_add_tail(&jobs[i]->link, &queue->waiting);
	}
	if (!list_empty(&queue->waiting))
		run |= qnpu_hw_queue_take_ready(queue);
	/* While the card has as many as it may have, the next completion sees to the others. */
	run &= queue->on_card < QNPU_RING_JOBS;
	spin_unlock_irqrestore(&queue->lock, flags);
	if (run)
		qnpu_hw_queue_feed(queue);
}

/**
 * qnpu_hw_queue_kick - fences have signalled that jobs have waited for
 * @queue: queue, perhaps long gone from the card: then they end
 */
void qnpu_hw_queue_kick(struct qnpu_hw_queue *queue)
{
	qnpu_hw_queue_push(queue, NULL, 0);
}

/**
 * qnpu_hw_queue_orphan - the end of a queue with jobs that still wait for fences
 * @queue: queue that is shut down
 *
 * They will not run, but their fences must not signal before those that they wait for: who waits
 * for the last of a row of jobs may believe that all before it are done. Returns whether there are
 * any.
 */
bool qnpu_hw_queue_orphan(struct qnpu_hw_queue *queue)
{
	unsigned long flags;
	bool orphans;

	spin_lock_irqsave(&queue->lock, flags);
	qnpu_hw_queue_take_ready(queue);

	orphans = !list_empty(&queue->waiting);
	spin_unlock_irqrestore(&queue->lock, flags);

	return orphans;
}

/**
 * qnpu_hw_queue_waits_for_fences - are there jobs that wait for fences?
 * @queue: queue
 */
bool qnpu_hw_queue_waits_for_fences(struct qnpu_hw_queue *queue)
{
	unsigned long flags;
	bool waits;

	spin_lock_irqsave(&queue->lock, flags);
	waits = !list_empty(&queue->waiting);
	spin_unlock_irqrestore(&queue->lock, flags);

	return waits;
}

/**
 * qnpu_hw_queue_has_jobs - are there unfinished jobs?
 * @queue: queue
 */
bool qnpu_hw_queue_has_jobs(struct qnpu_hw_queue *queue)
{
	unsigned long flags;
	bool any;

	spin_lock_irqsave(&queue->lock, flags);
	any = !list_empty(&queue->jobs) || !list_empty(&queue->waiting);
	spin_unlock_irqrestore(&queue->lock, flags);

	return any;
}

/**
 * qnpu_hw_queue_watched_job - what the watchdog has to look at
 * @queue: queue
 * @since: since when it is the first one, jiffies
 *
 * Returns the first job, with a reference. NULL: there is none, and the watchdog need not look
 * again until there is one.
 */
struct qnpu_ctx_job *qnpu_hw_queue_watched_job(struct qnpu_hw_queue *queue, unsigned long *since)
{
	struct qnpu_ctx_job *job;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	job = qnpu_hw_queue_first(queue);
	queue->watched = job;
	if (job) {
		qnpu_job_get(job);
		*since = time_after(queue->done, job->taken) ? queue->done : job->taken;
	}
	spin_unlock_irqrestore(&queue->lock, flags);

	return job;
}

/**
 * qnpu_hw_queue_feed - write jobs to the ring
 * @queue: queue
 *
 * None during a reset, and at the end of the device: these see to the list.
 */
void qnpu_hw_queue_feed(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *job;
	unsigned long flags;
	u32 count = 0;
	u64 now;
	int idx;

	if (!qnpu_hw_queue_has_backlog(queue))
		return;
	/* Resets clear @enabled under the lock before they begin: no need to wait for them. */
	if (!drm_dev_enter(&queue->npu->drm, &idx))
		return;

	spin_lock_irqsave(&queue->lock, flags);
	if (!qnpu_hw_queue_is_attached(queue) && queue->to_run)
		qnpu_attach_request(queue);
	if (queue->enabled && queue->on_card < QNPU_RING_JOBS) {
		list_for_each_entry(job, &queue->jobs, link) {
			if (queue->on_card >= QNPU_RING_JOBS)
				break;
			if (job->skip_error || job->on_card)
				continue;
			if (!count)
				now = ktime_get_ns();
			trace_qnpu_job_run(job, queue->sq_tail, 0);
			qnpu_hw_queue_write(queue, job, now);
			count++;
		}
	}
	/* A doorbell is an ordered write: entry and descriptor are visible before it. */
	if (count)
		qnpu_doorbell(queue, NPU_DOORBELL_SQ_TAIL, queue->sq_tail);
	spin_unlock_irqrestore(&queue->lock, flags);
	drm_dev_exit(idx);
}

/**
 * qnpu_hw_queue_since_ns - earliest time at which the job that a core works on can have begun
 * @queue: queue
 * @seqno: the job, as the core names it
 *
 * Returns 0 if it is finished by now.
 */
u64 qnpu_hw_queue_since_ns(struct qnpu_hw_queue *queue, u64 seqno)
{
	struct qnpu_ctx_job *job;
	unsigned long flags;
	u64 since = 0;

	spin_lock_irqsave(&queue->lock, flags);
	job = qnpu_hw_queue_first(queue);
	if (job && job->on_card && job->seqno == seqno)
		since = max(queue->done_ns, job->given_ns);
	spin_unlock_irqrestore(&queue->lock, flags);

	return since;
}

/* Completion */

/* What a completion says of a job whose true result is not known. */
static const struct npu_cqe qnpu_unknown = {
	.status = NPU_STATUS_INTERNAL,
	.engine = NPU_ENGINE_NONE,
	.core = 0xff,
	.command = NPU_COMMAND_NONE,
	.region = NPU_REGION_NONE,
};

/*
 * Can a completion be true? Jobs that the card does not see never stay at the head of the list: the
 * first one is the job that runs.
 */
static bool qnpu_cqe_is_sane(struct qnpu_hw_queue *queue, const struct npu_cqe *cqe)
{
	const struct qnpu_ctx_job *job = qnpu_hw_queue_first(queue);

	return job && job->seqno == cqe->job_id &&
	       cqe->status <= NPU_STATUS_INTERNAL &&
	       (cqe->engine <= NPU_ENGINE_GDMA || cqe->engine == NPU_ENGINE_NONE) &&
	       (cqe->core < queue->npu->info.cores || cqe->core == 0xff) &&
	       (cqe->region <= NPU_REGION_LOCAL || cqe->region == NPU_REGION_NONE) &&
	       cqe->end_cycle >= cqe->start_cycle && cqe->sq_head < QNPU_RING_ENTRIES &&
	       FIELD_GET(NPU_CQE_CORES, cqe->phase) < BIT(queue->npu->info.cores) &&
	       !(cqe->phase & ~(NPU_CQE_PHASE | NPU_CQE_ACCESS_READ | NPU_CQE_ACCESS_WRITE |
				NPU_CQE_CORES));
}

/* The first job is finished as a completion says; without one it was on a core and is lost. */
static void qnpu_hw_queue_complete(struct qnpu_hw_queue *queue, const struct npu_cqe *cqe, u64 now)
{
	struct qnpu_ctx_job *job = qnpu_hw_queue_first(queue);

	qnpu_hw_queue_remove(queue, job, now);
	if (cqe)
		qnpu_coredump_fault(job, cqe);
	qnpu_job_finish(job, qnpu_job_error(job, cqe), cqe);
	qnpu_hw_queue_finish_skipped(queue);
	if (!list_empty(&queue->waiting))
		qnpu_hw_queue_take_ready(queue);
}

/* Copy the next completion; false if the card has not written it. */
static bool qnpu_hw_queue_peek(struct qnpu_hw_queue *queue, struct npu_cqe *cqe)
{
	const struct npu_cqe *entry = &queue->rings->cq[queue->cq_head];

	if ((READ_ONCE(entry->phase) & NPU_CQE_PHASE) != queue->cq_phase)
		return false;
	dma_rmb(); /* the rest of the entry after its phase */
	*cqe = *entry;

	return true;
}

static void qnpu_hw_queue_consume(struct qnpu_hw_queue *queue)
{
	queue->cq_head = qnpu_ring_next(queue->cq_head);
	if (!queue->cq_head)
		queue->cq_phase ^= NPU_CQE_PHASE;
}

/* The card has to know how much of the ring it may fill, but not from one entry to the next. */
static void qnpu_hw_queue_tell_head(struct qnpu_hw_queue *queue)
{
	if (((queue->cq_head - queue->cq_told) & (QNPU_RING_ENTRIES - 1)) < QNPU_RING_TELL)
		return;
	queue->cq_told = queue->cq_head;
	qnpu_doorbell(queue, NPU_DOORBELL_CQ_HEAD, queue->cq_head);
}

/*
 * A completion that cannot be true ends nothing: the card may still be at work on the job whose it
 * seems to be. The queue is stopped and settled in a sleeping context.
 */
static void qnpu_hw_queue_distrust(struct qnpu_hw_queue *queue)
{
	WRITE_ONCE(queue->distrusted, true);
	queue_work(queue->npu->timeout_wq, &queue->npu->event_work);
}

static bool qnpu_hw_queue_process_locked(struct qnpu_hw_queue *queue, u32 *most)
{
	struct npu_cqe cqe;
	bool any = false;
	u64 now;

	while (*most && !queue->distrusted && qnpu_hw_queue_peek(queue, &cqe)) {
		if (!qnpu_cqe_is_sane(queue, &cqe)) {
			qnpu_hw_queue_distrust(queue);
			break;
		}
		qnpu_hw_queue_consume(queue);
		if (!any)
			now = ktime_get_ns();
		qnpu_hw_queue_complete(queue, &cqe, now);
		any = true;
		(*most)--;
	}

	return any;
}

/**
 * qnpu_hw_queue_process_some - take some of the new completions
 * @queue: queue
 * @most: how many at most; reduced by those taken
 *
 * Any context.
 */
bool qnpu_hw_queue_process_some(struct qnpu_hw_queue *queue, u32 *most)
{
	unsigned long flags;
	bool any = false;

	spin_lock_irqsave(&queue->lock, flags);
	if (queue->enabled) {
		any = qnpu_hw_queue_process_locked(queue, most);
		qnpu_hw_queue_tell_head(queue);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (any)
		qnpu_hw_queue_feed(queue);

	return any;
}

/**
 * qnpu_hw_queue_process - take new completions
 * @queue: queue
 */
bool qnpu_hw_queue_process(struct qnpu_hw_queue *queue)
{
	u32 most = U32_MAX;

	return qnpu_hw_queue_process_some(queue, &most);
}

/**
 * qnpu_hw_queue_is_behind - has the card written a completion that cannot be seen?
 * @queue: queue, its device entered
 *
 * If so, the queue takes no more of them until qnpu_hw_queue_settle().
 */
bool qnpu_hw_queue_is_behind(struct qnpu_hw_queue *queue)
{
	u32 tail = qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
	unsigned long flags;
	bool behind;

	qnpu_hw_queue_process(queue);
	spin_lock_irqsave(&queue->lock, flags);
	/* Not one that came meanwhile, nor one that is taken before the card says so. */
	behind = queue->enabled && tail < QNPU_RING_ENTRIES && tail != queue->cq_head &&
		 qnpu_ring_next(tail) != queue->cq_head &&
		 tail == qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
	if (behind)
		queue->distrusted = true;
	spin_unlock_irqrestore(&queue->lock, flags);

	return behind;
}

/* Enable and disable, under hw_lock */

static int qnpu_hw_queue_enable(struct qnpu_hw_queue *queue)
{
	u32 status;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	memset(queue->rings->cq, 0, sizeof(queue->rings->cq));
	queue->sq_tail = 0;
	queue->cq_head = 0;
	queue->cq_told = 0;
	queue->cq_phase = NPU_CQE_PHASE;
	queue->distrusted = false;

	qnpu_queue_write64(queue, NPU_QUEUE_SQ_BASE,
			   queue->rings_dma + offsetof(struct qnpu_rings, sq));
	qnpu_queue_write64(queue, NPU_QUEUE_CQ_BASE,
			   queue->rings_dma + offsetof(struct qnpu_rings, cq));
	qnpu_queue_write64(queue, NPU_QUEUE_FENCE_ADDR, queue->ctx->fence_dma);
	qnpu_queue_write(queue, NPU_QUEUE_SQ_LOG2, QNPU_RING_LOG2);
	qnpu_queue_write(queue, NPU_QUEUE_CQ_LOG2, QNPU_RING_LOG2);
	qnpu_queue_write(queue, NPU_QUEUE_ASID, READ_ONCE(queue->ctx->vm->space.asid));
	qnpu_queue_write(queue, NPU_QUEUE_PRIORITY, queue->priority);
	qnpu_queue_write(queue, NPU_QUEUE_CORE_MASK, queue->core_mask);
	qnpu_queue_write(queue, NPU_QUEUE_VECTOR, queue->vector->index);
	qnpu_queue_write(queue, NPU_QUEUE_CTRL, NPU_QUEUE_CTRL_ENABLE);

	ret = read_poll_timeout(qnpu_queue_read, status, status, QNPU_QUEUE_POLL_US,
				QNPU_QUEUE_TIMEOUT_US, false, queue, NPU_QUEUE_STATUS);
	if (ret || qnpu_is_gone(status) || !(status & NPU_QUEUE_STATUS_ENABLED) ||
	    status & NPU_QUEUE_STATUS_ERROR) {
		drm_err(&queue->npu->drm, "queue %u: not enabled, status %#x\n", queue->index,
			status);
		return qnpu_is_gone(status) ? -ENODEV : -EIO;
	}

	return 0;
}

/* Returns 0 when the card no longer touches the queue's memory. */
static int qnpu_hw_queue_disable(struct qnpu_hw_queue *queue)
{
	u32 status;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	qnpu_queue_write(queue, NPU_QUEUE_CTRL, 0);
	ret = read_poll_timeout(qnpu_queue_read, status, !status || qnpu_is_gone(status),
				QNPU_QUEUE_POLL_US, QNPU_QUEUE_TIMEOUT_US, false, queue,
				NPU_QUEUE_STATUS);
	if (ret)
		drm_err(&queue->npu->drm, "queue %u: not disabled, status %#x\n", queue->index,
			status);

	return ret;
}

/*
 * Disable a queue whose job does not stop by resetting its cores: that costs nobody else anything.
 * Returns 0 as qnpu_hw_queue_disable().
 */
static int qnpu_hw_queue_reset_cores(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	u32 core, cores = 0, busy = qnpu_read(npu, NPU_REG_CORE_BUSY);

	for (core = 0; core < npu->info.cores; core++) {
		if (busy & BIT(core) &&
		    qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE)) == queue->index)
			cores |= BIT(core);
	}
	drm_warn(&npu->drm, "queue %u: resetting cores %#x\n", queue->index, cores);
	atomic_inc(&npu->counters.core_resets);
	qnpu_write(npu, NPU_REG_CORE_RESET, cores);

	return qnpu_hw_queue_disable(queue);
}

/* Around a device reset, under hw_lock */

/*
 * Go through all completions that the card says it has written. Each belongs to the next job,
 * whatever it says: where it cannot be true, the job's result is not known.
 */
static void qnpu_hw_queue_sort_out(struct qnpu_hw_queue *queue, u32 tail)
{
	struct npu_cqe cqe;

	while (queue->cq_head != tail && qnpu_hw_queue_first(queue)) {
		bool sane = qnpu_hw_queue_peek(queue, &cqe) && qnpu_cqe_is_sane(queue, &cqe);

		qnpu_hw_queue_consume(queue);
		qnpu_hw_queue_complete(queue, sane ? &cqe : &qnpu_unknown, ktime_get_ns());
	}
}

/*
 * Take what is complete while the card's arbiter is off. Returns true when the first job of those
 * that are left is on a core: that is certain then. No other one has begun.
 */
static bool qnpu_hw_queue_account(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *first;
	u32 tail, most = U32_MAX;
	bool running;

	do {
		tail = qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
		running = qnpu_hw_queue_status(queue) & NPU_QUEUE_STATUS_RUNNING;
	} while (tail != qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL));

	if (tail < QNPU_RING_ENTRIES && qnpu_ring_next(tail) == queue->cq_head)
		running = false; /* its completion is taken, and the card is about to say so */
	else if (tail < QNPU_RING_ENTRIES)
		qnpu_hw_queue_sort_out(queue, tail);

	first = qnpu_hw_queue_first(queue);
	qnpu_hw_queue_process_locked(queue, &most);
	running = running && first && qnpu_hw_queue_first(queue) == first;
	if (running)
		first->begun = true;

	return running;
}

/**
 * qnpu_hw_queue_suspend - take what is complete, then leave the card alone
 * @queue: queue
 *
 * Returns true when the first of its jobs is on a core, provided that the card's arbiter is off.
 */
bool qnpu_hw_queue_suspend(struct qnpu_hw_queue *queue)
{
	unsigned long flags;
	bool running = false;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	if (queue->enabled)
		running = qnpu_hw_queue_account(queue);
	queue->enabled = false;
	spin_unlock_irqrestore(&queue->lock, flags);

	return running;
}

/**
 * qnpu_hw_queue_leave - leave the card alone, whatever is complete
 * @queue: queue; its jobs stay until qnpu_hw_queue_fail_all()
 */
void qnpu_hw_queue_leave(struct qnpu_hw_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = false;
	spin_unlock_irqrestore(&queue->lock, flags);
}

/**
 * qnpu_hw_queue_dump - dump the next job of a queue, whose completions are not trusted
 * @queue: queue, its device entered, under hw_lock
 * @reason: why
 */
void qnpu_hw_queue_dump(struct qnpu_hw_queue *queue, const char *reason)
{
	struct qnpu_ctx_job *job;
	unsigned long flags;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	job = qnpu_hw_queue_first(queue);
	if (job)
		qnpu_job_get(job); /* the end of the context finishes jobs without hw_lock */
	spin_unlock_irqrestore(&queue->lock, flags);
	if (job) {
		qnpu_coredump_kill(job, reason);
		qnpu_job_put(job);
	}
}

/**
 * qnpu_hw_queue_settle - stop a queue, and find out what became of its jobs
 * @queue: queue; the card's arbiter is off
 *
 * Those that are left in its list have not begun. Fails when the card does not stop.
 */
int qnpu_hw_queue_settle(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *running = NULL;
	unsigned long flags;
	u32 tail;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	if (qnpu_hw_queue_account(queue))
		running = qnpu_hw_queue_first(queue);
	queue->enabled = false;
	spin_unlock_irqrestore(&queue->lock, flags);

	ret = qnpu_hw_queue_disable(queue);
	if (ret)
		ret = qnpu_hw_queue_reset_cores(queue);
	if (ret) {
		/* The reset of the card that is left finds the queue suspended. */
		if (running)
			__set_bit(queue->index, queue->npu->running);
		return ret;
	}

	/* What was on a core is lost, unless it was faster than the order to stop. */
	tail = qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
	spin_lock_irqsave(&queue->lock, flags);
	if (tail < QNPU_RING_ENTRIES)
		qnpu_hw_queue_sort_out(queue, tail);
	if (running && qnpu_hw_queue_first(queue) == running)
		qnpu_hw_queue_complete(queue, NULL, ktime_get_ns());
	spin_unlock_irqrestore(&queue->lock, flags);

	return 0;
}

/* The ring is empty: write the jobs that were in it before. */
static void qnpu_hw_queue_refill(struct qnpu_hw_queue *queue)
{
	u64 now = ktime_get_ns();
	struct qnpu_ctx_job *job;

	list_for_each_entry(job, &queue->jobs, link) {
		if (!job->on_card)
			continue;
		qnpu_hw_queue_off_card(queue, job);
		qnpu_hw_queue_write(queue, job, now);
	}
	qnpu_doorbell(queue, NPU_DOORBELL_SQ_TAIL, queue->sq_tail);
}

/**
 * qnpu_hw_queue_resume - put a suspended queue to work on a card that was reset
 * @queue: queue
 * @lost: the first job was on a core when the card was reset; it is lost. The others have not
 *	begun and are submitted again.
 */
void qnpu_hw_queue_resume(struct qnpu_hw_queue *queue, bool lost)
{
	unsigned long flags;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	/* One that was given up: nothing of it is on the card any more. */
	if (queue->error) {
		qnpu_hw_queue_fail_all(queue, queue->error);
		return;
	}

	ret = qnpu_hw_queue_enable(queue);
	if (ret) {
		qnpu_hw_queue_fail_all(queue, ret);
		return;
	}

	spin_lock_irqsave(&queue->lock, flags);
	if (lost && qnpu_hw_queue_first(queue))
		qnpu_hw_queue_complete(queue, NULL, ktime_get_ns());
	queue->enabled = true;
	qnpu_hw_queue_refill(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	qnpu_hw_queue_feed(queue);
}

/* Ends all jobs, with their fences in the order of submission, although some wait for fences. */
static void qnpu_hw_queue_cancel_all(struct qnpu_hw_queue *queue, u32 cause)
{
	struct qnpu_ctx_job *job, *next;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	list_for_each_entry(job, &queue->jobs, link)
		WRITE_ONCE(job->killed, cause);
	spin_unlock_irqrestore(&queue->lock, flags);
	qnpu_hw_queue_fail_all(queue, -ECANCELED);

	spin_lock_irqsave(&queue->lock, flags);
	list_for_each_entry_safe(job, next, &queue->waiting, link) {
		list_del_init(&job->link);
		qnpu_job_stop_listening(job);
		qnpu_hw_queue_take(queue, job);
	}
	queue->error = READ_ONCE(queue->ctx->dead);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/**
 * qnpu_hw_queue_cancel - end all jobs of a queue that goes on afterwards
 * @queue: queue, its device entered
 * @cause: DRM_NPU_CAUSE_
 *
 * Fails when the card does not stop: the jobs end with the reset that is left.
 */
int qnpu_hw_queue_cancel(struct qnpu_hw_queue *queue, u32 cause)
{
	struct qnpu_device *npu = queue->npu;
	int ret;

	lockdep_assert_held(&npu->hw_lock);
	WRITE_ONCE(npu->reset_cause, cause);
	qnpu_write(npu, NPU_REG_CTRL, 0);
	ret = qnpu_hw_queue_settle(queue);
	if (ret)
		return ret;
	qnpu_hw_queue_cancel_all(queue, cause);
	qnpu_hw_queue_resume(queue, false);
	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);

	return 0;
}

/**
 * qnpu_hw_queue_fail_all - end all jobs, now and in future
 * @queue: queue that the card does not serve any more
 * @error: what they end with
 */
void qnpu_hw_queue_fail_all(struct qnpu_hw_queue *queue, int error)
{
	struct qnpu_ctx_job *job, *next;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = false;
	queue->distrusted = false;
	queue->error = error;
	list_for_each_entry_safe(job, next, &queue->jobs, link) {
		if (job->skip_error)
			list_del_init(&job->link);
		else
			qnpu_hw_queue_remove(queue, job, ktime_get_ns());
		qnpu_job_finish(job, job->skip_error ?: error, NULL);
	}
	qnpu_hw_queue_take_ready(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	qnpu_hw_queue_feed(queue);
}

/**
 * qnpu_hw_queue_fail - give up a queue that the card has stopped with an error
 * @queue: queue, its device entered
 * @error: what its jobs end with, now and in future
 *
 * No job ends before the card has let go of it. Returns true if only a reset of the card is left:
 * the jobs end with that.
 */
bool qnpu_hw_queue_fail(struct qnpu_hw_queue *queue, int error)
{
	unsigned long flags;

	lockdep_assert_held(&queue->npu->hw_lock);

	qnpu_hw_queue_suspend(queue);
	spin_lock_irqsave(&queue->lock, flags);
	queue->error = queue->error ?: error;
	spin_unlock_irqrestore(&queue->lock, flags);
	if (qnpu_hw_queue_disable(queue) && qnpu_hw_queue_reset_cores(queue))
		return true;
	qnpu_hw_queue_fail_all(queue, error);

	return false;
}

/**
 * qnpu_hw_queue_reopen - let a queue take jobs again that has failed all of them
 * @queue: queue of the driver itself, whose jobs can be begun again by whoever asked for them
 */
void qnpu_hw_queue_reopen(struct qnpu_hw_queue *queue)
{
	unsigned long flags;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	queue->error = READ_ONCE(queue->ctx->dead);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* Life */

/**
 * qnpu_hw_queue_attach - give a queue a queue pair of the card
 * @queue: queue without one; the device is entered
 * @index: number of the pair, which is free and has memory
 *
 * -EIO: the card refuses. -ENODEV: it does not answer. -ETIMEDOUT: it may use the memory
 * nevertheless, and has to be reset.
 */
int qnpu_hw_queue_attach(struct qnpu_hw_queue *queue, u32 index)
{
	struct qnpu_device *npu = queue->npu;
	const struct qnpu_slot *slot = &npu->attach.slots[index];
	unsigned long flags;
	int ret;

	lockdep_assert_held(&npu->hw_lock);

	queue->rings = slot->rings;
	queue->rings_dma = slot->rings_dma;
	queue->vector = qnpu_irq_vector_of_queue(npu, index);
	WRITE_ONCE(queue->index, index);
	ret = qnpu_hw_queue_enable(queue);
	if (ret) {
		/* One that does not start may have started in part. */
		ret = qnpu_hw_queue_disable(queue) ? -ETIMEDOUT : ret;
		WRITE_ONCE(queue->index, QNPU_NO_QUEUE);
		return ret;
	}

	queue->attached = jiffies;
	queue->ctx->vm->pairs++;
	__clear_bit(index, npu->running);
	npu->queues[index] = queue;
	qnpu_irq_add_queue(queue->vector, queue);
	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = true;
	spin_unlock_irqrestore(&queue->lock, flags);

	return 0;
}

/**
 * qnpu_hw_queue_detach - take its queue pair from a queue; jobs that are left wait for another one
 * @queue: queue that the card does not serve any more
 */
void qnpu_hw_queue_detach(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	struct qnpu_ctx_job *job;
	unsigned long flags;

	lockdep_assert_held(&npu->hw_lock);

	qnpu_irq_remove_queue(queue->vector, queue);
	npu->queues[queue->index] = NULL;
	queue->ctx->vm->pairs--;
	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = false;
	list_for_each_entry(job, &queue->jobs, link)
		qnpu_hw_queue_off_card(queue, job);
	WRITE_ONCE(queue->index, QNPU_NO_QUEUE);
	queue->rings = NULL;
	if (queue->to_run && !queue->error)
		qnpu_attach_request(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	qnpu_space_detach(&queue->ctx->vm->space);
	qnpu_pm_was_busy(npu);
	qnpu_pm_put(npu);
}

/**
 * qnpu_hw_queue_init - an empty queue without queue pair
 * @queue: queue, zeroed
 * @ctx: owner
 * @priority: for the arbiter
 * @core_mask: cores for its jobs
 */
void qnpu_hw_queue_init(struct qnpu_hw_queue *queue, struct qnpu_ctx *ctx, u32 priority,
			u32 core_mask)
{
	queue->npu = ctx->npu;
	queue->ctx = ctx;
	queue->priority = priority;
	queue->core_mask = core_mask;
	queue->index = QNPU_NO_QUEUE;
	queue->done = jiffies;
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->link);
	INIT_LIST_HEAD(&queue->attach_link);
	INIT_LIST_HEAD(&queue->jobs);
	INIT_LIST_HEAD(&queue->waiting);
}

/**
 * qnpu_hw_queue_shutdown - stop the card's work on a queue and end all its jobs
 * @queue: queue
 * @error: what unfinished jobs end with
 *
 * On return the card touches neither the queue's memory nor any for its jobs.
 */
void qnpu_hw_queue_shutdown(struct qnpu_hw_queue *queue, int error)
{
	struct qnpu_device *npu = queue->npu;
	unsigned long flags;
	bool stuck = false;
	u32 resets = 0;
	int idx;

	/* From here on nothing brings the queue back, a reset of the card neither. */
	spin_lock_irqsave(&queue->lock, flags);
	queue->error = queue->error ?: error;
	spin_unlock_irqrestore(&queue->lock, flags);

	qnpu_attach_cancel(queue);

	/* A card that is lost or offline has no access to memory, and is reset before it has. */
	if (qnpu_device_enter_awake(npu, &idx)) {
		mutex_lock(&npu->hw_lock);
		resets = npu->resets;
		if (qnpu_hw_queue_is_attached(queue)) {
			qnpu_hw_queue_suspend(queue);
			stuck = qnpu_hw_queue_disable(queue) && qnpu_hw_queue_reset_cores(queue);
		}
		mutex_unlock(&npu->hw_lock);
		qnpu_device_exit(npu, idx);
	}

	if (stuck)
		qnpu_recover_device(npu, resets);
	qnpu_hw_queue_fail_all(queue, error);
}

/**
 * qnpu_hw_queue_destroy - give the queue pair back, if there is one
 * @queue: queue, shut down, without jobs
 */
void qnpu_hw_queue_destroy(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;

	mutex_lock(&npu->hw_lock);
	if (qnpu_hw_queue_is_attached(queue))
		qnpu_hw_queue_detach(queue);
	mutex_unlock(&npu->hw_lock);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_hw_queue_test.c"
#endif
