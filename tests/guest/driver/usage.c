/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/usage.h"

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

#include "tests/guest/driver/npu_raw.h"

#define RING 32 /* entries of a queue */

/* A context and its jobs. */
struct queue {
  int index;        /* its queue pair, or -1 */
  unsigned on_card; /* jobs on the card that are not finished */
  unsigned head;    /* next completion that the driver takes */
};

/* Reads contexts, except the driver's own. */
static int queues_used(struct queue queues[NPU_MAX_QUEUES]) {
  char line[256];
  glob_t found;
  int count = 0;

  assert_int_equal(glob("/sys/kernel/debug/accel/*/contexts", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    FILE *file = fopen(found.gl_pathv[i], "r");
    unsigned tail;

    assert_non_null(file);
    while (count < (int)NPU_MAX_QUEUES && fgets(line, sizeof(line), file)) {
      struct queue *queue = &queues[count];

      if (sscanf(line, "%*u %*u %*x %d %*d %*u %*u %*u %*u %u %u", &queue->index, &tail, &queue->head) != 3) continue;
      queue->on_card = queue->index < 0 ? 0 : (tail - queue->head) % RING;
      count++;
    }
    fclose(file);
  }
  globfree(&found);
  return count;
}

void usage_settle(int contexts) {
  struct queue queues[NPU_MAX_QUEUES];
  char text[USAGE_BYTES];
  int used;

  usage_take(text);
  for (int tries = 0; (used = queues_used(queues)) > contexts && tries < 3000; tries++) usleep(10000);
  assert_int_equal(used, contexts);
}

/* Returns true if the card has fetched the next job of each busy queue, so that its arbiter sees all of them. */
static bool all_fetched(const struct queue *queues, int count) {
  unsigned head;
  int index;
  char line[256];
  glob_t found;
  FILE *file;
  bool all = true;

  assert_int_equal(glob("/sys/kernel/debug/accel/*/card", 0, NULL, &found), 0);
  file = fopen(found.gl_pathv[0], "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) {
    if (sscanf(line, "queue %d status %*x asid %*u priority %*u cores %*x card %u", &index, &head) != 2) continue;
    for (int i = 0; i < count; i++)
      if (queues[i].index == index && queues[i].on_card && queues[i].head == head) all = false;
  }
  fclose(file);
  globfree(&found);
  return all;
}

void usage_wait_on_card(unsigned jobs) {
  struct queue queues[NPU_MAX_QUEUES];
  int64_t end = now_ms() + FOREVER_MS;

  for (;;) {
    const int count = queues_used(queues);
    unsigned on_card = 0;

    for (int i = 0; i < count; i++) on_card += queues[i].on_card;
    if (on_card == jobs && all_fetched(queues, count)) return;
    if (now_ms() > end) fail_msg("the card has %u jobs, not %u", on_card, jobs);
    usleep(10000);
  }
}

/*
 * Adds the lines of a file that begin with a digit, up to the third word; or all lines except the size of the largest
 * free block, which depends on the driver's own tables.
 */
static void add_file(char text[USAGE_BYTES], const char *path, bool queues) {
  char line[256];
  FILE *file = fopen(path, "r");

  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) {
    size_t n = strlen(text), words = 0;

    if (queues ? !isdigit((unsigned char)line[0]) : strstr(line, "largest") != NULL) continue;
    for (char *c = line; queues && *c; c++)
      if (*c == ' ' && ++words == 3) strcpy(c, "\n");
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
  /* Number, priority and cores of a context. */
  assert_int_equal(glob("/sys/kernel/debug/accel/*/contexts", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) add_file(text, found.gl_pathv[i], true);
  globfree(&found);
  assert_non_null(strstr(text, "tables used"));
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

/* Joins differing lines into one, because an excerpt of a log may show only one. */
static const char *changed_lines(const char *before, const char *after, char text[2 * USAGE_BYTES]) {
  text[0] = 0;
  while (*before || *after) {
    const int old = (int)strcspn(before, "\n"), now = (int)strcspn(after, "\n");
    const size_t n = strlen(text);

    if (old != now || memcmp(before, after, (size_t)now) != 0)
      snprintf(text + n, 2 * USAGE_BYTES - n, "%s%.*s -> %.*s", n ? "; " : "", old, before, now, after);
    before += old + (before[old] != 0);
    after += now + (after[now] != 0);
  }
  return text;
}

void usage_expect(const char *before) {
  char after[USAGE_BYTES], changes[2 * USAGE_BYTES];

  for (int tries = 0; tries < FOREVER_MS / 100; tries++) {
    usage_take(after);
    if (!strcmp(before, after)) return;
    usleep(tries < 50 ? 10000 : 100000);
  }
  fail_msg("in use before -> after: %s", changed_lines(before, after, changes));
}
