/* SPDX-License-Identifier: MIT */
/*
 * Programs some of whose tests are about what only a card has: memory of its own, a bus to be reset, a slot to be
 * pulled from; or only a block of a SoC: power that firmware gives. On another device each of these is named in a line
 * of its own, does not run, and is not counted.
 */
#ifndef NPU_CARD_TESTS_H
#define NPU_CARD_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* As cmocka_run_group_tests_name(), with `tests` first. */
#define run_with_card_tests(group, tests, card_tests, set_up, tear_down) \
  run_with_tests_of(true, group, tests, card_tests, set_up, tear_down)
#define run_with_block_tests(group, tests, block_tests, set_up, tear_down) \
  run_with_tests_of(false, group, tests, block_tests, set_up, tear_down)

#define run_with_tests_of(card, group, tests, others, set_up, tear_down)                                              \
  run_tests_of_device(group, tests, sizeof(tests) / sizeof((tests)[0]), others, sizeof(others) / sizeof((others)[0]), \
                      card, set_up, tear_down)

int run_tests_of_device(const char *group, const struct CMUnitTest *tests, size_t count,
                        const struct CMUnitTest *others, size_t other_count, bool for_card, CMFixtureFunction set_up,
                        CMFixtureFunction tear_down);

#endif
