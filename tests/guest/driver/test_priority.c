/* SPDX-License-Identifier: MIT */
/* Priorities with ageing, what they need, and core masks: who gets a core when many want one. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd;

static int set_up(void **state) {
  uint32_t ctx;

  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  ctx_destroy(fd, ctx);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  return close(fd);
}

static uint32_t ctx_with(uint32_t priority, uint32_t core_mask) {
  struct drm_npu_ctx_create args = {.priority = priority, .core_mask = core_mask};

  assert_int_equal(raw_ctx_create(fd, &args), 0);
  return args.ctx_id;
}

#define JOBS 60

/* A job that takes a few milliseconds, and waits for nobody. */
struct task {
  struct stream stream;
  struct bo bo;
  struct job job;
};

static void task_create(struct task *task, uint32_t ms) {
  stream_create(fd, 1, &task->stream);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &task->bo);
  stream_slow_copy(&task->stream, 1, ms);
  job_init(&task->job);
  job_gdma(&task->job, &task->stream);
  job_region(&task->job, &task->bo, RW);
  task->job.args.flags = DRM_NPU_JOB_EXPLICIT;
}

static void task_destroy(struct task *task) {
  bo_destroy(fd, &task->bo);
  stream_destroy(fd, &task->stream);
}

static uint64_t completed(uint32_t ctx) {
  struct drm_npu_ctx_query query;

  ctx_query(fd, ctx, &query);
  return query.completed;
}

/*
 * Contexts compete for one core; how far is the first when the other has finished its jobs? The core is kept busy until all are
 * submitted, however long that takes: else those of the first would find it idle.
 */
static uint64_t progress_beside(uint32_t own, int jobs, uint32_t rival, int rival_jobs) {
  uint64_t done = 0, last_a = 0, last_b = 0, first;
  bool in_time = false;

  for (uint32_t ms = 1000; !in_time; ms *= 2) {
    uint32_t a = ctx_with(own, 1), b = ctx_with(rival, 1), before = ctx_with(DRM_NPU_PRIORITY_NORMAL, 1);
    struct task task, blocker;

    task_create(&task, 5);
    task_create(&blocker, ms);
    first = submit(fd, before, &blocker.job);
    for (int i = 0; i < jobs; i++) last_a = submit(fd, a, &task.job);
    for (int i = 0; i < rival_jobs; i++) last_b = submit(fd, b, &task.job);
    usleep(300000); /* the scheduler gives the last ones to the card */
    in_time = !completed(before);
    wait_ok(fd, b, last_b);
    done = completed(a);
    wait_ok(fd, a, last_a);
    wait_ok(fd, before, first);
    ctx_destroy(fd, a);
    ctx_destroy(fd, b);
    ctx_destroy(fd, before);
    task_destroy(&blocker);
    task_destroy(&task);
    assert_true(ms < 60000);
  }
  return done;
}

static void equal_contexts_share_a_core(void **state) {
  (void)state;
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_NORMAL, JOBS, DRM_NPU_PRIORITY_NORMAL, JOBS), 50, 60);
}

/* The higher one is served first, but 8 arbitrations make up for each step of priority: nobody starves. */
static void low_priority_is_slow_but_not_starved(void **state) {
  (void)state;
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_LOW, JOBS, DRM_NPU_PRIORITY_REALTIME, JOBS), 2, 20);
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_LOW, JOBS, DRM_NPU_PRIORITY_NORMAL, JOBS), 4, 30);
}

static void high_priority_overtakes(void **state) {
  (void)state;
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_LOW, 40, DRM_NPU_PRIORITY_HIGH, 1), 0, 20);
}

static void unprivileged(void) {
  struct drm_npu_ctx_create args = {0};
  int file;

  if (setgid(65534) || setuid(65534) || !npu_try_open(&file)) _exit(1);
  for (args.priority = DRM_NPU_PRIORITY_LOW; args.priority <= DRM_NPU_PRIORITY_REALTIME; args.priority++) {
    int wanted = args.priority >= DRM_NPU_PRIORITY_HIGH ? -EACCES : 0;

    if (raw_ctx_create(file, &args) != wanted) _exit(2 + (int)args.priority);
  }
  args.priority = DRM_NPU_PRIORITY_REALTIME + 1;
  if (raw_ctx_create(file, &args) != -EINVAL) _exit(10);
  _exit(0);
}

static void high_priorities_need_a_capability(void **state) {
  int status;
  pid_t pid;

  (void)state;
  pid = fork();
  assert_true(pid >= 0);
  if (!pid) unprivileged();
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void core_jobs(uint64_t jobs[DRM_NPU_MAX_CORES]) {
  struct drm_npu_status_info status = {0};
  struct drm_npu_dev_query query = {
      .type = DRM_NPU_QUERY_STATUS, .size = sizeof(status), .pointer = (uintptr_t)&status};

  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &query), 0);
  memcpy(jobs, status.jobs, sizeof(status.jobs));
}

/* Jobs keep to the cores of their context, and to fewer if they say so. */
static void jobs_keep_to_their_cores(void **state) {
  struct drm_npu_dev_info info;
  struct task task;

  (void)state;
  npu_info(fd, &info);
  task_create(&task, 1);
  for (uint32_t core = 0; core < info.cores; core++) {
    for (int of_the_job = 0; of_the_job < 2; of_the_job++) {
      uint32_t ctx = ctx_with(DRM_NPU_PRIORITY_NORMAL, of_the_job ? 0 : 1u << core);
      uint64_t before[DRM_NPU_MAX_CORES], after[DRM_NPU_MAX_CORES];

      task.job.args.core_mask = of_the_job ? 1u << core : 0;
      core_jobs(before);
      for (int i = 0; i < 10; i++) run_ok(fd, ctx, &task.job);
      core_jobs(after);
      for (uint32_t i = 0; i < info.cores; i++)
        assert_int_equal(after[i] - before[i], i == core ? 10 : 0);
      ctx_destroy(fd, ctx);
    }
  }
  task_destroy(&task);
}

static void foreign_cores_are_refused(void **state) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_dev_info info;
  struct task task;
  uint32_t ctx;

  (void)state;
  npu_info(fd, &info);
  args.core_mask = 1u << info.cores;
  assert_int_equal(raw_ctx_create(fd, &args), -EINVAL);
  ctx = ctx_with(DRM_NPU_PRIORITY_NORMAL, 1);
  task_create(&task, 1);
  task.job.args.core_mask = 2;
  assert_int_equal(raw_submit(fd, ctx, &task.job), -EINVAL);
  task.job.args.core_mask = 1;
  run_ok(fd, ctx, &task.job);
  ctx_destroy(fd, ctx);
  task_destroy(&task);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_contexts_share_a_core),
      cmocka_unit_test(low_priority_is_slow_but_not_starved),
      cmocka_unit_test(high_priority_overtakes),
      cmocka_unit_test(high_priorities_need_a_capability),
      cmocka_unit_test(jobs_keep_to_their_cores),
      cmocka_unit_test(foreign_cores_are_refused),
  };

  return cmocka_run_group_tests_name("priority", tests, set_up, tear_down);
}
