// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs of the card are multiplexed among contexts.
 *
 * A context gets a queue pair when it has a job, and keeps it until another one needs it. The pair
 * of the context that has been idle for longest is taken first. If all are busy, they are shared in
 * time: a context with jobs that have not begun loses its pair after a turn, and waits for another
 * one. The jobs go back to the driver, which costs them nothing. Among contexts that wait, and
 * among those that lose, address spaces are treated equally, so that many contexts of one do not
 * crowd out another.
 */
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/jiffies.h>
#include <linux/slab.h>

#include <drm/drm_print.h>

#include "qnpu_attach.h"
#include "qnpu_copy.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_hw_queue.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"
#include "qnpu_vm.h"

/* Time for which a busy context keeps its queue pair while others wait. */
#define QNPU_ATTACH_TURN	msecs_to_jiffies(20)
/* Period of looking for a queue pair while none can be taken. */
#define QNPU_ATTACH_RETRY	msecs_to_jiffies(8)
/* Idle time after which a context of a device that can sleep gives its queue pair back. */
#define QNPU_ATTACH_IDLE	(HZ / 5)

/* Contexts that wait */

/**
 * qnpu_attach_request - a queue has jobs and no queue pair
 * @queue: queue, its lock held
 */
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

/**
 * qnpu_attach_kick - look after those that wait
 * @npu: device
 */
void qnpu_attach_kick(struct qnpu_device *npu)
{
	mod_delayed_work(npu->attach.wq, &npu->attach.work, 0);
}

/**
 * qnpu_attach_cancel - a queue that is shut down waits for no queue pair any more
 * @queue: queue
 */
void qnpu_attach_cancel(struct qnpu_hw_queue *queue)
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
	/* The work may be about to attach it. */
	mutex_lock(&attach->mutex);
	mutex_unlock(&attach->mutex);
}

/* The first waiting one of an address space with the fewest queue pairs, with a reference. */
static struct qnpu_hw_queue *qnpu_attach_next(struct qnpu_device *npu)
{
	struct qnpu_attach *attach = &npu->attach;
	struct qnpu_hw_queue *queue, *best = NULL;
	u32 pairs, fewest = U32_MAX;
	struct qnpu_vm *vm;
	unsigned long flags;

	mutex_lock(&npu->hw_lock);
	spin_lock_irqsave(&attach->lock, flags);
	list_for_each_entry(queue, &attach->waiting, attach_link) {
		vm = queue->ctx->vm;
		pairs = vm ? vm->pairs : 0;
		if (pairs < fewest) {
			fewest = pairs;
			best = queue;
		}
		if (!fewest)
			break;
	}
	if (best)
		list_del_init(&best->attach_link);
	spin_unlock_irqrestore(&attach->lock, flags);
	mutex_unlock(&npu->hw_lock);

	return best;
}

/* Contexts that lose their queue pair */

/* Takes the queue pair away, unless one of its jobs is on a core. */
static int qnpu_attach_take(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	int ret = -EBUSY;

	lockdep_assert_held(&npu->hw_lock);

	qnpu_write(npu, NPU_REG_CTRL, 0);
	if (!(qnpu_hw_queue_status(queue) & NPU_QUEUE_STATUS_RUNNING))
		ret = qnpu_hw_queue_settle(queue);
	if (!ret)
		qnpu_hw_queue_detach(queue);
	qnpu_write(npu, NPU_REG_CTRL, NPU_CTRL_ENABLE);

	return ret;
}

static struct qnpu_hw_queue *qnpu_attach_idlest(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue, *idlest = NULL;
	u32 i;

	for (i = 0; i < qnpu_copy_user_queues(npu); i++) {
		queue = npu->queues[i];
		if (!queue || qnpu_hw_queue_has_jobs(queue))
			continue;
		if (!idlest || time_before(queue->done, idlest->done))
			idlest = queue;
	}

	return idlest;
}

/*
 * The busy one whose turn began first, of the address space with most queue pairs. @passed: those
 * whose job is on a core.
 */
static struct qnpu_hw_queue *qnpu_attach_busiest(struct qnpu_device *npu,
						 const unsigned long *passed)
{
	struct qnpu_hw_queue *queue, *busiest = NULL;
	u32 i, pairs, most = 0;

	for (i = 0; i < qnpu_copy_user_queues(npu); i++) {
		queue = npu->queues[i];
		if (!queue || test_bit(i, passed) ||
		    time_before(jiffies, queue->attached + QNPU_ATTACH_TURN))
			continue;
		pairs = queue->ctx->vm->pairs;
		if (pairs < most || (pairs == most && time_after(queue->attached,
								 busiest->attached)))
			continue;
		most = pairs;
		busiest = queue;
	}

	return busiest;
}

/*
 * Returns the number of a free queue pair, if need be after taking it from a context; or -EAGAIN.
 */
static int qnpu_attach_find(struct qnpu_device *npu)
{
	u32 i, count = min(READ_ONCE(npu->attach.slot_count), qnpu_copy_user_queues(npu));
	DECLARE_BITMAP(passed, NPU_MAX_QUEUES) = {};
	struct qnpu_hw_queue *queue;

	for (i = 0; i < count; i++) {
		if (!npu->queues[i])
			return i;
	}
	queue = qnpu_attach_idlest(npu);
	while (queue || (queue = qnpu_attach_busiest(npu, passed))) {
		i = queue->index;
		if (!qnpu_attach_take(queue))
			return i;
		__set_bit(i, passed);
		queue = NULL;
	}

	return -EAGAIN;
}

/* Attaching */

/*
 * With a reference to the address space's ASID, and the device entered. Returns -EAGAIN if all
 * queue pairs are in use, another error if the card refuses.
 */
static int qnpu_attach_entered(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	int index, ret = -EALREADY;

	mutex_lock(&npu->hw_lock);
	if (!qnpu_hw_queue_is_attached(queue) && !READ_ONCE(queue->error)) {
		index = qnpu_attach_find(npu);
		ret = index < 0 ? index : qnpu_hw_queue_attach(queue, index);
	}
	mutex_unlock(&npu->hw_lock);

	return ret;
}

static int qnpu_attach_awake(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	u32 resets = READ_ONCE(npu->resets);
	int ret, idx;

	ret = qnpu_space_attach(&queue->ctx->vm->space);
	if (ret)
		return -EAGAIN;
	if (qnpu_device_enter_online(npu, &idx)) {
		ret = qnpu_attach_entered(queue);
		qnpu_device_exit(npu, idx);
	} else {
		/* A device that is lost, or gone, ends all jobs. */
		ret = READ_ONCE(npu->wedged) || drm_dev_is_unplugged(&npu->drm) ? -EALREADY :
										  -EAGAIN;
	}
	if (ret)
		qnpu_space_detach(&queue->ctx->vm->space);
	/* It may use the rings, as it has started in part, or it is lost. */
	if (ret == -ETIMEDOUT || ret == -ENODEV)
		qnpu_recover_device(npu, resets);

	return ret;
}

/*
 * The device stays awake as long as a context has a queue pair. Returns -EAGAIN to be called again.
 */
static int qnpu_attach_one(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	bool cookie;
	int ret;

	ret = qnpu_pm_get(npu);
	if (!ret) {
		cookie = dma_fence_begin_signalling();
		ret = qnpu_attach_awake(queue);
		dma_fence_end_signalling(cookie);
		if (ret)
			qnpu_pm_put(npu);
	}
	if (!ret)
		qnpu_hw_queue_feed(queue);
	else if (ret != -EAGAIN && ret != -EALREADY)
		qnpu_hw_queue_fail_all(queue, ret);

	return ret;
}

static void qnpu_attach_again(struct qnpu_hw_queue *queue)
{
	struct qnpu_attach *attach = &queue->npu->attach;
	unsigned long flags;
	bool again;

	spin_lock_irqsave(&queue->lock, flags);
	spin_lock(&attach->lock);
	again = !queue->error && list_empty(&queue->attach_link);
	if (again)
		list_add(&queue->attach_link, &attach->waiting);
	spin_unlock(&attach->lock);
	spin_unlock_irqrestore(&queue->lock, flags);
	if (!again)
		qnpu_ctx_put(queue->ctx);
}

static void qnpu_attach_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(to_delayed_work(work), struct qnpu_device,
					       attach.work);
	struct qnpu_attach *attach = &npu->attach;
	struct qnpu_hw_queue *queue;
	int ret = 0;

	while (!ret || ret != -EAGAIN) {
		mutex_lock(&attach->mutex);
		queue = qnpu_attach_next(npu);
		if (queue) {
			ret = qnpu_attach_one(queue);
			if (ret == -EAGAIN)
				qnpu_attach_again(queue);
			else
				qnpu_ctx_put(queue->ctx);
		}
		mutex_unlock(&attach->mutex);
		if (!queue)
			return;
	}
	queue_delayed_work(attach->wq, &attach->work, QNPU_ATTACH_RETRY);
}

/**
 * qnpu_attach_internal - give the driver's own queue the last queue pair, for good
 * @queue: queue
 */
int qnpu_attach_internal(struct qnpu_hw_queue *queue)
{
	struct qnpu_device *npu = queue->npu;
	u32 resets = READ_ONCE(npu->resets);
	int ret, idx;

	ret = qnpu_pm_get(npu);
	if (ret)
		return ret;
	ret = qnpu_space_attach(&queue->ctx->vm->space);
	if (ret)
		goto err_pm;
	ret = -ENODEV;
	if (qnpu_device_enter_online(npu, &idx)) {
		mutex_lock(&npu->hw_lock);
		ret = qnpu_hw_queue_attach(queue, qnpu_copy_user_queues(npu));
		mutex_unlock(&npu->hw_lock);
		qnpu_device_exit(npu, idx);
	}
	if (ret)
		goto err_space;

	return 0;

err_space:
	qnpu_space_detach(&queue->ctx->vm->space);
	if (ret == -ETIMEDOUT)
		qnpu_recover_device(npu, resets);
err_pm:
	qnpu_pm_put(npu);

	return ret;
}

/**
 * qnpu_attach_trim - take queue pairs from contexts that have been idle for a while
 * @npu: device, entered; it can sleep when no context has one
 */
void qnpu_attach_trim(struct qnpu_device *npu)
{
	struct qnpu_hw_queue *queue;
	u32 i;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < qnpu_copy_user_queues(npu); i++) {
		queue = npu->queues[i];
		if (queue && !qnpu_hw_queue_has_jobs(queue) &&
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

	slot->rings = dma_alloc_coherent(npu->drm.dev, sizeof(*slot->rings), &slot->rings_dma,
					 GFP_KERNEL);

	return slot->rings ? 0 : -ENOMEM;
}

/**
 * qnpu_attach_prepare - make memory for as many queue pairs as there are contexts
 * @npu: device, held
 * @contexts: how many that are
 */
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

/**
 * qnpu_attach_init - no contexts
 * @npu: device, identified
 */
int qnpu_attach_init(struct qnpu_device *npu)
{
	struct qnpu_attach *attach = &npu->attach;
	u32 own = qnpu_copy_user_queues(npu);

	mutex_init(&attach->slots_lock);
	INIT_LIST_HEAD(&attach->waiting);
	spin_lock_init(&attach->lock);
	mutex_init(&attach->mutex);
	INIT_DELAYED_WORK(&attach->work, qnpu_attach_work);
	attach->wq = alloc_ordered_workqueue("qnpu-attach", WQ_MEM_RECLAIM | WQ_HIGHPRI);
	if (!attach->wq)
		return -ENOMEM;

	return own < npu->info.queues ? qnpu_attach_add_slot(npu, own) : 0;
}

/**
 * qnpu_attach_fini - stop the work
 * @npu: device whose contexts have ended
 */
void qnpu_attach_fini(struct qnpu_device *npu)
{
	cancel_delayed_work_sync(&npu->attach.work);
}

/**
 * qnpu_attach_release_dma - free the memory of all queue pairs; also twice
 * @npu: device that goes away, its contexts ended
 */
void qnpu_attach_release_dma(struct qnpu_device *npu)
{
	struct qnpu_attach *attach = &npu->attach;
	u32 i;

	for (i = 0; i < npu->info.queues; i++) {
		struct qnpu_slot *slot = &attach->slots[i];

		if (slot->rings)
			dma_free_coherent(npu->drm.dev, sizeof(*slot->rings), slot->rings,
					  slot->rings_dma);
		slot->rings = NULL;
	}
	attach->slot_count = 0;
	if (attach->wq)
		destroy_workqueue(attach->wq);
	attach->wq = NULL;
}
