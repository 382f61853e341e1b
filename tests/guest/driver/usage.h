/* SPDX-License-Identifier: MIT */
/* The driver's own account of what is in use, for tests that must leave nothing behind. Needs root. */
#ifndef NPU_TEST_USAGE_H
#define NPU_TEST_USAGE_H

#define USAGE_BYTES 4096

/* Memory, page tables, address spaces and queues, as text. */
void usage_take(char text[USAGE_BYTES]);
/* The same once it is stable: objects of earlier tests may still be being released. */
void usage_begin(char text[USAGE_BYTES]);
/* Ends the test if it is not the same again after a while. */
void usage_expect(const char *before);
/* Waits until only the caller has contexts: killed processes of an earlier test may still be exiting. */
void usage_settle(int contexts);
/* For a board with one card: waits until it has this number of unfinished jobs, of all contexts, and has fetched the
 * first of each. Jobs reach the card shortly after their submission, and not all at once. */
void usage_wait_on_card(unsigned jobs);

#endif
