// SPDX-License-Identifier: MIT
// Where a library looks for a module that it loads. Nobody links with modules, so that they stand in a folder of their
// own beside the library when installed; in the build tree they are beside it. This header is not installed.
#ifndef NPU_BESIDE_INTERNAL_H
#define NPU_BESIDE_INTERNAL_H

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace npu {

/// The path of the module `name` in the folder qnpu beside the library that `address` is in, if it is there; else that
/// of `name` beside the library; `name` alone if nobody knows.
inline std::string beside(const void *address, const char *name) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return name;
  // Also where a program found the library by a symbolic link from elsewhere.
  char *const real = realpath(info.dli_fname, nullptr);
  const std::string path = real ? real : info.dli_fname;
  free(real);
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return name;
  const std::string folder = path.substr(0, slash + 1), own = folder + "qnpu/" + name;
  return access(own.c_str(), F_OK) ? folder + name : own;
}

}  // namespace npu

#endif  // NPU_BESIDE_INTERNAL_H
