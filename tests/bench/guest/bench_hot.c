/* SPDX-License-Identifier: MIT */
/*
 * Workloads for scripts/hot.py: each does something many times between the two markers that the plugin hot.so counts
 * instructions between. Before that it does so a few times, for what happens only once.
 *
 *   bench_hot WORKLOAD [TIMES]    prints "window WORKLOAD TIMES", then its address space (/proc/self/maps) up to "end"
 *   bench_hot --list              prints "NAME what it is" for each
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <npu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/guest/driver/npu_raw.h"

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#define RING_FLAGS (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

#define DEPTH 64           /* jobs in flight; also what a context takes */
#define ROUND 32           /* jobs between two waits */
#define DEFAULT_TIMES 6400 /* a multiple of both */

/* nopl DISPLACEMENT(%rax,%rax,1): the plugin knows these two displacements. */
#define MARKER(low) __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, " #low ", 0x55, 0x50, 0x4e" ::: "memory")

static void die(const char *what) {
  fprintf(stderr, "bench_hot: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void check(int ret, const char *what) {
  if (!ret) return;
  errno = -ret;
  die(what);
}

/* What all workloads share. */
static struct {
  int fd;
  uint32_t ctx;
  struct stream stream;
  struct job jobs[DEPTH];
  struct drm_npu_job array[DEPTH];
  struct drm_npu_submit submits[DEPTH];
  struct io_uring ring;
} w;

static void open_card(void) {
  w.fd = npu_open();
  w.ctx = ctx_create(w.fd);
  stream_create(w.fd, 1, &w.stream);
  stream_nop(&w.stream, 0);
  for (int i = 0; i < DEPTH; i++) {
    job_init(&w.jobs[i]);
    job_gdma(&w.jobs[i], &w.stream);
    w.array[i] = w.jobs[i].args;
    w.submits[i] = (struct drm_npu_submit){
        .ctx_id = w.ctx, .jobs = (uintptr_t)&w.jobs[i].args, .job_count = 1, .job_stride = sizeof(w.jobs[i].args)};
  }
}

static void wait_for(uint64_t seqno) {
  struct drm_npu_wait wait;

  check(raw_wait(w.fd, w.ctx, seqno, FOREVER_MS, &wait), "wait");
  check(wait.error, "job");
}

/* ---- the submit ioctl ---- */

static uint64_t submit_one(struct job *job) {
  check(raw_submit(w.fd, w.ctx, job), "submit");
  return job->args.seqno;
}

static void run_submit(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) last = submit_one(&w.jobs[0]);
    wait_for(last);
  }
}

/* Two syncobjs in turn: what one round's jobs signal the next round's wait for, so that in-fences have signalled. */
static void open_fences(void) {
  uint32_t a, b;

  open_card();
  a = syncobj_create(w.fd);
  b = syncobj_create(w.fd);
  job_out(&w.jobs[0], a, 0);
  wait_for(submit_one(&w.jobs[0]));
  job_init(&w.jobs[0]);
  for (int i = 0; i < 2; i++) {
    job_init(&w.jobs[i]);
    job_gdma(&w.jobs[i], &w.stream);
    job_in(&w.jobs[i], i ? b : a, 0);
    job_out(&w.jobs[i], i ? a : b, 0);
  }
}

static void run_fences(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) last = submit_one(&w.jobs[i / ROUND % 2]);
    wait_for(last);
  }
}

/* The points of a timeline, one for each job, as libnpu has them. */
static void open_timeline(void) {
  uint32_t sync;

  open_card();
  sync = syncobj_create(w.fd);
  job_out(&w.jobs[0], sync, 1);
  wait_for(submit_one(&w.jobs[0]));
  job_in(&w.jobs[0], sync, 1);
}

static void run_timeline(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) {
      w.jobs[0].out[0].point++;
      last = submit_one(&w.jobs[0]);
    }
    w.jobs[0].in[0].point = w.jobs[0].out[0].point;
    wait_for(last);
  }
}

/* Each job waits for the one before. */
static void run_chain(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) {
      w.jobs[0].in[0].point = w.jobs[0].out[0].point++;
      last = submit_one(&w.jobs[0]);
    }
    wait_for(last);
  }
}

static void run_wait(int times) {
  for (int i = 0; i < times; i++) wait_for(submit_one(&w.jobs[0]));
}

static void run_batch(int times) {
  struct drm_npu_submit args = {
      .ctx_id = w.ctx, .jobs = (uintptr_t)w.array, .job_count = DEPTH, .job_stride = sizeof(w.array[0])};

  for (int i = 0; i < times; i += DEPTH) {
    check(raw_ioctl(w.fd, DRM_IOCTL_NPU_SUBMIT, &args), "submit");
    wait_for(w.array[DEPTH - 1].seqno);
  }
}

/* ---- io_uring ---- */

static struct io_uring_sqe *next_sqe(void) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(&w.ring);

  if (!sqe) die("the ring has no free entry");
  return sqe;
}

/* Puts an entry that does so once more into the ring. */
typedef void (*push_fn)(uint64_t slot);

/* Waits until at least `want` of those in flight have completed, and takes all that have. */
static void turns(push_fn push, int times, unsigned want) {
  int pushed = 0, flying = 0;

  for (; pushed < DEPTH && pushed < times; pushed++, flying++) push((uint64_t)pushed);
  while (flying) {
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    if (io_uring_submit_and_wait(&w.ring, want < (unsigned)flying ? want : (unsigned)flying) < 0) die("io_uring");
    io_uring_for_each_cqe(&w.ring, head, cqe) {
      check(cqe->res, "completion");
      seen++;
      flying--;
      if (pushed == times) continue;
      push(cqe->user_data);
      pushed++;
      flying++;
    }
    io_uring_cq_advance(&w.ring, seen);
  }
}

static void open_ring(unsigned flags) {
  if (io_uring_queue_init(2 * DEPTH, &w.ring, RING_FLAGS | flags)) die("io_uring_queue_init");
}

static void open_uring(void) {
  open_card();
  open_ring(0);
}

static void push_job(uint64_t slot) {
  struct io_uring_sqe *sqe = next_sqe();
  const struct drm_npu_uring_submit entry = {.submit = (uintptr_t)&w.submits[slot]};

  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, w.fd, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  sqe->user_data = slot;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
}

static void run_uring(int times) { turns(push_job, times, 1); }
static void run_uring_lazy(int times) { turns(push_job, times, DEPTH / 2); }

/* ---- NVMe passthrough: reads of one block from a disk without a medium ---- */

static int disk, nsid;

static void open_nvme(void) {
  disk = open("/dev/ng0n1", O_RDWR);
  nsid = disk < 0 ? -1 : ioctl(disk, NVME_IOCTL_ID);
  if (nsid <= 0) die("/dev/ng0n1");
  open_ring(IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
}

static void push_read(uint64_t slot) {
  static uint8_t blocks[DEPTH][512] __attribute__((aligned(4096)));
  struct io_uring_sqe *sqe = next_sqe();
  const struct nvme_uring_cmd cmd = {
      .opcode = 0x02, .nsid = (uint32_t)nsid, .addr = (uintptr_t)blocks[slot], .data_len = 512};

  memset(sqe, 0, 2 * sizeof(*sqe));
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, disk, NULL, 0, 0);
  sqe->cmd_op = NVME_URING_CMD_IO;
  sqe->user_data = slot;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &cmd, sizeof(cmd));
}

static void run_nvme(int times) { turns(push_read, times, 1); }
static void run_nvme_lazy(int times) { turns(push_read, times, DEPTH / 2); }

/* ---- buffers, and memfds to compare them with ---- */

static void run_buffer(int times, uint32_t flags) {
  struct bo bo;

  for (int i = 0; i < times; i++) {
    bo_create_mapped(w.fd, 4096, flags, &bo);
    *(volatile uint8_t *)bo.map = 1;
    bo_destroy(w.fd, &bo);
  }
}

static void run_system(int times) { run_buffer(times, DRM_NPU_BO_SYSTEM); }
static void run_card(int times) { run_buffer(times, DRM_NPU_BO_CARD); }

static void open_nothing(void) {}

static void run_memfd(int times) {
  for (int i = 0; i < times; i++) {
    const int fd = memfd_create("bench", MFD_CLOEXEC);
    volatile uint8_t *map;

    if (fd < 0 || ftruncate(fd, 4096)) die("memfd");
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) die("mmap");
    *map = 1;
    munmap((void *)map, 4096);
    close(fd);
  }
}

/* ---- libnpu ---- */

static npu_context *context;
static struct npu_job_region region = {.access = DRM_NPU_REGION_READ};
static struct npu_job_desc desc = {
    .regions = &region, .streams = &w.jobs[0].stream, .region_count = 1, .stream_count = 1};
static struct npu_job_fence fence;

static void open_libnpu(void) {
  npu_device *device;
  npu_bo *bo;

  open_card(); /* for the command, and its stream */
  check(npu_device_open(0, &device), "npu_device_open");
  check(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &context), "npu_context_create");
  check(npu_bo_create(device, 4096, DRM_NPU_BO_SYSTEM, &bo), "npu_bo_create");
  check(npu_write(bo, 0, w.stream.bo.map, NPU_CMD_BYTES), "npu_write");
  region.bo = bo;
  region.size = 4096;
}

static void run_libnpu(int times) {
  for (int i = 0; i < times; i += ROUND) {
    struct npu_result result;
    uint64_t seqno = 0;

    for (int j = 0; j < ROUND; j++) check(npu_submit(context, &desc, 1, &seqno), "npu_submit");
    usleep(2000); /* npu_wait() would look for the jobs' end, for as long as the host needs */
    check(npu_wait(context, seqno, -1, &result), "npu_wait");
    check(result.error, "job");
    fence = (struct npu_job_fence){.context = context, .seqno = seqno};
  }
}

static void open_libnpu_fence(void) {
  open_libnpu();
  run_libnpu(ROUND);
  desc.in_fences = &fence;
  desc.in_fence_count = 1;
}

/* ---- the interrupt-test register ---- */

static int irq_file;

static void open_irq(void) {
  glob_t found;

  if (glob("/sys/kernel/debug/accel/*/irq_test", 0, NULL, &found)) die("no irq_test in debugfs");
  irq_file = open(found.gl_pathv[0], O_RDONLY);
  if (irq_file < 0) die(found.gl_pathv[0]);
  globfree(&found);
}

static void run_irq(int times) {
  char text[32];

  for (int i = 0; i < times; i++)
    if (pread(irq_file, text, sizeof(text), 0) <= 0) die("irq_test");
}

/* ---- all of them ---- */

static const struct workload {
  const char *name;
  const char *what;
  void (*open)(void);
  void (*run)(int times);
} workloads[] = {
    {"submit", "a submit ioctl without fences, a wait after 32", open_card, run_submit},
    {"submit-fences", "with an in-fence that has signalled and an out-fence, binary", open_fences, run_fences},
    {"submit-timeline", "the same with points of a timeline", open_timeline, run_timeline},
    {"submit-chain", "the same, each job waits for the one before", open_timeline, run_chain},
    {"batch", "64 jobs by one submit ioctl, then a wait", open_card, run_batch},
    {"uring", "io_uring, 64 in flight, turns of at least one completion", open_uring, run_uring},
    {"uring-lazy", "io_uring, 64 in flight, turns of at least 32 completions", open_uring, run_uring_lazy},
    {"wait", "a submit ioctl and a wait, one job in flight", open_card, run_wait},
    {"buffer", "create, map, touch, free 4 KiB of system memory", open_card, run_system},
    {"buffer-card", "create, map, touch, free 4 KiB of card memory", open_card, run_card},
    {"libnpu", "npu_submit, npu_wait after 32", open_libnpu, run_libnpu},
    {"libnpu-fence", "the same with an in-fence that has signalled", open_libnpu_fence, run_libnpu},
    {"irq", "the interrupt-test register, to the woken thread", open_irq, run_irq},
    {"nvme", "NVMe passthrough, 64 in flight, turns of at least one", open_nvme, run_nvme},
    {"nvme-lazy", "NVMe passthrough, 64 in flight, turns of at least 32", open_nvme, run_nvme_lazy},
    {"memfd", "create, truncate, map, touch, free a memfd of 4 KiB", open_nothing, run_memfd},
};

#define WORKLOADS (sizeof(workloads) / sizeof(workloads[0]))

static void run(const struct workload *workload, int times) {
  char line[512];
  FILE *maps;

  workload->open();
  workload->run(2 * DEPTH);
  usleep(200000); /* what others still do for the beginning is over */
  MARKER(0x01);
  workload->run(times);
  MARKER(0x02);

  printf("window %s %d\n", workload->name, times);
  maps = fopen("/proc/self/maps", "r");
  if (!maps) die("/proc/self/maps");
  while (fgets(line, sizeof(line), maps)) fputs(line, stdout);
  fclose(maps);
  printf("end\n");
}

int main(int argc, char **argv) {
  const int times = argc > 2 ? atoi(argv[2]) : DEFAULT_TIMES;

  for (unsigned i = 0; i < WORKLOADS; i++) {
    if (argc == 2 && !strcmp(argv[1], "--list")) printf("%s %s\n", workloads[i].name, workloads[i].what);
    if (argc < 2 || strcmp(argv[1], workloads[i].name)) continue;
    if (times <= 0 || times % DEPTH) break;
    run(&workloads[i], times);
    return 0;
  }
  if (argc == 2 && !strcmp(argv[1], "--list")) return 0;
  fprintf(stderr, "usage: bench_hot --list | WORKLOAD [TIMES, a multiple of %d]\n", DEPTH);
  return 2;
}
