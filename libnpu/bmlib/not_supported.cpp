// SPDX-License-Identifier: MIT
// What the vendor's cards have and this one does not.
#include <cerrno>
#include <cstdio>

#include "libnpu/bmlib/handle.h"

using namespace npu::bm;

namespace {

bm_status_t no(const char *where, const char *what) {
  return npu_bm_status(fail(-EOPNOTSUPP, "not supported: %s", what), where);
}

constexpr char kKernels[] = "the chip runs compiled networks, no programs of the user";
constexpr char kFirmware[] = "the card has no firmware to load or to talk to";
constexpr char kProcessor[] = "the card has no processor for programs";
constexpr char kUnit[] = "the chip has no such unit";
constexpr char kSensor[] = "the card has no such sensor";
constexpr char kSerial[] = "it has no serial number";
constexpr char kClock[] = "the clock is the driver's to choose";
constexpr char kReset[] = "the driver resets cores by itself, npu-smi --reset the card";
constexpr char kMonitor[] = "the chip has no monitor that writes the vendor's records";

}  // namespace

// ---- tpu_kernel ----

tpu_kernel_module_t tpu_kernel_load_module_file(bm_handle_t, const char *) {
  no(__func__, kKernels);
  return nullptr;
}
tpu_kernel_module_t tpu_kernel_load_module_file_to_core(bm_handle_t, const char *, int) {
  no(__func__, kKernels);
  return nullptr;
}
tpu_kernel_module_t tpu_kernel_load_module_file_key(bm_handle_t, const char *, const char *, int) {
  no(__func__, kKernels);
  return nullptr;
}
tpu_kernel_module_t tpu_kernel_load_module(bm_handle_t, const char *, size_t) {
  no(__func__, kKernels);
  return nullptr;
}
tpu_kernel_module_t tpu_kernel_load_module_to_core(bm_handle_t, const char *, size_t, int) {
  no(__func__, kKernels);
  return nullptr;
}
bm_status_t tpu_kernel_unload_module(bm_handle_t, tpu_kernel_module_t) { return no(__func__, kKernels); }
bm_status_t tpu_kernel_unload_module_from_core(bm_handle_t, tpu_kernel_module_t, int) { return no(__func__, kKernels); }
bm_status_t tpu_kernel_free_module(bm_handle_t, tpu_kernel_module_t) { return no(__func__, kKernels); }
tpu_kernel_function_t tpu_kernel_get_function(bm_handle_t, tpu_kernel_module_t, const char *) {
  no(__func__, kKernels);
  return -1;
}
tpu_kernel_function_t tpu_kernel_get_function_from_core(bm_handle_t, tpu_kernel_module_t, const char *, int) {
  no(__func__, kKernels);
  return -1;
}
bm_status_t tpu_kernel_launch(bm_handle_t, tpu_kernel_function_t, void *, size_t) { return no(__func__, kKernels); }
bm_status_t tpu_kernel_launch_from_core(bm_handle_t, tpu_kernel_function_t, void *, size_t, int) {
  return no(__func__, kKernels);
}
bm_status_t tpu_kernel_launch_async(bm_handle_t, tpu_kernel_function_t, void *, size_t) {
  return no(__func__, kKernels);
}
bm_status_t tpu_kernel_launch_async_from_core(bm_handle_t, tpu_kernel_function_t, void *, size_t, int) {
  return no(__func__, kKernels);
}
bm_status_t tpu_kernel_launch_async_multicores(bm_handle_t, tpu_launch_param_t *, int) {
  return no(__func__, kKernels);
}
bm_status_t tpu_kernel_launch_sync(bm_handle_t, const char *, const void *, unsigned int) {
  return no(__func__, kKernels);
}
bm_status_t tpu_kernel_sync(bm_handle_t) { return no(__func__, kKernels); }

void show_md5(unsigned char md5[]) {
  for (int i = 0; md5 && i < MD5SUM_LEN; i++) printf("%02x", md5[i]);
  printf("\n");
}

bm_status_t bm_reset_tpu(bm_handle_t) { return no(__func__, kReset); }

// ---- firmware ----

bm_status_t bm_load_firmware(bm_handle_t, const char *, const char *) { return no(__func__, kFirmware); }
bm_status_t okkernel_load_firmware(bm_handle_t, const char *, const char *) { return no(__func__, kFirmware); }
bm_status_t okkernel_launch_async(bm_handle_t, const char *, const void *, unsigned int) {
  return no(__func__, kFirmware);
}
bm_status_t okkernel_launch_sync(bm_handle_t, const char *, const void *, unsigned int) {
  return no(__func__, kFirmware);
}
bm_status_t okkernel_sync(bm_handle_t) { return no(__func__, kFirmware); }
bm_status_t bmkernel_launch(bm_handle_t, const void *, unsigned int) { return no(__func__, kFirmware); }
bm_status_t bmkernel_load_lookup_table(bm_handle_t, const void *, unsigned int) { return no(__func__, kFirmware); }
void bm_set_debug_mode(bm_handle_t, int) { no(__func__, kFirmware); }
void bmlib_set_api_dbg_callback(bmlib_api_dbg_callback) { no(__func__, kFirmware); }

// ---- bmcpu ----

bm_cpu_status_t bmcpu_get_cpu_status(bm_handle_t) {
  no(__func__, kProcessor);
  return BMCPU_IDLE;
}
bm_status_t bmcpu_start_cpu(bm_handle_t, char *, char *) { return no(__func__, kProcessor); }
bm_status_t bmcpu_reset_cpu(bm_handle_t) { return no(__func__, kProcessor); }
bm_status_t bmcpu_sync_time(bm_handle_t) { return no(__func__, kProcessor); }
bm_status_t bmcpu_set_log(bm_handle_t, unsigned int, unsigned int, int) { return no(__func__, kProcessor); }
bm_status_t bmcpu_get_log(bm_handle_t, int, char *, int) { return no(__func__, kProcessor); }
int bmcpu_open_process(bm_handle_t, unsigned int, int) { return -no(__func__, kProcessor); }
bm_status_t bmcpu_close_process(bm_handle_t, int, int) { return no(__func__, kProcessor); }
bm_status_t bmcpu_load_library(bm_handle_t, int, char *, int) { return no(__func__, kProcessor); }
bm_status_t bmcpu_unload_library(bm_handle_t, int, char *, int) { return no(__func__, kProcessor); }
int bmcpu_exec_function(bm_handle_t, int, char *, void *, unsigned int, int) { return no(__func__, kProcessor); }
int bmcpu_exec_function_ext(bm_handle_t, int, char *, void *, unsigned int, unsigned int, int) {
  return no(__func__, kProcessor);
}
bm_status_t bmcpu_exec_function_async(bm_handle_t, int, char *, void *, unsigned int, unsigned long long *) {
  return no(__func__, kProcessor);
}
bm_status_t bmcpu_exec_function_async_ext(bm_handle_t, int, char *, void *, unsigned int, unsigned int,
                                          unsigned long long *) {
  return no(__func__, kProcessor);
}
int bmcpu_query_exec_function_result(bm_handle_t, unsigned long long, int) { return no(__func__, kProcessor); }
void *bmcpu_map_phys_addr(bm_handle_t, int, void *, unsigned int, int) {
  no(__func__, kProcessor);
  return nullptr;
}
bm_status_t bmcpu_unmap_phys_addr(bm_handle_t, int, void *, int) { return no(__func__, kProcessor); }
unsigned long long bm_gmem_arm_reserved_request(bm_handle_t) {
  no(__func__, kProcessor);
  return BM_MEM_ADDR_NULL;
}
void bm_gmem_arm_reserved_release(bm_handle_t) { no(__func__, kProcessor); }

// ---- units, sensors, numbers ----

bm_status_t bm_get_vpu_instant_usage(bm_handle_t, int *) { return no(__func__, kUnit); }
bm_status_t bm_get_jpu_core_usage(bm_handle_t, int *) { return no(__func__, kUnit); }
bm_status_t bm_get_vpp_instant_usage(bm_handle_t, int *) { return no(__func__, kUnit); }
bm_status_t bm_get_tpu_current(bm_handle_t, unsigned int *) { return no(__func__, kSensor); }
bm_status_t bm_get_tpu_power(bm_handle_t, float *) { return no(__func__, kSensor); }
bm_status_t bm_get_board_max_power(bm_handle_t, unsigned int *) { return no(__func__, kSensor); }
bm_status_t bm_get_board_temp(bm_handle_t, unsigned int *) { return no(__func__, kSensor); }
bm_status_t bm_get_12v_atx(bm_handle_t, int *) { return no(__func__, kSensor); }
bm_status_t bm_get_sn(bm_handle_t, char *) { return no(__func__, kSerial); }
bm_status_t bm_get_product_sn(char *) { return no(__func__, kSerial); }
bm_status_t bm_get_boot_loader_version(bm_handle_t, boot_loader_version *) { return no(__func__, kFirmware); }
bm_status_t bm_set_clk_tpu_freq(bm_handle_t, int) { return no(__func__, kClock); }
bm_status_t bm_get_dynfreq_status(bm_handle_t, int *) { return no(__func__, kClock); }
bm_status_t bm_change_dynfreq_status(bm_handle_t, int) { return no(__func__, kClock); }
bm_status_t bm_enable_perf_monitor(bm_handle_t, bm_perf_monitor_t *) { return no(__func__, kMonitor); }
bm_status_t bm_disable_perf_monitor(bm_handle_t, bm_perf_monitor_t *) { return no(__func__, kMonitor); }
