/* SPDX-License-Identifier: MIT */
/*
 * Users share the cores, however many contexts one of them has and however long its jobs are. What counts is the jobs
 * that somebody gets done beside others, not the time that it takes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/users.h"

#define MALLORY 1000
#define CONTEXTS 16
#define QUEUED 8
#define DEFAULT_CONTENDED_MS 20000

/* What processes and test have in common. */
static struct {
  uint32_t stop;
  uint32_t ready; /* processes that have all their jobs queued */
  uint32_t done[3];
} * shared;

static uint32_t contexts, job_ms, jobs_wanted;

static void long_job(int file, uint32_t ms, struct stream *stream, struct bo *bo, struct job *job) {
  job_slow(file, ms, stream, bo, job);
  job->args.flags = DRM_NPU_JOB_EXPLICIT;
  job->args.budget = UINT64_MAX;
}

/* Many contexts full of jobs that last as long as the driver lets them. */
static int fills_the_card(int socket) {
  struct stream stream;
  struct job job;
  struct bo bo;
  int file;

  (void)socket;
  CHECK(npu_try_open(&file));
  long_job(file, 10 * FOREVER_MS, &stream, &bo, &job);
  for (uint32_t i = 0; i < contexts; i++) {
    uint32_t id = ctx_create(file);

    for (int n = 0; n < QUEUED; n++) CHECK(!raw_submit(file, id, &job));
  }
  return 0;
}

static int gets_jobs_done(int socket) {
  int file;
  uint32_t id;

  (void)socket;
  CHECK(npu_try_open(&file));
  id = ctx_create(file);
  for (uint32_t i = 0; i < jobs_wanted; i++) run_nop(file, id);
  return 0;
}

static uint32_t busy_cores(void) {
  struct drm_npu_status_info info;

  npu_status(fd, &info);
  return info.core_busy;
}

static void one_user_does_not_keep_all_cores(void **state) {
  struct process hog;

  (void)state;
  contexts = CONTEXTS;
  jobs_wanted = 20;
  process_start(&hog, MALLORY, fd, fills_the_card);
  wait_cores_busy(fd);
  as_user(BOB, fd, gets_jobs_done);
  assert_true(busy_cores()); /* the other one is still there, and has its share */
  process_kill(&hog);
  run_nop(fd, ctx);
}

/* Short, so that the test is: by default it is seconds. */
static int short_limit(void **state) {
  (void)state;
  set_parameter("contended_ms", 300);
  return 0;
}

static int default_limit(void **state) {
  (void)state;
  set_parameter("contended_ms", DEFAULT_CONTENDED_MS);
  return 0;
}

static void more_users_than_cores(void **state) {
  struct process hogs[NPU_MAX_CORES];
  struct drm_npu_dev_info info;

  (void)state;
  npu_info(fd, &info);
  contexts = 2;
  for (uint32_t i = 0; i < info.cores; i++) process_start(&hogs[i], MALLORY + i, fd, fills_the_card);
  wait_cores_busy(fd);
  jobs_wanted = 3;
  as_user(BOB, fd, gets_jobs_done);
  for (uint32_t i = 0; i < info.cores; i++) process_kill(&hogs[i]);
  run_nop(fd, ctx);
}

/* Keeps its contexts full of jobs until it is told to stop, and counts those that are done. */
static int keeps_going(int socket) {
  uint32_t ids[CONTEXTS], mine = (uint32_t)getuid() - MALLORY;
  uint64_t last[CONTEXTS] = {0};
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  struct bo bo;
  int file, line = 0;

  CHECK(npu_try_open(&file));
  long_job(file, job_ms, &stream, &bo, &job);
  for (uint32_t i = 0; i < contexts; i++) {
    ids[i] = ctx_create(file);
    for (int n = 0; n < QUEUED; n++) last[i] = submit(file, ids[i], &job);
  }
  CHECK(write(socket, &line, sizeof(line)) == sizeof(line));
  __atomic_add_fetch(&shared->ready, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
    for (uint32_t i = 0; i < contexts; i++) {
      if (raw_wait(file, ids[i], last[i] - QUEUED + 1, 0, &wait) == -ETIME) continue;
      CHECK(!wait.error);
      if (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) == 2)
        __atomic_add_fetch(&shared->done[mine], 1, __ATOMIC_RELEASE);
      last[i] = submit(file, ids[i], &job);
    }
    usleep(1000);
  }
  return 0;
}

/* As many jobs, within a factor of two, whether a user has one context or many. */
static void contexts_are_no_share(void **state) {
  struct process many, one;
  int64_t end = now_ms() + 10 * FOREVER_MS;
  uint32_t of_one, of_many;
  int line;

  (void)state;
  memset(shared, 0, sizeof(*shared));
  job_ms = 20;
  contexts = CONTEXTS;
  process_start(&many, MALLORY, fd, keeps_going);
  contexts = 1;
  process_start(&one, MALLORY + 1, fd, keeps_going);
  do {
    usleep(1000);
    of_many = __atomic_load_n(&shared->done[0], __ATOMIC_ACQUIRE);
    of_one = __atomic_load_n(&shared->done[1], __ATOMIC_ACQUIRE);
    assert_true(now_ms() < end);
  } while (of_one < 60 && of_many < 600);
  __atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
  assert_int_equal(read(many.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  assert_int_equal(read(one.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  process_kill(&many);
  process_kill(&one);
  printf("beside %u jobs of %d contexts %u of one\n", of_many, CONTEXTS, of_one);
  assert_true(of_many < 2 * of_one);
}

/*
 * Beside another user only one of our contexts is at work at a time. One that has no jobs, since they are done, or have
 * ended before they began, keeps no other from its turn.
 */
static void contexts_without_jobs_take_no_turn(void **state) {
  enum { OTHERS = 4 };
  uint32_t standing = ctx_create_patient(fd, NULL), ended = ctx_create(fd), others[OTHERS];
  uint64_t first, last[OTHERS] = {0};
  struct process hog;
  struct stream stream;
  struct job job;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  first = submit_held(fd, standing, &job);
  contexts = 1;
  process_start(&hog, MALLORY, fd, fills_the_card);
  wait_cores_busy(fd);

  /* These wait for the one that stands still, and the first of them ends while it waits. */
  for (int i = 0; i < 3; i++) submit(fd, ended, &job);
  for (int i = 0; i < OTHERS; i++) {
    others[i] = ctx_create(fd);
    for (int n = 0; n < 3; n++) last[i] = submit(fd, others[i], &job);
  }
  ctx_destroy(fd, ended);
  held_go_on();
  wait_ok(fd, standing, first);
  for (int i = 0; i < OTHERS; i++) wait_ok(fd, others[i], last[i]);

  /* Each in its turn, while all others have nothing to do. */
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < OTHERS; i++) run_nop(fd, others[i]);
  process_kill(&hog);
  for (int i = 0; i < OTHERS; i++) ctx_destroy(fd, others[i]);
  ctx_destroy(fd, standing);
  stream_destroy(fd, &stream);
}

/* A user's job may take as long as it likes, also where the card is so slow that it would not begin. */
static int without_budget(void **state) {
  set_parameter("budget_ms", 0);
  return set_up(state);
}

static int with_budget(void **state) {
  set_parameter("budget_ms", DEFAULT_BUDGET_MS);
  return tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_user_does_not_keep_all_cores, short_limit, default_limit),
      cmocka_unit_test_setup_teardown(more_users_than_cores, short_limit, default_limit),
      cmocka_unit_test(contexts_are_no_share),
      cmocka_unit_test(contexts_without_jobs_take_no_turn),
  };

  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  return cmocka_run_group_tests_name("fairness", tests, without_budget, with_budget);
}
