/* SPDX-License-Identifier: MIT */
/* BMLIB: launches as the runtime records them, and the calls that wait for them. */
#include <errno.h>
#include <npu_bm_internal.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

static bm_handle_t handle;
static npu_device *device;
static npu_bo *bo;
static struct program good, bad, late, slow; /* late: its second command is bad */

#define OK(call) assert_int_equal(call, BM_SUCCESS)

static void quiet(const char *tag, int level, const char *fmt, va_list args) {
  (void)tag;
  (void)level;
  (void)fmt;
  (void)args;
}

static int set_up(void **state) {
  (void)state;
  bmlib_log_set_callback(quiet);
  if (bm_dev_request(&handle, 0)) return 1;
  device = must_open();
  bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  program_init(&good, device);
  program_copy(&good, 0, 1024, 64);
  ((struct npu_cmd_copy *)good.commands)->src_region = 1;
  program_init(&bad, device);
  program_gdma(&bad, 0x7f);
  program_init(&late, device);
  program_copy(&late, 0, 1024, 64);
  ((struct npu_cmd_copy *)late.commands)->src_region = 1;
  program_gdma(&late, 0x7f);
  program_init(&slow, device);
  program_long(&slow, MIB / 4); /* waited for to its end, also under a sanitizer */
  program_flush(&good);
  program_flush(&bad);
  program_flush(&late);
  program_flush(&slow);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  program_free(&good);
  program_free(&bad);
  program_free(&late);
  program_free(&slow);
  npu_bo_unref(bo);
  npu_device_close(device);
  bm_dev_free(handle);
  bmlib_log_set_callback(NULL);
  return 0;
}

static int launch_on(bm_handle_t h, const struct program *p, void (*release)(void *), void *arg) {
  npu_context *context = NULL;
  uint64_t seqno;
  struct npu_job_region regions[] = {{p->bo, 0, npu_bo_size(p->bo), DRM_NPU_REGION_READ, 0},
                                     {bo, 0, npu_bo_size(bo), DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE, 0}};
  struct drm_npu_stream stream = {.gdma_count = p->gdma_count};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 2, .stream_count = 1};
  int err = npu_bm_thread_context(h, &context);

  if (!err) err = npu_submit(context, &job, 1, &seqno);
  return err ? err : npu_bm_record_release(h, context, seqno, release, arg);
}

static void launch(const struct program *p) { MUST(launch_on(handle, p, NULL, NULL)); }

static void count_up(void *arg) { __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST); }

static void nothing_launched_is_success_at_once(void **state) {
  (void)state;
  OK(bm_thread_sync(handle));
  OK(bm_handle_sync(handle));
  OK(bm_device_sync(handle));
}

static void the_handle_gives_its_device_and_one_context_a_thread(void **state) {
  npu_device *same = NULL;
  npu_context *a = NULL, *b = NULL;

  (void)state;
  MUST(npu_bm_device(handle, &same));
  assert_ptr_equal(same, device);
  MUST(npu_bm_thread_context(handle, &a));
  MUST(npu_bm_thread_context(handle, &b));
  assert_ptr_equal(a, b);
  assert_int_equal(npu_bm_device((bm_handle_t)5, &same), -EINVAL);
}

static void a_sync_waits_and_reports_the_first_error_once(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) launch(&good);
  OK(bm_thread_sync(handle));
  launch(&good);
  launch(&bad);
  launch(&good);
  assert_int_equal(bm_thread_sync(handle), BM_ERR_FAILURE);
  assert_text(npu_last_error(), "GDMA command 0: opcode or sub-operation unknown");
  OK(bm_thread_sync(handle));
  launch(&good);
  OK(bm_thread_sync(handle));
}

static void an_error_is_not_lost_among_many_launches(void **state) {
  (void)state;
  launch(&bad);
  for (int i = 0; i < 600; i++) launch(&good);
  assert_int_equal(bm_thread_sync(handle), BM_ERR_FAILURE);
  OK(bm_thread_sync(handle));
}

static void releases_are_called_once_each(void **state) {
  int released = 0;

  (void)state;
  for (int i = 0; i < 100; i++) MUST(launch_on(handle, &good, count_up, &released));
  OK(bm_thread_sync(handle));
  assert_int_equal(released, 100);
  for (int i = 0; i < 5; i++) MUST(launch_on(handle, i % 2 ? &good : &bad, count_up, &released));
  int reaped = 0, n;
  while ((n = npu_bm_reap(handle, true)) > 0) reaped += n;
  assert_int_equal(reaped, 5);
  assert_int_equal(released, 105);
  /* Reaping is not syncing: the error is still there. */
  assert_int_equal(bm_thread_sync(handle), BM_ERR_FAILURE);
  assert_int_equal(npu_bm_reap(handle, true), 0);
}

static void a_timeout_is_forgotten(void **state) {
  bm_status_t status = BM_SUCCESS;

  (void)state;
  /* As much work as it takes: this thread may get no processor for longer than some of it lasts. */
  OK(bm_set_sync_timeout(handle, 1));
  for (int launches = 1; status == BM_SUCCESS && launches <= 256; launches *= 2) {
    for (int i = 0; i < launches; i++) launch(&slow);
    status = bm_thread_sync(handle);
  }
  assert_int_equal(status, BM_ERR_TIMEOUT);
  assert_text(npu_last_error(), "unfinished after 1 ms");
  OK(bm_set_sync_timeout(handle, 0));
  OK(bm_thread_sync(handle));
  launch(&good);
  OK(bm_thread_sync(handle));
}

struct thread_job {
  const struct program *program;
  bool sync;
  int launched;
  bm_status_t status;
  npu_context *context;
};

static void *launch_in_thread(void *arg) {
  struct thread_job *job = arg;

  job->launched = launch_on(handle, job->program, NULL, NULL);
  npu_bm_thread_context(handle, &job->context);
  job->status = job->sync ? bm_thread_sync(handle) : BM_SUCCESS;
  return NULL;
}

static void in_a_thread(struct thread_job *job) {
  pthread_t thread;

  assert_int_equal(pthread_create(&thread, NULL, launch_in_thread, job), 0);
  pthread_join(thread, NULL);
  assert_int_equal(job->launched, 0);
}

static void each_thread_hears_of_its_own_errors(void **state) {
  struct thread_job failing = {.program = &bad, .sync = true}, fine = {.program = &good, .sync = true};

  (void)state;
  launch(&good);
  in_a_thread(&failing);
  in_a_thread(&fine);
  assert_int_equal(failing.status, BM_ERR_FAILURE);
  assert_int_equal(fine.status, BM_SUCCESS);
  OK(bm_thread_sync(handle));
}

static void a_handle_sync_hears_of_all_threads(void **state) {
  struct thread_job left = {.program = &bad};

  (void)state;
  in_a_thread(&left); /* ends without a sync */
  OK(bm_thread_sync(handle));
  assert_int_equal(bm_handle_sync(handle), BM_ERR_FAILURE);
  OK(bm_handle_sync(handle));
  in_a_thread(&left);
  assert_int_equal(bm_device_sync(handle), BM_ERR_FAILURE);
  OK(bm_device_sync(handle));
  in_a_thread(&left);
  bm_flush(handle); /* has met that failure */
  OK(bm_handle_sync(handle));
  launch(&bad);
  assert_int_equal(bm_handle_sync(handle), BM_ERR_FAILURE);
  OK(bm_thread_sync(handle)); /* it was this thread's, and was reported */
}

struct lasting_thread {
  const struct program *program;
  sem_t launched, go_on;
  int error;
  bm_status_t status;
  char text[600];
};

static void *launch_and_stay(void *arg) {
  struct lasting_thread *thread = arg;

  thread->error = launch_on(handle, thread->program, NULL, NULL);
  sem_post(&thread->launched);
  sem_wait(&thread->go_on);
  thread->status = bm_thread_sync(handle);
  snprintf(thread->text, sizeof(thread->text), "%s", npu_last_error());
  return NULL;
}

/* A sync of the handle reports the first error of threads that live, once; each still gets its own. */
static void errors_of_living_threads_are_reported_once_to_others(void **state) {
  struct lasting_thread lasting[2] = {{.program = &bad}, {.program = &late}};
  pthread_t threads[2];

  (void)state;
  for (int i = 0; i < 2; i++) {
    sem_init(&lasting[i].launched, 0, 0);
    sem_init(&lasting[i].go_on, 0, 0);
    assert_int_equal(pthread_create(&threads[i], NULL, launch_and_stay, &lasting[i]), 0);
    sem_wait(&lasting[i].launched);
    assert_int_equal(lasting[i].error, 0);
  }
  assert_int_equal(bm_handle_sync(handle), BM_ERR_FAILURE);
  assert_text(npu_last_error(), "GDMA command 0");
  OK(bm_handle_sync(handle));
  for (int i = 0; i < 2; i++) {
    sem_post(&lasting[i].go_on);
    pthread_join(threads[i], NULL);
    assert_int_equal(lasting[i].status, BM_ERR_FAILURE);
    assert_text(lasting[i].text, i ? "GDMA command 1" : "GDMA command 0");
  }
}

enum { MANY = 40 };

static void *launch_often(void *arg) {
  int *failures = arg;

  for (int i = 0; i < 30; i++) {
    if (launch_on(handle, &good, NULL, NULL) || bm_thread_sync(handle))
      __atomic_add_fetch(failures, 1, __ATOMIC_SEQ_CST);
  }
  return NULL;
}

static void more_threads_than_contexts(void **state) {
  pthread_t threads[MANY];
  int failures = 0;

  (void)state;
  for (int i = 0; i < MANY; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &failures), 0);
  for (int i = 0; i < MANY; i++) pthread_join(threads[i], NULL);
  assert_int_equal(failures, 0);
  OK(bm_handle_sync(handle));
}

/* The driver's contexts share queues; where each takes one, as those of the simulated card, threads share a context. */
static void a_card_without_a_free_queue_shares_contexts(void **state) {
  const bool sim = !strcmp(npu_device_transport(device), "sim");
  struct thread_job job = {.program = &good, .sync = true};
  struct drm_npu_dev_info info;
  npu_context *mine = NULL, **all;
  uint32_t count = 0;

  (void)state;
  MUST(npu_device_info(device, &info));
  MUST(npu_bm_thread_context(handle, &mine));
  all = calloc(info.queues + 1, sizeof(*all));
  while (count <= info.queues && !npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &all[count])) count++;
  in_a_thread(&job);
  assert_int_equal(job.status, BM_SUCCESS);
  assert_int_equal(job.context == mine, sim);
  while (count) npu_context_destroy(all[--count]);
  free(all);
}

static void freeing_a_handle_waits_for_its_launches(void **state) {
  bm_handle_t other = NULL;
  int released = 0;

  (void)state;
  OK(bm_dev_request(&other, 0));
  for (int i = 0; i < 20; i++) MUST(launch_on(other, &good, count_up, &released));
  bm_dev_free(other);
  assert_int_equal(released, 20);
}

static void a_reference_outlives_the_handle(void **state) {
  bm_handle_t other = NULL;
  npu_context *context = NULL;
  int released = 0;

  (void)state;
  OK(bm_dev_request(&other, 0));
  MUST(npu_bm_ref(other));
  bm_dev_free(other);
  assert_int_equal(bm_thread_sync(other), BM_ERR_PARAM);
  MUST(npu_bm_thread_context(other, &context));
  MUST(launch_on(other, &good, count_up, &released));
  npu_bm_unref(other);
  assert_int_equal(released, 1);
  assert_int_equal(npu_bm_thread_context(other, &context), -EINVAL);
}

enum { HOLDERS = 8, HOLDS = 20000 };

static void *hold_often(void *arg) {
  for (int i = 0; i < HOLDS; i++)
    if (npu_bm_ref(arg)) return arg;
  for (int i = 0; i < HOLDS - 1; i++) npu_bm_unref(arg);
  return NULL;
}

/* Each thread keeps one reference: the freed handle lives until the last of exactly so many goes. */
static void references_are_counted_by_many_threads(void **state) {
  pthread_t threads[HOLDERS];
  bm_handle_t other = NULL;
  npu_device *same = NULL;
  void *failed;

  (void)state;
  OK(bm_dev_request(&other, 0));
  for (int i = 0; i < HOLDERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, hold_often, other), 0);
  for (int i = 0; i < HOLDERS; i++) {
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  bm_dev_free(other);
  for (int i = 0; i < HOLDERS; i++) {
    MUST(npu_bm_device(other, &same));
    npu_bm_unref(other);
  }
  assert_int_equal(npu_bm_device(other, &same), -EINVAL);
}

static void *request_and_free(void *arg) {
  int *failures = arg;
  bm_handle_t mine = NULL;

  for (int i = 0; i < 300; i++) {
    if (bm_dev_request(&mine, 0) || bm_get_devid(mine) != 0 || bm_thread_sync(handle))
      __atomic_add_fetch(failures, 1, __ATOMIC_SEQ_CST);
    bm_dev_free(mine);
    if (bm_thread_sync(mine) != BM_ERR_PARAM) __atomic_add_fetch(failures, 1, __ATOMIC_SEQ_CST);
  }
  return NULL;
}

static void handles_come_and_go_in_many_threads(void **state) {
  pthread_t threads[HOLDERS];
  int failures = 0;

  (void)state;
  for (int i = 0; i < HOLDERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, request_and_free, &failures), 0);
  for (int i = 0; i < HOLDERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(failures, 0);
}

int bm_launch_tests(void) {
#define LAUNCH_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      LAUNCH_TEST(nothing_launched_is_success_at_once),
      LAUNCH_TEST(the_handle_gives_its_device_and_one_context_a_thread),
      LAUNCH_TEST(a_sync_waits_and_reports_the_first_error_once),
      LAUNCH_TEST(an_error_is_not_lost_among_many_launches),
      LAUNCH_TEST(releases_are_called_once_each),
      LAUNCH_TEST(a_timeout_is_forgotten),
      LAUNCH_TEST(each_thread_hears_of_its_own_errors),
      LAUNCH_TEST(a_handle_sync_hears_of_all_threads),
      LAUNCH_TEST(errors_of_living_threads_are_reported_once_to_others),
      LAUNCH_TEST(more_threads_than_contexts),
      LAUNCH_TEST(a_card_without_a_free_queue_shares_contexts),
      LAUNCH_TEST(freeing_a_handle_waits_for_its_launches),
      LAUNCH_TEST(a_reference_outlives_the_handle),
      LAUNCH_TEST(references_are_counted_by_many_threads),
      LAUNCH_TEST(handles_come_and_go_in_many_threads),
  };
  return cmocka_run_group_tests_name("bm_launch", tests, NULL, NULL);
}
