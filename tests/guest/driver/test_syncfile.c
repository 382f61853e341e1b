/* SPDX-License-Identifier: MIT */
/*
 * Sync files from and to syncobjs: they order jobs of different files, support poll, and carry errors; with binary
 * syncobjs, timeline points, and arrays of both.
 */
#include <drm.h>
#include <errno.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd, other; /* two files of the node */
static uint32_t ctx, other_ctx;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  other = npu_open();
  ctx = ctx_create(fd);
  other_ctx = ctx_create_patient(other, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ctx_destroy(fd, ctx);
  ctx_destroy(other, other_ctx);
  return close(fd) | close(other);
}

/* Syncobjs and sync files */

static int export_file(int file, uint32_t syncobj) {
  struct drm_syncobj_handle args = {
      .handle = syncobj, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1};

  assert_int_equal(raw_ioctl(file, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args), 0);
  return args.fd;
}

static void import_file(int file, uint32_t syncobj, int sync_file) {
  struct drm_syncobj_handle args = {
      .handle = syncobj, .flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, .fd = sync_file};

  assert_int_equal(raw_ioctl(file, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args), 0);
}

/* Sync files have no points, so a timeline point is transferred through a binary syncobj. */
static void transfer(int file, uint32_t from, uint64_t from_point, uint32_t to, uint64_t to_point) {
  struct drm_syncobj_transfer args = {
      .src_handle = from, .dst_handle = to, .src_point = from_point, .dst_point = to_point};

  assert_int_equal(raw_ioctl(file, DRM_IOCTL_SYNCOBJ_TRANSFER, &args), 0);
}

static int file_status(int sync_file) {
  struct sync_file_info info = {0};

  assert_int_equal(ioctl(sync_file, SYNC_IOC_FILE_INFO, &info), 0);
  return info.status;
}

static bool file_signals(int sync_file, int ms) {
  struct pollfd pollfd = {.fd = sync_file, .events = POLLIN};

  return poll(&pollfd, 1, ms) == 1;
}

/* Jobs */

/* A job of the other file, which succeeds or fails. */
struct other_job {
  struct stream stream;
  struct bo bo;
  struct job job;
};

static void other_works(struct other_job *job) {
  stream_create(other, 2, &job->stream);
  bo_create(other, 4096, DRM_NPU_BO_SYSTEM, &job->bo);
  stream_fill(&job->stream, 1, 0, 4096, 1);
  job_init(&job->job);
  job_gdma(&job->job, &job->stream);
  job_region(&job->job, &job->bo, RW);
}

static void other_failing(struct other_job *job) {
  struct npu_cmd *cmd;

  other_works(job);
  cmd = stream_next(&job->stream);
  cmd->opcode = 0xfe;
  job->job.stream.gdma_count = 2;
}

static void other_destroy(struct other_job *job) {
  bo_destroy(other, &job->bo);
  stream_destroy(other, &job->stream);
}

static void nop_job(struct stream *stream, struct job *job) {
  stream_create(fd, 1, stream);
  stream_nop(stream, 0);
  job_init(job);
  job_gdma(job, stream);
}

static void files_order_jobs_of_different_files(void **state) {
  uint32_t out = syncobj_create(other), in = syncobj_create(fd);
  struct other_job held;
  struct stream stream;
  struct job job;
  int sync_file;

  (void)state;
  nop_job(&stream, &job);
  other_works(&held);
  job_out(&held.job, out, 0);
  job_in(&job, in, 0);
  for (int i = 0; i < 2; i++) {
    uint64_t first = submit_held(other, other_ctx, &held.job);
    struct drm_npu_wait wait;
    uint64_t second;

    sync_file = export_file(other, out);
    assert_int_equal(file_status(sync_file), 0);
    assert_false(file_signals(sync_file, 0));
    import_file(fd, in, sync_file);
    second = submit(fd, ctx, &job);
    assert_int_equal(raw_wait(fd, ctx, second, 20, &wait), -ETIME);
    held_go_on();
    wait_ok(fd, ctx, second);
    assert_int_equal(raw_wait(other, other_ctx, first, 0, &wait), 0);
    assert_true(file_signals(sync_file, 0));
    assert_int_equal(file_status(sync_file), 1);
    close(sync_file);
  }
  other_destroy(&held);
  stream_destroy(fd, &stream);
  syncobj_destroy(other, out);
  syncobj_destroy(fd, in);
}

static void files_can_be_polled(void **state) {
  uint32_t out = syncobj_create(other);
  struct other_job held;
  int sync_file;

  (void)state;
  other_works(&held);
  job_out(&held.job, out, 0);
  submit_held(other, other_ctx, &held.job);
  sync_file = export_file(other, out);
  assert_false(file_signals(sync_file, 20));
  held_go_on();
  assert_true(file_signals(sync_file, FOREVER_MS));
  assert_int_equal(file_status(sync_file), 1);
  close(sync_file);
  other_destroy(&held);
  syncobj_destroy(other, out);
}

static void files_carry_errors(void **state) {
  uint32_t out = syncobj_create(other), in = syncobj_create(fd), end = syncobj_create(fd);
  struct other_job wrong;
  struct stream stream;
  struct drm_npu_wait wait;
  struct job job;
  int sync_file;

  (void)state;
  nop_job(&stream, &job);
  other_failing(&wrong);
  job_out(&wrong.job, out, 0);
  job_in(&job, in, 0);
  job_out(&job, end, 0);
  for (int late = 0; late < 2; late++) { /* imported before and after the failure */
    uint64_t first = submit(other, other_ctx, &wrong.job);

    sync_file = export_file(other, out);
    if (late) wait_result(other, other_ctx, first, &wait);
    import_file(fd, in, sync_file);
    wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
    assert_int_equal(wait.error, -ECANCELED);
    assert_int_equal(file_status(sync_file), -EIO);
    assert_int_equal(syncobj_status(fd, end), -ECANCELED);
    close(sync_file);
  }
  run_nop(fd, ctx);
  other_destroy(&wrong);
  stream_destroy(fd, &stream);
  syncobj_destroy(other, out);
  syncobj_destroy(fd, in);
  syncobj_destroy(fd, end);
}

static void points_of_timelines_become_files(void **state) {
  uint32_t timeline = syncobj_create(other), binary = syncobj_create(other);
  uint32_t into = syncobj_create(fd), mine = syncobj_create(fd);
  struct other_job held;
  struct stream stream;
  struct job job;
  int sync_file;

  (void)state;
  nop_job(&stream, &job);
  other_works(&held);
  job_out(&held.job, timeline, 0);
  job_in(&job, mine, 0);
  for (uint64_t point = 10; point < 40; point += 10) {
    struct drm_npu_wait wait;
    uint64_t first, second;

    held.job.out[0].point = point;
    first = submit_held(other, other_ctx, &held.job);
    transfer(other, timeline, point, binary, 0);
    sync_file = export_file(other, binary);
    import_file(fd, into, sync_file);
    transfer(fd, into, 0, mine, point + 1);
    job.in[0].point = point + 1;
    second = submit(fd, ctx, &job);
    assert_int_equal(raw_wait(fd, ctx, second, 20, &wait), -ETIME);
    held_go_on();
    wait_ok(fd, ctx, second);
    assert_int_equal(raw_wait(other, other_ctx, first, 0, &wait), 0);
    close(sync_file);
  }
  other_destroy(&held);
  stream_destroy(fd, &stream);
  syncobj_destroy(other, timeline);
  syncobj_destroy(other, binary);
  syncobj_destroy(fd, into);
  syncobj_destroy(fd, mine);
}

/* Merged files signal when all are done, with the error of any. */
static void merged_files_carry_errors(void **state) {
  uint32_t a = syncobj_create(other), b = syncobj_create(other), in = syncobj_create(fd);
  uint32_t second_ctx = ctx_create_patient(other, NULL);
  struct other_job wrong, held;
  struct sync_merge_data merge = {.name = "both"};
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  uint64_t seqno;
  int first;

  (void)state;
  nop_job(&stream, &job);
  other_failing(&wrong);
  other_works(&held);
  job_out(&wrong.job, a, 0);
  job_out(&held.job, b, 0);
  job_in(&job, in, 0);
  submit_held(other, other_ctx, &held.job);
  /* Another kind of hang, so that this one can continue earlier. */
  fault_set("stuck-abort", 1);
  submit(other, second_ctx, &wrong.job);
  fault_wait("stuck-abort");
  first = export_file(other, a);
  merge.fd2 = export_file(other, b);
  assert_int_equal(ioctl(first, SYNC_IOC_MERGE, &merge), 0);
  fault_set("stuck-abort", 0);
  assert_true(file_signals(first, FOREVER_MS));
  assert_false(file_signals(merge.fence, 20));
  import_file(fd, in, merge.fence);
  seqno = submit(fd, ctx, &job);
  held_go_on();
  wait_result(fd, ctx, seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  close(first);
  close(merge.fd2);
  close(merge.fence);
  ctx_destroy(other, second_ctx);
  other_destroy(&wrong);
  other_destroy(&held);
  stream_destroy(fd, &stream);
  syncobj_destroy(other, a);
  syncobj_destroy(other, b);
  syncobj_destroy(fd, in);
}

/* Many in- and out-syncs of both kinds at once; each out-sync has the fence. */
static void arrays_of_syncobjs(void **state) {
  enum { COUNT = JOB_MAX_SYNCS };
  uint32_t in[COUNT], out[COUNT];
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct stream stream, held;
  struct job job, before;

  (void)state;
  nop_job(&stream, &job);
  nop_job(&held, &before);
  before.args.flags = job.args.flags = DRM_NPU_JOB_EXPLICIT;
  for (uint32_t i = 0; i < COUNT; i++) {
    in[i] = syncobj_create(fd);
    out[i] = syncobj_create(fd);
    job_out(&before, in[i], i % 2 ? i : 0);
    job_in(&job, in[i], i % 2 ? i : 0);
    job_out(&job, out[i], i % 2 ? 100 + i : 0);
  }
  submit_held(fd, patient, &before);
  submit(fd, ctx, &job);
  for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(raw_syncobj_wait(fd, out[i], i % 2 ? 100 + i : 0, 0), -ETIME);
  held_go_on();
  for (uint32_t i = 0; i < COUNT; i++)
    assert_int_equal(raw_syncobj_wait(fd, out[i], i % 2 ? 100 + i : 0, FOREVER_MS), 0);
  for (uint32_t i = 0; i < COUNT; i++) {
    syncobj_destroy(fd, in[i]);
    syncobj_destroy(fd, out[i]);
  }
  stream_destroy(fd, &held);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, patient);
}

/* A point without a submission has no fence to wait for. */
static void points_of_the_future_are_refused(void **state) {
  uint32_t timeline = syncobj_create(fd);
  struct stream stream;
  struct job job;

  (void)state;
  nop_job(&stream, &job);
  job_in(&job, timeline, 5);
  assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
  job.in[0].point = 0;
  assert_int_equal(raw_submit(fd, ctx, &job), -EINVAL);
  stream_destroy(fd, &stream);
  syncobj_destroy(fd, timeline);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_order_jobs_of_different_files),
      cmocka_unit_test(files_can_be_polled),
      cmocka_unit_test(files_carry_errors),
      cmocka_unit_test(points_of_timelines_become_files),
      cmocka_unit_test(merged_files_carry_errors),
      cmocka_unit_test(arrays_of_syncobjs),
      cmocka_unit_test(points_of_the_future_are_refused),
  };

  return cmocka_run_group_tests_name("syncfile", tests, set_up, tear_down);
}
