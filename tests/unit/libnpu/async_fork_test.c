/* SPDX-License-Identifier: MIT */
/* Asynchronous launches and fork(): a child has no part in its parent's queue. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/libnpu/groups.h"

static void note(void *arg, const struct npu_completion *completion) {
  int *calls = arg;

  if (!completion->error) ++*calls;
}

/* Exit status: the first thing that is wrong. */
static int in_child(npu_async *queue, npu_context *context, const struct npu_job_desc *job) {
  if (npu_async_submit(queue, context, job, 1, note, NULL) != -EINVAL) return 1;
  if (npu_async_process(queue, 0, -1) != -EINVAL) return 2;
  npu_async_destroy(queue);
  return 0;
}

static void a_forked_child_leaves_the_queue_alone(void **state) {
  npu_device *device = must_open();
  npu_context *context = must_context(device);
  struct drm_npu_stream stream = {0};
  const struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  npu_async *queue = NULL;
  int calls = 0, status = -1;
  pid_t pid;

  (void)state;
  MUST(npu_async_create(device, NPU_ASYNC_AUTO, &queue));
  for (int i = 0; i < 100; i++) MUST(npu_async_submit(queue, context, &job, 1, note, &calls));
  pid = fork();
  assert_true(pid >= 0);
  if (!pid) _exit(in_child(queue, context, &job));
  while (npu_async_unfinished(queue)) assert_true(npu_async_process(queue, 0, LONG_TIME) > 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  for (int i = 0; i < 100; i++) MUST(npu_async_submit(queue, context, &job, 1, note, &calls));
  while (npu_async_unfinished(queue)) assert_true(npu_async_process(queue, 0, LONG_TIME) > 0);
  assert_int_equal(calls, 200);
  npu_async_destroy(queue);
  npu_context_destroy(context);
  npu_device_close(device);
}

int async_fork_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_forked_child_leaves_the_queue_alone),
  };
  return cmocka_run_group_tests_name("async_fork", tests, NULL, NULL);
}
