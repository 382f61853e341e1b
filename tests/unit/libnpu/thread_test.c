/* SPDX-License-Identifier: MIT */
/* Many threads at once. CMocka's asserts work in its own thread only: threads return a text instead. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

enum { THREADS = 8, ROUNDS = 60 };

static npu_device *device;
static npu_context *shared;

#define TRY(call)                                                                        \
  do {                                                                                   \
    if (call) {                                                                          \
      snprintf(worker->error, sizeof(worker->error), "%s: %s", #call, npu_last_error()); \
      return;                                                                            \
    }                                                                                    \
  } while (0)

struct worker {
  pthread_t thread;
  int number;
  npu_context *context;
  char error[600];
};

static void copy_by_jobs(struct worker *worker) {
  enum { BYTES = 20000 };
  npu_bo *program = NULL, *src = NULL, *dst = NULL, *found = NULL;
  uint8_t *data = malloc(BYTES), *got = malloc(BYTES);
  struct npu_cmd_copy command = {.opcode = NPU_OP_COPY,
                                 .src_region = 2,
                                 .dst_region = 1,
                                 .src_dtype = NPU_DTYPE_U8,
                                 .dst_dtype = NPU_DTYPE_U8,
                                 .dims = {1, 1, 1, 1, 1, BYTES},
                                 .src_stride = {0, 0, 0, 0, 0, 1},
                                 .dst_stride = {0, 0, 0, 0, 0, 1}};
  struct npu_result result;
  uint64_t seqno;

  TRY(npu_bo_create(device, 4096, DRM_NPU_BO_SYSTEM, &program));
  TRY(npu_write(program, 0, &command, sizeof(command)));
  for (int round = 0; round < ROUNDS; round++) {
    TRY(npu_bo_create(device, BYTES, DRM_NPU_BO_CARD, &src));
    TRY(npu_bo_create(device, BYTES, round % 2 ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM, &dst));
    TRY(npu_bo_find(device, npu_bo_address(src) + 17, &found, NULL));
    npu_bo_unref(found);
    fill_pattern(data, BYTES, (unsigned int)(worker->number * 1000 + round));
    TRY(npu_write(src, 0, data, BYTES));
    struct npu_job_region regions[] = {{program, 0, 4096, DRM_NPU_REGION_READ, 0},
                                       {dst, 0, BYTES, DRM_NPU_REGION_WRITE, 0},
                                       {src, 0, BYTES, DRM_NPU_REGION_READ, 0}};
    struct drm_npu_stream stream = {.gdma_count = 1};
    struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 3, .stream_count = 1};
    TRY(npu_submit(worker->context, &job, 1, &seqno));
    TRY(npu_wait(worker->context, seqno, LONG_TIME, &result));
    if (result.error) {
      snprintf(worker->error, sizeof(worker->error), "round %d: job ended with %d", round, result.error);
      return;
    }
    TRY(npu_read(dst, 0, got, BYTES));
    if (memcmp(data, got, BYTES)) {
      snprintf(worker->error, sizeof(worker->error), "round %d: wrong bytes", round);
      return;
    }
    npu_bo_unref(src);
    npu_bo_unref(dst);
  }
  npu_bo_unref(program);
  free(data);
  free(got);
}

static void large_copies(struct worker *worker) {
  const size_t bytes = 1500000;
  uint8_t *data = malloc(bytes), *got = malloc(bytes);
  npu_bo *bo = NULL;

  TRY(npu_bo_create(device, bytes, DRM_NPU_BO_CARD, &bo));
  for (int round = 0; round < 6; round++) {
    fill_pattern(data, bytes, (unsigned int)(worker->number * 77 + round));
    TRY(npu_write(bo, 0, data, bytes));
    TRY(npu_read(bo, 0, got, bytes));
    if (memcmp(data, got, bytes)) {
      snprintf(worker->error, sizeof(worker->error), "round %d: wrong bytes", round);
      return;
    }
  }
  npu_bo_unref(bo);
  free(data);
  free(got);
}

static void open_and_close(struct worker *worker) {
  for (int round = 0; round < ROUNDS; round++) {
    npu_device *again = NULL;
    npu_context *context = NULL;
    struct drm_npu_memory_info info;
    TRY(npu_device_open(0, &again));
    TRY(npu_device_memory(again, &info));
    TRY(npu_context_create(again, DRM_NPU_PRIORITY_NORMAL, 0, &context));
    npu_context_destroy(context);
    npu_device_close(again);
  }
}

struct task {
  void (*run)(struct worker *);
  struct worker *worker;
};

static void *start(void *arg) {
  struct task *task = arg;

  task->run(task->worker);
  return NULL;
}

static void in_threads(void (*run)(struct worker *), bool own_contexts) {
  struct worker workers[THREADS];
  struct task tasks[THREADS];

  memset(workers, 0, sizeof(workers));
  for (int i = 0; i < THREADS; i++) {
    workers[i].number = i;
    workers[i].context = own_contexts ? must_context(device) : shared;
    tasks[i] = (struct task){run, &workers[i]};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, start, &tasks[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < THREADS; i++) {
    if (own_contexts) npu_context_destroy(workers[i].context);
    if (*workers[i].error) fail_msg("thread %d: %s", i, workers[i].error);
  }
}

static void jobs_in_contexts_of_their_own(void **state) {
  (void)state;
  in_threads(copy_by_jobs, true);
}

static void jobs_in_one_context(void **state) {
  (void)state;
  in_threads(copy_by_jobs, false);
}

static void copies_at_once(void **state) {
  (void)state;
  in_threads(large_copies, false);
}

static void devices_opened_and_closed_at_once(void **state) {
  (void)state;
  in_threads(open_and_close, false);
}

static int set_up(void **state) {
  (void)state;
  device = must_open();
  shared = must_context(device);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  npu_context_destroy(shared);
  npu_device_close(device);
  return 0;
}

int thread_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jobs_in_contexts_of_their_own),
      cmocka_unit_test(jobs_in_one_context),
      cmocka_unit_test(copies_at_once),
      cmocka_unit_test(devices_opened_and_closed_at_once),
  };
  return cmocka_run_group_tests_name("threads", tests, set_up, tear_down);
}
