// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs: rings, completions, enable and disable. A queue finishes its jobs in order. A job
 * with a failed in-fence is skipped, but keeps its place in the list, so that its fence does not
 * signal early. Jobs with unsignalled fences, and all later jobs, are on @waiting. Any path that
 * may unblock them moves ready jobs to @jobs, under the lock.
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

/* Disabling takes one bounded step of a command; a software model on a busy host is slow. */
#define QNPU_QUEUE_TIMEOUT_US	(5 * USEC_PER_SEC)
#define QNPU_QUEUE_POLL_US	50

/* Completions taken per write of CQ_HEAD, which crosses the bus. */
#define QNPU_RING_TELL		(QNPU_RING_ENTRIES / 4)

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

/* Returns the next attached queue with index @index or more, or NULL. hw_lock is held. */
struct qnpu_hw_queue *qnpu_hw_queue_next(struct qnpu_device *npu, u32 *index)
{
	while (*index < npu->info.queues) {
		if (npu->queues[(*index)++])
			return npu->queues[*index - 1];
	}

	return NULL;
}

/* Read STATUS. The device is entered. */
u32 qnpu_hw_queue_status(struct qnpu_hw_queue *queue)
{
	return qnpu_queue_read(queue, NPU_QUEUE_STATUS);
}

/* Abort a job if the device has it. The device is entered. */
void qnpu_hw_queue_abort(struct qnpu_hw_queue *queue, u64 seqno)
{
	qnpu_write64(queue->npu, NPU_QUEUE_REG(queue->index, NPU_QUEUE_ABORT_JOB), seqno);
}

/* Returns the mask of cores that run a job of the queue. The device is entered. */
u32 qnpu_hw_queue_cores(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	u32 core, cores = 0, busy = qnpu_read(npu, NPU_REG_CORE_BUSY);

	for (core = 0; core < npu->info.cores; core++) {
		if (busy & BIT(core) &&
		    qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE)) == queue->index)
			cores |= BIT(core);
	}

	return cores;
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

/* The job is finished, or must restart after a reset. */
static void qnpu_hw_queue_off_card(struct qnpu_hw_queue *queue, struct qnpu_ctx_job *job)
{
	if (!job->on_card)
		return;
	job->on_card = false;
	WRITE_ONCE(queue->on_card, queue->on_card - 1);
}

/* Take a runnable job off the list. */
static void qnpu_hw_queue_remove(struct qnpu_hw_queue *queue, struct qnpu_ctx_job *job, u64 now)
{
	queue->job_ns = now - max(queue->done_ns, job->given_ns);
	queue->done_ns = now;
	queue->done = jiffies;
	qnpu_hw_queue_off_card(queue, job);
	list_del_init(&job->link);
	WRITE_ONCE(queue->to_run, queue->to_run - 1);
}

/* Finish skipped jobs at the head of the list. */
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

/* All in-fences have signalled. Returns false for a skipped job, which may be finished by then. */
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
	/* The watchdog runs while there are jobs. */
	if (!queue->watched) {
		queue->watched = true;
		queue_delayed_work(queue->npu->timeout_wq, &queue->ctx->watch_work,
				   queue->ctx->timeout);
	}

	return true;
}

/* Take the waiting jobs that are ready. Returns true if one of them must run. */
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

/* Queue @count armed jobs, and waiting jobs whose fences have signalled. */
void qnpu_hw_queue_push(struct qnpu_hw_queue *queue, struct qnpu_ctx_job **jobs, u32 count)
{
	bool last, run = false;
	u32 i;

	spin_lock_irq(&queue->lock);
	for (i = 0; i < count; i++) {
		/* A callback that drops the last count may still use the job: let it wait. */
		last = atomic_dec_and_test(&jobs[i]->pending);
		if (last && list_empty(&queue->waiting) && qnpu_job_is_ready(jobs[i]))
			run |= qnpu_hw_queue_take(queue, jobs[i]);
		else
			list_add_tail(&jobs[i]->link, &queue->waiting);
	}
	if (!list_empty(&queue->waiting))
		run |= qnpu_hw_queue_take_ready(queue);
	/* If the ring is full, the next completion feeds the rest. */
	run &= queue->on_card < QNPU_RING_JOBS;
	spin_unlock_irq(&queue->lock);
	if (run)
		qnpu_hw_queue_feed(queue);
}

/* Returns the first job, with a reference, and its start in jiffies; NULL if there is none. */
struct qnpu_ctx_job *qnpu_hw_queue_watched_job(struct qnpu_hw_queue *queue, unsigned long *since)
{
	struct qnpu_ctx_job *job;

	spin_lock_irq(&queue->lock);
	job = qnpu_hw_queue_first(queue);
	queue->watched = job;
	if (job) {
		qnpu_job_get(job);
		*since = time_after(queue->done, job->taken) ? queue->done : job->taken;
	}
	spin_unlock_irq(&queue->lock);

	return job;
}

/* Write jobs to the ring, or request a queue pair. */
void qnpu_hw_queue_feed(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *job;
	unsigned long flags;
	u32 count = 0;
	u64 now;

	/* Lockless check: every change is followed by another call. */
	if (READ_ONCE(queue->to_run) <= READ_ONCE(queue->on_card))
		return;

	/* Resets and removal clear @enabled first, so this lock suffices. */
	spin_lock_irqsave(&queue->lock, flags);
	if (!qnpu_hw_queue_is_attached(queue) && queue->to_run && !queue->error)
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
	/* The doorbell write is ordered after entry and descriptor. */
	if (count)
		qnpu_doorbell(queue, NPU_DOORBELL_SQ_TAIL, queue->sq_tail);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* Returns the earliest possible start of a job on a core, in ns; 0 if it is finished. */
u64 qnpu_hw_queue_since_ns(struct qnpu_hw_queue *queue, u64 seqno)
{
	struct qnpu_ctx_job *job;
	u64 since = 0;

	spin_lock_irq(&queue->lock);
	job = qnpu_hw_queue_first(queue);
	if (job && job->on_card && job->seqno == seqno)
		since = max(queue->done_ns, job->given_ns);
	spin_unlock_irq(&queue->lock);

	return since;
}

/* Completion */

/* Completion of a job whose result is unknown. */
static const struct npu_cqe qnpu_unknown = {
	.status = NPU_STATUS_INTERNAL,
	.engine = NPU_ENGINE_NONE,
	.core = 0xff,
	.command = NPU_COMMAND_NONE,
	.region = NPU_REGION_NONE,
};

/* Validate a completion: it must name the first job, which is not a skipped one. */
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

/* Finish the first job with its completion; NULL: it was on a core and is lost. */
static void qnpu_hw_queue_complete(struct qnpu_hw_queue *queue, const struct npu_cqe *cqe, u64 now)
{
	struct qnpu_ctx_job *job = qnpu_hw_queue_first(queue);

	qnpu_hw_queue_remove(queue, job, now);
	if (cqe)
		qnpu_coredump_fault(job, cqe);
	qnpu_job_finish(job, 0, cqe);
	qnpu_hw_queue_finish_skipped(queue);
	if (!list_empty(&queue->waiting))
		qnpu_hw_queue_take_ready(queue);
}

/* Copy the next completion; returns false if there is none. */
static bool qnpu_hw_queue_peek(struct qnpu_hw_queue *queue, struct npu_cqe *cqe)
{
	const struct npu_cqe *entry = &queue->rings->cq[queue->cq_head];

	if ((READ_ONCE(entry->phase) & NPU_CQE_PHASE) != queue->cq_phase)
		return false;
	dma_rmb(); /* the phase before the rest of the entry */
	*cqe = *entry;

	return true;
}

static void qnpu_hw_queue_consume(struct qnpu_hw_queue *queue)
{
	queue->cq_head = qnpu_ring_next(queue->cq_head);
	if (!queue->cq_head)
		queue->cq_phase ^= NPU_CQE_PHASE;
}

/* An invalid completion ends no job, which may still run; the device is reset. */
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

/* Take up to @most new completions, in any context; subtracts their number from @most. */
bool qnpu_hw_queue_process_some(struct qnpu_hw_queue *queue, u32 *most)
{
	unsigned long flags;
	bool any = false;

	spin_lock_irqsave(&queue->lock, flags);
	if (queue->enabled) {
		any = qnpu_hw_queue_process_locked(queue, most);
		if (((queue->cq_head - queue->cq_told) & (QNPU_RING_ENTRIES - 1)) >=
		    QNPU_RING_TELL) {
			queue->cq_told = queue->cq_head;
			qnpu_doorbell(queue, NPU_DOORBELL_CQ_HEAD, queue->cq_head);
		}
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (any)
		qnpu_hw_queue_feed(queue);

	return any;
}

/* Take all new completions. Returns true if there was one. */
bool qnpu_hw_queue_process(struct qnpu_hw_queue *queue)
{
	u32 most = U32_MAX;

	return qnpu_hw_queue_process_some(queue, &most);
}

/* Detect a completion written with the wrong phase. The device is entered. */
void qnpu_hw_queue_check_phase(struct qnpu_hw_queue *queue)
{
	struct npu_cqe cqe;
	u32 tail;

	spin_lock_irq(&queue->lock);
	tail = queue->enabled ? qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL) : queue->cq_head;
	/* An entry is written before CQ_TAIL counts it, so CQ_TAIL may lag by one. */
	if (tail < QNPU_RING_ENTRIES && tail != queue->cq_head &&
	    qnpu_ring_next(tail) != queue->cq_head && !qnpu_hw_queue_peek(queue, &cqe))
		qnpu_hw_queue_distrust(queue);
	spin_unlock_irq(&queue->lock);
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

static int qnpu_hw_queue_wait_disabled(struct qnpu_hw_queue *queue)
{
	u32 status;

	return read_poll_timeout(qnpu_queue_read, status, !status || qnpu_is_gone(status),
				 QNPU_QUEUE_POLL_US, QNPU_QUEUE_TIMEOUT_US, false, queue,
				 NPU_QUEUE_STATUS);
}

/* Returns 0 once the device has stopped access to the queue's memory; resets cores that hang. */
static int qnpu_hw_queue_disable(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	u32 cores;

	lockdep_assert_held(&npu->hw_lock);

	qnpu_queue_write(queue, NPU_QUEUE_CTRL, 0);
	if (!qnpu_hw_queue_wait_disabled(queue))
		return 0;

	cores = qnpu_hw_queue_cores(queue);
	drm_warn(&npu->drm, "queue %u: not disabled, resetting cores %#x\n", queue->index, cores);
	atomic_inc(&npu->counters.core_resets);
	qnpu_write(npu, NPU_REG_CORE_RESET, cores);

	return qnpu_hw_queue_wait_disabled(queue);
}

/* Around a device reset, under hw_lock */

/*
 * Retire completed jobs, and mark the job on a core as begun; exact only with the arbiter off. An
 * invalid entry that CQ_TAIL counts gives its job an unknown result.
 */
static void qnpu_hw_queue_account(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *first;
	u32 tail, most = U32_MAX;
	struct npu_cqe cqe;
	bool running, sane;

	do {
		tail = qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL);
		running = qnpu_hw_queue_status(queue) & NPU_QUEUE_STATUS_RUNNING;
	} while (tail != qnpu_queue_read(queue, NPU_QUEUE_CQ_TAIL));

	if (tail >= QNPU_RING_ENTRIES) {
		/* All ones carry no information: the first job may be on a core. */
		tail = queue->cq_head;
	} else if (qnpu_ring_next(tail) == queue->cq_head) {
		/* The last entry may be taken before CQ_TAIL counts it. */
		tail = queue->cq_head;
		running = false;
	}
	while (queue->cq_head != tail && qnpu_hw_queue_first(queue)) {
		sane = qnpu_hw_queue_peek(queue, &cqe) && qnpu_cqe_is_sane(queue, &cqe);
		qnpu_hw_queue_consume(queue);
		qnpu_hw_queue_complete(queue, sane ? &cqe : &qnpu_unknown, ktime_get_ns());
	}

	first = qnpu_hw_queue_first(queue);
	qnpu_hw_queue_process_locked(queue, &most);
	if (running && first && first == qnpu_hw_queue_first(queue) && first->on_card)
		first->begun = true;
}

/* Retire completed jobs and stop using the ring. The arbiter is off, or all jobs will end. */
void qnpu_hw_queue_suspend(struct qnpu_hw_queue *queue)
{
	lockdep_assert_held(&queue->npu->hw_lock);

	spin_lock_irq(&queue->lock);
	if (queue->enabled)
		qnpu_hw_queue_account(queue);
	queue->enabled = false;
	spin_unlock_irq(&queue->lock);
}

/* Suspend and disable a queue of a running device; after a failure, request a device reset. */
int qnpu_hw_queue_stop(struct qnpu_hw_queue *queue)
{
	int ret;

	qnpu_hw_queue_suspend(queue);
	ret = qnpu_hw_queue_disable(queue);
	if (ret)
		qnpu_recover_request(queue->npu, "a queue does not stop");

	return ret;
}

/* Enable a suspended queue after a reset. Jobs are rewritten, except the one that was on a core. */
void qnpu_hw_queue_resume(struct qnpu_hw_queue *queue)
{
	int error = queue->error ?: qnpu_hw_queue_enable(queue);
	struct qnpu_ctx_job *job;

	lockdep_assert_held(&queue->npu->hw_lock);

	if (error) {
		qnpu_hw_queue_fail_all(queue, error);
		return;
	}

	spin_lock_irq(&queue->lock);
	job = qnpu_hw_queue_first(queue);
	if (job && job->begun)
		qnpu_hw_queue_complete(queue, NULL, ktime_get_ns());
	list_for_each_entry(job, &queue->jobs, link)
		qnpu_hw_queue_off_card(queue, job);
	queue->enabled = true;
	spin_unlock_irq(&queue->lock);
	qnpu_hw_queue_feed(queue);
}

/* Detect a failed queue, under hw_lock; the caller then resets the device. */
bool qnpu_hw_queue_has_failed(struct qnpu_hw_queue *queue)
{
	struct qnpu_ctx_job *job;
	unsigned long since;
	u32 status;

	if (!READ_ONCE(queue->distrusted)) {
		status = qnpu_hw_queue_status(queue);
		if (qnpu_is_gone(status) || !(status & NPU_QUEUE_STATUS_ERROR))
			return false;
		drm_err(&queue->npu->drm, "queue %u has stopped, status %#x\n", queue->index,
			status);
		qnpu_hw_queue_set_error(queue, -EIO);
		return true;
	}

	drm_err(&queue->npu->drm, "queue %u: a completion that cannot be true\n", queue->index);
	job = qnpu_hw_queue_watched_job(queue, &since);
	if (job) {
		qnpu_coredump_kill(job, "a completion that cannot be true");
		qnpu_job_put(job);
	}

	return true;
}

/* New jobs end with @error, queued ones at the next device reset. 0: accept jobs again. */
void qnpu_hw_queue_set_error(struct qnpu_hw_queue *queue, int error)
{
	spin_lock_irq(&queue->lock);
	queue->error = error;
	spin_unlock_irq(&queue->lock);
}

/* End all jobs without unsignalled fences, and refuse new ones. The device has left the queue. */
void qnpu_hw_queue_fail_all(struct qnpu_hw_queue *queue, int error)
{
	struct qnpu_ctx_job *job, *next;

	spin_lock_irq(&queue->lock);
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
	spin_unlock_irq(&queue->lock);
}

/* End all jobs in order, also waiting ones, of a suspended queue after a device reset. */
void qnpu_hw_queue_cancel(struct qnpu_hw_queue *queue, u32 cause)
{
	struct qnpu_ctx_job *job, *next;

	spin_lock_irq(&queue->lock);
	queue->error = -ECANCELED;
	list_for_each_entry(job, &queue->jobs, link)
		WRITE_ONCE(job->killed, cause);
	list_for_each_entry_safe(job, next, &queue->waiting, link) {
		list_del_init(&job->link);
		qnpu_job_stop_listening(job);
		qnpu_hw_queue_take(queue, job);
	}
	spin_unlock_irq(&queue->lock);
	qnpu_hw_queue_fail_all(queue, -ECANCELED);
	qnpu_hw_queue_set_error(queue, READ_ONCE(queue->ctx->dead));
}

/* Attach and detach */

/*
 * Attach a queue to the free queue pair @index. The device is entered. Fails with -EIO or -ENODEV,
 * or with -ETIMEDOUT if a device reset was requested, before which the pair may access memory.
 */
int qnpu_hw_queue_attach(struct qnpu_hw_queue *queue, u32 index)
{
	struct qnpu_device *npu = queue->npu;
	const struct qnpu_slot *slot = &npu->attach.slots[index];
	int ret;

	lockdep_assert_held(&npu->hw_lock);

	queue->rings = slot->rings;
	queue->rings_dma = slot->rings_dma;
	queue->vector = qnpu_irq_vector_of_queue(npu, index);
	WRITE_ONCE(queue->index, index);
	ret = qnpu_hw_queue_enable(queue);
	if (ret) {
		/* It may have started partially. */
		if (qnpu_hw_queue_disable(queue)) {
			ret = -ETIMEDOUT;
			qnpu_recover_request(npu, "a queue does not start");
		}
		WRITE_ONCE(queue->index, QNPU_NO_QUEUE);
		return ret;
	}

	queue->attached = jiffies;
	queue->ctx->vm->pairs++;
	npu->queues[index] = queue;
	spin_lock_irq(&queue->vector->lock);
	list_add_tail(&queue->link, &queue->vector->queues);
	spin_unlock_irq(&queue->vector->lock);
	spin_lock_irq(&queue->lock);
	queue->enabled = true;
	spin_unlock_irq(&queue->lock);

	return 0;
}

/* Detach a disabled queue; unfinished jobs wait for another queue pair. */
void qnpu_hw_queue_detach(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	struct qnpu_ctx_job *job;

	lockdep_assert_held(&npu->hw_lock);

	spin_lock_irq(&queue->vector->lock);
	list_del_init(&queue->link);
	spin_unlock_irq(&queue->vector->lock);
	npu->queues[queue->index] = NULL;
	queue->ctx->vm->pairs--;
	spin_lock_irq(&queue->lock);
	queue->enabled = false;
	list_for_each_entry(job, &queue->jobs, link)
		qnpu_hw_queue_off_card(queue, job);
	WRITE_ONCE(queue->index, QNPU_NO_QUEUE);
	queue->rings = NULL;
	if (queue->to_run && !queue->error)
		qnpu_attach_request(queue);
	spin_unlock_irq(&queue->lock);
	qnpu_space_detach(&queue->ctx->vm->space);
	qnpu_pm_was_busy(npu);
	qnpu_pm_put(npu);
}

/* Initialise an empty, detached queue in zeroed memory. */
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

/* End all jobs but waiting ones. On return the device accesses no memory of queue or jobs. */
void qnpu_hw_queue_shutdown(struct qnpu_hw_queue *queue, int error)
{
	struct qnpu_device *npu = queue->npu;
	int ret = 0;

	qnpu_hw_queue_set_error(queue, error);
	qnpu_attach_cancel(queue);

	mutex_lock(&npu->hw_lock);
	/* A device that is not up makes no DMA, and is reset before it does. */
	if (qnpu_hw_queue_is_attached(queue) && qnpu_device_is_up(npu))
		ret = qnpu_hw_queue_stop(queue);
	mutex_unlock(&npu->hw_lock);
	if (ret)
		flush_work(&npu->event_work);
	qnpu_hw_queue_fail_all(queue, error);
	/* The watchdog reads registers of the queue pair. */
	cancel_delayed_work_sync(&queue->ctx->watch_work);

	mutex_lock(&npu->hw_lock);
	if (qnpu_hw_queue_is_attached(queue))
		qnpu_hw_queue_detach(queue);
	mutex_unlock(&npu->hw_lock);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_hw_queue_test.c"
#endif
