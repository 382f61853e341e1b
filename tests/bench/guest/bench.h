/* SPDX-License-Identifier: MIT */
/* What the benchmark programs share: the time, lines of figures, medians. */
#ifndef NPU_BENCH_H
#define NPU_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_us(void) {
  struct timespec ts;

  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static inline void report(const char *name, double value, const char *unit) {
  printf("%s %.3f %s\n", name, value, unit);
  fflush(stdout);
}

static inline int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* Sorts them. */
static inline double median(double *samples, int count) {
  qsort(samples, (size_t)count, sizeof(*samples), by_value);
  return samples[count / 2];
}

#endif
