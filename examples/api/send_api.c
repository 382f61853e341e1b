/* SPDX-License-Identifier: MIT */
/* A launch as data: prepared once, sent for several pictures. usage: send_api MODEL PICTURES INDEX */
#include <bmlib_internal.h>

#include "sample.h"

int main(int argc, char **argv) {
  CHECK(argc == 4);
  bm_handle_t bm_handle;
  CHECK(bm_dev_request(&bm_handle, 0) == BM_SUCCESS);
  void *p_bmrt = bmrt_create(bm_handle);
  CHECK(p_bmrt && bmrt_load_bmodel(p_bmrt, argv[1]));
  const char *name = bmrt_get_network_name(p_bmrt, 0);
  const bm_net_info_t *net_info = bmrt_get_network_info(p_bmrt, name);
  CHECK(net_info);
  bm_tensor_t input, output;
  CHECK(bmrt_tensor(&input, p_bmrt, BM_FLOAT32, net_info->stages[0].input_shapes[0]));
  api_info_c *api_info = get_bmodel_api_info_c(p_bmrt, name, &input, 1, &output, 1, false, false);
  CHECK(api_info);

  float pixels[PIXELS], probabilities[CLASSES];
  for (long index = 0; index <= atol(argv[3]); ++index) {
    read_picture(argv[2], index, pixels);
    CHECK(bm_memcpy_s2d(bm_handle, input.device_mem, pixels) == BM_SUCCESS);
    for (size_t i = 0; i < api_info->api_id_size; ++i)
      CHECK(bm_send_api(bm_handle, (int)api_info->api_id[i], api_info->api_data[i],
                        (unsigned int)api_info->api_data_subsize[i]) == BM_SUCCESS);
    CHECK(bm_sync_api(bm_handle) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(bm_handle, probabilities, output.device_mem) == BM_SUCCESS);
  }
  printf("%d\n", best_class(probabilities)); /* of the last one */

  bmrt_free_api_info(api_info);
  bm_free_device(bm_handle, input.device_mem);
  bm_free_device(bm_handle, output.device_mem);
  bmrt_destroy(p_bmrt);
  bm_dev_free(bm_handle);
  return 0;
}
