/* SPDX-License-Identifier: MIT */
/* Workloads: buffers of some sizes, memfds to compare them with, and copies between a process and the card. */
#include <bmlib_runtime.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/guest/workloads.h"

/* How often, with 4 KiB, 1 MiB and 64 MiB. */
#define SMALL 3200
#define MIDDLE 50
#define LARGE 1
#define COPIES 8 /* of 64 MiB */

static void open_nothing(void) {}

/* Writes to each page, as whoever wants memory does. */
static void touch(volatile uint8_t *map, size_t size) {
  for (size_t i = 0; i < size; i += 4096) map[i] = 1;
}

/* ---- buffers and memfds ---- */

static void run_buffer(int times, size_t size, uint32_t flags) {
  struct bo bo;

  for (int i = 0; i < times; i++) {
    bo_create_mapped(card.fd, size, flags, &bo);
    touch(bo.map, size);
    bo_destroy(card.fd, &bo);
  }
}

static void run_memfd(int times, size_t size) {
  for (int i = 0; i < times; i++) {
    const int fd = memfd_create("bench", MFD_CLOEXEC);
    void *map;

    if (fd < 0 || ftruncate(fd, (off_t)size)) die("memfd");
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) die("mmap");
    touch(map, size);
    munmap(map, size);
    close(fd);
  }
}

static void run_system_4k(int times) { run_buffer(times, KIB(4), DRM_NPU_BO_SYSTEM); }
static void run_system_1m(int times) { run_buffer(times, MIB(1), DRM_NPU_BO_SYSTEM); }
static void run_system_64m(int times) { run_buffer(times, MIB(64), DRM_NPU_BO_SYSTEM); }
static void run_card_4k(int times) { run_buffer(times, KIB(4), DRM_NPU_BO_CARD); }
static void run_card_1m(int times) { run_buffer(times, MIB(1), DRM_NPU_BO_CARD); }
static void run_card_64m(int times) { run_buffer(times, MIB(64), DRM_NPU_BO_CARD); }
static void run_memfd_4k(int times) { run_memfd(times, KIB(4)); }
static void run_memfd_1m(int times) { run_memfd(times, MIB(1)); }
static void run_memfd_64m(int times) { run_memfd(times, MIB(64)); }

/* ---- cache maintenance: what a program does before and after a job ---- */

static struct bo maintained;

static void open_maintain(size_t size) {
  open_card();
  bo_create_mapped(card.fd, size, DRM_NPU_BO_SYSTEM, &maintained);
  touch(maintained.map, size);
}

static void open_maintain_4k(void) { open_maintain(KIB(4)); }
static void open_maintain_1m(void) { open_maintain(MIB(1)); }

static void run_clean(int times) {
  for (int i = 0; i < times; i++) bo_sync(card.fd, &maintained, DRM_NPU_SYNC_TO_DEVICE);
}

static void run_invalidate(int times) {
  for (int i = 0; i < times; i++) bo_sync(card.fd, &maintained, DRM_NPU_SYNC_FROM_DEVICE);
}

/* ---- copies, by BMLIB ---- */

static bm_handle_t handle;
static bm_device_mem_t device_memory;
static uint8_t *host_memory, *other_memory;

/* Memory that is there: its pages have been touched. */
static uint8_t *touched(size_t size) {
  uint8_t *p = aligned_alloc(4096, size);

  must(p != NULL, "memory of the process", "there is not enough");
  memset(p, 1, size);
  return p;
}

static void open_copy(size_t size) {
  must(bm_dev_request(&handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  must(bm_malloc_device_byte(handle, &device_memory, (unsigned)size) == BM_SUCCESS, "memory of the card",
       npu_last_error());
  host_memory = touched(size);
}

static void open_copy_4k(void) { open_copy(KIB(4)); }
static void open_copy_64m(void) { open_copy(MIB(64)); }

static void run_s2d(int times) {
  for (int i = 0; i < times; i++)
    must(bm_memcpy_s2d(handle, device_memory, host_memory) == BM_SUCCESS, "s2d", npu_last_error());
}

static void run_d2s(int times) {
  for (int i = 0; i < times; i++)
    must(bm_memcpy_d2s(handle, host_memory, device_memory) == BM_SUCCESS, "d2s", npu_last_error());
}

static void open_memcpy(void) {
  host_memory = touched(MIB(64));
  other_memory = touched(MIB(64));
}

static void run_memcpy(int times) {
  for (int i = 0; i < times; i++) {
    memcpy(other_memory, host_memory, MIB(64));
    __asm__ volatile("" ::"r"(other_memory) : "memory");
  }
}

const struct workload memory_workloads[] = {
    {"buffer", "create, map, touch, free 4 KiB of system memory", "memfd", SMALL, 1, open_card, run_system_4k},
    {"buffer-1m", "the same with 1 MiB", "memfd-1m", MIDDLE, 1, open_card, run_system_1m},
    {"buffer-64m", "the same with 64 MiB", "memfd-64m", LARGE, 1, open_card, run_system_64m},
    {"buffer-card", "create, map, touch, free 4 KiB of card memory", "memfd", SMALL, 1, open_card, run_card_4k},
    {"buffer-card-1m", "the same with 1 MiB", "memfd-1m", MIDDLE, 1, open_card, run_card_1m},
    {"buffer-card-64m", "the same with 64 MiB", "memfd-64m", 4 * LARGE, 1, open_card, run_card_64m},
    {"memfd", "create, truncate, map, touch, free a memfd of 4 KiB", NULL, SMALL, 1, open_nothing, run_memfd_4k},
    {"memfd-1m", "the same with 1 MiB", NULL, MIDDLE, 1, open_nothing, run_memfd_1m},
    {"memfd-64m", "the same with 64 MiB", NULL, LARGE, 1, open_nothing, run_memfd_64m},
    {"clean", "DRM_IOCTL_NPU_BO_SYNC of 4 KiB, to the device", NULL, SMALL, 1, open_maintain_4k, run_clean},
    {"clean-1m", "the same of 1 MiB", NULL, MIDDLE, 1, open_maintain_1m, run_clean},
    {"invalidate", "DRM_IOCTL_NPU_BO_SYNC of 4 KiB, from the device", NULL, SMALL, 1, open_maintain_4k, run_invalidate},
    {"invalidate-1m", "the same of 1 MiB", NULL, MIDDLE, 1, open_maintain_1m, run_invalidate},
    {"s2d", "bm_memcpy_s2d of 4 KiB", NULL, SMALL, 1, open_copy_4k, run_s2d},
    {"s2d-64m", "bm_memcpy_s2d of 64 MiB", "memcpy-64m", COPIES, 1, open_copy_64m, run_s2d},
    {"d2s", "bm_memcpy_d2s of 4 KiB", NULL, SMALL, 1, open_copy_4k, run_d2s},
    {"d2s-64m", "bm_memcpy_d2s of 64 MiB", "memcpy-64m", COPIES, 1, open_copy_64m, run_d2s},
    {"memcpy-64m", "memcpy of 64 MiB in the process", NULL, COPIES, 1, open_memcpy, run_memcpy},
    {0},
};
