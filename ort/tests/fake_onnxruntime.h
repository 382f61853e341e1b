/* SPDX-License-Identifier: MIT */
#ifndef NPU_ORT_TESTS_FAKE_ONNXRUNTIME_H
#define NPU_ORT_TESTS_FAKE_ONNXRUNTIME_H

/* A libonnxruntime.so that computes nothing: it has two cards of the provider once its library is registered, and tells
 * how its last session was made. */

#include <stddef.h>

struct fake_session {
  char how[24];     /* "path", "array", "path, weights", "array, weights" */
  int card;         /* of the provider that was added; -1: none was */
  char last[16384]; /* value of the last option that was given */
  size_t options;   /* how many */
};

__attribute__((visibility("default"))) extern struct fake_session fake_last;
__attribute__((visibility("default"))) extern int fake_registered; /* how often */

#endif /* NPU_ORT_TESTS_FAKE_ONNXRUNTIME_H */
