/* SPDX-License-Identifier: MIT */
/*
 * Random programs that make every call that a cache needs, against a plain array in the place of each buffer: with
 * NPU_CACHE=strict they see what they see without, and nothing is reported. Values are few, so that stores often repeat
 * what is there already. Then, with strict only: each of these programs, with one flush or invalidation left out.
 */
#include <bmlib_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

enum { BYTES = 4096, BUFFERS = 2, PROGRAMS = 12, STEPS = 250 };

struct extent {
  unsigned int buffer, offset, size;
};

/* A buffer, and what is true of it. */
struct buffer {
  npu_bo *bo;
  uint8_t *cached, *uncached;
  uint8_t value[BYTES]; /* with coherent caches */
  bool dirty[BYTES];    /* written through the cache and not flushed */
  bool stale[BYTES];    /* written past the cache and not invalidated */
};

static struct buffer buffers[BUFFERS];
static npu_device *device;
static npu_context *context;
static bm_handle_t handle;
static struct program p;
static uint64_t unfinished; /* a job, 0: none */
static struct extent reads, writes;
static unsigned int state;
static unsigned int unit; /* of offsets and sizes: without strict, caches write and drop whole lines */
static char told[4096];

static void keep(void *arg, int level, const char *text) {
  (void)arg;
  if (level != NPU_LOG_WARNING) return;
  const size_t length = strlen(told);
  snprintf(told + length, sizeof(told) - length, "%s\n", text);
}

static unsigned int below(unsigned int limit) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % limit;
}

static struct extent any_extent(void) {
  const unsigned int buffer = below(BUFFERS), all = BYTES / unit, few = 70 / unit;
  const unsigned int first = below(all), rest = all - first;
  const unsigned int count = 1 + below(below(2) || first + few >= all ? rest : few);

  return (struct extent){buffer, first * unit, count * unit};
}

static bool overlap(struct extent a, struct extent b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

static bool in_use(struct extent e) { return unfinished && (overlap(e, reads) || overlap(e, writes)); }

static bool any(const bool *flags, struct extent e) { return memchr(flags + e.offset, true, e.size); }

static void sync_extent(struct extent e, uint32_t direction) {
  MUST(npu_bo_sync(buffers[e.buffer].bo, e.offset, e.size, direction));
}

static void flush(struct extent e) {
  sync_extent(e, DRM_NPU_SYNC_TO_DEVICE);
  memset(buffers[e.buffer].dirty + e.offset, 0, e.size);
}

/* Dirty bytes would be lost, so they are flushed. */
static void invalidate(struct extent e) {
  if (any(buffers[e.buffer].dirty, e)) flush(e);
  if (in_use(e)) return; /* too early */
  sync_extent(e, DRM_NPU_SYNC_FROM_DEVICE);
  memset(buffers[e.buffer].stale + e.offset, 0, e.size);
}

/* Some of what is there already, some new. */
static void new_values(uint8_t *to, struct extent e) {
  static const uint8_t few[] = {0, 0xff, 7};
  const unsigned int how = below(4);

  for (unsigned int i = 0; i < e.size; i++)
    to[i] = how < 3 ? few[how] : below(2) ? buffers[e.buffer].value[e.offset + i] : (uint8_t)below(256);
  memcpy(buffers[e.buffer].value + e.offset, to, e.size);
}

static void wrote_past_the_cache(struct extent e) { memset(buffers[e.buffer].stale + e.offset, 1, e.size); }

static void finish_job(void) {
  if (!unfinished) return;
  if (below(2))
    assert_int_equal(must_wait(context, unfinished).error, 0);
  else
    MUST(npu_bo_wait(buffers[writes.buffer].bo, LONG_TIME));
  unfinished = 0;
}

static void store(struct extent e) {
  struct buffer *const b = &buffers[e.buffer];
  uint8_t data[BYTES];

  if (in_use(e)) finish_job();
  new_values(data, e);
  memcpy(b->cached + e.offset, data, e.size);
  memset(b->dirty + e.offset, 1, e.size);
  memset(b->stale + e.offset, 0, e.size);
}

static void load(struct extent e) {
  const struct buffer *const b = &buffers[e.buffer];

  if (in_use(e)) return;
  for (unsigned int i = e.offset; i < e.offset + e.size; i++)
    if (!b->stale[i] && b->cached[i] != b->value[i])
      fail_msg("byte %u of buffer %u is %#x, expected %#x", i, e.buffer, b->cached[i], b->value[i]);
}

static void copy_in(struct extent e) {
  uint8_t data[BYTES];

  if (in_use(e)) finish_job();
  flush(e);
  new_values(data, e);
  MUST(npu_write(buffers[e.buffer].bo, e.offset, data, e.size));
  wrote_past_the_cache(e);
}

static void copy_out(struct extent e) {
  uint8_t data[BYTES];

  if (in_use(e)) finish_job();
  flush(e);
  MUST(npu_read(buffers[e.buffer].bo, e.offset, data, e.size));
  assert_bytes(data, buffers[e.buffer].value + e.offset, e.size);
}

static void store_uncached(struct extent e) {
  uint8_t data[BYTES];

  if (in_use(e)) finish_job();
  flush(e);
  new_values(data, e);
  memcpy(buffers[e.buffer].uncached + e.offset, data, e.size);
  wrote_past_the_cache(e);
}

/* Copies as much from `src` as fits `dst`; its regions are these extents. */
static void start_job(struct extent dst, struct extent src) {
  struct drm_npu_stream stream = {.gdma_count = 1};
  uint8_t data[BYTES];

  finish_job();
  dst.size = src.size = dst.size < src.size ? dst.size : src.size;
  if (overlap(dst, src)) return;
  struct npu_job_region regions[] = {
      {p.bo, 0, npu_bo_size(p.bo), DRM_NPU_REGION_READ, 0},
      {buffers[dst.buffer].bo, dst.offset, dst.size, DRM_NPU_REGION_WRITE, 0},
      {buffers[src.buffer].bo, src.offset, src.size, DRM_NPU_REGION_READ, 0},
  };
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 3, .stream_count = 1};
  p.gdma_count = 0;
  program_copy(&p, 0, 0, src.size);
  program_flush(&p);
  flush(src);
  flush(dst);
  MUST(npu_submit(context, &job, 1, &unfinished));
  memcpy(data, buffers[src.buffer].value + src.offset, src.size);
  memcpy(buffers[dst.buffer].value + dst.offset, data, src.size);
  wrote_past_the_cache(dst);
  reads = src;
  writes = dst;
  if (below(2)) finish_job();
}

static struct extent all_of(unsigned int buffer) { return (struct extent){buffer, 0, BYTES}; }

static void map_again(unsigned int buffer) {
  struct buffer *const b = &buffers[buffer];

  finish_job();
  invalidate(all_of(buffer));
  npu_bo_unmap(b->bo);
  MUST(npu_bo_map(b->bo, (void **)&b->cached));
}

static void share_uncached(unsigned int buffer) {
  struct buffer *const b = &buffers[buffer];
  bm_device_mem_t mem = bm_mem_from_device(npu_bo_address(b->bo), BYTES);
  unsigned long long address = 0;

  if (b->uncached) {
    invalidate(all_of(buffer));
    assert_int_equal(bm_mem_unmap_device_mem(handle, b->uncached, BYTES), BM_SUCCESS);
    b->uncached = NULL;
    return;
  }
  assert_int_equal(bm_mem_mmap_device_mem_no_cache(handle, &mem, &address), BM_SUCCESS);
  b->uncached = (uint8_t *)(uintptr_t)address;
}

static void step(void) {
  const struct extent e = any_extent();

  switch (below(14)) {
    case 0:
    case 1:
    case 2:
      store(e);
      break;
    case 3:
    case 4:
      flush(e); /* also of what others have written, or are writing */
      break;
    case 5:
    case 6:
      invalidate(e);
      break;
    case 7:
      load(e);
      break;
    case 8:
      copy_in(e);
      break;
    case 9:
      copy_out(e);
      break;
    case 10:
      if (buffers[e.buffer].uncached) store_uncached(e);
      break;
    case 11:
      if (!below(8)) share_uncached(e.buffer);
      if (!below(8)) map_again(e.buffer);
      break;
    default:
      start_job(any_extent(), e);
  }
}

static void begin(unsigned int seed) {
  state = seed * 2654435761u + 1;
  memset(buffers, 0, sizeof(buffers));
  for (unsigned int i = 0; i < BUFFERS; i++) {
    buffers[i].bo = must_create(device, BYTES, i ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM);
    MUST(npu_bo_map(buffers[i].bo, (void **)&buffers[i].cached));
  }
}

static void end(void) {
  finish_job();
  for (unsigned int i = 0; i < BUFFERS; i++) {
    if (buffers[i].uncached) share_uncached(i);
    invalidate(all_of(i));
    assert_bytes(buffers[i].cached, buffers[i].value, BYTES);
    copy_out(all_of(i));
    npu_bo_unmap(buffers[i].bo);
    npu_bo_unref(buffers[i].bo);
  }
}

static void correct_programs_see_what_they_should(void **arg) {
  (void)arg;
  for (unsigned int seed = 0; seed < PROGRAMS; seed++) {
    begin(seed);
    for (int i = 0; i < STEPS; i++) step();
    end();
    if (*told) fail_msg("program %u: %s", seed, told);
  }
}

/* ---- strict ---- */

/* Every byte another value. */
static void change(struct extent e) {
  struct buffer *const b = &buffers[e.buffer];

  for (unsigned int i = e.offset; i < e.offset + e.size; i++) b->cached[i] = b->value[i] ^= 0x55;
}

static void assert_told(unsigned int seed, struct extent e, const char *what) {
  char expected[100];

  snprintf(expected, sizeof(expected), "%u byte%s from offset %#x on %s", e.size, e.size == 1 ? "" : "s", e.offset,
           what);
  if (!strstr(told, expected)) fail_msg("program %u: \"%s\" does not contain \"%s\"", seed, told, expected);
  *told = 0;
}

/* A random program, then nothing unfinished and nothing dirty or stale. */
static struct extent prepare(unsigned int seed) {
  begin(seed);
  for (int i = 0; i < STEPS / 5; i++) step();
  finish_job();
  for (unsigned int i = 0; i < BUFFERS; i++) {
    if (buffers[i].uncached) share_uncached(i);
    invalidate(all_of(i));
  }
  assert_string_equal(told, "");
  return any_extent();
}

static void each_forgotten_flush_is_reported(void **arg) {
  (void)arg;
  for (unsigned int seed = 0; seed < PROGRAMS; seed++) {
    const struct extent e = prepare(seed);
    struct npu_job_region regions[] = {{p.bo, 0, npu_bo_size(p.bo), DRM_NPU_REGION_READ, 0},
                                       {buffers[e.buffer].bo, 0, BYTES, DRM_NPU_REGION_READ, 0}};
    struct drm_npu_stream stream = {.gdma_count = 0};
    struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 2, .stream_count = 1};

    change(e);
    MUST(npu_submit(context, &job, 1, &unfinished));
    assert_told(seed, e, "were written by the program and not flushed");
    memset(buffers[e.buffer].dirty + e.offset, 1, e.size);
    end();
    assert_string_equal(told, "");
  }
}

static void each_forgotten_invalidation_is_reported(void **arg) {
  (void)arg;
  for (unsigned int seed = 0; seed < PROGRAMS; seed++) {
    const struct extent e = prepare(seed);
    uint8_t data[BYTES];

    for (unsigned int i = 0; i < e.size; i++) data[i] = buffers[e.buffer].value[e.offset + i] ^= 0x55;
    MUST(npu_write(buffers[e.buffer].bo, e.offset, data, e.size));
    npu_bo_unmap(buffers[e.buffer].bo);
    assert_told(seed, e, "were written by a");
    MUST(npu_bo_map(buffers[e.buffer].bo, (void **)&buffers[e.buffer].cached));
    end();
    assert_string_equal(told, "");
  }
}

static int set_up(void **arg) {
  (void)arg;
  *told = 0;
  npu_set_log(NPU_LOG_WARNING, keep, NULL);
  device = must_open();
  context = must_context(device);
  assert_int_equal(bm_dev_request(&handle, 0), BM_SUCCESS);
  program_init(&p, device);
  return 0;
}

static int tear_down(void **arg) {
  (void)arg;
  program_free(&p);
  bm_dev_free(handle);
  npu_context_destroy(context);
  npu_device_close(device);
  npu_set_log(NPU_LOG_OFF, NULL, NULL);
  return 0;
}

int cache_random_tests(bool strict) {
  unit = strict ? 1 : 64;
  const struct CMUnitTest tests[] = {cmocka_unit_test(correct_programs_see_what_they_should)};
  const struct CMUnitTest mistakes[] = {
      cmocka_unit_test(each_forgotten_flush_is_reported),
      cmocka_unit_test(each_forgotten_invalidation_is_reported),
  };
  const int failures = cmocka_run_group_tests_name("cache, random programs", tests, set_up, tear_down);

  return failures +
         (strict ? cmocka_run_group_tests_name("cache strict, random mistakes", mistakes, set_up, tear_down) : 0);
}
