/* SPDX-License-Identifier: MIT */
/* Submissions with wrong arguments: each is refused, no job is queued, and the next submission works. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"

static int fd;
static uint32_t ctx;
static struct stream stream;
static struct bo bo;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  stream_create(fd, 4, &stream);
  stream_fill(&stream, 1, 0, 64, 1);
  bo_create_mapped(fd, 8192, DRM_NPU_BO_SYSTEM, &bo);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, ctx);
  return close(fd);
}

/* A valid job: region 0 is its stream, region 1 a writable buffer. */
static void good(struct job *job) {
  job_init(job);
  job_gdma(job, &stream);
  job_region(job, &bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
}

static uint64_t submitted(void) {
  struct drm_npu_ctx_query query;

  ctx_query(fd, ctx, &query);
  return query.submitted;
}

/* Each line makes one field of a valid job wrong. */
#define BROKEN(expected, change)                                                          \
  do {                                                                                    \
    struct job job;                                                                       \
    uint64_t before = submitted();                                                        \
    int ret;                                                                              \
    good(&job);                                                                           \
    change;                                                                               \
    ret = raw_submit(fd, ctx, &job);                                                      \
    if (ret != (expected)) fail_msg("%s: got %d, expected %d", #change, ret, (expected)); \
    assert_int_equal(submitted(), before);                                                \
  } while (0)

static void the_good_job_is_good(void **state) {
  struct job job;

  (void)state;
  good(&job);
  run_ok(fd, ctx, &job);
}

static void job_fields(void **state) {
  (void)state;
  BROKEN(-EINVAL, job.args.pad = 1);
  BROKEN(-EINVAL, job.args.flags = 2);
  BROKEN(-EINVAL, job.args.flags = 0x80000000u);
  BROKEN(-EINVAL, job.args.stream_count = 0);
  BROKEN(-EINVAL, job.args.stream_count = 9);
  BROKEN(-EINVAL, job.args.stream_count = 2; job.args.core_mask = 1);
  BROKEN(-EINVAL, job.args.stream_count = ~0u);
  BROKEN(-EINVAL, job.args.region_count = NPU_MAX_REGIONS + 1);
  BROKEN(-EINVAL, job.args.region_count = ~0u);
  BROKEN(-EINVAL, job.args.core_mask = 1u << 31);
  BROKEN(-EINVAL, job.args.region_stride = 0);
  BROKEN(-EINVAL, job.args.region_stride = sizeof(struct drm_npu_region) - 8);
  BROKEN(-EINVAL, job.args.region_stride = sizeof(struct drm_npu_region) + 4);
  BROKEN(-EINVAL, job.args.region_stride = ~7u);
  BROKEN(-EINVAL, job.args.stream_stride = sizeof(struct drm_npu_stream) - 8);
  BROKEN(-EFAULT, job.args.regions = 8);
  BROKEN(-EFAULT, job.args.regions = UINT64_MAX - 7);
  BROKEN(-EFAULT, job.args.streams = 8);
}

static void region_fields(void **state) {
  (void)state;
  BROKEN(-ENOENT, job.regions[1].handle = 0);
  BROKEN(-ENOENT, job.regions[1].handle = 0x7fffffff);
  BROKEN(-EINVAL, job.regions[1].access = 0);
  BROKEN(-EINVAL, job.regions[1].access = 4);
  BROKEN(-EINVAL, job.regions[1].access = ~0u);
  BROKEN(-EINVAL, job.regions[1].size = 0);
  BROKEN(-EINVAL, job.regions[1].size = 8193);
  BROKEN(-EINVAL, job.regions[1].offset = 1);
  BROKEN(-EINVAL, job.regions[1].offset = UINT64_MAX);
  BROKEN(-EINVAL, job.regions[1].size = UINT64_MAX);
  BROKEN(-EINVAL, (job.regions[1].offset = 4096, job.regions[1].size = UINT64_MAX - 4095));
  BROKEN(-EINVAL, (job.regions[1].offset = UINT64_MAX - 4095, job.regions[1].size = 4096));
}

static void stream_fields(void **state) {
  (void)state;
  BROKEN(-EINVAL, job.stream.gdma_region = 2);
  BROKEN(-EINVAL, job.stream.gdma_region = 0xff);
  BROKEN(-EINVAL, job.stream.gdma_region = 0x100);
  BROKEN(-EINVAL, job.regions[0].access = DRM_NPU_REGION_WRITE);
  BROKEN(-EINVAL, job.stream.gdma_offset = 64);
  BROKEN(-EINVAL, job.stream.gdma_offset = 4096);
  BROKEN(-EINVAL, job.stream.gdma_offset = UINT64_MAX - 127);
  BROKEN(-EINVAL, job.stream.gdma_count = 33);
  BROKEN(-EINVAL, job.stream.gdma_count = ~0u);
  BROKEN(-EINVAL, job.stream.gdma_count = NPU_MAX_STREAM_COMMANDS + 1);
  BROKEN(-EINVAL, job.stream.tiu_region = 1);
  BROKEN(-EINVAL, job.stream.tiu_offset = 128);
  BROKEN(-EINVAL, (job.stream.gdma_count = 0, job.stream.gdma_offset = 128));
}

static void profile_fields(void **state) {
  (void)state;
  BROKEN(-EINVAL, job.args.profile_region = 1);
  BROKEN(-EINVAL, job.args.profile_offset = 8);
  BROKEN(-EINVAL, (job.args.profile_region = 2, job.args.profile_bytes = 64));
  BROKEN(-EINVAL, (job.args.profile_region = 0, job.args.profile_bytes = 64)); /* not writable */
  BROKEN(-EINVAL, (job.args.profile_region = 1, job.args.profile_bytes = sizeof(struct npu_profile_header) - 1));
  BROKEN(-EINVAL, (job.args.profile_region = 1, job.args.profile_bytes = 8193));
  BROKEN(-EINVAL, (job.args.profile_region = 1, job.args.profile_bytes = 64, job.args.profile_offset = 4));
  BROKEN(-EINVAL, (job.args.profile_region = 1, job.args.profile_bytes = 64, job.args.profile_offset = 8136));
  BROKEN(-EINVAL, (job.args.profile_region = 1, job.args.profile_bytes = 64, job.args.profile_offset = ~7ull));
}

static void sync_fields(void **state) {
  uint32_t empty = syncobj_create(fd);

  (void)state;
  BROKEN(-EINVAL, job.args.in_sync_count = 257);
  BROKEN(-EINVAL, job.args.out_sync_count = ~0u);
  BROKEN(-ENOENT, job_in(&job, 0x7fffffff, 0));
  BROKEN(-ENOENT, job_out(&job, 0x7fffffff, 0));
  BROKEN(-EINVAL, job_in(&job, empty, 0)); /* no fence yet */
  BROKEN(-EINVAL, (job_out(&job, empty, 0), job.out[0].flags = 1));
  BROKEN(-EINVAL, (job_in(&job, empty, 0), job.in[0].flags = 1));
  BROKEN(-EINVAL, (job_out(&job, empty, 0), job.args.sync_stride = 8));
  BROKEN(-EFAULT, (job_out(&job, empty, 0), job.args.out_syncs = 8));
  BROKEN(-EFAULT, (job_in(&job, empty, 0), job.args.in_syncs = 8));
  syncobj_destroy(fd, empty);
}

static int submit_args(struct drm_npu_submit *args) { return raw_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, args); }

static void submit_fields(void **state) {
  struct drm_npu_submit base, args;
  struct job job;
  uint64_t before = submitted();

  (void)state;
  good(&job);
  base = (struct drm_npu_submit){
      .ctx_id = ctx, .jobs = (uintptr_t)&job.args, .job_count = 1, .job_stride = sizeof(job.args)};
  args = base, args.ctx_id = ctx + 77;
  assert_int_equal(submit_args(&args), -ENOENT);
  args = base, args.flags = 1;
  assert_int_equal(submit_args(&args), -EINVAL);
  args = base, args.job_count = 0;
  assert_int_equal(submit_args(&args), -EINVAL);
  args = base, args.job_count = 65;
  assert_int_equal(submit_args(&args), -EINVAL);
  args = base, args.job_count = ~0u;
  assert_int_equal(submit_args(&args), -EINVAL);
  args = base, args.job_stride = sizeof(job.args) - 8;
  assert_int_equal(submit_args(&args), -EINVAL);
  args = base, args.job_stride = sizeof(job.args) + 1;
  assert_int_equal(submit_args(&args), -EINVAL);
  args = base, args.jobs = 8;
  assert_int_equal(submit_args(&args), -EFAULT);
  assert_int_equal(submitted(), before);
}

/* Elements may be larger than in this version if the rest is zero. */
static void larger_elements(void **state) {
  struct {
    struct drm_npu_job job;
    uint64_t more[3];
  } big = {0};
  struct drm_npu_submit args = {.ctx_id = ctx, .jobs = (uintptr_t)&big, .job_count = 1, .job_stride = sizeof(big)};
  struct job job;

  (void)state;
  good(&job);
  big.job = job.args;
  assert_int_equal(submit_args(&args), 0);
  wait_ok(fd, ctx, big.job.seqno);
  big.more[2] = 1;
  assert_int_equal(submit_args(&args), -EINVAL);
}

/* A submission is queued completely or not at all. */
static void the_last_of_many_is_wrong(void **state) {
  struct drm_npu_job jobs[8];
  struct drm_npu_submit args = {.ctx_id = ctx, .jobs = (uintptr_t)jobs, .job_count = 8, .job_stride = sizeof(jobs[0])};
  struct job job;
  uint64_t before = submitted();

  (void)state;
  good(&job);
  for (int i = 0; i < 8; i++) jobs[i] = job.args;
  jobs[7].pad = 1;
  memset(bo.map, 0, bo.size);
  assert_int_equal(submit_args(&args), -EINVAL);
  assert_int_equal(submitted(), before);
  run_nop(fd, ctx);
  assert_int_equal(bo.map[0], 0);
}

/* The numbers are written back: unwritable memory is detected before any job is queued. */
static void jobs_in_read_only_memory(void **state) {
  struct drm_npu_submit args = {.ctx_id = ctx, .job_count = 1, .job_stride = sizeof(struct drm_npu_job)};
  uint64_t before = submitted();
  struct job job;
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  (void)state;
  good(&job);
  memcpy(page, &job.args, sizeof(job.args));
  mprotect(page, 4096, PROT_READ);
  args.jobs = (uintptr_t)page;
  assert_int_equal(submit_args(&args), -EFAULT);
  assert_int_equal(submitted(), before);
  munmap(page, 4096);
}

static void foreign_handles_mean_nothing(void **state) {
  int other = npu_open();
  uint32_t other_ctx = ctx_create(other);
  struct job job;

  (void)state;
  good(&job);
  assert_int_equal(raw_submit(other, other_ctx, &job), -ENOENT);
  run_nop(other, other_ctx);
  close(other);
}

static void more_syncs_than_fit(void **state) {
  static struct drm_npu_sync many[257];
  uint32_t syncobj = syncobj_create(fd);
  struct job job;

  (void)state;
  for (int i = 0; i < 257; i++) many[i].handle = syncobj;
  good(&job);
  job.args.out_syncs = (uintptr_t)many;
  job.args.out_sync_count = 257;
  assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
  job.args.out_sync_count = 256;
  run_ok(fd, ctx, &job);
  assert_int_equal(syncobj_status(fd, syncobj), 0);
  syncobj_destroy(fd, syncobj);
}

/* Each timeline point slows down the next one, so a submission may have at most 256 over all its jobs. */
static void more_points_than_a_submission_may_signal(void **state) {
  static struct drm_npu_sync points[257];
  uint32_t timeline = syncobj_create(fd), binary = syncobj_create(fd);
  struct drm_npu_job jobs[3];
  struct drm_npu_submit args = {.ctx_id = ctx, .jobs = (uintptr_t)jobs, .job_count = 3, .job_stride = sizeof(jobs[0])};
  const uint64_t before = submitted();
  struct drm_npu_wait wait;
  struct job job;

  (void)state;
  for (uint32_t i = 0; i < 257; i++) points[i] = (struct drm_npu_sync){.handle = timeline, .point = i + 1};
  good(&job);
  for (int i = 0; i < 3; i++) jobs[i] = job.args;
  jobs[0].out_syncs = (uintptr_t)points;
  jobs[0].out_sync_count = 200;
  jobs[2].out_syncs = (uintptr_t)(points + 200);
  jobs[2].out_sync_count = 57;
  jobs[0].sync_stride = jobs[2].sync_stride = sizeof(points[0]);
  assert_int_equal(submit_args(&args), -EINVAL);
  assert_int_equal(submitted(), before);
  points[210] = (struct drm_npu_sync){.handle = binary}; /* a binary syncobj, which does not count */
  assert_int_equal(submit_args(&args), 0);
  assert_int_equal(raw_wait(fd, ctx, jobs[2].seqno, FOREVER_MS, &wait), 0);
  assert_int_equal(wait.error, 0);
  assert_int_equal(syncobj_status(fd, binary), 0);
  syncobj_destroy(fd, binary);
  syncobj_destroy(fd, timeline);
}

static void afterwards_all_is_well(void **state) {
  struct drm_npu_ctx_query query;
  struct job job;

  (void)state;
  good(&job);
  run_ok(fd, ctx, &job);
  ctx_query(fd, ctx, &query);
  assert_int_equal(query.errors, 0);
  assert_int_equal(query.victims, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_good_job_is_good),
      cmocka_unit_test(job_fields),
      cmocka_unit_test(region_fields),
      cmocka_unit_test(stream_fields),
      cmocka_unit_test(profile_fields),
      cmocka_unit_test(sync_fields),
      cmocka_unit_test(submit_fields),
      cmocka_unit_test(larger_elements),
      cmocka_unit_test(the_last_of_many_is_wrong),
      cmocka_unit_test(jobs_in_read_only_memory),
      cmocka_unit_test(foreign_handles_mean_nothing),
      cmocka_unit_test(more_syncs_than_fit),
      cmocka_unit_test(more_points_than_a_submission_may_signal),
      cmocka_unit_test(afterwards_all_is_well),
  };

  return cmocka_run_group_tests_name("submit_args", tests, set_up, tear_down);
}
