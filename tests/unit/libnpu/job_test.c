/* SPDX-License-Identifier: MIT */
/* Contexts and jobs: results, order, dependencies, limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

static npu_device *device;
static npu_context *context;

static int set_up(void **state) {
  (void)state;
  device = must_open();
  context = must_context(device);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  npu_context_destroy(context);
  npu_device_close(device);
  return 0;
}

static void an_empty_job_ends_well(void **state) {
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  uint64_t seqno;

  (void)state;
  MUST(npu_submit(context, &job, 1, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  MUST(npu_wait(context, seqno, 0, NULL));
}

static void a_copy_arrives_and_takes_modelled_time(void **state) {
  npu_bo *src = must_create(device, 100000, DRM_NPU_BO_SYSTEM), *dst = must_create(device, 100000, DRM_NPU_BO_CARD);
  uint8_t *data = must_alloc(100000), *got = must_alloc(100000);
  struct program p;
  struct npu_result one, two;
  uint64_t seqno;

  (void)state;
  program_init(&p, device);
  fill_pattern(data, 100000, 1);
  MUST(npu_write(src, 0, data, 100000));
  program_copy(&p, 1, 3, 99990);
  MUST(submit_program(context, &p, dst, src, &seqno));
  one = must_wait(context, seqno);
  assert_int_equal(one.error, 0);
  assert_true(one.cycles > 0);
  MUST(npu_read(dst, 1, got, 99990));
  assert_bytes(got, data + 3, 99990);
  /* The same job has the same modelled time. */
  MUST(submit_program(context, &p, dst, src, &seqno));
  two = must_wait(context, seqno);
  assert_int_equal(one.cycles, two.cycles);
  program_free(&p);
  npu_bo_unref(src);
  npu_bo_unref(dst);
  free(data);
  free(got);
}

static void a_fill_through_local_memory_and_the_tiu(void **state) {
  npu_bo *dst = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct program p;
  float got[16];
  uint64_t seqno;

  (void)state;
  /* GDMA fills local memory with 1.5, TIU doubles it by adding it to itself, GDMA stores the sum. */
  program_init(&p, device);
  struct npu_cmd_fill *fill = program_gdma(&p, NPU_OP_FILL);
  const float value = 1.5f;
  memcpy(&fill->value, &value, 4);
  fill->dst_region = NPU_REGION_LOCAL;
  fill->dst_dtype = NPU_DTYPE_F32;
  struct npu_cmd_copy *store = program_gdma(&p, NPU_OP_COPY);
  store->wait = 1;
  store->src_region = NPU_REGION_LOCAL;
  store->dst_region = 1;
  store->src_offset = 64;
  for (int i = 0; i < 5; i++) fill->dims[i] = store->dims[i] = 1;
  fill->dims[5] = store->dims[5] = 16;
  fill->dst_stride[5] = store->src_stride[5] = store->dst_stride[5] = 1;
  struct npu_cmd_eltwise *add = program_tiu(&p, NPU_OP_ELTWISE);
  add->subop = NPU_ELTWISE_ADD;
  add->wait = 1;
  add->out_addr = 64;
  for (int i = 0; i < 4; i++) add->dims[i] = 1;
  add->dims[4] = 16;
  add->a_stride[4] = add->b_stride[4] = 1;
  MUST(submit_program(context, &p, dst, NULL, &seqno));
  const struct npu_result result = must_wait(context, seqno);
  char text[200] = "";
  npu_describe_fault(&result.fault, text, sizeof(text));
  assert_string_equal(text, "no fault");
  MUST(npu_read(dst, 0, got, sizeof(got)));
  for (int i = 0; i < 16; i++) assert_true(got[i] == 3.0f);
  program_free(&p);
  npu_bo_unref(dst);
}

static void jobs_of_a_context_end_in_order(void **state) {
  enum { JOBS = 200 };
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct program p[2];
  struct drm_npu_ctx_query query;
  uint64_t first = 0, seqno = 0, value = 0;

  (void)state;
  /* Each job increases nothing but overwrites one word; the last one must win. More jobs than can be in flight. */
  for (int k = 0; k < 2; k++) {
    program_init(&p[k], device);
    struct npu_cmd_fill *fill = program_gdma(&p[k], NPU_OP_FILL);
    fill->value = (uint64_t)k + 1;
    fill->dst_region = 1;
    fill->dst_dtype = NPU_DTYPE_S64;
    for (int i = 0; i < 6; i++) fill->dims[i] = 1;
    fill->dst_stride[5] = 1;
  }
  for (int i = 0; i < JOBS; i++) {
    const uint64_t before = seqno;
    MUST(submit_program(context, &p[i % 2], bo, NULL, &seqno));
    if (i) assert_int_equal(seqno, before + 1);
    if (!i) first = seqno;
  }
  assert_int_equal(must_wait(context, seqno).error, 0);
  MUST(npu_wait(context, first, 0, NULL)); /* finished, since a later one is */
  MUST(npu_read(bo, 0, &value, 8));
  assert_int_equal(value, 2);
  MUST(npu_context_state(context, &query));
  assert_int_equal(query.submitted, seqno);
  assert_int_equal(query.completed, seqno);
  for (int k = 0; k < 2; k++) program_free(&p[k]);
  npu_bo_unref(bo);
}

static void several_jobs_in_one_call(void **state) {
  enum { JOBS = 8 };
  struct drm_npu_stream stream = {0};
  struct npu_job_desc jobs[JOBS];
  struct drm_npu_ctx_query before;
  uint64_t seqno;

  (void)state;
  for (int i = 0; i < JOBS; i++) jobs[i] = (struct npu_job_desc){.streams = &stream, .stream_count = 1};
  MUST(npu_context_state(context, &before));
  MUST(npu_submit(context, jobs, JOBS, &seqno));
  assert_int_equal(seqno, before.submitted + JOBS);
  /* One bad job among good ones: nothing is submitted. */
  jobs[5].flags = 0x80;
  MUST_FAIL(npu_submit(context, jobs, JOBS, &seqno), EINVAL, "npu_submit");
  MUST(npu_context_state(context, &before));
  assert_int_equal(before.submitted, seqno);
  assert_int_equal(must_wait(context, seqno).error, 0);
}

static void results_of_old_jobs_are_forgotten_without_harm(void **state) {
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  uint64_t first, seqno;
  struct npu_result result;

  (void)state;
  MUST(npu_submit(context, &job, 1, &first));
  for (int i = 0; i < 300; i++) MUST(npu_submit(context, &job, 1, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  MUST(npu_wait(context, first, 0, &result));
  assert_int_equal(result.known, 0);
}

static void waiting_for_what_was_not_submitted(void **state) {
  struct drm_npu_ctx_query query;

  (void)state;
  MUST(npu_context_state(context, &query));
  MUST_FAIL(npu_wait(context, 0, 0, NULL), EINVAL, "was not submitted");
  MUST_FAIL(npu_wait(context, query.submitted + 1, -1, NULL), EINVAL, "was not submitted");
  MUST_FAIL(npu_wait(NULL, 1, 0, NULL), EINVAL, "no context");
}

static void a_wait_can_time_out(void **state) {
  npu_context *other = must_context(device);
  npu_bo *bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  struct program p;
  uint64_t seqno;

  (void)state;
  program_init(&p, device);
  program_long(&p, 4 * MIB);
  submit_long_job(other, &p, bo, &seqno);
  MUST_FAIL(npu_wait(other, seqno, 0, NULL), ETIME, "not finished");
  MUST_FAIL(npu_wait(other, seqno, 1000000, NULL), ETIME, "not finished");
  npu_context_destroy(other);
  program_free(&p);
  npu_bo_unref(bo);
  assert_works(device, context);
}

static void bad_jobs_are_refused(void **state) {
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct npu_job_region region = {.bo = bo, .size = 4096, .access = DRM_NPU_REGION_READ};
  struct drm_npu_stream stream = {0};
  const struct npu_job_desc good = {.regions = &region, .streams = &stream, .region_count = 1, .stream_count = 1};
  struct npu_job_desc job;
  uint64_t seqno;

  (void)state;
#define REFUSED(change)                                                                      \
  do {                                                                                       \
    job = good;                                                                              \
    region = (struct npu_job_region){.bo = bo, .size = 4096, .access = DRM_NPU_REGION_READ}; \
    stream = (struct drm_npu_stream){0};                                                     \
    change;                                                                                  \
    MUST_FAIL(npu_submit(context, &job, 1, &seqno), EINVAL, "npu_submit");                   \
  } while (0)
  REFUSED(job.stream_count = 0);
  REFUSED(job.stream_count = 9);
  REFUSED(job.stream_count = 2; job.core_mask = 1);
  REFUSED(job.flags = 0x2);
  REFUSED(job.core_mask = 0x100);
  REFUSED(job.reserved = 1);
  REFUSED(job.region_count = NPU_MAX_REGIONS + 1; job.regions = NULL);
  REFUSED(job.region_count = UINT32_MAX); /* not read, nor allocated for */
  REFUSED(job.in_fence_count = UINT32_MAX; job.in_fences = (void *)&region);
  REFUSED(job.profile_region = 1);
  REFUSED(job.profile_bytes = 64); /* region 0 is not writable */
  REFUSED(region.size = 0);
  REFUSED(region.size = 4097);
  REFUSED(region.offset = 1);
  REFUSED(region.offset = UINT64_MAX);
  REFUSED(region.access = 0);
  REFUSED(region.access = 4);
  REFUSED(region.reserved = 1);
  REFUSED(region.bo = NULL);
  REFUSED(stream.gdma_region = 1);                        /* without commands */
  REFUSED(stream.gdma_count = 1; stream.gdma_region = 1); /* no such region */
  REFUSED(stream.gdma_count = 1; stream.gdma_offset = 64);
  REFUSED(stream.gdma_count = 33); /* beyond the region */
  REFUSED(stream.tiu_count = NPU_MAX_STREAM_COMMANDS + 1);
  REFUSED(stream.gdma_count = 1; region.access = DRM_NPU_REGION_WRITE);
#undef REFUSED
  MUST_FAIL(npu_submit(context, NULL, 1, &seqno), EINVAL, "no jobs");
  MUST_FAIL(npu_submit(context, &good, 0, &seqno), EINVAL, "no jobs");
  npu_bo_unref(bo);
  assert_works(device, context);
}

static void bad_contexts_are_refused(void **state) {
  npu_context *other = (npu_context *)1;

  (void)state;
  MUST_FAIL(npu_context_create(device, 4, 0, &other), EINVAL, "priority 4");
  assert_null(other);
  MUST_FAIL(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0x80000000u, &other), EINVAL, "core mask");
  MUST_FAIL(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, NULL), EINVAL, "no place");
}

static void every_core_can_be_chosen(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  MUST(npu_device_info(device, &info));
  for (uint32_t core = 0; core < info.cores; core++) {
    struct drm_npu_status_info before, after;
    npu_context *one = NULL;

    MUST(npu_context_create(device, DRM_NPU_PRIORITY_LOW, 1u << core, &one));
    MUST(npu_device_status(device, &before));
    assert_works(device, one);
    MUST(npu_device_status(device, &after));
    assert_true(after.jobs[core] > before.jobs[core]);
    npu_context_destroy(one);
  }
}

/* The driver's contexts share queues; the simulated card gives one to each. */
static void there_may_be_more_contexts_than_queues(void **state) {
  const bool sim = !strcmp(npu_device_transport(device), "sim");
  struct drm_npu_dev_info info;
  npu_context **all, *one_more = NULL;
  uint32_t count = 0;
  char text[128];

  (void)state;
  MUST(npu_device_info(device, &info));
  all = calloc(info.queues + 1, sizeof(*all));
  while (count <= info.queues && !npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &all[count])) count++;
  if (!sim) assert_int_equal(count, info.queues + 1);
  for (uint32_t i = 0; i < count; i++) assert_works(device, all[i]);
  if (!sim) goto out;
  assert_in_range(count, 1, info.queues);
  snprintf(text, sizeof(text), "all queues of the card are in use: it has %u, and each context takes one", info.queues);
  MUST_FAIL(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &one_more), ENOSPC, text);
  npu_context_destroy(all[--count]);
  MUST(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &one_more));
  assert_works(device, one_more);
  npu_context_destroy(one_more);
out:
  while (count) npu_context_destroy(all[--count]);
  free(all);
}

/* The same with a fence only: jobs with DRM_NPU_JOB_EXPLICIT do not look at buffers. */
static void a_fence_orders_jobs_of_two_contexts(void **state) {
  npu_context *other = must_context(device);
  npu_bo *src = must_create(device, 2 * MIB, DRM_NPU_BO_CARD), *shared = must_create(device, 2 * MIB, DRM_NPU_BO_CARD);
  npu_bo *copy = must_create(device, 2 * MIB, DRM_NPU_BO_CARD);
  struct npu_job_fence fence = {.context = other};
  struct program slow, quick;
  uint64_t seqno, mark = 0x1122334455667788ull, got = 0;

  (void)state;
  MUST(npu_write(src, 0, &mark, sizeof(mark)));
  program_init(&slow, device);
  for (int i = 0; i < 1000; i++) program_copy(&slow, 4096, 4096, MIB);
  program_copy(&slow, 0, 0, sizeof(mark));
  program_init(&quick, device);
  program_copy(&quick, 0, 0, sizeof(mark));
  MUST(submit_program(other, &slow, shared, src, &fence.seqno));
  MUST(submit_after(context, &quick, copy, shared, &fence, 1, DRM_NPU_JOB_EXPLICIT, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  MUST(npu_wait(other, fence.seqno, 0, NULL));
  MUST(npu_read(copy, 0, &got, sizeof(got)));
  assert_true(got == mark);
  program_free(&slow);
  program_free(&quick);
  npu_bo_unref(src);
  npu_bo_unref(shared);
  npu_bo_unref(copy);
  npu_context_destroy(other);
}

/* One context writes a buffer slowly and marks it at the end, the other copies the mark: only the buffer orders them.
 */
static void buffers_order_jobs_of_two_contexts(void **state) {
  npu_context *other = must_context(device);
  npu_bo *src = must_create(device, 2 * MIB, DRM_NPU_BO_CARD), *shared = must_create(device, 2 * MIB, DRM_NPU_BO_CARD);
  npu_bo *copy = must_create(device, 2 * MIB, DRM_NPU_BO_CARD);
  struct program slow, quick;
  uint64_t seqno, mark, got = 0;

  (void)state;
  program_init(&slow, device);
  for (int i = 0; i < 1000; i++) program_copy(&slow, 4096, 4096, MIB);
  program_copy(&slow, 0, 0, sizeof(mark));
  program_init(&quick, device);
  program_copy(&quick, 0, 0, sizeof(mark));
  for (mark = 1; mark <= 3; mark++) {
    MUST(npu_write(src, 0, &mark, sizeof(mark)));
    MUST(submit_program(context, &slow, shared, src, &seqno));
    MUST(submit_program(other, &quick, copy, shared, &seqno));
    assert_int_equal(must_wait(other, seqno).error, 0);
    MUST(npu_read(copy, 0, &got, sizeof(got)));
    assert_int_equal(got, mark);
  }
  program_free(&slow);
  program_free(&quick);
  npu_bo_unref(src);
  npu_bo_unref(shared);
  npu_bo_unref(copy);
  npu_context_destroy(other);
}

static void a_bad_fence_is_refused(void **state) {
  struct npu_job_fence fence = {.context = context};
  struct drm_npu_ctx_query query;
  struct program p;
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  uint64_t seqno;

  (void)state;
  program_init(&p, device);
  MUST(npu_context_state(context, &query));
  MUST_FAIL(submit_after(context, &p, bo, NULL, &fence, 1, 0, &seqno), EINVAL, "in-fence 0");
  fence.seqno = query.submitted + 1;
  MUST_FAIL(submit_after(context, &p, bo, NULL, &fence, 1, 0, &seqno), EINVAL, "was not submitted");
  fence.context = NULL;
  MUST_FAIL(submit_after(context, &p, bo, NULL, &fence, 1, 0, &seqno), EINVAL, "no context");
  program_free(&p);
  npu_bo_unref(bo);
}

/* The fence page is about the last job; of an earlier one the driver is asked. */
static void an_earlier_job_has_its_own_result(void **state) {
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct program bad, good;
  uint64_t first, second;

  (void)state;
  program_init(&bad, device);
  program_gdma(&bad, 0x7f);
  program_init(&good, device);
  program_copy(&good, 0, 0, 64);
  MUST(submit_program(context, &bad, bo, bo, &first));
  MUST(submit_program(context, &good, bo, bo, &second));
  assert_int_equal(must_wait(context, second).error, 0);
  assert_int_equal(must_wait(context, first).error, -EIO);
  program_free(&bad);
  program_free(&good);
  npu_bo_unref(bo);
}

/* A job that is cancelled by its in-fence keeps its place: it ends behind the jobs before it. */
static void a_cancelled_job_ends_in_its_turn(void **state) {
  npu_context *other = must_context(device);
  npu_bo *bo = must_create(device, 2 * MIB, DRM_NPU_BO_CARD), *src = must_create(device, 4096, DRM_NPU_BO_CARD);
  npu_bo *unrelated = must_create(device, 4096, DRM_NPU_BO_CARD);
  const uint64_t mark = 0x1122334455667788ull;
  struct npu_job_fence fence = {.context = other};
  struct drm_npu_stream stream = {0};
  struct npu_job_desc empty = {.streams = &stream, .stream_count = 1, .in_fences = &fence, .in_fence_count = 1};
  struct program slow, bad;
  uint64_t first, cancelled;
  void *seen = NULL;

  (void)state;
  MUST(npu_write(src, 0, &mark, sizeof(mark)));
  MUST(npu_bo_map(bo, &seen));
  program_init(&slow, device);
  for (int i = 0; i < 1000; i++) program_copy(&slow, 4096, 0, 4096);
  for (int i = 0; i < 1000; i++) program_copy(&slow, MIB, 4096, MIB / 2);
  for (int i = 1000; i < 2000; i++) ((struct npu_cmd_copy *)(slow.commands + i * NPU_CMD_BYTES))->src_region = 1;
  program_copy(&slow, 0, 0, sizeof(mark));
  program_init(&bad, device);
  for (int i = 0; i < 20; i++) program_copy(&bad, 0, 0, 4096);
  program_gdma(&bad, 0x7f);
  MUST(submit_program(context, &slow, bo, src, &first));
  MUST(submit_program(other, &bad, unrelated, unrelated, &fence.seqno));
  MUST(npu_submit(context, &empty, 1, &cancelled));
  assert_int_equal(must_wait(context, cancelled).error, -ECANCELED);
  MUST(npu_bo_sync(bo, 0, sizeof(mark), DRM_NPU_SYNC_FROM_DEVICE));
  assert_memory_equal(seen, &mark, sizeof(mark));
  assert_int_equal(must_wait(context, first).error, 0);
  MUST(npu_bo_sync(bo, 0, 2 * MIB, DRM_NPU_SYNC_FROM_DEVICE));
  npu_bo_unmap(bo);
  program_free(&slow);
  program_free(&bad);
  npu_bo_unref(bo);
  npu_bo_unref(src);
  npu_bo_unref(unrelated);
  npu_context_destroy(other);
}

/* As of other jobs, the last 256 results of cancelled ones are kept. */
static void results_of_cancelled_jobs_are_kept_as_long_as_others(void **state) {
  enum { JOBS = 300, KEPT = 256 };
  npu_context *failed = must_context(device), *mine = must_context(device);
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct npu_job_fence fence = {.context = failed};
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1, .in_fences = &fence, .in_fence_count = 1};
  struct drm_npu_ctx_query query;
  struct npu_result result;
  struct program bad;
  uint64_t seqno = 0;

  (void)state;
  program_init(&bad, device);
  program_gdma(&bad, 0x7f);
  MUST(submit_program(failed, &bad, bo, bo, &fence.seqno));
  assert_int_equal(must_wait(failed, fence.seqno).error, -EIO);
  for (int i = 0; i < JOBS; i++) MUST(npu_submit(mine, &job, 1, &seqno));
  assert_int_equal(seqno, JOBS);
  MUST(npu_wait(mine, JOBS, LONG_TIME, NULL));
  /* The fence page tells the last job's end before the driver records its result over that of an earlier job. */
  do MUST(npu_context_state(mine, &query));
  while (query.completed < JOBS);
  assert_int_equal(must_wait(mine, JOBS).error, -ECANCELED);
  assert_int_equal(must_wait(mine, JOBS - KEPT + 1).error, -ECANCELED);
  MUST(npu_wait(mine, JOBS - KEPT, 0, &result));
  assert_int_equal(result.known, 0);
  program_free(&bad);
  npu_bo_unref(bo);
  npu_context_destroy(mine);
  npu_context_destroy(failed);
}

static void destroying_a_context_aborts_its_jobs_only(void **state) {
  npu_bo *bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  struct program p;
  uint64_t seqno;

  (void)state;
  program_init(&p, device);
  program_long(&p, 4 * MIB);
  for (int i = 0; i < 5; i++) {
    npu_context *doomed = must_context(device);
    submit_long_job(doomed, &p, bo, &seqno);
    submit_long_job(doomed, &p, bo, &seqno);
    npu_context_destroy(doomed);
    assert_works(device, context);
  }
  MUST(npu_bo_wait(bo, LONG_TIME));
  program_free(&p);
  npu_bo_unref(bo);
}

static void a_profile_is_written(void **state) {
  npu_bo *dst = must_create(device, 4096, DRM_NPU_BO_CARD), *src = must_create(device, 4096, DRM_NPU_BO_CARD);
  npu_bo *profile = must_create(device, 4096, DRM_NPU_BO_SYSTEM);
  struct npu_profile_header header;
  struct npu_profile record;
  struct program p;
  uint64_t seqno;

  (void)state;
  program_init(&p, device);
  program_copy(&p, 0, 0, 64);
  program_copy(&p, 64, 64, 64);
  struct npu_job_region regions[] = {{p.bo, 0, npu_bo_size(p.bo), DRM_NPU_REGION_READ, 0},
                                     {dst, 0, 4096, DRM_NPU_REGION_WRITE, 0},
                                     {src, 0, 4096, DRM_NPU_REGION_READ, 0},
                                     {profile, 0, 4096, DRM_NPU_REGION_WRITE, 0}};
  struct drm_npu_stream stream = {.gdma_count = 2};
  struct npu_job_desc job = {.regions = regions,
                             .streams = &stream,
                             .region_count = 4,
                             .stream_count = 1,
                             .profile_region = 3,
                             .profile_offset = 8,
                             .profile_bytes = 1024};
  program_flush(&p);
  MUST(npu_submit(context, &job, 1, &seqno));
  const struct npu_result result = must_wait(context, seqno);
  assert_int_equal(result.error, 0);
  MUST(npu_read(profile, 8, &header, sizeof(header)));
  assert_int_equal(header.records, 2);
  assert_int_equal(header.cycles, result.cycles);
  MUST(npu_read(profile, 8 + sizeof(header) + sizeof(record), &record, sizeof(record)));
  assert_int_equal(record.command, 1);
  assert_int_equal(record.engine, NPU_ENGINE_GDMA);
  assert_int_equal(record.end, result.cycles);
  program_free(&p);
  npu_bo_unref(dst);
  npu_bo_unref(src);
  npu_bo_unref(profile);
}

int job_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_job_ends_well),
      cmocka_unit_test(a_copy_arrives_and_takes_modelled_time),
      cmocka_unit_test(a_fill_through_local_memory_and_the_tiu),
      cmocka_unit_test(jobs_of_a_context_end_in_order),
      cmocka_unit_test(several_jobs_in_one_call),
      cmocka_unit_test(results_of_old_jobs_are_forgotten_without_harm),
      cmocka_unit_test(waiting_for_what_was_not_submitted),
      cmocka_unit_test(a_wait_can_time_out),
      cmocka_unit_test(bad_jobs_are_refused),
      cmocka_unit_test(bad_contexts_are_refused),
      cmocka_unit_test(every_core_can_be_chosen),
      cmocka_unit_test(there_may_be_more_contexts_than_queues),
      cmocka_unit_test(a_fence_orders_jobs_of_two_contexts),
      cmocka_unit_test(buffers_order_jobs_of_two_contexts),
      cmocka_unit_test(a_bad_fence_is_refused),
      cmocka_unit_test(an_earlier_job_has_its_own_result),
      cmocka_unit_test(a_cancelled_job_ends_in_its_turn),
      cmocka_unit_test(results_of_cancelled_jobs_are_kept_as_long_as_others),
      cmocka_unit_test(destroying_a_context_aborts_its_jobs_only),
      cmocka_unit_test(a_profile_is_written),
  };
  return cmocka_run_group_tests_name("job", tests, set_up, tear_down);
}
