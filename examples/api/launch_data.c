/* SPDX-License-Identifier: MIT */
/* Data in system memory: one call, which waits. usage: launch_data MODEL PICTURES INDEX */
#include "sample.h"

int main(int argc, char **argv) {
  CHECK(argc == 4);
  float pixels[PIXELS];
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

  void *inputs[1] = {pixels}, *outputs[1];
  bm_shape_t output_shapes[1];
  CHECK(bmrt_launch_data(p_bmrt, net_names[0], inputs, net_info->stages[0].input_shapes, 1, outputs, output_shapes, 1,
                         false));
  CHECK(bmrt_shape_count(&output_shapes[0]) == CLASSES);
  printf("%d\n", best_class((const float *)outputs[0]));

  free(outputs[0]); /* user_mem was false: malloc()ed by the runtime */
  free(net_names);
  bmrt_destroy(p_bmrt);
  bm_dev_free(bm_handle);
  return 0;
}
