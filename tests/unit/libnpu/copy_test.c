/* SPDX-License-Identifier: MIT */
/* Copies of all sizes and alignments against memcpy on a shadow in the process. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const size_t sizes[] = {
    0, 1, 3, 64, 4095, 4097, 65536 + 1, 256 * 1024 - 1, 256 * 1024, 1 << 20, (1 << 20) + 7, (3 << 20) + 12345};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), TOTAL = 4 << 20 };
static const size_t offsets[] = {0, 1, 63, 4096, 70001};
enum { OFFSETS = sizeof(offsets) / sizeof(offsets[0]) };

static void what_is_written_is_read(void **state) {
  static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};
  uint8_t *shadow = calloc(1, TOTAL), *data = must_alloc(TOTAL), *got = must_alloc(TOTAL);

  (void)state;
  for (int k = 0; k < 2; k++) {
    npu_bo *bo = must_create(device, TOTAL, kinds[k]);
    memset(shadow, 0, TOTAL);
    for (int s = 0; s < SIZES; s++) {
      for (int o = 0; o < OFFSETS; o++) {
        fill_pattern(data, sizes[s], (unsigned int)(s * 10 + o + k));
        MUST(npu_write(bo, offsets[o], data, sizes[s]));
        memcpy(shadow + offsets[o], data, sizes[s]);
        memset(got, 0x55, sizes[s]);
        MUST(npu_read(bo, offsets[o], got, sizes[s]));
        assert_bytes(got, data, sizes[s]);
      }
    }
    /* Nothing else was touched. */
    MUST(npu_read(bo, 0, got, TOTAL));
    assert_bytes(got, shadow, TOTAL);
    npu_bo_unref(bo);
  }
  free(shadow);
  free(data);
  free(got);
}

static void copies_between_buffers(void **state) {
  npu_bo *bos[3] = {must_create(device, TOTAL, DRM_NPU_BO_CARD), must_create(device, TOTAL, DRM_NPU_BO_CARD),
                    must_create(device, TOTAL, DRM_NPU_BO_SYSTEM)};
  uint8_t *data = must_alloc(TOTAL), *got = must_alloc(TOTAL);

  (void)state;
  fill_pattern(data, TOTAL, 1);
  MUST(npu_write(bos[0], 0, data, TOTAL));
  for (int s = 0; s < SIZES; s++) {
    MUST(npu_copy(bos[1], 5, bos[0], 1001, sizes[s]));
    MUST(npu_copy(bos[2], 11, bos[1], 5, sizes[s]));
    MUST(npu_read(bos[2], 11, got, sizes[s]));
    assert_bytes(got, data + 1001, sizes[s]);
  }
  for (int i = 0; i < 3; i++) npu_bo_unref(bos[i]);
  free(data);
  free(got);
}

static void overlapping_copies_are_like_memmove(void **state) {
  static const struct {
    size_t to, from, size;
  } cases[] = {{0, 1, 100},      {1, 0, 100},           {0, 4096, 3 << 20},   {4096, 0, 3 << 20},
               {100, 100, 1000}, {7, 0, (1 << 20) + 5}, {2 << 20, 0, 2 << 20}};
  npu_bo *bo = must_create(device, TOTAL, DRM_NPU_BO_CARD);
  uint8_t *shadow = must_alloc(TOTAL), *got = must_alloc(TOTAL);

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    fill_pattern(shadow, TOTAL, (unsigned int)i);
    MUST(npu_write(bo, 0, shadow, TOTAL));
    MUST(npu_copy(bo, cases[i].to, bo, cases[i].from, cases[i].size));
    memmove(shadow + cases[i].to, shadow + cases[i].from, cases[i].size);
    MUST(npu_read(bo, 0, got, TOTAL));
    assert_bytes(got, shadow, TOTAL);
  }
  npu_bo_unref(bo);
  free(shadow);
  free(got);
}

static void fills_of_every_width(void **state) {
  static const unsigned int widths[] = {1, 2, 4, 8};
  const uint64_t value = 0x8877665544332211ull;
  npu_bo *bo = must_create(device, TOTAL, DRM_NPU_BO_CARD);
  uint8_t *shadow = calloc(1, TOTAL), *got = must_alloc(TOTAL);

  (void)state;
  for (int w = 0; w < 4; w++) {
    static const size_t counts[] = {0, 1, 100, 200000};
    for (int c = 0; c < 4; c++) {
      const size_t offset = 3 + 5 * (size_t)c, size = counts[c] * widths[w];
      MUST(npu_fill(bo, offset, size, value, widths[w]));
      for (size_t i = 0; i < counts[c]; i++) memcpy(shadow + offset + i * widths[w], &value, widths[w]);
      MUST(npu_read(bo, 0, got, TOTAL));
      assert_bytes(got, shadow, TOTAL);
    }
  }
  MUST_FAIL(npu_fill(bo, 0, 6, 0, 3), EINVAL, "expected 1, 2, 4 or 8");
  MUST_FAIL(npu_fill(bo, 0, 6, 0, 4), EINVAL, "not a multiple");
  npu_bo_unref(bo);
  free(shadow);
  free(got);
}

static void ranges_are_checked(void **state) {
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD), *other = must_create(device, 4096, DRM_NPU_BO_CARD);
  uint8_t byte = 0;

  (void)state;
  MUST_FAIL(npu_write(bo, 4096, &byte, 1), EINVAL, "beyond the buffer");
  MUST_FAIL(npu_read(bo, UINT64_MAX, &byte, 2), EINVAL, "beyond the buffer");
  MUST_FAIL(npu_read(bo, 0, &byte, UINT64_MAX), EINVAL, "beyond the buffer");
  MUST_FAIL(npu_copy(bo, 1, other, 0, 4096), EINVAL, "destination");
  MUST_FAIL(npu_copy(bo, 0, other, 1, 4096), EINVAL, "source");
  MUST_FAIL(npu_fill(bo, 4095, 2, 0, 1), EINVAL, "beyond the buffer");
  MUST_FAIL(npu_write(bo, 0, NULL, 1), EINVAL, "no data");
  MUST_FAIL(npu_read(bo, 0, NULL, 1), EINVAL, "no place");
  MUST_FAIL(npu_write(NULL, 0, &byte, 1), EINVAL, "no buffer");
  MUST(npu_write(bo, 4096, NULL, 0));
  npu_bo_unref(bo);
  npu_bo_unref(other);
}

/* A copy comes after the jobs that were submitted before it and use the buffer. */
static void a_copy_waits_for_jobs(void **state) {
  static const size_t large[] = {64, 2 << 20};
  npu_context *context = must_context(device);

  (void)state;
  for (int k = 0; k < 2; k++) {
    npu_bo *bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
    uint8_t *data = must_alloc(large[k]), *got = must_alloc(large[k]);
    struct program p;
    uint64_t seqno;

    fill_pattern(data, large[k], 4);
    MUST(npu_write(bo, 4 * MIB, data, large[k]));
    program_init(&p, device);
    for (int i = 0; i < 300; i++) program_copy(&p, 0, 4 * MIB, (uint32_t)large[k]);
    for (uint32_t i = 0; i < p.gdma_count; i++)
      ((struct npu_cmd_copy *)(p.commands + (size_t)i * NPU_CMD_BYTES))->src_region = 1;
    MUST(submit_program(context, &p, bo, NULL, &seqno));
    MUST(npu_read(bo, 0, got, large[k]));
    assert_bytes(got, data, large[k]);
    MUST(npu_wait(context, seqno, 0, NULL));
    program_free(&p);
    npu_bo_unref(bo);
    free(data);
    free(got);
  }
  npu_context_destroy(context);
}

/* As many jobs as a context takes, each from one half of the buffer to the other on core 0: minutes of work, ended by
 * destroying the context. */
static npu_context *keep_busy(npu_bo *bo, const struct program *p, uint64_t *last) {
  struct drm_npu_dev_info info;
  npu_context *busy = NULL;

  MUST(npu_device_info(device, &info));
  MUST(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 1, &busy));
  for (uint32_t i = 0; i < info.max_in_flight; i++) submit_long_job(busy, p, bo, last);
  return busy;
}

struct waiting_copy {
  npu_bo *bo;
  uint64_t at; /* its own 2 * bytes of the buffer */
  void *data;
  size_t bytes;
  int (*run)(const struct waiting_copy *copy);
  int result;
  bool done;
};

static int read_it(const struct waiting_copy *copy) { return npu_read(copy->bo, copy->at, copy->data, copy->bytes); }
static int write_it(const struct waiting_copy *copy) { return npu_write(copy->bo, copy->at, copy->data, copy->bytes); }
static int fill_it(const struct waiting_copy *copy) { return npu_fill(copy->bo, copy->at, copy->bytes, 7, 1); }
static int copy_it(const struct waiting_copy *copy) {
  return npu_copy(copy->bo, copy->at, copy->bo, copy->at + copy->bytes, copy->bytes);
}

static void *copy_in_thread(void *arg) {
  struct waiting_copy *copy = arg;

  copy->result = copy->run(copy);
  __atomic_store_n(&copy->done, true, __ATOMIC_SEQ_CST);
  return NULL;
}

/* Copies that wait for the jobs of one buffer hold up nobody who copies other buffers, by whatever way. */
static void a_copy_does_not_wait_for_the_jobs_of_others(void **state) {
  enum { BYTES = 2 << 20, WAYS = 4, WAITING = 3 * WAYS, ROUNDS = 20 };
  int (*const ways[WAYS])(const struct waiting_copy *) = {read_it, write_it, fill_it, copy_it};
  npu_bo *busy_bo = must_create(device, 8 * MIB + WAITING * 2 * BYTES, DRM_NPU_BO_CARD);
  npu_bo *a = must_create(device, BYTES, DRM_NPU_BO_CARD), *b = must_create(device, BYTES, DRM_NPU_BO_CARD);
  uint8_t *data = must_alloc(BYTES), *got = must_alloc(BYTES);
  struct waiting_copy waiting[WAITING];
  pthread_t threads[WAITING];
  struct program p;
  uint64_t last = 0;

  (void)state;
  program_init(&p, device);
  program_long(&p, 4 * MIB);
  npu_context *busy = keep_busy(busy_bo, &p, &last);
  for (int i = 0; i < WAITING; i++) {
    waiting[i] = (struct waiting_copy){.bo = busy_bo,
                                       .at = 8 * MIB + (uint64_t)i * 2 * BYTES,
                                       .data = must_alloc(BYTES),
                                       .bytes = BYTES,
                                       .run = ways[i % WAYS]};
    memset(waiting[i].data, 0, BYTES);
    assert_int_equal(pthread_create(&threads[i], NULL, copy_in_thread, &waiting[i]), 0);
  }
  for (int round = 0; round < ROUNDS; round++) {
    usleep(1000); /* the others have begun to wait, in some round */
    fill_pattern(data, BYTES, (unsigned int)round);
    MUST(npu_fill(b, 0, BYTES, 0, 1));
    MUST(npu_write(a, 0, data, BYTES));
    MUST(npu_copy(b, 0, a, 0, BYTES));
    MUST(npu_read(b, 0, got, BYTES));
    assert_bytes(got, data, BYTES);
  }
  for (int i = 0; i < WAITING; i++) assert_false(__atomic_load_n(&waiting[i].done, __ATOMIC_SEQ_CST));
  MUST_FAIL(npu_wait(busy, last, 0, NULL), ETIME, "not finished yet");
  npu_context_destroy(busy);
  for (int i = 0; i < WAITING; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(waiting[i].result, 0);
    free(waiting[i].data);
  }
  program_free(&p);
  npu_bo_unref(busy_bo);
  npu_bo_unref(a);
  npu_bo_unref(b);
  free(data);
  free(got);
}

/* Who only reads does not wait for others that read: a buffer that jobs use all the time can still be copied. */
static void reading_waits_for_writers_only(void **state) {
  static const size_t sizes_read[] = {64, 1 << 20};
  npu_bo *shared = must_create(device, 8 * MIB, DRM_NPU_BO_CARD), *sink = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  npu_bo *copy = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  uint8_t *data = must_alloc(MIB), *got = must_alloc(MIB);
  struct drm_npu_dev_info info;
  npu_context *busy = NULL;
  struct program p;
  uint64_t last = 0;

  (void)state;
  fill_pattern(data, MIB, 9);
  MUST(npu_write(shared, 0, data, MIB));
  program_init(&p, device);
  while (p.gdma_count < PROGRAM_COMMANDS) program_copy(&p, 0, 0, 4 * MIB);
  MUST(npu_device_info(device, &info));
  MUST(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 1, &busy));
  for (uint32_t i = 0; i < info.max_in_flight; i++) MUST(submit_program(busy, &p, sink, shared, &last));
  for (int i = 0; i < 2; i++) {
    memset(got, 0, MIB);
    MUST(npu_read(shared, 0, got, sizes_read[i]));
    assert_bytes(got, data, sizes_read[i]);
  }
  memset(got, 0, MIB);
  MUST(npu_copy(copy, 0, shared, 0, MIB));
  MUST(npu_read(copy, 0, got, MIB));
  assert_bytes(got, data, MIB);
  MUST_FAIL(npu_wait(busy, last, 0, NULL), ETIME, "not finished yet");
  npu_context_destroy(busy);
  program_free(&p);
  npu_bo_unref(shared);
  npu_bo_unref(sink);
  npu_bo_unref(copy);
  free(data);
  free(got);
}

int copy_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(copies_between_buffers),
      cmocka_unit_test(overlapping_copies_are_like_memmove),
      cmocka_unit_test(fills_of_every_width),
      cmocka_unit_test(ranges_are_checked),
      cmocka_unit_test(a_copy_waits_for_jobs),
      cmocka_unit_test(a_copy_does_not_wait_for_the_jobs_of_others),
      cmocka_unit_test(reading_waits_for_writers_only),
  };
  return cmocka_run_group_tests_name("copy", tests, open_device, close_device);
}
