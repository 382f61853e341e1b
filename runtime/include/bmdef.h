/* SPDX-License-Identifier: MIT */
#ifndef BMDEF_H
#define BMDEF_H

/* Types of the BMRuntime API. Layouts are those that programs for this API are compiled with; tests/abi holds them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bmlib_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bm_data_type_e {
  BM_FLOAT32 = 0,
  BM_FLOAT16 = 1,
  BM_INT8 = 2,
  BM_UINT8 = 3,
  BM_INT16 = 4,
  BM_UINT16 = 5,
  BM_INT32 = 6,
  BM_UINT32 = 7,
  BM_BFLOAT16 = 8,
  BM_INT4 = 9,
  BM_UINT4 = 10
} bm_data_type_t;

/* How the elements of a tensor lie in memory. 1N: row-major. 2N and 4N interleave 2 or 4 batches of 16- or 8-bit
 * elements in 32-bit words. */
typedef enum bm_store_mode_e { BM_STORE_1N = 0, BM_STORE_2N = 1, BM_STORE_4N = 2 } bm_store_mode_t;

#define BM_MAX_DIMS_NUM 8

/* dims[0] is the outermost; num_dims 0 is a scalar. */
typedef struct bm_shape_s {
  int num_dims;
  int dims[BM_MAX_DIMS_NUM];
} bm_shape_t;

/* A tensor in device memory. */
typedef struct bm_tensor_s {
  bm_data_type_t dtype;
  bm_shape_t shape;
  bm_device_mem_t device_mem;
  bm_store_mode_t st_mode;
} bm_tensor_t;

/* One set of shapes of a network. The arrays have input_num and output_num elements. */
typedef struct bm_stage_info_s {
  bm_shape_t *input_shapes;
  bm_shape_t *output_shapes;
  bm_device_mem_t *input_mems;  /* device memory that a program may use for its input, or ignore; writable copies */
  bm_device_mem_t *output_mems; /* likewise output */
} bm_stage_info_t;

/* Everything about a network; valid until bmrt_destroy. */
typedef struct bm_net_info_s {
  const char *name;
  bool is_dynamic;
  int input_num;
  char const **input_names;
  bm_data_type_t *input_dtypes;
  float *input_scales; /* 1.0 for floating-point tensors */
  int output_num;
  char const **output_names;
  bm_data_type_t *output_dtypes;
  float *output_scales;
  int stage_num;
  bm_stage_info_t *stages;
  size_t *max_input_bytes; /* over all stages */
  size_t *max_output_bytes;
  int *input_zero_point;
  int *output_zero_point;
  int *input_loc_devices; /* index of the device, 0 for networks on one */
  int *output_loc_devices;
  int core_num;      /* cores that the network was compiled for */
  int32_t addr_mode; /* 0 basic, 1 io_alone, 2 io_tag */
} bm_net_info_t;

#ifdef __cplusplus
}
#endif

#endif /* BMDEF_H */
