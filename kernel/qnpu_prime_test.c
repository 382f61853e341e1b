// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of exported buffers, as other drivers see them. Included by qnpu_prime.c.
 * They need a card.
 */
#include <linux/fcntl.h>
#include <linux/highmem.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/string.h>

#include <kunit/test.h>

#define QNPU_PRIME_TEST_BYTES	(SZ_2M + 4 * PAGE_SIZE)

static int qnpu_prime_test_match(struct device *dev, const void *data)
{
	return qnpu_prime_is_ours(dev);
}

/* Any device of this driver, with a reference. */
static struct device *qnpu_prime_test_find(void)
{
	struct device *dev = bus_find_device(&platform_bus_type, NULL, NULL, qnpu_prime_test_match);

#ifdef CONFIG_PCI
	if (!dev)
		dev = bus_find_device(&pci_bus_type, NULL, NULL, qnpu_prime_test_match);
#endif
	return dev;
}

/* A buffer that only its dma-buf keeps. */
static struct dma_buf *qnpu_prime_test_export(struct kunit *test, u32 flags)
{
	struct device *dev = qnpu_prime_test_find();
	struct qnpu_device *npu = dev ? dev_get_drvdata(dev) : NULL;
	struct dma_buf *dma_buf;

	struct qnpu_bo *bo;

	if (!npu)
		kunit_skip(test, "no card");
	if (flags & DRM_NPU_BO_CARD && !npu->info.ddr_bytes) {
		put_device(dev);
		kunit_skip(test, "it has no memory of its own");
	}

	bo = qnpu_bo_create(npu, NULL, QNPU_PRIME_TEST_BYTES, flags);
	put_device(dev);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, bo);
	dma_buf = qnpu_prime_export(&bo->tbo.base, O_RDWR);
	drm_gem_object_put(&bo->tbo.base);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dma_buf);
	dma_resv_wait_timeout(dma_buf->resv, DMA_RESV_USAGE_KERNEL, false, MAX_SCHEDULE_TIMEOUT);

	return dma_buf;
}

/* Is every page of the buffer filled with a value, seen past the mapping? */
static bool qnpu_prime_test_pages(struct qnpu_bo *bo, int value)
{
	bool same = true;
	void *page;
	u32 i;

	for (i = 0; i < bo->tbo.ttm->num_pages && same; i++) {
		page = kmap_local_page(bo->tbo.ttm->pages[i]);
		same = !memchr_inv(page, value, PAGE_SIZE);
		kunmap_local(page);
	}

	return same;
}

/* Fill card memory, or see whether it is filled, from the CPU's side of the bus. */
static bool qnpu_prime_test_card(struct qnpu_bo *bo, u8 value, bool fill)
{
	struct qnpu_device *npu = to_qnpu_device(bo->tbo.base.dev);
	struct qnpu_mem_run run;
	u64 offset, i;

	for (offset = 0; offset < bo->tbo.base.size; offset += run.bytes) {
		qnpu_mem_run(bo, false, offset, &run);
		if (fill)
			memset_io(npu->ddr + run.addr, value, run.bytes);
		for (i = 0; i < run.bytes; i += SZ_1K) {
			if (readb(npu->ddr + run.addr + i) != value)
				return false;
		}
	}

	return true;
}

static int qnpu_prime_test_move_to_card(struct qnpu_bo *bo)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_VRAM };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	struct ttm_operation_ctx ctx = { };

	return ttm_bo_validate(&bo->tbo, &placement, &ctx);
}

static void qnpu_prime_test_vmap_system(struct kunit *test)
{
	struct dma_buf *dma_buf = qnpu_prime_test_export(test, DRM_NPU_BO_SYSTEM);
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);
	struct iosys_map map, again;

	KUNIT_ASSERT_EQ(test, dma_buf_vmap_unlocked(dma_buf, &map), 0);
	KUNIT_EXPECT_FALSE(test, map.is_iomem);
	KUNIT_EXPECT_NULL(test, memchr_inv(map.vaddr, 0, QNPU_PRIME_TEST_BYTES));
	memset(map.vaddr, 0x5a, QNPU_PRIME_TEST_BYTES);
	KUNIT_EXPECT_TRUE(test, qnpu_prime_test_pages(bo, 0x5a));
	KUNIT_EXPECT_EQ(test, dma_buf_vmap_unlocked(dma_buf, &again), 0);
	KUNIT_EXPECT_PTR_EQ(test, again.vaddr, map.vaddr);
	dma_buf_vunmap_unlocked(dma_buf, &again);
	KUNIT_EXPECT_EQ(test, bo->tbo.pin_count, 1);
	dma_buf_vunmap_unlocked(dma_buf, &map);
	KUNIT_EXPECT_EQ(test, bo->tbo.pin_count, 0);
	KUNIT_EXPECT_TRUE(test, qnpu_prime_test_pages(bo, 0x5a));
	dma_buf_put(dma_buf);
}

/* Card memory comes to the host while it is mapped, and goes back with what was written. */
static void qnpu_prime_test_vmap_card(struct kunit *test)
{
	struct dma_buf *dma_buf = qnpu_prime_test_export(test, DRM_NPU_BO_CARD);
	struct qnpu_bo *bo = qnpu_bo_of(dma_buf);
	struct iosys_map map;

	dma_resv_lock(dma_buf->resv, NULL);
	KUNIT_EXPECT_EQ(test, qnpu_prime_test_move_to_card(bo), 0);
	KUNIT_EXPECT_TRUE(test, qnpu_prime_test_card(bo, 0x3c, true));
	KUNIT_EXPECT_EQ(test, dma_buf_vmap(dma_buf, &map), 0);
	KUNIT_EXPECT_EQ(test, bo->tbo.resource->mem_type, TTM_PL_TT);
	KUNIT_EXPECT_NULL(test, memchr_inv(map.vaddr, 0x3c, QNPU_PRIME_TEST_BYTES));
	memset(map.vaddr, 0xc3, QNPU_PRIME_TEST_BYTES);
	/* Also where the object does not know its dma-buf: after its last handle. */
	KUNIT_EXPECT_NULL(test, bo->tbo.base.dma_buf);
	KUNIT_EXPECT_EQ(test, bo->tbo.pin_count, 1);
	KUNIT_EXPECT_TRUE(test, qnpu_bo_is_home(bo));
	dma_buf_vunmap(dma_buf, &map);
	KUNIT_EXPECT_EQ(test, bo->tbo.pin_count, 0);
	KUNIT_EXPECT_EQ(test, qnpu_prime_test_move_to_card(bo), 0);
	KUNIT_EXPECT_TRUE(test, qnpu_prime_test_card(bo, 0xc3, false));
	dma_resv_unlock(dma_buf->resv);
	dma_buf_put(dma_buf);
}

static void qnpu_prime_test_vmap_sealed(struct kunit *test)
{
	struct dma_buf *dma_buf = qnpu_prime_test_export(test, DRM_NPU_BO_SYSTEM);
	struct iosys_map map;

	/* Not through dma_buf_vmap(), which warns of a refusal. */
	qnpu_bo_of(dma_buf)->sealed = true;
	dma_resv_lock(dma_buf->resv, NULL);
	KUNIT_EXPECT_EQ(test, qnpu_prime_vmap(dma_buf, &map), -EACCES);
	KUNIT_EXPECT_EQ(test, qnpu_bo_of(dma_buf)->tbo.pin_count, 0);
	dma_resv_unlock(dma_buf->resv);
	dma_buf_put(dma_buf);
}

static struct kunit_case qnpu_prime_test_cases[] = {
	KUNIT_CASE(qnpu_prime_test_vmap_system),
	KUNIT_CASE(qnpu_prime_test_vmap_card),
	KUNIT_CASE(qnpu_prime_test_vmap_sealed),
	{ }
};

static struct kunit_suite qnpu_prime_test_suite = {
	.name = "qnpu_prime",
	.test_cases = qnpu_prime_test_cases,
};

kunit_test_suite(qnpu_prime_test_suite);
