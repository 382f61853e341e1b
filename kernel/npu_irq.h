/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_IRQ_H
#define NPU_IRQ_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct npu_device;
struct npu_hw_queue;

/* One vector for events and one for each of so many groups of queues. */
#define NPU_MAX_VECTORS	17

/** struct npu_vector - one MSI-X vector, or the line of a block in a SoC */
struct npu_vector {
	/** @npu: its device */
	struct npu_device *npu;

	/** @index: number of the vector; 0 also carries events */
	u32 index;

	/** @irq: Linux interrupt number */
	int irq;

	/** @lock: protects @queues; taken by the handler, outside of a queue's lock */
	spinlock_t lock;

	/** @queues: queues whose completions raise this vector */
	struct list_head queues;
};

/** struct npu_irq - the vectors of a device */
struct npu_irq {
	/** @hw_vectors: vectors of the card, constant after probe */
	u32 hw_vectors;

	/** @count: vectors in use, constant after probe */
	u32 count;

	/** @vectors: the vectors */
	struct npu_vector vectors[NPU_MAX_VECTORS];

	/** @test_lock: one test at a time */
	struct mutex test_lock;

	/** @tested: vector 0 was raised without an event */
	struct completion tested;
};

int npu_irq_init(struct npu_device *npu);
int npu_irq_test(struct npu_device *npu, u64 *ns);
void npu_irq_fini(struct npu_device *npu);
void npu_irq_disable(struct npu_device *npu);
void npu_irq_enable(struct npu_device *npu);
void npu_irq_look(struct npu_device *npu);
struct npu_vector *npu_irq_vector_of_queue(struct npu_device *npu, u32 queue);
void npu_irq_add_queue(struct npu_vector *vector, struct npu_hw_queue *queue);
void npu_irq_remove_queue(struct npu_vector *vector, struct npu_hw_queue *queue);

#endif
