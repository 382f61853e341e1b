// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the cache watch; part of npu_cache_watch.c. Registers are some memory: a report
 * in it never ends.
 */
#include <linux/sizes.h>

#include <kunit/test.h>

static void npu_cache_test_no_work(struct work_struct *work)
{
}

static int npu_cache_test_init(struct kunit *test)
{
	struct npu_device *npu = kunit_kzalloc(test, sizeof(*npu), GFP_KERNEL);
	u8 *regs = kunit_kzalloc(test, SZ_4K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, npu);
	KUNIT_ASSERT_NOT_NULL(test, regs);
	npu->regs = (void __iomem *)regs;
	npu->cache_watch = kunit_kzalloc(test, sizeof(*npu->cache_watch), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, npu->cache_watch);
	npu->cache_watch->npu = npu;
	spin_lock_init(&npu->cache_watch->raw_lock);
	mutex_init(&npu->cache_watch->kept_lock);
	INIT_WORK(&npu->cache_watch->work, npu_cache_test_no_work);
	test->priv = npu;

	return 0;
}

static void npu_cache_test_exit(struct kunit *test)
{
	struct npu_device *npu = test->priv;

	cancel_work_sync(&npu->cache_watch->work);
}

/* A block without power reads as ones everywhere, which is no report. */
static void npu_cache_test_no_power(struct kunit *test)
{
	struct npu_device *npu = test->priv;

	npu_write(npu, NPU_REG_REPORT_KIND, ~0u);
	npu_cache_watch_drain(npu);
	KUNIT_EXPECT_EQ(test, npu->cache_watch->count, 0);
	npu_write(npu, NPU_REG_REPORT_KIND, NPU_WATCH_NONE);
	npu_cache_watch_drain(npu);
	KUNIT_EXPECT_EQ(test, npu->cache_watch->count, 0);
}

/* However many there are: the handler ends, and the ring keeps the oldest ones. */
static void npu_cache_test_flood(struct kunit *test)
{
	struct npu_device *npu = test->priv;
	struct npu_cache_report report;
	u32 i;

	npu_write(npu, NPU_REG_REPORT_KIND, NPU_WATCH_STALE);
	for (i = 1; i <= NPU_CACHE_RAW / NPU_CACHE_AT_ONCE + 1; i++) {
		npu_write64(npu, NPU_REG_REPORT_JOB, i);
		npu_cache_watch_drain(npu);
		KUNIT_EXPECT_EQ(test, npu->cache_watch->count,
				min(i * NPU_CACHE_AT_ONCE, NPU_CACHE_RAW));
	}
	for (i = 0; npu_cache_pop(npu->cache_watch, &report); i++) {
		KUNIT_EXPECT_EQ(test, report.kind, NPU_WATCH_STALE);
		KUNIT_EXPECT_EQ(test, report.job, 1 + i / NPU_CACHE_AT_ONCE);
	}
	KUNIT_EXPECT_EQ(test, i, NPU_CACHE_RAW);
}

/* The last ones are kept, those of before a clearing are not. */
static void npu_cache_test_keeps(struct kunit *test)
{
	struct npu_device *npu = test->priv;
	struct npu_cache_watch *watch = npu->cache_watch;
	struct npu_cache_entry entry = {};

	for (entry.report.job = 1; entry.report.job <= NPU_CACHE_KEPT + 3; entry.report.job++)
		npu_cache_keep(watch, &entry);
	KUNIT_EXPECT_EQ(test, watch->next - watch->shown, NPU_CACHE_KEPT);
	KUNIT_EXPECT_EQ(test, watch->kept[watch->shown % NPU_CACHE_KEPT].report.job, 4);
	watch->shown = watch->next;
	npu_cache_keep(watch, &entry);
	KUNIT_EXPECT_EQ(test, watch->next - watch->shown, 1);
}

/* Programs read words between blanks. */
static void npu_cache_test_names(struct kunit *test)
{
	struct npu_cache_task task = {};

	npu_cache_name(&task, 7, "a b\tc\xff=");
	KUNIT_EXPECT_STREQ(test, task.comm, "a_b_c_=");
	KUNIT_EXPECT_STREQ(test, npu_cache_comm(&task), "a_b_c_=");
	task.pid = 0;
	KUNIT_EXPECT_STREQ(test, npu_cache_comm(&task), "-");
	KUNIT_EXPECT_TRUE(test, npu_cache_is_space(0x1001, 0x1000));
	KUNIT_EXPECT_FALSE(test, npu_cache_is_space(1, 0));
}

static void npu_cache_test_text(struct kunit *test)
{
	struct npu_cache_entry entry = {
		.report = {
			.kind = NPU_WATCH_UNCLEANED,
			.job = 17,
			.queue = 2,
			.engine = NPU_ENGINE_GDMA,
			.command = 5,
			.pc = 0x4010,
		},
		.place = NPU_CACHE_BUFFER,
		.handle = 3,
		.offset = 0x1040,
		.owner = { .pid = 123, .comm = "hello" },
		.task = { .pid = 123, .comm = "hello" },
	};
	char text[256];

	npu_cache_what(&entry, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text,
			   "NPU read what hello[123] wrote at pc 0x4010 and nobody cleaned");
	npu_cache_memory(&entry, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "buffer 3 of hello[123] +0x1040");
	npu_cache_command(&entry.report, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, ", job 17 of queue 2, core 0 GDMA command 5");
	entry.report.job = 0;
	npu_cache_command(&entry.report, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "");
}

/* What former owners have left is nobody's mistake; all other reports are kept, and told. */
static void npu_cache_test_past(struct kunit *test)
{
	static const struct {
		enum npu_cache_place place;
		u32 kind, level;
		bool past, harmless;
	} cases[] = {
		{ NPU_CACHE_RING, NPU_WATCH_OVERWRITTEN, 1, true, false },
		{ NPU_CACHE_FENCE, NPU_WATCH_DISCARDED, 1, true, false },
		{ NPU_CACHE_TABLE, NPU_WATCH_OVERWRITTEN, 2, true, false },
		{ NPU_CACHE_RING, NPU_WATCH_STALE, 1, false, false },
		{ NPU_CACHE_TABLE, NPU_WATCH_UNCLEANED, 1, false, false },
		{ NPU_CACHE_FENCE, NPU_WATCH_OVERWRITTEN, 0, false, false },
		{ NPU_CACHE_BUFFER, NPU_WATCH_OVERWRITTEN, 1, false, false },
		{ NPU_CACHE_BUFFER, NPU_WATCH_DISCARDED, 1, false, false },
		{ NPU_CACHE_UNKNOWN, NPU_WATCH_OVERWRITTEN, 1, false, true },
		{ NPU_CACHE_UNKNOWN, NPU_WATCH_OVERWRITTEN, 0, false, false },
		{ NPU_CACHE_UNKNOWN, NPU_WATCH_STALE, 1, false, false },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct npu_cache_entry entry = {
			.report = { .kind = cases[i].kind, .level = cases[i].level },
			.place = cases[i].place,
		};

		KUNIT_EXPECT_EQ_MSG(test, npu_cache_is_past(&entry), cases[i].past, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, npu_cache_is_harmless(&entry), cases[i].harmless,
				    "case %u", i);
	}
}

static struct kunit_case npu_cache_test_cases[] = {
	KUNIT_CASE(npu_cache_test_no_power),
	KUNIT_CASE(npu_cache_test_flood),
	KUNIT_CASE(npu_cache_test_keeps),
	KUNIT_CASE(npu_cache_test_names),
	KUNIT_CASE(npu_cache_test_text),
	KUNIT_CASE(npu_cache_test_past),
	{ }
};

static struct kunit_suite npu_cache_test_suite = {
	.name = "npu_cache_watch",
	.init = npu_cache_test_init,
	.exit = npu_cache_test_exit,
	.test_cases = npu_cache_test_cases,
};

kunit_test_suite(npu_cache_test_suite);
