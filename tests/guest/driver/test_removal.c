/* SPDX-License-Identifier: MIT */
/* The card is unbound or reset while in use. Argument: rounds (10). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int rounds = 10;
static char device[32]; /* the card's name on its bus */

static int set_up(void **state) {
  uint32_t ctx;
  int fd;

  (void)state;
  snprintf(device, sizeof(device), "%s", card_address());
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  return close(fd);
}

/* A file with everything in use: buffers of both kinds, mapped, user memory, a fence page, jobs in flight. */
struct user {
  int fd;
  uint32_t ctx;
  uint32_t syncobj;
  uint64_t first, last;
  struct bo card, system, pinned;
  uint8_t *memory; /* pinned by the last buffer */
  struct stream stream;
  volatile struct npu_fence *fence;
};

static void user_start(struct user *user) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_bo_userptr userptr = {.size = MIB(1)};
  struct job job;

  user->fd = npu_open();
  assert_int_equal(raw_ctx_create(user->fd, &args), 0);
  user->ctx = args.ctx_id;
  user->fence = mmap(NULL, 4096, PROT_READ, MAP_SHARED, user->fd, args.fence_offset);
  assert_ptr_not_equal((void *)user->fence, MAP_FAILED);
  user->syncobj = syncobj_create(user->fd);
  bo_create_mapped(user->fd, MIB(1), DRM_NPU_BO_CARD, &user->card);
  bo_create_mapped(user->fd, MIB(1), DRM_NPU_BO_SYSTEM, &user->system);
  memset(user->card.map, 1, MIB(1));
  memset(user->system.map, 1, MIB(1));
  user->memory = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(user->memory, MAP_FAILED);
  memset(user->memory, 1, MIB(1));
  userptr.addr = (uintptr_t)user->memory;
  assert_int_equal(raw_ioctl(user->fd, DRM_IOCTL_NPU_BO_USERPTR, &userptr), 0);
  user->pinned = (struct bo){.handle = userptr.handle, .size = userptr.size, .va = userptr.va};
  stream_create(user->fd, 2, &user->stream);
  stream_slow_copy(&user->stream, 1, FOREVER_MS);
  stream_nop(&user->stream, 0);

  /* The first job is endless, the others are empty. */
  job_init(&job);
  job_gdma(&job, &user->stream);
  job_region(&job, &user->system, RW);
  job_region(&job, &user->pinned, RW);
  job.stream.gdma_count = 1;
  job.args.budget = UINT64_MAX;
  user->first = submit(user->fd, user->ctx, &job);
  job.stream.gdma_offset = NPU_CMD_BYTES;
  submit(user->fd, user->ctx, &job);
  job_out(&job, user->syncobj, 0);
  user->last = submit(user->fd, user->ctx, &job);
}

/* Until the first job is on its core. */
static void user_wait_for_core(const struct user *user) {
  for (int tries = 0; tries < 1000; tries++) {
    struct drm_npu_status_info info;

    npu_status(user->fd, &info);
    if (info.core_busy) return;
    usleep(10000);
  }
  fail_msg("the job does not begin");
}

static void user_end(struct user *user) {
  munmap((void *)user->fence, 4096);
  bo_unmap(&user->card);
  bo_unmap(&user->system);
  bo_unmap(&user->stream.bo);
  munmap(user->memory, MIB(1));
  close(user->fd);
}

static void everything_ends_with_the_device(void **state) {
  struct drm_npu_dev_query query = {.type = DRM_NPU_QUERY_DEV};
  struct drm_npu_wait wait;
  struct user user;
  struct bo bo;
  int fd;

  (void)state;
  for (int i = 0; i < rounds; i++) {
    user_start(&user);
    if (i & 1) user_wait_for_core(&user);
    card_unbind(device);

    /* Calls fail without hangs, and accesses to mappings do not kill the process. */
    assert_int_equal(raw_ioctl(user.fd, DRM_IOCTL_NPU_DEV_QUERY, &query), -ENODEV);
    assert_int_equal(raw_bo_create(user.fd, 4096, DRM_NPU_BO_CARD, &bo), -ENODEV);
    assert_int_equal(raw_wait(user.fd, user.ctx, user.last, 0, &wait), -ENODEV);
    *(volatile uint8_t *)user.card.map = 1;
    *(volatile uint8_t *)user.system.map = 1;
    *(volatile uint8_t *)(user.system.map + MIB(1) - 1) = 1;
    assert_true(user.fence->seqno <= user.last);
    user.memory[MIB(1) - 1]++;
    user_end(&user);

    card_bind(device);
    fd = npu_open();
    run_nop(fd, ctx_create(fd));
    close(fd);
  }
}

/* Creates and frees system buffers of different sizes, up to 32 MiB, until the device is gone. */
struct churner {
  pthread_t thread;
  int fd;
  unsigned int seed;
  int made; /* atomic */
  int error;
};

static void *churn(void *arg) {
  struct churner *self = arg;

  while (!self->error) {
    struct bo bos[2];
    int count = 0;

    while (count < 2 && !self->error) {
      self->error = raw_bo_create(self->fd, KIB(4) << rand_r(&self->seed) % 14, DRM_NPU_BO_SYSTEM, &bos[count]);
      count += !self->error;
    }
    for (int i = 0; i < count; i++) raw_gem_close(self->fd, bos[i].handle);
    __atomic_add_fetch(&self->made, count, __ATOMIC_RELAXED);
  }
  return NULL;
}

/*
 * Allocations and releases race with the unbind: each ends with a buffer or with ENODEV, the unbind ends, and the card
 * comes back. A random stress test: it looks for a mapping that outlives the driver (reported by DMA-API on the debug
 * kernel), which no run has found yet.
 */
static void memory_comes_and_goes_with_the_device(void **state) {
  (void)state;
  for (int i = 0; i < (rounds + 4) / 5; i++) {
    struct churner churners[3] = {0};
    const int n = sizeof(churners) / sizeof(churners[0]);
    int fd;

    for (int t = 0; t < n; t++) {
      churners[t].fd = npu_open();
      churners[t].seed = i * n + t;
      assert_int_equal(pthread_create(&churners[t].thread, NULL, churn, &churners[t]), 0);
    }
    for (int t = 0; t < n; t++)
      while (__atomic_load_n(&churners[t].made, __ATOMIC_RELAXED) < 8) usleep(1000);
    usleep(i % 5 * 1000);
    card_unbind(device);
    for (int t = 0; t < n; t++) {
      pthread_join(churners[t].thread, NULL);
      assert_int_equal(churners[t].error, -ENODEV);
      close(churners[t].fd);
    }
    card_bind(device);
    fd = npu_open();
    run_nop(fd, ctx_create(fd));
    close(fd);
  }
}

static void probe_and_remove_without_users(void **state) {
  (void)state;
  for (int i = 0; i < rounds; i++) {
    int fd;

    card_unbind(device);
    assert_false(npu_try_open(&fd));
    card_bind(device);
  }
}

/* A reset cancels the job on the core, and no other. */
static void a_reset_costs_one_job(void **state) {
  (void)state;
  for (int i = 0; i < rounds; i++) {
    struct drm_npu_ctx_query query;
    struct drm_npu_wait wait;
    struct user user;

    user_start(&user);
    user_wait_for_core(&user);
    card_reset(user.fd);

    wait_result(user.fd, user.ctx, user.first, &wait);
    assert_int_equal(wait.error, -ECANCELED);
    assert_int_equal(wait.fault.status, NPU_STATUS_ABORTED);
    assert_int_equal(wait.fault.engine, NPU_ENGINE_NONE);
    /* Only its driver resets a block of a SoC. */
    assert_int_equal(wait.fault.cause, has_card_memory(user.fd) ? DRM_NPU_CAUSE_RESET : DRM_NPU_CAUSE_RECOVERY);
    wait_ok(user.fd, user.ctx, user.first + 1);
    wait_ok(user.fd, user.ctx, user.last);
    assert_int_equal(user.system.map[0], 1);
    assert_int_equal(user.card.map[MIB(1) - 1], 1);
    ctx_query(user.fd, user.ctx, &query);
    assert_int_equal(query.victims, 1);
    assert_int_equal(query.errors, 0);
    run_nop(user.fd, user.ctx);
    user_end(&user);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everything_ends_with_the_device),
      cmocka_unit_test(memory_comes_and_goes_with_the_device),
      cmocka_unit_test(probe_and_remove_without_users),
      cmocka_unit_test(a_reset_costs_one_job),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("removal", tests, set_up, NULL);
}
