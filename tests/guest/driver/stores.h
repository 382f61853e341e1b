/* SPDX-License-Identifier: MIT */
/* A thread that stores to a page and reads back: it notices when cache maintenance by others discards a store. */
#ifndef NPU_STORES_H
#define NPU_STORES_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STORES_LINES 64 /* a page of lines of 64 bytes */

struct stores {
  pthread_t thread;
  volatile uint64_t *page;
  uint64_t expected[STORES_LINES];
  uint64_t done, lost;
  sem_t begun; /* it has stored to each line */
  atomic_bool stop;
};

/* Begins with the page's present content, and returns after the first stores; no other thread may store to it. */
void stores_begin(struct stores *stores, void *page);
/* Fails the test if a store was lost. */
void stores_end(struct stores *stores);

#endif
