/* SPDX-License-Identifier: MIT */
/*
 * Kernel allocations fail at random during every call: calls fail cleanly, nothing leaks, and all calls work
 * afterwards. Needs a kernel with CONFIG_FAILSLAB. Argument: rounds (300).
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/alloc_fail.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int rounds = 300;

/* Opened in advance, since a call to switch it off might fail, too. */
static void faults(int on) {
  static int switch_fd = -1;

  if (switch_fd < 0) switch_fd = open("/proc/self/make-it-fail", O_WRONLY);
  assert_true(switch_fd >= 0);
  for (int tries = 0; pwrite(switch_fd, on ? "1" : "0", 1, 0) != 1; tries++) assert_true(tries < 1000);
}

/* Makes all calls in a row, with the results of earlier ones; each may fail. Returns the number of failures. */
static int all_calls(int fd, const struct stream *stream) {
  struct drm_npu_ctx_create ctx = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_wait wait;
  struct bo card, system;
  struct job job;
  static uint8_t memory[KIB(64)] __attribute__((aligned(4096)));
  struct drm_npu_bo_userptr userptr = {.addr = (uintptr_t)memory, .size = sizeof(memory)};
  int failed = 0, has_ctx, has_card, has_system, has_pinned;

  has_ctx = !raw_ctx_create(fd, &ctx);
  has_card = !raw_bo_create(fd, MIB(2) + KIB(68), DRM_NPU_BO_CARD, &card);
  has_system = !raw_bo_create(fd, KIB(132), DRM_NPU_BO_SYSTEM, &system);
  has_pinned = !raw_ioctl(fd, DRM_IOCTL_NPU_BO_USERPTR, &userptr);
  failed += !has_ctx + !has_card + !has_system + !has_pinned;
  if (has_system) {
    void *map = mmap(NULL, system.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, system.mmap_offset);

    failed += map == MAP_FAILED;
    /* munmap() allocates, too: after a failure the mapping stays, and keeps the buffer. */
    while (map != MAP_FAILED && munmap(map, system.size)) assert_int_equal(errno, ENOMEM);
  }
  if (has_ctx && has_card && has_system) {
    job_init(&job);
    job_gdma(&job, stream);
    job_region(&job, &card, RW);
    job_region(&job, &system, RW);
    failed += raw_submit(fd, ctx.ctx_id, &job) != 0;
    if (job.args.seqno) assert_int_equal(raw_wait(fd, ctx.ctx_id, job.args.seqno, FOREVER_MS, &wait), 0);
  }
  /* Calls that release something never fail. */
  if (has_card) assert_int_equal(raw_gem_close(fd, card.handle), 0);
  if (has_system) assert_int_equal(raw_gem_close(fd, system.handle), 0);
  if (has_pinned) assert_int_equal(raw_gem_close(fd, userptr.handle), 0);
  if (has_ctx) assert_int_equal(raw_ctx_destroy(fd, ctx.ctx_id), 0);
  return failed;
}

static void failing_allocations_leave_nothing(void **state) {
  char before[USAGE_BYTES];
  int fd = npu_open(), failed = 0;
  struct stream stream;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_fill(&stream, 1, 0, 100, 1);
  usage_begin(before);
  for (int i = 0; i < rounds; i++) {
    alloc_fail_one_in(i % 3 == 0 ? 5 : i % 3 == 1 ? 20 : 50);
    faults(1);
    failed += all_calls(fd, &stream);
    faults(0);
  }
  alloc_fail_one_in(0);
  assert_int_equal(all_calls(fd, &stream), 0);
  usage_expect(before);
  stream_destroy(fd, &stream);
  close(fd);
  /* Otherwise the test is void. */
  assert_true(failed > rounds / 4);
}

static void failing_opens_leave_nothing(void **state) {
  struct bo bo;
  int failed = 0;

  (void)state;
  for (int i = 0; i < rounds; i++) {
    int fd;

    alloc_fail_one_in(10);
    faults(1);
    fd = open("/dev/accel/accel0", O_RDWR);
    if (fd < 0) {
      failed++;
    } else {
      failed += raw_bo_create(fd, 4096, DRM_NPU_BO_CARD, &bo) != 0;
      close(fd);
    }
    faults(0);
  }
  alloc_fail_one_in(0);
  assert_true(failed > 0);
}

static int set_up(void **state) {
  (void)state;
  return alloc_fail_begin() ? 0 : -1;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failing_allocations_leave_nothing),
      cmocka_unit_test(failing_opens_leave_nothing),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("unwind", tests, set_up, NULL);
}
