/* SPDX-License-Identifier: MIT */
#ifndef BMRUNTIME_INTERFACE_H
#define BMRUNTIME_INTERFACE_H

/*
 * BMRuntime, C interface: load .bmodel files and launch their networks.
 *
 * Errors: functions that return bool return false on failure; bmrt_last_error() then has a text for the calling thread
 * that names what, where and what was expected. The same line goes to standard error, by the log of BMLIB: none does
 * with bmrt_set_error_callback(), with BMRT_LOG_VERSION=3 in the environment or bmrt_set_current_log_level()
 * (bmruntime_log.h), or where bmlib_log_set_level() and bmlib_log_set_callback() send BMLIB's own errors elsewhere.
 * bm_thread_sync() reports launches that failed on the card. Nothing throws or exits. Threads: every function may be
 * called by any number of threads at once on one runtime, except bmrt_destroy. Launches of one thread run in their
 * order; those of different threads run side by side. Ownership: pointers that a runtime hands out (bm_net_info_t and
 * all inside it) live until bmrt_destroy. Device memory belongs to who allocated it, see user_mem. p_bmrt is what
 * bmrt_create returned; functions fail with another pointer, or one that was destroyed.
 */

#include "bmdef.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BMRT_API __attribute__((visibility("default")))

/* ---- shapes and tensors: plain arithmetic ---- */

/* Fills a shape. num_dims 0 to BM_MAX_DIMS_NUM; another number is an error and leaves a shape
 * with num_dims 0. */
BMRT_API void bmrt_shape(bm_shape_t *shape, const int *dims, int num_dims);
/* Product of the dims; 1 for num_dims 0. */
BMRT_API uint64_t bmrt_shape_count(const bm_shape_t *shape);
/* Equal num_dims and equal dims. */
BMRT_API bool bmrt_shape_is_same(const bm_shape_t *left, const bm_shape_t *right);
/* Bytes of an element; 0 for an unknown type, 1 for the 4-bit ones. */
BMRT_API size_t bmrt_data_type_size(bm_data_type_t dtype);
/* Elements times element size, whatever the store mode. */
BMRT_API size_t bmrt_tensor_bytesize(const bm_tensor_t *tensor);
/* Size of tensor->device_mem. */
BMRT_API size_t bmrt_tensor_device_size(const bm_tensor_t *tensor);

/* Allocates device memory for a tensor (free it with bm_free_device) and fills in the rest, st_mode 1N. False: no
 * memory. */
BMRT_API bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape);
/* Likewise on device number devid of the runtime's, in the order of bmrt_create_ex. */
BMRT_API bool bmrt_tensor_ex(bm_tensor_t *tensor, void *p_bmrt, int devid, bm_data_type_t dtype, bm_shape_t shape);
/* Likewise on memory that exists and has room for the tensor. */
BMRT_API void bmrt_tensor_with_device(bm_tensor_t *tensor, bm_device_mem_t device_mem, bm_data_type_t dtype,
                                      bm_shape_t shape);

/* ---- runtimes and models ---- */

/* A runtime on a device; NULL on failure. The handle may be freed before or after the runtime. */
BMRT_API void *bmrt_create(bm_handle_t bm_handle);
/* A runtime on several devices, at most 32, each given once. Steps of distributed networks run on the device of their
 * number, and a launch of these returns when it has finished; other networks run on the first. */
BMRT_API void *bmrt_create_ex(bm_handle_t *bm_handles, int num_handles);
/* Waits for the runtime's launches, then frees everything that it owns. */
BMRT_API void bmrt_destroy(void *p_bmrt);
/* The same: coefficients are shared by content and stay as long as another runtime uses them. */
BMRT_API void bmrt_destroy_without_coeff(void *p_bmrt);
/* The handle that bmrt_create was given (bm_handle_t), of several the first. */
BMRT_API void *bmrt_get_bm_handle(void *p_bmrt);
/* Flags, BM_RUNTIME_*: CHECK_MEM compares coefficients with their SHA-256 when a model is loaded; the others are kept
 * and change nothing. */
BMRT_API void bmrt_set_flags(void *p_bmrt, uint32_t flags);
BMRT_API uint32_t bmrt_get_flags(void *p_bmrt);

/* Loads all networks of a file, which is opened read-only and verified first. A name that exists already is an error;
 * then nothing is loaded. */
BMRT_API bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path);
/* The same from memory, which may be freed afterwards. */
BMRT_API bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size);

/*
 * The same in memory of the program's. Of mem_info (NULL: all is the runtime's) each member whose addr is neither 0 nor
 * -1 and whose size is not 0 is device memory (type 0) on the first device of the runtime, any part of an allocation,
 * at least as large as bmrt_get_bmodel_info says; what is not given, the runtime allocates as ever. instruction_mem and
 * coeff_mem get commands and coefficients, which are then neither sealed nor shared with other models: a program may
 * change coefficients between launches. io_mem is the memory behind stages[].input_mems and output_mems. neuron_mem is
 * the activation memory of one launch at a time, of any network that was given it; while it is in use other launches
 * get memory of the runtime's, up to bmrt_set_max_launches, or wait. variable_instruction_mem is not needed. The memory
 * stays the caller's: nothing frees it. It may not be written otherwise as long as the runtime exists; freed early, it
 * goes with the runtime. Not for distributed networks. Too little, foreign or overlapping memory: false.
 */
BMRT_API bool bmrt_load_bmodel_with_mem(void *p_bmrt, const char *bmodel_path, mem_info_t *mem_info);
BMRT_API bool bmrt_load_bmodel_data_with_mem(void *p_bmrt, const void *bmodel_data, size_t size, mem_info_t *mem_info);
/* A model in device memory that is mapped at p_bmodel: read through the mapping and copied, as bmrt_load_bmodel_data.
 */
BMRT_API bool bmrt_load_bmodel_in_device(void *p_bmrt, void *p_bmodel, uint64_t dev_addr, size_t size);
/* An encrypted file: f gets all its bytes and returns the model's; the runtime frees them. */
BMRT_API bool bmrt_load_bmodel_with_decrypt(void *p_bmrt, const char *bmodel_path, decrypt_func f);
/* Likewise with the function `decrypt` of a shared library, which is loaded for the call. */
BMRT_API bool bmrt_load_bmodel_with_decrypt_lib(void *p_bmrt, const char *bmodel_path, const char *decrypt_lib);
/* Not supported: coefficients that are loaded are sealed. False. */
BMRT_API bool bmrt_update_bmodel_weight_with_decrypt(void *p_bmrt, const char *bmodel_path, const char *update_path,
                                                     const char *net_idx, const char *mem_idx, const char **weight_idx,
                                                     int weight_count, decrypt_func f);
BMRT_API bool bmrt_empty_bmodel_weight_with_decrypt(void *p_bmrt, const char *bmodel_path, const char *net_idx,
                                                    const char *mem_idx, const char **weight_idx, int weight_count,
                                                    decrypt_func f);
/* What the networks of a file need, in bytes; addresses are -1. Of activations, as much as one launch of the largest.
 * Exactly that is enough for bmrt_load_bmodel_with_mem. */
BMRT_API bool bmrt_get_bmodel_info(const char *bmodel_path, mem_info_t *mem_info);
BMRT_API bool bmrt_get_bmodel_data_info(const void *bmodel_data, size_t size, mem_info_t *mem_info);
/* The same from the beginning of a model, for programs that keep models encrypted: of the `size` bytes of the model
 * only its header and the flatbuffer that follows are read and need be there. Says at least as much as the others. */
BMRT_API bool bmrt_get_bmodel_info_from_data(const void *bmodel_data, mem_info_t *mem_info, size_t size);

/* Prints the names of all networks to standard output. */
BMRT_API void bmrt_show_neuron_network(void *p_bmrt);
BMRT_API int bmrt_get_network_number(void *p_bmrt);
/* Array of bmrt_get_network_number() names in the order of loading; free() the array, not the names. NULL on failure.
 */
BMRT_API void bmrt_get_network_names(void *p_bmrt, const char ***network_names);
/* Place of a network in bmrt_get_network_names; -1: no such network. */
BMRT_API int bmrt_get_network_index(void *p_bmrt, const char *net_name);
/* Name of the network at a place; NULL: there is none. Valid until bmrt_destroy. */
BMRT_API const char *bmrt_get_network_name(void *p_bmrt, int index);
/* Number of a network's stages; -1: no such network. */
BMRT_API int bmrt_get_stage_size(void *p_bmrt, const char *net_name);
/* The stage that a launch with these inputs (as many as the network has) would run; -1: none, or no such network. */
BMRT_API int bmrt_get_stage_index(void *p_bmrt, const char *net_name, bm_tensor_t *input_tensors);
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
 * count must be the network's; shapes those of a stage (with one stage, any shape with as many elements); any store
 * mode that the type may have (bm_store_mode_t; 2N and 4N with the batch of the stage); memory at least the tensor's
 * size in that mode. Outputs are 1N. On failure nothing stays allocated.
 *
 * Dynamic networks take other shapes, too, up to those of a stage: in any dimension that the model leaves open, if they
 * have their network in the file, else in the batch (dimension 0). The first launch with new shapes compiles for them.
 *
 * A network of several sub-networks may block inside while the CPU has its turn. Launches of distributed networks, and
 * those with a smaller batch than the stage's of networks that vary in their batch alone, return when they have
 * finished. A job that has failed by then makes the launch return false.
 */
BMRT_API bool bmrt_launch_tensor(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                                 bm_tensor_t output_tensors[], int output_num);
/*
 * user_mem: output_tensors[i].device_mem is memory of the caller, at least the output's size (it may be the memory of
 * an input). user_stmode: output_tensors[i].st_mode says how each output is to be stored; else they are 1N.
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
 * Synchronous, with data in system memory, in the tensors' own types: nothing is converted (bmrt_launch_data_float32
 * does that). user_mem false: output_datas[i] are allocated with malloc, the caller frees
 * them; on failure none is. output_shapes are filled in.
 */
BMRT_API bool bmrt_launch_data(void *p_bmrt, const char *net_name, void *const input_datas[],
                               const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                               bm_shape_t output_shapes[], int output_num, bool user_mem);

/* Likewise on cores as in bmrt_launch_tensor_multi_cores. */
BMRT_API bool bmrt_launch_data_multi_cores(void *p_bmrt, const char *net_name, void *const input_datas[],
                                           const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                           bm_shape_t output_shapes[], int output_num, bool user_mem,
                                           const int *core_list, int core_num);
/* The same as _multi_cores: threads need no number here, each launch has activation memory of its own. */
BMRT_API bool bmrt_launch_tensor_multi_thread(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                              int input_num, bm_tensor_t output_tensors[], int output_num,
                                              uint64_t thread_idx, bool user_mem, bool user_stmode,
                                              const int *core_list, int core_num);
BMRT_API bool bmrt_launch_data_multi_thread(void *p_bmrt, const char *net_name, void *const input_datas[],
                                            const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                            bm_shape_t output_shapes[], int output_num, uint64_t thread_idx,
                                            bool user_mem, const int *core_list, int core_num);

/*
 * A launch as data: checks and binds like bmrt_launch_tensor_ex, but sends nothing. Each element i of api_data is for
 * bm_send_api(handle, api_id[i], api_data[i], api_data_subsize[i]), in order, by one thread; it can be sent again and
 * again. input_addr_offset[i] is where the 64-bit device address of input i stands in api_data[0], which a program may
 * change between two sends; likewise outputs. The record has activation memory of its own: sends of one record must
 * not overlap unless one thread makes them. Store modes must be those of the network's own tensors. core_ids: NULL, or
 * as many cores as the network's core_num to run on. Programs may leave that parameter out: older versions of the
 * interface do not have it. NULL on failure. Free it with bmrt_free_api_info before bmrt_destroy.
 */
#ifdef __cplusplus
BMRT_API api_info_c *get_bmodel_api_info_c(void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors,
                                           int input_num, bm_tensor_t *output_tensors, int output_num, bool user_mem,
                                           bool user_stmode, uint32_t *core_ids = NULL);
#else
BMRT_API api_info_c *get_bmodel_api_info_c(void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors,
                                           int input_num, bm_tensor_t *output_tensors, int output_num, bool user_mem,
                                           bool user_stmode, uint32_t *core_ids);
/* C has no default arguments: a call with eight arguments gets NULL as its ninth. */
#define BMRT_FIRST_NINE(a, b, c, d, e, f, g, h, i, ...) (a, b, c, d, e, f, g, h, i)
#define get_bmodel_api_info_c(...) get_bmodel_api_info_c BMRT_FIRST_NINE(__VA_ARGS__, NULL, NULL)
#endif
/* Frees what get_bmodel_api_info_c returned, not the outputs. Jobs that were sent go on. */
BMRT_API void bmrt_free_api_info(api_info_c *api_info);

/* ---- activation memory ---- */

/* Allocates activation memory for one launch of a network's stage, so that its first launch need not. The list of cores
 * is checked like a launch's. */
BMRT_API bool bmrt_pre_alloc_neuron_multi_cores(void *p_bmrt, const char *net_name, int stage_idx, const int *core_list,
                                                int core_num);
/* Likewise for all stages. */
BMRT_API bool bmrt_pre_alloc_mem(void *p_bmrt, const char *net_name);
/* Frees all activation memory of a network that no launch uses. */
BMRT_API bool bmrt_free_pre_alloc_mem(void *p_bmrt, const char *net_name);
/* mem_info->neuron_mem (others are not looked at) is activation memory for the networks that are loaded, like that of
 * bmrt_load_bmodel_with_mem, and in addition to it: one more launch at a time that needs no memory of the runtime's. It
 * has room for the largest of them. Without it there is nothing to do. Threads need no number here. */
BMRT_API bool bmrt_pre_alloc_mem_multi_thread(void *p_bmrt, uint64_t thread_idx, const mem_info_t *mem_info);
/* Not supported: activation memory belongs to launches. 0 and bm_mem_null(). */
BMRT_API int bmrt_get_neuron_number(void *p_bmrt, const char *net_name);
BMRT_API bm_device_mem_t bmrt_get_neuron_memory(void *p_bmrt, const char *net_name, int mem_index, const int *core_list,
                                                int core_num);

/* ---- copies on all devices of a runtime at once ---- */

/* The first tensor_num[0] tensors belong to device 0, the next tensor_num[1] to device 1, and so on; a thread for each
 * device. The size of a copy is the tensor's. */
BMRT_API bool bmrt_memcpy_s2d_parallel(void *p_bmrt, bm_tensor_t tensors[], void *datas[], int tensor_num[],
                                       int device_num);
BMRT_API bool bmrt_memcpy_d2s_parallel(void *p_bmrt, void *datas[], bm_tensor_t tensors[], int tensor_num[],
                                       int device_num);
/* Within each device; sizes and offsets in bytes. */
BMRT_API bool bmrt_memcpy_d2d_byte_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                            bm_tensor_t src_tensors[], size_t src_offsets[], size_t sizes[],
                                            int tensor_num[], int device_num);
/* Elements of an N-dimensional box, from src_offsets to dst_offsets (bytes), with strides in elements. */
BMRT_API bool bmrt_memcpy_d2d_stride_ex_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                                 bm_shape_t dst_strides[], bm_tensor_t src_tensors[],
                                                 size_t src_offsets[], bm_shape_t src_strides[], bm_shape_t shapes[],
                                                 int tensor_num[], int device_num);

/* ---- numbers and elements (beyond the vendor's interface) ---- */

/*
 * What the elements of a tensor stand for. Integers of 8, 16 or 32 bits: an element q for (q - zero_point) * step. A
 * number v becomes v / step, rounded to the nearest integer, halves to the even one, plus zero_point, and saturates;
 * NaN becomes zero_point. That is ONNX's QuantizeLinear and DequantizeLinear, to the bit. Integers without a scale in
 * the model, as indices, have step 1 and zero_point 0. float16 and bfloat16: numbers are rounded once, to nearest even,
 * and beyond the largest one to infinity; step and zero_point mean nothing, as for float32.
 */
typedef struct bmrt_quant_s {
  bm_data_type_t dtype;
  float step; /* of an output its scale in bm_net_info_t, of an input that 1 / input_scales[i] was rounded from */
  int zero_point;
} bmrt_quant_t;

/* Of input or output `index` of a network. False: no such network or tensor. */
BMRT_API bool bmrt_get_input_quant(void *p_bmrt, const char *net_name, int index, bmrt_quant_t *quant);
BMRT_API bool bmrt_get_output_quant(void *p_bmrt, const char *net_name, int index, bmrt_quant_t *quant);
/* `count` numbers to elements and back, in system memory, at any address; the two do not overlap. False: a type of 4
 * bits or an unknown one, a step that is not positive and finite, a zero point that is none of the type's numbers. */
BMRT_API bool bmrt_quantize(const bmrt_quant_t *quant, const float *values, uint64_t count, void *elements);
BMRT_API bool bmrt_dequantize(const bmrt_quant_t *quant, const void *elements, uint64_t count, float *values);
/* bmrt_launch_data, which takes and gives elements of the tensors' own types, with numbers of float32 for all of them.
 * Of indices of 32 bits only those up to 2^24 are float32. */
BMRT_API bool bmrt_launch_data_float32(void *p_bmrt, const char *net_name, const float *const input_datas[],
                                       const bm_shape_t input_shapes[], int input_num, float *output_datas[],
                                       bm_shape_t output_shapes[], int output_num, bool user_mem);

/* ---- beyond the vendor's interface ---- */

/* Why the calling thread's last failing bmrt_ function failed; "" if none has. Valid until its next failing call. */
BMRT_API const char *bmrt_last_error(void);
/* Gets each failure's text, in the failing thread, before the function returns. It may not call bmrt_ functions. */
typedef void (*bmrt_error_fn)(void *arg, const char *text);
/* Every failing bmrt_ function of the process calls fn; NULL: none. */
BMRT_API void bmrt_set_error_callback(bmrt_error_fn fn, void *arg);
/*
 * Modelled cycles of the calling thread's last launch on this runtime. False while it is unfinished, when there is
 * none, or when its job failed: then bmrt_last_error() says which command failed and names the tensor that it touched.
 */
BMRT_API bool bmrt_last_launch_cycles(void *p_bmrt, uint64_t *cycles);
/* Upper bound of the launches of one stage of a network that have activation memory of their own at the same time;
 * default 16. A launch beyond waits for the oldest. */
BMRT_API bool bmrt_set_max_launches(void *p_bmrt, int count);
/*
 * Loads a shared library with operators of the user's own, computed on the CPU (npu_plugin.h): before the .bmodel files
 * that have such operators are loaded. It is there for all runtimes and stays until the process ends; nothing happens
 * for one that is loaded. The files that NPU_PLUGINS lists, with colons between them, are loaded by themselves.
 */
BMRT_API bool bmrt_load_plugin(const char *path);

#ifdef __cplusplus
}
#endif

#endif /* BMRUNTIME_INTERFACE_H */
