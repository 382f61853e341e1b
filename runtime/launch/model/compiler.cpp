// SPDX-License-Identifier: MIT
#include "runtime/launch/model/compiler.h"

#include <memory>
#include <mutex>

#include "npu_beside_internal.h"
#include "runtime/cpu/plugin.h"

namespace npurt {

namespace {

struct Library {
  npu_compile_entry entry = nullptr;
  npu_compile_plugin_entry adopt_plugin = nullptr;
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
             !(l->adopt_plugin = reinterpret_cast<npu_compile_plugin_entry>(dlsym(handle, NPU_COMPILE_PLUGIN_ENTRY))))
      l->loaded = Status::error(path + " belongs to another version of libnpurt");
    return l;
  }();
  return *loaded;
}

/// Gives the compiler, once, each plug-in of the process that it has not got yet.
Status hand_over_plugins(const Library &compiler) {
  static std::mutex lock;
  static size_t done = 0;  // plug-ins that the compiler has, under lock
  const std::lock_guard hold(lock);
  for (const std::vector<npu::cpu::LoadedPlugin> all = npu::cpu::plugin_libraries(); done < all.size(); ++done) {
    const npu::cpu::LoadedPlugin &p = all[done];
    if (const std::unique_ptr<char, decltype(&std::free)> wrong(compiler.adopt_plugin(p.handle, p.path.c_str()),
                                                                std::free);
        wrong)
      return Status::error(wrong.get());
  }
  return {};
}

}  // namespace

Status compile_network(const npu_compile_request &request, std::vector<uint8_t> &file) {
  const Library &compiler = library();
  NPU_TRY(compiler.loaded);
  NPU_TRY(hand_over_plugins(compiler));
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
