/* SPDX-License-Identifier: MIT */
#ifndef NPU_PLUGIN_H
#define NPU_PLUGIN_H

/*
 * Operators of a user's own, computed on the CPU: the interface between QNPU and a shared library (a plug-in) that has
 * them. npuc --plugin FILE, NPU_PLUGINS, bmrt_load_plugin() and qnpu.load_plugin() load one; it stays loaded until the
 * process ends. docs/guide/own-operators.md describes it step by step.
 *
 * A plug-in defines npu_plugin_entry(), which returns its table of operators. It may be called several times, and
 * returns the same table each time. The table and all it points to live as long as the library.
 *
 * Callbacks run in any thread, also at the same time for the same operator. Everything in `struct npu_plugin_call` is
 * the caller's and valid until the callback returns. A callback returns 0, or another number for a failure, whose
 * reason it gives to fail() before. It must not end the process, and no C++ exception may leave it, nor
 * npu_plugin_entry().
 *
 * A callback may have threads of its own. Any of them may call the functions of `struct npu_plugin_call`, at the same
 * time, until the callback returns.
 *
 * Changes: NPU_PLUGIN_VERSION grows with every change. Structures keep their sizes and the offsets of their fields: new
 * fields take the place of reserved ones, which are null. `struct npu_plugin_call` also grows at its end. A runtime
 * takes libraries of its own version and of all older ones.
 */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NPU_PLUGIN_VERSION 1u
#define NPU_PLUGIN_MAX_DIMS 8u
#define NPU_PLUGIN_MAX_OUTPUTS 16u

/* Types of elements, with the numbers of ONNX. Floating-point tensors of every type in the ONNX file are float32. */
#define NPU_PLUGIN_FLOAT32 1u
#define NPU_PLUGIN_UINT8 2u
#define NPU_PLUGIN_INT8 3u
#define NPU_PLUGIN_UINT16 4u
#define NPU_PLUGIN_INT16 5u
#define NPU_PLUGIN_INT32 6u
#define NPU_PLUGIN_INT64 7u
#define NPU_PLUGIN_BOOL 9u /* one byte, 0 or 1 */
#define NPU_PLUGIN_UINT32 12u
#define NPU_PLUGIN_UINT64 13u

/* A dense tensor, row by row. */
struct npu_plugin_tensor {
  uint32_t type;                     /* 0: an input that the node leaves out */
  uint32_t rank;                     /* dimensions, 0 to NPU_PLUGIN_MAX_DIMS */
  int64_t dims[NPU_PLUGIN_MAX_DIMS]; /* outermost first; may be 0 */
  uint64_t count;                    /* elements; set by the caller */
  void *data;                        /* null in infer(); aligned to 16 bytes */
  void *reserved;                    /* null */
};

struct npu_plugin_op;

/* One call of infer() or compute(). */
struct npu_plugin_call {
  const struct npu_plugin_op *op;
  uint32_t input_count, output_count;
  const struct npu_plugin_tensor *inputs; /* compute() must not write to their data */
  /* infer() sets type, rank and dims of each; compute() writes the data. */
  struct npu_plugin_tensor *outputs;

  /*
   * Attributes of the node: the values, also of one number or text, and their number in *count. Null: the node has no
   * attribute of that name (count 0), or one of another type, which fails the call. An empty list is not null.
   */
  const int64_t *(*get_ints)(const struct npu_plugin_call *call, const char *name, uint64_t *count);
  const float *(*get_floats)(const struct npu_plugin_call *call, const char *name, uint64_t *count);
  const char *const *(*get_strings)(const struct npu_plugin_call *call, const char *name, uint64_t *count);
  const struct npu_plugin_tensor *(*get_tensor)(const struct npu_plugin_call *call, const char *name);
  /* Copies the reason for a failure; the first one of all threads counts. */
  void (*fail)(const struct npu_plugin_call *call, const char *reason);
};

struct npu_plugin_op {
  const char *domain;                   /* domain of the ONNX operator, "com.example" */
  const char *name;                     /* its type */
  uint32_t least_inputs, most_inputs;   /* most_inputs at least 1; those from least_inputs on may be left out */
  uint32_t least_outputs, most_outputs; /* 1 to NPU_PLUGIN_MAX_OUTPUTS */
  /* Types and shapes of the outputs, by those of the inputs and the attributes alone. */
  int (*infer)(const struct npu_plugin_call *call);
  /* Computes: equal inputs give equal outputs, since constants are computed when a network is compiled. */
  int (*compute)(const struct npu_plugin_call *call);
  void *user; /* for the plug-in: callbacks find it in call->op */
  const void *reserved[4];
};

struct npu_plugin {
  uint32_t version;  /* NPU_PLUGIN_VERSION of the header that it is compiled with */
  uint32_t op_count; /* at least 1 */
  const struct npu_plugin_op *ops;
  const void *reserved[4];
};

/* Defined by the plug-in. */
__attribute__((visibility("default"))) const struct npu_plugin *npu_plugin_entry(void);

#ifdef __cplusplus
}
#endif

#endif /* NPU_PLUGIN_H */
