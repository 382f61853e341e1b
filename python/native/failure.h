// SPDX-License-Identifier: MIT
// What goes wrong, as an exception: qnpu.Error in Python.
#ifndef NPU_PYTHON_FAILURE_H
#define NPU_PYTHON_FAILURE_H

#include <stdexcept>

#include "bmruntime_interface.h"
#include "npu.h"

namespace npu::python {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text of the thread's last failure in BMLIB or libnpu; of the runtime.
[[noreturn]] inline void library_failed() { throw Failure(npu_last_error()); }
[[noreturn]] inline void runtime_failed() { throw Failure(bmrt_last_error()); }

inline void check(bm_status_t status) {
  if (status != BM_SUCCESS) library_failed();
}

}  // namespace npu::python

#endif  // NPU_PYTHON_FAILURE_H
