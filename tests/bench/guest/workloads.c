/* SPDX-License-Identifier: MIT */
/*
 * Workloads for scripts/hot.py and tests/bench/counts.py: each does something many times between the two markers that
 * the plugin hot.so counts instructions between. Before that it does so some times, for what happens only once.
 *
 *   workloads WORKLOAD [TIMES]    prints "window WORKLOAD TIMES NANOSECONDS", then its address space
 *                                 (/proc/self/maps) up to "end"
 *   workloads --list              prints "NAME TIMES STEP PEER what it is" for each
 *
 * NANOSECONDS: of CLOCK_MONOTONIC, from the first marker to the second one. TIMES is a multiple of STEP. PEER is the
 * workload to compare it with, or "-".
 */
#include "tests/bench/guest/workloads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Instructions that do nothing, and that the plugin knows. */
#if defined(__aarch64__)
#define MARKER(low) __asm__ volatile("movz xzr, #0x5500 + " #low ::: "memory")
#else
/* nopl DISPLACEMENT(%rax,%rax,1) */
#define MARKER(low) __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, " #low ", 0x55, 0x50, 0x4e" ::: "memory")
#endif

static const struct workload *const groups[] = {job_workloads, memory_workloads, library_workloads, peer_workloads,
                                                module_workloads};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

void fail(const char *what, const char *reason) {
  fprintf(stderr, "workloads: %s: %s\n", what, reason);
  exit(1);
}

void die(const char *what) { fail(what, strerror(errno)); }

void check(int ret, const char *what) {
  if (!ret) return;
  errno = -ret;
  die(what);
}

static int64_t now_ns(void) {
  struct timespec ts;

  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void print_address_space(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];

  if (!maps) die("/proc/self/maps");
  while (fgets(line, sizeof(line), maps)) fputs(line, stdout);
  fclose(maps);
}

static void run(const struct workload *workload, int times) {
  int64_t begin, end;

  workload->open();
  workload->run((times / 8 / workload->step + 1) * workload->step);
  now_ns();
  usleep(200000); /* what others still do for the beginning is over */
  MARKER(0x01);
  begin = now_ns();
  workload->run(times);
  end = now_ns();
  MARKER(0x02);

  printf("window %s %d %lld\n", workload->name, times, (long long)(end - begin));
  print_address_space();
  printf("end\n");
}

static const struct workload *find(const char *name) {
  for (unsigned g = 0; g < GROUPS; g++)
    for (const struct workload *workload = groups[g]; workload->name; workload++)
      if (!strcmp(workload->name, name)) return workload;
  return NULL;
}

static int list(void) {
  for (unsigned g = 0; g < GROUPS; g++)
    for (const struct workload *workload = groups[g]; workload->name; workload++)
      printf("%s %d %d %s %s\n", workload->name, workload->times, workload->step, workload->peer ? workload->peer : "-",
             workload->what);
  return 0;
}

int main(int argc, char **argv) {
  const struct workload *workload;
  int times;

  if (argc == 2 && !strcmp(argv[1], "--list")) return list();
  workload = argc == 2 || argc == 3 ? find(argv[1]) : NULL;
  times = argc == 3 ? atoi(argv[2]) : workload ? workload->times : 0;
  if (!workload || times <= 0 || times % workload->step) {
    fprintf(stderr, "usage: workloads --list | WORKLOAD [TIMES]; see --list for both\n");
    return 2;
  }
  run(workload, times);
  return 0;
}
