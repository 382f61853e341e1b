/* SPDX-License-Identifier: MIT */
#ifndef BMRUNTIME_INTERFACE_H
#define BMRUNTIME_INTERFACE_H

/*
 * BMRuntime, C interface: load .bmodel files and launch their networks.
 *
 * Errors: functions that return bool return false on failure; bmrt_last_error() then has a text for the calling thread
 * that names what, where and what was expected, and the same line goes to the log of libnpu. bm_thread_sync() reports
 * launches that failed on the card. Nothing throws or exits. Threads: every function may be called by any number of
 * threads at once on one runtime, except bmrt_destroy. Launches of one thread run in their order; those of different
 * threads run side by side. Ownership: pointers that a runtime hands out (bm_net_info_t and all inside it) live until
 * bmrt_destroy. Device memory belongs to who allocated it, see user_mem. p_bmrt is what bmrt_create returned.
 */

#include "bmdef.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BMRT_API __attribute__((visibility("default")))

/* ---- shapes and tensors: plain arithmetic ---- */

/* Fills a shape. num_dims 0 to BM_MAX_DIMS_NUM; another number leaves a shape with num_dims 0. */
BMRT_API void bmrt_shape(bm_shape_t *shape, const int *dims, int num_dims);
/* Product of the dims; 1 for num_dims 0. */
BMRT_API uint64_t bmrt_shape_count(const bm_shape_t *shape);
/* Equal num_dims and equal dims. */
BMRT_API bool bmrt_shape_is_same(const bm_shape_t *left, const bm_shape_t *right);
/* Bytes of an element; 0 for an unknown type, 1 for the 4-bit ones. */
BMRT_API size_t bmrt_data_type_size(bm_data_type_t dtype);
/* Elements times element size. */
BMRT_API size_t bmrt_tensor_bytesize(const bm_tensor_t *tensor);
/* Size of tensor->device_mem. */
BMRT_API size_t bmrt_tensor_device_size(const bm_tensor_t *tensor);

/* Allocates device memory for a tensor (free it with bm_free_device) and fills in the rest, st_mode 1N. False: no
 * memory. */
BMRT_API bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape);
/* Likewise on memory that exists and has room for the tensor. */
BMRT_API void bmrt_tensor_with_device(bm_tensor_t *tensor, bm_device_mem_t device_mem, bm_data_type_t dtype,
                                      bm_shape_t shape);

/* ---- runtimes and models ---- */

/* A runtime on a device; NULL on failure. The handle may be freed before or after the runtime. */
BMRT_API void *bmrt_create(bm_handle_t bm_handle);
/* Waits for the runtime's launches, then frees everything that it owns. */
BMRT_API void bmrt_destroy(void *p_bmrt);
/* The handle that bmrt_create was given (bm_handle_t). */
BMRT_API void *bmrt_get_bm_handle(void *p_bmrt);

/* Loads all networks of a file, which is opened read-only and verified first. A name that exists already is an error;
 * then nothing is loaded. */
BMRT_API bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path);
/* The same from memory, which may be freed afterwards. */
BMRT_API bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size);

/* Prints the names of all networks to standard output. */
BMRT_API void bmrt_show_neuron_network(void *p_bmrt);
BMRT_API int bmrt_get_network_number(void *p_bmrt);
/* Array of bmrt_get_network_number() names in the order of loading; free() the array, not the names. NULL on failure.
 */
BMRT_API void bmrt_get_network_names(void *p_bmrt, const char ***network_names);
/* NULL: no such network. */
BMRT_API const bm_net_info_t *bmrt_get_network_info(void *p_bmrt, const char *net_name);
/* Prints to standard output. */
BMRT_API void bmrt_print_network_info(const bm_net_info_t *net_info);
/* Checks the runtime's data and prints what it holds to standard output. */
BMRT_API void bmrt_trace(void *p_bmrt);

/* ---- launching ---- */

/*
 * Launches a network and returns at once; bm_thread_sync() waits for it and tells whether it failed. Allocates the
 * memory of the outputs, which the caller frees with bm_free_device; output_tensors are filled in. Inputs: type and
 * count must be the network's; shapes those of a stage (with one stage, any shape with as many elements); store mode
 * 1N; memory at least the tensor's size. On failure nothing stays allocated.
 */
BMRT_API bool bmrt_launch_tensor(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                                 bm_tensor_t output_tensors[], int output_num);
/*
 * user_mem: output_tensors[i].device_mem is memory of the caller, at least the output's size (it may be the memory of
 * an input). user_stmode: st_mode of the outputs is the caller's wish; only 1N is supported.
 */
BMRT_API bool bmrt_launch_tensor_ex(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                    int input_num, bm_tensor_t output_tensors[], int output_num, bool user_mem,
                                    bool user_stmode);
/*
 * Likewise on cores of the caller's choice: the first core_num of bm_net_info_t that core_list names, duplicates and
 * extras left out; an empty list leaves the choice to the card. A core that the card does not have is an error.
 */
BMRT_API bool bmrt_launch_tensor_multi_cores(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                             int input_num, bm_tensor_t output_tensors[], int output_num, bool user_mem,
                                             bool user_stmode, const int *core_list, int core_num);
/*
 * Synchronous, with data in system memory. user_mem false: output_datas[i] are allocated with malloc, the caller frees
 * them; on failure none is. output_shapes are filled in.
 */
BMRT_API bool bmrt_launch_data(void *p_bmrt, const char *net_name, void *const input_datas[],
                               const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                               bm_shape_t output_shapes[], int output_num, bool user_mem);

/* ---- beyond the vendor's interface ---- */

/* Why the calling thread's last failing bmrt_ function failed; "" if none has. Valid until its next failing call. */
BMRT_API const char *bmrt_last_error(void);
/*
 * Modelled cycles of the calling thread's last launch on this runtime. False while it is unfinished, when there is
 * none, or when its job failed: then bmrt_last_error() says which command failed and names the tensor that it touched.
 */
BMRT_API bool bmrt_last_launch_cycles(void *p_bmrt, uint64_t *cycles);
/* Upper bound of the launches of one network that have activation memory of their own at the same time; default 16. A
 * launch beyond waits for the oldest. */
BMRT_API bool bmrt_set_max_launches(void *p_bmrt, int count);

#ifdef __cplusplus
}
#endif

#endif /* BMRUNTIME_INTERFACE_H */
