/* SPDX-License-Identifier: MIT */
/*
 * More card buffers than the card holds: idle ones go to system memory and come back when a job needs them, with
 * what is in them. Arguments: rounds of the long tests (2), and how many pages lie between two that have contents to
 * be checked (1: all do; a power of two up to 16).
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define MAX_BUFFERS 48
#define PAGE 4096

/* Offsets that have contents whatever the arguments are. */
#define SPOT(n) ((uint64_t)(n)*16 * PAGE)

static int rounds = 2;
static uint64_t stride = PAGE;

/* One process' buffers, all of the same size, each with contents of its own. */
struct owner {
  int fd;
  uint32_t ctx;
  uint32_t seed;
  int count;
  struct bo bo[MAX_BUFFERS];
  struct bo page; /* in system memory, where jobs put what they read */
  struct stream stream;
};

static uint64_t word_of(uint32_t seed, uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15ull + seed; }

static void write_words(uint8_t *map, uint64_t bytes, uint32_t seed) {
  uint64_t *words = (uint64_t *)map;

  for (uint64_t at = 0; at < bytes; at += stride)
    for (uint64_t i = at / 8; i < (at + PAGE) / 8; i++) words[i] = word_of(seed, i);
}

/* A page of the contents of a buffer with this seed? */
static bool check_page(const uint8_t *page, uint32_t seed, uint64_t offset) {
  const uint64_t *words = (const uint64_t *)page;
  uint64_t bad = 0;

  for (uint64_t i = 0; i < PAGE / 8; i++) bad |= words[i] ^ word_of(seed, offset / 8 + i);
  return !bad;
}

static bool check_words(const uint8_t *map, uint64_t bytes, uint32_t seed) {
  bool good = true;

  for (uint64_t at = 0; at < bytes; at += stride) good &= check_page(map + at, seed, at);
  return good;
}

static uint32_t flags_of(int file, uint32_t handle) {
  struct drm_npu_bo_info info = {.handle = handle};

  assert_int_equal(raw_ioctl(file, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  return info.flags;
}

static int evicted_of(const struct owner *o) {
  int n = 0;

  for (int i = 0; i < o->count; i++) n += !!(flags_of(o->fd, o->bo[i].handle) & DRM_NPU_BO_EVICTED);
  return n;
}

static void owner_open(struct owner *o, uint32_t seed, uint64_t total, int count) {
  memset(o, 0, sizeof(*o));
  o->fd = npu_open();
  o->ctx = ctx_create(o->fd);
  o->seed = seed;
  o->count = count;
  stream_create(o->fd, MAX_BUFFERS, &o->stream);
  bo_create_mapped(o->fd, MAX_BUFFERS * PAGE, DRM_NPU_BO_SYSTEM, &o->page);
  for (int i = 0; i < count; i++) {
    bo_create_mapped(o->fd, total / count / PAGE * PAGE, DRM_NPU_BO_CARD, &o->bo[i]);
    write_words(o->bo[i].map, o->bo[i].size, seed + i);
  }
}

static void owner_close(struct owner *o) {
  for (int i = 0; i < o->count; i++) bo_unmap(&o->bo[i]);
  bo_unmap(&o->page);
  bo_unmap(&o->stream.bo);
  assert_int_equal(close(o->fd), 0);
}

/* A job that copies a page of each of these buffers to system memory. */
static void owner_job(struct owner *o, int first, int n, uint64_t offset, struct job *job) {
  o->stream.count = 0;
  job_init(job);
  job_region(job, &o->page, RW);
  for (int i = 0; i < n; i++) {
    uint32_t region = job_region(job, &o->bo[first + i], DRM_NPU_REGION_READ);

    stream_copy(&o->stream, (uint8_t)region, offset, 0, (uint64_t)i * PAGE, PAGE);
  }
  job_gdma(job, &o->stream);
}

static bool owner_check_job(struct owner *o, int first, int n, uint64_t offset) {
  struct job job;
  bool good = true;

  memset(o->page.map, 0, o->page.size);
  owner_job(o, first, n, offset, &job);
  run_ok(o->fd, o->ctx, &job);
  for (int i = 0; i < n; i++)
    good &= check_page(o->page.map + (size_t)i * PAGE, o->seed + first + i, offset);
  return good;
}

static bool owner_check_maps(const struct owner *o) {
  bool good = true;

  for (int i = 0; i < o->count; i++) good &= check_words(o->bo[i].map, o->bo[i].size, o->seed + i);
  return good;
}

static uint64_t card_total(void) {
  struct drm_npu_memory_info info;

  npu_memory(fd, &info);
  return info.card_total;
}

/* Pages of system memory can be freed a moment after the last file is closed. */
static void nothing_is_evicted(void) {
  struct drm_npu_memory_info info;

  for (int i = 0; i < 200; i++) {
    npu_memory(fd, &info);
    if (!info.card_evicted) return;
    usleep(50000);
  }
  fail_msg("%llu bytes are still evicted", (unsigned long long)info.card_evicted);
}

static uint64_t tables_used(void) {
  uint64_t n = 0;
  FILE *file = popen("sed -n 's/^tables used \\([0-9]*\\) .*/\\1/p' /sys/kernel/debug/accel/*/memory", "r");

  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu", &n), 1);
  pclose(file);
  return n;
}

static void large_buffers_have_large_pages(void **state) {
  uint64_t before = tables_used();
  struct bo card, system;

  (void)state;
  /* 32 MiB in pages of 4 KiB would be 16 tables for these alone. */
  bo_create(fd, MIB(32), DRM_NPU_BO_CARD, &card);
  assert_in_range(tables_used() - before, 0, 3);
  bo_create(fd, MIB(32) + PAGE, DRM_NPU_BO_SYSTEM, &system);
  assert_in_range(tables_used() - before, 0, 14);
  bo_destroy(fd, &card);
  bo_destroy(fd, &system);
  assert_int_equal(tables_used(), before);
}

/* The two of them want one and a half cards. */
static void idle_buffers_go_and_come_back(void **state) {
  struct drm_npu_memory_info memory;
  uint64_t total = card_total() / 4 * 3;
  struct owner a, b;

  (void)state;
  owner_open(&a, 1000, total, 12);
  assert_int_equal(evicted_of(&a), 0);
  npu_memory(a.fd, &memory);
  assert_int_equal(memory.file_evicted, 0);
  assert_int_equal(memory.file_card_max, memory.card_total);

  /* Creation pushes nobody out; what did not fit is in system memory until it is used. */
  owner_open(&b, 2000, total, 12);
  assert_int_equal(evicted_of(&a), 0);
  assert_in_range(evicted_of(&b), 6, 11);
  npu_memory(b.fd, &memory);
  assert_int_equal(memory.file_card, 12 * b.bo[0].size);
  assert_int_equal(memory.file_evicted, evicted_of(&b) * b.bo[0].size);
  assert_int_equal(memory.card_evicted, memory.file_evicted);

  assert_true(owner_check_job(&b, 0, 12, SPOT(1)));
  assert_int_equal(evicted_of(&b), 0);
  assert_in_range(evicted_of(&a), 6, 11);
  npu_memory(a.fd, &memory);
  assert_in_range(memory.evictions, 6, UINT64_MAX);

  /* Mappings from before show what is there now. */
  assert_true(owner_check_maps(&a));
  for (int i = 0; i < a.count; i++) write_words(a.bo[i].map, a.bo[i].size, 3000 + i);
  a.seed = 3000;
  assert_true(owner_check_job(&a, 0, 12, SPOT(a.bo[0].size / SPOT(1) - 1)));
  assert_int_equal(evicted_of(&a), 0);
  assert_true(owner_check_maps(&a));
  assert_true(owner_check_maps(&b));

  owner_close(&a);
  owner_close(&b);
  nothing_is_evicted();
}

static void every_file_can_have_the_whole_card_and_no_more(void **state) {
  struct owner a, b;
  struct bo more;

  (void)state;
  owner_open(&a, 0, card_total(), 3);
  assert_int_equal(raw_bo_create(a.fd, MIB(1), DRM_NPU_BO_CARD, &more), -ENOSPC);
  owner_open(&b, 100, card_total(), 3);
  assert_int_equal(raw_bo_create(b.fd, MIB(1), DRM_NPU_BO_CARD, &more), -ENOSPC);
  assert_true(owner_check_job(&a, 0, 3, 0));
  assert_true(owner_check_job(&b, 0, 3, 0));
  bo_destroy(a.fd, &a.bo[2]);
  a.count--;
  bo_create(a.fd, MIB(1), DRM_NPU_BO_CARD, &more);
  owner_close(&a);
  owner_close(&b);
}

static void new_buffers_are_zero_also_in_system_memory(void **state) {
  uint64_t total = card_total();
  struct owner a;
  struct bo bo;

  (void)state;
  owner_open(&a, 7, total, 4);
  bo_create_mapped(fd, MIB(3), DRM_NPU_BO_CARD, &bo);
  assert_true(flags_of(fd, bo.handle) & DRM_NPU_BO_EVICTED);
  assert_true(!bo.map[0] && !memcmp(bo.map, bo.map + 1, bo.size - 1));
  bo_destroy(fd, &bo);
  owner_close(&a);
}

static bool read_is_sigbus(volatile uint8_t *p) {
  int status;
  pid_t pid = fork();

  if (!pid) {
    signal(SIGBUS, SIG_DFL);
    _exit(*p ? 1 : 0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static void a_sealed_buffer_stays_sealed(void **state) {
  uint64_t total = card_total() / 4 * 3;
  struct owner a, b;
  struct job job;

  (void)state;
  owner_open(&a, 10, total, 3);
  assert_int_equal(raw_bo_seal(a.fd, a.bo[0].handle), 0);
  owner_open(&b, 20, total, 3);
  assert_true(owner_check_job(&b, 0, 3, 0));
  assert_int_equal(flags_of(a.fd, a.bo[0].handle), DRM_NPU_BO_CARD | DRM_NPU_BO_SEALED | DRM_NPU_BO_EVICTED);
  /* One that is sealed while it is away. */
  assert_int_equal(raw_bo_seal(a.fd, a.bo[1].handle), 0);
  for (int i = 0; i < 2; i++) {
    assert_true(read_is_sigbus(a.bo[i].map));
    assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, a.fd, a.bo[i].mmap_offset), MAP_FAILED);
    assert_int_equal(errno, EACCES);
  }
  assert_true(owner_check_job(&a, 0, 3, SPOT(3)));
  for (int i = 0; i < 2; i++) {
    assert_int_equal(flags_of(a.fd, a.bo[i].handle), DRM_NPU_BO_CARD | DRM_NPU_BO_SEALED);
    owner_job(&a, i, 1, 0, &job);
    job.regions[1].access = RW;
    assert_int_equal(raw_submit(a.fd, a.ctx, &job), -EACCES);
  }
  owner_close(&a);
  owner_close(&b);
}

/* Somebody who submits and has to wait for room. */
struct waiter {
  struct owner *owner;
  pthread_t thread;
  volatile pid_t tid; /* when it is about to call */
  volatile int ret;
};

static void on_signal(int number) { (void)number; }

static void *submit_all(void *arg) {
  struct waiter *w = arg;
  struct job job;
  struct drm_npu_submit args = {.ctx_id = w->owner->ctx, .jobs = (uintptr_t)&job.args, .job_count = 1,
                                .job_stride = sizeof(job.args)};

  owner_job(w->owner, 0, w->owner->count, 0, &job);
  w->tid = (pid_t)syscall(SYS_gettid);
  /* Not raw_submit(), which tries again after a signal. */
  w->ret = ioctl(w->owner->fd, DRM_IOCTL_NPU_SUBMIT, &args) ? -errno : 0;
  return NULL;
}

/* Returns when its thread sleeps in the call. */
static void waiter_start(struct waiter *w) {
  char path[64], sleeps = 0;

  w->tid = 0;
  w->ret = 1;
  assert_int_equal(pthread_create(&w->thread, NULL, submit_all, w), 0);
  for (int tries = 0; tries < 3000 && sleeps != 'S'; tries++) {
    FILE *file;

    usleep(10000);
    if (!w->tid) continue;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", w->tid);
    file = fopen(path, "r");
    if (!file) fail_msg("the call returned %d at once", w->ret);
    assert_int_equal(fscanf(file, "%*d %*s %c", &sleeps), 1);
    fclose(file);
  }
  assert_int_equal(sleeps, 'S');
  assert_int_equal(w->ret, 1);
}

static void busy_buffers_are_waited_for(void **state) {
  struct sigaction action = {.sa_handler = on_signal};
  uint64_t total = card_total() / 4 * 3;
  struct drm_npu_wait wait;
  struct stream slow;
  struct owner a, b;
  struct waiter w = {.owner = &b};
  struct job job;

  (void)state;
  sigaction(SIGUSR1, &action, NULL);
  owner_open(&a, 10, total, 3);
  owner_open(&b, 20, total, 3);
  stream_create(a.fd, 1, &slow);
  stream_slow_copy(&slow, 0, 10000000); /* as long as can be: until its context is destroyed */
  job_init(&job);
  job_region(&job, &a.page, RW);
  for (int i = 0; i < 3; i++) job_region(&job, &a.bo[i], DRM_NPU_REGION_READ);
  job_gdma(&job, &slow);

  /* A signal ends the wait, and nothing was queued. */
  submit(a.fd, a.ctx, &job);
  waiter_start(&w);
  usleep(300000);
  assert_int_equal(w.ret, 1);
  pthread_kill(w.thread, SIGUSR1);
  pthread_join(w.thread, NULL);
  assert_int_equal(w.ret, -EINTR);
  assert_int_equal(raw_wait(a.fd, a.ctx, job.args.seqno, 0, &wait), -ETIME);
  assert_int_equal(evicted_of(&a), 0);

  /* So does the end of the context. */
  waiter_start(&w);
  ctx_destroy(b.fd, b.ctx);
  pthread_join(w.thread, NULL);
  assert_int_equal(w.ret, -ECANCELED);
  b.ctx = ctx_create(b.fd);

  /* Others, whose buffers are there, are not kept waiting. */
  waiter_start(&w);
  run_nop(fd, ctx);
  assert_int_equal(w.ret, 1);
  assert_int_equal(raw_wait(a.fd, a.ctx, job.args.seqno, 0, &wait), -ETIME);
  ctx_destroy(a.fd, a.ctx);
  pthread_join(w.thread, NULL);
  assert_int_equal(w.ret, 0);
  assert_true(owner_check_job(&b, 0, 3, 0));
  assert_true(owner_check_maps(&a));
  stream_destroy(a.fd, &slow);
  owner_close(&a);
  owner_close(&b);
}

/* Counts in every page of a buffer, again and again. */
struct counter {
  struct bo *bo;
  pthread_t thread;
  volatile int stop;
  uint64_t rounds;
};

static void *count_in_pages(void *arg) {
  struct counter *c = arg;

  while (!c->stop) {
    for (uint64_t at = 0; at < c->bo->size; at += PAGE) ++*(volatile uint64_t *)(c->bo->map + at);
    c->rounds++;
  }
  return NULL;
}

static void no_write_is_lost_in_a_move(void **state) {
  uint64_t total = card_total() / 4 * 3;
  struct owner a, b;
  struct counter c;

  (void)state;
  owner_open(&a, 10, total, 3);
  owner_open(&b, 20, total, 3);
  c = (struct counter){.bo = &a.bo[1]};
  memset(c.bo->map, 0, c.bo->size);
  pthread_create(&c.thread, NULL, count_in_pages, &c);
  for (int i = 0; i < 5 * rounds; i++) {
    assert_true(owner_check_job(&b, 0, 3, 0));
    assert_true(owner_check_job(&a, 0, 1, 0));
    owner_check_job(&a, 1, 2, 0); /* what it reads changes all the time */
  }
  c.stop = 1;
  pthread_join(c.thread, NULL);
  assert_true(c.rounds > 0);
  for (uint64_t at = 0; at < c.bo->size; at += PAGE)
    assert_int_equal(*(volatile uint64_t *)(c.bo->map + at), c.rounds);
  owner_close(&a);
  owner_close(&b);
}

/* Status 0: everything was as it should be. */
static int want_two_thirds(uint32_t seed, int ready, int go) {
  unsigned random = seed;
  struct owner o;
  char c = 1;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  owner_open(&o, seed, card_total() / 3 * 2, 20);
  if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 1) return 1;
  for (int i = 0; i < rounds; i++) {
    /* All at once, which leaves the others a third of the card, and one by one in any order. */
    if (!owner_check_job(&o, 0, o.count, SPOT(i))) return 2;
    for (int k = 0; k < o.count; k++)
      if (!owner_check_job(&o, (int)(rand_r(&random) % (unsigned)o.count), 1, 0)) return 3;
  }
  if (!owner_check_maps(&o)) return 4;
  owner_close(&o);
  return 0;
}

static void three_processes_share_twice_the_card(void **state) {
  struct drm_npu_memory_info before, after;
  int ready[2], go[2], status;
  char c[3] = {1, 1, 1};

  (void)state;
  npu_memory_settled(fd, &before);
  assert_int_equal(pipe(ready), 0);
  assert_int_equal(pipe(go), 0);
  for (uint32_t i = 0; i < 3; i++)
    if (!fork()) _exit(want_two_thirds(1000 * (i + 1), ready[1], go[0]));
  for (int i = 0; i < 3; i++) assert_int_equal(read(ready[0], c, 1), 1);
  npu_memory(fd, &after);
  assert_true(after.card_evicted + after.card_total - after.card_free >= after.card_total / 10 * 19);
  assert_int_equal(write(go[1], c, 3), 3);
  for (int i = 0; i < 3; i++) {
    assert_true(wait(&status) > 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  nothing_is_evicted();
  expect_card_free(fd, before.card_free);
  npu_memory(fd, &after);
  assert_true(after.evictions > before.evictions);
  for (int i = 0; i < 2; i++) close(ready[i]), close(go[i]);
}

/* What the test before has closed is gone. */
static int the_card_is_empty(void **state) {
  struct drm_npu_memory_info info;

  (void)state;
  npu_memory_settled(fd, &info);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(large_buffers_have_large_pages, the_card_is_empty),
      cmocka_unit_test_setup(idle_buffers_go_and_come_back, the_card_is_empty),
      cmocka_unit_test_setup(every_file_can_have_the_whole_card_and_no_more, the_card_is_empty),
      cmocka_unit_test_setup(new_buffers_are_zero_also_in_system_memory, the_card_is_empty),
      cmocka_unit_test_setup(a_sealed_buffer_stays_sealed, the_card_is_empty),
      cmocka_unit_test_setup(busy_buffers_are_waited_for, the_card_is_empty),
      cmocka_unit_test_setup(no_write_is_lost_in_a_move, the_card_is_empty),
      cmocka_unit_test_setup(three_processes_share_twice_the_card, the_card_is_empty),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  if (argc > 2) stride = strtoull(argv[2], NULL, 10) * PAGE;
  return cmocka_run_group_tests_name("eviction", tests, set_up, tear_down);
}
