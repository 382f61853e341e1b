/* SPDX-License-Identifier: MIT */
/* What the workloads share: how one is described, the card, and the ends of what goes wrong. */
#ifndef NPU_WORKLOADS_H
#define NPU_WORKLOADS_H

#include <liburing.h>
#include <npu.h>
#include <stdint.h>

#include "tests/guest/driver/npu_raw.h"

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#define RING_FLAGS (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

#define DEPTH 64  /* jobs in flight; also what a context takes */
#define ROUND 32  /* jobs between two waits */
#define JOBS 6400 /* how often, where nobody says otherwise; a multiple of both */
#define LAUNCHES 640

struct workload {
  const char *name;
  const char *what;
  const char *peer; /* the workload that it is compared with, or NULL */
  int times;        /* how often it is done, if nobody says otherwise */
  int step;         /* of which this is a multiple */
  void (*open)(void);
  void (*run)(int times);
};

/* Each ends with one without a name. */
extern const struct workload job_workloads[];
extern const struct workload library_workloads[];
extern const struct workload memory_workloads[];
extern const struct workload peer_workloads[];
extern const struct workload module_workloads[];

/* Ends the program, with errno's text. */
void die(const char *what);
/* The same where ret is a negative errno. */
void check(int ret, const char *what);
/* The same with a reason, where something is not so; asks for the reason only then. */
#define must(ok, what, reason)     \
  do {                             \
    if (!(ok)) fail(what, reason); \
  } while (0)
void fail(const char *what, const char *reason);

/* The card by raw ioctls: a context, and jobs that do nothing. */
struct card {
  int fd;
  uint32_t ctx;
  struct stream stream;
  struct job jobs[DEPTH];
};
extern struct card card;
void open_card(void);

/* A ring, and a loop that keeps DEPTH entries in flight: push puts an entry that does so once more into the ring. Each
 * turn waits until at least `want` have completed, and takes all that have. */
extern struct io_uring ring;
typedef void (*push_fn)(uint64_t slot);
void open_ring(unsigned flags);
struct io_uring_sqe *next_sqe(void);
void turns(push_fn push, int times, unsigned want);

#endif
