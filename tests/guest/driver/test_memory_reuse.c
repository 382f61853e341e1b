/* SPDX-License-Identifier: MIT */
/*
 * Attacks on reused memory: stale translations, data of former owners, jobs of dead processes, busy cores. Argument:
 * rounds (40).
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define BLOCK MIB(16)

static int rounds = 40;

/* Copies a buffer's first bytes to system memory by a job, and checks that all are `value`. */
static bool job_sees(const struct bo *from, uint8_t value) {
  struct stream stream;
  struct job job;
  struct bo to;
  bool good;

  bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &to);
  memset(to.map, ~value, to.size);
  stream_create(fd, 1, &stream);
  stream_copy(&stream, 0, 0, 1, 0, (uint32_t)to.size);
  job_init(&job);
  job_region(&job, from, DRM_NPU_REGION_READ);
  job_region(&job, &to, RW);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  good = is_filled(to.map, to.size, value);
  stream_destroy(fd, &stream);
  bo_destroy(fd, &to);
  return good;
}

/* A reused address leads to the new buffer, however often the card has accessed it. */
static void a_reused_address_shows_the_new_buffer(void **state) {
  static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};
  int same = 0;

  (void)state;
  /* A finished job releases a buffer shortly after: not every new one gets the old address. */
  for (int i = 0; i < 4 * rounds || same <= rounds; i++) {
    struct bo old, new;

    if (i > 400 * rounds) fail_msg("addresses are not used again: this tests nothing");
    bo_create_mapped(fd, KIB(64) << (i % 6), kinds[i & 1], &old);
    memset(old.map, 0xbd, old.size);
    assert_true(job_sees(&old, 0xbd));
    bo_destroy(fd, &old);
    bo_create(fd, old.size, kinds[i >> 1 & 1], &new);
    same += new.va == old.va;
    assert_true(job_sees(&new, 0));
    bo_destroy(fd, &new);
  }
}

static void a_closed_handle_is_no_way_to_its_memory(void **state) {
  struct stream stream;
  struct job job;
  struct bo bo;

  (void)state;
  bo_create(fd, KIB(64), DRM_NPU_BO_CARD, &bo);
  stream_create(fd, 1, &stream);
  stream_fill(&stream, 0, 0, 4096, 1);
  job_init(&job);
  job_region(&job, &bo, RW);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  bo_destroy(fd, &bo);
  assert_int_equal(raw_submit(fd, ctx, &job), -ENOENT);
  stream_destroy(fd, &stream);
}

/* The address of an unmapped buffer faults, without effect on others. */
static void the_address_of_another_process_is_worth_nothing(void **state) {
  int other = npu_open();
  struct stream stream;
  struct job job;
  struct bo theirs, mine;
  struct drm_npu_wait wait;

  (void)state;
  bo_create_mapped(other, MIB(1), DRM_NPU_BO_CARD, &theirs);
  memset(theirs.map, 0x5c, theirs.size);
  bo_create(fd, MIB(1), DRM_NPU_BO_CARD, &mine);
  stream_create(fd, 1, &stream);
  /* The address of their buffer relative to mine: regions end where buffers end. */
  stream_fill(&stream, 0, theirs.va - mine.va + MIB(1), 4096, 0xff);
  job_init(&job);
  job_region(&job, &mine, RW);
  job_gdma(&job, &stream);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  assert_int_equal(wait.error, -EIO);
  assert_int_equal(wait.fault.status, NPU_STATUS_REGION_BOUNDS);
  assert_true(is_filled(theirs.map, theirs.size, 0x5c));
  bo_unmap(&theirs);
  close(other);
  stream_destroy(fd, &stream);
  bo_destroy(fd, &mine);
}

/* Fills memory with jobs, on a small card all of it, until killed. */
static void write_until_killed(int ready) {
  int own = npu_open();
  uint32_t id = ctx_create(own);
  struct drm_npu_memory_info info;
  uint64_t blocks = 24;
  struct stream stream;
  struct job job;
  char c = 1;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  npu_memory(own, &info);
  if (has_card_memory(own) && info.card_free / BLOCK < blocks) blocks = info.card_free / BLOCK;
  stream_create(own, 256, &stream);
  job_init(&job);
  for (uint32_t i = 0; i < blocks; i++) {
    struct bo bo;

    bo_create(own, BLOCK, DRM_NPU_BO_CARD, &bo);
    job_region(&job, &bo, RW);
    for (int k = 0; k < 8; k++) stream_fill(&stream, (uint8_t)i, 0, (uint32_t)BLOCK, 0xdd);
  }
  job_gdma(&job, &stream);
  submit(own, id, &job);
  if (write(ready, &c, 1) != 1) _exit(1);
  for (;;) submit(own, id, &job);
}

/* Memory of a killed process is zero for its next owner, and stays zero. */
static void jobs_of_the_dead_write_nothing(void **state) {
  struct bo bo[24];
  int n = (int)(rounds / 4 > 3 ? rounds / 4 : 3);

  (void)state;
  for (int i = 0; i < n; i++) {
    int fds[2], status, count = 0;
    char c;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (!pid) write_until_killed(fds[1]);
    assert_int_equal(read(fds[0], &c, 1), 1);
    usleep((unsigned)i * 3000);
    kill(pid, SIGKILL);
    /* Before, during and after its end. */
    for (; count < 6 && !raw_bo_create(fd, BLOCK, DRM_NPU_BO_CARD, &bo[count]); count++) bo_map(fd, &bo[count]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (; count < 12 && !raw_bo_create(fd, BLOCK, DRM_NPU_BO_CARD, &bo[count]); count++) bo_map(fd, &bo[count]);
    assert_true(count >= 6);
    for (int again = 0; again < 2; again++)
      for (int k = 0; k < count; k++) assert_true(is_filled(bo[k].map, bo[k].size, 0));
    for (int k = 0; k < count; k++) bo_destroy(fd, &bo[k]);
    close(fds[0]);
    close(fds[1]);
  }
}

static volatile int stop;

static void *map_and_unmap(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  long errors = 0;

  while (!stop) {
    struct bo bo;

    if (raw_bo_create(fd, 4096 * (1 + rand_r(&seed) % 800), 1 + (rand_r(&seed) & 1), &bo))
      errors++;
    else if (raw_gem_close(fd, bo.handle))
      errors++;
  }
  return (void *)errors;
}

/* Jobs are not affected by page table changes in their address space. */
static void mappings_change_while_jobs_run(void **state) {
  pthread_t threads[2];
  struct bo bo;
  void *errors;

  (void)state;
  bo_create_mapped(fd, MIB(3), DRM_NPU_BO_CARD, &bo);
  stop = 0;
  for (uintptr_t i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, map_and_unmap, (void *)(i + 1)), 0);
  for (int i = 0; i < 4 * rounds; i++) {
    memset(bo.map, i, KIB(64));
    assert_true(job_sees(&bo, (uint8_t)i));
  }
  stop = 1;
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], &errors);
    assert_int_equal((intptr_t)errors, 0);
  }
  bo_destroy(fd, &bo);
}

/* While all cores have long jobs, new memory is still available and zero. */
static void busy_cores_do_not_keep_memory_back(void **state) {
  struct drm_npu_dev_info info;
  struct drm_npu_wait wait;
  uint32_t ids[NPU_MAX_CORES];
  struct stream slow;
  struct job job;
  struct bo page[NPU_MAX_CORES], bo;

  (void)state;
  npu_info(fd, &info);
  stream_create(fd, 1, &slow);
  stream_slow_copy(&slow, 1, 10000000);
  /* With separate memory: jobs that write one buffer wait for each other. */
  for (uint32_t i = 0; i < info.cores; i++) {
    bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &page[i]);
    job_init(&job);
    job_gdma(&job, &slow);
    job_region(&job, &page[i], RW);
    ids[i] = ctx_create(fd);
    submit(fd, ids[i], &job);
  }
  wait_cores_busy(fd);
  bo_create_mapped(fd, MIB(8), DRM_NPU_BO_CARD, &bo);
  assert_true(is_filled(bo.map, bo.size, 0));
  for (uint32_t i = 0; i < info.cores; i++) assert_int_equal(raw_wait(fd, ids[i], 1, 0, &wait), -ETIME);
  memset(bo.map, 1, bo.size);
  for (uint32_t i = 0; i < info.cores; i++) {
    ctx_destroy(fd, ids[i]);
    bo_destroy(fd, &page[i]);
  }
  assert_true(job_sees(&bo, 1));
  bo_destroy(fd, &bo);
  stream_destroy(fd, &slow);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reused_address_shows_the_new_buffer),
      cmocka_unit_test(a_closed_handle_is_no_way_to_its_memory),
      cmocka_unit_test(the_address_of_another_process_is_worth_nothing),
      cmocka_unit_test(jobs_of_the_dead_write_nothing),
      cmocka_unit_test(mappings_change_while_jobs_run),
      cmocka_unit_test(busy_cores_do_not_keep_memory_back),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("memory_reuse", tests, set_up, tear_down);
}
