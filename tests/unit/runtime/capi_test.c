/* SPDX-License-Identifier: MIT */
/* The C API from C: the headers compile there, and the sequence of the documentation works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* behind them */
#include <cmocka.h>

#include "bmruntime_interface.h"
#include "npu.h"

static const char *model_path;

static void shapes_are_arithmetic(void **state) {
  (void)state;
  const int dims[] = {2, 3, 4};
  bm_shape_t a, b;
  bmrt_shape(&a, dims, 3);
  bmrt_shape(&b, dims, 2);
  assert_int_equal(bmrt_shape_count(&a), 24);
  assert_true(bmrt_shape_is_same(&a, &a));
  assert_false(bmrt_shape_is_same(&a, &b));
  bmrt_shape(&b, dims, 0);
  assert_int_equal(bmrt_shape_count(&b), 1);
  bmrt_shape(&b, dims, 9);
  assert_int_equal(b.num_dims, 0);
  bmrt_shape(&b, dims, -1);
  assert_int_equal(b.num_dims, 0);
}

static void types_have_sizes(void **state) {
  (void)state;
  static const struct {
    bm_data_type_t type;
    size_t bytes;
  } sizes[] = {{BM_FLOAT32, 4}, {BM_FLOAT16, 2}, {BM_INT8, 1},     {BM_UINT8, 1}, {BM_INT16, 2}, {BM_UINT16, 2},
               {BM_INT32, 4},   {BM_UINT32, 4},  {BM_BFLOAT16, 2}, {BM_INT4, 1},  {BM_UINT4, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    assert_int_equal(bmrt_data_type_size(sizes[i].type), sizes[i].bytes);
  assert_int_equal(bmrt_data_type_size((bm_data_type_t)11), 0);
}

static void the_documented_sequence_works(void **state) {
  (void)state;
  bm_handle_t handle;
  assert_int_equal(bm_dev_request(&handle, 0), BM_SUCCESS);
  void *p_bmrt = bmrt_create(handle);
  assert_non_null(p_bmrt);
  if (!bmrt_load_bmodel(p_bmrt, model_path)) fail_msg("%s", bmrt_last_error());
  const char **names = NULL;
  bmrt_get_network_names(p_bmrt, &names);
  assert_non_null(names);
  assert_string_equal(names[0], "plus");
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, names[0]);
  assert_non_null(info);
  float values[8] = {1, 2, 3, 4, 5, 6, 7, 8}, result[8] = {0};
  bm_tensor_t input, output;
  assert_true(bmrt_tensor(&input, p_bmrt, BM_FLOAT32, info->stages[0].input_shapes[0]));
  assert_int_equal(bm_memcpy_s2d_partial(handle, input.device_mem, values, sizeof values), BM_SUCCESS);
  if (!bmrt_launch_tensor(p_bmrt, names[0], &input, 1, &output, 1)) fail_msg("%s", bmrt_last_error());
  assert_int_equal(bm_thread_sync(handle), BM_SUCCESS);
  assert_int_equal(bm_memcpy_d2s_partial(handle, result, output.device_mem, sizeof result), BM_SUCCESS);
  for (int i = 0; i < 8; ++i) assert_true(result[i] == values[i] + 3);
  bm_free_device(handle, input.device_mem);
  bm_free_device(handle, output.device_mem);
  free(names);
  bmrt_destroy(p_bmrt);
  bm_dev_free(handle);
}

static void errors_have_a_text(void **state) {
  (void)state;
  bm_handle_t handle;
  assert_int_equal(bm_dev_request(&handle, 0), BM_SUCCESS);
  void *p_bmrt = bmrt_create(handle);
  assert_non_null(p_bmrt);
  assert_false(bmrt_load_bmodel(p_bmrt, "/nonexistent.bmodel"));
  assert_string_equal(bmrt_last_error(),
                      "bmrt_load_bmodel: /nonexistent.bmodel: cannot open: No such file or directory");
  assert_null(bmrt_get_network_info(p_bmrt, "nothing"));
  assert_string_equal(bmrt_last_error(),
                      "bmrt_get_network_info: no network named 'nothing' is loaded; there are: none");
  bmrt_destroy(p_bmrt);
  bm_dev_free(handle);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: npu_runtime_c_test sample.bmodel (made by bmodel_seeds)\n");
    return 2;
  }
  model_path = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_are_arithmetic),
      cmocka_unit_test(types_have_sizes),
      cmocka_unit_test(the_documented_sequence_works),
      cmocka_unit_test(errors_have_a_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
