/* SPDX-License-Identifier: MIT */
/* Device memory mapped into the program, with the cache calls that go with it. usage: mapped MODEL PICTURES INDEX */
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

  bm_device_mem_t input_mem, output_mem;
  CHECK(bm_malloc_device_byte(bm_handle, &input_mem, sizeof pixels) == BM_SUCCESS);
  CHECK(bm_malloc_device_byte(bm_handle, &output_mem, sizeof probabilities) == BM_SUCCESS);
  unsigned long long address;
  CHECK(bm_mem_mmap_device_mem(bm_handle, &input_mem, &address) == BM_SUCCESS);
  void *input = (void *)(size_t)address;
  CHECK(bm_mem_mmap_device_mem(bm_handle, &output_mem, &address) == BM_SUCCESS);
  void *output = (void *)(size_t)address;

  /* the program writes, the chip is going to read: flush */
  memcpy(input, pixels, sizeof pixels);
  CHECK(bm_mem_flush_device_mem(bm_handle, &input_mem) == BM_SUCCESS);

  bm_tensor_t in, out;
  bmrt_tensor_with_device(&in, input_mem, BM_FLOAT32, net_info->stages[0].input_shapes[0]);
  bmrt_tensor_with_device(&out, output_mem, BM_FLOAT32, net_info->stages[0].output_shapes[0]);
  CHECK(bmrt_launch_tensor_ex(p_bmrt, net_names[0], &in, 1, &out, 1, true, false));
  CHECK(bm_thread_sync(bm_handle) == BM_SUCCESS);

  /* the chip wrote, the program is going to read: invalidate */
  CHECK(bm_mem_invalidate_device_mem(bm_handle, &output_mem) == BM_SUCCESS);
  memcpy(probabilities, output, sizeof probabilities);
  printf("%d\n", best_class(probabilities));

  CHECK(bm_mem_unmap_device_mem(bm_handle, input, sizeof pixels) == BM_SUCCESS);
  CHECK(bm_mem_unmap_device_mem(bm_handle, output, sizeof probabilities) == BM_SUCCESS);
  bm_free_device(bm_handle, input_mem);
  bm_free_device(bm_handle, output_mem);
  free(net_names);
  bmrt_destroy(p_bmrt);
  bm_dev_free(bm_handle);
  return 0;
}
