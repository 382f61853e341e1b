/* SPDX-License-Identifier: MIT */
/*
 * Programs some of whose tests are about what only a card has: memory of its own, a bus to be reset, a slot to be
 * pulled from. On another device each of these is named in a line of its own, does not run, and is not counted.
 */
#ifndef NPU_CARD_TESTS_H
#define NPU_CARD_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* As cmocka_run_group_tests_name(), with `tests` first. */
#define run_with_card_tests(group, tests, card_tests, set_up, tear_down)            \
  run_tests_of_device(group, tests, sizeof(tests) / sizeof((tests)[0]), card_tests, \
                      sizeof(card_tests) / sizeof((card_tests)[0]), set_up, tear_down)

int run_tests_of_device(const char *group, const struct CMUnitTest *tests, size_t count,
                        const struct CMUnitTest *card_tests, size_t card_count, CMFixtureFunction set_up,
                        CMFixtureFunction tear_down);

#endif
