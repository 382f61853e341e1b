/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/cgroup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MOUNT "/tmp/npu-cgroup"
#define GROUP MOUNT "/test"

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");

  if (!file) fail_msg("%s: %s", path, strerror(errno));
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void wait_gone(void) {
  for (int tries = 0; rmdir(GROUP); tries++) {
    if (tries > 1000) fail_msg("the cgroup does not go: %s", strerror(errno));
    usleep(10000);
  }
}

void cgroup_make(uint64_t limit) {
  char text[32];

  umount2(MOUNT, MNT_DETACH);
  mkdir(MOUNT, 0755);
  assert_int_equal(mount("none", MOUNT, "cgroup2", 0, NULL), 0);
  /* Remove the group of a failed test, with its processes. */
  if (!access(GROUP, F_OK)) {
    write_text(GROUP "/cgroup.kill", "1");
    wait_gone();
  }
  write_text(MOUNT "/cgroup.subtree_control", "+memory");
  if (mkdir(GROUP, 0755)) fail_msg("%s: %s", GROUP, strerror(errno));
  snprintf(text, sizeof(text), "%llu", (unsigned long long)limit);
  write_text(GROUP "/memory.max", text);
}

bool cgroup_join(void) {
  FILE *procs = fopen(GROUP "/cgroup.procs", "w");

  return procs && fputs("0", procs) >= 0 && !fclose(procs);
}

uint64_t cgroup_memory(void) {
  unsigned long long bytes = 0;
  FILE *file = fopen(GROUP "/memory.current", "r");

  assert_non_null(file);
  assert_int_equal(fscanf(file, "%llu", &bytes), 1);
  fclose(file);
  return bytes;
}

void cgroup_expect_below(uint64_t bytes) {
  for (int tries = 0; cgroup_memory() >= bytes; tries++) {
    if (tries > 1000) fail_msg("the cgroup still has %llu bytes", (unsigned long long)cgroup_memory());
    usleep(10000);
  }
}

void cgroup_end(void) {
  wait_gone();
  assert_int_equal(umount(MOUNT), 0);
}
