/* SPDX-License-Identifier: MIT */
/* Many of everything, and many at once. Argument: how many buffers (10000). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int rounds = 10000;

static void buffers_come_and_go(void **state) {
  char before[USAGE_BYTES];
  struct bo bo[16];
  uint32_t random = 1;

  (void)state;
  usage_begin(before);
  for (int i = 0; i < 16; i++) bo_create(fd, 4096, DRM_NPU_BO_CARD, &bo[i]);
  for (int i = 0; i < rounds; i++) {
    struct bo *one = &bo[i % 16];

    random = random * 1103515245 + 12345;
    bo_destroy(fd, one);
    bo_create(fd, 1 + (random >> 8) % KIB(64), random & 0x40 ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM, one);
  }
  for (int i = 0; i < 16; i++) bo_destroy(fd, &bo[i]);
  usage_expect(before);
}

static void contexts_come_and_go(void **state) {
  (void)state;
  for (int i = 0; i < rounds / 20; i++) {
    uint32_t id = ctx_create(fd);

    run_nop(fd, id);
    ctx_destroy(fd, id);
  }
}

/* Threads on one file report by return value: only the main thread may fail a test. */
static volatile int stop;
/* Successful operations of each of the interfering threads. */
static unsigned long done[4];

static void *create_and_close(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;

  for (long errors = 0;;) {
    struct bo bo;
    void *map;

    if (stop) return (void *)errors;
    if (raw_bo_create(fd, 4096 * (1 + rand_r(&seed) % 64), 1 + (rand_r(&seed) & 1), &bo)) {
      errors++;
      continue;
    }
    map = mmap(NULL, bo.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, bo.mmap_offset);
    if (map == MAP_FAILED) {
      errors++;
    } else {
      *(volatile char *)map = 1;
      munmap(map, bo.size);
    }
    if (raw_gem_close(fd, bo.handle)) errors++;
  }
}

static int shared_file;

/* Closes, seals and queries random handles: other threads' calls may only fail cleanly. */
static void *meddle(void *arg) {
  unsigned long *closed = arg;
  int other = shared_file;
  unsigned seed = 5;

  while (!stop) {
    struct drm_npu_bo_info info = {.handle = rand_r(&seed) % 32};

    raw_ioctl(other, DRM_IOCTL_NPU_BO_INFO, &info);
    raw_bo_seal(other, info.handle);
    if (!raw_gem_close(other, rand_r(&seed) % 32)) __atomic_add_fetch(closed, 1, __ATOMIC_RELAXED);
    raw_ctx_destroy(other, rand_r(&seed) % 8);
  }
  return NULL;
}

static void *submit_and_wait(void *arg) {
  unsigned long *submitted = arg;
  int own = shared_file;
  unsigned seed = 9;

  while (!stop) {
    struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
    struct drm_npu_wait wait;
    struct bo a, b;
    struct job job;

    if (raw_ctx_create(own, &args)) continue;
    if (raw_bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &a)) continue;
    if (!raw_bo_create(own, 65536, DRM_NPU_BO_CARD, &b)) {
      job_init(&job);
      job_region(&job, &a, DRM_NPU_REGION_READ);
      job_region(&job, &b, RW);
      job.stream.gdma_count = 1; /* zeros: BAD_OPCODE */
      for (int i = 0; i < 20; i++) {
        if (raw_submit(own, args.ctx_id, &job)) break;
        __atomic_add_fetch(submitted, 1, __ATOMIC_RELAXED);
        if (rand_r(&seed) & 1) raw_wait(own, args.ctx_id, job.args.seqno, 1000, &wait);
      }
      raw_gem_close(own, b.handle);
    }
    raw_gem_close(own, a.handle);
    raw_ctx_destroy(own, args.ctx_id);
  }
  return NULL;
}

static void threads_share_a_file(void **state) {
  char before[USAGE_BYTES];
  pthread_t threads[4];
  void *errors;

  (void)state;
  usage_begin(before);
  stop = 0;
  for (uintptr_t i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, create_and_close, (void *)(i + 1)), 0);
  for (int i = 0; i < rounds / 20; i++) run_nop(fd, ctx);
  stop = 1;
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], &errors);
    assert_int_equal((intptr_t)errors, 0);
  }
  usage_expect(before);
}

/* A thread whose first call needs the file's address space. */
struct beginner {
  pthread_t thread;
  pthread_barrier_t *barrier;
  int fd;
  int error;
  struct bo bo;
};

static void *begin(void *arg) {
  struct beginner *self = arg;

  pthread_barrier_wait(self->barrier);
  self->error = raw_bo_create(self->fd, KIB(64), DRM_NPU_BO_SYSTEM, &self->bo);
  return NULL;
}

/* Buffers of a file's concurrent first calls are in one address space: a single job can use them all. */
static void first_calls_of_a_file_come_at_once(void **state) {
  (void)state;
  for (int i = 0; i < rounds / 20; i++) {
    struct beginner beginners[3] = {0};
    const unsigned int n = sizeof(beginners) / sizeof(beginners[0]);
    pthread_barrier_t barrier;
    struct stream stream;
    struct job job;
    int own = npu_open();

    assert_int_equal(pthread_barrier_init(&barrier, NULL, n), 0);
    for (unsigned int t = 0; t < n; t++) {
      beginners[t].barrier = &barrier;
      beginners[t].fd = own;
      assert_int_equal(pthread_create(&beginners[t].thread, NULL, begin, &beginners[t]), 0);
    }
    for (unsigned int t = 0; t < n; t++) pthread_join(beginners[t].thread, NULL);
    stream_create(own, 1, &stream);
    stream_nop(&stream, 0);
    job_init(&job);
    job_gdma(&job, &stream);
    for (unsigned int t = 0; t < n; t++) {
      assert_int_equal(beginners[t].error, 0);
      job_region(&job, &beginners[t].bo, RW);
    }
    run_ok(own, ctx_create(own), &job);
    bo_unmap(&stream.bo);
    pthread_barrier_destroy(&barrier);
    close(own);
  }
}

static bool all_have_done_some(void) {
  for (int i = 0; i < 4; i++)
    if (__atomic_load_n(&done[i], __ATOMIC_RELAXED) < 10) return false;
  return true;
}

static void threads_destroy_what_others_use(void **state) {
  void *(*const what[4])(void *) = {submit_and_wait, submit_and_wait, meddle, meddle};
  char before[USAGE_BYTES];
  int64_t end = now_ms() + FOREVER_MS;
  pthread_t threads[4];
  int own = npu_open();

  (void)state;
  usage_begin(before);
  stop = 0;
  shared_file = own;
  memset(done, 0, sizeof(done));
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, what[i], &done[i]), 0);
  for (int i = 0; i < rounds / 20 || (!all_have_done_some() && now_ms() < end); i++) run_nop(fd, ctx);
  stop = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("two threads submitted %lu and %lu jobs, two closed %lu and %lu buffers under them\n", done[0], done[1],
         done[2], done[3]);
  assert_true(all_have_done_some());
  close(own);
  usage_expect(before);
  run_nop(fd, ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_come_and_go),
      cmocka_unit_test(contexts_come_and_go),
      cmocka_unit_test(threads_share_a_file),
      cmocka_unit_test(first_calls_of_a_file_come_at_once),
      cmocka_unit_test(threads_destroy_what_others_use),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("stress", tests, set_up, tear_down);
}
