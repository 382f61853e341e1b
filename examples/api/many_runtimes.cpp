// SPDX-License-Identifier: MIT
// Several threads, each with a runtime of its own that loads the same model; equal coefficients are on the card once
// all the same. usage: many_runtimes MODEL PICTURES INDEX
#include <thread>
#include <vector>

#include "sample.h"

static int infer(bm_handle_t bm_handle, const char *model, float *pixels) {
  void *p_bmrt = bmrt_create(bm_handle);
  CHECK(p_bmrt && bmrt_load_bmodel(p_bmrt, model));
  const char *name = bmrt_get_network_name(p_bmrt, 0);
  const bm_net_info_t *net_info = bmrt_get_network_info(p_bmrt, name);
  CHECK(net_info);
  bm_tensor_t input, output;
  float probabilities[CLASSES];
  CHECK(bmrt_tensor(&input, p_bmrt, BM_FLOAT32, net_info->stages[0].input_shapes[0]));
  CHECK(bm_memcpy_s2d(bm_handle, input.device_mem, pixels) == BM_SUCCESS);
  CHECK(bmrt_launch_tensor(p_bmrt, name, &input, 1, &output, 1));
  CHECK(bm_thread_sync(bm_handle) == BM_SUCCESS);
  CHECK(bm_memcpy_d2s(bm_handle, probabilities, output.device_mem) == BM_SUCCESS);
  bm_free_device(bm_handle, input.device_mem);
  bm_free_device(bm_handle, output.device_mem);
  bmrt_destroy(p_bmrt);
  return best_class(probabilities);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  float pixels[PIXELS];
  read_picture(argv[2], atol(argv[3]), pixels);
  bm_handle_t bm_handle;
  CHECK(bm_dev_request(&bm_handle, 0) == BM_SUCCESS);
  int answers[4];
  std::vector<std::thread> threads;
  for (int &answer : answers) threads.emplace_back([&] { answer = infer(bm_handle, argv[1], pixels); });
  for (std::thread &t : threads) t.join();
  for (const int answer : answers) CHECK(answer == answers[0]);
  printf("%d\n", answers[0]);
  bm_dev_free(bm_handle);
}
