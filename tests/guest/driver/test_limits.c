/* SPDX-License-Identifier: MIT */
/*
 * Limits of a process: memory charged to its memory cgroup, locked memory, address spaces and contexts. None of them
 * affects other processes.
 */
#define _GNU_SOURCE /* unshare */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/cgroup.h"
#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/users.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static uint32_t most; /* files and contexts of the profile */

static int wants_a_long_job(int socket) {
  struct drm_npu_wait wait;
  struct stream slow;
  struct job job;
  int own = npu_open();
  uint32_t ctx;
  struct bo bo;

  (void)socket;
  ctx = ctx_create(own);
  bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bo);
  stream_create(own, 1, &slow);
  stream_slow_copy(&slow, 1, FOREVER_MS);
  job_init(&job);
  job_gdma(&job, &slow);
  job_region(&job, &bo, RW);
  job.args.budget = UINT64_MAX;
  CHECK(!raw_submit(own, ctx, &job));
  CHECK(!raw_wait(own, ctx, job.args.seqno, FOREVER_MS, &wait));
  CHECK(wait.error == -ETIME && wait.fault.status == NPU_STATUS_BUDGET);
  job.args.budget = 1;
  CHECK(!raw_submit(own, ctx, &job));
  CHECK(!raw_wait(own, ctx, job.args.seqno, FOREVER_MS, &wait) && wait.error == -ETIME);
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

/* In the cgroup: creates buffers until one fails. The limit is not exceeded, and the process survives. */
static int joins_and_fills(int socket) {
  struct bo bo;
  int own, made = 0, ret = 0;

  (void)socket;
  CHECK(cgroup_join());
  own = npu_open();
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
  /* Other cgroups are not affected. */
  bo_create(fd, 2 * CGROUP_LIMIT, DRM_NPU_BO_SYSTEM, &bo);
  bo_destroy(fd, &bo);
  cgroup_end();
}

/*
 * The same page by page, so that nothing is left at the end, and with pages of the card, where only the driver's own
 * memory is charged. The process allocates all of its own memory first: at the limit there is none.
 */
static int joins_and_fills_with_pages(int socket) {
  static const uint32_t places[] = {DRM_NPU_BO_SYSTEM, DRM_NPU_BO_CARD};
  struct bo bo;

  (void)socket;
  CHECK(cgroup_join() && !mlockall(MCL_CURRENT | MCL_FUTURE));
  for (int i = 0; i < 2; i++) {
    int own = npu_open(), made = 0, refused = 0;

    /* Occasionally one more fits: memory that the kernel frees late stays charged until then. */
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

/* A buffer is charged to its creator while it exists, also on a node opened by another process. */
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

/* Page tables are charged to the process that causes them. */
static int fills_page_tables(int socket) {
  struct bo bo;
  int own, made = 0, ret;

  (void)socket;
  CHECK(cgroup_join() && !mlockall(MCL_CURRENT | MCL_FUTURE));
  own = npu_open();
  while (!(ret = raw_bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bo))) made++;
  close(own); /* a message of this process is charged, too, and the kernel kills where it cannot be */
  CHECK(ret == -ENOMEM && made > 100);
  return 0;
}

static void page_tables_are_paid_by_their_cause(void **state) {
  struct bo bo;

  (void)state;
  cgroup_make(MIB(16));
  as_user(0, fd, fills_page_tables);
  bo_create(fd, MIB(5), DRM_NPU_BO_SYSTEM, &bo);
  bo_destroy(fd, &bo);
  cgroup_end();
}

/* A request far beyond the limit is refused without harm. */
static int wants_too_much(int socket) {
  struct bo bo;
  int own;

  (void)socket;
  CHECK(cgroup_join());
  own = npu_open();
  CHECK(raw_bo_create(own, 16 * CGROUP_LIMIT, DRM_NPU_BO_SYSTEM, &bo) == -ENOMEM);
  CHECK(!raw_bo_create(own, 4096, DRM_NPU_BO_SYSTEM, &bo));
  run_nop(own, ctx_create(own));
  return 0;
}

static void a_buffer_beyond_the_cgroup_is_refused(void **state) {
  (void)state;
  cgroup_make(CGROUP_LIMIT);
  as_user(0, fd, wants_too_much);
  cgroup_end();
}

/* Evicted card buffers are charged to their creator. */
static uint64_t card_bytes;

static int has_half_of_the_card(int socket) {
  struct bo bo;
  int file;

  CHECK(cgroup_join());
  file = npu_open();
  for (uint64_t made = 0; made < card_bytes / 2; made += bo.size)
    CHECK(!raw_bo_create(file, MIB(4), DRM_NPU_BO_CARD, &bo));
  CHECK(pauses(socket));
  return 0;
}

static void evicted_buffers_are_charged_to_their_maker(void **state) {
  struct drm_npu_memory_info before, after;
  struct process process;
  struct stream stream;
  struct job job;
  struct bo bo;

  (void)state;
  npu_memory_settled(fd, &before);
  card_bytes = before.card_total;
  cgroup_make(card_bytes);
  process_start(&process, 0, -1, has_half_of_the_card);
  bo_create(fd, card_bytes / 4 * 3, DRM_NPU_BO_CARD, &bo);
  stream_create(fd, 1, &stream);
  stream_fill(&stream, 1, 0, 1, 1);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, RW);
  run_ok(fd, ctx, &job);
  npu_memory(fd, &after);
  assert_in_range(after.card_evicted, card_bytes / 4, card_bytes);
  assert_in_range(cgroup_memory(), after.card_evicted, after.card_evicted + MIB(24));
  process_go_on(&process);
  process_kill(&process);
  stream_destroy(fd, &stream);
  bo_destroy(fd, &bo);
  cgroup_end();
}

/* More files with an address space than the chip has ASIDs. */
static void address_spaces_are_not_used_up(void **state) {
  uint32_t count = most < 1200 ? most : 1200, *ids = calloc(count, sizeof(*ids));
  int *files = calloc(count, sizeof(*files));
  struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};

  (void)state;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  for (uint32_t i = 0; i < count; i++) {
    files[i] = npu_open();
    ids[i] = ctx_create(files[i]);
    run_nop(files[i], ids[i]);
  }
  for (uint32_t i = 0; i < count; i += 7) run_nop(files[i], ids[i]);
  for (uint32_t i = 0; i < count; i++) close(files[i]);
  free(files);
  free(ids);
}

static void contexts_are_not_used_up(void **state) {
  uint32_t count = most, *ids = calloc(count, sizeof(*ids));

  (void)state;
  for (uint32_t i = 0; i < count; i++) ids[i] = ctx_create(fd);
  for (uint32_t i = 0; i < count; i += 13) run_nop(fd, ids[i]);
  for (uint32_t i = 0; i < count; i++) ctx_destroy(fd, ids[i]);
  free(ids);
}

/* Creates contexts until memory runs out: the last one works, and closing the file frees all. */
static int has_contexts_without_end(int socket) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  int own, made = 0, ret;

  CHECK(cgroup_join() && !mlockall(MCL_CURRENT | MCL_FUTURE));
  own = npu_open();
  while (!(ret = raw_ctx_create(own, &args))) made++;
  CHECK(ret == -ENOMEM && made > 1000);
  CHECK(!raw_ctx_destroy(own, args.ctx_id));
  CHECK(raw_ctx_destroy(own, args.ctx_id) == -ENOENT);
  close(own);
  CHECK(pauses(socket));
  own = npu_open();
  run_nop(own, ctx_create(own));
  return 0;
}

static void contexts_without_end_are_refused(void **state) {
  struct process process;

  (void)state;
  cgroup_make(CGROUP_LIMIT);
  process_start(&process, 0, fd, has_contexts_without_end);
  cgroup_expect_below(CGROUP_LIMIT / 2);
  process_go_on(&process);
  process_kill(&process);
  cgroup_end();
}

/* Users of a user namespace lock no more memory together than its owner may. */

#define LOCKED MIB(1)
#define IDS 6

static int pins(uint32_t id) {
  struct drm_npu_bo_userptr args = {.size = LOCKED / 2};
  void *memory = mmap(NULL, args.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int own;

  if (setresgid(id, id, id) || setresuid(id, id, id)) return 90;
  own = npu_open();
  args.addr = (uintptr_t)memory;
  return -raw_ioctl(own, DRM_IOCTL_NPU_BO_USERPTR, &args);
}

/* Runs each id in a separate process, which stays; returns the number that could pin. */
static int count_pins(void) {
  int pinned = 0;

  for (uint32_t id = 0; id < IDS; id++) {
    int ends[2], ret = 99;
    pid_t pid;

    if (pipe(ends)) return -1;
    pid = fork();
    if (!pid) {
      signal(SIGTERM, SIG_DFL);
      ret = pins(id);
      if (write(ends[1], &ret, sizeof(ret)) != sizeof(ret)) _exit(1);
      for (;;) pause();
    }
    if (read(ends[0], &ret, sizeof(ret)) != sizeof(ret)) return -1;
    if (!ret) pinned++;
    if (ret && ret != ENOMEM) return -ret;
  }
  return pinned;
}

static int pins_as_many_users(int socket) {
  int pinned;

  CHECK(!unshare(CLONE_NEWUSER));
  CHECK(pauses(socket)); /* until its ids are mapped */
  pinned = count_pins();
  CHECK(pinned == 2);
  kill(0, SIGTERM);
  return 0;
}

static void map_ids(pid_t pid) {
  static const char *const maps[] = {"uid_map", "gid_map"};
  char path[64], text[64];

  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, maps[i]);
    snprintf(text, sizeof(text), "0 100000 %d\n", IDS);
    write_file(path, text);
  }
}

static int leads_a_group(int socket) {
  struct rlimit limit = {.rlim_cur = LOCKED, .rlim_max = LOCKED};

  CHECK(!setpgid(0, 0) && !setrlimit(RLIMIT_MEMLOCK, &limit));
  signal(SIGTERM, SIG_IGN);
  return pins_as_many_users(socket);
}

static void user_namespaces_are_no_way_around_the_limit(void **state) {
  struct process process;

  (void)state;
  if (access("/proc/self/ns/user", F_OK)) {
    print_message("this kernel has no user namespaces\n");
    return;
  }
  process_start(&process, ALICE, fd, leads_a_group);
  map_ids(process.pid);
  process_go_on(&process);
  process_kill(&process);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_budget_is_not_beyond_the_limit),
      cmocka_unit_test(a_memory_cgroup_bounds_buffers),
      cmocka_unit_test(the_end_of_a_cgroups_memory_kills_nobody),
      cmocka_unit_test(memory_of_buffers_is_their_makers),
      cmocka_unit_test(page_tables_are_paid_by_their_cause),
      cmocka_unit_test(a_buffer_beyond_the_cgroup_is_refused),
      cmocka_unit_test(address_spaces_are_not_used_up),
      cmocka_unit_test(contexts_are_not_used_up),
      cmocka_unit_test(contexts_without_end_are_refused),
      cmocka_unit_test(user_namespaces_are_no_way_around_the_limit),
  };
  const struct CMUnitTest card_tests[] = {
      cmocka_unit_test(evicted_buffers_are_charged_to_their_maker),
  };

  most = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 300;
  return run_with_card_tests("limits", tests, card_tests, set_up, tear_down);
}
