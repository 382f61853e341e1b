/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/card_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/guest/driver/npu_raw.h"

/* Tests do not run yet: whoever finds no device here finds none there, and says so. */
static bool device_is_card(void) {
  bool card = true;
  int fd;

  if (npu_try_open(&fd)) {
    card = is_card(fd);
    close(fd);
  }
  return card;
}

int run_tests_of_device(const char *group, const struct CMUnitTest *tests, size_t count,
                        const struct CMUnitTest *card_tests, size_t card_count, CMFixtureFunction set_up,
                        CMFixtureFunction tear_down) {
  struct CMUnitTest *all = calloc(count + card_count, sizeof(*all));
  int failed;

  if (!all) abort();
  memcpy(all, tests, count * sizeof(*all));
  if (device_is_card()) {
    memcpy(all + count, card_tests, card_count * sizeof(*all));
    count += card_count;
  } else {
    for (size_t i = 0; i < card_count; i++) printf("== %s: %s is for a card\n", group, card_tests[i].name);
    fflush(stdout);
  }
  failed = _cmocka_run_group_tests(group, all, count, set_up, tear_down);
  free(all);
  return failed;
}
