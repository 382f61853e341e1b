/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

/* Contexts, without the driver's own. */
static int queues_used(void) {
  FILE *file = popen("grep -c '^[0-9]' /sys/kernel/debug/accel/*/queues", "r");
  int count = 0;

  assert_non_null(file);
  assert_int_equal(fscanf(file, "%d", &count), 1);
  assert_int_equal(pclose(file), 0);
  return count;
}

void usage_settle(int contexts) {
  char text[USAGE_BYTES];

  usage_take(text);
  for (int tries = 0; tries < 300 && queues_used() > contexts; tries++) usleep(100000);
  assert_int_equal(queues_used(), contexts);
}

void usage_take(char text[USAGE_BYTES]) {
  FILE *file;
  size_t n;

  if (access("/sys/kernel/debug/accel", F_OK)) mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
  /* Of a queue: number, address space, priority and cores. */
  file = popen("cat /sys/kernel/debug/accel/*/memory; awk '/^[0-9]/ { print $1, $2, $3, $4 }' /sys/kernel/debug/accel/*/queues", "r");
  assert_non_null(file);
  n = fread(text, 1, USAGE_BYTES - 1, file);
  text[n] = 0;
  assert_int_equal(pclose(file), 0);
  assert_non_null(strstr(text, "asids used"));
}

void usage_expect(const char *before) {
  char after[USAGE_BYTES];

  for (int tries = 0; tries < 200; tries++) {
    usage_take(after);
    if (!strcmp(before, after)) return;
    usleep(100000);
  }
  fail_msg("before:\n%safter:\n%s", before, after);
}
