/* SPDX-License-Identifier: MIT */
#ifndef NPU_BMODEL_SOURCE_H
#define NPU_BMODEL_SOURCE_H

/*
 * The network itself in a .bmodel, for shapes that nobody compiled: NetParameter.binary_ir is this header, then `bytes`
 * bytes of the network. Little endian. All stages of a network have the same.
 *
 * libnpuc.so makes a .bmodel of it, by the function below. Who runs networks finds the library beside its own and does
 * not need it for anything else.
 */

#include <stdbool.h>
#include <stdint.h>

#define NPU_SOURCE_MAGIC 0x43525351u /* "QSRC" */
#define NPU_SOURCE_VERSION 1u

#define NPU_SOURCE_ONNX 1u /* format: a file of ONNX */

struct npu_source_header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes; /* sizeof(struct npu_source_header) */
  uint32_t format;       /* NPU_SOURCE_ */
  uint32_t reserved0;
  uint64_t bytes;
  uint64_t reserved1;
};

#ifdef __cplusplus
static_assert(sizeof(struct npu_source_header) == 32, "npu_source_header");
#endif

/* Of an input, by its name. Dimensions are positive. */
struct npu_compile_shape {
  const char *input;
  const int64_t *dims;
  uint32_t num_dims;
};

/* Of an input or output, by its name: what it is in the result. */
struct npu_compile_type {
  const char *tensor;
  uint32_t type; /* bm_data_type_t */
};

struct npu_compile_request {
  const void *network; /* behind the header: format NPU_SOURCE_ONNX */
  uint64_t network_bytes;
  const char *name;    /* of the network in the result */
  uint64_t lmem_bytes; /* of the card's cores */
  const struct npu_compile_shape *shapes;
  uint32_t shape_count;
  uint32_t input_type_count, output_type_count;
  const struct npu_compile_type *input_types, *output_types;
};

struct npu_compile_result {
  void *file; /* a .bmodel of one network with one stage, from malloc(); null if there is an error */
  uint64_t file_bytes;
  char *error; /* what is wrong, from malloc(); null if it is out of memory */
};

/* Symbol of a function of libnpuc.so: any number of threads may call it at once; it keeps nothing. Returns whether
 * there is a file; the caller frees what the result has. */
#define NPU_COMPILE_ENTRY "npuc_compile_2"
typedef bool (*npu_compile_entry)(const struct npu_compile_request *request, struct npu_compile_result *result);

/* Symbol of a function of libnpuc.so that registers a plug-in (npu_plugin.h) of this process, which the library needs
 * for itself, by dlopen()'s handle, which stays open; nothing happens for one that it has. The path is for messages.
 * Returns null, or an error's text, from malloc(). */
#define NPU_COMPILE_PLUGIN_ENTRY "npuc_adopt_plugin_1"
typedef char *(*npu_compile_plugin_entry)(void *handle, const char *path);

#endif /* NPU_BMODEL_SOURCE_H */
