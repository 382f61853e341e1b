/* SPDX-License-Identifier: MIT */
/* What a process leaves behind, and what it is told when it has no device. The test program starts itself again for
 * that. */
#include <bmlib_runtime.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/libnpu/groups.h"

/* Children are ordinary programs: they report by their exit status and standard error. */
#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, npu_last_error()); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

/* Never freed: still reachable for a leak checker. */
static npu_device *left_device;
static npu_bo *left_bo, *left_program;
static npu_context *left_context;

/* A context with a long job and much more on its way. */
static void start_much(void) {
  enum { COMMANDS = 4096, HALF = 4 << 20 };
  struct npu_cmd_copy *commands;
  void *ptr;

  CHECK(!npu_device_open(0, &left_device));
  CHECK(!npu_context_create(left_device, DRM_NPU_PRIORITY_NORMAL, 0, &left_context));
  CHECK(!npu_bo_create(left_device, 2 * HALF, DRM_NPU_BO_CARD, &left_bo));
  CHECK(!npu_bo_create(left_device, COMMANDS * NPU_CMD_BYTES, DRM_NPU_BO_SYSTEM, &left_program));
  CHECK(!npu_bo_map(left_program, &ptr));
  commands = ptr;
  for (int i = 0; i < COMMANDS; i++) {
    commands[i].opcode = NPU_OP_COPY;
    commands[i].src_region = commands[i].dst_region = 1;
    commands[i].dst_offset = HALF;
    commands[i].src_dtype = commands[i].dst_dtype = NPU_DTYPE_U8;
    for (int d = 0; d < 5; d++) commands[i].dims[d] = 1;
    commands[i].dims[5] = HALF;
    commands[i].src_stride[5] = commands[i].dst_stride[5] = 1;
  }
  CHECK(!npu_bo_sync(left_program, 0, COMMANDS * NPU_CMD_BYTES, DRM_NPU_SYNC_TO_DEVICE));
  struct npu_job_region regions[] = {{left_program, 0, COMMANDS * NPU_CMD_BYTES, DRM_NPU_REGION_READ, 0},
                                     {left_bo, 0, 2 * HALF, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE, 0}};
  struct drm_npu_stream stream = {.gdma_count = COMMANDS};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 2, .stream_count = 1};
  for (int i = 0; i < 5; i++) CHECK(!npu_submit(left_context, &job, 1, NULL));
}

static int child_leaves_everything(void) {
  start_much();
  return 0;
}

static int child_is_killed(void) {
  start_much();
  kill(getpid(), SIGKILL);
  return 1;
}

static int child_without_permission(void) {
  npu_device *device;

  CHECK(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
  CHECK(npu_device_count() == -EACCES);
  CHECK(strstr(npu_last_error(), "/dev/accel/accel") && strstr(npu_last_error(), "Permission denied"));
  CHECK(npu_device_open(0, &device) == -EACCES);
  return 0;
}

static int child_without_device(void) {
  npu_device *device;

  CHECK(npu_device_count() == 0);
  CHECK(npu_device_open(0, &device) == -ENODEV);
  CHECK(strstr(npu_last_error(), "no NPU device: there is no /dev/accel"));
  return 0;
}

static int child_with_small_card(void) {
  struct drm_npu_dev_info info;

  CHECK(!npu_device_open(0, &left_device));
  CHECK(!npu_device_info(left_device, &info));
  CHECK(info.cores == 1 && info.lmem_bytes == 65536 && info.ddr_bytes == 16 * MIB && info.queues == 3);
  npu_device_close(left_device);
  return 0;
}

/* Half of the host's memory for all cards, rounded down to a power of two, within limits. */
static int child_with_default_memory(void) {
  const uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  static const char *const cards[] = {"cards=1", "cards=4"};
  struct drm_npu_dev_info info;
  uint64_t bytes[2];

  for (int i = 0; i < 2; i++) {
    setenv("NPU_SIM", cards[i], 1);
    CHECK(!npu_device_open(0, &left_device));
    CHECK(!npu_device_info(left_device, &info));
    npu_device_close(left_device);
    bytes[i] = info.ddr_bytes;
    CHECK((bytes[i] & (bytes[i] - 1)) == 0 && bytes[i] >= 512 * MIB && bytes[i] <= 65536 * MIB);
    CHECK(bytes[i] == 512 * MIB || bytes[i] <= host / 2 / (i ? 4 : 1)); /* a control group may allow less */
  }
  CHECK(bytes[1] == 512 * MIB || bytes[1] == 65536 * MIB || bytes[1] * 4 == bytes[0] || bytes[0] == 65536 * MIB);
  return 0;
}

static int child_with_bad_options(void) {
  static const char *const bad[] = {"cores=99", "cores=",   "cores=two",    "lmem=1000", "ddr=1X",
                                    "speed=3",  "queues=0", "backend=fpga", "check=all"};
  npu_device *device;

  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    setenv("NPU_SIM", bad[i], 1);
    CHECK(npu_device_open(0, &device) < 0);
    CHECK(strstr(npu_last_error(), "cannot open NPU device 0 (sim): "));
  }
  return 0;
}

/* For auto_test.py: what comes on standard error by itself. */
static int child_opens_and_fails(void) {
  bm_handle_t first, second;

  CHECK(!bm_dev_request(&first, 0));
  CHECK(!bm_dev_request(&second, 0));
  bm_dev_free(second);
  bm_dev_free(first);
  bm_dev_free(first);
  return 0;
}

/* On a machine without a card, where nothing else says what to take. */
static int child_requires_a_card(void) {
  npu_device *device = NULL;
  bm_handle_t handle = NULL;

  bmlib_log_set_level(BMLIB_LOG_QUIET);
  if (npu_require_transport("drm") || npu_device_count()) return 1;
  if (npu_device_open(0, &device) != -ENODEV || device) return 2;
  if (!strstr(npu_last_error(), "there is no /dev/accel/accel")) return 3;
  if (bm_dev_request(&handle, 0) != BM_ERR_DEVNOTREADY || handle) return 4;
  return 0;
}

static const struct {
  const char *name;
  int (*run)(void);
} children[] = {
    {"leaves_everything", child_leaves_everything},     {"is_killed", child_is_killed},
    {"without_permission", child_without_permission},   {"without_device", child_without_device},
    {"with_small_card", child_with_small_card},         {"with_bad_options", child_with_bad_options},
    {"with_default_memory", child_with_default_memory}, {"open_and_fail", child_opens_and_fails},
    {"requires_a_card", child_requires_a_card},         {"forgets_a_flush", child_forgets_a_flush},
};

int run_child(const char *name) {
  for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++)
    if (!strcmp(children[i].name, name)) return children[i].run();
  return -1;
}

/* Starts a child with NPU_DEVICE and NPU_SIM (NULL: as they are) and returns its wait status. */
static int run(const char *name, const char *transport, const char *options) {
  int status = -1;
  const pid_t pid = fork();

  assert_true(pid >= 0);
  if (!pid) {
    if (transport) setenv("NPU_DEVICE", transport, 1);
    if (options) setenv("NPU_SIM", options, 1);
    execl("/proc/self/exe", "npu_libnpu_test", "--child", name, (char *)NULL);
    _exit(127);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

static void assert_child(const char *name, const char *transport, const char *options) {
  const int status = run(name, transport, options);

  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s: wait status %#x", name, status);
}

/* The card's memory is what it was, and jobs run. */
static void after(void (*trouble)(void)) {
  npu_device *device = must_open();
  npu_context *context = must_context(device);
  struct drm_npu_memory_info before, now;

  assert_works(device, context);
  MUST(npu_device_memory(device, &before));
  trouble();
  assert_works(device, context);
  for (int i = 0; i < 3000; i++) {
    MUST(npu_device_memory(device, &now));
    if (now.card_free >= before.card_free) break;
    usleep(10000);
  }
  /* More is no loss: memory of an earlier process may still have been on its way back before. */
  assert_true(now.card_free >= before.card_free);
  npu_context_destroy(context);
  npu_device_close(device);
}

static void leave(void) {
  for (int i = 0; i < 3; i++) assert_child("leaves_everything", NULL, NULL);
}

static void die(void) {
  for (int i = 0; i < 3; i++) {
    const int status = run("is_killed", NULL, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

static void a_process_ends_without_cleaning_up(void **state) {
  (void)state;
  after(leave);
}

static void a_process_is_killed_in_mid_job(void **state) {
  (void)state;
  after(die);
}

/* After fork(): the child has a device file of its own, and its exit() does not wait for threads that it does not have.
 */
static void a_forked_child_opens_its_own_device(void **state) {
  npu_device *device = must_open();
  npu_context *context = must_context(device);
  bm_handle_t handle = NULL;
  int status = -1;

  (void)state;
  assert_int_equal(bm_dev_request(&handle, 0), BM_SUCCESS);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    bm_handle_t own = NULL;
    bm_device_mem_t mem;

    /* What it does with its parent's objects fails, and what it ends stays: on the card the file is the same. */
    CHECK(npu_bo_create(device, 4096, DRM_NPU_BO_CARD, &left_bo) == -ESTALE);
    CHECK(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &left_context) == -ESTALE);
    CHECK(bm_malloc_device_byte(handle, &mem, 64) == BM_ERR_PARAM);
    CHECK(strstr(npu_last_error(), "of the process that this one was forked from"));
    npu_context_destroy(context);
    bm_dev_free(handle);
    npu_device_close(device);
    CHECK(!npu_device_open(0, &left_device));
    CHECK(left_device != device);
    CHECK(!npu_context_create(left_device, DRM_NPU_PRIORITY_NORMAL, 0, &left_context));
    CHECK(!bm_dev_request(&own, 0) && !bm_malloc_device_byte(own, &mem, 4096) && !bm_memset_device(own, 1, mem));
    exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_works(device, context);
  bm_dev_free(handle);
  npu_context_destroy(context);
  npu_device_close(device);
}

static void no_permission_is_said(void **state) {
  static const char node[] = "/dev/accel/accel0";
  struct stat before;

  (void)state;
  assert_int_equal(stat(node, &before), 0);
  assert_int_equal(chmod(node, 0600), 0);
  assert_child("without_permission", "drm", NULL);
  assert_child("without_permission", "auto", NULL); /* no way round it by the simulator */
  assert_int_equal(chmod(node, before.st_mode & 07777), 0);
}

static void no_device_is_said(void **state) {
  (void)state;
  assert_child("without_device", "drm", NULL);
}

static void the_simulated_card_has_the_wanted_size(void **state) {
  (void)state;
  assert_child("with_small_card", "sim", "cores=1,lmem=64K,ddr=16M,queues=3");
  assert_child("with_default_memory", "sim", NULL);
}

static void bad_options_of_the_simulator_are_named(void **state) {
  (void)state;
  assert_child("with_bad_options", "sim", NULL);
}

/* NPU_CACHE=abort; what it reports without ending the process is in cache_test.c. */
static void the_first_report_of_the_cache_ends_the_process(void **state) {
  int status;

  (void)state;
  assert_null(getenv("NPU_CACHE")); /* this group is not run with another value */
  setenv("NPU_CACHE", "abort", 1);
  status = run("forgets_a_flush", "sim", NULL);
  unsetenv("NPU_CACHE");
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) fail_msg("wait status %#x", status);
}

int process_tests(void) {
  const struct CMUnitTest everywhere[] = {
      cmocka_unit_test(a_process_ends_without_cleaning_up),
      cmocka_unit_test(a_process_is_killed_in_mid_job),
      cmocka_unit_test(a_forked_child_opens_its_own_device),
  };
  /* What can be seen depends on whether this machine has a card. */
  const struct CMUnitTest with_card[] = {
      cmocka_unit_test(no_permission_is_said),
  };
  const struct CMUnitTest without_card[] = {
      cmocka_unit_test(no_device_is_said),
      cmocka_unit_test(the_simulated_card_has_the_wanted_size),
      cmocka_unit_test(bad_options_of_the_simulator_are_named),
      cmocka_unit_test(the_first_report_of_the_cache_ends_the_process),
  };
  const int failures = cmocka_run_group_tests_name("process", everywhere, NULL, NULL);

  return failures + (access("/dev/accel/accel0", F_OK)
                         ? cmocka_run_group_tests_name("process, no card", without_card, NULL, NULL)
                         : cmocka_run_group_tests_name("process, card", with_card, NULL, NULL));
}
