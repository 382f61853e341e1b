/* SPDX-License-Identifier: MIT */
/* Every error of the chip is reported to its job's context with exact fields, and the next job works. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define REGION_BYTES 0x6000

static int fd;
static uint32_t ctx, other;
static struct stream gdma, tiu;
static struct bo bo;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  other = ctx_create(fd);
  stream_create(fd, 16, &gdma);
  stream_create(fd, 16, &tiu);
  bo_create(fd, 0x10000, DRM_NPU_BO_SYSTEM, &bo);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  bo_destroy(fd, &bo);
  stream_destroy(fd, &gdma);
  stream_destroy(fd, &tiu);
  ctx_destroy(fd, ctx);
  ctx_destroy(fd, other);
  return close(fd);
}

static int each(void **state) {
  (void)state;
  gdma.count = tiu.count = 0;
  return 0;
}

/* Runs the streams with region 0: GDMA commands, 1: TIU commands, 2: 0x6000 bytes read-write, 3: the same read-only. */
static void run(uint64_t budget, struct drm_npu_wait *wait) {
  struct job job;

  job_init(&job);
  job_region(&job, &gdma.bo, DRM_NPU_REGION_READ);
  job_region(&job, &tiu.bo, DRM_NPU_REGION_READ);
  job_region(&job, &bo, RW);
  job.regions[2].offset = 0x100;
  job.regions[2].size = REGION_BYTES;
  job_region(&job, &bo, DRM_NPU_REGION_READ);
  job.regions[3].size = REGION_BYTES;
  job.stream =
      (struct drm_npu_stream){.gdma_count = gdma.count, .tiu_count = tiu.count, .tiu_region = tiu.count ? 1 : 0};
  job.args.budget = budget;
  wait_result(fd, ctx, submit(fd, ctx, &job), wait);
}

struct expected {
  int error;
  uint32_t status, engine, command, region, access, bytes;
  uint64_t offset;
};

static void check(const struct expected *want, uint64_t budget) {
  struct drm_npu_ctx_query before, after;
  struct drm_npu_wait wait;
  const struct drm_npu_fault *fault = &wait.fault;

  ctx_query(fd, ctx, &before);
  run(budget, &wait);
  assert_int_equal(wait.error, want->error);
  assert_int_equal(fault->seqno, wait.seqno);
  assert_int_equal(fault->status, want->status);
  assert_int_equal(fault->engine, want->engine);
  assert_int_equal(fault->command, want->command);
  assert_int_equal(fault->region, want->region);
  assert_int_equal(fault->access, want->access);
  assert_int_equal(fault->bytes, want->bytes);
  assert_int_equal(fault->offset, want->offset);
  assert_int_equal(fault->cause, DRM_NPU_CAUSE_NONE);
  assert_true(fault->core < NPU_MAX_CORES);

  ctx_query(fd, ctx, &after);
  assert_int_equal(after.errors, before.errors + 1);
  assert_int_equal(after.victims, before.victims);
  assert_memory_equal(&after.fault, fault, sizeof(*fault));

  /* Other contexts are not affected. */
  run_nop(fd, ctx);
  run_nop(fd, other);
  ctx_query(fd, other, &after);
  assert_int_equal(after.errors, 0);
  assert_int_equal(after.victims, 0);
}

static void region_overrun(void **state) {
  (void)state;
  stream_nop(&gdma, 0);
  stream_fill(&gdma, 2, 0, 16, 0);
  stream_fill(&gdma, 2, REGION_BYTES - 8, 16, 0);
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_REGION_BOUNDS,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 2,
                           .region = 2,
                           .access = DRM_NPU_REGION_WRITE,
                           .bytes = 16,
                           .offset = REGION_BYTES - 8},
        0);
}

static void region_overrun_when_reading(void **state) {
  (void)state;
  stream_copy(&gdma, 3, 0x8000, 2, 0, 100);
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_REGION_BOUNDS,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 0,
                           .region = 3,
                           .access = DRM_NPU_REGION_READ,
                           .bytes = 100,
                           .offset = 0x8000},
        0);
}

static void write_to_a_read_only_region(void **state) {
  (void)state;
  stream_fill(&gdma, 3, 16, 32, 0);
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_REGION_ACCESS,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 0,
                           .region = 3,
                           .access = DRM_NPU_REGION_WRITE,
                           .bytes = 32,
                           .offset = 16},
        0);
}

static void local_memory_overrun(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  npu_info(fd, &info);
  stream_fill(&gdma, NPU_REGION_LOCAL, info.lmem_bytes - 4, 8, 0);
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_LMEM_BOUNDS,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 0,
                           .region = NPU_REGION_LOCAL,
                           .access = DRM_NPU_REGION_WRITE,
                           .bytes = 8,
                           .offset = info.lmem_bytes - 4},
        0);
}

static void bad_opcode(void **state) {
  struct npu_cmd *cmd;

  (void)state;
  stream_nop(&gdma, 0);
  cmd = stream_next(&gdma);
  cmd->opcode = 0xfe;
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_BAD_OPCODE,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 1,
                           .region = NPU_REGION_NONE},
        0);
}

static void opcode_of_the_other_engine(void **state) {
  (void)state;
  stream_nop(&gdma, 0);
  stream_fill(&tiu, 2, 0, 16, 0);
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_BAD_OPCODE,
                           .engine = NPU_ENGINE_TIU,
                           .command = 0,
                           .region = NPU_REGION_NONE},
        0);
}

static void reserved_bits(void **state) {
  uint8_t *cmd;

  (void)state;
  stream_nop(&gdma, 0);
  cmd = gdma.bo.map;
  cmd[77] = 1;
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_RESERVED_BITS,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 0,
                           .region = NPU_REGION_NONE,
                           .offset = 77},
        0);
}

static void illegal_field(void **state) {
  (void)state;
  stream_fill(&gdma, 2, 0, 0, 0); /* a zero dimension */
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_BAD_FIELD,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 0,
                           .region = NPU_REGION_NONE,
                           .offset = offsetof(struct npu_cmd_fill, dims) + 5 * sizeof(uint32_t)},
        0);
}

static void deadlock(void **state) {
  (void)state;
  stream_nop(&gdma, 0);
  stream_nop(&gdma, 2);
  stream_nop(&tiu, 2);
  check(&(struct expected){.error = -EIO,
                           .status = NPU_STATUS_DEADLOCK,
                           .engine = NPU_ENGINE_TIU,
                           .command = 0,
                           .region = NPU_REGION_NONE},
        0);
}

static void budget(void **state) {
  (void)state;
  stream_nop(&gdma, 0);
  stream_fill(&gdma, 2, 0, REGION_BYTES, 0);
  check(&(struct expected){.error = -ETIME,
                           .status = NPU_STATUS_BUDGET,
                           .engine = NPU_ENGINE_GDMA,
                           .command = 1,
                           .region = NPU_REGION_NONE},
        100);
}

/* A stream that is rewritten while it runs ends normally or with an error of the job. */
static void stream_rewritten_while_it_runs(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  uint64_t seqno;

  (void)state;
  stream_create(fd, 4000, &stream);
  for (int round = 0; round < 10; round++) {
    stream.count = 0;
    for (int i = 0; i < 4000; i++) stream_fill(&stream, 1, 0, 0x1000, 0);
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &bo, RW);
    seqno = submit(fd, ctx, &job);
    for (int k = 0; k < 4; k++)
      for (uint64_t i = 0; i < stream.bo.size; i += 61) stream.bo.map[i] ^= (uint8_t)(i + k);
    wait_result(fd, ctx, seqno, &wait);
    assert_true(wait.error == 0 || wait.error == -EIO || wait.error == -ETIME);
    run_nop(fd, other);
  }
  stream_destroy(fd, &stream);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(region_overrun, each),
      cmocka_unit_test_setup(region_overrun_when_reading, each),
      cmocka_unit_test_setup(write_to_a_read_only_region, each),
      cmocka_unit_test_setup(local_memory_overrun, each),
      cmocka_unit_test_setup(bad_opcode, each),
      cmocka_unit_test_setup(opcode_of_the_other_engine, each),
      cmocka_unit_test_setup(reserved_bits, each),
      cmocka_unit_test_setup(illegal_field, each),
      cmocka_unit_test_setup(deadlock, each),
      cmocka_unit_test_setup(budget, each),
      cmocka_unit_test_setup(stream_rewritten_while_it_runs, each),
  };

  return cmocka_run_group_tests_name("faults", tests, set_up, tear_down);
}
