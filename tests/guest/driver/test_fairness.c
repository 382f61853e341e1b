/* SPDX-License-Identifier: MIT */
/*
 * Users get equal shares of the cores, however many contexts and cores their jobs use. The tests compare the cycles
 * that the card has spent on each user.
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
#define CONTEXTS 100
#define QUEUED 8
#define JOB_MS 20
/* Jobs of the single context: seconds of work, so that its queue is never empty. */
#define QUEUED_ALONE 48
#define JOB_MS_ALONE 60

/* State shared by the processes and the test. */
static struct {
  uint32_t stop;
  uint32_t ready; /* processes with all their jobs queued */
  uint32_t done[2];
} * shared;

static uint32_t contexts, job_ms;
static int user_file; /* of the next process */
static bool gang;     /* jobs use two cores */

static void long_job(int file, uint32_t ms, struct stream *stream, struct bo *bo, struct job *job) {
  job_slow(file, ms, stream, bo, job);
  job->args.flags = DRM_NPU_JOB_EXPLICIT;
  job->args.budget = UINT64_MAX;
}

/* Keeps its contexts full of jobs until stopped, and counts finished ones. */
static int keeps_going(int socket) {
  uint32_t ids[CONTEXTS], mine = (uint32_t)getuid() - MALLORY, queued = contexts > 1 ? QUEUED : QUEUED_ALONE;
  uint64_t last[CONTEXTS] = {0};
  struct drm_npu_stream streams[2];
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  struct bo bo;
  int file = user_file, line = 0;

  long_job(file, job_ms, &stream, &bo, &job);
  if (gang) {
    streams[0] = streams[1] = job.stream;
    job.args.streams = (uintptr_t)streams;
    job.args.stream_count = 2;
  }
  for (uint32_t i = 0; i < contexts; i++) {
    ids[i] = ctx_create(file);
    for (uint32_t n = 0; n < queued; n++) last[i] = submit(file, ids[i], &job);
  }
  CHECK(write(socket, &line, sizeof(line)) == sizeof(line));
  __atomic_add_fetch(&shared->ready, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
    for (uint32_t i = 0; i < contexts; i++) {
      while (raw_wait(file, ids[i], last[i] - queued + 1, 0, &wait) != -ETIME) {
        CHECK(!wait.error);
        if (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) == 2)
          __atomic_add_fetch(&shared->done[mine], 1, __ATOMIC_RELEASE);
        last[i] = submit(file, ids[i], &job);
      }
    }
    usleep(1000);
  }
  return 0;
}

/* Returns the cycles of a file's finished jobs, summed over all cores. */
static uint64_t cycles_of(int file) {
  struct drm_npu_dev_info info;
  uint64_t cycles = 0;
  char key[32];

  npu_info(file, &info);
  for (uint32_t core = 0; core < info.cores; core++) {
    snprintf(key, sizeof(key), "qnpu-cycles-core%u", core);
    cycles += fdinfo_number(file, key);
  }
  return cycles;
}

static uint32_t jobs_of(int user) { return __atomic_load_n(&shared->done[user], __ATOMIC_ACQUIRE); }

/* Two users at once, one of them with many contexts; counts their cycles until the one with a single context has heard
 * of `most` jobs. */
static void count_cycles(uint32_t of_first, bool gangs, uint32_t most, uint64_t *of_many, uint64_t *of_one) {
  int files[2] = {npu_open(), npu_open()}, line;
  int64_t end = now_ms() + 10 * FOREVER_MS;
  struct process many, one;

  memset(shared, 0, sizeof(*shared));
  job_ms = JOB_MS;
  contexts = of_first;
  gang = gangs;
  user_file = files[0];
  process_start(&many, MALLORY, fd, keeps_going);
  user_file = files[1];
  job_ms = JOB_MS_ALONE;
  contexts = 1;
  gang = false;
  process_start(&one, MALLORY + 1, fd, keeps_going);
  *of_many = cycles_of(files[0]);
  *of_one = cycles_of(files[1]);
  while (jobs_of(1) < most && jobs_of(0) < 30 * most) {
    usleep(1000);
    assert_true(now_ms() < end);
  }
  *of_many = cycles_of(files[0]) - *of_many;
  *of_one = cycles_of(files[1]) - *of_one;
  __atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
  assert_int_equal(read(many.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  assert_int_equal(read(one.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  process_kill(&many);
  process_kill(&one);
  close(files[0]);
  close(files[1]);
  printf("beside %llu kilocycles of %u contexts%s %llu of one\n", (unsigned long long)*of_many / 1000, of_first,
         gangs ? ", each on two cores," : "", (unsigned long long)*of_one / 1000);
}

/* A user's share does not depend on the number of contexts, within a factor of two. */
static void contexts_are_no_share(void **state) {
  uint64_t many, one;

  (void)state;
  count_cycles(16, false, 20, &many, &one);
  assert_true(many < 2 * one && one < 2 * many);
}

/* The same holds for contexts that share queue pairs. */
static void contexts_beyond_the_queues_are_no_share(void **state) {
  uint64_t many, one;

  (void)state;
  count_cycles(CONTEXTS, false, 20, &many, &one);
  assert_true(many < 2 * one);
}

/* A job on two cores spends twice the cycles. */
static void jobs_on_two_cores_are_no_share(void **state) {
  uint64_t many, one;

  (void)state;
  count_cycles(30, true, 20, &many, &one);
  assert_true(many < 3 * one);
}

static int set_up_shared(void **state) {
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return shared == MAP_FAILED ? -1 : set_up(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_are_no_share),
      cmocka_unit_test(contexts_beyond_the_queues_are_no_share),
      cmocka_unit_test(jobs_on_two_cores_are_no_share),
  };

  return cmocka_run_group_tests_name("fairness", tests, set_up_shared, tear_down);
}
