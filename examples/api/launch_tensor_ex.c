/* SPDX-License-Identifier: MIT */
/* Memory of the program for inputs and outputs, large enough for every stage. usage: launch_tensor_ex MODEL PICTURES
 * INDEX */
#include "sample.h"

int main(int argc, char **argv) {
  CHECK(argc == 4);
  float pixels[PIXELS], probabilities[CLASSES];
  read_picture(argv[2], atol(argv[3]), pixels);
  bm_handle_t bm_handle;
  CHECK(bm_dev_request(&bm_handle, 0) == BM_SUCCESS);
  void *p_bmrt = bmrt_create(bm_handle);
  CHECK(p_bmrt && bmrt_load_bmodel(p_bmrt, argv[1]));
  const char **net_names = NULL;
  bmrt_get_network_names(p_bmrt, &net_names);
  CHECK(net_names);
  const bm_net_info_t *net_info = bmrt_get_network_info(p_bmrt, net_names[0]);
  CHECK(net_info);

  bm_tensor_t input_tensors[1], output_tensors[1];
  CHECK(bm_malloc_device_byte(bm_handle, &input_tensors[0].device_mem, (unsigned int)net_info->max_input_bytes[0]) ==
        BM_SUCCESS);
  input_tensors[0].dtype = BM_FLOAT32;
  input_tensors[0].st_mode = BM_STORE_1N;
  CHECK(bm_malloc_device_byte(bm_handle, &output_tensors[0].device_mem, (unsigned int)net_info->max_output_bytes[0]) ==
        BM_SUCCESS);

  /* before each inference: the shape, which chooses the stage, and the data */
  input_tensors[0].shape = net_info->stages[0].input_shapes[0];
  CHECK(bm_memcpy_s2d_partial(bm_handle, input_tensors[0].device_mem, (void *)pixels,
                              (unsigned int)bmrt_tensor_bytesize(&input_tensors[0])) == BM_SUCCESS);
  CHECK(bmrt_launch_tensor_ex(p_bmrt, net_names[0], input_tensors, 1, output_tensors, 1, true, false));
  CHECK(bm_thread_sync(bm_handle) == BM_SUCCESS);
  CHECK(bm_memcpy_d2s_partial(bm_handle, probabilities, output_tensors[0].device_mem,
                              (unsigned int)bmrt_tensor_bytesize(&output_tensors[0])) == BM_SUCCESS);
  printf("%d\n", best_class(probabilities));

  bm_free_device(bm_handle, output_tensors[0].device_mem);
  bm_free_device(bm_handle, input_tensors[0].device_mem);
  free(net_names);
  bmrt_destroy(p_bmrt);
  bm_dev_free(bm_handle);
  return 0;
}
