/* SPDX-License-Identifier: MIT */
/*
 * A program as users of the runtime write them, in the words of C99 and of C++11 alike: it compiles without a warning
 * and links, and names every function. What the calls do is tested elsewhere (tests/unit/runtime).
 */
#include <stdio.h>
#include <stdlib.h>

#include "bmlib_internal.h"
#include "bmruntime_interface.h"
#include "bmruntime_legacy.h"
#include "bmruntime_log.h"

static int infer(void *p_bmrt, const char *name, float *data) {
  bm_handle_t handle = (bm_handle_t)bmrt_get_bm_handle(p_bmrt);
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, name);
  bm_tensor_t input, output;
  api_info_c *api;
  size_t i;

  if (!info || !bmrt_tensor(&input, p_bmrt, info->input_dtypes[0], info->stages[0].input_shapes[0])) return 1;
  if (bm_memcpy_s2d_partial(handle, input.device_mem, data, (unsigned int)bmrt_tensor_bytesize(&input)) != BM_SUCCESS)
    return 1;
  if (!bmrt_launch_tensor_ex(p_bmrt, name, &input, 1, &output, 1, false, false)) return 1;
  if (bm_thread_sync(handle) != BM_SUCCESS) return 1;
  api = get_bmodel_api_info_c(p_bmrt, name, &input, 1, &output, 1, true, false);
  for (i = 0; api && i < api->api_id_size; ++i)
    bm_send_api(handle, (int)api->api_id[i], api->api_data[i], (unsigned int)api->api_data_subsize[i]);
  bmrt_free_api_info(api);
  /* The interface has the last parameter, older programs do not. */
  api = get_bmodel_api_info_c(p_bmrt, name, &input, 1, &output, 1, true, false, NULL);
  bmrt_free_api_info(api);
  api = (get_bmodel_api_info_c)(p_bmrt, name, &input, 1, &output, 1, true, false, NULL);
  bmrt_free_api_info(api);
  bm_free_device(handle, input.device_mem);
  bm_free_device(handle, output.device_mem);
  return 0;
}

typedef void (*function)(void);

static const function functions[] = {
    (function)bmrt_can_batch_size_change,
    (function)bmrt_can_height_and_width_change,
    (function)bmrt_create,
    (function)bmrt_create_ex,
    (function)bmrt_data_type_size,
    (function)bmrt_destroy,
    (function)bmrt_destroy_without_coeff,
    (function)bmrt_dequantize,
    (function)bmrt_dev_getcount,
    (function)bmrt_empty_bmodel_weight_with_decrypt,
    (function)bmrt_free_api_info,
    (function)bmrt_free_device,
    (function)bmrt_free_pre_alloc_mem,
    (function)bmrt_get_bm_handle,
    (function)bmrt_get_bmodel_data_info,
    (function)bmrt_get_bmodel_info,
    (function)bmrt_get_bmodel_info_from_data,
    (function)bmrt_get_current_log_level,
    (function)bmrt_get_flags,
    (function)bmrt_get_input_blob_max_nhw,
    (function)bmrt_get_input_blob_max_shape,
    (function)bmrt_get_input_data_type,
    (function)bmrt_get_input_gmem_stmode,
    (function)bmrt_get_input_quant,
    (function)bmrt_get_input_tensor,
    (function)bmrt_get_last_api_process_time_us,
    (function)bmrt_get_network_index,
    (function)bmrt_get_network_info,
    (function)bmrt_get_network_name,
    (function)bmrt_get_network_names,
    (function)bmrt_get_network_number,
    (function)bmrt_get_neuron_memory,
    (function)bmrt_get_neuron_number,
    (function)bmrt_get_output_blob_max_nhw,
    (function)bmrt_get_output_blob_max_shape,
    (function)bmrt_get_output_data_type,
    (function)bmrt_get_output_gmem_stmode,
    (function)bmrt_get_output_quant,
    (function)bmrt_get_output_tensor,
    (function)bmrt_get_stage_index,
    (function)bmrt_get_stage_size,
    (function)bmrt_last_error,
    (function)bmrt_last_launch_cycles,
    (function)bmrt_launch,
    (function)bmrt_launch_cpu_data,
    (function)bmrt_launch_data,
    (function)bmrt_launch_data_float32,
    (function)bmrt_launch_data_multi_cores,
    (function)bmrt_launch_data_multi_thread,
    (function)bmrt_launch_nhw,
    (function)bmrt_launch_nhw_stmode,
    (function)bmrt_launch_nhw_stmode_multi_input,
    (function)bmrt_launch_shape,
    (function)bmrt_launch_shape_stmode,
    (function)bmrt_launch_tensor,
    (function)bmrt_launch_tensor_ex,
    (function)bmrt_launch_tensor_multi_cores,
    (function)bmrt_launch_tensor_multi_thread,
    (function)bmrt_load_bmodel,
    (function)bmrt_load_bmodel_data,
    (function)bmrt_load_bmodel_data_with_mem,
    (function)bmrt_load_bmodel_in_device,
    (function)bmrt_load_bmodel_with_decrypt,
    (function)bmrt_load_bmodel_with_decrypt_lib,
    (function)bmrt_load_bmodel_with_mem,
    (function)bmrt_load_context,
    (function)bmrt_load_plugin,
    (function)bmrt_malloc_device_byte,
    (function)bmrt_malloc_neuron_device,
    (function)bmrt_memcpy_d2d_byte_parallel,
    (function)bmrt_memcpy_d2d_stride_ex_parallel,
    (function)bmrt_memcpy_d2s,
    (function)bmrt_memcpy_d2s_parallel,
    (function)bmrt_memcpy_d2s_withsize,
    (function)bmrt_memcpy_d2s_withsize_offset,
    (function)bmrt_memcpy_s2d,
    (function)bmrt_memcpy_s2d_parallel,
    (function)bmrt_memcpy_s2d_withsize,
    (function)bmrt_memcpy_s2d_withsize_offset,
    (function)bmrt_pre_alloc_mem,
    (function)bmrt_pre_alloc_mem_multi_thread,
    (function)bmrt_pre_alloc_neuron_multi_cores,
    (function)bmrt_print_network_info,
    (function)bmrt_quantize,
    (function)bmrt_set_current_log_level,
    (function)bmrt_set_error_callback,
    (function)bmrt_set_flags,
    (function)bmrt_set_max_launches,
    (function)bmrt_shape,
    (function)bmrt_shape_count,
    (function)bmrt_shape_is_same,
    (function)bmrt_show_neuron_network,
    (function)bmrt_tensor,
    (function)bmrt_tensor_bytesize,
    (function)bmrt_tensor_device_size,
    (function)bmrt_tensor_ex,
    (function)bmrt_tensor_with_device,
    (function)bmrt_thread_sync,
    (function)bmrt_trace,
    (function)bmrt_update_bmodel_weight_with_decrypt,
    (function)create_bmrt_helper,
    (function)destroy_bmruntime,
    (function)get_bmodel_api_info_c,
};

int main(int argc, char **argv) {
  bm_handle_t handle;
  const char **names = NULL;
  float data[16] = {0};
  void *p_bmrt;
  int number, i, failed = 0;

  if (argc != 2 || bm_dev_request(&handle, 0) != BM_SUCCESS) return 1;
  p_bmrt = bmrt_create(handle);
  if (!bmrt_load_bmodel(p_bmrt, argv[1])) fprintf(stderr, "%s\n", bmrt_last_error());
  number = bmrt_get_network_number(p_bmrt);
  bmrt_get_network_names(p_bmrt, &names);
  for (i = 0; i < number; ++i) failed += infer(p_bmrt, names[i], data);
  free((void *)names);
  printf("%u functions\n", (unsigned int)(sizeof(functions) / sizeof(functions[0])));
  bmrt_destroy(p_bmrt);
  bm_dev_free(handle);
  return failed;
}
