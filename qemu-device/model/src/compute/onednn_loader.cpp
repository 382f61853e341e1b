// SPDX-License-Identifier: MIT
// Finds and loads the oneDNN back end, which lives in a shared object of its own so that the chip runs without oneDNN.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "qemu-device/model/src/compute/onednn_module.h"

namespace npu::model {
namespace {

// The folder of the library (or program) that holds this code, or "" where the loader does not say.
std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&own_folder), &info) || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Where the module may be: installed below the library, in the build tree beside it, where a variable says.
std::vector<std::string> module_folders() {
  std::vector<std::string> folders;
  if (const std::string own = own_folder(); !own.empty()) folders = {own + "/qnpu", own};
  if (const char *configured = std::getenv("NPU_MODEL_LIBDIR"); configured && *configured)
    folders.push_back(configured);
  return folders;
}

// The module stays loaded for good: threads keep objects of it until they end.
void *open_module(std::string &why) {
  std::string tried;
  for (const std::string &folder : module_folders()) {
    const std::string path = folder + "/" + kOnednnModule;
    if (void *module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return module;
    tried += std::string(tried.empty() ? "" : "; ") + dlerror();
  }
  why = "cannot load " + std::string(kOnednnModule) +
        (tried.empty() ? ": its folder is unknown, set NPU_MODEL_LIBDIR" : ": " + tried);
  return nullptr;
}

}  // namespace

std::unique_ptr<Backend> make_onednn_backend(std::string &why, uint64_t max_packed_bytes) {
  void *module = open_module(why);
  if (!module) return nullptr;
  const auto create = reinterpret_cast<OnednnCreate *>(dlsym(module, kOnednnCreate));
  if (!create) {
    why = std::string(kOnednnModule) + " has no function " + kOnednnCreate;
    return nullptr;
  }
  char reason[256] = "";
  std::unique_ptr<Backend> backend(create(kBackendInterface, max_packed_bytes, reason, sizeof reason));
  if (!backend) why = reason;
  return backend;
}

}  // namespace npu::model
