// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of a job's errors from its in-fences; part of qnpu_job.c. */
#include <kunit/test.h>

static const char *qnpu_job_test_name(struct dma_fence *fence)
{
	return "qnpu-test";
}

/* No free: the test owns the memory. */
static void qnpu_job_test_release(struct dma_fence *fence)
{
}

static const struct dma_fence_ops qnpu_job_test_ops = {
	.get_driver_name = qnpu_job_test_name,
	.get_timeline_name = qnpu_job_test_name,
	.release = qnpu_job_test_release,
};

/** struct qnpu_job_test - a job with one in-fence */
struct qnpu_job_test {
	/** @lock: lock of @in */
	spinlock_t lock;

	/** @in: in-fence */
	struct dma_fence in;

	/** @deps: storage of @job.in_deps */
	struct qnpu_dep deps[1];

	/** @ctx: context of @job */
	struct qnpu_ctx ctx;

	/** @job: job */
	struct qnpu_ctx_job job;
};

/* The in-fence is of the job's own context, so compared by seqno, or foreign. */
static struct qnpu_job_test *qnpu_job_test_create(struct kunit *test, bool own)
{
	struct qnpu_job_test *self = kunit_kzalloc(test, sizeof(*self), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, self);
	spin_lock_init(&self->lock);
	self->ctx.fence_context = dma_fence_context_alloc(2);
	dma_fence_init(&self->in, &qnpu_job_test_ops, &self->lock, self->ctx.fence_context + !own,
		       7);
	self->job.ctx = &self->ctx;
	self->job.in_deps = self->deps;
	qnpu_job_add_in_fence(&self->job, dma_fence_get(&self->in));

	return self;
}

/* A failed job of the same context: its seqno makes the job ready, its fence gives the error. */
static void qnpu_job_test_own_failure(struct kunit *test)
{
	struct qnpu_job_test *self = qnpu_job_test_create(test, true);

	KUNIT_EXPECT_EQ(test, self->job.after, 7);
	qnpu_job_listen(&self->job);
	KUNIT_EXPECT_FALSE(test, self->deps[0].listens);
	self->ctx.completed = 6;
	KUNIT_EXPECT_FALSE(test, qnpu_job_is_ready(&self->job));
	self->ctx.completed = 7;
	KUNIT_EXPECT_TRUE(test, qnpu_job_is_ready(&self->job));
	dma_fence_set_error(&self->in, -EIO);
	dma_fence_signal(&self->in);
	KUNIT_EXPECT_EQ(test, qnpu_job_in_error(&self->job), -ECANCELED);
}

static void qnpu_job_test_success(struct kunit *test)
{
	struct qnpu_job_test *self = qnpu_job_test_create(test, true);

	dma_fence_signal(&self->in);
	KUNIT_EXPECT_EQ(test, qnpu_job_in_error(&self->job), 0);
}

/* A foreign fence gets a callback, which has no effect once removed. */
static void qnpu_job_test_foreign(struct kunit *test)
{
	struct qnpu_job_test *self = qnpu_job_test_create(test, false);

	KUNIT_EXPECT_EQ(test, self->job.after, 0);
	qnpu_job_listen(&self->job);
	KUNIT_EXPECT_TRUE(test, self->deps[0].listens);
	KUNIT_EXPECT_FALSE(test, qnpu_job_is_ready(&self->job));
	qnpu_job_stop_listening(&self->job);
	dma_fence_signal(&self->in);
	KUNIT_EXPECT_EQ(test, atomic_read(&self->job.pending), 1);
}

/* An error known at submission is stored, its fence is not. */
static void qnpu_job_test_failed_before(struct kunit *test)
{
	struct qnpu_job_test *self = qnpu_job_test_create(test, false);

	dma_fence_set_error(&self->in, -EIO);
	dma_fence_signal(&self->in);
	self->job.in_count = 0;
	self->job.deps = NULL;
	qnpu_job_add_in_fence(&self->job, dma_fence_get(&self->in));
	KUNIT_EXPECT_EQ(test, self->job.in_count, 0);
	KUNIT_EXPECT_EQ(test, qnpu_job_in_error(&self->job), -ECANCELED);
}

static struct kunit_case qnpu_job_test_cases[] = {
	KUNIT_CASE(qnpu_job_test_own_failure),
	KUNIT_CASE(qnpu_job_test_success),
	KUNIT_CASE(qnpu_job_test_foreign),
	KUNIT_CASE(qnpu_job_test_failed_before),
	{ }
};

static struct kunit_suite qnpu_job_test_suite = {
	.name = "qnpu_job",
	.test_cases = qnpu_job_test_cases,
};

kunit_test_suite(qnpu_job_test_suite);
