/* SPDX-License-Identifier: MIT */
/* Fixture of most programs: a file of the node with one context, and the card's speed. */
#ifndef NPU_GUEST_FIXTURE_H
#define NPU_GUEST_FIXTURE_H

#include <unistd.h>

#include "tests/guest/driver/npu_raw.h"

static int fd;
static uint32_t ctx;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ctx_destroy(fd, ctx);
  return close(fd);
}

#endif
