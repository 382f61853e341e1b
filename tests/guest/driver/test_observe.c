/* SPDX-License-Identifier: MIT */
/* What the driver lets others see: trace events, sysfs, hwmon, fdinfo, debugfs. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "npu_raw.h"
#include "trace.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd;
static uint32_t ctx;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ctx_destroy(fd, ctx);
  return close(fd);
}

/* Trace events */

static const char *must_find(const char *from, const char *a, const char *b, const char *c) {
  const char *line = trace_find(from, a, b, c);

  if (!line) fail_msg("no event '%s %s %s' in:\n%s", a, b ? b : "", c ? c : "", from);
  return line;
}

static void one_job_is_followed_from_submission_to_completion(void **state) {
  static const char *const events[] = {"npu", "gpu_scheduler", "dma_fence/dma_fence_signaled"};
  char seqno[32], fence[64], sched_context[64], fence_context[64], id[32];
  const char *submit_line, *run, *done, *signalled;
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  char *text;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);

  trace_begin(events, COUNT(events));
  submit(fd, ctx, &job);
  wait_result(fd, ctx, job.args.seqno, &wait);
  usleep(100000); /* what the scheduler does after the job */
  text = trace_end();

  snprintf(seqno, sizeof(seqno), ":%llu sched=", (unsigned long long)job.args.seqno);
  snprintf(id, sizeof(id), "ctx=%u ", ctx);
  submit_line = must_find(text, "npu_job_submit:", seqno, id);
  assert_int_equal(trace_number(submit_line, "regions="), 1);
  snprintf(fence, sizeof(fence), "fence=%llu:%llu ", trace_number(submit_line, "fence="), (unsigned long long)job.args.seqno);

  /* The scheduler's own events come between ours. */
  run = must_find(submit_line, "npu_job_run:", fence, "error=0");
  assert_non_null(trace_find(submit_line, "drm_sched_job", NULL, NULL));
  assert_int_equal(trace_number(run, "queue="), trace_number(submit_line, "queue="));
  done = must_find(run, "npu_job_done:", fence, "status=0 error=0");
  assert_int_equal(trace_number(done, "cycles="), wait.cycles);
  assert_int_equal(trace_number(done, "queue="), trace_number(run, "queue="));

  /* Both fences: the card's and the scheduler's, which syncobjs and buffers have. */
  snprintf(fence_context, sizeof(fence_context), "context=%llu ", trace_number(submit_line, "fence="));
  signalled = must_find(done, "dma_fence_signaled:", "driver=npu", fence_context);
  assert_int_equal(trace_number(signalled, "seqno="), job.args.seqno);
  snprintf(sched_context, sizeof(sched_context), "context=%llu ", trace_number(submit_line, "sched="));
  must_find(signalled, "dma_fence_signaled:", sched_context, NULL);
  free(text);
  stream_destroy(fd, &stream);
}

static void failures_and_waits_are_told(void **state) {
  static const char *const events[] = {"npu"};
  uint32_t syncobj = syncobj_create(fd);
  struct drm_npu_wait wait;
  struct stream stream;
  struct job bad, follower;
  const char *line;
  char fence[64];
  char *text;

  (void)state;
  calibrate(fd, ctx);
  stream_create(fd, 2, &stream);
  job_init(&bad);
  job_gdma(&bad, &stream);
  job_region(&bad, &stream.bo, RW);
  stream_slow_copy(&stream, 1, 100);
  stream_fill(&stream, 1, 0, 1 << 20, 0); /* beyond the region */
  bad.stream.gdma_count = 2;
  job_out(&bad, syncobj, 0);
  follower = bad;
  follower.args.out_sync_count = 0;
  follower.args.regions = (uintptr_t)follower.regions;
  follower.args.streams = (uintptr_t)&follower.stream;
  follower.args.in_syncs = (uintptr_t)follower.in;
  follower.args.out_syncs = (uintptr_t)follower.out;
  job_in(&follower, syncobj, 0);

  trace_begin(events, COUNT(events));
  submit(fd, ctx, &bad);
  submit(fd, ctx, &follower);
  wait_result(fd, ctx, follower.args.seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  text = trace_end();

  snprintf(fence, sizeof(fence), ":%llu ", (unsigned long long)bad.args.seqno);
  line = must_find(text, "npu_job_done:", fence, "error=-5");
  assert_int_equal(trace_number(line, "status="), NPU_STATUS_REGION_BOUNDS);
  snprintf(fence, sizeof(fence), ":%llu ", (unsigned long long)follower.args.seqno);
  must_find(text, "npu_job_wait:", fence, "waits for");
  must_find(line, "npu_job_run:", fence, "error=-125");
  must_find(line, "npu_job_done:", fence, "error=-125");
  free(text);
  stream_destroy(fd, &stream);
  syncobj_destroy(fd, syncobj);
}

static void life_of_a_buffer_is_told(void **state) {
  static const char *const events[] = {"npu"};
  const char *create, *unmap, *done;
  char address[48], ticket[32];
  struct bo bo;
  char *text;

  (void)state;
  trace_begin(events, COUNT(events));
  bo_create(fd, KIB(12), DRM_NPU_BO_CARD, &bo);
  assert_int_equal(raw_gem_close(fd, bo.handle), 0);
  text = trace_end();

  create = must_find(text, "npu_bo_create:", "size=12288 flags=0x1", NULL);
  must_find(text, "npu_bo_move:", "size=12288", "to=2");
  snprintf(address, sizeof(address), "va=%#llx bytes=0x3000", (unsigned long long)bo.va);
  must_find(create, "npu_invalidate:", address, NULL);
  unmap = must_find(strchr(create, '\n') + 1, "npu_invalidate:", NULL, NULL);
  snprintf(ticket, sizeof(ticket), "ticket=%llu ", trace_number(unmap, "ticket="));
  done = must_find(unmap, "npu_invalidate_done:", ticket, "answered=1");
  must_find(done, "npu_bo_free:", "size=12288", NULL);
  free(text);
}

static void contexts_are_told(void **state) {
  static const char *const events[] = {"npu/npu_ctx_create", "npu/npu_ctx_kill"};
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_LOW, .core_mask = 1};
  char id[32];
  char *text;

  (void)state;
  trace_begin(events, COUNT(events));
  assert_int_equal(raw_ctx_create(fd, &args), 0);
  ctx_destroy(fd, args.ctx_id);
  text = trace_end();
  snprintf(id, sizeof(id), "ctx=%u ", args.ctx_id);
  must_find(must_find(text, "npu_ctx_create:", id, "priority=0 cores=0x1"), "npu_ctx_kill:", id, "error=-125");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_job_is_followed_from_submission_to_completion),
      cmocka_unit_test(failures_and_waits_are_told),
      cmocka_unit_test(life_of_a_buffer_is_told),
      cmocka_unit_test(contexts_are_told),
  };

  return cmocka_run_group_tests_name("observe", tests, set_up, tear_down);
}
