/* SPDX-License-Identifier: MIT */
/*
 * What a job costs, on this board, beside what else this board can do: the interrupt-test register, memfds, and
 * NVMe passthrough through io_uring. Prints one line for each figure: NAME VALUE UNIT. Ratios are for the caller.
 *
 *   bench_driver irq | latency | rate | buffers | nvme | insmod FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/bench/guest/bench.h"
#include "tests/guest/driver/npu_raw.h"

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#define RING_FLAGS (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)
#define ROUNDS 2000
#define RATE_MS 400
#define MAX_DEPTH 64
#define MAX_PROCESSES 16

static void die(const char *what) {
  fprintf(stderr, "bench_driver: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* ---- the interrupt-test register ---- */

static void bench_irq(void) {
  static double samples[ROUNDS], inside[ROUNDS];
  glob_t found;
  char text[32];
  int fd;

  if (glob("/sys/kernel/debug/accel/*/irq_test", 0, NULL, &found)) die("no irq_test in debugfs");
  fd = open(found.gl_pathv[0], O_RDONLY);
  if (fd < 0) die(found.gl_pathv[0]);
  for (int i = 0; i < ROUNDS; i++) {
    const double start = now_us();
    const ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

    samples[i] = now_us() - start;
    if (got <= 0) die("irq_test");
    text[got] = 0;
    inside[i] = strtod(text, NULL) / 1e3;
  }
  report("irq_test_call", median(samples, ROUNDS), "us");
  report("irq_test", median(inside, ROUNDS), "us");
  close(fd);
  globfree(&found);
}

/* ---- jobs ---- */

struct worker {
  int fd;
  uint32_t ctx;
  struct stream stream;
  struct job jobs[MAX_DEPTH];
  struct drm_npu_job array[MAX_DEPTH];
  struct drm_npu_submit submits[MAX_DEPTH];
  struct io_uring ring;
};

static void worker_open(struct worker *w) {
  w->fd = npu_open();
  w->ctx = ctx_create(w->fd);
  stream_create(w->fd, 1, &w->stream);
  stream_nop(&w->stream, 0);
  for (int i = 0; i < MAX_DEPTH; i++) {
    job_init(&w->jobs[i]);
    job_gdma(&w->jobs[i], &w->stream);
    w->array[i] = w->jobs[i].args;
    w->submits[i] = (struct drm_npu_submit){
        .ctx_id = w->ctx, .jobs = (uintptr_t)&w->jobs[i].args, .job_count = 1, .job_stride = sizeof(w->jobs[i].args)};
  }
}

static void worker_close(struct worker *w) {
  stream_destroy(w->fd, &w->stream);
  ctx_destroy(w->fd, w->ctx);
  close(w->fd);
}

static void check(int ret, const char *what) {
  if (!ret) return;
  errno = -ret;
  die(what);
}

static void wait_for(struct worker *w, uint64_t seqno) {
  struct drm_npu_wait wait;

  check(raw_wait(w->fd, w->ctx, seqno, FOREVER_MS, &wait), "wait");
  if (wait.error) check(wait.error, "job");
}

static void bench_latency(void) {
  static struct worker w;
  static double samples[ROUNDS];
  const struct npu_fence *fence;
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};

  worker_open(&w);
  for (int i = 0; i < ROUNDS; i++) {
    const double start = now_us();

    check(raw_submit(w.fd, w.ctx, &w.jobs[0]), "submit");
    wait_for(&w, w.jobs[0].args.seqno);
    samples[i] = now_us() - start;
  }
  report("latency_wait", median(samples, ROUNDS), "us");
  for (int i = 0; i < ROUNDS; i++) {
    const double start = now_us();

    check(raw_submit(w.fd, w.ctx, &w.jobs[0]), "submit");
    samples[i] = now_us() - start;
    wait_for(&w, w.jobs[0].args.seqno);
  }
  report("submit_call", median(samples, ROUNDS), "us");
  check(raw_ctx_create(w.fd, &args), "context");
  fence = mmap(NULL, 4096, PROT_READ, MAP_SHARED, w.fd, (off_t)args.fence_offset);
  if (fence == MAP_FAILED) die("fence page");
  for (int i = 0; i < ROUNDS; i++) {
    const double start = now_us();

    check(raw_submit(w.fd, args.ctx_id, &w.jobs[0]), "submit");
    while (__atomic_load_n(&fence->seqno, __ATOMIC_ACQUIRE) < w.jobs[0].args.seqno)
      ;
    samples[i] = now_us() - start;
  }
  report("latency_fence_page", median(samples, ROUNDS), "us");
  ctx_destroy(w.fd, args.ctx_id);
  worker_close(&w);
}

/* Each way to submit: keeps `depth` jobs in flight until the time is over, and returns how many have finished. */

static uint64_t rate_ioctl(struct worker *w, int depth, double end) {
  uint64_t seqno = 0, done = 0;

  while (now_us() < end) {
    check(raw_submit(w->fd, w->ctx, &w->jobs[0]), "submit");
    seqno = w->jobs[0].args.seqno;
    if (seqno >= (uint64_t)depth) {
      wait_for(w, seqno - (uint64_t)depth + 1);
      done++;
    }
  }
  wait_for(w, seqno);
  return done;
}

static uint64_t rate_batch(struct worker *w, int depth, double end) {
  struct drm_npu_submit args = {
      .ctx_id = w->ctx, .jobs = (uintptr_t)w->array, .job_count = (uint32_t)depth, .job_stride = sizeof(w->array[0])};
  uint64_t done = 0;

  while (now_us() < end) {
    check(raw_ioctl(w->fd, DRM_IOCTL_NPU_SUBMIT, &args), "submit");
    wait_for(w, w->array[depth - 1].seqno);
    done += (uint64_t)depth;
  }
  return done;
}

static struct io_uring_sqe *next_sqe(struct io_uring *ring) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

  if (!sqe) die("the ring has no free entry");
  return sqe;
}

static void uring_push(struct worker *w, uint64_t slot) {
  struct io_uring_sqe *sqe = next_sqe(&w->ring);
  const struct drm_npu_uring_submit entry = {.submit = (uintptr_t)&w->submits[slot]};

  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, w->fd, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  sqe->user_data = slot;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
}

/* Waits for one completion, or (lazy: fewer, larger turns) until half of them are there; then takes all that are there.
 */
static uint64_t uring_turns(struct worker *w, int depth, double end, int lazy) {
  uint64_t done = 0;
  int flying = 0;

  for (int i = 0; i < depth; i++, flying++) uring_push(w, (uint64_t)i);
  while (flying) {
    const int more = now_us() < end;
    const unsigned want = !lazy ? 1 : (unsigned)(more && flying > 1 ? flying / 2 : flying);
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    if (io_uring_submit_and_wait(&w->ring, want) < 0) die("io_uring");
    io_uring_for_each_cqe(&w->ring, head, cqe) {
      check(cqe->res, "completion");
      seen++;
      flying--;
      if (!more) continue;
      uring_push(w, cqe->user_data);
      flying++;
    }
    io_uring_cq_advance(&w->ring, seen);
    if (more) done += seen;
  }
  return done;
}

static uint64_t rate_uring(struct worker *w, int depth, double end) { return uring_turns(w, depth, end, 0); }
static uint64_t rate_uring_lazy(struct worker *w, int depth, double end) { return uring_turns(w, depth, end, 1); }

static const struct way {
  const char *name;
  uint64_t (*run)(struct worker *w, int depth, double end);
} ways[] = {{"ioctl", rate_ioctl}, {"batch", rate_batch}, {"uring", rate_uring}, {"uring_lazy", rate_uring_lazy}};

/* What the processes of one measurement share. */
struct shared {
  int ready;
  int go;
  uint64_t done[MAX_PROCESSES];
};

static void rate_child(struct shared *shared, const struct way *way, int depth, int index) {
  static struct worker w;

  worker_open(&w);
  if (io_uring_queue_init(2 * MAX_DEPTH, &w.ring, RING_FLAGS)) die("io_uring_queue_init");
  __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
  while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST)) usleep(1000);
  shared->done[index] = way->run(&w, depth, now_us() + RATE_MS * 1e3);
  io_uring_queue_exit(&w.ring);
  worker_close(&w);
  _exit(0);
}

static double rate(const struct way *way, int depth, int processes) {
  struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint64_t done = 0;
  int status;

  if (shared == MAP_FAILED) die("mmap");
  for (int i = 0; i < processes; i++)
    if (!fork()) rate_child(shared, way, depth, i);
  while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < processes) usleep(1000);
  __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < processes; i++)
    if (wait(&status) < 0 || status) die("a process failed");
  for (int i = 0; i < processes; i++) done += shared->done[i];
  munmap(shared, sizeof(*shared));
  return (double)done / (RATE_MS / 1e3);
}

static void bench_rate(void) {
  const int depths[] = {1, 8, 64}, counts[] = {1, 4, 16};
  char name[64];

  for (unsigned w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
    for (int d = 0; d < 3; d++)
      for (int p = 0; p < 3; p++) {
        snprintf(name, sizeof(name), "jobs_%s_depth%d_processes%d", ways[w].name, depths[d], counts[p]);
        report(name, rate(&ways[w], depths[d], counts[p]), "1/s");
      }
}

/* ---- buffers against memfds ---- */

static void touch(volatile uint8_t *map, size_t size) {
  for (size_t i = 0; i < size; i += 4096) map[i] = 1;
}

static double bo_round(int fd, size_t size, uint32_t flags, int touched) {
  const double start = now_us();
  struct bo bo;

  bo_create_mapped(fd, size, flags, &bo);
  if (touched) touch(bo.map, size);
  bo_destroy(fd, &bo);
  return now_us() - start;
}

static double memfd_round(size_t size, int touched) {
  const double start = now_us();
  const int fd = memfd_create("bench", MFD_CLOEXEC);
  void *map;

  if (fd < 0 || ftruncate(fd, (off_t)size)) die("memfd");
  map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) die("mmap");
  if (touched) touch(map, size);
  munmap(map, size);
  close(fd);
  return now_us() - start;
}

static void bench_buffers(void) {
  static double samples[200];
  const struct {
    const char *name;
    size_t size;
    int rounds;
  } sizes[] = {{"4K", 4096, 200}, {"1M", 1 << 20, 100}, {"64M", 64 << 20, 7}};
  char name[64];
  int fd = npu_open();

  for (int s = 0; s < 3; s++) {
    for (int i = 0; i < sizes[s].rounds; i++) samples[i] = memfd_round(sizes[s].size, 1);
    snprintf(name, sizeof(name), "memfd_%s", sizes[s].name);
    report(name, median(samples, sizes[s].rounds), "us");
    for (int i = 0; i < sizes[s].rounds; i++) samples[i] = bo_round(fd, sizes[s].size, DRM_NPU_BO_SYSTEM, 1);
    snprintf(name, sizeof(name), "bo_system_%s", sizes[s].name);
    report(name, median(samples, sizes[s].rounds), "us");
    for (int i = 0; i < sizes[s].rounds; i++) samples[i] = bo_round(fd, sizes[s].size, DRM_NPU_BO_CARD, 1);
    snprintf(name, sizeof(name), "bo_card_%s", sizes[s].name);
    report(name, median(samples, sizes[s].rounds), "us");
  }
  close(fd);
}

/* ---- NVMe passthrough: reads of one block from a disk without a medium ---- */

static void nvme_push(struct io_uring *ring, int fd, int nsid, void *block, uint64_t slot) {
  struct io_uring_sqe *sqe = next_sqe(ring);
  struct nvme_uring_cmd cmd = {.opcode = 0x02, .nsid = (uint32_t)nsid, .addr = (uintptr_t)block, .data_len = 512};

  memset(sqe, 0, 2 * sizeof(*sqe));
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
  sqe->cmd_op = NVME_URING_CMD_IO;
  sqe->user_data = slot;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &cmd, sizeof(cmd));
}

static double nvme_rate(int fd, int depth, int lazy) {
  static uint8_t blocks[MAX_DEPTH][512] __attribute__((aligned(4096)));
  const int nsid = ioctl(fd, NVME_IOCTL_ID);
  const double end = now_us() + RATE_MS * 1e3;
  struct io_uring ring;
  uint64_t done = 0;
  int flying = 0;

  if (nsid <= 0) die("namespace of the NVMe device");
  if (io_uring_queue_init(2 * MAX_DEPTH, &ring, RING_FLAGS | IORING_SETUP_SQE128 | IORING_SETUP_CQE32))
    die("io_uring_queue_init for NVMe");
  for (int i = 0; i < depth; i++, flying++) nvme_push(&ring, fd, nsid, blocks[i], (uint64_t)i);
  while (flying) {
    const int more = now_us() < end;
    const unsigned want = !lazy ? 1 : (unsigned)(more && flying > 1 ? flying / 2 : flying);
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    if (io_uring_submit_and_wait(&ring, want) < 0) die("io_uring");
    io_uring_for_each_cqe(&ring, head, cqe) {
      check(cqe->res, "NVMe read");
      seen++;
      flying--;
      if (!more) continue;
      nvme_push(&ring, fd, nsid, blocks[cqe->user_data], cqe->user_data);
      flying++;
    }
    io_uring_cq_advance(&ring, seen);
    if (more) done += seen;
  }
  io_uring_queue_exit(&ring);
  return (double)done / (RATE_MS / 1e3);
}

static void bench_nvme(void) {
  const int depths[] = {1, 8, 64};
  int fd = open("/dev/ng0n1", O_RDWR);
  char name[64];

  if (fd < 0) die("/dev/ng0n1");
  for (int lazy = 0; lazy < 2; lazy++)
    for (int d = 0; d < 3; d++) {
      snprintf(name, sizeof(name), "nvme_uring%s_depth%d", lazy ? "_lazy" : "", depths[d]);
      report(name, nvme_rate(fd, depths[d], lazy), "1/s");
    }
  close(fd);
}

/* ---- the module ---- */

static void bench_insmod(const char *path) {
  static double samples[9];

  for (int i = 0; i < 9; i++) {
    const int fd = open(path, O_RDONLY);
    double start;

    if (fd < 0) die(path);
    if (syscall(SYS_delete_module, "npu", 0)) die("rmmod");
    start = now_us();
    if (syscall(SYS_finit_module, fd, "", 0)) die("insmod");
    samples[i] = now_us() - start;
    close(fd);
  }
  report("insmod", median(samples, 9) / 1e3, "ms");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";

  if (!strcmp(what, "irq"))
    bench_irq();
  else if (!strcmp(what, "latency"))
    bench_latency();
  else if (!strcmp(what, "rate"))
    bench_rate();
  else if (!strcmp(what, "buffers"))
    bench_buffers();
  else if (!strcmp(what, "nvme"))
    bench_nvme();
  else if (!strcmp(what, "insmod") && argc > 2)
    bench_insmod(argv[2]);
  else {
    fprintf(stderr, "usage: bench_driver irq|latency|rate|buffers|nvme|insmod FILE\n");
    return 2;
  }
  return 0;
}
