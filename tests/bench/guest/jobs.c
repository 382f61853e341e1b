/* SPDX-License-Identifier: MIT */
/* Workloads: jobs that do nothing, by raw ioctls and io_uring. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/bench/guest/workloads.h"

struct card card;

static struct {
  struct drm_npu_job array[DEPTH];
  struct drm_npu_submit submits[DEPTH];
} w;

void open_card(void) {
  card.fd = npu_open();
  card.ctx = ctx_create(card.fd);
  stream_create(card.fd, 1, &card.stream);
  stream_nop(&card.stream, 0);
  for (int i = 0; i < DEPTH; i++) {
    job_init(&card.jobs[i]);
    job_gdma(&card.jobs[i], &card.stream);
    w.array[i] = card.jobs[i].args;
    w.submits[i] = (struct drm_npu_submit){.ctx_id = card.ctx,
                                           .jobs = (uintptr_t)&card.jobs[i].args,
                                           .job_count = 1,
                                           .job_stride = sizeof(card.jobs[i].args)};
  }
}

static void wait_for(uint64_t seqno) {
  struct drm_npu_wait wait;

  check(raw_wait(card.fd, card.ctx, seqno, FOREVER_MS, &wait), "wait");
  check(wait.error, "job");
}

/* ---- the submit ioctl ---- */

static uint64_t submit_one(struct job *job) {
  check(raw_submit(card.fd, card.ctx, job), "submit");
  return job->args.seqno;
}

static void run_submit(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) last = submit_one(&card.jobs[0]);
    wait_for(last);
  }
}

/* Two syncobjs in turn: what one round's jobs signal the next round's wait for, so that in-fences have signalled. */
static void open_fences(void) {
  uint32_t a, b;

  open_card();
  a = syncobj_create(card.fd);
  b = syncobj_create(card.fd);
  job_out(&card.jobs[0], a, 0);
  wait_for(submit_one(&card.jobs[0]));
  for (int i = 0; i < 2; i++) {
    job_init(&card.jobs[i]);
    job_gdma(&card.jobs[i], &card.stream);
    job_in(&card.jobs[i], i ? b : a, 0);
    job_out(&card.jobs[i], i ? a : b, 0);
  }
}

static void run_fences(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) last = submit_one(&card.jobs[i / ROUND % 2]);
    wait_for(last);
  }
}

/* The points of a timeline, one for each job, as libnpu has them. */
static void open_timeline(void) {
  uint32_t sync;

  open_card();
  sync = syncobj_create(card.fd);
  job_out(&card.jobs[0], sync, 1);
  wait_for(submit_one(&card.jobs[0]));
  job_in(&card.jobs[0], sync, 1);
}

static void run_timeline(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) {
      card.jobs[0].out[0].point++;
      last = submit_one(&card.jobs[0]);
    }
    card.jobs[0].in[0].point = card.jobs[0].out[0].point;
    wait_for(last);
  }
}

/* Each job waits for the one before. */
static void run_chain(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t last = 0;

    for (int j = 0; j < ROUND; j++) {
      card.jobs[0].in[0].point = card.jobs[0].out[0].point++;
      last = submit_one(&card.jobs[0]);
    }
    wait_for(last);
  }
}

static void run_wait(int times) {
  for (int i = 0; i < times; i++) wait_for(submit_one(&card.jobs[0]));
}

static void run_batch(int times) {
  struct drm_npu_submit args = {
      .ctx_id = card.ctx, .jobs = (uintptr_t)w.array, .job_count = DEPTH, .job_stride = sizeof(w.array[0])};

  for (int i = 0; i < times; i += DEPTH) {
    check(raw_ioctl(card.fd, DRM_IOCTL_NPU_SUBMIT, &args), "submit");
    wait_for(w.array[DEPTH - 1].seqno);
  }
}

/* ---- the fence page, which shows a context's last job without a call ---- */

static const struct npu_fence *fence_page;

static void open_fence_page(void) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};

  open_card();
  check(raw_ctx_create(card.fd, &args), "context");
  card.ctx = args.ctx_id;
  fence_page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, card.fd, (off_t)args.fence_offset);
  if (fence_page == MAP_FAILED) die("fence page");
}

static void run_fence_page(int times) {
  for (int i = 0; i < times; i++) {
    const uint64_t seqno = submit_one(&card.jobs[0]);

    while (__atomic_load_n(&fence_page->seqno, __ATOMIC_ACQUIRE) < seqno)
      ;
  }
}

/* ---- io_uring ---- */

struct io_uring ring;

void open_ring(unsigned flags) {
  const int ret = io_uring_queue_init(2 * DEPTH, &ring, RING_FLAGS | flags);

  check(ret, "io_uring_queue_init");
}

struct io_uring_sqe *next_sqe(void) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

  must(sqe != NULL, "io_uring", "the ring has no free entry");
  return sqe;
}

void turns(push_fn push, int times, unsigned want) {
  int pushed = 0, flying = 0;

  for (; pushed < DEPTH && pushed < times; pushed++, flying++) push((uint64_t)pushed);
  while (flying) {
    const int ret = io_uring_submit_and_wait(&ring, want < (unsigned)flying ? want : (unsigned)flying);
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    if (ret < 0) check(ret, "io_uring");
    io_uring_for_each_cqe(&ring, head, cqe) {
      check(cqe->res, "completion");
      seen++;
      flying--;
      if (pushed == times) continue;
      push(cqe->user_data);
      pushed++;
      flying++;
    }
    io_uring_cq_advance(&ring, seen);
  }
}

static void open_uring(void) {
  open_card();
  open_ring(0);
}

static void push_job(uint64_t slot) {
  struct io_uring_sqe *sqe = next_sqe();
  const struct drm_npu_uring_submit entry = {.submit = (uintptr_t)&w.submits[slot]};

  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, card.fd, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  sqe->user_data = slot;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
}

static void run_uring(int times) { turns(push_job, times, 1); }
static void run_uring_lazy(int times) { turns(push_job, times, DEPTH / 2); }

const struct workload job_workloads[] = {
    {"submit", "a submit ioctl without fences, a wait after 32", "nvme-lazy", JOBS, DEPTH, open_card, run_submit},
    {"submit-fences", "with an in-fence that has signalled and an out-fence, binary", "submit", JOBS, DEPTH,
     open_fences, run_fences},
    {"submit-timeline", "the same with points of a timeline", "submit", JOBS, DEPTH, open_timeline, run_timeline},
    {"submit-chain", "the same, each job waits for the one before", "submit", JOBS, DEPTH, open_timeline, run_chain},
    {"batch", "64 jobs by one submit ioctl, then a wait", "nvme-lazy", JOBS, DEPTH, open_card, run_batch},
    {"uring", "io_uring, 64 in flight, turns of at least one completion", "nvme", JOBS, DEPTH, open_uring, run_uring},
    {"uring-lazy", "io_uring, 64 in flight, turns of at least 32 completions", "nvme-lazy", JOBS, DEPTH, open_uring,
     run_uring_lazy},
    {"wait", "a submit ioctl and a wait, one job in flight", "irq", JOBS, DEPTH, open_card, run_wait},
    {"fence-page", "a submit ioctl, then reads of the fence page until the job is done", "irq", JOBS, DEPTH,
     open_fence_page, run_fence_page},
    {0},
};
