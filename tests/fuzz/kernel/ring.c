/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/kernel/ring.h"

#include <npu_accel.h>
#include <stddef.h>
#include <string.h>

#define ENTRIES 32
#define LIVE_TAGS 64 /* so many of the last requests may be on their way */

static bool ring_begin(struct ring *ring, struct random *r) {
  static const unsigned flags[] = {0, IORING_SETUP_SQPOLL, IORING_SETUP_COOP_TASKRUN, IORING_SETUP_CLAMP};

  if (ring->there) return true;
  ring->there = !io_uring_queue_init(ENTRIES, &ring->uring, flags[one_in(r, 3) ? below(r, 4) : 0]);
  return ring->there;
}

static struct io_uring_sqe *ring_entry(struct ring *ring, uint8_t opcode, int fd) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

  if (!sqe) return NULL;
  io_uring_prep_rw(opcode, sqe, fd, NULL, 0, 0);
  sqe->user_data = ++ring->tag;
  return sqe;
}

void ring_submit(struct ring *ring, struct random *r, int fd, const void *submit) {
  struct drm_npu_uring_submit entry = {.submit = (uintptr_t)submit};
  struct io_uring_sqe *sqe;

  if (!ring_begin(ring, r)) return;
  sqe = ring_entry(ring, IORING_OP_URING_CMD, fd);
  if (sqe) {
    sqe->cmd_op = DRM_NPU_URING_SUBMIT;
    if (one_in(r, 30)) spoil(r, &entry, sizeof(entry));
    if (one_in(r, 50)) sqe->cmd_op = (uint32_t)odd_number(r);
    if (one_in(r, 6)) sqe->flags |= IOSQE_ASYNC;
    if (one_in(r, 12)) sqe->flags |= IOSQE_IO_LINK;
    memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
  }
  io_uring_submit(&ring->uring);
}

void ring_cancel(struct ring *ring, struct random *r, int fd) {
  struct io_uring_sqe *sqe;

  if (!ring->there) return;
  sqe = ring_entry(ring, IORING_OP_ASYNC_CANCEL, -1);
  if (sqe && one_in(r, 4)) {
    sqe->fd = fd;
    sqe->cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
  } else if (sqe) {
    sqe->addr = ring->tag - below(r, LIVE_TAGS);
  }
  io_uring_submit(&ring->uring);
}

void ring_reap(struct ring *ring) {
  struct io_uring_cqe *cqe;

  while (ring->there && !io_uring_peek_cqe(&ring->uring, &cqe)) io_uring_cqe_seen(&ring->uring, cqe);
}

void ring_end(struct ring *ring) {
  if (ring->there) io_uring_queue_exit(&ring->uring);
  ring->there = false;
}
