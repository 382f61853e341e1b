/* SPDX-License-Identifier: MIT */
/* Device queries: sizes, contents, zeroed rest, wrong arguments. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"

static int fd;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  return close(fd);
}

static int query(uint32_t type, uint32_t size, void *pointer, uint32_t *out) {
  struct drm_npu_dev_query args = {.type = type, .size = size, .pointer = (uintptr_t)pointer};
  int ret = raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args);

  if (out) *out = args.size;
  return ret;
}

static void version_is_1_0(void **state) {
  struct drm_version version = {0};

  (void)state;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VERSION, &version), 0);
  assert_int_equal(version.version_major, 1);
  assert_true(version.version_minor >= 0);
}

static void null_pointer_asks_for_the_size(void **state) {
  uint32_t size;

  (void)state;
  assert_int_equal(query(DRM_NPU_QUERY_DEV, 0, NULL, &size), 0);
  assert_int_equal(size, sizeof(struct drm_npu_dev_info));
  assert_int_equal(query(DRM_NPU_QUERY_MEMORY, 0, NULL, &size), 0);
  assert_int_equal(size, sizeof(struct drm_npu_memory_info));
  assert_int_equal(query(DRM_NPU_QUERY_STATUS, 0, NULL, &size), 0);
  assert_int_equal(size, sizeof(struct drm_npu_status_info));
  assert_int_equal(query(DRM_NPU_QUERY_TIME, 0, NULL, &size), 0);
  assert_int_equal(size, sizeof(struct drm_npu_time_info));
}

static void info_describes_the_chip(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  npu_info(fd, &info);
  assert_int_equal(info.chip_id, NPU_CHIP_ID);
  assert_int_equal(info.hw_version, NPU_HW_VERSION);
  assert_int_equal(info.isa_version, NPU_ISA_VERSION);
  assert_in_range(info.cores, 1, NPU_MAX_CORES);
  assert_in_range(info.queues, 1, NPU_MAX_QUEUES);
  assert_true(info.lmem_bytes && info.lmem_bytes % 4096 == 0);
  if (is_card(fd))
    assert_true(info.ddr_bytes >= MIB(16));
  else
    assert_int_equal(info.ddr_bytes, 0);
  assert_true(info.va_start < info.va_end && info.va_end <= 1ull << NPU_VA_BITS);
  assert_true(info.clock_khz > 0);
  assert_int_equal(info.max_regions, NPU_MAX_REGIONS);
  assert_int_equal(info.max_jobs, 64);
  assert_int_equal(info.max_in_flight, 64);
}

static void status_shows_sensors(void **state) {
  struct drm_npu_status_info info;

  (void)state;
  assert_int_equal(query(DRM_NPU_QUERY_STATUS, sizeof(info), &info, NULL), 0);
  assert_in_range(info.temperature_mc, 1000, 150000);
  assert_true(info.voltage_mv > 0);
  assert_true(info.clock_khz > 0);
}

static uint64_t monotonic_ns(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void both_clocks_are_looked_at_together(void **state) {
  struct drm_npu_time_info info, last = {0};

  (void)state;
  for (int i = 0; i < 100; i++) {
    const uint64_t before = monotonic_ns();

    npu_time(fd, &info);
    assert_in_range(info.monotonic_ns, before, monotonic_ns());
    assert_true(info.window_ns / 2 <= info.monotonic_ns - before);
    assert_true(info.card_ns > last.card_ns);
    last = info;
  }
}

static void short_answers_are_cut_and_long_ones_zeroed(void **state) {
  struct drm_npu_dev_info info;
  uint8_t room[sizeof(info) + 64];
  uint32_t size;

  (void)state;
  npu_info(fd, &info);

  memset(room, 0xee, sizeof(room));
  assert_int_equal(query(DRM_NPU_QUERY_DEV, 12, room, &size), 0);
  assert_int_equal(size, sizeof(info));
  assert_memory_equal(room, &info, 12);
  for (size_t i = 12; i < sizeof(room); i++) assert_int_equal(room[i], 0xee);

  assert_int_equal(query(DRM_NPU_QUERY_DEV, sizeof(room), room, &size), 0);
  assert_int_equal(size, sizeof(info));
  assert_memory_equal(room, &info, sizeof(info));
  for (size_t i = sizeof(info); i < sizeof(room); i++) assert_int_equal(room[i], 0);
}

static void wrong_queries_are_refused(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  assert_int_equal(query(DRM_NPU_QUERY_WATCH + 1, sizeof(info), &info, NULL), -EINVAL);
  assert_int_equal(query(~0u, sizeof(info), &info, NULL), -EINVAL);
  assert_int_equal(query(DRM_NPU_QUERY_DEV, sizeof(info), (void *)8, NULL), -EFAULT);
}

static void unknown_ioctls_are_refused(void **state) {
  struct drm_npu_wait args = {0};

  (void)state;
  assert_true(raw_ioctl(fd, DRM_IOWR(DRM_COMMAND_BASE + 0x0b, struct drm_npu_wait), &args) < 0);
  assert_true(raw_ioctl(fd, DRM_IOWR(DRM_COMMAND_BASE + 0x5f, struct drm_npu_wait), &args) < 0);
}

/* DRM's own code for these crashes on an accel node, so the driver must refuse them. */
static void calls_for_display_masters_are_refused(void **state) {
  struct drm_unique unique = {0};
  struct drm_auth auth = {0};

  (void)state;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_GET_MAGIC, &auth), -EACCES);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_GET_UNIQUE, &unique), -EACCES);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_AUTH_MAGIC, &auth), -EACCES);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SET_MASTER, NULL), -EACCES);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_DROP_MASTER, NULL), -EACCES);
}

static void expect_keys(const char *text, const char *const keys[]) {
  for (; *keys; keys++)
    if (!strstr(text, *keys)) fail_msg("fdinfo lacks '%s':\n%s", *keys, text);
}

static void fdinfo_names_driver_and_memory(void **state) {
  static const char *const keys[] = {"drm-driver:\tqnpu", "drm-engine-core0:", NULL};
  static const char *const of_card[] = {"drm-pdev:", "drm-total-card:\t4 KiB", "drm-total-system:\t8 KiB", NULL};
  static const char *const of_block[] = {"drm-total-card:\t0\n", "drm-total-system:\t12 KiB", NULL};
  char path[64], text[4096];
  struct bo card, system;
  FILE *file;
  size_t n;

  (void)state;
  bo_create(fd, 4096, DRM_NPU_BO_CARD, &card);
  bo_create(fd, 8192, DRM_NPU_BO_SYSTEM, &system);
  snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  file = fopen(path, "r");
  assert_non_null(file);
  n = fread(text, 1, sizeof(text) - 1, file);
  text[n] = 0;
  fclose(file);
  expect_keys(text, keys);
  expect_keys(text, is_card(fd) ? of_card : of_block);
  bo_destroy(fd, &card);
  bo_destroy(fd, &system);
}

static void hwmon_shows_temperature(void **state) {
  char path[96], name[32];
  long value = 0;

  (void)state;
  for (int i = 0; i < 16; i++) {
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/hwmon/hwmon%d/name", i);
    file = fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%31s", name) != 1) name[0] = 0;
    fclose(file);
    if (strcmp(name, "qnpu")) continue;

    snprintf(path, sizeof(path), "/sys/class/hwmon/hwmon%d/temp1_input", i);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &value), 1);
    fclose(file);
    break;
  }
  assert_in_range(value, 1000, 150000);
}

/* Warnings and errors that the kernel logs when the driver is loaded; the guide explains each of them
 * (docs/guide/driver-work.md). */
static const struct {
  const char *text, *followed_by;
} explained[] = {
    {"loading out-of-tree module taints kernel", NULL},
    {"module verification failed", NULL},
    {"Error finding interconnect paths", "without CONFIG_OF a message about interconnect paths"},
};

static bool is_explained(const char *log, const char *line) {
  for (size_t i = 0; i < sizeof(explained) / sizeof(explained[0]); i++)
    if (strstr(line, explained[i].text)) return !explained[i].followed_by || strstr(log, explained[i].followed_by);
  return false;
}

/* The last line of the log that contains the text, or NULL. */
static char *last_of(char *log, const char *text) {
  char *found = NULL;

  for (char *at = strstr(log, text); at; at = strstr(at + 1, text)) found = at;
  return found;
}

/*
 * From the last load that modules.sh has marked, or from the boot, to the registration of the card. A log without its
 * start may begin with messages of other suites.
 */
static void messages_at_load_are_explained(void **state) {
  enum { READ_ALL = 3, ROOM = 1 << 20, WARNING = 4 };
  char *log = calloc(1, ROOM), *lines = calloc(1, ROOM), *start, *rest, *line;
  int length;

  (void)state;
  assert_non_null(log);
  assert_non_null(lines);
  length = klogctl(READ_ALL, log, ROOM - 1);
  assert_true(length > 0);
  memcpy(lines, log, (size_t)length);
  start = last_of(lines, "npu-test: load\n");
  if (!start) start = strstr(lines, "Linux version ");
  if (!start) fail_msg("the log has neither a marked load nor the board's start; it begins: %.200s", lines);
  strtok_r(start, "\n", &rest);
  while ((line = strtok_r(NULL, "\n", &rest))) {
    int level = 7;

    if (strstr(line, "Initialized qnpu ")) break;
    if (sscanf(line, "<%d>", &level) != 1 || level % 8 > WARNING) continue;
    /* Reports on pages that an earlier program gave back, and the kernel's count of reports that it left out. Reports
     * on the driver's own memory fail the test. */
    if (strstr(line, "*ERROR* caches: ") && strstr(line, ": unknown memory at ")) continue;
    if (strstr(line, "qnpu_cache_log: ") && strstr(line, " callbacks suppressed")) continue;
    if (strstr(line, " qnpu") && !is_explained(log, line)) fail_msg("at load: %s", line);
  }
  assert_non_null(line); /* the card has been registered */
  free(lines);
  free(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_at_load_are_explained),
      cmocka_unit_test(version_is_1_0),
      cmocka_unit_test(null_pointer_asks_for_the_size),
      cmocka_unit_test(info_describes_the_chip),
      cmocka_unit_test(status_shows_sensors),
      cmocka_unit_test(both_clocks_are_looked_at_together),
      cmocka_unit_test(short_answers_are_cut_and_long_ones_zeroed),
      cmocka_unit_test(wrong_queries_are_refused),
      cmocka_unit_test(unknown_ioctls_are_refused),
      cmocka_unit_test(calls_for_display_masters_are_refused),
      cmocka_unit_test(fdinfo_names_driver_and_memory),
      cmocka_unit_test(hwmon_shows_temperature),
  };

  return cmocka_run_group_tests_name("device", tests, set_up, tear_down);
}
