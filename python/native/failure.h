// SPDX-License-Identifier: MIT
// What goes wrong, as an exception: qnpu.Error in Python.
#ifndef NPU_PYTHON_FAILURE_H
#define NPU_PYTHON_FAILURE_H

#include <cstring>
#include <stdexcept>
#include <string>

#include "bmruntime_interface.h"
#include "npu.h"

namespace npu::python {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A library's text without the names of its C functions in front, which a program in Python has not called.
inline std::string without_functions(const std::string &text) {
  constexpr const char *kNames = "abcdefghijklmnopqrstuvwxyz0123456789_";
  size_t begin = 0;
  for (const char *prefix : {"bmrt_", "bm_", "npu_"})
    if (text.compare(begin, std::strlen(prefix), prefix) == 0)
      if (const size_t end = text.find_first_not_of(kNames, begin); end != text.npos && text.compare(end, 2, ": ") == 0)
        begin = end + 2;
  return text.substr(begin);
}

/// The text of the thread's last failure in BMLIB or libnpu; of the runtime.
[[noreturn]] inline void library_failed() { throw Failure(without_functions(npu_last_error())); }
[[noreturn]] inline void runtime_failed() { throw Failure(without_functions(bmrt_last_error())); }

inline void check(bm_status_t status) {
  if (status != BM_SUCCESS) library_failed();
}

}  // namespace npu::python

#endif  // NPU_PYTHON_FAILURE_H
