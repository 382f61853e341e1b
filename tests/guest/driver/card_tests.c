/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/card_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/guest/driver/npu_raw.h"

/* Runs before the tests, which themselves report a missing device. */
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
                        const struct CMUnitTest *others, size_t other_count, bool for_card, CMFixtureFunction set_up,
                        CMFixtureFunction tear_down) {
  struct CMUnitTest *all = calloc(count + other_count, sizeof(*all));
  int failed;

  if (!all) abort();
  memcpy(all, tests, count * sizeof(*all));
  if (device_is_card() == for_card) {
    memcpy(all + count, others, other_count * sizeof(*all));
    count += other_count;
  } else {
    for (size_t i = 0; i < other_count; i++)
      printf("== %s: %s is for a %s\n", group, others[i].name, for_card ? "card" : "block of a SoC");
    fflush(stdout);
  }
  failed = _cmocka_run_group_tests(group, all, count, set_up, tear_down);
  free(all);
  return failed;
}
