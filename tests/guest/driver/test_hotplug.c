/* SPDX-License-Identifier: MIT */
/* The card disappears while it works: pulled, dead, reset, or cut off by a bus error. Argument: rounds (3). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/cgroup.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/users.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define NODE "/dev/accel/accel0"
#define USERS 4

static int rounds = 3;

static int set_up(void **state) {
  uint32_t ctx;
  int fd;

  (void)state;
  faults_clear();
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  return close(fd);
}

/* A file with jobs in flight and mapped memory. */
struct user {
  int fd;
  uint32_t ctx;
  uint64_t first, last;
  struct bo card;
  struct stream stream; /* stream of the first job, and of the others */
};

/* Duration of the first job, and of each of the others. */
static void user_start(struct user *user, uint32_t first_ms, uint32_t others_ms) {
  struct job job;

  user->fd = npu_open();
  user->ctx = ctx_create(user->fd);
  bo_create_mapped(user->fd, MIB(3), DRM_NPU_BO_CARD, &user->card);
  memset(user->card.map, 0x5a, 4096);
  stream_create(user->fd, 2, &user->stream);
  stream_slow_copy(&user->stream, 1, first_ms);
  stream_slow_copy(&user->stream, 1, others_ms);
  job_init(&job);
  job_gdma(&job, &user->stream);
  job_region(&job, &user->card, RW);
  job.stream.gdma_count = 1;
  job.args.budget = UINT64_MAX;
  user->first = submit(user->fd, user->ctx, &job);
  job.stream.gdma_offset = NPU_CMD_BYTES;
  for (int i = 0; i < 8; i++) user->last = submit(user->fd, user->ctx, &job);
}

static void user_end(struct user *user) {
  bo_unmap(&user->card);
  bo_unmap(&user->stream.bo);
  close(user->fd);
}

/* Endless jobs on all cores. */
static void users_start(struct user users[USERS]) {
  for (int i = 0; i < USERS; i++) user_start(&users[i], FOREVER_MS, FOREVER_MS);
  wait_cores_busy(users[0].fd);
}

static struct drm_npu_status_info status(void) {
  struct drm_npu_status_info info;
  int fd = npu_open();

  npu_status(fd, &info);
  close(fd);
  return info;
}

/*
 * Each core has an endless job, and more contexts have finite jobs that wait. An event of the card must hit only the
 * jobs on cores. Returns the number of these, one per core.
 */
static uint32_t users_start_blocked(struct user users[USERS]) {
  struct drm_npu_dev_info info;
  int fd = npu_open();

  npu_info(fd, &info);
  close(fd);
  assert_true(info.cores < USERS);
  for (uint32_t i = 0; i < info.cores; i++) user_start(&users[i], FOREVER_MS, 10);
  wait_cores_busy(users[0].fd);
  for (uint32_t i = info.cores; i < USERS; i++) user_start(&users[i], 10, 10);
  return info.cores;
}

/* All calls and jobs fail, without hangs or kills. */
static void users_have_lost(struct user users[USERS]) {
  for (int i = 0; i < USERS; i++) {
    struct drm_npu_dev_query query = {.type = DRM_NPU_QUERY_DEV};
    struct drm_npu_wait wait;

    assert_int_equal(raw_ioctl(users[i].fd, DRM_IOCTL_NPU_DEV_QUERY, &query), -ENODEV);
    assert_int_equal(raw_wait(users[i].fd, users[i].ctx, users[i].last, 0, &wait), -ENODEV);
    *(volatile uint8_t *)users[i].card.map = 1;
    user_end(&users[i]);
  }
}

static void wait_node(bool there) {
  for (int tries = 0; tries < 3000; tries++) {
    if (!access(NODE, F_OK) == there) return;
    usleep(10000);
  }
  fail_msg("%s is %s", NODE, there ? "not coming back" : "still there");
}

static void pull(void) { machine_pull(0); }

static void plug(void) {
  machine_plug(0);
  /* The node exists a moment before it can be opened. */
  wait_node(true);
  for (int tries = 0, fd = -1; tries < 500; tries++) {
    if (npu_try_open(&fd)) {
      close(fd);
      break;
    }
    usleep(10000);
  }
}

static void works(void) {
  int fd = npu_open();

  run_nop(fd, ctx_create(fd));
  close(fd);
}

static void pulled_under_load(void **state) {
  struct user users[USERS];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users);
    pull();
    wait_node(false);
    users_have_lost(users);
    plug();
    works();
  }
}

/* Surprise removal: the card is gone before any software is notified. */
static void dead_then_pulled(void **state) {
  struct user users[USERS];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users);
    fault_set("dead", 1);
    if (i & 1) usleep(2000000);
    pull();
    wait_node(false);
    users_have_lost(users);
    plug();
    works();
  }
}

static void unbound_with_everything_open(void **state) {
  struct user users[USERS];
  char address[32];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users);
    snprintf(address, sizeof(address), "%s", card_address());
    card_unbind(address);
    users_have_lost(users);
    card_bind(address);
    works();
  }
}

/* io_uring requests that wait for their jobs end, too, and new ones are refused. */
#define REQUESTS 6

static struct drm_npu_submit requests[REQUESTS];
static struct io_uring ring;

static void ring_push(int fd, int number) {
  struct drm_npu_uring_submit entry = {.submit = (uintptr_t)&requests[number]};
  struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  sqe->user_data = (uint64_t)number;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
  assert_int_equal(io_uring_submit(&ring), 1);
}

static int ring_result(void) {
  struct __kernel_timespec limit = {.tv_sec = FOREVER_MS / 1000};
  struct io_uring_cqe *cqe;
  int res, ret = io_uring_wait_cqe_timeout(&ring, &cqe, &limit);

  if (ret) fail_msg("no completion: %s", strerror(-ret));
  res = cqe->res;
  io_uring_cqe_seen(&ring, cqe);
  return res;
}

/* Endless jobs, each submitted by a request. */
static void requests_start(struct user *user, struct job jobs[REQUESTS]) {
  assert_int_equal(io_uring_queue_init(REQUESTS, &ring, 0), 0);
  user_start(user, FOREVER_MS, FOREVER_MS);
  for (int i = 0; i < REQUESTS; i++) {
    job_init(&jobs[i]);
    job_gdma(&jobs[i], &user->stream);
    job_region(&jobs[i], &user->card, RW);
    jobs[i].args.budget = UINT64_MAX;
    requests[i] = (struct drm_npu_submit){
        .ctx_id = user->ctx, .jobs = (uintptr_t)&jobs[i].args, .job_count = 1, .job_stride = sizeof(jobs[i].args)};
    ring_push(user->fd, i);
  }
}

static void requests_have_lost(struct user *user) {
  struct io_uring_cqe *cqe;

  for (int i = 0; i < REQUESTS; i++) assert_int_equal(ring_result(), -ENODEV);
  ring_push(user->fd, 0);
  assert_int_equal(ring_result(), -ENODEV);
  assert_int_equal(io_uring_peek_cqe(&ring, &cqe), -EAGAIN);
  io_uring_queue_exit(&ring);
  user_end(user);
}

/* Jobs on a core are lost: the first job of the first `lost` users. The others run; memory keeps its contents. */
static void users_go_on(struct user users[USERS], uint32_t lost) {
  for (uint32_t i = 0; i < USERS; i++) {
    struct drm_npu_ctx_query query;
    struct drm_npu_wait wait;

    for (uint64_t seqno = users[i].first; seqno <= users[i].last; seqno++) {
      wait_result(users[i].fd, users[i].ctx, seqno, &wait);
      assert_int_equal(wait.error, i < lost && seqno == users[i].first ? -ECANCELED : 0);
    }
    ctx_query(users[i].fd, users[i].ctx, &query);
    assert_int_equal(query.errors, 0);
    assert_int_equal(query.victims, i < lost ? 1 : 0);
    assert_int_equal(users[i].card.map[100], 0x5a);
    user_end(&users[i]);
  }
}

static void reset_under_load(void **state) {
  struct user users[USERS];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    uint32_t lost = users_start_blocked(users);

    card_reset(users[0].fd);
    users_go_on(users, lost);
    works();
  }
}

static void inject(const char *error) {
  char text[256];

  snprintf(text, sizeof(text), "\"command-line\": \"pcie_aer_inject_error %s\"", error);
  machine_command("human-monitor-command", text, NULL, 0);
}

static void an_error_of_the_bus(const char *error) {
  uint32_t had = status().resets, lost;
  struct user users[USERS];

  lost = users_start_blocked(users);
  inject(error);
  for (int tries = 0; status().resets == had && tries < 3000; tries++) usleep(10000);
  assert_int_equal(status().resets, had + 1);
  users_go_on(users, lost);
  works();
}

static void errors_of_the_bus(void **state) {
  (void)state;
  for (int i = 0; i < rounds; i++) {
    an_error_of_the_bus("npu0 COMP_TIME"); /* not fatal */
    an_error_of_the_bus("npu0 MALF_TLP");  /* fatal: the link is reset */
  }
  inject("-c npu0 BAD_TLP"); /* corrected: no effect */
  works();
}

/* May the card reach memory? */
static bool is_bus_master(const char *address) {
  enum { COMMAND = 4, MASTER = 4 };
  uint8_t config[64];
  char path[64];
  FILE *file;

  snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", address);
  file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fread(config, 1, sizeof(config), file), sizeof(config));
  fclose(file);
  return config[COMMAND] & MASTER;
}

/* Linux resets no link after an error that is not fatal. The card's job is still there, and the card stays cut off. */
static void an_error_of_a_card_that_ignores_resets(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  char address[32];
  uint64_t seqno;
  struct job job;
  uint32_t ctx;
  int fd, other;

  (void)state;
  snprintf(address, sizeof(address), "%s", card_address());
  fd = npu_open();
  ctx = ctx_create(fd);
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  fault_set("hang-after", 0);
  fault_set("stuck-device", 1);
  seqno = submit(fd, ctx, &job);
  fault_wait("stuck-device");
  assert_true(is_bus_master(address));
  inject("npu0 COMP_TIME");
  for (int tries = 0; is_bus_master(address); tries++) {
    assert_true(tries < 3000);
    usleep(10000);
  }
  /* While the driver tries to reset the card. */
  assert_int_equal(raw_wait(fd, ctx, seqno, 0, &wait), -ETIME);
  while (raw_wait(fd, ctx, seqno, 0, &wait) == -ETIME) {
    assert_false(is_bus_master(address));
    usleep(10000);
  }
  assert_int_equal(raw_wait(fd, ctx, seqno, 0, &wait), -ENODEV);
  faults_clear();
  for (int tries = 0; !npu_try_open(&other); tries++) {
    assert_true(tries < 3000);
    usleep(10000);
  }
  close(other);
  bo_unmap(&stream.bo);
  close(fd);
  works();
}

static void requests_of_io_uring_end_with_a_pulled_card(void **state) {
  struct job jobs[REQUESTS];
  struct user user;

  (void)state;
  for (int i = 0; i < rounds; i++) {
    requests_start(&user, jobs);
    pull();
    wait_node(false);
    requests_have_lost(&user);
    plug();
    works();
  }
}

static void requests_of_io_uring_end_with_the_driver(void **state) {
  struct job jobs[REQUESTS];
  struct user user;
  char address[32];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    requests_start(&user, jobs);
    snprintf(address, sizeof(address), "%s", card_address());
    card_unbind(address);
    requests_have_lost(&user);
    card_bind(address);
    works();

    /* The ring is closed before the removal: each request completes once. */
    requests_start(&user, jobs);
    io_uring_queue_exit(&ring);
    card_unbind(address);
    user_end(&user);
    card_bind(address);
    works();
  }
}

static long module_users(void) {
  FILE *file = fopen("/sys/module/qnpu/refcnt", "r");
  long count;

  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld", &count), 1);
  fclose(file);
  return count;
}

static void wait_module_users(long users) {
  for (int tries = 0; module_users() != users; tries++) {
    if (tries > 1000) fail_msg("the module has %ld users instead of %ld", module_users(), users);
    usleep(10000);
  }
}

/*
 * The device does not wait for a job that is stuck for the whole test. The fence of the job, which other processes
 * hold, and that of the next job report their end. They keep the module loaded, without a device or an open file, until
 * they are released.
 */
static void unbound_while_a_job_stands_still(void **state) {
  struct drm_syncobj_handle out[2];
  struct stream stream;
  char address[32];
  long users;
  int file, own;

  (void)state;
  for (int i = 0; i < rounds; i++) {
    uint32_t id;

    users = module_users();

    file = npu_open();
    own = npu_open();
    id = ctx_create_patient(file, NULL);
    stream_create(file, 1, &stream);
    stream_nop(&stream, 0);
    for (int n = 0; n < 2; n++) {
      struct job job;

      job_init(&job);
      job_gdma(&job, &stream);
      out[n] = (struct drm_syncobj_handle){
          .handle = syncobj_create(file), .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1};
      job_out(&job, out[n].handle, 0);
      n ? submit(file, id, &job) : submit_held(file, id, &job);
      assert_int_equal(raw_ioctl(file, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &out[n]), 0);
    }
    snprintf(address, sizeof(address), "%s", card_address());
    card_unbind(address);
    bo_unmap(&stream.bo);
    close(file);
    close(own);
    wait_module_users(users + 2);
    assert_int_equal(syscall(SYS_delete_module, "qnpu", O_NONBLOCK), -1);
    for (int n = 0; n < 2; n++) {
      struct sync_fence_info fence = {0};
      struct sync_file_info info = {.num_fences = 1, .sync_fence_info = (uintptr_t)&fence};

      assert_int_equal(raw_ioctl(out[n].fd, SYNC_IOC_FILE_INFO, &info), 0);
      assert_int_equal(info.status, -ENODEV);
      close(out[n].fd);
    }
    wait_module_users(users);
    held_go_on();
    card_bind(address);
    works();
  }
}

/* Buffers that are only referenced by dma-bufs when their card is removed. */
#define LEFT 512
#define LEFT_BYTES KIB(64)

static bool is_nobodys(volatile uint8_t *map) {
  for (uint64_t at = 0; at < LEFT_BYTES; at += 512)
    if (map[at]) return false;
  map[0] = 1; /* no effect, but no harm */
  return true;
}

static int keeps_dma_bufs(int socket) {
  struct rlimit files = {2 * LEFT, 2 * LEFT};
  static uint8_t *maps[LEFT];
  static int bufs[LEFT];
  int file;

  CHECK(cgroup_join() && !setrlimit(RLIMIT_NOFILE, &files));
  CHECK(npu_try_open(&file));
  for (int i = 0; i < LEFT; i++) {
    struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR};
    struct bo bo;

    CHECK(!raw_bo_create(file, LEFT_BYTES, i % 2 ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM, &bo));
    out.handle = bo.handle;
    CHECK(!raw_ioctl(file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out));
    bufs[i] = out.fd;
    maps[i] = mmap(NULL, LEFT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bufs[i], 0);
    CHECK(maps[i] != MAP_FAILED);
    memset(maps[i], 0x5a, LEFT_BYTES);
    CHECK(!raw_gem_close(file, bo.handle));
  }
  close(file);
  CHECK(pauses(socket)); /* until the card is gone */
  for (int i = 0; i < LEFT; i++) {
    struct dma_buf_sync sync = {.flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW};
    uint8_t *map = mmap(NULL, LEFT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bufs[i], 0);
    int ret = raw_ioctl(bufs[i], DMA_BUF_IOCTL_SYNC, &sync);

    CHECK(is_nobodys(maps[i]));
    CHECK(map != MAP_FAILED && map[0] == 1); /* shared by all mappings of this buffer only */
    CHECK(!ret || ret == -ENODEV);
    munmap(map, LEFT_BYTES);
  }
  CHECK(pauses(socket)); /* until a new card is there, where they are foreign */
  CHECK(npu_try_open(&file));
  for (int i = 0; i < LEFT; i++) {
    struct drm_prime_handle in = {.fd = bufs[i]};

    CHECK(raw_ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in) == -ENODEV);
    munmap(maps[i], LEFT_BYTES);
    close(bufs[i]);
  }
  close(file);
  return 0;
}

/* The remains of a buffer show no contents any more, and are freed with the last reference. */
static void dma_bufs_outlive_their_card(void **state) {
  struct process process;
  char address[32];
  long users;

  (void)state;
  users = module_users();
  cgroup_make(LEFT * LEFT_BYTES * 4);
  process_start(&process, 0, -1, keeps_dma_bufs);
  assert_true(module_users() > users);
  snprintf(address, sizeof(address), "%s", card_address());
  card_unbind(address);
  process_go_on(&process);
  assert_int_equal(try_card_bind(address), 0);
  process_go_on(&process);
  process_kill(&process);
  cgroup_expect_below(LEFT * 4096 / 2); /* less than a page each */
  cgroup_end();
  wait_module_users(users);
  /* The node has its old name again. */
  card_unbind(address);
  card_bind(address);
  works();
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reset_under_load),
      cmocka_unit_test(unbound_with_everything_open),
      cmocka_unit_test(unbound_while_a_job_stands_still),
      cmocka_unit_test(dma_bufs_outlive_their_card),
      cmocka_unit_test(requests_of_io_uring_end_with_the_driver),
  };
  const struct CMUnitTest card_tests[] = {
      cmocka_unit_test(errors_of_the_bus),
      cmocka_unit_test(an_error_of_a_card_that_ignores_resets),
      cmocka_unit_test(pulled_under_load),
      cmocka_unit_test(dead_then_pulled),
      cmocka_unit_test(requests_of_io_uring_end_with_a_pulled_card),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return run_with_card_tests("hotplug", tests, card_tests, set_up, NULL);
}
