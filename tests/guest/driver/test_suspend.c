/* SPDX-License-Identifier: MIT */
/*
 * System suspend, up to the point where all devices are suspended (pm_test: devices), with running and waiting jobs.
 * They finish or are cancelled first; all memory keeps its contents. Needs a board whose other devices support it:
 * npu-vm --sleep.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define ROUNDS 3
#define JOBS 12
#define USERS 3

static unsigned long read_number(const char *path) {
  unsigned long number = 0;
  FILE *file = fopen(path, "r");

  if (!file) fail_msg("%s: %s", path, strerror(errno));
  assert_int_equal(fscanf(file, "%lu", &number), 1);
  fclose(file);
  return number;
}

/* 0, or the errno of the failed suspend. */
static int sleep_and_wake(void) {
  unsigned long slept = read_number("/sys/power/suspend_stats/success");
  int ret = try_write_file("/sys/power/state", "mem");

  assert_int_equal(read_number("/sys/power/suspend_stats/success") - slept, ret ? 0 : 1);
  return ret;
}

static int set_up(void **state) {
  uint32_t ctx;
  int fd;

  (void)state;
  write_file("/sys/power/pm_test", "devices");
  write_file("/sys/module/suspend/parameters/pm_test_delay", "1");
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  return close(fd);
}

/* A chain of jobs, each of which adds its byte to a card buffer; memory of all kinds with contents. */
struct user {
  int fd;
  uint32_t ctx, syncobj;
  struct bo card, sealed, system, result;
  struct stream streams[JOBS];
  uint64_t seqnos[JOBS];
};

static uint8_t byte_of(uint64_t i, int user) { return (uint8_t)(i * 37 + (uint64_t)user + (i >> 12)); }

static void user_start(struct user *user, int number) {
  user->fd = npu_open();
  user->ctx = ctx_create(user->fd);
  user->syncobj = syncobj_create(user->fd);
  bo_create_mapped(user->fd, MIB(2) + KIB(64), DRM_NPU_BO_CARD, &user->card);
  bo_create_mapped(user->fd, KIB(256), DRM_NPU_BO_CARD, &user->sealed);
  bo_create_mapped(user->fd, KIB(256), DRM_NPU_BO_SYSTEM, &user->system);
  bo_create_mapped(user->fd, user->sealed.size, DRM_NPU_BO_SYSTEM, &user->result);
  for (uint64_t i = 0; i < user->card.size; i++) user->card.map[i] = byte_of(i, number);
  for (uint64_t i = 0; i < user->sealed.size; i++) user->sealed.map[i] = byte_of(i, number + 100);
  for (uint64_t i = 0; i < user->system.size; i++) user->system.map[i] = byte_of(i, number + 200);
  bo_unmap(&user->sealed);
  assert_int_equal(raw_bo_seal(user->fd, user->sealed.handle), 0);
  for (int i = 0; i < JOBS; i++) {
    struct job job;

    stream_create(user->fd, 2, &user->streams[i]);
    stream_slow_copy(&user->streams[i], 1, 50);
    stream_fill(&user->streams[i], 2, (uint64_t)i, 1, (uint8_t)(0xa0 + i));
    job_init(&job);
    job_gdma(&job, &user->streams[i]);
    job_region(&job, &user->system, RW);
    job_region(&job, &user->card, RW);
    job.args.budget = UINT64_MAX;
    if (i) job_in(&job, user->syncobj, (uint64_t)i);
    job_out(&job, user->syncobj, (uint64_t)i + 1);
    user->seqnos[i] = submit(user->fd, user->ctx, &job);
  }
}

static void check_sealed(struct user *user, int number) {
  struct drm_npu_bo_info info = {.handle = user->sealed.handle};
  struct stream copy;
  struct job job;

  assert_int_equal(raw_ioctl(user->fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  assert_true(info.flags & DRM_NPU_BO_SEALED);
  stream_create(user->fd, 1, &copy);
  stream_copy(&copy, 1, 0, 2, 0, (uint32_t)user->sealed.size);
  job_init(&job);
  job_gdma(&job, &copy);
  job_region(&job, &user->sealed, DRM_NPU_REGION_READ);
  job_region(&job, &user->result, RW);
  run_ok(user->fd, user->ctx, &job);
  for (uint64_t i = 0; i < user->result.size; i++) assert_int_equal(user->result.map[i], byte_of(i, number + 100));
  stream_destroy(user->fd, &copy);
}

/* Each job ran once without error, and all memory is unchanged. */
static void user_finish(struct user *user, int number) {
  struct drm_npu_ctx_query query;

  for (int i = 0; i < JOBS; i++) wait_ok(user->fd, user->ctx, user->seqnos[i]);
  ctx_query(user->fd, user->ctx, &query);
  assert_int_equal(query.completed, JOBS);
  assert_int_equal(query.errors + query.victims, 0);
  for (int i = 0; i < JOBS; i++) assert_int_equal(user->card.map[i], 0xa0 + i);
  for (uint64_t i = JOBS; i < user->card.size; i++) assert_int_equal(user->card.map[i], byte_of(i, number));
  for (uint64_t i = 2; i < user->system.size; i++) assert_int_equal(user->system.map[i], byte_of(i, number + 200));
  check_sealed(user, number);
  bo_unmap(&user->card);
  bo_unmap(&user->system);
  bo_unmap(&user->result);
  for (int i = 0; i < JOBS; i++) stream_destroy(user->fd, &user->streams[i]);
  close(user->fd);
}

/* Other drivers may wait for fences before they suspend: jobs that can finish must not depend on the resume. */
static void jobs_end_before_the_system_sleeps(void **state) {
  static struct user users[USERS];

  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < USERS; i++) user_start(&users[i], i);
    assert_int_equal(sleep_and_wake(), 0);
    for (int i = 0; i < USERS; i++) {
      struct drm_npu_ctx_query query;

      ctx_query(users[i].fd, users[i].ctx, &query);
      assert_int_equal(query.completed, query.submitted);
    }
    for (int i = 0; i < USERS; i++) user_finish(&users[i], i);
  }
}

static void is_cancelled(int fd, uint32_t ctx, uint64_t seqno) {
  struct drm_npu_wait wait;

  wait_result(fd, ctx, seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
}

/* Fences of another driver (CONFIG_SW_SYNC). The kernel does not install this header. */
#define SW_SYNC "/sys/kernel/debug/sync/sw_sync"

struct sw_sync_create_fence {
  __u32 value;
  char name[32];
  __s32 fence;
};

#define SW_SYNC_CREATE_FENCE _IOWR('W', 0, struct sw_sync_create_fence)

/* Puts such a fence into a syncobj. It signals when the returned file is closed; -1: the kernel has none. */
static int foreign_fence(int fd, uint32_t syncobj) {
  struct drm_syncobj_handle import = {.handle = syncobj, .flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE};
  struct sw_sync_create_fence create = {.value = 1};
  int timeline = open(SW_SYNC, O_RDWR | O_CLOEXEC);

  if (timeline < 0) {
    print_message("this kernel has no fences of other drivers (CONFIG_SW_SYNC)\n");
    return -1;
  }
  assert_int_equal(ioctl(timeline, SW_SYNC_CREATE_FENCE, &create), 0);
  import.fd = create.fence;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &import), 0);
  close(create.fence);
  return timeline;
}

/*
 * The driver waits some seconds for this job, then cancels it, with later jobs, dependent ones, and one waiting for a
 * fence of another driver.
 */
static void a_job_that_does_not_end_keeps_nobody_awake(void **state) {
  int fd = npu_open();
  uint32_t ctx = ctx_create(fd), other = ctx_create(fd), third = ctx_create(fd);
  uint32_t syncobj = syncobj_create(fd), foreign = syncobj_create(fd), out = syncobj_create(fd);
  int timeline = foreign_fence(fd, foreign);
  uint64_t seqno, behind, waiting, outside = 0;
  struct drm_npu_status_info before, after;
  struct stream stream, nops;
  struct drm_npu_wait wait;
  struct job job;
  struct bo bo;

  (void)state;
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  stream_create(fd, 64, &stream);
  for (int i = 0; i < 64; i++) stream_slow_copy(&stream, 1, FOREVER_MS); /* one ends in seconds on a fast host */
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, RW);
  job.args.budget = UINT64_MAX;
  job_out(&job, syncobj, 0);
  seqno = submit(fd, ctx, &job);
  run_nop(fd, other);
  stream_create(fd, 1, &nops);
  stream_nop(&nops, 0);
  job_init(&job);
  job_gdma(&job, &nops);
  behind = submit(fd, ctx, &job);
  job_in(&job, syncobj, 0);
  waiting = submit(fd, other, &job);
  if (timeline >= 0) {
    job_init(&job);
    job_gdma(&job, &nops);
    job_in(&job, foreign, 0);
    job_out(&job, out, 0);
    outside = submit(fd, third, &job);
  }
  npu_status(fd, &before);
  assert_int_equal(sleep_and_wake(), 0);
  npu_status(fd, &after);
  /* The counters of a block go on after each sleep, those of a card begin again. */
  for (int i = 0; i < DRM_NPU_MAX_CORES && !is_card(fd); i++) {
    assert_in_range(after.jobs[i], before.jobs[i], UINT64_MAX);
    assert_in_range(after.busy_ns[i], before.busy_ns[i], UINT64_MAX);
  }
  wait_result(fd, ctx, seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  assert_int_equal(wait.fault.cause, DRM_NPU_CAUSE_SLEEP);
  is_cancelled(fd, ctx, behind);
  is_cancelled(fd, other, waiting);
  if (timeline >= 0) {
    is_cancelled(fd, third, outside);
    assert_int_equal(syncobj_status(fd, out), -ECANCELED);
    run_nop(fd, third);
    close(timeline);
    run_nop(fd, third);
  }
  run_nop(fd, ctx);
  run_nop(fd, other);
  ctx_destroy(fd, ctx);
  assert_int_equal(sleep_and_wake(), 0);
  run_nop(fd, other);
  close(fd);
}

static void an_idle_card_sleeps(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    int fd = npu_open();

    assert_int_equal(sleep_and_wake(), 0);
    run_nop(fd, ctx_create(fd));
    close(fd);
  }
}

/* Firmware refuses a block its clock at resume: jobs end, calls fail; the block works again once firmware allows it. */
static void a_block_that_does_not_wake_up_is_lost_until_it_does(void **state) {
  int fd = npu_open(), other = npu_open();
  uint32_t ctx = ctx_create(fd);
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_wait wait;
  struct stream stream;
  uint64_t seqno;
  struct job job;
  struct bo bo;
  int ret;

  (void)state;
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  stream_create(fd, 2, &stream);
  for (int i = 0; i < 2; i++) stream_slow_copy(&stream, 1, 500);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, RW);
  job.args.budget = UINT64_MAX;
  for (int i = 0; i < JOBS; i++) seqno = submit(fd, ctx, &job);
  fault_set("clock", UINT32_MAX);
  assert_int_equal(sleep_and_wake(), 0);
  assert_int_equal(raw_wait(fd, ctx, seqno, FOREVER_MS, &wait), -ENODEV);
  assert_int_equal(raw_ctx_create(other, &args), -ENODEV);
  fault_set("clock", 0);
  for (int64_t end = now_ms() + FOREVER_MS; (ret = raw_ctx_create(other, &args)); usleep(10000)) {
    assert_int_equal(ret, -ENODEV);
    assert_true(now_ms() < end);
  }
  run_nop(other, args.ctx_id);
  close(fd);
  close(other);
}

/* A permanent refusal would fail all following tests. */
static int grant_clock(void **state) {
  (void)state;
  fault_set("clock", 0);
  return 0;
}

int main(void) {
  const struct CMUnitTest block_tests[] = {
      cmocka_unit_test_teardown(a_block_that_does_not_wake_up_is_lost_until_it_does, grant_clock),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_idle_card_sleeps),
      cmocka_unit_test(jobs_end_before_the_system_sleeps),
      cmocka_unit_test(a_job_that_does_not_end_keeps_nobody_awake),
  };

  return run_with_block_tests("suspend", tests, block_tests, set_up, NULL);
}
