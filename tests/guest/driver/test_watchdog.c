/* SPDX-License-Identifier: MIT */
/* The watchdog: patient with waiting and progressing jobs, kills those over the limit, without effect on others. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define DEFAULT_TIMEOUT_MS 5000
#define DEFAULT_LIMIT_MS 600000

static int fd;
static struct bo bo;
static struct stream stream;

static int set_up(void **state) {
  uint32_t ctx;

  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  ctx_destroy(fd, ctx);
  stream_create(fd, 1, &stream);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
  return close(fd);
}

static int defaults(void **state) {
  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  set_parameter("job_limit_ms", DEFAULT_LIMIT_MS);
  set_parameter("budget_ms", DEFAULT_BUDGET_MS);
  return 0;
}

static uint32_t resets(void) {
  struct drm_npu_status_info info;

  npu_status(fd, &info);
  return info.resets;
}

static void slow_job(struct job *job, uint32_t ms) {
  stream.count = 0;
  stream_slow_copy(&stream, 1, ms);
  job_init(job);
  job_gdma(job, &stream);
  job_region(job, &bo, RW);
  job->args.flags = DRM_NPU_JOB_EXPLICIT;
  job->args.budget = UINT64_MAX;
}

static void a_job_that_moves_is_left_alone(void **state) {
  struct job job;
  uint32_t ctx;

  (void)state;
  set_parameter("timeout_ms", 250);
  ctx = ctx_create(fd);
  slow_job(&job, 1000);
  run_ok(fd, ctx, &job);
  ctx_destroy(fd, ctx);
}

static void jobs_that_wait_for_a_core_are_left_alone(void **state) {
  struct drm_npu_dev_info info;
  uint32_t ctx[2 * NPU_MAX_CORES + 1];
  uint64_t seqno[2 * NPU_MAX_CORES + 1];
  uint32_t n;
  struct job job;

  (void)state;
  npu_info(fd, &info);
  n = 2 * info.cores + 1;
  set_parameter("timeout_ms", 250);
  slow_job(&job, 400);
  for (uint32_t i = 0; i < n; i++) {
    ctx[i] = ctx_create(fd);
    seqno[i] = submit(fd, ctx[i], &job);
  }
  for (uint32_t i = 0; i < n; i++) {
    wait_ok(fd, ctx[i], seqno[i]);
    ctx_destroy(fd, ctx[i]);
  }
}

static void a_job_over_the_limit_is_killed_alone(void **state) {
  uint32_t bad, good, before = resets();
  struct drm_npu_ctx_query query;
  struct drm_npu_wait wait;
  struct job job;
  uint64_t seqno, next;

  (void)state;
  set_parameter("timeout_ms", 50);
  set_parameter("job_limit_ms", 300);
  bad = ctx_create(fd);
  good = ctx_create(fd);
  slow_job(&job, 10 * FOREVER_MS);
  seqno = submit(fd, bad, &job);
  for (int i = 0; i < 50; i++) run_nop(fd, good);

  /* Later jobs of the same context run in order. */
  {
    struct stream nop;
    struct job after;

    stream_create(fd, 1, &nop);
    stream_nop(&nop, 0);
    job_init(&after);
    job_gdma(&after, &nop);
    next = submit(fd, bad, &after);
    wait_result(fd, bad, seqno, &wait);
    wait_ok(fd, bad, next);
    stream_destroy(fd, &nop);
  }
  assert_int_equal(wait.error, -ETIME);
  assert_int_equal(wait.fault.seqno, seqno);
  assert_int_equal(wait.fault.status, NPU_STATUS_ABORTED);

  run_nop(fd, bad);
  run_nop(fd, good);
  ctx_query(fd, bad, &query);
  assert_int_equal(query.errors, 1);
  assert_int_equal(query.victims, 0);
  ctx_query(fd, good, &query);
  assert_int_equal(query.errors, 0);
  assert_int_equal(query.victims, 0);
  assert_int_equal(resets(), before);
  ctx_destroy(fd, bad);
  ctx_destroy(fd, good);
}

static void killed_again_and_again(void **state) {
  struct drm_npu_wait wait;
  struct job job;
  uint32_t ctx;

  (void)state;
  set_parameter("timeout_ms", 10);
  set_parameter("job_limit_ms", 20);
  ctx = ctx_create(fd);
  slow_job(&job, 10 * FOREVER_MS);
  for (int i = 0; i < 20; i++) {
    wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
    assert_int_equal(wait.error, -ETIME);
  }
  run_nop(fd, ctx);
  ctx_destroy(fd, ctx);
}

static void the_default_budget_applies(void **state) {
  struct drm_npu_wait wait;
  struct job job;
  uint32_t ctx = ctx_create(fd);

  (void)state;
  set_parameter("budget_ms", 1);
  slow_job(&job, FOREVER_MS);
  job.args.budget = 0;
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  assert_int_equal(wait.error, -ETIME);
  assert_int_equal(wait.fault.status, NPU_STATUS_BUDGET);
  run_nop(fd, ctx);
  ctx_destroy(fd, ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_job_that_moves_is_left_alone, defaults),
      cmocka_unit_test_teardown(jobs_that_wait_for_a_core_are_left_alone, defaults),
      cmocka_unit_test_teardown(a_job_over_the_limit_is_killed_alone, defaults),
      cmocka_unit_test_teardown(killed_again_and_again, defaults),
      cmocka_unit_test_teardown(the_default_budget_applies, defaults),
  };

  return cmocka_run_group_tests_name("watchdog", tests, set_up, tear_down);
}
