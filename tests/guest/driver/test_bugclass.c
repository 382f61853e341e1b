/* SPDX-License-Identifier: MIT */
/*
 * The classes of bugs that accel drivers of Linux have had, one test each. Other tests go deeper into some of them; the
 * last lines of a comment say which. Most races show themselves only to a debug kernel. Argument: rounds (200).
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int rounds = 200;

/* A job of one fill of `bytes` in region 1. */
struct fill {
  struct stream stream;
  struct bo bo;
  struct job job;
};

static void fill_create(struct fill *fill, uint32_t bytes) {
  stream_create(fd, 1, &fill->stream);
  stream_fill(&fill->stream, 1, 0, bytes, 0xee);
  bo_create(fd, bytes, DRM_NPU_BO_SYSTEM, &fill->bo);
  job_init(&fill->job);
  job_gdma(&fill->job, &fill->stream);
  job_region(&fill->job, &fill->bo, RW);
}

static void fill_destroy(struct fill *fill) {
  bo_destroy(fd, &fill->bo);
  stream_destroy(fd, &fill->stream);
}

static const uint64_t wrapping[] = {~0ull, ~0ull - 4095, 1ull << 63, ~0ull - 127};

static void class_01_offset_plus_size_wraps(void **state) {
  struct fill fill;

  (void)state;
  fill_create(&fill, KIB(4));
  for (size_t i = 0; i < sizeof(wrapping) / sizeof(wrapping[0]); i++) {
    struct drm_npu_bo_sync sync = {
        .handle = fill.bo.handle, .direction = 3, .offset = wrapping[i], .size = -wrapping[i] + 64};
    struct job job = fill.job;

    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_SYNC, &sync), -EINVAL);
    sync.offset = 64;
    sync.size = wrapping[i];
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_SYNC, &sync), -EINVAL);

    job.args.regions = (uintptr_t)job.regions;
    job.args.streams = (uintptr_t)&job.stream;
    job.regions[1].offset = wrapping[i];
    job.regions[1].size = -wrapping[i] + 64;
    assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
    job.regions[1].offset = 64;
    job.regions[1].size = wrapping[i];
    assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
    job.regions[1] = fill.job.regions[1];
    job.stream.gdma_offset = wrapping[i];
    assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
    job.stream.gdma_offset = 0;
    job.args.profile_region = 1;
    job.args.profile_offset = wrapping[i] & ~7ull;
    job.args.profile_bytes = 4096;
    assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
  }
  run_ok(fd, ctx, &fill.job);
  fill_destroy(&fill);
}

/* Values that mean "none" elsewhere, counts just below and above the limits, zero sizes. */
static void class_02_sentinels_and_underflow(void **state) {
  static const uint32_t counts[] = {0, 2, 65, 0x7fffffff, 0xffffffff};
  struct fill fill;
  struct job job;
  struct bo bo;

  (void)state;
  fill_create(&fill, KIB(4));
#define WITH(change)                                      \
  do {                                                    \
    job = fill.job;                                       \
    job.args.regions = (uintptr_t)job.regions;            \
    job.args.streams = (uintptr_t)&job.stream;            \
    change;                                               \
    assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL); \
  } while (0)
  WITH(job.stream.gdma_region = NPU_REGION_LOCAL);
  WITH(job.stream.gdma_region = NPU_REGION_NONE);
  WITH(job.stream.gdma_region = 2);
  WITH(job.stream.gdma_region = ~0u);
  WITH(job.stream.gdma_count = ~0u);
  WITH(job.stream.gdma_count = 0; job.stream.gdma_region = 1);
  WITH(job.stream.tiu_offset = 128);
  WITH(job.regions[1].size = 0);
  WITH(job.regions[1].access = 0);
  WITH(job.regions[1].access = 4);
  WITH(job.args.region_stride = 0);
  WITH(job.args.region_stride = sizeof(job.regions[0]) - 8);
  WITH(job.args.region_stride = 0xfffffff8);
  WITH(job.args.profile_bytes = 1);
  WITH(job.args.core_mask = 1u << 31);
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
    if (counts[i] != 2) WITH(job.args.region_count = counts[i]);
    /* Two streams make a job for both cores. */
    WITH(job.args.stream_count = counts[i] == 2 ? DRM_NPU_MAX_CORES + 1 : counts[i]);
  }
#undef WITH
  assert_int_equal(raw_bo_create(fd, 0, DRM_NPU_BO_CARD, &bo), -EINVAL);
  assert_true(raw_bo_create(fd, ~0ull, DRM_NPU_BO_CARD, &bo) < 0);
  assert_true(raw_bo_create(fd, ~0ull - 4095, DRM_NPU_BO_SYSTEM, &bo) < 0);
  run_ok(fd, ctx, &fill.job);
  fill_destroy(&fill);
}

/* A submission and its commands change while they are checked. */
struct changer {
  volatile int stop;
  struct job *job;
  volatile uint64_t *command_offset; /* in the mapped stream */
};

static void *change(void *arg) {
  struct changer *c = arg;
  volatile struct drm_npu_region *region = &c->job->regions[1];

  while (!c->stop) {
    region->size = ~0ull;
    *c->command_offset = MIB(1);
    region->size = KIB(4);
    *c->command_offset = 0;
    region->offset = ~0ull - 4095;
    region->offset = 0;
  }
  return NULL;
}

static void class_03_toctou_on_what_user_space_has_mapped(void **state) {
  struct bo guards[2];
  struct fill fill;
  struct changer changer = {0};
  pthread_t thread;
  int accepted = 0;

  (void)state;
  bo_create_mapped(fd, MIB(4), DRM_NPU_BO_CARD, &guards[0]);
  fill_create(&fill, KIB(4));
  bo_create_mapped(fd, MIB(4), DRM_NPU_BO_CARD, &guards[1]);
  changer.job = &fill.job;
  changer.command_offset = &((struct npu_cmd_fill *)fill.stream.bo.map)->dst_offset;
  assert_int_equal(pthread_create(&thread, NULL, change, &changer), 0);
  /* By chance the other thread may never store a good value in time. */
  for (int i = 0; i < rounds * 5 || (!accepted && i < 1000000); i++) {
    struct drm_npu_wait wait;
    int ret = raw_submit(fd, ctx, &fill.job);

    assert_true(!ret || ret == -EINVAL);
    if (ret) continue;
    accepted++;
    assert_int_equal(raw_wait(fd, ctx, fill.job.args.seqno, FOREVER_MS, &wait), 0);
    if (wait.error) {
      assert_int_equal(wait.error, -EIO);
      assert_int_equal(wait.fault.status, NPU_STATUS_REGION_BOUNDS);
    }
  }
  changer.stop = 1;
  pthread_join(thread, NULL);
  assert_true(accepted > 0);
  for (int g = 0; g < 2; g++) {
    for (uint64_t i = 0; i < guards[g].size; i += 64) assert_int_equal(guards[g].map[i], 0);
    bo_destroy(fd, &guards[g]);
  }
  fill_destroy(&fill);
}

/* Mapping, unmapping, faulting and closing race, and every object is closed twice. */
static void *map_and_unmap(void *arg) {
  struct bo *bo = arg;

  for (int i = 0; i < rounds; i++) {
    uint8_t *at = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)bo->mmap_offset);

    if (at == MAP_FAILED) continue;
    at[0] = 1;
    madvise(at, bo->size, MADV_DONTNEED);
    at[bo->size - 1] = 1;
    munmap(at, bo->size / 2);
    munmap(at + bo->size / 2, bo->size / 2);
  }
  return NULL;
}

static void class_04_mapping_races_and_double_put(void **state) {
  char before[USAGE_BYTES];
  pthread_t threads[3];
  struct bo bo;

  (void)state;
  usage_begin(before);
  for (int round = 0; round < 5; round++) {
    bo_create(fd, KIB(64), round & 1 ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM, &bo);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, map_and_unmap, &bo), 0);
    usleep(20000);
    assert_int_equal(raw_gem_close(fd, bo.handle), 0);
    assert_int_equal(raw_gem_close(fd, bo.handle), -EINVAL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  }
  usage_expect(before);
}

static volatile sig_atomic_t enough;

static void be_enough(int signal) {
  (void)signal;
  enough = 1;
}

/* Runs until a signal. An unbound card cannot be reset; a block may have another reason to fail. */
static void reset_all_the_time(const char *reset) {
  while (!enough) {
    if (*reset)
      try_write_file(reset, "1");
    else
      fault_set("fatal", 1);
  }
}

/* One process resets the card repeatedly, another unbinds and binds the driver. */
static void class_05_reset_during_remove_and_probe(void **state) {
  char link[96], reset[PATH_MAX] = "", address[32];
  int status;
  pid_t pid;

  (void)state;
  device_path(fd, "reset", link, sizeof(link));
  if (is_card(fd)) assert_non_null(realpath(link, reset)); /* the path that stays when the node is removed */
  snprintf(address, sizeof(address), "%s", card_address());
  signal(SIGTERM, be_enough);
  pid = fork();
  if (!pid) {
    reset_all_the_time(reset);
    _exit(0);
  }
  assert_true(pid > 0);
  signal(SIGTERM, SIG_DFL);
  /* Each may fail, because the card is being reset or was reset. */
  for (int i = 0; i < 3; i++) {
    try_card_unbind(address);
    try_card_bind(address);
  }
  kill(pid, SIGTERM);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  try_card_bind(address);
  close(fd); /* a file of the removed card */
  for (int i = 0; !npu_try_open(&fd); i++) {
    assert_true(i < FOREVER_MS / 10);
    usleep(10000);
  }
  ctx = ctx_create(fd);
  run_nop(fd, ctx);
}

/* A submission that fails at its last step has queued, numbered and fenced no job. See also unwind. */
static void class_06_errors_of_submission_are_unwound(void **state) {
  struct drm_npu_bo_wait wait = {.timeout_ns = 0};
  struct drm_npu_job jobs[4];
  struct drm_npu_submit args = {.ctx_id = ctx, .jobs = (uintptr_t)jobs, .job_count = 4, .job_stride = sizeof(jobs[0])};
  uint32_t syncobj = syncobj_create(fd);
  char before[USAGE_BYTES];
  struct fill fill;
  struct job bad;
  uint64_t last;

  (void)state;
  fill_create(&fill, KIB(4));
  last = submit(fd, ctx, &fill.job);
  wait_ok(fd, ctx, last);
  usage_begin(before);
  bad = fill.job;
  bad.args.regions = (uintptr_t)bad.regions;
  bad.args.in_syncs = (uintptr_t)bad.in;
  bad.args.out_syncs = (uintptr_t)bad.out;
  job_out(&bad, syncobj, 0);
  bad.out[1] = (struct drm_npu_sync){.handle = 0xdead};
  for (int i = 0; i < rounds; i++) {
    for (int k = 0; k < 4; k++) jobs[k] = fill.job.args;
    bad.args.out_sync_count = 2;
    jobs[3] = bad.args;
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &args), -ENOENT);
    bad.args.out_sync_count = 1;
    bad.regions[1].handle = i & 1 ? 0xdead : 0;
    jobs[3] = bad.args;
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &args), -ENOENT);
    bad.regions[1].handle = fill.bo.handle;
  }
  wait.handle = fill.bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &wait), 0);
  assert_int_equal(submit(fd, ctx, &fill.job), last + 1);
  wait_ok(fd, ctx, last + 1);
  usage_expect(before);
  fill_destroy(&fill);
  syncobj_destroy(fd, syncobj);
}

/* Calls, watchdog, resets, closes and reads of state race; lockdep checks the lock order. */
static void *look_at_all(void *arg) {
  volatile int *stop = arg;
  char text[8192];

  while (!*stop) {
    FILE *file =
        popen("cat /sys/kernel/debug/accel/*/* /sys/class/hwmon/hwmon*/*_input /proc/*/fdinfo/* 2>/dev/null", "r");

    while (fread(text, 1, sizeof(text), file) > 0) continue;
    pclose(file);
    usleep(10000);
  }
  return NULL;
}

static void class_07_lock_inversions(void **state) {
  volatile int stop = 0;
  struct stream stream;
  pthread_t thread;
  struct job job;
  struct bo bo;

  (void)state;
  set_parameter("timeout_ms", 50);
  set_parameter("job_limit_ms", 100);
  stream_create(fd, 1, &stream);
  stream_slow_copy(&stream, 1, 300);
  bo_create(fd, KIB(4), DRM_NPU_BO_SYSTEM, &bo);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, RW);
  assert_int_equal(pthread_create(&thread, NULL, look_at_all, (void *)&stop), 0);
  for (int i = 0; i < 10; i++) {
    uint32_t id = ctx_create(fd);
    struct bo other;

    for (int k = 0; k < 4; k++) raw_submit(fd, id, &job);
    bo_create_mapped(fd, KIB(64), i & 1 ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM, &other);
    other.map[0] = 1;
    usleep(150000);
    if (i % 3 == 0) card_reset(fd);
    bo_destroy(fd, &other);
    ctx_destroy(fd, id);
  }
  stop = 1;
  pthread_join(thread, NULL);
  set_parameter("timeout_ms", 5000);
  set_parameter("job_limit_ms", 600000);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
  run_nop(fd, ctx);
}

/* An answer that comes long after it was expected: the job is aborted, and later ones get their own answers. See also
 * faults and watchdog. */
static void class_08_late_replies(void **state) {
  uint32_t id;
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  struct bo bo;

  (void)state;
  set_parameter("timeout_ms", 50);
  set_parameter("job_limit_ms", 1);
  id = ctx_create(fd);
  stream_create(fd, 1, &stream);
  stream_slow_copy(&stream, 1, 30000);
  bo_create(fd, KIB(4), DRM_NPU_BO_SYSTEM, &bo);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, RW);
  for (int i = 0; i < 3; i++) {
    wait_result(fd, id, submit(fd, id, &job), &wait);
    assert_int_equal(wait.error, -ETIME);
    run_nop(fd, id);
  }
  set_parameter("timeout_ms", 5000);
  set_parameter("job_limit_ms", 600000);
  ctx_destroy(fd, id);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
}

/* Fences, mappings and waits outlive their context. */
static void class_09_lifetime_at_context_teardown(void **state) {
  struct fill fill;

  (void)state;
  fill_create(&fill, MIB(4));
  for (int i = 0; i < rounds; i++) {
    struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
    uint32_t syncobj = syncobj_create(fd);
    struct job job = fill.job;
    volatile uint64_t *page;
    int error;

    assert_int_equal(raw_ctx_create(fd, &args), 0);
    page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t)args.fence_offset);
    assert_true(page != MAP_FAILED);
    job.args.regions = (uintptr_t)job.regions;
    job.args.streams = (uintptr_t)&job.stream;
    job.args.out_syncs = (uintptr_t)job.out;
    job_out(&job, syncobj, 0);
    for (int k = 0; k < 3; k++) submit(fd, args.ctx_id, &job);
    ctx_destroy(fd, args.ctx_id);
    assert_int_equal(raw_syncobj_wait(fd, syncobj, 0, FOREVER_MS), 0);
    error = syncobj_status(fd, syncobj);
    assert_true(error == 0 || error == -ECANCELED);
    assert_true(page[0] <= 3);
    munmap((void *)page, 4096);
    syncobj_destroy(fd, syncobj);
  }
  fill_destroy(&fill);
}

/* Once its fence has signalled, the job is finished and the queue is free for the next one. */
static void class_10_fence_before_the_books(void **state) {
  uint32_t syncobj = syncobj_create(fd);
  struct drm_npu_ctx_query query;
  struct drm_npu_wait wait;
  struct fill fill;

  (void)state;
  fill_create(&fill, 64);
  job_out(&fill.job, syncobj, 0);
  for (int i = 0; i < rounds * 5; i++) {
    uint64_t seqno = submit(fd, ctx, &fill.job);

    assert_int_equal(raw_syncobj_wait(fd, syncobj, 0, FOREVER_MS), 0);
    ctx_query(fd, ctx, &query);
    assert_true(query.completed >= seqno);
    assert_int_equal(raw_wait(fd, ctx, seqno, 0, &wait), 0);
    assert_int_equal(wait.known, 1);
    assert_int_equal(wait.error, 0);
  }
  fill_destroy(&fill);
  syncobj_destroy(fd, syncobj);
}

static void class_11_leaks_on_success_and_reset(void **state) {
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int i = 0; i < rounds; i++) {
    uint32_t id = ctx_create(fd), syncobj = syncobj_create(fd);
    struct fill fill;

    fill_create(&fill, KIB(64));
    job_out(&fill.job, syncobj, 1);
    for (int k = 0; k < 4; k++) {
      fill.job.out[0].point = (uint64_t)k + 1;
      submit(fd, id, &fill.job);
    }
    if (i % 20 == 0) card_reset(fd);
    assert_int_equal(raw_syncobj_wait(fd, syncobj, 4, FOREVER_MS), 0);
    fill_destroy(&fill);
    syncobj_destroy(fd, syncobj);
    ctx_destroy(fd, id);
  }
  usage_expect(before);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(class_01_offset_plus_size_wraps),
      cmocka_unit_test(class_02_sentinels_and_underflow),
      cmocka_unit_test(class_03_toctou_on_what_user_space_has_mapped),
      cmocka_unit_test(class_04_mapping_races_and_double_put),
      cmocka_unit_test(class_05_reset_during_remove_and_probe),
      cmocka_unit_test(class_06_errors_of_submission_are_unwound),
      cmocka_unit_test(class_07_lock_inversions),
      cmocka_unit_test(class_08_late_replies),
      cmocka_unit_test(class_09_lifetime_at_context_teardown),
      cmocka_unit_test(class_10_fence_before_the_books),
      cmocka_unit_test(class_11_leaks_on_success_and_reset),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("bugclass", tests, set_up, tear_down);
}
