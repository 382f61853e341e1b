/* SPDX-License-Identifier: MIT */
/* Jobs that go wrong: each names what and where, and the next job works. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

static npu_device *device;
static npu_context *context;
static npu_bo *dst, *src;
static struct program p;

enum { BYTES = 8192 };

static int set_up_all(void **state) {
  (void)state;
  device = must_open();
  context = must_context(device);
  dst = must_create(device, BYTES, DRM_NPU_BO_CARD);
  src = must_create(device, BYTES, DRM_NPU_BO_CARD);
  return 0;
}

static int tear_down_all(void **state) {
  (void)state;
  npu_bo_unref(dst);
  npu_bo_unref(src);
  npu_context_destroy(context);
  npu_device_close(device);
  return 0;
}

static int set_up(void **state) {
  (void)state;
  program_init(&p, device);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  program_free(&p);
  return 0;
}

static struct npu_cmd_copy *last_copy(void) {
  return (struct npu_cmd_copy *)(p.commands + (size_t)(p.gdma_count - 1) * NPU_CMD_BYTES);
}

/* Runs the program: it fails with that error and status, and the description is exactly this. Then a good job works. */
static void assert_fails(int error, uint32_t status, const char *expected) {
  struct drm_npu_ctx_query before, after;
  struct npu_result result;
  char text[256];
  uint64_t seqno;

  MUST(npu_context_state(context, &before));
  MUST(submit_program(context, &p, dst, src, &seqno));
  result = must_wait(context, seqno);
  npu_describe_fault(&result.fault, text, sizeof(text));
  if (result.error != error || result.fault.status != status)
    fail_msg("error %d status %u (%s), expected %d and %u", result.error, result.fault.status, text, error, status);
  assert_string_equal(text, expected);
  assert_int_equal(result.fault.seqno, seqno);
  MUST(npu_context_state(context, &after));
  assert_int_equal(after.errors, before.errors + 1);
  assert_int_equal(after.fault.seqno, seqno);
  assert_int_equal(after.fault.status, status);
  assert_works(device, context);
}

static void an_unknown_opcode(void **state) {
  (void)state;
  program_copy(&p, 0, 0, 64);
  program_gdma(&p, 0x7f);
  assert_fails(-EIO, NPU_STATUS_BAD_OPCODE, "GDMA command 1: opcode or sub-operation unknown to this engine");
}

static void an_opcode_of_the_other_engine(void **state) {
  (void)state;
  program_tiu(&p, NPU_OP_COPY);
  assert_fails(-EIO, NPU_STATUS_BAD_OPCODE, "TIU command 0: opcode or sub-operation unknown to this engine");
}

static void a_reserved_bit(void **state) {
  (void)state;
  program_copy(&p, 0, 0, 64);
  last_copy()->pad0[1] = 1;
  assert_fails(-EIO, NPU_STATUS_RESERVED_BITS, "GDMA command 0, byte 13: a reserved bit is not zero");
}

static void an_illegal_field(void **state) {
  (void)state;
  program_copy(&p, 0, 0, 64);
  last_copy()->dims[5] = 0;
  assert_fails(-EIO, NPU_STATUS_BAD_FIELD, "GDMA command 0, byte 60: illegal value of a field");
}

static void an_overrun_of_a_region(void **state) {
  (void)state;
  program_copy(&p, BYTES - 63, 0, 64);
  assert_fails(-EIO, NPU_STATUS_REGION_BOUNDS, "GDMA command 0, region 1, offset 0x1fc1 size 0x40 beyond the region");
}

static void an_access_that_the_region_forbids(void **state) {
  (void)state;
  program_copy(&p, 0, 0, 64);
  last_copy()->dst_region = 2;
  assert_fails(-EIO, NPU_STATUS_REGION_ACCESS,
               "GDMA command 0, region 2: no such region, or the access is not allowed");
}

static void a_region_that_does_not_exist(void **state) {
  (void)state;
  program_copy(&p, 0, 0, 64);
  last_copy()->src_region = 3;
  assert_fails(-EIO, NPU_STATUS_REGION_ACCESS,
               "GDMA command 0, region 3: no such region, or the access is not allowed");
}

static void an_overrun_of_local_memory(void **state) {
  struct drm_npu_dev_info info;
  char expected[128];

  (void)state;
  MUST(npu_device_info(device, &info));
  program_copy(&p, 0, 0, 64);
  last_copy()->dst_region = NPU_REGION_LOCAL;
  last_copy()->dst_offset = info.lmem_bytes - 32;
  snprintf(expected, sizeof(expected), "GDMA command 0, local memory, offset %#x size 0x40 beyond local memory",
           info.lmem_bytes - 32);
  assert_fails(-EIO, NPU_STATUS_LMEM_BOUNDS, expected);
}

static void two_engines_that_wait_for_each_other(void **state) {
  (void)state;
  struct npu_cmd *a = program_gdma(&p, NPU_OP_NOP), *b = program_tiu(&p, NPU_OP_NOP);
  a->wait = 1;
  b->wait = 1;
  assert_fails(-EIO, NPU_STATUS_DEADLOCK, "TIU command 0: deadlock, all engines of the job wait for each other");
}

static void a_budget_that_is_too_small(void **state) {
  struct npu_job_region regions[] = {{p.bo, 0, npu_bo_size(p.bo), DRM_NPU_REGION_READ, 0},
                                     {dst, 0, BYTES, DRM_NPU_REGION_WRITE, 0},
                                     {src, 0, BYTES, DRM_NPU_REGION_READ, 0}};
  struct drm_npu_stream stream = {.gdma_count = 3};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 3, .stream_count = 1};
  struct npu_result good, result;
  uint64_t seqno;
  char text[128];

  (void)state;
  for (int i = 0; i < 3; i++) program_copy(&p, 0, 0, BYTES);
  program_flush(&p);
  MUST(npu_submit(context, &job, 1, &seqno));
  good = must_wait(context, seqno);
  assert_int_equal(good.error, 0);
  /* Two of three commands fit. */
  job.budget = good.cycles - 1;
  MUST(npu_submit(context, &job, 1, &seqno));
  result = must_wait(context, seqno);
  assert_int_equal(result.error, -ETIME);
  npu_describe_fault(&result.fault, text, sizeof(text));
  assert_string_equal(text, "GDMA command 2: more modelled cycles than the job's budget");
  assert_works(device, context);
}

static void a_failing_job_cancels_those_that_wait_for_it(void **state) {
  npu_context *other = must_context(device);
  npu_bo *mark = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct npu_job_fence fence = {.context = context};
  struct program good;
  uint64_t seqno;
  uint8_t before[64], after[64];

  (void)state;
  program_init(&good, device);
  program_copy(&good, 0, 0, 64);
  fill_pattern(before, 64, 5);
  MUST(npu_write(mark, 0, before, 64));
  program_gdma(&p, 0x7f);
  /* Early: when it is submitted the failure is still to come, or has just come. Late: it is long known. */
  for (int late = 0; late < 2; late++) {
    MUST(submit_program(context, &p, dst, src, &fence.seqno));
    if (late) {
      assert_works(device, context);
      assert_int_equal(must_wait(context, fence.seqno).error, -EIO);
    }
    MUST(submit_after(other, &good, mark, src, &fence, 1, 0, &seqno));
    assert_int_equal(must_wait(other, seqno).error, -ECANCELED);
    MUST(npu_read(mark, 0, after, 64));
    assert_bytes(after, before, 64);
    /* The chain goes on. */
    struct npu_job_fence next = {.context = other, .seqno = seqno};
    MUST(submit_after(context, &good, mark, src, &next, 1, 0, &seqno));
    assert_int_equal(must_wait(context, seqno).error, -ECANCELED);
    /* Without the fence it runs. */
    assert_works(device, other);
  }
  program_free(&good);
  npu_bo_unref(mark);
  npu_context_destroy(other);
}

static void a_failing_job_harms_no_other_context(void **state) {
  npu_context *other = must_context(device);
  struct program good;
  uint64_t seqno = 0, last = 0;

  (void)state;
  program_init(&good, device);
  for (int i = 0; i < 100; i++) program_copy(&good, 0, 0, BYTES);
  program_gdma(&p, 0x7f);
  for (int i = 0; i < 20; i++) {
    MUST(submit_program(other, &good, dst, src, &last));
    MUST(submit_program(context, &p, dst, src, &seqno));
  }
  for (uint64_t job = last - 19; job <= last; job++) assert_int_equal(must_wait(other, job).error, 0);
  assert_int_equal(must_wait(context, seqno).error, -EIO);
  program_free(&good);
  npu_context_destroy(other);
}

static volatile int rewriting;

/* Flips bytes of the program as fast as it can. */
static void *rewrite(void *arg) {
  volatile uint8_t *commands = arg;
  uint32_t random = 1;

  while (__atomic_load_n(&rewriting, __ATOMIC_RELAXED)) {
    random = random * 1664525u + 1013904223u;
    __atomic_store_n(&commands[random >> 8 & 0x3fff], (uint8_t)(random >> 24), __ATOMIC_RELAXED);
  }
  return NULL;
}

static void a_stream_that_is_rewritten_while_it_runs(void **state) {
  npu_bo *guard = must_create(device, 65536, DRM_NPU_BO_CARD);
  uint8_t *zero = calloc(1, 65536), *got = must_alloc(65536);
  pthread_t thread;
  uint64_t seqno;
  int strange = 0; /* no assert while the thread runs */

  (void)state;
  for (int i = 0; i < 128; i++) program_copy(&p, 0, 0, 4096);
  rewriting = 1;
  assert_int_equal(pthread_create(&thread, NULL, rewrite, p.commands), 0);
  for (int i = 0; i < 50; i++) {
    MUST(submit_program(context, &p, dst, src, &seqno));
    const struct npu_result result = must_wait(context, seqno);
    if (result.error && result.error != -EIO && result.error != -ETIME) strange = result.error;
  }
  __atomic_store_n(&rewriting, 0, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  assert_int_equal(strange, 0);
  /* Whatever it did, it did to its own regions. */
  MUST(npu_read(guard, 0, got, 65536));
  assert_bytes(got, zero, 65536);
  assert_works(device, context);
  npu_bo_unref(guard);
  free(zero);
  free(got);
}

/* The text names who has ended a job that did not end by itself. */
static void every_cause_is_named(void **state) {
  static const struct {
    uint32_t cause;
    const char *text;
  } causes[] = {
      {DRM_NPU_CAUSE_STALL, "which saw no progress; npu-dump"},
      {DRM_NPU_CAUSE_LIMIT, "job_limit_ms); npu-dump"},

      {DRM_NPU_CAUSE_RESET, "by a reset of the device that was asked for (npu-smi --reset"},
      {DRM_NPU_CAUSE_RECOVERY, "by the driver, while it recovered the device from another failure"},
      {DRM_NPU_CAUSE_BUS, "by a failure of the device's bus"},
      {DRM_NPU_CAUSE_SLEEP, "the system went to sleep"},
      {DRM_NPU_CAUSE_DESTROYED, "its context was destroyed"},
      {DRM_NPU_CAUSE_LOST, "the device is gone"},
  };
  struct drm_npu_fault fault = {.status = NPU_STATUS_ABORTED, .engine = NPU_ENGINE_NONE};
  char text[256];

  (void)state;
  for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
    fault.cause = causes[i].cause;
    assert_true(npu_describe_fault(&fault, text, sizeof(text)) < (int)sizeof(text));
    assert_memory_equal(text, "job: aborted", 12);
    assert_text(text, causes[i].text);
  }
  fault.cause = DRM_NPU_CAUSE_NONE;
  npu_describe_fault(&fault, text, sizeof(text));
  assert_string_equal(text, "job: aborted");
}

/* Text for every status that exists, and for one that does not. */
static void every_status_has_a_description(void **state) {
  char text[256], unknown[256];

  (void)state;
  for (uint32_t status = NPU_STATUS_OK; status <= NPU_STATUS_INTERNAL; status++) {
    struct drm_npu_fault fault = {.status = status,
                                  .engine = NPU_ENGINE_TIU,
                                  .command = 17,
                                  .region = 3,
                                  .offset = 0x8000,
                                  .bytes = 0x100,
                                  .fault_addr = 0xabc000,
                                  .access = DRM_NPU_REGION_READ};
    const int length = npu_describe_fault(&fault, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_null(strstr(text, "unknown status"));
    if (status == NPU_STATUS_REGION_BOUNDS)
      assert_string_equal(text, "TIU command 17, region 3, offset 0x8000 size 0x100 beyond the region");
    if (status == NPU_STATUS_PAGE_FAULT)
      assert_string_equal(text, "TIU command 17, region 3, read from device address 0xabc000: not mapped");
  }
  struct drm_npu_fault strange = {.status = 999, .engine = NPU_ENGINE_NONE};
  npu_describe_fault(&strange, unknown, sizeof(unknown));
  assert_string_equal(unknown, "job: unknown status 999");
  assert_int_equal(npu_describe_fault(&strange, NULL, 0), strlen(unknown));
}

int fault_tests(void) {
#define FAULT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      FAULT_TEST(an_unknown_opcode),
      FAULT_TEST(an_opcode_of_the_other_engine),
      FAULT_TEST(a_reserved_bit),
      FAULT_TEST(an_illegal_field),
      FAULT_TEST(an_overrun_of_a_region),
      FAULT_TEST(an_access_that_the_region_forbids),
      FAULT_TEST(a_region_that_does_not_exist),
      FAULT_TEST(an_overrun_of_local_memory),
      FAULT_TEST(two_engines_that_wait_for_each_other),
      FAULT_TEST(a_budget_that_is_too_small),
      FAULT_TEST(a_failing_job_cancels_those_that_wait_for_it),
      FAULT_TEST(a_failing_job_harms_no_other_context),
      FAULT_TEST(a_stream_that_is_rewritten_while_it_runs),
      cmocka_unit_test(every_status_has_a_description),
      cmocka_unit_test(every_cause_is_named),
  };
  return cmocka_run_group_tests_name("fault", tests, set_up_all, tear_down_all);
}
