/* SPDX-License-Identifier: MIT */
/* The shortest way: bmrt_launch_tensor allocates the outputs. usage: launch_tensor MODEL PICTURES INDEX */
#include "sample.h"

int main(int argc, char **argv) {
  CHECK(argc == 4);
  float pixels[PIXELS], probabilities[CLASSES];
  read_picture(argv[2], atol(argv[3]), pixels);

  /* start of the program */
  bm_handle_t bm_handle;
  CHECK(bm_dev_request(&bm_handle, 0) == BM_SUCCESS);
  void *p_bmrt = bmrt_create(bm_handle);
  CHECK(p_bmrt);
  CHECK(bmrt_load_bmodel(p_bmrt, argv[1]));

  /* what is loaded */
  const char **net_names = NULL;
  int net_num = bmrt_get_network_number(p_bmrt);
  bmrt_get_network_names(p_bmrt, &net_names);
  CHECK(net_num > 0 && net_names);
  for (int i = 0; i < net_num; i++) fprintf(stderr, "network: %s\n", net_names[i]);
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, net_names[0]);
  CHECK(info && info->input_num == 1 && info->output_num == 1);

  /* inference */
  bm_tensor_t input_tensors[1], output_tensors[1];
  CHECK(bmrt_tensor(&input_tensors[0], p_bmrt, BM_FLOAT32, info->stages[0].input_shapes[0]));
  CHECK(bm_memcpy_s2d_partial(bm_handle, input_tensors[0].device_mem, (void *)pixels,
                              (unsigned int)bmrt_tensor_bytesize(&input_tensors[0])) == BM_SUCCESS);
  CHECK(bmrt_launch_tensor(p_bmrt, net_names[0], input_tensors, 1, output_tensors, 1));
  CHECK(bm_thread_sync(bm_handle) == BM_SUCCESS);
  CHECK(bm_memcpy_d2s_partial(bm_handle, probabilities, output_tensors[0].device_mem,
                              (unsigned int)bmrt_tensor_bytesize(&output_tensors[0])) == BM_SUCCESS);
  printf("%d\n", best_class(probabilities));

  /* end of the program */
  bm_free_device(bm_handle, output_tensors[0].device_mem);
  bm_free_device(bm_handle, input_tensors[0].device_mem);
  free(net_names);
  bmrt_destroy(p_bmrt);
  bm_dev_free(bm_handle);
  return 0;
}
