/* SPDX-License-Identifier: MIT */
#ifndef BMRUNTIME_LEGACY_H
#define BMRUNTIME_LEGACY_H

/*
 * BMRuntime, the interface before bmruntime_interface.h: for programs that were written for it, or that use a function
 * or two of it beside the new one. New programs need nothing of this.
 *
 * Errors, threads and ownership are those of bmruntime_interface.h; functions that return int return a bm_status_t, or
 * what their comment says. Networks are named by net_name, or, if that is NULL or "", by their number net_idx, their
 * place in bmrt_get_network_names(). Launches return at once, bmrt_thread_sync() waits. Their tensors are arrays of
 * bm_device_mem_t in memory of the caller; output_shapes, if not NULL, gets the shapes of the outputs. A batch larger
 * than the network's largest is refused, not split.
 */

#include "bmruntime_interface.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- runtimes and models ---- */

/* A runtime on the handle that pbm_handle (bm_handle_t *) points to, or, if that is NULL, on device devid with a handle
 * of its own. chip_type has no meaning: models say for which chip they are. */
BMRT_API void *create_bmrt_helper(void *pbm_handle, const char *chip_type, int devid);
/* create_bmruntime(pbm_handle, chip_type) or (pbm_handle, chip_type, devid). */
#define create_bmruntime(pbm_handle, ...) \
  create_bmrt_helper(pbm_handle, BMRT_FIRST_(__VA_ARGS__, 0, 0), BMRT_SECOND_(__VA_ARGS__, 0, 0))
#define create_bmruntime_per_device(pbm_handle, chip_type, devid) create_bmrt_helper(pbm_handle, chip_type, devid)
#define BMRT_FIRST_(first, ...) first
#define BMRT_SECOND_(first, second, ...) second
/* bmrt_destroy() by its old name. */
BMRT_API void destroy_bmruntime(void *p_bmrt);
/* Loads the file compilation.bmodel in a directory. */
BMRT_API bool bmrt_load_context(void *p_bmrt, const char *ctx_dir);

/* ---- questions about a network ---- */

/* Whether launches may have other shapes than the stages (bm_net_info_t.is_dynamic). */
BMRT_API bool bmrt_can_batch_size_change(void *p_bmrt, int net_idx, const char *net_name);
/* Whether they may in other dimensions than the batch, too. */
BMRT_API bool bmrt_can_height_and_width_change(void *p_bmrt, int net_idx, const char *net_name);
/* Number and names; free() the array, not the names. */
BMRT_API bool bmrt_get_input_tensor(void *p_bmrt, int net_idx, const char *net_name, int *input_num,
                                    const char ***input_names);
BMRT_API bool bmrt_get_output_tensor(void *p_bmrt, int net_idx, const char *net_name, int *output_num,
                                     const char ***output_names);
/* A tensor's shape in the stage where it is largest: shape has room for BM_MAX_DIMS_NUM dims. Returns their number; -1:
 * no such tensor. */
BMRT_API int bmrt_get_input_blob_max_shape(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name,
                                           int *shape);
BMRT_API int bmrt_get_output_blob_max_shape(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name,
                                            int *shape);
/* The same as four numbers: dims that there are not are 1, *max_w is the product of the fourth and all after it. For no
 * such tensor all are 0. */
BMRT_API void bmrt_get_input_blob_max_nhw(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name,
                                          int *max_n, int *max_c, int *max_h, int *max_w);
BMRT_API void bmrt_get_output_blob_max_nhw(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name,
                                           int *max_n, int *max_c, int *max_h, int *max_w);
/* A bm_data_type_t; -1: no such tensor. */
BMRT_API int bmrt_get_input_data_type(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name);
BMRT_API int bmrt_get_output_data_type(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name);
/* The bm_store_mode_t that the network's program works on; launches may have others. -1: no such tensor. */
BMRT_API int bmrt_get_input_gmem_stmode(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name);
BMRT_API int bmrt_get_output_gmem_stmode(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name);

/* ---- launching ---- */

/* With the shapes of the first stage. */
BMRT_API bool bmrt_launch(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                          const void *output_tensors, int output_num, bm_shape_t *output_shapes);
/* Every input has four dims: batch, height and width as given, channels as the network's. */
BMRT_API bool bmrt_launch_nhw(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                              const void *output_tensors, int output_num, int n, int h, int w,
                              bm_shape_t *output_shapes);
/* Likewise with store modes (bm_store_mode_t) of the inputs and wishes for the outputs; NULL: 1N. */
BMRT_API bool bmrt_launch_nhw_stmode(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors,
                                     int input_num, const void *output_tensors, int output_num, int n, int h, int w,
                                     int *in_stmode, int *out_stmode, bm_shape_t *output_shapes);
/* Likewise with a height and a width for each input. */
BMRT_API bool bmrt_launch_nhw_stmode_multi_input(void *p_bmrt, int net_idx, const char *net_name,
                                                 const void *input_tensors, int input_num, const void *output_tensors,
                                                 int output_num, int n, int *h, int *w, int *in_stmode, int *out_stmode,
                                                 bm_shape_t *output_shapes);
/* Input i has input_dim[i] dims; input_shape has them of all inputs one after another. */
BMRT_API bool bmrt_launch_shape(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors,
                                int input_num, const int *input_dim, const int *input_shape, const void *output_tensors,
                                int output_num, bm_shape_t *output_shapes);
/* Likewise with store modes as in bmrt_launch_nhw_stmode(). */
BMRT_API bool bmrt_launch_shape_stmode(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors,
                                       int input_num, const int *input_dim, const int *input_shape,
                                       const void *output_tensors, int output_num, int *in_stmode, int *out_stmode,
                                       bm_shape_t *output_shapes);
/* Synchronous, with data in system memory: inputs one after another, of four dims each (in_shape); outputs one after
 * another, each at the place that it has when those before it are as large as they can be. */
BMRT_API bool bmrt_launch_cpu_data(void *p_bmrt, int net_idx, const char *net_name, void *input_tensors, int input_num,
                                   void *output_tensors, int output_num, const int *in_shape, bm_shape_t *out_shapes);
/* bm_thread_sync() on the runtime's handle. */
BMRT_API int bmrt_thread_sync(void *p_bmrt);

/* ---- memory of the runtime's first device, by BMLIB's functions of like names ---- */

/* bm_malloc_neuron_device(), bm_malloc_device_byte(), bm_free_device(). */
BMRT_API int bmrt_malloc_neuron_device(void *p_bmrt, bm_device_mem_t *pmem, int n, int c, int h, int w);
BMRT_API int bmrt_malloc_device_byte(void *p_bmrt, bm_device_mem_t *pmem, unsigned int size);
BMRT_API void bmrt_free_device(void *p_bmrt, bm_device_mem_t mem);
/* Copies of the descriptor's size, of a size, and of a size from an offset in device memory on. */
BMRT_API int bmrt_memcpy_s2d(void *p_bmrt, bm_device_mem_t dst, void *src);
BMRT_API int bmrt_memcpy_s2d_withsize(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size);
BMRT_API int bmrt_memcpy_s2d_withsize_offset(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size,
                                             unsigned int dev_offset);
BMRT_API int bmrt_memcpy_d2s(void *p_bmrt, void *dst, bm_device_mem_t src);
BMRT_API int bmrt_memcpy_d2s_withsize(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size);
BMRT_API int bmrt_memcpy_d2s_withsize_offset(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size,
                                             unsigned int dev_offset);

/* ---- facts ---- */

/* bm_dev_getcount(); p_bmrt may be NULL. */
BMRT_API int bmrt_dev_getcount(void *p_bmrt, int *dev_count);
/* bm_get_last_api_process_time_us(); *time_us stays if there is none. */
BMRT_API void bmrt_get_last_api_process_time_us(void *p_bmrt, uint64_t *time_us);

#ifdef __cplusplus
}
#endif

#endif /* BMRUNTIME_LEGACY_H */
