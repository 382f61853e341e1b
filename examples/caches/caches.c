/* SPDX-License-Identifier: MIT */
/*
 * A program for a SoC whose caches the NPU does not see, right and wrong in every way that people get it wrong.
 *
 *   caches           copies by the NPU as it should be done, and checks the result
 *   caches BUG       the same with a mistake
 *   caches --list    the mistakes, with the report that the board's cache watch makes of each
 *
 * It says how many bytes of the result are wrong. On a board without caches of that kind none is, ever; on the board
 * `soc` it depends on luck for most of them, and the watch reports the mistake whether or not it did harm.
 */
#include <bmlib_runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LINE = 64,         /* bytes of a line of the cache */
  BYTES = 1 << 20,   /* of a buffer: the NPU copies it, not the processor */
  COUNTER = LINE / 2 /* bytes at the end of a buffer that are not the NPU's, where a mistake needs some */
};

/* Device memory that the program sees through its cache. */
struct buffer {
  bm_device_mem_t mem;
  uint8_t *data;
};

struct program {
  bm_handle_t npu;
  struct buffer in, out, other;
};

static void check(bm_status_t status, const char *what) {
  if (status == BM_SUCCESS) return;
  fprintf(stderr, "caches: %s failed with %d\n", what, (int)status);
  exit(1);
}

static void make(struct program *p, struct buffer *b) {
  unsigned long long address;
  check(bm_malloc_device_byte(p->npu, &b->mem, BYTES), "bm_malloc_device_byte");
  check(bm_mem_mmap_device_mem(p->npu, &b->mem, &address), "bm_mem_mmap_device_mem");
  b->data = (uint8_t *)(uintptr_t)address;
}

static void free_buffer(struct program *p, struct buffer *b) {
  check(bm_mem_unmap_device_mem(p->npu, b->data, BYTES), "bm_mem_unmap_device_mem");
  bm_free_device(p->npu, b->mem);
}

/* Processor: the next picture, or what passes for one. */
static void fill(struct buffer *b, unsigned int first, unsigned int end) {
  for (unsigned int i = first; i < end; i++) b->data[i] = (uint8_t)(i * 7 + i / 251 + 1);
}

static void flush(struct program *p, struct buffer *b, unsigned int offset, unsigned int bytes) {
  check(bm_mem_flush_partial_device_mem(p->npu, &b->mem, offset, bytes), "flush");
}

static void invalidate(struct program *p, struct buffer *b, unsigned int offset, unsigned int bytes) {
  check(bm_mem_invalidate_partial_device_mem(p->npu, &b->mem, offset, bytes), "invalidate");
}

/* The NPU reads `from` and writes `to`; it has finished on return. */
static void job(struct program *p, struct buffer *to, struct buffer *from, unsigned int bytes) {
  check(bm_memcpy_d2d_byte(p->npu, to->mem, 0, from->mem, 0, bytes), "bm_memcpy_d2d_byte");
}

/* Processor: bytes of `to` that are not those of `from`. */
static unsigned int wrong(const struct buffer *to, const struct buffer *from, unsigned int bytes) {
  unsigned int count = 0;
  for (unsigned int i = 0; i < bytes; i++) count += to->data[i] != from->data[i];
  return count;
}

/* How it is done: clean what the NPU will read, after it was written; invalidate what it wrote, before it is read. */
static unsigned int right(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

/* --- input that was not cleaned ---------------------------------------------------------------------------------- */

static unsigned int no_flush(struct program *p) {
  fill(&p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int early_flush(struct program *p) {
  flush(p, &p->in, 0, BYTES);
  fill(&p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int short_flush(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES - LINE);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int shifted_flush(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, LINE, BYTES - LINE);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int wrong_flush(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->other, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

/* "Only the header, it is one word." */
static unsigned int late_write(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  p->in.data[0] ^= 0xff;
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

struct half {
  struct buffer *in;
  pthread_barrier_t flushed;
};

static void *fill_upper_half(void *arg) {
  struct half *half = arg;
  pthread_barrier_wait(&half->flushed);
  fill(half->in, BYTES / 2, BYTES);
  return NULL;
}

/* Cleaned by one thread before another one has finished its part. */
static unsigned int other_thread(struct program *p) {
  struct half half = {.in = &p->in};
  pthread_t thread;
  pthread_barrier_init(&half.flushed, NULL, 2);
  pthread_create(&thread, NULL, fill_upper_half, &half);
  fill(&p->in, 0, BYTES / 2);
  flush(p, &p->in, 0, BYTES);
  pthread_barrier_wait(&half.flushed);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&half.flushed);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

/* The result of one job, corrected by the processor, is the input of the next one. */
static unsigned int in_place(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  p->out.data[BYTES / 2] ^= 0xff;
  job(p, &p->other, &p->out, BYTES);
  invalidate(p, &p->other, 0, BYTES);
  return wrong(&p->other, &p->out, BYTES);
}

/* --- output that was not invalidated ----------------------------------------------------------------------------- */

static unsigned int no_invalidate(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int early_invalidate(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int short_invalidate(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES - LINE);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int wrong_invalidate(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->in, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

static unsigned int flush_for_invalidate(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  flush(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

/* Invalidated once for two results. */
static unsigned int second_result(struct program *p) {
  unsigned int count = right(p);
  job(p, &p->out, &p->other, BYTES);
  return count + wrong(&p->out, &p->other, BYTES);
}

/* --- lines with two owners, and lines that are thrown away ------------------------------------------------------- */

/* The output is cleared "to be safe", and what that left in the cache gets to memory after the NPU has written. */
static unsigned int cleared_output(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  memset(p->out.data, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  flush(p, &p->out, 0, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  return wrong(&p->out, &p->in, BYTES);
}

/* A counter of the program's behind the output, in the same line. */
static unsigned int shared_line(struct program *p) {
  const unsigned int bytes = BYTES - COUNTER;
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  p->out.data[bytes]++;
  job(p, &p->out, &p->in, bytes);
  flush(p, &p->out, bytes, 1);
  invalidate(p, &p->out, 0, bytes);
  return wrong(&p->out, &p->in, bytes);
}

static unsigned int invalidate_for_flush(struct program *p) {
  fill(&p->in, 0, BYTES);
  invalidate(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  invalidate(p, &p->out, 0, BYTES);
  unsigned int count = 0;
  for (unsigned int i = 0; i < BYTES; i++) count += p->out.data[i] != (uint8_t)(i * 7 + i / 251 + 1);
  return count;
}

/* The program marks the result as seen before it has looked at it. */
static unsigned int early_mark(struct program *p) {
  fill(&p->in, 0, BYTES);
  flush(p, &p->in, 0, BYTES);
  job(p, &p->out, &p->in, BYTES);
  p->out.data[0] = 0xaa;
  invalidate(p, &p->out, 0, BYTES);
  return p->out.data[0] != 0xaa;
}

static const struct {
  const char *name;
  const char *report; /* of the watch */
  unsigned int (*run)(struct program *p);
} programs[] = {
    {"none", "none", right},
    {"no-flush", "uncleaned", no_flush},
    {"early-flush", "uncleaned", early_flush},
    {"short-flush", "uncleaned", short_flush},
    {"shifted-flush", "uncleaned", shifted_flush},
    {"wrong-flush", "uncleaned", wrong_flush},
    {"late-write", "uncleaned", late_write},
    {"other-thread", "uncleaned", other_thread},
    {"in-place", "uncleaned", in_place},
    {"no-invalidate", "stale", no_invalidate},
    {"early-invalidate", "stale", early_invalidate},
    {"short-invalidate", "stale", short_invalidate},
    {"wrong-invalidate", "stale", wrong_invalidate},
    {"flush-for-invalidate", "stale", flush_for_invalidate},
    {"second-result", "stale", second_result},
    {"cleared-output", "overwritten", cleared_output},
    {"shared-line", "overwritten", shared_line},
    {"invalidate-for-flush", "discarded", invalidate_for_flush},
    {"early-mark", "discarded", early_mark},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static int list(void) {
  for (unsigned int i = 1; i < PROGRAMS; i++) printf("%-21s %s\n", programs[i].name, programs[i].report);
  return 0;
}

static int run(unsigned int (*function)(struct program *p)) {
  struct program p;
  unsigned int count;
  check(bm_dev_request(&p.npu, 0), "bm_dev_request");
  make(&p, &p.in);
  make(&p, &p.out);
  make(&p, &p.other);
  count = function(&p);
  printf("%u of %u bytes are wrong\n", count, BYTES);
  free_buffer(&p, &p.other);
  free_buffer(&p, &p.out);
  free_buffer(&p, &p.in);
  bm_dev_free(p.npu);
  return 0;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "none";
  if (!strcmp(name, "--list")) return list();
  for (unsigned int i = 0; i < PROGRAMS; i++)
    if (!strcmp(name, programs[i].name)) return run(programs[i].run);
  fprintf(stderr, "caches: there is no mistake \"%s\"; caches --list names them\n", name);
  return 2;
}
