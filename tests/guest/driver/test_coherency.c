/* SPDX-License-Identifier: MIT */
/*
 * The driver's cache maintenance on boards where the device does not snoop the caches (docs/reference/boards.md, board
 * soc): BO_SYNC to the byte, uncached mappings, fence page, seals, and the reports of the cache watch. On boards with
 * coherent caches the same calls succeed without effect.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/stores.h"

#define LINE 64u

/* Usage by a program with correct cache maintenance. */
static uint8_t *map_cached(const struct bo *bo) {
  void *map = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)bo->mmap_offset);

  assert_ptr_not_equal(map, MAP_FAILED);
  return map;
}

static int raw_map_uncached(uint64_t offset, uint64_t size, uint8_t **map) {
  *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset | DRM_NPU_MMAP_WC));
  return *map == MAP_FAILED ? -errno : 0;
}

static int raw_sync(const struct bo *bo, uint32_t direction, uint64_t offset, uint64_t size) {
  struct drm_npu_bo_sync args = {.handle = bo->handle, .direction = direction, .offset = offset, .size = size};

  return raw_ioctl(fd, DRM_IOCTL_NPU_BO_SYNC, &args);
}

static void sync_range(const struct bo *bo, uint32_t direction, uint64_t offset, uint64_t size) {
  assert_int_equal(raw_sync(bo, direction, offset, size), 0);
}

static struct drm_npu_watch_info watch(void) {
  struct drm_npu_watch_info info;
  struct drm_npu_dev_query query = {.type = DRM_NPU_QUERY_WATCH, .size = sizeof(info), .pointer = (uintptr_t)&info};

  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &query), 0);
  assert_int_equal(query.size, sizeof(info));
  return info;
}

static uint32_t reports(const struct drm_npu_watch_info *info) {
  return info->uncleaned + info->stale + info->overwritten + info->discarded;
}

/* The device writes `value` to a range of a buffer. */
static void device_fills(const struct bo *bo, uint64_t offset, uint32_t bytes, uint8_t value) {
  struct stream stream;
  struct job job;

  stream_create(fd, 1, &stream);
  job_init(&job);
  job_region(&job, bo, DRM_NPU_REGION_WRITE);
  stream_fill(&stream, 0, offset, bytes, value);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  stream_destroy(fd, &stream);
}

static void device_copies(const struct bo *from, const struct bo *to, uint64_t offset, uint32_t bytes) {
  struct stream stream;
  struct job job;

  stream_create(fd, 1, &stream);
  job_init(&job);
  job_region(&job, from, DRM_NPU_REGION_READ);
  job_region(&job, to, DRM_NPU_REGION_WRITE);
  stream_copy(&stream, 0, offset, 1, offset, bytes);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  stream_destroy(fd, &stream);
}

/*
 * The last report in debugfs of a kind, or of any (""); "" if there is none. Reports on free memory do not count:
 * unpinned pages hold data of the device, and the kernel may read them before it writes to them.
 */
static void last_report(const char *kind, char *line, size_t room) {
  char text[1024], key[32];
  FILE *file = popen("cat /sys/kernel/debug/accel/*/cache_watch 2>/dev/null", "r");

  assert_non_null(file);
  snprintf(key, sizeof(key), "kind=%s", kind);
  *line = 0;
  while (fgets(text, sizeof(text), file))
    if (!strncmp(text, key, strlen(key)) && !strstr(text, " place=unknown ")) snprintf(line, room, "%s", text);
  pclose(file);
}

static void clear_reports(void) {
  assert_int_equal(system("for f in /sys/kernel/debug/accel/*/cache_watch; do [ ! -e $f ] || echo >$f; done"), 0);
}

/* A correct program causes no report. */
static struct drm_npu_watch_info before;

static int begin(void **state) {
  int ret = set_up(state);

  clear_reports();
  before = watch();
  return ret;
}

static void expect_no_report(void) {
  struct drm_npu_watch_info after = watch();
  char line[1024];

  last_report("", line, sizeof(line));
  if (*line) fail_msg("the cache watch reports: %s", line);
  assert_int_equal(after.uncleaned, before.uncleaned);
}

static void info_says_what_the_device_sits_on(void **state) {
  struct drm_npu_dev_info info;
  struct drm_npu_watch_info counts = watch();

  (void)state;
  npu_info(fd, &info);
  assert_in_range(info.bus, DRM_NPU_BUS_PCI, DRM_NPU_BUS_PLATFORM);
  assert_int_equal(info.flags & ~DRM_NPU_INFO_NONCOHERENT, 0);
  if (info.bus == DRM_NPU_BUS_PLATFORM) {
    assert_int_equal(info.ddr_bytes, 0);
    assert_int_equal(info.pci_domain | info.pci_bus | info.pci_device | info.pci_function, 0);
  } else {
    assert_int_equal(reports(&counts), 0);
    assert_int_equal(counts.flags, 0);
  }
  if (counts.flags) assert_int_equal(info.flags, DRM_NPU_INFO_NONCOHERENT);
}

static void a_device_without_memory_has_no_card_buffers(void **state) {
  struct drm_npu_bo_create args = {.size = KIB(4), .flags = DRM_NPU_BO_CARD};
  struct drm_npu_memory_info memory;

  (void)state;
  if (has_card_memory(fd)) return;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_CREATE, &args), -ENOSPC);
  npu_memory(fd, &memory);
  assert_int_equal(memory.card_total | memory.card_free | memory.card_largest | memory.file_card_max, 0);
}

/* The rule: clean after the CPU has written, invalidate before it reads. */
static void maintained_memory_is_the_same_for_both(void **state) {
  enum { BYTES = 3 << 20 };
  struct bo from, to;
  uint8_t *in, *out;

  (void)state;
  bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &from);
  bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &to);
  in = map_cached(&from);
  out = map_cached(&to);
  for (int round = 1; round < 4; round++) {
    for (uint32_t i = 0; i < BYTES; i++) in[i] = (uint8_t)(i * 7 + i / 251 + round);
    sync_range(&from, DRM_NPU_SYNC_TO_DEVICE, 0, BYTES);
    device_copies(&from, &to, 0, BYTES);
    sync_range(&to, DRM_NPU_SYNC_FROM_DEVICE, 0, BYTES);
    assert_memory_equal(in, out, BYTES);
  }
  munmap(in, BYTES);
  munmap(out, BYTES);
  bo_destroy(fd, &from);
  bo_destroy(fd, &to);
  expect_no_report();
}

/* CPU and device write alternate lines of a page: maintenance of one line must not affect its neighbours. */
static void sync_is_exact(void **state) {
  struct bo bo;
  uint8_t *p;

  (void)state;
  bo_create(fd, KIB(16), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  memset(p, 1, bo.size);
  sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, 0, bo.size);
  for (uint64_t at = 0; at < bo.size; at += 2 * LINE) device_fills(&bo, at, LINE, 2);
  for (uint64_t at = LINE; at < bo.size; at += 2 * LINE) memset(p + at, 3, LINE);
  for (uint64_t at = 0; at < bo.size; at += 2 * LINE) sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, at, LINE);
  for (uint64_t at = 0; at < bo.size; at += LINE) assert_true(is_filled(p + at, LINE, at / LINE % 2 ? 3 : 2));
  sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, 0, bo.size);
  munmap(p, bo.size);
  bo_destroy(fd, &bo);
  expect_no_report();
}

/* Ranges that end inside lines, cross pages and pieces of memory, or are empty: exactly the range is maintained. */
static void sync_takes_any_range(void **state) {
  enum { BYTES = (4 << 20) + 12288 };
  static const struct {
    uint64_t offset, size;
  } ranges[] = {
      {0, 0},         {BYTES, 0}, {1, 1}, {4095, 2}, {63, 4098}, {(2 << 20) - 1, 2}, {(2 << 20) - 100, 2 << 20},
      {BYTES - 1, 1}, {0, BYTES}};
  struct bo bo, copy;
  uint8_t *p;

  (void)state;
  bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &bo);
  bo_create_mapped(fd, BYTES, DRM_NPU_BO_SYSTEM, &copy);
  p = map_cached(&bo);
  for (uint32_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
    const uint64_t at = ranges[i].offset, size = ranges[i].size;

    memset(p + at, (int)i + 1, size);
    sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, at, size);
    if (!size) continue;
    device_copies(&bo, &copy, at, (uint32_t)size);
    if (!is_coherent(fd)) assert_true(is_filled(copy.map + at, size, (uint8_t)(i + 1)));
    device_fills(&bo, at, (uint32_t)size, 0x80);
    sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, at, size);
    assert_true(is_filled(p + at, size, 0x80));
  }
  assert_int_equal(raw_sync(&bo, DRM_NPU_SYNC_TO_DEVICE, 1, bo.size), -EINVAL);
  munmap(p, BYTES);
  bo_destroy(fd, &bo);
  bo_destroy(fd, &copy);
}

static uint8_t *own_memory(uint64_t bytes) {
  uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  assert_ptr_not_equal(p, MAP_FAILED);
  return p;
}

static void pin(const uint8_t *p, uint64_t bytes, struct bo *bo) {
  struct drm_npu_bo_userptr args = {.addr = (uintptr_t)p, .size = bytes};

  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_USERPTR, &args), 0);
  *bo = (struct bo){.handle = args.handle, .size = bytes, .va = args.va};
}

static void process_memory_is_maintained_the_same_way(void **state) {
  enum { BYTES = 1 << 20 };
  struct bo bo, to;
  uint8_t *p = own_memory(BYTES);

  (void)state;
  pin(p, BYTES, &bo);
  memset(p, 5, BYTES);
  bo_create_mapped(fd, BYTES, DRM_NPU_BO_SYSTEM, &to);
  sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, 0, BYTES);
  device_copies(&bo, &to, 0, BYTES);
  assert_true(is_filled(to.map, BYTES, 5));
  device_fills(&bo, LINE, BYTES / 2, 6);
  p[0] = 7;
  p[LINE + BYTES / 2] = 7;
  sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, LINE, BYTES / 2);
  assert_true(is_filled(p + LINE, BYTES / 2, 6));
  assert_true(p[0] == 7 && p[LINE + BYTES / 2] == 7);
  raw_gem_close(fd, bo.handle);
  bo_destroy(fd, &to);
  munmap(p, BYTES);
  expect_no_report();
}

/*
 * Pages with data of a former owner in memory, while the zeros of the new owner may be in caches only. The new owner
 * must not see the data, neither through the device nor by an invalidation.
 */
static void process_memory_shows_nothing_of_others(void **state) {
  enum { BYTES = 4 << 20 };
  struct bo bo, copy;
  uint8_t *p;

  (void)state;
  bo_create_mapped(fd, BYTES, DRM_NPU_BO_SYSTEM, &copy);
  for (int i = 0; i < 4; i++) {
    p = own_memory(BYTES);
    memset(p, 0x5e, BYTES);
    pin(p, BYTES, &bo);
    sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, 0, BYTES);
    bo_destroy(fd, &bo);
    munmap(p, BYTES);

    p = own_memory(BYTES);
    pin(p, BYTES, &bo);
    if (i & 1) sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, 0, BYTES);
    device_copies(&bo, &copy, 0, BYTES);
    assert_true(is_filled(copy.map, BYTES, 0));
    assert_true(is_filled(p, BYTES, 0));
    bo_destroy(fd, &bo);
    munmap(p, BYTES);
  }
  bo_destroy(fd, &copy);
  expect_no_report();
}

/* An uncached mapping needs no maintenance, and shows earlier stores through cached ones. */
static void mappings_past_the_caches_need_no_sync(void **state) {
  enum { BYTES = 1 << 20 };
  struct bo from, to;
  uint8_t *cached, *in, *out;

  (void)state;
  bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &from);
  bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &to);
  cached = map_cached(&from);
  memset(cached, 0x11, BYTES);
  assert_int_equal(raw_map_uncached(from.mmap_offset, BYTES, &in), 0);
  assert_int_equal(raw_map_uncached(to.mmap_offset, BYTES, &out), 0);
  assert_true(is_filled(in, BYTES, 0x11));
  device_copies(&from, &to, 0, BYTES);
  assert_true(is_filled(out, BYTES, 0x11));
  memset(in + BYTES / 2, 0x22, BYTES / 2);
  device_copies(&from, &to, 0, BYTES);
  assert_true(is_filled(out, BYTES / 2, 0x11) && is_filled(out + BYTES / 2, BYTES / 2, 0x22));
  /* Maintenance must not restore older cached data; an invalidation shows the new bytes there, too. */
  sync_range(&from, DRM_NPU_SYNC_TO_DEVICE, 0, BYTES);
  device_copies(&from, &to, 0, BYTES);
  assert_true(is_filled(out, BYTES / 2, 0x11) && is_filled(out + BYTES / 2, BYTES / 2, 0x22));
  sync_range(&from, DRM_NPU_SYNC_FROM_DEVICE, 0, BYTES);
  memset(in, 0x44, BYTES / 2);
  assert_true(is_filled(cached, BYTES / 2, 0x44) && is_filled(cached + BYTES / 2, BYTES / 2, 0x22));
  /* The same holds for copies of the mapping, with other access rights or in a child. */
  assert_int_equal(mprotect(out, BYTES, PROT_READ), 0);
  device_fills(&to, 0, BYTES, 0x33);
  assert_true(is_filled(out, BYTES, 0x33));
  pid_t child = fork();
  if (!child) _exit(is_filled(out, BYTES, 0x33) ? 0 : 1);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  munmap(cached, BYTES);
  munmap(in, BYTES);
  munmap(out, BYTES);
  bo_destroy(fd, &from);
  bo_destroy(fd, &to);
  expect_no_report();
}

/* Creating an uncached mapping, in any process, discards no stores through cached ones. */
static void uncached_mappings_discard_no_stores(void **state) {
  struct stores stores;
  uint8_t *cached, *map;
  struct bo bo;

  (void)state;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  cached = map_cached(&bo);
  stores_begin(&stores, cached);
  for (int i = 0; i < 200; i++) {
    assert_int_equal(raw_map_uncached(bo.mmap_offset, KIB(64), &map), 0);
    munmap(map, KIB(64));
  }
  stores_end(&stores);
  munmap(cached, KIB(64));
  bo_destroy(fd, &bo);
  expect_no_report();
}

/* Any part of a system buffer can be mapped uncached; all other objects are refused. */
static void only_system_buffers_are_mapped_past_the_caches(void **state) {
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR}, in = {0};
  struct drm_npu_ctx_create other = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct bo bo;
  uint8_t *map;

  (void)state;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  assert_int_equal(raw_map_uncached(bo.mmap_offset, KIB(4), &map), 0);
  device_fills(&bo, 0, KIB(64), 9);
  assert_true(is_filled(map, KIB(4), 9));
  munmap(map, KIB(4));
  assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
  assert_int_equal(raw_map_uncached(bo.mmap_offset, KIB(64), &map), -EACCES);
  bo_destroy(fd, &bo);

  if (has_card_memory(fd)) {
    bo_create(fd, KIB(64), DRM_NPU_BO_CARD, &bo);
    assert_int_equal(raw_map_uncached(bo.mmap_offset, KIB(64), &map), -EINVAL);
    bo_destroy(fd, &bo);
  }
  assert_int_equal(raw_ctx_create(fd, &other), 0);
  assert_int_equal(raw_map_uncached(other.fence_offset, KIB(4), &map), -EINVAL);
  assert_int_equal(raw_ctx_destroy(fd, other.ctx_id), 0);
  assert_int_equal(raw_map_uncached(MIB(1), KIB(4), &map), -EINVAL);
  assert_int_equal(raw_map_uncached(1ull << 42, KIB(4), &map), -EINVAL);

  /* A re-imported buffer is the same buffer. */
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  out.handle = bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  in.fd = out.fd;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), 0);
  assert_int_equal(in.handle, bo.handle);
  assert_int_equal(raw_map_uncached(bo.mmap_offset, KIB(64), &map), 0);
  munmap(map, KIB(64));
  close(out.fd);
  bo_destroy(fd, &bo);
}

/* The fence page needs no cache maintenance. */
static void fence_page_can_be_polled(void **state) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  const volatile struct npu_fence *fence;
  struct stream stream;
  struct job job;

  (void)state;
  assert_int_equal(raw_ctx_create(fd, &args), 0);
  fence = mmap(NULL, KIB(4), PROT_READ, MAP_SHARED, fd, (off_t)args.fence_offset);
  assert_ptr_not_equal((void *)(uintptr_t)fence, MAP_FAILED);
  for (int i = 0; i < 100; i++) {
    uint64_t seqno;

    assert_int_equal(fence->seqno, i);
    stream_create(fd, 1, &stream);
    stream_nop(&stream, 0);
    job_init(&job);
    job_gdma(&job, &stream);
    seqno = submit(fd, args.ctx_id, &job);
    for (int64_t end = now_ms() + FOREVER_MS; fence->seqno < seqno;) assert_true(now_ms() < end);
    wait_ok(fd, args.ctx_id, seqno);
    stream_destroy(fd, &stream);
  }
  assert_int_equal(raw_ctx_destroy(fd, args.ctx_id), 0);
  assert_int_equal(fence->seqno, 100);
  munmap((void *)(uintptr_t)fence, KIB(4));
  expect_no_report();
}

/* A sealed buffer cannot be synced any more: sealing cleans it. */
static void sealed_memory_is_seen(bool mapped_past_the_caches) {
  enum { BYTES = 1 << 20 };
  struct bo from, to;
  uint8_t *p;

  bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &from);
  bo_create_mapped(fd, BYTES, DRM_NPU_BO_SYSTEM, &to);
  if (mapped_past_the_caches) {
    bo_map(fd, &from);
    memset(from.map, 0x11, BYTES);
    bo_unmap(&from);
  }
  p = map_cached(&from);
  memset(p, 0x77, BYTES);
  assert_int_equal(raw_bo_seal(fd, from.handle), 0);
  device_copies(&from, &to, 0, BYTES);
  assert_true(is_filled(to.map, BYTES, 0x77));
  munmap(p, BYTES);
  bo_destroy(fd, &from);
  bo_destroy(fd, &to);
  expect_no_report();
}

static void sealed_memory_is_for_the_device(void **state) {
  (void)state;
  sealed_memory_is_seen(false);
  sealed_memory_is_seen(true);
}

/* Reused pages are zero for CPU and device, whatever the caches hold of them. */
static void new_memory_is_zero_for_both(void **state) {
  enum { BYTES = 2 << 20 };
  struct bo bo, copy;
  uint8_t *p;

  (void)state;
  bo_create_mapped(fd, BYTES, DRM_NPU_BO_SYSTEM, &copy);
  for (int i = 0; i < 8; i++) {
    bo_create(fd, BYTES, DRM_NPU_BO_SYSTEM, &bo);
    device_fills(&copy, 0, BYTES, 0xff);
    device_copies(&bo, &copy, 0, BYTES);
    assert_true(is_filled(copy.map, BYTES, 0));
    p = map_cached(&bo);
    assert_true(is_filled(p, BYTES, 0));
    memset(p, 0xee, BYTES); /* never cleaned */
    munmap(p, BYTES);
    bo_destroy(fd, &bo);
  }
  bo_destroy(fd, &copy);
  expect_no_report();
}

/* --- the watch ---------------------------------------------------------------------------------------------------- */

static void expect_key(const char *line, const char *key, uint64_t value) {
  char word[64];
  const char *found;

  snprintf(word, sizeof(word), " %s=", key);
  found = strstr(line, word);
  if (!found || strtoull(found + strlen(word), NULL, 0) != value)
    fail_msg("%s is not %llu in: %s", key, (unsigned long long)value, line);
}

static bool has_watch(void) { return watch().flags & DRM_NPU_WATCH_PRESENT; }

/* Reports name buffer, owner and command, also after these are gone. */
static void forgotten_cleaning_is_reported(void **state) {
  struct bo from, to;
  struct drm_npu_watch_info after;
  char line[1024];
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &from);
  bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &to);
  p = map_cached(&from);
  p[KIB(8) + 3] = 0x42;
  device_copies(&from, &to, 0, KIB(64));
  munmap(p, KIB(64));
  bo_destroy(fd, &from);
  bo_destroy(fd, &to);

  after = watch();
  assert_int_equal(after.uncleaned, before.uncleaned + 1);
  last_report("uncleaned", line, sizeof(line));
  expect_key(line, "buffer", from.handle);
  expect_key(line, "offset", KIB(8) + 3);
  expect_key(line, "bytes", 1);
  expect_key(line, "size", KIB(64));
  expect_key(line, "pid", (uint64_t)getpid());
  expect_key(line, "owner_pid", (uint64_t)getpid());
  expect_key(line, "level", 0);
  expect_key(line, "command", 0);
  assert_non_null(strstr(line, " comm=coherency "));
  assert_non_null(strstr(line, " owner=coherency "));
  assert_non_null(strstr(line, " engine=gdma "));
}

static void forgotten_invalidation_is_reported(void **state) {
  struct drm_npu_watch_info after;
  struct bo bo;
  char line[1024];
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  assert_true(is_filled(p, KIB(64), 0));
  device_fills(&bo, KIB(4), LINE, 1);
  (void)*(volatile uint8_t *)(p + KIB(4));
  last_report("stale", line, sizeof(line));
  expect_key(line, "buffer", bo.handle);
  expect_key(line, "offset", KIB(4));
  expect_key(line, "pid", (uint64_t)getpid());
  after = watch();
  assert_true(after.stale > before.stale);
  munmap(p, KIB(64));
  bo_destroy(fd, &bo);
}

/* The kernel makes the access on the program's behalf. */
static void thrown_away_writes_are_reported(void **state) {
  struct bo bo;
  char line[1024];
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  p[LINE] = 1;
  sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, 0, KIB(64));
  last_report("discarded", line, sizeof(line));
  expect_key(line, "buffer", bo.handle);
  expect_key(line, "offset", LINE);
  expect_key(line, "level", 1);
  assert_null(strstr(line, " symbol=- "));
  munmap(p, KIB(64));
  bo_destroy(fd, &bo);
}

/* The driver has only the DMA mapping of foreign memory: behind an SMMU the physical address differs. */
static void mistakes_in_process_memory_are_reported(void **state) {
  char line[1024];
  struct bo bo;
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  p = own_memory(KIB(64));
  pin(p, KIB(64), &bo);
  p[KIB(8) + LINE] = 1;
  sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, 0, KIB(64));
  last_report("discarded", line, sizeof(line));
  expect_key(line, "buffer", bo.handle);
  expect_key(line, "offset", KIB(8) + LINE);
  expect_key(line, "owner_pid", (uint64_t)getpid());
  bo_destroy(fd, &bo);
  munmap(p, KIB(64));
}

static void replaced_results_are_reported(void **state) {
  struct bo bo;
  char line[1024];
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  p[0] = 1;
  device_fills(&bo, 32, 32, 2); /* the same line */
  sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, 0, LINE);
  last_report("overwritten", line, sizeof(line));
  expect_key(line, "buffer", bo.handle);
  expect_key(line, "offset", 32);
  expect_key(line, "bytes", 32);
  expect_key(line, "pid", (uint64_t)getpid());
  munmap(p, KIB(64));
  bo_destroy(fd, &bo);
}

/* The program has exited before the reports are read. */
static void programs_that_have_ended_are_named(void **state) {
  char line[1024];
  int status;
  pid_t child;

  (void)state;
  if (!has_watch()) return;
  child = fork();
  if (!child) {
    struct bo from, to;

    fd = npu_open();
    ctx = ctx_create(fd);
    bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &from);
    bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &to);
    memset(map_cached(&from), 0x42, LINE);
    device_copies(&from, &to, 0, KIB(64));
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  last_report("uncleaned", line, sizeof(line));
  expect_key(line, "pid", (uint64_t)child);
  expect_key(line, "owner_pid", (uint64_t)child);
  expect_key(line, "offset", 0);
}

/* Real-time priority on the CPU that takes the interrupts: deferred work runs only while this task sleeps. */
static void run_alone(bool alone) {
  const struct sched_param param = {.sched_priority = alone ? sched_get_priority_max(SCHED_FIFO) : 0};
  cpu_set_t set;

  CPU_ZERO(&set);
  for (int i = 0; i < (alone ? 1 : CPU_SETSIZE); i++) CPU_SET(i, &set);
  assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
  assert_int_equal(sched_setscheduler(0, alone ? SCHED_FIFO : SCHED_OTHER, &param), 0);
}

/* Reports in debugfs that have both keys. */
static uint32_t count_reports(const char *key, const char *other) {
  FILE *file = popen("cat /sys/kernel/debug/accel/*/cache_watch", "r");
  uint32_t count = 0;
  char text[1024];

  assert_non_null(file);
  while (fgets(text, sizeof(text), file)) count += strstr(text, key) && strstr(text, other);
  pclose(file);
  return count;
}

/* More reports than one work resolves, about a buffer that the device never used, and that is closed at once. */
static void mistakes_with_closed_buffers_are_named(void **state) {
  enum { MISTAKES = 40 };
  char name[32];
  int synced, closed;
  struct bo bo;
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  run_alone(true);
  for (uint32_t i = 0; i < MISTAKES; i++) p[2 * i * LINE] = 1;
  synced = raw_sync(&bo, DRM_NPU_SYNC_FROM_DEVICE, 0, KIB(64));
  closed = raw_gem_close(fd, bo.handle);
  run_alone(false);
  assert_int_equal(synced, 0);
  assert_int_equal(closed, 0);
  assert_int_equal(watch().discarded, before.discarded + MISTAKES);
  snprintf(name, sizeof(name), " buffer=%u ", bo.handle);
  assert_int_equal(count_reports("kind=discarded place=buffer ", name), MISTAKES);
  munmap(p, KIB(64));
}

/* A buffer was re-imported under another handle, while its first handle names another buffer. */
static void mistakes_have_the_handle_of_now(void **state) {
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR}, in = {0};
  char line[1024];
  struct bo bo, other;
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  out.handle = bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  assert_int_equal(raw_gem_close(fd, bo.handle), 0);
  do bo_create(fd, KIB(4), DRM_NPU_BO_SYSTEM, &other);
  while (other.handle != bo.handle);
  in.fd = out.fd;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), 0);
  assert_int_not_equal(in.handle, bo.handle);
  bo.handle = in.handle;
  p[LINE] = 1;
  sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, 0, KIB(64));
  last_report("discarded", line, sizeof(line));
  expect_key(line, "buffer", in.handle);
  expect_key(line, "offset", LINE);
  munmap(p, KIB(64));
  close(out.fd);
  bo_destroy(fd, &bo);
  bo_destroy(fd, &other);
}

static void reports_are_cleared(void **state) {
  struct drm_npu_watch_info first, after;
  char line[1024];

  (void)state;
  if (!has_watch()) return;
  first = watch();
  assert_true(first.flags & DRM_NPU_WATCH_ENABLED);
  clear_reports();
  last_report("", line, sizeof(line));
  assert_string_equal(line, "");
  after = watch();
  assert_true(reports(&after) >= reports(&first));
}

/* Waits until the block is suspended. */
static void wait_asleep(void) {
  char text[32] = "";

  for (int64_t end = now_ms() + FOREVER_MS; strcmp(text, "suspended\n");) {
    FILE *file = popen("cat /sys/bus/platform/drivers/qnpu/*/power/runtime_status", "r");

    assert_true(now_ms() < end);
    assert_non_null(fgets(text, sizeof(text), file));
    pclose(file);
  }
}

/* An unused block is powered off, and on again for the next user; counters of the watch stay. */
static void idle_devices_sleep(void **state) {
  struct drm_npu_dev_info info;
  struct drm_npu_watch_info first = watch();
  struct bo bo;

  (void)state;
  npu_info(fd, &info);
  if (info.bus != DRM_NPU_BUS_PLATFORM) return;
  bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  for (int round = 0; round < 3; round++) {
    device_fills(&bo, 0, KIB(64), (uint8_t)(round + 1));
    ctx_destroy(fd, ctx);
    wait_asleep();
    assert_true(is_filled(bo.map, KIB(64), (uint8_t)(round + 1)));
    ctx = ctx_create(fd);
  }
  run_nop(fd, ctx);
  assert_int_equal(watch().uncleaned, first.uncleaned);
  bo_destroy(fd, &bo);
}

/* CPUs keep causing reports while the block has no power. */
static void mistakes_beside_a_sleeping_device_are_reported(void **state) {
  char line[1024];
  struct bo bo;
  uint8_t *p;

  (void)state;
  if (!has_watch()) return;
  clear_reports();
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  p = map_cached(&bo);
  ctx_destroy(fd, ctx);
  wait_asleep();
  memset(p, 0x33, LINE);
  sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, 0, LINE);
  last_report("discarded", line, sizeof(line));
  expect_key(line, "buffer", bo.handle);
  expect_key(line, "bytes", LINE);
  munmap(p, KIB(64));
  bo_destroy(fd, &bo);
  ctx = ctx_create(fd);
}

/* The firmware refuses power, then the clock, then the end of reset: a context's jobs fail, the next one works. */
static void a_device_that_does_not_wake_up_is_tried_again(void **state) {
  static const char *const refused[] = {"power", "clock", "reset"};
  struct drm_npu_dev_info info;
  struct drm_npu_wait wait;
  struct stream nops;
  struct job job;

  (void)state;
  npu_info(fd, &info);
  if (info.bus != DRM_NPU_BUS_PLATFORM) return;
  ctx_destroy(fd, ctx);
  stream_create(fd, 1, &nops);
  stream_nop(&nops, 0);
  for (int i = 0; i < 3; i++) {
    wait_asleep();
    fault_set(refused[i], 1);
    ctx = ctx_create(fd);
    job_init(&job);
    job_gdma(&job, &nops);
    submit(fd, ctx, &job);
    wait_result(fd, ctx, job.args.seqno, &wait);
    assert_int_equal(wait.error, -ENODEV);
    assert_int_equal(fault_left(refused[i]), 0);
    ctx_destroy(fd, ctx);
    ctx = ctx_create(fd);
    run_nop(fd, ctx);
    ctx_destroy(fd, ctx);
  }
  stream_destroy(fd, &nops);
  ctx = ctx_create(fd);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(info_says_what_the_device_sits_on),
      TEST(a_device_without_memory_has_no_card_buffers),
      TEST(maintained_memory_is_the_same_for_both),
      TEST(sync_is_exact),
      TEST(sync_takes_any_range),
      TEST(process_memory_is_maintained_the_same_way),
      TEST(process_memory_shows_nothing_of_others),
      TEST(mappings_past_the_caches_need_no_sync),
      TEST(uncached_mappings_discard_no_stores),
      TEST(only_system_buffers_are_mapped_past_the_caches),
      TEST(fence_page_can_be_polled),
      TEST(sealed_memory_is_for_the_device),
      TEST(new_memory_is_zero_for_both),
      TEST(forgotten_cleaning_is_reported),
      TEST(forgotten_invalidation_is_reported),
      TEST(thrown_away_writes_are_reported),
      TEST(mistakes_in_process_memory_are_reported),
      TEST(replaced_results_are_reported),
      TEST(programs_that_have_ended_are_named),
      TEST(mistakes_with_closed_buffers_are_named),
      TEST(mistakes_have_the_handle_of_now),
      TEST(reports_are_cleared),
      TEST(idle_devices_sleep),
      TEST(a_device_that_does_not_wake_up_is_tried_again),
      TEST(mistakes_beside_a_sleeping_device_are_reported),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
