/* SPDX-License-Identifier: MIT */
/* Processes that are killed at work leave nothing behind. Argument: number of processes (200). */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int rounds = 200;

/* Works endlessly, with all kinds of objects in use. */
static void work(int ready) {
  int own = npu_open();
  uint32_t a = ctx_create(own), b = ctx_create(own);
  uint32_t syncobj = syncobj_create(own);
  struct stream slow, fill;
  struct job first, second;
  struct bo bo[3];
  char c = 1;

  stream_create(own, 4, &slow);
  stream_create(own, 4, &fill);
  bo_create_mapped(own, MIB(3), DRM_NPU_BO_CARD, &bo[0]);
  bo_create_mapped(own, MIB(1), DRM_NPU_BO_SYSTEM, &bo[1]);
  bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bo[2]);
  stream_slow_copy(&slow, 1, 30);
  stream_fill(&slow, 1, 0, MIB(3), 1);
  stream_fill(&fill, 1, 0, MIB(1), 1);

  job_init(&first);
  job_gdma(&first, &slow);
  job_region(&first, &bo[0], RW);
  job_out(&first, syncobj, 0);
  job_init(&second);
  job_gdma(&second, &fill);
  job_region(&second, &bo[1], RW);
  job_region(&second, &bo[0], DRM_NPU_REGION_READ);
  job_in(&second, syncobj, 0);

  if (write(ready, &c, 1) != 1) _exit(1);
  for (;;) {
    struct drm_npu_wait wait;
    struct bo more;

    submit(own, a, &first);
    submit(own, b, &second);
    bo_create_mapped(own, KIB(300), DRM_NPU_BO_CARD, &more);
    more.map[0] = 1;
    raw_wait(own, a, first.args.seqno, 5, &wait);
    bo_destroy(own, &more);
  }
}

/* Maintains caches endlessly: of a buffer, and of memory of the process. */
static void maintain(int ready) {
  const uint32_t both = DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE;
  const size_t size = MIB(8);
  int own = npu_open();
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct drm_npu_bo_userptr args = {.addr = (uintptr_t)memory, .size = size};
  struct bo bo, user;
  char c = 1;

  bo_create_mapped(own, size, DRM_NPU_BO_SYSTEM, &bo);
  assert_int_equal(raw_ioctl(own, DRM_IOCTL_NPU_BO_USERPTR, &args), 0);
  user = (struct bo){.handle = args.handle, .size = size};
  if (write(ready, &c, 1) != 1) _exit(1);
  for (;;) {
    memset(bo.map, 1, size);
    bo_sync(own, &bo, both);
    memset(memory, 1, size);
    bo_sync(own, &user, both);
  }
}

static void kill_once(void (*busy)(int ready), unsigned delay_us) {
  int pipe_fds[2], status;
  pid_t pid;
  char c;

  assert_int_equal(pipe(pipe_fds), 0);
  pid = fork();
  if (!pid) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fd);
    busy(pipe_fds[1]);
  }
  close(pipe_fds[1]);
  assert_int_equal(read(pipe_fds[0], &c, 1), 1);
  close(pipe_fds[0]);
  usleep(delay_us);
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void killed_processes_leave_nothing(void **state) {
  struct drm_npu_ctx_query query;
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int i = 0; i < rounds; i++) {
    kill_once(work, (unsigned)(i * 7919) % 40000);
    if (i % 10 == 0) run_nop(fd, ctx);
  }
  usage_expect(before);
  run_nop(fd, ctx);
  ctx_query(fd, ctx, &query);
  assert_int_equal(query.errors, 0);
  assert_int_equal(query.victims, 0);
}

static void processes_killed_in_maintenance_leave_nothing(void **state) {
  char before[USAGE_BYTES];
  struct bo bo;

  (void)state;
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_SYSTEM, &bo);
  usage_begin(before);
  for (int i = 0; i < rounds / 4 + 1; i++) {
    struct stream stream;
    struct job job;

    kill_once(maintain, (unsigned)(i * 7919) % 20000);
    stream_create(fd, 2, &stream);
    stream_fill(&stream, 1, 0, bo.size, (uint8_t)(i + 1));
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &bo, RW);
    run_ok(fd, ctx, &job);
    stream_destroy(fd, &stream);
    bo_sync(fd, &bo, DRM_NPU_SYNC_FROM_DEVICE);
    for (uint64_t at = 0; at < bo.size; at++) assert_int_equal(bo.map[at], (uint8_t)(i + 1));
  }
  usage_expect(before);
  bo_destroy(fd, &bo);
}

static void closed_files_leave_nothing(void **state) {
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int i = 0; i < rounds; i++) {
    int own = npu_open();
    uint32_t id = ctx_create(own);
    struct stream stream;
    struct job job;
    struct bo bo;

    stream_create(own, 2, &stream);
    bo_create(own, MIB(1), DRM_NPU_BO_CARD, &bo);
    stream_slow_copy(&stream, 1, 1 + i % 30);
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &bo, RW);
    for (int k = 0; k < 40; k++) submit(own, id, &job);
    bo_unmap(&stream.bo);
    close(own);
  }
  usage_expect(before);
  run_nop(fd, ctx);
}

static void contexts_die_in_the_middle_of_their_work(void **state) {
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  {
    struct stream stream;
    struct job job;
    struct bo bo;

    stream_create(fd, 2, &stream);
    bo_create(fd, MIB(1), DRM_NPU_BO_CARD, &bo);
    stream_slow_copy(&stream, 1, 20);
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &bo, RW);
    for (int i = 0; i < rounds; i++) {
      uint32_t id = ctx_create(fd);

      for (int k = 0; k < 1 + i % 60; k++) submit(fd, id, &job);
      if (i & 1) usleep(i * 100);
      ctx_destroy(fd, id);
    }
    bo_destroy(fd, &bo);
    stream_destroy(fd, &stream);
  }
  usage_expect(before);
  run_nop(fd, ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_processes_leave_nothing),
      cmocka_unit_test(processes_killed_in_maintenance_leave_nothing),
      cmocka_unit_test(closed_files_leave_nothing),
      cmocka_unit_test(contexts_die_in_the_middle_of_their_work),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("kill", tests, set_up, tear_down);
}
