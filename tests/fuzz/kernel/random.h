/* SPDX-License-Identifier: MIT */
/* Random choices of the driver's fuzzer: the same seed makes the same choices. */
#ifndef NPU_FUZZ_RANDOM_H
#define NPU_FUZZ_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
  uint64_t state;
};

static inline void random_seed(struct random *r, uint64_t seed) {
  r->state = seed * 0x9e3779b97f4a7c15ull + 0x1234567ull;
}

static inline uint64_t random_u64(struct random *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15ull); /* splitmix64 */

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/* 0 to n - 1. */
static inline uint64_t below(struct random *r, uint64_t n) { return n ? random_u64(r) % n : 0; }

static inline int one_in(struct random *r, uint64_t n) { return below(r, n) == 0; }

/* A number that programs get wrong. */
static inline uint64_t odd_number(struct random *r) {
  static const uint64_t numbers[] = {0,
                                     1,
                                     2,
                                     7,
                                     8,
                                     63,
                                     64,
                                     65,
                                     127,
                                     128,
                                     4095,
                                     4096,
                                     4097,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000ull,
                                     0x7fffffffffffffffull,
                                     0x8000000000000000ull,
                                     ~0ull - 4095,
                                     ~0ull};

  return one_in(r, 3) ? random_u64(r) >> below(r, 64) : numbers[below(r, sizeof(numbers) / sizeof(numbers[0]))];
}

/* Replaces some words of a structure. */
static inline void spoil(struct random *r, void *data, size_t size) {
  uint32_t *words = data;

  for (uint64_t n = 1 + below(r, 2); n; n--) words[below(r, size / 4)] = (uint32_t)odd_number(r);
}

#endif
