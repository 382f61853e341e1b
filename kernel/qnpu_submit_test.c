// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of the range checks on user-space values; part of qnpu_submit.c. */
#include <kunit/test.h>

static void qnpu_submit_test_ranges(struct kunit *test)
{
	static const struct {
		u64 offset;
		u64 bytes;
		u64 size;
		bool inside;
	} cases[] = {
		{ 0, 0, 0, true },
		{ 0, 1, 0, false },
		{ 1, 0, 0, false },
		{ 0, 4096, 4096, true },
		{ 4096, 0, 4096, true },
		{ 4095, 2, 4096, false },
		{ U64_MAX, 1, 4096, false },		/* the sum wraps to 0 */
		{ 1, U64_MAX, 4096, false },
		{ U64_MAX, U64_MAX, 4096, false },
		{ BIT_ULL(63), BIT_ULL(63), 4096, false },
		{ 0, U64_MAX, U64_MAX, true },
		{ U64_MAX, 0, U64_MAX, true },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    qnpu_range_is_inside(cases[i].offset, cases[i].bytes,
							 cases[i].size),
				    cases[i].inside, "case %u", i);
}

static void qnpu_submit_test_strides(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, qnpu_stride_is_valid(24, 24));
	KUNIT_EXPECT_TRUE(test, qnpu_stride_is_valid(32, 24));
	KUNIT_EXPECT_TRUE(test, qnpu_stride_is_valid(QNPU_MAX_STRIDE, 24));
	KUNIT_EXPECT_FALSE(test, qnpu_stride_is_valid(0, 24));
	KUNIT_EXPECT_FALSE(test, qnpu_stride_is_valid(16, 24));
	KUNIT_EXPECT_FALSE(test, qnpu_stride_is_valid(28, 24));
	KUNIT_EXPECT_FALSE(test, qnpu_stride_is_valid(QNPU_MAX_STRIDE + 8, 24));
	KUNIT_EXPECT_FALSE(test, qnpu_stride_is_valid(0xfffffff8, 24));
}

static void qnpu_submit_test_streams(struct kunit *test)
{
	struct qnpu_ctx_job *job = kunit_kzalloc(test, sizeof(*job), GFP_KERNEL);
	const struct npu_region regions[2] = {
		{ .bytes = 4 * NPU_CMD_BYTES, .access = NPU_ACCESS_READ },
		{ .bytes = U64_MAX, .access = NPU_ACCESS_WRITE },
	};

	KUNIT_ASSERT_NOT_NULL(test, job);
	job->region_count = 2;

	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 4, 0), 0);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 1, 3 * NPU_CMD_BYTES), 0);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 5, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 2, 3 * NPU_CMD_BYTES), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 1, 64), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 1, U64_MAX - 127), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, U32_MAX, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 1, 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 2, 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, qnpu_check_stream(job, regions, 0, 0, 128), -EINVAL);
}

static struct kunit_case qnpu_submit_test_cases[] = {
	KUNIT_CASE(qnpu_submit_test_ranges),
	KUNIT_CASE(qnpu_submit_test_strides),
	KUNIT_CASE(qnpu_submit_test_streams),
	{ }
};

static struct kunit_suite qnpu_submit_test_suite = {
	.name = "qnpu_submit",
	.test_cases = qnpu_submit_test_cases,
};

kunit_test_suite(qnpu_submit_test_suite);
