// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts. MSI-X vectors of a card: number 0 carries the card's events, the others the
 * completions of groups of queues (number 0 also those, where the system has only one vector to
 * give). A block of a SoC has a single line that stands for vector 0.
 *
 * The hard handler takes completions, since a job's latency is what users see. It takes a bounded
 * number of them; a thread takes the others.
 */
#include <linux/interrupt.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "npu_device.h"
#include "npu_hw_queue.h"
#include "npu_irq.h"

/* Completions that a hard handler takes. */
#define NPU_IRQ_COMPLETIONS	16

/**
 * npu_irq_look - see to the card's events
 * @npu: device, entered
 *
 * An event whose interrupt was lost raises none again until it is cleared: so this is called now
 * and then without one, too.
 */
void npu_irq_look(struct npu_device *npu)
{
	u32 events = npu_read(npu, NPU_REG_EVENT_STATUS);

	if (!events)
		complete(&npu->irq.tested);
	if (!events || npu_is_gone(events))
		return;

	/* Cleared before it is acted on: what happens from here on raises the vector again. */
	npu_write(npu, NPU_REG_EVENT_STATUS, events);

	if (events & NPU_EVENT_STATUS_INVALIDATED)
		npu_mmu_invalidated(npu);
	if (events & NPU_EVENT_STATUS_ECC)
		dev_warn_ratelimited(npu->drm.dev,
				     "memory errors: %u corrected, %u not correctable\n",
				     npu_read(npu, NPU_REG_ECC_CORRECTED),
				     npu_read(npu, NPU_REG_ECC_UNCORRECTED));
	if (events & NPU_EVENT_STATUS_THERMAL) {
		atomic_inc(&npu->counters.thermal_events);
		dev_warn_ratelimited(npu->drm.dev, "temperature %d m°C, clock %u kHz\n",
				     (s32)npu_read(npu, NPU_REG_TEMP_MC),
				     npu_read(npu, NPU_REG_CUR_CLOCK_KHZ));
	}
	if (events & (NPU_EVENT_STATUS_QUEUE_ERROR | NPU_EVENT_STATUS_FATAL))
		queue_work(npu->timeout_wq, &npu->event_work);
}

/* Takes at most so many completions of a vector's queues; returns false if there may be more. */
static bool npu_irq_process(struct npu_vector *vector, u32 most)
{
	struct npu_hw_queue *queue;
	unsigned long flags;

	spin_lock_irqsave(&vector->lock, flags);
	list_for_each_entry(queue, &vector->queues, link) {
		npu_hw_queue_process_some(queue, &most);
		if (!most)
			break;
	}
	spin_unlock_irqrestore(&vector->lock, flags);

	return most;
}

static irqreturn_t npu_irq_handler(int irq, void *data)
{
	struct npu_vector *vector = data;

	if (!vector->index)
		npu_irq_look(vector->npu);

	return npu_irq_process(vector, NPU_IRQ_COMPLETIONS) ? IRQ_HANDLED : IRQ_WAKE_THREAD;
}

static irqreturn_t npu_irq_thread(int irq, void *data)
{
	while (!npu_irq_process(data, NPU_IRQ_COMPLETIONS))
		cond_resched();

	return IRQ_HANDLED;
}

/* The line is a level: what keeps it up is cleared before anything is looked at. */
static irqreturn_t npu_irq_line_handler(int irq, void *data)
{
	struct npu_vector *vector = data;
	struct npu_device *npu = vector->npu;
	u32 status = npu_read(npu, NPU_REG_LINE_STATUS);
	irqreturn_t ret = IRQ_NONE;

	if (npu_is_gone(status))
		return IRQ_NONE;

	if (status & NPU_LINE_STATUS_VECTOR) {
		npu_write(npu, NPU_REG_LINE_STATUS, NPU_LINE_STATUS_VECTOR);
		ret = npu_irq_handler(irq, vector);
	}
	/* Stays up as long as there are reports. */
	if (status & NPU_LINE_STATUS_WATCH && npu->cache_watch) {
		npu_cache_watch_drain(npu);
		ret = ret == IRQ_NONE ? IRQ_HANDLED : ret;
	}

	return ret;
}

/**
 * npu_irq_test - let the card raise a vector, and wait for it
 * @npu: device, entered
 * @ns: time from the register to the woken thread: what no job can be faster than
 */
int npu_irq_test(struct npu_device *npu, u64 *ns)
{
	struct npu_irq *irq = &npu->irq;
	unsigned long left;
	u64 start;

	mutex_lock(&irq->test_lock);
	reinit_completion(&irq->tested);
	start = ktime_get_ns();
	npu_write(npu, NPU_REG_IRQ_TEST, 0);
	left = wait_for_completion_timeout(&irq->tested, HZ);
	*ns = ktime_get_ns() - start;
	mutex_unlock(&irq->test_lock);

	return left ? 0 : -ETIMEDOUT;
}

static int npu_irq_request(struct npu_device *npu, u32 index)
{
	struct npu_vector *vector = &npu->irq.vectors[index];

	vector->npu = npu;
	vector->index = index;
	spin_lock_init(&vector->lock);
	INIT_LIST_HEAD(&vector->queues);
	vector->irq = npu->bus->irq_number(npu, index);

	return request_threaded_irq(vector->irq, npu->bus->line ? npu_irq_line_handler :
								  npu_irq_handler,
				    npu_irq_thread, 0, "npu", vector);
}

/**
 * npu_irq_init - allocate and request the vectors
 * @npu: device
 */
int npu_irq_init(struct npu_device *npu)
{
	u32 want = min_t(u32, npu->irq.hw_vectors, NPU_MAX_VECTORS);
	int count, i, ret;

	init_completion(&npu->irq.tested);
	ret = drmm_mutex_init(&npu->drm, &npu->irq.test_lock);
	if (ret)
		return ret;

	want = min_t(u32, want, npu->info.queues + 1);
	count = npu->bus->irq_alloc(npu, want);
	if (count < 0)
		return count;

	for (i = 0; i < count; i++) {
		ret = npu_irq_request(npu, i);
		if (ret)
			goto err;
		npu->irq.count = i + 1;
	}

	return 0;

err:
	npu_irq_fini(npu);
	return ret;
}

/**
 * npu_irq_disable - no handler runs on return, nor until npu_irq_enable()
 * @npu: device
 */
void npu_irq_disable(struct npu_device *npu)
{
	u32 i;

	for (i = 0; i < npu->irq.count; i++)
		disable_irq(npu->irq.vectors[i].irq);
}

/**
 * npu_irq_enable - undo npu_irq_disable()
 * @npu: device
 */
void npu_irq_enable(struct npu_device *npu)
{
	u32 i;

	for (i = 0; i < npu->irq.count; i++)
		enable_irq(npu->irq.vectors[i].irq);
}

/**
 * npu_irq_fini - free the vectors; no handler runs afterwards
 * @npu: device
 */
void npu_irq_fini(struct npu_device *npu)
{
	while (npu->irq.count) {
		struct npu_vector *vector = &npu->irq.vectors[--npu->irq.count];

		free_irq(vector->irq, vector);
	}
	if (npu->bus->irq_free)
		npu->bus->irq_free(npu);
}

/**
 * npu_irq_vector_of_queue - the vector that serves a queue
 * @npu: device
 * @queue: number of the queue
 */
struct npu_vector *npu_irq_vector_of_queue(struct npu_device *npu, u32 queue)
{
	u32 others = npu->irq.count - 1;

	return &npu->irq.vectors[others ? 1 + queue % others : 0];
}

void npu_irq_add_queue(struct npu_vector *vector, struct npu_hw_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&vector->lock, flags);
	list_add_tail(&queue->link, &vector->queues);
	spin_unlock_irqrestore(&vector->lock, flags);
}

void npu_irq_remove_queue(struct npu_vector *vector, struct npu_hw_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&vector->lock, flags);
	list_del_init(&queue->link);
	spin_unlock_irqrestore(&vector->lock, flags);
}
