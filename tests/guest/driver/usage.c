/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <ctype.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* Adds the lines of a file that begin with a digit, up to the fourth word, or all of them. */
static void add_file(char text[USAGE_BYTES], const char *path, bool queues) {
  char line[256];
  FILE *file = fopen(path, "r");

  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) {
    size_t n = strlen(text), words = 0;

    if (queues && !isdigit((unsigned char)line[0])) continue;
    for (char *c = line; queues && *c; c++)
      if (*c == ' ' && ++words == 4) strcpy(c, "\n");
    assert_true(n + strlen(line) < USAGE_BYTES);
    strcpy(text + n, line);
  }
  fclose(file);
}

void usage_take(char text[USAGE_BYTES]) {
  glob_t found;

  if (access("/sys/kernel/debug/accel", F_OK)) mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
  text[0] = 0;
  assert_int_equal(glob("/sys/kernel/debug/accel/*/memory", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) add_file(text, found.gl_pathv[i], false);
  globfree(&found);
  /* Of a queue: number, address space, priority and cores. */
  assert_int_equal(glob("/sys/kernel/debug/accel/*/queues", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) add_file(text, found.gl_pathv[i], true);
  globfree(&found);
  assert_non_null(strstr(text, "asids used"));
}

void usage_begin(char text[USAGE_BYTES]) {
  char last[USAGE_BYTES];
  int same = 0;

  usage_take(text);
  for (int tries = 0; tries < 300 && same < 5; tries++) {
    strcpy(last, text);
    usleep(20000);
    usage_take(text);
    same = strcmp(last, text) ? 0 : same + 1;
  }
}

void usage_expect(const char *before) {
  char after[USAGE_BYTES];

  for (int tries = 0; tries < 250; tries++) {
    usage_take(after);
    if (!strcmp(before, after)) return;
    usleep(tries < 50 ? 2000 : 100000);
  }
  fail_msg("before:\n%safter:\n%s", before, after);
}
