/* SPDX-License-Identifier: MIT */
/*
 * Users get equal shares of the cores, however many contexts and cores their jobs use. The tests count finished jobs,
 * not time.
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

/* State shared by the processes and the test. */
static struct {
  uint32_t stop;
  uint32_t ready; /* processes with all their jobs queued */
  uint32_t done[3];
} * shared;

static uint32_t contexts, job_ms;
static bool gang; /* jobs use two cores */

static void long_job(int file, uint32_t ms, struct stream *stream, struct bo *bo, struct job *job) {
  job_slow(file, ms, stream, bo, job);
  job->args.flags = DRM_NPU_JOB_EXPLICIT;
  job->args.budget = UINT64_MAX;
}

/* Keeps its contexts full of jobs until stopped, and counts finished ones. */
static int keeps_going(int socket) {
  uint32_t ids[CONTEXTS], mine = (uint32_t)getuid() - MALLORY;
  uint64_t last[CONTEXTS] = {0};
  struct drm_npu_stream streams[2];
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  struct bo bo;
  int file, line = 0;

  CHECK(npu_try_open(&file));
  long_job(file, job_ms, &stream, &bo, &job);
  if (gang) {
    streams[0] = streams[1] = job.stream;
    job.args.streams = (uintptr_t)streams;
    job.args.stream_count = 2;
  }
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

/* Two users at once, one of them with many contexts; counts their jobs until the one with a single context has `most`.
 */
static void count_jobs(uint32_t of_first, bool gangs, uint32_t most, uint32_t *many_done, uint32_t *one_done) {
  struct process many, one;
  int64_t end = now_ms() + 10 * FOREVER_MS;
  int line;

  memset(shared, 0, sizeof(*shared));
  job_ms = 20;
  contexts = of_first;
  gang = gangs;
  process_start(&many, MALLORY, fd, keeps_going);
  contexts = 1;
  gang = false;
  process_start(&one, MALLORY + 1, fd, keeps_going);
  do {
    usleep(1000);
    *many_done = __atomic_load_n(&shared->done[0], __ATOMIC_ACQUIRE);
    *one_done = __atomic_load_n(&shared->done[1], __ATOMIC_ACQUIRE);
    assert_true(now_ms() < end);
  } while (*one_done < most && *many_done < 10 * most);
  __atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
  assert_int_equal(read(many.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  assert_int_equal(read(one.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  process_kill(&many);
  process_kill(&one);
  printf("beside %u jobs of %u contexts%s %u of one\n", *many_done, of_first, gangs ? ", each on two cores," : "",
         *one_done);
}

/* A user's share does not depend on the number of contexts, within a factor of two. */
static void contexts_are_no_share(void **state) {
  uint32_t many, one;

  (void)state;
  count_jobs(16, false, 60, &many, &one);
  assert_true(many < 2 * one && one < 2 * many);
}

/* The same holds for contexts that share queue pairs. */
static void contexts_beyond_the_queues_are_no_share(void **state) {
  uint32_t many, one;

  (void)state;
  count_jobs(CONTEXTS, false, 40, &many, &one);
  assert_true(many < 2 * one);
}

/* Core time is shared: a job on two cores counts twice. */
static void jobs_on_two_cores_are_no_share(void **state) {
  uint32_t many, one;

  (void)state;
  count_jobs(30, true, 60, &many, &one);
  assert_true(many < 3 * one / 2);
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
