/* SPDX-License-Identifier: MIT */
/* Quotas: what one user can have of memory, contexts and unfinished jobs, and what others notice of that. */
#define _GNU_SOURCE /* memfd_create */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <liburing.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/cgroup.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/users.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd;           /* root's */
static char folder[128]; /* the device's attributes */

static void set_quota(const char *name, uint64_t limit) {
  char path[192];
  FILE *file;

  snprintf(path, sizeof(path), "%s/quota_%s", folder, name);
  file = fopen(path, "w");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  fprintf(file, "%llu\n", (unsigned long long)limit);
  assert_int_equal(fclose(file), 0);
}

static int no_quotas(void **state) {
  (void)state;
  set_quota("memory", 0);
  set_quota("contexts", 0);
  set_quota("jobs", 0);
  set_quota("spaces", 0);
  set_quota("tables", 0);
  return 0;
}

static int set_up(void **state) {
  uint32_t ctx;

  fd = npu_open();
  device_path(fd, "npu", folder, sizeof(folder));
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  ctx_destroy(fd, ctx);
  return no_quotas(state);
}

static int tear_down(void **state) {
  (void)state;
  return close(fd);
}

/* What the driver has counted: memory, contexts, jobs. All zero for a user that it does not know. */
struct account {
  unsigned long long memory, contexts, jobs;
};

static struct account account_of(unsigned uid) {
  struct account account = {0}, found;
  char line[256];
  glob_t path;
  unsigned id;
  FILE *file;

  assert_int_equal(glob("/sys/kernel/debug/accel/*/users", 0, NULL, &path), 0);
  file = fopen(path.gl_pathv[0], "r");
  globfree(&path);
  assert_non_null(file);
  while (fgets(line, sizeof(line), file))
    if (sscanf(line, "%u %llu %llu %llu", &id, &found.memory, &found.contexts, &found.jobs) == 4 && id == uid)
      account = found;
  fclose(file);
  return account;
}

static void expect_account(unsigned uid, unsigned long long memory, unsigned long long contexts,
                           unsigned long long jobs) {
  struct account account = {0};

  for (int tries = 0; tries < 100; tries++) {
    account = account_of(uid);
    if (account.memory == memory && account.contexts == contexts && account.jobs == jobs) return;
    usleep(tries < 50 ? 5000 : 200000);
  }
  fail_msg("user %u has %llu bytes, %llu contexts, %llu jobs instead of %llu, %llu, %llu", uid, account.memory,
           account.contexts, account.jobs, memory, contexts, jobs);
}

static int try_open(void) { return open("/dev/accel/accel0", O_RDWR | O_CLOEXEC); }

/* Memory */

static int fills_four_mib(int socket) {
  int own = try_open();
  struct bo a, b, c;

  (void)socket;
  CHECK(own >= 0);
  for (int round = 0; round < 20; round++) {
    CHECK(!raw_bo_create(own, MIB(2), DRM_NPU_BO_CARD, &a));
    CHECK(!raw_bo_create(own, MIB(2), DRM_NPU_BO_SYSTEM, &b));
    CHECK(raw_bo_create(own, 1, DRM_NPU_BO_CARD, &c) == -EDQUOT);
    CHECK(raw_bo_create(own, 1, DRM_NPU_BO_SYSTEM, &c) == -EDQUOT);
    CHECK(raw_bo_create(own, 1ull << 39, DRM_NPU_BO_SYSTEM, &c) == -EDQUOT);
    CHECK(!raw_gem_close(own, b.handle));
    CHECK(!raw_bo_create(own, MIB(2) - 4096, DRM_NPU_BO_CARD, &b));
    CHECK(!raw_bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &c));
    CHECK(!raw_gem_close(own, a.handle));
    CHECK(!raw_gem_close(own, b.handle));
    CHECK(!raw_gem_close(own, c.handle));
  }
  CHECK(!raw_bo_create(own, MIB(4), DRM_NPU_BO_SYSTEM, &a));
  return 0;
}

static int takes_three_mib(int socket) {
  struct bo bo;
  int own = try_open();

  (void)socket;
  CHECK(own >= 0 && !raw_bo_create(own, MIB(3), DRM_NPU_BO_CARD, &bo));
  return 0;
}

static int finds_one_mib(int socket) {
  struct bo a, b;
  int own = try_open();

  (void)socket;
  CHECK(own >= 0);
  CHECK(raw_bo_create(own, MIB(2), DRM_NPU_BO_CARD, &a) == -EDQUOT);
  CHECK(!raw_bo_create(own, MIB(1), DRM_NPU_BO_CARD, &a));
  CHECK(raw_bo_create(own, 4096, DRM_NPU_BO_CARD, &b) == -EDQUOT);
  return 0;
}

static void memory_of_a_user_is_limited(void **state) {
  struct process first, second;
  struct bo bo;

  (void)state;
  set_quota("memory", MIB(4));
  as_user(ALICE, fd, fills_four_mib);
  expect_account(ALICE, 0, 0, 0);

  /* All processes of a user together, nobody else, and root not at all. */
  process_start(&first, ALICE, fd, takes_three_mib);
  process_start(&second, ALICE, fd, finds_one_mib);
  expect_account(ALICE, MIB(4), 0, 0);
  as_user(BOB, fd, fills_four_mib);
  bo_create(fd, MIB(5), DRM_NPU_BO_SYSTEM, &bo);
  assert_true(account_of(0).memory >= MIB(5));
  bo_destroy(fd, &bo);

  /* The killed give back. */
  process_kill(&first);
  expect_account(ALICE, MIB(1), 0, 0);
  process_start(&first, ALICE, fd, takes_three_mib);
  process_kill(&second);
  process_kill(&first);
  expect_account(ALICE, 0, 0, 0);
}

static void a_limit_can_change_at_any_time(void **state) {
  struct process process;

  (void)state;
  process_start(&process, ALICE, fd, takes_three_mib);
  expect_account(ALICE, MIB(3), 0, 0);
  set_quota("memory", MIB(4));
  as_user(ALICE, fd, finds_one_mib);
  set_quota("memory", MIB(2)); /* less than is in use: nothing is taken away */
  expect_account(ALICE, MIB(3), 0, 0);
  process_kill(&process);
  set_quota("memory", 0);
  as_user(ALICE, fd, takes_three_mib);
}

static int shares_three_mib(int socket) {
  struct drm_prime_handle export = {.flags = DRM_CLOEXEC | DRM_RDWR};
  struct bo bo;
  int own = try_open();

  CHECK(own >= 0 && !raw_bo_create(own, MIB(3), DRM_NPU_BO_SYSTEM, &bo));
  export.handle = bo.handle;
  CHECK(!raw_ioctl(own, DRM_IOCTL_PRIME_HANDLE_TO_FD, &export));
  send_fd(socket, export.fd);
  close(export.fd);
  return 0;
}

/* Who makes a buffer pays for it, for as long as anybody has it. */
static void shared_buffers_are_their_makers(void **state) {
  struct drm_prime_handle import = {0};
  struct process maker = {0};
  unsigned long long before = account_of(0).memory;
  int sockets[2], line;

  (void)state;
  /* As process_start(), with a file descriptor before the result. */
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  maker.pid = fork();
  maker.socket = sockets[0];
  if (!maker.pid) {
    close(fd);
    if (setgid(ALICE) || setuid(ALICE)) _exit(99);
    line = shares_three_mib(sockets[1]);
    if (write(sockets[1], &line, sizeof(line)) != sizeof(line)) _exit(98);
    for (;;) pause();
  }
  import.fd = receive_fd(sockets[0]);
  assert_int_equal(read(sockets[0], &line, sizeof(line)), sizeof(line));
  assert_int_equal(line, 0);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &import), 0);
  close(import.fd);
  expect_account(ALICE, MIB(3), 0, 0);
  assert_int_equal(account_of(0).memory, before);
  process_kill(&maker);
  close(sockets[1]);
  set_quota("memory", MIB(4));
  as_user(ALICE, fd, finds_one_mib);
  expect_account(ALICE, MIB(3), 0, 0);
  assert_int_equal(raw_gem_close(fd, import.handle), 0);
  expect_account(ALICE, 0, 0, 0);
}

/* Pages that belong to somebody else are counted there; a bounce buffer has its own. */
static int pins_and_bounces(int socket) {
  uint8_t *p = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct drm_npu_bo_userptr args = {.addr = (uintptr_t)p, .size = MIB(1)};
  int own = try_open();
  struct bo card;
  void *map;

  (void)socket;
  CHECK(own >= 0 && p != MAP_FAILED);
  CHECK(!raw_bo_create(own, MIB(3), DRM_NPU_BO_CARD, &card));
  for (int i = 0; i < 3; i++) CHECK(!raw_ioctl(own, DRM_IOCTL_NPU_BO_USERPTR, &args));
  map = mmap(NULL, MIB(3), PROT_READ | PROT_WRITE, MAP_SHARED, own, (off_t)card.mmap_offset);
  CHECK(map != MAP_FAILED);
  args = (struct drm_npu_bo_userptr){.addr = (uintptr_t)map, .size = MIB(1) + 4096, .flags = DRM_NPU_USERPTR_BOUNCE};
  CHECK(raw_ioctl(own, DRM_IOCTL_NPU_BO_USERPTR, &args) == -EDQUOT);
  args.size = MIB(1);
  CHECK(!raw_ioctl(own, DRM_IOCTL_NPU_BO_USERPTR, &args));
  return 0;
}

static void memory_of_processes_is_not_counted_twice(void **state) {
  struct process process;

  (void)state;
  set_quota("memory", MIB(4));
  process_start(&process, ALICE, fd, pins_and_bounces);
  expect_account(ALICE, MIB(4), 0, 0);
  process_kill(&process);
  expect_account(ALICE, 0, 0, 0);
}

/* Contexts */

static int makes_two_contexts(int socket) {
  struct drm_npu_ctx_create a = {.priority = DRM_NPU_PRIORITY_NORMAL}, b = a, c = a;
  int own = try_open();

  (void)socket;
  CHECK(own >= 0 && !raw_ctx_create(own, &a));
  for (int i = 0; i < 20; i++) {
    CHECK(!raw_ctx_create(own, &b));
    CHECK(raw_ctx_create(own, &c) == -EDQUOT);
    CHECK(!raw_ctx_destroy(own, b.ctx_id));
  }
  CHECK(!raw_ctx_create(own, &b));
  return 0;
}

static int finds_no_context(int socket) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  int own = try_open();

  (void)socket;
  CHECK(own >= 0 && raw_ctx_create(own, &args) == -EDQUOT);
  return 0;
}

static void contexts_of_a_user_are_limited(void **state) {
  struct process process;
  uint32_t ctxs[3];

  (void)state;
  set_quota("contexts", 2);
  process_start(&process, ALICE, fd, makes_two_contexts);
  expect_account(ALICE, 0, 2, 0);
  as_user(ALICE, fd, finds_no_context);
  as_user(BOB, fd, makes_two_contexts);
  for (int i = 0; i < 3; i++) ctxs[i] = ctx_create(fd);
  for (int i = 0; i < 3; i++) ctx_destroy(fd, ctxs[i]);
  process_kill(&process);
  expect_account(ALICE, 0, 0, 0);
  as_user(ALICE, fd, makes_two_contexts);
  expect_account(ALICE, 0, 0, 0);
}

/* Jobs */

/* The same job several times, which takes a while or nothing. */
struct batch {
  struct job job;
  struct drm_npu_job jobs[8];
  struct drm_npu_submit args;
};

static int try_batch(int own, uint32_t ctx, const struct stream *stream, const struct bo *bo, uint32_t count,
                     struct batch *batch) {
  job_init(&batch->job);
  job_gdma(&batch->job, stream);
  if (bo) job_region(&batch->job, bo, RW);
  for (uint32_t i = 0; i < count; i++) batch->jobs[i] = batch->job.args;
  batch->args = (struct drm_npu_submit){
      .ctx_id = ctx, .jobs = (uintptr_t)batch->jobs, .job_count = count, .job_stride = sizeof(batch->jobs[0])};
  return raw_ioctl(own, DRM_IOCTL_NPU_SUBMIT, &batch->args);
}

/* The same through a ring: the result of the completion. */
static int try_ring(struct io_uring *ring, int own, struct batch *batch) {
  struct drm_npu_uring_submit entry = {.submit = (uintptr_t)&batch->args};
  struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
  struct io_uring_cqe *cqe;
  int res;

  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, own, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
  if (io_uring_submit(ring) != 1 || io_uring_wait_cqe(ring, &cqe)) return -EBADF;
  res = cqe->res;
  io_uring_cqe_seen(ring, cqe);
  return res;
}

/* Its first job stands still on a core, see starts_with_four_jobs(). */
static int fills_four_jobs(int socket) {
  struct stream quick, longer;
  struct drm_npu_wait wait;
  struct batch batch;
  struct io_uring ring;
  int own = try_open();
  uint32_t ctx, other;
  struct bo bo;

  CHECK(own >= 0 && !io_uring_queue_init(8, &ring, 0));
  ctx = ctx_create(own);
  other = ctx_create(own);
  bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bo);
  stream_create(own, 1, &longer);
  stream_slow_copy(&longer, 1, FOREVER_MS); /* until the process is killed */
  stream_create(own, 1, &quick);
  stream_nop(&quick, 0);

  CHECK(try_batch(own, ctx, &quick, NULL, 5, &batch) == -EDQUOT); /* all or nothing */
  CHECK(!try_batch(own, ctx, &quick, NULL, 1, &batch));
  CHECK(try_batch(own, ctx, &quick, NULL, 4, &batch) == -EDQUOT);
  CHECK(try_ring(&ring, own, &batch) == -EDQUOT);
  CHECK(!try_batch(own, ctx, &quick, NULL, 3, &batch));
  CHECK(batch.jobs[2].seqno == 4);                                  /* what was refused has no number */
  CHECK(try_batch(own, other, &quick, NULL, 1, &batch) == -EDQUOT); /* whatever the context */
  CHECK(try_ring(&ring, own, &batch) == -EDQUOT);
  CHECK(raw_wait(own, ctx, 1, 0, &wait) == -ETIME);
  CHECK(pauses(socket));
  CHECK(!raw_wait(own, ctx, 4, FOREVER_MS, &wait) && !wait.error);

  /* Who waits for four jobs can submit four more, at once. */
  for (uint64_t round = 1; round <= 50; round++) {
    CHECK(!try_batch(own, ctx, &quick, NULL, 4, &batch));
    CHECK(!raw_wait(own, ctx, 4 + 4 * round, FOREVER_MS, &wait) && !wait.error);
  }
  CHECK(try_ring(&ring, own, &batch) == 0);
  CHECK(!try_batch(own, ctx, &longer, &bo, 4, &batch)); /* and stays with them */
  return 0;
}

static int finds_no_job(int socket) {
  struct stream quick;
  struct batch batch;
  int own = try_open();

  (void)socket;
  CHECK(own >= 0);
  stream_create(own, 1, &quick);
  stream_nop(&quick, 0);
  CHECK(try_batch(own, ctx_create(own), &quick, NULL, 1, &batch) == -EDQUOT);
  return 0;
}

/* A user whose first job stands still until all that the limit refuses is refused. */
static void starts_with_four_jobs(struct process *process, unsigned uid) {
  set_parameter("timeout_ms", PATIENT_MS);
  hold_next_job();
  process_start(process, uid, fd, fills_four_jobs);
  wait_held();
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  assert_true(account_of(uid).jobs == 4);
  held_go_on();
  process_go_on(process);
}

static void unfinished_jobs_of_a_user_are_limited(void **state) {
  struct process process, third;
  uint32_t ctx = ctx_create(fd);

  (void)state;
  set_quota("jobs", 4);
  starts_with_four_jobs(&process, ALICE);
  assert_true(account_of(ALICE).jobs == 4);
  as_user(ALICE, fd, finds_no_job);
  starts_with_four_jobs(&third, BOB);
  /* Killed with jobs that have not begun. */
  process_kill(&process);
  set_quota("jobs", 1);
  run_nop(fd, ctx); /* on the core that has become free */
  process_kill(&third);
  expect_account(ALICE, 0, 0, 0);
  expect_account(BOB, 0, 0, 0);
  ctx_destroy(fd, ctx);
}

/* Address spaces and page tables */

static int opens_three_spaces(int socket) {
  struct bo bo;
  int own[3];

  (void)socket;
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 3; i++) CHECK((own[i] = try_open()) >= 0); /* a file alone has none yet */
    for (int i = 0; i < 2; i++) CHECK(!raw_bo_create(own[i], 4096, DRM_NPU_BO_SYSTEM, &bo));
    CHECK(raw_bo_create(own[2], 4096, DRM_NPU_BO_SYSTEM, &bo) == -EDQUOT);
    close(own[0]);
    CHECK(!raw_bo_create(own[2], 4096, DRM_NPU_BO_SYSTEM, &bo));
    close(own[1]);
    close(own[2]);
  }
  return 0;
}

static int needs_tables(int socket) {
  struct bo bos[256];
  int own = try_open(), made = 0, ret;

  (void)socket;
  CHECK(own >= 0);
  while (made < 256 && !(ret = raw_bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bos[made]))) made++;
  CHECK(ret == -EDQUOT && made >= 16);
  CHECK(!raw_gem_close(own, bos[0].handle));
  CHECK(!raw_bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bos[0])); /* its place in a table is free */
  return 0;
}

static void address_spaces_and_tables_are_limited(void **state) {
  struct bo bo;

  (void)state;
  set_quota("spaces", 2);
  as_user(ALICE, fd, opens_three_spaces);
  as_user(BOB, fd, opens_three_spaces);
  set_quota("spaces", 0);
  set_quota("tables", 8);
  as_user(ALICE, fd, needs_tables);
  as_user(BOB, fd, needs_tables);
  bo_create(fd, MIB(1), DRM_NPU_BO_SYSTEM, &bo);
  bo_destroy(fd, &bo);
}

/* Whoever has no privilege cannot give a job more time than the driver's limit. */
static int wants_a_long_job(int socket) {
  struct drm_npu_wait wait;
  struct stream slow;
  struct batch batch;
  int own = try_open();
  uint32_t ctx;
  struct bo bo;

  (void)socket;
  CHECK(own >= 0);
  ctx = ctx_create(own);
  bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bo);
  stream_create(own, 1, &slow);
  stream_slow_copy(&slow, 1, FOREVER_MS);
  job_init(&batch.job);
  job_gdma(&batch.job, &slow);
  job_region(&batch.job, &bo, RW);
  batch.job.args.budget = UINT64_MAX;
  CHECK(!raw_submit(own, ctx, &batch.job));
  CHECK(!raw_wait(own, ctx, batch.job.args.seqno, FOREVER_MS, &wait));
  CHECK(wait.error == -ETIME && wait.fault.status == NPU_STATUS_BUDGET);
  batch.job.args.budget = 1;
  CHECK(!raw_submit(own, ctx, &batch.job));
  CHECK(!raw_wait(own, ctx, batch.job.args.seqno, FOREVER_MS, &wait) && wait.error == -ETIME);
  return 0;
}

static void a_budget_is_not_beyond_the_limit(void **state) {
  (void)state;
  set_parameter("budget_ms", 1);
  as_user(ALICE, fd, wants_a_long_job);
  set_parameter("budget_ms", DEFAULT_BUDGET_MS);
}

/* Memory cgroups */

#define CGROUP_LIMIT MIB(48)

/* In the cgroup: buffers until there are no more. They end before the limit, and the process lives. */
static int joins_and_fills(int socket) {
  struct bo bo;
  int own, made = 0, ret = 0;

  (void)socket;
  CHECK(cgroup_join());
  own = try_open();
  CHECK(own >= 0);
  while (made < 64 && !(ret = raw_bo_create(own, MIB(4), DRM_NPU_BO_SYSTEM, &bo))) made++;
  CHECK(ret == -ENOMEM);
  CHECK(made >= 4 && MIB(4) * (uint64_t)made <= CGROUP_LIMIT);
  return 0;
}

static void a_memory_cgroup_bounds_buffers(void **state) {
  struct bo bo;

  (void)state;
  cgroup_make(CGROUP_LIMIT);
  as_user(0, fd, joins_and_fills);
  /* Nobody else is bound by it. */
  bo_create(fd, 2 * CGROUP_LIMIT, DRM_NPU_BO_SYSTEM, &bo);
  bo_destroy(fd, &bo);
  cgroup_end();
}

/*
 * The same page by page, so that nothing is left at the end, and with pages of the card, where all that there is to
 * charge is what the driver has to remember. The process has all of its own memory before: nobody gets any at the
 * limit.
 */
static int joins_and_fills_with_pages(int socket) {
  static const uint32_t places[] = {DRM_NPU_BO_SYSTEM, DRM_NPU_BO_CARD};
  struct bo bo;

  (void)socket;
  CHECK(cgroup_join() && !mlockall(MCL_CURRENT | MCL_FUTURE));
  for (int i = 0; i < 2; i++) {
    int own = try_open(), made = 0, refused = 0;

    CHECK(own >= 0);
    /* Now and then one more fits: what the kernel frees late is charged until then. */
    while (made < 1 << 20 && refused < 100) {
      int ret = raw_bo_create(own, 4096, places[i], &bo);

      CHECK(!ret || ret == -ENOMEM);
      if (ret)
        refused++;
      else
        made++;
    }
    CHECK(made > 256 && refused == 100);
    close(own);
  }
  return 0;
}

static void the_end_of_a_cgroups_memory_kills_nobody(void **state) {
  (void)state;
  cgroup_make(MIB(6));
  as_user(0, fd, joins_and_fills_with_pages);
  cgroup_end();
}

/* Whoever makes a buffer pays, as long as it lives, whoever has opened the node or keeps the buffer. */
static void memory_of_buffers_is_their_makers(void **state) {
  uint64_t size = MIB(16);
  struct bo bo = {0};
  int status;
  pid_t pid;

  (void)state;
  cgroup_make(MIB(64));
  pid = fork();
  if (!pid) _exit(cgroup_join() ? -raw_bo_create(fd, size, DRM_NPU_BO_SYSTEM, &bo) : 99);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_in_range(cgroup_memory(), size, size + MIB(4));
  for (uint32_t handle = 1; !bo.handle; handle++) {
    struct drm_npu_bo_info about = {.handle = handle};

    assert_true(handle < 1024);
    if (!raw_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &about) && about.size == size) bo.handle = handle;
  }
  assert_int_equal(raw_gem_close(fd, bo.handle), 0);
  cgroup_expect_below(size / 2);
  cgroup_end();
}

/* In the cgroup: as much of the card as it can have, which is more than the limit. Later a few pages of its own. */
static uint64_t card_bytes;

static int has_most_of_the_card(int socket) {
  uint64_t made = 0;
  struct bo bo;
  uint8_t *own;
  int file;

  CHECK(cgroup_join());
  file = try_open();
  CHECK(file >= 0);
  for (; made < card_bytes / 4 * 3; made += bo.size) CHECK(!raw_bo_create(file, MIB(4), DRM_NPU_BO_CARD, &bo));
  CHECK(pauses(socket));
  own = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(own != MAP_FAILED);
  memset(own, 1, MIB(1));
  return 0;
}

static void who_makes_room_is_not_brought_to_a_limit(void **state) {
  struct drm_npu_memory_info before, after;
  uint32_t ctx = ctx_create(fd);
  struct process process;
  struct stream stream;
  struct job job;
  struct bo bo;

  (void)state;
  cgroup_make(MIB(16));
  npu_memory_settled(fd, &before);
  card_bytes = before.card_total;
  process_start(&process, 0, -1, has_most_of_the_card);
  bo_create(fd, card_bytes / 4 * 3, DRM_NPU_BO_CARD, &bo);
  stream_create(fd, 1, &stream);
  stream_fill(&stream, 1, 0, 1, 1);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, RW);
  run_ok(fd, ctx, &job);
  npu_memory(fd, &after);
  assert_in_range(after.card_evicted, MIB(32), card_bytes); /* the other one's, and more than its limit */
  assert_in_range(cgroup_memory(), 0, MIB(12));
  process_go_on(&process); /* it lives */
  process_kill(&process);
  stream_destroy(fd, &stream);
  bo_destroy(fd, &bo);
  ctx_destroy(fd, ctx);
  cgroup_end();
}

static int cannot_change_limits(int socket) {
  static const char *const names[] = {"memory", "contexts", "jobs", "spaces", "tables"};
  char path[192];

  (void)socket;
  for (int i = 0; i < 5; i++) {
    int file;

    snprintf(path, sizeof(path), "%s/quota_%s", folder, names[i]);
    CHECK(open(path, O_WRONLY) < 0 && errno == EACCES);
    file = open(path, O_RDONLY);
    CHECK(file >= 0);
    close(file);
  }
  return 0;
}

static void only_root_sets_limits(void **state) {
  char path[192];
  int file;

  (void)state;
  as_user(ALICE, fd, cannot_change_limits);
  snprintf(path, sizeof(path), "%s/quota_memory", folder);
  file = open(path, O_WRONLY);
  assert_true(file >= 0);
  assert_int_equal(write(file, "many", 4), -1);
  assert_int_equal(errno, EINVAL);
  close(file);
}

int main(void) {
#define QUOTA_TEST(function) cmocka_unit_test_setup_teardown(function, no_quotas, no_quotas)
  const struct CMUnitTest tests[] = {
      QUOTA_TEST(memory_of_a_user_is_limited),           QUOTA_TEST(a_limit_can_change_at_any_time),
      QUOTA_TEST(shared_buffers_are_their_makers),       QUOTA_TEST(memory_of_processes_is_not_counted_twice),
      QUOTA_TEST(contexts_of_a_user_are_limited),        QUOTA_TEST(unfinished_jobs_of_a_user_are_limited),
      QUOTA_TEST(address_spaces_and_tables_are_limited), QUOTA_TEST(a_budget_is_not_beyond_the_limit),
      QUOTA_TEST(a_memory_cgroup_bounds_buffers),        QUOTA_TEST(the_end_of_a_cgroups_memory_kills_nobody),
      QUOTA_TEST(memory_of_buffers_is_their_makers),     QUOTA_TEST(only_root_sets_limits),
  };
  const struct CMUnitTest card_tests[] = {
      QUOTA_TEST(who_makes_room_is_not_brought_to_a_limit),
  };

  return run_with_card_tests("quota", tests, card_tests, set_up, tear_down);
}
