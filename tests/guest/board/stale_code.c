// SPDX-License-Identifier: MIT
/* One thread changes an instruction that another one keeps running: when the first has said so, the other must run the
 * new one. It serialises in between, as the processor's manual asks (Intel SDM volume 3, 9.1.3, "cross-modifying
 * code"). An emulator that keeps what it translated from the old bytes fails.
 *
 * usage: stale_code WRITES */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint8_t *code; /* a function that returns the number of the last write, modulo 256 */
static atomic_uint announced;
static atomic_bool stop;
static atomic_ulong calls, stale;

static void serialise(void) {
  unsigned leaf = 0, subleaf = 0;

  __asm__ volatile("cpuid" : "+a"(leaf), "+c"(subleaf) : : "ebx", "edx", "memory");
}

static void *run(void *arg) {
  unsigned (*function)(void) = (unsigned (*)(void))(uintptr_t)code;

  while (!atomic_load(&stop)) {
    unsigned number = atomic_load(&announced);
    unsigned got;

    serialise();
    got = function();
    /* The next one may be written, and not announced yet. */
    if (atomic_load(&announced) == number && got != number % 256 && got != (number + 1) % 256)
      atomic_fetch_add(&stale, 1);
    atomic_fetch_add(&calls, 1);
  }
  return arg;
}

int main(int argc, char **argv) {
  static const uint8_t function[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov eax, 0; ret */
  unsigned writes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 20000, failed = 0;
  pthread_t thread;

  code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return perror("mmap"), 2;
  memcpy(code, function, sizeof(function));
  if (pthread_create(&thread, NULL, run, NULL)) return perror("pthread_create"), 2;
  for (unsigned number = 1; number <= writes; number++) {
    unsigned long before;

    *(volatile uint8_t *)(code + 1) = (uint8_t)number;
    atomic_store(&announced, number);
    before = atomic_load(&calls);
    while (atomic_load(&calls) < before + 2) continue;
    if (atomic_exchange(&stale, 0)) failed++;
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  printf("%u of %u changes of code were not seen\n", failed, writes);
  return failed != 0;
}
