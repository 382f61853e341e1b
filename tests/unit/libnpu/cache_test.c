/* SPDX-License-Identifier: MIT */
/*
 * The cache between the program and the chip. Everywhere: programs that flush and invalidate see what they should. With
 * NPU_CACHE=strict also: what a program forgets is reported, and changes no result.
 */
#include <bmlib_runtime.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/libnpu/groups.h"

enum { BYTES = 8192 };

static npu_device *device;
static npu_context *context;
static npu_bo *src, *dst;
static uint8_t *in, *out; /* their mappings */
static struct program p;

static char told[4096];
static void keep(void *arg, int level, const char *text) {
  (void)arg;
  if (level != NPU_LOG_WARNING) return;
  const size_t length = strlen(told);
  snprintf(told + length, sizeof(told) - length, "%s\n", text);
}

static int set_up(void **state) {
  (void)state;
  npu_set_log(NPU_LOG_WARNING, keep, NULL);
  device = must_open();
  context = must_context(device);
  src = must_create(device, BYTES, DRM_NPU_BO_SYSTEM);
  dst = must_create(device, BYTES, DRM_NPU_BO_CARD);
  MUST(npu_bo_map(src, (void **)&in));
  MUST(npu_bo_map(dst, (void **)&out));
  program_init(&p, device);
  *told = 0;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  program_free(&p);
  npu_bo_unmap(src);
  npu_bo_unmap(dst);
  npu_bo_unref(src);
  npu_bo_unref(dst);
  npu_context_destroy(context);
  npu_device_close(device);
  npu_set_log(NPU_LOG_OFF, NULL, NULL);
  return 0;
}

static void run(void) {
  uint64_t seqno;

  MUST(submit_program(context, &p, dst, src, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
}

static void flush(npu_bo *bo, uint64_t offset, uint64_t size) {
  MUST(npu_bo_sync(bo, offset, size, DRM_NPU_SYNC_TO_DEVICE));
}

static void invalidate(npu_bo *bo, uint64_t offset, uint64_t size) {
  MUST(npu_bo_sync(bo, offset, size, DRM_NPU_SYNC_FROM_DEVICE));
}

/* ---- everywhere ---- */

static void flush_before_and_invalidate_after(void **state) {
  (void)state;
  fill_pattern(in, BYTES, 1);
  flush(src, 0, BYTES);
  program_copy(&p, 0, 0, BYTES);
  run();
  invalidate(dst, 0, BYTES);
  assert_bytes(out, in, BYTES);
  assert_string_equal(told, "");
}

static void ranges_of_any_alignment(void **state) {
  uint8_t expected[BYTES] = {0};

  (void)state;
  fill_pattern(in + 13, 999, 2);
  flush(src, 13, 999);
  program_copy(&p, 77, 13, 999);
  run();
  invalidate(dst, 77, 999);
  memcpy(expected + 77, in + 13, 999);
  assert_bytes(out, expected, BYTES);
  assert_string_equal(told, "");
}

static void flushing_what_the_chip_wrote_harms_nothing(void **state) {
  (void)state;
  fill_pattern(in, BYTES, 3);
  flush(src, 0, BYTES);
  program_copy(&p, 0, 0, BYTES);
  run();
  flush(dst, 0, BYTES); /* the program wrote nothing there */
  invalidate(dst, 0, BYTES);
  assert_bytes(out, in, BYTES);
  assert_string_equal(told, "");
}

static void bmlib_copies_go_past_the_cache(void **state) {
  bm_handle_t handle = NULL;
  bm_device_mem_t mem;
  unsigned long long cached = 0, uncached = 0;
  uint8_t data[100], got[100];

  (void)state;
  fill_pattern(data, sizeof(data), 4);
  assert_int_equal(bm_dev_request(&handle, 0), BM_SUCCESS);
  assert_int_equal(bm_malloc_device_byte(handle, &mem, 4096), BM_SUCCESS);
  assert_int_equal(bm_mem_mmap_device_mem(handle, &mem, &cached), BM_SUCCESS);
  assert_int_equal(bm_mem_mmap_device_mem_no_cache(handle, &mem, &uncached), BM_SUCCESS);
  assert_int_equal(bm_memcpy_s2d_partial_offset(handle, mem, data, 100, 50), BM_SUCCESS);
  assert_bytes((uint8_t *)(uintptr_t)uncached + 50, data, 100);
  assert_int_equal(bm_mem_invalidate_partial_device_mem(handle, &mem, 50, 100), BM_SUCCESS);
  assert_bytes((uint8_t *)(uintptr_t)cached + 50, data, 100);
  fill_pattern((uint8_t *)(uintptr_t)uncached + 1000, 100, 5);
  assert_int_equal(bm_memcpy_d2s_partial_offset(handle, got, mem, 100, 1000), BM_SUCCESS);
  assert_bytes(got, (uint8_t *)(uintptr_t)uncached + 1000, 100);
  assert_int_equal(bm_mem_invalidate_device_mem(handle, &mem), BM_SUCCESS);
  assert_bytes((uint8_t *)(uintptr_t)cached + 1000, got, 100);
  assert_int_equal(bm_mem_unmap_device_mem(handle, (void *)(uintptr_t)cached, 4096), BM_SUCCESS);
  assert_int_equal(bm_mem_unmap_device_mem(handle, (void *)(uintptr_t)uncached, 4096), BM_SUCCESS);
  bm_free_device(handle, mem);
  bm_dev_free(handle);
  assert_string_equal(told, "");
}

/* A store of the value that the mapping has already is a store. */
static void writing_the_same_bytes_again_counts(void **state) {
  static const uint8_t zero[64];
  uint8_t ff[64], got[64];

  (void)state;
  memset(ff, 0xff, sizeof(ff));
  for (int by_job = 0; by_job < 2; by_job++) {
    if (by_job) {
      MUST(npu_write(src, 0, ff, 64));
      program_copy(&p, 0, 0, 64);
      run();
      MUST(npu_write(src, 0, zero, 64));
    } else {
      MUST(npu_write(dst, 0, ff, 64));
    }
    /* One frame after the other, without a look at what the chip made of it. */
    memset(out, 0, 64);
    flush(dst, 0, 64);
    MUST(npu_read(dst, 0, got, 64));
    assert_bytes(got, zero, 64);
  }
  invalidate(src, 0, BYTES);
  assert_string_equal(told, "");
}

/* The program may use what the job does not, although the job might. */
static void stores_beside_a_running_job_are_kept(void **state) {
  uint8_t got[BYTES];
  uint64_t seqno;

  (void)state;
  fill_pattern(in, BYTES, 8);
  flush(src, 0, BYTES);
  for (int i = 0; i < 500; i++) program_copy(&p, 0, 0, BYTES / 2);
  MUST(submit_program(context, &p, dst, src, &seqno));
  fill_pattern(out + BYTES / 2, BYTES / 2, 9);
  flush(dst, BYTES / 2, BYTES / 2);
  assert_int_equal(must_wait(context, seqno).error, 0);
  invalidate(dst, 0, BYTES / 2);
  MUST(npu_read(dst, 0, got, BYTES));
  assert_bytes(got, out, BYTES);
  assert_bytes(got, in, BYTES / 2);
  assert_string_equal(told, "");
}

/* ---- strict ---- */

static void a_forgotten_flush_is_reported(void **state) {
  char expected[200];

  (void)state;
  fill_pattern(in + 4096, 64, 6);
  in[4096] = 1; /* not the 0 that is there already */
  in[4097] = 1;
  flush(src, 4098, BYTES - 4098); /* all but two bytes */
  program_copy(&p, 0, 0, 64);
  program_copy(&p, 64, 4096, 64);
  run();
  invalidate(dst, 0, BYTES);
  assert_bytes(out + 64, in + 4096, 64); /* as without NPU_CACHE=strict */
  snprintf(expected, sizeof(expected),
           "reads region 2 (GDMA command 1), buffer at %#llx of 8192 bytes, but 2 bytes from offset 0x1000 on were "
           "written by the program and not flushed",
           (unsigned long long)npu_bo_address(src));
  assert_text(told, expected);
  /* Flushed at last, it is right. */
  *told = 0;
  flush(src, 0, BYTES);
  run();
  invalidate(dst, 0, BYTES);
  assert_bytes(out + 64, in + 4096, 64);
  assert_string_equal(told, "");
}

static void forgotten_commands_are_reported(void **state) {
  struct npu_job_region regions[] = {{p.bo, 0, npu_bo_size(p.bo), DRM_NPU_REGION_READ, 0},
                                     {dst, 0, BYTES, DRM_NPU_REGION_WRITE, 0},
                                     {src, 0, BYTES, DRM_NPU_REGION_READ, 0}};
  struct drm_npu_stream stream = {.gdma_count = 1};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 3, .stream_count = 1};
  uint64_t seqno;

  (void)state;
  program_copy(&p, 0, 0, 64);
  MUST(npu_submit(context, &job, 1, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  assert_text(told, "reads region 0 (commands), buffer at ");
  flush(p.bo, 0, npu_bo_size(p.bo));
}

/* The runtime's are: nobody can look at them but the card. */
static void a_forgotten_flush_is_found_in_sealed_commands(void **state) {
  (void)state;
  in[100] = 1;
  program_copy(&p, 0, 0, 64);
  program_copy(&p, 64, 64, 64);
  program_flush(&p);
  MUST(npu_bo_seal(p.bo));
  run();
  assert_text(told, "reads region 2 (GDMA command 1), buffer at ");
  assert_text(told, "but 1 byte from offset 0x64 on were written by the program and not flushed");
  flush(src, 0, BYTES);
}

static void a_forgotten_invalidation_is_reported(void **state) {
  char expected[200];
  uint64_t seqno;

  (void)state;
  fill_pattern(in, BYTES, 7);
  memset(in, 9, 100);
  flush(src, 0, BYTES);
  program_copy(&p, 200, 0, 100);
  MUST(submit_program(context, &p, dst, src, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  assert_bytes(out + 200, in, 100); /* as without NPU_CACHE=strict */
  npu_bo_unmap(dst);
  snprintf(expected, sizeof(expected),
           "the mapping of buffer at %#llx of 8192 bytes ends, and 100 bytes from offset 0xc8 on were written by job "
           "%llu of context ",
           (unsigned long long)npu_bo_address(dst), (unsigned long long)seqno);
  assert_text(told, expected);
  assert_text(told, "never invalidated");
  /* A new mapping begins with what is there. */
  *told = 0;
  MUST(npu_bo_map(dst, (void **)&out));
  assert_bytes(out + 200, in, 100);
}

static void a_flush_in_place_of_an_invalidation_is_reported(void **state) {
  (void)state;
  memset(in, 9, 100);
  flush(src, 0, BYTES);
  program_copy(&p, 200, 0, 100);
  run();
  flush(dst, 0, BYTES);
  npu_bo_unmap(dst);
  assert_text(told, "100 bytes from offset 0xc8 on were written by job ");
  assert_text(told, "never invalidated");
  /* With a store of its own the program may have overwritten all of them. */
  *told = 0;
  MUST(npu_bo_map(dst, (void **)&out));
  memset(in, 7, 100);
  flush(src, 0, BYTES);
  run();
  out[250] = 8;
  flush(dst, 0, BYTES);
  npu_bo_unmap(dst);
  assert_string_equal(told, "");
  MUST(npu_bo_map(dst, (void **)&out));
}

static void an_invalidation_of_unflushed_bytes_is_reported(void **state) {
  (void)state;
  memset(in + 500, 5, 10);
  invalidate(src, 505, BYTES - 505);
  assert_int_equal(in[504], 5);
  assert_int_equal(in[505], 5);
  assert_text(told, "discards 5 bytes from offset 0x1f9 on, written by the program and not flushed");
  flush(src, 0, BYTES);
}

static void a_mapping_that_ends_with_unflushed_bytes_is_reported(void **state) {
  (void)state;
  in[3] = 3;
  npu_bo_unmap(src);
  assert_text(told, "1 byte from offset 0x3 on were written by the program and never flushed");
  MUST(npu_bo_map(src, (void **)&in));
  assert_int_equal(in[3], 3);
}

static void a_buffer_sealed_with_unflushed_bytes_is_reported(void **state) {
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  uint8_t *ptr, got[4];

  (void)state;
  MUST(npu_bo_map(bo, (void **)&ptr));
  memcpy(ptr, "abcd", 4);
  MUST(npu_bo_sync(bo, 0, 2, DRM_NPU_SYNC_TO_DEVICE));
  MUST(npu_bo_seal(bo));
  assert_text(told, "2 bytes from offset 0x2 on were written by the program and never flushed");
  npu_bo_unmap(bo);
  MUST(npu_read(bo, 0, got, 4));
  assert_memory_equal(got, "abcd", 4);
  npu_bo_unref(bo);
}

/* Invalidated too early: what the job writes afterwards is not. The last copy comes after 500 long ones. */
static void an_invalidation_before_the_end_is_reported(void **state) {
  bool early = false;
  uint64_t seqno;

  (void)state;
  for (int i = 0; i < 500; i++) program_copy(&p, 0, 4096, 4096);
  program_copy(&p, 4096, 0, 10);
  for (int value = 1; value < 100 && !early; value++) {
    memset(in, value, BYTES);
    flush(src, 0, BYTES);
    MUST(submit_program(context, &p, dst, src, &seqno));
    invalidate(dst, 0, BYTES);
    early = out[4096] != value; /* the chip may have been too fast */
    assert_int_equal(must_wait(context, seqno).error, 0);
  }
  assert_true(early);
  npu_bo_unmap(dst);
  assert_text(told, "were written by job ");
  MUST(npu_bo_map(dst, (void **)&out));
}

int child_forgets_a_flush(void) {
  npu_device *opened;
  npu_bo *bo;
  uint8_t *ptr;

  if (npu_device_open(0, &opened) || npu_bo_create(opened, BYTES, DRM_NPU_BO_SYSTEM, &bo) ||
      npu_bo_map(bo, (void **)&ptr))
    return 1;
  ptr[5] = 1;
  npu_bo_unmap(bo);
  return 2;
}

int cache_tests(void) {
#define CACHE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CACHE_TEST(flush_before_and_invalidate_after),          CACHE_TEST(ranges_of_any_alignment),
      CACHE_TEST(flushing_what_the_chip_wrote_harms_nothing), CACHE_TEST(bmlib_copies_go_past_the_cache),
      CACHE_TEST(writing_the_same_bytes_again_counts),        CACHE_TEST(stores_beside_a_running_job_are_kept),
  };
  const struct CMUnitTest strict_tests[] = {
      CACHE_TEST(a_forgotten_flush_is_reported),
      CACHE_TEST(forgotten_commands_are_reported),
      CACHE_TEST(a_forgotten_flush_is_found_in_sealed_commands),
      CACHE_TEST(a_forgotten_invalidation_is_reported),
      CACHE_TEST(a_flush_in_place_of_an_invalidation_is_reported),
      CACHE_TEST(an_invalidation_of_unflushed_bytes_is_reported),
      CACHE_TEST(an_invalidation_before_the_end_is_reported),
      CACHE_TEST(a_mapping_that_ends_with_unflushed_bytes_is_reported),
      CACHE_TEST(a_buffer_sealed_with_unflushed_bytes_is_reported),
  };
  const char *cache = getenv("NPU_CACHE");
  const bool strict = cache && !strcmp(cache, "strict");
  int failed = cmocka_run_group_tests_name("cache", tests, NULL, NULL);

  if (strict) failed += cmocka_run_group_tests_name("cache strict", strict_tests, NULL, NULL);
  return failed + cache_random_tests(strict);
}
