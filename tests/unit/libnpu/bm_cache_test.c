/* SPDX-License-Identifier: MIT */
/* BMLIB: flush and invalidate of ranges that are wrong, or nearly. */
#include <bmlib_runtime.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/libnpu/bm_fixture.h"

#define BYTES (1u << 20)
#define GIB (1ull << 30)

static sg_device_mem_t memory;
static uint8_t *mapped;

/* Afterwards the memory is as good as before: what is written is seen by a copy, and the other way round. */
static void expect_good(uint8_t value) {
  static uint8_t got[BYTES];

  memset(mapped, value, BYTES);
  OK(sg_mem_flush_device_mem(handle, &memory));
  OK(sg_memcpy_d2s(handle, got, memory));
  for (unsigned i = 0; i < BYTES; i++) assert_int_equal(got[i], value);
  memset(got, ~value, BYTES);
  OK(sg_memcpy_s2d(handle, memory, got));
  OK(sg_mem_invalidate_device_mem(handle, &memory));
  for (unsigned i = 0; i < BYTES; i++) assert_int_equal(mapped[i], (uint8_t)~value);
}

static void ranges_of_nothing_are_fine(void **state) {
  (void)state;
  OK(sg_mem_flush_partial_device_mem(handle, &memory, 0, 0));
  OK(sg_mem_flush_partial_device_mem(handle, &memory, BYTES, 0));
  OK(sg_mem_invalidate_partial_device_mem(handle, &memory, BYTES, 0));
  OK(bm_mem_flush_partial_device_mem_u64(
      handle, &(bm_device_mem_u64_t){.u.device.device_addr = memory.u.device.device_addr, .size = BYTES}, 1, 0));
  expect_good(1);
}

static void ranges_beyond_the_end_are_refused(void **state) {
  static const struct {
    unsigned long long offset, len;
  } bad[] = {
      {0, BYTES + 1}, {1, BYTES},   {BYTES, 1},      {BYTES + 1, 0},  {0, 4 * GIB},    {0, 4 * GIB + 1},
      {4 * GIB, 1},   {4 * GIB, 0}, {0, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, 0}, {64, UINT64_MAX - 63},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    assert_int_equal(sg_mem_flush_partial_device_mem(handle, &memory, bad[i].offset, bad[i].len), BM_ERR_PARAM);
    assert_text(logged, "sg_mem_flush_partial_device_mem: ");
    assert_text(logged, "1048576 bytes");
    assert_int_equal(sg_mem_invalidate_partial_device_mem(handle, &memory, bad[i].offset, bad[i].len), BM_ERR_PARAM);
    assert_text(logged, "sg_mem_invalidate_partial_device_mem: ");
  }
  expect_good(2);
}

/* A descriptor of more than there is, as a program makes one by hand. */
static void descriptors_beyond_the_memory_are_refused(void **state) {
  sg_device_mem_t more = memory;

  (void)state;
  more.size = 5 * GIB;
  assert_int_equal(sg_mem_flush_device_mem(handle, &more), BM_ERR_PARAM);
  assert_text(logged, "sg_mem_flush_device_mem: ");
  assert_int_equal(sg_mem_invalidate_device_mem(handle, &more), BM_ERR_PARAM);
  expect_good(3);
}

static void freed_memory_is_refused(void **state) {
  sg_device_mem_t gone;

  (void)state;
  OK(sg_malloc_device_byte(handle, &gone, BYTES));
  OK(sg_mem_flush_device_mem(handle, &gone));
  sg_free_device(handle, gone);
  assert_int_equal(sg_mem_flush_device_mem(handle, &gone), BM_ERR_PARAM);
  assert_text(logged, "sg_mem_flush_device_mem: ");
  assert_text(logged, "belongs to no buffer of this process");
  assert_int_equal(sg_mem_invalidate_partial_device_mem(handle, &gone, 0, 64), BM_ERR_PARAM);
  assert_text(logged, "sg_mem_invalidate_partial_device_mem: ");
  expect_good(4);
}

static int map_memory(void **state) {
  unsigned long long address = 0;

  if (set_up(state)) return -1;
  OK(sg_malloc_device_byte(handle, &memory, BYTES));
  OK(sg_mem_mmap_device_mem(handle, &memory, &address));
  mapped = (uint8_t *)(uintptr_t)address;
  return 0;
}

static int unmap_memory(void **state) {
  OK(sg_mem_unmap_device_mem(handle, mapped, BYTES));
  sg_free_device(handle, memory);
  return tear_down(state);
}

int bm_cache_tests(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, map_memory, unmap_memory)
  const struct CMUnitTest tests[] = {
      CASE(ranges_of_nothing_are_fine),
      CASE(ranges_beyond_the_end_are_refused),
      CASE(descriptors_beyond_the_memory_are_refused),
      CASE(freed_memory_is_refused),
  };

  return cmocka_run_group_tests_name("bm_cache", tests, NULL, NULL);
}
