/* SPDX-License-Identifier: MIT */
#ifndef NPU_COMPILER_NPUC_C_H
#define NPU_COMPILER_NPUC_C_H

/*
 * libnpuc.so for programs that bring networks of their own and load it with dlopen(), as the plug-in for ONNX Runtime
 * does (ort/). The runtime uses the narrower function of runtime/bmodel/source.h. Any number of threads may call these
 * functions at once; they keep nothing.
 */

#include "runtime/bmodel/source.h"

/*
 * "cores" 1 to 8; "lmem" bytes or 64K, 8M; "reals" fp32, fp16, bf16; "turns" faster, never; "quantize" none, int8,
 * uint8, with "quantize_table" the path of a file of ranges. Another name or value is an error that names it.
 */
struct npuc_option {
  const char *name, *value;
};

struct npuc_request {
  const void *network; /* an ONNX file's bytes */
  uint64_t network_bytes;
  const char *name;                       /* of the network in the result */
  const struct npu_compile_shape *shapes; /* of inputs whose dimensions the file leaves open */
  const struct npu_compile_type *input_types, *output_types;
  const struct npuc_option *options;
  uint32_t shape_count, input_type_count, output_type_count, option_count;
};

/* The caller frees what the pointers point to, with free(). */
struct npuc_result {
  void *file; /* null if there is an error */
  uint64_t file_bytes;
  char *error;            /* what is wrong; null: no memory even for that */
  uint64_t chip_commands; /* of the .bmodel */
  uint64_t host_nodes;    /* operators that it computes on the CPU */
  uint64_t cycles;        /* modelled, of one launch */
  bool refused; /* the network cannot be compiled for these shapes; false for errors that may pass, as lack of memory */
};

typedef bool (*npuc_entry)(const struct npuc_request *request, struct npuc_result *result);

/* A .bmodel of one network with one stage. */
#define NPUC_COMPILE_ENTRY "npuc_compile_onnx_2"
/* Which nodes cannot be compiled: as file a text with a line "INDEX REASON" for each, INDEX its place in the network.
 */
#define NPUC_EXPLAIN_ENTRY "npuc_explain_2"
/* Looks at the options alone; the file is empty. */
#define NPUC_CHECK_ENTRY "npuc_check_options_2"

#endif /* NPU_COMPILER_NPUC_C_H */
