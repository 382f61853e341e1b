/* SPDX-License-Identifier: MIT */
/* Priorities with ageing, the privileges that they need, and core masks. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
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

/*
 * Contexts compete for one core. Each job of the first one marks a byte of a page, and the last job of the other one
 * copies that page. The copy shows the order in which they had the core, without any clock.
 */
#define MOST 60      /* a context has room for 64 */
#define RING_JOBS 31 /* jobs of a ring */

struct race {
  struct stream stream; /* a mark for each job, a command without effect, and the copy */
  struct bo page, copy;
  struct job job;
};

enum { NOTHING = MOST, COPY, COMMANDS };

static void race_create(struct race *race) {
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &race->page);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &race->copy);
  stream_create(fd, COMMANDS, &race->stream);
  for (int i = 0; i < MOST; i++) stream_fill(&race->stream, 1, (uint64_t)i, 1, 1);
  stream_nop(&race->stream, 0);
  stream_copy(&race->stream, 1, 0, 2, 0, MOST);
  job_init(&race->job);
  job_gdma(&race->job, &race->stream);
  job_region(&race->job, &race->page, RW);
  job_region(&race->job, &race->copy, RW);
  race->job.stream.gdma_count = 1;
  race->job.args.flags = DRM_NPU_JOB_EXPLICIT;
}

static void race_destroy(struct race *race) {
  bo_destroy(fd, &race->copy);
  bo_destroy(fd, &race->page);
  stream_destroy(fd, &race->stream);
}

static struct job *race_job(struct race *race, int command) {
  race->job.stream.gdma_offset = (uint64_t)command * NPU_CMD_BYTES;
  return &race->job;
}

/* Jobs of a context that are on the card initially. */
static unsigned given(int jobs) { return (unsigned)(jobs < RING_JOBS ? jobs : RING_JOBS); }

/*
 * Returns the number of finished jobs of the first context when the last one of the other starts. The core is kept busy
 * until the card has all jobs that the driver gives it of both.
 */
static unsigned progress_beside(uint32_t own, int jobs, uint32_t rival, int rival_jobs) {
  struct drm_npu_ctx_create on_core_0 = {.priority = DRM_NPU_PRIORITY_NORMAL, .core_mask = 1};
  uint32_t a = ctx_with(own, 1), b = ctx_with(rival, 1), before = ctx_create_patient(fd, &on_core_0);
  uint64_t first, last_a = 0, last_b = 0;
  struct race race;
  unsigned done = 0;

  race_create(&race);
  first = submit_held(fd, before, race_job(&race, NOTHING));
  for (int i = 0; i < jobs; i++) last_a = submit(fd, a, race_job(&race, i));
  for (int i = 1; i < rival_jobs; i++) submit(fd, b, race_job(&race, NOTHING));
  last_b = submit(fd, b, race_job(&race, COPY));
  usage_wait_on_card(1 + given(jobs) + given(rival_jobs));
  held_go_on();
  wait_ok(fd, before, first);
  wait_ok(fd, b, last_b);
  wait_ok(fd, a, last_a);
  for (int i = 0; i < MOST; i++) done += race.copy.map[i];
  race_destroy(&race);
  ctx_destroy(fd, a);
  ctx_destroy(fd, b);
  ctx_destroy(fd, before);
  return done;
}

/* The card has all of them at the start, so the order is that of its arbiter (section 4.2 of hardware.md). */
static void equal_contexts_share_a_core(void **state) {
  (void)state;
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_HIGH, RING_JOBS, DRM_NPU_PRIORITY_HIGH, RING_JOBS), RING_JOBS - 1,
                  RING_JOBS);
}

/* A higher priority is served first, but waiting 8 arbitrations raises a job by one priority: none starves. */
static void low_priority_is_slow_but_not_starved(void **state) {
  (void)state;
  assert_int_equal(progress_beside(DRM_NPU_PRIORITY_HIGH, RING_JOBS, DRM_NPU_PRIORITY_REALTIME, RING_JOBS), 30 / 8);
  assert_int_equal(progress_beside(DRM_NPU_PRIORITY_NORMAL, MOST, DRM_NPU_PRIORITY_REALTIME, RING_JOBS), 30 / 16);
  assert_int_equal(progress_beside(DRM_NPU_PRIORITY_LOW, MOST, DRM_NPU_PRIORITY_REALTIME, RING_JOBS), 30 / 24);
  assert_int_equal(progress_beside(DRM_NPU_PRIORITY_LOW, MOST, DRM_NPU_PRIORITY_HIGH, RING_JOBS), 30 / 16);
}

/* No job starves if the driver adds more jobs meanwhile: if it is late, the first context continues. */
static void low_priority_is_not_starved_by_many(void **state) {
  (void)state;
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_LOW, MOST, DRM_NPU_PRIORITY_REALTIME, MOST), 1, MOST);
  assert_in_range(progress_beside(DRM_NPU_PRIORITY_LOW, MOST, DRM_NPU_PRIORITY_NORMAL, MOST), 1, MOST);
}

static void high_priority_overtakes(void **state) {
  (void)state;
  assert_int_equal(progress_beside(DRM_NPU_PRIORITY_HIGH, RING_JOBS, DRM_NPU_PRIORITY_REALTIME, 8), 0);
  assert_int_equal(progress_beside(DRM_NPU_PRIORITY_LOW, MOST, DRM_NPU_PRIORITY_HIGH, 8), 0);
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
  struct drm_npu_status_info status;

  npu_status(fd, &status);
  memcpy(jobs, status.jobs, sizeof(status.jobs));
}

/* Jobs run on the cores of their context, or on fewer if they request it. */
static void jobs_keep_to_their_cores(void **state) {
  struct drm_npu_dev_info info;
  struct race race;

  (void)state;
  npu_info(fd, &info);
  race_create(&race);
  for (uint32_t core = 0; core < info.cores; core++) {
    for (int of_the_job = 0; of_the_job < 2; of_the_job++) {
      uint32_t ctx = ctx_with(DRM_NPU_PRIORITY_NORMAL, of_the_job ? 0 : 1u << core);
      uint64_t before[DRM_NPU_MAX_CORES], after[DRM_NPU_MAX_CORES];

      race.job.args.core_mask = of_the_job ? 1u << core : 0;
      core_jobs(before);
      for (int i = 0; i < 10; i++) run_ok(fd, ctx, &race.job);
      core_jobs(after);
      for (uint32_t i = 0; i < info.cores; i++) assert_int_equal(after[i] - before[i], i == core ? 10 : 0);
      ctx_destroy(fd, ctx);
    }
  }
  race_destroy(&race);
}

static void foreign_cores_are_refused(void **state) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_dev_info info;
  struct race race;
  uint32_t ctx;

  (void)state;
  npu_info(fd, &info);
  args.core_mask = 1u << info.cores;
  assert_int_equal(raw_ctx_create(fd, &args), -EINVAL);
  ctx = ctx_with(DRM_NPU_PRIORITY_NORMAL, 1);
  race_create(&race);
  race.job.args.core_mask = 2;
  assert_int_equal(raw_submit(fd, ctx, &race.job), -EINVAL);
  race.job.args.core_mask = 1;
  run_ok(fd, ctx, &race.job);
  ctx_destroy(fd, ctx);
  race_destroy(&race);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_contexts_share_a_core),         cmocka_unit_test(low_priority_is_slow_but_not_starved),
      cmocka_unit_test(low_priority_is_not_starved_by_many), cmocka_unit_test(high_priority_overtakes),
      cmocka_unit_test(high_priorities_need_a_capability),   cmocka_unit_test(jobs_keep_to_their_cores),
      cmocka_unit_test(foreign_cores_are_refused),
  };

  return cmocka_run_group_tests_name("priority", tests, set_up, tear_down);
}
