/* SPDX-License-Identifier: MIT */
/* One process of the driver's fuzzer: what it has, and what it does with it. */
#ifndef NPU_FUZZ_WORKER_H
#define NPU_FUZZ_WORKER_H

#include <limits.h>
#include <stdint.h>

#define FILES 3
#define SLOTS 24
#define THREADS 2

/* What a worker has. Its threads share it without a lock: races between calls are what is wanted, and what a slot says
 * may be stale at any time. */
struct worker {
  char device[PATH_MAX]; /* in sysfs */
  uint32_t memory;       /* DRM_NPU_BO_CARD, if the device has any */
  int64_t end_ms;
  uint64_t seed;
  int fds[FILES];
  struct {
    uint32_t handle;
    uint64_t size;
    uint64_t offset; /* for mmap */
    uint64_t va;
  } bos[FILES][SLOTS];
  uint32_t ctxs[FILES][SLOTS];
  uint64_t seqnos[FILES][SLOTS]; /* last job of each context */
  uint32_t syncobjs[FILES][SLOTS];
  struct {
    void *at;
    uint64_t size;
  } maps[SLOTS];
  int shared; /* a dma-buf or sync file, or -1 */
};

/* Runs until the end; the process then exits, and the kernel cleans up. Returns the number of calls. */
uint64_t worker_run(struct worker *worker);

#endif
