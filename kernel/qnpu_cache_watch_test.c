// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the cache watch; part of qnpu_cache_watch.c. Registers are some memory: a report
 * in it never ends.
 */
#include <linux/sizes.h>

#include <kunit/test.h>

static void qnpu_cache_test_no_work(struct work_struct *work)
{
}

static int qnpu_cache_test_init(struct kunit *test)
{
	struct qnpu_device *npu = kunit_kzalloc(test, sizeof(*npu), GFP_KERNEL);
	u8 *regs = kunit_kzalloc(test, SZ_4K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, npu);
	KUNIT_ASSERT_NOT_NULL(test, regs);
	npu->regs = (void __iomem *)regs;
	npu->cache_watch = kunit_kzalloc(test, sizeof(*npu->cache_watch), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, npu->cache_watch);
	npu->cache_watch->npu = npu;
	spin_lock_init(&npu->cache_watch->raw_lock);
	mutex_init(&npu->cache_watch->kept_lock);
	INIT_WORK(&npu->cache_watch->work, qnpu_cache_test_no_work);
	test->priv = npu;

	return 0;
}

static void qnpu_cache_test_exit(struct kunit *test)
{
	struct qnpu_device *npu = test->priv;

	cancel_work_sync(&npu->cache_watch->work);
}

/* A block without power reads as ones everywhere, which is no report. */
static void qnpu_cache_test_no_power(struct kunit *test)
{
	struct qnpu_device *npu = test->priv;

	qnpu_write(npu, NPU_REG_REPORT_KIND, ~0u);
	qnpu_cache_watch_drain(npu);
	KUNIT_EXPECT_EQ(test, npu->cache_watch->count, 0);
	qnpu_write(npu, NPU_REG_REPORT_KIND, NPU_WATCH_NONE);
	qnpu_cache_watch_drain(npu);
	KUNIT_EXPECT_EQ(test, npu->cache_watch->count, 0);
}

/* However many there are: the handler ends, and the ring keeps the oldest ones. */
static void qnpu_cache_test_flood(struct kunit *test)
{
	struct qnpu_device *npu = test->priv;
	struct qnpu_cache_report report;
	u32 i;

	qnpu_write(npu, NPU_REG_REPORT_KIND, NPU_WATCH_STALE);
	for (i = 1; i <= QNPU_CACHE_RAW / QNPU_CACHE_AT_ONCE + 1; i++) {
		qnpu_write64(npu, NPU_REG_REPORT_JOB, i);
		qnpu_cache_watch_drain(npu);
		KUNIT_EXPECT_EQ(test, npu->cache_watch->count,
				min(i * QNPU_CACHE_AT_ONCE, QNPU_CACHE_RAW));
	}
	for (i = 0; qnpu_cache_pop(npu->cache_watch, &report); i++) {
		KUNIT_EXPECT_EQ(test, report.kind, NPU_WATCH_STALE);
		KUNIT_EXPECT_EQ(test, report.job, 1 + i / QNPU_CACHE_AT_ONCE);
	}
	KUNIT_EXPECT_EQ(test, i, QNPU_CACHE_RAW);
}

/* The last ones are kept, those of before a clearing are not. */
static void qnpu_cache_test_keeps(struct kunit *test)
{
	struct qnpu_device *npu = test->priv;
	struct qnpu_cache_watch *watch = npu->cache_watch;
	struct qnpu_cache_entry entry = {};

	for (entry.report.job = 1; entry.report.job <= QNPU_CACHE_KEPT + 3; entry.report.job++)
		qnpu_cache_keep(watch, &entry);
	KUNIT_EXPECT_EQ(test, watch->next - watch->shown, QNPU_CACHE_KEPT);
	KUNIT_EXPECT_EQ(test, watch->kept[watch->shown % QNPU_CACHE_KEPT].report.job, 4);
	watch->shown = watch->next;
	qnpu_cache_keep(watch, &entry);
	KUNIT_EXPECT_EQ(test, watch->next - watch->shown, 1);
}

/* Programs read words between blanks. */
static void qnpu_cache_test_names(struct kunit *test)
{
	struct qnpu_cache_task task = {};

	qnpu_cache_name(&task, 7, "a b\tc\xff=");
	KUNIT_EXPECT_STREQ(test, task.comm, "a_b_c_=");
	KUNIT_EXPECT_STREQ(test, qnpu_cache_comm(&task), "a_b_c_=");
	task.pid = 0;
	KUNIT_EXPECT_STREQ(test, qnpu_cache_comm(&task), "-");
	KUNIT_EXPECT_TRUE(test, qnpu_cache_is_space(0x1001, 0x1000));
	KUNIT_EXPECT_FALSE(test, qnpu_cache_is_space(1, 0));
}

static void qnpu_cache_test_text(struct kunit *test)
{
	struct qnpu_cache_entry entry = {
		.report = {
			.kind = NPU_WATCH_UNCLEANED,
			.job = 17,
			.queue = 2,
			.engine = NPU_ENGINE_GDMA,
			.command = 5,
			.pc = 0x4010,
		},
		.place = QNPU_CACHE_BUFFER,
		.handle = 3,
		.offset = 0x1040,
		.owner = { .pid = 123, .comm = "hello" },
		.task = { .pid = 123, .comm = "hello" },
	};
	char text[256];

	qnpu_cache_what(&entry, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text,
			   "NPU read what hello[123] wrote at pc 0x4010 and nobody cleaned");
	qnpu_cache_memory(&entry, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "buffer 3 of hello[123] +0x1040");
	qnpu_cache_command(&entry.report, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, ", job 17 of queue 2, core 0 GDMA command 5");
	entry.report.job = 0;
	qnpu_cache_command(&entry.report, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "");
}

/* What former owners have left is nobody's mistake; all other reports are kept, and told. */
static void qnpu_cache_test_past(struct kunit *test)
{
	static const struct {
		enum qnpu_cache_place place;
		u32 kind, level;
		bool past, harmless;
	} cases[] = {
		{ QNPU_CACHE_RING, NPU_WATCH_OVERWRITTEN, 1, true, false },
		{ QNPU_CACHE_FENCE, NPU_WATCH_DISCARDED, 1, true, false },
		{ QNPU_CACHE_TABLE, NPU_WATCH_OVERWRITTEN, 2, true, false },
		{ QNPU_CACHE_RING, NPU_WATCH_STALE, 1, false, false },
		{ QNPU_CACHE_TABLE, NPU_WATCH_UNCLEANED, 1, false, false },
		{ QNPU_CACHE_FENCE, NPU_WATCH_OVERWRITTEN, 0, false, false },
		{ QNPU_CACHE_BUFFER, NPU_WATCH_OVERWRITTEN, 1, false, false },
		{ QNPU_CACHE_BUFFER, NPU_WATCH_DISCARDED, 1, false, false },
		{ QNPU_CACHE_UNKNOWN, NPU_WATCH_OVERWRITTEN, 1, false, true },
		{ QNPU_CACHE_UNKNOWN, NPU_WATCH_OVERWRITTEN, 0, false, false },
		{ QNPU_CACHE_UNKNOWN, NPU_WATCH_STALE, 1, false, false },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct qnpu_cache_entry entry = {
			.report = { .kind = cases[i].kind, .level = cases[i].level },
			.place = cases[i].place,
		};

		KUNIT_EXPECT_EQ_MSG(test, qnpu_cache_is_past(&entry), cases[i].past, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, qnpu_cache_is_harmless(&entry), cases[i].harmless,
				    "case %u", i);
	}
}

static struct kunit_case qnpu_cache_test_cases[] = {
	KUNIT_CASE(qnpu_cache_test_no_power),
	KUNIT_CASE(qnpu_cache_test_flood),
	KUNIT_CASE(qnpu_cache_test_keeps),
	KUNIT_CASE(qnpu_cache_test_names),
	KUNIT_CASE(qnpu_cache_test_text),
	KUNIT_CASE(qnpu_cache_test_past),
	{ }
};

static struct kunit_suite qnpu_cache_test_suite = {
	.name = "qnpu_cache_watch",
	.init = qnpu_cache_test_init,
	.exit = qnpu_cache_test_exit,
	.test_cases = qnpu_cache_test_cases,
};

kunit_test_suite(qnpu_cache_test_suite);
