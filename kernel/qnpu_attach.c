// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multiplexing of queue pairs among contexts.
 *
 * A context gets a queue pair when it has a job, and keeps it until another context needs it. The
 * context idle for longest loses its pair first. If all are busy, they share the pairs in time
 * slices. A context with jobs that have not started loses its pair after its slice. These jobs
 * return to the driver at no cost. Address spaces get equal shares of pairs, however many contexts
 * each has.
 */
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/jiffies.h>

#include <drm/drm_managed.h>

#include "qnpu_attach.h"
#include "qnpu_copy.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_hw_queue.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"
#include "qnpu_vm.h"

/* Time slice of a busy context while others wait for a queue pair. */
#define QNPU_ATTACH_TURN	msecs_to_jiffies(20)
/* Retry period while no queue pair can be taken. */
#define QNPU_ATTACH_RETRY	msecs_to_jiffies(8)
/* Idle time after which a context detaches, if the device has runtime PM. */
#define QNPU_ATTACH_IDLE	(HZ / 5)

/* Waiting contexts */

/* Wait for a queue pair. The queue has jobs; its lock is held. */
void qnpu_attach_request(struct qnpu_hw_queue *queue)
{
	struct qnpu_attach *attach = &queue->npu->attach;
	unsigned long flags;
	bool first = false;

	spin_lock_irqsave(&attach->lock, flags);
	if (list_empty(&queue->attach_link)) {
		first = list_empty(&attach->waiting);
		qnpu_ctx_get(queue->ctx);
		list_add_tail(&queue->attach_link, &attach->waiting);
	}
	spin_unlock_irqrestore(&attach->lock, flags);
	if (first)
		qnpu_attach_kick(queue->npu);
}

/* Attach waiting queues now. */
void qnpu_attach_kick(struct qnpu_device *npu)
{
	mod_delayed_work(npu->attach.wq, &npu->attach.work, 0);
}

/* Take a queue off the waiting list. */
static void qnpu_attach_forget(struct qnpu_hw_queue *queue)
{
	struct qnpu_attach *attach = &queue->npu->attach;
	unsigned long flags;
	bool waited;

	spin_lock_irqsave(&attach->lock, flags);
	waited = !list_empty(&queue->attach_link);
	list_del_init(&queue->attach_link);
	spin_unlock_irqrestore(&attach->lock, flags);
	if (waited)
		qnpu_ctx_put(queue->ctx);
}

/* Stop attaching a queue that has failed. On return it cannot get a queue pair. */
void qnpu_attach_cancel(struct qnpu_hw_queue *queue)
{
	qnpu_attach_forget(queue);
	/* The work may be attaching the queue right now. */
	mutex_lock(&queue->npu->attach.mutex);
	mutex_unlock(&queue->npu->attach.mutex);
}

/* Returns the first waiting queue of the address space with fewest pairs; the mutex keeps it. */
static struct qnpu_hw_queue *qnpu_attach_next(struct qnpu_device *npu)
{
	struct qnpu_attach *attach = &npu->attach;
	struct qnpu_hw_queue *queue, *best = NULL;
	u32 pairs, fewest = U32_MAX;
	unsigned long flags;

	lockdep_assert_held(&attach->mutex);

	mutex_lock(&npu->hw_lock);
	spin_lock_irqsave(&attach->lock, flags);
	list_for_each_entry(queue, &attach->waiting, attach_link) {
		pairs = queue->ctx->vm->pairs;
		if (pairs < fewest) {
			fewest = pairs;
			best = queue;
		}
		if (!fewest)
			break;
	}
	spin_unlock_irqrestore(&attach->lock, flags);
	mutex_unlock(&npu->hw_lock);

	return best;
}

/* Detaching contexts */

/* Detach a queue, unless one of its jobs is on a core. */
static int qnpu_attach_take(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	int ret = -EBUSY;

	lockdep_assert_held(&npu->hw_lock);

	qnpu_write(npu, NPU_REG_CTRL, 0);
	if (!(qnpu_hw_queue_status(queue) & NPU_QUEUE_STATUS_RUNNING))
		ret = qnpu_hw_queue_stop(queue);
	if (!ret)
		qnpu_hw_queue_detach(queue);
	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);
	/* The reset that should fail its jobs skips detached queues. */
	if (!ret && READ_ONCE(queue->error))
		qnpu_hw_queue_fail_all(queue, READ_ONCE(queue->error));

	return ret;
}

/*
 * Returns true if @a should lose its queue pair before @b: the queue idle for longest. Without
 * idle queues, the oldest time slice of the address space with most pairs.
 */
static bool qnpu_attach_loses(const struct qnpu_hw_queue *a, const struct qnpu_hw_queue *b)
{
	bool idle = !qnpu_ctx_is_busy(a->ctx);

	if (idle != !qnpu_ctx_is_busy(b->ctx))
		return idle;
	if (idle)
		return time_before(a->done, b->done);
	if (a->ctx->vm->pairs != b->ctx->vm->pairs)
		return a->ctx->vm->pairs > b->ctx->vm->pairs;

	return time_before(a->attached, b->attached);
}

/*
 * Returns the queue to detach for an address space with @pairs queue pairs. A busy one has used up
 * its time slice, and its address space has at least as many. @passed: queues with a job on a core.
 */
static struct qnpu_hw_queue *qnpu_attach_loser(struct qnpu_device *npu, u32 pairs,
					       const unsigned long *passed)
{
	struct qnpu_hw_queue *queue, *loser = NULL;
	u32 i;

	for (i = 0; i < qnpu_copy_user_queues(npu); i++) {
		queue = npu->queues[i];
		if (!queue || test_bit(i, passed))
			continue;
		if (qnpu_ctx_is_busy(queue->ctx) &&
		    (time_before(jiffies, queue->attached + QNPU_ATTACH_TURN) ||
		     queue->ctx->vm->pairs < pairs))
			continue;
		if (!loser || qnpu_attach_loses(queue, loser))
			loser = queue;
	}

	return loser;
}

/*
 * Returns the index of a free queue pair for an address space with @pairs of them, after detaching
 * a queue if necessary, or -EAGAIN.
 */
static int qnpu_attach_find(struct qnpu_device *npu, u32 pairs)
{
	u32 i, count = min(READ_ONCE(npu->attach.slot_count), qnpu_copy_user_queues(npu));
	DECLARE_BITMAP(passed, NPU_MAX_QUEUES) = {};
	struct qnpu_hw_queue *queue;
	int ret;

	for (i = 0; i < count; i++) {
		if (!npu->queues[i])
			return i;
	}
	while ((queue = qnpu_attach_loser(npu, pairs, passed))) {
		i = queue->index;
		ret = qnpu_attach_take(queue);
		if (!ret)
			return i;
		/* A pending device reset makes further attempts useless. */
		if (ret != -EBUSY)
			break;
		__set_bit(i, passed);
	}

	return -EAGAIN;
}

/* Attaching */

/* The device is kept awake, and the address space has an ASID. */
static int qnpu_attach_awake(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	int ret = -EALREADY, index = qnpu_copy_user_queues(npu);
	int idx;

	if (!qnpu_device_enter_awake(npu, &idx)) {
		/* If the device is lost, all jobs end. */
		return READ_ONCE(npu->wedged) || drm_dev_is_unplugged(&npu->drm) ? -ENODEV :
										  -EAGAIN;
	}
	mutex_lock(&npu->hw_lock);
	if (!qnpu_hw_queue_is_attached(queue) && !READ_ONCE(queue->error)) {
		if (!queue->ctx->internal)
			index = qnpu_attach_find(npu, queue->ctx->vm->pairs);
		ret = index < 0 ? index : qnpu_hw_queue_attach(queue, index);
	}
	if (ret == -ENODEV && !queue->ctx->internal)
		qnpu_recover_request(npu, "a queue pair does not answer");
	mutex_unlock(&npu->hw_lock);
	qnpu_device_exit(npu, idx);

	return ret;
}

/*
 * Attach a queue to a pair, which keeps the device awake. The driver's own queue gets the last pair
 * permanently. -EAGAIN: all pairs are in use; -EALREADY: the queue needs none.
 */
int qnpu_attach_queue(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	bool cookie;
	int ret;

	ret = qnpu_pm_get(npu);
	if (ret)
		return ret;
	cookie = dma_fence_begin_signalling();
	ret = -EAGAIN;
	if (!qnpu_space_attach(&queue->ctx->vm->space)) {
		ret = qnpu_attach_awake(queue);
		if (ret)
			qnpu_space_detach(&queue->ctx->vm->space);
	}
	dma_fence_end_signalling(cookie);
	if (!ret)
		return 0;

	qnpu_pm_put(npu);
	/* The device may still access the rings; wait for its reset. */
	if (ret != -EAGAIN && ret != -EALREADY)
		flush_work(&npu->event_work);

	return ret;
}

static void qnpu_attach_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(to_delayed_work(work), struct qnpu_device,
					       attach.work);
	struct qnpu_attach *attach = &npu->attach;
	struct qnpu_hw_queue *queue;
	int ret = 0;

	do {
		mutex_lock(&attach->mutex);
		queue = qnpu_attach_next(npu);
		if (queue)
			ret = qnpu_attach_queue(queue);
		if (queue && ret != -EAGAIN) {
			qnpu_attach_forget(queue);
			if (ret && ret != -EALREADY)
				qnpu_hw_queue_fail_all(queue, ret);
			qnpu_hw_queue_feed(queue);
		}
		mutex_unlock(&attach->mutex);
	} while (queue && ret != -EAGAIN);
	if (queue)
		queue_delayed_work(attach->wq, &attach->work, QNPU_ATTACH_RETRY);
}

/* Detach idle contexts of an entered device, which can suspend once it has no queues. */
void qnpu_attach_trim(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue;
	u32 i;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < qnpu_copy_user_queues(npu); i++) {
		queue = npu->queues[i];
		if (queue && !qnpu_ctx_is_busy(queue->ctx) &&
		    time_after(jiffies, queue->done + QNPU_ATTACH_IDLE) &&
		    time_after(jiffies, queue->attached + QNPU_ATTACH_IDLE))
			qnpu_attach_take(queue);
	}
	mutex_unlock(&npu->hw_lock);
}

/* Set-up */

static int qnpu_attach_add_slot(struct qnpu_device *npu, u32 index)
{
	struct qnpu_slot *slot = &npu->attach.slots[index];

	slot->rings = dmam_alloc_coherent(npu->drm.dev, sizeof(*slot->rings), &slot->rings_dma,
					  GFP_KERNEL);

	return slot->rings ? 0 : -ENOMEM;
}

/* Allocate slots for as many queue pairs as there are contexts, inside drm_dev_enter(). */
int qnpu_attach_prepare(struct qnpu_device *npu, u32 contexts)
{
	struct qnpu_attach *attach = &npu->attach;
	int ret = 0;

	mutex_lock(&attach->slots_lock);
	while (!ret && attach->slot_count < min(contexts, qnpu_copy_user_queues(npu))) {
		ret = qnpu_attach_add_slot(npu, attach->slot_count);
		if (!ret)
			WRITE_ONCE(attach->slot_count, attach->slot_count + 1);
	}
	mutex_unlock(&attach->slots_lock);

	return ret;
}

static void qnpu_attach_destroy_wq(struct drm_device *drm, void *wq)
{
	destroy_workqueue(wq);
}

/* Initialise for an identified device. */
int qnpu_attach_init(struct qnpu_device *npu)
{
	struct qnpu_attach *attach = &npu->attach;
	u32 own = qnpu_copy_user_queues(npu);
	int ret;

	mutex_init(&attach->slots_lock);
	INIT_LIST_HEAD(&attach->waiting);
	spin_lock_init(&attach->lock);
	mutex_init(&attach->mutex);
	INIT_DELAYED_WORK(&attach->work, qnpu_attach_work);
	attach->wq = alloc_ordered_workqueue("qnpu-attach", WQ_MEM_RECLAIM | WQ_HIGHPRI);
	if (!attach->wq)
		return -ENOMEM;
	ret = drmm_add_action_or_reset(&npu->drm, qnpu_attach_destroy_wq, attach->wq);
	if (ret)
		return ret;

	return own < npu->info.queues ? qnpu_attach_add_slot(npu, own) : 0;
}

/* Stop the work. All contexts have ended. */
void qnpu_attach_fini(struct qnpu_device *npu)
{
	cancel_delayed_work_sync(&npu->attach.work);
}
