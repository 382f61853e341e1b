/* SPDX-License-Identifier: MIT */
/*
 * Contents and isolation of users' memory when the card is reset, answers late, or is lost and comes back. Argument:
 * resets of one test (20).
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define USERS 2
#define TIMEOUT_MS 200
#define LATE_S 12 /* a reset starts about 5 s after its cause; the card answers over 5 s after that */

static int rounds = 20;

static int set_up(void **state) {
  (void)state;
  faults_clear();
  set_parameter("timeout_ms", TIMEOUT_MS);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  faults_clear();
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  return 0;
}

/* Users while the card is reset */

enum {
  USER_FINE,
  USER_SAW_OLD_BYTES,
  USER_LOST_A_WRITE,
  USER_JOB_FAILED,
  USER_JOB_WROTE_ELSEWHERE,
};

/* Offset of the first byte that is not `value`, or -1. */
static long first_other(const uint8_t *p, uint64_t size, uint8_t value) {
  for (uint64_t i = 0; i < size; i++)
    if (p[i] != value) return (long)i;
  return -1;
}

static int complain(int why, uint8_t mark, long at, uint8_t found) {
  static const char *const reasons[] = {"", "new memory is not zero", "a write of the processor is lost",
                                        "a job failed", "a job's result is not there"};

  fprintf(stderr, "user %#x: %s: offset %ld is %#x\n", mark, reasons[why], at, found);
  return why;
}

/* New memory is zero, stores of the CPU stay, and jobs write to the right addresses. */
static int user_round(int fd, uint32_t ctx, uint64_t size, uint8_t mark) {
  struct bo bo;
  long at;
  int ret = USER_FINE, error;

  bo_create_mapped(fd, size, DRM_NPU_BO_CARD, &bo);
  at = first_other(bo.map, size, 0);
  if (at >= 0) ret = complain(USER_SAW_OLD_BYTES, mark, at, bo.map[at]);
  for (int i = 0; i < 4 && !ret; i++) {
    memset(bo.map, mark + i, size);
    at = first_other(bo.map, size, (uint8_t)(mark + i));
    if (at >= 0) ret = complain(USER_LOST_A_WRITE, mark, at, bo.map[at]);
  }
  /* A reset cancels the job on a core. */
  do {
    error = ret ? 0 : raw_fill(fd, ctx, &bo, mark);
  } while (error == -ECANCELED);
  if (error) ret = complain(USER_JOB_FAILED, mark, error, 0);
  at = ret ? -1 : first_other(bo.map, size, mark);
  if (at >= 0) ret = complain(USER_JOB_WROTE_ELSEWHERE, mark, at, bo.map[at]);
  bo_destroy(fd, &bo);
  return ret;
}

static volatile sig_atomic_t over;

static void be_over(int signal) {
  (void)signal;
  over = 1;
}

/* Runs until a signal. The CPU zeroes small buffers, the card large ones. */
static int user(uint8_t mark, int report) {
  int fd, ret = USER_FINE;
  struct bo kept;
  uint32_t ctx;

  signal(SIGUSR1, be_over);
  fd = npu_open();
  ctx = ctx_create(fd);
  bo_create_mapped(fd, MIB(2), DRM_NPU_BO_CARD, &kept);
  memset(kept.map, mark, kept.size);
  if (write(report, &mark, 1) != 1) return USER_JOB_FAILED;
  for (int i = 0; !over && !ret; i++) ret = user_round(fd, ctx, i % 2 ? KIB(64) : MIB(1), mark);
  if (!ret && !is_filled(kept.map, kept.size, mark)) ret = complain(USER_LOST_A_WRITE, mark, 0, kept.map[0]);
  close(fd);
  return ret;
}

static void resets_lose_and_show_nothing(void **state) {
  int fd = npu_open();
  pid_t users[USERS];
  int fds[2], status;
  uint8_t mark;

  (void)state;
  assert_int_equal(pipe(fds), 0);
  for (int i = 0; i < USERS; i++) {
    users[i] = fork();
    assert_true(users[i] >= 0);
    if (!users[i]) _exit(user((uint8_t)(0x41 + 0x20 * i), fds[1]));
  }
  close(fds[1]);
  for (int i = 0; i < USERS; i++) assert_int_equal(read(fds[0], &mark, 1), 1);
  for (int i = 0; i < rounds; i++) card_reset(fd);
  for (int i = 0; i < USERS; i++) kill(users[i], SIGUSR1);
  for (int i = 0; i < USERS; i++) {
    assert_int_equal(waitpid(users[i], &status, 0), users[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), USER_FINE);
  }
  close(fds[0]);
  close(fd);
}

/* Loss of the card */

static bool is_lost(int fd) {
  struct drm_npu_dev_query query = {.type = DRM_NPU_QUERY_DEV};

  return raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &query) == -ENODEV;
}

static void wait_lost(int fd, bool lost) {
  for (int tries = 0; is_lost(fd) != lost; tries++) {
    assert_true(tries < 12000);
    usleep(10000);
  }
}

/* Fills all card memory, and frees it. */
static void leave_bytes_behind(uint8_t mark) {
  int fd = npu_open();
  struct bo bo;

  bo_create_mapped(fd, MIB(16), DRM_NPU_BO_CARD, &bo);
  memset(bo.map, mark, bo.size);
  bo_destroy(fd, &bo);
  close(fd);
}

/* Hung jobs occupy all cores, so the card cannot zero memory. */
static void occupy_cores(int fd) {
  struct drm_npu_dev_info info;
  struct stream stream;
  struct job job;

  npu_info(fd, &info);
  stream_create(fd, 8, &stream);
  for (int i = 0; i < 8; i++) stream_nop(&stream, 0);
  fault_set("hang-after", 3);
  fault_set("hang", info.cores);
  for (uint32_t i = 0; i < info.cores; i++) {
    job_init(&job);
    job_gdma(&job, &stream);
    submit(fd, ctx_create(fd), &job);
  }
  fault_wait("hang");
  bo_unmap(&stream.bo);
}

/* A buffer's memory that was not yet zeroed when the card was lost. */
static void a_mapping_of_a_lost_card_shows_nothing_of_others(void **state) {
  int fd;
  struct bo bo;

  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  leave_bytes_behind(0x77);
  fd = npu_open();
  occupy_cores(fd);
  bo_create_mapped(fd, MIB(16), DRM_NPU_BO_CARD, &bo);
  fault_set("dead", 1);
  wait_lost(fd, true);
  fault_set("dead", 0); /* now its memory is readable again */
  assert_true(is_filled(bo.map, bo.size, 0));
  wait_lost(fd, false);
  assert_true(is_filled(bo.map, bo.size, 0));
  bo_unmap(&bo);
  close(fd);
}

static bool is_marked_lost(int fd, const struct bo *bo) {
  struct drm_npu_bo_info info = {.handle = bo->handle};

  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  return info.flags & DRM_NPU_BO_LOST;
}

/* A job without effect on a whole buffer. */
static int raw_use(int fd, uint32_t ctx, const struct bo *bo, uint32_t access) {
  struct drm_npu_wait wait;
  struct stream nops;
  struct job job;
  int ret;

  stream_create(fd, 1, &nops);
  stream_nop(&nops, 0);
  job_init(&job);
  job_region(&job, bo, access);
  job_gdma(&job, &nops);
  ret = raw_submit(fd, ctx, &job);
  if (!ret) {
    wait_result(fd, ctx, job.args.seqno, &wait);
    ret = wait.error;
  }
  stream_destroy(fd, &nops);
  return ret;
}

/* Runs a job on a device that may be lost at any moment. Returns the first step that reported a failure. */
static int raw_run(int fd, uint32_t ctx, const struct stream *stream) {
  struct drm_npu_wait wait = {};
  struct job job;
  int ret;

  job_init(&job);
  job_gdma(&job, stream);
  ret = raw_submit(fd, ctx, &job);
  if (!ret) ret = raw_wait(fd, ctx, job.args.seqno, FOREVER_MS, &wait);
  return ret ? ret : wait.error;
}

/* Without an unbind the card is used again once it answers, with empty memory. System memory keeps its contents. */
static void a_lost_card_comes_back(void **state) {
  struct bo bo, synced, sealed;
  struct stream nops;
  uint32_t ctx;
  uint8_t left;
  bool lost;
  int fd;

  (void)state;
  fd = npu_open();
  lost = has_card_memory(fd);
  left = lost ? 0 : 0x55;
  ctx = ctx_create(fd);
  stream_create(fd, 1, &nops);
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_CARD, &bo);
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_CARD, &synced);
  bo_create(fd, KIB(64), DRM_NPU_BO_CARD, &sealed);
  assert_int_equal(raw_bo_seal(fd, sealed.handle), 0);
  memset(bo.map, 0x55, bo.size);
  fault_set("dead", 1);
  /* A suspended device is not checked before it is needed. */
  assert_int_equal(raw_run(fd, ctx, &nops), -ENODEV);
  wait_lost(fd, true);
  assert_true(is_filled(bo.map, bo.size, left));
  fault_set("dead", 0);
  wait_lost(fd, false);
  assert_true(is_filled(bo.map, bo.size, left));

  /* Earlier contexts stay dead, buffers keep their addresses. */
  assert_int_equal(raw_run(fd, ctx, &nops), -ENODEV);
  ctx_destroy(fd, ctx);
  ctx = ctx_create(fd);
  run_nop(fd, ctx);

  /* Jobs cannot use lost contents until they are replaced. */
  assert_int_equal(is_marked_lost(fd, &bo), lost);
  assert_int_equal(raw_use(fd, ctx, &bo, DRM_NPU_REGION_READ), lost ? -ENODATA : 0);
  assert_int_equal(raw_use(fd, ctx, &sealed, DRM_NPU_REGION_READ), lost ? -ENODATA : 0);
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x22), lost ? -ENODATA : 0);
  assert_int_equal(raw_use(fd, ctx, &bo, DRM_NPU_REGION_WRITE), 0);
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x33), 0);
  assert_true(is_filled(bo.map, bo.size, 0x33));
  memset(synced.map, 0x66, synced.size);
  assert_int_equal(raw_use(fd, ctx, &synced, DRM_NPU_REGION_READ), lost ? -ENODATA : 0);
  bo_sync(fd, &synced, DRM_NPU_SYNC_TO_DEVICE);
  assert_false(is_marked_lost(fd, &synced));
  assert_int_equal(raw_use(fd, ctx, &synced, DRM_NPU_REGION_READ), 0);
  assert_int_equal(is_marked_lost(fd, &sealed), lost);
  bo_unmap(&bo);
  bo_unmap(&synced);
  bo_unmap(&nops.bo);
  close(fd);
}

/* A user can reset the card instead of waiting for the driver's next check. */
static void a_reset_by_the_pci_core_brings_a_lost_card_back(void **state) {
  int fd = npu_open();

  (void)state;
  fault_set("dead", 1);
  wait_lost(fd, true);
  fault_set("dead", 0);
  card_reset(fd);
  assert_false(is_lost(fd));
  run_nop(fd, ctx_create(fd));
  close(fd);
}

static void a_card_that_answers_late_is_not_lost(void **state) {
  struct drm_npu_wait wait;
  struct stream nops;
  struct job job;
  uint32_t bad, good;
  int fd;

  (void)state;
  fd = npu_open();
  bad = ctx_create(fd);
  good = ctx_create(fd);
  stream_create(fd, 8, &nops);
  for (int i = 0; i < 8; i++) stream_nop(&nops, 0);
  fault_set("hang-after", 3);
  fault_set("stuck-device", 1);
  job_init(&job);
  job_gdma(&job, &nops);
  submit(fd, bad, &job);
  fault_wait("stuck-device");
  sleep(LATE_S);
  faults_clear();
  wait_result(fd, bad, job.args.seqno, &wait);
  assert_int_equal(wait.error, -ETIME);
  run_nop(fd, good);
  run_nop(fd, bad);
  bo_unmap(&nops.bo);
  close(fd);
}

/*
 * An explicit job's submitter is responsible for its order, but must never see former contents of its buffer. The job
 * that zeroes the buffer hangs, so a job that does not wait for it would read them.
 */
static void an_explicit_job_waits_for_the_zeroing(void **state) {
  struct stream copy;
  struct bo from, to;
  struct job job;
  uint32_t ctx;
  int fd;

  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  leave_bytes_behind(0x77);
  fd = npu_open();
  ctx = ctx_create(fd);
  bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &to);
  memset(to.map, 0xee, to.size);
  stream_create(fd, 1, &copy);
  fault_set("hang-after", 0);
  fault_set("hang", 1);
  bo_create(fd, MIB(16), DRM_NPU_BO_CARD, &from);
  fault_wait("hang");
  stream_copy(&copy, 1, from.size - to.size, 2, 0, (uint32_t)to.size);
  job_init(&job);
  job_gdma(&job, &copy);
  job_region(&job, &from, DRM_NPU_REGION_READ);
  job_region(&job, &to, DRM_NPU_REGION_WRITE);
  job.args.flags = DRM_NPU_JOB_EXPLICIT;
  submit(fd, ctx, &job);
  run_nop(fd, ctx_create(fd)); /* a core is free */
  faults_clear();
  wait_ok(fd, ctx, job.args.seqno);
  bo_sync(fd, &to, DRM_NPU_SYNC_FROM_DEVICE);
  assert_true(is_filled(to.map, to.size, 0));
  bo_unmap(&to);
  bo_unmap(&copy.bo);
  close(fd);
}

/*
 * The CPU moves buffers while all cores have jobs. The second move reads a dead card: the data is not the buffer's
 * contents, whether or not the driver has noticed.
 */
static void a_dead_card_gives_no_contents(void **state) {
  struct bo old[2], filler, new[2];
  struct drm_npu_dev_info info;
  struct stream nops;
  uint32_t ctx;
  int fd, other;

  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  fd = npu_open();
  other = npu_open();
  npu_info(fd, &info);
  for (int i = 0; i < 2; i++) {
    bo_create_mapped(fd, MIB(16), DRM_NPU_BO_CARD, &old[i]);
    memset(old[i].map, 0x55, old[i].size);
  }
  bo_create(fd, info.ddr_bytes - MIB(36), DRM_NPU_BO_CARD, &filler);
  for (int i = 0; i < 2; i++) bo_create(other, MIB(16), DRM_NPU_BO_CARD, &new[i]);
  ctx = ctx_create(other);
  stream_create(other, 1, &nops);
  stream_nop(&nops, 0);
  occupy_cores(fd);
  for (int i = 0; i < 2; i++) {
    struct job job;

    job_init(&job);
    job_gdma(&job, &nops);
    job_region(&job, &new[i], DRM_NPU_REGION_READ);
    fault_set("dead", (uint64_t)i);
    if (raw_submit(other, ctx, &job)) assert_int_equal(i, 1);
  }
  wait_lost(fd, true);
  faults_clear();
  wait_lost(fd, false);
  assert_false(is_marked_lost(fd, &old[0]));
  assert_true(is_filled(old[0].map, old[0].size, 0x55));
  assert_true(is_marked_lost(fd, &old[1]));
  for (int i = 0; i < 2; i++) bo_unmap(&old[i]);
  bo_unmap(&nops.bo);
  close(other);
  close(fd);
}

/* Contexts with waiting jobs when the card was lost are dead, and must not delay new contexts. */
static void contexts_of_before_take_no_turn(void **state) {
  struct drm_npu_dev_info info;
  uint32_t contexts[4 * NPU_MAX_CORES], half;
  struct stream nops;
  struct job job;
  int fd;

  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  fd = npu_open();
  npu_info(fd, &info);
  half = 2 * info.cores; /* contexts of a user that may run at a time */
  assert_true(2 * half <= info.queues);
  stream_create(fd, 8, &nops);
  for (int i = 0; i < 8; i++) stream_nop(&nops, 0);
  for (uint32_t i = 0; i < 2 * half; i++) contexts[i] = ctx_create(fd);
  fault_set("hang-after", 3);
  fault_set("hang", info.cores);
  /* The contexts with the higher numbers run, the others wait. */
  for (uint32_t i = 0; i < 2 * half; i++) {
    job_init(&job);
    job_gdma(&job, &nops);
    submit(fd, contexts[(i + half) % (2 * half)], &job);
  }
  fault_wait("hang");
  fault_set("dead", 1);
  wait_lost(fd, true);
  fault_set("dead", 0);
  wait_lost(fd, false);
  run_nop(fd, ctx_create(fd));
  bo_unmap(&nops.bo);
  close(fd);
}

static long free_kib(void) {
  FILE *file = fopen("/proc/meminfo", "r");
  char line[128];
  long kib = -1;

  assert_non_null(file);
  while (kib < 0 && fgets(line, sizeof(line), file)) sscanf(line, "MemAvailable: %ld kB", &kib);
  fclose(file);
  assert_true(kib >= 0);
  return kib;
}

/* Mappings of a removed card's buffer can be created and read repeatedly. */
static void looking_at_a_card_that_is_gone_costs_nothing(void **state) {
  enum { LOOKS = 32768 };
  struct drm_prime_handle prime = {.flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1};
  char address[32];
  long before;
  struct bo bo;
  int fd;

  (void)state;
  snprintf(address, sizeof(address), "%s", card_address());
  fd = npu_open();
  bo_create(fd, KIB(64), DRM_NPU_BO_CARD, &bo);
  prime.handle = bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
  card_unbind(address);
  before = free_kib();
  for (int i = 0; i < LOOKS; i++) {
    uint8_t *map = mmap(NULL, bo.size, PROT_READ | PROT_WRITE, MAP_SHARED, prime.fd, 0);

    assert_true(map != MAP_FAILED);
    *(volatile uint8_t *)(map + bo.size - 1) = 1;
    assert_int_equal(munmap(map, bo.size), 0);
  }
  /* One page each would be 128 MiB. */
  assert_in_range(before - free_kib() + 1000000, 0, 1000000 + 32768);
  close(prime.fd);
  close(fd);
  card_bind(address);
}

/* Touches its argument, which is not zeroed yet. */
static void *touch(void *byte) {
  *(volatile uint8_t *)byte = 1;
  return NULL;
}

/* All cores hang, and a page fault waits for memory to be zeroed. */
static void an_unbind_waits_for_no_job(void **state) {
  char address[32];
  pthread_t thread;
  struct bo bo;
  int fd;

  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  snprintf(address, sizeof(address), "%s", card_address());
  for (int i = 0; i < 3; i++) {
    fd = npu_open();
    occupy_cores(fd);
    bo_create_mapped(fd, MIB(16), DRM_NPU_BO_CARD, &bo);
    assert_int_equal(pthread_create(&thread, NULL, touch, bo.map + 4096), 0);
    usleep(50000); /* before the driver's wait for a core times out */
    card_unbind(address);
    assert_int_equal(pthread_join(thread, NULL), 0);
    bo_unmap(&bo);
    close(fd);
    faults_clear();
    card_bind(address);
  }
}

/* Lifetime of fences */

/* The fence of a new buffer's zeroing, as an importer of the buffer gets it. */
static void a_zeroing_fence_outlives_the_driver(void **state) {
  struct dma_buf_export_sync_file export = {.flags = DMA_BUF_SYNC_RW, .fd = -1};
  struct drm_prime_handle prime = {.flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1};
  struct sync_fence_info fence = {0};
  struct sync_file_info info = {.num_fences = 1, .sync_fence_info = (uintptr_t)&fence};
  char address[32];
  struct bo bo;
  int fd;

  (void)state;
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  snprintf(address, sizeof(address), "%s", card_address());
  fd = npu_open();
  occupy_cores(fd);
  bo_create(fd, MIB(16), DRM_NPU_BO_CARD, &bo);
  prime.handle = bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
  assert_int_equal(ioctl(prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export), 0);
  close(prime.fd);
  close(fd);
  card_unbind(address);
  faults_clear();
  assert_int_equal(ioctl(export.fd, SYNC_IOC_FILE_INFO, &info), 0);
  assert_int_equal(info.num_fences, 1);
  assert_true(fence.status != 0); /* signalled, with or without an error */
  close(export.fd);
  card_bind(address);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      TEST(resets_lose_and_show_nothing),
      TEST(a_mapping_of_a_lost_card_shows_nothing_of_others),
      TEST(a_lost_card_comes_back),
      TEST(a_card_that_answers_late_is_not_lost),
      TEST(an_unbind_waits_for_no_job),
      TEST(contexts_of_before_take_no_turn),
      TEST(looking_at_a_card_that_is_gone_costs_nothing),
  };
  /* Zeroing by the card and resets by others: cards only. */
  const struct CMUnitTest card_tests[] = {
      TEST(a_reset_by_the_pci_core_brings_a_lost_card_back),
      TEST(an_explicit_job_waits_for_the_zeroing),
      TEST(a_dead_card_gives_no_contents),
      TEST(a_zeroing_fence_outlives_the_driver),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return run_with_card_tests("reset", tests, card_tests, NULL, NULL);
}
