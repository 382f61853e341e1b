/* SPDX-License-Identifier: MIT */
/* npu_libnpu_test [GROUP...]: all groups that run anywhere, or the named ones. The number of failures decides the exit
 * status. NPU_TESTS=PATTERN: only the tests with such names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/libnpu/groups.h"

static const struct {
  const char *name;
  int (*run)(void);
} groups[] = {
    {"device", device_tests},
    {"bo", bo_tests},
    {"job", job_tests},
    {"fault", fault_tests},
    {"copy", copy_tests},
    {"threads", thread_tests},
    {"process", process_tests},
    {"bm_memory", bm_memory_tests},
    {"bm_cache", bm_cache_tests},
    {"bm_launch", bm_launch_tests},
    {"bm_wide", bm_wide_tests},
    {"bm_sensor", bm_sensor_tests},
    {"bm_not_supported", bm_not_supported_tests},
    {"cache", cache_tests},
    {"async", async_tests},
    {"async_fork", async_fork_tests},
    {"async_coroutine", async_coroutine_tests},
    {"async_card", async_card_tests},
};
enum { GROUPS = sizeof(groups) / sizeof(groups[0]), ANYWHERE = GROUPS - 1 };

static int run_group(const char *name) {
  for (int i = 0; i < GROUPS; i++)
    if (!strcmp(groups[i].name, name)) return groups[i].run();
  fprintf(stderr, "no group of tests is called %s\n", name);
  return 1;
}

int main(int argc, char **argv) {
  const char *pattern = getenv("NPU_TESTS");
  int failures = 0;

  if (pattern) cmocka_set_test_filter(pattern);
  if (argc == 3 && !strcmp(argv[1], "--child")) return run_child(argv[2]);
  for (int i = 1; i < argc; i++) failures += run_group(argv[i]);
  for (int i = 0; i < ANYWHERE && argc == 1; i++) failures += groups[i].run();
  return failures ? 1 : 0;
}
