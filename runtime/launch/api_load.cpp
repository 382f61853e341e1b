// SPDX-License-Identifier: MIT
// The C API: ways to load a model, and what it needs.
#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "guard.h"

using npu::bmodel::Container;
using npurt::guarded;
using npurt::Reason;
using npurt::Runtime;

namespace {

using Opened = std::unique_ptr<Container>;

Opened open(const char *path, Reason &why) {
  if (path) return Container::open(path, why);
  why = "null pointer instead of a path";
  return nullptr;
}

Opened open(const void *data, size_t size, Reason &why) {
  if (data) return Container::from_memory(data, size, why);
  why = "null pointer instead of a model";
  return nullptr;
}

bool load(const char *function, void *p_bmrt, const char *path, const mem_info_t *memory = nullptr) {
  return guarded(function, p_bmrt, [&](Runtime &r) {
    Reason why;
    const Opened model = open(path, why);
    return model ? r.load(*model, memory) : why;
  });
}

bool load(const char *function, void *p_bmrt, const void *data, size_t size, const mem_info_t *memory = nullptr) {
  return guarded(function, p_bmrt, [&](Runtime &r) {
    Reason why;
    const Opened model = open(data, size, why);
    return model ? r.load(*model, memory) : why;
  });
}

using Plain = std::unique_ptr<uint8_t, decltype(&std::free)>;

Reason load_decrypted(Runtime &r, const char *path, decrypt_func decrypt) {
  if (!path || !decrypt) return "null pointer instead of a path or a function";
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) return std::string(path) + ": cannot read: " + std::strerror(errno);
  uint64_t size = 0;
  const Plain plain(decrypt(bytes.data(), bytes.size(), &size), std::free);
  if (!plain) return std::string(path) + ": its function did not decrypt it";
  Reason why;
  const Opened model = open(plain.get(), size, why);
  if (model) why = r.load(*model);
  return why.empty() ? why : std::string(path) + ", decrypted: " + why;
}

bool not_supported(const char *function, void *p_bmrt) {
  return guarded(function, p_bmrt, [](Runtime &) -> Reason {
    return "not supported: coefficients are sealed when they are loaded; load the other model instead";
  });
}

Reason describe(const Container &model, mem_info_t *info) {
  if (!info) return "null pointer instead of a place for the information";
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
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Reason {
    if (!decrypt_lib) return "null pointer instead of a library";
    const std::unique_ptr<void, int (*)(void *)> lib(dlopen(decrypt_lib, RTLD_NOW | RTLD_LOCAL),
                                                     [](void *handle) { return handle ? dlclose(handle) : 0; });
    void *const symbol = lib ? dlsym(lib.get(), "decrypt") : nullptr;
    if (!symbol) return dlerror();
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

bool bmrt_get_bmodel_info(const char *bmodel_path, mem_info_t *mem_info) {
  return guarded(__func__, [&] {
    Reason why;
    const Opened model = open(bmodel_path, why);
    return model ? describe(*model, mem_info) : why;
  });
}

bool bmrt_get_bmodel_data_info(const void *bmodel_data, size_t size, mem_info_t *mem_info) {
  return guarded(__func__, [&] {
    Reason why;
    const Opened model = open(bmodel_data, size, why);
    return model ? describe(*model, mem_info) : why;
  });
}
