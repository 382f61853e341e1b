// SPDX-License-Identifier: MIT
#include "tests/guest/driver/stores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static volatile uint64_t *line_of(struct stores *stores, int line) { return stores->page + line * 8; }

static void *run(void *argument) {
  struct stores *stores = argument;

  while (!atomic_load(&stores->stop)) {
    for (int line = 0; line < STORES_LINES; line++) {
      if (*line_of(stores, line) != stores->expected[line]) stores->lost++;
      *line_of(stores, line) = ++stores->expected[line];
      stores->done++;
    }
    if (stores->done == STORES_LINES) sem_post(&stores->begun);
  }
  for (int line = 0; line < STORES_LINES; line++) stores->lost += *line_of(stores, line) != stores->expected[line];
  return NULL;
}

void stores_begin(struct stores *stores, void *page) {
  stores->page = page;
  stores->done = stores->lost = 0;
  atomic_store(&stores->stop, false);
  assert_int_equal(sem_init(&stores->begun, 0, 0), 0);
  for (int line = 0; line < STORES_LINES; line++) stores->expected[line] = *line_of(stores, line);
  assert_int_equal(pthread_create(&stores->thread, NULL, run, stores), 0);
  while (sem_wait(&stores->begun)) continue;
}

void stores_end(struct stores *stores) {
  atomic_store(&stores->stop, true);
  pthread_join(stores->thread, NULL);
  sem_destroy(&stores->begun);
  if (stores->lost)
    fail_msg("%llu of %llu stores lost", (unsigned long long)stores->lost, (unsigned long long)stores->done);
}
