/* SPDX-License-Identifier: MIT */
#ifndef BMLIB_NOT_SUPPORTED_H_
#define BMLIB_NOT_SUPPORTED_H_

/*
 * What programs for the vendor's library may name and this card does not have: processors of the chip that run the
 * user's code, firmware, video and picture units, sensors. Programs compile and link. The functions do nothing, check
 * nothing, log a line, and say so: BM_NOT_SUPPORTED, or what their comment here says where they return something else.
 * Part of bmlib_runtime.h.
 */

#include "bmlib_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types of functions that are not supported ---- */

typedef enum {
  MODULE_CDMA = 0,
  MODULE_GDMA = 1,
  MODULE_TPU = 2,
  MODULE_SMMU = 3,
  MODULE_SRAM = 4,
  MODULE_END = 5
} MODULE_ID;

typedef enum { PERF_MONITOR_GDMA = 0, PERF_MONITOR_TPU = 1 } PERF_MONITOR_ID;

typedef enum { BMCPU_IDLE = 0, BMCPU_RUNNING = 1, BMCPU_FAULT = 2 } bm_cpu_status_t;

typedef struct bm_perf_monitor {
  long long buffer_start_addr __attribute__((aligned(8)));
  int buffer_size;
  PERF_MONITOR_ID monitor_id;
} bm_perf_monitor_t;

#define MD5SUM_LEN 16
#define LIB_MAX_NAME_LEN 64
#define FUNC_MAX_NAME_LEN 64

typedef struct bm_module {
  char lib_name[LIB_MAX_NAME_LEN];
  unsigned char md5[MD5SUM_LEN];
} bm_module;

typedef struct bm_module *tpu_kernel_module_t;
typedef int tpu_kernel_function_t;

typedef struct {
  int core_id;
  tpu_kernel_function_t func_id;
  void *param_data;
  unsigned int param_size;
} tpu_launch_param_t;

typedef struct {
  tpu_launch_param_t *param_list;
  int param_num;
} tpu_launch_async_param_t;

typedef struct bootloader_version {
  char *bl1_version;
  char *bl2_version;
  char *bl31_version;
  char *uboot_version;
  char *chip_version;
} boot_loader_version;

typedef void (*bmlib_api_dbg_callback)(int, int, int, const char *);

#define BMCPU_EXEC_OPT_NO_FLUSH_CACHE 1

/* ---- programs for the chip: tpu_kernel ---- */

/* Loading: NULL. */
BMLIB_API tpu_kernel_module_t tpu_kernel_load_module_file(bm_handle_t handle, const char *module_file);
BMLIB_API tpu_kernel_module_t tpu_kernel_load_module_file_to_core(bm_handle_t handle, const char *module_file,
                                                                  int core_id);
BMLIB_API tpu_kernel_module_t tpu_kernel_load_module_file_key(bm_handle_t handle, const char *module_file,
                                                              const char *key, int size);
BMLIB_API tpu_kernel_module_t tpu_kernel_load_module(bm_handle_t handle, const char *data, size_t length);
BMLIB_API tpu_kernel_module_t tpu_kernel_load_module_to_core(bm_handle_t handle, const char *data, size_t length,
                                                             int core_id);
/* BM_NOT_SUPPORTED. */
BMLIB_API bm_status_t tpu_kernel_unload_module(bm_handle_t handle, tpu_kernel_module_t p_module);
BMLIB_API bm_status_t tpu_kernel_unload_module_from_core(bm_handle_t handle, tpu_kernel_module_t p_module, int core_id);
BMLIB_API bm_status_t tpu_kernel_free_module(bm_handle_t handle, tpu_kernel_module_t p_module);
/* Looking up: -1. */
BMLIB_API tpu_kernel_function_t tpu_kernel_get_function(bm_handle_t handle, tpu_kernel_module_t module,
                                                        const char *function);
BMLIB_API tpu_kernel_function_t tpu_kernel_get_function_from_core(bm_handle_t handle, tpu_kernel_module_t module,
                                                                  const char *function, int core_id);
/* BM_NOT_SUPPORTED. */
BMLIB_API bm_status_t tpu_kernel_launch(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t size);
BMLIB_API bm_status_t tpu_kernel_launch_from_core(bm_handle_t handle, tpu_kernel_function_t function, void *args,
                                                  size_t size, int core_id);
BMLIB_API bm_status_t tpu_kernel_launch_async(bm_handle_t handle, tpu_kernel_function_t function, void *args,
                                              size_t size);
BMLIB_API bm_status_t tpu_kernel_launch_async_from_core(bm_handle_t handle, tpu_kernel_function_t function, void *args,
                                                        size_t size, int core_id);
BMLIB_API bm_status_t tpu_kernel_launch_async_multicores(bm_handle_t handle, tpu_launch_param_t *param_list,
                                                         int param_num);
BMLIB_API bm_status_t tpu_kernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args,
                                             unsigned int size);
BMLIB_API bm_status_t tpu_kernel_sync(bm_handle_t handle);
/* Works, and needs no card: prints 16 bytes in hexadecimal and a newline to standard output. */
BMLIB_API void show_md5(unsigned char md5[]);

/* ---- programs for the chip: firmware and okkernel ---- */

/* BM_NOT_SUPPORTED. */
BMLIB_API bm_status_t bm_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr);
BMLIB_API bm_status_t okkernel_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr);
#define bmkernel_load_firmware okkernel_load_firmware
BMLIB_API bm_status_t okkernel_launch_async(bm_handle_t handle, const char *func_name, const void *args,
                                            unsigned int size);
BMLIB_API bm_status_t okkernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args,
                                           unsigned int size);
BMLIB_API bm_status_t okkernel_sync(bm_handle_t handle);
BMLIB_API bm_status_t bmkernel_launch(bm_handle_t handle, const void *args, unsigned int size);
BMLIB_API bm_status_t bmkernel_load_lookup_table(bm_handle_t handle, const void *table, unsigned int size);
/* Log of the firmware: nothing happens. */
BMLIB_API void bm_set_debug_mode(bm_handle_t handle, int mode);
BMLIB_API void bmlib_set_api_dbg_callback(bmlib_api_dbg_callback callback);

/* ---- processors of the chip: bmcpu ---- */

/* BMCPU_IDLE: none is running. */
BMLIB_API bm_cpu_status_t bmcpu_get_cpu_status(bm_handle_t handle);
/* BM_NOT_SUPPORTED. */
BMLIB_API bm_status_t bmcpu_start_cpu(bm_handle_t handle, char *boot_file, char *core_file);
BMLIB_API bm_status_t bmcpu_reset_cpu(bm_handle_t handle);
BMLIB_API bm_status_t bmcpu_sync_time(bm_handle_t handle);
BMLIB_API bm_status_t bmcpu_set_log(bm_handle_t handle, unsigned int log_level, unsigned int log_to_console,
                                    int timeout);
BMLIB_API bm_status_t bmcpu_get_log(bm_handle_t handle, int process_handle, char *log_file, int timeout);
/* -BM_NOT_SUPPORTED. */
BMLIB_API int bmcpu_open_process(bm_handle_t handle, unsigned int flags, int timeout);
/* BM_NOT_SUPPORTED. */
BMLIB_API bm_status_t bmcpu_close_process(bm_handle_t handle, int process_handle, int timeout);
BMLIB_API bm_status_t bmcpu_load_library(bm_handle_t handle, int process_handle, char *library_file, int timeout);
BMLIB_API bm_status_t bmcpu_unload_library(bm_handle_t handle, int process_handle, char *library_file, int timeout);
BMLIB_API int bmcpu_exec_function(bm_handle_t handle, int process_handle, char *function_name, void *function_param,
                                  unsigned int param_size, int timeout);
BMLIB_API int bmcpu_exec_function_ext(bm_handle_t handle, int process_handle, char *function_name, void *function_param,
                                      unsigned int param_size, unsigned int opt, int timeout);
BMLIB_API bm_status_t bmcpu_exec_function_async(bm_handle_t handle, int process_handle, char *function_name,
                                                void *function_param, unsigned int param_size,
                                                unsigned long long *api_handle);
BMLIB_API bm_status_t bmcpu_exec_function_async_ext(bm_handle_t handle, int process_handle, char *function_name,
                                                    void *function_param, unsigned int param_size, unsigned int opt,
                                                    unsigned long long *api_handle);
BMLIB_API int bmcpu_query_exec_function_result(bm_handle_t handle, unsigned long long api_handle, int timeout);
/* NULL. */
BMLIB_API void *bmcpu_map_phys_addr(bm_handle_t handle, int process_handle, void *phys_addr, unsigned int size,
                                    int timeout);
/* BM_NOT_SUPPORTED. */
BMLIB_API bm_status_t bmcpu_unmap_phys_addr(bm_handle_t handle, int process_handle, void *phys_addr, int timeout);
/* BM_MEM_ADDR_NULL: no memory is set aside for a processor. */
BMLIB_API unsigned long long bm_gmem_arm_reserved_request(bm_handle_t handle);
/* Nothing happens. */
BMLIB_API void bm_gmem_arm_reserved_release(bm_handle_t handle);

/* ---- units and sensors that the card does not have ---- */

/* BM_NOT_SUPPORTED: the chip has no video, JPEG and picture units. */
BMLIB_API bm_status_t bm_get_vpu_instant_usage(bm_handle_t handle, int *vpu_usage);
BMLIB_API bm_status_t bm_get_jpu_core_usage(bm_handle_t handle, int *jpu_usage);
BMLIB_API bm_status_t bm_get_vpp_instant_usage(bm_handle_t handle, int *vpp_usage);
/* BM_NOT_SUPPORTED: the power sensor is the board's, the temperature sensor the chip's; there are no others. */
BMLIB_API bm_status_t bm_get_tpu_current(bm_handle_t handle, unsigned int *tpuc);
BMLIB_API bm_status_t bm_get_tpu_power(bm_handle_t handle, float *tpu_power);
BMLIB_API bm_status_t bm_get_board_max_power(bm_handle_t handle, unsigned int *maxp);
BMLIB_API bm_status_t bm_get_board_temp(bm_handle_t handle, unsigned int *board_temp);
BMLIB_API bm_status_t bm_get_12v_atx(bm_handle_t handle, int *atx_12v);
/* BM_NOT_SUPPORTED: neither card nor product has a serial number. */
BMLIB_API bm_status_t bm_get_sn(bm_handle_t handle, char *sn);
BMLIB_API bm_status_t bm_get_product_sn(char *product_sn);
/* BM_NOT_SUPPORTED: there is no boot loader. */
BMLIB_API bm_status_t bm_get_boot_loader_version(bm_handle_t handle, boot_loader_version *version);
/* BM_NOT_SUPPORTED: the clock is the driver's to choose. */
BMLIB_API bm_status_t bm_set_clk_tpu_freq(bm_handle_t handle, int freq);
BMLIB_API bm_status_t bm_get_dynfreq_status(bm_handle_t handle, int *dynfreq_status);
BMLIB_API bm_status_t bm_change_dynfreq_status(bm_handle_t handle, int new_status);
/* BM_NOT_SUPPORTED: the vendor's record format means nothing here; BMRUNTIME_ENABLE_PROFILE shows what a launch did. */
BMLIB_API bm_status_t bm_enable_perf_monitor(bm_handle_t handle, bm_perf_monitor_t *perf_monitor);
BMLIB_API bm_status_t bm_disable_perf_monitor(bm_handle_t handle, bm_perf_monitor_t *perf_monitor);

#ifdef __cplusplus
}
#endif

#endif /* BMLIB_NOT_SUPPORTED_H_ */
