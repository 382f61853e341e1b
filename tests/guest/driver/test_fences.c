/* SPDX-License-Identifier: MIT */
/* In- and out-fences, binary and timeline, implicit fences, and the propagation of errors. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd;
static uint32_t first, second; /* contexts */

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  first = ctx_create(fd);
  second = ctx_create(fd);
  calibrate(fd, first);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ctx_destroy(fd, first);
  ctx_destroy(fd, second);
  return close(fd);
}

/* A slow job that fills a byte; another that copies this byte. */
static void slow_writer(struct stream *stream, struct job *job, const struct bo *bo, uint8_t value) {
  stream->count = 0;
  stream_slow_copy(stream, 1, 60);
  stream_fill(stream, 1, 0, 1, value);
  job_init(job);
  job_gdma(job, stream);
  job_region(job, bo, RW);
}

static void reader(struct stream *stream, struct job *job, const struct bo *from, const struct bo *to) {
  stream->count = 0;
  stream_copy(stream, 1, 0, 2, 0, 1);
  job_init(job);
  job_gdma(job, stream);
  job_region(job, from, DRM_NPU_REGION_READ);
  job_region(job, to, DRM_NPU_REGION_WRITE);
}

struct pair {
  struct stream writer_stream, reader_stream;
  struct bo data, result;
  struct job writer, reader;
};

static void pair_create(struct pair *pair) {
  stream_create(fd, 4, &pair->writer_stream);
  stream_create(fd, 4, &pair->reader_stream);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &pair->data);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &pair->result);
  slow_writer(&pair->writer_stream, &pair->writer, &pair->data, 0x99);
  reader(&pair->reader_stream, &pair->reader, &pair->data, &pair->result);
}

static void pair_destroy(struct pair *pair) {
  bo_destroy(fd, &pair->data);
  bo_destroy(fd, &pair->result);
  stream_destroy(fd, &pair->writer_stream);
  stream_destroy(fd, &pair->reader_stream);
}

static void binary_fences_order_contexts(void **state) {
  uint32_t syncobj = syncobj_create(fd);
  struct pair pair;
  uint64_t seqno;

  (void)state;
  pair_create(&pair);
  pair.writer.args.flags = pair.reader.args.flags = DRM_NPU_JOB_EXPLICIT;
  job_out(&pair.writer, syncobj, 0);
  job_in(&pair.reader, syncobj, 0);
  submit(fd, first, &pair.writer);
  seqno = submit(fd, second, &pair.reader);
  wait_ok(fd, second, seqno);
  assert_int_equal(pair.result.map[0], 0x99);
  assert_int_equal(syncobj_status(fd, syncobj), 0);
  pair_destroy(&pair);
  syncobj_destroy(fd, syncobj);
}

static void timeline_points_order_contexts(void **state) {
  uint32_t timeline = syncobj_create(fd);
  struct pair pair;

  (void)state;
  pair_create(&pair);
  pair.writer.args.flags = pair.reader.args.flags = DRM_NPU_JOB_EXPLICIT;
  job_out(&pair.writer, timeline, 0);
  job_out(&pair.reader, timeline, 0);
  job_in(&pair.reader, timeline, 0);
  for (uint64_t point = 1; point <= 40; point += 2) {
    memset(pair.data.map, 0, 1);
    memset(pair.result.map, 0, 1);
    pair.writer.out[0].point = point;
    pair.reader.in[0].point = point;
    pair.reader.out[0].point = point + 1;
    submit(fd, first, &pair.writer);
    submit(fd, second, &pair.reader);
    assert_int_equal(raw_syncobj_wait(fd, timeline, point + 1, FOREVER_MS), 0);
    assert_int_equal(pair.result.map[0], 0x99);
  }
  assert_int_equal(raw_syncobj_wait(fd, timeline, 1, 0), 0);
  assert_int_equal(raw_syncobj_wait(fd, timeline, 41, 0), -ETIME);
  pair_destroy(&pair);
  syncobj_destroy(fd, timeline);
}

static void buffers_order_contexts_by_themselves(void **state) {
  struct pair pair;

  (void)state;
  pair_create(&pair);
  for (int i = 0; i < 10; i++) {
    pair.data.map[0] = pair.result.map[0] = 0;
    submit(fd, first, &pair.writer);
    wait_ok(fd, second, submit(fd, second, &pair.reader));
    assert_int_equal(pair.result.map[0], 0x99);
  }
  pair_destroy(&pair);
}

static void explicit_jobs_do_not_wait_for_buffers(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct drm_npu_wait wait;
  struct pair pair;
  uint64_t held;

  (void)state;
  pair_create(&pair);
  pair.reader.args.flags = DRM_NPU_JOB_EXPLICIT;
  held = submit_held(fd, patient, &pair.writer);
  wait_ok(fd, second, submit(fd, second, &pair.reader));
  assert_int_equal(raw_wait(fd, patient, held, 0, &wait), -ETIME);
  held_go_on();
  wait_ok(fd, patient, held);
  pair_destroy(&pair);
  ctx_destroy(fd, patient);
}

/* A job that fails: its stream has an unknown opcode. */
static void failing(struct stream *stream, struct job *job) {
  struct npu_cmd *cmd;

  stream->count = 0;
  cmd = stream_next(stream);
  cmd->opcode = 0xfe;
  job_init(job);
  job_gdma(job, stream);
}

static void check_cancelled(uint32_t ctx, uint64_t seqno) {
  struct drm_npu_wait wait;

  wait_result(fd, ctx, seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  assert_int_equal(wait.cycles, 0);
  assert_int_equal(wait.fault.seqno, 0);
  assert_int_equal(wait.fault.status, 0);
}

/* A failed in-fence cancels a chain of jobs, in the same context and in others; further jobs run. */
static void cancel_along(uint32_t from, uint32_t to, uint64_t point) {
  uint32_t a = syncobj_create(fd), b = syncobj_create(fd);
  struct drm_npu_ctx_query before, after;
  struct stream bad, good;
  struct drm_npu_wait wait;
  struct job fails, cancelled;
  uint64_t failed, next, last;
  struct bo bo;

  ctx_query(fd, to, &before);
  stream_create(fd, 2, &bad);
  stream_create(fd, 2, &good);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  failing(&bad, &fails);
  job_out(&fails, a, point);
  stream_fill(&good, 1, 0, 1, 1);
  job_init(&cancelled);
  job_gdma(&cancelled, &good);
  job_region(&cancelled, &bo, RW);
  job_in(&cancelled, a, point);
  job_out(&cancelled, b, point);

  failed = submit(fd, from, &fails);
  next = submit(fd, to, &cancelled);
  cancelled.in[0].handle = b;
  cancelled.args.out_sync_count = 0;
  last = submit(fd, to, &cancelled);

  wait_result(fd, from, failed, &wait);
  assert_int_equal(wait.error, -EIO);
  check_cancelled(to, next);
  check_cancelled(to, last);
  assert_int_equal(bo.map[0], 0);
  if (!point) {
    assert_int_equal(syncobj_status(fd, a), -EIO);
    assert_int_equal(syncobj_status(fd, b), -ECANCELED);
  }
  ctx_query(fd, to, &after);
  assert_int_equal(after.victims, before.victims + 2);
  run_nop(fd, from);
  run_nop(fd, to);

  bo_destroy(fd, &bo);
  stream_destroy(fd, &bad);
  stream_destroy(fd, &good);
  syncobj_destroy(fd, a);
  syncobj_destroy(fd, b);
}

static void errors_cancel_across_contexts(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) cancel_along(first, second, 0);
}

static void errors_cancel_within_a_context(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) cancel_along(first, first, 0);
}

static void errors_cancel_along_timelines(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) {
    cancel_along(first, second, i + 1);
    cancel_along(first, first, i + 1);
  }
}

/* Implicit fences only order: a job that reads the output of a failed job does not fail. */
static void errors_do_not_travel_by_buffers(void **state) {
  struct drm_npu_wait wait;
  struct stream bad, good;
  struct job fails, reads;
  struct bo bo;
  uint64_t seqno;

  (void)state;
  stream_create(fd, 2, &bad);
  stream_create(fd, 2, &good);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  failing(&bad, &fails);
  job_region(&fails, &bo, RW);
  stream_fill(&good, 1, 0, 1, 1);
  job_init(&reads);
  job_gdma(&reads, &good);
  job_region(&reads, &bo, RW);
  seqno = submit(fd, first, &fails);
  wait_ok(fd, second, submit(fd, second, &reads));
  wait_result(fd, first, seqno, &wait);
  assert_int_equal(wait.error, -EIO);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &bad);
  stream_destroy(fd, &good);
}

/* A cancelled job finishes after earlier jobs, or its fence would release their buffers early. */
static void cancelled_jobs_keep_their_turn(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  uint32_t a = syncobj_create(fd);
  struct drm_npu_bo_wait bo_wait = {0};
  struct drm_npu_wait wait;
  struct stream bad, good;
  struct job fails, runs, cancelled;
  struct bo bo;
  uint64_t failed, running, last;

  (void)state;
  stream_create(fd, 2, &bad);
  stream_create(fd, 2, &good);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  failing(&bad, &fails);
  job_out(&fails, a, 0);
  failed = submit(fd, second, &fails);
  wait_result(fd, second, failed, &wait);

  stream_nop(&good, 0);
  job_init(&runs);
  job_gdma(&runs, &good);
  job_region(&runs, &bo, RW);
  running = submit_held(fd, patient, &runs);
  job_init(&cancelled);
  job_gdma(&cancelled, &good);
  job_region(&cancelled, &bo, RW);
  job_in(&cancelled, a, 0);
  last = submit(fd, patient, &cancelled);

  bo_wait.handle = bo.handle;
  usleep(20000);
  assert_int_equal(raw_wait(fd, patient, last, 0, &wait), -ETIME);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &bo_wait), -ETIME);
  held_go_on();
  wait_ok(fd, patient, running);
  check_cancelled(patient, last);

  bo_destroy(fd, &bo);
  stream_destroy(fd, &bad);
  stream_destroy(fd, &good);
  syncobj_destroy(fd, a);
  ctx_destroy(fd, patient);
}

/* An in-fence does not signal while the context exists; the context can still be destroyed. */
static void contexts_with_waiting_jobs_can_be_destroyed(void **state) {
  uint32_t ctx = ctx_create(fd), patient = ctx_create_patient(fd, NULL);
  uint32_t held_out = syncobj_create(fd), out = syncobj_create(fd);
  struct drm_npu_wait wait;
  struct stream good;
  struct job runs, waits;
  uint64_t held;

  (void)state;
  stream_create(fd, 2, &good);
  stream_nop(&good, 0);
  job_init(&runs);
  job_gdma(&runs, &good);
  job_out(&runs, held_out, 0);
  held = submit_held(fd, patient, &runs);

  job_init(&waits);
  job_gdma(&waits, &good);
  job_in(&waits, held_out, 0);
  job_out(&waits, out, 0);
  submit(fd, ctx, &waits);
  ctx_destroy(fd, ctx);
  assert_int_equal(raw_wait(fd, patient, held, 0, &wait), -ETIME);
  held_go_on();
  /* The driver keeps fences in order: this one signals after the job's in-fence. */
  assert_int_equal(raw_syncobj_wait(fd, out, 0, FOREVER_MS), 0);
  assert_true(syncobj_status(fd, out) < 0);
  wait_ok(fd, patient, held);
  run_nop(fd, first);

  stream_destroy(fd, &good);
  syncobj_destroy(fd, held_out);
  syncobj_destroy(fd, out);
  ctx_destroy(fd, patient);
}

/* The fence of a job outlives its context and its file. */
static void fences_outlive_everything(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    int other = npu_open();
    uint32_t ctx = ctx_create(other);
    uint32_t syncobj = syncobj_create(other);
    struct drm_syncobj_handle args = {
        .handle = syncobj, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1};
    struct drm_syncobj_handle import = {0};
    struct stream stream;
    struct bo bo;
    struct job job;

    stream_create(other, 2, &stream);
    bo_create(other, 4096, DRM_NPU_BO_SYSTEM, &bo);
    stream_slow_copy(&stream, 1, 40);
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &bo, RW);
    job_out(&job, syncobj, 0);
    submit(other, ctx, &job);
    assert_int_equal(raw_ioctl(other, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args), 0);
    close(other);

    import.fd = args.fd;
    import.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE;
    import.handle = syncobj_create(fd);
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &import), 0);
    close(args.fd);
    assert_int_equal(raw_syncobj_wait(fd, import.handle, 0, FOREVER_MS), 0);
    assert_true(syncobj_status(fd, import.handle) <= 0);
    syncobj_destroy(fd, import.handle);
    bo_unmap(&stream.bo);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(binary_fences_order_contexts),
      cmocka_unit_test(timeline_points_order_contexts),
      cmocka_unit_test(buffers_order_contexts_by_themselves),
      cmocka_unit_test(explicit_jobs_do_not_wait_for_buffers),
      cmocka_unit_test(errors_cancel_across_contexts),
      cmocka_unit_test(errors_cancel_within_a_context),
      cmocka_unit_test(errors_cancel_along_timelines),
      cmocka_unit_test(errors_do_not_travel_by_buffers),
      cmocka_unit_test(cancelled_jobs_keep_their_turn),
      cmocka_unit_test(contexts_with_waiting_jobs_can_be_destroyed),
      cmocka_unit_test(fences_outlive_everything),
  };

  return cmocka_run_group_tests_name("fences", tests, set_up, tear_down);
}
