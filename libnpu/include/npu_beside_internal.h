// SPDX-License-Identifier: MIT
// Where a library looks for another one that it loads: in its own folder. Not installed.
#ifndef NPU_BESIDE_INTERNAL_H
#define NPU_BESIDE_INTERNAL_H

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace npu {

/// The path of `name` in the folder of the library that `address` is in; `name` alone if nobody knows.
inline std::string beside(const void *address, const char *name) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return name;
  // Also where a program found the library by a symbolic link from elsewhere.
  char *const real = realpath(info.dli_fname, nullptr);
  const std::string path = real ? real : info.dli_fname;
  free(real);
  const size_t slash = path.rfind('/');
  return slash == path.npos ? name : path.substr(0, slash + 1) + name;
}

}  // namespace npu

#endif  // NPU_BESIDE_INTERNAL_H
