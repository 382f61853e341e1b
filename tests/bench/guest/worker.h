/* SPDX-License-Identifier: MIT */
/* What programs share that do what the lines of their input name, one at a time, and answer each with a line: so that
 * tests/bench/pairs.py and networks.py let two of them work in turn, on a board too. */
#ifndef NPU_BENCH_WORKER_H
#define NPU_BENCH_WORKER_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Asks for the reason only where something is not so. */
#define must(ok, what, reason)     \
  do {                             \
    if (!(ok)) fail(what, reason); \
  } while (0)

static inline void fail(const char *what, const char *reason) {
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, reason);
  exit(1);
}

static inline double now_us(void) {
  struct timespec ts;

  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* The answer to "clock": for whoever has to know how fast the clock of a board goes. */
static inline void answer_clock(void) {
  printf("%.1f\n", now_us());
  fflush(stdout);
}

#endif
