/* SPDX-License-Identifier: MIT */
/* BMLIB: what this card does not have says so, whatever it is given, and writes nothing. */
#include <bmlib_runtime.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/libnpu/bm_fixture.h"

/* The call returns this, and the log has the function's name and the reason. */
#define SAYS(expected, name, ...)                   \
  do {                                              \
    *logged = 0;                                    \
    assert_true(name(__VA_ARGS__) == (expected));   \
    assert_text(logged, #name ": not supported: "); \
  } while (0)
#define NO(name, ...) SAYS(BM_NOT_SUPPORTED, name, __VA_ARGS__)

static void programs_for_the_chip(void **state) {
  char text[] = "x";
  struct bm_module module;
  tpu_launch_param_t param = {0, 0, NULL, 0};

  (void)state;
  SAYS(NULL, tpu_kernel_load_module_file, handle, text);
  SAYS(NULL, tpu_kernel_load_module_file_to_core, handle, text, 0);
  SAYS(NULL, tpu_kernel_load_module_file_key, handle, text, text, 1);
  SAYS(NULL, tpu_kernel_load_module, handle, text, 1);
  SAYS(NULL, tpu_kernel_load_module_to_core, handle, text, 1, 0);
  NO(tpu_kernel_unload_module, handle, &module);
  NO(tpu_kernel_unload_module_from_core, handle, &module, 0);
  NO(tpu_kernel_free_module, handle, &module);
  SAYS(-1, tpu_kernel_get_function, handle, &module, text);
  SAYS(-1, tpu_kernel_get_function_from_core, handle, &module, text, 0);
  NO(tpu_kernel_launch, handle, 0, NULL, 0);
  NO(tpu_kernel_launch_from_core, handle, 0, NULL, 0, 0);
  NO(tpu_kernel_launch_async, handle, 0, NULL, 0);
  NO(tpu_kernel_launch_async_from_core, handle, 0, NULL, 0, 0);
  NO(tpu_kernel_launch_async_multicores, handle, &param, 1);
  NO(tpu_kernel_launch_sync, handle, text, NULL, 0);
  NO(tpu_kernel_sync, handle);
  NO(bm_load_firmware, handle, text, text);
  NO(okkernel_load_firmware, handle, text, text);
  NO(okkernel_launch_async, handle, text, NULL, 0);
  NO(okkernel_launch_sync, handle, text, NULL, 0);
  NO(okkernel_sync, handle);
  NO(bmkernel_launch, handle, NULL, 0);
  NO(bmkernel_load_lookup_table, handle, NULL, 0);
  *logged = 0;
  bm_set_debug_mode(handle, 1);
  assert_text(logged, "bm_set_debug_mode: not supported");
  bmlib_set_api_dbg_callback(NULL);
  assert_text(logged, "bmlib_set_api_dbg_callback: not supported");
}

static void processors_of_the_card(void **state) {
  char text[] = "x";
  unsigned long long api = 77;

  (void)state;
  SAYS(BMCPU_IDLE, bmcpu_get_cpu_status, handle);
  NO(bmcpu_start_cpu, handle, text, text);
  NO(bmcpu_reset_cpu, handle);
  NO(bmcpu_sync_time, handle);
  NO(bmcpu_set_log, handle, 0, 0, 0);
  NO(bmcpu_get_log, handle, 0, text, 0);
  SAYS(-(int)BM_NOT_SUPPORTED, bmcpu_open_process, handle, 0, 0);
  NO(bmcpu_close_process, handle, 0, 0);
  NO(bmcpu_load_library, handle, 0, text, 0);
  NO(bmcpu_unload_library, handle, 0, text, 0);
  NO(bmcpu_exec_function, handle, 0, text, NULL, 0, 0);
  NO(bmcpu_exec_function_ext, handle, 0, text, NULL, 0, BMCPU_EXEC_OPT_NO_FLUSH_CACHE, 0);
  NO(bmcpu_exec_function_async, handle, 0, text, NULL, 0, &api);
  NO(bmcpu_exec_function_async_ext, handle, 0, text, NULL, 0, 0, &api);
  NO(bmcpu_query_exec_function_result, handle, 0, 0);
  SAYS(NULL, bmcpu_map_phys_addr, handle, 0, NULL, 0, 0);
  NO(bmcpu_unmap_phys_addr, handle, 0, NULL, 0);
  SAYS(BM_MEM_ADDR_NULL, bm_gmem_arm_reserved_request, handle);
  bm_gmem_arm_reserved_release(handle);
  assert_text(logged, "bm_gmem_arm_reserved_release: not supported");
  assert_int_equal(api, 77);
}

static void units_sensors_and_numbers(void **state) {
  int i = 77;
  unsigned int u = 77;
  float f = 77;
  char text[8] = "77";
  boot_loader_version version;
  bm_perf_monitor_t monitor;

  (void)state;
  NO(bm_get_vpu_instant_usage, handle, &i);
  NO(bm_get_jpu_core_usage, handle, &i);
  NO(bm_get_vpp_instant_usage, handle, &i);
  NO(bm_get_tpu_current, handle, &u);
  NO(bm_get_tpu_power, handle, &f);
  NO(bm_get_board_max_power, handle, &u);
  NO(bm_get_board_temp, handle, &u);
  NO(bm_get_12v_atx, handle, &i);
  NO(bm_get_sn, handle, text);
  NO(bm_get_product_sn, text);
  NO(bm_get_boot_loader_version, handle, &version);
  NO(bm_set_clk_tpu_freq, handle, 500);
  NO(bm_get_dynfreq_status, handle, &i);
  NO(bm_change_dynfreq_status, handle, 1);
  NO(bm_enable_perf_monitor, handle, &monitor);
  NO(bm_disable_perf_monitor, handle, &monitor);
  assert_int_equal(i, 77);
  assert_int_equal(u, 77);
  assert_true(f == 77);
  assert_string_equal(text, "77");
}

int bm_not_supported_tests(void) {
#define BM_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      BM_TEST(programs_for_the_chip),
      BM_TEST(processors_of_the_card),
      BM_TEST(units_sensors_and_numbers),
  };
  return cmocka_run_group_tests_name("bm_not_supported", tests, NULL, NULL);
}
