/* SPDX-License-Identifier: MIT */
#ifndef NPU_ORT_TESTS_SESSION_H
#define NPU_ORT_TESTS_SESSION_H

/* Sessions of ONNX Runtime for tests: on the CPU alone or with the plug-in, all inputs made from a seed. */

#include <onnxruntime_c_api.h>
#include <stdbool.h>
#include <stddef.h>

#define PROVIDER "QNPUExecutionProvider"
#define MAX_TENSORS 128

extern const OrtApi *ort;
extern OrtEnv *env;
extern const OrtEpDevice *npu;

/* Registers the plug-in and finds its first device; ends the program where that fails. */
void open_runtime(const char *plugin);
void close_runtime(void);
/* Ends the program with the status's text, unless it is a success. */
void must(OrtStatus *status);
/* The text of a failure, in a buffer of its own; the status is released. A success fails the test. */
const char *failure(OrtStatus *status);

struct setting {
  const char *key, *value;
};

/* Options of a session. with_npu: the plug-in, with these of its own (key NULL ends them). */
OrtSessionOptions *make_options(bool with_npu, const struct setting *own);
/* The same, and every node has to run on the NPU. */
OrtSessionOptions *npu_alone(void);
/* Makes a session and releases the options. */
OrtStatus *make_session(const char *model, OrtSessionOptions *options, OrtSession **session);

/* What a run has given, in memory of the host. */
struct results {
  size_t count;
  struct {
    ONNXTensorElementDataType type;
    size_t elements, bytes;
    void *data;
  } of[MAX_TENSORS];
};

/* An input of a session, from that state of random numbers; open dimensions are `open`. */
OrtValue *make_input(OrtSession *session, size_t index, unsigned int *state, int64_t open);
/* Runs with inputs of that seed; open dimensions are `open`. Integers (int64) are 0 to 7. */
OrtStatus *try_run(OrtSession *session, unsigned int seed, int64_t open, struct results *out);
void run(OrtSession *session, unsigned int seed, int64_t open, struct results *out);
void free_results(struct results *r);
/* Whether all numbers are the same, those of floating point to `tolerance`. */
bool same_results(const struct results *a, const struct results *b, float tolerance);

#endif /* NPU_ORT_TESTS_SESSION_H */
