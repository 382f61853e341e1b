/* SPDX-License-Identifier: MIT */
/* Allocations of the kernel that fail: for kernels with CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and debugfs mounted. */
#ifndef NPU_TEST_ALLOC_FAIL_H
#define NPU_TEST_ALLOC_FAIL_H

#include <stdbool.h>

/* Returns false if the kernel lacks fault injection. Nothing fails before one of the following calls. */
bool alloc_fail_begin(void);

/* Allocations fail inside this kernel function and its callees, but not inside `spared`, which may be NULL. */
void alloc_fail_inside(const char *function, const char *spared);
/* The initial state: allocations fail anywhere, except in the allocator of card memory. */
void alloc_fail_anywhere(void);

/* The nth allocation that this thread makes from now on fails, of slabs and pages together; 0: none. */
void alloc_fail_nth(unsigned nth);

/* Ends it. True if the allocation has failed, false if there were fewer. */
bool alloc_fail_end(void);

/* One allocation in `in` fails, of tasks with /proc/self/make-it-fail; 0: none. */
void alloc_fail_one_in(long in);

#endif
