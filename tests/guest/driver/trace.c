/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/trace.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#define TRACING "/sys/kernel/tracing/"

static void put(const char *name, const char *text) {
  char path[160];
  FILE *file;

  snprintf(path, sizeof(path), TRACING "%s", name);
  file = fopen(path, "w");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  fputs(text, file);
  if (fclose(file)) fail_msg("%s: %s", path, strerror(errno));
}

void trace_begin(const char *const *events, size_t count) {
  char name[128];

  if (access(TRACING "trace", F_OK) && mount("tracefs", TRACING, "tracefs", 0, NULL))
    fail_msg("tracefs: %s", strerror(errno));
  put("events/enable", "0");
  put("trace", "");
  for (size_t i = 0; i < count; i++) {
    snprintf(name, sizeof(name), "events/%s/enable", events[i]);
    put(name, "1");
  }
  put("tracing_on", "1");
}

static char *text_so_far(void) {
  size_t size = 1 << 20, used = 0, n;
  char *text = malloc(size);
  FILE *file;

  file = fopen(TRACING "trace", "r");
  assert_non_null(file);
  assert_non_null(text);
  while ((n = fread(text + used, 1, size - used - 1, file)) > 0) {
    used += n;
    if (size - used > 1) continue;
    size *= 2;
    text = realloc(text, size);
    assert_non_null(text);
  }
  text[used] = 0;
  fclose(file);
  return text;
}

char *trace_wait(const char *a, const char *b, const char *c) {
  for (int tries = 0;; tries++) {
    char *text = text_so_far();

    if (trace_find(text, a, b, c)) return text;
    if (tries == 1000) fail_msg("no event '%s %s %s' in:\n%s", a, b ? b : "", c ? c : "", text);
    free(text);
    usleep(10000);
  }
}

char *trace_end(void) {
  put("tracing_on", "0");
  put("events/enable", "0");
  return text_so_far();
}

static int line_has(const char *line, size_t length, const char *what) {
  return !what || memmem(line, length, what, strlen(what));
}

const char *trace_find(const char *from, const char *a, const char *b, const char *c) {
  for (const char *line = from, *end; line && *line; line = *end ? end + 1 : NULL) {
    size_t length;

    end = strchrnul(line, '\n');
    length = end - line;
    if (*line != '#' && line_has(line, length, a) && line_has(line, length, b) && line_has(line, length, c))
      return line;
  }
  return NULL;
}

unsigned long long trace_number(const char *line, const char *key) {
  const char *end = strchrnul(line, '\n');
  const char *at = memmem(line, end - line, key, strlen(key));

  if (!at) fail_msg("no '%s' in: %.*s", key, (int)(end - line), line);
  return strtoull(at + strlen(key), NULL, 0);
}
