// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what a job is told about those that it waits for; part of npu_job.c.
 */
#include <kunit/test.h>

static const char *npu_job_test_name(struct dma_fence *fence)
{
	return "npu-test";
}

/* Without release(): the memory is the test's. */
static void npu_job_test_release(struct dma_fence *fence)
{
}

static const struct dma_fence_ops npu_job_test_ops = {
	.get_driver_name = npu_job_test_name,
	.get_timeline_name = npu_job_test_name,
	.release = npu_job_test_release,
};

/** struct npu_job_test - a job with one in-fence, of a job of the same context */
struct npu_job_test {
	/** @lock: of both fences */
	spinlock_t lock;

	/** @own: hardware fence */
	struct dma_fence own;

	/** @in: scheduler's fence */
	struct dma_fence in;

	/** @own_fences: the job's array */
	struct dma_fence *own_fences[1];

	/** @in_fences: likewise */
	struct dma_fence *in_fences[1];

	/** @job: job */
	struct npu_sched_job job;
};

static struct npu_job_test *npu_job_test_create(struct kunit *test)
{
	struct npu_job_test *self = kunit_kzalloc(test, sizeof(*self), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, self);
	spin_lock_init(&self->lock);
	dma_fence_init(&self->own, &npu_job_test_ops, &self->lock, dma_fence_context_alloc(1), 1);
	dma_fence_init(&self->in, &npu_job_test_ops, &self->lock, dma_fence_context_alloc(1), 1);
	self->own_fences[0] = &self->own;
	self->in_fences[0] = &self->in;
	self->job.own_fences = self->own_fences;
	self->job.in_fences = self->in_fences;
	self->job.own_count = 1;
	self->job.in_count = 1;

	return self;
}

static void npu_job_test_end(struct npu_job_test *self)
{
	dma_fence_signal(&self->own);
	dma_fence_signal(&self->in);
	dma_fence_put(&self->own);
	dma_fence_put(&self->in);
}

/* The hardware fence signals, and a moment later, from its callback, the scheduler's. */
static void npu_job_test_failure_between(struct kunit *test)
{
	struct npu_job_test *self = npu_job_test_create(test);

	dma_fence_set_error(&self->own, -EIO);
	dma_fence_signal(&self->own);
	KUNIT_EXPECT_EQ(test, npu_job_in_error(&self->job), -ECANCELED);
	dma_fence_set_error(&self->in, -EIO);
	npu_job_test_end(self);
	KUNIT_EXPECT_EQ(test, npu_job_in_error(&self->job), -ECANCELED);
}

static void npu_job_test_success(struct kunit *test)
{
	struct npu_job_test *self = npu_job_test_create(test);

	npu_job_test_end(self);
	KUNIT_EXPECT_EQ(test, npu_job_in_error(&self->job), 0);
}

static struct kunit_case npu_job_test_cases[] = {
	KUNIT_CASE(npu_job_test_failure_between),
	KUNIT_CASE(npu_job_test_success),
	{ }
};

static struct kunit_suite npu_job_test_suite = {
	.name = "npu_job",
	.test_cases = npu_job_test_cases,
};

kunit_test_suite(npu_job_test_suite);
