/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/kernel/worker.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/kernel/random.h"
#include "tests/fuzz/kernel/ring.h"
#include "tests/guest/driver/npu_raw.h"

/* Jobs of a submission, and commands of its streams. */
#define JOBS 4
#define COMMANDS 16

/* Submissions through io_uring that may be on their way at once; their memory is used again all the same. */
#define REQUESTS 8

struct submission {
  struct drm_npu_submit args;
  struct drm_npu_job jobs[JOBS];
  struct drm_npu_region regions[JOBS][8];
  struct drm_npu_stream streams[JOBS][2];
  struct drm_npu_sync in[JOBS][4];
  struct drm_npu_sync out[JOBS][4];
};

struct thread {
  struct worker *w;
  struct ring ring;
  struct submission requests[REQUESTS];
  unsigned next_request;
  struct random r;
  int file;     /* of the present step */
  int fail_nth; /* /proc/thread-self/fail-nth, or -1 */
  uint64_t calls;
};

/* A bad pointer is a result, not the end. */
static __thread sigjmp_buf fault;
static __thread volatile int expects_fault;

static void on_fault(int number) {
  if (expects_fault) siglongjmp(fault, 1);
  signal(number, SIG_DFL);
  raise(number);
}

static int slot(struct thread *t) { return (int)below(&t->r, SLOTS); }

/* Allocations of one call in a while fail, where the kernel can do that. */
static void maybe_fail(struct thread *t) {
  char text[16];
  int n;

  if (t->fail_nth < 0 || !one_in(&t->r, 40)) return;
  n = snprintf(text, sizeof(text), "%d", (int)(1 + below(&t->r, 24)));
  if (pwrite(t->fail_nth, text, (size_t)n, 0) != n) return;
}

static void fail_no_more(struct thread *t) {
  if (t->fail_nth < 0) return;
  while (pwrite(t->fail_nth, "0", 1, 0) != 1 && errno == ENOMEM) continue;
}

/*
 * DRM's own syncobj calls allocate as much as count_handles says, and an absurd number is a warning in the kernel's
 * log. That is the kernel's, and known, so counts are not spoiled.
 */
static int is_syncobj_call(unsigned long request) { return _IOC_NR(request) >= 0xbf && _IOC_NR(request) <= 0xcf; }

static int call(struct thread *t, unsigned long request, void *args, size_t size) {
  int ret;

  if (one_in(&t->r, 12) && !is_syncobj_call(request)) spoil(&t->r, args, size);
  if (one_in(&t->r, 200)) args = (void *)(uintptr_t)odd_number(&t->r);
  maybe_fail(t);
  ret = ioctl(t->w->fds[t->file], request, args);
  fail_no_more(t);
  t->calls++;
  return ret;
}

#define CALL(t, request, args) call(t, request, &(args), sizeof(args))

static int64_t soon_ns(struct thread *t) {
  if (one_in(&t->r, 50)) return (int64_t)odd_number(&t->r) % 1000000000;
  return deadline_ns((int64_t)below(&t->r, 30));
}

/* Files */

/* While files of a card that was unbound are open, the next one has another number. */
static int open_card(void) {
  char path[32];
  int fd = -1;

  for (int i = 0; i < 16 && fd < 0; i++) {
    snprintf(path, sizeof(path), "/dev/accel/accel%d", i);
    fd = open(path, O_RDWR | O_CLOEXEC);
  }
  return fd;
}

static void open_file(struct thread *t) {
  int fd;

  maybe_fail(t);
  fd = open_card();
  fail_no_more(t);
  if (fd < 0) return;
  fd = __atomic_exchange_n(&t->w->fds[t->file], fd, __ATOMIC_RELAXED);
  if (fd >= 0) close(fd);
}

/* Others may be inside of a call with it: that is the point. */
static void close_file(struct thread *t) {
  if (!one_in(&t->r, 8)) return;
  close(__atomic_exchange_n(&t->w->fds[t->file], -1, __ATOMIC_RELAXED));
  open_file(t);
}

static void read_all(const char *path) {
  char text[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC);

  if (fd < 0) return;
  while (read(fd, text, sizeof(text)) > 0) continue;
  close(fd);
}

static void look(struct thread *t) {
  static const char *const files[] = {"buffers", "page_tables", "contexts", "card", "memory", "clients", "cache_watch"};
  char path[PATH_MAX + 32];

  snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", t->w->fds[t->file]);
  read_all(path);
  snprintf(path, sizeof(path), "/sys/kernel/debug/accel%s/%s", strrchr(t->w->device, '/'), files[below(&t->r, 8)]);
  read_all(path);
  snprintf(path, sizeof(path), "%s/qnpu/core0_utilization", t->w->device);
  read_all(path);
}

/* A child with all the files and mappings, that dies at once or after a while, by itself or not. */
static void fork_child(struct thread *t) {
  pid_t pid;

  if (!one_in(&t->r, 10)) return;
  pid = fork();
  if (pid == 0) {
    if (one_in(&t->r, 2)) usleep((unsigned)below(&t->r, 20000));
    _exit(0);
  }
  if (pid < 0) return;
  if (one_in(&t->r, 2)) kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void query(struct thread *t) {
  uint8_t answer[512];
  struct drm_npu_dev_query args = {
      .type = (uint32_t)below(&t->r, 5), .size = (uint32_t)below(&t->r, sizeof(answer)), .pointer = (uintptr_t)answer};

  /* A spoiled size may be larger than the answer's room, so the pointer is to something that can take it. */
  if (one_in(&t->r, 10)) args.pointer = odd_number(&t->r);
  maybe_fail(t);
  ioctl(t->w->fds[t->file], DRM_IOCTL_NPU_DEV_QUERY, &args);
  fail_no_more(t);
  t->calls++;
}

/* Buffers */

static uint64_t some_size(struct thread *t) {
  if (one_in(&t->r, 30)) return odd_number(&t->r);
  if (one_in(&t->r, 20)) return MIB(1 + below(&t->r, 5));
  return 1 + below(&t->r, KIB(256));
}

static void close_buffer(struct thread *t) {
  int i = slot(t);
  struct drm_gem_close args = {.handle = t->w->bos[t->file][i].handle};

  CALL(t, DRM_IOCTL_GEM_CLOSE, args);
  t->w->bos[t->file][i].handle = 0;
}

static void create_buffer(struct thread *t) {
  struct drm_npu_bo_create args = {.size = some_size(t), .flags = one_in(&t->r, 2) ? t->w->memory : DRM_NPU_BO_SYSTEM};
  int i = slot(t);

  if (t->w->bos[t->file][i].handle) close_buffer(t);
  if (CALL(t, DRM_IOCTL_NPU_BO_CREATE, args)) return;
  t->w->bos[t->file][i].size = args.size;
  t->w->bos[t->file][i].offset = args.mmap_offset;
  t->w->bos[t->file][i].va = args.va;
  t->w->bos[t->file][i].handle = args.handle;
}

/* Of the worker's mappings, whatever they are, of new memory, or of nothing. */
static void create_userptr(struct thread *t) {
  struct drm_npu_bo_userptr args = {.flags = (uint32_t)below(&t->r, 4)};
  int i = slot(t), k = slot(t);
  uint64_t size = t->w->maps[k].size & ~4095ull, pages = size / 4096, first = below(&t->r, pages);

  if (t->w->bos[t->file][i].handle) close_buffer(t);
  if (!size || one_in(&t->r, 3)) {
    size = 4096 * (1 + below(&t->r, 64));
    t->w->maps[k].at = mmap(NULL, size, PROT_READ | (one_in(&t->r, 5) ? 0 : PROT_WRITE),
                            MAP_ANONYMOUS | (one_in(&t->r, 2) ? MAP_SHARED : MAP_PRIVATE), -1, 0);
    if (t->w->maps[k].at == MAP_FAILED) t->w->maps[k].at = NULL;
    t->w->maps[k].size = size;
    first = 0, pages = size / 4096;
  }
  args.addr = (uintptr_t)t->w->maps[k].at + 4096 * first;
  args.size = 4096 * (1 + below(&t->r, pages - first));
  if (one_in(&t->r, 20)) args.addr = odd_number(&t->r) & ~4095ull;
  if (CALL(t, DRM_IOCTL_NPU_BO_USERPTR, args)) return;
  t->w->bos[t->file][i].size = args.size;
  t->w->bos[t->file][i].offset = 0;
  t->w->bos[t->file][i].va = args.va;
  t->w->bos[t->file][i].handle = args.handle;
}

static void buffer_info(struct thread *t) {
  struct drm_npu_bo_info args = {.handle = t->w->bos[t->file][slot(t)].handle};

  CALL(t, DRM_IOCTL_NPU_BO_INFO, args);
}

static void sync_buffer(struct thread *t) {
  int i = slot(t);
  struct drm_npu_bo_sync args = {.handle = t->w->bos[t->file][i].handle,
                                 .direction = (uint32_t)below(&t->r, 4),
                                 .offset = below(&t->r, t->w->bos[t->file][i].size + 1),
                                 .size = below(&t->r, t->w->bos[t->file][i].size + 1)};

  CALL(t, DRM_IOCTL_NPU_BO_SYNC, args);
}

static void seal_buffer(struct thread *t) {
  struct drm_npu_bo_seal args = {.handle = t->w->bos[t->file][slot(t)].handle};

  if (one_in(&t->r, 8)) CALL(t, DRM_IOCTL_NPU_BO_SEAL, args);
}

static void wait_buffer(struct thread *t) {
  struct drm_npu_bo_wait args = {.handle = t->w->bos[t->file][slot(t)].handle, .timeout_ns = soon_ns(t)};

  CALL(t, DRM_IOCTL_NPU_BO_WAIT, args);
}

/* To a dma-buf and back, perhaps into another file. */
static void share_buffer(struct thread *t) {
  struct drm_prime_handle args = {
      .handle = t->w->bos[t->file][slot(t)].handle, .flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1};
  int i = slot(t);

  if (one_in(&t->r, 2)) {
    if (!CALL(t, DRM_IOCTL_PRIME_HANDLE_TO_FD, args)) {
      int fd = __atomic_exchange_n(&t->w->shared, args.fd, __ATOMIC_RELAXED);

      if (fd >= 0) close(fd);
    }
    return;
  }
  args.fd = t->w->shared;
  if (CALL(t, DRM_IOCTL_PRIME_FD_TO_HANDLE, args)) return;
  t->w->bos[t->file][i].handle = args.handle;
  t->w->bos[t->file][i].size = KIB(4);
}

/* Mappings */

static void map_something(struct thread *t) {
  int i = slot(t), k = slot(t);
  uint64_t size = t->w->bos[t->file][i].size, offset = t->w->bos[t->file][i].offset;
  int prot = one_in(&t->r, 4) ? PROT_READ : PROT_READ | PROT_WRITE;
  void *at;

  if (one_in(&t->r, 6)) { /* a fence page */
    offset = (uint64_t)t->w->ctxs[t->file][i] << 12;
    size = 4096;
    prot = PROT_READ;
  }
  if (one_in(&t->r, 3)) offset |= DRM_NPU_MMAP_WC;
  if (one_in(&t->r, 20)) offset = odd_number(&t->r) & ~4095ull;
  if (one_in(&t->r, 10)) size = below(&t->r, MIB(1));
  if (!size || size > MIB(16)) return;
  maybe_fail(t);
  at = mmap(NULL, size, prot, one_in(&t->r, 20) ? MAP_PRIVATE : MAP_SHARED, t->w->fds[t->file], (off_t)offset);
  fail_no_more(t);
  t->calls++;
  if (at == MAP_FAILED) return;
  t->w->maps[k].at = at; /* what was there stays mapped until the process ends, or somebody unmaps it by chance */
  t->w->maps[k].size = size;
}

static void touch(struct thread *t) {
  int i = slot(t);
  volatile uint8_t *at = t->w->maps[i].at;
  uint64_t size = t->w->maps[i].size;

  if (!at || !size) return;
  expects_fault = 1;
  if (!sigsetjmp(fault, 1)) {
    for (int n = 0; n < 4; n++) {
      uint64_t offset = below(&t->r, size);

      if (one_in(&t->r, 2))
        at[offset] = (uint8_t)offset;
      else
        (void)at[offset];
    }
  }
  expects_fault = 0;
}

static void change_mapping(struct thread *t) {
  int i = slot(t);
  uint8_t *at = t->w->maps[i].at;
  uint64_t pages = (t->w->maps[i].size + 4095) / 4096, first = below(&t->r, pages ? pages : 1);
  uint64_t bytes = (1 + below(&t->r, pages - first ? pages - first : 1)) * 4096;
  static const int advices[] = {MADV_DONTNEED, MADV_WILLNEED, MADV_DONTFORK, MADV_DOFORK,
                                MADV_HUGEPAGE, MADV_REMOVE,   MADV_COLD};

  if (!at || !pages) return;
  t->calls++;
  maybe_fail(t);
  switch (below(&t->r, 4)) {
    case 0:
      munmap(at + first * 4096, bytes);
      break;
    case 1:
      madvise(at + first * 4096, bytes, advices[below(&t->r, sizeof(advices) / sizeof(advices[0]))]);
      break;
    case 2:
      mprotect(at + first * 4096, bytes, one_in(&t->r, 2) ? PROT_READ : PROT_READ | PROT_WRITE);
      break;
    default: {
      void *to = mremap(at, pages * 4096, (1 + below(&t->r, 2 * pages)) * 4096, MREMAP_MAYMOVE);

      if (to != MAP_FAILED) t->w->maps[i].at = to;
    }
  }
  fail_no_more(t);
}

/* Contexts */

static void destroy_ctx(struct thread *t) {
  int i = slot(t);
  struct drm_npu_ctx_destroy args = {.ctx_id = t->w->ctxs[t->file][i]};

  if (!one_in(&t->r, 3)) return;
  CALL(t, DRM_IOCTL_NPU_CTX_DESTROY, args);
  t->w->ctxs[t->file][i] = 0;
}

static void create_ctx(struct thread *t) {
  struct drm_npu_ctx_create args = {.priority = (uint32_t)below(&t->r, 4), .core_mask = (uint32_t)below(&t->r, 4)};
  int i = slot(t) % 6;

  if (t->w->ctxs[t->file][i]) return;
  if (CALL(t, DRM_IOCTL_NPU_CTX_CREATE, args)) return;
  t->w->ctxs[t->file][i] = args.ctx_id;
  t->w->seqnos[t->file][i] = 0;
}

static void query_ctx(struct thread *t) {
  struct drm_npu_ctx_query args = {.ctx_id = t->w->ctxs[t->file][slot(t) % 6]};

  CALL(t, DRM_IOCTL_NPU_CTX_QUERY, args);
}

static void wait_job(struct thread *t) {
  int i = slot(t) % 6;
  struct drm_npu_wait args = {
      .ctx_id = t->w->ctxs[t->file][i], .seqno = t->w->seqnos[t->file][i], .timeout_ns = soon_ns(t)};

  if (one_in(&t->r, 5)) args.seqno -= below(&t->r, 300);
  CALL(t, DRM_IOCTL_NPU_WAIT, args);
}

/* Jobs */

/* For jobs of two cores; mostly such that somebody gives what is waited for. */
static void write_semaphore(struct thread *t, uint8_t *at) {
  struct npu_cmd_sem_wait *cmd = (void *)at;

  cmd->opcode = one_in(&t->r, 4) ? NPU_OP_SEM_WAIT : NPU_OP_SEM_SIGNAL;
  cmd->sem = (uint32_t)below(&t->r, 3);
  cmd->value = 1;
}

/* Commands, written where the first mapping of a large enough buffer is; that may be gone, or be something else. */
static void write_commands(struct thread *t, uint8_t *at) {
  for (int i = 0; i < COMMANDS; i++, at += NPU_CMD_BYTES) {
    struct npu_cmd_copy *cmd = (void *)at;

    memset(at, 0, NPU_CMD_BYTES);
    if (one_in(&t->r, 4)) {
      write_semaphore(t, at);
      continue;
    }
    cmd->opcode = one_in(&t->r, 4) ? NPU_OP_NOP : one_in(&t->r, 2) ? NPU_OP_COPY : NPU_OP_FILL;
    if (cmd->opcode == NPU_OP_NOP) continue;
    cmd->src_region = (uint8_t)below(&t->r, 8);
    cmd->dst_region = (uint8_t)below(&t->r, 8);
    if (cmd->opcode == NPU_OP_FILL) cmd->src_region = 0;
    cmd->src_dtype = cmd->opcode == NPU_OP_COPY ? NPU_DTYPE_U8 : 0;
    cmd->dst_dtype = NPU_DTYPE_U8;
    for (int d = 0; d < 5; d++) cmd->dims[d] = 1;
    cmd->dims[5] = (uint32_t)(1 + below(&t->r, KIB(64)));
    cmd->dst_stride[5] = 1;
    cmd->src_stride[5] = cmd->opcode == NPU_OP_COPY;
    if (one_in(&t->r, 8)) spoil(&t->r, at, NPU_CMD_BYTES);
  }
}

static void prepare_commands(struct thread *t) {
  int i = slot(t);

  if (!t->w->maps[i].at || t->w->maps[i].size < COMMANDS * NPU_CMD_BYTES) return;
  expects_fault = 1;
  if (!sigsetjmp(fault, 1)) write_commands(t, t->w->maps[i].at);
  expects_fault = 0;
}

static void make_syncs(struct thread *t, struct drm_npu_sync *syncs, uint32_t *count) {
  *count = one_in(&t->r, 3) ? (uint32_t)below(&t->r, 4) : 0;
  for (uint32_t i = 0; i < *count; i++) {
    syncs[i].handle = t->w->syncobjs[t->file][slot(t)];
    syncs[i].flags = 0;
    syncs[i].point = one_in(&t->r, 2) ? 0 : 1 + below(&t->r, 100);
  }
}

static void make_job(struct thread *t, struct submission *s, int n) {
  struct drm_npu_job *job = &s->jobs[n];

  memset(job, 0, sizeof(*job));
  job->regions = (uintptr_t)s->regions[n];
  job->streams = (uintptr_t)s->streams[n];
  job->in_syncs = (uintptr_t)s->in[n];
  job->out_syncs = (uintptr_t)s->out[n];
  job->region_count = (uint32_t)(1 + below(&t->r, 8));
  job->region_stride = sizeof(s->regions[n][0]);
  job->stream_count = one_in(&t->r, 3) ? 2 : 1;
  job->stream_stride = sizeof(s->streams[n][0]);
  job->sync_stride = sizeof(s->in[n][0]);
  job->flags = one_in(&t->r, 4) ? DRM_NPU_JOB_EXPLICIT : 0;
  job->budget = 1 + below(&t->r, 1000000);
  for (uint32_t i = 0; i < job->region_count; i++) {
    int k = slot(t);

    s->regions[n][i] = (struct drm_npu_region){.handle = t->w->bos[t->file][k].handle,
                                               .access = (uint32_t)(1 + below(&t->r, 3)),
                                               .size = t->w->bos[t->file][k].size};
  }
  s->regions[n][0].access |= DRM_NPU_REGION_READ;
  for (uint32_t i = 0; i < job->stream_count; i++)
    s->streams[n][i] = (struct drm_npu_stream){.gdma_count = (uint32_t)(1 + below(&t->r, COMMANDS))};
  make_syncs(t, s->in[n], &job->in_sync_count);
  make_syncs(t, s->out[n], &job->out_sync_count);
  if (one_in(&t->r, 12)) spoil(&t->r, job, sizeof(*job));
  if (one_in(&t->r, 12)) spoil(&t->r, s->regions[n], sizeof(s->regions[n]));
  if (one_in(&t->r, 12)) spoil(&t->r, s->streams[n], sizeof(s->streams[n]));
}

static void make_submission(struct thread *t, struct submission *s, int ctx) {
  int count = (int)(1 + below(&t->r, JOBS));

  s->args = (struct drm_npu_submit){.ctx_id = t->w->ctxs[t->file][ctx],
                                    .jobs = (uintptr_t)s->jobs,
                                    .job_count = (uint32_t)count,
                                    .job_stride = sizeof(s->jobs[0])};
  prepare_commands(t);
  for (int n = 0; n < count; n++) make_job(t, s, n);
}

static void submit_jobs(struct thread *t) {
  int i = slot(t) % 6;
  struct submission s = {0};
  uint32_t last;

  make_submission(t, &s, i);
  last = s.args.job_count - 1;
  if (!CALL(t, DRM_IOCTL_NPU_SUBMIT, s.args)) t->w->seqnos[t->file][i] = s.jobs[last].seqno;
}

static void submit_through_ring(struct thread *t) {
  struct submission *s = &t->requests[t->next_request++ % REQUESTS];

  make_submission(t, s, slot(t) % 6);
  maybe_fail(t);
  /* What one of the threads unmaps by an old address may be the memory of a ring. */
  expects_fault = 1;
  if (!sigsetjmp(fault, 1))
    ring_submit(&t->ring, &t->r, t->w->fds[t->file], &s->args);
  else
    t->ring.there = false;
  expects_fault = 0;
  fail_no_more(t);
  t->calls++;
}

static void tend_ring(struct thread *t) {
  bool cancel = one_in(&t->r, 3), end = one_in(&t->r, 40);

  expects_fault = 1;
  if (!sigsetjmp(fault, 1)) {
    if (cancel) ring_cancel(&t->ring, &t->r, t->w->fds[t->file]);
    ring_reap(&t->ring);
    if (end) ring_end(&t->ring);
  } else {
    t->ring.there = false;
  }
  expects_fault = 0;
}

/* Syncobjs */

static void create_syncobj(struct thread *t) {
  struct drm_syncobj_create args = {.flags = one_in(&t->r, 2) ? DRM_SYNCOBJ_CREATE_SIGNALED : 0};

  if (!CALL(t, DRM_IOCTL_SYNCOBJ_CREATE, args)) t->w->syncobjs[t->file][slot(t)] = args.handle;
}

static void destroy_syncobj(struct thread *t) {
  int i = slot(t);
  struct drm_syncobj_destroy args = {.handle = t->w->syncobjs[t->file][i]};

  CALL(t, DRM_IOCTL_SYNCOBJ_DESTROY, args);
  t->w->syncobjs[t->file][i] = 0;
}

static void use_syncobj(struct thread *t) {
  uint32_t handle = t->w->syncobjs[t->file][slot(t)];
  uint64_t point = 1 + below(&t->r, 100);
  struct drm_syncobj_timeline_wait wait = {.handles = (uintptr_t)&handle,
                                           .points = (uintptr_t)&point,
                                           .timeout_nsec = soon_ns(t),
                                           .count_handles = 1,
                                           .flags = (uint32_t)below(&t->r, 8)};
  struct drm_syncobj_timeline_array signal = {
      .handles = (uintptr_t)&handle, .points = (uintptr_t)&point, .count_handles = 1};

  if (one_in(&t->r, 2))
    CALL(t, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, wait);
  else
    CALL(t, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, signal);
}

/* Any call of the driver, with anything. */
static void anything(struct thread *t) {
  uint64_t words[40];
  unsigned long request =
      _IOC(below(&t->r, 4), DRM_IOCTL_BASE, below(&t->r, 2) ? DRM_COMMAND_BASE + below(&t->r, 24) : below(&t->r, 256),
           8 * below(&t->r, 40));

  if (is_syncobj_call(request)) return;
  for (size_t i = 0; i < 40; i++) words[i] = one_in(&t->r, 2) ? 0 : odd_number(&t->r);
  CALL(t, request, words);
}

static const struct {
  unsigned weight;
  void (*run)(struct thread *);
} steps[] = {
    {2, close_file},           {2, look},         {1, fork_child},     {2, query},
    {14, create_buffer},       {5, close_buffer}, {6, create_userptr}, {3, buffer_info},
    {5, sync_buffer},          {3, seal_buffer},  {4, wait_buffer},    {3, share_buffer},
    {8, map_something},        {8, touch},        {4, change_mapping}, {6, create_ctx},
    {3, destroy_ctx},          {2, query_ctx},    {8, wait_job},       {24, submit_jobs},
    {12, submit_through_ring}, {6, tend_ring},    {3, create_syncobj}, {2, destroy_syncobj},
    {4, use_syncobj},          {4, anything},
};

static void step(struct thread *t) {
  static unsigned all;
  unsigned pick;

  if (!all) {
    unsigned sum = 0;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) sum += steps[i].weight;
    all = sum;
  }
  pick = (unsigned)below(&t->r, all);
  t->file = (int)below(&t->r, FILES);
  for (size_t i = 0;; i++) {
    if (pick < steps[i].weight) {
      steps[i].run(t);
      return;
    }
    pick -= steps[i].weight;
  }
}

static void *thread_run(void *arg) {
  struct thread *t = arg;

  t->fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
  while (now_ms() < t->w->end_ms) step(t);
  return NULL;
}

static void on_interrupt(int number) { (void)number; }

/* A call may wait for something that never comes: after the end it is interrupted, again and again. */
static void end_thread(pthread_t id, int64_t end_ms) {
  struct timespec at;

  for (;;) {
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec++;
    if (!pthread_timedjoin_np(id, NULL, &at)) return;
    if (now_ms() > end_ms) pthread_kill(id, SIGUSR1);
  }
}

uint64_t worker_run(struct worker *w) {
  const struct sigaction interrupt = {.sa_handler = on_interrupt}; /* no SA_RESTART */

  static struct thread threads[THREADS];
  pthread_t ids[THREADS];
  uint64_t calls = 0;

  signal(SIGSEGV, on_fault);
  signal(SIGBUS, on_fault);
  sigaction(SIGUSR1, &interrupt, NULL);
  w->shared = -1;
  for (int i = 0; i < FILES; i++) w->fds[i] = open_card();
  for (int i = 0; i < THREADS; i++) {
    threads[i].w = w;
    random_seed(&threads[i].r, w->seed * THREADS + (uint64_t)i);
    if (pthread_create(&ids[i], NULL, thread_run, &threads[i])) abort();
  }
  for (int i = 0; i < THREADS; i++) {
    end_thread(ids[i], w->end_ms);
    calls += threads[i].calls;
  }
  return calls;
}
