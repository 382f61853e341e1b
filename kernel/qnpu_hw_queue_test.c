// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of the rings; part of qnpu_hw_queue.c. The test plays the card. */
#include <kunit/device.h>
#include <kunit/test.h>

static int qnpu_ring_test_init(struct kunit *test)
{
	struct qnpu_hw_queue *queue = kunit_kzalloc(test, sizeof(*queue), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, queue);
	queue->npu = kunit_kzalloc(test, sizeof(*queue->npu), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, queue->npu);
	queue->rings = kunit_kzalloc(test, sizeof(*queue->rings), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, queue->rings);
	queue->npu->drm.dev = kunit_device_register(test, "qnpu");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, queue->npu->drm.dev);

	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->jobs);
	INIT_LIST_HEAD(&queue->waiting);
	INIT_LIST_HEAD(&queue->attach_link);
	queue->rings_dma = 0x12340000;
	queue->cq_phase = NPU_CQE_PHASE;
	test->priv = queue;

	return 0;
}

static void qnpu_ring_test_next(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, qnpu_ring_next(0), 1);
	KUNIT_EXPECT_EQ(test, qnpu_ring_next(QNPU_RING_ENTRIES - 2), QNPU_RING_ENTRIES - 1);
	KUNIT_EXPECT_EQ(test, qnpu_ring_next(QNPU_RING_ENTRIES - 1), 0);
}

/* Rings and descriptors, as the card addresses them, are aligned and do not overlap. */
static void qnpu_ring_test_layout(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, offsetof(struct qnpu_rings, cq) % 64, 0);
	KUNIT_EXPECT_EQ(test, offsetof(struct qnpu_rings, sq) % 64, 0);
	KUNIT_EXPECT_EQ(test, offsetof(struct qnpu_rings, desc) % 64, 0);
	KUNIT_EXPECT_EQ(test, QNPU_DESC_BYTES % 64, 0);
	KUNIT_EXPECT_LT(test, QNPU_RING_JOBS, QNPU_RING_ENTRIES);
}

/* In three rounds, entry and descriptor of each job are in the slot of the tail. */
static void qnpu_ring_test_entries(struct kunit *test)
{
	struct qnpu_hw_queue *queue = test->priv;
	struct qnpu_ctx_job *job = kunit_kzalloc(test, sizeof(*job), GFP_KERNEL);
	u64 desc[8] = {};
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, job);
	job->desc = (struct npu_job *)desc;
	job->desc_bytes = sizeof(desc);

	for (i = 0; i < 3 * QNPU_RING_ENTRIES; i++) {
		u32 slot = i % QNPU_RING_ENTRIES;
		const struct npu_sqe *sqe = &queue->rings->sq[slot];

		job->seqno = 1000 + i;
		desc[0] = i;
		qnpu_hw_queue_write(queue, job, 0);

		KUNIT_EXPECT_EQ(test, queue->sq_tail, (slot + 1) % QNPU_RING_ENTRIES);
		KUNIT_EXPECT_EQ(test, sqe->job_id, 1000 + i);
		KUNIT_EXPECT_EQ(test, sqe->desc_bytes, sizeof(desc));
		KUNIT_EXPECT_EQ(test, sqe->desc_addr, queue->rings_dma +
				offsetof(struct qnpu_rings, desc) + slot * QNPU_DESC_BYTES);
		KUNIT_EXPECT_EQ(test, *(u64 *)queue->rings->desc[slot], i);
	}
}

/* Only entries with the current phase are taken, each once. */
static void qnpu_ring_test_phase(struct kunit *test)
{
	struct qnpu_hw_queue *queue = test->priv;
	u32 i, phase = NPU_CQE_PHASE;
	struct npu_cqe cqe;

	for (i = 0; i < 3 * QNPU_RING_ENTRIES; i++) {
		u32 slot = i % QNPU_RING_ENTRIES;
		struct npu_cqe *entry = &queue->rings->cq[slot];

		KUNIT_EXPECT_EQ(test, queue->cq_head, slot);
		KUNIT_EXPECT_EQ(test, queue->cq_phase, phase);
		KUNIT_EXPECT_FALSE(test, qnpu_hw_queue_peek(queue, &cqe));
		entry->job_id = i + 1;
		entry->phase = phase;
		KUNIT_EXPECT_TRUE(test, qnpu_hw_queue_peek(queue, &cqe));
		KUNIT_EXPECT_EQ(test, cqe.job_id, i + 1);
		qnpu_hw_queue_consume(queue);
		if (slot == QNPU_RING_ENTRIES - 1)
			phase ^= NPU_CQE_PHASE;
	}
}

static void qnpu_ring_test_no_work(struct work_struct *work)
{
}

/* An unexpected completion is not taken, nor any after it. */
static void qnpu_ring_test_distrust(struct kunit *test)
{
	struct qnpu_hw_queue *queue = test->priv;
	u32 most = U32_MAX;
	unsigned long flags;
	bool any;

	queue->npu->timeout_wq = system_wq;
	INIT_WORK(&queue->npu->event_work, qnpu_ring_test_no_work);
	queue->rings->cq[0].phase = NPU_CQE_PHASE;

	spin_lock_irqsave(&queue->lock, flags);
	any = qnpu_hw_queue_process_locked(queue, &most);
	spin_unlock_irqrestore(&queue->lock, flags);
	flush_work(&queue->npu->event_work);

	KUNIT_EXPECT_FALSE(test, any);
	KUNIT_EXPECT_TRUE(test, queue->distrusted);
	KUNIT_EXPECT_EQ(test, queue->cq_head, 0);
}

/* A single wrong field makes a completion invalid. */
static void qnpu_ring_test_sanity(struct kunit *test)
{
	static const struct npu_cqe good = {
		.job_id = 7,
		.core = 1,
		.engine = NPU_ENGINE_NONE,
		.region = NPU_REGION_NONE,
		.start_cycle = 100,
		.end_cycle = 100,
		.phase = NPU_CQE_PHASE | FIELD_PREP_CONST(NPU_CQE_CORES, BIT(1)),
	};
	struct qnpu_hw_queue *queue = test->priv;
	struct qnpu_ctx_job *job = kunit_kzalloc(test, sizeof(*job), GFP_KERNEL);
	struct npu_cqe bad[8];
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, job);
	queue->npu->info.cores = 2;
	KUNIT_EXPECT_FALSE(test, qnpu_cqe_is_sane(queue, &good));
	job->seqno = good.job_id;
	list_add(&job->link, &queue->jobs);
	KUNIT_EXPECT_TRUE(test, qnpu_cqe_is_sane(queue, &good));

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].job_id = 8;
	bad[1].status = NPU_STATUS_INTERNAL + 1;
	bad[2].core = 2;
	bad[3].end_cycle = 99;
	bad[4].sq_head = QNPU_RING_ENTRIES;
	bad[5].phase |= FIELD_PREP(NPU_CQE_CORES, BIT(2));
	bad[6].region = NPU_REGION_LOCAL + 1;
	bad[7].phase |= BIT(16);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_FALSE_MSG(test, qnpu_cqe_is_sane(queue, &bad[i]), "number %u", i);
	list_del(&job->link);
}

static struct kunit_case qnpu_ring_test_cases[] = {
	KUNIT_CASE(qnpu_ring_test_next),
	KUNIT_CASE(qnpu_ring_test_layout),
	KUNIT_CASE(qnpu_ring_test_entries),
	KUNIT_CASE(qnpu_ring_test_phase),
	KUNIT_CASE(qnpu_ring_test_distrust),
	KUNIT_CASE(qnpu_ring_test_sanity),
	{ }
};

static struct kunit_suite qnpu_ring_test_suite = {
	.name = "qnpu_ring",
	.init = qnpu_ring_test_init,
	.test_cases = qnpu_ring_test_cases,
};

kunit_test_suite(qnpu_ring_test_suite);
