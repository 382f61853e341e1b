/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_IRQ_H
#define QNPU_IRQ_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct qnpu_device;
struct qnpu_hw_queue;

/* One vector for events and one for each of so many groups of queues. */
#define QNPU_MAX_VECTORS	17

/* Reports of the cache watch taken at one interrupt: the line stays up if there are more. */
#define QNPU_IRQ_REPORTS	32

/** struct qnpu_vector - one MSI-X vector, or the line of a block in a SoC */
struct qnpu_vector {
	/** @npu: its device */
	struct qnpu_device *npu;

	/** @index: number of the vector; 0 also carries events */
	u32 index;

	/** @irq: Linux interrupt number */
	int irq;

	/**
	 * @lock: protects @queues, and reports of the cache watch; taken by the handler, outside of
	 * a queue's lock
	 */
	spinlock_t lock;

	/** @queues: queues whose completions raise this vector */
	struct list_head queues;
};

/** struct qnpu_irq - the vectors of a device */
struct qnpu_irq {
	/** @hw_vectors: vectors of the card, constant after probe */
	u32 hw_vectors;

	/** @count: vectors in use, constant after probe */
	u32 count;

	/** @vectors: the vectors */
	struct qnpu_vector vectors[QNPU_MAX_VECTORS];

	/** @test_lock: one test at a time */
	struct mutex test_lock;

	/** @tested: vector 0 was raised without an event */
	struct completion tested;
};

int qnpu_irq_init(struct qnpu_device *npu);
int qnpu_irq_test(struct qnpu_device *npu, u64 *ns);
void qnpu_irq_fini(struct qnpu_device *npu);
void qnpu_irq_disable(struct qnpu_device *npu);
void qnpu_irq_enable(struct qnpu_device *npu);
u32 qnpu_irq_take_reports(struct qnpu_device *npu);
void qnpu_irq_look(struct qnpu_device *npu);
struct qnpu_vector *qnpu_irq_vector_of_queue(struct qnpu_device *npu, u32 queue);
void qnpu_irq_add_queue(struct qnpu_vector *vector, struct qnpu_hw_queue *queue);
void qnpu_irq_remove_queue(struct qnpu_vector *vector, struct qnpu_hw_queue *queue);

#endif
