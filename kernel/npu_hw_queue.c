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

#include "npu_attach.h"
#include "npu_copy.h"
#include "npu_coredump.h"
#include "npu_ctx.h"
#include "npu_device.h"
#include "npu_hw_queue.h"
#include "npu_job.h"
#include "npu_pm.h"
#include "npu_recover.h"
#include "npu_trace.h"
#include "npu_vm.h"

/* A disable waits for one bounded step of a command; a software model on a busy host is slow. */
#define NPU_QUEUE_TIMEOUT_US	(5 * USEC_PER_SEC)
#define NPU_QUEUE_POLL_US	50

static u32 npu_queue_read(struct npu_hw_queue *queue, u32 reg)
{
	return npu_read(queue->npu, NPU_QUEUE_REG(queue->index, reg));
}

static void npu_queue_write(struct npu_hw_queue *queue, u32 reg, u32 value)
{
	npu_write(queue->npu, NPU_QUEUE_REG(queue->index, reg), value);
}

static void npu_queue_write64(struct npu_hw_queue *queue, u32 reg, u64 value)
{
	npu_write64(queue->npu, NPU_QUEUE_REG(queue->index, reg), value);
}

static void npu_doorbell(struct npu_hw_queue *queue, u32 reg, u32 value)
{
	npu_write(queue->npu, NPU_DOORBELL_REG(queue->index, reg), value);
}

static u32 npu_ring_next(u32 index)
{
	return (index + 1) & (NPU_RING_ENTRIES - 1);
}

/**
 * npu_hw_queue_status - the queue's STATUS register
 * @queue: queue, its device entered
 */
u32 npu_hw_queue_status(struct npu_hw_queue *queue)
{
	return npu_queue_read(queue, NPU_QUEUE_STATUS);
}

/**
 * npu_hw_queue_abort - ask the card to kill a job
 * @queue: queue, its device entered
 * @seqno: the job; nothing happens if it is not on the card
 */
void npu_hw_queue_abort(struct npu_hw_queue *queue, u64 seqno)
{
	npu_queue_write64(queue, NPU_QUEUE_ABORT_JOB, seqno);
}

static struct npu_ctx_job *npu_hw_queue_first(struct npu_hw_queue *queue)
{
	return list_first_entry_or_null(&queue->jobs, struct npu_ctx_job, link);
}

/* Submission */

/* Write descriptor and entry of a job; the caller rings the doorbell. */
static void npu_hw_queue_write(struct npu_hw_queue *queue, struct npu_ctx_job *job, u64 now)
{
	u32 slot = queue->sq_tail;
	struct npu_sqe *sqe = &queue->rings->sq[slot];

	memcpy(queue->rings->desc[slot], job->desc, job->desc_bytes);
	memset(sqe, 0, sizeof(*sqe));
	sqe->job_id = job->seqno;
	sqe->desc_addr = queue->rings_dma + offsetof(struct npu_rings, desc) +
			 (u64)slot * NPU_DESC_BYTES;
	sqe->desc_bytes = job->desc_bytes;

	queue->sq_tail = npu_ring_next(slot);
	job->on_card = true;
	job->given_ns = now;
	WRITE_ONCE(queue->on_card, queue->on_card + 1);
	npu_load_begin(&queue->npu->load, ns_to_ktime(now));
}

/* A job is finished, or has to begin anew on a card that was reset. */
static void npu_hw_queue_off_card(struct npu_hw_queue *queue, struct npu_ctx_job *job, u64 now)
{
	if (!job->on_card)
		return;
	job->on_card = false;
	WRITE_ONCE(queue->on_card, queue->on_card - 1);
	npu_load_end(&queue->npu->load, ns_to_ktime(now));
}

/* Take a job from the list that was to run on the card. */
static void npu_hw_queue_remove(struct npu_hw_queue *queue, struct npu_ctx_job *job, u64 now)
{
	queue->job_ns = now - max(queue->done_ns, job->given_ns);
	queue->done_ns = now;
	queue->done = jiffies;
	npu_hw_queue_off_card(queue, job, now);
	list_del_init(&job->link);
	WRITE_ONCE(queue->to_run, queue->to_run - 1);
}

/* Finish jobs at the head of the list that the card does not see. */
static void npu_hw_queue_finish_skipped(struct npu_hw_queue *queue)
{
	struct npu_ctx_job *job, *next;

	list_for_each_entry_safe(job, next, &queue->jobs, link) {
		if (!job->skip_error)
			break;
		list_del_init(&job->link);
		npu_job_finish(job, job->skip_error, NULL);
	}
}

/* The watchdog looks now and then, as long as it finds a job. */
static void npu_hw_queue_watch(struct npu_hw_queue *queue)
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
static bool npu_hw_queue_take(struct npu_hw_queue *queue, struct npu_ctx_job *job)
{
	job->taken = jiffies;
	job->skip_error = queue->error ?: npu_job_in_error(job);
	list_add_tail(&job->link, &queue->jobs);
	if (job->skip_error) {
		trace_npu_job_run(job, queue->sq_tail, job->skip_error);
		npu_hw_queue_finish_skipped(queue);
		return false;
	}

	WRITE_ONCE(queue->to_run, queue->to_run + 1);

	npu_hw_queue_watch(queue);

	return true;
}

/*
 * Take those of the waiting jobs that have what they wait for. Returns whether the card is to run
 * any of them.
 */
static bool npu_hw_queue_take_ready(struct npu_hw_queue *queue)
{
	struct npu_ctx_job *job;
	bool run = false;

	lockdep_assert_held(&queue->lock);

	while ((job = list_first_entry_or_null(&queue->waiting, struct npu_ctx_job, link)) &&
	       npu_job_is_ready(job)) {
		list_del_init(&job->link);
		npu_job_stop_listening(job);
		run |= npu_hw_queue_take(queue, job);
	}

	return run;
}

/**
 * npu_hw_queue_push - take jobs that the card is to run, as soon as their fences have signalled
 * @queue: queue
 * @jobs: jobs, armed, in their order; they listen to the fences that they wait for
 * @count: how many
 *
 * A job with an in-fence that has failed is not run and ends with an error, in its turn.
 */
void npu_hw_queue_push(struct npu_hw_queue *queue, struct npu_ctx_job **jobs, u32 count)
{
	bool last, run = false;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&queue->lock, flags);
	for (i = 0; i < count; i++) {
		/* Where a fence was the last, its callback may still look at the job. */
		last = atomic_dec_and_test(&jobs[i]->pending);
		if (last && list_empty(&queue->waiting) && npu_job_is_ready(jobs[i]))
			run |= npu_hw_queue_take(queue, jobs[i]);
		else
			list_add_tail(&jobs[i]->link, &queue->waiting);
	}
	if (!list_empty(&queue->waiting))
		run |= npu_hw_queue_take_ready(queue);
	/* While the card has as many as it may have, the next completion sees to the others. */
	run &= queue->on_card < NPU_RING_JOBS;
	spin_unlock_irqrestore(&queue->lock, flags);
	if (run)
		npu_hw_queue_feed(queue);
}

/**
 * npu_hw_queue_kick - fences have signalled that jobs have waited for
 * @queue: queue, perhaps long gone from the card: then they end
 */
void npu_hw_queue_kick(struct npu_hw_queue *queue)
{
	npu_hw_queue_push(queue, NULL, 0);
}

/**
 * npu_hw_queue_orphan - the end of a queue with jobs that still wait for fences
 * @queue: queue that is shut down
 *
 * They will not run, but their fences must not signal before those that they wait for: who waits
 * for the last of a row of jobs may believe that all before it are done. Returns whether there are
 * any.
 */
bool npu_hw_queue_orphan(struct npu_hw_queue *queue)
{
	unsigned long flags;
	bool orphans;

	spin_lock_irqsave(&queue->lock, flags);
	npu_hw_queue_take_ready(queue);

	orphans = !list_empty(&queue->waiting);
	spin_unlock_irqrestore(&queue->lock, flags);

	return orphans;
}

/**
 * npu_hw_queue_waits_for_fences - are there jobs that wait for fences?
 * @queue: queue
 */
bool npu_hw_queue_waits_for_fences(struct npu_hw_queue *queue)
{
	unsigned long flags;
	bool waits;

	spin_lock_irqsave(&queue->lock, flags);
	waits = !list_empty(&queue->waiting);
	spin_unlock_irqrestore(&queue->lock, flags);

	return waits;
}

/**
 * npu_hw_queue_has_jobs - are there unfinished jobs?
 * @queue: queue
 */
bool npu_hw_queue_has_jobs(struct npu_hw_queue *queue)
{
	unsigned long flags;
	bool any;

	spin_lock_irqsave(&queue->lock, flags);
	any = !list_empty(&queue->jobs) || !list_empty(&queue->waiting);
	spin_unlock_irqrestore(&queue->lock, flags);

	return any;
}

/**
 * npu_hw_queue_watched_job - what the watchdog has to look at
 * @queue: queue
 * @since: since when it is the first one, jiffies
 *
 * Returns the first job, with a reference. NULL: there is none, and the watchdog need not look
 * again until there is one.
 */
struct npu_ctx_job *npu_hw_queue_watched_job(struct npu_hw_queue *queue, unsigned long *since)
{
	struct npu_ctx_job *job;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	job = npu_hw_queue_first(queue);
	queue->watched = job;
	if (job) {
		npu_job_get(job);
		*since = time_after(queue->done, job->taken) ? queue->done : job->taken;
	}
	spin_unlock_irqrestore(&queue->lock, flags);

	return job;
}

/**
 * npu_hw_queue_feed - write jobs to the ring
 * @queue: queue
 *
 * None during a reset, and at the end of the device: these see to the list.
 */
void npu_hw_queue_feed(struct npu_hw_queue *queue)
{
	struct npu_ctx_job *job;
	unsigned long flags;
	u32 count = 0;
	u64 now;
	int idx;

	if (!npu_hw_queue_has_backlog(queue))
		return;
	/* Resets clear @enabled under the lock before they begin: no need to wait for them. */
	if (!drm_dev_enter(&queue->npu->drm, &idx))
		return;

	spin_lock_irqsave(&queue->lock, flags);
	if (!npu_hw_queue_is_attached(queue) && queue->to_run)
		npu_attach_request(queue);
	if (queue->enabled && queue->on_card < NPU_RING_JOBS) {
		list_for_each_entry(job, &queue->jobs, link) {
			if (queue->on_card >= NPU_RING_JOBS)
				break;
			if (job->skip_error || job->on_card)
				continue;
			if (!count)
				now = ktime_get_ns();
			trace_npu_job_run(job, queue->sq_tail, 0);
			npu_hw_queue_write(queue, job, now);
			count++;
		}
	}
	/* A doorbell is an ordered write: entry and descriptor are visible before it. */
	if (count)
		npu_doorbell(queue, NPU_DOORBELL_SQ_TAIL, queue->sq_tail);
	spin_unlock_irqrestore(&queue->lock, flags);
	drm_dev_exit(idx);
}

/**
 * npu_hw_queue_since_ns - earliest time at which the job that a core works on can have begun
 * @queue: queue
 * @seqno: the job, as the core names it
 *
 * Returns 0 if it is finished by now.
 */
u64 npu_hw_queue_since_ns(struct npu_hw_queue *queue, u64 seqno)
{
	struct npu_ctx_job *job;
	unsigned long flags;
	u64 since = 0;

	spin_lock_irqsave(&queue->lock, flags);
	job = npu_hw_queue_first(queue);
	if (job && job->on_card && job->seqno == seqno)
		since = max(queue->done_ns, job->given_ns);
	spin_unlock_irqrestore(&queue->lock, flags);

	return since;
}

/* Completion */

/* What a completion says of a job whose true result is not known. */
static const struct npu_cqe npu_unknown = {
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
static bool npu_cqe_is_sane(struct npu_hw_queue *queue, const struct npu_cqe *cqe)
{
	const struct npu_ctx_job *job = npu_hw_queue_first(queue);

	return job && job->seqno == cqe->job_id &&
	       cqe->status <= NPU_STATUS_INTERNAL &&
	       (cqe->engine <= NPU_ENGINE_GDMA || cqe->engine == NPU_ENGINE_NONE) &&
	       (cqe->core < queue->npu->info.cores || cqe->core == 0xff) &&
	       (cqe->region <= NPU_REGION_LOCAL || cqe->region == NPU_REGION_NONE) &&
	       cqe->end_cycle >= cqe->start_cycle && cqe->sq_head < NPU_RING_ENTRIES &&
	       FIELD_GET(NPU_CQE_CORES, cqe->phase) < BIT(queue->npu->info.cores) &&
	       !(cqe->phase & ~(NPU_CQE_PHASE | NPU_CQE_ACCESS_READ | NPU_CQE_ACCESS_WRITE |
				NPU_CQE_CORES));
}

/* The first job is finished as a completion says; without one it was on a core and is lost. */
static void npu_hw_queue_complete(struct npu_hw_queue *queue, const struct npu_cqe *cqe, u64 now)
{
	struct npu_ctx_job *job = npu_hw_queue_first(queue);

	npu_hw_queue_remove(queue, job, now);
	if (cqe)
		npu_coredump_fault(job, cqe);
	npu_job_finish(job, npu_job_error(job, cqe), cqe);
	npu_hw_queue_finish_skipped(queue);
	if (!list_empty(&queue->waiting))
		npu_hw_queue_take_ready(queue);
}

/* Copy the next completion; false if the card has not written it. */
static bool npu_hw_queue_peek(struct npu_hw_queue *queue, struct npu_cqe *cqe)
{
	const struct npu_cqe *entry = &queue->rings->cq[queue->cq_head];

	if ((READ_ONCE(entry->phase) & NPU_CQE_PHASE) != queue->cq_phase)
		return false;
	dma_rmb(); /* the rest of the entry after its phase */
	*cqe = *entry;

	return true;
}

static void npu_hw_queue_consume(struct npu_hw_queue *queue)
{
	queue->cq_head = npu_ring_next(queue->cq_head);
	if (!queue->cq_head)
		queue->cq_phase ^= NPU_CQE_PHASE;
}

/* The card has to know how much of the ring it may fill, but not from one entry to the next. */
static void npu_hw_queue_tell_head(struct npu_hw_queue *queue)
{
	if (((queue->cq_head - queue->cq_told) & (NPU_RING_ENTRIES - 1)) < NPU_RING_TELL)
		return;
	queue->cq_told = queue->cq_head;
	npu_doorbell(queue, NPU_DOORBELL_CQ_HEAD, queue->cq_head);
}

/*
 * A completion that cannot be true ends nothing: the card may still be at work on the job whose it
 * seems to be. The queue is stopped and settled in a sleeping context.
 */
static void npu_hw_queue_distrust(struct npu_hw_queue *queue)
{
	WRITE_ONCE(queue->distrusted, true);
	queue_work(queue->npu->timeout_wq, &queue->npu->event_work);
}

static bool npu_hw_queue_process_locked(struct npu_hw_queue *queue, u32 *most)
{
	struct npu_cqe cqe;
	bool any = false;
	u64 now;

	while (*most && !queue->distrusted && npu_hw_queue_peek(queue, &cqe)) {
		if (!npu_cqe_is_sane(queue, &cqe)) {
			npu_hw_queue_distrust(queue);
			break;
		}
		npu_hw_queue_consume(queue);
		if (!any)
			now = ktime_get_ns();
		npu_hw_queue_complete(queue, &cqe, now);
		any = true;
		(*most)--;
	}

	return any;
}

/**
 * npu_hw_queue_process_some - take some of the new completions
 * @queue: queue
 * @most: how many at most; reduced by those taken
 *
 * Any context.
 */
bool npu_hw_queue_process_some(struct npu_hw_queue *queue, u32 *most)
{
	unsigned long flags;
	bool any = false;

	spin_lock_irqsave(&queue->lock, flags);
	if (queue->enabled) {
		any = npu_hw_queue_process_locked(queue, most);
		npu_hw_queue_tell_head(queue);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (any)
		npu_hw_queue_feed(queue);

	return any;
}

/**
 * npu_hw_queue_process - take new completions
 * @queue: queue
 */
bool npu_hw_queue_process(struct npu_hw_queue *queue)
{
	u32 most = U32_MAX;

	return npu_hw_queue_process_some(queue, &most);
}

/**
 * npu_hw_queue_is_behind - has the card written a completion that cannot be seen?
 * @queue: queue, its device entered
 *
 * If so, the queue takes no more of them until npu_hw_queue_settle().
 */
bool npu_hw_queue_is_behind(struct npu_hw_queue *queue)
{
	u32 tail = npu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
	unsigned long flags;
	bool behind;

	npu_hw_queue_process(queue);
	spin_lock_irqsave(&queue->lock, flags);
	/* Not one that came meanwhile, nor one that is taken before the card says so. */
	behind = queue->enabled && tail < NPU_RING_ENTRIES && tail != queue->cq_head &&
		 npu_ring_next(tail) != queue->cq_head &&
		 tail == npu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
	if (behind)
		queue->distrusted = true;
	spin_unlock_irqrestore(&queue->lock, flags);

	return behind;
}

/* Enable and disable, under hw_lock */

static int npu_hw_queue_enable(struct npu_hw_queue *queue)
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

	npu_queue_write64(queue, NPU_QUEUE_SQ_BASE,
			  queue->rings_dma + offsetof(struct npu_rings, sq));
	npu_queue_write64(queue, NPU_QUEUE_CQ_BASE,
			  queue->rings_dma + offsetof(struct npu_rings, cq));
	npu_queue_write64(queue, NPU_QUEUE_FENCE_ADDR, queue->ctx->fence_dma);
	npu_queue_write(queue, NPU_QUEUE_SQ_LOG2, NPU_RING_LOG2);
	npu_queue_write(queue, NPU_QUEUE_CQ_LOG2, NPU_RING_LOG2);
	npu_queue_write(queue, NPU_QUEUE_ASID, READ_ONCE(queue->ctx->vm->space.asid));
	npu_queue_write(queue, NPU_QUEUE_PRIORITY, queue->priority);
	npu_queue_write(queue, NPU_QUEUE_CORE_MASK, queue->core_mask);
	npu_queue_write(queue, NPU_QUEUE_VECTOR, queue->vector->index);
	npu_queue_write(queue, NPU_QUEUE_CTRL, NPU_QUEUE_CTRL_ENABLE);

	ret = read_poll_timeout(npu_queue_read, status, status, NPU_QUEUE_POLL_US,
				NPU_QUEUE_TIMEOUT_US, false, queue, NPU_QUEUE_STATUS);
	if (ret || npu_is_gone(status) || !(status & NPU_QUEUE_STATUS_ENABLED) ||
	    status & NPU_QUEUE_STATUS_ERROR) {
		drm_err(&queue->npu->drm, "queue %u: not enabled, status %#x\n", queue->index,
			status);
		return npu_is_gone(status) ? -ENODEV : -EIO;
	}

	return 0;
}

/* Returns 0 when the card no longer touches the queue's memory. */
static int npu_hw_queue_disable(struct npu_hw_queue *queue)
{
	u32 status;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	npu_queue_write(queue, NPU_QUEUE_CTRL, 0);
	ret = read_poll_timeout(npu_queue_read, status, !status || npu_is_gone(status),
				NPU_QUEUE_POLL_US, NPU_QUEUE_TIMEOUT_US, false, queue,
				NPU_QUEUE_STATUS);
	if (ret)
		drm_err(&queue->npu->drm, "queue %u: not disabled, status %#x\n", queue->index,
			status);

	return ret;
}

/*
 * Disable a queue whose job does not stop by resetting its cores: that costs nobody else anything.
 * Returns 0 as npu_hw_queue_disable().
 */
static int npu_hw_queue_reset_cores(struct npu_hw_queue *queue)
{
	struct npu_device *npu = queue->npu;
	u32 core, cores = 0, busy = npu_read(npu, NPU_REG_CORE_BUSY);

	for (core = 0; core < npu->info.cores; core++) {
		if (busy & BIT(core) &&
		    npu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE)) == queue->index)
			cores |= BIT(core);
	}
	drm_warn(&npu->drm, "queue %u: resetting cores %#x\n", queue->index, cores);
	atomic_inc(&npu->counters.core_resets);
	npu_write(npu, NPU_REG_CORE_RESET, cores);

	return npu_hw_queue_disable(queue);
}

/* Around a device reset, under hw_lock */

/*
 * Go through all completions that the card says it has written. Each belongs to the next job,
 * whatever it says: where it cannot be true, the job's result is not known.
 */
static void npu_hw_queue_sort_out(struct npu_hw_queue *queue, u32 tail)
{
	struct npu_cqe cqe;

	while (queue->cq_head != tail && npu_hw_queue_first(queue)) {
		bool sane = npu_hw_queue_peek(queue, &cqe) && npu_cqe_is_sane(queue, &cqe);

		npu_hw_queue_consume(queue);
		npu_hw_queue_complete(queue, sane ? &cqe : &npu_unknown, ktime_get_ns());
	}
}

/*
 * Take what is complete while the card's arbiter is off. Returns true when the first job of those
 * that are left is on a core: that is certain then. No other one has begun.
 */
static bool npu_hw_queue_account(struct npu_hw_queue *queue)
{
	struct npu_ctx_job *first;
	u32 tail, most = U32_MAX;
	bool running;

	do {
		tail = npu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
		running = npu_hw_queue_status(queue) & NPU_QUEUE_STATUS_RUNNING;
	} while (tail != npu_queue_read(queue, NPU_QUEUE_CQ_TAIL));

	if (tail < NPU_RING_ENTRIES && npu_ring_next(tail) == queue->cq_head)
		running = false; /* its completion is taken, and the card is about to say so */
	else if (tail < NPU_RING_ENTRIES)
		npu_hw_queue_sort_out(queue, tail);

	first = npu_hw_queue_first(queue);
	npu_hw_queue_process_locked(queue, &most);
	running = running && first && npu_hw_queue_first(queue) == first;
	if (running)
		first->begun = true;

	return running;
}

/**
 * npu_hw_queue_suspend - take what is complete, then leave the card alone
 * @queue: queue
 *
 * Returns true when the first of its jobs is on a core, provided that the card's arbiter is off.
 */
bool npu_hw_queue_suspend(struct npu_hw_queue *queue)
{
	unsigned long flags;
	bool running = false;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	if (queue->enabled)
		running = npu_hw_queue_account(queue);
	queue->enabled = false;
	spin_unlock_irqrestore(&queue->lock, flags);

	return running;
}

/**
 * npu_hw_queue_leave - leave the card alone, whatever is complete
 * @queue: queue; its jobs stay until npu_hw_queue_fail_all()
 */
void npu_hw_queue_leave(struct npu_hw_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = false;
	spin_unlock_irqrestore(&queue->lock, flags);
}

/**
 * npu_hw_queue_dump - dump the next job of a queue, whose completions are not trusted
 * @queue: queue, its device entered, under hw_lock
 * @reason: why
 */
void npu_hw_queue_dump(struct npu_hw_queue *queue, const char *reason)
{
	struct npu_ctx_job *job;
	unsigned long flags;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	job = npu_hw_queue_first(queue);
	if (job)
		npu_job_get(job); /* the end of the context finishes jobs without hw_lock */
	spin_unlock_irqrestore(&queue->lock, flags);
	if (job) {
		npu_coredump_kill(job, reason);
		npu_job_put(job);
	}
}

/**
 * npu_hw_queue_settle - stop a queue, and find out what became of its jobs
 * @queue: queue; the card's arbiter is off
 *
 * Those that are left in its list have not begun. Fails when the card does not stop.
 */
int npu_hw_queue_settle(struct npu_hw_queue *queue)
{
	struct npu_ctx_job *running = NULL;
	unsigned long flags;
	u32 tail;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	if (npu_hw_queue_account(queue))
		running = npu_hw_queue_first(queue);
	queue->enabled = false;
	spin_unlock_irqrestore(&queue->lock, flags);

	ret = npu_hw_queue_disable(queue);
	if (ret)
		ret = npu_hw_queue_reset_cores(queue);
	if (ret) {
		/* The reset of the card that is left finds the queue suspended. */
		if (running)
			__set_bit(queue->index, queue->npu->running);
		return ret;
	}

	/* What was on a core is lost, unless it was faster than the order to stop. */
	tail = npu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
	spin_lock_irqsave(&queue->lock, flags);
	if (tail < NPU_RING_ENTRIES)
		npu_hw_queue_sort_out(queue, tail);
	if (running && npu_hw_queue_first(queue) == running)
		npu_hw_queue_complete(queue, NULL, ktime_get_ns());
	spin_unlock_irqrestore(&queue->lock, flags);

	return 0;
}

/* The ring is empty: write the jobs that were in it before. */
static void npu_hw_queue_refill(struct npu_hw_queue *queue)
{
	u64 now = ktime_get_ns();
	struct npu_ctx_job *job;

	list_for_each_entry(job, &queue->jobs, link) {
		if (!job->on_card)
			continue;
		npu_hw_queue_off_card(queue, job, now);
		npu_hw_queue_write(queue, job, now);
	}
	npu_doorbell(queue, NPU_DOORBELL_SQ_TAIL, queue->sq_tail);
}

/**
 * npu_hw_queue_resume - put a suspended queue to work on a card that was reset
 * @queue: queue
 * @lost: the first job was on a core when the card was reset; it is lost. The others have not
 *	begun and are submitted again.
 */
void npu_hw_queue_resume(struct npu_hw_queue *queue, bool lost)
{
	unsigned long flags;
	int ret;

	lockdep_assert_held(&queue->npu->hw_lock);

	/* One that was given up: nothing of it is on the card any more. */
	if (queue->error) {
		npu_hw_queue_fail_all(queue, queue->error);
		return;
	}

	ret = npu_hw_queue_enable(queue);
	if (ret) {
		npu_hw_queue_fail_all(queue, ret);
		return;
	}

	spin_lock_irqsave(&queue->lock, flags);
	if (lost && npu_hw_queue_first(queue))
		npu_hw_queue_complete(queue, NULL, ktime_get_ns());
	queue->enabled = true;
	npu_hw_queue_refill(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	npu_hw_queue_feed(queue);
}

/* Ends all jobs, with their fences in the order of submission, although some wait for fences. */
static void npu_hw_queue_cancel_all(struct npu_hw_queue *queue, u32 cause)
{
	struct npu_ctx_job *job, *next;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	list_for_each_entry(job, &queue->jobs, link)
		WRITE_ONCE(job->killed, cause);
	spin_unlock_irqrestore(&queue->lock, flags);
	npu_hw_queue_fail_all(queue, -ECANCELED);

	spin_lock_irqsave(&queue->lock, flags);
	list_for_each_entry_safe(job, next, &queue->waiting, link) {
		list_del_init(&job->link);
		npu_job_stop_listening(job);
		npu_hw_queue_take(queue, job);
	}
	queue->error = READ_ONCE(queue->ctx->dead);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/**
 * npu_hw_queue_cancel - end all jobs of a queue that goes on afterwards
 * @queue: queue, its device entered
 * @cause: DRM_NPU_CAUSE_
 *
 * Fails when the card does not stop: the jobs end with the reset that is left.
 */
int npu_hw_queue_cancel(struct npu_hw_queue *queue, u32 cause)
{
	struct npu_device *npu = queue->npu;
	int ret;

	lockdep_assert_held(&npu->hw_lock);
	WRITE_ONCE(npu->reset_cause, cause);
	npu_write(npu, NPU_REG_CTRL, 0);
	ret = npu_hw_queue_settle(queue);
	if (ret)
		return ret;
	npu_hw_queue_cancel_all(queue, cause);
	npu_hw_queue_resume(queue, false);
	npu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);

	return 0;
}

/**
 * npu_hw_queue_fail_all - end all jobs, now and in future
 * @queue: queue that the card does not serve any more
 * @error: what they end with
 */
void npu_hw_queue_fail_all(struct npu_hw_queue *queue, int error)
{
	struct npu_ctx_job *job, *next;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = false;
	queue->distrusted = false;
	queue->error = error;
	list_for_each_entry_safe(job, next, &queue->jobs, link) {
		if (job->skip_error)
			list_del_init(&job->link);
		else
			npu_hw_queue_remove(queue, job, ktime_get_ns());
		npu_job_finish(job, job->skip_error ?: error, NULL);
	}
	npu_hw_queue_take_ready(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	npu_hw_queue_feed(queue);
}

/**
 * npu_hw_queue_fail - give up a queue that the card has stopped with an error
 * @queue: queue, its device entered
 * @error: what its jobs end with, now and in future
 *
 * No job ends before the card has let go of it. Returns true if only a reset of the card is left:
 * the jobs end with that.
 */
bool npu_hw_queue_fail(struct npu_hw_queue *queue, int error)
{
	unsigned long flags;

	lockdep_assert_held(&queue->npu->hw_lock);

	npu_hw_queue_suspend(queue);
	spin_lock_irqsave(&queue->lock, flags);
	queue->error = queue->error ?: error;
	spin_unlock_irqrestore(&queue->lock, flags);
	if (npu_hw_queue_disable(queue) && npu_hw_queue_reset_cores(queue))
		return true;
	npu_hw_queue_fail_all(queue, error);

	return false;
}

/**
 * npu_hw_queue_reopen - let a queue take jobs again that has failed all of them
 * @queue: queue of the driver itself, whose jobs can be begun again by whoever asked for them
 */
void npu_hw_queue_reopen(struct npu_hw_queue *queue)
{
	unsigned long flags;

	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irqsave(&queue->lock, flags);
	queue->error = READ_ONCE(queue->ctx->dead);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* Life */

/**
 * npu_hw_queue_attach - give a queue a queue pair of the card
 * @queue: queue without one; the device is entered
 * @index: number of the pair, which is free and has memory
 *
 * -EIO: the card refuses. -ENODEV: it does not answer. -ETIMEDOUT: it may use the memory
 * nevertheless, and has to be reset.
 */
int npu_hw_queue_attach(struct npu_hw_queue *queue, u32 index)
{
	struct npu_device *npu = queue->npu;
	const struct npu_slot *slot = &npu->attach.slots[index];
	unsigned long flags;
	int ret;

	lockdep_assert_held(&npu->hw_lock);

	queue->rings = slot->rings;
	queue->rings_dma = slot->rings_dma;
	queue->vector = npu_irq_vector_of_queue(npu, index);
	WRITE_ONCE(queue->index, index);
	ret = npu_hw_queue_enable(queue);
	if (ret) {
		/* One that does not start may have started in part. */
		ret = npu_hw_queue_disable(queue) ? -ETIMEDOUT : ret;
		WRITE_ONCE(queue->index, NPU_NO_QUEUE);
		return ret;
	}

	queue->attached = jiffies;
	queue->ctx->vm->pairs++;
	__clear_bit(index, npu->running);
	npu->queues[index] = queue;
	npu_irq_add_queue(queue->vector, queue);
	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = true;
	spin_unlock_irqrestore(&queue->lock, flags);

	return 0;
}

/**
 * npu_hw_queue_detach - take its queue pair from a queue; jobs that are left wait for another one
 * @queue: queue that the card does not serve any more
 */
void npu_hw_queue_detach(struct npu_hw_queue *queue)
{
	struct npu_device *npu = queue->npu;
	struct npu_ctx_job *job;
	unsigned long flags;

	lockdep_assert_held(&npu->hw_lock);

	npu_irq_remove_queue(queue->vector, queue);
	npu->queues[queue->index] = NULL;
	queue->ctx->vm->pairs--;
	spin_lock_irqsave(&queue->lock, flags);
	queue->enabled = false;
	list_for_each_entry(job, &queue->jobs, link)
		npu_hw_queue_off_card(queue, job, ktime_get_ns());
	WRITE_ONCE(queue->index, NPU_NO_QUEUE);
	queue->rings = NULL;
	if (queue->to_run && !queue->error)
		npu_attach_request(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	npu_space_detach(&queue->ctx->vm->space);
	npu_pm_was_busy(npu);
	npu_pm_put(npu);
}

/**
 * npu_hw_queue_init - an empty queue without queue pair
 * @queue: queue, zeroed
 * @ctx: owner
 * @priority: for the arbiter
 * @core_mask: cores for its jobs
 */
void npu_hw_queue_init(struct npu_hw_queue *queue, struct npu_ctx *ctx, u32 priority,
		       u32 core_mask)
{
	queue->npu = ctx->npu;
	queue->ctx = ctx;
	queue->priority = priority;
	queue->core_mask = core_mask;
	queue->index = NPU_NO_QUEUE;
	queue->done = jiffies;
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->link);
	INIT_LIST_HEAD(&queue->attach_link);
	INIT_LIST_HEAD(&queue->jobs);
	INIT_LIST_HEAD(&queue->waiting);
}

/**
 * npu_hw_queue_shutdown - stop the card's work on a queue and end all its jobs
 * @queue: queue
 * @error: what unfinished jobs end with
 *
 * On return the card touches neither the queue's memory nor any for its jobs.
 */
void npu_hw_queue_shutdown(struct npu_hw_queue *queue, int error)
{
	struct npu_device *npu = queue->npu;
	unsigned long flags;
	bool stuck = false;
	u32 resets = 0;
	int idx;

	/* From here on nothing brings the queue back, a reset of the card neither. */
	spin_lock_irqsave(&queue->lock, flags);
	queue->error = queue->error ?: error;
	spin_unlock_irqrestore(&queue->lock, flags);

	npu_attach_cancel(queue);

	/* A card that is lost or offline has no access to memory, and is reset before it has. */
	if (npu_device_enter_awake(npu, &idx)) {
		mutex_lock(&npu->hw_lock);
		resets = npu->resets;
		if (npu_hw_queue_is_attached(queue)) {
			npu_hw_queue_suspend(queue);
			stuck = npu_hw_queue_disable(queue) && npu_hw_queue_reset_cores(queue);
		}
		mutex_unlock(&npu->hw_lock);
		npu_device_exit(npu, idx);
	}

	if (stuck)
		npu_recover_device(npu, resets);
	npu_hw_queue_fail_all(queue, error);
}

/**
 * npu_hw_queue_destroy - give the queue pair back, if there is one
 * @queue: queue, shut down, without jobs
 */
void npu_hw_queue_destroy(struct npu_hw_queue *queue)
{
	struct npu_device *npu = queue->npu;

	mutex_lock(&npu->hw_lock);
	if (npu_hw_queue_is_attached(queue))
		npu_hw_queue_detach(queue);
	mutex_unlock(&npu->hw_lock);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_NPU_KUNIT_TEST)
#include "npu_hw_queue_test.c"
#endif
