/* SPDX-License-Identifier: MIT */
/* Jobs on several cores: semaphores, deadlock, faults, profiles, arbitration, the watchdog. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define CORES 2

static int fd;
static uint32_t ctx;

static int set_up(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  fd = npu_open();
  npu_info(fd, &info);
  assert_true(info.features & NPU_FEATURE_GANG);
  assert_true(info.cores >= CORES);
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ctx_destroy(fd, ctx);
  return close(fd);
}

/* A job that uses only DMA engines: one stream per core, in separate buffers. */
struct gang {
  struct stream dma[CORES];
  struct drm_npu_stream streams[CORES];
  struct job job;
};

static void gang_create(struct gang *gang) {
  memset(gang, 0, sizeof(*gang));
  for (int i = 0; i < CORES; i++) stream_create(fd, 32, &gang->dma[i]);
  job_init(&gang->job);
  gang->job.args.streams = (uintptr_t)gang->streams;
  gang->job.args.stream_count = CORES;
  gang->job.args.core_mask = (1 << CORES) - 1;
}

/* Call it after the regions of the data and the commands are set. */
static void gang_finish(struct gang *gang) {
  for (int i = 0; i < CORES; i++) {
    if (!gang->dma[i].count) continue;
    gang->streams[i].gdma_region = job_region(&gang->job, &gang->dma[i].bo, DRM_NPU_REGION_READ);
    gang->streams[i].gdma_count = gang->dma[i].count;
  }
}

static void gang_destroy(struct gang *gang) {
  for (int i = 0; i < CORES; i++) stream_destroy(fd, &gang->dma[i]);
}

static void semaphore(struct stream *stream, uint8_t opcode, uint32_t sem, uint32_t value) {
  struct npu_cmd_sem_wait *cmd = stream_next(stream);

  cmd->opcode = opcode;
  cmd->sem = sem;
  cmd->value = value;
}

static void cores_hand_data_over(void **state) {
  struct gang gang;
  struct bo from, middle, to;

  (void)state;
  gang_create(&gang);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &from);
  bo_create(fd, 4096, DRM_NPU_BO_CARD, &middle);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &to);
  for (int i = 0; i < 4096; i++) from.map[i] = (uint8_t)(i * 5 + 1);
  job_region(&gang.job, &from, DRM_NPU_REGION_READ);
  job_region(&gang.job, &middle, RW);
  job_region(&gang.job, &to, DRM_NPU_REGION_WRITE);
  for (uint32_t i = 0; i < 4; i++) {
    if (i) semaphore(&gang.dma[0], NPU_OP_SEM_WAIT, 1, i);
    stream_copy(&gang.dma[0], 0, i * 1024, 1, i * 1024, 1024);
    semaphore(&gang.dma[0], NPU_OP_SEM_SIGNAL, 0, 1);
    semaphore(&gang.dma[1], NPU_OP_SEM_WAIT, 0, i + 1);
    stream_copy(&gang.dma[1], 1, i * 1024, 2, i * 1024, 1024);
    semaphore(&gang.dma[1], NPU_OP_SEM_SIGNAL, 1, 1);
  }
  gang_finish(&gang);
  for (int round = 0; round < 20; round++) {
    memset(to.map, 0, 4096);
    run_ok(fd, ctx, &gang.job);
    assert_memory_equal(to.map, from.map, 4096);
  }
  bo_destroy(fd, &from);
  bo_destroy(fd, &middle);
  bo_destroy(fd, &to);
  gang_destroy(&gang);
}

static void core_cycles(unsigned long long cycles[CORES]) {
  char key[32];

  for (int i = 0; i < CORES; i++) {
    snprintf(key, sizeof(key), "qnpu-cycles-core%d", i);
    cycles[i] = fdinfo_number(fd, key);
  }
}

/* A gang job occupies all its cores throughout; a single stream occupies one core of its mask. */
static void each_core_is_accounted_for(void **state) {
  unsigned long long before[CORES], after[CORES];
  struct drm_npu_wait wait;
  struct gang gang;

  (void)state;
  gang_create(&gang);
  for (int i = 0; i < CORES; i++) stream_nop(&gang.dma[i], 0);
  gang_finish(&gang);
  core_cycles(before);
  wait_result(fd, ctx, submit(fd, ctx, &gang.job), &wait);
  assert_true(wait.cycles > 0);
  core_cycles(after);
  for (int i = 0; i < CORES; i++) assert_int_equal(after[i], before[i] + wait.cycles);

  gang.job.args.stream_count = 1;
  core_cycles(before);
  wait_result(fd, ctx, submit(fd, ctx, &gang.job), &wait);
  core_cycles(after);
  assert_int_equal(after[0] + after[1], before[0] + before[1] + wait.cycles);
  assert_true(after[0] == before[0] || after[1] == before[1]);
  gang_destroy(&gang);
}

static void run_failing(struct gang *gang, uint32_t status, struct drm_npu_fault *fault) {
  struct drm_npu_wait wait;

  wait_result(fd, ctx, submit(fd, ctx, &gang->job), &wait);
  assert_int_equal(wait.error, -EIO);
  assert_int_equal(wait.fault.status, status);
  *fault = wait.fault;
  run_nop(fd, ctx);
}

static void deadlocks_end_at_once(void **state) {
  struct drm_npu_fault fault;
  struct gang gang;

  (void)state;
  gang_create(&gang);
  stream_nop(&gang.dma[0], 0);
  semaphore(&gang.dma[1], NPU_OP_SEM_WAIT, 3, 1);
  gang_finish(&gang);
  run_failing(&gang, NPU_STATUS_DEADLOCK, &fault);
  assert_int_equal(fault.core, 1);
  assert_int_equal(fault.engine, NPU_ENGINE_GDMA);
  assert_int_equal(fault.command, 0);
  gang_destroy(&gang);
}

static void a_fault_of_one_core_ends_all(void **state) {
  struct drm_npu_fault fault;
  struct gang gang;
  struct bo bo;

  (void)state;
  gang_create(&gang);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  job_region(&gang.job, &bo, RW);
  semaphore(&gang.dma[0], NPU_OP_SEM_WAIT, 0, 1);
  stream_nop(&gang.dma[1], 0);
  stream_fill(&gang.dma[1], 0, 4000, 200, 1);
  semaphore(&gang.dma[1], NPU_OP_SEM_SIGNAL, 0, 1);
  gang_finish(&gang);
  run_failing(&gang, NPU_STATUS_REGION_BOUNDS, &fault);
  assert_int_equal(fault.core, 1);
  assert_int_equal(fault.command, 1);
  assert_int_equal(fault.region, 0);
  assert_int_equal(fault.offset, 4000);
  bo_destroy(fd, &bo);
  gang_destroy(&gang);
}

static void profiles_show_each_core(void **state) {
  const struct npu_profile *records;
  const struct npu_profile_header *head;
  struct gang gang;
  struct bo bo;

  (void)state;
  gang_create(&gang);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  job_region(&gang.job, &bo, DRM_NPU_REGION_WRITE);
  for (int core = 0; core < CORES; core++)
    for (int i = 0; i <= core; i++) stream_nop(&gang.dma[core], 0);
  gang_finish(&gang);
  gang.job.args.profile_region = 0;
  gang.job.args.profile_bytes = 4096;
  run_ok(fd, ctx, &gang.job);
  head = (const void *)bo.map;
  records = (const void *)(head + 1);
  assert_int_equal(head->records, 3);
  assert_int_equal(records[0].core, 0);
  assert_int_equal(records[1].core, 1);
  assert_int_equal(records[2].core, 1);
  assert_int_equal(records[2].command, 1);
  bo_destroy(fd, &bo);
  gang_destroy(&gang);
}

/*
 * Two contexts keep a core each busy with short jobs; a gang job repeatedly gets both cores. Each short job marks a
 * byte when it starts, and the last gang job copies the marks, so that the order on the cores decides. To contexts of
 * high priority the driver gives all of these at once.
 */
static void short_jobs_do_not_starve_gangs(void **state) {
  enum { SHORT = 31, GANGS = 5 };
  uint64_t last_gang;
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_HIGH};
  uint32_t pinned[CORES], both;
  struct stream marks;
  struct gang gang, closing;
  struct job job;
  struct bo page, copy, other;

  (void)state;
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &page);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &copy);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &other);
  gang_create(&gang);
  gang_create(&closing);
  job_region(&closing.job, &page, RW);
  job_region(&closing.job, &copy, RW);
  for (int core = 0; core < CORES; core++) {
    stream_nop(&gang.dma[core], 0);
    stream_copy(&closing.dma[core], 0, (uint64_t)core * SHORT, 1, (uint64_t)core * SHORT, SHORT);
  }
  gang_finish(&gang);
  gang_finish(&closing);
  gang.job.args.flags = closing.job.args.flags = DRM_NPU_JOB_EXPLICIT;
  stream_create(fd, 2 * CORES * SHORT, &marks);
  for (int i = 0; i < CORES * SHORT; i++) {
    stream_fill(&marks, 0, (uint64_t)i, 1, 1);
    stream_slow_copy(&marks, 1, 30);
  }
  job_init(&job);
  job_region(&job, &page, RW);
  job_region(&job, &other, RW);
  job_gdma(&job, &marks);
  job.stream.gdma_count = 2;
  job.args.flags = DRM_NPU_JOB_EXPLICIT;
  for (int core = 0; core < CORES; core++) {
    args.core_mask = 1u << core;
    pinned[core] = ctx_create_patient(fd, &args);
    for (int i = 0; i < SHORT; i++) {
      job.stream.gdma_offset = (uint64_t)(core * SHORT + i) * 2 * NPU_CMD_BYTES;
      if (i)
        submit(fd, pinned[core], &job);
      else
        submit_held(fd, pinned[core], &job);
    }
  }
  args.core_mask = 0;
  assert_int_equal(raw_ctx_create(fd, &args), 0);
  both = args.ctx_id;
  for (int i = 1; i < GANGS; i++) submit(fd, both, &gang.job);
  last_gang = submit(fd, both, &closing.job);
  usage_wait_on_card(CORES * SHORT + GANGS);
  held_go_on();
  wait_ok(fd, both, last_gang);
  /* The gang jobs finish before the short jobs, which had to let them pass. */
  for (int core = 0; core < CORES; core++) {
    int before = 0;

    for (int i = 0; i < SHORT; i++) before += copy.map[core * SHORT + i];
    assert_in_range(before, 1, SHORT - 1);
    ctx_destroy(fd, pinned[core]);
  }
  ctx_destroy(fd, both);
  bo_destroy(fd, &page);
  bo_destroy(fd, &copy);
  bo_destroy(fd, &other);
  stream_destroy(fd, &marks);
  gang_destroy(&closing);
  gang_destroy(&gang);
}

/*
 * One core waits while another works, over several checks of the watchdog, which must see progress. The period is
 * longer than a busy host may stall the board.
 */
static void waiting_cores_do_not_alarm_the_watchdog(void **state) {
  uint32_t watched;
  struct gang gang;
  struct bo bo;

  (void)state;
  set_parameter("timeout_ms", 250);
  watched = ctx_create(fd);
  set_parameter("timeout_ms", 5000);
  gang_create(&gang);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  job_region(&gang.job, &bo, RW);
  semaphore(&gang.dma[0], NPU_OP_SEM_WAIT, 0, 1);
  stream_slow_copy(&gang.dma[1], 0, 1500);
  semaphore(&gang.dma[1], NPU_OP_SEM_SIGNAL, 0, 1);
  gang_finish(&gang);
  run_ok(fd, watched, &gang.job);
  ctx_destroy(fd, watched);
  bo_destroy(fd, &bo);
  gang_destroy(&gang);
}

static void more_cores_than_there_are_are_refused(void **state) {
  struct drm_npu_ctx_create one = {.priority = DRM_NPU_PRIORITY_NORMAL, .core_mask = 1};
  struct gang gang;

  (void)state;
  gang_create(&gang);
  assert_int_equal(raw_ctx_create(fd, &one), 0);
  gang.job.args.core_mask = 0;
  assert_int_equal(raw_submit(fd, one.ctx_id, &gang.job), -EINVAL);
  gang.job.args.core_mask = 2;
  assert_int_equal(raw_submit(fd, ctx, &gang.job), -EINVAL);
  gang.job.args.core_mask = 3;
  gang.streams[1].gdma_region = 7; /* no commands, and an invalid region */
  assert_int_equal(raw_submit(fd, ctx, &gang.job), -EINVAL);
  gang.streams[1].gdma_region = 0;
  run_ok(fd, ctx, &gang.job);
  ctx_destroy(fd, one.ctx_id);
  gang_destroy(&gang);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cores_hand_data_over),
      cmocka_unit_test(each_core_is_accounted_for),
      cmocka_unit_test(deadlocks_end_at_once),
      cmocka_unit_test(a_fault_of_one_core_ends_all),
      cmocka_unit_test(profiles_show_each_core),
      cmocka_unit_test(short_jobs_do_not_starve_gangs),
      cmocka_unit_test(waiting_cores_do_not_alarm_the_watchdog),
      cmocka_unit_test(more_cores_than_there_are_are_refused),
  };

  return cmocka_run_group_tests_name("gang", tests, set_up, tear_down);
}
