/* SPDX-License-Identifier: MIT */
/*
 * Valid commands of hours, from an unprivileged user. Budget, destruction of the context, exit of the process and a
 * reset of the card each end them without effect on others, and the card is not lost. `long_commands stay` leaves such
 * jobs on all cores, so that the board must shut down with them.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/users.h"

#define MALLORY 1000
#define COMMANDS 8

static int fd; /* root's */
static uint32_t ctx;

/* Commands for the user's process. */
static void (*fill_command)(void *command, uint32_t out);
static uint64_t budget;
static uint32_t cores, lmem;

static void matmul_of_many_batches(void *command, uint32_t out) {
  struct npu_cmd_matmul *c = command;

  c->opcode = NPU_OP_MATMUL;
  c->out_addr = out;
  c->wgt_region = NPU_REGION_LOCAL;
  c->batch = 65536;
  c->m = c->n = 1;
  c->k = 1 << 20;
}

static void pool_of_large_windows(void *command, uint32_t out) {
  struct npu_cmd_pool *c = command;

  c->opcode = NPU_OP_POOL;
  c->subop = NPU_POOL_MAX;
  c->out_addr = out;
  c->n = c->c = 1;
  c->ih = c->iw = c->oh = c->ow = 512;
  c->kh = c->kw = 512;
  c->sh = c->sw = c->dh = c->dw = 1;
  c->pad_t = c->pad_l = 256;
}

static void conv_of_a_large_kernel(void *command, uint32_t out) {
  struct npu_cmd_conv *c = command;

  c->opcode = NPU_OP_CONV;
  c->out_addr = out;
  c->wgt_region = NPU_REGION_LOCAL;
  c->n = c->ic = c->oc = c->groups = 1;
  c->ih = c->iw = c->oh = c->ow = 512;
  c->kh = c->kw = 512;
  c->sh = c->sw = c->dh = c->dw = 1;
  c->pad_t = c->pad_l = 256;
}

/* The user's part: `count` contexts with a job each. */
static int submit_all(uint32_t count, int *file, uint32_t *ids) {
  struct stream stream;
  struct job job;

  CHECK(npu_try_open(file));
  stream_create(*file, COMMANDS, &stream);
  for (int i = 0; i < COMMANDS; i++) fill_command(stream_next(&stream), lmem / 2);
  job_init(&job);
  job_tiu(&job, &stream);
  job.args.budget = budget;
  for (uint32_t i = 0; i < count; i++) {
    struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};

    CHECK(!raw_ctx_create(*file, &args));
    ids[i] = args.ctx_id;
    CHECK(!raw_submit(*file, ids[i], &job));
    CHECK(job.args.seqno == 1);
  }
  return 0;
}

static int job_over_budget(int socket) {
  struct drm_npu_wait wait;
  uint32_t id;
  int file, line = submit_all(1, &file, &id);

  (void)socket;
  if (line) return line;
  CHECK(!raw_wait(file, id, 1, FOREVER_MS, &wait));
  CHECK(wait.known && wait.error == -ETIME && wait.fault.status == NPU_STATUS_BUDGET);
  return 0;
}

/* Starts and stays. */
static int jobs_on_all_cores(int socket) {
  uint32_t ids[NPU_MAX_CORES];
  int file;

  (void)socket;
  return submit_all(cores, &file, ids);
}

/* Until the jobs are on all cores. */
static void wait_busy(void) {
  struct drm_npu_status_info info;
  int64_t end = now_ms() + FOREVER_MS;

  do {
    npu_status(fd, &info);
    assert_true(now_ms() < end);
  } while (info.core_busy != (1u << cores) - 1);
}

/* Lets the user's process destroy a context whose job runs. */
static int destroys_a_running_one(int socket) {
  uint32_t ids[NPU_MAX_CORES];
  int file, line = submit_all(cores, &file, ids);
  struct drm_npu_wait wait;
  char c = 1;

  if (line) return line;
  line = 0;
  CHECK(write(socket, &line, sizeof(line)) == sizeof(line));
  CHECK(read(socket, &c, 1) == 1);
  for (uint32_t i = 0; i < cores; i++) {
    CHECK(raw_wait(file, ids[i], 1, 0, &wait) == -ETIME);
    CHECK(!raw_ctx_destroy(file, ids[i]));
  }
  return 0;
}

static int another_users_job(int socket) {
  int file;

  (void)socket;
  CHECK(npu_try_open(&file));
  run_nop(file, ctx_create(file));
  return 0;
}

static void nobody_notices(const struct drm_npu_status_info *before) {
  struct drm_npu_status_info now;

  as_user(BOB, fd, another_users_job);
  run_nop(fd, ctx);
  npu_status(fd, &now);
  assert_int_equal(now.resets, before->resets);
}

static void ends_in_each_way(void) {
  struct drm_npu_status_info before;
  struct process process;
  int line;

  npu_status(fd, &before);
  budget = 1000;
  as_user(MALLORY, fd, job_over_budget);
  nobody_notices(&before);

  budget = 0;
  process_start(&process, MALLORY, fd, jobs_on_all_cores);
  wait_busy();
  process_kill(&process); /* returns when its file is closed */
  nobody_notices(&before);

  process_start(&process, MALLORY, fd, destroys_a_running_one);
  wait_busy();
  assert_int_equal(write(process.socket, "", 1), 1);
  assert_int_equal(read(process.socket, &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  nobody_notices(&before);
  process_kill(&process);
}

static void a_matmul(void **state) {
  (void)state;
  fill_command = matmul_of_many_batches;
  ends_in_each_way();
}

static void a_pool(void **state) {
  (void)state;
  fill_command = pool_of_large_windows;
  ends_in_each_way();
}

static void a_conv(void **state) {
  (void)state;
  fill_command = conv_of_a_large_kernel;
  ends_in_each_way();
}

/* Reset during such commands. */
static void the_card_is_reset_meanwhile(void **state) {
  struct drm_npu_status_info before, now;
  struct process process;

  (void)state;
  fill_command = conv_of_a_large_kernel;
  budget = 0;
  npu_status(fd, &before);
  process_start(&process, MALLORY, fd, jobs_on_all_cores);
  wait_busy();
  card_reset(fd);
  as_user(BOB, fd, another_users_job);
  npu_status(fd, &now);
  assert_int_equal(now.resets, before.resets + 1);
  process_kill(&process);
}

/* Leaves a user's process with such jobs on all cores behind. */
static void stay(void) {
  if (fork()) {
    wait_busy();
    return;
  }
  if (setsid() < 0 || setgid(MALLORY) || setuid(MALLORY)) _exit(99);
  signal(SIGHUP, SIG_IGN);
  fill_command = pool_of_large_windows;
  budget = 0;
  close(fd);
  if (jobs_on_all_cores(-1)) _exit(98);
  for (;;) pause();
}

static int set_up(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  npu_info(fd, &info);
  cores = info.cores;
  lmem = info.lmem_bytes;
  assert_true(lmem >= 8 << 20);
  set_parameter("budget_ms", 0); /* the longest of them would be refused */
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  set_parameter("budget_ms", DEFAULT_BUDGET_MS);
  ctx_destroy(fd, ctx);
  return close(fd);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_matmul),
      cmocka_unit_test(a_pool),
      cmocka_unit_test(a_conv),
      cmocka_unit_test(the_card_is_reset_meanwhile),
  };

  if (argc > 1 && !strcmp(argv[1], "stay")) {
    set_up(NULL);
    stay();
    return 0;
  }
  return cmocka_run_group_tests_name("long_commands", tests, set_up, tear_down);
}
