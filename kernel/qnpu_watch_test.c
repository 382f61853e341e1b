// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of qnpu_watch.ko; part of qnpu_watch.c. Plain memory stands for the registers, so a
 * report in it is never acknowledged.
 */
#include <linux/sizes.h>

#include <kunit/test.h>

static void qnpu_watch_test_no_work(struct work_struct *work)
{
}

static int qnpu_watch_test_init(struct kunit *test)
{
	struct qnpu_cache_watch *watch = kunit_kzalloc(test, sizeof(*watch), GFP_KERNEL);
	struct qnpu_device *npu = kunit_kzalloc(test, sizeof(*npu), GFP_KERNEL);
	u8 *regs = kunit_kzalloc(test, SZ_4K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, watch);
	KUNIT_ASSERT_NOT_NULL(test, npu);
	KUNIT_ASSERT_NOT_NULL(test, regs);
	npu->regs = (void __iomem *)regs;
	spin_lock_init(&npu->irq.vectors[0].lock);
	watch->npu = npu;
	INIT_WORK(&watch->work, qnpu_watch_test_no_work);
	test->priv = watch;
	spin_lock_irq(&qnpu_watch_lock);
	list_add(&watch->link, &qnpu_watches);
	spin_unlock_irq(&qnpu_watch_lock);

	return 0;
}

static void qnpu_watch_test_exit(struct kunit *test)
{
	struct qnpu_cache_watch *watch = test->priv;

	if (!watch)
		return;
	spin_lock_irq(&qnpu_watch_lock);
	list_del(&watch->link);
	spin_unlock_irq(&qnpu_watch_lock);
	cancel_work_sync(&watch->work);
}

/* Takes reports like the interrupt handler; registers are never acknowledged here. */
static void qnpu_watch_test_take(struct qnpu_cache_watch *watch, u32 times)
{
	while (times--)
		qnpu_watch_report(NULL, watch->npu);
}

/* Registers of an unpowered block read as ones, which is not a report. */
static void qnpu_watch_test_no_power(struct kunit *test)
{
	struct qnpu_cache_watch *watch = test->priv;

	qnpu_write(watch->npu, NPU_REG_REPORT_KIND, ~0u);
	KUNIT_EXPECT_EQ(test, qnpu_irq_take_reports(watch->npu), 0);
	qnpu_write(watch->npu, NPU_REG_REPORT_KIND, NPU_WATCH_NONE);
	KUNIT_EXPECT_EQ(test, qnpu_irq_take_reports(watch->npu), 0);
	KUNIT_EXPECT_EQ(test, watch->count, 0);
}

/* A full ring keeps the oldest reports. */
static void qnpu_watch_test_flood(struct kunit *test)
{
	struct qnpu_cache_watch *watch = test->priv;
	struct qnpu_watch_report report;
	u32 i;

	qnpu_write(watch->npu, NPU_REG_REPORT_KIND, NPU_WATCH_STALE);
	for (i = 1; i <= QNPU_WATCH_RAW / QNPU_IRQ_REPORTS + 1; i++) {
		qnpu_write64(watch->npu, NPU_REG_REPORT_JOB, i);
		qnpu_watch_test_take(watch, QNPU_IRQ_REPORTS);
		KUNIT_EXPECT_EQ(test, watch->count, min(i * QNPU_IRQ_REPORTS, QNPU_WATCH_RAW));
	}
	for (i = 0; qnpu_watch_pop(watch, &report); i++) {
		KUNIT_EXPECT_EQ(test, report.kind, NPU_WATCH_STALE);
		KUNIT_EXPECT_EQ(test, report.job, 1 + i / QNPU_IRQ_REPORTS);
	}
	KUNIT_EXPECT_EQ(test, i, QNPU_WATCH_RAW);
}

/* The handler ends even if reports never do. */
static void qnpu_watch_test_bound(struct kunit *test)
{
	struct qnpu_cache_watch *watch = test->priv;

	qnpu_write(watch->npu, NPU_REG_REPORT_KIND, NPU_WATCH_STALE);
	KUNIT_EXPECT_EQ(test, qnpu_irq_take_reports(watch->npu), QNPU_IRQ_REPORTS);
}

/* The last reports are kept, but none from before a clear. */
static void qnpu_watch_test_keeps(struct kunit *test)
{
	struct qnpu_cache_watch *watch = test->priv;
	struct qnpu_watch_entry entry = {};

	for (entry.report.job = 1; entry.report.job <= QNPU_WATCH_KEPT + 3; entry.report.job++)
		qnpu_watch_keep(watch, &entry);
	KUNIT_EXPECT_EQ(test, watch->next - watch->shown, QNPU_WATCH_KEPT);
	KUNIT_EXPECT_EQ(test, watch->kept[watch->shown % QNPU_WATCH_KEPT].report.job, 4);
	watch->shown = watch->next;
	qnpu_watch_keep(watch, &entry);
	KUNIT_EXPECT_EQ(test, watch->next - watch->shown, 1);
}

/* Programs split the output at blanks. */
static void qnpu_watch_test_names(struct kunit *test)
{
	struct qnpu_watch_task task = {};

	qnpu_watch_name(&task, 7, "a b\tc\xff=");
	KUNIT_EXPECT_STREQ(test, task.comm, "a_b_c_=");
	KUNIT_EXPECT_STREQ(test, qnpu_watch_comm(&task), "a_b_c_=");
	task.pid = 0;
	KUNIT_EXPECT_STREQ(test, qnpu_watch_comm(&task), "-");
}

/* Processes are found by the CPU's page table register, and by pid. */
static void qnpu_watch_test_tasks(struct kunit *test)
{
	struct qnpu_watch_task known = { .pid = 7, .comm = "seven", .space = 0x1000 };
	struct qnpu_watch_task old = qnpu_watch_tasks[0], task = {};

	qnpu_watch_tasks[0] = known;
	qnpu_watch_find_task(0x1001, 0, &task);
	KUNIT_EXPECT_EQ(test, task.pid, 7);
	task.pid = 0;
	qnpu_watch_find_task(0, 7, &task);
	KUNIT_EXPECT_EQ(test, task.pid, 7);
	task.pid = 0;
	qnpu_watch_find_task(1, 0, &task);
	KUNIT_EXPECT_EQ(test, task.pid, 0);
	qnpu_watch_tasks[0] = old;
}

static void qnpu_watch_test_text(struct kunit *test)
{
	struct qnpu_watch_entry entry = {
		.report = {
			.kind = NPU_WATCH_UNCLEANED,
			.job = 17,
			.queue = 2,
			.engine = NPU_ENGINE_GDMA,
			.command = 5,
			.pc = 0x4010,
		},
		.place = QNPU_WATCH_BUFFER,
		.handle = 3,
		.offset = 0x1040,
		.owner = { .pid = 123, .comm = "hello" },
		.task = { .pid = 123, .comm = "hello" },
	};
	char text[256];

	qnpu_watch_what(&entry, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text,
			   "NPU read what hello[123] wrote at pc 0x4010 and nobody cleaned");
	qnpu_watch_memory(&entry, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "buffer 3 of hello[123] +0x1040");
	qnpu_watch_command(&entry.report, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, ", job 17 of queue 2, core 0 GDMA command 5");
	entry.report.job = 0;
	qnpu_watch_command(&entry.report, text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "");
}

/* Data of former owners is ignored; all other reports are kept and logged. */
static void qnpu_watch_test_past(struct kunit *test)
{
	static const struct {
		enum qnpu_watch_place place;
		u32 kind, level;
		bool past, harmless;
	} cases[] = {
		{ QNPU_WATCH_RING, NPU_WATCH_OVERWRITTEN, 1, true, false },
		{ QNPU_WATCH_FENCE, NPU_WATCH_DISCARDED, 1, true, false },
		{ QNPU_WATCH_TABLE, NPU_WATCH_OVERWRITTEN, 2, true, false },
		{ QNPU_WATCH_RING, NPU_WATCH_STALE, 1, false, false },
		{ QNPU_WATCH_TABLE, NPU_WATCH_UNCLEANED, 1, false, false },
		{ QNPU_WATCH_FENCE, NPU_WATCH_OVERWRITTEN, 0, false, false },
		{ QNPU_WATCH_BUFFER, NPU_WATCH_OVERWRITTEN, 1, false, false },
		{ QNPU_WATCH_BUFFER, NPU_WATCH_DISCARDED, 1, false, false },
		{ QNPU_WATCH_UNKNOWN, NPU_WATCH_OVERWRITTEN, 1, false, true },
		{ QNPU_WATCH_UNKNOWN, NPU_WATCH_OVERWRITTEN, 0, false, false },
		{ QNPU_WATCH_UNKNOWN, NPU_WATCH_STALE, 1, false, false },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct qnpu_watch_entry entry = {
			.report = { .kind = cases[i].kind, .level = cases[i].level },
			.place = cases[i].place,
		};

		KUNIT_EXPECT_EQ_MSG(test, qnpu_watch_is_past(&entry), cases[i].past, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, qnpu_watch_is_harmless(&entry), cases[i].harmless,
				    "case %u", i);
	}
}

static struct kunit_case qnpu_watch_test_cases[] = {
	KUNIT_CASE(qnpu_watch_test_no_power),
	KUNIT_CASE(qnpu_watch_test_flood),
	KUNIT_CASE(qnpu_watch_test_bound),
	KUNIT_CASE(qnpu_watch_test_keeps),
	KUNIT_CASE(qnpu_watch_test_names),
	KUNIT_CASE(qnpu_watch_test_tasks),
	KUNIT_CASE(qnpu_watch_test_text),
	KUNIT_CASE(qnpu_watch_test_past),
	{ }
};

static struct kunit_suite qnpu_watch_test_suite = {
	.name = "qnpu_watch",
	.init = qnpu_watch_test_init,
	.exit = qnpu_watch_test_exit,
	.test_cases = qnpu_watch_test_cases,
};

kunit_test_suite(qnpu_watch_test_suite);
