/* SPDX-License-Identifier: MIT */
/* BMLIB: handles, memory, copies, mappings, facts, log. */
#include <bmlib_runtime.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/libnpu/bm_fixture.h"

static bm_device_mem_t must_malloc(unsigned int size) {
  bm_device_mem_t mem;

  if (bm_malloc_device_byte(handle, &mem, size)) fail_msg("%s", npu_last_error());
  return mem;
}

static void devices_are_counted(void **state) {
  int count = -1;

  (void)state;
  OK(bm_dev_getcount(&count));
  assert_true(count >= 1);
  OK(bm_dev_query(0));
  assert_int_equal(bm_dev_query(count), BM_ERR_DEVNOTREADY);
  assert_int_equal(bm_dev_query(-1), BM_ERR_DEVNOTREADY);
  assert_int_equal(bm_dev_getcount(NULL), BM_ERR_PARAM);
}

static void handles_are_independent(void **state) {
  bm_handle_t a = NULL, b = NULL, missing = (bm_handle_t)1;

  (void)state;
  OK(bm_dev_request(&a, 0));
  OK(bm_dev_request(&b, 0));
  assert_ptr_not_equal(a, b);
  assert_int_equal(bm_get_devid(a), 0);
  bm_dev_free(a);
  assert_int_equal(bm_get_devid(b), 0);
  bm_dev_free(b);
  assert_int_equal(bm_dev_request(&missing, 1000), BM_ERR_DEVNOTREADY);
  assert_null(missing);
  assert_text(logged, "bm_dev_request: no NPU device 1000");
  assert_int_equal(bm_dev_request(&missing, -1), BM_ERR_PARAM);
  assert_int_equal(bm_dev_request(NULL, 0), BM_ERR_PARAM);
}

static void a_stale_or_foreign_handle_is_refused_everywhere(void **state) {
  bm_handle_t stale = NULL, foreign[] = {NULL, (bm_handle_t)1, (bm_handle_t)&stale, (bm_handle_t)UINTPTR_MAX};
  bm_device_mem_t mem = must_malloc(64), out;
  unsigned long long address;
  char byte = 0;

  (void)state;
  OK(bm_dev_request(&stale, 0));
  bm_dev_free(stale);
  for (int i = 0; i < 5; i++) {
    bm_handle_t bad = i < 4 ? foreign[i] : stale;
    bm_dev_stat_t stat;
    struct bm_misc_info misc;
    unsigned int chip;

    assert_int_equal(bm_malloc_device_byte(bad, &out, 64), BM_ERR_PARAM);
    assert_text(npu_last_error(), "is not a device handle");
    bm_free_device(bad, mem);
    assert_int_equal(bm_memcpy_s2d(bad, mem, &byte), BM_ERR_PARAM);
    assert_int_equal(bm_memcpy_d2s_partial(bad, &byte, mem, 1), BM_ERR_PARAM);
    assert_int_equal(bm_memcpy_d2d_byte(bad, mem, 0, mem, 1, 1), BM_ERR_PARAM);
    assert_int_equal(bm_memset_device(bad, 0, mem), BM_ERR_PARAM);
    assert_int_equal(bm_mem_mmap_device_mem(bad, &mem, &address), BM_ERR_PARAM);
    assert_int_equal(bm_mem_unmap_device_mem(bad, &byte, 1), BM_ERR_PARAM);
    assert_int_equal(bm_mem_flush_device_mem(bad, &mem), BM_ERR_PARAM);
    assert_int_equal(bm_mem_invalidate_device_mem(bad, &mem), BM_ERR_PARAM);
    assert_int_equal(bm_thread_sync(bad), BM_ERR_PARAM);
    assert_int_equal(bm_handle_sync(bad), BM_ERR_PARAM);
    assert_int_equal(bm_device_sync(bad), BM_ERR_PARAM);
    assert_int_equal(bm_set_sync_timeout(bad, 1), BM_ERR_PARAM);
    assert_int_equal(bm_get_stat(bad, &stat), BM_ERR_PARAM);
    assert_int_equal(bm_get_misc_info(bad, &misc), BM_ERR_PARAM);
    assert_int_equal(bm_get_chipid(bad, &chip), BM_ERR_PARAM);
    assert_int_equal(bm_get_devid(bad), -1);
    bm_dev_free(bad);
  }
  /* The memory is still there, and the good handle works. */
  OK(bm_memset_device(handle, 0, mem));
  bm_free_device(handle, mem);
}

static void descriptors_are_plain_values(void **state) {
  bm_device_mem_t mem = bm_mem_from_device(0x123456789000ull, 77);
  int local = 0;

  (void)state;
  assert_int_equal(bm_mem_get_device_addr(mem), 0x123456789000ull);
  assert_int_equal(bm_mem_get_device_size(mem), 77);
  assert_int_equal(bm_mem_get_size(mem), 77);
  assert_int_equal(bm_mem_get_type(mem), BM_MEM_TYPE_DEVICE);
  bm_mem_set_device_size(&mem, 5);
  bm_mem_set_device_addr(&mem, 0x1000);
  assert_int_equal(bm_mem_get_device_size(mem), 5);
  assert_int_equal(bm_mem_get_device_addr(mem), 0x1000);
  bm_set_device_mem(&mem, 6, 0x2000);
  assert_int_equal(bm_mem_get_device_size(mem), 6);
  assert_int_equal(bm_mem_get_device_addr(mem), 0x2000);
  assert_int_equal(bm_mem_get_type(bm_mem_null()), BM_MEM_TYPE_INVALID);
  assert_int_equal(bm_mem_get_device_addr(BM_MEM_NULL), BM_MEM_ADDR_NULL);
  assert_int_equal(bm_mem_get_device_size(BM_MEM_NULL), 0);
  mem.flags.rawflags = 0;
  mem.flags.u.mem_type = BM_MEM_TYPE_INT8_DEVICE;
  mem.flags.u.gmem_heapid = 5;
  assert_int_equal(mem.flags.rawflags, 3 | 5 << 3); /* the vendor's bits */
  bm_system_mem_t system = bm_mem_from_system(&local);
  assert_ptr_equal(bm_mem_get_system_addr(system), &local);
  assert_int_equal(bm_mem_get_type(system), BM_MEM_TYPE_SYSTEM);
}

static void memory_is_zero_and_has_the_wanted_size(void **state) {
  static const unsigned int sizes[] = {1, 4096, 100001};
  uint8_t got[256], zero[256] = {0};

  (void)state;
  for (int i = 0; i < 3; i++) {
    bm_device_mem_t mem = must_malloc(sizes[i]);
    const unsigned int n = sizes[i] < 256 ? sizes[i] : 256;

    assert_int_equal(bm_mem_get_device_size(mem), sizes[i]);
    assert_int_equal(bm_mem_get_type(mem), BM_MEM_TYPE_DEVICE);
    OK(bm_memcpy_d2s_partial(handle, got, mem, n));
    assert_bytes(got, zero, n);
    bm_free_device(handle, mem);
  }
  bm_device_mem_t mem;
  assert_int_equal(bm_malloc_device_byte(handle, &mem, 0), BM_ERR_PARAM);
  assert_int_equal(bm_mem_get_type(mem), BM_MEM_TYPE_INVALID);
  assert_int_equal(bm_malloc_device_byte(handle, NULL, 1), BM_ERR_PARAM);
}

static void heaps_are_the_same_memory(void **state) {
  bm_device_mem_t mem;

  (void)state;
  for (int heap = 0; heap < 3; heap++) {
    OK(bm_malloc_device_byte_heap(handle, &mem, heap, 100));
    bm_free_device(handle, mem);
    OK(bm_malloc_device_byte_heap_mask(handle, &mem, 1 << heap, 100));
    bm_free_device(handle, mem);
  }
  OK(bm_malloc_device_byte_heap_mask(handle, &mem, 7, 100));
  bm_free_device(handle, mem);
  assert_int_equal(bm_malloc_device_byte_heap(handle, &mem, 3, 100), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_device_byte_heap(handle, &mem, -1, 100), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_device_byte_heap_mask(handle, &mem, 0, 100), BM_ERR_PARAM);
}

static void exhausted_memory_says_how_much_there_is(void **state) {
  enum { MOST = 64 }; /* blocks of 3 GiB: more than a descriptor can ask for is in several */
  struct bm_misc_info misc;
  bm_dev_stat_t stat;
  bm_device_mem_t mem, blocks[MOST];
  unsigned int size;
  int count = 0;

  (void)state;
  OK(bm_get_misc_info(handle, &misc));
  OK(bm_get_stat(handle, &stat));
  size = stat.mem_total < 3072 ? (unsigned int)(stat.mem_total + 1) << 20 : 3072u << 20;
  while (count < MOST && bm_malloc_device_byte(handle, &blocks[count], size) == BM_SUCCESS) count++;
  if (count == MOST) fail_msg("a card of %d MiB has no end", stat.mem_total);
  if (misc.pcie_soc_mode) {
    assert_text(logged, "bm_malloc_device_byte: not enough system memory or device addresses for a buffer of ");
    assert_text(logged, "this process' system buffers hold ");
  } else {
    assert_text(logged, "bm_malloc_device_byte: device 0 is out of memory: requested ");
    assert_text(logged, "largest free block ");
    assert_text(logged, "this process holds ");
    assert_text(logged, "ddr="); /* the setting that gives more */
  }
  while (count) bm_free_device(handle, blocks[--count]);
  mem = must_malloc(4096);
  bm_free_device(handle, mem);
}

static void freeing_goes_by_address(void **state) {
  bm_device_mem_t mem = must_malloc(8192), inside, copy;
  int fds[2];

  (void)state;
  assert_int_equal(pipe(fds), 0);
  /* A part is not the allocation. */
  inside = bm_mem_from_device(bm_mem_get_device_addr(mem) + 4096, 4096);
  bm_free_device(handle, inside);
  assert_text(logged, "bm_free_device: device address 0x");
  assert_text(logged, "is not the start of an allocation: nothing was freed");
  OK(bm_memset_device(handle, 1, mem));
  /* A copy with another size and a stray descriptor number is. */
  copy = bm_mem_from_device(bm_mem_get_device_addr(mem), 1);
  copy.u.device.dmabuf_fd = fds[0];
  bm_free_device(handle, copy);
  assert_int_equal(bm_memset_device(handle, 1, mem), BM_ERR_PARAM);
  assert_text(logged, "belongs to no buffer of this process");
  assert_int_equal(write(fds[1], "x", 1), 1);
  char byte;
  assert_int_equal(read(fds[0], &byte, 1), 1); /* still open */
  *logged = 0;
  bm_free_device(handle, mem);
  assert_text(logged, "nothing was freed");
  bm_free_device(handle, bm_mem_null());
  bm_free_device(handle, bm_mem_from_device(0, 0));
  close(fds[0]);
  close(fds[1]);
}

static void the_last_handle_frees_what_is_left(void **state) {
  npu_device *device = must_open();
  struct drm_npu_memory_info before, after;
  bm_handle_t other = NULL;
  bm_device_mem_t mem;

  (void)state;
  bm_dev_free(handle);
  MUST(npu_device_memory(device, &before));
  OK(bm_dev_request(&handle, 0));
  OK(bm_dev_request(&other, 0));
  mem = must_malloc(1 << 20);
  bm_dev_free(handle);
  OK(bm_memset_device(other, 3, mem)); /* another handle still has it */
  bm_dev_free(other);
  for (int i = 0; i < 1000; i++) {
    MUST(npu_device_memory(device, &after));
    if (after.card_free >= before.card_free) break;
    usleep(10000);
  }
  /* More is no loss: memory of an earlier process may still have been on its way back before. */
  assert_true(after.card_free >= before.card_free);
  npu_device_close(device);
  OK(bm_dev_request(&handle, 0));
}

static void copies_in_and_out(void **state) {
  enum { SIZE = 70000 };
  uint8_t *data = must_alloc(SIZE), *got = must_alloc(SIZE), *shadow = calloc(1, SIZE);
  bm_device_mem_t mem = must_malloc(SIZE);

  (void)state;
  fill_pattern(data, SIZE, 8);
  OK(bm_memcpy_s2d(handle, mem, data));
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, data, SIZE);
  OK(bm_memset_device_ext(handle, "", 1, mem));
  /* partial: from the start; partial_offset: the offset counts in device memory, not in the process. */
  OK(bm_memcpy_s2d_partial(handle, mem, data, 100));
  memcpy(shadow, data, 100);
  OK(bm_memcpy_s2d_partial_offset(handle, mem, data, 50, 1000));
  memcpy(shadow + 1000, data, 50);
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, shadow, SIZE);
  OK(bm_memcpy_d2s_partial(handle, got, mem, 60));
  assert_bytes(got, shadow, 60);
  OK(bm_memcpy_d2s_partial_offset(handle, got, mem, 70, 990));
  assert_bytes(got, shadow + 990, 70);
  /* A descriptor of a part. */
  bm_device_mem_t part = bm_mem_from_device(bm_mem_get_device_addr(mem) + 333, 100);
  OK(bm_memcpy_s2d(handle, part, data + 5));
  memcpy(shadow + 333, data + 5, 100);
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, shadow, SIZE);
  bm_free_device(handle, mem);
  free(data);
  free(got);
  free(shadow);
}

static void copies_beyond_the_memory_are_refused(void **state) {
  bm_device_mem_t mem = must_malloc(4096), big;
  uint8_t data[8192] = {0};

  (void)state;
  assert_int_equal(bm_memcpy_s2d_partial(handle, mem, data, 4097), BM_ERR_PARAM);
  assert_text(logged, "beyond the descriptor's 4096 bytes");
  assert_int_equal(bm_memcpy_s2d_partial_offset(handle, mem, data, 4096, 1), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2s_partial_offset(handle, data, mem, 1, UINT32_MAX), BM_ERR_PARAM);
  /* A descriptor that claims more than was allocated. */
  big = bm_mem_from_device(bm_mem_get_device_addr(mem), 8192);
  assert_int_equal(bm_memcpy_s2d(handle, big, data), BM_ERR_PARAM);
  assert_text(logged, "beyond the allocation");
  assert_int_equal(bm_memcpy_d2s(handle, data, bm_mem_from_system(data)), BM_ERR_PARAM);
  assert_text(logged, "not device memory");
  assert_int_equal(bm_memcpy_s2d_partial(handle, mem, NULL, 4), BM_ERR_PARAM);
  bm_free_device(handle, mem);
}

static void copies_within_the_device(void **state) {
  uint8_t data[4096], got[4096];
  bm_device_mem_t a = must_malloc(4096), b = must_malloc(4096);

  (void)state;
  fill_pattern(data, 4096, 2);
  OK(bm_memcpy_s2d(handle, a, data));
  /* Length in dwords, offsets in bytes. */
  OK(bm_memcpy_d2d(handle, b, 4, a, 8, 100));
  OK(bm_memcpy_d2s(handle, got, b));
  assert_bytes(got + 4, data + 8, 400);
  for (int i = 404; i < 4096; i++) assert_int_equal(got[i], 0);
  OK(bm_memcpy_d2d_byte(handle, b, 1, a, 3, 4093));
  OK(bm_memcpy_d2s(handle, got, b));
  assert_bytes(got + 1, data + 3, 4093);
  /* The same by a core, which the card must have. */
  OK(bm_memset_device(handle, 0, b));
  OK(bm_memcpy_d2d_with_core(handle, b, 4, a, 8, 100, 0));
  OK(bm_memcpy_d2d_byte_with_core(handle, b, 1001, a, 3, 77, 0));
  OK(bm_memcpy_d2d_stride_with_core(handle, bm_mem_from_device(bm_mem_get_device_addr(b) + 2000, 100), 1, a, 2, 50, 2,
                                    0));
  OK(bm_memcpy_d2s(handle, got, b));
  assert_bytes(got + 4, data + 8, 400);
  assert_bytes(got + 1001, data + 3, 77);
  for (int i = 0; i < 50; i++) assert_bytes(got + 2000 + 2 * i, data + 4 * i, 2);
  assert_int_equal(bm_memcpy_d2d_with_core(handle, b, 0, a, 0, 1, -1), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_byte_with_core(handle, b, 0, a, 0, 1, 1000), BM_ERR_PARAM);
  assert_text(npu_last_error(), "core 1000: expected 0 to ");
  assert_int_equal(bm_memcpy_d2d_stride_with_core(handle, b, 1, a, 1, 1, 1, 1000), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d(handle, b, 0, a, 0, 1025), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d(handle, b, -1, a, 0, 1), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_byte(handle, b, 4000, a, 0, 97), BM_ERR_PARAM);
  bm_free_device(handle, a);
  bm_free_device(handle, b);
}

static void filling(void **state) {
  uint8_t got[1200], value[4] = {1, 2, 3, 4};
  bm_device_mem_t mem = must_malloc(1200);
  bm_device_mem_t odd = bm_mem_from_device(bm_mem_get_device_addr(mem), 1199);

  (void)state;
  for (int mode = 1; mode <= 4; mode++) {
    OK(bm_memset_device_ext(handle, value, mode, mem));
    OK(bm_memcpy_d2s(handle, got, mem));
    for (int i = 0; i < 1200; i++) assert_int_equal(got[i], value[i % mode]);
  }
  OK(bm_memset_device(handle, 0x0a0b0c0d, mem));
  OK(bm_memcpy_d2s(handle, got, mem));
  for (int i = 0; i < 1200; i++) assert_int_equal(got[i], 0x0d - i % 4);
  assert_int_equal(bm_memset_device_ext(handle, value, 0, mem), BM_ERR_PARAM);
  assert_int_equal(bm_memset_device_ext(handle, value, 5, mem), BM_ERR_PARAM);
  assert_int_equal(bm_memset_device_ext(handle, NULL, 1, mem), BM_ERR_PARAM);
  assert_int_equal(bm_memset_device(handle, 0, odd), BM_ERR_PARAM);
  assert_text(logged, "not a multiple");
  bm_free_device(handle, mem);
}

static void mapping(void **state) {
  bm_device_mem_t mem = must_malloc(10000);
  bm_device_mem_t part = bm_mem_from_device(bm_mem_get_device_addr(mem) + 5000, 100);
  void *whole = NULL, *inside = NULL;
  unsigned long long address = 0;
  uint8_t data[100], got[100];

  (void)state;
  fill_pattern(data, 100, 6);
  OK(bm_mem_mmap_device_mem(handle, &mem, (uint64_t *)&whole)); /* as documentation writes it */
  OK(bm_mem_mmap_device_mem(handle, &part, &address));
  inside = (void *)(uintptr_t)address;
  assert_ptr_equal(inside, (uint8_t *)whole + 5000);
  memcpy(inside, data, 100);
  OK(bm_mem_flush_partial_device_mem(handle, &mem, 5000, 100));
  OK(bm_memcpy_d2s(handle, got, part));
  assert_bytes(got, data, 100);
  fill_pattern(data, 100, 7);
  OK(bm_memcpy_s2d(handle, part, data));
  OK(bm_mem_invalidate_device_mem(handle, &part));
  assert_bytes(inside, data, 100);
  OK(bm_mem_flush_device_mem(handle, &mem));
  OK(bm_mem_invalidate_partial_device_mem(handle, &mem, 1, 9999));
  assert_int_equal(bm_mem_invalidate_partial_device_mem(handle, &mem, 1, 10000), BM_ERR_PARAM);
  assert_int_equal(bm_mem_flush_partial_device_mem(handle, &mem, 10001, 0), BM_ERR_PARAM);
  assert_int_equal(bm_mem_flush_device_mem(handle, NULL), BM_ERR_PARAM);
  OK(bm_mem_unmap_device_mem(handle, whole, 10000));
  assert_bytes(inside, data, 100); /* the other mapping stays */
  OK(bm_mem_unmap_device_mem(handle, inside, 100));
  assert_int_equal(bm_mem_unmap_device_mem(handle, inside, 100), BM_ERR_PARAM);
  assert_text(logged, "no mapping of device memory");
  assert_int_equal(bm_mem_mmap_device_mem(handle, NULL, &address), BM_ERR_PARAM);
  bm_free_device(handle, mem);
}

static void memory_can_be_freed_while_it_is_mapped(void **state) {
  bm_device_mem_t mem = must_malloc(4096);
  unsigned long long address = 0;

  (void)state;
  OK(bm_mem_mmap_device_mem(handle, &mem, &address));
  bm_free_device(handle, mem);
  memset((void *)(uintptr_t)address, 1, 4096);
  OK(bm_mem_flush_device_mem(handle, &mem)); /* the mapping keeps the memory */
  OK(bm_mem_unmap_device_mem(handle, (void *)(uintptr_t)address, 4096));
}

static void facts(void **state) {
  bm_dev_stat_t stat;
  struct bm_misc_info misc;
  unsigned int chip = 0;

  (void)state;
  bm_device_mem_t mem = must_malloc(4 << 20);
  OK(bm_get_stat(handle, &stat));
  assert_true(stat.mem_total > 0 && stat.mem_used >= 4 && stat.mem_used <= stat.mem_total);
  assert_in_range(stat.tpu_util, 0, 100);
  assert_int_equal(stat.heap_num, 1);
  assert_int_equal(stat.heap_stat[0].mem_total, stat.mem_total);
  assert_true(stat.heap_stat[0].mem_avail + stat.heap_stat[0].mem_used <= stat.heap_stat[0].mem_total);
  OK(bm_get_chipid(handle, &chip));
  assert_int_equal(chip, NPU_CHIP_ID);
  OK(bm_get_misc_info(handle, &misc));
  assert_int_equal(misc.chipid, NPU_CHIP_ID);
  npu_device *device = must_open();
  assert_int_equal(misc.pcie_soc_mode, !has_own_memory(device));
  npu_device_close(device);
  assert_true(misc.ddr0a_size >> 20 >= stat.mem_total);
  assert_true(misc.driver_version >= 1 << 16);
  assert_int_equal(bm_get_stat(handle, NULL), BM_ERR_PARAM);
  assert_int_equal(bm_get_misc_info(handle, NULL), BM_ERR_PARAM);
  assert_int_equal(bm_get_chipid(handle, NULL), BM_ERR_PARAM);
  bm_free_device(handle, mem);
}

static void the_log_has_a_level(void **state) {
  const int before = bmlib_log_get_level();

  (void)state;
  assert_int_equal(before, BMLIB_LOG_ERROR);
  bmlib_log("bmlib", BMLIB_LOG_ERROR, "number %d\n", 5);
  assert_string_equal(logged, "number 5\n");
  bmlib_log_set_level(BMLIB_LOG_QUIET);
  bmlib_log("bmlib", BMLIB_LOG_PANIC, "number %d\n", 6);
  assert_string_equal(logged, "number 5\n");
  bmlib_log_set_level(before);
}

int bm_memory_tests(void) {
#define BM_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      BM_TEST(devices_are_counted),
      BM_TEST(handles_are_independent),
      BM_TEST(a_stale_or_foreign_handle_is_refused_everywhere),
      BM_TEST(descriptors_are_plain_values),
      BM_TEST(memory_is_zero_and_has_the_wanted_size),
      BM_TEST(heaps_are_the_same_memory),
      BM_TEST(exhausted_memory_says_how_much_there_is),
      BM_TEST(freeing_goes_by_address),
      BM_TEST(the_last_handle_frees_what_is_left),
      BM_TEST(copies_in_and_out),
      BM_TEST(copies_beyond_the_memory_are_refused),
      BM_TEST(copies_within_the_device),
      BM_TEST(filling),
      BM_TEST(mapping),
      BM_TEST(memory_can_be_freed_while_it_is_mapped),
      BM_TEST(facts),
      BM_TEST(the_log_has_a_level),
  };
  return cmocka_run_group_tests_name("bm_memory", tests, NULL, NULL);
}
