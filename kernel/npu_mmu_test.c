// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page tables; part of npu_mmu.c.
 *
 * The card is some memory, or has none, so that tables are in that of the system. What the driver
 * writes there is read by a walk that follows the hardware guide and knows nothing of the driver's
 * own tree.
 */
#include <linux/dma-mapping.h>

#include <kunit/device.h>
#include <kunit/test.h>

#define NPU_TEST_TABLES		64
#define NPU_TEST_ASIDS		4
#define NPU_TEST_DDR		((NPU_TEST_TABLES + 1) * NPU_TABLE_BYTES)

/** struct npu_mmu_test - a card without hardware, and an address space */
struct npu_mmu_test {
	/** @npu: device; only what page tables need is set */
	struct npu_device *npu;

	/** @ddr: its memory, as the test sees it; NULL: it has none */
	u8 *ddr;

	/** @space: address space */
	struct npu_space space;
};

static void npu_mmu_test_init_device(struct kunit *test)
{
	struct npu_mmu_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct npu_device *npu = kunit_kzalloc(test, sizeof(*npu), GFP_KERNEL);
	u8 *regs = kunit_kzalloc(test, SZ_4K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_NOT_NULL(test, npu);
	KUNIT_ASSERT_NOT_NULL(test, regs);

	t->npu = npu;
	npu->drm.dev = kunit_device_register(test, "npu");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, npu->drm.dev);
	npu->regs = (void __iomem *)regs;
	npu->asids = NPU_TEST_ASIDS;
	ida_init(&npu->mmu.tables);
	ida_init(&npu->mmu.asids);
	mutex_init(&npu->mmu.inv_lock);
	mutex_init(&npu->mmu.live_lock);
	INIT_LIST_HEAD(&npu->mmu.live);
	init_rwsem(&npu->reset_lock);
	init_waitqueue_head(&npu->online_wait);
	init_waitqueue_head(&npu->mmu.inv_wait);
	test->priv = t;
}

static int npu_mmu_test_init_card(struct kunit *test)
{
	struct npu_mmu_test *t;
	struct npu_device *npu;

	npu_mmu_test_init_device(test);
	t = test->priv;
	npu = t->npu;
	t->ddr = kunit_kzalloc(test, NPU_TEST_DDR, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->ddr);
	npu->ddr = (void __iomem *)t->ddr;
	npu->info.ddr_bytes = NPU_TEST_DDR;
	npu->mmu.ops = &npu_tables_on_card;
	npu->mmu.asid_table = 0;
	npu->mmu.tables_start = NPU_TABLE_BYTES;
	npu->mmu.table_count = NPU_TEST_TABLES;
	npu->mmu.roots = kvcalloc(NPU_TEST_ASIDS, sizeof(u64), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, npu->mmu.roots);
	KUNIT_ASSERT_EQ(test, npu_space_init(&t->space, npu, NULL), 0);

	return 0;
}

static int npu_mmu_test_init_system(struct kunit *test)
{
	struct npu_mmu_test *t;
	struct npu_device *npu;

	npu_mmu_test_init_device(test);
	t = test->priv;
	npu = t->npu;
	KUNIT_ASSERT_EQ(test, dma_coerce_mask_and_coherent(npu->drm.dev, DMA_BIT_MASK(52)), 0);
	npu->mmu.ops = &npu_tables_in_system;
	KUNIT_ASSERT_EQ(test, npu->mmu.ops->init(npu), 0);
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(npu->mmu.asid_table, NPU_TABLE_BYTES));
	npu->mmu.table_count = NPU_TEST_TABLES;
	KUNIT_ASSERT_EQ(test, npu_space_init(&t->space, npu, NULL), 0);

	return 0;
}

static void npu_mmu_test_exit(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;

	if (!t || !t->space.root)
		return;
	npu_space_fini(&t->space);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.asids_used), 0);
	t->npu->mmu.ops->fini(t->npu);
	ida_destroy(&t->npu->mmu.tables);
	ida_destroy(&t->npu->mmu.asids);
	mutex_destroy(&t->npu->mmu.inv_lock);
}

static u64 npu_test_word(const struct npu_mmu_test *t, u64 addr)
{
	u64 word = 0;

	if (t->ddr)
		return le64_to_cpup((const __le64 *)(t->ddr + addr));
	t->npu->mmu.ops->read(t->npu, addr, &word);

	return word;
}

/* What the card makes of an address: the leaf's entry with the offset in it, or 0. */
static u64 npu_test_walk(struct npu_mmu_test *t, u64 va)
{
	u64 entry = npu_test_word(t, t->npu->mmu.asid_table + t->space.asid * 16);
	int shift;

	if (!(entry & NPU_ASID_VALID))
		return 0;

	entry &= NPU_ASID_ROOT;
	for (shift = 39; shift >= 12; shift -= 9) {
		entry = npu_test_word(t, entry + ((va >> shift) & 511) * 8);
		if (!(entry & NPU_PTE_VALID) || entry & NPU_PTE_RESERVED)
			return 0;
		if (shift == 21 && entry & NPU_PTE_LARGE)
			return entry + (va & (SZ_2M - SZ_4K));
		entry &= shift == 12 ? ~0ull : NPU_PTE_ADDR;
	}

	return entry;
}

static void npu_test_expect_mapped(struct kunit *test, u64 va, u64 addr, u64 bytes, u64 flags)
{
	u64 at;

	for (at = 0; at < bytes; at += SZ_4K) {
		u64 entry = npu_test_walk(test->priv, va + at) & ~NPU_PTE_LARGE;

		KUNIT_ASSERT_EQ_MSG(test, entry, (addr + at) | flags | NPU_PTE_VALID, "at %#llx",
				    va + at);
	}
	KUNIT_EXPECT_EQ(test, npu_test_walk(test->priv, va - SZ_4K), 0);
	KUNIT_EXPECT_EQ(test, npu_test_walk(test->priv, va + bytes), 0);
}

static struct npu_space_usage npu_test_usage(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	struct npu_space_usage usage;

	npu_space_usage(&t->space, &usage);

	return usage;
}

static void npu_mmu_test_pages(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run run = { .addr = 0x123456000, .bytes = 5 * SZ_4K };
	u64 va = 0x7fedcba98000;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &run, NPU_PTE_WRITE), 0);
	npu_test_expect_mapped(test, va, run.addr, run.bytes, NPU_PTE_WRITE);
	npu_space_unmap(&t->space, va, run.bytes);
	KUNIT_EXPECT_EQ(test, npu_test_walk(t, va), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* From one table to the next on every level: the last page below 512 GiB and the first above. */
static void npu_mmu_test_crosses_tables(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run run = { .addr = 0x1000, .bytes = 2 * SZ_4K };
	u64 va = BIT_ULL(39) - SZ_4K;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &run, NPU_PTE_SYSTEM), 0);
	npu_test_expect_mapped(test, va, run.addr, run.bytes, NPU_PTE_SYSTEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 7);
	npu_space_unmap(&t->space, va, run.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* Only where address and memory are aligned, and never beyond the end. */
static void npu_mmu_test_blocks(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run aligned = { .addr = SZ_4M, .bytes = SZ_4M + SZ_4K };
	const struct npu_mem_run askew = { .addr = SZ_4M + SZ_4K, .bytes = SZ_2M };
	u64 va = SZ_4G;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &aligned, 0), 0);
	npu_test_expect_mapped(test, va, aligned.addr, aligned.bytes, 0);
	KUNIT_EXPECT_EQ(test, npu_test_usage(test).large, 2);
	KUNIT_EXPECT_EQ(test, npu_test_usage(test).small, 1);
	npu_space_unmap(&t->space, va, aligned.bytes);
	KUNIT_EXPECT_EQ(test, npu_test_usage(test).large, 0);

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &askew, 0), 0);
	npu_test_expect_mapped(test, va, askew.addr, askew.bytes, 0);
	KUNIT_EXPECT_EQ(test, npu_test_usage(test).large, 0);
	KUNIT_EXPECT_EQ(test, npu_test_usage(test).small, 512);
	npu_space_unmap(&t->space, va, askew.bytes);
}

/* A neighbour in the same table stays. */
static void npu_mmu_test_unmaps_only_its_own(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run first = { .addr = SZ_1M, .bytes = SZ_4K };
	const struct npu_mem_run second = { .addr = SZ_8M, .bytes = 3 * SZ_4K };
	u64 va = SZ_4G;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &first, 0), 0);
	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va + SZ_64K, &second, 0), 0);
	npu_space_unmap(&t->space, va, first.bytes);
	KUNIT_EXPECT_EQ(test, npu_test_walk(t, va), 0);
	npu_test_expect_mapped(test, va + SZ_64K, second.addr, second.bytes, 0);
	npu_space_unmap(&t->space, va + SZ_64K, second.bytes);
}

/* An address that no entry can hold, and the end of the tables: nothing stays mapped. */
static void npu_mmu_test_refuses(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run far = { .addr = BIT_ULL(52) - SZ_4K, .bytes = 2 * SZ_4K };
	const struct npu_mem_run page = { .addr = 0, .bytes = SZ_4K };
	u64 va = SZ_4G;
	int n = 0, ret;

	KUNIT_EXPECT_EQ(test, npu_space_map_fixed(&t->space, va, &far, 0), -ERANGE);
	npu_space_unmap(&t->space, va, far.bytes);

	/* Each of these needs three more tables. */
	do {
		ret = npu_space_map_fixed(&t->space, va + n * BIT_ULL(39), &page, 0);
	} while (!ret && ++n < NPU_TEST_TABLES);
	KUNIT_EXPECT_EQ(test, ret, -EXFULL);
	KUNIT_EXPECT_EQ(test, n, (NPU_TEST_TABLES - 1) / 3);
	KUNIT_EXPECT_EQ(test, npu_test_walk(t, va + n * BIT_ULL(39)), 0);
	while (n--)
		npu_space_unmap(&t->space, va + n * BIT_ULL(39), SZ_4K);
}

static void npu_mmu_test_asids(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	struct npu_space others[NPU_TEST_ASIDS];
	u32 i;

	for (i = 0; i < NPU_TEST_ASIDS - 1; i++)
		KUNIT_ASSERT_EQ(test, npu_space_init(&others[i], t->npu, NULL), 0);
	KUNIT_EXPECT_EQ(test, npu_space_init(&others[i], t->npu, NULL), -ENOSPC);
	while (i--)
		npu_space_fini(&others[i]);
}

static void npu_mmu_test_indices(struct kunit *test)
{
	u64 va = (1ull << 39) + (2ull << 30) + (3ull << 21) + (4ull << 12) + 5;
	u32 level;

	for (level = 0; level < NPU_PT_LEVELS; level++)
		KUNIT_EXPECT_EQ(test, npu_index(va, level), 4 - level);
	KUNIT_EXPECT_EQ(test, npu_index(BIT_ULL(48) - 1, NPU_ROOT_LEVEL), 511);
	KUNIT_EXPECT_FALSE(test, npu_can_be_large(SZ_2M, SZ_2M, SZ_2M - SZ_4K));
	KUNIT_EXPECT_FALSE(test, npu_can_be_large(SZ_2M, SZ_1M, SZ_2M));
	KUNIT_EXPECT_FALSE(test, npu_can_be_large(SZ_1M, SZ_2M, SZ_2M));
	KUNIT_EXPECT_TRUE(test, npu_can_be_large(SZ_2M, SZ_4M, SZ_2M));
}

/* The range that the driver has asked the card to forget last. */
static void npu_test_expect_invalidated(struct kunit *test, u64 va, u64 bytes)
{
	struct npu_mmu_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, npu_read64(t->npu, NPU_REG_INV_ADDR), va);
	KUNIT_EXPECT_EQ(test, npu_read64(t->npu, NPU_REG_INV_BYTES), bytes);
}

/* All that a table covered is invalidated with it: the card may have cached the way to it. */
static void npu_mmu_test_invalidates_tables(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run page = { .addr = SZ_1M, .bytes = SZ_4K };
	u64 va = BIT_ULL(40) + SZ_1G + SZ_4M + 5 * SZ_4K;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &page, 0), 0);
	npu_test_expect_invalidated(test, va, SZ_4K);

	/* A neighbour each keeps: the table of pages, the one above it, and the one above that. */
	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va + SZ_4K, &page, 0), 0);
	npu_space_unmap(&t->space, va, SZ_4K);
	npu_test_expect_invalidated(test, va, SZ_4K);
	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va + SZ_2M, &page, 0), 0);
	npu_space_unmap(&t->space, va + SZ_4K, SZ_4K);
	npu_test_expect_invalidated(test, round_down(va, SZ_2M), SZ_2M);
	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va + SZ_1G, &page, 0), 0);
	npu_space_unmap(&t->space, va + SZ_2M, SZ_4K);
	npu_test_expect_invalidated(test, round_down(va, SZ_1G), SZ_1G);
	npu_space_unmap(&t->space, va + SZ_1G, SZ_4K);
	npu_test_expect_invalidated(test, BIT_ULL(40), BIT_ULL(39));
}

/** struct npu_test_card - plays a card that takes its time for an invalidation */
struct npu_test_card {
	/** @work: what it does */
	struct work_struct work;

	/** @npu: device */
	struct npu_device *npu;

	/** @tables: tables in use when it was asked */
	int tables;
};

static void npu_test_card_work(struct work_struct *work)
{
	struct npu_test_card *card = container_of(work, struct npu_test_card, work);
	struct npu_device *npu = card->npu;

	while (!npu_read64(npu, NPU_REG_INV_BYTES))
		cond_resched();
	card->tables = atomic_read(&npu->mmu.tables_used);
	npu_write(npu, NPU_REG_INV_DONE, 1);
	npu_mmu_invalidated(npu);
}

/* As long as the card may still walk a table, nobody else gets its memory. */
static void npu_mmu_test_frees_tables_late(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run page = { .addr = SZ_1M, .bytes = SZ_4K };
	struct npu_test_card card = { .npu = t->npu };

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, SZ_4G, &page, 0), 0);
	KUNIT_ASSERT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 4);
	npu_write64(t->npu, NPU_REG_INV_BYTES, 0);
	npu_write(t->npu, NPU_REG_INV_ISSUED, 1);
	INIT_WORK_ONSTACK(&card.work, npu_test_card_work);
	queue_work(system_unbound_wq, &card.work);
	npu_space_unmap(&t->space, SZ_4G, SZ_4K);
	flush_work(&card.work);
	destroy_work_on_stack(&card.work);

	KUNIT_EXPECT_EQ(test, card.tables, 4);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
	npu_write(t->npu, NPU_REG_INV_ISSUED, 0);
	npu_write(t->npu, NPU_REG_INV_DONE, 0);
}

/* The flags of a mapping change in place, in every entry: so sealing takes the right to write. */
static void npu_mmu_test_changes_flags(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run run = { .addr = SZ_4M, .bytes = SZ_2M + 3 * SZ_4K };
	u64 va = SZ_4G;
	int tables;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &run, NPU_PTE_WRITE), 0);
	tables = atomic_read(&t->npu->mmu.tables_used);
	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &run, NPU_PTE_CONST), 0);
	npu_test_expect_mapped(test, va, run.addr, run.bytes, NPU_PTE_CONST);
	npu_test_expect_invalidated(test, va, run.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), tables);
	npu_space_unmap(&t->space, va, run.bytes);
}

static void npu_test_restore(struct npu_mmu_test *t)
{
	down_write(&t->npu->reset_lock);
	npu_mmu_restore(t->npu);
	t->npu->wedged = false;
	up_write(&t->npu->reset_lock);
}

/* A card that was lost gets all tables again, those that changed meanwhile, too. */
static void npu_mmu_test_restores(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run first = { .addr = SZ_1M, .bytes = 3 * SZ_4K };
	const struct npu_mem_run second = { .addr = SZ_4M, .bytes = SZ_2M };
	u64 va = SZ_4G;

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va, &first, NPU_PTE_WRITE), 0);
	t->npu->wedged = true;
	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, va + SZ_1G, &second, 0), 0);
	npu_space_unmap(&t->space, va, SZ_4K);
	/* Tables in system memory need nobody to be written. */
	KUNIT_EXPECT_EQ(test, !npu_test_walk(t, va + SZ_1G), !!t->ddr);
	if (t->ddr)
		memset(t->ddr, 0xff, NPU_TEST_DDR);
	npu_test_restore(t);

	npu_test_expect_mapped(test, va + SZ_4K, first.addr + SZ_4K, 2 * SZ_4K, NPU_PTE_WRITE);
	npu_test_expect_mapped(test, va + SZ_1G, second.addr, second.bytes, 0);
	npu_space_unmap(&t->space, va, first.bytes);
	npu_space_unmap(&t->space, va + SZ_1G, second.bytes);
}

/* An address where no table is has no entry. */
static void npu_mmu_test_reads(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_table_ops *ops = t->npu->mmu.ops;
	u64 root, entry;

	KUNIT_EXPECT_EQ(test, ops->read(t->npu, t->npu->mmu.asid_table +
					t->space.asid * sizeof(struct npu_asid_entry), &root), 0);
	KUNIT_EXPECT_EQ(test, root, t->space.root->table.addr | NPU_ASID_VALID);
	KUNIT_EXPECT_EQ(test, ops->read(t->npu, t->space.root->table.addr, &entry), 0);
	KUNIT_EXPECT_EQ(test, entry, 0);
	KUNIT_EXPECT_EQ(test, ops->read(t->npu, BIT_ULL(51), &entry), -EFAULT);
	KUNIT_EXPECT_EQ(test, ops->read(t->npu, U64_MAX, &entry), -EFAULT);
}

/*
 * Address spaces outlive the device, and their tables in system memory do not: changes go nowhere,
 * and nothing is freed twice.
 */
static void npu_mmu_test_outlives_device(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	const struct npu_mem_run run = { .addr = SZ_1M, .bytes = 3 * SZ_4K };

	KUNIT_ASSERT_EQ(test, npu_space_map_fixed(&t->space, SZ_4G, &run, NPU_PTE_SYSTEM), 0);
	t->npu->drm.unplugged = true;
	npu_mmu_release_dma(t->npu);
	KUNIT_EXPECT_NULL(test, t->npu->mmu.pool);
	KUNIT_EXPECT_EQ(test, npu_space_map_fixed(&t->space, SZ_8G, &run, 0), -ENODEV);
	npu_space_unmap(&t->space, SZ_4G, run.bytes);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->npu->mmu.tables_used), 1);
}

/* Tickets wrap; a reset of the card answers all of them, and so does a card that is gone. */
static void npu_mmu_test_tickets(struct kunit *test)
{
	struct npu_mmu_test *t = test->priv;
	struct npu_device *npu = t->npu;

	npu_write(npu, NPU_REG_INV_DONE, 5);
	KUNIT_EXPECT_TRUE(test, npu_inv_is_done(npu, 0, 5));
	KUNIT_EXPECT_TRUE(test, npu_inv_is_done(npu, 0, 0xfffffff0));
	KUNIT_EXPECT_FALSE(test, npu_inv_is_done(npu, 0, 6));
	npu_write(npu, NPU_REG_INV_DONE, 0xffffffff);
	KUNIT_EXPECT_FALSE(test, npu_inv_is_done(npu, 0, 0));
	KUNIT_EXPECT_TRUE(test, npu_inv_is_done(npu, 1, 0));
	npu_write(npu, NPU_REG_ID, 0xffffffff);
	KUNIT_EXPECT_TRUE(test, npu_inv_is_done(npu, 0, 0));
	npu_write(npu, NPU_REG_ID, 0);
	npu_write(npu, NPU_REG_INV_DONE, 0);
}

static struct kunit_case npu_mmu_test_cases[] = {
	KUNIT_CASE(npu_mmu_test_indices),
	KUNIT_CASE(npu_mmu_test_pages),
	KUNIT_CASE(npu_mmu_test_crosses_tables),
	KUNIT_CASE(npu_mmu_test_blocks),
	KUNIT_CASE(npu_mmu_test_unmaps_only_its_own),
	KUNIT_CASE(npu_mmu_test_refuses),
	KUNIT_CASE(npu_mmu_test_asids),
	KUNIT_CASE(npu_mmu_test_tickets),
	KUNIT_CASE(npu_mmu_test_invalidates_tables),
	KUNIT_CASE(npu_mmu_test_frees_tables_late),
	KUNIT_CASE(npu_mmu_test_changes_flags),
	KUNIT_CASE(npu_mmu_test_restores),
	KUNIT_CASE(npu_mmu_test_reads),
	{ }
};

/* The framework keeps results in them, so each suite has its own. */
static struct kunit_case npu_mmu_system_test_cases[] = {
	KUNIT_CASE(npu_mmu_test_pages),
	KUNIT_CASE(npu_mmu_test_crosses_tables),
	KUNIT_CASE(npu_mmu_test_blocks),
	KUNIT_CASE(npu_mmu_test_unmaps_only_its_own),
	KUNIT_CASE(npu_mmu_test_refuses),
	KUNIT_CASE(npu_mmu_test_asids),
	KUNIT_CASE(npu_mmu_test_invalidates_tables),
	KUNIT_CASE(npu_mmu_test_frees_tables_late),
	KUNIT_CASE(npu_mmu_test_changes_flags),
	KUNIT_CASE(npu_mmu_test_restores),
	KUNIT_CASE(npu_mmu_test_reads),
	KUNIT_CASE(npu_mmu_test_outlives_device),
	{ }
};

static struct kunit_suite npu_mmu_test_suite = {
	.name = "npu_mmu",
	.init = npu_mmu_test_init_card,
	.exit = npu_mmu_test_exit,
	.test_cases = npu_mmu_test_cases,
};

static struct kunit_suite npu_mmu_system_test_suite = {
	.name = "npu_mmu_system",
	.init = npu_mmu_test_init_system,
	.exit = npu_mmu_test_exit,
	.test_cases = npu_mmu_system_test_cases,
};

kunit_test_suites(&npu_mmu_test_suite, &npu_mmu_system_test_suite);
