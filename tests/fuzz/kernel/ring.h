/* SPDX-License-Identifier: MIT */
/* A thread's ring for submissions through io_uring, that are cancelled or end with the ring now and then. */
#ifndef NPU_FUZZ_RING_H
#define NPU_FUZZ_RING_H

#include <liburing.h>
#include <stdbool.h>

#include "tests/fuzz/kernel/random.h"

struct ring {
  struct io_uring uring;
  bool there;
  uint64_t tag; /* of the last request */
};

/* Submits one request, through a ring that is made when it is needed. `submit` leads to memory that stays. */
void ring_submit(struct ring *ring, struct random *r, int fd, const void *submit);
/* Cancels one request, by number, or whatever the file has. */
void ring_cancel(struct ring *ring, struct random *r, int fd);
/* Takes what is complete; does not wait. */
void ring_reap(struct ring *ring);
/* Ends it, with what is on its way. */
void ring_end(struct ring *ring);

#endif
