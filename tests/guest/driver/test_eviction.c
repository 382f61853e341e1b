/* SPDX-License-Identifier: MIT */
/*
 * More card buffers than the card holds: idle ones move to system memory and return, with their contents, when a job
 * needs them. Arguments: rounds of the long tests (2), and the distance of pages with contents to be checked (1: all
 * pages; a power of two up to 16).
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
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

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/trace.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define MAX_BUFFERS 48
#define PAGE 4096

/* Offsets that have contents for any arguments. */
#define SPOT(n) ((uint64_t)(n)*16 * PAGE)

static int rounds = 2;
static uint64_t stride = PAGE;

/* Buffers of one process, of the same size, each with different contents. */
struct owner {
  int fd;
  uint32_t ctx;
  uint32_t seed;
  int count;
  struct bo bo[MAX_BUFFERS];
  struct bo page; /* in system memory, target of the jobs' copies */
  struct stream stream;
};

static uint64_t word_of(uint32_t seed, uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15ull + seed; }

static void write_words(uint8_t *map, uint64_t bytes, uint32_t seed) {
  uint64_t *words = (uint64_t *)map;

  for (uint64_t at = 0; at < bytes; at += stride)
    for (uint64_t i = at / 8; i < (at + PAGE) / 8; i++) words[i] = word_of(seed, i);
}

/* Returns true if a page has the contents of a buffer with this seed. */
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
  for (int i = 0; i < n; i++) good &= check_page(o->page.map + (size_t)i * PAGE, o->seed + first + i, offset);
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

/* Pages of system memory may be freed shortly after the last file is closed. */
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
  char text[USAGE_BYTES];
  const char *line;

  usage_take(text);
  line = strstr(text, "tables used ");
  assert_non_null(line);
  return strtoull(line + strlen("tables used "), NULL, 10);
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

/* Both together need one and a half cards. */
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

  /* Creation evicts nothing; a buffer without room is in system memory until used. */
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

  /* Earlier mappings show the current contents. */
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
  /* A buffer that is sealed while evicted. */
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

/* A thread that submits and has to wait for room. */
struct waiter {
  struct owner *owner;
  pthread_t thread;
  volatile pid_t tid; /* set right before the call */
  volatile int ret;
};

static void on_signal(int number) { (void)number; }

static void *submit_all(void *arg) {
  struct waiter *w = arg;
  struct job job;
  struct drm_npu_submit args = {
      .ctx_id = w->owner->ctx, .jobs = (uintptr_t)&job.args, .job_count = 1, .job_stride = sizeof(job.args)};

  owner_job(w->owner, 0, w->owner->count, 0, &job);
  w->tid = (pid_t)syscall(SYS_gettid);
  /* Not raw_submit(), which retries after a signal. */
  w->ret = ioctl(w->owner->fd, DRM_IOCTL_NPU_SUBMIT, &args) ? -errno : 0;
  return NULL;
}

/* Returns when the thread sleeps in the call. */
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
  struct stream held;
  struct owner a, b;
  struct waiter w = {.owner = &b};
  struct job job;

  (void)state;
  sigaction(SIGUSR1, &action, NULL);
  owner_open(&a, 10, total, 3);
  owner_open(&b, 20, total, 3);
  ctx_destroy(a.fd, a.ctx);
  a.ctx = ctx_create_patient(a.fd, NULL);
  stream_create(a.fd, 1, &held);
  stream_nop(&held, 0);
  job_init(&job);
  job_region(&job, &a.page, RW);
  for (int i = 0; i < 3; i++) job_region(&job, &a.bo[i], DRM_NPU_REGION_READ);
  job_gdma(&job, &held);

  /* A signal ends the wait, and no job was queued. */
  submit_held(a.fd, a.ctx, &job); /* ends with its context */
  waiter_start(&w);
  assert_int_equal(w.ret, 1);
  pthread_kill(w.thread, SIGUSR1);
  pthread_join(w.thread, NULL);
  assert_int_equal(w.ret, -EINTR);
  assert_int_equal(raw_wait(a.fd, a.ctx, job.args.seqno, 0, &wait), -ETIME);
  assert_int_equal(evicted_of(&a), 0);

  /* Destruction of the context ends the wait, too. */
  waiter_start(&w);
  ctx_destroy(b.fd, b.ctx);
  pthread_join(w.thread, NULL);
  assert_int_equal(w.ret, -ECANCELED);
  b.ctx = ctx_create(b.fd);

  /* Submissions whose buffers are resident do not wait. */
  waiter_start(&w);
  run_nop(fd, ctx);
  assert_int_equal(w.ret, 1);
  assert_int_equal(raw_wait(a.fd, a.ctx, job.args.seqno, 0, &wait), -ETIME);
  ctx_destroy(a.fd, a.ctx);
  pthread_join(w.thread, NULL);
  assert_int_equal(w.ret, 0);
  assert_true(owner_check_job(&b, 0, 3, 0));
  assert_true(owner_check_maps(&a));
  stream_destroy(a.fd, &held);
  owner_close(&a);
  owner_close(&b);
}

/* Uses all of the card, with two contexts that always have queued jobs, until killed. */
static void hog(int ready) {
  struct drm_npu_memory_info info;
  struct owner o;
  struct stream slow;
  struct job job;
  uint32_t ctxs[2];
  char c = 1;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  memset(&o, 0, sizeof(o));
  o.fd = npu_open();
  npu_memory(o.fd, &info);
  for (int i = 0; i < 2; i++) ctxs[i] = ctx_create(o.fd);
  bo_create(o.fd, PAGE, DRM_NPU_BO_SYSTEM, &o.page);
  stream_create(o.fd, 1, &slow);
  stream_slow_copy(&slow, 0, 20);
  job_init(&job);
  job_region(&job, &o.page, RW);
  for (int i = 0; i < 4; i++) {
    uint64_t quarter = info.card_total / 4 / PAGE * PAGE;

    bo_create(o.fd, i ? quarter : info.card_total - 3 * quarter, DRM_NPU_BO_CARD, &o.bo[i]);
    job_region(&job, &o.bo[i], DRM_NPU_REGION_READ);
  }
  job.args.flags = DRM_NPU_JOB_EXPLICIT;
  job_gdma(&job, &slow);
  for (uint64_t n = 0;; n++) {
    submit(o.fd, ctxs[n % 2], &job);
    if (n == 8 && write(ready, &c, 1) != 1) _exit(1);
  }
}

/* While all card memory is busy, a submission that needs a page gets it; then the evicted buffer's one does. */
static void queued_jobs_do_not_keep_others_out(void **state) {
  struct sigaction action = {.sa_handler = on_signal};
  int ready[2], status;
  struct bo bo;
  pid_t pid;
  char c;

  (void)state;
  sigaction(SIGALRM, &action, NULL);
  assert_int_equal(pipe(ready), 0);
  pid = fork();
  if (!pid) hog(ready[1]);
  assert_int_equal(read(ready[0], &c, 1), 1);
  bo_create(fd, PAGE, DRM_NPU_BO_CARD, &bo);
  assert_true(flags_of(fd, bo.handle) & DRM_NPU_BO_EVICTED);
  for (int round = 0; round < 3; round++) {
    struct stream stream;
    struct job job;
    struct drm_npu_submit args = {
        .ctx_id = ctx, .jobs = (uintptr_t)&job.args, .job_count = 1, .job_stride = sizeof(job.args)};

    stream_create(fd, 1, &stream);
    job_init(&job);
    job_gdma(&job, &stream);
    stream_fill(&stream, (uint8_t)job_region(&job, &bo, RW), 0, PAGE, 1);
    job.stream.gdma_count = 1;
    alarm(FOREVER_MS / 1000); /* not raw_submit(), which would retry */
    assert_int_equal(ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &args), 0);
    alarm(0);
    wait_ok(fd, ctx, job.args.seqno);
    stream_destroy(fd, &stream);
    for (int tries = 0; !(flags_of(fd, bo.handle) & DRM_NPU_BO_EVICTED); tries++) {
      if (tries > FOREVER_MS / 10) fail_msg("the other one does not get its room back");
      usleep(10000);
    }
  }
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  for (int i = 0; i < 2; i++) close(ready[i]);
  bo_destroy(fd, &bo);
}

/* A foreign fence on an evicted buffer: the buffer returns after the fence, which is waited for. */
static void a_fence_from_outside_is_waited_for(void **state) {
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR};
  struct drm_syncobj_handle file = {.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1};
  struct dma_buf_import_sync_file import = {.flags = DMA_BUF_SYNC_RW};
  uint64_t total = card_total() / 4 * 3;
  uint32_t syncobj = syncobj_create(fd), patient = ctx_create_patient(fd, NULL);
  struct owner a, b;
  struct stream slow;
  struct drm_npu_wait wait;
  struct job job;
  uint64_t seqno;
  struct bo page;

  (void)state;
  owner_open(&a, 10, total, 3);
  owner_open(&b, 20, total, 3);
  assert_true(owner_check_job(&b, 0, 3, 0));
  assert_true(flags_of(a.fd, a.bo[0].handle) & DRM_NPU_BO_EVICTED);

  bo_create(fd, PAGE, DRM_NPU_BO_SYSTEM, &page);
  stream_create(fd, 1, &slow);
  stream_slow_copy(&slow, 0, 300);
  job_init(&job);
  job_region(&job, &page, RW);
  job_gdma(&job, &slow);
  job_out(&job, syncobj, 0);
  seqno = submit_held(fd, patient, &job);
  file.handle = syncobj;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &file), 0);
  out.handle = a.bo[0].handle;
  assert_int_equal(raw_ioctl(a.fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  import.fd = file.fd;
  assert_int_equal(raw_ioctl(out.fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import), 0);
  assert_int_equal(raw_wait(fd, patient, seqno, 0, &wait), -ETIME);

  held_go_on(); /* takes a while */
  assert_true(owner_check_job(&a, 0, 1, 0));
  assert_int_equal(raw_wait(fd, patient, seqno, 0, &wait), 0);
  assert_int_equal(wait.error, 0);
  close(out.fd);
  close(file.fd);
  syncobj_destroy(fd, syncobj);
  stream_destroy(fd, &slow);
  ctx_destroy(fd, patient);
  bo_destroy(fd, &page);
  owner_close(&a);
  owner_close(&b);
}

/* Fragments the card into single free pages: card and CPU must handle a buffer of such pages. */
static void a_buffer_in_single_pages_is_whole(void **state) {
  enum { PAGES = 2048 };
  static struct bo pages[PAGES];
  uint64_t free_before;
  struct drm_npu_memory_info info;
  struct owner o;
  struct bo rest = {0};

  (void)state;
  npu_memory_settled(fd, &info);
  free_before = info.card_free;
  for (int i = 0; i < PAGES; i++) bo_create(fd, PAGE, DRM_NPU_BO_CARD, &pages[i]);
  npu_memory(fd, &info);
  bo_create(fd, info.card_free / PAGE * PAGE, DRM_NPU_BO_CARD, &rest);
  for (int i = 0; i < PAGES; i += 2) bo_destroy(fd, &pages[i]);
  npu_memory_settled(fd, &info);
  assert_int_equal(info.card_free, (uint64_t)PAGES / 2 * PAGE);
  assert_int_equal(info.card_largest, PAGE);

  owner_open(&o, 5, (uint64_t)PAGES / 2 * PAGE, 1);
  assert_int_equal(evicted_of(&o), 0);
  assert_true(owner_check_maps(&o));
  for (uint64_t at = 0; at < o.bo[0].size; at += SPOT(1)) assert_true(owner_check_job(&o, 0, 1, at));
  owner_close(&o);
  for (int i = 1; i < PAGES; i += 2) bo_destroy(fd, &pages[i]);
  bo_destroy(fd, &rest);
  expect_card_free(fd, free_before);
}

/* Increments a counter in every page of a buffer, repeatedly. */
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
    owner_check_job(&a, 1, 2, 0); /* its input changes all the time */
  }
  c.stop = 1;
  pthread_join(c.thread, NULL);
  assert_true(c.rounds > 0);
  for (uint64_t at = 0; at < c.bo->size; at += PAGE) assert_int_equal(*(volatile uint64_t *)(c.bo->map + at), c.rounds);
  owner_close(&a);
  owner_close(&b);
}

/*
 * An eighth of the system memory for buffers is reserved for moves (kernel/qnpu_mem.c). Here all other system memory is
 * in use, and `large` has been evicted: it needs the entire card, and evicting all of `many` takes more than that
 * eighth.
 */
struct shortage {
  struct owner large, many;
  int filler;
};

/* Returns false on a board whose card is smaller than the reserve: there, evictions always find memory. */
static bool shortage_begin(struct shortage *s) {
  uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE / 4 * 3, total = card_total();
  struct bo bo;

  if (total <= limit / 8) {
    print_message("a card of %llu bytes always finds memory on this board\n", (unsigned long long)total);
    return false;
  }
  owner_open(&s->large, 10, total, 1);
  owner_open(&s->many, 20, total, 12);
  assert_true(owner_check_job(&s->many, 0, s->many.count, 0));
  assert_int_equal(evicted_of(&s->large), 1);
  s->filler = npu_open();
  while (!raw_bo_create(s->filler, MIB(16), DRM_NPU_BO_SYSTEM, &bo)) continue;
  return true;
}

/* Frees the system memory. All contents must be intact. */
static void shortage_end(struct shortage *s) {
  assert_int_equal(close(s->filler), 0);
  assert_true(owner_check_job(&s->large, 0, 1, 0));
  assert_true(owner_check_job(&s->many, 0, s->many.count, 0));
  owner_close(&s->many);
  owner_close(&s->large);
}

static void a_submission_without_memory_for_evictions_fails(void **state) {
  struct shortage s;
  struct job job;

  (void)state;
  if (!shortage_begin(&s)) return;
  owner_job(&s.large, 0, 1, 0, &job);
  assert_int_equal(raw_submit(s.large.fd, s.large.ctx, &job), -ENOMEM);
  assert_true(owner_check_job(&s.many, 0, s.many.count, 0));
  shortage_end(&s);
}

/* Submits a job again and again. */
struct repeater {
  struct owner *owner;
  uint32_t ctx;
  struct job job;
  pthread_t thread;
  atomic_int *stop;
  atomic_int *failures; /* submissions without memory */
};

static void *submit_again(void *arg) {
  struct repeater *r = arg;

  while (!*r->stop)
    if (raw_submit(r->owner->fd, r->ctx, &r->job) == -ENOMEM) ++*r->failures;
  return NULL;
}

/* Submissions that need the entire card find no memory for evictions. Another file's do not fail because of them. */
static void failed_evictions_do_not_fail_others(void **state) {
  atomic_int stop = 0, failures = 0;
  struct shortage s;
  struct repeater r[4];
  int rest, refused = 0;
  struct job job;

  (void)state;
  if (!shortage_begin(&s)) return;
  for (int i = 0; i < 4; i++) {
    r[i] = (struct repeater){.owner = &s.large, .ctx = ctx_create(s.large.fd), .stop = &stop, .failures = &failures};
    owner_job(&s.large, 0, 1, 0, &r[i].job);
    assert_int_equal(pthread_create(&r[i].thread, NULL, submit_again, &r[i]), 0);
  }
  for (rest = 0; failures < 4 && !refused; rest++) {
    owner_job(&s.many, 0, s.many.count, 0, &job);
    refused = raw_submit(s.many.fd, s.many.ctx, &job);
  }
  stop = 1;
  for (int i = 0; i < 4; i++) pthread_join(r[i].thread, NULL);
  print_message("%d submissions beside %d without memory\n", rest, failures);
  assert_int_equal(refused, 0);
  shortage_end(&s);
}

/* Status 0: no error. */
static int want_two_thirds(uint32_t seed, int ready, int go) {
  unsigned random = seed;
  struct owner o;
  char c = 1;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  owner_open(&o, seed, card_total() / 3 * 2, 20);
  if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 1) return 1;
  for (int i = 0; i < rounds; i++) {
    /* All at once, which leaves a third of the card to others, then one by one in any order. */
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

/* Number of jobs of the driver's own context, which has no id. */
static int own_jobs(const char *text) {
  int count = 0;

  for (const char *line = text; (line = trace_find(line, "qnpu_job_submit:", "ctx=0 ", NULL)); count++)
    line = strchr(line, '\n');
  return count;
}

/*
 * While endless jobs occupy all cores the card moves no memory. A submission that evicts many buffers must not wait for
 * a core with each of them, since all other submissions wait, too: it waits once.
 */
static void busy_cores_do_not_hold_up_moves(void **state) {
  enum { SMALL = 64 };
  static const char *const events[] = {"qnpu/qnpu_job_submit"};
  static struct bo small[SMALL];
  struct drm_npu_bo_wait idle = {.timeout_ns = INT64_MAX};
  uint64_t total = card_total(), seqnos[NPU_MAX_CORES];
  uint32_t contexts[NPU_MAX_CORES], new_ctx;
  int crowd = npu_open(), cores = npu_open(), new = npu_open();
  struct drm_npu_memory_info before, after;
  struct drm_npu_dev_info info;
  struct stream stand, stream;
  struct bo filler, large;
  struct drm_npu_wait wait;
  struct job job;
  char *text;

  (void)state;
  npu_info(fd, &info);
  for (int i = 0; i < SMALL; i++) bo_create(crowd, KIB(64), DRM_NPU_BO_CARD, &small[i]);
  bo_create(crowd, total - SMALL * KIB(64) - MIB(2), DRM_NPU_BO_CARD, &filler);
  idle.handle = filler.handle; /* the card has zeroed it */
  assert_int_equal(raw_ioctl(crowd, DRM_IOCTL_NPU_BO_WAIT, &idle), 0);
  new_ctx = ctx_create(new);
  stream_create(new, 1, &stream);
  stream_nop(&stream, 0);
  bo_create(new, total - MIB(1), DRM_NPU_BO_CARD, &large);
  assert_true(flags_of(new, large.handle) & DRM_NPU_BO_EVICTED);

  stream_create(cores, 1, &stand);
  stream_nop(&stand, 0);
  job_init(&job);
  job_gdma(&job, &stand);
  for (uint32_t i = 0; i < info.cores; i++) {
    contexts[i] = ctx_create_patient(cores, NULL);
    seqnos[i] = submit_held(cores, contexts[i], &job);
  }
  npu_memory(fd, &before);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &large, DRM_NPU_REGION_READ);
  trace_begin(events, 1);
  submit(new, new_ctx, &job);
  text = trace_end();
  npu_memory(fd, &after);
  assert_in_range(after.evictions - before.evictions, SMALL, UINT64_MAX);
  for (uint32_t i = 0; i < info.cores; i++) assert_int_equal(raw_wait(cores, contexts[i], seqnos[i], 0, &wait), -ETIME);
  assert_in_range(own_jobs(text), 1, SMALL / 4);
  free(text);

  held_go_on();
  for (uint32_t i = 0; i < info.cores; i++) wait_ok(cores, contexts[i], seqnos[i]);
  wait_ok(new, new_ctx, job.args.seqno);
  bo_unmap(&stand.bo);
  close(cores);
  bo_unmap(&stream.bo);
  close(new);
  close(crowd);
  nothing_is_evicted();
}

/* The buffers of the previous test are released. */
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
      cmocka_unit_test_setup(queued_jobs_do_not_keep_others_out, the_card_is_empty),
      cmocka_unit_test_setup(a_fence_from_outside_is_waited_for, the_card_is_empty),
      cmocka_unit_test_setup(a_buffer_in_single_pages_is_whole, the_card_is_empty),
      cmocka_unit_test_setup(busy_cores_do_not_hold_up_moves, the_card_is_empty),
      cmocka_unit_test_setup(no_write_is_lost_in_a_move, the_card_is_empty),
      cmocka_unit_test_setup(a_submission_without_memory_for_evictions_fails, the_card_is_empty),
      cmocka_unit_test_setup(failed_evictions_do_not_fail_others, the_card_is_empty),
      cmocka_unit_test_setup(three_processes_share_twice_the_card, the_card_is_empty),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  if (argc > 2) stride = strtoull(argv[2], NULL, 10) * PAGE;
  return cmocka_run_group_tests_name("eviction", tests, set_up, tear_down);
}
