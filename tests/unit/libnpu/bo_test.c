/* SPDX-License-Identifier: MIT */
/* Buffers: contents, addresses, mappings, sealing, exhaustion. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

static npu_device *device;

static int open_device(void **state) {
  (void)state;
  device = must_open();
  return 0;
}

static int close_device(void **state) {
  (void)state;
  npu_device_close(device);
  return 0;
}

static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};

static void assert_zero(npu_bo *bo) {
  const size_t size = npu_bo_size(bo);
  uint8_t *got = must_alloc(size), *zero = calloc(1, size);

  MUST(npu_read(bo, 0, got, size));
  assert_bytes(got, zero, size);
  free(got);
  free(zero);
}

static void new_memory_is_zero_also_when_it_was_used_before(void **state) {
  static const size_t sizes[] = {1, 4096, 70000, 3 << 20};

  (void)state;
  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
      for (int round = 0; round < 3; round++) {
        npu_bo *bo = must_create(device, sizes[i], kinds[k]);
        assert_zero(bo);
        MUST(npu_fill(bo, 0, npu_bo_size(bo), 0xa5, 1));
        npu_bo_unref(bo);
      }
    }
  }
}

static void sizes_are_whole_pages_and_addresses_are_fixed(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  MUST(npu_device_info(device, &info));
  for (int k = 0; k < 2; k++) {
    npu_bo *bo = must_create(device, 4097, kinds[k]);
    const uint64_t va = npu_bo_address(bo);

    assert_int_equal(npu_bo_size(bo), 8192);
    assert_int_equal(npu_bo_flags(bo), has_own_memory(device) ? kinds[k] : DRM_NPU_BO_SYSTEM);
    assert_ptr_equal(npu_bo_device(bo), device);
    assert_true(va >= info.va_start && va + 8192 <= info.va_end && va % 4096 == 0);
    npu_bo_unref(bo);
  }
}

static void buffers_do_not_overlap(void **state) {
  enum { COUNT = 64 };
  npu_bo *bos[COUNT];

  (void)state;
  for (int i = 0; i < COUNT; i++) bos[i] = must_create(device, 4096 + 4096 * (i % 7), kinds[i % 2]);
  for (int i = 0; i < COUNT; i++) {
    for (int j = 0; j < i; j++) {
      const uint64_t a = npu_bo_address(bos[i]), b = npu_bo_address(bos[j]);
      assert_true(a + npu_bo_size(bos[i]) <= b || b + npu_bo_size(bos[j]) <= a);
    }
  }
  for (int i = 0; i < COUNT; i++) npu_bo_unref(bos[i]);
}

static void bad_requests_are_refused(void **state) {
  npu_bo *bo = (npu_bo *)1;

  (void)state;
  MUST_FAIL(npu_bo_create(device, 0, DRM_NPU_BO_CARD, &bo), EINVAL, "at least 1 byte");
  assert_null(bo);
  MUST_FAIL(npu_bo_create(device, 1, 0, &bo), EINVAL, "exactly one of");
  MUST_FAIL(npu_bo_create(device, 1, DRM_NPU_BO_CARD | DRM_NPU_BO_SYSTEM, &bo), EINVAL, "exactly one of");
  MUST_FAIL(npu_bo_create(device, 1, 0x80, &bo), EINVAL, "flags 0x80");
  if (has_own_memory(device)) MUST_FAIL(npu_bo_create(device, UINT64_MAX, DRM_NPU_BO_CARD, &bo), ENOSPC, "requested");
  MUST_FAIL(npu_bo_create(device, UINT64_MAX, DRM_NPU_BO_SYSTEM, &bo), ENOMEM, "not enough system memory");
  MUST_FAIL(npu_bo_create(device, 1, DRM_NPU_BO_CARD, NULL), EINVAL, "no place");
}

static void an_address_leads_to_its_buffer(void **state) {
  npu_bo *bo = must_create(device, 8192, DRM_NPU_BO_CARD), *found = NULL;
  const uint64_t va = npu_bo_address(bo);
  uint64_t offset = 0;

  (void)state;
  MUST(npu_bo_find(device, va + 8191, &found, &offset));
  assert_ptr_equal(found, bo);
  assert_int_equal(offset, 8191);
  npu_bo_unref(found);
  MUST_FAIL(npu_bo_find(device, va + 8192, &found, &offset), ENOENT, "belongs to no buffer");
  assert_null(found);
  MUST_FAIL(npu_bo_find(device, 0, &found, NULL), ENOENT, "belongs to no buffer");
  npu_bo_unref(bo);
  MUST_FAIL(npu_bo_find(device, va, &found, NULL), ENOENT, "belongs to no buffer");
}

static void mappings_are_counted(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    npu_bo *bo = must_create(device, 20000, kinds[k]);
    void *a = NULL, *b = NULL;
    uint8_t got[4];

    MUST(npu_bo_map(bo, &a));
    MUST(npu_bo_map(bo, &b));
    assert_ptr_equal(a, b);
    memcpy((uint8_t *)a + 19000, "abc", 4);
    npu_bo_unmap(bo);
    assert_string_equal((char *)b + 19000, "abc");
    MUST(npu_bo_sync(bo, 19000, 4, DRM_NPU_SYNC_TO_DEVICE));
    MUST(npu_read(bo, 19000, got, 4));
    assert_bytes(got, "abc", 4);
    npu_bo_unmap(bo);
    npu_bo_unmap(bo); /* one too many does no harm */
    npu_bo_unref(bo);
  }
}

static void cache_maintenance_checks_its_range(void **state) {
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_SYSTEM);

  (void)state;
  MUST(npu_bo_sync(bo, 0, 4096, DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE));
  MUST(npu_bo_sync(bo, 4096, 0, DRM_NPU_SYNC_FROM_DEVICE));
  MUST_FAIL(npu_bo_sync(bo, 1, 4096, DRM_NPU_SYNC_TO_DEVICE), EINVAL, "beyond the buffer");
  MUST_FAIL(npu_bo_sync(bo, UINT64_MAX, 2, DRM_NPU_SYNC_TO_DEVICE), EINVAL, "beyond the buffer");
  MUST_FAIL(npu_bo_sync(bo, 0, 1, 0), EINVAL, "direction");
  MUST_FAIL(npu_bo_sync(bo, 0, 1, 4), EINVAL, "direction");
  npu_bo_unref(bo);
}

static sigjmp_buf bus_error;
static void on_bus_error(int signal) {
  (void)signal;
  siglongjmp(bus_error, 1);
}

/* True: reading that byte is SIGBUS. */
static bool is_bus_error(const volatile uint8_t *byte) {
  struct sigaction action = {.sa_handler = on_bus_error}, old;
  bool hit = true;

  sigaction(SIGBUS, &action, &old);
  if (!sigsetjmp(bus_error, 1)) {
    (void)*byte;
    hit = false;
  }
  sigaction(SIGBUS, &old, NULL);
  return hit;
}

static void a_sealed_buffer_is_constant(void **state) {
  npu_bo *bo = must_create(device, 5 * MIB, DRM_NPU_BO_CARD);
  uint8_t *data = must_alloc(5 * MIB), *got = must_alloc(5 * MIB);
  void *ptr = NULL, *again = NULL;

  (void)state;
  fill_pattern(data, 5 * MIB, 3);
  MUST(npu_write(bo, 0, data, 5 * MIB));
  MUST(npu_bo_map(bo, &ptr));
  assert_false(is_bus_error(ptr));
  MUST(npu_bo_seal(bo));
  MUST(npu_bo_seal(bo)); /* twice is no error */
  assert_true(is_bus_error(ptr));
  MUST_FAIL(npu_bo_map(bo, &again), EACCES, "sealed");
  MUST_FAIL(npu_write(bo, 0, data, 4), EACCES, "sealed");
  MUST_FAIL(npu_write(bo, 0, data, 5 * MIB), EACCES, "sealed");
  MUST_FAIL(npu_fill(bo, 0, 4, 0, 1), EACCES, "sealed");
  MUST_FAIL(npu_copy(bo, 0, bo, 4096, 10), EACCES, "sealed");
  /* Only the card's DMA reaches it now. */
  MUST(npu_read(bo, 0, got, 5 * MIB));
  assert_bytes(got, data, 5 * MIB);
  MUST(npu_read(bo, 12345, got, 7));
  assert_bytes(got, data + 12345, 7);
  npu_bo_unmap(bo);
  npu_bo_unref(bo);
  free(data);
  free(got);
}

static void jobs_cannot_write_a_sealed_buffer(void **state) {
  npu_context *context = must_context(device);
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD), *src = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct program p;
  uint64_t seqno;

  (void)state;
  program_init(&p, device);
  program_copy(&p, 0, 0, 64);
  MUST(npu_bo_seal(bo));
  MUST_FAIL(submit_program(context, &p, bo, src, &seqno), EACCES, "sealed");
  /* Reading it is what it is for. */
  MUST(submit_program(context, &p, src, bo, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  program_free(&p);
  npu_bo_unref(bo);
  npu_bo_unref(src);
  npu_context_destroy(context);
}

static void sealing_waits_for_nobody_who_writes(void **state) {
  npu_context *context = must_context(device);
  npu_bo *bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  struct program p;
  uint64_t seqno = 0;
  int ret = 0;

  (void)state;
  program_init(&p, device);
  program_long(&p, 4 * MIB);
  submit_long_job(context, &p, bo, &seqno);
  ret = npu_bo_seal(bo);
  assert_int_equal(ret, -EBUSY);
  assert_text(npu_last_error(), "a job that writes the buffer is unfinished");
  MUST_FAIL(npu_bo_wait(bo, 0), ETIME, "unfinished jobs");
  npu_context_destroy(context); /* aborts it */
  MUST(npu_bo_wait(bo, LONG_TIME));
  MUST(npu_bo_seal(bo));
  program_free(&p);
  npu_bo_unref(bo);
}

static void exhausted_system_memory(void) {
  npu_bo *bo = must_create(device, MIB, DRM_NPU_BO_CARD), *one_more = NULL;

  MUST_FAIL(npu_bo_create(device, 1ull << 39, DRM_NPU_BO_CARD, &one_more), ENOMEM, "for a buffer of 512 GiB");
  assert_null(one_more);
  assert_text(npu_last_error(), "this process' system buffers hold ");
  npu_bo_unref(bo);
}

static void exhausted_memory_says_how_much_there_is(void **state) {
  struct drm_npu_memory_info info;
  npu_bo *bos[16] = {0}, *one_more = NULL;
  int count = 0;
  uint64_t piece;

  (void)state;
  if (!has_own_memory(device)) {
    exhausted_system_memory();
    return;
  }
  MUST(npu_device_memory(device, &info));
  MUST_FAIL(npu_bo_create(device, info.card_total + 4096, DRM_NPU_BO_CARD, &one_more), ENOSPC, "requested");
  piece = (info.card_total / 8) & ~(2 * MIB - 1);
  if (!piece) piece = 4096;
  while (count < 16 && !npu_bo_create(device, piece, DRM_NPU_BO_CARD, &bos[count])) count++;
  assert_in_range(count, 4, 15);
  MUST_FAIL(npu_bo_create(device, piece, DRM_NPU_BO_CARD, &one_more), ENOSPC, "out of memory");
  assert_null(one_more);
  assert_text(npu_last_error(), "requested ");
  assert_text(npu_last_error(), "free ");
  assert_text(npu_last_error(), "largest free block ");
  assert_text(npu_last_error(), "this process holds ");
  for (int i = 0; i < count; i++) npu_bo_unref(bos[i]);
  /* All is usable afterwards. */
  npu_bo *bo = must_create(device, piece, DRM_NPU_BO_CARD);
  npu_bo_unref(bo);
}

static void a_job_keeps_its_buffers(void **state) {
  npu_context *context = must_context(device);
  npu_bo *src = must_create(device, 4096, DRM_NPU_BO_CARD), *dst = must_create(device, 4096, DRM_NPU_BO_CARD);
  npu_bo *slow = must_create(device, 2 * MIB, DRM_NPU_BO_CARD);
  struct program p, busy;
  uint64_t seqno;

  (void)state;
  program_init(&busy, device);
  program_long(&busy, MIB / 16);
  submit_long_job(context, &busy, slow, &seqno);
  program_init(&p, device);
  program_copy(&p, 0, 0, 4096);
  MUST(submit_program(context, &p, dst, src, &seqno));
  npu_bo_unref(src);
  npu_bo_unref(dst);
  program_free(&p);
  assert_int_equal(must_wait(context, seqno).error, 0);
  program_free(&busy);
  npu_bo_unref(slow);
  npu_context_destroy(context);
}

int bo_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(new_memory_is_zero_also_when_it_was_used_before),
      cmocka_unit_test(sizes_are_whole_pages_and_addresses_are_fixed),
      cmocka_unit_test(buffers_do_not_overlap),
      cmocka_unit_test(bad_requests_are_refused),
      cmocka_unit_test(an_address_leads_to_its_buffer),
      cmocka_unit_test(mappings_are_counted),
      cmocka_unit_test(cache_maintenance_checks_its_range),
      cmocka_unit_test(a_sealed_buffer_is_constant),
      cmocka_unit_test(jobs_cannot_write_a_sealed_buffer),
      cmocka_unit_test(sealing_waits_for_nobody_who_writes),
      cmocka_unit_test(exhausted_memory_says_how_much_there_is),
      cmocka_unit_test(a_job_keeps_its_buffers),
  };
  return cmocka_run_group_tests_name("bo", tests, open_device, close_device);
}
