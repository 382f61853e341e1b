/* SPDX-License-Identifier: MIT */
/* The groups of tests; each returns the number of failures. */
#ifndef NPU_TEST_GROUPS_H
#define NPU_TEST_GROUPS_H

#include "tests/unit/libnpu/support.h"

int device_tests(void);
int bo_tests(void);
int job_tests(void);
int fault_tests(void);
int copy_tests(void);
int thread_tests(void);
int process_tests(void);
int bm_memory_tests(void);
int bm_cache_tests(void);
int bm_launch_tests(void);
int bm_wide_tests(void);
int bm_sensor_tests(void);
int bm_not_supported_tests(void);
int cache_tests(void);
/* A part of cache_tests(); strict: NPU_CACHE=strict is set. */
int cache_random_tests(bool strict);
/* A child, see run_child(). */
int child_forgets_a_flush(void);
int async_tests(void);
int async_fork_tests(void);
int async_coroutine_tests(void);
/* Only where there is a card that may be broken. */
int async_card_tests(void);

/* Programs of their own inside the test program: process_test.c starts it again with one of these names. -1: no such
 * name. */
int run_child(const char *name);

#endif /* NPU_TEST_GROUPS_H */
