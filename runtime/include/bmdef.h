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

/*
 * How the elements of a tensor lie in memory. 1N: row-major. 2N, for 16-bit types, and 4N, for 8-bit types: a 32-bit
 * word holds the elements of 2 or 4 successive batches (dimension 0) at one position, the first batch in its lowest
 * bits; words are row-major in the other dimensions. A batch that is no multiple of 2 or 4 is filled up: such a tensor
 * has ceil(batch / 2 or 4) * (elements of a batch) * 4 bytes. What fills it up means nothing, in inputs and in
 * outputs.
 */
typedef enum bm_store_mode_e { BM_STORE_1N = 0, BM_STORE_2N = 1, BM_STORE_4N = 2 } bm_store_mode_t;

/* Flags of a runtime. */
typedef enum bm_runtime_flag_e {
  BM_RUNTIME_AUTO = 0,
  BM_RUNTIME_SHARE_MEM = 1 << 0,
  BM_RUNTIME_CHECK_MEM = 1 << 1, /* compare a model's coefficients with their SHA-256 */
  BM_RUNTIME_SHARE_DYNMEM = 1 << 2,
  BM_RUNTIME_SOC_CMDBUF_MEM = 1 << 3,
  BM_RUNTIME_FREE_COEFF = 1 << 4,
  BM_RUNTIME_NEURON_MEM_IN_PRE_ALLOC = 1 << 5,
  BM_RUNTIME_YIELD_TO_KERNEL_TASK = 1 << 6
} bm_runtime_flag_t;

/* bm_net_info_t.addr_mode: whose the memory in bm_stage_info_t is. */
typedef enum {
  ADDR_MODE_BASIC = 0,    /* that of all stages of a runtime whose tensors have the same sizes in the same order */
  ADDR_MODE_IO_ALONE = 1, /* each stage's own */
  ADDR_MODE_IO_TAG = 2,
  ADDR_MODE_IO_TAG_FUSE = 3,
  ADDR_MODE_IO_RELOC = 4
} addr_mode_t;

#define BM_MAX_DIMS_NUM 8

/* dims[0] is the outermost; num_dims 0 is a scalar. */
typedef struct bm_shape_s {
  int num_dims;
  int dims[BM_MAX_DIMS_NUM];
} bm_shape_t;

typedef struct bm_shape_ex_s {
  bm_shape_t shape;
  int elem_num;
} bm_shape_ex_t;

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

/*
 * Everything about a network; valid until bmrt_destroy.
 *
 * Scales are the vendor's: what a program multiplies by. A number v of an input becomes the integer
 * v * input_scales[i] + input_zero_point[i], rounded and saturated; an integer q of an output stands for
 * (q - output_zero_point[i]) * output_scales[i]. So the scale of an input is 1 over that of the model's QuantizeLinear,
 * and rounded; bmrt_get_input_quant() (bmruntime_interface.h) has the latter. 1 and 0 where a tensor has none.
 */
typedef struct bm_net_info_s {
  const char *name;
  bool is_dynamic;
  int input_num;
  char const **input_names;
  bm_data_type_t *input_dtypes;
  float *input_scales;
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

/* A launch as data: what bmrt_launch_tensor_ex would have sent to the device. */
typedef struct api_info_s {
  uint32_t *api_id;
  size_t api_id_size;
  uint8_t **api_data;
  size_t api_data_size;
  size_t *api_data_subsize;
  uint32_t *input_addr_offset; /* where the addresses of inputs stand in api_data */
  size_t input_addr_offset_number;
  uint32_t *output_addr_offset;
  size_t output_addr_offset_number;
} api_info_c;

/* Memory that a model needs, or that a program gives for it. */
typedef struct {
  int64_t addr __attribute__((aligned(8))); /* device address; -1 or 0: none */
  uint64_t size __attribute__((aligned(8)));
  int type; /* 0 device, 1 host */
  int number;
  char reserved[124];
} memory_t;

typedef struct {
  memory_t instruction_mem;
  memory_t variable_instruction_mem;
  memory_t neuron_mem; /* activations */
  memory_t coeff_mem;
  memory_t io_mem;
  memory_t reserved[4];
} mem_info_t;

typedef struct bm_coeff_info_s {
  char path[256];
  bm_device_mem_t device_mem;
} bm_coeff_info_t;

/* Decrypts a model: gets bytes and their number, returns malloc()ed bytes and sets their number. */
typedef uint8_t *(*decrypt_func)(const uint8_t *, uint64_t, uint64_t *);

#ifdef __cplusplus
}
#endif

#endif /* BMDEF_H */
