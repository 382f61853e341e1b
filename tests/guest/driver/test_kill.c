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

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/trace.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int rounds = 200;

/* Shared by the processes and the test. */
static struct {
  int inside;    /* a process is in the call in which it is to be killed */
  uint32_t done; /* jobs of the surviving process */
} * shared;

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

static pid_t start(void (*busy)(int ready)) {
  int pipe_fds[2];
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
  return pid;
}

static void end(pid_t pid) {
  int status;

  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_once(void (*busy)(int ready), unsigned delay_us) {
  pid_t pid = start(busy);

  usleep(delay_us);
  end(pid);
}

static void set_inside(int inside) { __atomic_store_n(&shared->inside, inside, __ATOMIC_RELEASE); }
static int is_inside(void) { return __atomic_load_n(&shared->inside, __ATOMIC_ACQUIRE); }

/* Starts a process until it was killed in the call that it announces, `count` times. */
static void kill_inside(void (*busy)(int ready), int count) {
  int64_t limit = now_ms() + FOREVER_MS;

  for (unsigned i = 0; count; i++) {
    pid_t pid;

    set_inside(0);
    pid = start(busy);
    while (!is_inside()) usleep(100);
    usleep(i * 7919 % 20000);
    end(pid);
    count -= is_inside();
    assert_true(now_ms() < limit);
  }
}

/* Asks for much memory at once, which is zeroed. */
static void create_large(int ready) {
  int own = npu_open();
  struct bo bo;
  char c = 1;

  if (write(ready, &c, 1) != 1) _exit(1);
  for (;;) {
    set_inside(1);
    bo_create(own, MIB(192), DRM_NPU_BO_SYSTEM, &bo);
    set_inside(0);
    bo_destroy(own, &bo);
  }
}

static void processes_killed_in_a_large_create_leave_nothing(void **state) {
  struct drm_npu_memory_info info, after;
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  npu_memory_settled(fd, &info);
  kill_inside(create_large, rounds / 20 + 1);
  usage_expect(before);
  npu_memory_settled(fd, &after);
  assert_memory_equal(&info, &after, sizeof(info));
  run_nop(fd, ctx);
}

/* Two processes with three quarters of the card each: every submission moves buffers of both. */
#define PARTS 6

struct mover {
  int fd;
  uint32_t ctx;
  struct stream stream;
  struct job job;
  struct bo part[PARTS];
};

static void mover_open(struct mover *mover, uint8_t value) {
  struct drm_npu_memory_info info;

  mover->fd = npu_open();
  mover->ctx = ctx_create(mover->fd);
  npu_memory(mover->fd, &info);
  stream_create(mover->fd, 1, &mover->stream);
  stream_nop(&mover->stream, 0);
  job_init(&mover->job);
  job_gdma(&mover->job, &mover->stream);
  for (int i = 0; i < PARTS; i++) {
    bo_create_mapped(mover->fd, info.card_total / 8 / 4096 * 4096, DRM_NPU_BO_CARD, &mover->part[i]);
    job_region(&mover->job, &mover->part[i], RW);
    for (uint64_t at = 0; at < mover->part[i].size; at += 4096) mover->part[i].map[at] = (uint8_t)(value + i);
  }
}

static bool mover_is_whole(const struct mover *mover, uint8_t value) {
  for (int i = 0; i < PARTS; i++)
    for (uint64_t at = 0; at < mover->part[i].size; at += 4096)
      if (mover->part[i].map[at] != (uint8_t)(value + i)) return false;
  return true;
}

static void move_and_die(int ready) {
  struct mover mover;
  char c = 1;

  mover_open(&mover, 0x30);
  if (write(ready, &c, 1) != 1) _exit(1);
  for (;;) {
    uint64_t seqno;

    set_inside(1);
    seqno = submit(mover.fd, mover.ctx, &mover.job);
    set_inside(0);
    wait_ok(mover.fd, mover.ctx, seqno);
  }
}

static void move_and_live(int ready) {
  struct mover mover;
  char c = 1;

  mover_open(&mover, 0x70);
  if (write(ready, &c, 1) != 1) _exit(1);
  for (;;) {
    run_ok(mover.fd, mover.ctx, &mover.job);
    if (!mover_is_whole(&mover, 0x70)) _exit(2);
    __atomic_add_fetch(&shared->done, 1, __ATOMIC_RELEASE);
  }
}

static uint32_t jobs_done(void) { return __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE); }

static void processes_killed_in_moves_leave_nothing(void **state) {
  struct drm_npu_memory_info info, after;
  int64_t limit = now_ms() + FOREVER_MS;
  char before[USAGE_BYTES];
  uint32_t had;
  pid_t lives;

  (void)state;
  usage_begin(before);
  npu_memory_settled(fd, &info);
  lives = start(move_and_live);
  kill_inside(move_and_die, rounds / 20 + 1);
  had = jobs_done();
  while (jobs_done() < had + 2) {
    assert_int_equal(waitpid(lives, NULL, WNOHANG), 0);
    assert_true(now_ms() < limit);
    usleep(1000);
  }
  end(lives);
  usage_expect(before);
  npu_memory_settled(fd, &after);
  assert_int_equal(after.card_free, info.card_free);
  assert_int_equal(after.card_evicted, info.card_evicted);
}

/* Touches card memory that it has not touched yet, as soon as it is told so. */
static void touch_when_told(int ready) {
  int own = npu_open();
  struct bo bo;
  char c = 1;

  bo_create_mapped(own, MIB(16), DRM_NPU_BO_CARD, &bo);
  bo.map[0] = 1;
  if (write(ready, &c, 1) != 1) _exit(1);
  while (!is_inside()) usleep(1000);
  bo.map[MIB(8)] = 1;
  set_inside(0);
  for (;;) pause();
}

static void wait_for_fault(pid_t pid) {
  char path[64], state = 0;

  snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  for (int tries = 0, same = 0; same < 5; tries++) {
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
    fclose(file);
    same = state == 'D' ? same + 1 : 0;
    if (tries > FOREVER_MS / 10) fail_msg("process %d does not wait: %c", (int)pid, state);
    usleep(10000);
  }
}

/* The card ignores the reset until the process is killed. */
static void processes_killed_in_a_fault_of_a_reset_leave_nothing(void **state) {
  static const char *const events[] = {"qnpu/qnpu_device_reset"};
  uint32_t patient = ctx_create_patient(fd, NULL);
  char before[USAGE_BYTES], path[96];
  struct drm_npu_wait wait;
  struct stream nops;
  pid_t pid, resets;
  struct job job;
  int status;

  (void)state;
  usage_begin(before);
  stream_create(fd, 1, &nops);
  stream_nop(&nops, 0);
  set_inside(0);
  pid = start(touch_when_told);
  fault_set("hang-after", 0);
  fault_set("stuck-device", 1);
  job_init(&job);
  job_gdma(&job, &nops);
  submit(fd, patient, &job);
  fault_wait("stuck-device");
  device_path(fd, "reset", path, sizeof(path));
  trace_begin(events, 1);
  resets = fork();
  if (!resets) _exit(-try_write_file(path, "1"));
  free(trace_wait("qnpu_device_reset", NULL, NULL));
  free(trace_end());
  set_inside(1);
  wait_for_fault(pid);
  assert_int_equal(waitpid(resets, &status, WNOHANG), 0);
  kill(pid, SIGKILL);
  faults_clear();
  end(pid); /* closing its file may have to wait for the card */
  assert_int_equal(is_inside(), 1);
  assert_int_equal(waitpid(resets, &status, 0), resets);
  assert_int_equal(status, 0);
  wait_result(fd, patient, job.args.seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  run_nop(fd, patient);
  stream_destroy(fd, &nops);
  usage_expect(before);
  ctx_destroy(fd, patient);
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

static int set_up_shared(void **state) {
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return shared == MAP_FAILED ? -1 : set_up(state);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_processes_leave_nothing),
      cmocka_unit_test(processes_killed_in_maintenance_leave_nothing),
      cmocka_unit_test(processes_killed_in_a_large_create_leave_nothing),
      cmocka_unit_test(closed_files_leave_nothing),
      cmocka_unit_test(contexts_die_in_the_middle_of_their_work),
  };
  const struct CMUnitTest card_tests[] = {
      cmocka_unit_test(processes_killed_in_moves_leave_nothing),
      cmocka_unit_test(processes_killed_in_a_fault_of_a_reset_leave_nothing),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return run_with_card_tests("kill", tests, card_tests, set_up_shared, tear_down);
}
