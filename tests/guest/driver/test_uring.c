/* SPDX-License-Identifier: MIT */
/*
 * Submission through io_uring: results, floods of jobs (argument: their number, 4096), all kinds of rings, rings and
 * processes that end with requests in flight, and submitters that must not block.
 */
#include <errno.h>
#include <glob.h>
#include <liburing.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define MAX_IN_FLIGHT 64 /* per context */

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

/* Requests */

struct request {
  struct drm_npu_submit args;
  struct job job;
};

static void request_init(struct request *request, uint32_t context, const struct stream *stream) {
  job_init(&request->job);
  job_gdma(&request->job, stream);
  request->args = (struct drm_npu_submit){.ctx_id = context,
                                          .jobs = (uintptr_t)&request->job.args,
                                          .job_count = 1,
                                          .job_stride = sizeof(request->job.args)};
}

/* The inline command, which liburing declares without a size. */
static void set_entry(struct io_uring_sqe *sqe, const struct drm_npu_uring_submit *entry) {
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), entry, sizeof(*entry));
}

static void prepare(struct io_uring *ring, int file, const void *args, uint64_t tag) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
  struct drm_npu_uring_submit entry = {.submit = (uintptr_t)args};

  assert_non_null(sqe);
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, file, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  sqe->user_data = tag;
  set_entry(sqe, &entry);
}

static void push(struct io_uring *ring, int file, struct request *request) {
  prepare(ring, file, &request->args, (uintptr_t)request);
  assert_int_equal(io_uring_submit(ring), 1);
}

static int next_result(struct io_uring *ring) {
  struct __kernel_timespec limit = {.tv_sec = FOREVER_MS / 1000};
  struct io_uring_cqe *cqe;
  int ret, res;

  ret = io_uring_wait_cqe_timeout(ring, &cqe, &limit);
  if (ret) fail_msg("no completion: %s", strerror(-ret));
  res = cqe->res;
  io_uring_cqe_seen(ring, cqe);
  return res;
}

static int result_of(struct io_uring *ring, struct request *request) {
  push(ring, fd, request);
  return next_result(ring);
}

static void ring_create(struct io_uring *ring, unsigned entries, unsigned flags) {
  int ret = io_uring_queue_init(entries, ring, flags);

  if (ret) fail_msg("io_uring_queue_init(%u, %#x): %s", entries, flags, strerror(-ret));
}

/* Streams */

static void nop_stream(struct stream *stream) {
  stream_create(fd, 1, stream);
  stream_nop(stream, 0);
}

static void failing_stream(struct stream *stream) {
  struct npu_cmd *cmd;

  stream_create(fd, 1, stream);
  cmd = stream_next(stream);
  cmd->opcode = 0xfe;
}

/* Region 0 is the stream, region 1 its data. */
static void slow_request(struct request *request, int file, uint32_t context, struct stream *stream, struct bo *bo,
                         uint32_t ms) {
  stream_create(file, 1, stream);
  bo_create(file, 4096, DRM_NPU_BO_SYSTEM, bo);
  stream_slow_copy(stream, 1, ms);
  request_init(request, context, stream);
  job_region(&request->job, bo, RW);
}

/* Results */

static void a_job_completes(void **state) {
  struct request request;
  struct io_uring ring;
  struct stream stream;

  (void)state;
  ring_create(&ring, 8, 0);
  nop_stream(&stream);
  request_init(&request, ctx, &stream);
  assert_int_equal(result_of(&ring, &request), 0);
  assert_int_not_equal(request.job.args.seqno, 0);
  wait_ok(fd, ctx, request.job.args.seqno);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

static void the_first_error_is_the_result(void **state) {
  struct stream good, bad, budget;
  struct drm_npu_job jobs[3];
  struct request request, wrong, slow;
  struct io_uring ring;

  (void)state;
  ring_create(&ring, 8, 0);
  nop_stream(&good);
  failing_stream(&bad);
  request_init(&request, ctx, &good);
  request_init(&wrong, ctx, &bad);
  assert_int_equal(result_of(&ring, &wrong), -EIO);

  jobs[0] = request.job.args;
  jobs[1] = wrong.job.args;
  jobs[2] = request.job.args;
  request.args.jobs = (uintptr_t)jobs;
  request.args.job_count = 3;
  request.args.job_stride = sizeof(jobs[0]);
  assert_int_equal(result_of(&ring, &request), -EIO);
  assert_int_equal(jobs[2].seqno, jobs[0].seqno + 2);
  jobs[1] = jobs[0];
  assert_int_equal(result_of(&ring, &request), 0);

  nop_stream(&budget);
  request_init(&slow, ctx, &budget);
  slow.job.args.budget = 1;
  assert_int_equal(result_of(&ring, &slow), -ETIME);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &good);
  stream_destroy(fd, &bad);
  stream_destroy(fd, &budget);
}

static void failed_in_fences_cancel(void **state) {
  uint32_t syncobj = syncobj_create(fd);
  struct request wrong, next;
  struct stream good, bad;
  struct io_uring ring;

  (void)state;
  ring_create(&ring, 8, 0);
  nop_stream(&good);
  failing_stream(&bad);
  request_init(&wrong, ctx, &bad);
  request_init(&next, ctx, &good);
  job_out(&wrong.job, syncobj, 0);
  job_in(&next.job, syncobj, 0);
  assert_int_equal(result_of(&ring, &wrong), -EIO);
  assert_int_equal(result_of(&ring, &next), -ECANCELED);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &good);
  stream_destroy(fd, &bad);
  syncobj_destroy(fd, syncobj);
}

/* Arguments */

static int result_of_entry(struct io_uring *ring, uint32_t op, struct drm_npu_uring_submit entry) {
  struct io_uring_sqe *sqe;

  prepare(ring, fd, NULL, 0);
  sqe = &ring->sq.sqes[(ring->sq.sqe_tail - 1) & *ring->sq.kring_mask];
  sqe->cmd_op = op;
  set_entry(sqe, &entry);
  assert_int_equal(io_uring_submit(ring), 1);
  return next_result(ring);
}

static void bad_arguments_are_refused(void **state) {
  struct drm_npu_ctx_query before, after;
  struct drm_npu_uring_submit entry;
  struct request request;
  struct io_uring ring;
  struct stream stream;
  void *hole;

  (void)state;
  ring_create(&ring, 8, 0);
  nop_stream(&stream);
  request_init(&request, ctx, &stream);
  hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(hole != MAP_FAILED);
  ctx_query(fd, ctx, &before);

#define REFUSED(expected, op, change)                                          \
  do {                                                                         \
    entry = (struct drm_npu_uring_submit){.submit = (uintptr_t)&request.args}; \
    request_init(&request, ctx, &stream);                                      \
    change;                                                                    \
    assert_int_equal(result_of_entry(&ring, op, entry), expected);             \
  } while (0)
  REFUSED(-EOPNOTSUPP, DRM_NPU_URING_SUBMIT + 1, (void)0);
  REFUSED(-EOPNOTSUPP, DRM_IOCTL_NPU_SUBMIT, (void)0);
  REFUSED(-EOPNOTSUPP, 0, (void)0);
  REFUSED(-EINVAL, DRM_NPU_URING_SUBMIT, entry.flags = 1);
  REFUSED(-EINVAL, DRM_NPU_URING_SUBMIT, entry.pad = 1);
  REFUSED(-EFAULT, DRM_NPU_URING_SUBMIT, entry.submit = 0);
  REFUSED(-EFAULT, DRM_NPU_URING_SUBMIT, entry.submit = (uintptr_t)hole);
  REFUSED(-EFAULT, DRM_NPU_URING_SUBMIT, entry.submit = 1ull << 63);
  REFUSED(-EINVAL, DRM_NPU_URING_SUBMIT, request.args.flags = 1);
  REFUSED(-EINVAL, DRM_NPU_URING_SUBMIT, request.args.job_count = 0);
  REFUSED(-EINVAL, DRM_NPU_URING_SUBMIT, request.args.job_count = ~0u);
  REFUSED(-ENOENT, DRM_NPU_URING_SUBMIT, request.args.ctx_id = ~0u);
  REFUSED(-EFAULT, DRM_NPU_URING_SUBMIT, request.args.jobs = (uintptr_t)hole);
  REFUSED(-EFAULT, DRM_NPU_URING_SUBMIT, request.job.args.regions = (uintptr_t)hole);
  REFUSED(-ENOENT, DRM_NPU_URING_SUBMIT, request.job.regions[0].handle = 9999);
  REFUSED(-EINVAL, DRM_NPU_URING_SUBMIT, request.job.args.pad = 1);
#undef REFUSED

  ctx_query(fd, ctx, &after);
  assert_int_equal(after.submitted, before.submitted);
  request_init(&request, ctx, &stream);
  assert_int_equal(result_of(&ring, &request), 0);
  munmap(hole, 4096);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

/* An unwritable job description is detected before any job is queued, here too. */
static void read_only_jobs_are_refused(void **state) {
  struct drm_npu_ctx_query before, after;
  struct request request;
  struct io_uring ring;
  struct stream stream;
  void *page;

  (void)state;
  ring_create(&ring, 8, 0);
  nop_stream(&stream);
  request_init(&request, ctx, &stream);
  page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(page != MAP_FAILED);
  memcpy(page, &request.job.args, sizeof(request.job.args));
  assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
  request.args.jobs = (uintptr_t)page;
  ctx_query(fd, ctx, &before);
  assert_int_equal(result_of(&ring, &request), -EFAULT);
  ctx_query(fd, ctx, &after);
  assert_int_equal(after.submitted, before.submitted);
  munmap(page, 4096);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

/* Thousands in flight, on every kind of ring */

#define CONTEXTS 4

static unsigned in_flight = 4096; /* a multiple of 2 * CONTEXTS */
static int rounds = 10;           /* for the other long tests; fewer with small floods */

static void flood(unsigned ring_flags, unsigned count) {
  struct request *requests = calloc(count, sizeof(*requests));
  uint32_t contexts[CONTEXTS];
  struct drm_npu_ctx_query query;
  struct io_uring ring;
  struct stream stream;
  unsigned sent = 0;
  uint64_t sum = 0;

  assert_non_null(requests);
  nop_stream(&stream);
  for (unsigned i = 0; i < CONTEXTS; i++) contexts[i] = ctx_create(fd);
  ring_create(&ring, count, ring_flags);
  for (unsigned i = 0; i < count; i++) {
    request_init(&requests[i], contexts[i % CONTEXTS], &stream);
    prepare(&ring, fd, &requests[i].args, i);
  }
  while (sent < count) {
    int ret = io_uring_submit(&ring);

    assert_true(ret > 0);
    sent += (unsigned)ret;
  }
  for (unsigned i = 0; i < count; i++) assert_int_equal(next_result(&ring), 0);
  for (unsigned i = 0; i < count; i++) sum += requests[i].job.args.seqno;
  for (unsigned i = 0; i < CONTEXTS; i++) {
    ctx_query(fd, contexts[i], &query);
    assert_int_equal(query.completed, count / CONTEXTS);
    sum -= query.completed * (query.completed + 1) / 2;
    ctx_destroy(fd, contexts[i]);
  }
  assert_int_equal(sum, 0); /* each number was returned once */
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
  free(requests);
}

static void a_flood_is_in_flight(void **state) {
  (void)state;
  flood(0, in_flight);
}

static void rings_may_defer_task_work(void **state) {
  (void)state;
  flood(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, in_flight / 2);
}

static void rings_may_have_a_submitting_thread(void **state) {
  (void)state;
  flood(IORING_SETUP_SQPOLL, in_flight / 2);
}

/* Polled rings are for files that support polling. Linux 7.2 executes commands of other files there as on any ring. */
static void polled_rings_refuse_or_complete(void **state) {
  struct request request;
  struct io_uring ring;
  struct stream stream;
  int result;

  (void)state;
  ring_create(&ring, 8, IORING_SETUP_IOPOLL);
  nop_stream(&stream);
  request_init(&request, ctx, &stream);
  result = result_of(&ring, &request);
  assert_true(result == 0 || result == -EOPNOTSUPP);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

/* A job whose buffers other threads keep locked is passed to a worker of the ring. */
static struct {
  struct job job;
  bool stop;
  uint32_t ctx;
} locker;

static void *lock_buffers(void *unused) {
  (void)unused;
  while (!__atomic_load_n(&locker.stop, __ATOMIC_RELAXED)) {
    if (raw_submit(fd, locker.ctx, &locker.job)) return "submit";
  }
  return NULL;
}

static void contended_buffers(void **state) {
  struct request requests[32];
  struct io_uring ring;
  struct stream stream;
  struct bo bos[16];
  pthread_t thread;
  void *complaint;

  (void)state;
  ring_create(&ring, 64, 0);
  nop_stream(&stream);
  job_init(&locker.job);
  job_gdma(&locker.job, &stream);
  locker.stop = false;
  locker.ctx = ctx_create(fd);
  for (int i = 0; i < 16; i++) {
    bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bos[i]);
    job_region(&locker.job, &bos[i], RW);
  }
  assert_int_equal(pthread_create(&thread, NULL, lock_buffers, NULL), 0);
  for (int round = 0; round < 2 * rounds; round++) {
    for (int i = 0; i < 32; i++) {
      request_init(&requests[i], ctx, &stream);
      for (int b = 15; b >= 0; b--) job_region(&requests[i].job, &bos[b], RW);
      prepare(&ring, fd, &requests[i].args, 0);
    }
    assert_int_equal(io_uring_submit(&ring), 32);
    for (int i = 0; i < 32; i++) assert_int_equal(next_result(&ring), 0);
  }
  __atomic_store_n(&locker.stop, true, __ATOMIC_RELAXED);
  assert_int_equal(pthread_join(thread, &complaint), 0);
  assert_null(complaint);
  ctx_destroy(fd, locker.ctx);
  for (int i = 0; i < 16; i++) bo_destroy(fd, &bos[i]);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

enum { EXTRA = 32, TOO_MANY = MAX_IN_FLIGHT + EXTRA };

/* Submits requests, the first of which has a job that hangs until held_go_on(). */
static void push_behind_held(struct io_uring *ring, struct request *requests, int count, uint32_t to,
                             const struct stream *stream) {
  ring_create(ring, 256, 0);
  for (int i = 0; i < count; i++) request_init(&requests[i], to, stream);
  hold_next_job();
  push(ring, fd, &requests[0]);
  wait_held();
  for (int i = 1; i < count; i++) push(ring, fd, &requests[i]);
}

/* io_uring_enter does not block: requests beyond the context's room wait in a worker, and get room later. */
static void submitters_are_never_blocked(void **state) {
  static struct request requests[TOO_MANY];
  uint32_t full = ctx_create_patient(fd, NULL);
  struct drm_npu_ctx_query query;
  struct stream stream;
  struct io_uring ring;

  (void)state;
  nop_stream(&stream);
  alarm(FOREVER_MS / 1000); /* ends the test if it blocks */
  push_behind_held(&ring, requests, TOO_MANY, full, &stream);
  alarm(0);
  ctx_query(fd, full, &query);
  assert_int_equal(query.completed, 0);
  assert_true(query.submitted <= MAX_IN_FLIGHT);
  held_go_on();
  for (int i = 0; i < TOO_MANY; i++) assert_int_equal(next_result(&ring), 0);
  ctx_query(fd, full, &query);
  assert_int_equal(query.completed, TOO_MANY);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, full);
}

/* Requests that wait for room end with the context, too. */
static void requests_that_wait_for_room_end_with_their_context(void **state) {
  static struct request requests[TOO_MANY];
  uint32_t full = ctx_create_patient(fd, NULL);
  struct stream stream;
  struct io_uring ring;

  (void)state;
  nop_stream(&stream);
  push_behind_held(&ring, requests, TOO_MANY, full, &stream);
  ctx_destroy(fd, full);
  for (int i = 0; i < TOO_MANY; i++) assert_true(next_result(&ring) < 0);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

/* Ends */

static void push_and_leave(unsigned ring_flags, struct request *requests, int count) {
  struct io_uring ring;

  ring_create(&ring, 16, ring_flags);
  for (int i = 0; i < count; i++) push(&ring, fd, &requests[i]);
  io_uring_queue_exit(&ring);
}

static void push_and_exit(unsigned ring_flags, struct request *requests, int count) {
  pid_t pid = fork();
  int status;

  assert_true(pid >= 0);
  if (!pid) {
    struct io_uring ring;

    ring_create(&ring, 16, ring_flags);
    for (int i = 0; i < count; i++) push(&ring, fd, &requests[i]);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void rings_end_with_jobs_in_flight(void **state) {
  enum { COUNT = 8 };
  size_t bytes = COUNT * sizeof(struct request);
  struct request *requests = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  (void)state;
  assert_ptr_not_equal(requests, MAP_FAILED);
  for (int round = 0; round < rounds; round++) {
    struct stream stream;
    struct bo bo;

    slow_request(&requests[0], fd, ctx, &stream, &bo, 20);
    for (int i = 1; i < COUNT; i++) {
      request_init(&requests[i], ctx, &stream);
      job_region(&requests[i].job, &bo, RW);
    }
    /* Completions belong to the submitter, whichever task closes the ring: lockdep checks. */
    if (round % 3 == 2)
      push_and_exit(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, requests, COUNT);
    else
      push_and_leave(round % 3 ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN : 0, requests, COUNT);
    for (int i = 0; i < COUNT; i++) wait_ok(fd, ctx, requests[i].job.args.seqno); /* the jobs continue */
    bo_destroy(fd, &bo);
    stream_destroy(fd, &stream);
  }
  munmap(requests, bytes);
}

/* Returns true if one of these files, of stacks or wait channels of tasks, contains this text. */
static bool somebody_is_in(const char *files, const char *function) {
  char text[4096];
  bool found = false;
  glob_t tasks;

  assert_int_equal(glob(files, 0, NULL, &tasks), 0);
  for (size_t i = 0; i < tasks.gl_pathc; i++) {
    FILE *file = fopen(tasks.gl_pathv[i], "r");

    if (!file) continue; /* the task has exited */
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    fclose(file);
    if (strstr(text, function)) found = true;
  }
  globfree(&tasks);
  return found;
}

/* Returns true if a worker of io_uring, or another thread of this process, sleeps in the driver. */
static bool somebody_waits_in_the_driver(void) { return somebody_is_in("/proc/self/task/*/stack", "npu_"); }

/* Waits for the kernel to release a closed ring's last request. A running task has no wait channel. */
static bool a_closed_ring_is_waited_for(void) { return somebody_is_in("/proc/[0-9]*/wchan", "io_ring_exit_work"); }

static void until_closed_rings_are_waited_for(bool wanted) {
  int64_t end = now_ms() + FOREVER_MS;

  while (a_closed_ring_is_waited_for() != wanted) {
    assert_true(now_ms() < end);
    usleep(10000);
  }
}

/* Requests that wait for room are not submitted after their ring is closed. */
static void rings_end_with_requests_that_wait(void **state) {
  enum { COUNT = MAX_IN_FLIGHT + 16 };
  static struct request requests[COUNT];
  uint32_t full = ctx_create_patient(fd, NULL);
  int64_t end = now_ms() + FOREVER_MS;
  struct drm_npu_ctx_query query;
  struct io_uring ring;
  struct stream stream;

  (void)state;
  nop_stream(&stream);
  push_behind_held(&ring, requests, COUNT, full, &stream);
  /* The context is full, and the rest waits, until the kernel has freed the ring. */
  do {
    assert_true(now_ms() < end);
    ctx_query(fd, full, &query);
  } while (query.submitted < MAX_IN_FLIGHT || !somebody_waits_in_the_driver());
  io_uring_queue_exit(&ring);
  while (somebody_waits_in_the_driver()) {
    assert_true(now_ms() < end);
    usleep(10000);
  }
  ctx_query(fd, full, &query);
  assert_int_equal(query.submitted, MAX_IN_FLIGHT);
  held_go_on();
  /* The context has room for all jobs now, and gets none. */
  wait_ok(fd, full, query.submitted);
  run_nop(fd, full);
  ctx_query(fd, full, &query);
  assert_int_equal(query.submitted, MAX_IN_FLIGHT + 1);
  ctx_destroy(fd, full);
  stream_destroy(fd, &stream);
}

/*
 * A stopped process cannot complete its requests. A close of its ring leaves a worker that waits for them; a worker
 * that polled would use a CPU while the process is stopped.
 */
static void rings_of_a_stopped_process_are_waited_for(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct request request;
  struct io_uring ring;
  struct stream stream;
  pid_t pid;
  int status;

  (void)state;
  until_closed_rings_are_waited_for(false); /* rings of earlier tests */
  ring_create(&ring, 8, 0);
  nop_stream(&stream);
  request_init(&request, patient, &stream);
  hold_next_job();
  pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    push(&ring, fd, &request);
    io_uring_queue_exit(&ring); /* this process' mapping of it */
    raise(SIGSTOP);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(WIFSTOPPED(status));
  io_uring_queue_exit(&ring);
  until_closed_rings_are_waited_for(true);
  held_go_on();
  assert_int_equal(kill(pid, SIGCONT), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  until_closed_rings_are_waited_for(false);
  run_nop(fd, patient);
  ctx_destroy(fd, patient);
  stream_destroy(fd, &stream);
}

/* The ring still gets the results of a thread that has exited. */
struct short_lived {
  struct io_uring ring;
  struct request request;
};

static void *submit_and_end(void *arg) {
  struct short_lived *life = arg;

  prepare(&life->ring, fd, &life->request.args, 7);
  return (void *)(intptr_t)io_uring_submit(&life->ring);
}

static void requests_outlive_their_thread(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct short_lived life;
  struct stream stream;
  pthread_t thread;
  void *sent;

  (void)state;
  ring_create(&life.ring, 8, 0);
  nop_stream(&stream);
  request_init(&life.request, patient, &stream);
  hold_next_job();
  assert_int_equal(pthread_create(&thread, NULL, submit_and_end, &life), 0);
  assert_int_equal(pthread_join(thread, &sent), 0);
  assert_int_equal((intptr_t)sent, 1);
  wait_held();
  held_go_on();
  assert_int_equal(next_result(&life.ring), 0);
  wait_ok(fd, patient, life.request.job.args.seqno);
  io_uring_queue_exit(&life.ring);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, patient);
}

/* execve cancels a task's requests, and other users of the ring see their completions. */
static void requests_end_with_their_program(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct drm_npu_ctx_query query;
  struct request request;
  struct io_uring ring;
  struct stream stream;
  int status;
  pid_t pid;

  (void)state;
  ring_create(&ring, 8, 0);
  nop_stream(&stream);
  request_init(&request, patient, &stream);
  hold_next_job();
  pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    prepare(&ring, fd, &request.args, 7);
    if (io_uring_submit(&ring) != 1) _exit(1);
    execl("/usr/bin/true", "true", (char *)NULL);
    _exit(2);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(next_result(&ring), -ECANCELED);
  wait_held();
  held_go_on();
  ctx_query(fd, patient, &query);
  assert_int_equal(query.submitted, 1);
  wait_ok(fd, patient, 1); /* the job continued */
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, patient);
}

static void contexts_end_with_requests_in_flight(void **state) {
  struct request requests[40];
  uint32_t doomed = ctx_create_patient(fd, NULL);
  struct io_uring ring;
  struct stream stream;

  (void)state;
  nop_stream(&stream);
  push_behind_held(&ring, requests, 40, doomed, &stream);
  ctx_destroy(fd, doomed);
  for (int i = 0; i < 40; i++) assert_int_equal(next_result(&ring), -ECANCELED);
  io_uring_queue_exit(&ring);
  stream_destroy(fd, &stream);
}

/* A request pins its file. */
static void files_last_as_long_as_their_requests(void **state) {
  struct request request;
  int other = npu_open();
  struct io_uring ring;
  struct stream stream;
  struct bo bo;

  (void)state;
  ring_create(&ring, 8, 0);
  slow_request(&request, other, ctx_create(other), &stream, &bo, 100);
  push(&ring, other, &request);
  bo_unmap(&stream.bo);
  assert_int_equal(close(other), 0);
  assert_int_equal(next_result(&ring), 0);
  io_uring_queue_exit(&ring);
}

static void child(int pipe_fd) {
  struct request *requests = calloc(200, sizeof(*requests));
  int file = open("/dev/null", 0);
  struct io_uring ring;
  struct stream stream;
  uint32_t context;
  struct bo bo;

  close(file);
  if (!requests || !npu_try_open(&file)) _exit(1);
  context = ctx_create(file);
  ring_create(&ring, 256, 0);
  slow_request(&requests[0], file, context, &stream, &bo, 50);
  push(&ring, file, &requests[0]);
  for (int i = 1; i < 200; i++) {
    request_init(&requests[i], context, &stream);
    job_region(&requests[i].job, &bo, RW);
    push(&ring, file, &requests[i]);
  }
  if (write(pipe_fd, "x", 1) != 1) _exit(1);
  for (;;) pause();
}

static void processes_are_killed_with_requests_in_flight(void **state) {
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int round = 0; round < rounds; round++) {
    int ends[2], status;
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) child(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    close(ends[0]);
    close(ends[1]);
  }
  run_nop(fd, ctx);
  usage_expect(before); /* the kernel frees a ring after its process has exited */
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_completes),
      cmocka_unit_test(the_first_error_is_the_result),
      cmocka_unit_test(failed_in_fences_cancel),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(read_only_jobs_are_refused),
      cmocka_unit_test(a_flood_is_in_flight),
      cmocka_unit_test(rings_may_defer_task_work),
      cmocka_unit_test(rings_may_have_a_submitting_thread),
      cmocka_unit_test(polled_rings_refuse_or_complete),
      cmocka_unit_test(contended_buffers),
      cmocka_unit_test(submitters_are_never_blocked),
      cmocka_unit_test(requests_that_wait_for_room_end_with_their_context),
      cmocka_unit_test(rings_end_with_jobs_in_flight),
      cmocka_unit_test(rings_end_with_requests_that_wait),
      cmocka_unit_test(rings_of_a_stopped_process_are_waited_for),
      cmocka_unit_test(requests_outlive_their_thread),
      cmocka_unit_test(requests_end_with_their_program),
      cmocka_unit_test(contexts_end_with_requests_in_flight),
      cmocka_unit_test(files_last_as_long_as_their_requests),
      cmocka_unit_test(processes_are_killed_with_requests_in_flight),
  };

  if (argc > 1) in_flight = (unsigned)atoi(argv[1]);
  if (in_flight < 1024) rounds = 3; /* one of each kind of end */
  return cmocka_run_group_tests_name("uring", tests, set_up, tear_down);
}
