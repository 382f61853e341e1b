/* SPDX-License-Identifier: MIT */
/* A card that misbehaves: each step of recovery happens when needed, and fails only the jobs at fault. */
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define TIMEOUT_MS 200
#define DEFAULT_TIMEOUT_MS 5000
/* The waits of these tests end before a check of the watchdog, so they show detection without it. */
#define BLIND_MS (10 * FOREVER_MS)

static int fd;
static struct bo bo;
static struct stream nops, slow;
static uint32_t bad, good; /* contexts: one with the fault, and a bystander */

static int set_up(void **state) {
  uint32_t ctx;

  (void)state;
  faults_clear();
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  ctx_destroy(fd, ctx);
  /* Not earlier: the run time of these jobs is unknown. */
  set_parameter("timeout_ms", TIMEOUT_MS);
  set_parameter("busywait_us", 0); /* a polling waiter would not miss an interrupt */
  stream_create(fd, 8, &nops);
  for (int i = 0; i < 8; i++) stream_nop(&nops, 0);
  stream_create(fd, 1, &slow);
  stream_slow_copy(&slow, 1, 50); /* far below the timeout: a busy host may look like a hang */
  bo_create_mapped(fd, 4096, DRM_NPU_BO_CARD, &bo);
  bad = ctx_create(fd);
  good = ctx_create(fd);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  faults_clear();
  set_parameter("busywait_us", 100);
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  bo_unmap(&bo);
  bo_unmap(&nops.bo);
  bo_unmap(&slow.bo);
  return close(fd);
}

static uint32_t resets(void) {
  struct drm_npu_status_info info;

  npu_status(fd, &info);
  return info.resets;
}

static void nop_job(struct job *job) {
  job_init(job);
  job_gdma(job, &nops);
}

static void slow_job(struct job *job) {
  job_init(job);
  job_gdma(job, &slow);
  job_region(job, &bo, RW);
  job->args.flags = DRM_NPU_JOB_EXPLICIT;
}

static uint64_t submit_nops(uint32_t ctx) {
  struct job job;

  nop_job(&job);
  return submit(fd, ctx, &job);
}

/* A job of `bad` hangs because of a fault. */
static uint64_t stand_still(const char *fault) {
  uint64_t seqno;

  fault_set("hang-after", 3);
  fault_set(fault, 1);
  seqno = submit_nops(bad);
  fault_wait(fault);
  return seqno;
}

struct counts {
  uint64_t errors, victims;
};

static struct counts counts(uint32_t ctx) {
  struct drm_npu_ctx_query query;

  ctx_query(fd, ctx, &query);
  return (struct counts){query.errors, query.victims};
}

/* Changes of both contexts' counters since `before`. */
static void assert_guilt(const struct counts before[2], uint64_t errors, uint64_t victims) {
  struct counts b = counts(bad), g = counts(good);

  assert_int_equal(b.errors - before[0].errors, errors);
  assert_int_equal(b.victims - before[0].victims, 0);
  assert_int_equal(g.errors - before[1].errors, 0);
  assert_int_equal(g.victims - before[1].victims, victims);
}

static void assert_killed(uint64_t seqno, uint32_t how) {
  struct drm_npu_wait wait;

  wait_result(fd, bad, seqno, &wait);
  assert_int_equal(wait.error, -ETIME);
  assert_int_equal(wait.fault.seqno, seqno);
  assert_int_equal(wait.fault.status, how);
  assert_int_equal(wait.fault.cause, DRM_NPU_CAUSE_STALL);
}

static void a_hanging_job_is_aborted(void **state) {
  struct counts before[2] = {counts(bad), counts(good)};
  uint32_t had = resets();
  uint64_t seqno, next;

  (void)state;
  seqno = stand_still("hang");
  next = submit_nops(bad);
  for (int i = 0; i < 20; i++) run_nop(fd, good);
  assert_killed(seqno, NPU_STATUS_ABORTED);
  wait_ok(fd, bad, next);
  assert_guilt(before, 1, 0);
  assert_int_equal(resets(), had);
}

/* Another file's job waits for the core of a hung job, and ends with its context. */
static void a_job_that_never_began_takes_no_time(void **state) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  const int other = npu_open();
  struct drm_npu_status_info info;
  struct stream own;
  struct job job;
  uint64_t seqno;
  char busy[40], cycles[40];

  (void)state;
  stream_create(other, 1, &own);
  stream_nop(&own, 0);
  job_init(&job);
  job_gdma(&job, &own);
  seqno = stand_still("hang");
  npu_status(fd, &info);
  assert_int_not_equal(info.core_busy, 0);
  args.core_mask = info.core_busy & -info.core_busy;
  assert_int_equal(raw_ctx_create(other, &args), 0);
  submit(other, args.ctx_id, &job);
  usleep(1000);
  ctx_destroy(other, args.ctx_id);
  snprintf(busy, sizeof(busy), "drm-engine-core%d", __builtin_ctz(args.core_mask));
  snprintf(cycles, sizeof(cycles), "qnpu-cycles-core%d", __builtin_ctz(args.core_mask));
  /* Unless the host was so slow that the watchdog has killed the hung job. */
  if (!fdinfo_number(other, cycles)) assert_int_equal(fdinfo_number(other, busy), 0);
  assert_killed(seqno, NPU_STATUS_ABORTED);
  stream_destroy(other, &own);
  close(other);
}

static void a_stuck_core_is_reset(void **state) {
  struct counts before[2] = {counts(bad), counts(good)};
  uint32_t had = resets();
  uint64_t seqno, next;
  struct job job;

  (void)state;
  seqno = stand_still("stuck-abort");
  next = submit_nops(bad);
  slow_job(&job);
  run_ok(fd, good, &job);
  assert_killed(seqno, NPU_STATUS_CORE_RESET);
  wait_ok(fd, bad, next);
  assert_guilt(before, 1, 0);
  assert_int_equal(resets(), had);
}

/* Submits a very long job of `good`, and waits until it is on its core. */
static uint64_t go_on_for_ever(void) {
  struct stream forever;
  struct job job;
  struct bo sign;
  uint64_t seqno;

  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &sign);
  stream_create(fd, 64, &forever);
  job_init(&job);
  job_region(&job, &sign, RW);
  job_region(&job, &bo, RW);
  stream_fill(&forever, 0, 0, 1, 1);
  /* The size of one command is limited, and a fast host copies that in seconds. */
  for (int i = 1; i < 64; i++) stream_slow_copy(&forever, 1, FOREVER_MS);
  job_gdma(&job, &forever);
  job.args.flags = DRM_NPU_JOB_EXPLICIT;
  job.args.budget = UINT64_MAX;
  seqno = submit(fd, good, &job);
  for (int tries = 0; !sign.map[0]; tries++) {
    if (tries > FOREVER_MS) fail_msg("the job does not begin");
    usleep(1000);
    bo_sync(fd, &sign, DRM_NPU_SYNC_FROM_DEVICE);
  }
  stream_destroy(fd, &forever);
  bo_destroy(fd, &sign);
  return seqno;
}

/* The reset cancels the job on the other core, but no waiting jobs. */
static void a_card_that_does_not_reset_a_core_is_reset(void **state) {
  struct counts before[2] = {counts(bad), counts(good)};
  uint64_t seqno, next, hit, others[4];
  uint32_t had = resets();
  struct drm_npu_wait wait;

  (void)state;
  hit = go_on_for_ever();
  seqno = stand_still("stuck-core");
  next = submit_nops(bad);
  for (int i = 0; i < 4; i++) others[i] = submit_nops(good);
  assert_killed(seqno, NPU_STATUS_ABORTED);
  wait_result(fd, good, hit, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  assert_int_equal(wait.fault.status, NPU_STATUS_ABORTED);
  assert_int_equal(wait.fault.cause, DRM_NPU_CAUSE_RECOVERY);
  for (int i = 0; i < 4; i++) wait_ok(fd, good, others[i]);
  wait_ok(fd, bad, next);
  assert_guilt(before, 1, 1);
  assert_int_equal(resets(), had + 1);
}

#define CROWD 16

static void sixteen_others_wait_in_the_arbiter(void **state) {
  static const char *const fault[] = {"hang", "stuck-abort"};
  static const uint32_t how[] = {NPU_STATUS_ABORTED, NPU_STATUS_CORE_RESET};
  struct counts before[2] = {counts(bad), counts(good)};
  uint32_t ctx[CROWD], had = resets();
  uint64_t seqno[CROWD][4];
  struct job job;

  (void)state;
  /* Their jobs' time limits must not expire on a busy host. */
  set_parameter("timeout_ms", BLIND_MS);
  for (int i = 0; i < CROWD; i++) ctx[i] = ctx_create(fd);
  set_parameter("timeout_ms", TIMEOUT_MS);
  for (int round = 0; round < 2; round++) {
    uint64_t stuck = stand_still(fault[round]);

    slow_job(&job);
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < CROWD; i++) seqno[i][k] = k & 1 ? submit(fd, ctx[i], &job) : submit_nops(ctx[i]);
    assert_killed(stuck, how[round]);
    for (int i = 0; i < CROWD; i++)
      for (int k = 0; k < 4; k++) wait_ok(fd, ctx[i], seqno[i][k]);
  }
  for (int i = 0; i < CROWD; i++) {
    struct counts c = counts(ctx[i]);

    assert_int_equal(c.errors + c.victims, 0);
    ctx_destroy(fd, ctx[i]);
  }
  assert_guilt(before, 2, 0);
  assert_int_equal(resets(), had);
}

/* Contexts sample the timeout of their watchdog when they are created. */
static void contexts_anew(unsigned timeout_ms) {
  set_parameter("timeout_ms", timeout_ms);
  ctx_destroy(fd, bad);
  ctx_destroy(fd, good);
  bad = ctx_create(fd);
  good = ctx_create(fd);
}

static void a_lost_interrupt_is_noticed(void **state) {
  uint32_t had = resets();

  (void)state;
  contexts_anew(BLIND_MS);
  fault_set("lost-interrupts", 1);
  run_nop(fd, good);
  run_nop(fd, good);
  /* Also the interrupt of an event: the end of an invalidation, which destroying a context requests. */
  for (int i = 0; i < 3; i++) {
    struct bo more;

    faults_clear();
    fault_set("lost-interrupts", 1);
    bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &more);
    bo_destroy(fd, &more);
    run_nop(fd, good);
  }
  faults_clear();
  contexts_anew(TIMEOUT_MS);
  assert_int_equal(resets(), had);
}

/* The result of one job is unknown, the others' results are known; a reset follows. */
static void a_completion_that_cannot_be_true(void **state) {
  static const char *const kinds[] = {"corrupt-id", "corrupt-status", "corrupt-phase"};
  struct counts before[2] = {counts(bad), counts(good)};
  uint32_t had = resets();
  struct drm_npu_wait wait;

  (void)state;
  for (int i = 0; i < 3; i++) {
    uint64_t hit, behind[10];

    fault_set(kinds[i], 1);
    hit = submit_nops(bad);
    for (int k = 0; k < 10; k++) behind[k] = submit_nops(bad);
    fault_wait(kinds[i]); /* or the next job to finish would be hit */
    for (int k = 0; k < 10; k++) run_nop(fd, good);
    wait_result(fd, bad, hit, &wait);
    assert_int_equal(wait.error, -EIO);
    assert_int_equal(wait.fault.seqno, hit);
    assert_int_equal(wait.fault.status, NPU_STATUS_INTERNAL);
    for (int k = 0; k < 10; k++) wait_ok(fd, bad, behind[k]);
    run_nop(fd, bad);
  }
  assert_guilt(before, 3, 0);
  assert_int_equal(resets(), had + 3);
}

static void a_memory_error_ends_one_job(void **state) {
  struct counts before[2] = {counts(bad), counts(good)};
  struct drm_npu_status_info had, now;
  struct drm_npu_wait wait;
  struct job job;

  (void)state;
  npu_status(fd, &had);
  fault_set("ecc-uncorrected", 1);
  slow_job(&job);
  wait_result(fd, bad, submit(fd, bad, &job), &wait);
  assert_int_equal(wait.error, -EIO);
  assert_int_equal(wait.fault.status, NPU_STATUS_ECC);
  assert_int_equal(wait.fault.engine, NPU_ENGINE_GDMA);
  assert_int_equal(wait.fault.region, 1);
  assert_int_equal(wait.fault.fault_addr, bo.va);
  fault_set("ecc-corrected", 3);
  run_nop(fd, bad);
  run_nop(fd, good);
  npu_status(fd, &now);
  assert_int_equal(now.ecc_uncorrected, had.ecc_uncorrected + 1);
  assert_int_equal(now.ecc_corrected, had.ecc_corrected + 3);
  assert_int_equal(now.resets, had.resets);
  assert_guilt(before, 1, 0);
}

static void a_hot_card_goes_on(void **state) {
  struct drm_npu_status_info info;
  struct drm_npu_dev_info card;
  struct job job;

  (void)state;
  npu_info(fd, &card);
  slow_job(&job);
  submit(fd, bad, &job);
  fault_set("temperature", 101000);
  npu_status(fd, &info);
  assert_int_equal(info.temperature_mc, 101000);
  assert_true(info.clock_khz <= card.clock_khz / 2); /* less if the driver saves power */
  wait_ok(fd, bad, job.args.seqno);
  fault_set("temperature", 0);
  npu_status(fd, &info);
  assert_true(info.temperature_mc < (int32_t)NPU_TEMP_RESUME_MC);
}

static void a_fatal_error_is_a_reset(void **state) {
  struct counts before[2] = {counts(bad), counts(good)};
  uint32_t had = resets();
  uint64_t seqno;

  (void)state;
  fault_set("fatal", 1);
  seqno = submit_nops(bad);
  wait_ok(fd, bad, seqno);
  run_nop(fd, good);
  assert_guilt(before, 0, 0);
  assert_int_equal(resets(), had + 1);
}

/* Loss of the card */

static int listen_uevents(void) {
  struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
  int sock = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

  assert_true(sock >= 0);
  assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
  return sock;
}

/* Waits for this uevent of a node. */
static void wait_uevent(int sock, const char *variable) {
  int64_t end = now_ms() + FOREVER_MS;

  while (now_ms() < end) {
    struct pollfd waiting = {.fd = sock, .events = POLLIN};
    char text[4096];
    ssize_t n;

    if (poll(&waiting, 1, 100) < 1) continue;
    n = recv(sock, text, sizeof(text) - 1, 0);
    if (n <= 0) continue;
    text[n] = 0;
    if (!strstr(text, "change@") || !strstr(text, "accel")) continue;
    for (const char *at = text; at < text + n; at += strlen(at) + 1)
      if (!strcmp(at, variable)) return;
  }
  fail_msg("no uevent says %s", variable);
}

static void assert_everything_is_enodev(uint32_t ctx, uint64_t seqno) {
  struct drm_npu_dev_query query = {.type = DRM_NPU_QUERY_DEV};
  struct drm_npu_ctx_create create = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_ctx_query ctx_args = {.ctx_id = ctx};
  struct drm_npu_wait wait;
  struct job job;
  struct bo more;
  int other;

  nop_job(&job);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &query), -ENODEV);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &ctx_args), -ENODEV);
  assert_int_equal(raw_bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &more), -ENODEV);
  assert_int_equal(raw_ctx_create(fd, &create), -ENODEV);
  assert_int_equal(raw_ctx_destroy(fd, ctx), -ENODEV);
  assert_int_equal(raw_submit(fd, ctx, &job), -ENODEV);
  assert_int_equal(raw_wait(fd, ctx, seqno, 0, &wait), -ENODEV);
  assert_int_equal(raw_bo_seal(fd, bo.handle), -ENODEV);
  assert_false(npu_try_open(&other));
  *(volatile uint8_t *)bo.map = 1; /* harmless */
}

/* With faults cleared, a rebind makes the card usable again. */
static void start_again(const char *address) {
  assert_int_equal(tear_down(NULL), 0);
  card_unbind(address);
  card_bind(address);
  assert_int_equal(set_up(NULL), 0);
  run_nop(fd, good);
}

static void lose_card(const char *fault, bool stuck) {
  char address[32];
  uint64_t first, last;
  int sock = listen_uevents();
  struct job job;

  snprintf(address, sizeof(address), "%s", card_address());
  if (stuck) {
    first = stand_still(fault);
  } else {
    first = stand_still("hang");
    fault_set(fault, 1);
  }
  nop_job(&job);
  if (raw_submit(fd, good, &job)) job.args.seqno = 0; /* it was quick */
  last = job.args.seqno;
  wait_uevent(sock, "WEDGED=rebind,bus-reset");
  close(sock);
  assert_everything_is_enodev(bad, first);
  assert_everything_is_enodev(good, last ? last : 1);
  start_again(address);
}

static void a_card_that_ignores_a_reset_is_lost(void **state) {
  (void)state;
  lose_card("stuck-device", true);
}

static void a_dead_card_is_lost(void **state) {
  (void)state;
  contexts_anew(BLIND_MS);
  lose_card("dead", false);
}

/* Waiters are woken with the error. */
static void waiters_learn_of_the_loss(void **state) {
  struct drm_npu_wait wait;
  char address[32];
  uint64_t seqno;

  (void)state;
  snprintf(address, sizeof(address), "%s", card_address());
  seqno = stand_still("hang");
  fault_set("dead", 1);
  assert_int_equal(raw_wait(fd, bad, seqno, FOREVER_MS, &wait), 0);
  assert_int_equal(wait.error, -ENODEV);
  start_again(address);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hanging_job_is_aborted),
      cmocka_unit_test(a_job_that_never_began_takes_no_time),
      cmocka_unit_test(a_stuck_core_is_reset),
      cmocka_unit_test(a_card_that_does_not_reset_a_core_is_reset),
      cmocka_unit_test(sixteen_others_wait_in_the_arbiter),
      cmocka_unit_test(a_lost_interrupt_is_noticed),
      cmocka_unit_test(a_completion_that_cannot_be_true),
      cmocka_unit_test(a_memory_error_ends_one_job),
      cmocka_unit_test(a_hot_card_goes_on),
      cmocka_unit_test(a_fatal_error_is_a_reset),
      cmocka_unit_test(a_card_that_ignores_a_reset_is_lost),
      cmocka_unit_test(a_dead_card_is_lost),
      cmocka_unit_test(waiters_learn_of_the_loss),
  };

  return cmocka_run_group_tests_name("recovery", tests, set_up, tear_down);
}
