// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_runtime.h"

#include <dlfcn.h>

#include <filesystem>

namespace npu::npuc {
namespace {

namespace fs = std::filesystem;

template <class F>
void find(void *library, const char *name, F &function, std::string &missing) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function && missing.empty()) missing = name;
}

Status load_all(Runtime &r) {
  constexpr char kName[] = "libnpurt.so.1";
  const std::string path = beside_libraries(kName);
  void *const library = dlopen(path.empty() ? kName : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return Status::error("--verify: the runtime cannot be loaded: " + std::string(dlerror()));
  std::string missing;
  find(library, "npu_last_error", r.npu_last_error, missing);
  find(library, "bm_dev_request", r.bm_dev_request, missing);
  find(library, "bm_dev_free", r.bm_dev_free, missing);
  find(library, "bmlib_log_set_level", r.bmlib_log_set_level, missing);
  find(library, "bmrt_create", r.bmrt_create, missing);
  find(library, "bmrt_destroy", r.bmrt_destroy, missing);
  find(library, "bmrt_last_error", r.bmrt_last_error, missing);
  find(library, "bmrt_set_current_log_level", r.bmrt_set_current_log_level, missing);
  find(library, "bmrt_load_plugin", r.bmrt_load_plugin, missing);
  find(library, "bmrt_load_bmodel_data", r.bmrt_load_bmodel_data, missing);
  find(library, "bmrt_get_network_number", r.bmrt_get_network_number, missing);
  find(library, "bmrt_get_network_name", r.bmrt_get_network_name, missing);
  find(library, "bmrt_get_network_info", r.bmrt_get_network_info, missing);
  find(library, "bmrt_get_input_quant", r.bmrt_get_input_quant, missing);
  find(library, "bmrt_get_output_quant", r.bmrt_get_output_quant, missing);
  find(library, "bmrt_quantize", r.bmrt_quantize, missing);
  find(library, "bmrt_dequantize", r.bmrt_dequantize, missing);
  find(library, "bmrt_launch_data", r.bmrt_launch_data, missing);
  return missing.empty() ? Status()
                         : Status::error("--verify: " + (path.empty() ? kName : path) + " has no function " + missing +
                                         ": it belongs to another version");
}

}  // namespace

Status Runtime::load(const Runtime *&out) {
  static Runtime runtime;
  static const Status loaded = load_all(runtime);
  out = &runtime;
  return loaded;
}

std::string beside_libraries(const std::string &name) {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return {};
  for (const char *folder : {"lib", NPU_LIBDIR})
    for (const fs::path &path : {program.parent_path().parent_path() / folder / "qnpu" / name,
                                 program.parent_path().parent_path() / folder / name})
      if (fs::exists(path, failed)) return path.string();
  return {};
}

}  // namespace npu::npuc
