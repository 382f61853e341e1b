/* SPDX-License-Identifier: MIT */
/* What the groups of BMLIB begin each test with: a handle, and a log that stays quiet and keeps its last line. */
#ifndef NPU_TEST_BM_FIXTURE_H
#define NPU_TEST_BM_FIXTURE_H

#include <bmlib_internal.h>
#include <stdio.h>

#include "tests/unit/libnpu/groups.h"

#define OK(call) assert_int_equal(call, BM_SUCCESS)

static bm_handle_t handle;
static char logged[1024];

static void keep_line(const char *tag, int level, const char *fmt, va_list args) {
  assert_string_equal(tag, "bmlib");
  assert_int_equal(level, BMLIB_LOG_ERROR);
  vsnprintf(logged, sizeof(logged), fmt, args);
}

static int set_up(void **state) {
  (void)state;
  bmlib_log_set_callback(keep_line);
  *logged = 0;
  return bm_dev_request(&handle, 0);
}

static int tear_down(void **state) {
  (void)state;
  bm_dev_free(handle);
  bmlib_log_set_callback(NULL);
  return 0;
}

#endif /* NPU_TEST_BM_FIXTURE_H */
