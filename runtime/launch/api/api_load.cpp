// SPDX-License-Identifier: MIT
// The C API: ways to load a model, and what it needs.
#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/cpu/plugin.h"
#include "runtime/launch/api/guard.h"

using npu::bmodel::Container;
using npurt::guarded;
using npurt::Runtime;
using npurt::Status;

namespace {

using Opened = std::unique_ptr<Container>;

Status open(const char *path, Opened &model) {
  return path ? Container::open(path, model) : Status::error("null pointer instead of a path");
}

Status open(const void *data, size_t size, Opened &model) {
  return data ? Container::from_memory(data, size, model) : Status::error("null pointer instead of a model");
}

bool load(const char *function, void *p_bmrt, const char *path, const mem_info_t *memory = nullptr) {
  return guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    Opened model;
    NPU_TRY(open(path, model));
    return r.load(*model, memory);
  });
}

bool load(const char *function, void *p_bmrt, const void *data, size_t size, const mem_info_t *memory = nullptr) {
  return guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    Opened model;
    NPU_TRY(open(data, size, model));
    return r.load(*model, memory);
  });
}

using Plain = std::unique_ptr<uint8_t, decltype(&std::free)>;

Status load_decrypted(Runtime &r, const char *path, decrypt_func decrypt) {
  if (!path || !decrypt) return Status::error("null pointer instead of a path or a function");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Status::error(std::string(path) + ": not a regular file");
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Status::error(std::string(path) + ": cannot read: " + std::strerror(errno));
  uint64_t size = 0;
  const Plain plain(decrypt(bytes.data(), bytes.size(), &size), std::free);
  if (!plain) return Status::error(std::string(path) + ": its function did not decrypt it");
  const std::string where = std::string(path) + ", decrypted";
  Opened model;
  NPU_TRY(open(plain.get(), size, model).within(where));
  return r.load(*model).within(where);
}

bool not_supported(const char *function, void *p_bmrt) {
  return guarded(function, p_bmrt, [](Runtime &) -> Status {
    return Status::error("not supported: coefficients are sealed when they are loaded; load the other model instead");
  });
}

Status describe(const Container &model, mem_info_t *info) {
  if (!info) return Status::error("null pointer instead of a place for the information");
  npurt::describe(npurt::measure(model), *info);
  return {};
}

}  // namespace

bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path) { return load(__func__, p_bmrt, bmodel_path); }

bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size) {
  return load(__func__, p_bmrt, bmodel_data, size);
}

bool bmrt_load_bmodel_with_mem(void *p_bmrt, const char *bmodel_path, mem_info_t *mem_info) {
  return load(__func__, p_bmrt, bmodel_path, mem_info);
}

bool bmrt_load_bmodel_data_with_mem(void *p_bmrt, const void *bmodel_data, size_t size, mem_info_t *mem_info) {
  return load(__func__, p_bmrt, bmodel_data, size, mem_info);
}

bool bmrt_load_bmodel_in_device(void *p_bmrt, void *p_bmodel, uint64_t, size_t size) {
  return load(__func__, p_bmrt, p_bmodel, size);
}

bool bmrt_load_bmodel_with_decrypt(void *p_bmrt, const char *bmodel_path, decrypt_func f) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) { return load_decrypted(r, bmodel_path, f); });
}

bool bmrt_load_bmodel_with_decrypt_lib(void *p_bmrt, const char *bmodel_path, const char *decrypt_lib) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    if (!decrypt_lib) return Status::error("null pointer instead of a library");
    const std::unique_ptr<void, int (*)(void *)> lib(dlopen(decrypt_lib, RTLD_NOW | RTLD_LOCAL),
                                                     [](void *handle) { return handle ? dlclose(handle) : 0; });
    void *const symbol = lib ? dlsym(lib.get(), "decrypt") : nullptr;
    if (!symbol) return Status::error(dlerror());
    return load_decrypted(r, bmodel_path, reinterpret_cast<decrypt_func>(symbol));
  });
}

bool bmrt_update_bmodel_weight_with_decrypt(void *p_bmrt, const char *, const char *, const char *, const char *,
                                            const char **, int, decrypt_func) {
  return not_supported(__func__, p_bmrt);
}

bool bmrt_empty_bmodel_weight_with_decrypt(void *p_bmrt, const char *, const char *, const char *, const char **, int,
                                           decrypt_func) {
  return not_supported(__func__, p_bmrt);
}

bool bmrt_load_plugin(const char *path) {
  return guarded(__func__, [&]() -> Status {
    return path ? npu::cpu::load_plugin(path) : Status::error("null pointer instead of a path");
  });
}

bool bmrt_get_bmodel_info(const char *bmodel_path, mem_info_t *mem_info) {
  return guarded(__func__, [&]() -> Status {
    Opened model;
    NPU_TRY(open(bmodel_path, model));
    return describe(*model, mem_info);
  });
}

bool bmrt_get_bmodel_info_from_data(const void *bmodel_data, mem_info_t *mem_info, size_t size) {
  return guarded(__func__, [&]() -> Status {
    if (!bmodel_data) return Status::error("null pointer instead of a model");
    Opened model;
    NPU_TRY(Container::from_head(bmodel_data, size, model));
    return describe(*model, mem_info);
  });
}

bool bmrt_get_bmodel_data_info(const void *bmodel_data, size_t size, mem_info_t *mem_info) {
  return guarded(__func__, [&]() -> Status {
    Opened model;
    NPU_TRY(open(bmodel_data, size, model));
    return describe(*model, mem_info);
  });
}
