/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/alloc_fail.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const kinds[] = {"failslab", "fail_page_alloc"};

static void put(const char *kind, const char *name, const char *text) {
  char path[96];
  FILE *file;

  snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", kind, name);
  file = fopen(path, "w");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  fputs(text, file);
  if (fclose(file)) fail_msg("%s: %s", path, strerror(errno));
}

static int by_address(const void *a, const void *b) {
  unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;

  return x < y ? -1 : x > y;
}

/* Start of a kernel function and of the next one; 0 and 0 if no function has this name. */
static void find_function(const char *name, char *start, char *end, size_t size) {
  static unsigned long long all[400000];
  unsigned long long address, found = 0;
  size_t count = 0;
  char symbol[256];
  FILE *file = fopen("/proc/kallsyms", "r");

  assert_non_null(file);
  while (fscanf(file, "%llx %*c %255s%*[^\n]", &address, symbol) == 2) {
    if (count < sizeof(all) / sizeof(all[0])) all[count++] = address;
    if (!strcmp(symbol, name)) found = address;
  }
  fclose(file);
  qsort(all, count, sizeof(all[0]), by_address);
  snprintf(start, size, "%#llx", found);
  for (size_t i = 0; i < count; i++) {
    if (!found || all[i] <= found) continue;
    found = all[i];
    break;
  }
  snprintf(end, size, "%#llx", found);
}

static bool set_range(const char *function, const char *from, const char *to) {
  char start[24] = "0", end[24] = "0";

  if (function) find_function(function, start, end, sizeof(start));
  if (function && !strcmp(start, "0")) return false;
  for (int i = 0; i < 2; i++) {
    put(kinds[i], "stacktrace-depth", "32");
    put(kinds[i], from, start);
    /* No function required: all addresses. */
    put(kinds[i], to, !function && !strcmp(to, "require-end") ? "0xffffffffffffffff" : end);
  }
  return true;
}

void alloc_fail_inside(const char *function, const char *spared) {
  if (!set_range(function, "require-start", "require-end")) fail_msg("the kernel has no %s", function);
  if (!set_range(spared, "reject-start", "reject-end")) fail_msg("the kernel has no %s", spared);
}

/*
 * The kernel's allocator of card memory corrupts its tree if memory runs out while it splits a block, and then loops
 * for ever (6.12 and 7.2). So no allocation fails there.
 */
void alloc_fail_anywhere(void) {
  set_range(NULL, "require-start", "require-end");
  if (!set_range("gpu_buddy_alloc_blocks", "reject-start", "reject-end"))
    assert_true(set_range("drm_buddy_alloc_blocks", "reject-start", "reject-end"));
}

/* The kernel may also fail copies from and to user space, which would count: only allocations must fail. */
static void spare_copies(void) {
  if (access("/sys/kernel/debug/fail_usercopy", F_OK)) return;
  put("fail_usercopy", "stacktrace-depth", "1");
  put("fail_usercopy", "require-start", "1");
  put("fail_usercopy", "require-end", "2");
}

/*
 * Allocations of the kernel's checkers do not fail: they accompany each allocation, so they would be half of all, and
 * do not test the driver.
 */
static void spare_checkers(void) {
  glob_t caches;

  assert_int_equal(glob("/sys/kernel/slab/*/failslab", 0, NULL, &caches), 0);
  for (size_t i = 0; i < caches.gl_pathc; i++) {
    const char *path = caches.gl_pathv[i];
    const bool checker = strstr(path, "/kmemleak_") || strstr(path, "/debug_objects_");
    FILE *file = fopen(path, "w");

    if (!file) fail_msg("%s: %s", path, strerror(errno));
    fputs(checker ? "0" : "1", file);
    if (fclose(file)) fail_msg("%s: %s", path, strerror(errno));
  }
  globfree(&caches);
  put("failslab", "cache-filter", "1");
}

bool alloc_fail_begin(void) {
  if (access("/sys/kernel/debug/failslab", F_OK)) return false;
  for (int i = 0; i < 2; i++) {
    put(kinds[i], "task-filter", "1");
    put(kinds[i], "verbose", "0");
    put(kinds[i], "times", "-1");
    put(kinds[i], "ignore-gfp-wait", "0");
    put(kinds[i], "probability", "0");
  }
  put("fail_page_alloc", "min-order", "0");
  put("fail_page_alloc", "ignore-gfp-highmem", "0");
  spare_copies();
  spare_checkers();
  alloc_fail_anywhere();
  return true;
}

/* Opened while no allocation fails, because opening may fail, too. */
static __thread int nth_fd = -1;

void alloc_fail_nth(unsigned nth) {
  char text[16];
  int n = snprintf(text, sizeof(text), "%u", nth);

  if (nth_fd < 0) nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
  assert_true(nth_fd >= 0);
  for (int tries = 0; pwrite(nth_fd, text, (size_t)n, 0) != n; tries++) assert_true(tries < 1000);
}

bool alloc_fail_end(void) {
  char text[16] = "";
  int tries = 0;

  /* The remaining count: reading it may itself have counted. */
  while (pread(nth_fd, text, sizeof(text) - 1, 0) <= 0) assert_true(tries++ < 1000);
  alloc_fail_nth(0);
  return atoi(text) == 0;
}

void alloc_fail_one_in(long in) {
  char text[16];

  snprintf(text, sizeof(text), "%ld", in ? 100 / in : 0);
  for (int i = 0; i < 2; i++) put(kinds[i], "probability", text);
}
