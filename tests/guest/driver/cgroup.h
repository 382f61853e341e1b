/* SPDX-License-Identifier: MIT */
/* A memory cgroup for processes of a test. Needs root. */
#ifndef NPU_TEST_CGROUP_H
#define NPU_TEST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

void cgroup_make(uint64_t limit);
bool cgroup_join(void); /* by a process of the test */
uint64_t cgroup_memory(void);
void cgroup_expect_below(uint64_t bytes); /* as soon as what is on its way out is gone */
void cgroup_end(void);                    /* when its processes are gone */

#endif
