// SPDX-License-Identifier: MIT
// The runtime, which npuc loads for a comparison alone: it compiles where there is none.
#ifndef NPU_NPUC_VERIFY_RUNTIME_H
#define NPU_NPUC_VERIFY_RUNTIME_H

#include <string>

#include "bmlib_runtime.h"
#include "bmruntime_interface.h"
#include "bmruntime_log.h"
#include "common/status.h"

namespace npu::npuc {

/// Functions of libnpurt and of the libraries below it.
struct Runtime {
  const char *(*npu_last_error)() = nullptr;  // npu.h
  decltype(&::bm_dev_request) bm_dev_request = nullptr;
  decltype(&::bm_dev_free) bm_dev_free = nullptr;
  decltype(&::bmlib_log_set_level) bmlib_log_set_level = nullptr;
  decltype(&::bmrt_create) bmrt_create = nullptr;
  decltype(&::bmrt_destroy) bmrt_destroy = nullptr;
  decltype(&::bmrt_last_error) bmrt_last_error = nullptr;
  decltype(&::bmrt_set_current_log_level) bmrt_set_current_log_level = nullptr;
  decltype(&::bmrt_load_plugin) bmrt_load_plugin = nullptr;
  decltype(&::bmrt_load_bmodel_data) bmrt_load_bmodel_data = nullptr;
  decltype(&::bmrt_get_network_number) bmrt_get_network_number = nullptr;
  decltype(&::bmrt_get_network_name) bmrt_get_network_name = nullptr;
  decltype(&::bmrt_get_network_info) bmrt_get_network_info = nullptr;
  decltype(&::bmrt_get_input_quant) bmrt_get_input_quant = nullptr;
  decltype(&::bmrt_get_output_quant) bmrt_get_output_quant = nullptr;
  decltype(&::bmrt_quantize) bmrt_quantize = nullptr;
  decltype(&::bmrt_dequantize) bmrt_dequantize = nullptr;
  decltype(&::bmrt_launch_data) bmrt_launch_data = nullptr;

  /// Loads it once, for ever.
  static Status load(const Runtime *&out);
};

/// The path of a file of the libraries' folder, as seen from this program, or of the folder qnpu in it; empty: it is in
/// neither.
std::string beside_libraries(const std::string &name);

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_RUNTIME_H
