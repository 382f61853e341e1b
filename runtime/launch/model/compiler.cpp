// SPDX-License-Identifier: MIT
#include "runtime/launch/model/compiler.h"

#include <memory>

#include "npu_beside_internal.h"
#include "runtime/cpu/plugin.h"

namespace npurt {

namespace {

struct Library {
  npu_compile_entry entry = nullptr;
  npu_compile_plugin_entry load_plugin = nullptr;
  Status loaded;
};

/// Loaded once, for ever.
const Library &library() {
  static const Library *const loaded = [] {
    auto *l = new Library;
    const std::string path = npu::beside(reinterpret_cast<const void *>(&compile_network), "libnpuc.so");
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      l->loaded = Status::error(std::string("the compiler cannot be loaded: ") + dlerror());
    else if (!(l->entry = reinterpret_cast<npu_compile_entry>(dlsym(handle, NPU_COMPILE_ENTRY))) ||
             !(l->load_plugin = reinterpret_cast<npu_compile_plugin_entry>(dlsym(handle, NPU_COMPILE_PLUGIN_ENTRY))))
      l->loaded = Status::error(path + " belongs to another version of libnpurt");
    return l;
  }();
  return *loaded;
}

}  // namespace

Status compile_network(const npu_compile_request &request, std::vector<uint8_t> &file) {
  const Library &compiler = library();
  NPU_TRY(compiler.loaded);
  for (const std::string &path : npu::cpu::loaded_plugins())
    if (const std::unique_ptr<char, decltype(&std::free)> wrong(compiler.load_plugin(path.c_str()), std::free); wrong)
      return Status::error(wrong.get());
  npu_compile_result result;
  const bool done = compiler.entry(&request, &result);
  const std::unique_ptr<void, decltype(&std::free)> bytes(result.file, std::free);
  const std::unique_ptr<char, decltype(&std::free)> error(result.error, std::free);
  if (!done) return Status::error(error ? error.get() : "the compiler is out of memory");
  const auto *p = static_cast<const uint8_t *>(bytes.get());
  file.assign(p, p + result.file_bytes);
  return {};
}

}  // namespace npurt
