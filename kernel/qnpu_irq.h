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

/* One vector for events, and one for each of up to 16 groups of queues. */
#define QNPU_MAX_VECTORS	17

/* Cache watch reports handled per interrupt; the line stays up if more are pending. */
#define QNPU_IRQ_REPORTS	32

/* An MSI-X vector, or the interrupt line of a SoC block. */
struct qnpu_vector {
	struct qnpu_device *npu;
	u32 index;			/* vector number; vector 0 also carries events */
	int irq;			/* Linux interrupt number */
	spinlock_t lock;		/* protects queues and reports; outside queue locks */
	struct list_head queues;	/* queues whose completions raise this vector */
};

/* The vectors of a device; the counts are constant after probe. */
struct qnpu_irq {
	u32 hw_vectors;			/* vectors that the device has */
	u32 count;			/* vectors in use */
	struct qnpu_vector vectors[QNPU_MAX_VECTORS];
	struct mutex test_lock;		/* serialises qnpu_irq_test() */
	struct completion tested;	/* vector 0 was raised without an event */
};

int qnpu_irq_init(struct qnpu_device *npu);
void qnpu_irq_fini(struct qnpu_device *npu);
int qnpu_irq_test(struct qnpu_device *npu, u64 *ns);
void qnpu_irq_disable(struct qnpu_device *npu);
void qnpu_irq_enable(struct qnpu_device *npu);
u32 qnpu_irq_take_reports(struct qnpu_device *npu);
void qnpu_irq_look(struct qnpu_device *npu);
struct qnpu_vector *qnpu_irq_vector_of_queue(struct qnpu_device *npu, u32 queue);

#endif
