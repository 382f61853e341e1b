/* SPDX-License-Identifier: MIT */
/*
 * Copies of 64 MiB and loading a model, in the time of whoever runs it: for tests/bench/pairs.py, which lets two of
 * them work in turn. Does what the lines of its input name, one at a time, and answers each with a line of
 * microseconds.
 *
 *   host_time memory          memcpy alone; needs no device
 *   host_time card MODEL      memcpy, s2d, d2s, pinned-s2d, pinned-d2s, read, load, load-mapping, load-uring
 */
#include <bmruntime_interface.h>
#include <errno.h>
#include <fcntl.h>
#include <npu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker.h"

#define BYTES (64u << 20)

static struct {
  bm_handle_t handle;
  bm_device_mem_t card;
  npu_bo *bo, *pinned;
  uint8_t *from, *to;
  const char *model;
  void *runtime;
} h;

/* ---- copies ---- */

/* Memory that is there: its pages have been touched. */
static uint8_t *touched(uint8_t value) {
  uint8_t *p = aligned_alloc(4096, BYTES);

  must(p != NULL, "64 MiB", strerror(errno));
  memset(p, value, BYTES);
  return p;
}

static void open_card(void) {
  npu_device *device;

  must(bm_dev_request(&h.handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  must(!bm_malloc_device_byte(h.handle, &h.card, BYTES), "64 MiB of the card", npu_last_error());
  must(!npu_device_open(0, &device), "device 0", npu_last_error());
  must(!npu_bo_create(device, BYTES, DRM_NPU_BO_CARD, &h.bo), "64 MiB of the card", npu_last_error());
  must(!npu_bo_create(device, BYTES, DRM_NPU_BO_SYSTEM, &h.pinned), "64 MiB that the card reaches", npu_last_error());
}

static void plain(void) {
  memcpy(h.to, h.from, BYTES);
  __asm__ volatile("" ::"r"(h.to) : "memory");
}

static void s2d(void) { must(!bm_memcpy_s2d(h.handle, h.card, h.from), "s2d", npu_last_error()); }
static void d2s(void) { must(!bm_memcpy_d2s(h.handle, h.to, h.card), "d2s", npu_last_error()); }
static void pinned_s2d(void) { must(!npu_copy(h.bo, 0, h.pinned, 0, BYTES), "to the card", npu_last_error()); }
static void pinned_d2s(void) { must(!npu_copy(h.pinned, 0, h.bo, 0, BYTES), "from the card", npu_last_error()); }

/* ---- models ---- */

static void read_whole(void) {
  int fd = open(h.model, O_RDONLY | O_CLOEXEC);
  struct stat info;
  uint8_t *data;
  ssize_t got;
  size_t at = 0;

  must(fd >= 0 && !fstat(fd, &info), h.model, strerror(errno));
  data = malloc((size_t)info.st_size);
  must(data != NULL, h.model, strerror(errno));
  while ((got = read(fd, data + at, (size_t)info.st_size - at)) > 0) at += (size_t)got;
  must(at == (size_t)info.st_size, h.model, "cannot be read whole");
  free(data);
  close(fd);
}

/* `way`: how the coefficients get from the file to the card; "" is what the runtime finds faster. */
static void load(const char *way) {
  setenv("NPU_LOAD", way, 1);
  h.runtime = bmrt_create(h.handle);
  must(h.runtime && bmrt_load_bmodel(h.runtime, h.model), h.model, bmrt_last_error());
}

static void load_default(void) { load(""); }
static void load_mapping(void) { load("mapping"); }
static void load_uring(void) { load("uring"); }

/* ---- what is asked for ---- */

static const struct {
  const char *name;
  void (*run)(void);
} operations[] = {
    {"memcpy", plain},          {"s2d", s2d},         {"d2s", d2s},           {"pinned-s2d", pinned_s2d},
    {"pinned-d2s", pinned_d2s}, {"read", read_whole}, {"load", load_default}, {"load-mapping", load_mapping},
    {"load-uring", load_uring},
};

static void answer(const char *name, int with_card) {
  for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
    double start;

    if (strcmp(name, operations[i].name) || (i && !with_card)) continue;
    start = now_us();
    operations[i].run();
    printf("%.1f\n", now_us() - start);
    fflush(stdout);
    if (h.runtime) bmrt_destroy(h.runtime); /* not part of loading */
    h.runtime = NULL;
    return;
  }
  fail(name, "there is no such operation");
}

int main(int argc, char **argv) {
  const int with_card = argc == 3 && !strcmp(argv[1], "card");
  char line[64];

  if (!with_card && (argc != 2 || strcmp(argv[1], "memory"))) {
    fprintf(stderr, "usage: host_time memory | card MODEL.bmodel\n");
    return 2;
  }
  h.from = touched(1);
  h.to = touched(2);
  if (with_card) {
    h.model = argv[2];
    open_card();
  }
  while (fgets(line, sizeof(line), stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "clock"))
      answer_clock();
    else
      answer(line, with_card);
  }
  return 0;
}
