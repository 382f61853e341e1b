// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts. Vector 0, or the line of a SoC block, carries events, and completions if there is no
 * other vector. The other MSI-X vectors carry the completions of groups of queues. The hard handler
 * takes a bounded number of completions, a thread takes the rest.
 */
#include <linux/export.h>
#include <linux/interrupt.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "qnpu_device.h"
#include "qnpu_hw_queue.h"
#include "qnpu_irq.h"
#include "qnpu_trace.h"

/* Completions per hard interrupt. */
#define QNPU_IRQ_COMPLETIONS	16

/*
 * Handle pending events, from the handler or with the device entered. The periodic work and the
 * watchdog call it, too: after a lost interrupt no event raises another before a clear.
 */
void qnpu_irq_look(struct qnpu_device *npu)
{
	u32 events = qnpu_read(npu, NPU_REG_EVENT_STATUS);

	if (!events)
		complete(&npu->irq.tested);
	if (!events || qnpu_is_gone(events))
		return;

	/* Cleared before handling: a later event raises the vector again. */
	qnpu_write(npu, NPU_REG_EVENT_STATUS, events);

	if (events & NPU_EVENT_STATUS_INVALIDATED)
		qnpu_mmu_invalidated(npu);
	if (events & NPU_EVENT_STATUS_ECC)
		dev_warn_ratelimited(npu->drm.dev,
				     "memory errors: %u corrected, %u not correctable\n",
				     qnpu_read(npu, NPU_REG_ECC_CORRECTED),
				     qnpu_read(npu, NPU_REG_ECC_UNCORRECTED));
	if (events & NPU_EVENT_STATUS_THERMAL) {
		atomic_inc(&npu->counters.thermal_events);
		dev_warn_ratelimited(npu->drm.dev, "temperature %d m°C, clock %u kHz\n",
				     (s32)qnpu_read(npu, NPU_REG_TEMP_MC),
				     qnpu_read(npu, NPU_REG_CUR_CLOCK_KHZ));
	}
	if (events & (NPU_EVENT_STATUS_QUEUE_ERROR | NPU_EVENT_STATUS_FATAL))
		queue_work(npu->timeout_wq, &npu->event_work);
}

/* Take at most QNPU_IRQ_COMPLETIONS; returns false if there may be more. */
static bool qnpu_irq_process(struct qnpu_vector *vector)
{
	u32 most = QNPU_IRQ_COMPLETIONS;
	struct qnpu_hw_queue *queue;
	unsigned long flags;

	spin_lock_irqsave(&vector->lock, flags);
	list_for_each_entry(queue, &vector->queues, link) {
		qnpu_hw_queue_process_some(queue, &most);
		if (!most)
			break;
	}
	spin_unlock_irqrestore(&vector->lock, flags);

	return most;
}

static irqreturn_t qnpu_irq_handler(int irq, void *data)
{
	struct qnpu_vector *vector = data;

	if (!vector->index)
		qnpu_irq_look(vector->npu);

	return qnpu_irq_process(vector) ? IRQ_HANDLED : IRQ_WAKE_THREAD;
}

static irqreturn_t qnpu_irq_thread(int irq, void *data)
{
	while (!qnpu_irq_process(data))
		cond_resched();

	return IRQ_HANDLED;
}

/*
 * Pass cache watch reports to the trace event and acknowledge them, in any context. The device has
 * a line and is awake. Returns their number; below QNPU_IRQ_REPORTS none are left.
 */
u32 qnpu_irq_take_reports(struct qnpu_device *npu)
{
	struct qnpu_vector *vector = &npu->irq.vectors[0];
	unsigned long flags;
	u32 n, kind;

	spin_lock_irqsave(&vector->lock, flags);
	for (n = 0; n < QNPU_IRQ_REPORTS; n++) {
		kind = qnpu_read(npu, NPU_REG_REPORT_KIND);
		if (kind == NPU_WATCH_NONE || qnpu_is_gone(kind))
			break;
		trace_qnpu_stale_line(npu);
		qnpu_write(npu, NPU_REG_REPORT_NEXT, 0);
	}
	spin_unlock_irqrestore(&vector->lock, flags);

	return n;
}
EXPORT_SYMBOL_GPL(qnpu_irq_take_reports);

/* The line is level-triggered: clear its cause before reading state. */
static irqreturn_t qnpu_irq_line_handler(int irq, void *data)
{
	struct qnpu_vector *vector = data;
	struct qnpu_device *npu = vector->npu;
	u32 status = qnpu_read(npu, NPU_REG_LINE_STATUS);
	irqreturn_t ret = IRQ_NONE;

	if (qnpu_is_gone(status))
		return IRQ_NONE;

	if (status & NPU_LINE_STATUS_VECTOR) {
		qnpu_write(npu, NPU_REG_LINE_STATUS, NPU_LINE_STATUS_VECTOR);
		ret = qnpu_irq_handler(irq, vector);
	}
	/* The line stays up while reports are pending. */
	if (status & NPU_LINE_STATUS_WATCH) {
		qnpu_irq_take_reports(npu);
		ret = ret == IRQ_NONE ? IRQ_HANDLED : ret;
	}

	return ret;
}

/* Make the entered device raise a vector; @ns: latency from register write to thread wake-up. */
int qnpu_irq_test(struct qnpu_device *npu, u64 *ns)
{
	struct qnpu_irq *irq = &npu->irq;
	unsigned long left;
	u64 start;

	guard(mutex)(&irq->test_lock);
	reinit_completion(&irq->tested);
	start = ktime_get_ns();
	qnpu_write(npu, NPU_REG_IRQ_TEST, 0);
	left = wait_for_completion_timeout(&irq->tested, HZ);
	*ns = ktime_get_ns() - start;

	return left ? 0 : -ETIMEDOUT;
}

/* Allocate and request the vectors. After a failure qnpu_irq_fini() frees those requested. */
int qnpu_irq_init(struct qnpu_device *npu)
{
	irq_handler_t handler = npu->bus->line ? qnpu_irq_line_handler : qnpu_irq_handler;
	u32 want = min3(npu->irq.hw_vectors, (u32)QNPU_MAX_VECTORS, npu->info.queues + 1);
	struct qnpu_irq *irq = &npu->irq;
	int i, count, ret;

	init_completion(&irq->tested);
	ret = drmm_mutex_init(&npu->drm, &irq->test_lock);
	if (ret)
		return ret;
	count = npu->bus->irqs(npu, want);
	if (count < 0)
		return count;

	for (i = 0; i < count; i++) {
		struct qnpu_vector *vector = &irq->vectors[i];

		vector->npu = npu;
		vector->index = i;
		spin_lock_init(&vector->lock);
		INIT_LIST_HEAD(&vector->queues);
		ret = request_threaded_irq(vector->irq, handler, qnpu_irq_thread, 0, "qnpu",
					   vector);
		if (ret)
			return ret;
		irq->count++;
	}

	return 0;
}

/* Free the vectors; on return no handler runs. */
void qnpu_irq_fini(struct qnpu_device *npu)
{
	while (npu->irq.count) {
		struct qnpu_vector *vector = &npu->irq.vectors[--npu->irq.count];

		free_irq(vector->irq, vector);
	}
}

/* On return no handler runs until qnpu_irq_enable(). */
void qnpu_irq_disable(struct qnpu_device *npu)
{
	u32 i;

	for (i = 0; i < npu->irq.count; i++)
		disable_irq(npu->irq.vectors[i].irq);
}

void qnpu_irq_enable(struct qnpu_device *npu)
{
	u32 i;

	for (i = 0; i < npu->irq.count; i++)
		enable_irq(npu->irq.vectors[i].irq);
}

/* Returns the vector that serves queue pair @queue. */
struct qnpu_vector *qnpu_irq_vector_of_queue(struct qnpu_device *npu, u32 queue)
{
	u32 others = npu->irq.count - 1;

	return &npu->irq.vectors[others ? 1 + queue % others : 0];
}
