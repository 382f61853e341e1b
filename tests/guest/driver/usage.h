/* SPDX-License-Identifier: MIT */
/* The driver's own account of what is in use, for tests that must leave nothing behind. Needs root. */
#ifndef NPU_TEST_USAGE_H
#define NPU_TEST_USAGE_H

#define USAGE_BYTES 4096

/* Memory, page tables, address spaces and queues, as text. */
void usage_take(char text[USAGE_BYTES]);
/* The same when it has stopped changing: what earlier tests have closed may still be on its way out. */
void usage_begin(char text[USAGE_BYTES]);
/* Ends the test if it is not the same again after a while. */
void usage_expect(const char *before);
/* Waits until nobody but the caller has contexts: processes that an earlier test has killed may still be on their way
 * out. */
void usage_settle(int contexts);
/* For a board with one card: waits until it has so many jobs that are not finished, of all contexts, and has fetched
 * the first of each. The driver gives them to it a moment after they are submitted, and not all at once. */
void usage_wait_on_card(unsigned jobs);

#endif
