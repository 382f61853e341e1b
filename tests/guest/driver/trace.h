/* SPDX-License-Identifier: MIT */
/* Trace events of the kernel, for tests. */
#ifndef NPU_TEST_TRACE_H
#define NPU_TEST_TRACE_H

#include <stddef.h>

/* Mounts tracefs where it is not, empties the buffer and enables events ("qnpu", "dma_fence/dma_fence_signaled", ...).
 */
void trace_begin(const char *const *events, size_t count);
/* Waits until a line contains all of `a`, `b` and `c` (NULL: anything), and ends the test if none does for some 10 s.
 * Who waits for a fence goes on when its bit is set, which is before the event. Returns the text so far, to be freed.
 */
char *trace_wait(const char *a, const char *b, const char *c);
/* Ends it. Returns the whole text, to be freed. */
char *trace_end(void);
/* First line of the text from `from` on that contains all of `a`, `b` and `c` (NULL: anything); NULL if there is none.
 */
const char *trace_find(const char *from, const char *a, const char *b, const char *c);
/* Number behind `key` (which ends with '=') in the line at `line`; ends the test if it is not there. */
unsigned long long trace_number(const char *line, const char *key);

#endif
