// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page tables; part of qnpu_mmu.c.
 *
 * A walk implemented from the hardware guide, without the driver's tree, checks the entries.
 */
#include <linux/dma-mapping.h>

#include <kunit/device.h>
#include <kunit/test.h>

#define QNPU_TEST_ASIDS		4

/** struct qnpu_mmu_test - a device without hardware, and an address space with an ASID */
struct qnpu_mmu_test {
	/** @npu: device; only fields for page tables are set */
	struct qnpu_device *npu;

	/** @space: address space */
	struct qnpu_space space;
};

static int qnpu_mmu_test_init(struct kunit *test)
{
	struct qnpu_mmu_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct qnpu_device *npu = kunit_kzalloc(test, sizeof(*npu), GFP_KERNEL);
	u8 *regs = kunit_kzalloc(test, SZ_4K, GFP_KERNEL);
	struct qnpu_mmu *mmu;

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_NOT_NULL(test, npu);
	KUNIT_ASSERT_NOT_NULL(test, regs);

	t->npu = npu;
	mmu = &npu->mmu;
	npu->drm.dev = kunit_device_register(test, "qnpu");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, npu->drm.dev);
	KUNIT_ASSERT_EQ(test, dma_coerce_mask_and_coherent(npu->drm.dev, DMA_BIT_MASK(52)), 0);
	npu->regs = (void __iomem *)regs;
	npu->asids = QNPU_TEST_ASIDS;
	ida_init(&mmu->asids);
	mutex_init(&mmu->inv_lock);
	mutex_init(&mmu->live_lock);
	INIT_LIST_HEAD(&mmu->live);
	INIT_LIST_HEAD(&mmu->idle);
	init_rwsem(&npu->reset_lock);
	init_waitqueue_head(&npu->online_wait);
	init_waitqueue_head(&mmu->inv_wait);
	mmu->asid_entries = dmam_alloc_coherent(npu->drm.dev, qnpu_asid_bytes(npu),
						&mmu->asid_table, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mmu->asid_entries);
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(mmu->asid_table, QNPU_TABLE_BYTES));
	KUNIT_ASSERT_EQ(test, qnpu_space_init(&t->space, npu), 0);
	KUNIT_ASSERT_EQ(test, qnpu_space_attach(&t->space), 0);
	test->priv = t;

	return 0;
}

static void qnpu_mmu_test_exit(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;

	if (!t)
		return;
	qnpu_space_detach(&t->space);
	qnpu_space_fini(&t->space);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 0);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&t->npu->mmu.asids));
	qnpu_mmu_release_dma(t->npu);
	ida_destroy(&t->npu->mmu.asids);
	mutex_destroy(&t->npu->mmu.inv_lock);
}

static u64 qnpu_test_word(const struct qnpu_mmu_test *t, u64 addr)
{
	u64 word = 0;

	qnpu_mmu_read(t->npu, addr, &word);

	return word;
}

/* Translate an address as the card does: the leaf's entry plus the offset, or 0. */
static u64 qnpu_test_walk(struct qnpu_mmu_test *t, u64 va)
{
	u64 entry = qnpu_test_word(t, t->npu->mmu.asid_table + t->space.asid * 16);
	int shift;

	if (!(entry & NPU_ASID_VALID))
		return 0;

	entry &= NPU_ASID_ROOT;
	for (shift = 39; shift >= 12; shift -= 9) {
		entry = qnpu_test_word(t, entry + ((va >> shift) & 511) * 8);
		if (!(entry & NPU_PTE_VALID) || entry & NPU_PTE_RESERVED)
			return 0;
		if (shift == 21 && entry & NPU_PTE_LARGE)
			return entry + (va & (SZ_2M - SZ_4K));
		entry &= shift == 12 ? ~0ull : NPU_PTE_ADDR;
	}

	return entry;
}

static void qnpu_test_expect_mapped(struct kunit *test, u64 va, u64 addr, u64 bytes, u64 flags)
{
	u64 at;

	for (at = 0; at < bytes; at += SZ_4K) {
		u64 entry = qnpu_test_walk(test->priv, va + at) & ~NPU_PTE_LARGE;

		KUNIT_ASSERT_EQ_MSG(test, entry, (addr + at) | flags | NPU_PTE_VALID, "at %#llx",
				    va + at);
	}
	KUNIT_EXPECT_EQ(test, qnpu_test_walk(test->priv, va - SZ_4K), 0);
	KUNIT_EXPECT_EQ(test, qnpu_test_walk(test->priv, va + bytes), 0);
}

static struct qnpu_space_usage qnpu_test_usage(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	struct qnpu_space_usage usage;

	qnpu_space_usage(&t->space, &usage);

	return usage;
}

static void qnpu_mmu_test_pages(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run run = { .addr = 0x123456000, .bytes = 5 * SZ_4K };
	u64 va = 0x7fedcba98000;

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &run, NPU_PTE_WRITE), 0);
	qnpu_test_expect_mapped(test, va, run.addr, run.bytes, NPU_PTE_WRITE);
	qnpu_space_unmap(&t->space, va, run.bytes);
	KUNIT_EXPECT_EQ(test, qnpu_test_walk(t, va), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* Crosses tables on every level: the last page below 512 GiB and the first above. */
static void qnpu_mmu_test_crosses_tables(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run run = { .addr = 0x1000, .bytes = 2 * SZ_4K };
	u64 va = BIT_ULL(39) - SZ_4K;

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &run, NPU_PTE_SYSTEM), 0);
	qnpu_test_expect_mapped(test, va, run.addr, run.bytes, NPU_PTE_SYSTEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 7);
	qnpu_space_unmap(&t->space, va, run.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* Blocks are used only if address and memory are aligned, and never beyond the end. */
static void qnpu_mmu_test_blocks(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run aligned = { .addr = SZ_4M, .bytes = SZ_4M + SZ_4K };
	const struct qnpu_mem_run askew = { .addr = SZ_4M + SZ_4K, .bytes = SZ_2M };
	u64 va = SZ_4G;

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &aligned, 0), 0);
	qnpu_test_expect_mapped(test, va, aligned.addr, aligned.bytes, 0);
	KUNIT_EXPECT_EQ(test, qnpu_test_usage(test).large, 2);
	KUNIT_EXPECT_EQ(test, qnpu_test_usage(test).small, 1);
	qnpu_space_unmap(&t->space, va, aligned.bytes);
	KUNIT_EXPECT_EQ(test, qnpu_test_usage(test).large, 0);

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &askew, 0), 0);
	qnpu_test_expect_mapped(test, va, askew.addr, askew.bytes, 0);
	KUNIT_EXPECT_EQ(test, qnpu_test_usage(test).large, 0);
	KUNIT_EXPECT_EQ(test, qnpu_test_usage(test).small, 512);
	qnpu_space_unmap(&t->space, va, askew.bytes);

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va + SZ_1M, &aligned, 0), 0);
	KUNIT_EXPECT_EQ(test, qnpu_test_usage(test).large, 0);
	qnpu_space_unmap(&t->space, va + SZ_1M, aligned.bytes);
}

/* A neighbour in the same table stays mapped. */
static void qnpu_mmu_test_unmaps_only_its_own(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run first = { .addr = SZ_1M, .bytes = SZ_4K };
	const struct qnpu_mem_run second = { .addr = SZ_8M, .bytes = 3 * SZ_4K };
	u64 va = SZ_4G;

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &first, 0), 0);
	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va + SZ_64K, &second, 0), 0);
	qnpu_space_unmap(&t->space, va, first.bytes);
	KUNIT_EXPECT_EQ(test, qnpu_test_walk(t, va), 0);
	qnpu_test_expect_mapped(test, va + SZ_64K, second.addr, second.bytes, 0);
	qnpu_space_unmap(&t->space, va + SZ_64K, second.bytes);
}

/* An address that no entry can hold: nothing stays mapped. */
static void qnpu_mmu_test_refuses(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run far = { .addr = BIT_ULL(52) - SZ_4K, .bytes = 2 * SZ_4K };

	KUNIT_EXPECT_EQ(test, qnpu_space_map_fixed(&t->space, SZ_4G, &far, 0), -ERANGE);
	qnpu_space_unmap(&t->space, SZ_4G, far.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* ASIDs in use are kept; of the others the one idle for longest goes first. */
static void qnpu_mmu_test_asids(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	struct qnpu_space others[QNPU_TEST_ASIDS];
	int first;
	u32 i;

	for (i = 0; i < QNPU_TEST_ASIDS; i++)
		KUNIT_ASSERT_EQ(test, qnpu_space_init(&others[i], t->npu), 0);
	for (i = 0; i < QNPU_TEST_ASIDS - 1; i++)
		KUNIT_ASSERT_EQ(test, qnpu_space_attach(&others[i]), 0);
	KUNIT_EXPECT_EQ(test, qnpu_space_attach(&others[i]), -ENOSPC);
	qnpu_space_detach(&others[1]);
	qnpu_space_detach(&others[0]);
	first = others[1].asid;
	KUNIT_EXPECT_EQ(test, qnpu_space_attach(&others[i]), 0);
	KUNIT_EXPECT_EQ(test, others[i].asid, first);
	KUNIT_EXPECT_EQ(test, others[1].asid, QNPU_NO_ASID);
	KUNIT_EXPECT_EQ(test, qnpu_test_word(t, t->npu->mmu.asid_table + first * 16),
			others[i].root->dma | NPU_ASID_VALID);
	KUNIT_EXPECT_EQ(test, qnpu_space_attach(&others[0]), 0);
	qnpu_space_detach(&others[0]);
	qnpu_space_detach(&others[2]);
	qnpu_space_detach(&others[i]);
	for (i = 0; i < QNPU_TEST_ASIDS; i++)
		qnpu_space_fini(&others[i]);
}

static void qnpu_mmu_test_indices(struct kunit *test)
{
	u64 va = (1ull << 39) + (2ull << 30) + (3ull << 21) + (4ull << 12) + 5;
	u32 level;

	for (level = 0; level < NPU_PT_LEVELS; level++)
		KUNIT_EXPECT_EQ(test, qnpu_index(va, level), 4 - level);
	KUNIT_EXPECT_EQ(test, qnpu_index(BIT_ULL(48) - 1, QNPU_ROOT_LEVEL), 511);
}

/* Check the last range that the driver invalidated. */
static void qnpu_test_expect_invalidated(struct kunit *test, u64 va, u64 bytes)
{
	struct qnpu_mmu_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, qnpu_read64(t->npu, NPU_REG_INV_ADDR), va);
	KUNIT_EXPECT_EQ(test, qnpu_read64(t->npu, NPU_REG_INV_BYTES), bytes);
}

/* The range of a freed table is invalidated with it: the card may cache the path to it. */
static void qnpu_mmu_test_invalidates_tables(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run page = { .addr = SZ_1M, .bytes = SZ_4K };
	u64 va = BIT_ULL(40) + SZ_1G + SZ_4M + 5 * SZ_4K;

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &page, 0), 0);
	qnpu_test_expect_invalidated(test, va, SZ_4K);

	/* Neighbours keep the page table, the one above it, and the one above that. */
	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va + SZ_4K, &page, 0), 0);
	qnpu_space_unmap(&t->space, va, SZ_4K);
	qnpu_test_expect_invalidated(test, va, SZ_4K);
	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va + SZ_2M, &page, 0), 0);
	qnpu_space_unmap(&t->space, va + SZ_4K, SZ_4K);
	qnpu_test_expect_invalidated(test, round_down(va, SZ_2M), SZ_2M);
	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va + SZ_1G, &page, 0), 0);
	qnpu_space_unmap(&t->space, va + SZ_2M, SZ_4K);
	qnpu_test_expect_invalidated(test, round_down(va, SZ_1G), SZ_1G);
	qnpu_space_unmap(&t->space, va + SZ_1G, SZ_4K);
	qnpu_test_expect_invalidated(test, BIT_ULL(40), BIT_ULL(39));
}

/** struct qnpu_test_card - plays a card with slow invalidations */
struct qnpu_test_card {
	/** @work: completes an invalidation */
	struct work_struct work;

	/** @npu: device */
	struct qnpu_device *npu;

	/** @tables: tables in use at the invalidation */
	int tables;
};

static void qnpu_test_card_work(struct work_struct *work)
{
	struct qnpu_test_card *card = container_of(work, struct qnpu_test_card, work);
	struct qnpu_device *npu = card->npu;

	while (!qnpu_read64(npu, NPU_REG_INV_BYTES))
		cond_resched();
	card->tables = atomic_read(&npu->mmu.tables_used);
	qnpu_write(npu, NPU_REG_INV_DONE, 1);
	qnpu_mmu_invalidated(npu);
}

/* The memory of a table is not reused while the card may still walk it. */
static void qnpu_mmu_test_frees_tables_late(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run page = { .addr = SZ_1M, .bytes = SZ_4K };
	struct qnpu_test_card card = { .npu = t->npu };

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, SZ_4G, &page, 0), 0);
	KUNIT_ASSERT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 4);
	qnpu_write64(t->npu, NPU_REG_INV_BYTES, 0);
	qnpu_write(t->npu, NPU_REG_INV_ISSUED, 1);
	INIT_WORK_ONSTACK(&card.work, qnpu_test_card_work);
	queue_work(system_unbound_wq, &card.work);
	qnpu_space_unmap(&t->space, SZ_4G, SZ_4K);
	flush_work(&card.work);
	destroy_work_on_stack(&card.work);

	KUNIT_EXPECT_EQ(test, card.tables, 4);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
	qnpu_write(t->npu, NPU_REG_INV_ISSUED, 0);
	qnpu_write(t->npu, NPU_REG_INV_DONE, 0);
}

/* A mapping's flags change in place, in every entry, as sealing requires. */
static void qnpu_mmu_test_changes_flags(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run run = { .addr = SZ_4M, .bytes = SZ_2M + 3 * SZ_4K };
	u64 va = SZ_4G;
	int tables;

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &run, NPU_PTE_WRITE), 0);
	tables = atomic_read(&t->npu->mmu.tables_used);
	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, va, &run, NPU_PTE_CONST), 0);
	qnpu_test_expect_mapped(test, va, run.addr, run.bytes, NPU_PTE_CONST);
	qnpu_test_expect_invalidated(test, va, run.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), tables);
	qnpu_space_unmap(&t->space, va, run.bytes);
}

/* Without a table an address has no entry. */
static void qnpu_mmu_test_reads(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	u64 root, entry;

	KUNIT_EXPECT_EQ(test, qnpu_mmu_read(t->npu, t->npu->mmu.asid_table +
					t->space.asid * sizeof(struct npu_asid_entry), &root), 0);
	KUNIT_EXPECT_EQ(test, root, t->space.root->dma | NPU_ASID_VALID);
	KUNIT_EXPECT_EQ(test, qnpu_mmu_read(t->npu, t->space.root->dma, &entry), 0);
	KUNIT_EXPECT_EQ(test, entry, 0);
	KUNIT_EXPECT_EQ(test, qnpu_mmu_read(t->npu, BIT_ULL(51), &entry), -EFAULT);
	KUNIT_EXPECT_EQ(test, qnpu_mmu_read(t->npu, U64_MAX, &entry), -EFAULT);
}

/*
 * Address spaces and their tables outlive the device: changes do not reach it, and nothing is
 * unmapped twice.
 */
static void qnpu_mmu_test_outlives_device(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	const struct qnpu_mem_run run = { .addr = SZ_1M, .bytes = 3 * SZ_4K };

	KUNIT_ASSERT_EQ(test, qnpu_space_map_fixed(&t->space, SZ_4G, &run, NPU_PTE_SYSTEM), 0);
	t->npu->drm.unplugged = true;
	qnpu_mmu_release_dma(t->npu);
	KUNIT_EXPECT_TRUE(test, t->npu->mmu.gone);
	KUNIT_EXPECT_EQ(test, qnpu_space_map_fixed(&t->space, SZ_8G, &run, 0), -ENODEV);
	qnpu_space_unmap(&t->space, SZ_4G, run.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* Tickets wrap; a reset completes all of them, and so does a removed card. */
static void qnpu_mmu_test_tickets(struct kunit *test)
{
	struct qnpu_mmu_test *t = test->priv;
	struct qnpu_device *npu = t->npu;

	qnpu_write(npu, NPU_REG_INV_DONE, 5);
	KUNIT_EXPECT_TRUE(test, qnpu_inv_is_done(npu, 0, 5));
	KUNIT_EXPECT_TRUE(test, qnpu_inv_is_done(npu, 0, 0xfffffff0));
	KUNIT_EXPECT_FALSE(test, qnpu_inv_is_done(npu, 0, 6));
	qnpu_write(npu, NPU_REG_INV_DONE, 0xffffffff);
	KUNIT_EXPECT_FALSE(test, qnpu_inv_is_done(npu, 0, 0));
	KUNIT_EXPECT_TRUE(test, qnpu_inv_is_done(npu, 1, 0));
	qnpu_write(npu, NPU_REG_ID, 0xffffffff);
	KUNIT_EXPECT_TRUE(test, qnpu_inv_is_done(npu, 0, 0));
	qnpu_write(npu, NPU_REG_ID, 0);
	qnpu_write(npu, NPU_REG_INV_DONE, 0);
}

static struct kunit_case qnpu_mmu_test_cases[] = {
	KUNIT_CASE(qnpu_mmu_test_indices),
	KUNIT_CASE(qnpu_mmu_test_pages),
	KUNIT_CASE(qnpu_mmu_test_crosses_tables),
	KUNIT_CASE(qnpu_mmu_test_blocks),
	KUNIT_CASE(qnpu_mmu_test_unmaps_only_its_own),
	KUNIT_CASE(qnpu_mmu_test_refuses),
	KUNIT_CASE(qnpu_mmu_test_asids),
	KUNIT_CASE(qnpu_mmu_test_tickets),
	KUNIT_CASE(qnpu_mmu_test_invalidates_tables),
	KUNIT_CASE(qnpu_mmu_test_frees_tables_late),
	KUNIT_CASE(qnpu_mmu_test_changes_flags),
	KUNIT_CASE(qnpu_mmu_test_reads),
	KUNIT_CASE(qnpu_mmu_test_outlives_device),
	{ }
};

static struct kunit_suite qnpu_mmu_test_suite = {
	.name = "qnpu_mmu",
	.init = qnpu_mmu_test_init,
	.exit = qnpu_mmu_test_exit,
	.test_cases = qnpu_mmu_test_cases,
};

kunit_test_suite(qnpu_mmu_test_suite);
