/* SPDX-License-Identifier: MIT */
/*
 * Processes that try to monopolise the card, or to use objects that they have lost. isolation has attacks on memory.
 * Argument: contexts (10000); fewer contexts also reduce the other counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define HOGS 8
#define HOG_JOB_MS 40

static int rounds = 10000, bomb_jobs = 200;

/* Maximum of waiting jobs per context; then a submission blocks. */
#define FULL 64

/* Fills a context with jobs until killed. */
static void hog(uint32_t *submitted) {
  struct stream stream;
  struct job job;
  struct bo bo;
  uint32_t id;
  int file;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  file = npu_open();
  id = ctx_create(file);
  job_slow(file, HOG_JOB_MS, &stream, &bo, &job);
  for (;;) /* blocks when the context is full */
    if (!raw_submit(file, id, &job)) __atomic_add_fetch(submitted, 1, __ATOMIC_RELEASE);
}

/* Jobs finished by the card. */
static uint64_t jobs_done(void) {
  struct drm_npu_status_info info;
  uint64_t sum = 0;

  npu_status(fd, &info);
  for (int i = 0; i < DRM_NPU_MAX_CORES; i++) sum += info.jobs[i];
  return sum;
}

static void a_job_that_starves_the_others(void **state) {
  uint32_t *submitted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int64_t end = now_ms() + FOREVER_MS;
  uint64_t least = UINT64_MAX;
  pid_t pids[HOGS];

  (void)state;
  assert_true(submitted != MAP_FAILED);
  for (int i = 0; i < HOGS; i++) {
    pids[i] = fork();
    if (!pids[i]) hog(&submitted[i]);
    assert_true(pids[i] > 0);
  }
  for (int i = 0; i < HOGS; i++)
    while (__atomic_load_n(&submitted[i], __ATOMIC_ACQUIRE) < FULL) {
      assert_true(now_ms() < end);
      usleep(1000);
    }
  for (int i = 0; i < 10 && least >= HOGS * 8; i++) {
    uint64_t before = jobs_done(), others;

    run_nop(fd, ctx);
    others = jobs_done() - before;
    if (others < least) least = others;
  }
  for (int i = 0; i < HOGS; i++) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  munmap(submitted, 4096);
  printf("beside %d full contexts, a job waited for %llu others\n", HOGS, (unsigned long long)least);
  /*
   * Each context has FULL jobs waiting, which in submission order would all come first. Jobs that end before the
   * counters are read count as well, more of them on a busy host: one success in ten tries is enough.
   */
  assert_true(least < HOGS * 8);
}

static void contexts_beyond_the_queues_leave_nothing(void **state) {
  static uint32_t ids[8 * NPU_MAX_QUEUES];
  struct drm_npu_dev_info info;
  char before[USAGE_BYTES];
  uint32_t count;

  (void)state;
  npu_info(fd, &info);
  count = 8 * info.queues;
  usage_settle(1);
  usage_begin(before);
  for (int round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < count; i++) ids[i] = ctx_create(fd);
    for (uint32_t i = 0; i < count; i += 3) run_nop(fd, ids[i]);
    for (uint32_t i = 0; i < count; i++) ctx_destroy(fd, ids[i]);
  }
  usage_expect(before);
}

static void ten_thousand_contexts_in_turn(void **state) {
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int i = 0; i < rounds; i++) {
    uint32_t id = ctx_create(fd);

    if (i % 100 == 0) run_nop(fd, id);
    ctx_destroy(fd, id);
  }
  usage_expect(before);
}

/* Opens the node, creates a context if there is one left, submits, and forks until there are enough. */
static void bomb(int depth) {
  int file;
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct stream stream;
  struct job job;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < 2 && depth; i++) {
    if (fork()) continue;
    depth--;
    i = -1; /* the child continues like the first process */
  }
  if (npu_try_open(&file) && !raw_ctx_create(file, &args)) {
    stream_create(file, 1, &stream);
    stream_nop(&stream, 0);
    job_init(&job);
    job_gdma(&job, &stream);
    for (int i = 0; i < bomb_jobs; i++) raw_submit(file, args.ctx_id, &job);
  }
  while (wait(NULL) > 0) continue;
}

static void a_fork_bomb_of_submitters(void **state) {
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int round = 0; round < 2; round++) { /* one exits, one is killed */
    int64_t end = now_ms() + FOREVER_MS;
    uint64_t jobs = jobs_done();
    pid_t pid = fork();

    if (!pid) {
      bomb(5); /* 63 processes */
      _exit(0);
    }
    assert_true(pid > 0);
    while (jobs_done() - jobs < (unsigned)bomb_jobs) {
      assert_true(now_ms() < end);
      usleep(10000);
    }
    run_nop(fd, ctx); /* others still get their share */
    if (round) kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  usage_expect(before);
  run_nop(fd, ctx);
}

/* A buffer whose handle is closed while a job writes it; its successor gets the handle, but nothing of what the job
 * writes. */
static void reused_handles(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct drm_npu_wait wait;
  struct stream stream;
  struct bo old, new;
  struct job job;
  int reused = 0;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_fill(&stream, 1, 0, KIB(64), 0xee);
  for (int i = 0; i < 10; i++) {
    uint64_t seqno;

    bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &old);
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &old, RW);
    seqno = submit_held(fd, patient, &job);
    assert_int_equal(raw_gem_close(fd, old.handle), 0);
    bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &new);
    assert_int_equal(raw_wait(fd, patient, seqno, 0, &wait), -ETIME);
    reused += new.handle == old.handle;
    assert_int_not_equal(new.va, old.va);
    held_go_on();
    wait_ok(fd, patient, seqno);
    for (uint64_t k = 0; k < new.size; k++) assert_int_equal(new.map[k], 0);
    bo_destroy(fd, &new);
  }
  assert_true(reused > 0);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, patient);
}

static void stale_and_foreign_context_ids(void **state) {
  uint32_t id = ctx_create(fd), again;
  int other = npu_open();
  struct drm_npu_ctx_query query = {.ctx_id = id};
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  for (int i = 0; i < 5; i++) run_ok(fd, id, &job);

  /* Handle of another file. */
  assert_int_equal(raw_submit(other, id, &job), -ENOENT);
  assert_int_equal(raw_wait(other, id, 1, 0, &wait), -ENOENT);
  assert_int_equal(raw_ioctl(other, DRM_IOCTL_NPU_CTX_QUERY, &query), -ENOENT);
  assert_int_equal(raw_ctx_destroy(other, id), -ENOENT);
  assert_true(mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, (off_t)id << 12) == MAP_FAILED);
  assert_int_equal(errno, ENOENT);

  /* Handle of a destroyed context. */
  ctx_destroy(fd, id);
  assert_int_equal(raw_submit(fd, id, &job), -ENOENT);
  assert_int_equal(raw_wait(fd, id, 1, 0, &wait), -ENOENT);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &query), -ENOENT);
  assert_int_equal(raw_ctx_destroy(fd, id), -ENOENT);
  assert_true(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t)id << 12) == MAP_FAILED);

  /* A new context starts at number 1. */
  again = ctx_create(fd);
  assert_int_equal(again, id);
  ctx_query(fd, again, &query);
  assert_int_equal(query.submitted, 0);
  assert_int_equal(query.completed, 0);
  assert_int_equal(raw_wait(fd, again, 1, 0, &wait), -EINVAL);
  assert_int_equal(submit(fd, again, &job), 1);
  wait_ok(fd, again, 1);
  ctx_destroy(fd, again);
  stream_destroy(fd, &stream);
  close(other);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_that_starves_the_others),
      cmocka_unit_test(contexts_beyond_the_queues_leave_nothing),
      cmocka_unit_test(ten_thousand_contexts_in_turn),
      cmocka_unit_test(a_fork_bomb_of_submitters),
      cmocka_unit_test(reused_handles),
      cmocka_unit_test(stale_and_foreign_context_ids),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  if (rounds < bomb_jobs) bomb_jobs = 30;
  return cmocka_run_group_tests_name("attack", tests, set_up, tear_down);
}
